// Operations of all values: type name, truth, equality, order, membership, length and iteration,
// as Python defines them. Numbers compare across kinds; everything else only with its own.
#include "jinja/value.h"

#include <string.h>

#include "jinja/render.h"
#include "jinja/text.h"

enum { TYPE_SEQ = V_LOOP + 1 }; // of the first flavor; the others follow

uint8_t jinja_type(struct value v) {
    return v.kind == V_SEQ ? (uint8_t)(TYPE_SEQ + v.q->flavor) : v.kind;
}

const char *jinja_type_text(uint8_t type) {
    // In the order of the kinds, then of the flavors.
    static const char *const names[] = {"missing",     "Undefined", "NoneType",    "bool",
                                        "int",         "float",     "int",         "str",
                                        "list",        "dict",      "Namespace",   "Macro",
                                        "function",    "method",    "LoopContext", "list",
                                        "tuple",       "range",     "generator",   "dict_keys",
                                        "dict_values", "dict_items"};
    _Static_assert(sizeof names / sizeof names[0] == TYPE_SEQ + SEQ_ITEMS + 1, "a name for each");
    return names[type];
}

const char *jinja_type_name(struct value v) { return jinja_type_text(jinja_type(v)); }

bool jinja_is_true(struct value v) {
    if (v.kind <= V_NONE) return false; // missing and undefined, too
    if (is_number(v)) return float_of(v) != 0;
    if (v.kind == V_STR) return v.s->len > 0;
    if (v.kind == V_DICT) return v.d->n > 0;
    return v.kind != V_SEQ || v.q->flavor == SEQ_ITER || v.q->n > 0;
}

// -1, 0 or 1.
static int number_order(struct value a, struct value b) {
    if (is_int(a) && is_int(b)) return (int_of(a) > int_of(b)) - (int_of(a) < int_of(b));
    const double x = float_of(a), y = float_of(b);
    return (x > y) - (x < y);
}

static bool seqs_equal(struct render *r, const struct seq *a, const struct seq *b) {
    if (a == b) return true;
    if (a->flavor != b->flavor || a->n != b->n || a->flavor == SEQ_ITER) return false;
    for (size_t i = 0; i < a->n; i++) {
        if (!jinja_equal(r, a->items[i], b->items[i])) return false;
    }
    return true;
}

static bool dicts_equal(struct render *r, const struct dict *a, const struct dict *b) {
    if (a == b) return true;
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct value *other = jinja_dict_find(r, b, a->entries[i].key);
        if (!other || !jinja_equal(r, a->entries[i].value, *other)) return false;
    }
    return true;
}

bool jinja_equal(struct render *r, struct value a, struct value b) {
    jinja_charge(r, 1);
    if (is_number(a) && is_number(b)) return number_order(a, b) == 0;
    if (a.kind != b.kind) return false;
    if (a.kind == V_STR || a.kind == V_BIG) {
        if (a.s->len == b.s->len) jinja_work(r, a.s->len);
        return str_same(a.s, b.s);
    }
    if (a.kind == V_SEQ) return seqs_equal(r, a.q, b.q);
    if (a.kind == V_DICT) return dicts_equal(r, a.d, b.d);
    return a.kind <= V_NONE || a.d == b.d; // the same object
}

static bool strings_less(struct render *r, const struct str *a, const struct str *b) {
    const size_t n = a->len < b->len ? a->len : b->len;
    jinja_work(r, n);
    const int order = n ? memcmp(a->data, b->data, n) : 0; // UTF-8 sorts as code points do
    return order ? order < 0 : a->len < b->len;
}

static bool seqs_less(struct render *r, const struct seq *a, const struct seq *b) {
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        if (!jinja_equal(r, a->items[i], b->items[i])) {
            return jinja_less(r, a->items[i], b->items[i]);
        }
    }
    return a->n < b->n;
}

bool jinja_less(struct render *r, struct value a, struct value b) {
    jinja_charge(r, 1);
    if (a.kind == V_UNDEFINED) jinja_fail_undefined(r, a);
    if (b.kind == V_UNDEFINED) jinja_fail_undefined(r, b);
    if (is_number(a) && is_number(b)) return number_order(a, b) < 0;
    if (a.kind == V_STR && b.kind == V_STR) return strings_less(r, a.s, b.s);
    if (is_list(a) && is_list(b) && a.q->flavor == b.q->flavor) return seqs_less(r, a.q, b.q);
    jinja_fail(r, "'<' is not supported between '%s' and '%s'", jinja_type_name(a),
               jinja_type_name(b));
}

bool jinja_contains(struct render *r, struct value container, struct value needle) {
    if (container.kind == V_UNDEFINED) return false;
    if (container.kind == V_STR && needle.kind == V_STR) {
        return jinja_find(r, container.s, needle.s, 0) != SIZE_MAX;
    }
    if (container.kind == V_DICT) {
        jinja_check_key(r, needle);
        return jinja_dict_find(r, container.d, needle) != NULL;
    }
    if (container.kind != V_SEQ) {
        jinja_fail(r, "'in' is not supported between '%s' and '%s'", jinja_type_name(needle),
                   jinja_type_name(container));
    }
    struct seq *const q = container.q;
    const bool is_iter = q->flavor == SEQ_ITER; // stays behind the item that it finds
    for (size_t i = is_iter ? q->pos : 0; i < q->n; i++) {
        if (is_iter) q->pos = i + 1;
        if (jinja_equal(r, q->items[i], needle)) return true;
    }
    return false;
}

int64_t jinja_length(struct render *r, struct value v) {
    if (v.kind == V_UNDEFINED) return 0;
    if (v.kind == V_DICT) return (int64_t)v.d->n;
    if (v.kind == V_SEQ && v.q->flavor != SEQ_ITER) return (int64_t)v.q->n;
    if (v.kind != V_STR) return -1;
    if (v.s->n_chars == SIZE_MAX) jinja_work(r, v.s->len);
    return (int64_t)jinja_n_chars(v.s);
}

static struct seq *characters_of(struct render *r, struct str *s) {
    const size_t n = jinja_n_chars(s);
    struct seq *list = jinja_seq_new(r, SEQ_LIST, n);
    jinja_charge(r, n);
    for (size_t i = 0, from = 0, to; i < n; i++, from = to) {
        to = jinja_char_end(s, from);
        list->items[i] = jinja_substr(r, s, from, to);
    }
    return list;
}

struct seq *jinja_iterate(struct render *r, struct value v) {
    if (v.kind == V_SEQ && v.q->flavor != SEQ_ITER) return v.q;
    if (v.kind == V_STR) return characters_of(r, v.s);
    if (v.kind == V_DICT) return jinja_dict_view(r, v.d, SEQ_KEYS).q;
    if (v.kind == V_UNDEFINED) return jinja_seq_new(r, SEQ_LIST, 0);
    if (v.kind != V_SEQ) jinja_fail(r, "'%s' object is not iterable", jinja_type_name(v));
    struct seq *rest = jinja_seq_new(r, SEQ_LIST, 0);
    rest->items = v.q->items + v.q->pos;
    rest->n = rest->cap = v.q->n - v.q->pos;
    rest->depth = v.q->depth;
    v.q->pos = v.q->n;
    return rest;
}
