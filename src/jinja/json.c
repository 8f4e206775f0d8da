// JSON in and out. Reading keeps the order of keys and borrows strings without escapes from the
// text; of a key that comes twice the last value is used, as in Python. Writing is json.dumps.
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
};

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
        if (!out) return value_error();
        len = jread_unescape(text, out);
        data = out;
    }
    const struct value v = jinja_str_borrow(r, data, len);
    if (!is_error(v) && !(is_name && is_word(v.s))) v.s->marks = in->marks;
    return v;
}

// Integers stay integers; one past 64 bits keeps its digits.
static struct value read_number(struct render *r, struct jread *json) {
    const char *text;
    size_t len;
    int64_t i;
    if (!jread_raw(json, &text, &len)) return value_error();
    if (memchr(text, '.', len) || memchr(text, 'e', len) || memchr(text, 'E', len)) {
        struct jread number;
        double f;
        jread_init(&number, text, len);
        if (!jread_f64(&number, &f)) f = text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
        return value_float(f);
    }
    if (number_parse_int(text, len, &i) == NUMBER_OK) return value_int(i);
    struct value big = jinja_str_borrow(r, text, len);
    if (!is_error(big)) big.kind = V_BIG;
    return big;
}

static struct value read_value(struct render *r, struct reader *in, bool is_name);

static struct value read_array(struct render *r, struct reader *in) {
    size_t n = 0, cap = 8;
    struct seq *q = jinja_seq_new(r, SEQ_LIST, cap);
    if (!q || !jread_enter_array(&in->json)) return value_error();
    while (jread_next_item(&in->json)) {
        if (n == cap) {
            struct value *items = jinja_array(r, cap *= 2, sizeof *items);
            if (!items) return value_error();
            memcpy(items, q->items, n * sizeof *items);
            q->items = items;
        }
        q->items[n] = read_value(r, in, false);
        if (is_error(q->items[n++])) return value_error();
    }
    q->n = n;
    return in->json.error ? value_error() : jinja_seq_close(r, q);
}

static struct value read_object(struct render *r, struct reader *in) {
    struct dict *d = jinja_dict_new(r, 4);
    struct jread_text name;
    if (!d || !jread_enter_object(&in->json)) return value_error();
    while (jread_next_key(&in->json, &name)) {
        const struct value key = read_text(r, in, &name, true);
        if (is_error(key)) return key;
        const bool is_name = str_equals(key.s, "role") || str_equals(key.s, "type");
        const struct value v = read_value(r, in, is_name);
        if (is_error(v) || !jinja_dict_set(r, d, key, v)) return value_error();
    }
    return in->json.error ? value_error() : value_dict(d);
}

static struct value read_value(struct render *r, struct reader *in, bool is_name) {
    if (!jinja_charge(r, 1)) return value_error();
    bool b;
    struct jread_text text;
    switch (jread_peek(&in->json)) {
    case JREAD_NULL:
        return jread_null(&in->json) ? value_none() : value_error();
    case JREAD_BOOL:
        return jread_bool(&in->json, &b) ? value_bool(b) : value_error();
    case JREAD_NUMBER:
        return read_number(r, &in->json);
    case JREAD_STRING:
        return jread_string(&in->json, &text) ? read_text(r, in, &text, is_name) : value_error();
    case JREAD_ARRAY:
        return read_array(r, in);
    case JREAD_OBJECT:
        return read_object(r, in);
    default:
        return value_error();
    }
}

rn_status template_read(struct render *r, const char *what, const char *json, size_t len,
                        uint8_t mark, struct value *out) {
    struct reader in = {0};
    *out = value_error();
    if (mark) {
        uint8_t *marks = jinja_alloc(r, len);
        if (!marks) return r->status;
        memset(marks, mark, len);
        in.marks = marks;
    }
    jread_init(&in.json, json, len);
    const struct value v = read_value(r, &in, false);
    if (r->status != RN_OK) return r->status; // a limit of the render, not of the text
    if (!is_error(v) && jread_finish(&in.json)) {
        *out = v;
        return RN_OK;
    }
    return r->status = err_set(r->err, RN_ERR_ARG, "%s: offset %zu: %s", what, in.json.error_at,
                               in.json.error ? in.json.error : "text after the value");
}

rn_status template_globals(struct render *r, const char *json, size_t len) {
    struct value v;
    const char *what = "the template's variables";
    const rn_status status = template_read(r, what, json, len, 0, &v);
    if (status != RN_OK) return status;
    if (v.kind == V_DICT) {
        r->globals = v.d;
        return RN_OK;
    }
    return r->status = err_set(r->err, RN_ERR_ARG, "%s: offset 0: expected an object", what);
}

// ---------------------------------------------------------------- writing

static bool write_char(struct render *r, uint32_t cp, uint8_t mark) {
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
    return jinja_write_as(r, text, (size_t)n, mark);
}

static bool write_str(struct render *r, const struct str *s, bool is_ascii) {
    if (!jinja_write(r, "\"", 1) || !jinja_work_chars(r, s->len)) return false;
    size_t from = 0, n;
    for (size_t at = 0; at < s->len; at += n) {
        const int32_t cp = unicode_decode((const uint8_t *)s->data + at, s->len - at, &n);
        const bool is_plain = cp >= 0x20 && cp != '"' && cp != '\\' && (!is_ascii || cp < 0x7f);
        if (is_plain) continue;
        if (!jinja_write_str(r, s, from, at)) return false;
        if (!write_char(r, (uint32_t)cp, str_mark(s, at))) return false;
        from = at + n;
    }
    return jinja_write_str(r, s, from, s->len) && jinja_write(r, "\"", 1);
}

static bool write_break(struct render *r, const struct json_style *style, int depth) {
    if (!style->indent) return true;
    if (!jinja_write(r, "\n", 1)) return false;
    for (int i = 0; i < depth; i++) {
        if (!jinja_write_str(r, style->indent, 0, style->indent->len)) return false;
    }
    return true;
}

// Before the i-th member of a container.
static bool write_gap(struct render *r, const struct json_style *style, size_t i, int depth) {
    const struct str *separator = style->item_separator;
    return (i == 0 || jinja_write_str(r, separator, 0, separator->len)) &&
           write_break(r, style, depth + 1);
}

static bool write_json(struct render *r, struct value v, const struct json_style *style, int depth);

static bool write_list(struct render *r, const struct seq *q, const struct json_style *style,
                       int depth) {
    if (q->n == 0) return jinja_write(r, "[]", 2);
    if (!jinja_write(r, "[", 1)) return false;
    for (size_t i = 0; i < q->n; i++) {
        if (!write_gap(r, style, i, depth)) return false;
        if (!write_json(r, q->items[i], style, depth + 1)) return false;
    }
    return write_break(r, style, depth) && jinja_write(r, "]", 1);
}

// Keys that are no strings are written as strings of their JSON text.
static bool write_key(struct render *r, struct value key, const struct json_style *style) {
    if (key.kind == V_STR) return write_str(r, key.s, style->is_ascii);
    if (key.kind < V_NONE || key.kind > V_BIG) {
        jinja_fail(r, "keys of JSON objects cannot be '%s'", jinja_type_name(key));
        return false;
    }
    return jinja_write(r, "\"", 1) && write_json(r, key, style, 0) && jinja_write(r, "\"", 1);
}

// The numbers of the entries in the order of their keys.
static struct value *sorted_entries(struct render *r, const struct dict *d) {
    struct value *keys = jinja_array(r, d->n, sizeof *keys);
    struct value *order = jinja_array(r, d->n, sizeof *order);
    if (!keys || !order) return NULL;
    for (size_t i = 0; i < d->n; i++) {
        keys[i] = d->entries[i].key;
        order[i] = value_int((int64_t)i);
    }
    return jinja_sort(r, order, keys, d->n, false) ? order : NULL;
}

static bool write_dict(struct render *r, const struct dict *d, const struct json_style *style,
                       int depth) {
    if (d->n == 0) return jinja_write(r, "{}", 2);
    const struct value *order = style->is_sorted ? sorted_entries(r, d) : NULL;
    if ((style->is_sorted && !order) || !jinja_write(r, "{", 1)) return false;
    for (size_t i = 0; i < d->n; i++) {
        const struct dict_entry *entry = &d->entries[order ? (size_t)order[i].i : i];
        if (!write_gap(r, style, i, depth) || !write_key(r, entry->key, style) ||
            !jinja_write_str(r, style->key_separator, 0, style->key_separator->len) ||
            !write_json(r, entry->value, style, depth + 1)) {
            return false;
        }
    }
    return write_break(r, style, depth) && jinja_write(r, "}", 1);
}

static bool write_json(struct render *r, struct value v, const struct json_style *style,
                       int depth) {
    if (!jinja_charge(r, 1)) return false;
    switch (v.kind) {
    case V_NONE:
        return jinja_write_text(r, "null");
    case V_BOOL:
        return jinja_write_text(r, v.b ? "true" : "false");
    case V_FLOAT:
        if (isnan(v.f)) return jinja_write_text(r, "NaN");
        if (isinf(v.f)) return jinja_write_text(r, v.f < 0 ? "-Infinity" : "Infinity");
        return jinja_print(r, v);
    case V_INT:
    case V_BIG:
        return jinja_print(r, v);
    case V_STR:
        return write_str(r, v.s, style->is_ascii);
    case V_DICT:
        return write_dict(r, v.d, style, depth);
    case V_SEQ:
        if (v.q->flavor <= SEQ_TUPLE) return write_list(r, v.q, style, depth);
        break;
    default:
        break;
    }
    jinja_fail(r, "a value of type '%s' cannot be written as JSON", jinja_type_name(v));
    return false;
}

bool jinja_print_json(struct render *r, struct value v, const struct json_style *style) {
    return write_json(r, v, style, 0);
}
