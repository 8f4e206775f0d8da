// Shared by the encoders of the block formats: reading a span of floats, and the search for the
// scale and offset that lose least. Included by the formats' headers.
//
// Any float is accepted. NaN becomes 0. An infinity or any value that is too large becomes the
// largest value of the format. So a block never decodes to a NaN or an infinity.
#ifndef RN_QUANT_ENCODE_H
#define RN_QUANT_ENCODE_H

#include <stdint.h>

enum { ENCODE_MAX_SPAN = 32 };

// A span as the encoders see it: every x within +-2^28, none between 0 and 2^-30. The weight of an
// error is the span's root mean square plus the element's magnitude. So large elements, which move
// a product most, are kept best.
struct encode_span {
    int n; // 16 or 32
    float x[ENCODE_MAX_SPAN], weight[ENCODE_MAX_SPAN];
};
void encode_span_load(const float *src, int n, struct encode_span *span);

// A scale as f16: never infinite; where f16 has few bits left (below 2^-14) it is rounded away from
// 0, so that the levels still reach the largest value.
uint16_t encode_f16(float scale);

// The scale (of either sign) for x = scale * q, q in [-half, half - 1]; 0 for a span of zeros.
float encode_symmetric_scale(const struct encode_span *span, int half);

// For x = scale * q + offset, q in [0, top], offset in [min, max], scale >= 0.
void encode_affine_scale(const struct encode_span *span, int top, float min, float max,
                         float *scale, float *offset);

// The weighted squared error of the span when each x becomes its nearest level.
float encode_error(const struct encode_span *span, float scale, float offset, int low, int high);

// level[i] = q - low of the nearest q in [low, high]; where scale is 0, of q = 0.
void encode_levels(const struct encode_span *span, float scale, float offset, int low, int high,
                   uint8_t *level);

// A block of 32 with one scale: level = q + half. Returns the scale's f16.
uint16_t encode_symmetric_block(const float *src, int half, uint8_t level[32]);
// A block of 32 with a scale and an offset, both f16.
struct encode_affine {
    uint16_t d, m;
    uint8_t level[32];
};
void encode_affine_block(const float *src, int top, struct encode_affine *out);
// A block of 256 in 8 spans: x = d * sc * level - dmin * m, sc and m of 6 bits.
struct encode_k {
    uint16_t d, dmin;
    uint8_t sc[8], m[8], level[256];
};
void encode_k_block(const float *src, int top, struct encode_k *out);
// A block of 256 in 16 spans: x = d * sc * (level - 32), sc of 8 bits.
struct encode_k6 {
    uint16_t d;
    int8_t sc[16];
    uint8_t level[256];
};
void encode_k6_block(const float *src, struct encode_k6 *out);

#endif
