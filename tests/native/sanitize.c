/* Calls every function of the native library with buffers of exactly the size that it may use, for many odd sizes.
   tests/native/test_sanitizers.py compiles it with AddressSanitizer and UndefinedBehaviorSanitizer, for each kind. */

#include <stdio.h>
#include <stdlib.h>

#include "infer.c"
#if !defined(INT8) && !defined(TILES)
#include "pack.c"
#include "train.c"
#include "train_encoder.c"
#endif

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

/* Memory for rows of factors, and in int8 for their scales. Tiles read sixteen rows at once. */
static factor *room(int64_t rows, int64_t width) {
    int64_t count = round_up(rows, PER_FACTOR == 1 ? 1 : TILE_ROWS) * num_factors(width) + (OWN_SCALES ? rows : 0);
    factor *found = malloc(count * sizeof(factor));
    const uint32_t filler = OWN_SCALES ? 0x01010101u : 0x3E003D80u;
    for (int64_t k = 0; k < count; ++k) found[k] = PER_FACTOR == 1 ? (factor)draw() : (factor)filler;
    return found;
}

/* A packed matrix of K factors, with small numbers. */
static weight *random_matrix(int64_t K, int64_t panels, int64_t block) {
#if defined(INT8)
    int64_t blocks = (K * PER_FACTOR + block - 1) / block;
    weight *found = malloc(panels * (K * PANEL * COLUMN + blocks * 2 * PANEL * 4)), *to = found;
    for (int64_t panel = 0; panel < panels; ++panel)
        for (int64_t k = 0; k < K; k += block / PER_FACTOR) {
            int64_t count = (K - k < block / PER_FACTOR ? K - k : block / PER_FACTOR) * PANEL * COLUMN;
            memset(to, 0, PANEL * 4);
            for (int64_t n = 0; n < PANEL; ++n) ((float *)to)[PANEL + n] = 0.001f;
            to += 2 * PANEL * 4;
            for (int64_t n = 0; n < count; ++n) to[n] = (weight)(127 * draw());
            to += count;
        }
    return found;
#else
    (void)block;
    weight *found = malloc(K * panels * PANEL * sizeof(weight));
    for (int64_t k = 0; k < K * panels * PANEL; ++k) found[k] = PER_FACTOR == 1 ? (weight)draw() : (weight)0x3E003D80u;
    return found;
#endif
}

static int64_t panels_of(int64_t columns) { return (columns + PANEL - 1) / PANEL; }

static void try_product(int64_t n, int64_t width, int64_t M) {
    int64_t K = num_factors(width), index[64];
    for (int64_t row = 0; row < n; ++row) index[row] = n - 1 - row;
    float *rows = numbers(n * width), *start = numbers(panels_of(M) * PANEL), *out = numbers(n * M);
    weight *panels = random_matrix(K, panels_of(M), BLOCK_GATES);
    factor *scratch = room(n, width);
    if (width > 1) rows[0] = 0, rows[1] = __builtin_nanf(""), rows[n * width - 1] = __builtin_inff();
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
        weight *recurrent = random_matrix(num_factors(dim), width / PANEL, BLOCK_GATES);
        weight *projection = random_matrix(num_factors(H), panels_of(dim), BLOCK_MEMORY);
        factor *memory = room(n * PLANES, H), *scratch = room(n, dim);
        NAME(steps)(3, sizes, H, dim, inputs, places, starts, recurrent, projected ? projection : 0, first_h, first_c, h, c,
                    y, memory, scratch, 3.0f, 3.0f);
        NAME(steps)(3, sizes, H, dim, inputs, 0, 0, recurrent, projected ? projection : 0, first_h, first_c, h, c, y, memory,
                    scratch, __builtin_inff(), __builtin_inff());
        free(inputs), free(first_h), free(first_c), free(h), free(c), free(y);
        free(recurrent), free(projection), free(memory), free(scratch);
    }
}

#if !defined(INT8) && !defined(TILES)
static void try_words(int64_t n, int64_t columns, int64_t dim, int64_t width, int64_t M) {
    int64_t K = width * num_factors(dim);
    float *words = numbers(n * columns * dim), *bias = numbers(panels_of(M) * PANEL), *out = numbers(n * M);
    float *t = numbers(n * M), *c = numbers(n * M);
    weight *panels = random_matrix(K, panels_of(M), 0);
    factor *scratch = room(n * columns, dim);
    for (int relu = 0; relu < 2; ++relu)
        NAME(convolve)(n, columns, dim, width, M, words, panels, bias, out, M, relu, scratch);
    NAME(highway)(n * M, t, c, out);
    free(words), free(bias), free(out), free(t), free(c), free(panels), free(scratch);
}

static void try_cells(int64_t n, int64_t H) {
    float *gates = numbers(n * 4 * H), *c = numbers(n * H), *out = numbers(n * H);
    float *more = numbers(n * H), *grads = numbers(n * 4 * H), *before = numbers(n * H);
    NAME(train_cell)(n, H, gates, c, more, out, 3.0f);
    NAME(train_back)(n, H, gates, before, more, out, c, grads, 3.0f);
    gates[0] = __builtin_nanf(""), gates[1] = __builtin_inff();
    NAME(train_cell)(n, H, gates, c, more, out, __builtin_inff());
    free(gates), free(c), free(out), free(more), free(grads), free(before);
}
#endif

#if !defined(INT8) && !defined(TILES)
static void try_packing(int64_t K, int64_t M) {
    for (int64_t first = 0; first < 3; ++first) {
        int64_t depth = K + first;
        float *matrix = numbers(K * M);
        factor *panels = calloc(panels_of(M) * num_factors(depth) * PANEL, sizeof(factor));
        NAME(pack)(K, M, matrix, M, 1, num_factors(depth), first, panels);
        NAME(pack)(K, M, matrix, 1, K, num_factors(depth), first, panels);
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
#endif

int main(void) {
    int64_t sizes[] = {1, 2, 3, 7, 15, 16, 17, 33, 64, 65};
    for (int a = 0; a < 10; ++a)
        for (int b = 0; b < 10; ++b) {
            try_steps(1 + a % 7, sizes[a], sizes[b]);
            for (int n = 1; n < 14; n += 3) try_product(n, sizes[a], sizes[b]);
#if !defined(INT8) && !defined(TILES)
            try_cells(1 + b % 3, sizes[a]);
            try_words(1 + b % 4, 4 + a, 1 + b % 5, 1 + a % 4, sizes[b]);
            try_training_words(1 + b % 4, 4 + a, 1 + b % 5, 1 + a % 4, sizes[b]);
            try_packing(sizes[a], sizes[b]);
#endif
        }
    try_product(3, 600, 70);
    try_steps(18, 300, 70);
    puts("done");
    return 0;
}
