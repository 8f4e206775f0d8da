// The sampling table: its rows are valid, and values outside their ranges are refused by name.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "engine/choice/sampling.h"

struct row {
    const char *field, *json, *flag, *help;
    double neutral, min, max;
    bool whole;
    size_t offset;
};

#define WHOLE_FLOAT false
#define WHOLE_INT   true
static const struct row rows[] = {
#define SAMPLING_NUMBER(kind, id, field_, neutral_, min_, max_, json_, flag_, help_)               \
    {#field_,                                                                                      \
     json_,                                                                                        \
     flag_,                                                                                        \
     help_,                                                                                        \
     (double)neutral_,                                                                             \
     min_,                                                                                         \
     max_,                                                                                         \
     WHOLE_##kind,                                                                                 \
     offsetof(rn_sampling, field_)},
#include "plan/sampling.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

static void row_set(rn_sampling *s, const struct row *row, double value) {
    char *at = (char *)s + row->offset;
    const int whole = row->whole ? (int)value : 0;
    const float real = (float)value;
    memcpy(at, row->whole ? (const void *)&whole : (const void *)&real, sizeof real);
}

static void refused(const rn_sampling *s, const char *name, const char *value) {
    rn_error err = {0};
    check(sampling_check(s, &err) == RN_ERR_ARG, "%s %s is accepted", name, value);
    check(strstr(err.message, name), "'%s' does not name %s", err.message, name);
    check(strstr(err.message, value), "'%s' does not name %s", err.message, value);
}

CASE(neutral_values_are_in_their_ranges) {
    const rn_sampling neutral = rn_sampling_neutral(), zero = {0};
    rn_error err = {0};
    check(sampling_check(&neutral, &err) == RN_OK, "%s", err.message);
    check(sampling_check(&zero, &err) == RN_OK, "%s", err.message);
    for (int i = 0; i < ROWS; i++) {
        assert_true(rows[i].neutral >= rows[i].min && rows[i].neutral <= rows[i].max);
        rn_sampling s = {0};
        row_set(&s, &rows[i], rows[i].neutral);
        assert_memory_equal((const char *)&s + rows[i].offset,
                            (const char *)&neutral + rows[i].offset, sizeof(float));
    }
}

CASE(both_ends_of_a_range_are_accepted_and_what_is_beyond_refused) {
    for (int i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
        rn_sampling s = rn_sampling_neutral();
        rn_error err = {0};
        row_set(&s, row, row->min);
        check(sampling_check(&s, &err) == RN_OK, "%s", err.message);
        row_set(&s, row, row->max);
        check(sampling_check(&s, &err) == RN_OK, "%s", err.message);
        char value[32];
        row_set(&s, row, row->min - 1);
        snprintf(value, sizeof value, " %.10g,", row->min - 1);
        refused(&s, row->field, value);
        if (row->whole) continue; // their ranges end with the type
        row_set(&s, row, row->max + 0.5);
        snprintf(value, sizeof value, " %.10g,", row->max + 0.5);
        refused(&s, row->field, value);
        row_set(&s, row, (double)INFINITY);
        refused(&s, row->field, "inf");
        row_set(&s, row, (double)-INFINITY);
        refused(&s, row->field, "-inf");
        row_set(&s, row, (double)NAN);
        refused(&s, row->field, "nan");
        row_set(&s, row, 1e30);
        refused(&s, row->field, "1e+30");
    }
}

CASE(whole_numbers_are_refused_at_the_ends_of_their_type) {
    for (int i = 0; i < ROWS; i++) {
        if (!rows[i].whole) continue;
        rn_sampling s = rn_sampling_neutral();
        row_set(&s, &rows[i], INT32_MIN);
        refused(&s, rows[i].field, "-2147483648");
    }
}

CASE(bad_lists_are_refused) {
    static rn_logit_bias bias[RN_MAX_LOGIT_BIAS + 1];
    rn_sampling s = rn_sampling_neutral();
    s.logit_bias = bias;
    s.n_logit_bias = RN_MAX_LOGIT_BIAS;
    assert_int_equal(sampling_check(&s, NULL), RN_OK);
    s.n_logit_bias++;
    refused(&s, "logit_bias", "1025");
    s.n_logit_bias = 3;
    static const float values[] = {100.5f, -101, NAN, INFINITY, -INFINITY};
    static const char *const texts[] = {"100.5", "-101", "nan", "inf", "-inf"};
    for (int i = 0; i < 5; i++) {
        bias[2] = (rn_logit_bias){77, values[i]};
        refused(&s, "token 77", texts[i]);
    }
    s = rn_sampling_neutral();
    char longest[RN_MAX_DRY_BREAKER_BYTES + 2];
    memset(longest, 'x', sizeof longest);
    longest[RN_MAX_DRY_BREAKER_BYTES] = 0;
    const char *breakers[RN_MAX_DRY_BREAKERS + 1] = {"\n", longest};
    s.dry_sequence_breakers = breakers;
    s.n_dry_sequence_breakers = 2;
    assert_int_equal(sampling_check(&s, NULL), RN_OK);
    longest[RN_MAX_DRY_BREAKER_BYTES] = 'x';
    longest[RN_MAX_DRY_BREAKER_BYTES + 1] = 0;
    refused(&s, "dry_sequence_breakers", "text 1 is too long");
    breakers[1] = "";
    refused(&s, "dry_sequence_breakers", "text 1 is empty");
    breakers[1] = "a\xff";
    refused(&s, "dry_sequence_breakers", "text 1 is not valid UTF-8");
    s.n_dry_sequence_breakers = RN_MAX_DRY_BREAKERS + 1;
    refused(&s, "dry_sequence_breakers", "17");
}

// Every name once: of flags with their second spellings, and of JSON fields with theirs.
CASE(names_are_used_once) {
    static const char *const json[] = {
#define SAMPLING_NUMBER(kind, id, field, neutral, min, max, json_, ...) json_,
#define SAMPLING_LIST(id, field, item, max, json_, ...)                 json_,
#define SAMPLING_JSON_ALIAS(id, json_)                                  json_,
#include "plan/sampling.def"
    };
    static const char *const flags[] = {
#define SAMPLING_NUMBER(kind, id, field, neutral, min, max, json_, flag, ...) flag,
#define SAMPLING_LIST(id, field, item, max, json_, flag, ...)                 flag,
#define SAMPLING_FLAG_ALIAS(id, flag)                                         flag,
#include "plan/sampling.def"
    };
    for (size_t a = 0; a < sizeof json / sizeof *json; a++)
        for (size_t b = 0; b < a; b++) assert_string_not_equal(json[a], json[b]);
    for (size_t a = 0; a < sizeof flags / sizeof *flags; a++)
        for (size_t b = 0; b < a; b++) assert_string_not_equal(flags[a], flags[b]);
    for (int i = 0; i < ROWS; i++) {
        assert_string_equal(rows[i].json, rows[i].field); // the names that clients use
        assert_true(strlen(rows[i].help) > 0);
    }
}

TEST_PROGRAM(sampler_params) { return cases_run(NULL, NULL); }
