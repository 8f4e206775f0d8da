// Formats: the table is valid, and formats with bits in several places decode literal blocks as
// GGUF defines them. test_decode.c has a second definition of every block format; the literal
// blocks are there so that both cannot be wrong in the same way.
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "quant/format.h"

enum {
    F16_ONE = 0x3c00,
    F16_HALF = 0x3800,
    F16_QUARTER = 0x3400,
    F16_MINUS_2 = 0xc000,
    F16_MIN_DENORMAL = 0x0001
};

static void put_u16(uint8_t *at, uint16_t value) { memcpy(at, &value, sizeof value); }

CASE(table_is_consistent) {
    for (int id = 0; id < FORMAT_COUNT; id++) {
        const struct format *format = format_at((enum format_id)id);
        assert_int_equal(format_find_gguf(format->gguf_type), id);
        assert_string_equal(format_gguf_name(format->gguf_type), format->name);
        assert_true((format->span == 0) == (format->to_f32 != NULL));
        assert_true((format->span == 0) == (format->unpack == NULL));
        assert_true(format->block >= 1 && format->block <= FORMAT_MAX_BLOCK);
        if (format->span) assert_int_equal(format->block % format->span, 0);
    }
}

CASE(sizes_are_those_of_the_files) {
    assert_int_equal(format_row_bytes(FORMAT_F32, 256), 1024);
    assert_int_equal(format_row_bytes(FORMAT_F16, 256), 512);
    assert_int_equal(format_row_bytes(FORMAT_BF16, 3), 6);
    assert_int_equal(format_row_bytes(FORMAT_Q8_0, 256), 272);
    assert_int_equal(format_row_bytes(FORMAT_Q4_0, 256), 144);
    assert_int_equal(format_row_bytes(FORMAT_Q4_1, 64), 40);
    assert_int_equal(format_row_bytes(FORMAT_Q5_0, 64), 44);
    assert_int_equal(format_row_bytes(FORMAT_Q5_1, 64), 48);
    assert_int_equal(format_row_bytes(FORMAT_Q2_K, 512), 168);
    assert_int_equal(format_row_bytes(FORMAT_Q3_K, 512), 220);
    assert_int_equal(format_row_bytes(FORMAT_Q4_K, 512), 288);
    assert_int_equal(format_row_bytes(FORMAT_Q5_K, 512), 352);
    assert_int_equal(format_row_bytes(FORMAT_IQ4_NL, 64), 36);
    assert_int_equal(format_row_bytes(FORMAT_IQ4_XS, 512), 272);
    assert_int_equal(format_row_bytes(FORMAT_MXFP4, 64), 34);
    assert_int_equal(format_row_bytes(FORMAT_Q6_K, 512), 420);
    assert_true(format_row_bytes(FORMAT_F32, INT64_MAX / 8) == (uint64_t)(INT64_MAX / 8) * 4);
}

// Whether the advice names one of our formats, and no number that can be read has one.
CASE(formats_that_cannot_be_read_have_an_advice) {
    for (uint32_t number = 0; number < 64; number++) {
        const char *name = format_gguf_name(number), *advice = format_gguf_advice(number);
        const bool is_integer = name[0] == 'I' && name[1] >= '0' && name[1] <= '9';
        if (*name == '?' || is_integer) continue;
        const bool is_ours = format_find_gguf(number) >= 0;
        check(is_ours == !advice, "%s", name);
        bool names_ours = is_ours;
        for (int id = 0; id < FORMAT_COUNT && advice; id++)
            names_ours |= strstr(advice, format_at((enum format_id)id)->name) != NULL;
        check(names_ours, "%s: %s", name, advice);
    }
    assert_null(format_gguf_advice(UINT32_MAX));
}

CASE(gguf_numbers_have_their_names) {
    assert_string_equal(format_gguf_name(17), "IQ2_XS");
    assert_string_equal(format_gguf_name(13), "Q5_K");
    assert_string_equal(format_gguf_name(39), "MXFP4");
    assert_string_equal(format_gguf_name(4), "?"); // given up by the format
    assert_string_equal(format_gguf_name(31), "Q4_0_4_4");
    assert_string_equal(format_gguf_name(42), "Q2_0");
    assert_string_equal(format_gguf_name(43), "?");
    assert_string_equal(format_gguf_name(UINT32_MAX), "?");
    assert_int_equal(format_find_gguf(13), FORMAT_Q5_K);
    assert_int_equal(format_find_gguf(17), -1);
    assert_int_equal(format_find_gguf(UINT32_MAX), -1);
}

// One byte further than any alignment would allow.
CASE(float_formats_decode_at_any_address) {
    const float values[3] = {1.5f, -0.0f, -0x1p-24f};
    uint8_t bytes[1 + sizeof values];
    float out[3];
    memcpy(bytes + 1, values, sizeof values);
    format_decode(FORMAT_F32, bytes + 1, out, 3);
    assert_memory_equal(out, values, sizeof values);
    for (int i = 0; i < 3; i++) put_u16(bytes + 1 + 2 * i, f32_to_f16(values[i]));
    format_decode(FORMAT_F16, bytes + 1, out, 3);
    assert_memory_equal(out, values, sizeof values);
    for (int i = 0; i < 3; i++) put_u16(bytes + 1 + 2 * i, f32_to_bf16(values[i]));
    format_decode(FORMAT_BF16, bytes + 1, out, 3);
    assert_memory_equal(out, values, sizeof values);
}

// Scales 1, 9, 17, 25, 33, 41, 49, 57 and minima 2, 11, 20, 29, 38, 47, 56, 63, packed by hand:
// byte j (0 to 3) = sc[j] | high 2 bits of sc[j + 4] on top; byte 4 + j the same of the minima;
// byte 8 + j = low 4 bits of sc[j + 4] | low 4 bits of m[j + 4] on top.
static const uint8_t q4_k_scales[12] = {
    1 | 2 << 6, 9 | 2 << 6,  17 | 3 << 6, 25 | 3 << 6, // 33 = 2:1, 41 = 2:9, 49 = 3:1, 57 = 3:9
    2 | 2 << 6, 11 | 2 << 6, 20 | 3 << 6, 29 | 3 << 6, // 38 = 2:6, 47 = 2:15, 56 = 3:8, 63 = 3:15
    1 | 6 << 4, 9 | 15 << 4, 1 | 8 << 4,  9 | 15 << 4,
};

// The expected values of a hand-made block, element by element.
struct expected {
    int element;
    float value;
};

static void expect_values(enum format_id format, const uint8_t *block,
                          const struct expected *expected, int n) {
    float out[FORMAT_MAX_BLOCK];
    format_decode(format, block, out, format_at(format)->block);
    for (int i = 0; i < n; i++) {
        check(out[expected[i].element] == expected[i].value, "%s element %d: %g, not %g",
              format_at(format)->name, expected[i].element, (double)out[expected[i].element],
              (double)expected[i].value);
    }
}

#define EXPECT(format, block, ...)                                                                 \
    expect_values(format, block, (const struct expected[]){__VA_ARGS__},                           \
                  (int)(sizeof((const struct expected[]){__VA_ARGS__}) / sizeof(struct expected)))

CASE(q6_k_literal_bytes) {
    uint8_t block[210] = {0};
    block[0] = 0x5a;        // low bits of elements 0 (10) and 64 (5)
    block[63] = 0xc3;       // low bits of elements 63 (3) and 127 (12)
    block[128] = 0x1b;      // high bits of elements 0 (3), 32 (2), 64 (1), 96 (0)
    block[128 + 31] = 0x84; // high bits of elements 31 (0), 63 (1), 95 (0), 127 (2)
    block[192 + 0] = 2, block[192 + 3] = 0xff, block[192 + 4] = 1, block[192 + 7] = 4;
    put_u16(block + 208, F16_ONE);
    EXPECT(FORMAT_Q6_K, block, {0, 2.0f * (10 + 48 - 32)}, {63, -1.0f * (3 + 16 - 32)},
           {64, 1.0f * (5 + 16 - 32)}, {127, 4.0f * (12 + 32 - 32)}, {1, 2.0f * -32.0f},
           {128, 0.0f});
}

CASE(q4_1_literal_bytes) {
    uint8_t block[20] = {0};
    put_u16(block, F16_HALF);
    put_u16(block + 2, F16_MINUS_2);
    block[4] = 0x5a;      // elements 0 (10) and 16 (5)
    block[4 + 15] = 0xc3; // elements 15 (3) and 31 (12)
    EXPECT(FORMAT_Q4_1, block, {0, 3.0f}, {16, 0.5f}, {15, -0.5f}, {31, 4.0f}, {1, -2.0f},
           {30, -2.0f});
}

// Fifth bits of elements 0, 15 and 30; low bits of 0 (10), 16 (5), 14 (1), 30 (2), 15 (3), 31 (12).
static void five_bits_fill(uint8_t *bits) {
    bits[0] = 0x01, bits[1] = 0x80, bits[3] = 0x40;
    bits[4] = 0x5a, bits[4 + 14] = 0x21, bits[4 + 15] = 0xc3;
}

CASE(q5_0_literal_bytes) {
    uint8_t block[22] = {0};
    put_u16(block, F16_MINUS_2);
    five_bits_fill(block + 2);
    EXPECT(FORMAT_Q5_0, block, {0, -2.0f * (26 - 16)}, {16, -2.0f * (5 - 16)},
           {14, -2.0f * (1 - 16)}, {30, -2.0f * (18 - 16)}, {15, -2.0f * (19 - 16)},
           {31, -2.0f * (12 - 16)}, {1, 32.0f}, {17, 32.0f});
}

CASE(q5_1_literal_bytes) {
    uint8_t block[24] = {0};
    put_u16(block, F16_HALF);
    put_u16(block + 2, F16_ONE);
    five_bits_fill(block + 4);
    EXPECT(FORMAT_Q5_1, block, {0, 14.0f}, {16, 3.5f}, {14, 1.5f}, {30, 10.0f}, {15, 10.5f},
           {31, 7.0f}, {1, 1.0f}, {17, 1.0f});
}

// Span i has the scale 15 - i and the minimum i; d = 1/2, dmin = 1/4.
CASE(q2_k_literal_bytes) {
    uint8_t block[84] = {0};
    for (int i = 0; i < 16; i++) block[i] = (uint8_t)((15 - i) | i << 4);
    block[16 + 0] = 0xe4;       // elements 0 (0), 32 (1), 64 (2), 96 (3)
    block[16 + 16] = 0x1b;      // elements 16 (3), 48 (2), 80 (1), 112 (0)
    block[16 + 32 + 17] = 0x39; // elements 145 (1), 177 (2), 209 (3), 241 (0)
    put_u16(block + 80, F16_HALF);
    put_u16(block + 82, F16_QUARTER);
    EXPECT(FORMAT_Q2_K, block, {0, 0.0f}, {32, 6.0f}, {64, 10.0f}, {96, 12.0f}, {16, 20.75f},
           {48, 11.25f}, {80, 3.75f}, {112, -1.75f}, {145, 0.75f}, {177, 1.25f}, {209, -0.25f},
           {241, -3.75f}, {255, -3.75f}, {31, -0.25f});
}

// Scales by hand: span 0 = 10 | 0 << 4 = -22 after the 32 are taken off, 3 = 16, 4 = -13, 7 = 15,
// 8 = 5, 11 = -7, 12 = 28, 15 = -30; those whose bits are 0 are -32. d = 1/2.
CASE(q3_k_literal_bytes) {
    uint8_t block[110] = {0};
    block[0] = 0x45;       // third bits of elements 0, 64 and 192
    block[31] = 0x80;      // third bit of element 255
    block[32 + 0] = 0xe4;  // low bits of elements 0 (0), 32 (1), 64 (2), 96 (3)
    block[32 + 31] = 0xc0; // element 127 (3)
    block[32 + 32] = 0x72; // elements 128 (2), 160 (0), 192 (3), 224 (1)
    block[32 + 63] = 0x80; // element 255 (2)
    uint8_t *scales = block + 96;
    scales[0] = 0x5a, scales[3] = 0x90, scales[4] = 0xc3, scales[7] = 0x2f; // low bits
    scales[8] = 0xe4, scales[11] = 0x1b;                                    // high bits
    put_u16(block + 108, F16_HALF);
    EXPECT(FORMAT_Q3_K, block, {0, 0.0f}, {1, 44.0f}, {32, 48.0f}, {64, -13.0f}, {96, 16.0f},
           {63, -32.0f}, {127, -7.5f}, {128, -5.0f}, {160, 64.0f}, {191, 14.0f}, {192, 42.0f},
           {224, 48.0f}, {255, -30.0f});
}

// d = 1/2, dmin = -2.
CASE(q5_k_literal_bytes) {
    uint8_t block[176] = {0};
    put_u16(block, F16_HALF);
    put_u16(block + 2, F16_MINUS_2);
    memcpy(block + 4, q4_k_scales, sizeof q4_k_scales);
    block[16 + 0] = 0x81;  // fifth bits of elements 0 and 224
    block[16 + 31] = 0x0c; // fifth bits of elements 95 and 127
    block[48 + 0] = 0x5a;  // low bits of elements 0 (10) and 32 (5)
    block[48 + 63] = 0x2f; // elements 95 (15) and 127 (2)
    block[48 + 96] = 0xc3; // elements 192 (3) and 224 (12)
    EXPECT(FORMAT_Q5_K, block, {0, 0.5f * 1 * 26 + 4}, {32, 0.5f * 9 * 5 + 22},
           {95, 0.5f * 17 * 31 + 40}, {127, 0.5f * 25 * 18 + 58}, {192, 0.5f * 49 * 3 + 112},
           {224, 0.5f * 57 * 28 + 126}, {1, 4.0f}, {255, 126.0f});
}

CASE(mxfp4_is_a_small_float_times_a_power_of_two) {
    static const float values[16] = {0, 0.5f,  1,  1.5f,  2,  3,  4,  6,
                                     0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    // exponent and what 1 becomes; 255 is no NaN
    static const struct {
        uint8_t e;
        float one;
    } cases[] = {{127, 1.0f},    {128, 2.0f},    {120, 0x1p-7f},  {2, 0x1p-125f},
                 {1, 0x1p-126f}, {0, 0x1p-127f}, {250, 0x1p123f}, {254, 0x1p127f}};
    uint8_t block[17];
    float out[32];
    for (int i = 0; i < 16; i++) block[1 + i] = (uint8_t)(i | (i * 5 + 2) % 16 << 4);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        block[0] = cases[c].e;
        format_decode(FORMAT_MXFP4, block, out, 32);
        for (int i = 0; i < 16; i++) {
            assert_true(out[i] == values[i] * cases[c].one);
            assert_true(out[16 + i] == values[(i * 5 + 2) % 16] * cases[c].one);
        }
    }
    block[0] = 255;
    format_decode(FORMAT_MXFP4, block, out, 32);
    assert_true(out[0] == 0.0f && out[1] == 0x1p127f && out[9] == -0x1p127f && out[7] == INFINITY);
}

CASE(smallest_scale_is_not_lost) {
    uint8_t block[34] = {0};
    put_u16(block, F16_MIN_DENORMAL);
    block[2] = 1;
    float out[32];
    format_decode(FORMAT_Q8_0, block, out, 32);
    assert_true(out[0] == 0x1p-24f);
}

static void check_block(const struct format *format, const uint8_t *block, const float *out) {
    int8_t q[FORMAT_MAX_BLOCK];
    float scale[FORMAT_MAX_SPANS], offset[FORMAT_MAX_SPANS];
    format->unpack(block, q, scale, offset);
    for (int i = 0; i < format->block; i++) {
        const int span = i / format->span;
        const float expected = format->has_offset ? fmaf(scale[span], (float)q[i], offset[span])
                                                  : scale[span] * (float)q[i];
        if (isnan(expected)) {
            assert_true(isnan(out[i]));
        } else {
            assert_int_equal(f32_to_bits(out[i]), f32_to_bits(expected));
        }
    }
}

// The contract: decode is fmaf(scale, q, offset), or scale * q, of what unpack gives; for any
// bytes.
CASE(decode_follows_from_unpack_for_random_bytes) {
    srand(1);
    for (int id = 0; id < FORMAT_COUNT; id++) {
        const struct format *format = format_at((enum format_id)id);
        if (!format->unpack) continue;
        for (int round = 0; round < 200; round++) {
            uint8_t row[3 * 256];
            for (size_t i = 0; i < sizeof row; i++) row[i] = (uint8_t)rand();
            float out[3 * FORMAT_MAX_BLOCK];
            format_decode((enum format_id)id, row, out, 3 * format->block);
            for (int block = 0; block < 3; block++) {
                check_block(format, row + block * format->block_bytes, out + block * format->block);
            }
        }
    }
}

TEST_PROGRAM(format) { return cases_run(NULL, NULL); }
