// The 12 bytes that hold 8 scales and 8 minima of 6 bits in Q4_K and Q5_K. Spans 0 to 3 have their
// 6 bits in bytes 0 to 3 (scales) and 4 to 7 (minima). Spans 4 to 7 have their low 4 bits in the
// nibbles of bytes 8 to 11 (minima high), and their high 2 bits on top of bytes 0 to 7.
#ifndef RN_QUANT_K_SCALES_H
#define RN_QUANT_K_SCALES_H

#include <stdint.h>

#include "base/half.h"

static inline void k_scales_get(const uint8_t scales[12], int span, uint8_t *sc, uint8_t *m) {
    if (span < 4) {
        *sc = scales[span] & 63;
        *m = scales[span + 4] & 63;
    } else {
        *sc = (uint8_t)((scales[span + 4] & 15) | (scales[span - 4] >> 6 << 4));
        *m = (uint8_t)((scales[span + 4] >> 4) | (scales[span] >> 6 << 4));
    }
}

static inline void k_scales_put(const uint8_t sc[8], const uint8_t m[8], uint8_t scales[12]) {
    for (int i = 0; i < 4; i++) {
        scales[i] = (uint8_t)(sc[i] | sc[i + 4] >> 4 << 6);
        scales[i + 4] = (uint8_t)(m[i] | m[i + 4] >> 4 << 6);
        scales[i + 8] = (uint8_t)((sc[i + 4] & 15) | (m[i + 4] & 15) << 4);
    }
}

// The floats of all 8 spans: w = d * sc * value - dmin * m.
static inline void k_scales_unpack(uint16_t d_bits, uint16_t dmin_bits, const uint8_t scales[12],
                                   float scale[8], float offset[8]) {
    const float d = f16_to_f32(d_bits), dmin = f16_to_f32(dmin_bits);
    for (int span = 0; span < 8; span++) {
        uint8_t sc, m;
        k_scales_get(scales, span, &sc, &m);
        scale[span] = d * (float)sc;
        offset[span] = -(dmin * (float)m);
    }
}

#endif
