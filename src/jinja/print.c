// Values as text: str() and repr() as Python prints them, and json.dumps. One walk prints all, in
// the style that it is given. Containers print their items by repr. Objects that Python prints with
// an address or a type's name cannot be printed here.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jinja/render.h"
#include "jinja/text.h"
#include "unicode/unicode.h"

static void print_value(struct render *r, struct value v, const struct print_style *style,
                        int depth);

static void write_whole(struct render *r, const struct str *s) { jinja_write_str(r, s, 0, s->len); }

// ---------------------------------------------------------------- strings

static bool is_plain(int32_t cp, char quote, const struct print_style *style) {
    if (cp == '\\' || cp == quote) return false;
    if (!style->is_json) return cp == ' ' || unicode_traits(cp) & ~(unsigned)UNICODE_SPACE;
    return cp >= 0x20 && (!style->is_ascii || cp < 0x7f);
}

static void print_escape(struct render *r, int32_t cp, bool is_json, uint8_t mark) {
    static const char from[] = "\"\\\n\r\t'\f\b", to[] = "\"\\nrt'fb"; // the last two: JSON alone
    const char *simple = cp < 0x80 ? memchr(from, cp, is_json ? 8 : 6) : NULL;
    const unsigned code = (unsigned)cp;
    char text[16];
    int n;
    if (simple) {
        n = snprintf(text, sizeof text, "\\%c", to[simple - from]);
    } else if (is_json && code >= 0x10000) {
        n = snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10),
                     0xdc00 + (code & 0x3ff));
    } else if (code >= 0x10000) {
        n = snprintf(text, sizeof text, "\\U%08x", code);
    } else {
        const bool is_short = code < 0x100 && !is_json;
        n = snprintf(text, sizeof text, is_short ? "\\x%02x" : "\\u%04x", code);
    }
    jinja_write_as(r, text, (size_t)n, mark);
}

// repr takes double quotes only where that saves escapes.
static void print_str(struct render *r, const struct str *s, const struct print_style *style) {
    const bool has_single = s->len && memchr(s->data, '\'', s->len);
    const bool is_double = style->is_json || (has_single && !memchr(s->data, '"', s->len));
    const char quote = is_double ? '"' : '\'';
    const size_t start = r->out_len;
    size_t from = 0, n;
    jinja_write(r, &quote, 1);
    jinja_work_chars(r, s->len);
    for (size_t at = 0; at < s->len; at += n) {
        const int32_t cp = unicode_decode((const uint8_t *)s->data + at, s->len - at, &n);
        if (is_plain(cp, quote, style)) continue;
        jinja_write_str(r, s, from, at);
        print_escape(r, cp, style->is_json, str_mark(s, at));
        from = at + n;
    }
    jinja_write_str(r, s, from, s->len);
    jinja_write(r, &quote, 1);
    if (style->is_json || !s->marks) return;
    for (size_t i = start; i < r->out_len; i++) r->marks[i] &= 0x0f; // see template.h
}

// ---------------------------------------------------------------- containers

static void print_break(struct render *r, const struct print_style *style, int depth) {
    if (!style->indent) return;
    jinja_write(r, "\n", 1);
    for (int i = 0; i < depth; i++) write_whole(r, style->indent);
}

// Before the i-th member of a container.
static void print_gap(struct render *r, const struct print_style *style, size_t i, int depth) {
    if (i) write_whole(r, style->item_separator);
    print_break(r, style, depth + 1);
}

static void print_seq(struct render *r, const struct seq *q, const struct print_style *style,
                      int depth) {
    const bool is_list = style->is_json || q->flavor == SEQ_LIST;
    jinja_write(r, is_list ? "[" : "(", 1);
    for (size_t i = 0; i < q->n; i++) {
        print_gap(r, style, i, depth);
        print_value(r, q->items[i], style, depth + 1);
    }
    if (q->n) print_break(r, style, depth);
    jinja_write_text(r, is_list ? "]" : q->n == 1 ? ",)" : ")");
}

// JSON has keys that are no strings as strings of their text.
static void print_key(struct render *r, struct value key, const struct print_style *style) {
    const bool is_quoted = style->is_json && key.kind != V_STR;
    if (style->is_json && (key.kind < V_NONE || key.kind > V_STR)) {
        jinja_fail(r, "keys of JSON objects cannot be '%s'", jinja_type_name(key));
    }
    if (is_quoted) jinja_write(r, "\"", 1);
    print_value(r, key, style, 0);
    if (is_quoted) jinja_write(r, "\"", 1);
}

static void print_dict(struct render *r, const struct dict *d, const struct print_style *style,
                       int depth) {
    jinja_write(r, "{", 1);
    for (size_t i = 0; i < d->n; i++) {
        print_gap(r, style, i, depth);
        print_key(r, d->entries[i].key, style);
        write_whole(r, style->key_separator);
        print_value(r, d->entries[i].value, style, depth + 1);
    }
    if (d->n) print_break(r, style, depth);
    jinja_write(r, "}", 1);
}

// ---------------------------------------------------------------- values

static void print_number(struct render *r, struct value v, bool is_json) {
    char text[NUMBER_ROOM];
    if (v.kind == V_FLOAT) jinja_charge(r, 4); // several conversions
    if (v.kind == V_BIG) {
        jinja_write(r, v.s->data, v.s->len);
    } else if (v.kind == V_FLOAT && is_json && !isfinite(v.f)) {
        jinja_write_text(r, v.f < 0 ? "-Infinity" : "Infinity");
    } else if (v.kind == V_FLOAT) {
        jinja_write(r, text, number_float_repr(v.f, text));
    } else {
        snprintf(text, sizeof text, "%lld", (long long)v.i);
        jinja_write_text(r, text);
    }
}

static void print_value(struct render *r, struct value v, const struct print_style *style,
                        int depth) {
    static const char *const words[2][3] = {{"None", "False", "True"}, {"null", "false", "true"}};
    const bool is_json = style->is_json, is_markup = v.kind == V_STR && v.flag;
    jinja_charge(r, 1);
    if (v.kind == V_UNDEFINED && !is_json) {
        jinja_write_text(r, "Undefined");
    } else if (v.kind == V_NONE || v.kind == V_BOOL) {
        jinja_write_text(r, words[is_json][v.kind == V_BOOL ? 1 + v.b : 0]);
    } else if (v.kind == V_INT || v.kind == V_FLOAT || v.kind == V_BIG) {
        print_number(r, v, is_json);
    } else if (v.kind == V_STR && (is_json || !is_markup)) {
        print_str(r, v.s, style);
    } else if (is_list(v)) {
        print_seq(r, v.q, style, depth);
    } else if (v.kind == V_DICT) {
        print_dict(r, v.d, style, depth);
    } else {
        jinja_fail(r,
                   is_json ? "a value of type '%s' cannot be written as JSON"
                           : "printing a value of type '%s' is not supported",
                   is_markup ? "Markup" : jinja_type_name(v));
    }
}

void jinja_print_styled(struct render *r, struct value v, const struct print_style *style) {
    static const struct str comma = {.data = ",", .len = 1}, colon = {.data = ": ", .len = 2};
    static const struct str comma_blank = {.data = ", ", .len = 2};
    struct print_style whole = *style;
    if (!whole.item_separator) whole.item_separator = style->indent ? &comma : &comma_blank;
    if (!whole.key_separator) whole.key_separator = &colon;
    print_value(r, v, &whole, 0);
}

void jinja_print(struct render *r, struct value v) {
    if (v.kind == V_STR) {
        write_whole(r, v.s);
    } else if (v.kind != V_UNDEFINED) {
        jinja_print_styled(r, v, &(struct print_style){.is_json = false});
    }
}

struct value jinja_to_str(struct render *r, struct value v) {
    if (v.kind == V_STR) return v;
    const size_t mark = r->out_len;
    jinja_print(r, v);
    return jinja_take(r, mark);
}
