// The arithmetic peak with AVX2. The best way to multiply bytes is that of the codes of 4 bits:
// sums of 8 vpmaddubsw fit in 16 bits, and one vpmaddwd widens them (matmul_avx2.h). A float FMA is
// 8 multiply-adds. No product may leave the loop: an operand is new to the compiler each time, or
// the sum is one.
#if defined(__AVX2__)
#include <immintrin.h>

#include "backend/cpu/peak.h"

enum { INT8_CHAINS = 6, FIT = 8 }; // sums in 32 bits and in 16 fill the registers

static uint64_t int8_run(int64_t n_rounds) {
    __m256i sum[INT8_CHAINS], pairs[INT8_CHAINS];
    __m256i u = _mm256_set1_epi8(3), ones = _mm256_set1_epi16(1);
    for (int i = 0; i < INT8_CHAINS; i++) sum[i] = _mm256_set1_epi32(i + 1);
    for (int64_t n = 0; n < n_rounds; n++) {
#pragma GCC unroll 8
        for (int k = 0; k < FIT; k++) {
#pragma GCC unroll 6
            for (int i = 0; i < INT8_CHAINS; i++) {
                __asm__("" : "+x"(u));
                const __m256i more = _mm256_maddubs_epi16(u, u);
                pairs[i] = k == 0 ? more : _mm256_add_epi16(pairs[i], more);
                __asm__("" : "+x"(pairs[i])); // in this order
            }
        }
#pragma GCC unroll 6
        for (int i = 0; i < INT8_CHAINS; i++)
            sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(pairs[i], ones));
    }
    __m256i all = sum[0];
    for (int i = 1; i < INT8_CHAINS; i++) all = _mm256_xor_si256(all, sum[i]);
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

const struct peak_loop peak_avx2_int8 = {int8_run, INT8_CHAINS *FIT * 32};
const struct peak_loop peak_avx2_f32 = {f32_run, PEAK_CHAINS * 8};
#else
typedef int peak_avx2_unused; // another architecture
#endif
