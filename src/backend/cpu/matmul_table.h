// The tuned kernels that matmul_table.c chooses from; one function per instruction set
// and format, or shape of the generic layout.
#ifndef RN_BACKEND_CPU_MATMUL_TABLE_H
#define RN_BACKEND_CPU_MATMUL_TABLE_H

#include "backend/cpu/matmul_generic.h"

#if defined(__x86_64__)

typedef void matmul_run_fn(const struct matmul_args *args, int64_t group_begin, int64_t group_end);

matmul_run_fn matmul_f32_avx512, matmul_f16_avx512, matmul_bf16_avx512, matmul_q8_0_avx512,
    matmul_q4_0_avx512, matmul_q4_k_avx512, matmul_q6_k_avx512;
matmul_run_fn matmul_f32_avx2, matmul_f16_avx2, matmul_bf16_avx2, matmul_q8_0_avx2,
    matmul_q4_0_avx2, matmul_q4_k_avx2, matmul_q6_k_avx2;

#define GENERIC_DECLARE(name, ...) matmul_run_fn matmul_##name##_avx512, matmul_##name##_avx2;
GENERIC_SHAPES(GENERIC_DECLARE)
#undef GENERIC_DECLARE

#endif
#endif
