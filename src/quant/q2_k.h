// Q2_K: 256 values of 2 bits in 16 spans of 16; a span has a 4-bit scale and a 4-bit minimum under
// two f16; w = d * sc * value - dmin * m. 2.625 bits per weight.
#ifndef RN_QUANT_Q2_K_H
#define RN_QUANT_Q2_K_H

#include <stdint.h>

#include "base/half.h"

struct __attribute__((packed)) q2_k_block {
    uint8_t scales[16]; // byte i: scale of span i in the low nibble, its minimum in the high one
    // Per half of 128 elements, in quarters of 32: byte i holds element i of quarters 0 to 3,
    // lowest first.
    uint8_t qs[64];
    uint16_t d, dmin; // f16
};
_Static_assert(sizeof(struct q2_k_block) == 84, "as in the file");

static inline void q2_k_unpack(const void *src, int8_t *q, float *scale, float *offset) {
    const struct q2_k_block *block = src;
    for (int part = 0; part < 8; part++) { // halves of 4 quarters
        const uint8_t *bytes = block->qs + part / 4 * 32;
        const int shift = part % 4 * 2;
        for (int i = 0; i < 32; i++) q[part * 32 + i] = (int8_t)(bytes[i] >> shift & 3);
    }
    const float d = f16_to_f32(block->d), dmin = f16_to_f32(block->dmin);
    for (int span = 0; span < 16; span++) {
        scale[span] = d * (float)(block->scales[span] & 15);
        offset[span] = -(dmin * (float)(block->scales[span] >> 4));
    }
}

#endif
