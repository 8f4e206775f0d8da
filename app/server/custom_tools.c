// Custom tools as functions, and the arguments of their calls as text.
#include "custom_tools.h"

#include <stdio.h>
#include <string.h>

#include "call.h"

enum { DEFINITION_MAX = 1 << 16, NAME_SIZE = 257 };

// ---------------------------------------------------------------- tools

// The definition as a group of a pattern for the whole input. Anchors at the ends of the outermost
// alternatives say the same and are left out. False: a parenthesis at *at has no other one, so that
// the group would end elsewhere.
static bool pattern_put(struct jbuf *pattern, const char *text, size_t len, size_t *at) {
    size_t depth = 0, first = 0;          // first: of the outermost open ones
    bool in_class = false, starts = true; // starts: an alternative
    jbuf_text(pattern, "^(?:");
    for (size_t i = 0; i < len; i++) {
        size_t behind = i; // anchors of the same end
        while (behind < len && text[behind] == '$') behind++;
        const bool ends = behind == len || text[behind] == '|';
        const bool is_anchor = (text[i] == '^' && starts) || (text[i] == '$' && ends);
        if (is_anchor && !in_class && depth == 0) continue;
        jbuf_bytes(pattern, text + i, 1);
        starts = text[i] == '|';
        if (text[i] == '\\' && i + 1 < len)
            jbuf_bytes(pattern, text + ++i, 1);
        else if (in_class)
            in_class = text[i] != ']';
        else if (text[i] == '[')
            in_class = true;
        else if (text[i] == '(' && depth++ == 0)
            first = i;
        else if (text[i] == ')' && depth-- == 0)
            return *at = i, false;
    }
    jbuf_text(pattern, ")$");
    *at = first;
    return depth == 0;
}

// What the input has to be, as the keyword of a JSON schema that says it.
struct input_rule {
    const char *keyword; // NULL: any text
    struct jbuf text;
};

// {"syntax", "definition"}, beside the format's type or in its member "grammar".
static bool grammar_read(const struct fields *format, struct input_rule *rule) {
    char path[160];
    struct fields grammar = *format;
    const json_t *inner = NULL;
    const char *definition = NULL;
    size_t len = 0;
    int syntax = -1;
    if (!field_object(format, "grammar", &inner)) return false;
    if (inner) {
        snprintf(path, sizeof path, "%s.grammar", format->path);
        grammar = fields_of(format->call, inner, path);
    }
    if (!field_choice(&grammar, "syntax", "regex|lark", &syntax)) return false;
    if (syntax < 0) return field_refuse(&grammar, "syntax", "missing");
    if (!field_string(&grammar, "definition", DEFINITION_MAX, &definition, &len)) return false;
    if (!definition) return field_refuse(&grammar, "definition", "missing");
    size_t at;
    rule->keyword = syntax ? "x-lark" : "pattern";
    if (syntax)
        jbuf_bytes(&rule->text, definition, len);
    else if (!pattern_put(&rule->text, definition, len, &at))
        return field_refuse(&grammar, "definition", "offset %zu: '%c' without its other half", at,
                            definition[at]);
    return !rule->text.failed || call_refuse_memory(format->call);
}

static bool format_read(const struct fields *tool, struct input_rule *rule) {
    char path[128];
    const json_t *format = NULL;
    int type = -1;
    if (!field_object(tool, "format", &format)) return false;
    if (!format) return true;
    snprintf(path, sizeof path, "%s.format", tool->path);
    const struct fields fields = fields_of(tool->call, format, path);
    if (!field_choice(&fields, "type", "text|grammar", &type)) return false;
    if (type < 0) return field_refuse(&fields, "type", "missing");
    return type == 0 || grammar_read(&fields, rule);
}

// NULL: out of memory.
static json_t *function_make(const char *name, const char *description,
                             const struct input_rule *rule) {
    json_t *const input = json_pack("{s:s}", "type", "string");
    const char *const text = rule->text.data ? rule->text.data : "";
    if (input && rule->keyword &&
        json_object_set_new(input, rule->keyword, json_stringn(text, rule->text.len))) {
        json_decref(input);
        return NULL;
    }
    json_t *const function = json_pack("{s:s, s:{s:s, s:{s:o}, s:[s], s:b}}", "name", name,
                                       "parameters", "type", "object", "properties", "input", input,
                                       "required", "input", "additionalProperties", 0);
    if (function && description &&
        json_object_set_new(function, "description", json_string(description))) {
        json_decref(function);
        return NULL;
    }
    return json_pack("{s:s, s:o}", "type", "function", "function", function);
}

json_t *custom_tool_function(const struct fields *tool, size_t name_max) {
    const char *name = NULL, *description = NULL;
    struct input_rule rule = {0};
    json_t *function = NULL;
    size_t len;
    if (!field_string(tool, "name", name_max, &name, &len)) return NULL;
    if (!name || !*name) return field_refuse(tool, "name", name ? "empty" : "missing"), NULL;
    if (!field_string(tool, "description", SIZE_MAX, &description, &len)) return NULL;
    if (format_read(tool, &rule)) {
        function = function_make(name, description, &rule);
        if (!function) call_refuse_memory(tool->call);
    }
    jbuf_deinit(&rule.text);
    return function;
}

const char *custom_tool_definition(const json_t *tool, size_t *len, bool *is_lark) {
    const json_t *const custom = json_object_get(tool, "custom");
    const json_t *const format = json_object_get(custom ? custom : tool, "format");
    const json_t *const inner = json_object_get(format, "grammar");
    const json_t *const definition = json_object_get(inner ? inner : format, "definition");
    const char *const syntax = json_string_value(json_object_get(inner ? inner : format, "syntax"));
    *is_lark = syntax && !strcmp(syntax, "lark");
    *len = json_string_length(definition);
    return json_string_value(definition);
}

json_t *custom_tool_arguments(const char *input, size_t len) {
    return json_pack("{s:o}", "input", json_stringn(input, len));
}

bool custom_tool_note(json_t **names, const json_t *function) {
    const char *const name =
        json_string_value(json_object_get(json_object_get(function, "function"), "name"));
    if (!*names) *names = json_object();
    return name && json_object_set_new(*names, name, json_true()) == 0;
}

bool custom_tool_is(const json_t *names, const char *name, size_t len) {
    char text[NAME_SIZE];
    if (!names || len >= sizeof text) return false;
    memcpy(text, name, len);
    text[len] = 0;
    return json_object_get(names, text) != NULL;
}

// ---------------------------------------------------------------- inputs

void custom_input_deinit(struct custom_input *input) { jbuf_deinit(&input->raw); }

static void key_add(struct custom_input *input, const char *text, size_t n) {
    if (input->key_len + n <= sizeof input->key)
        memcpy(input->key + input->key_len, text, n);
    else
        input->key_len = sizeof input->key; // with what follows it is too long
    input->key_len += n;
}

static void value_begin(struct custom_input *input, char c) {
    const bool is_input = input->key_len == 5 && memcmp(input->key, "input", 5) == 0;
    if (is_input && c == '"' && !input->is_found) input->is_found = input->is_reading = true;
    input->key_len = 0;
}

static void byte_read(struct custom_input *input, char c, struct jbuf *out) {
    struct json_walk *const walk = &input->walk;
    const int before = walk->depth;
    const unsigned events = json_walk_push(walk, c);
    if (events & JSON_BEGIN && before == 1) value_begin(input, c);
    if (events & JSON_CHAR && walk->depth == 1) {
        if (walk->is_key)
            key_add(input, walk->text, (size_t)walk->n_text);
        else if (input->is_reading)
            jbuf_bytes(out, walk->text, (size_t)walk->n_text);
    }
    if (events & JSON_END && walk->depth == 1) input->is_reading = false;
}

void custom_input_read(struct custom_input *input, const char *json, size_t len, bool is_end,
                       struct jbuf *out) {
    if (!input->is_found) jbuf_bytes(&input->raw, json, len);
    for (size_t i = 0; i < len; i++) byte_read(input, json[i], out);
    if (input->raw.failed) out->failed = true;
    if (is_end && !input->is_found) jbuf_bytes(out, input->raw.data, input->raw.len);
    if (is_end || input->is_found) jbuf_clear(&input->raw);
}
