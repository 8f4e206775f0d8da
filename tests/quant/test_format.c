// Formats: the table is sound, and every block format decodes hand-made blocks as GGUF defines
// them. Blocks are built from their bytes here, not through the structs under test.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "quant/format.h"

enum { F16_ONE = 0x3c00, F16_HALF = 0x3800, F16_MINUS_2 = 0xc000, F16_MIN_DENORMAL = 0x0001 };

static void put_u16(uint8_t *at, uint16_t value) { memcpy(at, &value, sizeof value); }

static void table_is_sound(void **state) {
    (void)state;
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

static void sizes_are_those_of_the_files(void **state) {
    (void)state;
    assert_int_equal(format_row_bytes(FORMAT_F32, 256), 1024);
    assert_int_equal(format_row_bytes(FORMAT_F16, 256), 512);
    assert_int_equal(format_row_bytes(FORMAT_BF16, 3), 6);
    assert_int_equal(format_row_bytes(FORMAT_Q8_0, 256), 272);
    assert_int_equal(format_row_bytes(FORMAT_Q4_0, 256), 144);
    assert_int_equal(format_row_bytes(FORMAT_Q4_K, 512), 288);
    assert_int_equal(format_row_bytes(FORMAT_Q6_K, 512), 420);
    assert_true(format_row_bytes(FORMAT_F32, INT64_MAX / 8) == (uint64_t)(INT64_MAX / 8) * 4);
}

static void gguf_numbers_have_their_names(void **state) {
    (void)state;
    assert_string_equal(format_gguf_name(17), "IQ2_XS");
    assert_string_equal(format_gguf_name(13), "Q5_K");
    assert_string_equal(format_gguf_name(39), "MXFP4");
    assert_string_equal(format_gguf_name(4), "?"); // given up by the format
    assert_string_equal(format_gguf_name(40), "?");
    assert_string_equal(format_gguf_name(UINT32_MAX), "?");
    assert_int_equal(format_find_gguf(13), -1);
    assert_int_equal(format_find_gguf(UINT32_MAX), -1);
}

// One byte further than any alignment would allow.
static void float_formats_decode_at_any_address(void **state) {
    (void)state;
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

static void q8_0_is_scale_times_int8(void **state) {
    (void)state;
    uint8_t row[1 + 2 * 34] = {0};
    uint8_t *first = row + 1, *second = first + 34;
    put_u16(first, F16_HALF);
    first[2 + 0] = 127;
    first[2 + 1] = 0x80;  // -128
    first[2 + 31] = 0xff; // -1
    put_u16(second, F16_MINUS_2);
    second[2 + 5] = 3;
    float out[64];
    format_decode(FORMAT_Q8_0, first, out, 64);
    assert_true(out[0] == 63.5f && out[1] == -64.0f && out[31] == -0.5f && out[2] == 0.0f);
    assert_true(out[32 + 5] == -6.0f && out[63] == 0.0f);
}

static void q4_0_low_nibbles_come_first(void **state) {
    (void)state;
    uint8_t block[18];
    put_u16(block, F16_HALF);
    for (int i = 0; i < 16; i++) block[2 + i] = (uint8_t)(i | (15 - i) << 4);
    float out[32];
    format_decode(FORMAT_Q4_0, block, out, 32);
    for (int i = 0; i < 16; i++) {
        assert_true(out[i] == 0.5f * (float)(i - 8));
        assert_true(out[16 + i] == 0.5f * (float)(7 - i));
    }
}

// Scales 1, 9, 17, 25, 33, 41, 49, 57 and minima 2, 11, 20, 29, 38, 47, 56, 63, packed by hand:
// byte j (0 to 3) = sc[j] | high 2 bits of sc[j + 4] on top; byte 4 + j the same of the minima;
// byte 8 + j = low 4 bits of sc[j + 4] | low 4 bits of m[j + 4] on top.
static const uint8_t q4_k_scales[12] = {
    1 | 2 << 6, 9 | 2 << 6,  17 | 3 << 6, 25 | 3 << 6, // 33 = 2:1, 41 = 2:9, 49 = 3:1, 57 = 3:9
    2 | 2 << 6, 11 | 2 << 6, 20 | 3 << 6, 29 | 3 << 6, // 38 = 2:6, 47 = 2:15, 56 = 3:8, 63 = 3:15
    1 | 6 << 4, 9 | 15 << 4, 1 | 8 << 4,  9 | 15 << 4,
};

static void q4_k_unpacks_scales_minima_and_nibbles(void **state) {
    (void)state;
    const float sc[8] = {1, 9, 17, 25, 33, 41, 49, 57}, m[8] = {2, 11, 20, 29, 38, 47, 56, 63};
    uint8_t block[144];
    put_u16(block, F16_HALF);
    put_u16(block + 2, F16_MINUS_2);
    memcpy(block + 4, q4_k_scales, sizeof q4_k_scales);
    for (int i = 0; i < 128; i++) block[16 + i] = (uint8_t)(i % 16 | (i / 32 + 3) << 4);

    int8_t q[256];
    float scale[8], offset[8], out[256];
    format_at(FORMAT_Q4_K)->unpack(block, q, scale, offset);
    format_decode(FORMAT_Q4_K, block, out, 256);
    for (int i = 0; i < 256; i++) {
        const int span = i / 32, group = i / 64;
        const int expected = span % 2 == 0 ? i % 16 : group + 3;
        assert_int_equal(q[i], expected);
        assert_true(scale[span] == 0.5f * sc[span]);
        assert_true(offset[span] == 2.0f * m[span]); // dmin is -2, the offset is -(dmin * m)
        assert_true(out[i] == 0.5f * sc[span] * (float)expected + 2.0f * m[span]);
    }
}

static void q6_k_joins_its_bits_and_scales(void **state) {
    (void)state;
    // Values chosen, then packed by the definition: quarters of 32 in each half of 128.
    uint8_t block[210] = {0}, value[256];
    for (int i = 0; i < 256; i++) value[i] = (uint8_t)((i * 29 + i / 64) % 64);
    for (int half = 0; half < 2; half++) {
        const uint8_t *v = value + half * 128;
        for (int i = 0; i < 32; i++) {
            block[half * 64 + i] = (uint8_t)((v[i] & 15) | (v[64 + i] & 15) << 4);
            block[half * 64 + 32 + i] = (uint8_t)((v[32 + i] & 15) | (v[96 + i] & 15) << 4);
            block[128 + half * 32 + i] = (uint8_t)(v[i] >> 4 | v[32 + i] >> 4 << 2 |
                                                   v[64 + i] >> 4 << 4 | v[96 + i] >> 4 << 6);
        }
    }
    for (int span = 0; span < 16; span++) block[192 + span] = (uint8_t)(int8_t)(span * 17 - 128);
    put_u16(block + 208, F16_HALF);

    int8_t q[256];
    float scale[16], out[256];
    format_at(FORMAT_Q6_K)->unpack(block, q, scale, NULL);
    format_decode(FORMAT_Q6_K, block, out, 256);
    for (int i = 0; i < 256; i++) {
        const float expected = 0.5f * (float)(i / 16 * 17 - 128);
        assert_int_equal(q[i], value[i] - 32);
        assert_true(scale[i / 16] == expected);
        assert_true(out[i] == expected * (float)(value[i] - 32));
    }
}

// One literal block, so that packing and unpacking cannot be wrong in the same way.
static void q6_k_literal_bytes(void **state) {
    (void)state;
    uint8_t block[210] = {0};
    block[0] = 0x5a;        // low bits of elements 0 (10) and 64 (5)
    block[63] = 0xc3;       // low bits of elements 63 (3) and 127 (12)
    block[128] = 0x1b;      // high bits of elements 0 (3), 32 (2), 64 (1), 96 (0)
    block[128 + 31] = 0x84; // high bits of elements 31 (0), 63 (1), 95 (0), 127 (2)
    block[192 + 0] = 2, block[192 + 3] = 0xff, block[192 + 4] = 1, block[192 + 7] = 4;
    put_u16(block + 208, F16_ONE);
    float out[256];
    format_decode(FORMAT_Q6_K, block, out, 256);
    assert_true(out[0] == 2.0f * (float)(10 + 48 - 32));
    assert_true(out[63] == -1.0f * (float)(3 + 16 - 32));
    assert_true(out[64] == 1.0f * (float)(5 + 16 - 32));
    assert_true(out[127] == 4.0f * (float)(12 + 32 - 32));
    assert_true(out[1] == 2.0f * -32.0f && out[128] == 0.0f);
}

static void smallest_scale_is_not_lost(void **state) {
    (void)state;
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
static void decode_follows_from_unpack_for_random_bytes(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_sound),
        cmocka_unit_test(sizes_are_those_of_the_files),
        cmocka_unit_test(gguf_numbers_have_their_names),
        cmocka_unit_test(float_formats_decode_at_any_address),
        cmocka_unit_test(q8_0_is_scale_times_int8),
        cmocka_unit_test(q4_0_low_nibbles_come_first),
        cmocka_unit_test(q4_k_unpacks_scales_minima_and_nibbles),
        cmocka_unit_test(q6_k_joins_its_bits_and_scales),
        cmocka_unit_test(q6_k_literal_bytes),
        cmocka_unit_test(smallest_scale_is_not_lost),
        cmocka_unit_test(decode_follows_from_unpack_for_random_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
