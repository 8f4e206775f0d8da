// IQ4_NL: 32 nibbles that number 16 uneven levels, under one f16 scale; w = d * level[nibble]. 4.5
// bits per weight.
#ifndef RN_QUANT_IQ4_NL_H
#define RN_QUANT_IQ4_NL_H

#include <stdint.h>

#include "base/half.h"

// Also IQ4_XS's.
static const int8_t iq4_nl_level[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};

struct __attribute__((packed)) iq4_nl_block {
    uint16_t d;     // f16
    uint8_t qs[16]; // byte i: element i in the low nibble, element i + 16 in the high one
};
_Static_assert(sizeof(struct iq4_nl_block) == 18, "as in the file");

static inline void iq4_nl_unpack(const void *src, int8_t *q, float *scale, float *offset) {
    const struct iq4_nl_block *block = src;
    (void)offset;
    for (int i = 0; i < 16; i++) {
        q[i] = iq4_nl_level[block->qs[i] & 15];
        q[i + 16] = iq4_nl_level[block->qs[i] >> 4];
    }
    scale[0] = f16_to_f32(block->d);
}

#endif
