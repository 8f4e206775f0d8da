// Packs weights for the tuned kernels: groups of 16 interleaved rows, missing rows zero. A vector
// is 64 bytes: 4 consecutive columns (a quad) of each row. None crosses a cache line, which is
// worth 15% of the speed from memory: so blocks of 32 go in pairs, the last of which may be half
// empty.
//   F32    per column f32[16];  F16, BF16: per column u16[16], the file's bits
//   Q8_0   per pair: f16 d[2][16]; per block 8 vectors, the quads as q + 128
//   Q4_0   per pair: f16 d[2][16]; per block 4 vectors, low nibbles quad i, high ones quad i + 4
//   Q4_K   f16 d[16], dmin[16]; u8 scale[8][16], min[8][16]; per span 4 vectors as in Q4_0
//   Q6_K   f16 d[16], pad; i8 scale[16][16]; per span 3 vectors: low nibbles of quads 0 and 2 (in
//          the high half), of 1 and 3, then the upper bits, quad i at bit 2 * i
// Values of 4 and 6 bits stay unsigned, as in the file. Called once per matrix, at load.
#include <assert.h>
#include <string.h>

#include "backend/cpu/matmul_pack.h"
#include "quant/q4_0.h"
#include "quant/q4_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"

static const uint32_t nibbles = 0x0f0f0f0fu, pairs = 0x03030303u;

static void half_store(uint8_t *dst, int row, uint16_t half) { memcpy(dst + 2 * row, &half, 2); }

static int64_t lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

int64_t matmul_group_bytes_f32(int64_t cols) { return cols * PACK_F32_BYTES; }
int64_t matmul_group_bytes_f16(int64_t cols) { return lines(cols * PACK_F16_BYTES); }
int64_t matmul_group_bytes_q8_0(int64_t cols) { return (cols + 32) / 64 * PACK_Q8_0_BYTES; }
int64_t matmul_group_bytes_q4_0(int64_t cols) { return (cols + 32) / 64 * PACK_Q4_0_BYTES; }
int64_t matmul_group_bytes_q4_k(int64_t cols) { return cols / 256 * PACK_Q4_K_BYTES; }
int64_t matmul_group_bytes_q6_k(int64_t cols) { return cols / 256 * PACK_Q6_K_BYTES; }

// Puts one row's block, as the file has it, into its place among the 16; half: of the pair, or 0.
typedef void (*block_fn)(const void *src, int row, int half, uint8_t *dst);

static void block_f32(const void *src, int row, int half, uint8_t *dst) {
    (void)half;
    pack_word_store(dst, row, pack_word_load(src));
}

static void block_f16(const void *src, int row, int half, uint8_t *dst) {
    (void)half;
    memcpy(dst + 2 * row, src, 2);
}

static void block_q8_0(const void *src, int row, int half, uint8_t *dst) {
    const struct q8_0_block *block = src;
    uint8_t *vectors = dst + PACK_PAIR_QUANT + half * PACK_Q8_0_VECTORS * PACK_VECTOR;
    for (int quad = 0; quad < 8; quad++) {
        const uint32_t word = pack_word_load(block->q + 4 * quad);
        pack_word_store(vectors + PACK_VECTOR * quad, row, word ^ 0x80808080u);
    }
    half_store(dst, row + half * MATMUL_GROUP, block->d);
}

static void block_q4_0(const void *src, int row, int half, uint8_t *dst) {
    const struct q4_0_block *block = src;
    uint8_t *vectors = dst + PACK_PAIR_QUANT + half * PACK_Q4_0_VECTORS * PACK_VECTOR;
    for (int quad = 0; quad < 4; quad++) {
        pack_word_store(vectors + PACK_VECTOR * quad, row, pack_word_load(block->qs + 4 * quad));
    }
    half_store(dst, row + half * MATMUL_GROUP, block->d);
}

static void block_q4_k(const void *src, int row, int half, uint8_t *dst) {
    (void)half;
    const struct q4_k_block *block = src;
    half_store(dst, row, block->d);
    half_store(dst + PACK_Q4_K_DMIN, row, block->dmin);
    for (int span = 0; span < 8; span++) {
        const int place = MATMUL_GROUP * span + row;
        k_scales_get(block->scales, span, dst + PACK_Q4_K_SCALE + place,
                     dst + PACK_Q4_K_MIN + place);
        // In the file 32 bytes hold an even span in low nibbles and the next in high ones.
        const uint8_t *quads = block->qs + 32 * (span / 2);
        uint8_t *vectors = dst + PACK_Q4_K_QUANT + 4 * PACK_VECTOR * span;
        const int shift = 4 * (span % 2);
        for (int quad = 0; quad < 4; quad++) {
            const uint32_t low = pack_word_load(quads + 4 * quad) >> shift & nibbles;
            const uint32_t high = pack_word_load(quads + 4 * quad + 16) >> shift & nibbles;
            pack_word_store(vectors + PACK_VECTOR * quad, row, low | high << 4);
        }
    }
}

static void block_q6_k(const void *src, int row, int half, uint8_t *dst) {
    (void)half;
    const struct q6_k_block *block = src;
    half_store(dst, row, block->d);
    half_store(dst, row + MATMUL_GROUP, 0); // the pad
    for (int span = 0; span < 16; span++) {
        dst[PACK_Q6_K_SCALE + MATMUL_GROUP * span + row] = (uint8_t)block->scales[span];
        const int upper = span / 8, quarter = span / 2 % 4, byte = 16 * (span % 2);
        const uint8_t *ql = block->ql + 64 * upper + 32 * (quarter % 2) + byte;
        const uint8_t *qh = block->qh + 32 * upper + byte;
        uint32_t low[4], high = 0;
        for (int quad = 0; quad < 4; quad++) {
            low[quad] = pack_word_load(ql + 4 * quad) >> 4 * (quarter / 2) & nibbles;
            high |= (pack_word_load(qh + 4 * quad) >> 2 * quarter & pairs) << 2 * quad;
        }
        uint8_t *vectors = dst + PACK_Q6_K_QUANT + 3 * PACK_VECTOR * span;
        pack_word_store(vectors, row, low[0] | low[2] << 4);
        pack_word_store(vectors + PACK_VECTOR, row, low[1] | low[3] << 4);
        pack_word_store(vectors + 2 * PACK_VECTOR, row, high);
    }
}

// unit: the blocks that are packed together, 1 or 2, in unit_bytes.
static inline __attribute__((always_inline)) void
groups_pack(const struct plan_weight *weight, int64_t group_begin, int64_t group_end, uint8_t *dst,
            int64_t group_bytes, int unit, int unit_bytes, block_fn block) {
    static const uint8_t zeros[PACK_FILE_BLOCK];
    const struct format *format = format_at(weight->format);
    assert(weight->cols % format->block == 0 && format->block_bytes <= PACK_FILE_BLOCK);
    const int64_t blocks = weight->cols / format->block, row_bytes = blocks * format->block_bytes;
    const int64_t last_unit = (blocks - 1) / unit * unit_bytes;
    for (int64_t group = group_begin; group < group_end; group++) {
        uint8_t *out = dst + group * group_bytes;
        memset(out + last_unit, 0, (size_t)(group_bytes - last_unit));
        const uint8_t *in = (const uint8_t *)weight->data + group * MATMUL_GROUP * row_bytes;
        const int64_t left = weight->rows - group * MATMUL_GROUP;
        for (int64_t b = 0; b < blocks; b++, in += format->block_bytes) {
            for (int row = 0; row < MATMUL_GROUP; row++) {
                block(row < left ? in + row * row_bytes : zeros, row, (int)(b % unit),
                      out + b / unit * unit_bytes);
            }
        }
    }
}

#define PACK(name, unit, unit_bytes)                                                               \
    void matmul_pack_##name(const struct plan_weight *weight, int64_t group_begin,                 \
                            int64_t group_end, void *dst) {                                        \
        groups_pack(weight, group_begin, group_end, dst, matmul_group_bytes_##name(weight->cols),  \
                    unit, unit_bytes, block_##name);                                               \
    }

PACK(f32, 1, PACK_F32_BYTES)
PACK(f16, 1, PACK_F16_BYTES)
PACK(q8_0, 2, PACK_Q8_0_BYTES)
PACK(q4_0, 2, PACK_Q4_0_BYTES)
PACK(q4_k, 1, PACK_Q4_K_BYTES)
PACK(q6_k, 1, PACK_Q6_K_BYTES)
