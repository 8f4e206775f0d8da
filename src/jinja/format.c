// "..." % args, "...".format(args) and format(v, spec).
#include <math.h>
#include <string.h>

#include "jinja/number.h"
#include "jinja/render.h"
#include "jinja/spec.h"
#include "unicode/unicode.h"

static bool is_integral(struct value v) { return v.kind == V_INT || v.kind == V_BOOL; }

// Truncates a float, as int() does.
static bool to_int(struct render *r, struct value v, int64_t *out) {
    if (is_integral(v)) {
        *out = v.kind == V_INT ? v.i : v.b;
        return true;
    }
    if (v.kind == V_FLOAT && fabs(v.f) < 0x1p63) {
        *out = (int64_t)v.f;
        return true;
    }
    jinja_fail(r, "the format wants an integer, not '%s'", jinja_type_name(v));
    return false;
}

static bool to_float(struct render *r, struct value v, double *out) {
    if (v.kind == V_FLOAT || is_integral(v)) {
        *out = v.kind == V_FLOAT ? v.f : v.kind == V_INT ? (double)v.i : v.b;
        return true;
    }
    jinja_fail(r, "the format wants a number, not '%s'", jinja_type_name(v));
    return false;
}

static bool precision_check(struct render *r, const struct spec *spec) {
    if (spec->precision <= NUMBER_MAX_PRECISION) return true;
    jinja_fail(r, "the precision is larger than %d", NUMBER_MAX_PRECISION);
    return false;
}

static bool print_char(struct render *r, const struct spec *spec, struct value v) {
    struct str s = {.n_chars = 1};
    uint8_t bytes[4];
    if (v.kind == V_STR && jinja_length(r, v) == 1) {
        s = *v.s;
    } else if (v.kind == V_INT && v.i >= 0 && v.i < 0x110000 && (v.i < 0xd800 || v.i > 0xdfff)) {
        s.len = unicode_encode((uint32_t)v.i, bytes);
        s.data = (const char *)bytes;
    } else {
        jinja_fail(r, "the format wants one character");
        return false;
    }
    return jinja_spec_str(r, spec, &s);
}

// --- % ---

struct percent {
    struct value args;
    size_t next;   // of the tuple, or of the one argument
    bool is_tuple; // else one argument, or a mapping
};

static bool percent_arg(struct render *r, struct percent *p, struct value *out) {
    const size_t n = p->is_tuple ? p->args.q->n : 1;
    if (p->next == n) {
        jinja_fail(r, "the format needs more arguments");
        return false;
    }
    *out = p->is_tuple ? p->args.q->items[p->next] : p->args;
    p->next++;
    return true;
}

// "(name)" at *at: the value of that key.
static bool percent_key(struct render *r, struct percent *p, const struct str *f, size_t *at,
                        struct value *out) {
    const size_t from = *at + 1;
    const char *end = memchr(f->data + from, ')', f->len - from);
    if (!end || p->args.kind != V_DICT) {
        jinja_fail(r, "the format wants a mapping");
        return false;
    }
    const size_t to = (size_t)(end - f->data);
    const struct value key = jinja_substr(r, f, from, to);
    if (is_error(key)) return false;
    const struct value *found = jinja_dict_find(r, p->args.d, key);
    if (!found) {
        jinja_fail(r, "the format's key is not in the mapping");
        return false;
    }
    *out = *found;
    *at = to + 1;
    p->next = 1;
    return true;
}

// A width or precision: digits, or '*' for an argument.
static bool percent_number(struct render *r, struct percent *p, const struct str *f, size_t *at,
                           int64_t *out) {
    if (*at < f->len && f->data[*at] == '*') {
        struct value v;
        ++*at;
        return percent_arg(r, p, &v) && to_int(r, v, out);
    }
    const size_t from = *at;
    while (*at < f->len && f->data[*at] >= '0' && f->data[*at] <= '9') ++*at;
    *out = 0;
    if (*at == from) return true;
    if (number_parse_int(f->data + from, *at - from, 10, out) == NUMBER_OK) return true;
    jinja_fail(r, "the format's width is too large");
    return false;
}

static bool percent_spec(struct render *r, struct percent *p, const struct str *f, size_t *at,
                         struct spec *out) {
    *out = (struct spec){.fill = ' ', .sign = '-', .precision = -1, .align = '>'};
    for (; *at < f->len; ++*at) {
        const char c = f->data[*at];
        if (c == '-') out->align = '<';
        if (c == '+' || (c == ' ' && out->sign != '+')) out->sign = c;
        if (c == '#') out->is_alt = true;
        if (c == '0') out->is_zero = true;
        if (!c || !strchr("-+ #0", c)) break;
    }
    if (!percent_number(r, p, f, at, &out->width)) return false;
    if (out->width < 0) {
        out->align = '<';
        out->width = out->width == INT64_MIN ? INT64_MAX : -out->width;
    }
    if (*at < f->len && f->data[*at] == '.') {
        int64_t precision;
        ++*at;
        if (!percent_number(r, p, f, at, &precision)) return false;
        out->precision = precision < 0 ? 0 : precision > INT32_MAX ? INT32_MAX : (int)precision;
    }
    while (*at < f->len && (f->data[*at] == 'l' || f->data[*at] == 'h' || f->data[*at] == 'L')) {
        ++*at;
    }
    if (*at == f->len) {
        jinja_fail(r, "the format is incomplete");
        return false;
    }
    out->type = f->data[(*at)++];
    return true;
}

static bool percent_text(struct render *r, const struct spec *spec, struct value v) {
    const size_t mark = r->out_len;
    const bool is_ok = spec->type == 's' ? jinja_print(r, v) : jinja_print_repr(r, v);
    if (!is_ok) return false;
    const struct value text = jinja_take(r, mark);
    return !is_error(text) && jinja_spec_str(r, spec, text.s);
}

static bool percent_item(struct render *r, struct spec *spec, struct value v) {
    int64_t i;
    double f;
    const bool is_number = strchr("diuxXoeEfFgG", spec->type) != NULL;
    if (is_number && v.kind == V_UNDEFINED) {
        jinja_fail_undefined(r, v);
        return false;
    }
    if (is_number && !precision_check(r, spec)) return false;
    if (is_number && spec->is_zero && spec->align == '>') {
        spec->fill = '0';
        spec->align = '=';
    }
    switch (spec->type) {
    case 's':
    case 'r':
    case 'a':
        return percent_text(r, spec, v);
    case 'c':
        return print_char(r, spec, v);
    case 'x':
    case 'X':
    case 'o':
        if (v.kind == V_FLOAT) v = value_none(); // only %d and its like truncate
        return to_int(r, v, &i) && jinja_spec_int(r, spec, i);
    case 'd':
    case 'i':
    case 'u':
        return to_int(r, v, &i) && jinja_spec_int(r, spec, i);
    default:
        if (is_number) return to_float(r, v, &f) && jinja_spec_float(r, spec, f);
        jinja_fail(r, "the format has no conversion '%c'", spec->type);
        return false;
    }
}

// One item, whose '%' stands before *at.
static bool percent_next(struct render *r, struct percent *p, const struct str *f, size_t *at) {
    struct value v = value_missing();
    struct spec spec;
    if (!jinja_charge(r, 1)) return false;
    if (*at < f->len && f->data[*at] == '(' && !percent_key(r, p, f, at, &v)) return false;
    if (!percent_spec(r, p, f, at, &spec)) return false;
    if (spec.type == '%') return jinja_write(r, "%", 1);
    if (is_missing(v) && !percent_arg(r, p, &v)) return false;
    return percent_item(r, &spec, v);
}

struct value jinja_percent(struct render *r, const struct str *format, struct value args) {
    struct percent p = {.args = args, .is_tuple = is_tuple(args)};
    const size_t mark = r->out_len;
    size_t from = 0;
    if (!jinja_work_chars(r, format->len)) return value_error();
    for (size_t at = 0; at < format->len;) {
        if (format->data[at] != '%') {
            at++;
            continue;
        }
        if (!jinja_write(r, format->data + from, at - from)) return value_error();
        at++;
        if (!percent_next(r, &p, format, &at)) return value_error();
        from = at;
    }
    if (!jinja_write(r, format->data + from, format->len - from)) return value_error();
    const bool is_mapping = args.kind == V_DICT || args.kind == V_UNDEFINED ||
                            is_seq(args, SEQ_LIST) || is_seq(args, SEQ_RANGE);
    if (!is_mapping && p.next < (p.is_tuple ? args.q->n : 1)) {
        return jinja_fail(r, "the format does not use all arguments");
    }
    return jinja_take(r, mark);
}

// --- format ---

bool jinja_print_spec(struct render *r, struct value v, const char *text, size_t len) {
    struct spec spec;
    if (len == 0) return jinja_print(r, v);
    if (!jinja_spec_parse(r, text, len, &spec)) return false;
    const bool is_float_type = spec.type && strchr("eEfFgG%", spec.type);
    const bool is_int_type = spec.type && strchr("dxXobn", spec.type);
    double f;
    if (v.kind == V_STR && (!spec.type || spec.type == 's')) return jinja_spec_str(r, &spec, v.s);
    if (v.kind != V_STR && !precision_check(r, &spec)) return false;
    if (is_integral(v) && spec.type == 'c') return print_char(r, &spec, v);
    if (is_integral(v) && (is_int_type || !spec.type)) {
        return jinja_spec_int(r, &spec, v.kind == V_INT ? v.i : v.b);
    }
    if (is_float_type || (v.kind == V_FLOAT && (!spec.type || spec.type == 'n'))) {
        return to_float(r, v, &f) && jinja_spec_float(r, &spec, f);
    }
    jinja_fail(r, "'%s' cannot be formatted with '%.*s'", jinja_type_name(v),
               len > 40 ? 40 : (int)len, text);
    return false;
}

struct formatter {
    const struct args *args;
    size_t n_auto; // the next number of a field without a name
};

// The argument that a field's first part names: a number, a name, or nothing for the next.
static struct value field_first(struct render *r, struct formatter *f, const struct str *name) {
    int64_t index = (int64_t)f->n_auto;
    if (name->len == 0) {
        f->n_auto++;
    } else if (number_parse_int(name->data, name->len, 10, &index) != NUMBER_OK) {
        for (size_t i = 0; i < f->args->n_named; i++) {
            if (str_same(f->args->named[i].name, name)) return f->args->named[i].value;
        }
        return jinja_fail(r, "the format's name '%.*s' is not given",
                          name->len > 80 ? 80 : (int)name->len, name->data);
    }
    if (index < 0 || (uint64_t)index >= f->args->n_pos) {
        return jinja_fail(r, "the format's index %lld is not given", (long long)index);
    }
    return f->args->pos[index];
}

// "name.attribute[key]...".
static struct value field_value(struct render *r, struct formatter *f, const struct str *text) {
    size_t at = 0;
    while (at < text->len && text->data[at] != '.' && text->data[at] != '[') at++;
    const struct str first = {text->data, at, SIZE_MAX, NULL};
    struct value v = field_first(r, f, &first);
    while (at < text->len && !is_error(v)) {
        const bool is_item = text->data[at++] == '[';
        const size_t from = at;
        while (at < text->len &&
               (is_item ? text->data[at] != ']' : text->data[at] != '.' && text->data[at] != '[')) {
            at++;
        }
        const struct value key = jinja_substr(r, text, from, at);
        if (is_error(key)) return key;
        int64_t index;
        const bool is_index =
            is_item && number_parse_int(key.s->data, key.s->len, 10, &index) == NUMBER_OK;
        v = is_item ? jinja_getitem(r, v, is_index ? value_int(index) : key)
                    : jinja_getattr(r, v, key.s);
        at += is_item && at < text->len;
    }
    return v;
}

static struct value format_text(struct render *r, struct formatter *f, const struct str *text,
                                int depth);

// "value!conversion:spec", without its braces.
static bool field_print(struct render *r, struct formatter *f, const struct str *field, int depth) {
    size_t at = 0;
    int n_open = 0;
    for (; at < field->len; at++) {
        const char c = field->data[at];
        n_open += (c == '[') - (c == ']');
        if (n_open == 0 && (c == '!' || c == ':')) break;
    }
    const struct str name = {field->data, at, SIZE_MAX, NULL};
    struct value v = field_value(r, f, &name);
    if (is_error(v)) return false;
    if (at + 1 < field->len && field->data[at] == '!') {
        const size_t mark = r->out_len;
        const bool is_ok = field->data[at + 1] == 's' ? jinja_print(r, v) : jinja_print_repr(r, v);
        v = is_ok ? jinja_take(r, mark) : value_error();
        if (is_error(v)) return false;
        at += 2;
    }
    if (at == field->len) return jinja_print(r, v);
    if (field->data[at] != ':') {
        jinja_fail(r, "the format's field cannot be read");
        return false;
    }
    const struct str inner = {field->data + at + 1, field->len - at - 1, SIZE_MAX, NULL};
    const struct value spec = format_text(r, f, &inner, depth + 1);
    return !is_error(spec) && jinja_print_spec(r, v, spec.s->data, spec.s->len);
}

// The end of the field that begins at `from`: its closing brace, or SIZE_MAX.
static size_t field_end(const struct str *text, size_t from) {
    int n_open = 1;
    for (size_t at = from; at < text->len; at++) {
        n_open += (text->data[at] == '{') - (text->data[at] == '}');
        if (n_open == 0) return at;
    }
    return SIZE_MAX;
}

static struct value format_text(struct render *r, struct formatter *f, const struct str *text,
                                int depth) {
    if (depth > 2) return jinja_fail(r, "the format's fields are nested too deep");
    const size_t mark = r->out_len;
    if (!jinja_work_chars(r, text->len)) return value_error();
    for (size_t at = 0; at < text->len; at++) {
        const char c = text->data[at];
        if (c != '{' && c != '}') {
            if (!jinja_write(r, text->data + at, 1)) return value_error();
            continue;
        }
        if (at + 1 < text->len && text->data[at + 1] == c) {
            if (!jinja_write(r, &c, 1)) return value_error();
            at++;
            continue;
        }
        const size_t end = c == '{' ? field_end(text, at + 1) : SIZE_MAX;
        if (end == SIZE_MAX) return jinja_fail(r, "the format has a single '%c'", c);
        const struct str field = {text->data + at + 1, end - at - 1, SIZE_MAX, NULL};
        if (!jinja_charge(r, 1) || !field_print(r, f, &field, depth)) return value_error();
        at = end;
    }
    return jinja_take(r, mark);
}

struct value jinja_format(struct render *r, const struct str *format, const struct args *args) {
    struct formatter f = {.args = args};
    return format_text(r, &f, format, 0);
}
