// Q8_0: 32 int8 under one f16 scale; w = d * q. 8.5 bits per weight.
#ifndef RN_QUANT_Q8_0_H
#define RN_QUANT_Q8_0_H

#include <stdint.h>
#include <string.h>

#include "base/half.h"
#include "quant/encode.h"

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

// With this many levels the obvious scale is as good as any: no search.
static inline void q8_0_encode(const float *src, void *dst) {
    struct q8_0_block *block = dst;
    struct encode_span span;
    uint8_t level[32];
    encode_span_load(src, 32, &span);
    float amax = 0.0f;
    for (int i = 0; i < 32; i++) {
        const float magnitude = span.x[i] < 0.0f ? -span.x[i] : span.x[i];
        amax = magnitude > amax ? magnitude : amax;
    }
    block->d = encode_f16(amax / 127.0f);
    encode_levels(&span, f16_to_f32(block->d), 0.0f, -127, 127, level);
    for (int i = 0; i < 32; i++) block->q[i] = (int8_t)(level[i] - 127);
}

#endif
