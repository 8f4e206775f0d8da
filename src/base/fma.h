// fmaf where it is an instruction of the machine, although the base architecture lacks it:
// elsewhere each one is a call, which costs from a few nanoseconds to hundreds of them. A function
// that is called once for many of them is compiled twice, once with FMA_TARGET, and has_fma()
// chooses.
#ifndef RN_BASE_FMA_H
#define RN_BASE_FMA_H

#include <stdbool.h>

#ifdef __x86_64__
#define FMA_TARGET __attribute__((target("fma")))
static inline bool has_fma(void) { return __builtin_cpu_supports("fma"); }
#else
#define FMA_TARGET
static inline bool has_fma(void) { return true; }
#endif

#endif
