// Q4_K: 256 nibbles in 8 spans of 32; a span has a 6-bit scale and a 6-bit minimum under two f16;
// w = d * sc * nibble - dmin * m. 4.5 bits per weight.
#ifndef RN_QUANT_Q4_K_H
#define RN_QUANT_Q4_K_H

#include <stdint.h>

#include "quant/encode.h"
#include "quant/k_scales.h"

struct __attribute__((packed)) q4_k_block {
    uint16_t d, dmin;   // f16
    uint8_t scales[12]; // see k_scales.h
    uint8_t qs[128];    // byte 32 g + i: element i of span 2 g low, of span 2 g + 1 high
};
_Static_assert(sizeof(struct q4_k_block) == 144, "as in the file");

static inline void q4_k_unpack(const void *src, int8_t *q, float *scale, float *offset) {
    const struct q4_k_block *block = src;
    for (int span = 0; span < 8; span++) {
        const uint8_t *bytes = block->qs + span / 2 * 32;
        const int shift = span % 2 * 4;
        for (int i = 0; i < 32; i++) q[span * 32 + i] = (int8_t)(bytes[i] >> shift & 15);
    }
    k_scales_unpack(block->d, block->dmin, block->scales, scale, offset);
}

static inline void q4_k_encode(const float *src, void *dst) {
    struct q4_k_block *block = dst;
    struct encode_k k;
    encode_k_block(src, 15, &k);
    block->d = k.d, block->dmin = k.dmin;
    k_scales_put(k.sc, k.m, block->scales);
    for (int i = 0; i < 128; i++) {
        const uint8_t *pair = k.level + i / 32 * 64 + i % 32;
        block->qs[i] = (uint8_t)(pair[0] | pair[32] << 4);
    }
}

#endif
