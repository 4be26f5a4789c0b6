/* Products of float32 matrices with AMX tiles: factors are rounded to bfloat16, sums are float32.

   A tile has 16 rows of 64 bytes. A block of the result is 32 x 32, four tiles; each step of the inner loop loads two
   tiles of each factor and multiplies every pair. The right factor is packed in panels of 32 columns, in which two
   consecutive rows are interleaved column by column, as the instruction requires; both factors are padded with zeros to
   whole tiles. */

#include <stdint.h>
#include <string.h>

#include <immintrin.h>
#if defined(EMULATED_TILES)
#include "emulated_tiles.h"
#endif
#include <sys/syscall.h>
#include <unistd.h>

enum { SIDE = 32, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

static int64_t whole(int64_t size) { return (size + SIDE - 1) / SIDE * SIDE; }

/* Linux lets a process use tiles only after a request. */
int elmokit_tiles_ready(void) {
#if defined(EMULATED_TILES)
    return 1;
#else
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#endif
}

static inline __m512i round_lanes(const float *from, int64_t count) {
    __mmask16 mask = count >= 16 ? 0xffff : (__mmask16)((1u << count) - 1);
    return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from)));
}

/* The right factor (k, n), rows `stride` apart, as packed panels. A few rows at a time, so that few pages are in use. */
void elmokit_tiles_pack(int64_t k, int64_t n, const float *restrict from, int64_t stride, uint16_t *restrict to) {
    int64_t depth = whole(k);
    for (int64_t begin = 0; begin < depth; begin += SIDE)
        for (int64_t column = 0; column < n; column += SIDE) {
            uint32_t *restrict panel = (uint32_t *)(to + column * depth + begin * SIDE);
            for (int64_t row = begin; row < begin + SIDE; row += 2, panel += SIDE)
                for (int64_t part = 0; part < SIDE; part += 16) {
                    int64_t count = n - column - part;
                    const float *first = from + row * stride + column + part;
                    __m512i low = _mm512_setzero_si512(), high = low;
                    if (row < k && count > 0) low = round_lanes(first, count);
                    if (row + 1 < k && count > 0) high = round_lanes(first + stride, count);
                    _mm512_storeu_si512(panel + part, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
                }
        }
}

/* The left factor (m, k) as whole rows of bfloat16. */
static void round_rows(int64_t m, int64_t k, const float *restrict from, int64_t stride, uint16_t *restrict to) {
    int64_t depth = whole(k), height = whole(m);
    for (int64_t row = 0; row < height; ++row, to += depth) {
        for (int64_t part = 0; part < depth; part += 16) {
            int64_t count = row < m ? k - part : 0;
            __m512i lanes = count > 0 ? round_lanes(from + row * stride + part, count) : _mm512_setzero_si512();
            _mm256_storeu_si256((__m256i *)(to + part), _mm512_cvtepi32_epi16(lanes));
        }
    }
}

/* The same for a transposed factor (k, m). */
static void round_transposed(int64_t m, int64_t k, const float *restrict from, int64_t stride, uint16_t *restrict to) {
    int64_t depth = whole(k), height = whole(m);
    if (depth > k || height > m) memset(to, 0, height * depth * sizeof(uint16_t));
    for (int64_t column = 0; column < m; column += 16) {
        int64_t count = m - column < 16 ? m - column : 16;
        for (int64_t row = 0; row < k; ++row) {
            uint32_t lanes[16];
            _mm512_storeu_si512(lanes, round_lanes(from + row * stride + column, count));
            for (int64_t lane = 0; lane < count; ++lane) to[(column + lane) * depth + row] = (uint16_t)lanes[lane];
        }
    }
}

static void configure(void) {
    struct { uint8_t palette, start, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } config = {.palette = 1};
    for (int tile = 0; tile < 8; ++tile) config.bytes[tile] = 64, config.rows[tile] = 16;
    _tile_loadconfig(&config);
}

/* result (m, n) = bias + left @ right, or += without a bias if `add`. */
static void multiply(int64_t m, int64_t n, int64_t k, const uint16_t *left, const uint16_t *right, const float *bias,
                     float *result, int64_t stride, int add) {
    int64_t depth = whole(k);
    float block[SIDE * SIDE] __attribute__((aligned(64)));
    configure();
    for (int64_t row = 0; row < m; row += SIDE) {
        const uint16_t *upper = left + row * depth, *lower = upper + 16 * depth;
        for (int64_t column = 0; column < n; column += SIDE) {
            const uint16_t *panel = right + column * depth;
            int64_t width = n - column < SIDE ? n - column : SIDE;
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
            for (int64_t inner = 0; inner < depth; inner += SIDE) {
                _tile_loadd(4, upper + inner, depth * sizeof(uint16_t));
                _tile_loadd(6, panel + inner * SIDE, 2 * SIDE * sizeof(uint16_t));
                _tile_loadd(5, lower + inner, depth * sizeof(uint16_t));
                _tile_loadd(7, panel + inner * SIDE + SIDE, 2 * SIDE * sizeof(uint16_t));
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(1, 4, 7);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
            _tile_stored(0, block, SIDE * sizeof(float));
            _tile_stored(1, block + 16, SIDE * sizeof(float));
            _tile_stored(2, block + 16 * SIDE, SIDE * sizeof(float));
            _tile_stored(3, block + 16 * SIDE + 16, SIDE * sizeof(float));
            int64_t height = m - row < SIDE ? m - row : SIDE;
            for (int64_t i = 0; i < height; ++i) {
                float *restrict to = result + (row + i) * stride + column;
                const float *restrict from = block + i * SIDE;
                if (bias)
                    for (int64_t j = 0; j < width; ++j) to[j] = bias[column + j] + from[j];
                else if (add)
                    for (int64_t j = 0; j < width; ++j) to[j] += from[j];
                else
                    memcpy(to, from, width * sizeof(float));
            }
        }
    }
    _tile_release();
}

/* result (m, n) = rows (m, k) @ packed (k, n) + bias, which may be null. `scratch` holds the rows in whole tiles. */
void elmokit_tiles_multiply(int64_t m, int64_t n, int64_t k, const float *rows, int64_t rows_stride,
                            const uint16_t *packed, const float *bias, float *result, int64_t stride,
                            uint16_t *scratch) {
    round_rows(m, k, rows, rows_stride, scratch);
    multiply(m, n, k, scratch, packed, bias, result, stride, 0);
}

/* total (m, n) += transpose of left (k, m) @ right (k, n). `scratch` holds both in whole tiles. */
void elmokit_tiles_add(int64_t m, int64_t n, int64_t k, const float *left, int64_t left_stride, const float *right,
                       int64_t right_stride, float *total, uint16_t *scratch) {
    uint16_t *packed = scratch + whole(m) * whole(k);
    round_transposed(m, k, left, left_stride, scratch);
    elmokit_tiles_pack(k, n, right, right_stride, packed);
    multiply(m, n, k, scratch, packed, 0, total, n, 1);
}
