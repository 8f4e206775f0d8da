// Q4_0: 32 nibbles under one f16 scale; w = d * (nibble - 8). 4.5 bits per weight.
#ifndef RN_QUANT_Q4_0_H
#define RN_QUANT_Q4_0_H

#include <stdint.h>

#include "base/half.h"
#include "quant/encode.h"

struct __attribute__((packed)) q4_0_block {
    uint16_t d;     // f16
    uint8_t qs[16]; // byte i: element i in the low nibble, element i + 16 in the high one
};
_Static_assert(sizeof(struct q4_0_block) == 18, "as in the file");

static inline void q4_0_unpack(const void *src, int8_t *q, float *scale, float *offset) {
    const struct q4_0_block *block = src;
    (void)offset;
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)((block->qs[i] & 15) - 8);
        q[i + 16] = (int8_t)((block->qs[i] >> 4) - 8);
    }
    scale[0] = f16_to_f32(block->d);
}

static inline void q4_0_encode(const float *src, void *dst) {
    struct q4_0_block *block = dst;
    uint8_t level[32];
    block->d = encode_symmetric_block(src, 8, level);
    for (int i = 0; i < 16; i++) block->qs[i] = (uint8_t)(level[i] | level[i + 16] << 4);
}

#endif
