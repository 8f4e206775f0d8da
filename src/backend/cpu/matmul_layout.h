// The packed weight layouts that tuned kernels read, the same for every instruction set. A group is
// 16 interleaved rows; it is cut into units of columns, each whole 64-byte lines, in the order they
// are read. A vector is one line: 4 consecutive columns (a quad) of each row. Nothing that is
// loaded as a vector crosses a line, which is worth 15% of the speed from memory. A group takes the
// bytes of the file's 16 rows, plus the scales that its last unit is without (Q3_K and Q6_K: half a
// line for each unit).
//
//   nibbles  of 32 columns: 4 vectors, low halves quad i, high halves quad i + 4
//   bits     of 32 columns: 1 vector, bit i belongs to quad i
//   twos     of 16 columns: 1 vector, bits 2 i and 2 i + 1 belong to quad i
//
//   F32     per column f32[16];  F16, BF16: per column u16[16], the file's bits
//   Q8_0    pair of blocks: f16 d[2][16]; per block 8 vectors, the quads as q + 128
//   Q4_0    pair: f16 d[2][16]; per block nibbles; so is IQ4_NL
//   Q4_1    pair: f16 d[2][16], m[2][16]; per block nibbles
//   Q5_0    pair: f16 d[2][16]; per block nibbles, bits
//   Q5_1    pair: f16 d[2][16], m[2][16]; per block nibbles, bits
//   MXFP4   four blocks: u8 e[4][16]; per block nibbles
//   Q4_K    f16 d[16], dmin[16]; u8 low[8][16], the low 4 bits of a span's scale and, above, of its
//           minimum; u8 high[4][16], per span a nibble with their high 2 bits, even spans low;
//           per span nibbles
//   Q5_K    the same; per span nibbles, bits
//   Q6_K    f16 d[16], pad; i8 scale[16][16]; per span of 16: low nibbles of quads 0 and 2 (in the
//           high half), of 1 and 3, then twos with the upper bits
//   Q2_K    f16 d[16], dmin[16]; u8 scale[16][16], minimum in the high half; per span twos
//   Q3_K    f16 d[16], pad; u8 low[8][16], a nibble per span, even spans low; u8 high[4][16],
//           2 bits per span, lowest first; per 32 columns: twos of 16, of the other 16, bits
//   IQ4_XS  f16 d[16]; u8 high[2][16], 2 bits per span; u8 low[4][16], a nibble per span;
//           per span nibbles
// Read by the packers (matmul_pack.c), the kernels, matmul_table.c.
#ifndef RN_BACKEND_CPU_MATMUL_LAYOUT_H
#define RN_BACKEND_CPU_MATMUL_LAYOUT_H

#include "backend/cpu/matmul.h"

// X(name, columns of a unit, its bytes, and those of each part of it). The last unit of a row may
// have fewer parts: nothing that is not read comes between two groups, because prefetchers lose
// their place at a gap.
#define MATMUL_LAYOUTS(X)                                                                          \
    X(f32, 1, 64, 1, 64)                                                                           \
    X(f16, 1, 32, 1, 32)                                                                           \
    X(q8_0, 64, 1088, 32, 512)                                                                     \
    X(q4_0, 64, 576, 32, 256)                                                                      \
    X(q4_1, 64, 640, 32, 256)                                                                      \
    X(q5_0, 64, 704, 32, 320)                                                                      \
    X(q5_1, 64, 768, 32, 320)                                                                      \
    X(mxfp4, 128, 1088, 32, 256)                                                                   \
    X(q2_k, 256, 1344, 256, 1344)                                                                  \
    X(q3_k, 256, 1792, 256, 1792)                                                                  \
    X(q4_k, 256, 2304, 256, 2304)                                                                  \
    X(q5_k, 256, 2816, 256, 2816)                                                                  \
    X(q6_k, 256, 3392, 256, 3392)                                                                  \
    X(iq4_xs, 256, 2176, 256, 2176)

enum {
#define X(name, cols, bytes, part_cols, part_bytes)                                                \
    UNIT_COLS_##name = cols, UNIT_BYTES_##name = bytes,
    MATMUL_LAYOUTS(X)
#undef X

        PACK_VECTOR = 64, // 16 rows of 4 bytes
    PACK_HALVES = 32,     // 16 rows of an f16
    PACK_NIBBLES = 4 * PACK_VECTOR,
    PACK_FIVES = 5 * PACK_VECTOR, // nibbles, bits

    // where the codes start, and the bytes of a block or span of them
    Q8_0_CODES = 64,
    Q8_0_BLOCK = 8 * PACK_VECTOR,
    PAIR_MIN = 64, // Q4_1 and Q5_1: f16 m[2][16]
    Q4_0_CODES = 64,
    Q4_1_CODES = 128,
    Q5_0_CODES = 64,
    Q5_1_CODES = 128,
    MXFP4_CODES = 64,

    K_DMIN = 32,  // Q2_K, Q4_K, Q5_K: f16 dmin[16]; d[16] is at 0 in all K formats
    K_LOW = 64,   // Q3_K, Q4_K, Q5_K
    K_HIGH = 192, // the same
    K_CODES = 256,
    Q6_K_SCALE = 64,
    Q6_K_CODES = 320,
    Q6_K_SPAN = 3 * PACK_VECTOR,
    Q2_K_SCALE = 64,
    Q2_K_CODES = 320,
    Q3_K_PART = 3 * PACK_VECTOR, // of 32 columns
    IQ4_XS_HIGH = 32,
    IQ4_XS_LOW = 64,
    IQ4_XS_CODES = 128,
};

#define X(name, ...) int64_t matmul_group_bytes_##name(int64_t);
MATMUL_LAYOUTS(X)
#undef X

typedef void matmul_pack_fn(const struct plan_weight *weight, int64_t group_begin,
                            int64_t group_end, void *dst);
matmul_pack_fn matmul_pack_f32, matmul_pack_f16, matmul_pack_q8_0, matmul_pack_q4_0,
    matmul_pack_q4_1, matmul_pack_q5_0, matmul_pack_q5_1, matmul_pack_mxfp4, matmul_pack_q2_k,
    matmul_pack_q3_k, matmul_pack_q4_k, matmul_pack_q5_k, matmul_pack_q6_k, matmul_pack_iq4_xs;

#endif
