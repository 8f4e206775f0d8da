// Packs weights into the generic layout (matmul_generic.h), block by block through the format's
// unpack. Called once per matrix, at load.
#include <assert.h>
#include <string.h>

#include "backend/cpu/matmul_generic.h"
#include "base/half.h"
#include "quant/iq4_nl.h"
#include "quant/mxfp4.h"

#define GENERIC_SIZE(name, bits, span, offsets)                                                    \
    int64_t matmul_group_bytes_##name(int64_t cols) {                                              \
        return generic_group_bytes(bits, span, offsets, cols);                                     \
    }
GENERIC_SHAPES(GENERIC_SIZE)
#undef GENERIC_SIZE

// How a format's q becomes codes.
struct coder {
    const struct format *format;
    int bits, lines;     // per code, per span
    const int8_t *level; // the q of each code; NULL: first, first + 1, ...
    int first;
    uint8_t code[256]; // with levels: of q + 128
};

static struct coder coder_of(enum format_id id, int bits, const int8_t *level, int first) {
    const struct format *format = format_at(id);
    struct coder coder = {.format = format,
                          .bits = bits,
                          .lines = generic_lines(bits, format->span, format->has_offset),
                          .level = level,
                          .first = first};
    for (int i = 0; level && i < 1 << bits; i++) coder.code[level[i] + 128] = (uint8_t)i;
    return coder;
}

static void block_code(const struct coder *coder, const int8_t *q, uint8_t *code) {
    const int n = coder->format->block;
    if (coder->level) {
        for (int i = 0; i < n; i++) code[i] = coder->code[q[i] + 128];
    } else {
        for (int i = 0; i < n; i++) code[i] = (uint8_t)(q[i] - coder->first);
    }
}

static int level_at(const struct coder *coder, int code) {
    return coder->level ? coder->level[code] : coder->first + code;
}

static void header_pack(const struct coder *coder, uint8_t *dst) {
    for (int i = 0; i < PACK_VECTOR; i++) {
        dst[i] = (uint8_t)(level_at(coder, coder->bits == 4 ? i % 16 : 0) + 128);
    }
}

// One row's span to its place among the 16.
static void span_pack(const struct coder *coder, const uint8_t *code, int row, uint8_t *dst) {
    const uint32_t nibbles = 0x0f0f0f0fu, ones = 0x01010101u;
    const int vectors = coder->format->span / 8;
    uint32_t fifth = 0;
    for (int i = 0; i < vectors; i++) {
        const uint32_t low = pack_word_load(code + 4 * i),
                       high = pack_word_load(code + 4 * (i + vectors));
        pack_word_store(dst + PACK_VECTOR * i, row, (low & nibbles) | (high & nibbles) << 4);
        fifth |= (low >> 4 & ones) << i | (high >> 4 & ones) << (i + vectors);
    }
    if (coder->bits == 5) pack_word_store(dst + PACK_VECTOR * vectors, row, fifth);
}

// One row's block; dst is its first span.
static void block_pack(const struct coder *coder, const void *src, int row, uint8_t *dst) {
    const struct format *format = coder->format;
    int8_t q[FORMAT_MAX_BLOCK];
    uint8_t code[FORMAT_MAX_BLOCK];
    float scale[FORMAT_MAX_SPANS], offset[FORMAT_MAX_SPANS];
    format->unpack(src, q, scale, offset);
    block_code(coder, q, code);
    for (int span = 0; span < format->block / format->span; span++) {
        pack_word_store(dst, row, f32_to_bits(scale[span]));
        if (format->has_offset) pack_word_store(dst + PACK_VECTOR, row, f32_to_bits(offset[span]));
        span_pack(coder, code + span * format->span, row,
                  dst + PACK_VECTOR * generic_codes_at(format->has_offset));
        dst += PACK_VECTOR * coder->lines;
    }
}

static void groups_pack(const struct coder *coder, const struct plan_weight *weight,
                        int64_t group_begin, int64_t group_end, uint8_t *dst) {
    static const uint8_t zeros[PACK_FILE_BLOCK];
    const struct format *format = coder->format;
    assert(weight->cols % format->block == 0 && format->block_bytes <= PACK_FILE_BLOCK);
    const int64_t blocks = weight->cols / format->block, row_bytes = blocks * format->block_bytes;
    const int64_t block_lines = format->block / format->span * coder->lines;
    const int64_t group_bytes =
        generic_group_bytes(coder->bits, format->span, format->has_offset, weight->cols);
    for (int64_t group = group_begin; group < group_end; group++) {
        uint8_t *out = dst + group * group_bytes;
        header_pack(coder, out);
        out += PACK_VECTOR;
        const uint8_t *in = (const uint8_t *)weight->data + group * MATMUL_GROUP * row_bytes;
        const int64_t left = weight->rows - group * MATMUL_GROUP;
        for (int64_t b = 0; b < blocks; b++) {
            for (int row = 0; row < MATMUL_GROUP; row++) {
                block_pack(coder, row < left ? in + row * row_bytes : zeros, row, out);
            }
            in += format->block_bytes, out += PACK_VECTOR * block_lines;
        }
    }
}

#define PACK(name, bits, level, first)                                                             \
    void matmul_pack_##name(const struct plan_weight *weight, int64_t group_begin,                 \
                            int64_t group_end, void *dst) {                                        \
        const struct coder coder = coder_of(weight->format, bits, level, first);                   \
        groups_pack(&coder, weight, group_begin, group_end, dst);                                  \
    }

PACK(q4_1, 4, NULL, 0)
PACK(q5_0, 5, NULL, -16)
PACK(q5_1, 5, NULL, 0)
PACK(q2_k, 4, NULL, 0)
PACK(q3_k, 4, NULL, -4)
PACK(q5_k, 5, NULL, 0)
PACK(iq4_nl, 4, iq4_nl_level, 0)
PACK(iq4_xs, 4, iq4_nl_level, 0)
PACK(mxfp4, 4, mxfp4_level, 0)
