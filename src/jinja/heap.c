// New strings and sequences. Strings share the bytes they are cut from; concatenation grows in
// place where it can. A sequence is filled by its maker and then closed, which bounds its depth.
#include <string.h>

#include "jinja/render.h"

struct value jinja_str_borrow(struct render *r, const char *data, size_t len) {
    struct str *s = jinja_alloc(r, sizeof *s);
    s->data = data;
    s->len = len;
    s->n_chars = len ? SIZE_MAX : 0;
    return value_str(s);
}

struct value jinja_str(struct render *r, const char *data, size_t len) {
    char *copy = jinja_alloc(r, len);
    if (len) memcpy(copy, data, len);
    return jinja_str_borrow(r, copy, len);
}

struct value jinja_str_literal(struct render *r, const char *text) {
    return jinja_str_borrow(r, text, strlen(text));
}

struct value jinja_substr(struct render *r, const struct str *s, size_t from, size_t to) {
    const struct value v = jinja_str_borrow(r, s->data + from, to - from);
    if (s->n_chars == s->len) v.s->n_chars = v.s->len;
    if (s->marks) v.s->marks = s->marks + from;
    return v;
}

static void bytes_put(char *to, uint8_t *to_marks, const struct str *s) {
    if (s->len) memcpy(to, s->data, s->len);
    if (to_marks && s->len && s->marks) memcpy(to_marks, s->marks, s->len);
    if (to_marks && s->len && !s->marks) memset(to_marks, 0, s->len);
}

// The second concatenation onto the same text reserves as much again, the first nothing: most
// strings are made once.
static struct str_tail *tail_new(struct render *r, const struct str *left,
                                 const struct str *right) {
    const size_t total = left->len + right->len; // both are in memory, so it does not overflow
    const size_t cap = left->tail ? total * 2 : total;
    struct str_tail *tail = jinja_alloc(r, sizeof *tail);
    char *copy = jinja_alloc(r, cap);
    tail->limit = copy + cap;
    tail->end = copy + left->len;
    if (left->marks || right->marks) tail->marks = jinja_alloc(r, cap);
    bytes_put(copy, tail->marks, left);
    return tail;
}

struct value jinja_concat(struct render *r, const struct str *left, const struct str *right) {
    struct str_tail *tail = left->tail;
    const bool grows = tail && left->data + left->len == tail->end &&
                       (size_t)(tail->limit - tail->end) >= right->len &&
                       (tail->marks || !right->marks);
    if (!grows) tail = tail_new(r, left, right);
    jinja_work(r, right->len);
    bytes_put(tail->end, tail->marks ? tail->marks + left->len : NULL, right);
    tail->end += right->len;
    const size_t len = left->len + right->len;
    const struct value v = jinja_str_borrow(r, tail->end - len, len);
    v.s->tail = tail;
    v.s->marks = tail->marks;
    return v;
}

struct value jinja_undefined(struct render *r, const char *hint) {
    struct value v = jinja_str_literal(r, hint);
    v.kind = V_UNDEFINED;
    v.flag = UNDEFINED_HINT;
    return v;
}

struct seq *jinja_seq_new(struct render *r, enum seq_flavor flavor, size_t n) {
    struct seq *q = jinja_alloc(r, sizeof *q);
    q->items = jinja_array(r, n, sizeof *q->items);
    q->n = q->cap = n;
    q->flavor = (uint8_t)flavor;
    q->depth = 1;
    return q;
}

void jinja_seq_add(struct render *r, struct seq *q, struct value v) {
    if (q->n == q->cap) q->items = jinja_array_grow(r, q->items, q->n, &q->cap, sizeof *q->items);
    q->items[q->n++] = v;
}

uint8_t jinja_depth_with(struct render *r, uint8_t depth, struct value member) {
    const uint8_t inner = member.kind == V_SEQ    ? member.q->depth
                          : member.kind == V_DICT ? member.d->depth
                                                  : 0;
    if (inner >= TEMPLATE_MAX_DEPTH) {
        jinja_fail(r, "values are nested deeper than %d", TEMPLATE_MAX_DEPTH);
    }
    return inner >= depth ? inner + 1 : depth;
}

struct value jinja_seq_close(struct render *r, struct seq *q) {
    for (size_t i = 0; i < q->n; i++) q->depth = jinja_depth_with(r, q->depth, q->items[i]);
    return value_seq(q);
}

struct value jinja_pair(struct render *r, struct value a, struct value b) {
    struct seq *q = jinja_seq_new(r, SEQ_TUPLE, 2);
    q->items[0] = a;
    q->items[1] = b;
    return jinja_seq_close(r, q);
}
