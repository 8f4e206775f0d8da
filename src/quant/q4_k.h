// Q4_K: 256 nibbles in 8 spans of 32; a span has a 6-bit scale and a 6-bit minimum under two f16;
// w = d * sc * nibble - dmin * m. 4.5 bits per weight.
#ifndef RN_QUANT_Q4_K_H
#define RN_QUANT_Q4_K_H

#include <stdint.h>

#include "base/half.h"

struct __attribute__((packed)) q4_k_block {
    uint16_t d, dmin;   // f16
    uint8_t scales[12]; // 8 scales and 8 minima of 6 bits, see q4_k_scale
    uint8_t qs[128];    // byte 32 g + i: element i of span 2 g low, of span 2 g + 1 high
};
_Static_assert(sizeof(struct q4_k_block) == 144, "as in the file");

// Spans 0 to 3 have their 6 bits in bytes 0 to 3 (scales) and 4 to 7 (minima). Spans 4 to 7 have
// their low 4 bits in the nibbles of bytes 8 to 11, and their high 2 bits on top of bytes 0 to 7.
static inline void q4_k_scale(const uint8_t scales[12], int span, uint8_t *sc, uint8_t *m) {
    if (span < 4) {
        *sc = scales[span] & 63;
        *m = scales[span + 4] & 63;
    } else {
        *sc = (uint8_t)((scales[span + 4] & 15) | (scales[span - 4] >> 6 << 4));
        *m = (uint8_t)((scales[span + 4] >> 4) | (scales[span] >> 6 << 4));
    }
}

static inline void q4_k_unpack(const void *src, int8_t *q, float *scale, float *offset) {
    const struct q4_k_block *block = src;
    const float d = f16_to_f32(block->d), dmin = f16_to_f32(block->dmin);
    for (int span = 0; span < 8; span++) {
        const uint8_t *bytes = block->qs + span / 2 * 32;
        const int shift = span % 2 * 4;
        for (int i = 0; i < 32; i++) q[span * 32 + i] = (int8_t)(bytes[i] >> shift & 15);
        uint8_t sc, m;
        q4_k_scale(block->scales, span, &sc, &m);
        scale[span] = d * (float)sc;
        offset[span] = -(dmin * (float)m);
    }
}

#endif
