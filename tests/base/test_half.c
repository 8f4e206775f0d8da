// f16 and bf16: all 65,536 values, every rounding boundary, and the hardware where there is one.
#include "check.h"

#include <math.h>
#include <stdbool.h>

#include "base/half.h"

#if defined(__x86_64__)
#include <immintrin.h>

static bool hardware_has_f16(void) { return __builtin_cpu_supports("f16c"); }

__attribute__((target("f16c"))) static uint16_t hardware_to_f16(float value) {
    return (uint16_t)_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
}

__attribute__((target("f16c"))) static float hardware_from_f16(uint16_t bits) {
    return _cvtsh_ss(bits);
}
#else
static bool hardware_has_f16(void) { return false; }
static uint16_t hardware_to_f16(float value) { return f32_to_f16(value); }
static float hardware_from_f16(uint16_t bits) { return f16_to_f32(bits); }
#endif

static void assert_bits(float actual, float expected) {
    assert_int_equal(f32_to_bits(actual), f32_to_bits(expected));
}

CASE(f16_has_the_values_of_its_definition) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        const int exponent = h >> 10 & 31, mantissa = h & 1023;
        const float value = f16_to_f32((uint16_t)h);
        assert_int_equal(f32_to_bits(value) >> 31, h >> 15);
        if (exponent == 31) {
            assert_true(mantissa ? isnan(value) : isinf(value));
            continue;
        }
        const double magnitude =
            exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
        assert_true((double)fabsf(value) == magnitude);
    }
}

CASE(f16_round_trips) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        const bool is_nan = (h & 0x7fff) > 0x7c00;
        assert_int_equal(f32_to_f16(f16_to_f32((uint16_t)h)), is_nan ? h | 0x200 : h);
    }
}

// Between neighbours the middle goes to the even one, anything beside it to the nearer one.
CASE(f16_rounds_to_nearest_even_at_every_boundary) {
    for (uint32_t h = 0; h < 0x7c00; h++) {
        const float low = f16_to_f32((uint16_t)h);
        const float high = h + 1 == 0x7c00 ? 65536.0f : f16_to_f32((uint16_t)(h + 1));
        const float middle = low + (high - low) / 2;
        assert_int_equal(f32_to_f16(middle), h + (h & 1));
        assert_int_equal(f32_to_f16(nextafterf(middle, 0)), h);
        assert_int_equal(f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(f32_to_f16(-middle), 0x8000 | (h + (h & 1)));
    }
    assert_int_equal(f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(f32_to_f16(3e38f), 0x7c00);
    assert_int_equal(f32_to_f16(0x1p-149f), 0);
    assert_int_equal(f32_to_f16(-0x1p-149f), 0x8000);
}

CASE(f16_equals_the_hardware) {
    if (!hardware_has_f16()) skip();
    for (uint32_t h = 0; h < 0x10000; h++) {
        assert_bits(f16_to_f32((uint16_t)h), hardware_from_f16((uint16_t)h));
    }
    uint64_t random = 1;
    for (int i = 0; i < 4000000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint32_t bits = (uint32_t)(random >> 32);
        // Every other one into the range of f16 and its denormals; every fourth near a boundary.
        if (i & 1) bits = (bits & 0x807fffffu) | (100 + (bits >> 23 & 0x3f) % 46) << 23;
        if (i & 2) bits = (bits & ~0x1fffu) + 0xfff + (uint32_t)(random >> 20) % 3;
        const float value = f32_from_bits(bits);
        assert_int_equal(f32_to_f16(value), hardware_to_f16(value));
    }
    for (uint32_t low = 0; low < 0x10000; low++) { // NaN and infinity with many payloads
        const float value = f32_from_bits(0x7f800000u | low << 7 | (low & 127));
        assert_int_equal(f32_to_f16(value), hardware_to_f16(value));
        assert_int_equal(f32_to_f16(-value), hardware_to_f16(-value));
    }
}

CASE(bf16_is_the_upper_half_and_round_trips) {
    for (uint32_t b = 0; b < 0x10000; b++) {
        assert_int_equal(f32_to_bits(bf16_to_f32((uint16_t)b)), b << 16);
        const bool is_nan = (b & 0x7fff) > 0x7f80;
        assert_int_equal(f32_to_bf16(bf16_to_f32((uint16_t)b)), is_nan ? b | 0x40 : b);
    }
}

CASE(bf16_rounds_to_nearest_even_at_every_boundary) {
    for (uint32_t b = 0; b < 0x7f80; b++) {
        const uint32_t middle = b << 16 | 0x8000;
        assert_int_equal(f32_to_bf16(f32_from_bits(middle)), b + (b & 1));
        assert_int_equal(f32_to_bf16(f32_from_bits(middle - 1)), b);
        assert_int_equal(f32_to_bf16(f32_from_bits(middle + 1)), b + 1);
        assert_int_equal(f32_to_bf16(f32_from_bits(0x80000000u | middle)), 0x8000 | (b + (b & 1)));
    }
    assert_int_equal(f32_to_bf16(f32_from_bits(0x7f800001u)), 0x7fc0); // stays a NaN
    assert_int_equal(f32_to_bf16(f32_from_bits(0xffffffffu)), 0xffff);
}

TEST_PROGRAM(half) { return cases_run(NULL, NULL); }
