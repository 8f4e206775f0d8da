// Filters on numbers and on anything, and the table of all filters.
#include "jinja/filters.h"

#include <math.h>

#include "jinja/number.h"

static struct value filter_default(struct render *r, struct value self, const struct call *c) {
    bool is_boolean = false;
    jinja_arg_bool(r, c, 1, &is_boolean);
    const bool is_replaced = self.kind == V_UNDEFINED || (is_boolean && !jinja_is_true(self));
    if (!is_replaced) return self;
    return is_missing(c->arg[0]) ? jinja_str_literal(r, "") : c->arg[0];
}

static struct value filter_attr(struct render *r, struct value self, const struct call *c) {
    const struct str *name = NULL;
    if (!jinja_arg_str(r, c, 0, &name) || !name) return value_error();
    if (self.kind == V_UNDEFINED) return jinja_fail_undefined(r, self);
    if (self.kind != V_DICT || jinja_table_find(&jinja_dict_methods, name->data, name->len)) {
        return jinja_getattr(r, self, name);
    }
    return jinja_undefined(r, UNDEFINED_HINT, "there is no such attribute"); // keys are none
}

static struct value filter_abs(struct render *r, struct value self, const struct call *c) {
    (void)c;
    switch (self.kind) {
    case V_FLOAT:
        return value_float(fabs(self.f));
    case V_BOOL:
        return value_int(self.b);
    case V_INT:
        if (self.i == INT64_MIN) return jinja_fail(r, "the integer does not fit 64 bits");
        return value_int(self.i < 0 ? -self.i : self.i);
    case V_UNDEFINED:
        return jinja_fail_undefined(r, self);
    default:
        return jinja_fail(r, "abs needs a number, not '%s'", jinja_type_name(self));
    }
}

static struct value int_from_float(struct render *r, double f, struct value fallback) {
    if (isnan(f)) return fallback;
    if (fabs(f) >= 0x1p63) return jinja_fail(r, "the integer does not fit 64 bits");
    return value_int((int64_t)f);
}

static struct value int_from_str(struct render *r, const struct str *s, int64_t base,
                                 struct value fallback) {
    int64_t i;
    double f;
    if (!jinja_work(r, s->len)) return value_error();
    if (base != 0 && (base < 2 || base > 36)) return fallback;
    switch (number_parse_int(s->data, s->len, (int)base, &i)) {
    case NUMBER_OK:
        return value_int(i);
    case NUMBER_BIG:
        return jinja_fail(r, "the integer does not fit 64 bits");
    default:
        if (!number_parse_float(s->data, s->len, &f) || isinf(f)) return fallback;
        return int_from_float(r, f, fallback);
    }
}

static struct value filter_int(struct render *r, struct value self, const struct call *c) {
    int64_t base = 10;
    if (!jinja_arg_int(r, c, 1, &base)) return value_error();
    const struct value fallback = is_missing(c->arg[0]) ? value_int(0) : c->arg[0];
    switch (self.kind) {
    case V_INT:
    case V_BIG:
        return self;
    case V_BOOL:
        return value_int(self.b);
    case V_FLOAT:
        return int_from_float(r, self.f, fallback);
    case V_STR:
        return int_from_str(r, self.s, base, fallback);
    case V_UNDEFINED:
        return jinja_fail_undefined(r, self);
    default:
        return fallback;
    }
}

static struct value filter_float(struct render *r, struct value self, const struct call *c) {
    double f;
    switch (self.kind) {
    case V_INT:
        return value_float((double)self.i);
    case V_BOOL:
        return value_float(self.b);
    case V_FLOAT:
        return self;
    case V_STR:
    case V_BIG:
        if (!jinja_work(r, self.s->len)) return value_error();
        if (number_parse_float(self.s->data, self.s->len, &f)) return value_float(f);
        break;
    case V_UNDEFINED:
        return jinja_fail_undefined(r, self);
    default:
        break;
    }
    return is_missing(c->arg[0]) ? value_float(0) : c->arg[0];
}

static struct value round_common(struct value self, int64_t precision) {
    const int digits = precision > 400 ? 400 : precision < -400 ? -400 : (int)precision;
    if (self.kind == V_FLOAT) return value_float(number_round(self.f, digits));
    const int64_t i = self.kind == V_BOOL ? self.b : self.i;
    if (digits >= 0) return value_int(i);
    if (digits < -18) return value_int(0);
    // Half to even, in integers.
    int64_t unit = 1;
    for (int d = 0; d < -digits; d++) unit *= 10;
    int64_t rest = i % unit, whole = i - rest;
    const int64_t size = rest < 0 ? -rest : rest;
    const bool is_odd = (whole / unit) % 2 != 0;
    const bool is_up = size > unit - size || (size == unit - size && is_odd);
    if (is_up) __builtin_add_overflow(whole, i < 0 ? -unit : unit, &whole);
    return value_int(whole);
}

static struct value filter_round(struct render *r, struct value self, const struct call *c) {
    int64_t precision = 0;
    const struct str *method = NULL;
    if (!jinja_arg_int(r, c, 0, &precision) || !jinja_arg_str(r, c, 1, &method)) {
        return value_error();
    }
    if (self.kind != V_INT && self.kind != V_BOOL && self.kind != V_FLOAT) {
        if (self.kind == V_UNDEFINED) return jinja_fail_undefined(r, self);
        return jinja_fail(r, "round needs a number, not '%s'", jinja_type_name(self));
    }
    if (!method || str_equals(method, "common")) return round_common(self, precision);
    const bool is_ceil = str_equals(method, "ceil");
    if (!is_ceil && !str_equals(method, "floor")) {
        return jinja_fail(r, "round: the method is common, ceil or floor");
    }
    const double f = self.kind == V_FLOAT ? self.f : self.kind == V_INT ? (double)self.i : self.b;
    const double unit = pow(10, (double)precision);
    const double scaled = f * unit;
    return value_float((is_ceil ? ceil(scaled) : floor(scaled)) / unit);
}

static const struct entry filters[] = {
    {"abs", filter_abs, "", 0},
    {"attr", filter_attr, "name", 1},
    {"batch", jinja_filter_batch, "linecount fill_with", 1},
    {"capitalize", jinja_filter_capitalize, "", 0},
    {"center", jinja_filter_center, "width", 0},
    {"count", jinja_filter_length, "", 0},
    {"d", filter_default, "default_value boolean", 0},
    {"default", filter_default, "default_value boolean", 0},
    {"dictsort", jinja_filter_dictsort, "case_sensitive by reverse", 0},
    {"e", jinja_filter_escape, "", 0},
    {"escape", jinja_filter_escape, "", 0},
    {"first", jinja_filter_first, "", 0},
    {"float", filter_float, "default", 0},
    {"forceescape", jinja_filter_forceescape, "", 0},
    {"format", jinja_filter_format, "*", 0},
    {"groupby", jinja_filter_groupby, "attribute default case_sensitive", 1},
    {"indent", jinja_filter_indent, "width first blank", 0},
    {"int", filter_int, "default base", 0},
    {"items", jinja_filter_items, "", 0},
    {"join", jinja_filter_join, "d attribute", 0},
    {"last", jinja_filter_last, "", 0},
    {"length", jinja_filter_length, "", 0},
    {"list", jinja_filter_list, "", 0},
    {"lower", jinja_filter_lower, "", 0},
    {"map", jinja_filter_map, "*", 0},
    {"max", jinja_filter_max, "case_sensitive attribute", 0},
    {"min", jinja_filter_min, "case_sensitive attribute", 0},
    {"reject", jinja_filter_reject, "*", 0},
    {"rejectattr", jinja_filter_rejectattr, "*", 0},
    {"replace", jinja_filter_replace, "old new count", 2},
    {"reverse", jinja_filter_reverse, "", 0},
    {"round", filter_round, "precision method", 0},
    {"safe", jinja_filter_safe, "", 0},
    {"select", jinja_filter_select, "*", 0},
    {"selectattr", jinja_filter_selectattr, "*", 0},
    {"slice", jinja_filter_slice, "slices fill_with", 1},
    {"sort", jinja_filter_sort, "reverse case_sensitive attribute", 0},
    {"string", jinja_filter_string, "", 0},
    {"striptags", jinja_filter_striptags, "", 0},
    {"sum", jinja_filter_sum, "attribute start", 0},
    {"title", jinja_filter_title, "", 0},
    {"tojson", jinja_filter_tojson, "ensure_ascii indent separators sort_keys", 0},
    {"trim", jinja_filter_trim, "chars", 0},
    {"truncate", jinja_filter_truncate, "length killwords end leeway", 0},
    {"unique", jinja_filter_unique, "case_sensitive attribute", 0},
    {"upper", jinja_filter_upper, "", 0},
    {"urlencode", jinja_filter_urlencode, "", 0},
    {"wordcount", jinja_filter_wordcount, "", 0},
};

const struct table jinja_filters = {filters, sizeof filters / sizeof filters[0]};
