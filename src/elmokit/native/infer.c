/* Products, LSTM steps and the character CNN, for embedding: in float32, bfloat16 and int8.

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

   factors.h says what bfloat16 and int8 do instead. Their numbers do not depend on the other rows, on blocks or on threads
   either; those of int8 are also the same on every processor with fused multiply-adds. Below, K counts factors. */

#include "factors.h"

/* ---- products ------------------------------------------------------------------------------------------------- */

typedef struct {
    int64_t n, M;
    row_set rows;
    matrix right;
    const float *start; /* (panels, 64) where the chains begin; null: at zero */
    float *out;         /* (n, M), each row `out_stride` after the one before */
    int64_t out_stride;
    float limit;        /* results are clamped to it */
} product_job;

INLINE void product_rows(int R, int planes, const product_job *job, int64_t first, int64_t panel, int64_t q) {
    const factor *rows[ROWS];
    const row_set *from = &job->rows;
    vec totals[ROWS][4];
    UNROLL for (int r = 0; r < R; ++r) {
        int64_t row = from->index ? from->index[first + r] : first + r;
        UNROLL for (int plane = 0; plane < planes; ++plane)
            rows[r * planes + plane] = from->first + (row * planes + plane) * from->stride;
        UNROLL for (int g = 0; g < 4; ++g)
            totals[r][g] = job->start ? load(job->start + panel * PANEL + g * GROUP + q) : (vec){0};
    }
    chain(R, planes, &job->right, panel, q, rows, OWN_SCALES ? from->scales + first : 0, totals);
    UNROLL for (int r = 0; r < R; ++r) {
        float *out = job->out + (first + r) * job->out_stride;
        UNROLL for (int g = 0; g < 4; ++g) {
            int64_t column = panel * PANEL + g * GROUP + q;
            store_some(out + column, clamp(totals[r][g], job->limit), job->M - column);
        }
    }
}

INLINE void multiply(int planes, const product_job *job) {
    for (int64_t panel = 0; panel * PANEL < job->M; ++panel)
        for (int64_t q = 0; q < GROUP; q += LANES) {
#define CALL(R, row) product_rows(R, planes, job, row, panel, q)
            IN_BLOCKS(job->n, ROWS / planes, CALL);
#undef CALL
        }
}

/* out (n, M) = rows (n, width) @ matrix, begun at `start` and clamped to `limit`. `scratch` holds the rows as factors. */
void NAME(product)(int64_t n, int64_t width, int64_t M, const float *rows, const int64_t *index, int64_t stride,
                   const weight *panels, const float *start, float *out, int64_t out_stride, float limit,
                   factor *scratch) {
    MODES_BEGIN;
    TILES_BEGIN;
    product_job job = {n, M, to_factors(n, width, rows, index, stride, scratch),
                       {num_factors(width), BLOCK_GATES, panels}, start, out, out_stride, limit};
    multiply(1, &job);
    TILES_END;
    MODES_END;
}

/* ---- LSTM steps ----------------------------------------------------------------------------------------------- */

typedef struct {
    int64_t H;
    matrix recurrent;
    const float *inputs;     /* (…, panels, 64) the chains so far: bias and input */
    const int64_t *places;   /* (n,) which rows of inputs; null: in order */
    row_set h;               /* (n, P) */
    float *c;                /* (n, H) */
    factor *memory;          /* (n, H) as factors, or null */
    float *out;              /* (n, H), or null */
    float limit;
} gates_job;

INLINE void store_memory(factor *memory, float *scales, int64_t H, int64_t row, int64_t number, vec out) {
    factor *to = memory + row * PLANES * num_factors(H);
#if defined(INT8)
    ints steps = nearest(out * splat(16383.0f)), bad = out != out;
    store_pieces((piece *)to + number, (steps >> 7) + OFFSET);
    store_pieces((piece *)(to + num_factors(H)) + number, steps & 127);
    int32_t any = 0;
    for (int lane = 0; lane < LANES; ++lane) any |= bad[lane] & -(number + lane < H);
    if (any) scales[row] = __builtin_nanf("");
#elif defined(BFLOAT16)
    (void)scales;
    store_rounded(to, number, out, H - number);
#else
    (void)scales;
    store_some(to + number, out, H - number);
#endif
}

INLINE void gates_rows(int R, const gates_job *job, int64_t n, int64_t first, int64_t panel, int64_t q,
                       float *scales) {
    const factor *rows[ROWS];
    vec totals[ROWS][4];
    int64_t width = round_up(job->H, GROUP) * 4;
    UNROLL for (int r = 0; r < R; ++r) {
        int64_t place = job->places ? job->places[first + r] : first + r;
        const float *begun = job->inputs + place * width + panel * PANEL + q;
        rows[r] = job->h.first + (first + r) * job->h.stride;
        UNROLL for (int g = 0; g < 4; ++g) totals[r][g] = load(begun + g * GROUP);
    }
    int64_t number = panel * GROUP + q, lanes = job->H - number;
    for (int64_t row = first + R; row < first + 2 * R && row < n; ++row) { /* what the next call reads, from far away */
        const float *begun = job->inputs + (job->places ? job->places[row] : row) * width + panel * PANEL + q;
        UNROLL for (int g = 0; g < 4; ++g) __builtin_prefetch(begun + g * GROUP);
        __builtin_prefetch(job->c + row * job->H + number, 1);
    }
    chain(R, 1, &job->recurrent, panel, q, rows, OWN_SCALES ? job->h.scales + first : 0, totals);
    _Pragma("GCC unroll 1") for (int r = 0; r < R; ++r) {
        int64_t place = (first + r) * job->H + number;
        vec c = load_some(job->c + place, lanes);
        vec out = cell(totals[r][0], totals[r][1], totals[r][2], totals[r][3], &c, job->limit);
        store_some(job->c + place, c, lanes);
        if (job->memory) store_memory(job->memory, scales, job->H, first + r, number, out);
        if (job->out) store_some(job->out + place, out, lanes);
    }
}

static void step_gates(const gates_job *job, int64_t n, float *scales) {
    for (int64_t panel = 0; panel * GROUP < job->H; ++panel)
        for (int64_t q = 0; q < GROUP && panel * GROUP + q < job->H; q += LANES) {
#define CALL(R, row) gates_rows(R, job, n, row, panel, q, scales)
            IN_BLOCKS(n, ROWS, CALL);
#undef CALL
        }
}

/* Prepares `memory` for n rows, and returns their scales: the same for all, unless a number will not be finite. */
static float *begin_memory(factor *memory, int64_t n, int64_t H) {
#if defined(INT8)
    float *scales = (float *)(memory + round_up(n * PLANES, TILE_ROWS) * num_factors(H));
    for (int64_t row = 0; row < n; ++row) scales[row] = 1.0f / 16383.0f;
    return scales;
#elif defined(BFLOAT16)
    for (int64_t row = 0; row < n; ++row) fill_row(memory + row * num_factors(H), H);
#else
    (void)memory, (void)n, (void)H;
#endif
    return 0;
}

/* Steps of a layer. Tokens are packed as in elmokit/model/packing.py: step s has the rows 0 .. sizes[s] - 1. `inputs`
   has the chains of the gates after bias and input, and `places` says which of them each token uses (null: in order).
   `starts` (or null) marks tokens before which a row returns to `first_h`, `first_c`. `h` (B, P) and `c` (B, H) are
   updated, and `y` (N, P) receives the outputs. `projection` has the panels of (H, P), or is null; then P equals H.
   `memory` (B, H) and `scratch` (B, P) hold factors. Limits of infinity do not clamp. */
void NAME(steps)(int64_t num_steps, const int64_t *sizes, int64_t H, int64_t P, const float *inputs,
                 const int64_t *places, const uint8_t *starts, const weight *recurrent, const weight *projection,
                 const float *first_h, const float *first_c, float *h, float *c, float *y, factor *memory,
                 factor *scratch, float cell_limit, float projection_limit) {
    MODES_BEGIN;
    TILES_BEGIN;
    int64_t token = 0, width = round_up(H, GROUP) * 4;
    for (int64_t step = 0; step < num_steps; ++step) {
        int64_t n = sizes[step];
        for (int64_t row = 0; starts && row < n; ++row)
            if (starts[token + row]) {
                memcpy(h + row * P, first_h + row * P, P * sizeof(float));
                memcpy(c + row * H, first_c + row * H, H * sizeof(float));
            }
        float *out = y + token * P;
        gates_job gates = {H, {num_factors(P), BLOCK_GATES, recurrent}, places ? inputs : inputs + token * width,
                           places ? places + token : 0, to_factors(n, P, h, 0, P, scratch), c, projection ? memory : 0,
                           projection ? 0 : out, cell_limit};
        float *scales = projection ? begin_memory(memory, n, H) : 0;
        step_gates(&gates, n, scales);
        if (projection) {
            row_set rows = {memory, 0, num_factors(H), scales};
            product_job job = {n, P, rows, {num_factors(H), BLOCK_MEMORY, projection}, 0, out, P, projection_limit};
            multiply(PLANES, &job);
        }
        memcpy(h, out, n * P * sizeof(float));
        token += n;
    }
    TILES_END;
    MODES_END;
}

#if !defined(INT8) && !defined(TILES) /* words are computed in float32 there, or by dot products */
/* ---- character CNN -------------------------------------------------------------------------------------------- */

INLINE void convolve_rows(int R, int64_t K, int64_t dim, const factor *word, const weight *panel, vec most[4]) {
    const factor *rows[ROWS];
    vec totals[ROWS][4];
    UNROLL for (int r = 0; r < R; ++r) {
        rows[r] = word + r * dim;
        UNROLL for (int g = 0; g < 4; ++g) totals[r][g] = (vec){0};
    }
    add_products(R, K, rows, panel, totals);
    UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int g = 0; g < 4; ++g) { /* NaN stays */
            vec x = totals[r][g], old = most[g];
            most[g] = choose((old >= x) | (old != old), old, x);
        }
}

/* One group of filters: out (n, M) = the largest product of any `width` neighboring characters, plus the bias, and the
   activation (1: relu, 0: tanh). `words` is (n, columns, dim), and `scratch` holds it as factors. */
void NAME(convolve)(int64_t n, int64_t columns, int64_t dim, int64_t width, int64_t M, const float *words,
                    const weight *panels, const float *bias, float *out, int64_t out_stride, int relu,
                    factor *scratch) {
    MODES_BEGIN;
    const factor *all = to_factors(n * columns, dim, words, 0, dim, scratch).first;
    int64_t size = num_factors(dim), K = width * size, positions = columns - width + 1;
    for (int64_t panel = 0; panel * PANEL < M; ++panel)
        for (int64_t q = 0; q < GROUP; q += LANES)
            for (int64_t word = 0; word < n; ++word) {
                const factor *characters = all + word * columns * size;
                const weight *weights = panels + panel * K * PANEL + q;
                vec most[4];
                UNROLL for (int g = 0; g < 4; ++g) most[g] = splat(-__builtin_inff());
#define CALL(R, row) convolve_rows(R, K, size, characters + (row) * size, weights, most)
                IN_BLOCKS(positions, ROWS, CALL);
#undef CALL
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
#endif
