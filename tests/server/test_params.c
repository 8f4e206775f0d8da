// Every generation field of every family, walked from the tables themselves. For any JSON value,
// the field is either accepted, and then in its declared range, or refused by its name with a 4xx.
#include "params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "helpers.h"
#include "tale.h"

enum kind { KIND_INT, KIND_FLOAT, KIND_REAL, KIND_BOOL, KIND_STRING, KIND_LIST, KIND_OTHER };

struct row {
    unsigned families;
    const char *name;
    enum kind kind;
    size_t member;
    double min, max;
    const char *allowed; // of a refused one
};

#define MEMBER(name) offsetof(struct params, name)
static const struct row rows[] = {
#define FIELD_INT(which, json, field, least, most)                                                 \
    {which, json, KIND_INT, MEMBER(field), least, most, NULL},
#define FIELD_REAL(which, json, field, least, most)                                                \
    {which, json, KIND_REAL, MEMBER(field), least, most, NULL},
#define FIELD_BOOL(which, json, field) {which, json, KIND_BOOL, MEMBER(field), 0, 1, NULL},
#define FIELD_STRING(which, json, field, most)                                                     \
    {which, json, KIND_STRING, MEMBER(field), 0, most, NULL},
#define FIELD_STRINGS(which, json, field, most, bytes)                                             \
    {which, json, KIND_LIST, MEMBER(field), 0, most, NULL},
#define FIELD_OWN(which, json, reader)                {which, json, KIND_OTHER, 0, 0, 0, NULL},
#define FIELD_REFUSED(which, json, accepted)          {which, json, KIND_OTHER, 0, 0, 0, accepted},
#define FIELD_REPLACED(which, json, accepted, advice) FIELD_REFUSED(which, json, accepted)
#include "fields.def"
#define SAMPLING_NUMBER(kind, id, field, neutral, least, most, json, ...)                          \
    {FAMILY_ANY, json, KIND_##kind, MEMBER(sampling.field), least, most, NULL},
#define SAMPLING_LIST(id, field, item, most, json, ...)                                            \
    {FAMILY_ANY, json, KIND_OTHER, 0, 0, most, NULL},
#define SAMPLING_JSON_ALIAS(id, json) {FAMILY_ANY, json, KIND_OTHER, 0, 0, 0, NULL},
#include "plan/sampling.def"
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static const unsigned families[] = {FAMILY_CHAT, FAMILY_COMPLETIONS, FAMILY_NATIVE,
                                    FAMILY_RESPONSES, FAMILY_MESSAGES};

// ---------------------------------------------------------------- a call by hand

struct world {
    struct server server;
    rn_model_info info;
    struct served served;
    struct call call;
    struct params params;
    bool ok;
};

static const char *const aliases[] = {"second", "third"};

static struct world *world_read(const char *body, size_t len, unsigned family) {
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->info.n_vocab = 1000;
    world->server.config =
        (struct server_config){.request_s = 60, .all_logprobs = true, .strict_model = true};
    world->served = (struct served){.name = "first",
                                    .aliases = aliases,
                                    .n_aliases = 2,
                                    .model = model,
                                    .info = &world->info,
                                    .sampling = rn_sampling_neutral(),
                                    .max_tokens = 77};
    world->served.sampling.temperature = 0.25f;
    world->call.server = &world->server;
    world->call.served = &world->served;
    world->call.body = malloc(len + 1);
    assert_non_null(world->call.body);
    memcpy(world->call.body, body, len);
    world->call.body[len] = '\0';
    world->call.body_len = len;
    const json_t *json = call_json(&world->call);
    world->ok = json && params_read(&world->call, json, (enum family)family, &world->params);
    return world;
}

static struct world *world_of(const char *body, unsigned family) {
    return world_read(body, strlen(body), family);
}

static void world_destroy(struct world *world) {
    json_decref(world->call.json);
    jbuf_deinit(&world->call.out);
    free(world->call.body);
    free(world);
}

// A member of the refusal's error object, to be freed; "": null.
static char *error_member(const struct world *world, const char *name) {
    json_t *answer = json_loadb(world->call.out.data, world->call.out.len, 0, NULL);
    check(answer, "%.200s: the error is no JSON", world->call.body);
    const json_t *error = json_object_get(answer, "error");
    const char *text = json_string_value(json_object_get(error, name));
    char *copy = strdup(text ? text : "");
    json_decref(answer);
    return copy;
}

static void expect_refusal(const char *body, unsigned family, int status, const char *param,
                           const char *message) {
    struct world *world = world_of(body, family);
    check(!world->ok && world->call.status == status, "%.200s: status %d", body,
          world->call.status);
    char *got = error_member(world, "param");
    char *text = error_member(world, "message");
    check(strcmp(got, param) == 0, "%.200s: param %s", body, got);
    check(strstr(text, message), "%.200s: message %s", body, text);
    free(got);
    free(text);
    world_destroy(world);
}

// ---------------------------------------------------------------- what must hold

static void numbers_are_in_range(const struct world *world, unsigned family, const char *body) {
    const char *base = (const char *)&world->params;
    for (int i = 0; i < N_ROWS; i++) {
        double value;
        if (!(rows[i].families & family)) continue;
        if (rows[i].kind == KIND_INT) {
            value = *(const int *)(const void *)(base + rows[i].member);
        } else if (rows[i].kind == KIND_FLOAT) {
            value = (double)*(const float *)(const void *)(base + rows[i].member);
        } else if (rows[i].kind == KIND_REAL) {
            value = *(const double *)(const void *)(base + rows[i].member);
        } else {
            continue;
        }
        check(value >= rows[i].min && value <= rows[i].max, "%.200s: %s is %g", body, rows[i].name,
              value);
    }
}

static void params_are_sound(const struct world *world, unsigned family, const char *body) {
    const struct params *params = &world->params;
    numbers_are_in_range(world, family, body);
    check(params->n >= 1 && params->n <= 128, "%.200s: n %d", body, params->n);
    check(params->max_tokens >= -1, "%.200s: max_tokens %d", body, params->max_tokens);
    check(params->top_logprobs >= 0 &&
              (params->top_logprobs <= 20 || params->top_logprobs == world->info.n_vocab),
          "%.200s", body);
    check(params->timeout_ms >= 0 && params->timeout_ms <= 60e3, "%.200s", body);
    check(params->n_stop <= 16, "%.200s: %zu stops", body, params->n_stop);
    for (size_t i = 0; i < params->n_stop; i++)
        check(*params->stop[i] && strlen(params->stop[i]) <= RN_MAX_STOP_BYTES, "%.200s", body);
    check(!params->cache_salt || strlen(params->cache_salt) <= RN_MAX_SALT_BYTES, "%.200s", body);
    check(!params->user || strlen(params->user) <= USER_BYTES_MAX, "%.200s", body);
    check(params->sampling.n_logit_bias <= RN_MAX_LOGIT_BIAS, "%.200s", body);
    for (size_t i = 0; i < params->sampling.n_logit_bias; i++) {
        const rn_logit_bias *bias = &params->sampling.logit_bias[i];
        check(bias->token >= 0 && bias->token < 4096 && bias->bias >= -100 && bias->bias <= 100,
              "%.200s", body);
    }
    check(params->sampling.n_dry_sequence_breakers <= RN_MAX_DRY_BREAKERS, "%.200s", body);
}

// The property. name: the field, or the object that it is a member of.
static bool taken_or_refused_by_name(const char *body, size_t len, unsigned family,
                                     const char *name) {
    struct world *world = world_read(body, len, family);
    const bool ok = world->ok;
    if (ok) {
        check(world->call.status == 0, "%.200s: status %d", body, world->call.status);
        params_are_sound(world, family, body);
    } else {
        check(world->call.status >= 400 && world->call.status < 500, "%.200s: status %d", body,
              world->call.status);
        char *param = error_member(world, "param");
        char *message = error_member(world, "message");
        check(strncmp(param, name, strlen(name)) == 0, "%.200s: param '%s' and not '%s'", body,
              param, name);
        check(strstr(message, name), "%.200s: message '%s' without '%s'", body, message, name);
        free(param);
        free(message);
    }
    world_destroy(world);
    return ok;
}

// {"a":VALUE}, or {"a":{"b":VALUE}}, and the fields that the family requires. To be freed.
static char *body_of(const char *name, const char *value, unsigned family) {
    const char *dot = strchr(name, '.');
    const int parent = dot ? (int)(dot - name) : 0;
    const char *base =
        family == FAMILY_MESSAGES && strcmp(name, "max_tokens") != 0 ? "\"max_tokens\":5," : "";
    const size_t size = strlen(name) + strlen(value) + strlen(base) + 64;
    char *body = malloc(size);
    assert_non_null(body);
    if (dot) {
        snprintf(body, size, "{%s\"%.*s\":{\"%s\":%s}}", base, parent, name, dot + 1, value);
    } else {
        snprintf(body, size, "{%s\"%s\":%s}", base, name, value);
    }
    return body;
}

static bool value_is_taken(const struct row *row, unsigned family, const char *value) {
    char *body = body_of(row->name, value, family);
    const bool ok = taken_or_refused_by_name(body, strlen(body), family, row->name);
    free(body);
    return ok;
}

// ---------------------------------------------------------------- the probes

static const char *const probes[] = {
    "null",
    "true",
    "false",
    "0",
    "-0",
    "0.0",
    "-0.0",
    "1",
    "-1",
    "2",
    "3.5",
    "1e-320",
    "1e308",
    "-1e308",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775807.0",
    "\"\"",
    "\"1\"",
    "\"auto\"",
    "\"\\ud83d\\ude00\"",
    "\"a\\u0007\\n\"",
    "[]",
    "[1]",
    "[\"a\"]",
    "[\"\"]",
    "[null]",
    "[[1,2]]",
    "[[1,2,3]]",
    "[[\"a\",1]]",
    "[{}]",
    "{}",
    "{\"a\":1}",
    "{\"1\":1}",
    "{\"-1\":1}",
    "{\"99999999999999999999\":1}",
    "{\"999\":101}",
    "{\"1000\":0}",
    "{\"type\":\"text\"}",
    "{\"type\":null}",
    "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
    "{\"include_usage\":\"yes\"}",
    "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
    // not JSON
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "9223372036854775808",
    "-9223372036854775809",
    "340282366920938463463374607431768211456",
    "0x10",
    "01",
    "+1",
    "'a'",
    "",
    "\"\xFF\"",
    "\"\xC0\x80\"",
    "\"\xED\xA0\x80\"",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "\"\n\"",
    "[\"a\",]",
    "{\"a\":1,\"a\":2}",
};

CASE(every_field_takes_or_refuses_any_value) {
    for (int i = 0; i < N_ROWS; i++)
        for (size_t f = 0; f < sizeof families / sizeof *families; f++)
            for (size_t p = 0;
                 (rows[i].families & families[f]) && p < sizeof probes / sizeof *probes; p++)
                value_is_taken(&rows[i], families[f], probes[p]);
}

static char *repeated(const char *open, int n, const char *middle, const char *close) {
    const size_t open_len = strlen(open), close_len = strlen(close), middle_len = strlen(middle);
    char *text = malloc((open_len + close_len) * (size_t)n + middle_len + 1);
    assert_non_null(text);
    char *at = text;
    for (int i = 0; i < n; i++, at += open_len) memcpy(at, open, open_len);
    memcpy(at, middle, middle_len);
    at += middle_len;
    for (int i = 0; i < n; i++, at += close_len) memcpy(at, close, close_len);
    *at = '\0';
    return text;
}

CASE(every_field_takes_or_refuses_large_values) {
    char *long_text = repeated("x", 100000, "", "");
    char *values[] = {
        repeated("\"", 1, long_text, "\""),    repeated("[\"", 1, long_text, "\"]"),
        repeated("\"a\",", 4000, "", ""),      repeated("[", 1000, "", "]"),
        repeated("{\"a\":", 1000, "1", "}"),   repeated("[", 100000, "", ""),
        repeated("{\"a\":", 100000, "", ""),   repeated("9", 400, "", ""),
        repeated("0.", 1, long_text + 1, "1"),
    };
    // a list of its own brackets
    char *list = malloc(strlen(values[2]) + 8);
    assert_non_null(list);
    sprintf(list, "[%s\"a\"]", values[2]);
    free(values[2]);
    values[2] = list;
    for (int i = 0; i < N_ROWS; i++) {
        const unsigned family = rows[i].families & -rows[i].families;
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            value_is_taken(&rows[i], family, values[v]);
    }
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) free(values[v]);
    free(long_text);
}

CASE(an_object_with_members_must_be_one) {
    for (int i = 0; i < N_ROWS; i++) {
        const char *dot = strchr(rows[i].name, '.');
        if (!dot) continue;
        char parent[64] = "";
        memcpy(parent, rows[i].name, (size_t)(dot - rows[i].name));
        const struct row row = {rows[i].families, parent, KIND_OTHER, 0, 0, 0, NULL};
        for (size_t f = 0; f < sizeof families / sizeof *families; f++)
            for (size_t p = 0; (row.families & families[f]) && p < sizeof probes / sizeof *probes;
                 p++) {
                const bool is_object = probes[p][0] == '{' || strcmp(probes[p], "null") == 0;
                const bool ok = value_is_taken(&row, families[f], probes[p]);
                check(!ok || is_object, "%s: %s was taken", parent, probes[p]);
            }
    }
}

// ---------------------------------------------------------------- ranges

static double member_value(const struct row *row, const struct params *params) {
    const void *member = (const char *)params + row->member;
    if (row->kind == KIND_INT) return *(const int *)member;
    if (row->kind == KIND_FLOAT) return (double)*(const float *)member;
    return *(const double *)member;
}

// Tries one number: taken exactly if in range (and whole, for an integer), with its value.
static void number_is_judged(const struct row *row, unsigned family, double value) {
    char text[400];
    snprintf(text, sizeof text, value == floor(value) ? "%.0f" : "%.17g", value);
    if (!strpbrk(text, ".e") && fabs(value) >= 0x1p63) strcat(text, ".0");
    char *body = body_of(row->name, text, family);
    struct world *world = world_of(body, family);
    const bool whole = row->kind != KIND_INT || value == floor(value);
    const bool expected = value >= row->min && value <= row->max && whole;
    check(world->ok == expected, "%s: %s was %s", row->name, text,
          expected ? "refused" : "accepted");
    if (expected) {
        const double limit = strcmp(row->name, "timeout_ms") == 0 ? 60e3 : 1e308;
        const double wanted = row->kind == KIND_FLOAT ? (double)(float)value
                              : value < limit         ? value
                                                      : limit;
        check(member_value(row, &world->params) == wanted, "%s: %s became %g", row->name, text,
              member_value(row, &world->params));
    } else {
        check(world->call.status == 400, "%s: %s gave %d", row->name, text, world->call.status);
    }
    free(body);
    world_destroy(world);
}

CASE(numbers_are_taken_exactly_in_their_range) {
    for (int i = 0; i < N_ROWS; i++) {
        const struct row *row = &rows[i];
        if (row->kind > KIND_REAL) continue;
        const double tried[] = {row->min,
                                row->max,
                                row->min - 1,
                                row->max + 1,
                                row->min + 1,
                                row->max - 1,
                                -1,
                                0,
                                1,
                                0.5,
                                row->min - 1e-6,
                                row->max * 1.000001,
                                0x1p31,
                                -0x1p31 - 1,
                                0x1p32,
                                0x1p53,
                                -0x1p63,
                                0x1p63,
                                1e300,
                                -1e300};
        for (size_t f = 0; f < sizeof families / sizeof *families; f++)
            for (size_t t = 0; (row->families & families[f]) && t < sizeof tried / sizeof *tried;
                 t++)
                number_is_judged(row, families[f], tried[t]);
    }
}

CASE(flags_are_true_or_false_alone) {
    for (int i = 0; i < N_ROWS; i++) {
        if (rows[i].kind != KIND_BOOL) continue;
        const unsigned family = rows[i].families & -rows[i].families;
        for (size_t p = 0; p < sizeof probes / sizeof *probes; p++) {
            const bool expected = strcmp(probes[p], "true") == 0 ||
                                  strcmp(probes[p], "false") == 0 || strcmp(probes[p], "null") == 0;
            check(value_is_taken(&rows[i], family, probes[p]) == expected, "%s: %s", rows[i].name,
                  probes[p]);
        }
        char *body = body_of(rows[i].name, "true", family);
        struct world *world = world_of(body, family);
        const char *base = (const char *)&world->params;
        check(*(const bool *)(base + rows[i].member), "%s", body);
        world_destroy(world);
        free(body);
    }
}

CASE(strings_are_taken_up_to_their_length) {
    for (int i = 0; i < N_ROWS; i++) {
        if (rows[i].kind != KIND_STRING) continue;
        const unsigned family = rows[i].families & -rows[i].families;
        for (int more = 0; more < 2; more++) {
            char *text = repeated("x", (int)rows[i].max + more, "", "");
            char *value = repeated("\"", 1, text, "\"");
            check(value_is_taken(&rows[i], family, value) == !more, "%s: %zu bytes", rows[i].name,
                  strlen(text));
            free(value);
            free(text);
        }
    }
}

CASE(what_is_not_supported_is_refused_and_what_asks_for_nothing_is_not) {
    for (int i = 0; i < N_ROWS; i++) {
        if (!rows[i].allowed) continue;
        json_t *allowed = json_loads(rows[i].allowed, 0, NULL);
        check(json_is_array(allowed), "%s: %s", rows[i].name, rows[i].allowed);
        for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
            if (!(rows[i].families & families[f])) continue;
            for (size_t a = 0; a < json_array_size(allowed); a++) {
                char *value = json_dumps(json_array_get(allowed, a), JSON_ENCODE_ANY);
                check(value_is_taken(&rows[i], families[f], value), "%s: %s", rows[i].name, value);
                free(value);
            }
            check(value_is_taken(&rows[i], families[f], "null"), "%s: null", rows[i].name);
            check(!value_is_taken(&rows[i], families[f], "\"something\""), "%s", rows[i].name);
            check(!value_is_taken(&rows[i], families[f], "{\"type\":\"json_object\"}"), "%s",
                  rows[i].name);
            check(!value_is_taken(&rows[i], families[f], "17"), "%s", rows[i].name);
        }
        json_decref(allowed);
    }
    expect_refusal("{\"modalities\":[\"audio\"]}", FAMILY_CHAT, 400, "modalities",
                   "modalities: [\"audio\"] is not supported; [\"text\"] is");
    expect_refusal("{\"audio\":{\"voice\":\"x\"}}", FAMILY_CHAT, 400, "audio",
                   "audio: {\"voice\":\"x\"} is not supported; leave it out");
    expect_refusal("{\"tool_choice\":\"required\"}", FAMILY_COMPLETIONS, 400, "tool_choice",
                   "required");
}

// ---------------------------------------------------------------- single fields

CASE(a_model_is_one_that_is_served) {
    static const char *const fine[] = {"{}", "{\"model\":null}", "{\"model\":\"\"}",
                                       "{\"model\":\"first\"}", "{\"model\":\"third\"}"};
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        struct world *world = world_of(fine[i], FAMILY_CHAT);
        check(world->ok, "%s", fine[i]);
        world_destroy(world);
    }
    expect_refusal("{\"model\":\"fourth\"}", FAMILY_CHAT, 404, "model",
                   "The model `fourth` does not exist.");
    expect_refusal("{\"model\":5}", FAMILY_CHAT, 400, "model", "expected a string, got 5");
}

CASE(what_is_absent_is_the_servers) {
    struct world *world = world_of("{\"top_p\":null,\"max_tokens\":null}", FAMILY_CHAT);
    assert_true(world->ok);
    const struct params *params = &world->params;
    assert_true(params->sampling.temperature == 0.25f && params->sampling.top_p == 1);
    assert_int_equal(params->max_tokens, 77);
    assert_int_equal(params->n, 1);
    assert_false(params->stream || params->logprobs || params->ignore_eos || params->include_usage);
    assert_false(params->sampling.has_seed);
    assert_null(params->user);
    assert_null(params->cache_salt);
    assert_null(params->sampling.dry_sequence_breakers);
    world_destroy(world);
}

CASE(embedded_prompts_are_refused) {
    expect_refusal("{\"prompt_embeds\":\"gASV\"}", FAMILY_COMPLETIONS, 400, "prompt_embeds",
                   "\"gASV\" is not supported");
    struct world *world = world_of("{\"prompt_embeds\":null}", FAMILY_COMPLETIONS);
    assert_true(world->ok);
    world_destroy(world);
}

CASE(the_later_name_of_a_limit_wins) {
    struct world *world = world_of("{\"max_completion_tokens\":5,\"max_tokens\":9}", FAMILY_CHAT);
    assert_int_equal(world->params.max_tokens, 5);
    world_destroy(world);
    world = world_of("{\"n_predict\":-1,\"repeat_penalty\":1.5}", FAMILY_NATIVE);
    assert_true(world->ok && world->params.max_tokens == -1);
    assert_true(world->params.sampling.repetition_penalty == 1.5f);
    world_destroy(world);
    world = world_of("{\"max_tokens\":-1}", FAMILY_CHAT); // as LM Studio's and llama.cpp's clients
    assert_true(world->ok && world->params.max_tokens == -1);
    world_destroy(world);
    static const unsigned also[] = {FAMILY_CHAT, FAMILY_COMPLETIONS, FAMILY_RESPONSES};
    for (int i = 0; i < 3; i++) { // as llama.cpp
        world = world_of("{\"n_predict\":3,\"max_tokens\":5,\"max_output_tokens\":6}", also[i]);
        assert_true(world->ok && world->params.max_tokens == 3);
        world_destroy(world);
    }
    world = world_of("{\"n_predict\":0}", FAMILY_CHAT);
    assert_true(world->ok && world->params.max_tokens == 0);
    world_destroy(world);
    expect_refusal("{\"n_predict\":-2}", FAMILY_COMPLETIONS, 400, "n_predict", "-2 is not");
    expect_refusal("{\"max_tokens\":-2}", FAMILY_CHAT, 400, "max_tokens", "-2 is not between -1");
    expect_refusal("{}", FAMILY_MESSAGES, 400, "max_tokens", "max_tokens: field required");
    expect_refusal("{\"max_tokens\":null}", FAMILY_MESSAGES, 400, "max_tokens", "field required");
    expect_refusal("{\"max_tokens\":0}", FAMILY_MESSAGES, 400, "max_tokens", "0 is not between 1");
}

CASE(seeds_are_any_integer) {
    static const struct {
        const char *body;
        unsigned family;
        bool has_seed;
        uint64_t seed;
    } cases[] = {
        {"{\"seed\":0}", FAMILY_CHAT, true, 0},
        {"{\"seed\":-1}", FAMILY_CHAT, true, UINT64_MAX},
        {"{\"seed\":-9223372036854775808}", FAMILY_CHAT, true, (uint64_t)1 << 63},
        {"{\"seed\":9223372036854775807}", FAMILY_COMPLETIONS, true, INT64_MAX},
        {"{\"seed\":9223372036854775808}", FAMILY_CHAT, true, (uint64_t)1 << 63},
        {"{\"seed\":18446744073709551615}", FAMILY_RESPONSES, true, UINT64_MAX},
        {"{\"seed\":12345678901234567891}", FAMILY_NATIVE, true, 12345678901234567891u},
        {"{\"seed\":1e19}", FAMILY_CHAT, true, 10000000000000000000u},
        {"{\"seed\":null}", FAMILY_CHAT, false, 0},
        {"{\"seed\":-1}", FAMILY_NATIVE, false, 0},
        {"{\"seed\":4294967295}", FAMILY_NATIVE, false, 0},
        {"{\"seed\":7}", FAMILY_NATIVE, true, 7},
        {"{\"options\":{\"seed\":12345678901234567891}}", FAMILY_OLLAMA, true,
         12345678901234567891u},
        {"{\"options\":{\"seed\":18446744073709551615}}", FAMILY_OLLAMA, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world *world = world_of(cases[i].body, cases[i].family);
        const rn_sampling *sampling = &world->params.sampling;
        check(world->ok && sampling->has_seed == cases[i].has_seed, "%s", cases[i].body);
        check(!sampling->has_seed || sampling->seed == cases[i].seed, "%s", cases[i].body);
        world_destroy(world);
    }
    expect_refusal("{\"seed\":1.5}", FAMILY_CHAT, 400, "seed", "expected an integer, got 1.5");
    expect_refusal("{\"seed\":18446744073709551616}", FAMILY_CHAT, 400, "seed",
                   "18446744073709551616 is not between -9223372036854775808 and "
                   "18446744073709551615");
    // A double cannot tell it from the least seed.
    expect_refusal("{\"seed\":-9223372036854775809}", FAMILY_NATIVE, 400, "seed",
                   "-9223372036854775809 is not between -9223372036854775808 and");
    expect_refusal("{\"options\":{\"seed\":-9223372036854775809}}", FAMILY_OLLAMA, 400,
                   "options.seed", "-9223372036854775809 is not between -9223372036854775808 and");
    expect_refusal("{\"seed\":-9223372036854775809.0e1}", FAMILY_CHAT, 400, "seed",
                   "is not between -9223372036854775808 and 18446744073709551615");
}

CASE(logprobs_mean_what_each_family_says) {
    static const struct {
        const char *body;
        unsigned family;
        bool logprobs;
        int top;
    } cases[] = {
        {"{\"logprobs\":true,\"top_logprobs\":20}", FAMILY_CHAT, true, 20},
        {"{\"logprobs\":true}", FAMILY_CHAT, true, 0},
        {"{\"top_logprobs\":0}", FAMILY_CHAT, false, 0},
        {"{\"logprobs\":true,\"top_logprobs\":-1}", FAMILY_CHAT, true, 1000},
        {"{\"logprobs\":-1}", FAMILY_COMPLETIONS, true, 1000},
        {"{\"logprobs\":0}", FAMILY_COMPLETIONS, true, 0},
        {"{\"logprobs\":5}", FAMILY_COMPLETIONS, true, 5},
        {"{\"logprobs\":null}", FAMILY_COMPLETIONS, false, 0},
        {"{\"n_probs\":3}", FAMILY_NATIVE, true, 3},
        {"{\"n_probs\":0}", FAMILY_NATIVE, false, 0},
        {"{\"top_logprobs\":4}", FAMILY_RESPONSES, true, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world *world = world_of(cases[i].body, cases[i].family);
        check(world->ok && world->params.logprobs == cases[i].logprobs &&
                  world->params.top_logprobs == cases[i].top,
              "%s", cases[i].body);
        world_destroy(world);
    }
    expect_refusal("{\"top_logprobs\":3}", FAMILY_CHAT, 400, "top_logprobs",
                   "logprobs is not true");
    expect_refusal("{\"logprobs\":true,\"top_logprobs\":21}", FAMILY_CHAT, 400, "top_logprobs",
                   "21 is not between -1 and 20");
    expect_refusal("{\"logprobs\":true}", FAMILY_COMPLETIONS, 400, "logprobs", "got true");
    expect_refusal("{\"logprobs\":21}", FAMILY_COMPLETIONS, 400, "logprobs", "21 is not");
    expect_refusal("{\"n\":2,\"best_of\":3}", FAMILY_COMPLETIONS, 400, "best_of",
                   "best_of: 3 is not n, which is 2");
    expect_refusal("{\"n\":2,\"best_of\":1}", FAMILY_COMPLETIONS, 400, "best_of", "1 is not n");
}

CASE(biases_come_as_an_object_or_as_pairs) {
    static const char *const bodies[] = {"{\"logit_bias\":{\"5\":-100,\"999\":2.5}}",
                                         "{\"logit_bias\":[[5,-100],[999,2.5]]}",
                                         "{\"logit_bias\":[[5,false],[999.0,2.5]]}",
                                         "{\"logit_bias\":{\"5\":false,\"999\":2.5}}"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct world *world = world_of(bodies[i], FAMILY_NATIVE);
        const rn_sampling *sampling = &world->params.sampling;
        check(world->ok && sampling->n_logit_bias == 2, "%s", bodies[i]);
        for (int b = 0; b < 2; b++) {
            const rn_logit_bias *bias = &sampling->logit_bias[b];
            check((bias->token == 5 && bias->bias == -100) ||
                      (bias->token == 999 && bias->bias == 2.5f),
                  "%s: %d %g", bodies[i], bias->token, (double)bias->bias);
        }
        world_destroy(world);
    }
    expect_refusal("{\"logit_bias\":{\"1000\":1}}", FAMILY_CHAT, 400, "logit_bias",
                   "\"1000\" is not the id of a token, 0 to 999");
    expect_refusal("{\"logit_bias\":{\"\":1}}", FAMILY_CHAT, 400, "logit_bias", "\"\" is not");
    expect_refusal("{\"logit_bias\":{\"-5\":1}}", FAMILY_CHAT, 400, "logit_bias", "\"-5\" is not");
    expect_refusal("{\"logit_bias\":[[\"\",1]]}", FAMILY_CHAT, 400, "logit_bias[0]", "\"\" is not");
    expect_refusal("{\"logit_bias\":{\"5\":100.5}}", FAMILY_CHAT, 400, "logit_bias.5",
                   "100.5 is not between -100 and 100");
    expect_refusal("{\"logit_bias\":[[5,1],[6]]}", FAMILY_CHAT, 400, "logit_bias[1]",
                   "expected a token's id and a number");
    expect_refusal("{\"logit_bias\":[[null,1]]}", FAMILY_CHAT, 400, "logit_bias[0]", "got null");
    expect_refusal("{\"logit_bias\":[[-1,1]]}", FAMILY_CHAT, 400, "logit_bias[0].id", "-1 is not");

    char *many = repeated("[1,1],", RN_MAX_LOGIT_BIAS, "[1,1]", "");
    char *list = repeated("[", 1, many, "]");
    char *body = body_of("logit_bias", list, FAMILY_CHAT);
    expect_refusal(body, FAMILY_CHAT, 400, "logit_bias", "1025 tokens, at most 1024");
    free(body);
    free(list);
    free(many);
}

// " fox" is one token or several, and each of them gets the bias.
CASE(biases_name_tokens_by_their_text) {
    static const char *const bodies[] = {"{\"logit_bias\":{\" Fox1\":-2,\"7\":false}}",
                                         "{\"logit_bias\":[[\" Fox1\",-2],[7,false]]}",
                                         "{\"logit_bias\":[[\" Fox1\",-2],[7,false],[7,0]]}"};
    int32_t *ids;
    size_t n;
    assert_int_equal(rn_tokenize(model, " Fox1", 5, 0, &ids, &n, NULL), RN_OK);
    assert_true(n > 1);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct world *world = world_of(bodies[i], FAMILY_COMPLETIONS);
        const rn_sampling *sampling = &world->params.sampling;
        check(world->ok && sampling->n_logit_bias == n + 1 + i / 2, "%s", bodies[i]);
        for (size_t b = 0; b < n; b++)
            assert_true(sampling->logit_bias[b].token == ids[b] &&
                        sampling->logit_bias[b].bias == -2);
        assert_true(sampling->logit_bias[n].token == 7 && sampling->logit_bias[n].bias == -100);
        world_destroy(world);
    }
    rn_free(ids);
    // digits of a pair's string are a text, digits of a key an id
    struct world *world = world_of("{\"logit_bias\":[[\"7\",1]]}", FAMILY_CHAT);
    assert_int_equal(rn_tokenize(model, "7", 1, 0, &ids, &n, NULL), RN_OK);
    assert_true(world->ok && world->params.bias[0].token == ids[0] && ids[0] != 7);
    rn_free(ids);
    world_destroy(world);
    char *many = repeated("Q1 ", RN_MAX_LOGIT_BIAS, "", "");
    char *body = repeated("{\"logit_bias\":{\"", 1, many, "\":1}}");
    expect_refusal(body, FAMILY_CHAT, 400, "logit_bias",
                   "more than 1024 tokens, the most that are allowed");
    free(body);
    free(many);
}

CASE(samplers_that_a_list_lacks_are_off) {
    static const struct {
        const char *list;
        bool temperature, top_k, top_p, typical, penalties;
    } cases[] = {
        {"[\"top_k\",\"top_p\",\"infill\"]", false, true, true, false, false},
        {"[\"min_p\",\"temperature\"]", true, false, false, false, false},
        {"[]", false, false, false, false, false},
        {"\"\"", false, false, false, false, false},
        {"\"kt\"", true, true, false, false, false},
        {"\"edskypmxt\"", true, true, true, true, true},
        {"[\"Top-K\",\"topp\",\"temp\",\"typ-p\",\"penalties\"]", true, true, true, true, true},
        {"[\"nucleus\",\"nucleus\",\"top__k\",\"topk \"]", false, false, true, false, false},
        {"null", true, true, true, true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{\"samplers\":%s,\"temperature\":0.5,\"top_k\":7,\"top_p\":0.9,\"typical_p\":0.8,"
                 "\"repeat_penalty\":1.5,\"presence_penalty\":0.5,\"logit_bias\":{\"5\":1}}",
                 cases[i].list);
        struct world *world = world_of(body, FAMILY_NATIVE);
        const rn_sampling *sampling = &world->params.sampling;
        check(world->ok, "%s", body);
        check((sampling->temperature == 0.5f) == cases[i].temperature, "%s", body);
        check(cases[i].temperature || sampling->temperature == 1, "%s", body);
        check((sampling->top_k == 7) == cases[i].top_k, "%s", body);
        check((sampling->top_p == 0.9f) == cases[i].top_p, "%s", body);
        check((sampling->typical_p == 0.8f) == cases[i].typical, "%s", body);
        check((sampling->repetition_penalty == 1.5f) == cases[i].penalties, "%s", body);
        check((sampling->presence_penalty == 0.5f) == cases[i].penalties, "%s", body);
        assert_int_equal(sampling->n_logit_bias, 1); // no step of the list
        world_destroy(world);
    }
    expect_refusal("{\"samplers\":[7]}", FAMILY_CHAT, 400, "samplers", "item 0, 7, is not a name");
    expect_refusal("{\"samplers\":{}}", FAMILY_COMPLETIONS, 400, "samplers", "expected a list");
}

CASE(stops_and_breakers_are_bounded_lists) {
    struct world *world = world_of("{\"stop\":\"END\",\"dry_sequence_breakers\":[]}", FAMILY_CHAT);
    assert_true(world->ok && world->params.n_stop == 1);
    assert_string_equal(world->params.stop[0], "END");
    assert_non_null(world->params.sampling.dry_sequence_breakers);
    assert_int_equal(world->params.sampling.n_dry_sequence_breakers, 0);
    world_destroy(world);
    for (int n = RN_MAX_STOPS; n <= RN_MAX_STOPS + 1; n++) {
        char *items = repeated("\"a\",", n - 1, "\"a\"", "");
        char *list = repeated("[", 1, items, "]");
        for (int field = 0; field < 2; field++) {
            char *body =
                body_of(field ? "stop" : "dry_sequence_breakers", list, FAMILY_COMPLETIONS);
            world = world_of(body, FAMILY_COMPLETIONS);
            check(world->ok == (n <= RN_MAX_STOPS), "%s", body);
            world_destroy(world);
            free(body);
        }
        free(list);
        free(items);
    }
    world = world_of("{\"max_tokens\":1,\"stop_sequences\":[\"a\",\"b\"],"
                     "\"metadata\":{\"user_id\":\"u\"}}",
                     FAMILY_MESSAGES);
    assert_true(world->ok && world->params.n_stop == 2);
    assert_string_equal(world->params.user, "u");
    world_destroy(world);
}

CASE(unknown_fields_are_ignored) {
    struct world *world = world_of("{\"prediction\":{\"type\":\"content\"},\"nonsense\":[1],"
                                   "\"store\":true,\"stream_options\":{\"other\":1}}",
                                   FAMILY_CHAT);
    assert_true(world->ok);
    world_destroy(world);
    // a name of another family is unknown in this one
    world = world_of("{\"n_probs\":\"x\",\"stop_sequences\":5}", FAMILY_CHAT);
    assert_true(world->ok);
    world_destroy(world);
}

CASE(test_drafts_may_be_limited_or_refused_by_either_spelling) {
    static const struct {
        const char *body;
        int want;
    } row[] = {
        {"{}", 0},
        {"{\"speculative.n_max\":null}", 0},
        {"{\"speculative.n_max\":0}", -1},
        {"{\"speculative.n_max\":4}", 4},
        {"{\"speculative.n_max\":1000}", RN_MAX_DRAFT},
        {"{\"speculative\":{\"n_max\":0}}", -1},
        {"{\"speculative\":{\"n_max\":7}}", 7},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct world *world = world_of(row[i].body, FAMILY_NATIVE);
        check(world->ok && world->params.draft_max == row[i].want, "%s: %d", row[i].body,
              world->params.draft_max);
        world_destroy(world);
    }
    expect_refusal("{\"speculative.n_max\":-1}", FAMILY_CHAT, 400, "speculative.n_max",
                   "-1 is not between 0");
    expect_refusal("{\"speculative\":{\"n_max\":\"x\"}}", FAMILY_COMPLETIONS, 400,
                   "speculative.n_max", "expected an integer");
}

TEST_PROGRAM(params) { return cases_run(open_model, close_model); }
