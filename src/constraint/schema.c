// Conjunctions of schemas to rules: references, choices between branches, types, enumerations.
#include "constraint/schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "constraint/front.h"

// --- errors by their place ---

struct pointer {
    char text[240];
    size_t len;
};

static void pointer_add(struct pointer *p, const char *key, size_t len) {
    if (p->len + 1 < sizeof p->text) p->text[p->len++] = '/';
    for (size_t i = 0; i < len && p->len + 3 < sizeof p->text; i++) {
        if (key[i] == '~' || key[i] == '/') {
            p->text[p->len++] = '~';
            p->text[p->len++] = key[i] == '~' ? '0' : '1';
        } else {
            p->text[p->len++] = key[i];
        }
    }
    p->text[p->len] = 0;
}

// The way to a value; JSON is at most JREAD_MAX_DEPTH deep.
static bool pointer_find(const struct json *from, const struct json *to, struct pointer *p) {
    if (from == to) return true;
    const size_t len = p->len;
    const size_t n = from->kind == JREAD_OBJECT || from->kind == JREAD_ARRAY ? from->len : 0;
    for (size_t i = 0; i < n; i++) {
        const bool is_object = from->kind == JREAD_OBJECT;
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        if (is_object)
            pointer_add(p, from->member[i].key, from->member[i].len);
        else
            pointer_add(p, index, strlen(index));
        if (pointer_find(is_object ? from->member[i].value : from->item[i], to, p)) return true;
        p->len = len;
        p->text[len] = 0;
    }
    return false;
}

const struct node *schema_fail(struct schema *s, const struct json *part, const char *keyword,
                               const char *fmt, ...) {
    if (s->g->status) return NULL;
    struct pointer p = {.len = 0};
    char message[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    pointer_find(s->document, part, &p);
    if (keyword) pointer_add(&p, keyword, strlen(keyword));
    return grammar_fail(s->g, RN_ERR_ARG, "%s: %s", p.len ? p.text : "the schema", message);
}

const struct node *schema_expected(struct schema *s, const struct json *part, const char *keyword,
                                   const struct json *value, const char *expected) {
    enum { SHOWN = 40 };
    static const char *const words[] = {[JREAD_NULL] = "null",
                                        [JREAD_BOOL] = "false",
                                        [JREAD_ARRAY] = "an array",
                                        [JREAD_OBJECT] = "an object"};
    const bool has_text = value->kind == JREAD_STRING || value->kind == JREAD_NUMBER;
    const char *const text = has_text ? value->text : value->boolean ? "true" : words[value->kind];
    size_t len = has_text ? value->len : strlen(text);
    const bool is_cut = len > SHOWN;
    if (is_cut) // before a character
        for (len = SHOWN; len > 0 && ((uint8_t)text[len] & 0xC0) == 0x80;) len--;
    const char *const quote = value->kind == JREAD_STRING ? "\"" : "";
    return schema_fail(s, part, keyword, "expected %s, not %s%.*s%s%s", expected, quote, (int)len,
                       text, is_cut ? "..." : "", quote);
}

// --- conjunctions ---

// Keywords that say something about values and are not supported.
static const char *const refused[] = {
    "not",
    "if",
    "then",
    "else",
    "contains",
    "dependentSchemas",
    "dependencies",
    "propertyNames",
    "dependentRequired",
    "minContains",
    "maxContains",
    "unevaluatedItems",
    "$dynamicRef",
    "$recursiveRef",
    "unevaluatedProperties",
};

static bool check_keywords(struct schema *s, const struct json *part) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (!json_get(part, refused[i])) continue;
        schema_fail(s, part, refused[i], "the keyword is not supported");
        return false;
    }
    const struct json *unique = json_get(part, "uniqueItems");
    if (unique && !(unique->kind == JREAD_BOOL && !unique->boolean)) {
        schema_fail(s, part, "uniqueItems", "the keyword is not supported");
        return false;
    }
    return grammar_work(s->g, 16 + part->len * 4);
}

// One name of a pointer, with ~0, ~1 and %XX resolved; its length.
static size_t pointer_name(const char *text, size_t len, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%' && i + 2 < len && hex_digit((uint8_t)text[i + 1]) >= 0 &&
            hex_digit((uint8_t)text[i + 2]) >= 0) {
            c = (char)(hex_digit((uint8_t)text[i + 1]) * 16 + hex_digit((uint8_t)text[i + 2]));
            i += 2;
        }
        if (c == '~' && i + 1 < len && (text[i + 1] == '0' || text[i + 1] == '1'))
            c = text[++i] == '0' ? '~' : '/';
        out[n++] = c;
    }
    return n;
}

static const struct json *item_at(const struct json *array, const char *name, size_t len) {
    size_t index = 0;
    if (len == 0 || len > 6) return NULL;
    for (size_t i = 0; i < len; i++) {
        if (name[i] < '0' || name[i] > '9') return NULL;
        index = index * 10 + (size_t)(name[i] - '0');
    }
    return index < array->len ? array->item[index] : NULL;
}

// The target of a reference inside the schema; NULL: an error.
static const struct json *resolve(struct schema *s, const struct json *part,
                                  const struct json *ref) {
    const struct json *at = s->root;
    if (ref->kind != JREAD_STRING || ref->len == 0 || ref->text[0] != '#' ||
        (ref->len > 1 && ref->text[1] != '/')) {
        schema_expected(s, part, "$ref", ref, "a reference inside the schema (\"#/...\")");
        return NULL;
    }
    char *name = grammar_alloc(s->g, ref->len + 1, 1);
    if (!name) return NULL;
    for (size_t i = 1; i < ref->len && at;) {
        size_t end = i + 1;
        while (end < ref->len && ref->text[end] != '/') end++;
        const size_t len = pointer_name(ref->text + i + 1, end - i - 1, name);
        if (!grammar_work(s->g, 1 + at->len)) return NULL;
        at = at->kind == JREAD_OBJECT  ? json_find(at, name, len)
             : at->kind == JREAD_ARRAY ? item_at(at, name, len)
                                       : NULL;
        i = end;
    }
    if (!at) schema_fail(s, part, "$ref", "the reference \"%.100s\" leads nowhere", ref->text);
    return at;
}

bool conjunction_add(struct schema *s, struct conjunction *c, const struct json *schema,
                     const struct json *holder, const char *keyword) {
    if (schema->kind == JREAD_BOOL) {
        c->is_never |= !schema->boolean;
        return true;
    }
    if (schema->kind != JREAD_OBJECT) {
        schema_expected(s, holder, keyword, schema, "a schema: an object, true or false");
        return false;
    }
    for (uint32_t i = 0; i < c->n; i++)
        if (c->part[i] == schema) return true; // also ends references in a circle
    if (!check_keywords(s, schema)) return false;
    if (c->n == CONJUNCTION_MAX) {
        schema_fail(s, schema, NULL, "more than %d schemas apply at once", CONJUNCTION_MAX);
        return false;
    }
    c->chosen[c->n] = 0;
    c->part[c->n++] = schema;
    const struct json *ref = json_get(schema, "$ref"), *all = json_get(schema, "allOf");
    if (ref) {
        const struct json *target = resolve(s, schema, ref);
        if (!target || !conjunction_add(s, c, target, schema, "$ref")) return false;
    }
    if (all && all->kind != JREAD_ARRAY) schema_expected(s, schema, "allOf", all, "an array");
    for (size_t i = 0; all && !s->g->status && i < all->len; i++)
        if (!conjunction_add(s, c, all->item[i], schema, "allOf")) return false;
    return !s->g->status;
}

const struct json *schema_part_with(const struct conjunction *c, const char *keyword) {
    for (uint32_t i = 0; i < c->n; i++)
        if (json_get(c->part[i], keyword)) return c->part[i];
    return NULL;
}

static bool read_count(struct schema *s, const struct json *part, const char *keyword,
                       int64_t *out) {
    const struct json *value = json_get(part, keyword);
    *out = -1;
    if (!value) return true;
    int64_t n = 0;
    bool is_count = value->kind == JREAD_NUMBER && value->len > 0;
    for (size_t i = 0; is_count && i < value->len; i++) {
        if (value->text[i] == '.' && i > 0) { // 2.0
            for (i++; i < value->len; i++) is_count &= value->text[i] == '0';
            break;
        }
        is_count = value->text[i] >= '0' && value->text[i] <= '9';
        if (is_count && n < GRAMMAR_MAX_COUNT) n = n * 10 + (value->text[i] - '0');
    }
    if (!is_count) {
        schema_expected(s, part, keyword, value, "a whole number that is not negative");
        return false;
    }
    *out = n;
    return true;
}

bool schema_bounds(struct schema *s, const struct conjunction *c, const char *min_key,
                   const char *max_key, int64_t *min, int64_t *max) {
    *min = 0;
    *max = -1;
    for (uint32_t i = 0; i < c->n; i++) {
        int64_t lo, hi;
        if (!read_count(s, c->part[i], min_key, &lo) || !read_count(s, c->part[i], max_key, &hi))
            return false;
        if (lo > *min) *min = lo;
        if (hi >= 0 && (*max < 0 || hi < *max)) *max = hi;
    }
    return true;
}

// --- types ---

static const struct {
    const char *name;
    unsigned type;
} type_names[] = {{"null", TYPE_NULL},      {"boolean", TYPE_BOOLEAN},
                  {"object", TYPE_OBJECT},  {"array", TYPE_ARRAY},
                  {"string", TYPE_STRING},  {"number", TYPE_NUMBER | TYPE_INTEGER},
                  {"integer", TYPE_INTEGER}};

static unsigned type_named(struct schema *s, const struct json *part, const struct json *name) {
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++)
        if (json_is(name, type_names[i].name)) return type_names[i].type;
    schema_expected(s, part, "type", name, "the name of a type");
    return 0;
}

static unsigned types_of(struct schema *s, const struct conjunction *c) {
    unsigned types = TYPE_ALL;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct json *type = json_get(c->part[i], "type");
        if (!type) continue;
        unsigned named = 0;
        if (type->kind == JREAD_ARRAY)
            for (size_t k = 0; k < type->len; k++)
                named |= type_named(s, c->part[i], type->item[k]);
        else
            named = type_named(s, c->part[i], type);
        types &= named;
    }
    return types;
}

// --- values that are listed ---

static bool is_whole(const struct json *number) {
    for (size_t i = 0; i < number->len; i++)
        if (number->text[i] == '.' || number->text[i] == 'e' || number->text[i] == 'E')
            return false;
    return true;
}

static bool has_type(const struct json *value, unsigned types) {
    switch (value->kind) {
    case JREAD_NULL:
        return types & TYPE_NULL;
    case JREAD_BOOL:
        return types & TYPE_BOOLEAN;
    case JREAD_NUMBER:
        return types & (is_whole(value) ? TYPE_NUMBER | TYPE_INTEGER : TYPE_NUMBER);
    case JREAD_STRING:
        return types & TYPE_STRING;
    case JREAD_ARRAY:
        return types & TYPE_ARRAY;
    case JREAD_OBJECT:
        return types & TYPE_OBJECT;
    case JREAD_ERROR:
        break;
    }
    return false;
}

// Whether the lists of all parts have the value; `from` is the list that it comes from.
static bool is_listed(struct schema *s, const struct conjunction *c, const struct json *from,
                      const struct json *value) {
    for (uint32_t i = 0; i < c->n; i++) {
        const struct json *one = json_get(c->part[i], "const"),
                          *some = json_get(c->part[i], "enum");
        if (one && one != from && !json_same(s->g, one, value)) return false;
        bool found = !some || some == from;
        for (size_t k = 0; !found && k < some->len && !s->g->status; k++)
            found = json_same(s->g, some->item[k], value);
        if (!found) return false;
    }
    return true;
}

static bool check_lists(struct schema *s, const struct conjunction *c) {
    for (uint32_t i = 0; i < c->n; i++) {
        const struct json *some = json_get(c->part[i], "enum");
        if (some && some->kind != JREAD_ARRAY) {
            schema_expected(s, c->part[i], "enum", some, "an array");
            return false;
        }
    }
    return true;
}

// Whether a listed value passes the keywords of its type. Those of objects and arrays would need a
// validator.
static bool passes(struct schema *s, const struct conjunction *c, const struct json *value) {
    static const char *const of_object[] = {"properties",        "additionalProperties",
                                            "patternProperties", "required",
                                            "minProperties",     "maxProperties"};
    static const char *const of_array[] = {"items", "prefixItems", "minItems", "maxItems"};
    if (value->kind == JREAD_STRING) return schema_string_passes(s, c, value);
    if (value->kind == JREAD_NUMBER) return schema_number_passes(s, c, value);
    if (value->kind != JREAD_OBJECT && value->kind != JREAD_ARRAY) return true;
    const bool is_object = value->kind == JREAD_OBJECT;
    const size_t n =
        is_object ? sizeof of_object / sizeof *of_object : sizeof of_array / sizeof *of_array;
    for (size_t i = 0; i < n; i++) {
        const char *keyword = is_object ? of_object[i] : of_array[i];
        const struct json *part = schema_part_with(c, keyword);
        if (!part) continue;
        schema_fail(s, part, keyword, "the keyword is not supported beside a list of such values");
        return false;
    }
    return true;
}

// NULL with no error: no part lists values.
static const struct node *listed_values(struct schema *s, const struct conjunction *c,
                                        unsigned types) {
    const struct json *part = schema_part_with(c, "const");
    const struct json *one = part ? json_get(part, "const") : NULL;
    const struct json *some = NULL;
    if (!one && (part = schema_part_with(c, "enum"))) some = json_get(part, "enum");
    if (!one && !some) return NULL;
    if (!check_lists(s, c)) return NULL;
    struct node_list list = {0};
    for (size_t i = 0; i < (one ? 1 : some->len); i++) {
        const struct json *value = one ? one : some->item[i];
        if (!has_type(value, types) || !is_listed(s, c, one ? one : some, value) ||
            !passes(s, c, value))
            continue;
        if (!node_list_add(s->g, &list, form_literal(s, c->form, value))) return NULL;
    }
    return s->g->status ? NULL : node_alt(s->g, list.node, list.n);
}

// --- rules ---

static bool conjunction_equal(const struct conjunction *a, const struct conjunction *b) {
    return a->n == b->n && a->is_never == b->is_never && a->form == b->form &&
           memcmp(a->part, b->part, a->n * sizeof *a->part) == 0 &&
           memcmp(a->chosen, b->chosen, a->n) == 0;
}

// The rule of a conjunction; its body is made later.
static uint32_t rule_for(struct schema *s, const struct conjunction *c) {
    if (!grammar_work(s->g, 8 + s->n_rule_of)) return UINT32_MAX;
    for (uint32_t i = 0; i < s->g->n_rule && i < s->n_rule_of; i++)
        if (s->rule_of[i] && conjunction_equal(s->rule_of[i], c)) return i;
    const uint32_t rule = grammar_rule(s->g, "schema", 6);
    struct conjunction *copy = grammar_alloc(s->g, 1, sizeof *copy);
    if (rule == UINT32_MAX || !copy) return UINT32_MAX;
    *copy = *c;
    if (rule >= s->n_rule_of) {
        const uint32_t capacity = 2 * rule + 32;
        struct conjunction **grown = grammar_alloc(s->g, capacity, sizeof *grown);
        if (!grown) return UINT32_MAX;
        if (s->n_rule_of) memcpy(grown, s->rule_of, s->n_rule_of * sizeof *grown);
        s->rule_of = grown;
        s->n_rule_of = capacity;
    }
    s->rule_of[rule] = copy;
    return rule;
}

// The first part with a choice of branches that is still open.
static bool open_choice(const struct conjunction *c, uint32_t *at, const char **keyword,
                        uint8_t *bit) {
    for (uint32_t i = 0; i < c->n; i++) {
        if (json_get(c->part[i], "anyOf") && !(c->chosen[i] & CHOSEN_ANY_OF)) {
            *at = i;
            *keyword = "anyOf";
            *bit = CHOSEN_ANY_OF;
            return true;
        }
        if (json_get(c->part[i], "oneOf") && !(c->chosen[i] & CHOSEN_ONE_OF)) {
            *at = i;
            *keyword = "oneOf";
            *bit = CHOSEN_ONE_OF;
            return true;
        }
    }
    return false;
}

static const struct node *branches(struct schema *s, const struct conjunction *c, uint32_t at,
                                   const char *keyword, uint8_t bit) {
    const struct json *list = json_get(c->part[at], keyword);
    if (list->kind != JREAD_ARRAY)
        return schema_expected(s, c->part[at], keyword, list, "an array");
    struct node_list nodes = {0};
    struct conjunction *branch = grammar_alloc(s->g, 1, sizeof *branch);
    for (size_t i = 0; branch && i < list->len; i++) {
        *branch = *c;
        branch->chosen[at] |= bit;
        if (!conjunction_add(s, branch, list->item[i], c->part[at], keyword)) return NULL;
        if (!node_list_add(s->g, &nodes, schema_value(s, branch))) return NULL;
    }
    return branch ? node_alt(s->g, nodes.node, nodes.n) : NULL;
}

// Objects whose members are arguments; nothing else can be written so.
static const struct node *arguments(struct schema *s, const struct conjunction *c, unsigned types) {
    if (types & TYPE_OBJECT && !schema_part_with(c, "const") && !schema_part_with(c, "enum"))
        return schema_object(s, c);
    return schema_fail(s, c->n ? c->part[0] : s->root, NULL,
                       "expected the schema of an object, whose properties are arguments");
}

// The values of a conjunction without an open choice.
static const struct node *by_type(struct schema *s, const struct conjunction *c) {
    struct form *form = c->form;
    const unsigned types = types_of(s, c);
    if (s->g->status) return NULL;
    if (form->kind == FORM_TAGS || form->kind == FORM_ARGUMENTS) return arguments(s, c, types);
    const struct node *listed = listed_values(s, c, types);
    if (listed || s->g->status) return listed;
    struct node_list list = {0}; // of values that are no strings
    if (types & TYPE_NULL) node_list_add(s->g, &list, form_word(s, form, "null"));
    if (types & TYPE_BOOLEAN)
        node_list_add(s->g, &list,
                      node_alt_of(s->g, form_word(s, form, "true"), form_word(s, form, "false")));
    if (types & (TYPE_NUMBER | TYPE_INTEGER))
        node_list_add(s->g, &list, schema_number(s, c, !(types & TYPE_NUMBER)));
    if (types & TYPE_OBJECT) node_list_add(s->g, &list, schema_object(s, c));
    if (types & TYPE_ARRAY) node_list_add(s->g, &list, schema_array(s, c));
    if (s->g->status) return NULL;
    const struct node *others = form_other(s, form, node_alt(s->g, list.node, list.n));
    return types & TYPE_STRING ? node_alt_of(s->g, schema_string(s, c), others) : others;
}

static const struct node *body_of(struct schema *s, const struct conjunction *c) {
    uint32_t at;
    uint8_t bit;
    const char *keyword;
    if (open_choice(c, &at, &keyword, &bit)) return branches(s, c, at, keyword, bit);
    return by_type(s, c);
}

// Texts that a rule would only make slower: words, and values without further conditions.
static const struct node *short_value(struct schema *s, const struct conjunction *c) {
    static const char *const heavy[] = {"anyOf",
                                        "oneOf",
                                        "properties",
                                        "items",
                                        "prefixItems",
                                        "required",
                                        "pattern",
                                        "format",
                                        "x-lark",
                                        "minLength",
                                        "maxLength",
                                        "minimum",
                                        "maximum",
                                        "minItems",
                                        "multipleOf",
                                        "maxItems",
                                        "additionalProperties",
                                        "patternProperties",
                                        "exclusiveMinimum",
                                        "exclusiveMaximum",
                                        "minProperties",
                                        "maxProperties",
                                        "additionalItems"};
    for (size_t i = 0; i < sizeof heavy / sizeof *heavy; i++)
        if (schema_part_with(c, heavy[i])) return NULL;
    const unsigned types = types_of(s, c);
    const struct form *form = c->form;
    if (s->g->status || form->kind == FORM_TAGS || form->kind == FORM_ARGUMENTS) return NULL;
    if (schema_part_with(c, "const") || schema_part_with(c, "enum") ||
        !(types & (TYPE_OBJECT | TYPE_ARRAY)))
        return by_type(s, c);
    // any text can be read, and is a value of some type
    if (types == TYPE_ALL && form->kind == FORM_RAW) return node_call(s->g, form->string);
    if (form->kind == FORM_RAW) return NULL;
    if (types == TYPE_ALL) return node_call(s->g, form->value);
    if (types == TYPE_OBJECT) return node_call(s->g, form->object);
    if (types == TYPE_ARRAY) return node_call(s->g, form->array);
    return NULL;
}

const struct node *schema_value(struct schema *s, const struct conjunction *c) {
    if (c->is_never) return node_never(s->g);
    const struct node *node = short_value(s, c);
    if (node || s->g->status) return node;
    return node_call(s->g, rule_for(s, c));
}

// --- values of any kind ---

static const struct node *expression(struct grammar *g, const char *text) {
    return regex_node(g, text, strlen(text), false, node_class, "");
}

void schema_init(struct schema *s, struct grammar *g, const struct json *document) {
    *s = (struct schema){.g = g, .document = document};
}

// Rules that all schemas of the document use.
static bool any_values(struct schema *s, struct form *form) {
    struct grammar *g = s->g;
    if (!s->unit) {
        s->unit = string_unit(g);
        s->number = grammar_rule(g, "number", 6);
        s->integer = grammar_rule(g, "integer", 7);
        if (g->status) return false;
        grammar_define(g, s->number,
                       expression(g,
                                  "-?(?:0|[1-9]\\d{0,19})(?:\\.\\d{1,20})?(?:[eE][+-]?\\d{1,2})?"));
        grammar_define(g, s->integer, expression(g, "-?(?:0|[1-9]\\d{0,19})"));
    }
    return form_ready(s, form) && !g->status;
}

void object_read(struct grammar *g) {
    struct schema s = {.g = g};
    if (any_values(&s, &s.json)) g->start = s.json.object;
}

const struct node *schema_part(struct schema *s, const struct json *schema,
                               const struct json *holder, const char *keyword, struct form *form) {
    struct grammar *g = s->g;
    struct conjunction *c = grammar_alloc(g, 1, sizeof *c);
    if (!form) form = &s->json;
    if (!c || !any_values(s, form)) return NULL;
    c->form = form;
    s->root = schema;
    const uint32_t first = g->n_rule;
    if (g->status || !conjunction_add(s, c, schema, holder, keyword)) return NULL;
    const struct node *node = schema_value(s, c);
    // bodies add rules behind the end
    for (uint32_t i = first; i < g->n_rule && !g->status; i++)
        if (i < s->n_rule_of && s->rule_of[i]) grammar_define(g, i, body_of(s, s->rule_of[i]));
    return g->status ? NULL : node;
}

void schema_read(struct grammar *g, const char *text, size_t len) {
    struct schema s;
    const struct json *document = json_read(g, "the schema", text, len);
    if (!document) return;
    schema_init(&s, g, document);
    const struct node *node = schema_part(&s, document, document, NULL, NULL);
    g->start = grammar_rule(g, "root", 4);
    grammar_define(g, g->start, node);
}
