/* What the processor that runs this can do, and which version of the library this is. Compiled for any processor. */

#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>

static uint64_t saved_registers(void) { /* what the operating system keeps for each process */
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* 1: AVX2 and FMA, 2: AVX-512 (F, BW, DQ, VL), 4: AVX512-VNNI, 8: AVX512-BF16, 16: AMX tiles of known size with
   bfloat16, 32: AMX with int8, 64: AVX-VNNI. */
static int64_t features_of_processor(void) {
    uint32_t a, b, c, d, features = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_FMA)) return 0;
    uint64_t saved = saved_registers();
    if ((saved & 0x6) != 0x6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return 0;
    features |= 1;
    uint32_t a1, b1, c1, d1; /* the page after this one */
    if (a < 1 || !__get_cpuid_count(7, 1, &a1, &b1, &c1, &d1)) a1 = 0;
    features |= a1 & (1u << 4) ? 64 : 0;
    uint32_t wanted = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if ((saved & 0xE6) != 0xE6 || (b & wanted) != wanted) return features;
    features |= 2 | (c & bit_AVX512VNNI ? 4 : 0);
    uint32_t amx_bf16 = d & (1u << 22), amx_tile = d & (1u << 24), amx_int8 = d & (1u << 25);
    features |= a1 & (1u << 5) ? 8 : 0;
    /* Some virtual machines announce tiles but hide how large they are. */
    int described = __get_cpuid_max(0, 0) >= 0x1D && __get_cpuid_count(0x1D, 1, &a, &b, &c, &d) && b >> 16 >= 8;
    if (amx_tile && (saved & 0x60000) == 0x60000 && described) features |= (amx_bf16 ? 16 : 0) | (amx_int8 ? 32 : 0);
    return features;
}
#else
static int64_t features_of_processor(void) { return 0; }
#endif

int64_t elmokit_features(void) {
    int64_t features = features_of_processor();
#if defined(EMULATED_TILES) /* a test library; its other instructions are real */
    if (features & 8) features |= 16 | 32;
#endif
    return features;
}

const char *elmokit_source(void) { return ELMOKIT_SOURCE; }
