// Features for which compilers have no common name: clang 14 has none for F16C.
// __builtin_cpu_supports("avx2") also says whether the system keeps the wide registers.
#ifndef RN_BASE_X86_H
#define RN_BASE_X86_H

#if defined(__x86_64__)

#include <cpuid.h>
#include <stdbool.h>

static inline bool x86_has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

#endif
#endif
