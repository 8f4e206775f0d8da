// rmath.h against libm in double precision, over dense samples and at the special values.
#include "check.h"

#include "base/rmath.h"

// |got - want| in units of the last place of want as a float (of the smallest normal below it).
static double ulps(float got, double want) {
    const double magnitude = fabs(want) < 0x1p-126 ? 0x1p-126 : fabs(want);
    int exponent;
    frexp(magnitude, &exponent);
    return fabs((double)got - want) / ldexp(1.0, exponent - 24);
}

// Calls f for every step-th float from lo up to hi in the order of their bit patterns; both have
// one sign.
static double worst_over(float lo, float hi, uint32_t step, float (*f)(float),
                         double (*truth)(double)) {
    const uint32_t a = f32_to_bits(lo), b = f32_to_bits(hi);
    double worst = 0;
    for (uint64_t bits = a < b ? a : b; bits <= (a < b ? b : a); bits += step) {
        const float x = f32_from_bits((uint32_t)bits);
        const double e = ulps(f(x), truth((double)x));
        if (e > worst) worst = e;
    }
    return worst;
}

static float exp_f(float x) { return rmath_exp(x); }
static float tanh_f(float x) { return rmath_tanh(x); }

CASE(exp_is_within_two_ulp) {
    assert_true(worst_over(1e-20f, 88.722f, 977, exp_f, exp) < 2.0);
    assert_true(worst_over(-1e-20f, -87.3f, 977, exp_f, exp) < 2.0);
}

CASE(exp_keeps_denormals) {
    assert_true(worst_over(-87.3f, -103.9f, 13, exp_f, exp) < 1.01);
    assert_true(rmath_exp(-103.0f) > 0.0f);
}

CASE(exp_special_values) {
    assert_true(rmath_exp(0.0f) == 1.0f);
    assert_true(rmath_exp(-0.0f) == 1.0f);
    assert_int_equal(f32_to_bits(rmath_exp(-INFINITY)), 0);
    assert_int_equal(f32_to_bits(rmath_exp(-104.0f)), 0);
    assert_int_equal(f32_to_bits(rmath_exp(-1e30f)), 0);
    assert_true(rmath_exp(88.73f) == INFINITY);
    assert_true(rmath_exp(3e38f) == INFINITY);
    assert_true(rmath_exp(INFINITY) == INFINITY);
    assert_true(isnan(rmath_exp(NAN)));
    assert_true(isfinite(rmath_exp(88.72f)));
}

static float expm1_f(float x) { return rmath_expm1(x); }

CASE(expm1_is_within_four_ulp) {
    assert_true(worst_over(1e-30f, 88.7f, 977, expm1_f, expm1) < 4.0);
    assert_true(worst_over(-1e-30f, -100.0f, 977, expm1_f, expm1) < 4.0);
    assert_true(rmath_expm1(-INFINITY) == -1.0f && isnan(rmath_expm1(NAN)));
}

CASE(tanh_is_within_two_ulp) {
    assert_true(worst_over(1e-30f, 20.0f, 977, tanh_f, tanh) < 2.0);
    assert_true(worst_over(-1e-30f, -20.0f, 977, tanh_f, tanh) < 2.0);
}

CASE(tanh_special_values) {
    assert_int_equal(f32_to_bits(rmath_tanh(0.0f)), 0);
    assert_int_equal(f32_to_bits(rmath_tanh(-0.0f)), 0x80000000u);
    assert_true(rmath_tanh(INFINITY) == 1.0f);
    assert_true(rmath_tanh(-INFINITY) == -1.0f);
    assert_true(rmath_tanh(1e30f) == 1.0f);
    assert_true(isnan(rmath_tanh(NAN)));
}

CASE(log_in_double_is_within_its_bound) {
    for (double x = 1e-30; x < 1e30; x *= 1.00037) {
        const double want = log(x), bound = 1e-14 * fmax(1, fabs(want));
        if (fabs(rmath_log(x) - want) > bound) fail_msg("log(%g)", x);
    }
    for (double x = 0.9; x < 1.1; x += 1e-5)
        if (fabs(rmath_log(x) - log(x)) > 1e-14) fail_msg("log(%g)", x);
    assert_true(rmath_log(1) == 0);
}

CASE(exp_in_double_is_within_its_bound) {
    for (double x = -700; x < 700; x += 0.00731)
        if (fabs(rmath_exp_double(x) / exp(x) - 1) > 1e-13) fail_msg("exp(%g)", x);
    assert_true(rmath_exp_double(0) == 1);
}

CASE(sincos_rounds_as_the_truth_does) {
    uint64_t seed = 7;
    int differ = 0, n = 0;
    for (double scale = 1e-6; scale <= 1e8; scale *= 10) {
        for (int i = 0; i < 20000; i++, n++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const float x = (float)(((double)(seed >> 11) * 0x1p-52 - 1.0) * scale);
            double s, c;
            rmath_sincos((double)x, &s, &c);
            assert_true(fabs(s - sin((double)x)) <= 2e-16);
            assert_true(fabs(c - cos((double)x)) <= 2e-16);
            assert_true(fabs(s / sin((double)x) - 1) <= 1e-12);
            differ += (float)s != (float)sin((double)x);
            differ += (float)c != (float)cos((double)x);
        }
    }
    assert_true(differ <= n / 10000); // only where the truth sits on a rounding boundary
}

CASE(sincos_of_zero_is_exact) {
    double s, c;
    rmath_sincos(0.0, &s, &c);
    assert_true(s == 0.0 && c == 1.0);
}

TEST_PROGRAM(rmath) { return cases_run(NULL, NULL); }
