// Q4_1: 32 nibbles under an f16 scale and an f16 minimum; w = d * nibble + m. 5 bits per weight.
#ifndef RN_QUANT_Q4_1_H
#define RN_QUANT_Q4_1_H

#include <stdint.h>

#include "base/half.h"
#include "quant/encode.h"

struct __attribute__((packed)) q4_1_block {
    uint16_t d, m;  // f16
    uint8_t qs[16]; // byte i: element i in the low nibble, element i + 16 in the high one
};
_Static_assert(sizeof(struct q4_1_block) == 20, "as in the file");

static inline void q4_1_unpack(const void *src, int8_t *q, float *scale, float *offset) {
    const struct q4_1_block *block = src;
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)(block->qs[i] & 15);
        q[i + 16] = (int8_t)(block->qs[i] >> 4);
    }
    scale[0] = f16_to_f32(block->d);
    offset[0] = f16_to_f32(block->m);
}

static inline void q4_1_encode(const float *src, void *dst) {
    struct q4_1_block *block = dst;
    struct encode_affine affine;
    encode_affine_block(src, 15, &affine);
    block->d = affine.d, block->m = affine.m;
    for (int i = 0; i < 16; i++) {
        block->qs[i] = (uint8_t)(affine.level[i] | affine.level[i + 16] << 4);
    }
}

#endif
