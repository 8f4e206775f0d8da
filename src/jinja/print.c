// Values as text: str() and repr() as Python prints them. Containers print their items by repr.
#include <stdio.h>
#include <string.h>

#include "jinja/chars.h"
#include "jinja/escape.h"
#include "jinja/number.h"
#include "jinja/render.h"
#include "unicode/unicode.h"

bool jinja_write_escaped(struct render *r, const char *data, size_t len) {
    static const char special[] = "&<>'\"";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    size_t from = 0;
    if (!jinja_work_chars(r, len)) return false;
    for (size_t i = 0; i < len; i++) {
        const char *found = data[i] ? strchr(special, data[i]) : NULL;
        if (!found) continue;
        if (!jinja_write(r, data + from, i - from)) return false;
        if (!jinja_write_text(r, entities[found - special])) return false;
        from = i + 1;
    }
    return jinja_write(r, data + from, len - from);
}

static bool print_char_escaped(struct render *r, int32_t cp) {
    char text[16];
    const char *format = cp < 0x100 ? "\\x" : cp < 0x10000 ? "\\u" : "\\U";
    const int width = cp < 0x100 ? 2 : cp < 0x10000 ? 4 : 8;
    const int n = snprintf(text, sizeof text, "%s%0*x", format, width, (unsigned)cp);
    return jinja_write(r, text, (size_t)n);
}

static bool print_char_repr(struct render *r, int32_t cp, char quote) {
    switch (cp) {
    case '\n':
        return jinja_write(r, "\\n", 2);
    case '\r':
        return jinja_write(r, "\\r", 2);
    case '\t':
        return jinja_write(r, "\\t", 2);
    default:
        if (cp == '\\' || cp == quote) {
            const char escaped[2] = {'\\', (char)cp};
            return jinja_write(r, escaped, 2);
        }
        return print_char_escaped(r, cp);
    }
}

// Double quotes only where that saves escapes.
static bool print_str_repr(struct render *r, const struct str *s) {
    const bool has_single = s->len && memchr(s->data, '\'', s->len);
    const char quote = has_single && !memchr(s->data, '"', s->len) ? '"' : '\'';
    if (!jinja_write(r, &quote, 1) || !jinja_work_chars(r, s->len)) return false;
    size_t from = 0, n;
    for (size_t at = 0; at < s->len; at += n) {
        const int32_t cp = unicode_decode((const uint8_t *)s->data + at, s->len - at, &n);
        if (cp != '\\' && cp != quote && chars_is_printable(cp)) continue;
        if (!jinja_write(r, s->data + from, at - from) || !print_char_repr(r, cp, quote)) {
            return false;
        }
        from = at + n;
    }
    return jinja_write(r, s->data + from, s->len - from) && jinja_write(r, &quote, 1);
}

static bool print_items(struct render *r, const struct value *items, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (i && !jinja_write(r, ", ", 2)) return false;
        if (!jinja_print_repr(r, items[i])) return false;
    }
    return true;
}

static bool print_range(struct render *r, const struct seq *q) {
    char text[80];
    const int n = q->step == 1
                      ? snprintf(text, sizeof text, "range(%lld, %lld)", (long long)q->start,
                                 (long long)q->stop)
                      : snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)q->start,
                                 (long long)q->stop, (long long)q->step);
    return jinja_write(r, text, (size_t)n);
}

static bool print_seq(struct render *r, const struct seq *q) {
    switch (q->flavor) {
    case SEQ_RANGE:
        return print_range(r, q);
    case SEQ_ITER:
        return jinja_write_text(r, "<generator object>");
    case SEQ_TUPLE:
    case SEQ_GROUP:
        return jinja_write(r, "(", 1) && print_items(r, q->items, q->n) &&
               jinja_write_text(r, q->n == 1 ? ",)" : ")");
    case SEQ_LIST:
        return jinja_write(r, "[", 1) && print_items(r, q->items, q->n) && jinja_write(r, "]", 1);
    default:
        return jinja_write_text(r, jinja_type_name(value_seq((struct seq *)q))) &&
               jinja_write(r, "([", 2) && print_items(r, q->items, q->n) && jinja_write(r, "])", 2);
    }
}

static bool print_dict(struct render *r, const struct dict *d) {
    if (!jinja_write(r, "{", 1)) return false;
    for (size_t i = 0; i < d->n; i++) {
        if (i && !jinja_write(r, ", ", 2)) return false;
        if (!jinja_print_repr(r, d->entries[i].key) || !jinja_write(r, ": ", 2) ||
            !jinja_print_repr(r, d->entries[i].value)) {
            return false;
        }
    }
    return jinja_write(r, "}", 1);
}

static bool print_number(struct render *r, struct value v) {
    char text[NUMBER_ROOM];
    if (v.kind == V_FLOAT && !jinja_charge(r, 4)) return false; // several conversions
    const size_t n = v.kind == V_FLOAT
                         ? number_float_repr(v.f, text)
                         : (size_t)snprintf(text, sizeof text, "%lld", (long long)v.i);
    return jinja_write(r, text, n);
}

static bool print_named(struct render *r, const char *type, const char *name, size_t len) {
    return jinja_write(r, "<", 1) && jinja_write_text(r, type) && jinja_write(r, " ", 1) &&
           jinja_write(r, name, len) && jinja_write(r, ">", 1);
}

static bool print_object(struct render *r, struct value v) {
    switch (v.kind) {
    case V_NAMESPACE:
        return jinja_write_text(r, "<Namespace ") && print_dict(r, v.d) && jinja_write(r, ">", 1);
    case V_MACRO: {
        const struct str *name = v.macro->node->constant.s;
        return jinja_write_text(r, "<Macro ") && print_str_repr(r, name) && jinja_write(r, ">", 1);
    }
    case V_FUNCTION:
        return print_named(r, "function", v.function->name, strlen(v.function->name));
    case V_METHOD:
        return print_named(r, "method", v.method->entry->name, strlen(v.method->entry->name));
    case V_LOOP:
        return jinja_loop_print(r, v.loop);
    default:
        return print_named(r, jinja_type_name(v), "object", 6);
    }
}

static bool print_value(struct render *r, struct value v) {
    switch (v.kind) {
    case V_UNDEFINED:
        return jinja_write_text(r, "Undefined");
    case V_NONE:
        return jinja_write_text(r, "None");
    case V_BOOL:
        return jinja_write_text(r, v.b ? "True" : "False");
    case V_INT:
    case V_FLOAT:
        return print_number(r, v);
    case V_BIG:
        return jinja_write(r, v.s->data, v.s->len);
    case V_STR:
        if (!v.flag) return print_str_repr(r, v.s);
        return jinja_write_text(r, "Markup(") && print_str_repr(r, v.s) && jinja_write(r, ")", 1);
    case V_SEQ:
        return print_seq(r, v.q);
    case V_DICT:
        return print_dict(r, v.d);
    default:
        return print_object(r, v);
    }
}

bool jinja_print_repr(struct render *r, struct value v) {
    if (!jinja_frame_enter(r)) return false; // a namespace may hold itself
    const bool is_ok = print_value(r, v);
    jinja_frame_leave(r);
    return is_ok;
}

bool jinja_print(struct render *r, struct value v) {
    if (v.kind == V_STR) return jinja_write(r, v.s->data, v.s->len);
    return v.kind == V_UNDEFINED || jinja_print_repr(r, v);
}

struct value jinja_to_str(struct render *r, struct value v) {
    if (v.kind == V_STR || is_error(v)) return v;
    const size_t mark = r->out_len;
    return jinja_print(r, v) ? jinja_take(r, mark) : value_error();
}
