// The methods of strings that cut them. Parts share the string's bytes. Pieces are collected first,
// as offsets, because their number is not known.
#include "jinja/split.h"

#include <string.h>

#include "jinja/render.h"
#include "jinja/text.h"

struct pieces {
    size_t *ends; // from, to, from, to, ...
    size_t n, cap;
};

static bool pieces_add(struct render *r, struct pieces *p, size_t from, size_t to) {
    if (p->n == p->cap) {
        const size_t cap = p->cap ? p->cap * 2 : 8;
        size_t *ends = jinja_array(r, cap * 2, sizeof *ends);
        if (!ends) return false;
        if (p->n) memcpy(ends, p->ends, p->n * 2 * sizeof *ends);
        p->ends = ends;
        p->cap = cap;
    }
    p->ends[p->n * 2] = from;
    p->ends[p->n * 2 + 1] = to;
    p->n++;
    return jinja_charge(r, 1);
}

static struct value pieces_list(struct render *r, const struct str *s, const struct pieces *p,
                                bool is_reversed) {
    struct seq *q = jinja_seq_new(r, SEQ_LIST, p->n);
    if (!q) return value_error();
    for (size_t i = 0; i < p->n; i++) {
        const size_t *ends = &p->ends[2 * (is_reversed ? p->n - 1 - i : i)];
        q->items[i] = jinja_substr(r, s, ends[0], ends[1]);
    }
    return jinja_seq_close(r, q);
}

static bool split_by(struct render *r, const struct str *s, const struct str *sep, int64_t max,
                     struct pieces *out) {
    size_t from = 0;
    for (; max != 0; max -= max > 0) {
        const size_t at = jinja_find(r, s, sep, from, s->len);
        if (at == SIZE_MAX) break;
        if (!pieces_add(r, out, from, at)) return false;
        from = at + sep->len;
    }
    return r->status == RN_OK && pieces_add(r, out, from, s->len);
}

static bool rsplit_by(struct render *r, const struct str *s, const struct str *sep, int64_t max,
                      struct pieces *out) {
    size_t to = s->len;
    for (; max != 0; max -= max > 0) {
        const size_t at = jinja_find_last(r, s, sep, 0, to);
        if (at == SIZE_MAX) break;
        if (!pieces_add(r, out, at + sep->len, to)) return false;
        to = at;
    }
    return r->status == RN_OK && pieces_add(r, out, 0, to);
}

static size_t word_end(const struct str *s, size_t at) {
    while (at < s->len && chars_blank_prefix(s->data + at, s->len - at) == 0) {
        at++;
        while (at < s->len && ((uint8_t)s->data[at] & 0xc0) == 0x80) at++;
    }
    return at;
}

// Words between blanks; what is left after the last cut keeps its inner blanks.
static bool split_words(struct render *r, const struct str *s, int64_t max, struct pieces *out) {
    size_t at = chars_blank_prefix(s->data, s->len);
    for (; at < s->len && max != 0; max -= max > 0) {
        const size_t end = word_end(s, at);
        if (!pieces_add(r, out, at, end)) return false;
        at = end + chars_blank_prefix(s->data + end, s->len - end);
    }
    if (at == s->len) return true;
    return pieces_add(r, out, at, s->len);
}

static size_t word_start(const struct str *s, size_t at) {
    size_t start;
    while (at > 0 && !chars_is_blank(chars_before(s->data, at, &start))) at = start;
    return at;
}

static bool rsplit_words(struct render *r, const struct str *s, int64_t max, struct pieces *out) {
    size_t at = s->len - chars_blank_suffix(s->data, s->len);
    for (; at > 0 && max != 0; max -= max > 0) {
        const size_t start = word_start(s, at);
        if (!pieces_add(r, out, start, at)) return false;
        at = start - chars_blank_suffix(s->data, start);
    }
    return at == 0 || pieces_add(r, out, 0, at);
}

static struct value split(struct render *r, struct value self, const struct call *c,
                          bool is_right) {
    const struct str *sep = NULL;
    int64_t max = -1;
    struct pieces pieces = {0};
    if (!jinja_arg_str(r, c, 0, &sep) || !jinja_arg_int(r, c, 1, &max) ||
        !jinja_work_chars(r, self.s->len)) {
        return value_error();
    }
    if (sep && sep->len == 0) return jinja_fail(r, "%s: the separator is empty", c->name);
    bool is_ok;
    if (sep) {
        is_ok = is_right ? rsplit_by(r, self.s, sep, max, &pieces)
                         : split_by(r, self.s, sep, max, &pieces);
    } else {
        is_ok =
            is_right ? rsplit_words(r, self.s, max, &pieces) : split_words(r, self.s, max, &pieces);
    }
    return is_ok ? pieces_list(r, self.s, &pieces, is_right) : value_error();
}

struct value jinja_str_split(struct render *r, struct value self, const struct call *c) {
    return split(r, self, c, false);
}

struct value jinja_str_rsplit(struct render *r, struct value self, const struct call *c) {
    return split(r, self, c, true);
}

struct value jinja_str_splitlines(struct render *r, struct value self, const struct call *c) {
    bool keeps_ends = false;
    struct pieces pieces = {0};
    size_t at = 0, from, to;
    if (!jinja_arg_bool(r, c, 0, &keeps_ends) || !jinja_work_chars(r, self.s->len))
        return value_error();
    while (jinja_text_line(self.s, &at, &from, &to)) {
        if (!pieces_add(r, &pieces, from, keeps_ends ? at : to)) return value_error();
    }
    return pieces_list(r, self.s, &pieces, false);
}

// Before, the separator, after; at == SIZE_MAX: it was not found.
static struct value partition(struct render *r, const struct str *s, size_t at, size_t len,
                              bool is_right) {
    struct seq *q = jinja_seq_new(r, SEQ_TUPLE, 3);
    if (!q) return value_error();
    size_t cut = at, end = at + len;
    if (at == SIZE_MAX) cut = end = is_right ? 0 : s->len;
    q->items[0] = jinja_substr(r, s, 0, cut);
    q->items[1] = jinja_substr(r, s, cut, end);
    q->items[2] = jinja_substr(r, s, end, s->len);
    return jinja_seq_close(r, q);
}

static const struct str *separator(struct render *r, const struct call *c) {
    const struct str *sep = NULL;
    if (!jinja_arg_str(r, c, 0, &sep)) return NULL;
    if (!sep || sep->len == 0) jinja_fail(r, "%s: the separator is empty", c->name);
    return sep && sep->len ? sep : NULL;
}

struct value jinja_str_partition(struct render *r, struct value self, const struct call *c) {
    const struct str *sep = separator(r, c);
    if (!sep) return value_error();
    const size_t at = jinja_find(r, self.s, sep, 0, self.s->len);
    return r->status == RN_OK ? partition(r, self.s, at, sep->len, false) : value_error();
}

struct value jinja_str_rpartition(struct render *r, struct value self, const struct call *c) {
    const struct str *sep = separator(r, c);
    if (!sep) return value_error();
    const size_t at = jinja_find_last(r, self.s, sep, 0, self.s->len);
    return r->status == RN_OK ? partition(r, self.s, at, sep->len, true) : value_error();
}
