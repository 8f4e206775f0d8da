// Values as text: str() and repr() as Python prints them. Containers print their items by repr.
// Objects that Python prints with an address or a type's name cannot be printed here.
#include <stdio.h>
#include <string.h>

#include "jinja/number.h"
#include "jinja/render.h"
#include "jinja/text.h"
#include "unicode/unicode.h"

static void print_char_repr(struct render *r, int32_t cp, uint8_t mark) {
    static const char from[] = "\n\r\t\\'\"", to[] = "nrt\\'\"";
    char text[16];
    const char *simple = cp && cp < 0x80 ? strchr(from, cp) : NULL;
    const int width = cp < 0x100 ? 2 : cp < 0x10000 ? 4 : 8;
    const int n = simple ? snprintf(text, sizeof text, "\\%c", to[simple - from])
                         : snprintf(text, sizeof text, "\\%c%0*x",
                                    cp < 0x100     ? 'x'
                                    : cp < 0x10000 ? 'u'
                                                   : 'U',
                                    width, (unsigned)cp);
    jinja_write_as(r, text, (size_t)n, mark);
}

// Double quotes only where that saves escapes.
static void print_str_repr(struct render *r, const struct str *s) {
    const bool has_single = s->len && memchr(s->data, '\'', s->len);
    const char quote = has_single && !memchr(s->data, '"', s->len) ? '"' : '\'';
    const size_t start = r->out_len;
    size_t from = 0, n;
    jinja_write(r, &quote, 1);
    jinja_work_chars(r, s->len);
    for (size_t at = 0; at < s->len; at += n) {
        const int32_t cp = unicode_decode((const uint8_t *)s->data + at, s->len - at, &n);
        if (cp != '\\' && cp != quote && chars_is_printable(cp)) continue;
        jinja_write_str(r, s, from, at);
        print_char_repr(r, cp, str_mark(s, at));
        from = at + n;
    }
    jinja_write_str(r, s, from, s->len);
    jinja_write(r, &quote, 1);
    for (size_t i = start; s->marks && i < r->out_len; i++) r->marks[i] &= 0x0f; // see template.h
}

static void print_seq(struct render *r, const struct seq *q) {
    const bool is_list = q->flavor == SEQ_LIST;
    jinja_write(r, is_list ? "[" : "(", 1);
    for (size_t i = 0; i < q->n; i++) {
        if (i) jinja_write(r, ", ", 2);
        jinja_print_repr(r, q->items[i]);
    }
    jinja_write_text(r, is_list ? "]" : q->n == 1 ? ",)" : ")");
}

static void print_dict(struct render *r, const struct dict *d) {
    jinja_write(r, "{", 1);
    for (size_t i = 0; i < d->n; i++) {
        if (i) jinja_write(r, ", ", 2);
        jinja_print_repr(r, d->entries[i].key);
        jinja_write(r, ": ", 2);
        jinja_print_repr(r, d->entries[i].value);
    }
    jinja_write(r, "}", 1);
}

static void print_number(struct render *r, struct value v) {
    char text[NUMBER_ROOM];
    if (v.kind == V_FLOAT) jinja_charge(r, 4); // several conversions
    const size_t n = v.kind == V_FLOAT
                         ? number_float_repr(v.f, text)
                         : (size_t)snprintf(text, sizeof text, "%lld", (long long)v.i);
    jinja_write(r, text, n);
}

static void print_value(struct render *r, struct value v) {
    if (v.kind == V_UNDEFINED) {
        jinja_write_text(r, "Undefined");
    } else if (v.kind == V_NONE) {
        jinja_write_text(r, "None");
    } else if (v.kind == V_BOOL) {
        jinja_write_text(r, v.b ? "True" : "False");
    } else if (v.kind == V_INT || v.kind == V_FLOAT) {
        print_number(r, v);
    } else if (v.kind == V_BIG) {
        jinja_write(r, v.s->data, v.s->len);
    } else if (v.kind == V_STR && !v.flag) {
        print_str_repr(r, v.s);
    } else if (v.kind == V_SEQ && v.q->flavor <= SEQ_TUPLE) {
        print_seq(r, v.q);
    } else if (v.kind == V_DICT) {
        print_dict(r, v.d);
    } else {
        jinja_fail(r, "printing a value of type '%s' is not supported",
                   v.kind == V_STR ? "Markup" : jinja_type_name(v));
    }
}

void jinja_print_repr(struct render *r, struct value v) {
    jinja_frame_enter(r);
    print_value(r, v);
    jinja_frame_leave(r);
}

void jinja_print(struct render *r, struct value v) {
    if (v.kind == V_STR) {
        jinja_write_str(r, v.s, 0, v.s->len);
    } else if (v.kind != V_UNDEFINED) {
        jinja_print_repr(r, v);
    }
}

struct value jinja_to_str(struct render *r, struct value v) {
    if (v.kind == V_STR) return v;
    const size_t mark = r->out_len;
    jinja_print(r, v);
    return jinja_take(r, mark);
}
