// Reads the fields that ask for a shape. OpenAI has a format with a type, vLLM an object with one
// member for each kind and older fields of their own, llama.cpp a grammar and a schema. A new field
// is a row of `readers`.
#include "shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"

enum { SOURCE_BYTES_MAX = 1 << 20, CHOICES_MAX = 4096 };

void shape_deinit(struct shape *shape) {
    jbuf_deinit(&shape->text);
    *shape = (struct shape){0};
}

// ---------------------------------------------------------------- sources

static void real_put(double value, struct jbuf *out) {
    char text[32];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    jbuf_text(out, text);
}

static void object_put(const json_t *object, struct jbuf *out) {
    const char *key;
    const json_t *value;
    const char *comma = "";
    jbuf_text(out, "{");
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        jbuf_text(out, comma);
        jbuf_cstring(out, key);
        jbuf_text(out, ":");
        shape_json_put(value, out);
        comma = ",";
    }
    jbuf_text(out, "}");
}

static void array_put(const json_t *array, struct jbuf *out) {
    jbuf_text(out, "[");
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (i) jbuf_text(out, ",");
        shape_json_put(json_array_get(array, i), out);
    }
    jbuf_text(out, "]");
}

void shape_json_put(const json_t *value, struct jbuf *out) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        object_put(value, out);
        break;
    case JSON_ARRAY:
        array_put(value, out);
        break;
    case JSON_STRING:
        jbuf_string(out, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        jbuf_int(out, json_integer_value(value));
        break;
    case JSON_REAL:
        real_put(json_real_value(value), out);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        jbuf_bool(out, json_is_true(value));
        break;
    case JSON_NULL:
        jbuf_text(out, "null");
        break;
    }
}

// The field of `fields` becomes the source's. False: another one has asked for a shape.
static bool shape_begin(const struct fields *fields, const char *name, enum shape_kind kind,
                        struct shape *out) {
    if (out->kind)
        return field_refuse(fields, name, "is given together with %s, but a text has one shape",
                            out->field);
    out->kind = kind;
    snprintf(out->field, sizeof out->field, "%s%s%s", fields->path, *fields->path ? "." : "", name);
    return true;
}

// An object, or a text that holds one, as it was given. The library reads it.
static bool source_read(const struct fields *fields, const char *name, enum shape_kind kind,
                        struct shape *out) {
    const json_t *value = json_object_get(fields->object, name);
    if (!shape_begin(fields, name, kind, out)) return false;
    if (json_is_object(value)) {
        shape_json_put(value, &out->text);
        return true;
    }
    char shown[JSON_SHOWN_BYTES];
    if (!json_is_string(value))
        return field_refuse(fields, name, "expected an object, or a string of JSON, got %s",
                            value ? json_shown(value, shown) : "nothing");
    jbuf_bytes(&out->text, json_string_value(value), json_string_length(value));
    return true;
}

// A text that is the source itself.
static bool text_read(const struct fields *fields, const char *name, enum shape_kind kind,
                      struct shape *out) {
    const char *text = NULL;
    size_t len = 0;
    if (!shape_begin(fields, name, kind, out)) return false;
    if (!field_string(fields, name, SOURCE_BYTES_MAX, &text, &len)) return false;
    if (!len) return field_refuse(fields, name, "\"\" is empty");
    jbuf_bytes(&out->text, text, len);
    return true;
}

static bool choices_read(const struct fields *fields, const char *name, enum shape_kind kind,
                         struct shape *out) {
    const json_t *list = NULL;
    char path[SHAPE_FIELD_BYTES], shown[JSON_SHOWN_BYTES];
    if (!shape_begin(fields, name, kind, out)) return false;
    if (!field_array(fields, name, CHOICES_MAX, &list)) return false;
    if (!json_array_size(list)) return field_refuse(fields, name, "[] is empty");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        if (json_is_string(item)) continue;
        snprintf(path, sizeof path, "%s[%zu]", name, i);
        return field_refuse(fields, path, "expected a string, got %s", json_shown(item, shown));
    }
    shape_json_put(list, &out->text);
    return true;
}

// ---------------------------------------------------------------- formats with a type

static bool is_given(const struct fields *fields, const char *name) {
    const json_t *value = json_object_get(fields->object, name);
    return value && !json_is_null(value);
}

// {"name": ..., "schema": {...}, "strict": ...}. The text has the shape whether it is strict or
// not.
static bool named_schema_read(const struct fields *fields, struct shape *out) {
    enum { NAME_BYTES_MAX = 64 };
    const char *text = NULL;
    bool strict;
    if (!field_string(fields, "name", NAME_BYTES_MAX, &text, NULL)) return false;
    if (!field_string(fields, "description", SIZE_MAX, &text, NULL)) return false;
    if (!field_bool(fields, "strict", &strict)) return false;
    if (!is_given(fields, "schema")) return field_refuse(fields, "schema", "missing");
    return source_read(fields, "schema", SHAPE_SCHEMA, out);
}

// A member that is an object; NULL: refused.
static const json_t *member_of(const struct fields *fields, const char *name) {
    const json_t *object = NULL;
    if (!field_object(fields, name, &object)) return NULL;
    if (!object) field_refuse(fields, name, "missing");
    return object;
}

static bool nested_schema_read(const struct fields *format, struct shape *out) {
    char path[SHAPE_FIELD_BYTES];
    const json_t *inner = member_of(format, "json_schema");
    if (!inner) return false;
    snprintf(path, sizeof path, "%s.json_schema", format->path);
    const struct fields fields = fields_of(format->call, inner, path);
    return named_schema_read(&fields, out);
}

// Some clients put a schema beside json_object.
static bool object_read(const struct fields *format, struct shape *out) {
    if (is_given(format, "schema")) return source_read(format, "schema", SHAPE_SCHEMA, out);
    return shape_begin(format, "type", SHAPE_OBJECT, out);
}

// The whole format is the source.
static bool tag_read(const struct fields *format, struct shape *out) {
    if (!shape_begin(format, "type", SHAPE_STRUCTURE, out)) return false;
    snprintf(out->field, sizeof out->field, "%s", format->path);
    shape_json_put(format->object, &out->text);
    return true;
}

struct format {
    const char *type;
    bool (*read)(const struct fields *format, struct shape *out); // NULL: it asks for nothing
};

// The first types are those of every list.
static const struct format formats[] = {
    {"text", NULL},
    {"json_object", object_read},
    {"json_schema", nested_schema_read},
    {"structural_tag", tag_read},
};
static const struct format flat_formats[] = {
    {"text", NULL},
    {"json_object", object_read},
    {"json_schema", named_schema_read},
};
static const struct format messages_formats[] = {{"json_schema", named_schema_read}};

static bool typed_read(const struct fields *fields, const char *name, const struct format *list,
                       size_t n, struct shape *out) {
    char path[SHAPE_FIELD_BYTES], types[SHAPE_FIELD_BYTES] = "";
    const json_t *object = NULL;
    int type = -1;
    if (!field_object(fields, name, &object)) return false;
    for (size_t i = 0, at = 0; i < n; i++)
        at += (size_t)snprintf(types + at, sizeof types - at, "%s%s", i ? "|" : "", list[i].type);
    snprintf(path, sizeof path, "%s%s%s", fields->path, *fields->path ? "." : "", name);
    const struct fields format = fields_of(fields->call, object, path);
    if (!field_choice(&format, "type", types, &type)) return false;
    if (type < 0) return field_refuse(&format, "type", "missing, expected one of %s", types);
    return !list[type].read || list[type].read(&format, out);
}

#define TYPED(list) list, sizeof list / sizeof *(list)

static bool format_read(const struct fields *fields, const char *name, enum shape_kind kind,
                        struct shape *out) {
    (void)kind;
    return typed_read(fields, name, TYPED(formats), out);
}

static bool flat_format_read(const struct fields *fields, const char *name, enum shape_kind kind,
                             struct shape *out) {
    (void)kind;
    return typed_read(fields, name, TYPED(flat_formats), out);
}

static bool messages_format_read(const struct fields *fields, const char *name,
                                 enum shape_kind kind, struct shape *out) {
    (void)kind;
    return typed_read(fields, name, TYPED(messages_formats), out);
}

// ---------------------------------------------------------------- vLLM's and llama.cpp's

static bool flag_read(const struct fields *fields, const char *name, enum shape_kind kind,
                      struct shape *out) {
    bool value = false;
    if (!field_bool(fields, name, &value)) return false;
    return !value || shape_begin(fields, name, kind, out);
}

struct source_row {
    unsigned families;
    const char *parent; // NULL: the body
    const char *name;
    bool (*read)(const struct fields *fields, const char *name, enum shape_kind kind,
                 struct shape *out);
    enum shape_kind kind;
};

// The rows of the family whose fields are given.
static bool rows_read(const struct fields *body, const struct source_row *rows, size_t n,
                      enum family family, struct shape *out) {
    for (size_t i = 0; i < n; i++) {
        struct fields fields = *body;
        const json_t *parent = NULL;
        if (!(rows[i].families & (unsigned)family)) continue;
        if (rows[i].parent) {
            if (!field_object(body, rows[i].parent, &parent)) return false;
            fields = fields_of(body->call, parent, rows[i].parent);
        }
        if (!is_given(&fields, rows[i].name)) continue;
        if (!rows[i].read(&fields, rows[i].name, rows[i].kind, out)) return false;
    }
    return !call_refused(body->call);
}

// Every key that is not null is the name of a row, or one of the others: a misspelt one would leave
// the text free.
static bool members_check(const struct fields *fields, const struct source_row *known, size_t n,
                          const char *const *others) {
    const char *key;
    json_t *value;
    char shown[SHAPE_FIELD_BYTES], names[160] = "";
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        len +=
            (size_t)snprintf(names + len, sizeof names - len, "%s%s", i ? "|" : "", known[i].name);
    json_object_foreach((json_t *)(uintptr_t)fields->object, key, value) {
        size_t i = 0;
        while (i < n && strcmp(known[i].name, key) != 0) i++;
        const char *const *other = others;
        while (*other && strcmp(*other, key) != 0) other++;
        if (i < n || *other || json_is_null(value)) continue;
        unicode_quote(key, strlen(key), shown, sizeof shown);
        return field_refuse(fields, shown, "is unknown, expected one of %s", names);
    }
    return true;
}

static bool structured_read(const struct fields *fields, const char *name, enum shape_kind kind,
                            struct shape *out) {
    static const struct source_row members[] = {
        {FAMILY_ANY, NULL, "json", source_read, SHAPE_SCHEMA},
        {FAMILY_ANY, NULL, "json_object", flag_read, SHAPE_OBJECT},
        {FAMILY_ANY, NULL, "regex", text_read, SHAPE_REGEX},
        {FAMILY_ANY, NULL, "choice", choices_read, SHAPE_CHOICES},
        {FAMILY_ANY, NULL, "grammar", text_read, SHAPE_GRAMMAR},
        {FAMILY_ANY, NULL, "structural_tag", source_read, SHAPE_STRUCTURE},
    };
    static const char *const others[] = {"whitespace_pattern", "disable_any_whitespace",
                                         "disable_additional_properties", NULL};
    enum { N_MEMBERS = sizeof members / sizeof *members };
    static const char blanks[] = "is not supported: blanks are as docs/CONSTRAINTS.md says";
    const json_t *object = NULL;
    (void)kind;
    if (!field_object(fields, name, &object)) return false;
    const struct fields inner = fields_of(fields->call, object, name);
    if (!field_unsupported(&inner, "whitespace_pattern", false, blanks)) return false;
    if (!field_unsupported(&inner, "disable_any_whitespace", true, blanks)) return false;
    if (!field_unsupported(&inner, "disable_additional_properties", true,
                           "is not supported: the schema says so itself"))
        return false;
    return members_check(&inner, members, N_MEMBERS, others) &&
           rows_read(&inner, members, N_MEMBERS, FAMILY_ANY, out);
}

// An empty grammar asks for nothing.
static bool grammar_read(const struct fields *fields, const char *name, enum shape_kind kind,
                         struct shape *out) {
    const json_t *value = json_object_get(fields->object, name);
    if (json_is_string(value) && !json_string_length(value)) return true;
    return text_read(fields, name, kind, out);
}

// Ollama's: "json", or a schema.
static bool ollama_format_read(const struct fields *fields, const char *name, enum shape_kind kind,
                               struct shape *out) {
    const char *word = json_string_value(json_object_get(fields->object, name));
    if (!word) return source_read(fields, name, kind, out);
    if (!*word) return true;
    if (!strcmp(word, "json")) return shape_begin(fields, name, SHAPE_OBJECT, out);
    char shown[JSON_SHOWN_BYTES];
    return field_refuse(fields, name, "expected \"json\" or a JSON schema, got %s",
                        json_shown(json_object_get(fields->object, name), shown));
}

static const struct source_row readers[] = {
    {FAMILY_ANY, NULL, "response_format", format_read, SHAPE_NONE},
    {FAMILY_RESPONSES, "text", "format", flat_format_read, SHAPE_NONE},
    {FAMILY_MESSAGES, NULL, "output_format", messages_format_read, SHAPE_NONE},
    {FAMILY_MESSAGES, "output_config", "format", messages_format_read, SHAPE_NONE},
    {FAMILY_OLLAMA, NULL, "format", ollama_format_read, SHAPE_SCHEMA},
    {FAMILY_ANY, NULL, "structured_outputs", structured_read, SHAPE_NONE},
    {FAMILY_ANY, NULL, "guided_json", source_read, SHAPE_SCHEMA},
    {FAMILY_ANY, NULL, "guided_regex", text_read, SHAPE_REGEX},
    {FAMILY_ANY, NULL, "guided_choice", choices_read, SHAPE_CHOICES},
    {FAMILY_ANY, NULL, "guided_grammar", text_read, SHAPE_GRAMMAR},
    {FAMILY_ANY, NULL, "regex", text_read, SHAPE_REGEX}, // SGLang's names
    {FAMILY_ANY, NULL, "ebnf", text_read, SHAPE_GRAMMAR},
    {FAMILY_ANY, NULL, "json_schema", source_read, SHAPE_SCHEMA},
    {FAMILY_ANY, NULL, "grammar", grammar_read, SHAPE_GRAMMAR},
};

bool shape_read(struct call *call, const json_t *body, enum family family, struct shape *out) {
    const struct fields fields = fields_of(call, body, "");
    *out = (struct shape){0};
    bool ok = rows_read(&fields, readers, sizeof readers / sizeof *readers, family, out);
    if (ok && out->text.failed) ok = call_refuse(call, 503, NULL, "out_of_memory", "out of memory");
    if (!ok) shape_deinit(out);
    return ok;
}

// ---------------------------------------------------------------- as a part of a structure

static void choices_put(const struct shape *shape, struct jbuf *out) {
    json_t *list = json_loadb(shape->text.data, shape->text.len, JSON_ALLOW_NUL, NULL);
    if (!list) out->failed = true;
    jbuf_text(out, "{\"type\":\"or\",\"elements\":[");
    for (size_t i = 0; i < json_array_size(list); i++) {
        jbuf_text(out, i ? ",{\"type\":\"const_string\",\"value\":"
                         : "{\"type\":\"const_string\",\"value\":");
        shape_json_put(json_array_get(list, i), out);
        jbuf_text(out, "}");
    }
    jbuf_text(out, "]}");
    json_decref(list);
}

static bool structure_put(const struct shape *shape, struct jbuf *out) {
    json_t *whole = json_loadb(shape->text.data, shape->text.len, JSON_ALLOW_NUL, NULL);
    const json_t *format = json_object_get(whole, "format");
    if (format) shape_json_put(format, out);
    json_decref(whole);
    return format != NULL;
}

bool shape_format_put(const struct shape *shape, struct jbuf *out) {
    switch (shape->kind) {
    case SHAPE_NONE:
        return false;
    case SHAPE_SCHEMA:
        jbuf_text(out, "{\"type\":\"json_schema\",\"json_schema\":");
        jbuf_bytes(out, shape->text.data, shape->text.len);
        break;
    case SHAPE_OBJECT:
        jbuf_text(out, "{\"type\":\"json_schema\",\"json_schema\":{\"type\":\"object\"}");
        break;
    case SHAPE_REGEX:
        jbuf_text(out, "{\"type\":\"regex\",\"pattern\":");
        jbuf_string(out, shape->text.data, shape->text.len);
        break;
    case SHAPE_GRAMMAR:
        jbuf_text(out, "{\"type\":\"grammar\",\"grammar\":");
        jbuf_string(out, shape->text.data, shape->text.len);
        break;
    case SHAPE_CHOICES:
        choices_put(shape, out);
        return true;
    case SHAPE_STRUCTURE:
        return structure_put(shape, out);
    }
    jbuf_text(out, "}");
    return true;
}
