// The noise of the choice, standard Gumbel, as a function of (seed, choice, position, token), and
// the weight of a logit, also in units. Every backend gives the same bits.
#ifndef RN_PLAN_NOISE_H
#define RN_PLAN_NOISE_H

#include <stdint.h>
#include <string.h>

#include "base/rmath.h"

#define NOISE_GOLDEN UINT64_C(0x9e3779b97f4a7c15)

// splitmix64's finalizer: a bijection in which every input bit moves every output bit.
static inline uint64_t noise_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t noise_key(uint64_t seed, uint32_t choice, uint32_t position) {
    return noise_mix(noise_mix(seed + NOISE_GOLDEN) ^
                     (((uint64_t)choice << 32 | position) * NOISE_GOLDEN + NOISE_GOLDEN));
}

// 53 random bits; all that a token's noise comes from.
static inline uint64_t noise_bits(uint64_t key, uint32_t token) {
    return noise_mix(key + (uint64_t)token * NOISE_GOLDEN) >> 11;
}

// Uniform in (0, 1).
static inline double noise_uniform(uint64_t bits) { return ((double)bits + 0.5) * 0x1p-53; }

// XTC's draw, uniform in (0, 1): from the bits of an id that no token has.
static inline double noise_xtc(uint64_t key) { return noise_uniform(noise_bits(key, UINT32_MAX)); }

static inline float noise_gumbel(double uniform) { return (float)-rmath_log(-rmath_log(uniform)); }

// exp(x) for x <= 0, relative error below 1e-6, of multiplications and additions alone: the same
// everywhere, and as many at a time as a vector holds. 2^(k + f), f in [-1/2, 1/2] by its Taylor
// series.
static inline float weight_of(float x) {
    const float y = x * 1.44269504f;
    const float bounded = y > -126.0f ? y : -126.0f;
    const int32_t k = (int32_t)(bounded - 0.5f);
    const float f = bounded - (float)k;
    float p = 1.5403530e-4f;
    p = p * f + 1.3333558e-3f;
    p = p * f + 9.6181291e-3f;
    p = p * f + 5.5504109e-2f;
    p = p * f + 2.4022651e-1f;
    p = p * f + 6.9314718e-1f;
    p = p * f + 1.0f;
    const uint32_t bits = (uint32_t)(k + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return y > -126.0f ? p * power : 0.0f;
}

// A weight in sums of weights: units of 2^-30, rounded down. Sums of integers do not depend on
// their order.
#define WEIGHT_ONE 0x1p30f
static inline uint32_t weight_units(float weight) { return (uint32_t)(weight * WEIGHT_ONE); }

#endif
