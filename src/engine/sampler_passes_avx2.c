// The sampler's passes for AVX2. Must run only where is_here() says so.
#if defined(__x86_64__)

#include "base/x86.h"
#include "engine/sampler_passes_simd.h"

// All that the file is compiled for, used or not.
static bool is_here(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && x86_has_f16c();
}

const struct sampler_passes sampler_passes_avx2 = PASSES_TABLE("avx2");

#else
typedef int nothing_here;
#endif
