// Every generation field of every family, walked from the tables themselves. For any JSON value,
// the field is either accepted, and then in its declared range, or refused by its name with a 4xx.
#include <math.h>
#include <stdio.h>

#include "params_world.h"

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
TEST_PROGRAM(params) { return cases_run(open_model, close_model); }
