// The arithmetic peak with AVX-512 without VNNI. The best way to multiply bytes is that of the
// codes of 4 bits: sums of 8 vpmaddubsw fit in 16 bits, and one vpmaddwd widens them
// (matmul_avx512bw.h). A float FMA is 16 multiply-adds. As in peak_avx2.c no product may leave the
// loop.
#if defined(__AVX512BW__)
#include <immintrin.h>

#include "backend/cpu/peak.h"

enum { FIT = 8 }; // products of a sum in 16 bits

static uint64_t int8_run(int64_t n_rounds) {
    __m512i sum[PEAK_CHAINS], pairs[PEAK_CHAINS];
    __m512i u = _mm512_set1_epi8(3), ones = _mm512_set1_epi16(1);
    for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = _mm512_set1_epi32(i + 1);
    for (int64_t n = 0; n < n_rounds; n++) {
#pragma GCC unroll 8
        for (int k = 0; k < FIT; k++) {
#pragma GCC unroll 12
            for (int i = 0; i < PEAK_CHAINS; i++) {
                __asm__("" : "+v"(u));
                const __m512i more = _mm512_maddubs_epi16(u, u);
                pairs[i] = k == 0 ? more : _mm512_add_epi16(pairs[i], more);
                __asm__("" : "+v"(pairs[i])); // in this order
            }
        }
#pragma GCC unroll 12
        for (int i = 0; i < PEAK_CHAINS; i++)
            sum[i] = _mm512_add_epi32(sum[i], _mm512_madd_epi16(pairs[i], ones));
    }
    __m512i all = sum[0];
    for (int i = 1; i < PEAK_CHAINS; i++) all = _mm512_xor_si512(all, sum[i]);
    return (uint64_t)_mm512_reduce_add_epi64(all);
}

static uint64_t f32_run(int64_t n_rounds) {
    __m512 sum[PEAK_CHAINS];
    const __m512 half = _mm512_set1_ps(0.5f), one = _mm512_set1_ps(1);
    for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = _mm512_set1_ps((float)i);
    for (int64_t n = 0; n < n_rounds; n++) {
#pragma GCC unroll 12
        for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = _mm512_fmadd_ps(sum[i], half, one);
    }
    __m512 all = sum[0];
    for (int i = 1; i < PEAK_CHAINS; i++) all = _mm512_add_ps(all, sum[i]);
    return (uint64_t)_mm512_reduce_add_ps(all);
}

const struct peak_loop peak_avx512bw_int8 = {int8_run, PEAK_CHAINS *FIT * 64};
const struct peak_loop peak_avx512bw_f32 = {f32_run, PEAK_CHAINS * 16};
#else
typedef int peak_avx512bw_unused; // another architecture
#endif
