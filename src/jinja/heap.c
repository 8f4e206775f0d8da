// New strings and sequences. Strings share the bytes they are cut from; concatenation grows in
// place where it can. A sequence is filled by its maker and then closed, which bounds its depth.
#include <string.h>

#include "jinja/render.h"

struct value jinja_str_borrow(struct render *r, const char *data, size_t len) {
    struct str *s = jinja_alloc(r, sizeof *s);
    if (!s) return value_error();
    s->data = data;
    s->len = len;
    s->n_chars = len ? SIZE_MAX : 0;
    return value_str(s);
}

struct value jinja_str(struct render *r, const char *data, size_t len) {
    char *copy = jinja_alloc(r, len);
    if (!copy) return value_error();
    if (len) memcpy(copy, data, len);
    return jinja_str_borrow(r, copy, len);
}

struct value jinja_str_literal(struct render *r, const char *text) {
    return jinja_str_borrow(r, text, strlen(text));
}

struct value jinja_substr(struct render *r, const struct str *s, size_t from, size_t to) {
    const struct value v = jinja_str_borrow(r, s->data + from, to - from);
    if (is_error(v)) return v;
    if (s->n_chars == s->len) v.s->n_chars = v.s->len;
    if (s->marks) v.s->marks = s->marks + from;
    return v;
}

// The marks of `len` bytes, to `to`.
static void marks_put(uint8_t *to, const uint8_t *marks, size_t len) {
    if (len == 0) return;
    if (marks)
        memcpy(to, marks, len);
    else
        memset(to, 0, len);
}

// The second concatenation onto the same text reserves as much again, the first nothing: most
// strings are made once.
static struct value concat_copy(struct render *r, const struct str *left, const char *data,
                                size_t len, const uint8_t *marks) {
    const size_t total = left->len + len; // both are in memory, so the sum does not overflow
    const size_t cap = left->tail ? total * 2 : total;
    const bool is_marked = left->marks || marks;
    char *copy = jinja_alloc(r, cap);
    uint8_t *copy_marks = is_marked ? jinja_alloc(r, cap) : NULL;
    struct str_tail *tail = jinja_alloc(r, sizeof *tail);
    if (!copy || !tail || (is_marked && !copy_marks)) return value_error();
    if (left->len) memcpy(copy, left->data, left->len);
    if (len) memcpy(copy + left->len, data, len);
    if (is_marked) {
        marks_put(copy_marks, left->marks, left->len);
        marks_put(copy_marks + left->len, marks, len);
    }
    *tail = (struct str_tail){copy + total, copy + cap, copy_marks};
    const struct value v = jinja_str_borrow(r, copy, total);
    if (is_error(v)) return v;
    v.s->tail = tail;
    v.s->marks = copy_marks;
    return v;
}

struct value jinja_concat(struct render *r, const struct str *left, const char *data, size_t len,
                          const uint8_t *marks) {
    struct str_tail *tail = left->tail;
    const bool grows = tail && left->data + left->len == tail->end &&
                       (size_t)(tail->limit - tail->end) >= len && (tail->marks || !marks);
    if (!grows) return concat_copy(r, left, data, len, marks);
    if (!jinja_work(r, len)) return value_error();
    if (len) memcpy(tail->end, data, len);
    if (tail->marks) marks_put(tail->marks + left->len, marks, len);
    tail->end += len;
    const struct value v = jinja_str_borrow(r, left->data, left->len + len);
    if (is_error(v)) return v;
    v.s->tail = tail;
    v.s->marks = tail->marks;
    return v;
}

struct value jinja_undefined(struct render *r, const char *hint) {
    struct value v = jinja_str_literal(r, hint);
    if (is_error(v)) return v;
    v.kind = V_UNDEFINED;
    v.flag = UNDEFINED_HINT;
    return v;
}

struct seq *jinja_seq_new(struct render *r, enum seq_flavor flavor, size_t n) {
    struct seq *q = jinja_alloc(r, sizeof *q);
    if (!q) return NULL;
    q->items = jinja_array(r, n, sizeof *q->items);
    if (!q->items) return NULL;
    q->n = n;
    q->flavor = (uint8_t)flavor;
    q->depth = 1;
    return q;
}

static int depth_of(struct value v) {
    if (v.kind == V_SEQ) return v.q->depth;
    return v.kind == V_DICT ? v.d->depth : 0;
}

struct value jinja_seq_close(struct render *r, struct seq *q) {
    int depth = 0;
    for (size_t i = 0; i < q->n; i++) {
        if (is_error(q->items[i])) return value_error();
        const int inner = depth_of(q->items[i]);
        depth = inner > depth ? inner : depth;
    }
    if (depth >= TEMPLATE_MAX_DEPTH) {
        return jinja_fail(r, "values are nested deeper than %d", TEMPLATE_MAX_DEPTH);
    }
    q->depth = (uint8_t)(depth + 1);
    return value_seq(q);
}

struct value jinja_pair(struct render *r, struct value a, struct value b) {
    struct seq *q = jinja_seq_new(r, SEQ_TUPLE, 2);
    if (!q) return value_error();
    q->items[0] = a;
    q->items[1] = b;
    return jinja_seq_close(r, q);
}
