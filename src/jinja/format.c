// The filter format, with %s, %d and %%, and the method, with {}, {name} and the form :d. Every
// other form is an error.
#include <string.h>

#include "jinja/render.h"
#include "jinja/text.h"

struct format {
    const struct str *text;
    const struct args *args;
    size_t next; // the next argument by position
};

// The place of the next byte of `special`, or the end.
static size_t plain_end(const struct str *s, size_t at, const char *special) {
    while (at < s->len && (s->data[at] == 0 || !strchr(special, s->data[at]))) at++;
    return at;
}

static void print_as(struct render *r, struct value v, bool is_integer) {
    if (is_integer && !is_int(v)) {
        jinja_fail(r, "the format wants an integer, not '%s'", jinja_type_name(v));
    }
    jinja_print(r, is_integer ? value_int(int_of(v)) : v);
}

// Writes the field that starts at `at`; returns its end.
static size_t percent_field(struct render *r, struct format *f, size_t at) {
    const char c = at + 1 < f->text->len ? f->text->data[at + 1] : ' ';
    if (c == '%') {
        jinja_write(r, "%", 1);
        return at + 2;
    }
    if (c != 's' && c != 'd') jinja_fail(r, "the format '%%%c' is not supported", c);
    if (f->next == f->args->n_pos) jinja_fail(r, "the format wants more arguments");
    print_as(r, f->args->list[f->next++].value, c == 'd');
    return at + 2;
}

// The argument that a field names; a field without a name takes the next.
static struct value field_value(struct render *r, struct format *f, const struct str *name) {
    if (name->len == 0 && f->next < f->args->n_pos) return f->args->list[f->next++].value;
    for (size_t i = f->args->n_pos; i < f->args->n; i++) {
        if (str_same(f->args->list[i].name, name)) return f->args->list[i].value;
    }
    jinja_fail(r, "format: there is no argument '%.*s', or its form is not supported",
               jinja_shown(name->len), name->data);
}

// The same for the method.
static size_t brace_field(struct render *r, struct format *f, size_t at) {
    const struct str *s = f->text;
    const size_t from = at + 1, end = plain_end(s, from, "{}"), len = end - from;
    if (from < s->len && s->data[from] == s->data[at]) { // "{{" or "}}"
        jinja_write_str(r, s, at, from);
        return from + 1;
    }
    if (s->data[at] == '}' || end == s->len || s->data[end] == '{') {
        jinja_fail(r, "format: a bracket has no counterpart");
    }
    const char *colon = memchr(s->data + from, ':', len);
    const struct str name = {.data = s->data + from,
                             .len = colon ? (size_t)(colon - s->data) - from : len};
    const bool is_integer = colon && len - name.len == 2 && colon[1] == 'd';
    if (!is_integer && len - name.len > 1) {
        jinja_fail(r, "the format '{%.*s}' is not supported", jinja_shown(len), name.data);
    }
    print_as(r, field_value(r, f, &name), is_integer);
    return end + 1;
}

// Plain text is copied up to the start of a field.
struct value jinja_format(struct render *r, const struct str *text, const struct args *args,
                          bool is_percent) {
    struct format f = {text, args, 0};
    const size_t mark = r->out_len;
    jinja_work_chars(r, text->len);
    for (size_t at = 0; at < text->len;) {
        const size_t end = plain_end(text, at, is_percent ? "%" : "{}");
        jinja_write_str(r, text, at, end);
        if (end == text->len) break;
        at = is_percent ? percent_field(r, &f, end) : brace_field(r, &f, end);
    }
    if (is_percent && f.next < args->n_pos) jinja_fail(r, "the format has arguments left");
    return jinja_take(r, mark);
}
