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
    static const char *const names[] = {[V_MISSING] = "missing",
                                        [V_UNDEFINED] = "Undefined",
                                        [V_NONE] = "NoneType",
                                        [V_BOOL] = "bool",
                                        [V_INT] = "int",
                                        [V_FLOAT] = "float",
                                        [V_BIG] = "int",
                                        [V_STR] = "str",
                                        [V_SEQ] = "list",
                                        [V_DICT] = "dict",
                                        [V_NAMESPACE] = "Namespace",
                                        [V_MACRO] = "Macro",
                                        [V_FUNCTION] = "function",
                                        [V_METHOD] = "method",
                                        [V_LOOP] = "LoopContext",
                                        [TYPE_SEQ + SEQ_LIST] = "list",
                                        [TYPE_SEQ + SEQ_TUPLE] = "tuple",
                                        [TYPE_SEQ + SEQ_RANGE] = "range",
                                        [TYPE_SEQ + SEQ_ITER] = "generator",
                                        [TYPE_SEQ + SEQ_KEYS] = "dict_keys",
                                        [TYPE_SEQ + SEQ_VALUES] = "dict_values",
                                        [TYPE_SEQ + SEQ_ITEMS] = "dict_items"};
    return names[type];
}

const char *jinja_type_name(struct value v) { return jinja_type_text(jinja_type(v)); }

bool jinja_is_true(struct value v) {
    switch (v.kind) {
    case V_UNDEFINED:
    case V_NONE:
    case V_MISSING:
        return false;
    case V_BOOL:
        return v.b;
    case V_INT:
        return v.i != 0;
    case V_FLOAT:
        return v.f != 0;
    case V_STR:
        return v.s->len > 0;
    case V_SEQ:
        return v.q->flavor == SEQ_ITER || v.q->n > 0;
    case V_DICT:
        return v.d->n > 0;
    default:
        return true;
    }
}

static bool is_small_number(struct value v) { return is_int(v) || v.kind == V_FLOAT; }

// -1, 0, 1; 2 when a NaN makes them unordered.
static int number_order(struct value a, struct value b) {
    if (a.kind != V_FLOAT && b.kind != V_FLOAT) {
        const int64_t x = int_of(a), y = int_of(b);
        return (x > y) - (x < y);
    }
    const double x = a.kind == V_FLOAT ? a.f : (double)int_of(a);
    const double y = b.kind == V_FLOAT ? b.f : (double)int_of(b);
    if (x != x || y != y) return 2;
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
    if (is_small_number(a) && is_small_number(b)) return number_order(a, b) == 0;
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case V_STR:
    case V_BIG:
        if (a.s->len == b.s->len) jinja_work(r, a.s->len);
        return str_same(a.s, b.s);
    case V_SEQ:
        return seqs_equal(r, a.q, b.q);
    case V_DICT:
        return dicts_equal(r, a.d, b.d);
    case V_NONE:
    case V_UNDEFINED:
        return true;
    default:
        return a.d == b.d; // the same object
    }
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
    if (is_small_number(a) && is_small_number(b)) return number_order(a, b) == -1;
    if (a.kind == V_STR && b.kind == V_STR) return strings_less(r, a.s, b.s);
    const bool are_ordered = a.kind == V_SEQ && b.kind == V_SEQ && a.q->flavor == b.q->flavor &&
                             a.q->flavor <= SEQ_TUPLE;
    if (are_ordered) return seqs_less(r, a.q, b.q);
    jinja_fail(r, "'<' is not supported between '%s' and '%s'", jinja_type_name(a),
               jinja_type_name(b));
}

bool jinja_contains(struct render *r, struct value container, struct value needle) {
    if (container.kind == V_UNDEFINED) return false;
    if (container.kind == V_STR && needle.kind == V_STR) {
        return jinja_find(r, container.s, needle.s, 0, container.s->len) != SIZE_MAX;
    }
    if (container.kind == V_DICT && jinja_is_key(r, needle)) {
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
    switch (v.kind) {
    case V_UNDEFINED:
        return 0;
    case V_STR:
        if (v.s->n_chars == SIZE_MAX) jinja_work(r, v.s->len);
        return (int64_t)jinja_n_chars(v.s);
    case V_SEQ:
        return v.q->flavor == SEQ_ITER ? -1 : (int64_t)v.q->n;
    case V_DICT:
        return (int64_t)v.d->n;
    default:
        return -1;
    }
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
    struct seq *list;
    switch (v.kind) {
    case V_SEQ:
        if (v.q->flavor != SEQ_ITER) return v.q;
        list = jinja_seq_new(r, SEQ_LIST, 0);
        list->items = v.q->items + v.q->pos;
        list->n = v.q->n - v.q->pos;
        list->depth = v.q->depth;
        v.q->pos = v.q->n;
        return list;
    case V_DICT:
        list = jinja_seq_new(r, SEQ_LIST, v.d->n);
        for (size_t i = 0; i < v.d->n; i++) list->items[i] = v.d->entries[i].key;
        return list;
    case V_STR:
        return characters_of(r, v.s);
    case V_UNDEFINED:
        return jinja_seq_new(r, SEQ_LIST, 0);
    default:
        jinja_fail(r, "'%s' object is not iterable", jinja_type_name(v));
    }
}
