// Decoding of random blocks of every block format against a second reading of the formats'
// definition: one element at a time, from bit positions, in double. It shares nothing with the code
// under test but half floats.
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "quant/format.h"

// `count` bits of a block from bit `at` of byte `byte` on, all within one byte.
static int bits(const uint8_t *block, int byte, int at, int count) {
    return block[byte] >> at & ((1 << count) - 1);
}

static double half_at(const uint8_t *block, int byte) {
    return (double)f16_to_f32((uint16_t)(block[byte] | block[byte + 1] << 8));
}

// Nibbles in halves: the first `half` elements low, the others high.
static int nibble(const uint8_t *block, int byte, int i, int half) {
    return i < half ? bits(block, byte + i, 0, 4) : bits(block, byte + i - half, 4, 4);
}

static double q8_0_element(const uint8_t *b, int i) {
    const int value = b[2 + i];
    return half_at(b, 0) * (value < 128 ? value : value - 256);
}

static double q4_0_element(const uint8_t *b, int i) {
    return half_at(b, 0) * (nibble(b, 2, i, 16) - 8);
}

static double q4_1_element(const uint8_t *b, int i) {
    return half_at(b, 0) * nibble(b, 4, i, 16) + half_at(b, 2);
}

static double q5_0_element(const uint8_t *b, int i) {
    return half_at(b, 0) * (nibble(b, 6, i, 16) + 16 * bits(b, 2 + i / 8, i % 8, 1) - 16);
}

static double q5_1_element(const uint8_t *b, int i) {
    return half_at(b, 0) * (nibble(b, 8, i, 16) + 16 * bits(b, 4 + i / 8, i % 8, 1)) +
           half_at(b, 2);
}

// The place of element i in the 2-bit planes of Q2_K and Q3_K: 64 bytes from `byte` on.
static int two_bits(const uint8_t *b, int byte, int i) {
    const int within = i % 128;
    return bits(b, byte + i / 128 * 32 + within % 32, within / 32 * 2, 2);
}

static double q2_k_element(const uint8_t *b, int i) {
    const int span = i / 16;
    return half_at(b, 80) * bits(b, span, 0, 4) * two_bits(b, 16, i) -
           half_at(b, 82) * bits(b, span, 4, 4);
}

static double q3_k_element(const uint8_t *b, int i) {
    static const int high_shift[4] = {0, 2, 4, 6};
    const int span = i / 16, third = bits(b, i % 32, i / 32, 1);
    const int low = span < 8 ? bits(b, 96 + span, 0, 4) : bits(b, 96 + span - 8, 4, 4);
    const int scale = low + 16 * bits(b, 104 + span % 4, high_shift[span / 4], 2);
    return half_at(b, 108) * (scale - 32) * (two_bits(b, 32, i) - (third ? 0 : 4));
}

// The 12 bytes of 6-bit scales and minima of Q4_K and Q5_K begin at byte 4.
static int k_scale(const uint8_t *b, int span) {
    if (span < 4) return bits(b, 4 + span, 0, 6);
    return bits(b, 12 + span - 4, 0, 4) + 16 * bits(b, 4 + span - 4, 6, 2);
}

static int k_min(const uint8_t *b, int span) {
    if (span < 4) return bits(b, 8 + span, 0, 6);
    return bits(b, 12 + span - 4, 4, 4) + 16 * bits(b, 8 + span - 4, 6, 2);
}

static double q4_k_element(const uint8_t *b, int i) {
    const int span = i / 32, value = nibble(b, 16 + i / 64 * 32, i % 64, 32);
    return half_at(b, 0) * k_scale(b, span) * value - half_at(b, 2) * k_min(b, span);
}

static double q5_k_element(const uint8_t *b, int i) {
    const int span = i / 32, low = nibble(b, 48 + i / 64 * 32, i % 64, 32);
    const int value = low + 16 * bits(b, 16 + i % 32, span, 1);
    return half_at(b, 0) * k_scale(b, span) * value - half_at(b, 2) * k_min(b, span);
}

static double q6_k_element(const uint8_t *b, int i) {
    const int half = i / 128, within = i % 128, scale = b[192 + i / 16];
    const int low = nibble(b, half * 64, within, 64);
    const int high = bits(b, 128 + half * 32 + within % 32, within / 32 * 2, 2);
    return half_at(b, 208) * (scale < 128 ? scale : scale - 256) * (low + 16 * high - 32);
}

static int iq4_level(int code) {
    static const signed char levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};
    return levels[code];
}

static double iq4_nl_element(const uint8_t *b, int i) {
    return half_at(b, 0) * iq4_level(nibble(b, 2, i, 16));
}

static double iq4_xs_element(const uint8_t *b, int i) {
    const int span = i / 32, low = bits(b, 4 + span / 2, span % 2 ? 4 : 0, 4);
    const int high = bits(b, 2 + span / 4, span % 4 * 2, 2);
    return half_at(b, 0) * (low + 16 * high - 32) * iq4_level(nibble(b, 8 + 16 * span, i % 32, 16));
}

// Sign, two bits of exponent, one of mantissa: no implicit 1 when the exponent is 0.
static double mxfp4_element(const uint8_t *b, int i) {
    const int code = nibble(b, 1, i, 16), exponent = code >> 1 & 3, mantissa = code & 1;
    const double magnitude =
        exponent ? ldexp(1.0 + 0.5 * mantissa, exponent - 1) : ldexp(mantissa, -1);
    return ldexp(code & 8 ? -magnitude : magnitude, b[0] - 127);
}

static double (*const element_of[FORMAT_COUNT])(const uint8_t *block, int i) = {
    [FORMAT_Q8_0] = q8_0_element,     [FORMAT_Q4_0] = q4_0_element,
    [FORMAT_Q4_1] = q4_1_element,     [FORMAT_Q5_0] = q5_0_element,
    [FORMAT_Q5_1] = q5_1_element,     [FORMAT_Q2_K] = q2_k_element,
    [FORMAT_Q3_K] = q3_k_element,     [FORMAT_Q4_K] = q4_k_element,
    [FORMAT_Q5_K] = q5_k_element,     [FORMAT_Q6_K] = q6_k_element,
    [FORMAT_IQ4_NL] = iq4_nl_element, [FORMAT_IQ4_XS] = iq4_xs_element,
    [FORMAT_MXFP4] = mxfp4_element,
};

// One rounding to f32; the double itself may have been rounded, far below.
static void check_element(const struct format *format, int i, float got, double expected) {
    const float rounded = (float)expected;
    if (isnan(rounded)) {
        check(isnan(got), "%s element %d: %g, not NaN", format->name, i, (double)got);
    } else if (isinf(rounded)) {
        check(got == rounded, "%s element %d: %g, not %g", format->name, i, (double)got, expected);
    } else {
        check(fabs((double)got - expected) <= fabs(expected) * 0x1.001p-24,
              "%s element %d: %.9g, not %.9g", format->name, i, (double)got, expected);
    }
}

CASE(random_blocks_decode_as_defined) {
    srand(7);
    for (int id = 0; id < FORMAT_COUNT; id++) {
        const struct format *format = format_at((enum format_id)id);
        if (!format->unpack) continue;
        check(element_of[id] != NULL, "%s has no definition here", format->name);
        for (int round = 0; round < 500; round++) {
            uint8_t block[256];
            float out[FORMAT_MAX_BLOCK];
            for (size_t i = 0; i < sizeof block; i++) block[i] = (uint8_t)(rand() >> 7);
            format_decode((enum format_id)id, block, out, format->block);
            for (int i = 0; i < format->block; i++) {
                check_element(format, i, out[i], element_of[id](block, i));
            }
        }
    }
}

static bool bit_is_read(enum format_id id, int fill, int bit) {
    const size_t bytes = sizeof(float) * (size_t)format_at(id)->block;
    uint8_t block[256];
    float before[FORMAT_MAX_BLOCK], after[FORMAT_MAX_BLOCK];
    memset(block, fill, sizeof block);
    format_decode(id, block, before, format_at(id)->block);
    block[bit / 8] ^= (uint8_t)(1 << bit % 8);
    format_decode(id, block, after, format_at(id)->block);
    return memcmp(before, after, bytes) != 0;
}

// Flipping any bit changes the decoded block. A bit may be silent in one block, such as the scale
// of a span of zeros, so there are three; all are finite as half floats and exponents.
CASE(every_bit_of_a_block_is_read) {
    for (int id = 0; id < FORMAT_COUNT; id++) {
        const struct format *format = format_at((enum format_id)id);
        for (int bit = 0; format->unpack && bit < 8 * format->block_bytes; bit++) {
            check(bit_is_read((enum format_id)id, 0x35, bit) ||
                      bit_is_read((enum format_id)id, 0x1b, bit) ||
                      bit_is_read((enum format_id)id, 0x5a, bit),
                  "%s: byte %d, bit %d changes nothing", format->name, bit / 8, bit % 8);
        }
    }
}

TEST_PROGRAM(decode) { return cases_run(NULL, NULL); }
