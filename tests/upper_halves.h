// What a kernel leaves in the upper halves of the wide registers. Code of the base architecture
// that runs with halves in use is slow on Intel's CPUs: a mix of its instructions with those of AVX
// took 100 times as long. Compilers clear them at the end of a function, and miss some. They do so
// only when they optimize, as they do where tests are optimized.
#ifndef RN_TESTS_UPPER_HALVES_H
#define RN_TESTS_UPPER_HALVES_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__OPTIMIZE__)

// The upper half of any of ymm0 to ymm15 has a bit that is set. For right after the call.
__attribute__((noinline, target("avx"))) static bool uppers_are_used(void) {
    uint64_t half[16][4];
    if (!__builtin_cpu_supports("avx")) return false;
#define KEEP(i) __asm__ volatile("vmovdqu %%ymm" #i ", %0" : "=m"(half[i]))
    KEEP(0);
    KEEP(1);
    KEEP(2);
    KEEP(3);
    KEEP(4);
    KEEP(5);
    KEEP(6);
    KEEP(7);
    KEEP(8);
    KEEP(9);
    KEEP(10);
    KEEP(11);
    KEEP(12);
    KEEP(13);
    KEEP(14);
    KEEP(15);
#undef KEEP
    uint64_t bits = 0;
    for (int i = 0; i < 16; i++) bits |= half[i][2] | half[i][3];
    return bits != 0;
}

#else

static inline bool uppers_are_used(void) { return false; }

#endif
#endif
