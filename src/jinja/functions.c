// Global functions: range, dict, namespace, and transformers' raise_exception and strftime_now.
#define _GNU_SOURCE // strftime_l
#include <locale.h>
#include <string.h>
#include <time.h>

#include "jinja/render.h"

static struct value function_range(struct render *r, const struct call *c) {
    const bool has_start = !is_missing(c->arg[1]);
    const int64_t start = has_start ? jinja_arg_int(r, c, 0, 0) : 0;
    const int64_t stop = jinja_arg_int(r, c, has_start, 0), step = jinja_arg_int(r, c, 2, 1);
    if (step == 0) jinja_fail(r, "range: the step cannot be zero");
    const bool is_empty = step > 0 ? start >= stop : start <= stop;
    // The distance and the step fit unsigned words, with either sign.
    const uint64_t span =
        step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    const uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    const uint64_t n = is_empty ? 0 : (span - 1) / size + 1;
    if (n > JINJA_MAX_RANGE) {
        jinja_fail(r, "the range has more than %d items", JINJA_MAX_RANGE);
    }
    struct seq *q = jinja_seq_new(r, SEQ_RANGE, n);
    jinja_charge(r, n);
    for (uint64_t i = 0; i < n; i++) {
        q->items[i] = value_int((int64_t)((uint64_t)start + i * (uint64_t)step));
    }
    return value_seq(q);
}

// The option is the kind: a dictionary or a namespace.
static struct value function_dict(struct render *r, const struct call *c) {
    struct dict *d = jinja_dict_new(r);
    if (c->raw->n_pos) jinja_fail(r, "%s of a value is not supported", c->entry->name);
    for (size_t i = 0; i < c->raw->n; i++) {
        jinja_dict_set(r, d, value_str(c->raw->list[i].name), c->raw->list[i].value);
    }
    return (struct value){.kind = (uint8_t)c->entry->option, .d = d};
}

static struct value function_raise_exception(struct render *r, const struct call *c) {
    const struct value message = jinja_to_str(r, c->arg[0]);
    jinja_fail_with(r, RN_ERR_ARG, message.s->data, message.s->len);
}

// In the C locale and in UTC, not in those of the process. Every byte of the text has all marks of
// the format.
static struct value function_strftime_now(struct render *r, const struct call *c) {
    const time_t now = (time_t)r->now;
    struct tm parts;
    char format[256], text[1024];
    if (c->arg[0].kind != V_STR) jinja_fail(r, "strftime_now needs a format");
    const struct str *s = c->arg[0].s;
    if (s->len >= sizeof format - 1 || memchr(s->data, 0, s->len) || !gmtime_r(&now, &parts)) {
        jinja_fail(r, "strftime_now: the format is too long, or the time is invalid");
    }
    for (size_t i = 0; i + 1 < s->len; i++) {
        if (s->data[i] != '%') continue;
        for (i++; i + 1 < s->len && strchr("-_0^#", s->data[i]);) i++; // the flags of glibc
        if (!strchr("aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyY%", s->data[i])) {
            jinja_fail(r, "strftime_now: '%%%c' is not supported", s->data[i]);
        }
    }
    memcpy(format, s->data, s->len);
    memcpy(format + s->len, ".", 2); // so that an empty text is no failure
    locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); // which allocates nothing
    const size_t n = locale ? strftime_l(text, sizeof text, format, &parts, locale) : 0;
    if (locale) freelocale(locale);
    if (n == 0) jinja_fail(r, "strftime_now: the text is too long");
    uint8_t marks = 0;
    for (size_t i = 0; i < s->len; i++) marks |= str_mark(s, i);
    const size_t from = r->out_len;
    jinja_write_as(r, text, n - 1, marks);
    return jinja_take(r, from);
}

static const struct entry functions[] = {
    {"dict", function_dict, "*", 0, V_DICT},
    {"namespace", function_dict, "*", 0, V_NAMESPACE},
    {"raise_exception", function_raise_exception, "message", 1, 0},
    {"range", function_range, "start stop step", 1, 0},
    {"strftime_now", function_strftime_now, "format", 1, 0},
};

// The last four are names that Jinja gives to templates or macros.
const struct table jinja_functions = {"function", functions, sizeof functions / sizeof functions[0],
                                      "cycler joiner lipsum caller kwargs varargs self", ""};
