// The JSON reader: accepted texts, refused texts with the place of the fault, and the same values
// as jansson.
#include <float.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jread.h"
#include "check.h"

static struct jread reader_of(const char *text) {
    struct jread r;
    jread_init(&r, text, strlen(text));
    return r;
}

static bool is_accepted(const char *text, size_t len) {
    struct jread r;
    jread_init(&r, text, len);
    return jread_skip(&r) && jread_finish(&r);
}

CASE(valid_texts_are_accepted) {
    static const char *const text[] = {
        "null",
        " true ",
        "\t\r\nfalse\n",
        "0",
        "-0",
        "12",
        "-1.5",
        "1e5",
        "1E+05",
        "0.0e-0",
        "1e999",
        "123456789012345678901234567890",
        "\"\"",
        "\"a b\"",
        "\"\xc3\xa9\"",
        "\"\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\x7f\"",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\ude00\\u0000\"",
        "[]",
        "[ ]",
        "{}",
        "{ }",
        "[1]",
        "[ 1 , 2 ]",
        "{\"a\":1}",
        "{ \"a\" : [ ] , \"b\" : { } }",
        "[[[]],{\"\":[{}]}]"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        check(is_accepted(text[i], strlen(text[i])), "%s", text[i]);
}

CASE(bad_texts_are_refused_with_the_place) {
    static const struct {
        const char *text, *error;
        size_t at;
    } bad[] = {
        {"", "the text ends where a value should be", 0},
        {"  ", "the text ends where a value should be", 2},
        {"nul", "expected a value", 0},
        {"True", "expected a value", 0},
        {"tru", "expected a value", 0},
        {"fals e", "expected a value", 0},
        {"NaN", "expected a value", 0},
        {"Infinity", "expected a value", 0},
        {"-Infinity", "a number without digits", 0},
        {"-", "a number without digits", 0},
        {"+1", "expected a value", 0},
        {".5", "expected a value", 0},
        {"01", "a number that begins with 0", 0},
        {"-00", "a number that begins with 0", 0},
        {"1.", "expected a digit behind the point", 2},
        {"1.e5", "expected a digit behind the point", 2},
        {"1e", "expected a digit in the exponent", 2},
        {"1e+", "expected a digit in the exponent", 3},
        {"0x10", "text behind the value", 1},
        {"1 2", "text behind the value", 2},
        {"nullx", "text behind the value", 4},
        {"[1}", "expected ',' or ']'", 2},
        {"[1", "expected ',' or ']'", 2},
        {"[", "the text ends where a value should be", 1},
        {"[,1]", "expected a value", 1},
        {"[1,]", "expected a value", 3},
        {"[1,,2]", "expected a value", 3},
        {"[1 2]", "expected ',' or ']'", 3},
        {"]", "expected a value", 0},
        {"[]]", "text behind the value", 2},
        {"{", "expected a key", 1},
        {"{1:2}", "expected a key", 1},
        {"{\"a\"}", "expected ':'", 4},
        {"{\"a\":}", "expected a value", 5},
        {"{\"a\":1,}", "expected a key", 7},
        {"{\"a\":1 \"b\":2}", "expected ',' or '}'", 7},
        {"{\"a\":1]", "expected ',' or '}'", 6},
        {"{,}", "expected a key", 1},
        {"{'a':1}", "expected a key", 1},
        {"[1] // no", "text behind the value", 4},
        {"\xef\xbb\xbf[]", "expected a value", 0},
        {"\"a", "a string without its closing quote", 0},
        {"[\"a]", "a string without its closing quote", 1},
        {"\"a\nb\"", "a control character in a string", 2},
        {"\"\x1f\"", "a control character in a string", 1},
        {"\"\\x41\"", "unknown escape in a string", 1},
        {"\"\\", "a \\u escape needs four hexadecimal digits", 1},
        {"\"\\u12\"", "a \\u escape needs four hexadecimal digits", 1},
        {"\"\\u00g0\"", "a \\u escape needs four hexadecimal digits", 1},
        {"\"\\ud800\"", "half of a surrogate pair", 1},
        {"\"\\udc00\"", "half of a surrogate pair", 1},
        {"\"\\ud800\\u0041\"", "half of a surrogate pair", 1},
        {"\"\\ud800\\ud800\\udc00\"", "half of a surrogate pair", 1},
        {"\"\\ud800\\udc0", "half of a surrogate pair", 1},
        {"\"\\ud800\\ndc00\"", "half of a surrogate pair", 1},
        {"\"x\x80\"", "a string that is not UTF-8", 2},
        {"\"\xc0\xaf\"", "a string that is not UTF-8", 1},
        {"\"\xc3\"", "a string that is not UTF-8", 1},
        {"\"\xe0\x9f\xbf\"", "a string that is not UTF-8", 1},
        {"\"\xed\xa0\x80\"", "a string that is not UTF-8", 1},
        {"\"\xe2\x82\"", "a string that is not UTF-8", 1},
        {"\"\xf0\x8f\xbf\xbf\"", "a string that is not UTF-8", 1},
        {"\"\xf4\x90\x80\x80\"", "a string that is not UTF-8", 1},
        {"\"\xf5\x80\x80\x80\"", "a string that is not UTF-8", 1},
        {"\"\xff\"", "a string that is not UTF-8", 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct jread r = reader_of(bad[i].text);
        check(!(jread_skip(&r) && jread_finish(&r)), "%s", bad[i].text);
        check(r.error && !strcmp(r.error, bad[i].error) && r.error_at == bad[i].at, "%s: %s at %zu",
              bad[i].text, r.error, r.error_at);
    }
    assert_false(is_accepted("\"a\0b\"", 5));
    assert_false(is_accepted("[\0]", 3));
    assert_false(is_accepted("\"\\\0\"", 4));
}

// Memory ends right behind the text, so that an address sanitizer sees a read too far.
CASE(texts_cut_anywhere_are_refused) {
    static const char text[] =
        "{\"k\\u00e9\": [-12.5e+3, \"\xf0\x9f\x98\x80\\ud83d\\ude00\", true, null, {\"\":[]}]}";
    for (size_t len = 0; len < sizeof text - 1; len++) {
        char *cut = malloc(len + !len);
        memcpy(cut, text, len);
        check(!is_accepted(cut, len), "%zu bytes", len);
        free(cut);
    }
    assert_true(is_accepted(text, sizeof text - 1));
}

static size_t nested(char *out, char open, int depth) {
    size_t n = 0;
    for (int i = 0; i < depth; i++) {
        if (open == '{') n += (size_t)sprintf(out + n, "{\"a\":");
        if (open == '[') out[n++] = '[';
    }
    out[n++] = '1';
    for (int i = 0; i < depth; i++) out[n++] = open == '[' ? ']' : '}';
    return n;
}

CASE(depth_is_limited_to_64) {
    char text[1000];
    for (int i = 0; i < 2; i++) {
        const char open = "[{"[i];
        assert_true(is_accepted(text, nested(text, open, 64)));
        assert_false(is_accepted(text, nested(text, open, 65)));
    }
    struct jread r;
    jread_init(&r, text, nested(text, '[', 65));
    assert_false(jread_skip(&r));
    assert_string_equal(r.error, "nested too deeply");
    assert_int_equal(r.error_at, 64);
    // The reader may be deep already when it skips.
    jread_init(&r, text, nested(text, '[', 64));
    for (int i = 0; i < 64; i++) assert_true(jread_enter_array(&r) && jread_next_item(&r));
    int64_t one;
    assert_true(jread_i64(&r, &one) && one == 1);
    for (int i = 0; i < 64; i++) assert_false(jread_next_item(&r));
    assert_true(jread_finish(&r));
    // A sibling behind a deep one starts afresh.
    static const char siblings[] = "[[1],[2],{\"a\":[3],\"b\":{}},[]]";
    assert_true(is_accepted(siblings, sizeof siblings - 1));
}

CASE(values_come_in_the_order_of_the_text) {
    struct jread r =
        reader_of(" { \"n\" : -7 , \"x\" : 2.5e1, \"b\":[true,false,null],\"s\":\"t\" } ");
    struct jread_text key, text;
    int64_t n = 0;
    double x = 0;
    bool b = false;
    assert_int_equal(jread_peek(&r), JREAD_OBJECT);
    assert_true(jread_enter_object(&r));
    assert_true(jread_next_key(&r, &key) && jread_equals(&key, "n"));
    assert_int_equal(jread_peek(&r), JREAD_NUMBER);
    assert_true(jread_i64(&r, &n) && n == -7);
    assert_true(jread_next_key(&r, &key) && jread_equals(&key, "x"));
    assert_true(jread_f64(&r, &x) && x == 25.0);
    assert_true(jread_next_key(&r, &key) && jread_equals(&key, "b"));
    assert_int_equal(jread_peek(&r), JREAD_ARRAY);
    assert_true(jread_enter_array(&r));
    assert_true(jread_next_item(&r) && jread_peek(&r) == JREAD_BOOL && jread_bool(&r, &b) && b);
    assert_true(jread_next_item(&r) && jread_bool(&r, &b) && !b);
    assert_true(jread_next_item(&r) && jread_peek(&r) == JREAD_NULL && jread_null(&r));
    assert_false(jread_next_item(&r));
    assert_true(jread_next_key(&r, &key) && jread_equals(&key, "s"));
    assert_int_equal(jread_peek(&r), JREAD_STRING);
    assert_true(jread_string(&r, &text) && text.len == 1 && *text.data == 't' && !text.has_escape);
    assert_false(jread_next_key(&r, &key));
    assert_true(jread_finish(&r));
    assert_null(r.error);
}

CASE(a_value_of_another_kind_is_an_error) {
    static const char *const text[] = {"null", "true", "1", "\"s\"", "[]", "{}"};
    for (int i = 0; i < 6; i++) {
        for (int want = 0; want < 7; want++) {
            struct jread r = reader_of(text[i]);
            int64_t n;
            double x;
            bool b, ok;
            struct jread_text s;
            if (want == 0) ok = jread_null(&r);
            if (want == 1) ok = jread_bool(&r, &b);
            if (want == 2) ok = jread_i64(&r, &n);
            if (want == 3) ok = jread_string(&r, &s);
            if (want == 4) ok = jread_enter_array(&r);
            if (want == 5) ok = jread_enter_object(&r);
            if (want == 6) ok = jread_f64(&r, &x);
            const bool fits = i == want || (i == 2 && want == 6);
            check(ok == fits && !r.error == fits, "%s as %d: %s", text[i], want, r.error);
        }
    }
}

CASE(after_an_error_every_call_returns_false) {
    struct jread r = reader_of("[1, {\"a\": 2}]");
    assert_true(jread_enter_array(&r) && jread_next_item(&r));
    assert_false(jread_fail(&r, "first"));
    assert_false(jread_fail(&r, "second"));
    struct jread_text s;
    int64_t n;
    double x;
    bool b;
    const char *raw;
    size_t len;
    assert_int_equal(jread_peek(&r), JREAD_ERROR);
    assert_false(jread_next_item(&r) || jread_next_key(&r, &s) || jread_enter_array(&r));
    assert_false(jread_enter_object(&r) || jread_null(&r) || jread_bool(&r, &b));
    assert_false(jread_i64(&r, &n) || jread_f64(&r, &x) || jread_string(&r, &s));
    assert_false(jread_skip(&r) || jread_raw(&r, &raw, &len) || jread_finish(&r));
    assert_string_equal(r.error, "first");
    rn_error err;
    assert_int_equal(jread_status(&r, "x.json", &err), RN_ERR_MODEL);
    assert_string_equal(err.message, "x.json: offset 1: first");
    r = reader_of("1");
    assert_int_equal(jread_status(&r, "x.json", &err), RN_OK);
}

CASE(integers_have_the_whole_range_and_no_more) {
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"-0", 0},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN},
                {"42", 42}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct jread r = reader_of(good[i].text);
        int64_t value = 99;
        check(jread_i64(&r, &value) && value == good[i].value, "%s", good[i].text);
    }
    static const char *const bad[] = {"9223372036854775808",
                                      "-9223372036854775809",
                                      "1.0",
                                      "1e3",
                                      "99999999999999999999999",
                                      "1.5"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct jread r = reader_of(bad[i]);
        int64_t value;
        check(!jread_i64(&r, &value) && r.error_at == 0, "%s", bad[i]);
    }
}

static void check_f64(const char *text) {
    struct jread r = reader_of(text);
    double value = -1;
    const double want = strtod(text, NULL);
    if (isinf(want)) {
        check(!jread_f64(&r, &value) && r.error, "%s", text);
    } else {
        check(jread_f64(&r, &value) && memcmp(&value, &want, sizeof value) == 0, "%s: %a, not %a",
              text, value, want);
    }
}

CASE(reals_are_rounded_as_strtod_does) {
    static const char *const text[] = {"0",
                                       "-0",
                                       "-0.0",
                                       "0.1",
                                       "1e23",
                                       "5e-324",
                                       "2e-324",
                                       "3e-324",
                                       "1.7976931348623157e308",
                                       "1.7976931348623159e308",
                                       "1e309",
                                       "-1e309",
                                       "1e-400",
                                       "1e99999999999999999999",
                                       "1e-99999999999999999999",
                                       "0e99999999999999999999",
                                       "0.000001e6",
                                       "9007199254740993",
                                       "9007199254740992.999999",
                                       "123456789.123456789e-5",
                                       "1e+2",
                                       "1E-2",
                                       "1000000000000000019884624838656"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) check_f64(text[i]);

    // A tie that only a digit far behind decides: 2^53 + 1 + tiny.
    char big[3000];
    for (int with_one = 0; with_one < 2; with_one++) {
        int n = sprintf(big, "9007199254740993.");
        memset(big + n, '0', 2000);
        big[n + 2000] = with_one ? '1' : '0';
        big[n + 2001] = 0;
        check_f64(big);
        memset(big, '0', 2500); // and a mantissa of leading zeros
        memcpy(big, "0.", 2);
        sprintf(big + 2400, "%de2399", 12 + with_one);
        check_f64(big);
    }
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t bits = seed ^ seed >> 29;
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        sprintf(big, "%.*g", 1 + (int)(seed >> 33) % 20, value);
        if (!strstr(big, "inf")) check_f64(big);
    }
}

CASE(the_locale_does_not_change_numbers) {
    static const char *const name[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "cs_CZ.UTF-8"};
    for (size_t i = 0; i < 4; i++) { // where none is installed this is the C locale again
        if (!setlocale(LC_NUMERIC, name[i])) continue;
        struct jread r = reader_of("12345.678901234567890123");
        double value = 0;
        const bool ok = jread_f64(&r, &value);
        setlocale(LC_NUMERIC, "C");
        check(ok && value == 12345.678901234567890123, "%s: %f", name[i], value);
    }
}

static void check_unescaped(const char *json, const char *want, size_t len) {
    struct jread r = reader_of(json);
    struct jread_text text;
    char out[100];
    check(jread_string(&r, &text) && text.has_escape == !!strchr(json, '\\'), "%s", json);
    check(jread_unescape(&text, out) == len && memcmp(out, want, len) == 0, "%s", json);
    check(len <= text.len, "%s", json);
    if (strlen(want) == len) check(jread_equals(&text, want), "%s", json);
    char other[100];
    snprintf(other, sizeof other, "%sx", want);
    check(!jread_equals(&text, other), "%s", json);
    if (len) {
        other[len - 1] = 0;
        check(!jread_equals(&text, other), "%s", json);
    }
}

CASE(escapes_are_resolved) {
    check_unescaped("\"\"", "", 0);
    check_unescaped("\"plain\"", "plain", 5);
    check_unescaped("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8);
    check_unescaped("\"a\\u0041z\"", "aAz", 3);
    check_unescaped("\"\\u007f\\u0080\\u07ff\\u0800\\uffff\"",
                    "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf", 11);
    check_unescaped("\"\\ud800\\udc00\\uDBFF\\uDFFF\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8);
    check_unescaped("\"\xc3\xa9\\u00E9\"", "\xc3\xa9\xc3\xa9", 4);
    check_unescaped("\"a\\u0000\"", "a\0", 2);
}

CASE(raw_gives_the_text_of_the_value) {
    struct jread r = reader_of("[ {\"a\" : [1, 2 ]} , 7]");
    const char *text;
    size_t len;
    assert_true(jread_enter_array(&r) && jread_next_item(&r) && jread_raw(&r, &text, &len));
    assert_int_equal(len, 15);
    assert_memory_equal(text, "{\"a\" : [1, 2 ]}", len);
    assert_true(jread_next_item(&r) && jread_raw(&r, &text, &len));
    assert_true(len == 1 && *text == '7');
    assert_false(jread_next_item(&r));
    assert_true(jread_finish(&r));
}

// --- against jansson ---

static json_t *value_read(struct jread *r);

static char *text_dup(const struct jread_text *text, size_t *len) {
    char *out = malloc(text->len + 1);
    *len = jread_unescape(text, out);
    out[*len] = 0;
    return out;
}

static json_t *container_read(struct jread *r, bool is_object) {
    json_t *out = is_object ? json_object() : json_array();
    if (is_object) jread_enter_object(r);
    if (!is_object) jread_enter_array(r);
    struct jread_text key;
    while (is_object ? jread_next_key(r, &key) : jread_next_item(r)) {
        size_t len = 0;
        char *name = is_object ? text_dup(&key, &len) : NULL;
        json_t *value = value_read(r);
        // jansson refuses a NUL in a key
        if (name && strlen(name) != len) jread_fail(r, "NUL in a key");
        if (value && name) json_object_set_new(out, name, value);
        if (value && !name) json_array_append_new(out, value);
        free(name);
    }
    if (!r->error) return out;
    json_decref(out);
    return NULL;
}

static json_t *number_read(struct jread *r) {
    struct jread whole = *r;
    const char *text;
    size_t len;
    jread_raw(&whole, &text, &len);
    int64_t n;
    double x;
    if (!whole.error && !memchr(text, '.', len) && !memchr(text, 'e', len) &&
        !memchr(text, 'E', len))
        return jread_i64(r, &n) ? json_integer(n) : NULL;
    return jread_f64(r, &x) ? json_real(x) : NULL;
}

static json_t *value_read(struct jread *r) {
    struct jread_text text;
    bool b;
    switch (jread_peek(r)) {
    case JREAD_NULL:
        return jread_null(r) ? json_null() : NULL;
    case JREAD_BOOL:
        return jread_bool(r, &b) ? json_boolean(b) : NULL;
    case JREAD_NUMBER:
        return number_read(r);
    case JREAD_STRING: {
        if (!jread_string(r, &text)) return NULL;
        size_t len;
        char *data = text_dup(&text, &len);
        json_t *out = json_stringn(data, len);
        free(data);
        return out;
    }
    case JREAD_ARRAY:
    case JREAD_OBJECT:
        return container_read(r, jread_peek(r) == JREAD_OBJECT);
    default:
        return NULL;
    }
}

// Returns whether it was valid.
static bool check_same(const char *text, size_t len) {
    struct jread r;
    jread_init(&r, text, len);
    json_t *ours = value_read(&r);
    if (!jread_finish(&r)) {
        json_decref(ours);
        ours = NULL;
    }
    check(!!ours == !r.error, "%.*s", (int)len, text);
    json_error_t error;
    json_t *theirs = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    check(!!ours == !!theirs, "%.*s\nours: %s at %zu, theirs: %s at %d", (int)len, text,
          r.error ? r.error : "valid", r.error_at, theirs ? "valid" : error.text, error.position);
    check(!ours || json_equal(ours, theirs), "%.*s", (int)len, text);
    const bool is_valid = !!ours;
    json_decref(ours);
    json_decref(theirs);
    return is_valid;
}

static uint32_t draw(uint64_t *seed, uint32_t below) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % below);
}

// Fragments strung together: often valid, often nearly so.
static size_t text_draw(uint64_t *seed, char *out, size_t size) {
    static const char *const part[] = {"[",
                                       "]",
                                       "{",
                                       "}",
                                       ",",
                                       ":",
                                       "1",
                                       "-2.5",
                                       "1e2",
                                       "true",
                                       "null",
                                       "\"a\"",
                                       "\"\\u0041\"",
                                       "\"\\ud83d\\ude00\"",
                                       "\"\xc3\xa9\"",
                                       " ",
                                       "\n",
                                       "\"k\":",
                                       "[1,2]",
                                       "{\"x\":[]}",
                                       "\"\\u0000\"",
                                       "\\",
                                       "\"",
                                       "0",
                                       "\xc3",
                                       "99999999999999999999"};
    static const char *const likely[] = {"[1,", "{\"a\":", "2]", "\"b\"}", ",\"c\":", "[", "3"};
    size_t n = 0;
    const uint32_t count = 1 + draw(seed, 9);
    for (uint32_t i = 0; i < count; i++) {
        const char *const add = draw(seed, 2) ? part[draw(seed, sizeof part / sizeof *part)]
                                              : likely[draw(seed, sizeof likely / sizeof *likely)];
        if (n + strlen(add) >= size) break;
        memcpy(out + n, add, strlen(add));
        n += strlen(add);
    }
    return n;
}

CASE(random_texts_read_as_jansson_reads_them) {
    uint64_t seed = 7;
    char text[300];
    const int n_texts = test_scale(30000, 100000, 100000);
    int n_valid = 0;
    for (int i = 0; i < n_texts; i++)
        n_valid += check_same(text, text_draw(&seed, text, sizeof text));
    assert_true(n_valid > n_texts / 33);
    static const char base[] =
        "{\"a\": [1, -2.5e3, \"x\\n\\u00e9\xe2\x82\xac\", true, null, [], {}],"
        " \"\\ud83d\\ude00\": {\"b\": \"\", \"c\": 0.25}, \"d\" : false }";
    assert_true(check_same(base, sizeof base - 1));
    n_valid = 0;
    for (int i = 0; i < n_texts; i++) {
        memcpy(text, base, sizeof base);
        const uint32_t changes = 1 + draw(&seed, 2);
        for (uint32_t k = 0; k < changes; k++) {
            const uint32_t at = draw(&seed, sizeof base - 1);
            text[at] = draw(&seed, 3) ? base[draw(&seed, sizeof base - 1)]
                                      : (char)(1 + draw(&seed, 255)); // jansson skips some NULs
        }
        n_valid += check_same(text, sizeof base - 1);
    }
    assert_true(n_valid > n_texts / 20);
}

TEST_PROGRAM(jread) { return cases_run(NULL, NULL); }
