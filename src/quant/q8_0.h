// Q8_0: 32 int8 under one f16 scale; w = d * q. 8.5 bits per weight.
#ifndef RN_QUANT_Q8_0_H
#define RN_QUANT_Q8_0_H

#include <stdint.h>
#include <string.h>

#include "base/half.h"

struct __attribute__((packed)) q8_0_block {
    uint16_t d; // f16
    int8_t q[32];
};
_Static_assert(sizeof(struct q8_0_block) == 34, "as in the file");

static inline void q8_0_unpack(const void *src, int8_t *q, float *scale, float *offset) {
    const struct q8_0_block *block = src;
    (void)offset;
    memcpy(q, block->q, sizeof block->q);
    scale[0] = f16_to_f32(block->d);
}

#endif
