/* Calls every function of the native library with buffers of exactly the size that it may use, for many odd sizes.
   tests/native/test_sanitizers.py compiles it with AddressSanitizer and UndefinedBehaviorSanitizer, for each kind. */

#include <stdio.h>
#include <stdlib.h>

#include "infer.c"
#include "pack.c"
#include "train.c"
#include "train_encoder.c"

static uint32_t state = 1;

static float draw(void) {
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (1 << 23) - 1.0f;
}

static float *numbers(int64_t count) {
    float *found = malloc((count ? count : 1) * sizeof(float));
    for (int64_t k = 0; k < count; ++k) found[k] = draw();
    return found;
}

/* Small numbers in bfloat16 or float32, whichever the kind uses. */
static factor *random_factors(int64_t count) {
    factor *found = malloc((count ? count : 1) * sizeof(factor));
    for (int64_t k = 0; k < count; ++k) found[k] = PER_FACTOR == 1 ? (factor)draw() : (factor)0x3E003D80u;
    return found;
}

static int64_t panels_of(int64_t columns) { return (columns + PANEL - 1) / PANEL; }

static void try_product(int64_t n, int64_t width, int64_t M) {
    int64_t K = num_factors(width), index[64];
    for (int64_t row = 0; row < n; ++row) index[row] = n - 1 - row;
    float *rows = numbers(n * width), *start = numbers(panels_of(M) * PANEL), *out = numbers(n * M);
    factor *panels = random_factors(panels_of(M) * K * PANEL), *scratch = random_factors(n * K);
    NAME(product)(n, width, M, rows, index, width, panels, start, out, M, 2.0f, scratch);
    NAME(product)(n, width, M, rows, 0, width, panels, 0, out, M, __builtin_inff(), scratch);
    free(rows), free(start), free(out), free(panels), free(scratch);
}

static void try_steps(int64_t n, int64_t H, int64_t P) {
    int64_t sizes[3] = {n, n, n > 1 ? n - 1 : n}, tokens = sizes[0] + sizes[1] + sizes[2];
    int64_t width = (H + GROUP - 1) / GROUP * PANEL, places[200];
    uint8_t starts[200];
    for (int64_t token = 0; token < tokens; ++token) places[token] = token % 2, starts[token] = token % 3 == 0;
    for (int projected = 0; projected < 2; ++projected) {
        int64_t dim = projected ? P : H;
        float *inputs = numbers(tokens * width), *first_h = numbers(n * dim), *first_c = numbers(n * H);
        float *h = numbers(n * dim), *c = numbers(n * H), *y = numbers(tokens * dim);
        factor *recurrent = random_factors(width / PANEL * num_factors(dim) * PANEL);
        factor *projection = random_factors(panels_of(dim) * num_factors(H) * PANEL);
        factor *memory = random_factors(n * num_factors(H)), *scratch = random_factors(n * num_factors(dim));
        NAME(steps)(3, sizes, H, dim, inputs, places, starts, recurrent, projected ? projection : 0, first_h, first_c, h, c,
                    y, memory, scratch, 3.0f, 3.0f);
        NAME(steps)(3, sizes, H, dim, inputs, 0, 0, recurrent, projected ? projection : 0, first_h, first_c, h, c, y, memory,
                    scratch, __builtin_inff(), __builtin_inff());
        free(inputs), free(first_h), free(first_c), free(h), free(c), free(y);
        free(recurrent), free(projection), free(memory), free(scratch);
    }
}

static void try_words(int64_t n, int64_t columns, int64_t dim, int64_t width, int64_t M) {
    int64_t K = width * num_factors(dim);
    float *words = numbers(n * columns * dim), *bias = numbers(panels_of(M) * PANEL), *out = numbers(n * M);
    float *t = numbers(n * M), *c = numbers(n * M);
    factor *panels = random_factors(panels_of(M) * K * PANEL), *scratch = random_factors(n * columns * num_factors(dim));
    for (int relu = 0; relu < 2; ++relu)
        NAME(convolve)(n, columns, dim, width, M, words, panels, bias, out, M, relu, scratch);
    NAME(highway)(n * M, t, c, out);
    free(words), free(bias), free(out), free(t), free(c), free(panels), free(scratch);
}

static void try_cells(int64_t n, int64_t H) {
    float *gates = numbers(n * 4 * H), *inputs = numbers(n * 4 * H), *c = numbers(n * H), *out = numbers(n * H);
    float *more = numbers(n * H), *grads = numbers(n * 4 * H), *before = numbers(n * H);
    NAME(cell)(n, H, gates, inputs, 0, c, out, 3.0f);
    NAME(train_cell)(n, H, gates, c, more, out, 3.0f);
    NAME(train_back)(n, H, gates, before, more, out, c, grads, 3.0f);
    gates[0] = __builtin_nanf(""), gates[1] = __builtin_inff(), inputs[2] = -__builtin_inff();
    NAME(cell)(n, H, gates, inputs, 0, c, out, __builtin_inff());
    free(gates), free(inputs), free(c), free(out), free(more), free(grads), free(before);
}

static void try_packing(int64_t K, int64_t M) {
    for (int64_t first = 0; first < 3; ++first) {
        int64_t depth = K + first;
        float *matrix = numbers(K * M);
        factor *panels = random_factors(panels_of(M) * num_factors(depth) * PANEL);
        NAME(pack)(K, M, matrix, M, 1, depth, first, panels);
        NAME(pack)(K, M, matrix, 1, K, depth, first, panels);
        float *turned = numbers(K * M);
        NAME(transpose)(K, M, matrix, M, turned);
        free(turned);
        free(matrix), free(panels);
    }
}

static void try_training_words(int64_t n, int64_t columns, int64_t dim, int64_t width, int64_t M) {
    int64_t K = width * dim;
    float *words = numbers(n * columns * dim), *panels = numbers(panels_of(M) * K * PANEL), *bias = numbers(M);
    float *out = numbers(n * M), *filters = numbers(M * K), *dout = numbers(n * M), *dfilters = numbers(M * K);
    float *dbias = numbers(M), *dwords = numbers(n * columns * dim), *gates = numbers(2 * n * M), *dgates = numbers(2 * n * M);
    int32_t *places = malloc(n * M * sizeof(int32_t));
    for (int relu = 0; relu < 2; ++relu) {
        NAME(train_convolve)(n, columns, dim, width, M, words, panels, bias, out, places, M, relu);
        NAME(train_convolve_back)(n, columns, dim, width, M, words, filters, out, dout, places, M, dfilters, dbias, dwords,
                                  relu);
    }
    NAME(train_highway)(n, M, gates, out, dout);
    NAME(train_highway_back)(n, M, gates, out, dout, dgates, dout);
    free(words), free(panels), free(bias), free(out), free(filters), free(dout), free(dfilters), free(dbias);
    free(dwords), free(gates), free(dgates), free(places);
}

int main(void) {
    int64_t sizes[] = {1, 2, 3, 7, 15, 16, 17, 33, 64, 65};
    for (int a = 0; a < 10; ++a)
        for (int b = 0; b < 10; ++b) {
            try_steps(1 + a % 7, sizes[a], sizes[b]);
            try_cells(1 + b % 3, sizes[a]);
            for (int n = 1; n < 14; n += 3) try_product(n, sizes[a], sizes[b]);
            try_words(1 + b % 4, 4 + a, 1 + b % 5, 1 + a % 4, sizes[b]);
            try_packing(sizes[a], sizes[b]);
            try_training_words(1 + b % 4, 4 + a, 1 + b % 5, 1 + a % 4, sizes[b]);
        }
    puts("done");
    return 0;
}
