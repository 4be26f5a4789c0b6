/* How fast a core runs one instruction over and over: a loop of ten independent sums, enough to hide its latency.

   Each function runs `times` rounds and returns the operations of one round: two for each product and its addition. */

#include <stdint.h>

#define SUM(instruction, width, n) instruction " %%" width "mm15, %%" width "mm15, %%" width "mm" #n "\n"
#define SUMS(instruction, width) \
    SUM(instruction, width, 0) SUM(instruction, width, 1) SUM(instruction, width, 2) SUM(instruction, width, 3) \
    SUM(instruction, width, 4) SUM(instruction, width, 5) SUM(instruction, width, 6) SUM(instruction, width, 7) \
    SUM(instruction, width, 8) SUM(instruction, width, 9)
#define CLEAR(n) "vpxor %%xmm" #n ", %%xmm" #n ", %%xmm" #n "\n"
#define PEAK(name, instruction, width, operations) \
    int64_t name(int64_t times) { \
        __asm__ volatile(CLEAR(0) CLEAR(1) CLEAR(2) CLEAR(3) CLEAR(4) CLEAR(5) CLEAR(6) CLEAR(7) CLEAR(8) CLEAR(9) \
                         CLEAR(15) "1:\n" SUMS(instruction, width) "decq %0\njnz 1b\nvzeroupper\n" \
                         : "+r"(times) : : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", \
                           "xmm8", "xmm9", "xmm15"); \
        return 10 * operations; \
    }

PEAK(float32_avx2, "vfmadd231ps", "y", 16)
PEAK(float32_avx512, "vfmadd231ps", "z", 32)
PEAK(bfloat16_avx512, "vdpbf16ps", "z", 64)
PEAK(int8_avx2, "vpmaddwd", "y", 32)
PEAK(int8_avxvnni, "%{vex%} vpdpbusd", "y", 64)
PEAK(int8_vnni, "vpdpbusd", "z", 128)
