// The arithmetic peak with NEON: sdot does 16 multiply-adds, a float FMA 4. Two rounds' worth of
// chains, because cores with four units need more of them.
#if defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>

#include "backend/cpu/peak.h"

enum { CHAINS = 2 * PEAK_CHAINS };

static uint64_t int8_run(int64_t n_rounds) {
    int32x4_t sum[CHAINS];
    const int8x16_t a = vdupq_n_s8(3), b = vdupq_n_s8(5);
    for (int i = 0; i < CHAINS; i++) sum[i] = vdupq_n_s32(i);
    for (int64_t n = 0; n < n_rounds; n++) {
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++) sum[i] = vdotq_s32(sum[i], a, b);
    }
    int32x4_t all = sum[0];
    for (int i = 1; i < CHAINS; i++) all = veorq_s32(all, sum[i]);
    return (uint64_t)vaddvq_s32(all);
}

static uint64_t f32_run(int64_t n_rounds) {
    float32x4_t sum[CHAINS];
    const float32x4_t one = vdupq_n_f32(1), small = vdupq_n_f32(1.0f / (1 << 20));
    for (int i = 0; i < CHAINS; i++) sum[i] = vdupq_n_f32((float)i);
    for (int64_t n = 0; n < n_rounds; n++) {
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++) sum[i] = vfmaq_f32(sum[i], one, small);
    }
    float32x4_t all = sum[0];
    for (int i = 1; i < CHAINS; i++) all = vaddq_f32(all, sum[i]);
    return (uint64_t)vaddvq_f32(all);
}

const struct peak_loop peak_neon_int8 = {int8_run, CHAINS * 16};
const struct peak_loop peak_neon_f32 = {f32_run, CHAINS * 4};
#else
typedef int peak_neon_unused; // another architecture
#endif
