// See shape.h. A source is given on the command line, or as the name of a file.
#include "run/shape.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "terminal/json.h"

enum { SOURCE_MAX = 1 << 20 }; // bytes of a file, as the library takes them

static bool is_object(const char *text) { return text[strspn(text, " \t\r\n")] == '{'; }
// GBNF defines rules by "::=", Lark by ": "; a file's name has no line feed and seldom a colon.
static bool is_grammar(const char *text) {
    return strstr(text, "::=") || strchr(text, '\n') || strstr(text, ": ") || strstr(text, ":\"");
}

static const struct shape_option {
    enum option_id id;
    rn_shape_kind kind;
    bool (*is_source)(const char *text); // otherwise it names a file; NULL: it always is
    const char *source;                  // its name for people
} shape_options[] = {
    {OPT_JSON_SCHEMA, RN_SHAPE_SCHEMA, is_object, "a JSON object"},
    {OPT_JSON_OBJECT, RN_SHAPE_OBJECT, NULL, NULL},
    {OPT_GRAMMAR, RN_SHAPE_GRAMMAR, is_grammar, "a grammar, whose rules have ::= or a colon,"},
    {OPT_REGEX, RN_SHAPE_REGEX, NULL, NULL},
    {OPT_STRUCTURE, RN_SHAPE_STRUCTURE, is_object, "a JSON object"},
    {OPT_CHOICES, RN_SHAPE_CHOICES, NULL, NULL},
};

static bool is_wanted(const struct options *options, enum option_id id) {
    if (id == OPT_JSON_OBJECT) return option_flag(options, id);
    return option_given(options, id);
}

// The one that is wanted; *out NULL: none.
static int shape_option_find(const struct options *options, const struct shape_option **out) {
    char first[64], second[64];
    *out = NULL;
    for (size_t i = 0; i < sizeof shape_options / sizeof *shape_options; i++) {
        const struct shape_option *option = &shape_options[i];
        if (!is_wanted(options, option->id)) continue;
        if (*out)
            return app_fail(APP_USAGE, "%s and %s exclude each other",
                            option_name(options, (*out)->id, first),
                            option_name(options, option->id, second));
        *out = option;
    }
    return APP_OK;
}

// The list as a JSON array. Bytes that are not UTF-8 become U+FFFD.
static int choices_get(const struct options *options, struct text *out) {
    const struct option_value *value = &options->value[OPT_CHOICES];
    json_t *array = json_array();
    bool fits = array != NULL;
    for (int i = 0; i < value->n_list && fits; i++)
        fits = !json_array_append_new(array, json_text(value->list[i], strlen(value->list[i])));
    out->data = fits ? json_dumps(array, JSON_COMPACT) : NULL;
    json_decref(array);
    if (!out->data) return app_fail(APP_FAILED, "out of memory");
    out->len = strlen(out->data);
    return APP_OK;
}

static int file_get(const struct options *options, const struct shape_option *option,
                    const char *path, struct text *out) {
    char name[OPTION_NAME_SIZE];
    if (!access(path, F_OK)) return source_read(path, SOURCE_MAX, out);
    return app_fail(APP_USAGE, "%s: '%s' is neither %s nor a file: %s",
                    option_name(options, option->id, name), app_short(path).text, option->source,
                    strerror(errno));
}

static int source_get(const struct options *options, const struct shape_option *option,
                      struct text *out) {
    if (option->id == OPT_JSON_OBJECT) return APP_OK;
    if (option->id == OPT_CHOICES) return choices_get(options, out);
    const char *text = option_text(options, option->id);
    if (option->is_source && !option->is_source(text)) return file_get(options, option, text, out);
    out->data = strdup(text);
    if (!out->data) return app_fail(APP_FAILED, "out of memory");
    out->len = strlen(text);
    return APP_OK;
}

int shape_open(const struct options *options, const rn_model *model, rn_shape **out) {
    const struct shape_option *option;
    struct text source = {0};
    rn_error err = {0};
    char name[64];
    *out = NULL;
    int code = shape_option_find(options, &option);
    if (code || !option) return code;
    code = source_get(options, option, &source);
    if (!code && rn_shape_compile(model, option->kind, source.data ? source.data : "", source.len,
                                  out, &err))
        code = app_fail(err.status == RN_ERR_ARG ? APP_USAGE : APP_FAILED, "%s: %s",
                        option_name(options, option->id, name), err.message);
    text_free(&source);
    return code;
}
