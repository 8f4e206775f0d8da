// The table of tuned kernels. Every kernel of a format reads the same packed layout, so a matrix is
// packed once for whatever instruction set the machine has.
#include "backend/cpu/matmul_table.h"

#if defined(__x86_64__)

#define KERNEL(id, isa, size, pack, run)                                                           \
    {FORMAT_##id, ISA_##isa, matmul_group_bytes_##size, matmul_pack_##pack, matmul_##run},

static const struct matmul_kernel kernels[] = {
    // clang-format off
    //     format  isa     size               pack    kernel
    KERNEL(F32,    AVX512, f32,               f32,    f32_avx512)
    KERNEL(F16,    AVX512, f16,               f16,    f16_avx512)
    KERNEL(BF16,   AVX512, f16,               f16,    bf16_avx512)
    KERNEL(Q8_0,   AVX512, q8_0,              q8_0,   q8_0_avx512)
    KERNEL(Q4_0,   AVX512, q4_0,              q4_0,   q4_0_avx512)
    KERNEL(Q4_K,   AVX512, q4_k,              q4_k,   q4_k_avx512)
    KERNEL(Q6_K,   AVX512, q6_k,              q6_k,   q6_k_avx512)
    KERNEL(Q4_1,   AVX512, nibbles_32_offset, q4_1,   nibbles_32_offset_avx512)
    KERNEL(Q5_0,   AVX512, fives_32,          q5_0,   fives_32_avx512)
    KERNEL(Q5_1,   AVX512, fives_32_offset,   q5_1,   fives_32_offset_avx512)
    KERNEL(Q2_K,   AVX512, nibbles_16_offset, q2_k,   nibbles_16_offset_avx512)
    KERNEL(Q3_K,   AVX512, nibbles_16,        q3_k,   nibbles_16_avx512)
    KERNEL(Q5_K,   AVX512, fives_32_offset,   q5_k,   fives_32_offset_avx512)
    KERNEL(IQ4_NL, AVX512, nibbles_32,        iq4_nl, nibbles_32_avx512)
    KERNEL(IQ4_XS, AVX512, nibbles_32,        iq4_xs, nibbles_32_avx512)
    KERNEL(MXFP4,  AVX512, nibbles_32,        mxfp4,  nibbles_32_avx512)
    KERNEL(F32,    AVX2,   f32,               f32,    f32_avx2)
    KERNEL(F16,    AVX2,   f16,               f16,    f16_avx2)
    KERNEL(BF16,   AVX2,   f16,               f16,    bf16_avx2)
    KERNEL(Q8_0,   AVX2,   q8_0,              q8_0,   q8_0_avx2)
    KERNEL(Q4_0,   AVX2,   q4_0,              q4_0,   q4_0_avx2)
    KERNEL(Q4_K,   AVX2,   q4_k,              q4_k,   q4_k_avx2)
    KERNEL(Q6_K,   AVX2,   q6_k,              q6_k,   q6_k_avx2)
    KERNEL(Q4_1,   AVX2,   nibbles_32_offset, q4_1,   nibbles_32_offset_avx2)
    KERNEL(Q5_0,   AVX2,   fives_32,          q5_0,   fives_32_avx2)
    KERNEL(Q5_1,   AVX2,   fives_32_offset,   q5_1,   fives_32_offset_avx2)
    KERNEL(Q2_K,   AVX2,   nibbles_16_offset, q2_k,   nibbles_16_offset_avx2)
    KERNEL(Q3_K,   AVX2,   nibbles_16,        q3_k,   nibbles_16_avx2)
    KERNEL(Q5_K,   AVX2,   fives_32_offset,   q5_k,   fives_32_offset_avx2)
    KERNEL(IQ4_NL, AVX2,   nibbles_32,        iq4_nl, nibbles_32_avx2)
    KERNEL(IQ4_XS, AVX2,   nibbles_32,        iq4_xs, nibbles_32_avx2)
    KERNEL(MXFP4,  AVX2,   nibbles_32,        mxfp4,  nibbles_32_avx2)
    // clang-format on
};

const struct matmul_kernel *matmul_kernel_find(enum format_id format, enum cpu_isa isa) {
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (kernels[i].format == format && kernels[i].isa == isa) return &kernels[i];
    }
    return NULL;
}

#else

const struct matmul_kernel *matmul_kernel_find(enum format_id format, enum cpu_isa isa) {
    (void)format;
    (void)isa;
    return NULL;
}

#endif
