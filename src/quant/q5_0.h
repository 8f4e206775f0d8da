// Q5_0: 32 values of 5 bits under one f16 scale; w = d * (value - 16). 5.5 bits per weight.
#ifndef RN_QUANT_Q5_0_H
#define RN_QUANT_Q5_0_H

#include <stdint.h>

#include "base/half.h"
#include "quant/encode.h"
#include "quant/five_bits.h"

struct __attribute__((packed)) q5_0_block {
    uint16_t d;       // f16
    uint8_t bits[20]; // see five_bits.h
};
_Static_assert(sizeof(struct q5_0_block) == 22, "as in the file");

static inline void q5_0_unpack(const void *src, int8_t *q, float *scale, float *offset) {
    const struct q5_0_block *block = src;
    (void)offset;
    five_bits_get(block->bits, q);
    for (int i = 0; i < 32; i++) q[i] = (int8_t)(q[i] - 16);
    scale[0] = f16_to_f32(block->d);
}

static inline void q5_0_encode(const float *src, void *dst) {
    struct q5_0_block *block = dst;
    uint8_t level[32];
    block->d = encode_symmetric_block(src, 16, level);
    five_bits_put(level, block->bits);
}

#endif
