// JSON output. Invariant: output with exit status 0 is whole.
#include "terminal/json.h"

#include <math.h>
#include <stdlib.h>

json_t *json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *json_text(const char *data, size_t len) {
    struct text text;
    if (!text_sound(data, len, &text)) return NULL;
    json_t *value = json_stringn(text.data, text.len);
    text_free(&text);
    return value;
}

bool json_put(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0;
}

json_t *json_append(json_t *rows, json_t *object, bool ok) {
    ok = json_array_append_new(rows, object) == 0 && ok;
    if (ok) return rows;
    json_decref(rows);
    return NULL;
}

bool json_no_memory(const json_error_t *problem) {
    return !problem->text[0] || json_error_code(problem) == json_error_out_of_memory;
}

const char *json_kind(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    }
    return "another value";
}

int json_print(json_t *value, size_t flags) {
    if (!value) return app_fail(APP_FAILED, "out of memory");
    const int failed = json_dumpf(value, stdout, flags);
    json_decref(value);
    if (!failed) {
        putchar('\n');
        return APP_OK;
    }
    return app_flush_output() ? APP_FAILED : app_fail(APP_FAILED, "out of memory");
}

int json_lines_print(json_t *rows, size_t flags) {
    bool ok = rows != NULL;
    for (size_t i = 0; ok && i < json_array_size(rows); i++) {
        char *line = json_dumps(json_array_get(rows, i), JSON_COMPACT | flags);
        ok = line != NULL;
        if (ok) puts(line);
        free(line);
    }
    json_decref(rows);
    return ok ? APP_OK : app_fail(APP_FAILED, "out of memory");
}

// ---------------------------------------------------------------- CSV

static void csv_quoted(const char *text) {
    putchar('"');
    for (; *text; text++) {
        if (*text == '"') putchar('"');
        putchar(*text);
    }
    putchar('"');
}

static bool csv_cell(const json_t *value, size_t flags) {
    if (json_is_null(value)) return true;
    if (json_is_string(value)) {
        csv_quoted(json_string_value(value));
        return true;
    }
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | flags);
    if (!text) return false;
    if (json_is_array(value))
        csv_quoted(text);
    else
        fputs(text, stdout);
    free(text);
    return true;
}

int json_csv_print(json_t *rows, size_t flags) {
    json_t *value;
    const char *key;
    bool ok = rows != NULL;
    for (size_t i = 0; ok && i <= json_array_size(rows); i++) { // the first line has the names
        bool first = true;
        json_object_foreach(json_array_get(rows, i ? i - 1 : 0), key, value) {
            if (!first) putchar(',');
            first = false;
            if (i == 0)
                fputs(key, stdout);
            else
                ok = csv_cell(value, flags) && ok;
        }
        putchar('\n');
    }
    json_decref(rows);
    return ok ? APP_OK : app_fail(APP_FAILED, "out of memory");
}

// ---------------------------------------------------------------- SQL

static void sql_quoted(const char *text) {
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'') putchar('\'');
        putchar(*text);
    }
    putchar('\'');
}

static const char *sql_type(const json_t *value) {
    if (json_is_real(value)) return "REAL";
    return json_is_integer(value) || json_is_boolean(value) ? "INTEGER" : "TEXT";
}

static bool sql_value(const json_t *value, size_t flags) {
    if (json_is_null(value) || json_is_boolean(value)) {
        fputs(json_is_null(value) ? "NULL" : json_is_true(value) ? "1" : "0", stdout);
        return true;
    }
    if (json_is_string(value)) {
        sql_quoted(json_string_value(value));
        return true;
    }
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | flags);
    if (!text) return false;
    if (json_is_number(value))
        fputs(text, stdout);
    else
        sql_quoted(text);
    free(text);
    return true;
}

// The type of a column is that of its first value that is not null.
static const char *sql_column_type(const json_t *rows, const char *key) {
    const json_t *value = NULL;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        value = json_object_get(json_array_get(rows, i), key);
        if (value && !json_is_null(value)) break;
    }
    return sql_type(value);
}

int json_sql_print(json_t *rows, size_t flags) {
    json_t *value;
    const char *key, *separator = "";
    bool ok = rows != NULL;
    if (ok && json_array_size(rows)) {
        fputs("CREATE TABLE IF NOT EXISTS runnel_bench (", stdout);
        json_object_foreach(json_array_get(rows, 0), key, value) {
            printf("%s%s %s", separator, key, sql_column_type(rows, key));
            separator = ", ";
        }
        puts(");");
    }
    for (size_t i = 0; ok && i < json_array_size(rows); i++) {
        separator = "";
        fputs("INSERT INTO runnel_bench VALUES (", stdout);
        json_object_foreach(json_array_get(rows, i), key, value) {
            fputs(separator, stdout);
            ok = sql_value(value, flags) && ok;
            separator = ", ";
        }
        puts(");");
    }
    json_decref(rows);
    return ok ? APP_OK : app_fail(APP_FAILED, "out of memory");
}
