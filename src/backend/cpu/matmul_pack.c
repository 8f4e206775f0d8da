// Packs weights for the tuned kernels (layouts: matmul_layout.h): groups of 16 interleaved rows,
// missing rows zero. Loading waits for it, so four rows are packed at once: their words are
// transposed, and codes are put together in vectors of 16 bytes, which every instruction set has.
// Called once per matrix, at load.
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "backend/cpu/matmul_layout.h"
#include "quant/iq4_xs.h"
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

enum {
    FILE_BLOCK_MAX = 256, // bytes of a block in the file, at most
    FOUR = 4,             // rows whose words are a vector
    FOURS = MATMUL_GROUP / FOUR,
    LINE_HALVES = 32, // halves of a row in a cache line
};

static const uint32_t nibbles = 0x0f0f0f0fu, twos = 0x03030303u, ones = 0x01010101u;

#define X(name, unit_cols, unit_bytes, part_cols, part_bytes)                                      \
    int64_t matmul_group_bytes_##name(int64_t cols) {                                              \
        const int64_t units = (cols + (unit_cols)-1) / (unit_cols);                                \
        const int64_t missing = (units * (unit_cols)-cols) / (part_cols);                          \
        const int64_t bytes = units * (unit_bytes)-missing * (part_bytes);                         \
        return (bytes + PACK_VECTOR - 1) / PACK_VECTOR * PACK_VECTOR;                              \
    }
MATMUL_LAYOUTS(X)
#undef X

// ---------------------------------------------------------------- words of four rows

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t halves8 __attribute__((vector_size(16)));
typedef uint32_t words4 __attribute__((vector_size(16)));

// 16 bytes of four rows, as four vectors: word i of each row. in: those of the first row.
static inline void words_load(const uint8_t *in, int64_t stride, words4 out[4]) {
    words4 v[FOUR];
    for (int i = 0; i < FOUR; i++) memcpy(&v[i], in + i * stride, sizeof v[i]);
    const words4 a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5);
    const words4 b = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
    const words4 c = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5);
    const words4 d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
    out[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    out[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    out[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    out[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

// 4 bytes of four rows.
static inline words4 word_load(const uint8_t *in, int64_t stride) {
    uint32_t word[FOUR];
    words4 out;
    for (int i = 0; i < FOUR; i++) memcpy(&word[i], in + i * stride, sizeof *word);
    memcpy(&out, word, sizeof out);
    return out;
}

// To a vector of the layout, where it has 16 bytes for each four rows.
static inline void word_store(uint8_t *vector, int four, words4 word) {
    memcpy(vector + four * (int)sizeof word, &word, sizeof word);
}

// 2 bytes of each of the 16 rows, as the file has them.
static inline void halves_store(const uint8_t *in, int64_t stride, uint8_t *dst) {
    for (int row = 0; row < MATMUL_GROUP; row++) memcpy(dst + 2 * row, in + row * stride, 2);
}

// The words of 16 rows as planes u8[4][16]. Zipping the first half of the bytes with the second
// rotates the bits of a byte's index. Four rounds put the row's number below the byte's.
static inline void planes_store(const words4 word[FOURS], uint8_t *dst) {
    bytes16 v[4], next[4];
    memcpy(v, word, sizeof v);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 2; i++) {
            next[2 * i] = __builtin_shufflevector(v[i], v[i + 2], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20,
                                                  5, 21, 6, 22, 7, 23);
            next[2 * i + 1] = __builtin_shufflevector(v[i], v[i + 2], 8, 24, 9, 25, 10, 26, 11, 27,
                                                      12, 28, 13, 29, 14, 30, 15, 31);
        }
        memcpy(v, next, sizeof v);
    }
    memcpy(dst, v, sizeof v);
}

// 16 bytes of each row as planes u8[16][16].
static inline void bytes_store(const uint8_t *in, int64_t stride, uint8_t *dst) {
    words4 word[4][FOURS];
    for (int four = 0; four < FOURS; four++, in += FOUR * stride) {
        words4 v[4];
        words_load(in, stride, v);
        for (int i = 0; i < 4; i++) word[i][four] = v[i];
    }
    for (int i = 0; i < 4; i++) planes_store(word[i], dst + 4 * MATMUL_GROUP * i);
}

// Bytes of 4 bits, two to a byte: those of a become bytes 0 and 1, those of b become 2 and 3.
static inline words4 nibbles_join(words4 a, words4 b) {
    const words4 x = a | a >> 4, y = b | b >> 4;
    return (x & 0xff) | (x >> 8 & 0xff00) | (y & 0xff) << 16 | (y << 8 & 0xff000000);
}

// ---------------------------------------------------------------- codes

// Each packs a part of a block, or all of it, of the 16 rows. in: that part of the first row.

// 16 bytes of the file with element i low and i + 16 high are nibbles already.
static inline void nibbles_store(const uint8_t *in, int64_t stride, uint8_t *dst) {
    for (int four = 0; four < FOURS; four++, in += FOUR * stride) {
        words4 quad[4];
        words_load(in, stride, quad);
        for (int i = 0; i < 4; i++) word_store(dst + PACK_VECTOR * i, four, quad[i]);
    }
}

// 32 bytes of the file hold an even span in low nibbles and the next in high ones.
static inline void nibbles_store_k(const uint8_t *in, int64_t stride, uint8_t *even, uint8_t *odd) {
    for (int four = 0; four < FOURS; four++, in += FOUR * stride) {
        words4 low[4], high[4];
        words_load(in, stride, low);
        words_load(in + 16, stride, high);
        for (int i = 0; i < 4; i++) {
            word_store(even + PACK_VECTOR * i, four, (low[i] & nibbles) | (high[i] & nibbles) << 4);
            word_store(odd + PACK_VECTOR * i, four, (low[i] >> 4 & nibbles) | (high[i] & ~nibbles));
        }
    }
}

// Bit 4 i + c of the file's word goes to bit i of byte c.
static inline void fives_store(const uint8_t *in, int64_t stride, uint8_t *dst) {
    nibbles_store(in + 4, stride, dst);
    for (int four = 0; four < FOURS; four++, in += FOUR * stride) {
        const words4 word = word_load(in, stride);
        words4 bits = word & 0;
        for (int i = 0; i < 8; i++) bits |= ((word >> 4 * i & 15) * 0x00204081u & ones) << i;
        word_store(dst + PACK_NIBBLES, four, bits);
    }
}

// 32 bytes of the file, of which bit s belongs to span s: a vector of bits for each of 8 spans.
static inline void bits_store(const uint8_t *in, int64_t stride, uint8_t *dst, int span_bytes) {
    for (int four = 0; four < FOURS; four++, in += FOUR * stride) {
        words4 quad[8];
        words_load(in, stride, quad);
        words_load(in + 16, stride, quad + 4);
        for (int span = 0; span < 8; span++) {
            words4 bits = quad[0] & 0;
            for (int i = 0; i < 8; i++) bits |= (quad[i] >> span & ones) << i;
            word_store(dst + span_bytes * span, four, bits);
        }
    }
}

// 16 bytes of the file with four spans of 2 bits, lowest first: span i of them to dst[i].
static inline void twos_store(const uint8_t *in, int64_t stride, uint8_t *const dst[4]) {
    for (int four = 0; four < FOURS; four++, in += FOUR * stride) {
        words4 quad[4];
        words_load(in, stride, quad);
        for (int span = 0; span < 4; span++) {
            words4 bits = quad[0] & 0;
            for (int i = 0; i < 4; i++) bits |= (quad[i] >> 2 * span & twos) << 2 * i;
            word_store(dst[span], four, bits);
        }
    }
}

// d, dmin and 12 bytes of 6-bit scales and minima, in which byte i of the last word has the low
// halves of span i + 4 (quant/k_scales.h).
static inline void k_scales_store(const uint8_t *in, int64_t stride, uint8_t *dst) {
    words4 low[FOURS], last[FOURS], high[FOURS];
    halves_store(in, stride, dst);
    halves_store(in + 2, stride, dst + K_DMIN);
    for (int four = 0; four < FOURS; four++, in += FOUR * stride) {
        words4 word[4];
        words_load(in, stride, word);
        const words4 sc = word[1], m = word[2];
        low[four] = (sc & nibbles) | (m & nibbles) << 4;
        last[four] = word[3];
        high[four] = nibbles_join((sc >> 4 & twos) | (m >> 4 & twos) << 2,
                                  (sc >> 6 & twos) | (m >> 6 & twos) << 2);
    }
    planes_store(low, dst + K_LOW);
    planes_store(last, dst + K_LOW + 4 * MATMUL_GROUP);
    planes_store(high, dst + K_HIGH);
}

// 12 bytes of 6-bit scales (quant/q3_k.h).
static inline void q3_k_scales_store(const uint8_t *in, int64_t stride, uint8_t *dst) {
    words4 low[2][FOURS], high[FOURS];
    for (int four = 0; four < FOURS; four++, in += FOUR * stride) {
        const words4 a = word_load(in, stride), b = word_load(in + 4, stride);
        const words4 c = word_load(in + 8, stride);
        low[0][four] = nibbles_join(a & nibbles, b & nibbles);
        low[1][four] = nibbles_join(a >> 4 & nibbles, b >> 4 & nibbles);
        high[four] = c & 0;
        for (int i = 0; i < 4; i++) {
            const words4 bits = c >> 2 * i & twos;
            high[four] |= ((bits | bits >> 6 | bits >> 12 | bits >> 18) & 0xff) << 8 * i;
        }
    }
    planes_store(low[0], dst + K_LOW);
    planes_store(low[1], dst + K_LOW + 4 * MATMUL_GROUP);
    planes_store(high, dst + K_HIGH);
}

// ---------------------------------------------------------------- blocks

// Packs a block of 16 rows. in: the first row's, as the file has it; stride: from row to row. The
// block is number index of its unit; dst is the unit.
typedef void (*block_fn)(const uint8_t *in, int64_t stride, int index, uint8_t *dst);

#define AT(format, member) (int)offsetof(struct format##_block, member)

static inline void block_q8_0(const uint8_t *in, int64_t stride, int index, uint8_t *dst) {
    uint8_t *codes = dst + Q8_0_CODES + index * Q8_0_BLOCK;
    halves_store(in + AT(q8_0, d), stride, dst + index * PACK_HALVES);
    in += AT(q8_0, q);
    for (int four = 0; four < FOURS; four++, in += FOUR * stride) {
        words4 quad[8];
        words_load(in, stride, quad);
        words_load(in + 16, stride, quad + 4);
        for (int i = 0; i < 8; i++)
            word_store(codes + PACK_VECTOR * i, four, quad[i] ^ 0x80808080u);
    }
}

// IQ4_NL's block has the same members.
static inline void block_q4_0(const uint8_t *in, int64_t stride, int index, uint8_t *dst) {
    halves_store(in + AT(q4_0, d), stride, dst + index * PACK_HALVES);
    nibbles_store(in + AT(q4_0, qs), stride, dst + Q4_0_CODES + index * PACK_NIBBLES);
}

static inline void block_q4_1(const uint8_t *in, int64_t stride, int index, uint8_t *dst) {
    halves_store(in + AT(q4_1, d), stride, dst + index * PACK_HALVES);
    halves_store(in + AT(q4_1, m), stride, dst + PAIR_MIN + index * PACK_HALVES);
    nibbles_store(in + AT(q4_1, qs), stride, dst + Q4_1_CODES + index * PACK_NIBBLES);
}

static inline void block_q5_0(const uint8_t *in, int64_t stride, int index, uint8_t *dst) {
    halves_store(in + AT(q5_0, d), stride, dst + index * PACK_HALVES);
    fives_store(in + AT(q5_0, bits), stride, dst + Q5_0_CODES + index * PACK_FIVES);
}

static inline void block_q5_1(const uint8_t *in, int64_t stride, int index, uint8_t *dst) {
    halves_store(in + AT(q5_1, d), stride, dst + index * PACK_HALVES);
    halves_store(in + AT(q5_1, m), stride, dst + PAIR_MIN + index * PACK_HALVES);
    fives_store(in + AT(q5_1, bits), stride, dst + Q5_1_CODES + index * PACK_FIVES);
}

static inline void block_mxfp4(const uint8_t *in, int64_t stride, int index, uint8_t *dst) {
    for (int row = 0; row < MATMUL_GROUP; row++)
        dst[MATMUL_GROUP * index + row] = in[row * stride + AT(mxfp4, e)];
    nibbles_store(in + AT(mxfp4, qs), stride, dst + MXFP4_CODES + index * PACK_NIBBLES);
}

static inline void block_q4_k(const uint8_t *in, int64_t stride, int index, uint8_t *dst) {
    (void)index;
    k_scales_store(in, stride, dst);
    for (int pair = 0; pair < 4; pair++) {
        uint8_t *codes = dst + K_CODES + 2 * PACK_NIBBLES * pair;
        nibbles_store_k(in + AT(q4_k, qs) + 32 * pair, stride, codes, codes + PACK_NIBBLES);
    }
}

static inline void block_q5_k(const uint8_t *in, int64_t stride, int index, uint8_t *dst) {
    (void)index;
    k_scales_store(in, stride, dst);
    for (int pair = 0; pair < 4; pair++) {
        uint8_t *codes = dst + K_CODES + 2 * PACK_FIVES * pair;
        nibbles_store_k(in + AT(q5_k, qs) + 32 * pair, stride, codes, codes + PACK_FIVES);
    }
    bits_store(in + AT(q5_k, qh), stride, dst + K_CODES + PACK_NIBBLES, PACK_FIVES);
}

// 16 bytes of ql: the low bits of a span, and above them those of another.
static inline void q6_k_low_store(const uint8_t *in, int64_t stride, uint8_t *dst, uint8_t *above) {
    for (int four = 0; four < FOURS; four++, in += FOUR * stride) {
        words4 quad[4];
        words_load(in, stride, quad);
        for (int i = 0; i < 2; i++) {
            const words4 a = quad[i], b = quad[i + 2];
            word_store(dst + PACK_VECTOR * i, four, (a & nibbles) | (b & nibbles) << 4);
            word_store(above + PACK_VECTOR * i, four, (a >> 4 & nibbles) | (b & ~nibbles));
        }
    }
}

static inline void block_q6_k(const uint8_t *in, int64_t stride, int index, uint8_t *dst) {
    (void)index;
    halves_store(in + AT(q6_k, d), stride, dst);
    memset(dst + PACK_HALVES, 0, Q6_K_SCALE - PACK_HALVES);
    bytes_store(in + AT(q6_k, scales), stride, dst + Q6_K_SCALE);
    for (int half = 0; half < 2; half++) {
        uint8_t *codes = dst + Q6_K_CODES + 8 * Q6_K_SPAN * half;
        for (int i = 0; i < 4; i++) // spans 0 to 3, and 4 to 7 in the high nibbles
            q6_k_low_store(in + AT(q6_k, ql) + 64 * half + 16 * i, stride, codes + Q6_K_SPAN * i,
                           codes + Q6_K_SPAN * (i + 4));
        for (int i = 0; i < 2; i++) {
            uint8_t *high = codes + Q6_K_SPAN * i + 2 * PACK_VECTOR;
            uint8_t *const to[] = {high, high + 2 * Q6_K_SPAN, high + 4 * Q6_K_SPAN,
                                   high + 6 * Q6_K_SPAN};
            twos_store(in + AT(q6_k, qh) + 32 * half + 16 * i, stride, to);
        }
    }
}

static inline void block_q2_k(const uint8_t *in, int64_t stride, int index, uint8_t *dst) {
    (void)index;
    halves_store(in + AT(q2_k, d), stride, dst);
    halves_store(in + AT(q2_k, dmin), stride, dst + K_DMIN);
    bytes_store(in + AT(q2_k, scales), stride, dst + Q2_K_SCALE);
    for (int i = 0; i < 4; i++) { // spans of even or odd number in a half of 8
        uint8_t *codes = dst + Q2_K_CODES + PACK_VECTOR * (8 * (i / 2) + i % 2);
        uint8_t *const to[] = {codes, codes + 2 * PACK_VECTOR, codes + 4 * PACK_VECTOR,
                               codes + 6 * PACK_VECTOR};
        twos_store(in + AT(q2_k, qs) + 16 * i, stride, to);
    }
}

static inline void block_q3_k(const uint8_t *in, int64_t stride, int index, uint8_t *dst) {
    (void)index;
    halves_store(in + AT(q3_k, d), stride, dst);
    memset(dst + PACK_HALVES, 0, K_LOW - PACK_HALVES);
    q3_k_scales_store(in + AT(q3_k, scales), stride, dst);
    bits_store(in + AT(q3_k, hmask), stride, dst + K_CODES + 2 * PACK_VECTOR, Q3_K_PART);
    for (int i = 0; i < 4; i++) { // as in Q2_K; two spans are a part
        uint8_t *codes = dst + K_CODES + Q3_K_PART * (4 * (i / 2)) + PACK_VECTOR * (i % 2);
        uint8_t *const to[] = {codes, codes + Q3_K_PART, codes + 2 * Q3_K_PART,
                               codes + 3 * Q3_K_PART};
        twos_store(in + AT(q3_k, qs) + 16 * i, stride, to);
    }
}

static inline void block_iq4_xs(const uint8_t *in, int64_t stride, int index, uint8_t *dst) {
    words4 high[FOURS], low[FOURS];
    uint8_t planes[4 * MATMUL_GROUP]; // d, then scales_h
    (void)index;
    halves_store(in + AT(iq4_xs, d), stride, dst);
    for (int four = 0; four < FOURS; four++) {
        high[four] = word_load(in + FOUR * four * stride, stride);
        low[four] = word_load(in + FOUR * four * stride + AT(iq4_xs, scales_l), stride);
    }
    planes_store(high, planes);
    memcpy(dst + IQ4_XS_HIGH, planes + AT(iq4_xs, scales_h) * MATMUL_GROUP, 2 * MATMUL_GROUP);
    planes_store(low, dst + IQ4_XS_LOW);
    for (int span = 0; span < 8; span++)
        nibbles_store(in + AT(iq4_xs, qs) + 16 * span, stride,
                      dst + IQ4_XS_CODES + PACK_NIBBLES * span);
}

// ---------------------------------------------------------------- groups

// A block of fewer than 16 rows is copied first; the others read as zeros.
static inline __attribute__((always_inline)) void
group_pack(const uint8_t *in, int64_t row_bytes, int64_t n_rows, int64_t blocks, int block_bytes,
           int64_t unit, int unit_bytes, uint8_t *out, int64_t group_bytes, block_fn block) {
    for (int64_t b = 0; b < blocks; b++, in += block_bytes) {
        uint8_t rest[MATMUL_GROUP * FILE_BLOCK_MAX], *dst = out + b / unit * unit_bytes;
        const int index = (int)(b % unit);
        if (index == 0 && blocks - b < unit) memset(dst, 0, (size_t)(out + group_bytes - dst));
        if (n_rows >= MATMUL_GROUP) {
            block(in, row_bytes, index, dst);
            continue;
        }
        memset(rest, 0, sizeof rest);
        for (int64_t row = 0; row < n_rows; row++)
            memcpy(rest + row * FILE_BLOCK_MAX, in + row * row_bytes, (size_t)block_bytes);
        block(rest, FILE_BLOCK_MAX, index, dst);
    }
}

static inline __attribute__((always_inline)) void
groups_pack(const struct plan_weight *weight, int64_t group_begin, int64_t group_end, uint8_t *dst,
            int64_t group_bytes, int unit_cols, int unit_bytes, block_fn block) {
    const struct format *format = format_at(weight->format);
    assert(weight->cols % format->block == 0 && format->block_bytes <= FILE_BLOCK_MAX);
    const int64_t blocks = weight->cols / format->block, row_bytes = blocks * format->block_bytes;
    for (int64_t group = group_begin; group < group_end; group++)
        group_pack((const uint8_t *)weight->data + group * MATMUL_GROUP * row_bytes, row_bytes,
                   weight->rows - group * MATMUL_GROUP, blocks, format->block_bytes,
                   unit_cols / format->block, unit_bytes, dst + group * group_bytes, group_bytes,
                   block);
}

#define PACK(name)                                                                                 \
    void matmul_pack_##name(const struct plan_weight *weight, int64_t group_begin,                 \
                            int64_t group_end, void *dst) {                                        \
        groups_pack(weight, group_begin, group_end, dst, matmul_group_bytes_##name(weight->cols),  \
                    UNIT_COLS_##name, UNIT_BYTES_##name, block_##name);                            \
    }

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

// ---------------------------------------------------------------- floats

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

// Whole lines of 8 rows at a time: rows of 4 KiB have all their lines in one set of the first
// cache.
static int64_t halves_columns(const uint8_t *in, int64_t cols, uint8_t *out) {
    int64_t k = 0;
    for (; k + LINE_HALVES <= cols; k += LINE_HALVES)
        for (int row = 0; row < MATMUL_GROUP; row += 8)
            for (int i = 0; i < LINE_HALVES; i += 8) halves_pack(in, 2 * cols, k + i, row, out);
    return k;
}

static int64_t words_columns(const uint8_t *in, int64_t cols, uint8_t *out) {
    int64_t k = 0;
    for (; k + 4 <= cols; k += 4) nibbles_store(in + 4 * k, 4 * cols, out + k * PACK_VECTOR);
    return k;
}

// Elements of `size` bytes; `columns` packs most columns of 16 rows, and returns their number.
static void floats_pack(const struct plan_weight *weight, int64_t group_begin, int64_t group_end,
                        uint8_t *dst, int size, int64_t group_bytes,
                        int64_t (*columns)(const uint8_t *, int64_t, uint8_t *)) {
    const int64_t row_bytes = weight->cols * size, column = (int64_t)MATMUL_GROUP * size;
    for (int64_t group = group_begin; group < group_end; group++) {
        const uint8_t *in = (const uint8_t *)weight->data + group * MATMUL_GROUP * row_bytes;
        uint8_t *out = dst + group * group_bytes;
        const int64_t left = weight->rows - group * MATMUL_GROUP;
        int64_t k = left >= MATMUL_GROUP ? columns(in, weight->cols, out) : 0;
        memset(out + k * column, 0, (size_t)(group_bytes - k * column));
        for (; k < weight->cols; k++)
            for (int64_t row = 0; row < left && row < MATMUL_GROUP; row++)
                memcpy(out + k * column + size * row, in + row * row_bytes + size * k,
                       (size_t)size);
    }
}

void matmul_pack_f16(const struct plan_weight *weight, int64_t group_begin, int64_t group_end,
                     void *dst) {
    floats_pack(weight, group_begin, group_end, dst, 2, matmul_group_bytes_f16(weight->cols),
                halves_columns);
}

void matmul_pack_f32(const struct plan_weight *weight, int64_t group_begin, int64_t group_end,
                     void *dst) {
    floats_pack(weight, group_begin, group_end, dst, 4, matmul_group_bytes_f32(weight->cols),
                words_columns);
}
