// The chooser's passes for AVX-512, with VNNI and without. Must run only where is_here() says so.
#if defined(__x86_64__)

#include "backend/cpu/choose_passes_simd.h"
#include "base/x86.h"

// All that the file is compiled for, used or not.
static bool is_here(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("fma") && x86_has_f16c();
}

const struct choose_passes choose_passes_avx512bw = PASSES_TABLE("avx512bw");

#else
typedef int nothing_here;
#endif
