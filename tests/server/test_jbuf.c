// JSON that is written: another library reads every byte and every number back.
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "check.h"
#include "jbuf.h"

// Decodes what the buffer holds, and empties it.
static json_t *decoded(struct jbuf *buf) {
    json_error_t err;
    json_t *value = json_loadb(buf->data, buf->len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &err);
    check(value, "%s: %.*s", err.text, (int)buf->len, buf->data);
    jbuf_clear(buf);
    return value;
}

CASE(every_ascii_character_comes_back) {
    struct jbuf buf = {0};
    for (int c = 0; c < 0x80; c++) {
        const char text[] = {'a', (char)c, 'b'};
        jbuf_string(&buf, text, sizeof text);
        for (size_t i = 0; i < buf.len; i++)
            check((unsigned char)buf.data[i] >= 0x20, "character %d is in the string as it is", c);
        json_t *value = decoded(&buf);
        assert_int_equal(json_string_length(value), sizeof text);
        assert_memory_equal(json_string_value(value), text, sizeof text);
        json_decref(value);
    }
    jbuf_deinit(&buf);
}

CASE(bytes_that_are_no_character_are_replaced) {
    static const struct {
        const char *bytes, *want;
    } rows[] = {
        {"\xc3\xa9", "é"},
        {"\xff", "\xef\xbf\xbd"},
        {"a\xe2\x82", "a\xef\xbf\xbd\xef\xbf\xbd"},               // each byte of it
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, // half of a pair of UTF-16
        {"\xf0\x9f\x98\x80!", "😀!"},
    };
    struct jbuf buf = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        jbuf_cstring(&buf, rows[i].bytes);
        json_t *value = decoded(&buf);
        assert_string_equal(json_string_value(value), rows[i].want);
        json_decref(value);
    }
    jbuf_deinit(&buf);
}

CASE(numbers_come_back) {
    struct jbuf buf = {0};
    static const int64_t whole[] = {0, -1, INT64_MAX, INT64_MIN};
    for (int i = 0; i < 4; i++) {
        jbuf_int(&buf, whole[i]);
        json_t *value = decoded(&buf);
        assert_true(json_integer_value(value) == whole[i]);
        json_decref(value);
    }
    static const double real[] = {0, -0.125, 1e9, 123456.789};
    for (int i = 0; i < 4; i++) {
        jbuf_real(&buf, real[i], 3);
        json_t *value = decoded(&buf);
        assert_true(fabs(json_number_value(value) - real[i]) <= 0.0005);
        json_decref(value);
    }
    static const double none[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        jbuf_real(&buf, none[i], 3);
        json_t *value = decoded(&buf);
        assert_true(json_is_null(value)); // JSON has no such number
        json_decref(value);
    }
    jbuf_deinit(&buf);
}

TEST_PROGRAM(jbuf) { return cases_run(NULL, NULL); }
