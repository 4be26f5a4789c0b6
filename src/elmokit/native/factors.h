/* What the products of infer.c multiply, and how their sums continue, for each kind of processor and precision.

   A factor is what a row holds for one step of a sum, and what a panel holds in each column:

       float32     one number
       bfloat16    a pair of numbers, rounded to nearest
       int8        four bytes (VNNI, tiles) or a pair of 16-bit numbers (all others, because the 8-bit instruction of AVX2
                   saturates); panels always hold bytes

   In int8 a column of a panel has a scale for each block of inputs, and a row has one scale. Sums of a block are exact
   integers, which makes them the same on all processors; then they are added to a float32 sum in the order of blocks.
   Rows are rounded to 127 steps on either side of zero, bytes of rows are stored with an offset of 128, and
   what that adds to a sum is taken off by the correction of the column. The outputs of cells are between -1 and 1. They
   are rounded to 16383 steps and stored as two rows: high, and the low 7 bits. */

#pragma once

#include "vectors.h"

#define PANEL 64
#define GROUP 16 /* columns of a panel that belong together: a gate of 16 cells */
#define TILE_ROWS 16

INLINE int64_t round_up(int64_t size, int64_t to) { return (size + to - 1) / to * to; }

/* ---- factors -------------------------------------------------------------------------------------------------- */

#if defined(INT8)
enum { PLANES = 2, BLOCK_GATES = 512, BLOCK_MEMORY = 128, OWN_SCALES = 1 };
#if defined(INT8_BYTES)
enum { PER_FACTOR = 4, OFFSET = 128 };
typedef uint8_t piece; /* one number of a row */
#else
enum { PER_FACTOR = 2, OFFSET = 0 };
typedef int16_t piece;
#endif
typedef uint32_t factor;
typedef int8_t weight; /* PER_FACTOR of them in each column for a factor */
enum { COLUMN = PER_FACTOR };
INLINE int64_t num_factors(int64_t width) { return round_up(width, 64) / PER_FACTOR; }
#elif defined(BFLOAT16)
enum { PLANES = 1, BLOCK_GATES = 0, BLOCK_MEMORY = 0, OWN_SCALES = 0, PER_FACTOR = 2, COLUMN = 1 };
typedef uint32_t factor;
typedef uint32_t weight;
#if defined(TILES)
INLINE int64_t num_factors(int64_t width) { return round_up(width, 32) / 2; }
#else
INLINE int64_t num_factors(int64_t width) { return (width + 1) / 2; }
#endif
#else
enum { PLANES = 1, BLOCK_GATES = 0, BLOCK_MEMORY = 0, OWN_SCALES = 0, PER_FACTOR = 1, COLUMN = 1 };
typedef float factor;
typedef float weight;
INLINE int64_t num_factors(int64_t width) { return width; }
#endif

/* ---- rows ----------------------------------------------------------------------------------------------------- */

/* Rows of factors: (…, stride), `index` (n,) says which (null: in order). In int8 each has a scale. */
typedef struct {
    const factor *first;
    const int64_t *index;
    int64_t stride;
    const float *scales;
} row_set;

#if defined(INT8)
/* The nearest integers of numbers below 2^22. */
INLINE ints nearest(vec x) { return (ints)(x + splat(12582912.0f)) - 0x4B400000; }

INLINE void store_pieces(piece *to, ints x) {
    typedef piece pieces __attribute__((vector_size(sizeof(piece) * LANES), aligned(1), may_alias));
    *(pieces *)to = __builtin_convertvector(x, pieces);
}

/* The largest of a row's absolute values; NaN if one is. */
INLINE float largest(const float *row, int64_t width) {
    vec most = {0};
    for (int64_t k = 0; k < width; k += LANES) {
        vec x = load_some(row + k, width - k);
        x = choose(x < (vec){0}, -x, x);
        most = choose((x > most) | (x != x), x, most);
    }
    float all = most[0];
    for (int lane = 1; lane < LANES; ++lane)
        if (most[lane] > all || most[lane] != most[lane]) all = most[lane];
    return all;
}

/* Rows (n, width) as factors with a scale each, in `scratch`. A row that is not finite gets a scale that is not either. */
INLINE row_set to_factors(int64_t n, int64_t width, const float *rows, const int64_t *index, int64_t stride,
                          factor *scratch) {
    int64_t size = num_factors(width);
    float *scales = (float *)(scratch + round_up(n, TILE_ROWS) * size); /* tiles read whole blocks of rows */
    for (int64_t row = 0; row < n; ++row) {
        const float *from = rows + (index ? index[row] : row) * stride;
        float most = largest(from, width);
        vec steps = splat(most >= 1e-30f ? 127.0f / most : 0.0f);
        piece *to = (piece *)(scratch + row * size);
        for (int64_t k = 0; k < width; k += LANES)
            store_pieces(to + k, nearest(load_some(from + k, width - k) * steps) + OFFSET);
        scales[row] = most < __builtin_inff() ? most / 127.0f : __builtin_nanf("");
    }
    return (row_set){scratch, 0, size, scales};
}
#elif defined(BFLOAT16)
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

/* Zeros from the last number of a row of factors to its end. */
INLINE void fill_row(factor *row, int64_t width) {
    int64_t used = (width + 1) / 2;
    memset(row + used, 0, (num_factors(width) - used) * sizeof(factor));
}

/* Rows (n, width) as factors in `scratch`. */
INLINE row_set to_factors(int64_t n, int64_t width, const float *rows, const int64_t *index, int64_t stride,
                          factor *scratch) {
    int64_t size = num_factors(width);
    for (int64_t row = 0; row < n; ++row) {
        factor *to = scratch + row * size;
        fill_row(to, width);
        for (int64_t k = 0; k < width; k += LANES)
            store_rounded(to, k, load_some(rows + (index ? index[row] : row) * stride + k, width - k), width - k);
    }
    return (row_set){scratch, 0, size, 0};
}
#else
INLINE row_set to_factors(int64_t n, int64_t width, const float *rows, const int64_t *index, int64_t stride,
                          factor *scratch) {
    (void)n, (void)width, (void)scratch;
    return (row_set){rows, index, stride, 0};
}
#endif

/* ---- tiles ---------------------------------------------------------------------------------------------------- */

#if defined(TILES)
#if defined(EMULATED_TILES)
#include "emulated_tiles.h"
#endif
#define TILES_BEGIN configure_tiles()
#define TILES_END _tile_release()

static void configure_tiles(void) {
    struct { uint8_t palette, start, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } config = {.palette = 1};
    for (int tile = 0; tile < 8; ++tile) config.bytes[tile] = 64, config.rows[tile] = TILE_ROWS;
    _tile_loadconfig(&config);
}

#if defined(INT8)
#define TILE_MULTIPLY _tile_dpbusd
#else
#define TILE_MULTIPLY _tile_dpbf16ps
#endif

/* block (16, 64) += sixteen rows @ the first K factors of a panel. Sixteen rows are read, whether or not all count. */
INLINE void multiply_tiles(int64_t K, const factor *rows, int64_t stride, const weight *panel, void *block) {
    enum { LINE = PANEL * 4 }; /* bytes: columns of a panel for one factor, and columns of the block */
    const char *columns = (const char *)panel;
    char *out = block;
    _tile_loadd(0, out, LINE);
    _tile_loadd(1, out + 64, LINE);
    _tile_loadd(2, out + 128, LINE);
    _tile_loadd(3, out + 192, LINE);
    for (int64_t k = 0; k < K; k += TILE_ROWS, columns += TILE_ROWS * LINE) {
        _tile_loadd(4, rows + k, stride * 4);
        _tile_loadd(5, columns, LINE);
        _tile_loadd(6, columns + 64, LINE);
        _tile_loadd(7, columns + 128, LINE);
        TILE_MULTIPLY(0, 4, 5);
        _tile_loadd(5, columns + 192, LINE);
        TILE_MULTIPLY(1, 4, 6);
        TILE_MULTIPLY(2, 4, 7);
        TILE_MULTIPLY(3, 4, 5);
    }
    _tile_stored(0, out, LINE);
    _tile_stored(1, out + 64, LINE);
    _tile_stored(2, out + 128, LINE);
    _tile_stored(3, out + 192, LINE);
}
#else
#define TILES_BEGIN (void)0
#define TILES_END (void)0
#endif

/* ---- sums ----------------------------------------------------------------------------------------------------- */

#if defined(INT8)
typedef ints sum;
#if defined(INT8_BYTES) && LANES == 16
INLINE ints load_column(const weight *from) { return (ints)_mm512_loadu_si512(from); }
#elif defined(INT8_BYTES)
INLINE ints load_column(const weight *from) { return (ints)_mm256_loadu_si256((const __m256i *)from); }
#else
/* Bytes as 16-bit numbers. */
INLINE ints load_column(const weight *from) {
    typedef int8_t bytes __attribute__((vector_size(2 * LANES), aligned(1), may_alias));
    typedef int16_t words __attribute__((vector_size(4 * LANES)));
    return (ints)__builtin_convertvector(*(const bytes *)from, words);
}
#endif
INLINE ints splat_factor(factor x) { return (ints){0} + (int32_t)x; }
INLINE ints multiply_add(ints x, ints column, ints total) {
#if defined(INT8_BYTES) && LANES == 16
    return (ints)_mm512_dpbusd_epi32((__m512i)total, (__m512i)x, (__m512i)column);
#elif defined(INT8_BYTES)
    return (ints)_mm256_dpbusd_avx_epi32((__m256i)total, (__m256i)x, (__m256i)column);
#elif LANES == 16
    return total + (ints)_mm512_madd_epi16((__m512i)x, (__m512i)column);
#elif LANES == 8
    return total + (ints)_mm256_madd_epi16((__m256i)x, (__m256i)column);
#else
    return total + (ints)_mm_madd_epi16((__m128i)x, (__m128i)column);
#endif
}
#elif defined(BFLOAT16)
typedef vec sum;
INLINE ints load_column(const weight *from) { return (ints)_mm512_loadu_si512(from); }
INLINE ints splat_factor(factor x) { return (ints)_mm512_set1_epi32(x); }
INLINE vec multiply_add(ints x, ints column, vec total) {
    return (vec)_mm512_dpbf16_ps((__m512)total, (__m512bh)x, (__m512bh)column);
}
#else
typedef vec sum;
INLINE vec load_column(const weight *from) { return load(from); }
INLINE vec splat_factor(factor x) { return splat(x); }
INLINE vec multiply_add(vec x, vec column, vec total) { return FMA(x, column, total); }
#endif

/* Continue the sums of R rows, and of LANES columns of each group of a panel, over K factors. */
INLINE void add_products(int R, int64_t K, const factor *const *rows, const weight *panel, sum sums[][4]) {
#if defined(TILES)
    sum block[TILE_ROWS][4];
    for (int r = 0; r < TILE_ROWS; ++r)
        UNROLL for (int g = 0; g < 4; ++g) block[r][g] = r < R ? sums[r][g] : (sum){0};
    multiply_tiles(K, rows[0], R > 1 ? rows[1] - rows[0] : K, panel, block);
    for (int r = 0; r < R; ++r)
        UNROLL for (int g = 0; g < 4; ++g) sums[r][g] = block[r][g];
#else
    for (int64_t k = 0; k < K; ++k) {
        __typeof__(load_column(panel)) column[4];
        UNROLL for (int g = 0; g < 4; ++g) column[g] = load_column(panel + (k * PANEL + g * GROUP) * COLUMN);
        UNROLL for (int r = 0; r < R; ++r) {
            __typeof__(load_column(panel)) x = splat_factor(rows[r][k]);
            UNROLL for (int g = 0; g < 4; ++g) sums[r][g] = multiply_add(x, column[g], sums[r][g]);
        }
    }
#endif
}

/* ---- chains --------------------------------------------------------------------------------------------------- */

/* A packed matrix: panels of K factors. In int8 with blocks of `block` inputs, each block is the corrections and the
   scales of 64 columns, then the columns. */
typedef struct {
    int64_t K, block;
    const weight *panels;
} matrix;

INLINE const weight *panel_of(const matrix *m, int64_t panel) {
#if defined(INT8)
    int64_t blocks = (m->K * PER_FACTOR + m->block - 1) / m->block;
    return m->panels + panel * (m->K * PANEL * COLUMN + blocks * 2 * PANEL * (int64_t)sizeof(float));
#else
    return m->panels + panel * m->K * PANEL;
#endif
}

/* totals (R, 4 groups) += rows @ the columns q .. q + LANES of each group of a panel. In int8 a row is `planes` rows. */
INLINE void chain(int R, int planes, const matrix *m, int64_t panel, int64_t q, const factor *const *rows,
                  const float *scales, vec totals[][4]) {
    const weight *from = panel_of(m, panel);
#if defined(INT8)
    int64_t most = m->block / PER_FACTOR;
    for (int64_t k = 0; k < m->K; k += most) {
        int64_t count = m->K - k < most ? m->K - k : most;
        const int32_t *correction = (const int32_t *)from + q;
        const float *scale = (const float *)from + PANEL + q;
        from += 2 * PANEL * sizeof(float);
        const factor *part[ROWS];
        ints sums[ROWS][4];
        UNROLL for (int r = 0; r < R * planes; ++r) {
            part[r] = rows[r] + k;
            UNROLL for (int g = 0; g < 4; ++g) sums[r][g] = (ints){0};
        }
        add_products(R * planes, count, part, from + q * COLUMN, sums);
        from += count * PANEL * COLUMN;
        UNROLL for (int r = 0; r < R; ++r)
            UNROLL for (int g = 0; g < 4; ++g) {
                ints exact = sums[r * planes][g] + (ints)load((const float *)correction + g * GROUP);
                if (planes == 2) exact = exact * 128 + sums[r * planes + 1][g];
                vec product = __builtin_convertvector(exact, vec) * splat(scales[r]);
                totals[r][g] = FMA(product, load(scale + g * GROUP), totals[r][g]);
            }
    }
#else
    (void)scales, (void)planes;
    add_products(R, m->K, rows, from + q, totals);
#endif
}

/* Runs `call(R, row)` for all of n rows: ROWS of them at a time, then the rest. */
#if defined(TILES)
#define IN_BLOCKS(n, most, call) \
    for (int64_t row = 0; row < (n); row += (most)) { \
        int left = (int)((n) - row < (most) ? (n) - row : (most)); \
        call(left, row); \
    }
#else
#define IN_BLOCKS(n, most, call) \
    do { \
        int64_t row = 0; \
        for (; row + (most) <= (n); row += (most)) call(most, row); \
        for (; (most) > 2 && row + 2 <= (n); row += 2) call(2, row); \
        for (; row < (n); ++row) call(1, row); \
    } while (0)
#endif
