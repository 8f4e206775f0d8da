// The arithmetic peak with AVX-512-VNNI: vpdpbusd does 64 multiply-adds. Floats are those of
// peak_avx512bw.c.
#if defined(__AVX512VNNI__)
#include <immintrin.h>

#include "backend/cpu/peak.h"

static uint64_t int8_run(int64_t n_rounds) {
    __m512i sum[PEAK_CHAINS];
    const __m512i u = _mm512_set1_epi8(3), s = _mm512_set1_epi8(5);
    for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = _mm512_set1_epi32(i); // different, so none is
    for (int64_t n = 0; n < n_rounds; n++) {                             // computed for another
#pragma GCC unroll 12
        for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = _mm512_dpbusd_epi32(sum[i], u, s);
    }
    __m512i all = sum[0];
    for (int i = 1; i < PEAK_CHAINS; i++) all = _mm512_xor_si512(all, sum[i]);
    return (uint64_t)_mm512_reduce_add_epi64(all);
}

const struct peak_loop peak_avx512_int8 = {int8_run, PEAK_CHAINS * 64};
#else
typedef int peak_avx512_unused; // another architecture
#endif
