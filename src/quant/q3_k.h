// Q3_K: 256 values of 3 bits in 16 spans of 16; a span has a 6-bit scale under one f16;
// w = d * (sc - 32) * (value - 4). 3.4375 bits per weight.
#ifndef RN_QUANT_Q3_K_H
#define RN_QUANT_Q3_K_H

#include <stdint.h>

#include "base/half.h"

struct __attribute__((packed)) q3_k_block {
    uint8_t hmask[32]; // byte i, bit e: the third bit of element i of the e-th 32
    // Per half of 128 elements, in quarters of 32: byte i holds the low 2 bits of element i of
    // quarters 0 to 3, lowest first.
    uint8_t qs[64];
    uint8_t scales[12]; // see q3_k_scale
    uint16_t d;         // f16
};
_Static_assert(sizeof(struct q3_k_block) == 110, "as in the file");

// Low 4 bits: spans 0 to 7 in the low nibbles of bytes 0 to 7, spans 8 to 15 in the high ones. High
// 2 bits: bytes 8 to 11 hold those of spans i, i + 4, i + 8 and i + 12, lowest first.
static inline int q3_k_scale(const uint8_t scales[12], int span) {
    const int low = scales[span % 8] >> (span / 8 * 4) & 15;
    const int high = scales[8 + span % 4] >> (span / 4 * 2) & 3;
    return (low | high << 4) - 32;
}

static inline void q3_k_unpack(const void *src, int8_t *q, float *scale, float *offset) {
    const struct q3_k_block *block = src;
    (void)offset;
    for (int part = 0; part < 8; part++) { // halves of 4 quarters
        const uint8_t *bytes = block->qs + part / 4 * 32;
        for (int i = 0; i < 32; i++) {
            const int low = bytes[i] >> (part % 4 * 2) & 3, high = block->hmask[i] >> part & 1;
            q[part * 32 + i] = (int8_t)((low | high << 2) - 4);
        }
    }
    const float d = f16_to_f32(block->d);
    for (int span = 0; span < 16; span++) {
        scale[span] = d * (float)q3_k_scale(block->scales, span);
    }
}

#endif
