/* Vectors of one kind of processor: their width, fused multiply-adds, and the activations of the LSTM.

   Every source that includes this is compiled once per kind (see build.py); everything here is static, so that the
   linker cannot hand the code of one kind to another. */

#pragma once

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Kinds: NAME is the suffix of functions, LANES the width of a vector, ROWS how many rows a product has in registers. */
#if defined(KIND_avx512)
#define NAME(name) elmokit_##name##_avx512
#define WITH_AVX512
#elif defined(KIND_avx512bf16)
#define NAME(name) elmokit_##name##_avx512bf16
#define WITH_AVX512
#define BFLOAT16
#elif defined(KIND_amxbf16)
#define NAME(name) elmokit_##name##_amxbf16
#define WITH_AVX512
#define BFLOAT16
#define TILES
#define ROWS 16
#elif defined(KIND_int8amx)
#define NAME(name) elmokit_##name##_int8amx
#define WITH_AVX512
#define INT8
#define INT8_BYTES
#define TILES
#define ROWS 16
#elif defined(KIND_int8vnni)
#define NAME(name) elmokit_##name##_int8vnni
#define WITH_AVX512
#define INT8
#define INT8_BYTES
#elif defined(KIND_int8avx512)
#define NAME(name) elmokit_##name##_int8avx512
#define WITH_AVX512
#define INT8
#define ROWS 4
#elif defined(KIND_avx2)
#define NAME(name) elmokit_##name##_avx2
#define WITH_AVX2
#elif defined(KIND_int8avxvnni)
#define NAME(name) elmokit_##name##_int8avxvnni
#define WITH_AVX2
#define INT8
#define INT8_BYTES
#elif defined(KIND_int8avx2)
#define NAME(name) elmokit_##name##_int8avx2
#define WITH_AVX2
#define INT8
#define ROWS 2
#elif defined(KIND_neon)
#define NAME(name) elmokit_##name##_neon
#elif defined(KIND_baseline)
#define NAME(name) elmokit_##name##_baseline
#elif defined(KIND_int8baseline)
#define NAME(name) elmokit_##name##_int8baseline
#define INT8
#define ROWS 2
#else
#error "say which kind of processor, such as -DKIND_avx512, -DKIND_avx2 or -DKIND_baseline; see build.py"
#endif

#if defined(WITH_AVX512)
#define LANES 16
#define FMA(a, b, c) ((vec)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#elif defined(WITH_AVX2)
#define LANES 8
#define FMA(a, b, c) ((vec)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#elif defined(KIND_neon)
#include <arm_neon.h>
#define LANES 4
#define FMA(a, b, c) ((vec)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#else
#define LANES 4
#define FMA(a, b, c) ((a) * (b) + (c))
#endif
#if !defined(ROWS) /* with four columns each, as many as there are registers for */
#if defined(WITH_AVX512) || defined(KIND_neon)
#define ROWS 6
#else
#define ROWS 3
#endif
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef float unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE vec load(const float *from) { return *(const unaligned *)from; }
INLINE void store(float *to, vec x) { *(unaligned *)to = x; }
INLINE vec splat(float x) { return x - (vec){0}; }
INLINE vec choose(ints mask, vec yes, vec no) { return (vec)((mask & (ints)yes) | (~mask & (ints)no)); }

/* The first `lanes` lanes; the others are zero, or are not stored. */
#if defined(WITH_AVX512)
INLINE __mmask16 first_lanes(int64_t lanes) { return lanes >= LANES ? 0xFFFF : lanes > 0 ? (1u << lanes) - 1 : 0; }
INLINE vec load_some(const float *from, int64_t lanes) { return (vec)_mm512_maskz_loadu_ps(first_lanes(lanes), from); }
INLINE void store_some(float *to, vec x, int64_t lanes) {
    if (lanes >= LANES) /* masked stores are slow */
        store(to, x);
    else
        _mm512_mask_storeu_ps(to, first_lanes(lanes), (__m512)x);
}
#else
INLINE vec load_some(const float *from, int64_t lanes) {
    if (lanes >= LANES) return load(from);
    vec x = {0};
    for (int lane = 0; lane < LANES; ++lane)
        if (lane < lanes) x[lane] = from[lane];
    return x;
}

INLINE void store_some(float *to, vec x, int64_t lanes) {
    if (lanes >= LANES) {
        store(to, x);
        return;
    }
    for (int lane = 0; lane < LANES; ++lane)
        if (lane < lanes) to[lane] = x[lane];
}
#endif

/* Floating-point modes of the calling thread: round to nearest, keep denormals. */
#if defined(__x86_64__)
#define MODES_BEGIN unsigned modes = _mm_getcsr(); _mm_setcsr(0x1F80)
#define MODES_END _mm_setcsr(modes)
#elif defined(KIND_neon)
#define MODES_BEGIN uint64_t modes = read_modes(); write_modes(0)
#define MODES_END write_modes(modes)
INLINE uint64_t read_modes(void) {
    uint64_t modes;
    __asm__ volatile("mrs %0, fpcr" : "=r"(modes));
    return modes;
}
INLINE void write_modes(uint64_t modes) { __asm__ volatile("msr fpcr, %0" : : "r"(modes) : "memory"); }
#else
#define MODES_BEGIN
#define MODES_END
#endif

/* ---- activations ---------------------------------------------------------------------------------------------- */

/* The smaller and the larger number; where one is NaN, the second. */
#if defined(WITH_AVX512)
INLINE vec smaller(vec a, vec b) { return (vec)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE vec larger(vec a, vec b) { return (vec)_mm512_max_ps((__m512)a, (__m512)b); }
#elif defined(WITH_AVX2)
INLINE vec smaller(vec a, vec b) { return (vec)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE vec larger(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); }
#else
INLINE vec smaller(vec a, vec b) { return choose(a < b, a, b); }
INLINE vec larger(vec a, vec b) { return choose(a > b, a, b); }
#endif

INLINE vec clamp(vec x, float limit) { return smaller(splat(limit), larger(splat(-limit), x)); } /* NaN stays NaN */

/* e^-x, with x clamped to |x| <= 28: a gate is then within 1e-12 of 0 or 1, and three of these values can be multiplied
   without overflow, so that a cell needs two divisions instead of five. */
INLINE vec exp_minus(vec x) {
    x = clamp(x, 28.0f);
    const vec magic = splat(12582912.0f); /* adding it rounds to the nearest integer, in the low bits */
    vec shifted = FMA(x, splat(-1.44269504088896341f), magic);
    vec whole = shifted - magic;
    vec r = FMA(whole, splat(-0.693145751953125f), -x); /* |r| <= ln(2) / 2 */
    r = FMA(whole, splat(-1.42860682030941723e-6f), r);
    vec e = splat(1.0f / 5040.0f); /* the series of e^r */
    e = FMA(e, r, splat(1.0f / 720.0f));
    e = FMA(e, r, splat(1.0f / 120.0f));
    e = FMA(e, r, splat(1.0f / 24.0f));
    e = FMA(e, r, splat(1.0f / 6.0f));
    e = FMA(e, r, splat(0.5f));
    e = FMA(e, r, splat(1.0f));
    e = FMA(e, r, splat(1.0f));
    ints power = ((ints)shifted << 23) + (127 << 23);
    return e * (vec)power;
}

INLINE vec sigmoid(vec x) { return splat(1.0f) / (splat(1.0f) + exp_minus(x)); }

INLINE vec tanh_of(vec x) {
    vec e = exp_minus(x + x);
    return (splat(1.0f) - e) / (splat(1.0f) + e);
}

/* The equations of elmokit/model/cell.py for inference: returns o tanh(c), and updates c.
   sigmoid(a) = 1 / (1 + e^-a), tanh(a) = (1 - e^-2a) / (1 + e^-2a). */
INLINE vec cell(vec i, vec f, vec o, vec j, vec *c, float limit) {
    const vec one = splat(1.0f);
    i = one + exp_minus(i);
    f = one + exp_minus(f);
    o = one + exp_minus(o);
    j = exp_minus(j + j);
    vec ij = i * (one + j);
    vec value = FMA(*c, ij, (one - j) * f) / (f * ij);
    value = clamp(value, limit);
    *c = value;
    vec t = exp_minus(value + value);
    return (one - t) / (o * (one + t));
}
