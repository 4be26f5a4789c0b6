/* Products, LSTM steps and the character CNN, for embedding: in float32, and with factors rounded to bfloat16.

   Notation: n rows, K inputs and M outputs of a product, H cells, P width of a layer's output.

   The promise: in float32, every output number is ONE chain of fused multiply-adds, in the order of K,

       total = start;  for k in 0 .. K-1: total = fma(row[k], matrix[k][m], total)

   and everything else is a plain IEEE operation, written out below. Lanes of a vector are different outputs, never
   different k. So a number does not depend on the other rows, on blocks, on threads, or on the width of a vector, and it
   has the same bits on every processor with fused multiply-adds. Rules that keep this true: compile with
   -ffp-contract=off and without -ffast-math; write fused multiply-adds as FMA, and use no reciprocal estimates; no
   horizontal sums. (The baseline kind has no such instruction: it rounds products, and is equal within tolerance only.)

   Layout of a packed matrix: panels of 64 columns, each (K, 64). The panels of a layer's gates hold the input, forget,
   output and candidate columns of 16 cells, so that one call has all four gates of a cell in registers. Columns that
   fill up the last panel are zero, and are never stored.

   In bfloat16 a factor is a pair of numbers for two neighboring k, rounded to nearest; the instruction adds their products
   to a float32 sum. Sums still run in the order of K, so a number depends neither on the batch nor on threads. Below, K
   counts factors. */

#include "vectors.h"

#if defined(KIND_avx512bf16)
enum { PER_FACTOR = 2 };
typedef uint32_t factor;
typedef ints factors; /* one for each lane */
INLINE factors load_factors(const factor *from) { return (ints)_mm512_loadu_si512(from); }
INLINE factors splat_factor(factor x) { return (ints)_mm512_set1_epi32(x); }
INLINE vec multiply_add(factors x, factors column, vec total) {
    return (vec)_mm512_dpbf16_ps((__m512)total, (__m512bh)x, (__m512bh)column);
}

/* The first `lanes` lanes as numbers in bfloat16, and a zero if that is needed to fill a pair. */
INLINE void store_rounded(factor *to, int64_t offset, vec x, int64_t lanes) {
    uint16_t buffer[LANES];
    uint16_t *place = (uint16_t *)to + offset;
    __m256i rounded = (__m256i)_mm512_cvtneps_pbh((__m512)x);
    if (lanes >= LANES) {
        _mm256_storeu_si256((__m256i *)place, rounded);
    } else if (lanes > 0) {
        _mm256_storeu_si256((__m256i *)buffer, rounded);
        memcpy(place, buffer, lanes * sizeof(uint16_t));
        if (lanes % 2) place[lanes] = 0;
    }
}

/* Rows (n, width) as factors in `scratch`. */
static const factor *to_factors(int64_t n, int64_t width, const float *rows, const int64_t *index, int64_t stride,
                                factor *scratch) {
    int64_t size = (width + 1) / 2;
    for (int64_t row = 0; row < n; ++row)
        for (int64_t k = 0; k < width; k += LANES)
            store_rounded(scratch + row * size, k, load_some(rows + (index ? index[row] : row) * stride + k, width - k),
                          width - k);
    return scratch;
}
#else
enum { PER_FACTOR = 1 };
typedef float factor;
typedef vec factors;
INLINE factors load_factors(const factor *from) { return load(from); }
INLINE factors splat_factor(factor x) { return splat(x); }
INLINE vec multiply_add(factors x, factors column, vec total) { return FMA(x, column, total); }
INLINE void store_rounded(factor *to, int64_t offset, vec x, int64_t lanes) { store_some(to + offset, x, lanes); }
#endif

INLINE int64_t num_factors(int64_t width) { return (width + PER_FACTOR - 1) / PER_FACTOR; }

/* ---- products ------------------------------------------------------------------------------------------------- */

/* Continue the chains of R rows and of the columns q .. q + LANES of each group of a panel, over K inputs. */
INLINE void chain(int R, int64_t K, const factor *const *rows, const factor *panel, vec totals[][4]) {
    for (int64_t k = 0; k < K; ++k) {
        factors column[4];
        UNROLL for (int g = 0; g < 4; ++g) column[g] = load_factors(panel + k * PANEL + g * GROUP);
        UNROLL for (int r = 0; r < R; ++r) {
            factors x = splat_factor(rows[r][k]);
            UNROLL for (int g = 0; g < 4; ++g) totals[r][g] = multiply_add(x, column[g], totals[r][g]);
        }
    }
}

typedef struct {
    int64_t n, K, M;
    const factor *rows;    /* (…, K), each `stride` after the one before */
    const int64_t *index;  /* (n,) which rows; null: in order */
    int64_t stride;
    const factor *panels;
    const float *start;    /* (panels, 64) where the chains begin; null: at zero */
    float *out;            /* (n, M), each row `out_stride` after the one before */
    int64_t out_stride;
    float limit;           /* results are clamped to it */
} product_job;

INLINE void product_rows(int R, const product_job *job, int64_t first, int64_t panel, int64_t q) {
    const factor *rows[ROWS];
    vec totals[ROWS][4];
    UNROLL for (int r = 0; r < R; ++r) {
        int64_t row = job->index ? job->index[first + r] : first + r;
        rows[r] = job->rows + row * job->stride;
        UNROLL for (int g = 0; g < 4; ++g)
            totals[r][g] = job->start ? load(job->start + panel * PANEL + g * GROUP + q) : (vec){0};
    }
    chain(R, job->K, rows, job->panels + panel * job->K * PANEL + q, totals);
    UNROLL for (int r = 0; r < R; ++r) {
        float *out = job->out + (first + r) * job->out_stride;
        UNROLL for (int g = 0; g < 4; ++g) {
            int64_t column = panel * PANEL + g * GROUP + q;
            store_some(out + column, clamp(totals[r][g], job->limit), job->M - column);
        }
    }
}

static void multiply(const product_job *job) {
    for (int64_t panel = 0; panel * PANEL < job->M; ++panel)
        for (int64_t q = 0; q < GROUP; q += LANES) {
            int64_t row = 0;
            for (; row + ROWS <= job->n; row += ROWS) product_rows(ROWS, job, row, panel, q);
            for (; row + 2 <= job->n; row += 2) product_rows(2, job, row, panel, q);
            for (; row < job->n; ++row) product_rows(1, job, row, panel, q);
        }
}

/* out (n, M) = rows (n, width) @ matrix, begun at `start` and clamped to `limit`. `scratch` holds the rows as factors. */
void NAME(product)(int64_t n, int64_t width, int64_t M, const float *rows, const int64_t *index, int64_t stride,
                   const factor *panels, const float *start, float *out, int64_t out_stride, float limit,
                   factor *scratch) {
    MODES_BEGIN;
#if defined(KIND_avx512bf16)
    const factor *factors = to_factors(n, width, rows, index, stride, scratch);
    product_job job = {n, num_factors(width), M, factors, 0, num_factors(width), panels, start, out, out_stride, limit};
#else
    (void)scratch;
    product_job job = {n, width, M, rows, index, stride, panels, start, out, out_stride, limit};
#endif
    multiply(&job);
    MODES_END;
}

/* ---- LSTM steps ----------------------------------------------------------------------------------------------- */

typedef struct {
    int64_t H, K;
    const factor *recurrent; /* panels of (K, 4H) */
    const float *inputs;     /* (…, panels, 64) the chains so far: bias and input */
    const int64_t *places;   /* (n,) which rows of inputs; null: in order */
    const factor *h;         /* (n, K) */
    float *c;                /* (n, H) */
    factor *memory;          /* (n, H) as factors, or null */
    float *out;              /* (n, H), or null */
    float limit;
} gates_job;

INLINE void gates_rows(int R, const gates_job *job, int64_t first, int64_t panel, int64_t q) {
    const factor *rows[ROWS];
    vec totals[ROWS][4];
    int64_t width = (job->H + GROUP - 1) / GROUP * PANEL;
    UNROLL for (int r = 0; r < R; ++r) {
        int64_t place = job->places ? job->places[first + r] : first + r;
        const float *begun = job->inputs + place * width + panel * PANEL + q;
        rows[r] = job->h + (first + r) * job->K;
        UNROLL for (int g = 0; g < 4; ++g) totals[r][g] = load(begun + g * GROUP);
    }
    chain(R, job->K, rows, job->recurrent + panel * job->K * PANEL + q, totals);
    int64_t number = panel * GROUP + q, lanes = job->H - number;
    UNROLL for (int r = 0; r < R; ++r) {
        int64_t place = (first + r) * job->H + number;
        vec c = load_some(job->c + place, lanes);
        vec out = cell(totals[r][0], totals[r][1], totals[r][2], totals[r][3], &c, job->limit);
        store_some(job->c + place, c, lanes);
        if (job->memory) store_rounded(job->memory + (first + r) * num_factors(job->H), number, out, lanes);
        if (job->out) store_some(job->out + place, out, lanes);
    }
}

static void step_gates(const gates_job *job, int64_t n) {
    for (int64_t panel = 0; panel * GROUP < job->H; ++panel)
        for (int64_t q = 0; q < GROUP && panel * GROUP + q < job->H; q += LANES) {
            int64_t row = 0;
            for (; row + ROWS <= n; row += ROWS) gates_rows(ROWS, job, row, panel, q);
            for (; row + 2 <= n; row += 2) gates_rows(2, job, row, panel, q);
            for (; row < n; ++row) gates_rows(1, job, row, panel, q);
        }
}

/* Steps of a layer. Tokens are packed as in elmokit/model/packing.py: step s has the rows 0 .. sizes[s] - 1. `inputs`
   has the chains of the gates after bias and input, and `places` says which of them each token uses (null: in order).
   `starts` (or null) marks tokens before which a row returns to `first_h`, `first_c`. `h` (B, P) and `c` (B, H) are
   updated, and `y` (N, P) receives the outputs. `projection` has the panels of (H, P), or is null; then P equals H.
   `memory` (B, H) and `scratch` (B, P) hold factors. Limits of infinity do not clamp. */
void NAME(steps)(int64_t num_steps, const int64_t *sizes, int64_t H, int64_t P, const float *inputs,
                 const int64_t *places, const uint8_t *starts, const factor *recurrent, const factor *projection,
                 const float *first_h, const float *first_c, float *h, float *c, float *y, factor *memory,
                 factor *scratch, float cell_limit, float projection_limit) {
    MODES_BEGIN;
    int64_t token = 0, width = (H + GROUP - 1) / GROUP * PANEL;
    for (int64_t step = 0; step < num_steps; ++step) {
        int64_t n = sizes[step];
        for (int64_t row = 0; starts && row < n; ++row)
            if (starts[token + row]) {
                memcpy(h + row * P, first_h + row * P, P * sizeof(float));
                memcpy(c + row * H, first_c + row * H, H * sizeof(float));
            }
#if defined(KIND_avx512bf16)
        const factor *last = to_factors(n, P, h, 0, P, scratch);
#else
        const factor *last = h;
        (void)scratch;
#endif
        float *out = y + token * P;
        gates_job gates = {H, num_factors(P), recurrent, places ? inputs : inputs + token * width,
                           places ? places + token : 0, last, c, projection ? memory : 0, projection ? 0 : out,
                           cell_limit};
        step_gates(&gates, n);
        if (projection) {
            int64_t K = num_factors(H);
            product_job job = {n, K, P, memory, 0, K, projection, 0, out, P, projection_limit};
            multiply(&job);
        }
        memcpy(h, out, n * P * sizeof(float));
        token += n;
    }
    MODES_END;
}

/* ---- character CNN -------------------------------------------------------------------------------------------- */

INLINE void convolve_rows(int R, int64_t K, int64_t dim, const factor *word, const factor *panel, vec most[4]) {
    const factor *rows[ROWS];
    vec totals[ROWS][4];
    UNROLL for (int r = 0; r < R; ++r) {
        rows[r] = word + r * dim;
        UNROLL for (int g = 0; g < 4; ++g) totals[r][g] = (vec){0};
    }
    chain(R, K, rows, panel, totals);
    UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int g = 0; g < 4; ++g) { /* NaN stays */
            vec x = totals[r][g], old = most[g];
            most[g] = choose((old >= x) | (old != old), old, x);
        }
}

/* One group of filters: out (n, M) = the largest product of any `width` neighboring characters, plus the bias, and the
   activation (1: relu, 0: tanh). `words` is (n, columns, dim), and `scratch` holds it as factors. */
void NAME(convolve)(int64_t n, int64_t columns, int64_t dim, int64_t width, int64_t M, const float *words,
                    const factor *panels, const float *bias, float *out, int64_t out_stride, int relu,
                    factor *scratch) {
    MODES_BEGIN;
#if defined(KIND_avx512bf16)
    const factor *all = to_factors(n * columns, dim, words, 0, dim, scratch);
#else
    const factor *all = words;
    (void)scratch;
#endif
    int64_t size = num_factors(dim), K = width * size, positions = columns - width + 1;
    for (int64_t panel = 0; panel * PANEL < M; ++panel)
        for (int64_t q = 0; q < GROUP; q += LANES)
            for (int64_t word = 0; word < n; ++word) {
                const factor *characters = all + word * columns * size, *weights = panels + panel * K * PANEL + q;
                vec most[4];
                UNROLL for (int g = 0; g < 4; ++g) most[g] = splat(-__builtin_inff());
                int64_t row = 0;
                for (; row + ROWS <= positions; row += ROWS)
                    convolve_rows(ROWS, K, size, characters + row * size, weights, most);
                for (; row + 2 <= positions; row += 2)
                    convolve_rows(2, K, size, characters + row * size, weights, most);
                for (; row < positions; ++row) convolve_rows(1, K, size, characters + row * size, weights, most);
                UNROLL for (int g = 0; g < 4; ++g) {
                    int64_t column = panel * PANEL + g * GROUP + q;
                    vec x = most[g] + load(bias + column);
                    x = relu ? choose(x < (vec){0}, (vec){0}, x) : tanh_of(x);
                    store_some(out + word * out_stride + column, x, M - column);
                }
            }
    MODES_END;
}

/* x (n, M) = g relu(t) + (1 - g) x with g = sigmoid(c), from the products t and c (n, M) of a highway. */
void NAME(highway)(int64_t size, const float *t, const float *c, float *x) {
    MODES_BEGIN;
    for (int64_t k = 0; k < size; k += LANES) {
        vec g = sigmoid(load_some(c + k, size - k)), new = load_some(t + k, size - k), old = load_some(x + k, size - k);
        new = choose(new < (vec){0}, (vec){0}, new);
        store_some(x + k, FMA(g, new, (splat(1.0f) - g) * old), size - k);
    }
    MODES_END;
}
