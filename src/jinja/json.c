// JSON in and out. Reading keeps the order of keys and borrows strings without escapes from the
// text; if a key comes twice, its last value is used, as in Python. Writing is json.dumps.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/jread.h"
#include "jinja/number.h"
#include "jinja/render.h"
#include "jinja/text.h"
#include "unicode/unicode.h"

// ---------------------------------------------------------------- reading

struct reader {
    struct jread json;
    const uint8_t *marks; // as many as the text has bytes; NULL: none
    const char *what;     // names the text in errors
};

static _Noreturn void read_fail(struct render *r, const struct reader *in) {
    r->status = err_set(r->err, RN_ERR_ARG, "%s: offset %zu: %s", in->what, in->json.error_at,
                        in->json.error ? in->json.error : "expected an object");
    longjmp(r->failed, 1);
}

static bool is_word(const struct str *s) {
    static const char others[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    for (size_t i = 0; i < s->len; i++) {
        if (!s->data[i] || !strchr(others, s->data[i])) return false;
    }
    return true;
}

// is_name: a key, a role or a type. Templates make markup of them ("<|" + role + "|>"), so a plain
// word stays unmarked.
static struct value read_text(struct render *r, const struct reader *in,
                              const struct jread_text *text, bool is_name) {
    const char *data = text->data;
    size_t len = text->len;
    if (text->has_escape) {
        char *out = jinja_alloc(r, len);
        len = jread_unescape(text, out);
        data = out;
    }
    const struct value v = jinja_str_borrow(r, data, len);
    if (!is_name || !is_word(v.s)) v.s->marks = in->marks;
    return v;
}

// Integers stay integers; one past 64 bits keeps its digits.
static struct value read_number(struct render *r, struct reader *in) {
    const char *text;
    size_t len;
    int64_t i;
    if (!jread_raw(&in->json, &text, &len)) read_fail(r, in);
    if (memchr(text, '.', len) || memchr(text, 'e', len) || memchr(text, 'E', len)) {
        struct jread number;
        double f;
        jread_init(&number, text, len);
        if (!jread_f64(&number, &f)) f = text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
        return value_float(f);
    }
    if (number_parse_int(text, len, &i) == NUMBER_OK) return value_int(i);
    struct value big = jinja_str_borrow(r, text, len);
    big.kind = V_BIG;
    return big;
}

static struct value read_value(struct render *r, struct reader *in, bool is_name);

static struct value read_array(struct render *r, struct reader *in) {
    size_t n = 0, cap = 8;
    struct seq *q = jinja_seq_new(r, SEQ_LIST, cap);
    for (jread_enter_array(&in->json); jread_next_item(&in->json);) {
        if (n == cap) q->items = jinja_array_grow(r, q->items, n, &cap, sizeof *q->items);
        q->items[n++] = read_value(r, in, false);
    }
    if (in->json.error) read_fail(r, in);
    q->n = n;
    return jinja_seq_close(r, q);
}

static struct value read_object(struct render *r, struct reader *in) {
    struct dict *d = jinja_dict_new(r, 4);
    struct jread_text name;
    for (jread_enter_object(&in->json); jread_next_key(&in->json, &name);) {
        const struct value key = read_text(r, in, &name, true);
        const bool is_name = str_equals(key.s, "role") || str_equals(key.s, "type");
        jinja_dict_set(r, d, key, read_value(r, in, is_name));
    }
    if (in->json.error) read_fail(r, in);
    return value_dict(d);
}

static struct value read_value(struct render *r, struct reader *in, bool is_name) {
    bool b = false;
    struct jread_text text;
    jinja_charge(r, 1);
    switch (jread_peek(&in->json)) {
    case JREAD_NULL:
        if (!jread_null(&in->json)) read_fail(r, in);
        return value_none();
    case JREAD_BOOL:
        if (!jread_bool(&in->json, &b)) read_fail(r, in);
        return value_bool(b);
    case JREAD_NUMBER:
        return read_number(r, in);
    case JREAD_STRING:
        if (!jread_string(&in->json, &text)) read_fail(r, in);
        return read_text(r, in, &text, is_name);
    case JREAD_ARRAY:
        return read_array(r, in);
    case JREAD_OBJECT:
        return read_object(r, in);
    default:
        read_fail(r, in);
    }
}

struct value jinja_read_json(struct render *r, const char *what, const char *json, size_t len,
                             uint8_t mark) {
    struct reader in = {.what = what};
    if (mark) {
        uint8_t *marks = jinja_alloc(r, len);
        memset(marks, mark, len);
        in.marks = marks;
    }
    jread_init(&in.json, json, len);
    const struct value v = read_value(r, &in, false);
    if (!jread_finish(&in.json)) read_fail(r, &in);
    return v;
}

// ---------------------------------------------------------------- writing

static void write_char(struct render *r, uint32_t cp, uint8_t mark) {
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    const char *simple = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;
    char text[16];
    int n;
    if (simple) {
        n = snprintf(text, sizeof text, "\\%c", to[simple - from]);
    } else if (cp < 0x10000) {
        n = snprintf(text, sizeof text, "\\u%04x", cp);
    } else {
        n = snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
                     0xdc00 + (cp & 0x3ff));
    }
    jinja_write_as(r, text, (size_t)n, mark);
}

static void write_str(struct render *r, const struct str *s, bool is_ascii) {
    size_t from = 0, n;
    jinja_write(r, "\"", 1);
    jinja_work_chars(r, s->len);
    for (size_t at = 0; at < s->len; at += n) {
        const int32_t cp = unicode_decode((const uint8_t *)s->data + at, s->len - at, &n);
        const bool is_plain = cp >= 0x20 && cp != '"' && cp != '\\' && (!is_ascii || cp < 0x7f);
        if (is_plain) continue;
        jinja_write_str(r, s, from, at);
        write_char(r, (uint32_t)cp, str_mark(s, at));
        from = at + n;
    }
    jinja_write_str(r, s, from, s->len);
    jinja_write(r, "\"", 1);
}

static void write_break(struct render *r, const struct json_style *style, int depth) {
    if (!style->indent) return;
    jinja_write(r, "\n", 1);
    for (int i = 0; i < depth; i++) jinja_write_str(r, style->indent, 0, style->indent->len);
}

// Before the i-th member of a container.
static void write_gap(struct render *r, const struct json_style *style, size_t i, int depth) {
    if (i) jinja_write_str(r, style->item_separator, 0, style->item_separator->len);
    write_break(r, style, depth + 1);
}

static void write_json(struct render *r, struct value v, const struct json_style *style, int depth);

static void write_list(struct render *r, const struct seq *q, const struct json_style *style,
                       int depth) {
    jinja_write(r, "[", 1);
    for (size_t i = 0; i < q->n; i++) {
        write_gap(r, style, i, depth);
        write_json(r, q->items[i], style, depth + 1);
    }
    if (q->n) write_break(r, style, depth);
    jinja_write(r, "]", 1);
}

// Keys that are no strings are written as strings of their JSON text.
static void write_key(struct render *r, struct value key, const struct json_style *style) {
    if (key.kind < V_NONE || key.kind > V_STR) {
        jinja_fail(r, "keys of JSON objects cannot be '%s'", jinja_type_name(key));
    }
    if (key.kind != V_STR) jinja_write(r, "\"", 1);
    write_json(r, key, style, 0);
    if (key.kind != V_STR) jinja_write(r, "\"", 1);
}

static void write_dict(struct render *r, const struct dict *d, const struct json_style *style,
                       int depth) {
    jinja_write(r, "{", 1);
    for (size_t i = 0; i < d->n; i++) {
        write_gap(r, style, i, depth);
        write_key(r, d->entries[i].key, style);
        jinja_write_str(r, style->key_separator, 0, style->key_separator->len);
        write_json(r, d->entries[i].value, style, depth + 1);
    }
    if (d->n) write_break(r, style, depth);
    jinja_write(r, "}", 1);
}

static void write_json(struct render *r, struct value v, const struct json_style *style,
                       int depth) {
    jinja_charge(r, 1);
    if (v.kind == V_NONE) {
        jinja_write_text(r, "null");
    } else if (v.kind == V_BOOL) {
        jinja_write_text(r, v.b ? "true" : "false");
    } else if (v.kind == V_FLOAT && !isfinite(v.f)) {
        jinja_write_text(r, isnan(v.f) ? "NaN" : v.f < 0 ? "-Infinity" : "Infinity");
    } else if (v.kind == V_INT || v.kind == V_FLOAT || v.kind == V_BIG) {
        jinja_print(r, v);
    } else if (v.kind == V_STR) {
        write_str(r, v.s, style->is_ascii);
    } else if (v.kind == V_DICT) {
        write_dict(r, v.d, style, depth);
    } else if (v.kind == V_SEQ && v.q->flavor <= SEQ_TUPLE) {
        write_list(r, v.q, style, depth);
    } else {
        jinja_fail(r, "a value of type '%s' cannot be written as JSON", jinja_type_name(v));
    }
}

void jinja_print_json(struct render *r, struct value v, const struct json_style *style) {
    write_json(r, v, style, 0);
}
