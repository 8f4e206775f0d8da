// MXFP4: 32 floats of 4 bits (sign, 2 of exponent, 1 of mantissa) under a power of two, as in the
// OCP microscaling formats; w = 2^(e - 127) * value. 4.25 bits per weight. The values are halves,
// so q is twice the value and the scale 2^(e - 128). An e of 255 is one more power of two here, as
// in the files' other readers, not a NaN.
#ifndef RN_QUANT_MXFP4_H
#define RN_QUANT_MXFP4_H

#include <stdint.h>

#include "base/half.h"

static const int8_t mxfp4_level[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

struct __attribute__((packed)) mxfp4_block {
    uint8_t e;
    uint8_t qs[16]; // byte i: element i in the low nibble, element i + 16 in the high one
};
_Static_assert(sizeof(struct mxfp4_block) == 17, "as in the file");

// 2^(e - 128); e = 0 and 1 are denormal.
static inline float mxfp4_scale(uint8_t e) {
    return f32_from_bits(e < 2 ? 0x200000u << e : (uint32_t)(e - 1) << 23);
}

static inline void mxfp4_unpack(const void *src, int8_t *q, float *scale, float *offset) {
    const struct mxfp4_block *block = src;
    (void)offset;
    for (int i = 0; i < 16; i++) {
        q[i] = mxfp4_level[block->qs[i] & 15];
        q[i + 16] = mxfp4_level[block->qs[i] >> 4];
    }
    scale[0] = mxfp4_scale(block->e);
}

#endif
