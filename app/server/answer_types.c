// Reads JSON schemas as far as the kinds of a parameter's value go: `type`, the alternatives of
// anyOf and oneOf, the values of enum and const, and references to definitions of the same schema.
#include "answer_types.h"

#include <string.h>

#include "helpers.h"

enum {
    NESTING_MAX = 4,     // of alternatives and references
    PARTS_MAX = 1 << 14, // of a function's schema that are looked at
    VALUES_MAX = 64,     // of a list that are looked at
    NAME_SIZE = 257,     // longer names are not known
};

// ---------------------------------------------------------------- kinds

static unsigned kind_of_name(const char *name) {
    static const struct {
        const char *name;
        enum jread_kind kind;
    } kinds[] = {
        {"string", JREAD_STRING}, {"integer", JREAD_NUMBER}, {"number", JREAD_NUMBER},
        {"boolean", JREAD_BOOL},  {"array", JREAD_ARRAY},    {"object", JREAD_OBJECT},
        {"null", JREAD_NULL},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (name && !strcmp(name, kinds[i].name)) return 1u << kinds[i].kind;
    return 0;
}

static unsigned kind_of_value(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_STRING:
        return 1u << JREAD_STRING;
    case JSON_INTEGER:
    case JSON_REAL:
        return 1u << JREAD_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return 1u << JREAD_BOOL;
    case JSON_NULL:
        return 1u << JREAD_NULL;
    case JSON_ARRAY:
        return 1u << JREAD_ARRAY;
    case JSON_OBJECT:
        return 1u << JREAD_OBJECT;
    }
    return 0;
}

// "#/$defs/NAME" of the whole schema.
static const json_t *definition_find(const json_t *root, const char *reference) {
    static const char *const places[] = {"$defs", "definitions"};
    for (size_t i = 0; reference && i < sizeof places / sizeof *places; i++) {
        const size_t n = strlen(places[i]);
        if (strncmp(reference, "#/", 2) || strncmp(reference + 2, places[i], n) ||
            reference[2 + n] != '/')
            continue;
        return json_object_get(json_object_get(root, places[i]), reference + 2 + n + 1);
    }
    return NULL;
}

// A function's schema, and how many of its parts may still be looked at: references may lead to the
// same part again and again.
struct reader {
    const json_t *root;
    int left;
};

static unsigned kinds_of(struct reader *reader, const json_t *schema, int nesting);

// 0 if one of the alternatives is not known.
static unsigned kinds_of_any(struct reader *reader, const json_t *list, int nesting) {
    unsigned kinds = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const unsigned more = kinds_of(reader, json_array_get(list, i), nesting + 1);
        if (!more) return 0;
        kinds |= more;
    }
    return kinds;
}

static unsigned kinds_of_type(const json_t *type) {
    unsigned kinds = kind_of_name(json_string_value(type));
    for (size_t i = 0; i < json_array_size(type) && i < VALUES_MAX; i++)
        kinds |= kind_of_name(json_string_value(json_array_get(type, i)));
    return kinds;
}

static unsigned kinds_of_values(const json_t *values, const json_t *value) {
    unsigned kinds = value ? kind_of_value(value) : 0;
    for (size_t i = 0; i < json_array_size(values) && i < VALUES_MAX; i++)
        kinds |= kind_of_value(json_array_get(values, i));
    return kinds;
}

static unsigned kinds_of(struct reader *reader, const json_t *schema, int nesting) {
    if (nesting > NESTING_MAX || reader->left-- <= 0) return 0;
    unsigned kinds = kinds_of_type(json_object_get(schema, "type"));
    if (kinds) return kinds;
    kinds = kinds_of_values(json_object_get(schema, "enum"), json_object_get(schema, "const"));
    if (kinds) return kinds;
    const json_t *any = json_object_get(schema, "anyOf");
    if (!any) any = json_object_get(schema, "oneOf");
    if (any) return kinds_of_any(reader, any, nesting);
    const char *const reference = json_string_value(json_object_get(schema, "$ref"));
    const json_t *const definition = definition_find(reader->root, reference);
    return definition ? kinds_of(reader, definition, nesting + 1) : 0;
}

// ---------------------------------------------------------------- functions

// NULL: out of memory.
static json_t *function_types(const json_t *schema) {
    struct reader reader = {schema, PARTS_MAX};
    json_t *const out = json_object();
    const char *key;
    json_t *parameter;
    json_object_foreach(json_object_get(schema, "properties"), key, parameter) {
        const unsigned kinds = kinds_of(&reader, parameter, 0);
        if (!kinds || !out) continue;
        if (!json_object_set_new(out, key, json_integer(kinds))) continue;
        json_decref(out);
        return NULL;
    }
    return out;
}

json_t *answer_types_of(const json_t *tools) {
    json_t *const out = json_object();
    for (size_t i = 0; out && i < json_array_size(tools); i++) {
        const json_t *const function = json_object_get(json_array_get(tools, i), "function");
        const char *const name = json_string_value(json_object_get(function, "name"));
        if (!name) continue;
        if (!json_object_set_new(out, name,
                                 function_types(json_object_get(function, "parameters"))))
            continue;
        json_decref(out);
        return NULL;
    }
    return out;
}

static const json_t *member_find(const json_t *object, const char *name, size_t len) {
    char text[NAME_SIZE];
    if (!object || len >= sizeof text) return NULL;
    memcpy(text, name, len);
    text[len] = 0;
    return json_object_get(object, text);
}

const json_t *answer_types_function(const json_t *types, const char *name, size_t len) {
    return member_find(types, name, len);
}

unsigned answer_types_kinds(const json_t *function, const char *key, size_t len) {
    return (unsigned)json_integer_value(member_find(function, key, len));
}
