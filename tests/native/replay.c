/* Repeats recorded calls of the native library, and writes what each leaves in memory:

       replay LIBRARY KIND CALLS RESULTS

   tests/native/test_neon.py records the calls and runs this on an emulated AArch64 processor. A call is a name of 32
   bytes, the number of its arguments and of its buffers; then for each argument a type and a value; then for each buffer
   its size and its bytes. A type of 0 or more is the number of the buffer that the argument points into, the value is
   then an offset.

   Arguments that are integers or addresses and those that are floats are passed in separate registers there, so one type
   of function serves all. Before each call, the modes are set to flush denormals and to round upwards: the library
   must change that, and restore it. */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTEGER = -1, FLOAT = -2, MOST = 16 };
#define FLUSH_AND_ROUND_UP ((uint64_t)1 << 24 | (uint64_t)1 << 22)

typedef int64_t i64;
typedef void (*function)(i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, float, float);

static void fail(const char *reason) {
    fprintf(stderr, "replay: %s\n", reason);
    exit(1);
}

static i64 read_number(FILE *file) {
    i64 number;
    if (fread(&number, sizeof number, 1, file) != 1) fail("the file of calls ends too early");
    return number;
}

static void call(function run, const i64 *a, const float *f) {
    uint64_t modes = FLUSH_AND_ROUND_UP;
    __asm__ volatile("msr fpcr, %0" : : "r"(modes) : "memory");
    run(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], f[0], f[1]);
    __asm__ volatile("mrs %0, fpcr" : "=r"(modes) : : "memory");
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    if (modes != FLUSH_AND_ROUND_UP) fail("the floating-point modes were not restored");
}

int main(int count, char **words) {
    if (count != 5) fail("usage: replay LIBRARY KIND CALLS RESULTS");
    void *library = dlopen(words[1], RTLD_NOW);
    if (!library) fail(dlerror());
    FILE *calls = fopen(words[3], "rb"), *results = fopen(words[4], "wb");
    if (!calls || !results) fail("cannot open the files");
    char name[32], symbol[80];
    while (fread(name, sizeof name, 1, calls) == 1) {
        snprintf(symbol, sizeof symbol, "elmokit_%.31s_%s", name, words[2]);
        function run = (function)dlsym(library, symbol);
        if (!run) fail(dlerror());
        i64 arguments = read_number(calls), buffers = read_number(calls), sizes[MOST], types[MOST + 2], values[MOST + 2];
        if (arguments > MOST + 2 || buffers > MOST) fail("too many arguments");
        for (i64 k = 0; k < arguments; ++k) types[k] = read_number(calls), values[k] = read_number(calls);
        char *places[MOST];
        for (i64 k = 0; k < buffers; ++k) {
            sizes[k] = read_number(calls);
            places[k] = malloc(sizes[k] + 1);
            if (!places[k] || fread(places[k], 1, sizes[k], calls) != (size_t)sizes[k]) fail("a buffer is incomplete");
        }
        i64 integers[MOST] = {0}, num_integers = 0, num_floats = 0;
        float floats[2] = {0};
        for (i64 k = 0; k < arguments; ++k) {
            if (types[k] == FLOAT)
                memcpy(floats + num_floats++, values + k, sizeof(float));
            else
                integers[num_integers++] = types[k] == INTEGER ? values[k] : (i64)(places[types[k]] + values[k]);
        }
        call(run, integers, floats);
        for (i64 k = 0; k < buffers; ++k) {
            if (fwrite(places[k], 1, sizes[k], results) != (size_t)sizes[k]) fail("cannot write the results");
            free(places[k]);
        }
    }
    return fclose(results) != 0;
}
