/* Products, LSTM steps and the character CNN in float32, for embedding.

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
   fill up the last panel are zero, and are never stored. */

#include "vectors.h"

#define PANEL 64
#define GROUP 16 /* columns of a panel that belong together: a gate of 16 cells */

/* ---- products ------------------------------------------------------------------------------------------------- */

/* Continue the chains of R rows and of the columns q .. q + LANES of each group of a panel, over K inputs. */
INLINE void chain(int R, int64_t K, const float *const *rows, const float *panel, vec totals[][4]) {
    for (int64_t k = 0; k < K; ++k) {
        vec column[4];
        UNROLL for (int g = 0; g < 4; ++g) column[g] = load(panel + k * PANEL + g * GROUP);
        UNROLL for (int r = 0; r < R; ++r) {
            vec x = splat(rows[r][k]);
            UNROLL for (int g = 0; g < 4; ++g) totals[r][g] = FMA(x, column[g], totals[r][g]);
        }
    }
}

typedef struct {
    int64_t n, K, M;
    const float *rows;     /* (…, K), each `stride` after the one before */
    const int64_t *index;  /* (n,) which rows; null: in order */
    int64_t stride;
    const float *panels;
    const float *start;    /* (panels, 64) where the chains begin; null: at zero */
    float *out;            /* (n, M), each row `out_stride` after the one before */
    int64_t out_stride;
    float limit;           /* results are clamped to it */
} product_job;

INLINE void product_rows(int R, const product_job *job, int64_t first, int64_t panel, int64_t q) {
    const float *rows[ROWS];
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

/* out (n, M) = rows (n, K) @ matrix, begun at `start` and clamped to `limit`. */
void NAME(product)(int64_t n, int64_t K, int64_t M, const float *rows, const int64_t *index, int64_t stride,
                   const float *panels, const float *start, float *out, int64_t out_stride, float limit) {
    MODES_BEGIN;
    product_job job = {n, K, M, rows, index, stride, panels, start, out, out_stride, limit};
    multiply(&job);
    MODES_END;
}

/* ---- LSTM steps ----------------------------------------------------------------------------------------------- */

typedef struct {
    int64_t H, P;
    const float *recurrent;  /* panels of (P, 4H) */
    const float *inputs;     /* (…, panels, 64) the chains so far: bias and input */
    const int64_t *places;   /* (n,) which rows of inputs; null: in order */
    const float *h;          /* (n, P) */
    float *c, *memory;       /* (n, H) */
    float limit;
} gates_job;

INLINE void gates_rows(int R, const gates_job *job, int64_t first, int64_t panel, int64_t q) {
    const float *rows[ROWS];
    vec totals[ROWS][4];
    int64_t width = (job->H + GROUP - 1) / GROUP * PANEL;
    UNROLL for (int r = 0; r < R; ++r) {
        int64_t place = job->places ? job->places[first + r] : first + r;
        const float *begun = job->inputs + place * width + panel * PANEL + q;
        rows[r] = job->h + (first + r) * job->P;
        UNROLL for (int g = 0; g < 4; ++g) totals[r][g] = load(begun + g * GROUP);
    }
    chain(R, job->P, rows, job->recurrent + panel * job->P * PANEL + q, totals);
    int64_t number = panel * GROUP + q, lanes = job->H - number;
    UNROLL for (int r = 0; r < R; ++r) {
        int64_t place = (first + r) * job->H + number;
        vec c = load_some(job->c + place, lanes);
        vec out = cell(totals[r][0], totals[r][1], totals[r][2], totals[r][3], &c, job->limit);
        store_some(job->c + place, c, lanes);
        store_some(job->memory + place, out, lanes);
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
   updated, `y` (N, P) receives the outputs, and `memory` (B, H) is scratch memory. `projection` has the panels of (H, P),
   or is null; then P equals H. Limits of infinity do not clamp. */
void NAME(steps)(int64_t num_steps, const int64_t *sizes, int64_t H, int64_t P, const float *inputs,
                 const int64_t *places, const uint8_t *starts, const float *recurrent, const float *projection,
                 const float *first_h, const float *first_c, float *h, float *c, float *y, float *memory,
                 float cell_limit, float projection_limit) {
    MODES_BEGIN;
    int64_t token = 0, width = (H + GROUP - 1) / GROUP * PANEL;
    for (int64_t step = 0; step < num_steps; ++step) {
        int64_t n = sizes[step];
        for (int64_t row = 0; starts && row < n; ++row)
            if (starts[token + row]) {
                memcpy(h + row * P, first_h + row * P, P * sizeof(float));
                memcpy(c + row * H, first_c + row * H, H * sizeof(float));
            }
        float *out = y + token * P;
        gates_job gates = {H, P, recurrent, places ? inputs : inputs + token * width, places ? places + token : 0,
                           h, c, projection ? memory : out, cell_limit};
        step_gates(&gates, n);
        if (projection) {
            product_job job = {n, H, P, memory, 0, H, projection, 0, out, P, projection_limit};
            multiply(&job);
        }
        memcpy(h, out, n * P * sizeof(float));
        token += n;
    }
    MODES_END;
}

/* ---- character CNN -------------------------------------------------------------------------------------------- */

INLINE void convolve_rows(int R, int64_t K, int64_t dim, const float *word, const float *panel, vec most[4]) {
    const float *rows[ROWS];
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
   activation (1: relu, 0: tanh). `words` is (n, columns, dim). */
void NAME(convolve)(int64_t n, int64_t columns, int64_t dim, int64_t width, int64_t M, const float *words,
                    const float *panels, const float *bias, float *out, int64_t out_stride, int relu) {
    MODES_BEGIN;
    int64_t K = width * dim, positions = columns - width + 1;
    for (int64_t panel = 0; panel * PANEL < M; ++panel)
        for (int64_t q = 0; q < GROUP; q += LANES)
            for (int64_t word = 0; word < n; ++word) {
                const float *characters = words + word * columns * dim, *weights = panels + panel * K * PANEL + q;
                vec most[4];
                UNROLL for (int g = 0; g < 4; ++g) most[g] = splat(-__builtin_inff());
                int64_t row = 0;
                for (; row + ROWS <= positions; row += ROWS)
                    convolve_rows(ROWS, K, dim, characters + row * dim, weights, most);
                for (; row + 2 <= positions; row += 2) convolve_rows(2, K, dim, characters + row * dim, weights, most);
                for (; row < positions; ++row) convolve_rows(1, K, dim, characters + row * dim, weights, most);
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
