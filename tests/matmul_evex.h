// The AVX-VNNI kernels in AVX-512's encoding of the same instruction, for tests and benchmarks on
// machines that have only the latter: src/backend/cpu/matmul_avxvnni.c built once more
// (tests/CMakeLists.txt, library matmul_evex). No part of runnel runs them.
#ifndef RN_TESTS_MATMUL_EVEX_H
#define RN_TESTS_MATMUL_EVEX_H

#include "backend/cpu/matmul_table.h"

#if defined(__x86_64__)

#define X(id, name, layout) matmul_run_fn matmul_##name##_evex, matmul_##name##_panel_evex;
MATMUL_BLOCKS(X)
#undef X

static inline bool matmul_evex_is_here(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c") && __builtin_cpu_supports("avx512vnni") &&
           __builtin_cpu_supports("avx512vl");
}

// NULL: a float format, or not a machine that can run it.
static inline const struct matmul_kernel *matmul_evex_find(enum format_id format) {
#define X(id, n, layout)                                                                           \
    {.format = FORMAT_##id,                                                                        \
     .isa = ISA_AVXVNNI,                                                                           \
     .group_bytes = matmul_group_bytes_##layout,                                                   \
     .pack = matmul_pack_##layout,                                                                 \
     .run = {matmul_##n##_evex, matmul_##n##_evex, matmul_##n##_panel_evex,                        \
             matmul_##n##_panel_evex}},
    static const struct matmul_kernel kernels[] = {MATMUL_BLOCKS(X)};
#undef X
    for (size_t i = 0; matmul_evex_is_here() && i < sizeof kernels / sizeof *kernels; i++)
        if (kernels[i].format == format) return &kernels[i];
    return NULL;
}

#else

static inline const struct matmul_kernel *matmul_evex_find(enum format_id format) {
    (void)format;
    return NULL;
}

#endif

#endif
