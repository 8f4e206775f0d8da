// The AMX kernels over a model of the tiles (amx_model.h), for tests on machines that have AVX-512
// without AMX: src/backend/cpu/matmul_amx.c built once more (tests/CMakeLists.txt). No part of
// runnel runs them.
#ifndef RN_TESTS_MATMUL_AMX_MODEL_H
#define RN_TESTS_MATMUL_AMX_MODEL_H

#include "amx_model.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/peak.h"

#if defined(__x86_64__)

#include "backend/cpu/matmul_table.h"

#define X(id, name, layout) matmul_run_fn matmul_##name##_amx_model;
MATMUL_TILED(X)
#undef X
extern const struct peak_loop peak_amx_model_int8;

// NULL: a format without tiles, or not a machine that can run it. The kernels are those for 9
// tokens and more.
static inline const struct matmul_kernel *matmul_amx_model_find(enum format_id format) {
#define X(id, n, layout)                                                                           \
    {.format = FORMAT_##id,                                                                        \
     .isa = ISA_AMX,                                                                               \
     .group_bytes = matmul_group_bytes_##layout,                                                   \
     .pack = matmul_pack_##layout,                                                                 \
     .run = {matmul_##n##_avx512, matmul_##n##_avx512, matmul_##n##_amx_model,                     \
             matmul_##n##_amx_model}},
    static const struct matmul_kernel kernels[] = {MATMUL_TILED(X)};
#undef X
    for (size_t i = 0; ops_at(ISA_AVX512) && i < sizeof kernels / sizeof *kernels; i++)
        if (kernels[i].format == format) return &kernels[i];
    return NULL;
}

#else

static inline const struct matmul_kernel *matmul_amx_model_find(enum format_id format) {
    (void)format;
    return NULL;
}

#endif

#endif
