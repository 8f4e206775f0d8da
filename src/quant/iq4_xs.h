// IQ4_XS: 256 nibbles that number IQ4_NL's levels, in 8 spans of 32; a span has a 6-bit scale under
// one f16; w = d * (sc - 32) * level[nibble]. 4.25 bits per weight.
#ifndef RN_QUANT_IQ4_XS_H
#define RN_QUANT_IQ4_XS_H

#include <stdint.h>

#include "base/half.h"
#include "quant/iq4_nl.h"

struct __attribute__((packed)) iq4_xs_block {
    uint16_t d;          // f16
    uint16_t scales_h;   // high 2 bits of the 8 scales, span 0 lowest
    uint8_t scales_l[4]; // low 4 bits; byte i: span 2 i in the low nibble, 2 i + 1 in the high one
    uint8_t qs[128];     // byte 16 s + i: element i of span s low, element i + 16 high
};
_Static_assert(sizeof(struct iq4_xs_block) == 136, "as in the file");

static inline void iq4_xs_unpack(const void *src, int8_t *q, float *scale, float *offset) {
    const struct iq4_xs_block *block = src;
    (void)offset;
    const float d = f16_to_f32(block->d);
    for (int span = 0; span < 8; span++) {
        for (int i = 0; i < 16; i++) {
            const uint8_t byte = block->qs[span * 16 + i];
            q[span * 32 + i] = iq4_nl_level[byte & 15];
            q[span * 32 + i + 16] = iq4_nl_level[byte >> 4];
        }
        const int low = block->scales_l[span / 2] >> (span % 2 * 4) & 15;
        const int high = block->scales_h >> (span * 2) & 3;
        scale[span] = d * (float)((low | high << 4) - 32);
    }
}

#endif
