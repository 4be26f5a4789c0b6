/* Matrices in panels of 64 columns, as the products of infer.c read them: each panel is (depth, 64), and columns that fill
   up the last one are zero. In bfloat16 two neighboring rows share a factor, the earlier one in its lower half. */

#include "factors.h"

enum { BLOCK = 32 }; /* rows that are turned around together */

#if defined(BFLOAT16)

INLINE __m512i round_16(const float *from) {
    return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from)));
}

/* Write one half of each factor of a row, and keep the other half. */
static void store_half(const float *from, factor *to, int upper) {
    for (int64_t c = 0; c < PANEL; c += LANES) {
        __m512i kept = _mm512_and_si512(_mm512_loadu_si512(to + c), _mm512_set1_epi32(upper ? 0xffff : 0xffff0000));
        __m512i half = upper ? _mm512_slli_epi32(round_16(from + c), 16) : round_16(from + c);
        _mm512_storeu_si512(to + c, _mm512_or_si512(kept, half));
    }
}

/* Rows k .. k + rows of a panel, from a block of complete rows. The partner of a row may be packed earlier or later. */
static void store_block(int64_t rows, const float *block, int64_t stride, factor *panel, int64_t k) {
    int64_t row = 0;
    if (k % 2 && rows > 0) store_half(block, panel + k / 2 * PANEL, 1), row = 1;
    for (; row + 2 <= rows; row += 2)
        for (int64_t c = 0; c < PANEL; c += LANES) {
            const float *from = block + row * stride + c;
            __m512i high = _mm512_slli_epi32(round_16(from + stride), 16);
            _mm512_storeu_si512(panel + (k + row) / 2 * PANEL + c, _mm512_or_si512(round_16(from), high));
        }
    if (row < rows) store_half(block + row * stride, panel + (k + row) / 2 * PANEL, 0);
}
#else

static void store_block(int64_t rows, const float *block, int64_t stride, factor *panel, int64_t k) {
    for (int64_t row = 0; row < rows; ++row) memcpy(panel + (k + row) * PANEL, block + row * stride, PANEL * sizeof(float));
}
#endif

/* The lanes of two vectors that `from` names; lanes of the second vector follow those of the first. */
#if defined(__clang__)
INLINE vec SHUFFLE(vec first, vec second, ints from) {
    vec found;
    for (int lane = 0; lane < LANES; ++lane)
        found[lane] = from[lane] < LANES ? first[from[lane]] : second[from[lane] - LANES];
    return found;
}
#else
#define SHUFFLE __builtin_shuffle
#endif

/* Turn a square block around: each stage trades the off-diagonal parts of squares that are twice as large. */
INLINE void turn(vec block[LANES]) {
    UNROLL for (int step = 1; step < LANES; step *= 2) {
        ints upper, lower;
        for (int lane = 0; lane < LANES; ++lane) {
            upper[lane] = lane & step ? LANES + lane - step : lane;
            lower[lane] = lane & step ? LANES + lane : lane + step;
        }
        for (int row = 0; row < LANES; ++row)
            if (!(row & step)) {
                vec first = block[row], second = block[row + step];
                block[row] = SHUFFLE(first, second, upper);
                block[row + step] = SHUFFLE(first, second, lower);
            }
    }
}

/* to (columns, rows) = the transpose of from (rows, columns). */
static void turn_matrix(int64_t rows, int64_t columns, const float *from, int64_t stride, float *to, int64_t to_stride) {
    for (int64_t row = 0; row < rows; row += LANES)
        for (int64_t column = 0; column < columns; column += LANES) {
            vec block[LANES];
            for (int k = 0; k < LANES; ++k)
                block[k] = row + k < rows ? load_some(from + (row + k) * stride + column, columns - column) : (vec){0};
            turn(block);
            for (int k = 0; k < LANES && column + k < columns; ++k)
                store_some(to + (column + k) * to_stride + row, block[k], rows - row);
        }
}

void NAME(transpose)(int64_t rows, int64_t columns, const float *from, int64_t stride, float *to) {
    turn_matrix(rows, columns, from, stride, to, rows);
}

/* Rows of a matrix (K, M) become the rows `first` .. `first` + K of panels that have `depth` factors in each column. Rows and columns
   of the matrix are any stride apart, so that a transposed matrix needs no copy. */
void NAME(pack)(int64_t K, int64_t M, const float *from, int64_t row_stride, int64_t column_stride, int64_t depth,
                int64_t first, factor *to) {
    float buffer[BLOCK * PANEL];
    int64_t size = depth * PANEL;
    for (int64_t column = 0; column < M; column += PANEL, to += size) {
        int64_t columns = M - column < PANEL ? M - column : PANEL;
        for (int64_t begin = 0; begin < K; begin += BLOCK) {
            int64_t rows = K - begin < BLOCK ? K - begin : BLOCK;
            const float *block = from + begin * row_stride + column * column_stride;
            if (column_stride == 1 && columns == PANEL) {
                store_block(rows, block, row_stride, to, first + begin);
                continue;
            }
            if (columns < PANEL) memset(buffer, 0, sizeof buffer);
            if (row_stride == 1) {
                turn_matrix(columns, rows, block, column_stride, buffer, PANEL);
            } else {
                for (int64_t row = 0; row < rows; ++row)
                    for (int64_t c = 0; c < columns; ++c)
                        buffer[row * PANEL + c] = block[row * row_stride + c * column_stride];
            }
            store_block(rows, buffer, PANEL, to, first + begin);
        }
    }
}
