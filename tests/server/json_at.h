// JSON in tests: values by their paths, and texts with ' for ". Parsed values are kept until
// json_kept_free.
#ifndef RN_TESTS_SERVER_JSON_AT_H
#define RN_TESTS_SERVER_JSON_AT_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static json_t *json_kept; // an array; NULL: nothing yet

static inline json_t *json_keep(json_t *json) {
    assert_non_null(json);
    if (!json_kept) json_kept = json_array();
    assert_int_equal(json_array_append_new(json_kept, json), 0);
    return json;
}

static inline void json_kept_free(void) {
    json_decref(json_kept);
    json_kept = NULL;
}

static inline json_t *json_of(const char *data, size_t len) {
    json_error_t problem;
    json_t *json = json_loadb(data ? data : "", len,
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &problem);
    check(json, "%s in %.*s", problem.text, (int)len, data ? data : "");
    return json_keep(json);
}

// A copy with " for '; to be freed.
static inline char *json_quoted(const char *text) {
    char *copy = strdup(text);
    assert_non_null(copy);
    for (char *c = copy; *c; c++)
        if (*c == '\'') *c = '"';
    return copy;
}

// "a.b.2.c", "" for the value itself; NULL: there is no such thing.
static inline json_t *at_path(const json_t *value, const char *path) {
    while (value && *path) {
        char key[64];
        const size_t len = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)len, path);
        value = json_is_array(value) ? json_array_get(value, (size_t)atoi(key))
                                     : json_object_get(value, key);
        path += len + (path[len] == '.');
    }
    return (json_t *)value;
}

// NULL: no string.
static inline const char *string_at(const json_t *value, const char *path) {
    return json_string_value(at_path(value, path));
}

static inline double number_at(const json_t *value, const char *path) {
    check(json_is_number(at_path(value, path)), "%s is no number", path);
    return json_number_value(at_path(value, path));
}

static inline size_t size_at(const json_t *value, const char *path) {
    const json_t *list = at_path(value, path);
    return json_is_object(list) ? json_object_size(list) : json_array_size(list);
}

// The value at a path must be this JSON; numbers may be written in other ways.
static inline void expect_json(const json_t *value, const char *path, const char *expected) {
    char *quoted = json_quoted(expected);
    const json_t *want = json_of(quoted, strlen(quoted)), *got = at_path(value, path);
    char *text = got ? json_dumps(got, JSON_ENCODE_ANY) : NULL;
    const bool same = json_is_number(want) && json_is_number(got)
                          ? json_number_value(want) == json_number_value(got)
                          : got && json_equal(got, want);
    check(same, "%s: %.800s, expected %s", path, text ? text : "nothing", quoted);
    free(text);
    free(quoted);
}

struct json_row {
    const char *path, *want;
};

#define expect_rows(value, ...)                                                                    \
    do {                                                                                           \
        static const struct json_row rows_[] = {__VA_ARGS__};                                      \
        const json_t *value_ = value;                                                              \
        for (size_t row_ = 0; row_ < sizeof rows_ / sizeof *rows_; row_++)                         \
            expect_json(value_, rows_[row_].path, rows_[row_].want);                               \
    } while (0)

// Its keys are these, "a b c", in this order.
static inline void expect_keys(const json_t *object, const char *keys) {
    char got[512] = "";
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        if (*got) strncat(got, " ", sizeof got - strlen(got) - 1);
        strncat(got, key, sizeof got - strlen(got) - 1);
    }
    check(!strcmp(got, keys), "keys are %s, not %s", got, keys);
}

#endif
