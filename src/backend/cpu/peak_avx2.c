// The arithmetic peak with AVX2: maddubs, madd and add are 32 multiply-adds of bytes, a float
// FMA 8. The sum is itself an operand of its product, or the compiler would take the product out of
// the loop.
#if defined(__AVX2__)
#include <immintrin.h>

#include "backend/cpu/peak.h"

static uint64_t int8_run(int64_t n_rounds) {
    __m256i sum[PEAK_CHAINS];
    const __m256i u = _mm256_set1_epi8(3), ones = _mm256_set1_epi16(1);
    for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = _mm256_set1_epi32(i + 1);
    for (int64_t n = 0; n < n_rounds; n++) {
#pragma GCC unroll 12
        for (int i = 0; i < PEAK_CHAINS; i++) {
            const __m256i pairs = _mm256_maddubs_epi16(u, sum[i]);
            sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(pairs, ones));
        }
    }
    __m256i all = sum[0];
    for (int i = 1; i < PEAK_CHAINS; i++) all = _mm256_xor_si256(all, sum[i]);
    return (uint64_t)_mm256_extract_epi64(all, 0) ^ (uint64_t)_mm256_extract_epi64(all, 3);
}

static uint64_t f32_run(int64_t n_rounds) {
    __m256 sum[PEAK_CHAINS];
    const __m256 half = _mm256_set1_ps(0.5f), one = _mm256_set1_ps(1);
    for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = _mm256_set1_ps((float)i);
    for (int64_t n = 0; n < n_rounds; n++) {
#pragma GCC unroll 12
        for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = _mm256_fmadd_ps(sum[i], half, one);
    }
    __m256 all = sum[0];
    for (int i = 1; i < PEAK_CHAINS; i++) all = _mm256_add_ps(all, sum[i]);
    return (uint64_t)_mm256_cvtss_f32(all);
}

const struct peak_loop peak_avx2_int8 = {int8_run, PEAK_CHAINS * 32};
const struct peak_loop peak_avx2_f32 = {f32_run, PEAK_CHAINS * 8};
#else
typedef int peak_avx2_unused; // another architecture
#endif
