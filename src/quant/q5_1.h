// Q5_1: 32 values of 5 bits under an f16 scale and an f16 minimum; w = d * value + m. 6 bits per
// weight.
#ifndef RN_QUANT_Q5_1_H
#define RN_QUANT_Q5_1_H

#include <stdint.h>

#include "base/half.h"
#include "quant/encode.h"
#include "quant/five_bits.h"

struct __attribute__((packed)) q5_1_block {
    uint16_t d, m;    // f16
    uint8_t bits[20]; // see five_bits.h
};
_Static_assert(sizeof(struct q5_1_block) == 24, "as in the file");

static inline void q5_1_unpack(const void *src, int8_t *q, float *scale, float *offset) {
    const struct q5_1_block *block = src;
    five_bits_get(block->bits, q);
    scale[0] = f16_to_f32(block->d);
    offset[0] = f16_to_f32(block->m);
}

static inline void q5_1_encode(const float *src, void *dst) {
    struct q5_1_block *block = dst;
    struct encode_affine affine;
    encode_affine_block(src, 31, &affine);
    block->d = affine.d, block->m = affine.m;
    five_bits_put(affine.level, block->bits);
}

#endif
