// The plain float formats: F32, F16 and BF16, little-endian, at any address.
#ifndef RN_QUANT_FLOATS_H
#define RN_QUANT_FLOATS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"

static inline void f32_row(const void *src, float *dst, int64_t n) {
    memcpy(dst, src, (size_t)n * sizeof *dst);
}

static inline void f16_row(const void *src, float *dst, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, (const char *)src + i * 2, sizeof bits);
        dst[i] = f16_to_f32(bits);
    }
}

static inline void bf16_row(const void *src, float *dst, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, (const char *)src + i * 2, sizeof bits);
        dst[i] = bf16_to_f32(bits);
    }
}

// One element. NaN and infinities stay; a finite value never becomes infinite.

static inline void f32_encode(const float *src, void *dst) { memcpy(dst, src, sizeof *src); }

static inline void f16_encode(const float *src, void *dst) {
    uint16_t bits = f32_to_f16(*src);
    if ((bits & 0x7fffu) == 0x7c00u && !isinf(*src)) bits--;
    memcpy(dst, &bits, sizeof bits);
}

static inline void bf16_encode(const float *src, void *dst) {
    uint16_t bits = f32_to_bf16(*src);
    if ((bits & 0x7fffu) == 0x7f80u && !isinf(*src)) bits--;
    memcpy(dst, &bits, sizeof bits);
}

#endif
