// The arithmetic peak with AVX-VNNI: vpdpbusd on 256 bits does 32 multiply-adds. Floats are AVX2's.
#if defined(__AVXVNNI__)
#include <immintrin.h>

#include "backend/cpu/peak.h"

static uint64_t int8_run(int64_t n_rounds) {
    __m256i sum[PEAK_CHAINS];
    const __m256i u = _mm256_set1_epi8(3), s = _mm256_set1_epi8(5);
    for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = _mm256_set1_epi32(i);
    for (int64_t n = 0; n < n_rounds; n++) {
#pragma GCC unroll 12
        for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = _mm256_dpbusd_avx_epi32(sum[i], u, s);
    }
    __m256i all = sum[0];
    for (int i = 1; i < PEAK_CHAINS; i++) all = _mm256_xor_si256(all, sum[i]);
    return (uint64_t)_mm256_extract_epi64(all, 0) ^ (uint64_t)_mm256_extract_epi64(all, 3);
}

const struct peak_loop peak_avxvnni_int8 = {int8_run, PEAK_CHAINS * 32};
#else
typedef int peak_avxvnni_unused; // another architecture
#endif
