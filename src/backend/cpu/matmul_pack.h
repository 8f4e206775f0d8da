// The packed weight layouts that tuned kernels read: sizes of a block of 16 interleaved rows, and
// the functions that make them. The layouts themselves are described in matmul_pack.c; the one that
// other formats share in matmul_generic.h.
// Who reads it: the packers, the kernels, matmul_table.c.
#ifndef RN_BACKEND_CPU_MATMUL_PACK_H
#define RN_BACKEND_CPU_MATMUL_PACK_H

#include <string.h>

#include "backend/cpu/matmul.h"

enum {
    PACK_VECTOR = 64,      // 16 rows of 4 bytes
    PACK_FILE_BLOCK = 256, // bytes of a block in the file, at most

    PACK_F32_BYTES = 64,    // per column
    PACK_F16_BYTES = 32,    // per column; and BF16
    PACK_Q8_0_BYTES = 1088, // per pair of blocks
    PACK_Q4_0_BYTES = 576,  // per pair of blocks
    PACK_Q4_K_BYTES = 2368, // per block
    PACK_Q6_K_BYTES = 3392, // per block

    PACK_PAIR_QUANT = 64,  // Q8_0 and Q4_0: the vectors of two blocks; f16 d[2][16] is at 0
    PACK_Q8_0_VECTORS = 8, // per block
    PACK_Q4_0_VECTORS = 4, // per block

    PACK_Q4_K_DMIN = 32,   // f16 dmin[16]; d[16] is at 0
    PACK_Q4_K_SCALE = 64,  // u8 scale[8][16]
    PACK_Q4_K_MIN = 192,   // u8 min[8][16]
    PACK_Q4_K_QUANT = 320, // 4 vectors per span

    PACK_Q6_K_SCALE = 64,  // i8 scale[16][16]; d[16] is at 0
    PACK_Q6_K_QUANT = 320, // 3 vectors per span
};

static inline uint32_t pack_word_load(const void *src) {
    uint32_t word;
    memcpy(&word, src, sizeof word);
    return word;
}

// Four bytes of a row, a quad or a float, to their place in a vector.
static inline void pack_word_store(uint8_t *vector, int row, uint32_t word) {
    memcpy(vector + 4 * row, &word, sizeof word);
}

// matmul_kernel's group_bytes and pack, for each format that has a layout of its own.
int64_t matmul_group_bytes_f32(int64_t cols);
int64_t matmul_group_bytes_f16(int64_t cols); // and BF16
int64_t matmul_group_bytes_q8_0(int64_t cols);
int64_t matmul_group_bytes_q4_0(int64_t cols);
int64_t matmul_group_bytes_q4_k(int64_t cols);
int64_t matmul_group_bytes_q6_k(int64_t cols);

typedef void matmul_pack_fn(const struct plan_weight *weight, int64_t group_begin,
                            int64_t group_end, void *dst);
matmul_pack_fn matmul_pack_f32, matmul_pack_f16, matmul_pack_q8_0, matmul_pack_q4_0,
    matmul_pack_q4_k, matmul_pack_q6_k;

#endif
