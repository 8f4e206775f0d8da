// What the AVX-512 matmul kernels share: loads, the exact dot product of a span, the float
// operations after it, the end of a product. Included by matmul_avx512.c and
// matmul_generic_avx512.c only.
#ifndef RN_BACKEND_CPU_MATMUL_AVX512_H
#define RN_BACKEND_CPU_MATMUL_AVX512_H

#include "backend/cpu/matmul_tile.h"

enum { TILE_MAX = 8 };

INLINE __m512i load(const uint8_t *p) { return _mm512_loadu_si512(p); }

// Four bytes in every lane: a quad of xq, or the sums of the halves of a block.
INLINE __m512i broadcast4(const void *p) { return _mm512_set1_epi32(word_at(p)); }

static __attribute__((noinline)) void rows_store(const struct matmul_args *args, __m512 y,
                                                 int64_t row, int token) {
    const int64_t left = args->rows - row;
    const __mmask16 mask = left >= MATMUL_GROUP ? 0xffff : (__mmask16)((1u << left) - 1);
    float *out = args->y + token * args->ldy + row;
    if (args->scale != 1.0f) y = _mm512_mul_ps(y, _mm512_set1_ps(args->scale));
    if (args->bias) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, args->bias + row));
    if (args->add) y = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, out), y);
    _mm512_mask_storeu_ps(out, mask, y);
}

// start + the dot product of 4 * quads columns.
INLINE __m512i dot(__m512i start, const __m512i *q, const int8_t *x, const int quads) {
    for (int i = 0; i < quads; i++) start = _mm512_dpbusd_epi32(start, q[i], broadcast4(x + 4 * i));
    return start;
}

// acc = fmaf((float)dot, scale * d, acc)
INLINE __m512 accumulate(__m512 acc, __m512i integer, __m512 scale, const float *d) {
    const __m512 product = _mm512_mul_ps(scale, _mm512_set1_ps(*d));
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(integer), product, acc);
}

#endif
