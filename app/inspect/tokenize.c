// `runnel tokenize` and `runnel detokenize`: text to a JSON array of ids and back, whole or line by
// line (--jsonl). They need the vocabulary only.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"
#include "terminal/json.h"

// Calls fn for every line of standard input (without its end) until one fails.
typedef int (*line_fn)(const rn_model *model, const struct options *options, const char *line,
                       size_t len, size_t number);

// The next line without its end; *more is false at the end of the input.
static int line_read(FILE *in, struct text *line, size_t *cap, size_t number, bool *more) {
    int c;
    line->len = 0;
    while ((c = getc_unlocked(in)) != EOF && c != '\n') {
        if (line->len == TEXT_LIMIT) {
            return app_fail(APP_USAGE, "line %zu is longer than the limit of %d MiB", number,
                            TEXT_LIMIT >> 20);
        }
        if (line->len == *cap) {
            const size_t bigger = *cap ? 2 * *cap : 4096;
            char *grown = realloc(line->data, bigger);
            if (!grown) return app_fail(APP_FAILED, "out of memory");
            line->data = grown;
            *cap = bigger;
        }
        line->data[line->len++] = (char)c;
    }
    *more = c != EOF || line->len > 0;
    if (!ferror(in)) return APP_OK;
    return app_fail(APP_USAGE, "the input cannot be read: %s", strerror(errno));
}

static int lines_each(const rn_model *model, const struct options *options, FILE *in, line_fn fn) {
    struct text line = {0};
    size_t cap = 0;
    int code = APP_OK;
    for (size_t number = 1; !code; number++) {
        bool more = false;
        if ((code = line_read(in, &line, &cap, number, &more)) || !more) break;
        if (number == 1) text_skip_mark(&line);
        code = fn(model, options, line.data ? line.data : "", line.len, number);
        if (!code && ferror(stdout)) code = app_flush_output();
    }
    text_free(&line);
    return code;
}

// ---------------------------------------------------------------- tokenize

static int ids_print(const rn_model *model, const struct options *options, const char *text,
                     size_t len) {
    const int flags = (option_flag(options, OPT_NO_BOS) ? 0 : RN_TOKENIZE_BOS) |
                      (option_flag(options, OPT_NO_SPECIAL) ? 0 : RN_TOKENIZE_SPECIAL);
    int32_t *ids = NULL;
    size_t n_ids = 0;
    rn_error err = {0};
    if (rn_tokenize(model, text, len, flags, &ids, &n_ids, &err) != RN_OK) {
        return app_fail_error(&err);
    }
    putchar('[');
    for (size_t i = 0; i < n_ids; i++) printf(i ? ",%d" : "%d", ids[i]);
    fputs("]\n", stdout);
    rn_free(ids);
    return APP_OK;
}

static int tokenize_line(const rn_model *model, const struct options *options, const char *line,
                         size_t len, size_t number) {
    json_error_t problem;
    json_t *value = json_loadb(line, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &problem);
    int code;
    if (json_is_string(value)) {
        code = ids_print(model, options, json_string_value(value), json_string_length(value));
    } else if (!value && json_no_memory(&problem)) {
        code = app_fail(APP_FAILED, "out of memory");
    } else {
        code = app_fail(APP_USAGE, "line %zu is not a JSON string: %s%s", number,
                        value ? "it is " : "", value ? json_kind(value) : problem.text);
    }
    json_decref(value);
    return code;
}

static int tokenize_lines(const rn_model *model, const struct options *options) {
    if (option_given(options, OPT_PROMPT)) {
        const char *line = option_text(options, OPT_PROMPT);
        return tokenize_line(model, options, line, strlen(line), 1);
    }
    const char *path = option_text(options, OPT_FILE);
    if (!path) return lines_each(model, options, stdin, tokenize_line);
    FILE *in = fopen(path, "rb");
    if (!in) return app_fail(APP_USAGE, "%s: %s", err_path(path), strerror(errno));
    const int code = lines_each(model, options, in, tokenize_line);
    fclose(in);
    return code;
}

int command_tokenize(const struct options *options) {
    rn_model *model = NULL;
    int code = app_open_model(options, true, &model);
    if (code) return code;
    if (option_flag(options, OPT_JSONL)) {
        code = tokenize_lines(model, options);
    } else {
        struct text text;
        enum option_id source;
        code = text_from_options(options, &source, &text);
        if (!code) code = ids_print(model, options, text.data, text.len);
        text_free(&text);
    }
    rn_model_close(model);
    return code;
}

// ---------------------------------------------------------------- detokenize

// Items are counted from 1, as lines are.
static int item_refuse(const json_t *item, const char *where, size_t index) {
    char *shown = json_dumps(item, JSON_ENCODE_ANY | JSON_COMPACT);
    app_fail(APP_USAGE, "%sitem %zu is %s, not a token id", where, index + 1,
             shown ? app_short(shown).text : json_kind(item));
    free(shown);
    return APP_USAGE;
}

// The ids of a JSON array; where names the place in messages ("line 3: " or "").
static int ids_load(const rn_model *model, const char *json, size_t len, const char *where,
                    int32_t **out, size_t *n_out) {
    const int n_vocab = rn_model_get_info(model)->n_vocab;
    json_error_t problem;
    json_t *array = json_loadb(json, len, JSON_DECODE_ANY, &problem);
    if (!array && json_no_memory(&problem)) return app_fail(APP_FAILED, "out of memory");
    if (!json_is_array(array)) {
        app_fail(APP_USAGE, "%snot a JSON array of token ids: %s%s", where, array ? "it is " : "",
                 array ? json_kind(array) : problem.text);
        json_decref(array);
        return APP_USAGE;
    }
    *n_out = json_array_size(array);
    *out = malloc((*n_out + 1) * sizeof **out);
    int code = *out ? APP_OK : app_fail(APP_FAILED, "out of memory");
    for (size_t i = 0; !code && i < *n_out; i++) {
        const json_t *item = json_array_get(array, i);
        const json_int_t id = json_integer_value(item);
        if (!json_is_integer(item)) {
            code = item_refuse(item, where, i);
        } else if (id < 0 || id >= n_vocab) {
            code = app_fail(APP_USAGE, "%stoken id %lld is not from 0 to %d", where, (long long)id,
                            n_vocab - 1);
        } else {
            (*out)[i] = (int32_t)id;
        }
    }
    if (code) {
        free(*out);
        *out = NULL;
    }
    json_decref(array);
    return code;
}

static int text_load(const rn_model *model, const struct options *options, const char *json,
                     size_t len, const char *where, char **text, size_t *text_len) {
    int32_t *ids = NULL;
    size_t n_ids = 0;
    const int code = ids_load(model, json, len, where, &ids, &n_ids);
    if (code) return code;
    rn_error err = {0};
    const bool special = !option_flag(options, OPT_NO_SPECIAL);
    const rn_status status = rn_detokenize(model, ids, n_ids, special, text, text_len, &err);
    free(ids);
    return status == RN_OK ? APP_OK : app_fail_error(&err);
}

static int detokenize_line(const rn_model *model, const struct options *options, const char *line,
                           size_t len, size_t number) {
    char where[40];
    snprintf(where, sizeof where, "line %zu: ", number);
    char *bytes = NULL;
    size_t n_bytes = 0;
    const int code = text_load(model, options, line, len, where, &bytes, &n_bytes);
    if (code) return code;
    json_t *value = json_text(bytes, n_bytes);
    rn_free(bytes);
    return json_print(value, JSON_ENCODE_ANY);
}

static int detokenize_all(const rn_model *model, const struct options *options) {
    struct text json;
    int code = source_read(NULL, TEXT_LIMIT, &json);
    if (code) return code;
    char *text = NULL;
    size_t len = 0;
    code = text_load(model, options, json.data, json.len, "", &text, &len);
    if (!code) fwrite(text, 1, len, stdout);
    rn_free(text);
    text_free(&json);
    return code;
}

int command_detokenize(const struct options *options) {
    rn_model *model = NULL;
    int code = app_open_model(options, true, &model);
    if (code) return code;
    code = option_flag(options, OPT_JSONL) ? lines_each(model, options, stdin, detokenize_line)
                                           : detokenize_all(model, options);
    rn_model_close(model);
    return code;
}
