// Our own exp, tanh, log, sin, cos and functions of them. They use only fmaf, + - * / and integer
// operations on bit patterns, so every instruction set can perform the identical sequence and give
// identical bits. The constants are named because the SIMD twins (backend/cpu/ops_simd.h) read them
// too.
//
// Errors against the true value: exp and tanh below 2 ulp; log, sin, cos and the exp in double far
// below one f32 ulp.
// Denormal results are kept: nothing here relies on flush-to-zero. A NaN stays a NaN.
#ifndef RN_BASE_RMATH_H
#define RN_BASE_RMATH_H

#include <math.h>

#include <string.h>

#include "base/half.h"

// Below LO the result is exactly +0, above HI infinity; clamping keeps the exponent arithmetic in
// range.
#define RMATH_EXP_LO -105.0f
#define RMATH_EXP_HI 89.0f
#define RMATH_LOG2E  0x1.715476p+0f
#define RMATH_LN2_HI 0x1.62e430p-1f
#define RMATH_LN2_LO -0x1.05c610p-29f
#define RMATH_MAGIC  0x1.8p23f // adding it rounds to an integer, which the low bits then hold
#define RMATH_EXP_C2 0x1.000000p-1f
#define RMATH_EXP_C3 0x1.5554dcp-3f
#define RMATH_EXP_C4 0x1.55551ap-5f
#define RMATH_EXP_C5 0x1.120b6ep-7f
#define RMATH_EXP_C6 0x1.6d110ap-10f

// exp(x) = 2^n * exp(r), n = rint(x / ln 2). 2^n is applied as two factors, so that the product
// rounds once and results in the denormal range are those of a single scaling.
static inline float rmath_exp(float x) {
    x = x < RMATH_EXP_LO ? RMATH_EXP_LO : x;
    x = x > RMATH_EXP_HI ? RMATH_EXP_HI : x;
    const float z = fmaf(x, RMATH_LOG2E, RMATH_MAGIC);
    const float n = z - RMATH_MAGIC;
    float r = fmaf(n, -RMATH_LN2_HI, x);
    r = fmaf(n, -RMATH_LN2_LO, r);
    float p = RMATH_EXP_C6;
    p = fmaf(p, r, RMATH_EXP_C5);
    p = fmaf(p, r, RMATH_EXP_C4);
    p = fmaf(p, r, RMATH_EXP_C3);
    p = fmaf(p, r, RMATH_EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    const uint32_t k = f32_to_bits(z) - f32_to_bits(RMATH_MAGIC); // n, modulo 2^32
    const uint32_t half = (uint32_t)((int32_t)k >> 1);
    return p * f32_from_bits((half + 127u) << 23) * f32_from_bits((k - half + 127u) << 23);
}

#define RMATH_EXPM1_SMALL 0.34f // below it the polynomial of exp without its 1

// exp(x) - 1, exact to a few ulp near 0 too.
static inline float rmath_expm1(float x) {
    float p = RMATH_EXP_C6;
    p = fmaf(p, x, RMATH_EXP_C5);
    p = fmaf(p, x, RMATH_EXP_C4);
    p = fmaf(p, x, RMATH_EXP_C3);
    p = fmaf(p, x, RMATH_EXP_C2);
    const float small = fmaf(x * x, p, x), large = rmath_exp(x) - 1.0f;
    return f32_from_bits(f32_to_bits(x) & 0x7fffffffu) < RMATH_EXPM1_SMALL ? small : large;
}

#define RMATH_TANH_SMALL 0.625f // below it a polynomial, above it exp
#define RMATH_TANH_C0    -0x1.555556p-2f
#define RMATH_TANH_C1    0x1.1110eap-3f
#define RMATH_TANH_C2    -0x1.ba08c4p-5f
#define RMATH_TANH_C3    0x1.64a976p-6f
#define RMATH_TANH_C4    -0x1.116a16p-7f
#define RMATH_TANH_C5    0x1.2c83c0p-9f

static inline float rmath_tanh(float x) {
    const float a = f32_from_bits(f32_to_bits(x) & 0x7fffffffu);
    const float u = a * a;
    float p = RMATH_TANH_C5;
    p = fmaf(p, u, RMATH_TANH_C4);
    p = fmaf(p, u, RMATH_TANH_C3);
    p = fmaf(p, u, RMATH_TANH_C2);
    p = fmaf(p, u, RMATH_TANH_C1);
    p = fmaf(p, u, RMATH_TANH_C0);
    const float small = fmaf(u * a, p, a);
    const float large = 1.0f - 2.0f / (rmath_exp(a + a) + 1.0f);
    const float y = a < RMATH_TANH_SMALL ? small : large;
    return f32_from_bits(f32_to_bits(y) | (f32_to_bits(x) & 0x80000000u));
}

static inline float rmath_sigmoid(float x) { return 1.0f / (1.0f + rmath_exp(-x)); }

// Natural logarithm in double, for normal positive x: log(m 2^e) = e ln 2 + 2 atanh(t),
// t = (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2)). Error below 1e-14 times the larger of 1 and the
// result.
static inline double rmath_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent++;
    }
    const double t = (m - 1) / (m + 1), z = t * t;
    double series = 0;
    for (int k = 19; k >= 1; k -= 2) series = series * z + 1.0 / k;
    return exponent * 0.6931471805599453 + 2 * t * series;
}

// log(1 + exp(x)). Beyond 20 it is x to the last bit.
static inline float rmath_softplus(float x) {
    if (!(x <= 20.0f)) return x;
    return (float)rmath_log(1.0 + (double)rmath_exp(x));
}

// exp in double, for |x| up to 700: 2^n exp(r), |r| <= ln 2 / 2. Relative error below 1e-13.
static inline double rmath_exp_double(double x) {
    const int n = (int)(x * 1.4426950408889634 + (x < 0 ? -0.5 : 0.5));
    const double r = x - n * 0.6931471805599453;
    double series = 1;
    for (int k = 14; k >= 1; k--) series = 1 + r * series / k;
    const uint64_t bits = (uint64_t)(n + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return series * power;
}

// Sine and cosine for |x| up to about 1e8, in double. The difference x - n pi/2 is exact in the
// first step, since n is an integer and the constant's last bit is 2^-52.
static inline void rmath_sincos(double x, double *s, double *c) {
    const double magic = 0x1.8p52;
    const double n = (x * 0x1.45f306dc9c883p-1 + magic) - magic;
    double r = fma(n, -0x1.921fb54442d18p+0, x);
    r = fma(n, -0x1.1a62633145c07p-54, r);
    const double u = r * r;
    // Taylor's coefficients: on [-pi/4, pi/4] the next terms are below 2^-54.
    double ps = -1.0 / 1307674368000.0;
    ps = fma(ps, u, 1.0 / 6227020800.0);
    ps = fma(ps, u, -1.0 / 39916800.0);
    ps = fma(ps, u, 1.0 / 362880.0);
    ps = fma(ps, u, -1.0 / 5040.0);
    ps = fma(ps, u, 1.0 / 120.0);
    ps = fma(ps, u, -1.0 / 6.0);
    const double sine = fma(ps, u * r, r);
    double pc = 1.0 / 20922789888000.0;
    pc = fma(pc, u, -1.0 / 87178291200.0);
    pc = fma(pc, u, 1.0 / 479001600.0);
    pc = fma(pc, u, -1.0 / 3628800.0);
    pc = fma(pc, u, 1.0 / 40320.0);
    pc = fma(pc, u, -1.0 / 720.0);
    pc = fma(pc, u, 1.0 / 24.0);
    pc = fma(pc, u, -0.5);
    const double cosine = fma(pc, u, 1.0);
    const int quadrant = (int)((int64_t)n & 3);
    const double a = quadrant & 1 ? cosine : sine, b = quadrant & 1 ? sine : cosine;
    *s = quadrant & 2 ? -a : a;
    *c = (quadrant + 1) & 2 ? -b : b;
}

#endif
