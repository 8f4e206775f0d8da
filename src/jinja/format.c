// The filter format, with %s, %d and %%, and the method, with {}, {name} and the form :d.
// Every other form is an error.
#include <string.h>

#include "jinja/render.h"
#include "jinja/text.h"

static void print_integer(struct render *r, struct value v) {
    if (!is_int(v)) jinja_fail(r, "the format wants an integer, not '%s'", jinja_type_name(v));
    jinja_print(r, value_int(int_of(v)));
}

// The end of the plain text that starts at `at`: the next of the bytes in `special`.
static size_t plain_end(const struct str *s, size_t at, const char *special) {
    while (at < s->len && (s->data[at] == 0 || !strchr(special, s->data[at]))) at++;
    return at;
}

struct value jinja_percent(struct render *r, const struct str *format, const struct args *args) {
    const size_t mark = r->out_len;
    size_t next = 0;
    jinja_work_chars(r, format->len);
    for (size_t at = 0; at < format->len;) {
        const size_t end = plain_end(format, at, "%");
        jinja_write_str(r, format, at, end);
        if (end == format->len) break;
        const char c = end + 1 < format->len ? format->data[end + 1] : ' ';
        at = end + 2;
        if (c == '%') {
            jinja_write(r, "%", 1);
            continue;
        }
        if (c != 's' && c != 'd') jinja_fail(r, "the format '%%%c' is not supported", c);
        if (next == args->n_pos) jinja_fail(r, "the format wants more arguments");
        const struct value v = args->pos[next++];
        if (c == 's') {
            jinja_print(r, v);
        } else {
            print_integer(r, v);
        }
    }
    if (next < args->n_pos) jinja_fail(r, "the format has arguments left");
    return jinja_take(r, mark);
}

// The argument that a field names; one without a name takes the next.
static struct value field_value(struct render *r, const struct args *args, const char *name,
                                size_t len, size_t *next) {
    const struct str key = {.data = name, .len = len};
    if (len == 0 && *next < args->n_pos) return args->pos[(*next)++];
    for (size_t i = 0; i < args->n_named; i++) {
        if (str_same(args->named[i].name, &key)) return args->named[i].value;
    }
    jinja_fail(r, "format: there is no argument '%.*s', or its form is not supported",
               len > 80 ? 80 : (int)len, name);
}

static void field_print(struct render *r, const struct args *args, const char *field, size_t len,
                        size_t *next) {
    const char *colon = memchr(field, ':', len);
    const size_t name_len = colon ? (size_t)(colon - field) : len;
    const bool is_integer = colon && len - name_len == 2 && colon[1] == 'd';
    if (colon && !is_integer && len - name_len > 1) {
        jinja_fail(r, "the format '{%.*s}' is not supported", len > 80 ? 80 : (int)len, field);
    }
    const struct value v = field_value(r, args, field, name_len, next);
    if (is_integer) {
        print_integer(r, v);
    } else {
        jinja_print(r, v);
    }
}

struct value jinja_format(struct render *r, const struct str *format, const struct args *args) {
    const size_t mark = r->out_len;
    size_t next = 0;
    jinja_work_chars(r, format->len);
    for (size_t at = 0; at < format->len;) {
        const size_t end = plain_end(format, at, "{}");
        jinja_write_str(r, format, at, end);
        if (end == format->len) break;
        if (end + 1 < format->len && format->data[end + 1] == format->data[end]) { // "{{" or "}}"
            jinja_write_str(r, format, end, end + 1);
            at = end + 2;
            continue;
        }
        const size_t close = plain_end(format, end + 1, "{}");
        if (format->data[end] == '}' || close == format->len || format->data[close] == '{') {
            jinja_fail(r, "format: a bracket has no counterpart");
        }
        const char *field = format->data + end + 1;
        field_print(r, args, field, close - end - 1, &next);
        at = close + 1;
    }
    return jinja_take(r, mark);
}
