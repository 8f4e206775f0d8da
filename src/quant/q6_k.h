// Q6_K: 256 values of 6 bits in 16 spans of 16; a span has an int8 scale under one f16;
// w = d * sc * (value - 32). 6.5625 bits per weight.
#ifndef RN_QUANT_Q6_K_H
#define RN_QUANT_Q6_K_H

#include <stdint.h>
#include <string.h>

#include "base/half.h"
#include "quant/encode.h"

struct __attribute__((packed)) q6_k_block {
    // Per half of 128 elements, in quarters of 32. Byte i of ql holds the low 4 bits of element i
    // of quarters 0 and 2 (low and high nibble), byte 32 + i those of quarters 1 and 3. Byte i of
    // qh holds the high 2 bits of element i of quarters 0 to 3, lowest first.
    uint8_t ql[128], qh[64];
    int8_t scales[16];
    uint16_t d; // f16
};
_Static_assert(sizeof(struct q6_k_block) == 210, "as in the file");

static inline void q6_k_unpack(const void *src, int8_t *q, float *scale, float *offset) {
    const struct q6_k_block *block = src;
    (void)offset;
    for (int half = 0; half < 2; half++) {
        const uint8_t *ql = block->ql + half * 64, *qh = block->qh + half * 32;
        for (int quarter = 0; quarter < 4; quarter++) {
            int8_t *out = q + half * 128 + quarter * 32;
            for (int i = 0; i < 32; i++) {
                const int low = ql[quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15;
                const int high = qh[i] >> (quarter * 2) & 3;
                out[i] = (int8_t)((low | high << 4) - 32);
            }
        }
    }
    const float d = f16_to_f32(block->d);
    for (int span = 0; span < 16; span++) scale[span] = d * (float)block->scales[span];
}

// value: 0 to 63, in the order of the elements.
static inline void q6_k_pack(const uint8_t value[256], struct q6_k_block *block) {
    for (int half = 0; half < 2; half++) {
        const uint8_t *v = value + half * 128;
        uint8_t *ql = block->ql + half * 64, *qh = block->qh + half * 32;
        for (int i = 0; i < 64; i++) ql[i] = (uint8_t)((v[i] & 15) | (v[i + 64] & 15) << 4);
        for (int i = 0; i < 32; i++) {
            qh[i] = (uint8_t)(v[i] >> 4 | v[i + 32] >> 4 << 2 | v[i + 64] >> 4 << 4 |
                              v[i + 96] >> 4 << 6);
        }
    }
}

static inline void q6_k_encode(const float *src, void *dst) {
    struct q6_k_block *block = dst;
    struct encode_k6 k;
    encode_k6_block(src, &k);
    block->d = k.d;
    memcpy(block->scales, k.sc, sizeof block->scales);
    q6_k_pack(k.level, block);
}

#endif
