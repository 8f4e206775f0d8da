// Packs weights for the tuned kernels (layouts: matmul_layout.h): groups of 16 interleaved rows,
// missing rows zero. Works on words of four bytes, a quad at a time, because loading waits for it.
// Called once per matrix, at load.
#include <assert.h>
#include <string.h>

#include "backend/cpu/matmul_layout.h"
#include "quant/iq4_xs.h"
#include "quant/k_scales.h"
#include "quant/mxfp4.h"
#include "quant/q2_k.h"
#include "quant/q3_k.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_0.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"

enum { FILE_BLOCK_MAX = 256 }; // bytes of a block in the file, at most

static const uint32_t nibbles = 0x0f0f0f0fu, twos = 0x03030303u, ones = 0x01010101u;

#define X(name, unit_cols, unit_bytes)                                                             \
    int64_t matmul_group_bytes_##name(int64_t cols) {                                              \
        const int64_t bytes = (cols + (unit_cols)-1) / (unit_cols) * (unit_bytes);                 \
        return (bytes + PACK_VECTOR - 1) / PACK_VECTOR * PACK_VECTOR;                              \
    }
MATMUL_LAYOUTS(X)
#undef X

static uint32_t word_load(const void *src) {
    uint32_t word;
    memcpy(&word, src, sizeof word);
    return word;
}

// Four bytes of a row, a quad or a float, to their place in a vector.
static void word_store(uint8_t *vector, int row, uint32_t word) {
    memcpy(vector + 4 * row, &word, sizeof word);
}

static void half_store(uint8_t *dst, int row, uint16_t half) { memcpy(dst + 2 * row, &half, 2); }

// Adds bits to a byte of a plane [..][16].
static void byte_add(uint8_t *plane, int line, int row, int bits) {
    plane[MATMUL_GROUP * line + row] |= (uint8_t)bits;
}

// 16 bytes of the file with element i low and i + 16 high are nibbles already.
static void nibbles_store(const uint8_t *qs, int row, uint8_t *dst) {
    for (int i = 0; i < 4; i++) word_store(dst + PACK_VECTOR * i, row, word_load(qs + 4 * i));
}

// 32 bytes of the file hold an even span in low nibbles and the next in high ones.
static void nibbles_store_k(const uint8_t *qs, int span, int row, uint8_t *dst) {
    const uint8_t *quads = qs + 32 * (span / 2);
    const int shift = 4 * (span % 2);
    for (int i = 0; i < 4; i++) {
        const uint32_t low = word_load(quads + 4 * i) >> shift & nibbles;
        const uint32_t high = word_load(quads + 4 * i + 16) >> shift & nibbles;
        word_store(dst + PACK_VECTOR * i, row, low | high << 4);
    }
}

// Bit 4 i + c of the word goes to bit i of byte c.
static void bits_store(uint32_t word, int row, uint8_t *dst) {
    uint32_t out = 0;
    for (int i = 0; i < 8; i++) out |= ((word >> 4 * i & 15) * 0x00204081u & ones) << i;
    word_store(dst, row, out);
}

// Puts one row's block, as the file has it, into its place among the 16. The block is number index
// of its unit; dst is the unit, all zeros where the codes below add bits.
typedef void (*block_fn)(const void *src, int row, int index, uint8_t *dst);

static void block_f32(const void *src, int row, int index, uint8_t *dst) {
    (void)index;
    word_store(dst, row, word_load(src));
}

static void block_q8_0(const void *src, int row, int index, uint8_t *dst) {
    const struct q8_0_block *block = src;
    uint8_t *codes = dst + Q8_0_CODES + index * Q8_0_BLOCK;
    half_store(dst + index * PACK_HALVES, row, block->d);
    for (int i = 0; i < 8; i++)
        word_store(codes + PACK_VECTOR * i, row, word_load(block->q + 4 * i) ^ 0x80808080u);
}

static void block_q4_0(const void *src, int row, int index, uint8_t *dst) {
    const struct q4_0_block *block = src; // IQ4_NL's has the same members
    half_store(dst + index * PACK_HALVES, row, block->d);
    nibbles_store(block->qs, row, dst + Q4_0_CODES + index * PACK_NIBBLES);
}

static void block_q4_1(const void *src, int row, int index, uint8_t *dst) {
    const struct q4_1_block *block = src;
    half_store(dst + index * PACK_HALVES, row, block->d);
    half_store(dst + PAIR_MIN + index * PACK_HALVES, row, block->m);
    nibbles_store(block->qs, row, dst + Q4_1_CODES + index * PACK_NIBBLES);
}

static void fives_store(const uint8_t bits[20], int row, uint8_t *dst) {
    nibbles_store(bits + 4, row, dst);
    bits_store(word_load(bits), row, dst + PACK_NIBBLES);
}

static void block_q5_0(const void *src, int row, int index, uint8_t *dst) {
    const struct q5_0_block *block = src;
    half_store(dst + index * PACK_HALVES, row, block->d);
    fives_store(block->bits, row, dst + Q5_0_CODES + index * PACK_FIVES);
}

static void block_q5_1(const void *src, int row, int index, uint8_t *dst) {
    const struct q5_1_block *block = src;
    half_store(dst + index * PACK_HALVES, row, block->d);
    half_store(dst + PAIR_MIN + index * PACK_HALVES, row, block->m);
    fives_store(block->bits, row, dst + Q5_1_CODES + index * PACK_FIVES);
}

static void block_mxfp4(const void *src, int row, int index, uint8_t *dst) {
    const struct mxfp4_block *block = src;
    dst[MATMUL_GROUP * index + row] = block->e;
    nibbles_store(block->qs, row, dst + MXFP4_CODES + index * PACK_NIBBLES);
}

static void k_scales_store(uint16_t d, uint16_t dmin, const uint8_t scales[12], int row,
                           uint8_t *dst) {
    half_store(dst, row, d);
    half_store(dst + K_DMIN, row, dmin);
    for (int span = 0; span < 8; span++) {
        uint8_t sc, m;
        k_scales_get(scales, span, &sc, &m);
        byte_add(dst + K_LOW, span, row, (sc & 15) | (m & 15) << 4);
        byte_add(dst + K_HIGH, span / 2, row, (sc >> 4 | m >> 4 << 2) << 4 * (span % 2));
    }
}

static void block_q4_k(const void *src, int row, int index, uint8_t *dst) {
    const struct q4_k_block *block = src;
    (void)index;
    k_scales_store(block->d, block->dmin, block->scales, row, dst);
    for (int span = 0; span < 8; span++)
        nibbles_store_k(block->qs, span, row, dst + K_CODES + PACK_NIBBLES * span);
}

static void block_q5_k(const void *src, int row, int index, uint8_t *dst) {
    const struct q5_k_block *block = src;
    (void)index;
    k_scales_store(block->d, block->dmin, block->scales, row, dst);
    for (int span = 0; span < 8; span++) {
        uint8_t *codes = dst + K_CODES + PACK_FIVES * span;
        nibbles_store_k(block->qs, span, row, codes);
        uint32_t bits = 0;
        for (int i = 0; i < 8; i++) bits |= (word_load(block->qh + 4 * i) >> span & ones) << i;
        word_store(codes + PACK_NIBBLES, row, bits);
    }
}

static void block_q6_k(const void *src, int row, int index, uint8_t *dst) {
    const struct q6_k_block *block = src;
    (void)index;
    half_store(dst, row, block->d);
    for (int span = 0; span < 16; span++) {
        dst[Q6_K_SCALE + MATMUL_GROUP * span + row] = (uint8_t)block->scales[span];
        const int upper = span / 8, quarter = span / 2 % 4, byte = 16 * (span % 2);
        const uint8_t *ql = block->ql + 64 * upper + 32 * (quarter % 2) + byte;
        const uint8_t *qh = block->qh + 32 * upper + byte;
        uint32_t low[4], high = 0;
        for (int i = 0; i < 4; i++) {
            low[i] = word_load(ql + 4 * i) >> 4 * (quarter / 2) & nibbles;
            high |= (word_load(qh + 4 * i) >> 2 * quarter & twos) << 2 * i;
        }
        uint8_t *codes = dst + Q6_K_CODES + Q6_K_SPAN * span;
        word_store(codes, row, low[0] | low[2] << 4);
        word_store(codes + PACK_VECTOR, row, low[1] | low[3] << 4);
        word_store(codes + 2 * PACK_VECTOR, row, high);
    }
}

// The 2 bits of a span of 16 in Q2_K and Q3_K.
static void twos_store(const uint8_t qs[64], int span, int row, uint8_t *dst) {
    const uint8_t *bytes = qs + span / 8 * 32 + span % 2 * 16;
    uint32_t word = 0;
    for (int i = 0; i < 4; i++)
        word |= (word_load(bytes + 4 * i) >> (span / 2 % 4 * 2) & twos) << 2 * i;
    word_store(dst, row, word);
}

static void block_q2_k(const void *src, int row, int index, uint8_t *dst) {
    const struct q2_k_block *block = src;
    (void)index;
    half_store(dst, row, block->d);
    half_store(dst + K_DMIN, row, block->dmin);
    for (int span = 0; span < 16; span++) {
        dst[Q2_K_SCALE + MATMUL_GROUP * span + row] = block->scales[span];
        twos_store(block->qs, span, row, dst + Q2_K_CODES + PACK_VECTOR * span);
    }
}

static void block_q3_k(const void *src, int row, int index, uint8_t *dst) {
    const struct q3_k_block *block = src;
    (void)index;
    half_store(dst, row, block->d);
    for (int part = 0; part < 8; part++) {
        uint8_t *codes = dst + K_CODES + Q3_K_PART * part;
        uint32_t bits = 0;
        for (int i = 0; i < 8; i++) bits |= (word_load(block->hmask + 4 * i) >> part & ones) << i;
        word_store(codes + 2 * PACK_VECTOR, row, bits);
        for (int half = 0; half < 2; half++) {
            const int span = 2 * part + half, scale = q3_k_scale(block->scales, span) + 32;
            twos_store(block->qs, span, row, codes + PACK_VECTOR * half);
            byte_add(dst + K_LOW, part, row, (scale & 15) << 4 * half);
            byte_add(dst + K_HIGH, span / 4, row, scale >> 4 << 2 * (span % 4));
        }
    }
}

static void block_iq4_xs(const void *src, int row, int index, uint8_t *dst) {
    const struct iq4_xs_block *block = src;
    (void)index;
    half_store(dst, row, block->d);
    for (int i = 0; i < 2; i++) byte_add(dst + IQ4_XS_HIGH, i, row, block->scales_h >> 8 * i & 255);
    for (int i = 0; i < 4; i++) byte_add(dst + IQ4_XS_LOW, i, row, block->scales_l[i]);
    for (int span = 0; span < 8; span++)
        nibbles_store(block->qs + 16 * span, row, dst + IQ4_XS_CODES + PACK_NIBBLES * span);
}

static inline __attribute__((always_inline)) void
groups_pack(const struct plan_weight *weight, int64_t group_begin, int64_t group_end, uint8_t *dst,
            int64_t group_bytes, int unit_cols, int unit_bytes, block_fn block) {
    static const uint8_t zeros[FILE_BLOCK_MAX];
    const struct format *format = format_at(weight->format);
    assert(weight->cols % format->block == 0 && format->block_bytes <= FILE_BLOCK_MAX);
    const int64_t blocks = weight->cols / format->block, row_bytes = blocks * format->block_bytes;
    const int64_t unit = unit_cols / format->block; // in blocks
    for (int64_t group = group_begin; group < group_end; group++) {
        uint8_t *out = dst + group * group_bytes;
        const uint8_t *in = (const uint8_t *)weight->data + group * MATMUL_GROUP * row_bytes;
        const int64_t left = weight->rows - group * MATMUL_GROUP;
        for (int64_t b = 0; b < blocks; b++, in += format->block_bytes) {
            if (b % unit == 0) memset(out + b / unit * unit_bytes, 0, (size_t)unit_bytes);
            for (int row = 0; row < MATMUL_GROUP; row++)
                block(row < left ? in + row * row_bytes : zeros, row, (int)(b % unit),
                      out + b / unit * unit_bytes);
        }
    }
}

// --- 16-bit floats: a transposition, 8 rows by 8 columns at a time ---

typedef uint16_t halves8 __attribute__((vector_size(16)));

// Three rounds of zipping the first half with the second are a transposition.
static void halves_transpose(halves8 v[8]) {
    for (int round = 0; round < 3; round++) {
        halves8 next[8];
        for (int i = 0; i < 4; i++) {
            next[2 * i] = __builtin_shufflevector(v[i], v[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            next[2 * i + 1] = __builtin_shufflevector(v[i], v[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        memcpy(v, next, sizeof next);
    }
}

// Columns [k, k + 8) of rows [row, row + 8); in: the group's first row.
static void halves_pack(const uint8_t *in, int64_t row_bytes, int64_t k, int row, uint8_t *out) {
    halves8 v[8];
    for (int i = 0; i < 8; i++) memcpy(&v[i], in + (row + i) * row_bytes + 2 * k, sizeof v[i]);
    halves_transpose(v);
    for (int i = 0; i < 8; i++) memcpy(out + (k + i) * PACK_HALVES + 2 * row, &v[i], sizeof v[i]);
}

void matmul_pack_f16(const struct plan_weight *weight, int64_t group_begin, int64_t group_end,
                     void *dst) {
    const int64_t row_bytes = weight->cols * 2, bytes = matmul_group_bytes_f16(weight->cols);
    for (int64_t group = group_begin; group < group_end; group++) {
        const uint8_t *in = (const uint8_t *)weight->data + group * MATMUL_GROUP * row_bytes;
        uint8_t *out = (uint8_t *)dst + group * bytes;
        const int64_t left = weight->rows - group * MATMUL_GROUP;
        int64_t k = 0;
        for (; left >= MATMUL_GROUP && k + 8 <= weight->cols; k += 8) {
            halves_pack(in, row_bytes, k, 0, out);
            halves_pack(in, row_bytes, k, 8, out);
        }
        memset(out + k * PACK_HALVES, 0, (size_t)(bytes - k * PACK_HALVES));
        for (; k < weight->cols; k++)
            for (int64_t row = 0; row < left && row < MATMUL_GROUP; row++)
                memcpy(out + k * PACK_HALVES + 2 * row, in + row * row_bytes + 2 * k, 2);
    }
}

#define PACK(name)                                                                                 \
    void matmul_pack_##name(const struct plan_weight *weight, int64_t group_begin,                 \
                            int64_t group_end, void *dst) {                                        \
        groups_pack(weight, group_begin, group_end, dst, matmul_group_bytes_##name(weight->cols),  \
                    UNIT_COLS_##name, UNIT_BYTES_##name, block_##name);                            \
    }

PACK(f32)
PACK(q8_0)
PACK(q4_0)
PACK(q4_1)
PACK(q5_0)
PACK(q5_1)
PACK(mxfp4)
PACK(q2_k)
PACK(q3_k)
PACK(q4_k)
PACK(q5_k)
PACK(q6_k)
PACK(iq4_xs)
