// JSON in and out. Reading keeps the order of keys and borrows strings without escapes from the
// text; of a key that comes twice the last value counts, as in Python. Writing is json.dumps.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/jread.h"
#include "jinja/number.h"
#include "jinja/render.h"
#include "unicode/unicode.h"

// --- reading ---

static struct value read_value(struct render *r, struct jread *reader);

static struct value read_text(struct render *r, const struct jread_text *text) {
    if (!text->has_escape) return jinja_str_borrow(r, text->data, text->len);
    char *out = jinja_alloc(r, text->len);
    return out ? jinja_str_borrow(r, out, jread_unescape(text, out)) : value_error();
}

// Integers stay integers; one past 64 bits keeps its digits.
static struct value read_number(struct render *r, struct jread *reader) {
    const char *text;
    size_t len;
    if (!jread_raw(reader, &text, &len)) return value_error();
    bool is_float = false;
    for (size_t i = 0; i < len; i++) {
        is_float = is_float || text[i] == '.' || (text[i] | 0x20) == 'e';
    }
    if (is_float) {
        struct jread number;
        double f;
        jread_init(&number, text, len);
        if (!jread_f64(&number, &f)) f = text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
        return value_float(f);
    }
    int64_t i;
    if (number_parse_int(text, len, 10, &i) == NUMBER_OK) return value_int(i);
    struct value big = jinja_str_borrow(r, text, len);
    if (!is_error(big)) big.kind = V_BIG;
    return big;
}

// Items while their number is not known.
struct item_list {
    struct value *items;
    size_t n, cap;
};

static bool items_add(struct render *r, struct item_list *list, struct value v) {
    if (list->n == list->cap) {
        const size_t cap = list->cap ? list->cap * 2 : 8;
        struct value *items = jinja_array(r, cap, sizeof *items);
        if (!items) return false;
        if (list->n) memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->cap = cap;
    }
    list->items[list->n++] = v;
    return true;
}

static struct value read_array(struct render *r, struct jread *reader) {
    struct item_list list = {0};
    if (!jread_enter_array(reader)) return value_error();
    while (jread_next_item(reader)) {
        const struct value v = read_value(r, reader);
        if (is_error(v) || !items_add(r, &list, v)) return value_error();
    }
    struct seq *q = jinja_seq_new(r, SEQ_LIST, 0);
    if (!q || reader->error) return value_error();
    if (list.n) q->items = list.items;
    q->n = list.n;
    return jinja_seq_close(r, q);
}

static struct value read_object(struct render *r, struct jread *reader) {
    struct dict *d = jinja_dict_new(r, 4);
    struct jread_text name;
    if (!d || !jread_enter_object(reader)) return value_error();
    while (jread_next_key(reader, &name)) {
        const struct value key = read_text(r, &name);
        if (is_error(key)) return key;
        const struct value v = read_value(r, reader);
        if (is_error(v) || !jinja_dict_set(r, d, key, v)) return value_error();
    }
    return reader->error ? value_error() : value_dict(d);
}

static struct value read_value(struct render *r, struct jread *reader) {
    if (!jinja_charge(r, 1)) return value_error();
    bool b;
    struct jread_text text;
    switch (jread_peek(reader)) {
    case JREAD_NULL:
        return jread_null(reader) ? value_none() : value_error();
    case JREAD_BOOL:
        return jread_bool(reader, &b) ? value_bool(b) : value_error();
    case JREAD_NUMBER:
        return read_number(r, reader);
    case JREAD_STRING:
        return jread_string(reader, &text) ? read_text(r, &text) : value_error();
    case JREAD_ARRAY:
        return read_array(r, reader);
    case JREAD_OBJECT:
        return read_object(r, reader);
    default:
        return value_error();
    }
}

bool jinja_read_globals(struct render *r, const char *text, size_t len) {
    if (!text) {
        r->globals = jinja_dict_new(r, 0);
        return r->globals != NULL;
    }
    struct jread reader;
    jread_init(&reader, text, len);
    if (jread_peek(&reader) != JREAD_OBJECT) {
        if (!reader.error) jread_fail(&reader, "expected an object");
    } else {
        const struct value v = read_value(r, &reader);
        if (!is_error(v)) r->globals = v.d;
        if (!is_error(v) && jread_finish(&reader)) return true;
    }
    if (r->status != RN_OK) return false; // a limit of the render, not of the text
    r->status = err_set(r->err, RN_ERR_ARG, "the template's variables: offset %zu: %s",
                        reader.error_at, reader.error ? reader.error : "text after the object");
    return false;
}

// --- writing ---

static bool write_unicode_escape(struct render *r, uint32_t cp) {
    char text[16];
    int n;
    if (cp < 0x10000) {
        n = snprintf(text, sizeof text, "\\u%04x", cp);
    } else {
        cp -= 0x10000;
        n = snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + (cp >> 10),
                     0xdc00 + (cp & 0x3ff));
    }
    return jinja_write(r, text, (size_t)n);
}

static bool write_json_char(struct render *r, int32_t cp) {
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    const char *simple = cp && cp < 0x80 ? strchr(from, cp) : NULL;
    if (!simple) return write_unicode_escape(r, (uint32_t)cp);
    const char escaped[2] = {'\\', to[simple - from]};
    return jinja_write(r, escaped, 2);
}

static bool write_json_str(struct render *r, const struct str *s, bool is_ascii) {
    if (!jinja_write(r, "\"", 1) || !jinja_work_chars(r, s->len)) return false;
    size_t from = 0, n;
    for (size_t at = 0; at < s->len; at += n) {
        const int32_t cp = unicode_decode((const uint8_t *)s->data + at, s->len - at, &n);
        const bool is_plain = cp >= 0x20 && cp != '"' && cp != '\\' && (!is_ascii || cp < 0x7f);
        if (is_plain) continue;
        if (!jinja_write(r, s->data + from, at - from) || !write_json_char(r, cp)) return false;
        from = at + n;
    }
    return jinja_write(r, s->data + from, s->len - from) && jinja_write(r, "\"", 1);
}

static bool write_json_number(struct render *r, struct value v) {
    if (v.kind == V_FLOAT && !isfinite(v.f)) {
        return jinja_write_text(r, isnan(v.f) ? "NaN" : v.f < 0 ? "-Infinity" : "Infinity");
    }
    return jinja_print(r, v);
}

static bool write_break(struct render *r, const struct json_style *style, int depth) {
    if (!style->indent) return true;
    if (!jinja_write(r, "\n", 1)) return false;
    for (int i = 0; i < depth; i++) {
        if (!jinja_write(r, style->indent, style->indent_len)) return false;
    }
    return true;
}

static bool write_json(struct render *r, struct value v, const struct json_style *style, int depth);

static bool write_json_list(struct render *r, const struct seq *q, const struct json_style *style,
                            int depth) {
    if (q->n == 0) return jinja_write(r, "[]", 2);
    if (!jinja_write(r, "[", 1)) return false;
    for (size_t i = 0; i < q->n; i++) {
        if (i && !jinja_write(r, style->item_separator, style->item_separator_len)) return false;
        if (!write_break(r, style, depth + 1) || !write_json(r, q->items[i], style, depth + 1)) {
            return false;
        }
    }
    return write_break(r, style, depth) && jinja_write(r, "]", 1);
}

// Keys that are no strings are written as strings of their JSON text.
static bool write_json_key(struct render *r, struct value key, bool is_ascii) {
    switch (key.kind) {
    case V_STR:
        return write_json_str(r, key.s, is_ascii);
    case V_NONE:
        return jinja_write_text(r, "\"null\"");
    case V_BOOL:
        return jinja_write_text(r, key.b ? "\"true\"" : "\"false\"");
    case V_INT:
    case V_FLOAT:
    case V_BIG:
        return jinja_write(r, "\"", 1) && write_json_number(r, key) && jinja_write(r, "\"", 1);
    default:
        jinja_fail(r, "keys of JSON objects cannot be '%s'", jinja_type_name(key));
        return false;
    }
}

// The entries' order by key.
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

static bool write_json_dict(struct render *r, const struct dict *d, const struct json_style *style,
                            int depth) {
    if (d->n == 0) return jinja_write(r, "{}", 2);
    const struct value *order = style->is_sorted ? sorted_entries(r, d) : NULL;
    if ((style->is_sorted && !order) || !jinja_write(r, "{", 1)) return false;
    for (size_t i = 0; i < d->n; i++) {
        const struct dict_entry *entry = &d->entries[order ? (size_t)order[i].i : i];
        if (i && !jinja_write(r, style->item_separator, style->item_separator_len)) return false;
        if (!write_break(r, style, depth + 1) || !write_json_key(r, entry->key, style->is_ascii) ||
            !jinja_write(r, style->key_separator, style->key_separator_len) ||
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
    case V_INT:
    case V_FLOAT:
    case V_BIG:
        return write_json_number(r, v);
    case V_STR:
        return write_json_str(r, v.s, style->is_ascii);
    case V_DICT:
        return write_json_dict(r, v.d, style, depth);
    case V_SEQ:
        if (v.q->flavor <= SEQ_GROUP) return write_json_list(r, v.q, style, depth);
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
