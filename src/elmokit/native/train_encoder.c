/* The character CNN in training: convolutions with the places of their maxima, highways, and their gradients.

   Notation: n words of C characters, each a vector of D numbers; a group of M filters over `width` characters, so that a
   filter has K = width D weights; F filters of all groups. Sums are float32 in every precision: only the products of the
   highways, which are products of infer.c, are rounded. */

#include "factors.h"

/* The chains of R neighboring positions of a word, for the columns q .. q + LANES of each quarter of a panel: keep the
   largest product and its place. */
INLINE void best_rows(int R, int64_t K, int64_t D, const float *word, const float *panel, int32_t place, vec most[4],
                          ints places[4]) {
    vec totals[ROWS][4];
    UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int g = 0; g < 4; ++g) totals[r][g] = (vec){0};
    for (int64_t k = 0; k < K; ++k) {
        vec column[4];
        UNROLL for (int g = 0; g < 4; ++g) column[g] = load(panel + k * PANEL + g * GROUP);
        UNROLL for (int r = 0; r < R; ++r) {
            vec x = splat(word[r * D + k]);
            UNROLL for (int g = 0; g < 4; ++g) totals[r][g] = FMA(x, column[g], totals[r][g]);
        }
    }
    UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int g = 0; g < 4; ++g) { /* NaN stays */
            ints kept = (most[g] >= totals[r][g]) | (most[g] != most[g]);
            most[g] = choose(kept, most[g], totals[r][g]);
            places[g] = (kept & places[g]) | (~kept & (place + r - (ints){0}));
        }
}

/* One group of filters over `words` (n, C, D): out (n, M) = activation(largest product + bias) (1: relu, 0: tanh), and
   the first character of that product in `places`. Rows of out and places are `stride` apart. */
void NAME(train_convolve)(int64_t n, int64_t C, int64_t D, int64_t width, int64_t M, const float *words,
                          const float *panels, const float *bias, float *out, int32_t *places, int64_t stride,
                          int relu) {
    MODES_BEGIN;
    int64_t K = width * D, positions = C - width + 1;
    for (int64_t panel = 0; panel * PANEL < M; ++panel)
        for (int64_t q = 0; q < GROUP; q += LANES)
            for (int64_t word = 0; word < n; ++word) {
                const float *characters = words + word * C * D, *weights = panels + panel * K * PANEL + q;
                vec most[4];
                ints where[4];
                UNROLL for (int g = 0; g < 4; ++g) most[g] = splat(-__builtin_inff()), where[g] = (ints){0};
                int64_t row = 0;
                for (; row + ROWS <= positions; row += ROWS)
                    best_rows(ROWS, K, D, characters + row * D, weights, (int32_t)row, most, where);
                for (; row + 2 <= positions; row += 2)
                    best_rows(2, K, D, characters + row * D, weights, (int32_t)row, most, where);
                for (; row < positions; ++row)
                    best_rows(1, K, D, characters + row * D, weights, (int32_t)row, most, where);
                UNROLL for (int g = 0; g < 4; ++g) {
                    int64_t column = panel * PANEL + g * GROUP + q, lanes = M - column;
                    if (lanes <= 0) continue;
                    vec x = most[g] + load_some(bias + column, lanes);
                    x = relu ? choose(x < (vec){0}, (vec){0}, x) : tanh_of(x);
                    store_some(out + word * stride + column, x, lanes);
                    store_some((float *)places + word * stride + column, (vec)where[g], lanes);
                }
            }
    MODES_END;
}

/* The backward pass of a group. `filters` (M, K) has the weights of a filter in its row. `dout` has the gradient of the
   activated `out`; those of filters (M, K), bias (M,) and words (n, C, D) are added to. Only the characters under the
   maximum receive any. */
void NAME(train_convolve_back)(int64_t n, int64_t C, int64_t D, int64_t width, int64_t M, const float *words,
                               const float *filters, const float *out, const float *dout, const int32_t *places,
                               int64_t stride, float *dfilters, float *dbias, float *dwords, int relu) {
    MODES_BEGIN;
    int64_t K = width * D;
    for (int64_t word = 0; word < n; ++word)
        for (int64_t m = 0; m < M; ++m) {
            float y = out[word * stride + m], d = dout[word * stride + m];
            d = relu ? (y > 0 ? d : 0.0f) : d * (1.0f - y * y);
            if (d == 0.0f) continue;
            dbias[m] += d;
            int64_t begin = (word * C + places[word * stride + m]) * D;
            const float *x = words + begin, *filter = filters + m * K;
            float *dx = dwords + begin, *dfilter = dfilters + m * K;
            for (int64_t k = 0; k < K; k += LANES) {
                int64_t lanes = K - k;
                store_some(dfilter + k, FMA(splat(d), load_some(x + k, lanes), load_some(dfilter + k, lanes)), lanes);
                store_some(dx + k, FMA(splat(d), load_some(filter + k, lanes), load_some(dx + k, lanes)), lanes);
            }
        }
    MODES_END;
}

/* y (n, F) = g relu(t) + (1 - g) x with g = sigmoid(c), from both products `gates` (n, 2F) = t, c of a highway, which
   become relu(t) and g. */
void NAME(train_highway)(int64_t n, int64_t F, float *gates, const float *x, float *y) {
    MODES_BEGIN;
    for (int64_t row = 0; row < n; ++row)
        for (int64_t k = 0; k < F; k += LANES) {
            int64_t lanes = F - k;
            float *t = gates + row * 2 * F + k, *c = t + F;
            vec new = load_some(t, lanes), g = sigmoid(load_some(c, lanes));
            new = choose(new < (vec){0}, (vec){0}, new);
            store_some(t, new, lanes);
            store_some(c, g, lanes);
            store_some(y + row * F + k, FMA(g, new, (splat(1.0f) - g) * load_some(x + row * F + k, lanes)), lanes);
        }
    MODES_END;
}

/* The backward pass: from dy (n, F) to the gradients of t, c in `dgates` (n, 2F), and in `dx` (n, F) to that part of x's
   gradient that does not come through the products. */
void NAME(train_highway_back)(int64_t n, int64_t F, const float *gates, const float *x, const float *dy, float *dgates,
                              float *dx) {
    MODES_BEGIN;
    const vec zero = {0}, one = splat(1.0f);
    for (int64_t row = 0; row < n; ++row)
        for (int64_t k = 0; k < F; k += LANES) {
            int64_t lanes = F - k, place = row * F + k, gate = row * 2 * F + k;
            vec new = load_some(gates + gate, lanes), g = load_some(gates + gate + F, lanes);
            vec from = load_some(dy + place, lanes), old = load_some(x + place, lanes);
            store_some(dgates + gate, choose(new > zero, from * g, zero), lanes);
            store_some(dgates + gate + F, from * (new - old) * g * (one - g), lanes);
            store_some(dx + place, from * (one - g), lanes);
        }
    MODES_END;
}
