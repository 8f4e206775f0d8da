// Objects: declared properties in their order, then others. The automaton has two states for
// property i: C[i] behind a comma or the opening brace, where property i or a later one comes;
// B[i] behind the value of a property before i. Optional properties are skipped by empty edges.
#include <string.h>

#include "constraint/front.h"
#include "constraint/product.h"
#include "constraint/schema.h"

enum { MAX_PATTERNS = 4 };

struct property {
    const char *name;
    size_t len;
    bool is_required;
    struct property *next; // of a bucket
};

struct properties {
    struct property *at; // [n]
    size_t n, capacity;
    struct property **bucket; // [n_bucket] chains by hash
    size_t n_bucket;
};

struct pattern {
    uint32_t part; // of the conjunction
    const struct json *schema;
    const struct node *keys;  // in the alphabet of strings
    const struct node *plain; // in that of names
};

struct object {
    struct schema *s;
    const struct conjunction *c;
    struct properties list;
    struct pattern pattern[MAX_PATTERNS];
    int n_pattern;
    struct form *form; // of the members
    struct graph_edge *edge;
    size_t n_edge, edge_capacity;
};

// --- names ---

static size_t count_names(const struct conjunction *c) {
    size_t n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct json *p = json_get(c->part[i], "properties");
        const struct json *r = json_get(c->part[i], "required");
        n += (p && p->kind == JREAD_OBJECT ? p->len : 0) +
             (r && r->kind == JREAD_ARRAY ? r->len : 0);
    }
    return n;
}

static struct property *name_of(struct object *o, const char *name, size_t len) {
    struct properties *list = &o->list;
    struct property **chain = &list->bucket[json_key_hash(name, len) & (list->n_bucket - 1)];
    for (struct property *p = *chain; p; p = p->next) {
        if (!grammar_work(o->s->g, 1)) return NULL;
        if (p->len == len && memcmp(p->name, name, len) == 0) return p;
    }
    struct property *p = &list->at[list->n++];
    *p = (struct property){.name = name, .len = len, .next = *chain};
    *chain = p;
    return p;
}

// Declared names first, then names that are only required.
static bool collect_names(struct object *o) {
    struct schema *s = o->s;
    o->list.n_bucket = 16;
    while (o->list.n_bucket < count_names(o->c)) o->list.n_bucket *= 2;
    o->list.at = grammar_alloc(s->g, count_names(o->c) + 1, sizeof *o->list.at);
    o->list.bucket = grammar_alloc(s->g, o->list.n_bucket, sizeof *o->list.bucket);
    if (!o->list.at || !o->list.bucket) return false;
    for (uint32_t i = 0; i < o->c->n; i++) {
        const struct json *p = json_get(o->c->part[i], "properties");
        if (!p) continue;
        if (p->kind != JREAD_OBJECT) {
            schema_expected(s, o->c->part[i], "properties", p, "an object");
            return false;
        }
        for (size_t k = 0; k < p->len; k++)
            if (!name_of(o, p->member[k].key, p->member[k].len)) return false;
    }
    for (uint32_t i = 0; i < o->c->n; i++) {
        const struct json *r = json_get(o->c->part[i], "required");
        if (!r) continue;
        const struct json *wrong = r->kind == JREAD_ARRAY ? NULL : r;
        for (size_t k = 0; !wrong && k < r->len; k++) {
            const struct json *name = r->item[k];
            struct property *p =
                name->kind == JREAD_STRING ? name_of(o, name->text, name->len) : NULL;
            if (p) p->is_required = true;
            if (name->kind != JREAD_STRING) wrong = name;
        }
        if (wrong) schema_expected(s, o->c->part[i], "required", wrong, "strings in an array");
    }
    return !s->g->status;
}

// --- patterns ---

static bool collect_patterns(struct object *o) {
    struct schema *s = o->s;
    for (uint32_t i = 0; i < o->c->n; i++) {
        const struct json *patterns = json_get(o->c->part[i], "patternProperties");
        if (!patterns) continue;
        if (patterns->kind != JREAD_OBJECT) {
            schema_expected(s, o->c->part[i], "patternProperties", patterns, "an object");
            return false;
        }
        for (size_t k = 0; k < patterns->len; k++) {
            if (o->n_pattern == MAX_PATTERNS) {
                schema_fail(s, o->c->part[i], "patternProperties", "more than %d patterns",
                            MAX_PATTERNS);
                return false;
            }
            const struct json_member *member = &patterns->member[k];
            struct pattern *p = &o->pattern[o->n_pattern++];
            const int64_t expand_max = s->g->expand_max;
            s->g->expand_max = GRAMMAR_MAX_REPEAT;
            *p = (struct pattern){.part = i, .schema = member->value};
            p->keys = regex_node(s->g, member->key, member->len, true, form_class(o->form),
                                 "/patternProperties: ");
            p->plain = regex_node(s->g, member->key, member->len, true, node_class,
                                  "/patternProperties: ");
            s->g->expand_max = expand_max;
            if (!p->keys || !p->plain) return false;
        }
    }
    return true;
}

// --- values ---

static const struct json *additional(const struct json *part) {
    return json_get(part, "additionalProperties");
}

// The schemas for a key of one part: its own, those of patterns that match, else the additional.
static bool add_part(struct object *o, struct conjunction *out, uint32_t part,
                     const struct json *own, unsigned matched) {
    struct schema *s = o->s;
    const struct json *holder = o->c->part[part];
    bool found = own != NULL;
    if (own && !conjunction_add(s, out, own, holder, "properties")) return false;
    for (int i = 0; i < o->n_pattern; i++) {
        if (o->pattern[i].part != part || !(matched >> i & 1)) continue;
        found = true;
        if (!conjunction_add(s, out, o->pattern[i].schema, holder, "patternProperties"))
            return false;
    }
    if (found || !additional(holder)) return true;
    return conjunction_add(s, out, additional(holder), holder, "additionalProperties");
}

static const struct node *value_for(struct object *o, const struct property *property,
                                    unsigned matched) {
    struct conjunction *value = grammar_alloc(o->s->g, 1, sizeof *value);
    if (!value) return NULL;
    value->form = form_inner(o->form);
    for (uint32_t i = 0; i < o->c->n; i++) {
        const struct json *p = json_get(o->c->part[i], "properties");
        const struct json *own = property ? json_find(p, property->name, property->len) : NULL;
        if (!grammar_work(o->s->g, 1 + (p ? p->len / 4 : 0)) ||
            !add_part(o, value, i, own, matched))
            return NULL;
    }
    return schema_value(o->s, value);
}

static unsigned patterns_of(struct object *o, const struct property *property) {
    unsigned matched = 0;
    for (int i = 0; i < o->n_pattern; i++)
        if (node_matches(o->s->g, o->pattern[i].plain, property->name, property->len))
            matched |= 1u << i;
    return matched;
}

// --- keys of other properties ---

// Strings in their one form, without the declared names.
static const struct node *other_keys(struct object *o) {
    struct grammar *g = o->s->g;
    const struct node *any = form_any_name(o->s, o->form);
    if (o->list.n == 0) return any;
    struct node_list names = {0};
    for (size_t i = 0; i < o->list.n; i++) {
        const struct property *p = &o->list.at[i];
        if (!node_list_add(g, &names, form_name(o->s, o->form, p->name, p->len))) return NULL;
    }
    return node_without(g, any, node_alt(g, names.node, names.n));
}

static bool edge(struct object *o, size_t from, size_t to, const struct node *node) {
    if (!node) return false;
    if (o->n_edge == o->edge_capacity) {
        const size_t capacity = o->edge_capacity ? 2 * o->edge_capacity : 64;
        struct graph_edge *grown = grammar_alloc(o->s->g, capacity, sizeof *grown);
        if (!grown) return false;
        if (o->n_edge) memcpy(grown, o->edge, o->n_edge * sizeof *grown);
        o->edge = grown;
        o->edge_capacity = capacity;
    }
    o->edge[o->n_edge++] = (struct graph_edge){(uint32_t)from, (uint32_t)to, node};
    return true;
}

// A member from state `from` to state `to`.
static bool member_edge(struct object *o, size_t from, size_t to, const struct node *key,
                        const struct node *value) {
    if (value && value->kind == NODE_NEVER) return true;
    return edge(o, from, to, node_seq_of(o->s->g, key, value));
}

// Whether no part forbids all other keys.
static bool has_others(const struct object *o) {
    for (uint32_t i = 0; i < o->c->n; i++) {
        const struct json *value = additional(o->c->part[i]);
        if (value && value->kind == JREAD_BOOL && !value->boolean &&
            !json_get(o->c->part[i], "patternProperties"))
            return false;
    }
    return true;
}

// Each set of patterns has keys of its own: they match these patterns and no others.
static bool other_members(struct object *o, size_t from, size_t to) {
    struct grammar *g = o->s->g;
    if (!has_others(o)) return true;
    if (o->list.n == 0 && o->n_pattern == 0 && o->form->kind == FORM_JSON) {
        const struct node *key =
            node_seq_of(g, node_call(g, o->form->string), node_text(g, ":"), o->form->space);
        return member_edge(o, from, to, key, value_for(o, NULL, 0));
    }
    const struct node *base = other_keys(o);
    for (unsigned matched = 0; matched < 1u << o->n_pattern; matched++) {
        const struct node *value = value_for(o, NULL, matched), *keys = base;
        if (!value) return false;
        if (value->kind == NODE_NEVER) continue;
        for (int i = 0; i < o->n_pattern && keys; i++)
            keys = matched >> i & 1 ? node_both(g, keys, o->pattern[i].keys)
                                    : node_without(g, keys, o->pattern[i].keys);
        // a rule of its own, so that the wide states of a key are few
        const uint32_t rule = grammar_rule(g, "key", 3);
        if (rule == UINT32_MAX || !keys) return false;
        grammar_define(g, rule, form_key(o->s, o->form, keys));
        if (!member_edge(o, from, to, node_call(g, rule), value)) return false;
    }
    return true;
}

// --- the automaton ---

static bool check_counts(struct object *o) {
    int64_t min, max;
    if (!schema_bounds(o->s, o->c, "minProperties", "maxProperties", &min, &max)) return false;
    size_t required = 0;
    for (size_t i = 0; i < o->list.n; i++) required += o->list.at[i].is_required;
    const bool closed = !has_others(o);
    if (min > (int64_t)required)
        schema_fail(o->s, schema_part_with(o->c, "minProperties"), "minProperties",
                    "not supported above the number of required properties, %zu", required);
    else if (max >= 0 && !(closed && max >= (int64_t)o->list.n))
        schema_fail(o->s, schema_part_with(o->c, "maxProperties"), "maxProperties",
                    "not supported below the number of properties");
    return !o->s->g->status;
}

static bool connect(struct object *o) {
    struct schema *s = o->s;
    struct grammar *g = s->g;
    const size_t n = o->list.n;
    // states: 0 the start, 1 behind the brace, C[0..n], B[0..n], the end
    const size_t c0 = 2, b0 = c0 + n + 1, end = b0 + n + 1;
    const struct node *empty = node_empty(g);
    const struct node *comma = form_object_text(s, o->form, ',');
    const struct node *close = form_object_text(s, o->form, '}');
    bool may_be_empty = true;
    edge(o, 0, 1, form_object_text(s, o->form, '{'));
    edge(o, 1, c0, empty);
    for (size_t i = 0; i < n; i++) {
        const struct property *p = &o->list.at[i];
        const struct node *value = value_for(o, p, patterns_of(o, p));
        const struct node *key = form_key(s, o->form, form_name(s, o->form, p->name, p->len));
        if (!member_edge(o, c0 + i, b0 + i + 1, key, value)) return false;
        edge(o, b0 + i, c0 + i, comma);
        may_be_empty &= !p->is_required;
        if (p->is_required) continue;
        edge(o, c0 + i, c0 + i + 1, empty);
        edge(o, b0 + i, b0 + i + 1, empty);
    }
    edge(o, b0 + n, c0 + n, comma);
    if (!other_members(o, c0 + n, b0 + n)) return false;
    if (may_be_empty) edge(o, 1, end, o->form->space ? node_text(g, "}") : empty);
    return edge(o, b0 + n, end, close);
}

const struct node *schema_object(struct schema *s, const struct conjunction *c) {
    struct object *o = grammar_alloc(s->g, 1, sizeof *o);
    if (!o) return NULL;
    *o = (struct object){.s = s,
                         .c = c,
                         .form = c->form->kind == FORM_RAW ? form_inner(c->form) : c->form};
    if (!collect_names(o) || !collect_patterns(o) || !check_counts(o) || !connect(o)) return NULL;
    return node_graph(s->g, o->edge, o->n_edge, (uint32_t)(2 * o->list.n + 5));
}
