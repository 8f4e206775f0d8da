// The generic packed layout, for block formats whose q is one of any 16 levels (nibbles) or one of
// 32 consecutive ones (fives). Filled through the format's unpack; a kernel knows the shape alone.
//
// A group of 16 rows is lines of 64 bytes. One header line: of nibbles the levels as q + 128, four
// times over; of fives the first level as q + 128, in every byte. Then per span, columns ascending:
//   f32 scale[16]; with offsets f32 offset[16];
//   span / 8 vectors as in Q4_0: low nibbles quad i, high ones quad i + span / 8;
//   of fives (those were the low 4 bits) one more vector, whose bit i is the fifth of quad i.
#ifndef RN_BACKEND_CPU_MATMUL_GENERIC_H
#define RN_BACKEND_CPU_MATMUL_GENERIC_H

#include "backend/cpu/matmul_pack.h"

// X(name, bits, span, offsets)
#define GENERIC_SHAPES(X)                                                                          \
    X(nibbles_16, 4, 16, 0)                                                                        \
    X(nibbles_16_offset, 4, 16, 1)                                                                 \
    X(nibbles_32, 4, 32, 0)                                                                        \
    X(nibbles_32_offset, 4, 32, 1)                                                                 \
    X(fives_32, 5, 32, 0)                                                                          \
    X(fives_32_offset, 5, 32, 1)

// Lines of a span before its codes, and in all.
static inline int generic_codes_at(int offsets) { return 1 + offsets; }
static inline int generic_lines(int bits, int span, int offsets) {
    return generic_codes_at(offsets) + span / 8 + (bits == 5);
}

static inline int64_t generic_group_bytes(int bits, int span, int offsets, int64_t cols) {
    return PACK_VECTOR * (1 + cols / span * generic_lines(bits, span, offsets));
}

#define GENERIC_DECLARE(name, bits, span, offsets) int64_t matmul_group_bytes_##name(int64_t cols);
GENERIC_SHAPES(GENERIC_DECLARE)
#undef GENERIC_DECLARE

matmul_pack_fn matmul_pack_q4_1, matmul_pack_q5_0, matmul_pack_q5_1, matmul_pack_q2_k,
    matmul_pack_q3_k, matmul_pack_q5_k, matmul_pack_iq4_nl, matmul_pack_iq4_xs, matmul_pack_mxfp4;

#endif
