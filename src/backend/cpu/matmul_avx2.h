// What the AVX2 matmul kernels share: loads, the float operations after a dot product, the end of a
// product. A group of 16 rows is two registers. Included by matmul_avx2.c and matmul_generic_avx2.c
// only.
#ifndef RN_BACKEND_CPU_MATMUL_AVX2_H
#define RN_BACKEND_CPU_MATMUL_AVX2_H

#include "backend/cpu/matmul_tile.h"

// 16 registers are few: unrolled, gcc keeps every broadcast and partial sum at once, and spills.
#define ROLLED _Pragma("GCC unroll 1")

enum { TILE_MAX = 4, HALVES = 2, HALF_ROWS = 8 };

INLINE __m256i load(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)p); }

// Four bytes in every lane: a quad of xq, or the sums of the halves of a block.
INLINE __m256i broadcast4(const void *p) { return _mm256_set1_epi32(word_at(p)); }

// Adds pairs of 16 bits into lanes of 32.
INLINE __m256i widen(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

static __attribute__((noinline)) void rows_store(const struct matmul_args *args, __m256 low,
                                                 __m256 high, int64_t row, int token) {
    float acc[MATMUL_GROUP];
    _mm256_storeu_ps(acc, low);
    _mm256_storeu_ps(acc + HALF_ROWS, high);
    const int64_t left = args->rows - row, rows = left < MATMUL_GROUP ? left : MATMUL_GROUP;
    float *out = args->y + token * args->ldy + row;
    for (int64_t i = 0; i < rows; i++) {
        float y = acc[i];
        if (args->scale != 1.0f) y = y * args->scale;
        if (args->bias) y = y + args->bias[row + i];
        out[i] = args->add ? out[i] + y : y;
    }
}

INLINE void tile_clear(__m256 acc[HALVES][TILE_MAX], const int n) {
    for (int h = 0; h < HALVES; h++) {
        UNROLL for (int j = 0; j < n; j++) acc[h][j] = _mm256_setzero_ps();
    }
}

INLINE void tile_store(const struct matmul_args *args, __m256 acc[HALVES][TILE_MAX], int64_t row,
                       int token, const int n) {
    UNROLL for (int j = 0; j < n; j++) rows_store(args, acc[0][j], acc[1][j], row, token + j);
}

// acc = fmaf((float)dot, scale * d, acc)
INLINE __m256 accumulate(__m256 acc, __m256i dot, __m256 scale, const float *d) {
    const __m256 product = _mm256_mul_ps(scale, _mm256_set1_ps(*d));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), product, acc);
}

#endif
