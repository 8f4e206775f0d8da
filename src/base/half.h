// f16 and bf16 in software, bit for bit what the hardware instructions give (round to nearest even,
// denormals kept).
#ifndef RN_BASE_HALF_H
#define RN_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float f32_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t f32_to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float f16_to_f32(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 0x1fu, mantissa = h & 0x3ffu;
    if (exponent == 0) { // zero or denormal: the value is mantissa * 2^-24, exact in f32
        const float magnitude = (float)mantissa * 0x1p-24f;
        return f32_from_bits(sign | f32_to_bits(magnitude));
    }
    if (exponent == 31) { // infinity, or a NaN made quiet as the hardware does
        return f32_from_bits(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0));
    }
    return f32_from_bits(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

static inline uint16_t f32_to_f16(float value) {
    const uint32_t bits = f32_to_bits(value);
    const uint16_t sign = (uint16_t)((bits >> 16) & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u; // 65520 and more round to infinity
    if (magnitude < 0x38800000u) { // below 2^-14: add 0.5, whose last bit is 2^-24
        const float shifted = f32_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (uint16_t)(f32_to_bits(shifted) - 0x3f000000u));
    }
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | (uint16_t)((rounded - 0x38000000u) >> 13));
}

static inline float bf16_to_f32(uint16_t b) { return f32_from_bits((uint32_t)b << 16); }

static inline uint16_t f32_to_bf16(float value) {
    const uint32_t bits = f32_to_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#endif
