// Filters. Generators of Jinja are evaluated at once here, and still can be walked only once.
#include <math.h>
#include <string.h>

#include "jinja/number.h"
#include "jinja/render.h"
#include "jinja/text.h"

static struct value filter_default(struct render *r, struct value self, const struct call *c) {
    const bool is_replaced =
        self.kind == V_UNDEFINED || (jinja_arg_bool(c, 1) && !jinja_is_true(self));
    if (!is_replaced) return self;
    return is_missing(c->arg[0]) ? jinja_str_literal(r, "") : c->arg[0];
}

// int(v), else int(float(v)), else the default.
static struct value filter_int(struct render *r, struct value self, const struct call *c) {
    const struct value fallback = is_missing(c->arg[0]) ? value_int(0) : c->arg[0];
    double f = self.kind == V_FLOAT ? self.f : (double)NAN;
    int64_t i;
    if (self.kind == V_UNDEFINED) jinja_fail_undefined(r, self);
    if (self.kind == V_BIG) return self;
    if (is_int(self)) return value_int(int_of(self));
    if (self.kind == V_STR) {
        jinja_work(r, self.s->len);
        const enum number_result result = number_parse_int(self.s->data, self.s->len, &i);
        if (result == NUMBER_OK) return value_int(i);
        if (result == NUMBER_BIG) jinja_fail(r, "the integer does not fit 64 bits");
        if (!number_parse_float(self.s->data, self.s->len, &f)) return fallback;
    }
    if (!isfinite(f)) return fallback;
    if (fabs(f) >= 0x1p63) jinja_fail(r, "the integer does not fit 64 bits");
    return value_int((int64_t)f);
}

// ---------------------------------------------------------------- text

#define CASE_FILTER(name, to)                                                                      \
    static struct value filter_##name(struct render *r, struct value self, const struct call *c) { \
        (void)c;                                                                                   \
        const struct value text = jinja_to_str(r, self);                                           \
        struct value v = jinja_text_case(r, text.s, to);                                           \
        v.flag = text.flag;                                                                        \
        return v;                                                                                  \
    }
CASE_FILTER(upper, TEXT_UPPER)
CASE_FILTER(lower, TEXT_LOWER)
CASE_FILTER(capitalize, TEXT_CAPITALIZE)
CASE_FILTER(title, TEXT_TITLE_FILTER)

static struct value filter_string(struct render *r, struct value self, const struct call *c) {
    (void)c;
    return jinja_to_str(r, self);
}

static struct value filter_safe(struct render *r, struct value self, const struct call *c) {
    (void)c;
    struct value v = jinja_to_str(r, self);
    v.flag = 1;
    return v;
}

static struct value filter_trim(struct render *r, struct value self, const struct call *c) {
    const struct value s = jinja_to_str(r, self);
    struct value v = jinja_text_strip(r, s.s, jinja_arg_str(r, c, 0), TEXT_LEFT | TEXT_RIGHT);
    v.flag = s.flag;
    return v;
}

static struct value filter_replace(struct render *r, struct value self, const struct call *c) {
    const struct value s = jinja_to_str(r, self), from = jinja_to_str(r, c->arg[0]);
    const struct value to = jinja_to_str(r, c->arg[1]);
    return jinja_text_replace(r, s.s, from.s, to.s, jinja_arg_int(r, c, 2, -1));
}

static struct value filter_join(struct render *r, struct value self, const struct call *c) {
    const struct value d =
        is_missing(c->arg[0]) ? jinja_str_literal(r, "") : jinja_to_str(r, c->arg[0]);
    return jinja_text_join(r, d.s, self, c->arg[1]);
}

static struct value filter_format(struct render *r, struct value self, const struct call *c) {
    const struct value s = jinja_to_str(r, self);
    if (c->raw->n_named) jinja_fail(r, "format with names is not supported");
    return jinja_percent(r, s.s, c->raw);
}

// An indentation as text: a number of blanks, or a string.
static struct value indention(struct render *r, const struct call *c, int i, int64_t width) {
    if (c->arg[i].kind == V_STR) return c->arg[i];
    const size_t mark = r->out_len;
    width = jinja_arg_int(r, c, i, width);
    if (width > 0) jinja_write_check(r, (uint64_t)width);
    for (; width > 0; width--) jinja_write(r, " ", 1);
    return jinja_take(r, mark);
}

static struct value filter_indent(struct render *r, struct value self, const struct call *c) {
    const bool first = jinja_arg_bool(c, 1), blank = jinja_arg_bool(c, 2);
    const struct value width = indention(r, c, 0, 4);
    if (self.kind == V_UNDEFINED) jinja_fail_undefined(r, self);
    if (self.kind != V_STR) jinja_fail(r, "indent needs a string");
    const struct str *const s = self.s;
    jinja_work_chars(r, s->len);
    // Lines are those of the text with a newline added: a newline at its end starts an empty line.
    const size_t mark = r->out_len;
    size_t at = 0, from = 0, to = 0;
    bool is_first = true, has_more = true;
    while (has_more) {
        const bool is_line = jinja_text_line(s, &at, &from, &to);
        if (!is_line) from = to = s->len;
        const bool is_indented = is_first ? first : blank || to > from;
        if (!is_first) jinja_write(r, "\n", 1);
        if (is_indented) jinja_write_str(r, width.s, 0, width.s->len);
        jinja_write_str(r, s, from, to);
        jinja_charge(r, 1);
        is_first = false;
        const bool ends_open = to == s->len || (to + 1 == s->len && s->data[to] == '\r');
        has_more = is_line && !ends_open;
    }
    struct value v = jinja_take(r, mark);
    v.flag = self.flag;
    return v;
}

// As transformers defines it: json.dumps without escapes for HTML.
static struct value filter_tojson(struct render *r, struct value self, const struct call *c) {
    static const struct str comma_blank = {.data = ", ", .len = 2}, comma = {.data = ",", .len = 1};
    static const struct str colon = {.data = ": ", .len = 2};
    const struct value pair = c->arg[2];
    struct json_style style = {.item_separator = &comma_blank,
                               .key_separator = &colon,
                               .is_ascii = jinja_arg_bool(c, 0)};
    if (!is_absent(c->arg[1])) {
        style.indent = indention(r, c, 1, 0).s;
        style.item_separator = &comma;
    }
    if (!is_absent(pair)) {
        const bool is_pair = pair.kind == V_SEQ && pair.q->n == 2 &&
                             pair.q->items[0].kind == V_STR && pair.q->items[1].kind == V_STR;
        if (!is_pair) jinja_fail(r, "tojson: separators are a pair of strings");
        style.item_separator = pair.q->items[0].s;
        style.key_separator = pair.q->items[1].s;
    }
    const size_t mark = r->out_len;
    jinja_print_json(r, self, &style);
    return jinja_take(r, mark);
}

// ---------------------------------------------------------------- sequences

static struct value filter_length(struct render *r, struct value self, const struct call *c) {
    (void)c;
    const int64_t n = jinja_length(r, self);
    if (n < 0) jinja_fail(r, "'%s' object has no length", jinja_type_name(self));
    return value_int(n);
}

static struct value filter_list(struct render *r, struct value self, const struct call *c) {
    (void)c;
    const struct seq *q = jinja_iterate(r, self);
    struct seq *list = jinja_seq_new(r, SEQ_LIST, q->n);
    jinja_charge(r, list->n);
    for (size_t i = 0; i < q->n; i++) list->items[i] = q->items[i];
    return jinja_seq_close(r, list);
}

static struct value filter_items(struct render *r, struct value self, const struct call *c) {
    (void)c;
    const size_t n = self.kind == V_DICT ? self.d->n : 0;
    if (self.kind != V_DICT && self.kind != V_UNDEFINED) {
        jinja_fail(r, "'%s' object has no pairs of keys and values", jinja_type_name(self));
    }
    struct seq *q = jinja_seq_new(r, SEQ_ITER, n);
    for (size_t i = 0; i < n; i++) {
        q->items[i] = jinja_pair(r, self.d->entries[i].key, self.d->entries[i].value);
    }
    return jinja_seq_close(r, q);
}

static struct value filter_first(struct render *r, struct value self, const struct call *c) {
    (void)c;
    if (is_seq(self, SEQ_ITER) && self.q->pos < self.q->n) return self.q->items[self.q->pos++];
    const struct seq *q = jinja_iterate(r, self);
    return q->n ? q->items[0] : jinja_undefined(r, "no first item, the sequence is empty");
}

static struct value filter_last(struct render *r, struct value self, const struct call *c) {
    (void)c;
    if (is_seq(self, SEQ_ITER)) jinja_fail(r, "a generator cannot be reversed");
    const struct seq *q = jinja_iterate(r, self);
    return q->n ? q->items[q->n - 1] : jinja_undefined(r, "no last item, the sequence is empty");
}

static struct value filter_reverse(struct render *r, struct value self, const struct call *c) {
    (void)c;
    if (self.kind == V_STR) {
        return jinja_getslice(r, self, value_none(), value_none(), value_int(-1));
    }
    const bool is_iter = is_seq(self, SEQ_ITER);
    const struct seq *q = jinja_iterate(r, self);
    struct seq *out = jinja_seq_new(r, is_iter ? SEQ_LIST : SEQ_ITER, q->n);
    jinja_charge(r, out->n);
    for (size_t i = 0; i < q->n; i++) out->items[i] = q->items[q->n - 1 - i];
    return jinja_seq_close(r, out);
}

static struct args args_behind(const struct args *args, size_t n) {
    return (struct args){args->pos + n, args->n_pos - n, args->named, args->n_named};
}

// The items that a filter makes of these, an attribute of each, or the items that pass a test.
enum walk { WALK_MAP, WALK_MAP_ATTRIBUTE, WALK_SELECT, WALK_SELECT_ATTRIBUTE };

// One item's contribution: the value to add, or V_MISSING when it does not pass.
static struct value item_walk(struct render *r, struct value item, const struct args *args,
                              enum walk walk, bool wanted) {
    struct args rest = *args;
    struct value v = item;
    if (walk == WALK_MAP_ATTRIBUTE) return jinja_getpath(r, item, args->named[0].value);
    if (walk == WALK_SELECT_ATTRIBUTE) {
        v = jinja_getpath(r, item, args->pos[0]);
        rest = args_behind(args, 1);
    }
    if (rest.n_pos) {
        const struct args behind = args_behind(&rest, 1);
        v = jinja_call_named(r, walk == WALK_MAP ? &jinja_filters : &jinja_tests, rest.pos[0], v,
                             &behind);
    }
    if (walk == WALK_MAP) return v;
    return jinja_is_true(v) == wanted ? item : value_missing();
}

static struct value walk_items(struct render *r, struct value self, const struct call *c,
                               enum walk walk, bool wanted) {
    // A false value has no items, even if it is of a kind that cannot be walked.
    const struct seq *q =
        jinja_is_true(self) ? jinja_iterate(r, self) : jinja_seq_new(r, SEQ_LIST, 0);
    struct seq *out = jinja_seq_new(r, SEQ_ITER, q->n);
    size_t n = 0;
    for (size_t i = 0; i < q->n; i++) {
        const struct value v = item_walk(r, q->items[i], c->raw, walk, wanted);
        jinja_charge(r, 1);
        if (!is_missing(v)) out->items[n++] = v;
    }
    out->n = n;
    return jinja_seq_close(r, out);
}

static struct value filter_map(struct render *r, struct value self, const struct call *c) {
    const struct args *args = c->raw;
    const bool by_attribute =
        args->n_pos == 0 && args->n_named == 1 && str_equals(args->named[0].name, "attribute");
    if (by_attribute) return walk_items(r, self, c, WALK_MAP_ATTRIBUTE, true);
    if (args->n_pos) return walk_items(r, self, c, WALK_MAP, true);
    if (args->n_named > 1) jinja_fail(r, "map with a default is not supported");
    if (jinja_is_true(self)) jinja_fail(r, "map needs the name of a filter, or an attribute");
    return walk_items(r, self, c, WALK_MAP, true);
}

static struct value filter_select(struct render *r, struct value self, const struct call *c) {
    return walk_items(r, self, c, WALK_SELECT, true);
}
static struct value filter_reject(struct render *r, struct value self, const struct call *c) {
    return walk_items(r, self, c, WALK_SELECT, false);
}
static struct value filter_selectattr(struct render *r, struct value self, const struct call *c) {
    if (c->raw->n_pos == 0) jinja_fail(r, "%s needs an attribute", c->name);
    return walk_items(r, self, c, WALK_SELECT_ATTRIBUTE, true);
}
static struct value filter_rejectattr(struct render *r, struct value self, const struct call *c) {
    if (c->raw->n_pos == 0) jinja_fail(r, "%s needs an attribute", c->name);
    return walk_items(r, self, c, WALK_SELECT_ATTRIBUTE, false);
}

// ---------------------------------------------------------------- order

// An item's key: itself or an attribute, text without regard to case unless case_sensitive.
static struct value key_of(struct render *r, struct value item, struct value path,
                           bool is_case_sensitive) {
    if (path.kind == V_STR && path.s->len && memchr(path.s->data, ',', path.s->len)) {
        jinja_fail(r, "several attributes as a key are not supported");
    }
    const struct value v = jinja_getpath(r, item, path);
    return v.kind == V_STR && !is_case_sensitive ? jinja_text_case(r, v.s, TEXT_LOWER) : v;
}

// Sorts a list's items by their keys, stable: each is inserted behind the last that it does not
// come before. keys[i] belongs to items[i].
static void sort(struct render *r, struct value *items, struct value *keys, size_t n,
                 bool is_reverse) {
    for (size_t i = 1; i < n; i++) {
        const struct value item = items[i], key = keys[i];
        size_t low = 0, high = i;
        while (low < high) {
            const size_t mid = (low + high) / 2;
            const bool is_before =
                is_reverse ? jinja_less(r, keys[mid], key) : jinja_less(r, key, keys[mid]);
            *(is_before ? &high : &low) = is_before ? mid : mid + 1;
        }
        jinja_work(r, 2 * (i - low) * sizeof item);
        memmove(items + low + 1, items + low, (i - low) * sizeof item);
        memmove(keys + low + 1, keys + low, (i - low) * sizeof key);
        items[low] = item;
        keys[low] = key;
    }
}

// Keys are lists of one: lists compare their items for equality first, so equal items need no
// order.
static struct value filter_sort(struct render *r, struct value self, const struct call *c) {
    const struct value copy = filter_list(r, self, c);
    struct value *keys = jinja_array(r, copy.q->n, sizeof *keys);
    for (size_t i = 0; i < copy.q->n; i++) {
        struct seq *key = jinja_seq_new(r, SEQ_LIST, 1);
        key->items[0] = key_of(r, copy.q->items[i], c->arg[2], jinja_arg_bool(c, 1));
        keys[i] = jinja_seq_close(r, key);
    }
    sort(r, copy.q->items, keys, copy.q->n, jinja_arg_bool(c, 0));
    return copy;
}

static struct value filter_dictsort(struct render *r, struct value self, const struct call *c) {
    const struct str *by = jinja_arg_str(r, c, 1);
    const bool by_value = by && str_equals(by, "value");
    if (self.kind != V_DICT) jinja_fail(r, "dictsort needs a mapping");
    if (by && !by_value && !str_equals(by, "key")) {
        jinja_fail(r, "dictsort: by is \"key\" or \"value\"");
    }
    const size_t n = self.d->n;
    struct seq *list = jinja_seq_new(r, SEQ_LIST, n);
    struct value *keys = jinja_array(r, n, sizeof *keys);
    for (size_t i = 0; i < n; i++) {
        const struct dict_entry *entry = &self.d->entries[i];
        list->items[i] = jinja_pair(r, entry->key, entry->value);
        keys[i] =
            key_of(r, by_value ? entry->value : entry->key, value_none(), jinja_arg_bool(c, 0));
    }
    sort(r, list->items, keys, n, jinja_arg_bool(c, 2));
    return jinja_seq_close(r, list);
}

static struct value filter_unique(struct render *r, struct value self, const struct call *c) {
    const struct seq *q = jinja_iterate(r, self);
    struct seq *out = jinja_seq_new(r, SEQ_ITER, q->n);
    struct dict *seen = jinja_dict_new(r, 8);
    size_t n = 0;
    for (size_t i = 0; i < q->n; i++) {
        const struct value key = key_of(r, q->items[i], c->arg[1], jinja_arg_bool(c, 0));
        const size_t before = seen->n;
        jinja_dict_set(r, seen, key, value_none());
        if (seen->n > before) out->items[n++] = q->items[i];
    }
    out->n = n;
    return jinja_seq_close(r, out);
}

static struct value extreme(struct render *r, struct value self, const struct call *c,
                            bool is_max) {
    const struct seq *q = jinja_iterate(r, self);
    if (q->n == 0) return jinja_undefined(r, "no aggregated item, the sequence is empty");
    size_t best = 0;
    struct value best_key = value_none();
    for (size_t i = 0; i < q->n; i++) {
        const struct value key = key_of(r, q->items[i], c->arg[1], jinja_arg_bool(c, 0));
        const bool is_better =
            i == 0 || (is_max ? jinja_less(r, best_key, key) : jinja_less(r, key, best_key));
        if (!is_better) continue;
        best = i;
        best_key = key;
    }
    return q->items[best];
}

static struct value filter_max(struct render *r, struct value self, const struct call *c) {
    return extreme(r, self, c, true);
}
static struct value filter_min(struct render *r, struct value self, const struct call *c) {
    return extreme(r, self, c, false);
}

static const struct entry filters[] = {
    {"capitalize", filter_capitalize, "", 0},
    {"count", filter_length, "", 0},
    {"d", filter_default, "default_value boolean", 0},
    {"default", filter_default, "default_value boolean", 0},
    {"dictsort", filter_dictsort, "case_sensitive by reverse", 0},
    {"first", filter_first, "", 0},
    {"format", filter_format, "*", 0},
    {"indent", filter_indent, "width first blank", 0},
    {"int", filter_int, "default", 0},
    {"items", filter_items, "", 0},
    {"join", filter_join, "d attribute", 0},
    {"last", filter_last, "", 0},
    {"length", filter_length, "", 0},
    {"list", filter_list, "", 0},
    {"lower", filter_lower, "", 0},
    {"map", filter_map, "*", 0},
    {"max", filter_max, "case_sensitive attribute", 0},
    {"min", filter_min, "case_sensitive attribute", 0},
    {"reject", filter_reject, "*", 0},
    {"rejectattr", filter_rejectattr, "*", 0},
    {"replace", filter_replace, "old new count", 2},
    {"reverse", filter_reverse, "", 0},
    {"safe", filter_safe, "", 0},
    {"select", filter_select, "*", 0},
    {"selectattr", filter_selectattr, "*", 0},
    {"sort", filter_sort, "reverse case_sensitive attribute", 0},
    {"string", filter_string, "", 0},
    {"title", filter_title, "", 0},
    {"tojson", filter_tojson, "ensure_ascii indent separators", 0},
    {"trim", filter_trim, "chars", 0},
    {"unique", filter_unique, "case_sensitive attribute", 0},
    {"upper", filter_upper, "", 0},
};

const struct table jinja_filters = {
    filters, sizeof filters / sizeof filters[0],
    " abs attr batch center e escape filesizeformat float forceescape groupby pprint random round "
    "slice striptags sum truncate urlencode urlize wordcount wordwrap xmlattr ",
    ""};
