// Filters on text.
#define _GNU_SOURCE // memrchr
#include <string.h>

#include "jinja/escape.h"
#include "jinja/filters.h"
#include "jinja/text.h"
#include "unicode/unicode.h"

static struct value case_filter(struct render *r, struct value self, enum text_case to) {
    const struct value s = jinja_to_str(r, self);
    if (is_error(s)) return s;
    struct value v = jinja_text_case(r, s.s, to);
    v.flag = s.flag;
    return v;
}

struct value jinja_filter_upper(struct render *r, struct value self, const struct call *c) {
    (void)c;
    return case_filter(r, self, TEXT_UPPER);
}

struct value jinja_filter_lower(struct render *r, struct value self, const struct call *c) {
    (void)c;
    return case_filter(r, self, TEXT_LOWER);
}

struct value jinja_filter_capitalize(struct render *r, struct value self, const struct call *c) {
    (void)c;
    return case_filter(r, self, TEXT_CAPITALIZE);
}

// Words begin behind blanks, '-' and opening brackets; not behind apostrophes, as str.title has it.
struct value jinja_filter_title(struct render *r, struct value self, const struct call *c) {
    (void)c;
    const struct value s = jinja_to_str(r, self);
    if (is_error(s) || !jinja_work_chars(r, s.s->len)) return value_error();
    const size_t mark = r->out_len;
    bool at_start = true;
    size_t n;
    for (size_t at = 0; at < s.s->len; at += n) {
        const char *text = s.s->data + at;
        const int32_t cp = unicode_decode((const uint8_t *)text, s.s->len - at, &n);
        uint32_t mapped[3];
        const size_t count = chars_map(at_start ? CHARS_UPPER : CHARS_LOWER, cp, mapped);
        for (size_t i = 0; i < count; i++) {
            if (!jinja_write_char(r, mapped[i])) return value_error();
        }
        at_start = chars_is_blank(cp) || (cp < 0x80 && cp && strchr("-({[<", cp));
    }
    return jinja_take(r, mark);
}

struct value jinja_filter_string(struct render *r, struct value self, const struct call *c) {
    (void)c;
    return jinja_to_str(r, self);
}

struct value jinja_filter_safe(struct render *r, struct value self, const struct call *c) {
    (void)c;
    struct value v = jinja_to_str(r, self);
    if (v.kind == V_STR) v.flag = 1;
    return v;
}

struct value jinja_filter_forceescape(struct render *r, struct value self, const struct call *c) {
    (void)c;
    const struct value s = jinja_to_str(r, self);
    const size_t mark = r->out_len;
    if (is_error(s) || !jinja_write_escaped(r, s.s->data, s.s->len)) return value_error();
    struct value v = jinja_take(r, mark);
    v.flag = 1;
    return v;
}

struct value jinja_filter_escape(struct render *r, struct value self, const struct call *c) {
    if (self.kind == V_STR && self.flag) return self;
    return jinja_filter_forceescape(r, self, c);
}

struct value jinja_filter_trim(struct render *r, struct value self, const struct call *c) {
    const struct str *chars = NULL;
    const struct value s = jinja_to_str(r, self);
    if (is_error(s) || !jinja_arg_str(r, c, 0, &chars)) return value_error();
    struct value v = jinja_text_strip(r, s.s, chars, TEXT_LEFT | TEXT_RIGHT);
    v.flag = s.flag;
    return v;
}

struct value jinja_filter_replace(struct render *r, struct value self, const struct call *c) {
    const struct value s = jinja_to_str(r, self), from = jinja_to_str(r, c->arg[0]);
    const struct value to = jinja_to_str(r, c->arg[1]);
    int64_t count = -1;
    if (is_error(s) || is_error(from) || is_error(to) || !jinja_arg_int(r, c, 2, &count)) {
        return value_error();
    }
    return jinja_text_replace(r, s.s, from.s, to.s, count);
}

struct value jinja_filter_join(struct render *r, struct value self, const struct call *c) {
    const struct value d =
        is_missing(c->arg[0]) ? jinja_str_literal(r, "") : jinja_to_str(r, c->arg[0]);
    return is_error(d) ? d : jinja_text_join(r, d.s, self, c->arg[1]);
}

struct value jinja_filter_center(struct render *r, struct value self, const struct call *c) {
    const struct value s = jinja_to_str(r, self);
    int64_t width = 80;
    if (is_error(s) || !jinja_arg_int(r, c, 0, &width)) return value_error();
    return jinja_text_pad(r, s.s, width, ' ', '^');
}

struct value jinja_filter_format(struct render *r, struct value self, const struct call *c) {
    const struct value s = jinja_to_str(r, self);
    if (is_error(s)) return s;
    const struct args *args = c->raw;
    if (args->n_pos && args->n_named) {
        return jinja_fail(r, "format takes arguments by position or by name, not both");
    }
    if (args->n_named) {
        struct dict *d = jinja_dict_new(r, args->n_named);
        for (size_t i = 0; d && i < args->n_named; i++) {
            const struct value key = value_str((struct str *)args->named[i].name);
            if (!jinja_dict_set(r, d, key, args->named[i].value)) return value_error();
        }
        return d ? jinja_percent(r, s.s, value_dict(d)) : value_error();
    }
    struct seq *q = jinja_seq_new(r, SEQ_TUPLE, args->n_pos);
    if (!q) return value_error();
    for (size_t i = 0; i < q->n; i++) q->items[i] = args->pos[i];
    const struct value tuple = jinja_seq_close(r, q);
    return is_error(tuple) ? tuple : jinja_percent(r, s.s, tuple);
}

// The indention as text: a number of blanks, or a string.
static struct value indention(struct render *r, const struct call *c, int i, int64_t width) {
    if (c->arg[i].kind == V_STR) return c->arg[i];
    if (!jinja_arg_int(r, c, i, &width)) return value_error();
    const struct str empty = {"", 0, 0, NULL};
    return jinja_text_pad(r, &empty, width, ' ', '<');
}

struct value jinja_filter_indent(struct render *r, struct value self, const struct call *c) {
    bool first = false, blank = false;
    const struct value width = indention(r, c, 0, 4);
    if (is_error(width) || !jinja_arg_bool(r, c, 1, &first) || !jinja_arg_bool(r, c, 2, &blank)) {
        return value_error();
    }
    if (self.kind == V_UNDEFINED) return jinja_fail_undefined(r, self);
    if (self.kind != V_STR) return jinja_fail(r, "indent needs a string");
    if (!jinja_work_chars(r, self.s->len)) return value_error();
    // Lines are those of the text with a newline added: one at its end starts an empty line.
    const size_t mark = r->out_len, len = self.s->len;
    size_t at = 0, from = 0, to = 0;
    bool is_first = true, ends_open = true;
    while (jinja_text_line(self.s, &at, &from, &to)) {
        const bool is_indented = is_first ? first : blank || to > from;
        if ((!is_first && !jinja_write(r, "\n", 1)) ||
            (is_indented && !jinja_write(r, width.s->data, width.s->len)) ||
            !jinja_write(r, self.s->data + from, to - from) || !jinja_charge(r, 1)) {
            return value_error();
        }
        is_first = false;
        ends_open = to == len || (to + 1 == len && self.s->data[to] == '\r'); // joins the newline
    }
    if (len == 0 && first && !jinja_write(r, width.s->data, width.s->len)) return value_error();
    if (!ends_open &&
        (!jinja_write(r, "\n", 1) || (blank && !jinja_write(r, width.s->data, width.s->len)))) {
        return value_error();
    }
    struct value v = jinja_take(r, mark);
    v.flag = self.flag;
    return v;
}

struct value jinja_filter_truncate(struct render *r, struct value self, const struct call *c) {
    static const struct str dots = {"...", 3, 3, NULL};
    int64_t length = 255, leeway = 5;
    bool killwords = false;
    const struct str *end = &dots;
    if (!jinja_arg_int(r, c, 0, &length) || !jinja_arg_bool(r, c, 1, &killwords) ||
        !jinja_arg_str(r, c, 2, &end) || !jinja_arg_int(r, c, 3, &leeway)) {
        return value_error();
    }
    struct str tail = *end;
    const int64_t n_end = (int64_t)jinja_n_chars(&tail);
    if (length < n_end || leeway < 0) return jinja_fail(r, "truncate: the length is too small");
    const int64_t n = jinja_length(r, self);
    if (n < 0) return jinja_fail(r, "'%s' object has no length", jinja_type_name(self));
    if (n <= length || n - length <= leeway) return self;
    if (self.kind != V_STR) return jinja_fail(r, "truncate needs a string");
    size_t to = jinja_char_offset(self.s, (size_t)(length - n_end));
    if (!killwords) {
        const char *blank = to ? memrchr(self.s->data, ' ', to) : NULL;
        if (blank) to = (size_t)(blank - self.s->data);
    }
    const struct value kept = jinja_substr(r, self.s, 0, to);
    return is_error(kept) ? kept : jinja_concat(r, kept.s, end->data, end->len);
}

struct value jinja_filter_wordcount(struct render *r, struct value self, const struct call *c) {
    (void)c;
    const struct value s = jinja_to_str(r, self);
    if (is_error(s) || !jinja_work_chars(r, s.s->len)) return value_error();
    int64_t count = 0;
    bool in_word = false;
    size_t n;
    for (size_t at = 0; at < s.s->len; at += n) {
        const uint8_t *text = (const uint8_t *)s.s->data + at;
        const bool is_word = chars_is_word(unicode_decode(text, s.s->len - at, &n));
        count += is_word && !in_word;
        in_word = is_word;
    }
    return value_int(count);
}

// --- URLs ---

static bool url_write(struct render *r, struct value v, bool is_query) {
    static const char hex[] = "0123456789ABCDEF";
    const struct value s = jinja_to_str(r, v);
    if (is_error(s) || !jinja_work_chars(r, s.s->len)) return false;
    for (size_t i = 0; i < s.s->len; i++) {
        const char ch = s.s->data[i];
        const uint8_t byte = (uint8_t)ch;
        const bool is_plain =
            chars_digit(ch) < 36 || (ch && strchr("_.-~", ch)) || (ch == '/' && !is_query);
        const char escaped[3] = {'%', hex[byte >> 4], hex[byte & 15]};
        const bool is_ok = is_plain                  ? jinja_write(r, &ch, 1)
                           : is_query && byte == ' ' ? jinja_write(r, "+", 1)
                                                     : jinja_write(r, escaped, 3);
        if (!is_ok) return false;
    }
    return true;
}

static bool url_write_pair(struct render *r, struct value key, struct value v, bool is_first) {
    return (is_first || jinja_write(r, "&", 1)) && url_write(r, key, true) &&
           jinja_write(r, "=", 1) && url_write(r, v, true);
}

struct value jinja_filter_urlencode(struct render *r, struct value self, const struct call *c) {
    (void)c;
    const size_t mark = r->out_len;
    if (self.kind == V_DICT) {
        for (size_t i = 0; i < self.d->n; i++) {
            const struct dict_entry *entry = &self.d->entries[i];
            if (!url_write_pair(r, entry->key, entry->value, i == 0)) return value_error();
        }
        return jinja_take(r, mark);
    }
    if (self.kind != V_SEQ) return url_write(r, self, false) ? jinja_take(r, mark) : value_error();
    const struct seq *q = jinja_iterate(r, self);
    for (size_t i = 0; q && i < q->n; i++) {
        const struct seq *pair = jinja_iterate(r, q->items[i]);
        if (!pair) return value_error();
        if (pair->n != 2) return jinja_fail(r, "urlencode needs pairs of keys and values");
        if (!url_write_pair(r, pair->items[0], pair->items[1], i == 0)) return value_error();
    }
    return q ? jinja_take(r, mark) : value_error();
}

// --- tags ---

// Where the markup that begins at `at` ends: a comment, or a tag; SIZE_MAX when it does not.
static size_t tag_end(struct render *r, const struct str *s, size_t at) {
    static const struct str close = {">", 1, 1, NULL}, comment = {"-->", 3, 3, NULL};
    const bool is_comment = s->len - at >= 4 && memcmp(s->data + at, "<!--", 4) == 0;
    const size_t end = is_comment ? jinja_find(r, s, &comment, at + 4, s->len)
                                  : jinja_find(r, s, &close, at, s->len);
    if (end == SIZE_MAX) return end;
    return end + (is_comment ? 3 : 1);
}

// The five entities that escape writes; others stay.
static bool entity_write(struct render *r, const struct str *s, size_t *at) {
    static const struct {
        const char *name;
        char c;
    } entities[] = {{"&amp;", '&'},  {"&lt;", '<'},  {"&gt;", '>'},
                    {"&#39;", '\''}, {"&#34;", '"'}, {"&quot;", '"'}};
    for (size_t i = 0; i < sizeof entities / sizeof entities[0]; i++) {
        const size_t n = strlen(entities[i].name);
        if (s->len - *at < n || memcmp(s->data + *at, entities[i].name, n) != 0) continue;
        *at += n;
        return jinja_write(r, &entities[i].c, 1);
    }
    return jinja_write(r, s->data + (*at)++, 1);
}

// Text between tags; every run of blanks becomes one, none at the ends.
struct value jinja_filter_striptags(struct render *r, struct value self, const struct call *c) {
    (void)c;
    const struct value text = jinja_to_str(r, self);
    if (is_error(text) || !jinja_work_chars(r, text.s->len)) return value_error();
    const struct str *s = text.s;
    const size_t mark = r->out_len;
    bool has_gap = false, can_end = true; // an unclosed '<' is text, and so are all after it
    size_t n;
    for (size_t at = 0; at < s->len;) {
        const int32_t cp = unicode_decode((const uint8_t *)s->data + at, s->len - at, &n);
        const size_t end = cp == '<' && can_end ? tag_end(r, s, at) : SIZE_MAX;
        if (r->status != RN_OK) return value_error();
        if (end != SIZE_MAX) {
            at = end;
            continue;
        }
        if (cp == '<') can_end = false;
        if (chars_is_blank(cp)) {
            has_gap = r->out_len > mark;
            at += n;
            continue;
        }
        if (has_gap && !jinja_write(r, " ", 1)) return value_error();
        has_gap = false;
        if (cp == '&') {
            if (!entity_write(r, s, &at)) return value_error();
        } else {
            if (!jinja_write(r, s->data + at, n)) return value_error();
            at += n;
        }
    }
    return jinja_take(r, mark);
}

// --- JSON ---

// "separators", a pair of strings.
static bool separators_read(struct render *r, struct value v, struct json_style *style) {
    if (is_absent(v)) return true;
    const bool is_pair = v.kind == V_SEQ && v.q->n == 2 && v.q->items[0].kind == V_STR &&
                         v.q->items[1].kind == V_STR;
    if (!is_pair) {
        jinja_fail(r, "tojson: separators are a pair of strings");
        return false;
    }
    style->item_separator = v.q->items[0].s->data;
    style->item_separator_len = v.q->items[0].s->len;
    style->key_separator = v.q->items[1].s->data;
    style->key_separator_len = v.q->items[1].s->len;
    return true;
}

// As transformers defines it: json.dumps without escapes for HTML.
struct value jinja_filter_tojson(struct render *r, struct value self, const struct call *c) {
    struct json_style style = {.item_separator = ", ",
                               .item_separator_len = 2,
                               .key_separator = ": ",
                               .key_separator_len = 2};
    if (!jinja_arg_bool(r, c, 0, &style.is_ascii) || !jinja_arg_bool(r, c, 3, &style.is_sorted)) {
        return value_error();
    }
    if (!is_absent(c->arg[1])) {
        const struct value indent = indention(r, c, 1, 0);
        if (is_error(indent)) return indent;
        style.indent = indent.s->data;
        style.indent_len = indent.s->len;
        style.item_separator_len = 1;
    }
    if (!separators_read(r, c->arg[2], &style)) return value_error();
    const size_t mark = r->out_len;
    return jinja_print_json(r, self, &style) ? jinja_take(r, mark) : value_error();
}
