/* The tile instructions of AMX in plain C, so that code for tiles runs on processors without them. For tests: slow, and
   written from the description of the instructions. It is included after <immintrin.h>, whose names it replaces.

   A tile has up to 16 rows of up to 64 bytes. Only full tiles are configured here; anything else ends the process. */

#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef union {
    float floats[16][16];
    int32_t ints[16][16];
    uint16_t halves[16][32];
    uint8_t bytes[16][64];
} emulated_tile;

static __thread emulated_tile emulated_tiles[8];
static __thread int tiles_configured;

static inline void emulate_configure(const void *config) {
    const uint8_t *bytes = config;
    if (bytes[0] != 1) abort();
    for (int tile = 0; tile < 8; ++tile) {
        uint16_t width;
        memcpy(&width, bytes + 16 + 2 * tile, sizeof width);
        if (width != 64 || bytes[48 + tile] != 16) abort();
    }
    tiles_configured = 1;
}

static inline emulated_tile *tile_at(int tile) {
    if (!tiles_configured || tile < 0 || tile > 7) abort();
    return emulated_tiles + tile;
}

static inline void emulate_load(int tile, const void *from, int64_t stride) {
    for (int row = 0; row < 16; ++row) memcpy(tile_at(tile)->bytes[row], (const char *)from + row * stride, 64);
}

static inline void emulate_store(int tile, void *to, int64_t stride) {
    for (int row = 0; row < 16; ++row) memcpy((char *)to + row * stride, tile_at(tile)->bytes[row], 64);
}

static inline float widen(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Even and odd products have a sum each, which begin at zero. */
static inline void emulate_bfloat16(int total, int left, int right) {
    emulated_tile *out = tile_at(total), *a = tile_at(left), *b = tile_at(right);
    for (int m = 0; m < 16; ++m)
        for (int n = 0; n < 16; ++n) {
            float even = 0, odd = 0;
            for (int k = 0; k < 16; ++k) {
                even += widen(a->halves[m][2 * k]) * widen(b->halves[k][2 * n]);
                odd += widen(a->halves[m][2 * k + 1]) * widen(b->halves[k][2 * n + 1]);
            }
            out->floats[m][n] += even + odd;
        }
}

/* Bytes without a sign times bytes with one. */
static inline void emulate_int8(int total, int left, int right) {
    emulated_tile *out = tile_at(total), *a = tile_at(left), *b = tile_at(right);
    for (int m = 0; m < 16; ++m)
        for (int n = 0; n < 16; ++n)
            for (int k = 0; k < 64; ++k)
                out->ints[m][n] += a->bytes[m][k] * (int8_t)b->bytes[k / 4][4 * n + k % 4];
}

#undef _tile_loadconfig
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _tile_dpbusd
#undef _tile_release
#define _tile_loadconfig(config) emulate_configure(config)
#define _tile_loadd(tile, from, stride) emulate_load(tile, from, stride)
#define _tile_stored(tile, to, stride) emulate_store(tile, to, stride)
#define _tile_zero(tile) memset(tile_at(tile), 0, sizeof(emulated_tile))
#define _tile_dpbf16ps(total, left, right) emulate_bfloat16(total, left, right)
#define _tile_dpbusd(total, left, right) emulate_int8(total, left, right)
#define _tile_release() (tiles_configured = 0)
