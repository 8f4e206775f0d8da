// The tuned kernels that matmul_table.c chooses from: one function per instruction set and format,
// and of block formats one more for many tokens. AMX has the latter only, and takes the others from
// AVX-512.
#ifndef RN_BACKEND_CPU_MATMUL_TABLE_H
#define RN_BACKEND_CPU_MATMUL_TABLE_H

#include "backend/cpu/matmul_layout.h"

typedef void matmul_run_fn(const struct matmul_args *args, int64_t group_begin, int64_t group_end);

// X(format id, name, layout)
#define MATMUL_FLOATS(X)                                                                           \
    X(F32, f32, f32)                                                                               \
    X(F16, f16, f16)                                                                               \
    X(BF16, bf16, f16)

// Formats with a scale for each 32 columns.
#define MATMUL_BLOCKS_32(X)                                                                        \
    X(Q8_0, q8_0, q8_0)                                                                            \
    X(Q4_0, q4_0, q4_0)                                                                            \
    X(Q4_1, q4_1, q4_1)                                                                            \
    X(Q5_0, q5_0, q5_0)                                                                            \
    X(Q5_1, q5_1, q5_1)                                                                            \
    X(Q4_K, q4_k, q4_k)                                                                            \
    X(Q5_K, q5_k, q5_k)                                                                            \
    X(IQ4_NL, iq4_nl, q4_0)                                                                        \
    X(IQ4_XS, iq4_xs, iq4_xs)                                                                      \
    X(MXFP4, mxfp4, mxfp4)

// AMX has kernels of its own for the first ones. The others have a scale for each 16 columns too,
// and codes that take longer to decode: tiles were slower.
#define MATMUL_TILED(X) MATMUL_BLOCKS_32(X) X(Q6_K, q6_k, q6_k)
#define MATMUL_UNTILED(X)                                                                          \
    X(Q2_K, q2_k, q2_k)                                                                            \
    X(Q3_K, q3_k, q3_k)

#define MATMUL_BLOCKS(X) MATMUL_TILED(X) MATMUL_UNTILED(X)

#if defined(__x86_64__)
#define X(id, name, layout)                                                                        \
    matmul_run_fn matmul_##name##_one_avx512bw, matmul_##name##_avx512bw, matmul_##name##_avx2;
MATMUL_FLOATS(X)
#undef X
#define X(id, name, layout)                                                                        \
    matmul_run_fn matmul_##name##_one_avx512, matmul_##name##_avx512,                              \
        matmul_##name##_panel_avx512, matmul_##name##_one_avx512bw,                                \
        matmul_##name##_panel_avx512bw, matmul_##name##_avx512bw, matmul_##name##_avx2,            \
        matmul_##name##_panel_avx2, matmul_##name##_avxvnni, matmul_##name##_panel_avxvnni;
MATMUL_BLOCKS(X)
#undef X
#define X(id, name, layout) matmul_run_fn matmul_##name##_amx;
MATMUL_TILED(X)
#undef X
#elif defined(__aarch64__)
#define X(id, name, layout) matmul_run_fn matmul_##name##_neon;
MATMUL_FLOATS(X)
#undef X
#define X(id, name, layout) matmul_run_fn matmul_##name##_neon, matmul_##name##_panel_neon;
MATMUL_BLOCKS(X)
#undef X
#endif

#endif
