// Readers of single fields: accepted values, refused values, and the text of the refusal. Also the
// path at which broken JSON text goes wrong.
// label: memory
#include "fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "helpers.h"
#include "routes.h"

struct world {
    struct server server;
    struct call call;
    struct fields fields;
};

static struct world *world_create(const char *body) {
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->call.server = &world->server;
    world->call.body_len = strlen(body);
    world->call.body = strdup(body);
    const json_t *json = call_json(&world->call);
    world->fields = fields_of(&world->call, json, "");
    return world;
}

static void world_destroy(struct world *world) {
    json_decref(world->call.json);
    jbuf_deinit(&world->call.out);
    free(world->call.body);
    free(world);
}

// The refusal must be a 400 of OpenAI's form with this param, whose message holds this text.
static void expect_refusal(const struct world *world, const char *param, const char *message) {
    check(world->call.status == 400, "%s: status %d", world->call.body, world->call.status);
    json_t *answer = json_loadb(world->call.out.data, world->call.out.len, 0, NULL);
    assert_non_null(answer);
    const json_t *error = json_object_get(answer, "error");
    const char *got = json_string_value(json_object_get(error, "param"));
    const char *text = json_string_value(json_object_get(error, "message"));
    check(got && strcmp(got, param) == 0, "%s: param %s", world->call.body, got ? got : "null");
    check(text && strstr(text, message), "%s: message %s", world->call.body, text);
    json_decref(answer);
}

// ---------------------------------------------------------------- numbers

struct int_case {
    const char *json;
    int64_t min, max;
    int64_t value;       // when accepted
    const char *refused; // NULL: accepted
};

CASE(integers_are_taken_in_their_range_alone) {
    static const struct int_case cases[] = {
        {"3", 1, 128, 3, NULL},
        {"3.0", 1, 128, 3, NULL},
        {"null", 1, 128, -7, NULL},
        {"1", 1, 128, 1, NULL},
        {"128", 1, 128, 128, NULL},
        {"0", 1, 128, 0, "x: 0 is not between 1 and 128"},
        {"-1", 1, 128, 0, "x: -1 is not between 1 and 128"},
        {"129", 1, 128, 0, "x: 129 is not between 1 and 128"},
        {"3.5", 1, 128, 0, "x: expected an integer, got 3.5"},
        {"\"3\"", 1, 128, 0, "x: expected an integer, got \"3\""},
        {"true", 1, 128, 0, "x: expected an integer, got true"},
        {"[]", 1, 128, 0, "x: expected an integer, got []"},
        {"{\"a\":1}", 1, 128, 0, "x: expected an integer, got {\"a\":1}"},
        {"1e300", 1, 128, 0, "x: 1e300 is not between 1 and 128"},
        {"-9223372036854775808", INT64_MIN, INT64_MAX, INT64_MIN, NULL},
        {"9223372036854775807", INT64_MIN, INT64_MAX, INT64_MAX, NULL},
        {"-9223372036854775808.0", INT64_MIN, INT64_MAX, INT64_MIN, NULL},
        {"9223372036854775808.0", INT64_MIN, INT64_MAX, 0,
         "x: 9.223372036854776e18 is not between"},
        {"9223372036854775807", -1, INT32_MAX, 0, "x: 9223372036854775807 is not between -1 and"},
        {"4294967296", -1, INT32_MAX, 0, "x: 4294967296 is not between -1 and 2147483647"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct int_case *c = &cases[i];
        char body[256];
        snprintf(body, sizeof body, "{\"x\":%s}", c->json);
        struct world *world = world_create(body);
        int64_t value = -7;
        const bool ok = field_int(&world->fields, "x", c->min, c->max, &value);
        check(ok == !c->refused, "%s", body);
        if (ok) check(value == c->value, "%s: %lld", body, (long long)value);
        if (!ok) {
            check(value == -7, "%s: a refused field was written", body);
            expect_refusal(world, "x", c->refused);
        }
        world_destroy(world);
    }
}

CASE(reals_are_taken_in_their_range_alone) {
    static const struct {
        const char *json;
        double value;
        const char *refused;
    } cases[] = {
        {"0", 0, NULL},
        {"100", 100, NULL},
        {"0.1", 0.1, NULL},
        {"-0.0", 0, NULL},
        {"null", 0.5, NULL},
        {"1e-400", 0, NULL},
        {"1e9", 0, "x: 1e9 is not between 0 and 100"},
        {"-0.001", 0, "x: -0.001 is not between 0 and 100"},
        {"-1e-7", 0, "x: -1e-7 is not between 0 and 100"},
        {"100.00000000000001", 0, "x: 100.00000000000001 is not between 0 and 100"},
        {"9223372036854775807", 0, "x: 9223372036854775807 is not between 0 and 100"},
        {"\"0.5\"", 0, "x: expected a number, got \"0.5\""},
        {"false", 0, "x: expected a number, got false"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"x\":%s}", cases[i].json);
        struct world *world = world_create(body);
        double value = 0.5;
        const bool ok = field_real(&world->fields, "x", 0, 100, &value);
        check(ok == !cases[i].refused, "%s", body);
        if (ok) check(value == cases[i].value, "%s: %g", body, value);
        if (!ok) expect_refusal(world, "x", cases[i].refused);
        world_destroy(world);
    }
}

// ---------------------------------------------------------------- texts

CASE(long_and_strange_strings_are_shortened_in_messages) {
    char body[4096] = "{\"x\":\"\\u001b[31m\\n";
    for (int i = 0; i < 300; i++) strcat(body, "\xC3\xA9");
    strcat(body, "\"}");
    struct world *world = world_create(body);
    int64_t value;
    assert_false(field_int(&world->fields, "x", 0, 1, &value));
    expect_refusal(world, "x", "got \"?[31m?\xC3\xA9");
    check(world->call.out.len < 400, "%zu bytes", world->call.out.len);
    world_destroy(world);
}

// Whatever pieces the JSON comes in: a message shows its first bytes and no others.
CASE(long_containers_show_their_own_beginning) {
    enum { SHOWN = 63 };
    static const struct {
        const char *before, *after;
    } forms[] = {
        {"{\"", "\":1}"},
        {"{\"k\":\"", "\"}"},
        {"[1,[\"", "\"],2]"},
        {"{\"a\":{\"b\":{\"$schema\":\"", "\"}}}"},
    };
    for (size_t form = 0; form < sizeof forms / sizeof *forms; form++) {
        for (int len = 1; len < 200; len++) {
            char text[256] = "", value[512], body[600], expected[600];
            memset(text, 'k', (size_t)len);
            snprintf(value, sizeof value, "%s%s%s", forms[form].before, text, forms[form].after);
            snprintf(body, sizeof body, "{\"x\":%s}", value);
            snprintf(expected, sizeof expected, "x: %.*s%s is not supported", SHOWN, value,
                     strlen(value) > SHOWN ? "..." : "");
            struct world *world = world_create(body);
            assert_false(field_unsupported(&world->fields, "x", false, "is not supported"));
            expect_refusal(world, "x", expected);
            world_destroy(world);
        }
    }
}

CASE(strings_are_bounded) {
    struct world *world = world_create("{\"x\":\"abcd\",\"n\":null,\"i\":5}");
    const char *text = "kept";
    size_t len = 4;
    assert_true(field_string(&world->fields, "n", 3, &text, &len));
    assert_true(field_string(&world->fields, "absent", 3, &text, &len));
    assert_string_equal(text, "kept");
    assert_true(field_string(&world->fields, "x", 4, &text, &len));
    assert_string_equal(text, "abcd");
    assert_int_equal(len, 4);
    assert_false(field_string(&world->fields, "x", 3, &text, &len));
    expect_refusal(world, "x", "x: \"abcd\" is 4 bytes long, at most 3 are allowed");
    // after a refusal nothing is read any more, and the first one stays
    assert_false(field_string(&world->fields, "i", 3, &text, &len));
    assert_false(field_string(&world->fields, "x", 4, &text, &len));
    expect_refusal(world, "x", "at most 3");
    world_destroy(world);
}

CASE(choices_are_found_by_their_whole_name) {
    static const struct {
        const char *json;
        int index;
        const char *refused;
    } cases[] = {
        {"\"float\"", 0, NULL},
        {"\"base64\"", 1, NULL},
        {"null", 9, NULL},
        {"\"base6\"", 0, "x: expected one of float|base64, got \"base6\""},
        {"\"base64|\"", 0, "expected one of"},
        {"\"float|base64\"", 0, "expected one of"},
        {"\"\"", 0, "expected one of"},
        {"1", 0, "expected one of float|base64, got 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"x\":%s}", cases[i].json);
        struct world *world = world_create(body);
        int index = 9;
        const bool ok = field_choice(&world->fields, "x", "float|base64", &index);
        check(ok == !cases[i].refused, "%s", body);
        if (ok) check(index == cases[i].index, "%s: %d", body, index);
        if (!ok) expect_refusal(world, "x", cases[i].refused);
        world_destroy(world);
    }
}

CASE(lists_of_strings_name_the_wrong_item) {
    static const struct {
        const char *json;
        size_t n;
        const char *param, *refused;
    } cases[] = {
        {"\"a\"", 1, NULL, NULL},
        {"[\"a\",\"bc\"]", 2, NULL, NULL},
        {"[]", 0, NULL, NULL},
        {"null", 7, NULL, NULL},
        {"\"\"", 0, "x", "x: \"\" is empty"},
        {"[\"a\",\"\"]", 0, "x[1]", "x[1]: \"\" is empty"},
        {"[\"a\",null]", 0, "x[1]", "x[1]: expected a string, got null"},
        {"[\"a\",[\"b\"]]", 0, "x[1]", "x[1]: expected a string, got [\"b\"]"},
        {"[\"abcde\"]", 0, "x[0]", "is 5 bytes long, at most 4"},
        {"[\"a\",\"a\",\"a\",\"a\"]", 0, "x", "x: an array of 4, at most 3 are allowed"},
        {"{}", 0, "x", "x: expected a string or an array of strings, got {}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"x\":%s}", cases[i].json);
        struct world *world = world_create(body);
        const char *list[3];
        size_t n = 7;
        const bool ok = field_strings(&world->fields, "x", 3, 4, list, &n);
        check(ok == !cases[i].refused, "%s", body);
        if (ok) check(n == cases[i].n, "%s: %zu", body, n);
        if (!ok) expect_refusal(world, cases[i].param, cases[i].refused);
        world_destroy(world);
    }
}

CASE(a_field_inside_of_another_is_named_by_its_path) {
    struct world *world = world_create("{\"messages\":[1,2,{\"role\":5}]}");
    const json_t *array = NULL;
    assert_true(field_array(&world->fields, "messages", 3, &array));
    const struct fields inner = fields_of(&world->call, json_array_get(array, 2), "messages[2]");
    const char *role;
    assert_false(field_string(&inner, "role", 10, &role, NULL));
    expect_refusal(world, "messages[2].role", "messages[2].role: expected a string, got 5");
    world_destroy(world);
}

CASE(containers_and_flags_are_told_apart) {
    static const char body[] = "{\"o\":{},\"a\":[1],\"t\":true,\"f\":false,\"z\":0}";
    struct world *world = world_create(body);
    const json_t *value = NULL;
    bool flag = false;
    assert_true(field_object(&world->fields, "o", &value) && json_is_object(value));
    assert_true(field_array(&world->fields, "a", 1, &value) && json_is_array(value));
    assert_true(field_bool(&world->fields, "t", &flag) && flag);
    assert_true(field_bool(&world->fields, "f", &flag) && !flag);
    assert_true(field_unsupported(&world->fields, "f", true, "is not supported"));
    assert_true(field_unsupported(&world->fields, "absent", false, "is not supported"));
    assert_false(call_refused(&world->call));
    assert_false(field_unsupported(&world->fields, "f", false, "is not supported"));
    expect_refusal(world, "f", "f: false is not supported");
    world_destroy(world);

    world = world_create(body);
    assert_false(field_bool(&world->fields, "z", &flag));
    expect_refusal(world, "z", "z: expected true or false, got 0");
    world_destroy(world);
    world = world_create(body);
    assert_false(field_object(&world->fields, "a", &value));
    expect_refusal(world, "a", "a: expected an object, got [1]");
    world_destroy(world);
    world = world_create(body);
    assert_false(field_array(&world->fields, "a", 0, &value));
    expect_refusal(world, "a", "at most 0 are allowed");
    world_destroy(world);
}

// ---------------------------------------------------------------- broken text

CASE(broken_json_is_refused_where_it_breaks) {
    static const struct {
        const char *body, *param; // "": no param
    } cases[] = {
        {"{\"temperature\": }", "temperature"},
        {"{\"temperature\": NaN}", "temperature"},
        {"{\"temperature\": Infinity, \"n\": 1}", "temperature"},
        {"{\"temperature\": 1e999}", "temperature"},
        {"{\"n\": 01}", "n"},
        {"{\"n\": 1, \"n\": 2}", "n"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"\xFF\"}]}", "messages[0].content"},
        {"{\"messages\": [{\"content\": \"a\"}, {\"content\": \"a\\q\"}]}", "messages[1].content"},
        {"{\"messages\": [{\"content\": \"not ended", "messages[0].content"},
        {"{\"a\": {\"b\": [[1, 2], [3, \"x\\u000\"]]}}", "a.b[1][1]"},
        {"{\"big\": 99999999999999999999, \"b\": [1, 1e999]}", "b[1]"},
        {"{\"stop\": [\"a\", ]}", "stop[1]"},
        {"{\"a\": 1,}", ""},
        {"{\"a\": 1} x", ""},
        {"", ""},
        {"{", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world *world = world_create(cases[i].body);
        check(world->call.status == 400, "%s: %d", cases[i].body, world->call.status);
        json_t *answer = json_loadb(world->call.out.data, world->call.out.len, 0, NULL);
        assert_non_null(answer);
        const json_t *error = json_object_get(answer, "error");
        const char *param = json_string_value(json_object_get(error, "param"));
        check(strcmp(param ? param : "", cases[i].param) == 0, "%s: param %s", cases[i].body,
              param ? param : "null");
        json_decref(answer);
        world_destroy(world);
    }
}

#define TENS_5  "12345678901234567890123456789012345678901234567890"
#define TENS_30 TENS_5 TENS_5 TENS_5 TENS_5 TENS_5 TENS_5

CASE(integers_of_any_size_are_numbers) {
    static const struct {
        const char *x; // a value
        double real;   // 0: it stays what it is
    } cases[] = {
        {"9223372036854775807", 0},
        {"-9223372036854775808", 0},
        {"9223372036854775808", 0x1p63},
        {"-9223372036854775809", -0x1p63},
        {"18446744073709551615", 0x1p64},
        {"18446744073709551616", 0x1p64},
        {"123456789012345678901234567890", 123456789012345678901234567890.0},
        {"-123456789012345678901234567890", -123456789012345678901234567890.0},
        {"1797693134862315700" TENS_5 TENS_5 TENS_5 TENS_5 TENS_5
         "1234567890123456789012345678901234567890",
         1797693134862315700e290},
        {"18446744073709551615.0", 0x1p64},
        {"18446744073709551615e1", 0x1p64 * 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[2048];
        snprintf(body, sizeof body,
                 "{\"s\":\"\\\"99999999999999999999\",\"x\":%s,\"y\":[%s , {\"seed\":%s}]}",
                 cases[i].x, cases[i].x, cases[i].x);
        struct world *world = world_create(body);
        const json_t *json = world->call.json;
        check(json, "%s: %d", body, world->call.status);
        const json_t *x = json_object_get(json, "x");
        check(json_is_real(x) == (cases[i].real != 0), "%s", body);
        if (json_is_real(x)) {
            const double error = fabs(json_real_value(x) - cases[i].real);
            check(error <= 1e-15 * fabs(cases[i].real), "%s: %.17g", body, json_real_value(x));
        }
        assert_true(json_equal(x, json_array_get(json_object_get(json, "y"), 0)));
        assert_string_equal(json_string_value(json_object_get(json, "s")),
                            "\"99999999999999999999");
        check(!*world->call.big_seed[0].text && !*world->call.big_seed[1].text,
              "%s: a seed inside of another value", body);
        world_destroy(world);
    }
}

CASE(a_byte_order_mark_is_skipped) {
    struct world *world = world_create("\xEF\xBB\xBF{\"x\":7}");
    assert_int_equal(json_integer_value(json_object_get(world->call.json, "x")), 7);
    world_destroy(world);
    world = world_create("\xEF\xBB\xBF{\"x\":}");
    expect_refusal(world, "x", "(at byte 9");
    world_destroy(world);
}

CASE(an_empty_body_is_called_so) {
    static const char *const bodies[] = {"", " \r\n\t", "\xEF\xBB\xBF"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct world *world = world_create(bodies[i]);
        assert_null(world->call.json);
        check(world->call.status == 400 && strstr(world->call.out.data, "the body is empty"),
              "body %zu: %.*s", i, (int)world->call.out.len, world->call.out.data);
        world_destroy(world);
    }
}

CASE(a_number_beyond_doubles_is_named) {
    static const struct {
        const char *body, *param, *message;
    } cases[] = {
        {"{\"temperature\":1e400}", "temperature", "temperature: the number 1e400 is out of range"},
        {"{\"a\":{\"b\":[1,-1.5E+999 , 2]}}", "a.b[1]", "a.b[1]: the number -1.5E+999 is"},
        {"{\"x\":123456789e1000000000000000000000000}", "x",
         "the number 123456789e1000000000000000000000... is out"},
        {"{\"big\":99999999999999999999,\"x\":1e309}", "x", "x: the number 1e309 is out of range"},
        // integers are named as they were sent, too
        {"{\"big\":99999999999999999999,\"x\":-" TENS_30 "1234567890}", "x",
         "x: the number -1234567890123456789012345678901... is out of range"},
        {"{\"seed\":" TENS_30 "1234567890,\"y\":1}", "seed",
         "seed: the number 12345678901234567890123456789012... is out of range"},
        {"{\"\u00e9\":[2," TENS_30 "1234567890]}", "\u00e9[1]",
         "[1]: the number 12345678901234567890123456789012... is out of range"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world *world = world_create(cases[i].body);
        assert_null(world->call.json);
        expect_refusal(world, cases[i].param, cases[i].message);
        world_destroy(world);
    }
    struct world *world = world_create("1e400"); // at no place
    assert_null(world->call.json);
    check(world->call.status == 400, "%d", world->call.status);
    check(strstr(world->call.out.data, "\"message\":\"the number 1e400 is out of range"), "%.*s",
          (int)world->call.out.len, world->call.out.data);
    world_destroy(world);
}

CASE(a_seed_beyond_63_bits_is_exact) {
    static const struct {
        const char *body;
        uint64_t seed;    // 0: not beyond, or too far
        int where;        // of the two seeds
        const char *text; // of one that is too far; else ""
    } cases[] = {
        {"{\"seed\":9223372036854775807}", 0, 0, ""},
        {"{\"seed\":9223372036854775808}", 9223372036854775808u, 0, ""},
        {"{\"a\":[{}],\"seed\" : 18446744073709551615,\"b\":1}", UINT64_MAX, 0, ""},
        {"{\"big\":99999999999999999999,\"seed\":12345678901234567891}", 12345678901234567891u, 0,
         ""},
        {"{\"seed\":12345678901234567891,\"big\":99999999999999999999}", 12345678901234567891u, 0,
         ""},
        {"{\"seed\":1,\"seeds\":18446744073709551615}", 0, 0, ""},
        {"{\"seed\":[18446744073709551615]}", 0, 0, ""},
        {"{\"seed\":{\"seed\":18446744073709551615}}", 0, 0, ""},
        {"{\"options\":{\"a\":{},\"seed\":18446744073709551615}}", UINT64_MAX, 1, ""},
        {"{\"options\":[18446744073709551615]}", 0, 1, ""},
        {"{\"options\":{\"seed\":{\"seed\":18446744073709551615}}}", 0, 1, ""},
        {"{\"seed\":18446744073709551616}", 0, 0, "18446744073709551616"},
        {"{\"seed\":-9223372036854775809}", 0, 0, "-9223372036854775809"},
        {"{\"options\":{\"seed\":-9223372036854775809}}", 0, 1, "-9223372036854775809"},
        {"{\"seed\":1234567890123456789012345678901}", 0, 0, "1234567890123456789012345678..."},
        {"{\"seed\":12345678901234567890123456789012345}", 0, 0, "1234567890123456789012345678..."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world *world = world_create(cases[i].body);
        const struct call *call = &world->call;
        check(call->json, "%s: %d", cases[i].body, call->status);
        const struct json_big *big = &call->big_seed[cases[i].where];
        check(big->fits == (cases[i].seed != 0), "%s", cases[i].body);
        check(!big->fits || big->value == cases[i].seed, "%s: %llu", cases[i].body,
              (unsigned long long)big->value);
        check(!*call->big_seed[!cases[i].where].text, "%s: the other seed", cases[i].body);
        check(big->fits || strcmp(big->text, cases[i].text) == 0, "%s: %s", cases[i].body,
              big->text);
        world_destroy(world);
    }
}

CASE(a_text_may_hold_a_nul_where_a_name_may_not) {
    struct world *world = world_create("{\"x\":\"a\\u0000b\",\"y\":[\"a\\u0000\"]}");
    const char *text = NULL;
    size_t len = 0;
    assert_true(field_text(&world->fields, "x", &text, &len));
    assert_int_equal(len, 3);
    assert_memory_equal(text, "a\0b", 4);
    int index = 7;
    assert_false(field_choice(&world->fields, "x", "a|b", &index));
    expect_refusal(world, "x", "x: expected one of a|b, got \"a?b\"");
    world_destroy(world);
    world = world_create("{\"x\":\"a\\u0000b\",\"y\":[\"a\\u0000\"]}");
    assert_false(field_string(&world->fields, "x", 9, &text, &len));
    expect_refusal(world, "x", "x: must not hold a NUL character");
    world_destroy(world);
    world = world_create("{\"x\":\"a\\u0000b\",\"y\":[\"a\\u0000\"]}");
    assert_false(field_strings(&world->fields, "y", 1, 9, &text, &len));
    expect_refusal(world, "y[0]", "y[0]: must not hold a NUL character");
    world_destroy(world);
}

static uint64_t random_next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

CASE(a_path_of_any_bytes_is_bounded_and_sound) {
    static const char alphabet[] = "{}[]\",:\\ab1 \xC3\xA9\xFF\n";
    uint64_t random = 1;
    for (int round = 0; round < 20000; round++) {
        char text[64], out[40];
        const size_t len = random_next(&random) % sizeof text;
        for (size_t i = 0; i < len; i++)
            text[i] = alphabet[random_next(&random) % (sizeof alphabet - 1)];
        const size_t size = 1 + random_next(&random) % sizeof out;
        json_path_at(text, len, random_next(&random) % 80, out, size);
        assert_true(strlen(out) < size);
        assert_true(unicode_is_valid(out, strlen(out)));
    }
}

// Whatever the text is: it keeps its length, nothing but digits changes, and twice is once.
CASE(any_text_is_searched_for_integers) {
    static const char alphabet[] = "{}[]\",:\\-+.eE0123456789012345678901234567890123456789999999";
    uint64_t random = 2;
    for (int round = 0; round < 20000; round++) {
        const size_t len = random_next(&random) % 100;
        char *text = malloc(len + 1), before[101]; // as large as it must be, for those who watch
        assert_non_null(text);
        for (size_t i = 0; i < len; i++)
            text[i] = alphabet[random_next(&random) % (sizeof alphabet - 1)];
        text[len] = '\0';
        memcpy(before, text, len + 1);
        struct json_big seed = {.place = "seed"};
        json_integers_fit(text, len, &seed, 1);
        assert_int_equal(strlen(text), len);
        for (size_t i = 0; i < len; i++)
            check(text[i] == before[i] || (before[i] >= '0' && before[i] <= '9'), "%s: %s", before,
                  text);
        memcpy(before, text, len + 1);
        json_integers_fit(text, len, &seed, 1);
        assert_string_equal(text, before);
        free(text);
    }
}

CASE(deep_text_costs_no_more_than_its_bytes) {
    enum { DEPTH = 1 << 20 };
    char *text = malloc(DEPTH);
    assert_non_null(text);
    memset(text, '[', DEPTH);
    char out[256];
    json_path_at(text, DEPTH, DEPTH, out, sizeof out);
    check(strncmp(out, "[0][0]", 6) == 0, "%s", out);
    for (int i = 0; i < DEPTH; i++) text[i] = "{\"a\":"[i % 5];
    json_path_at(text, DEPTH, DEPTH, out, sizeof out);
    check(strncmp(out, "a.a.a", 5) == 0, "%s", out);
    // a closed container leaves no trace
    memset(text, ' ', DEPTH);
    memcpy(text, "{\"k\":", 5);
    memset(text + 5, '[', 100);
    memset(text + 105, ']', 100);
    json_path_at(text, 300, 300, out, sizeof out);
    assert_string_equal(out, "k");
    free(text);
}

TEST_PROGRAM(fields) { return cases_run(NULL, NULL); }
