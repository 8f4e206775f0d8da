// Filters. Generators of Jinja are evaluated at once here, and still can be walked only once.
#include <math.h>
#include <string.h>

#include "jinja/render.h"
#include "jinja/text.h"

static struct value filter_default(struct render *r, const struct call *c) {
    const bool is_replaced =
        c->self.kind == V_UNDEFINED || (jinja_arg_bool(c, 1) && !jinja_is_true(c->self));
    if (!is_replaced) return c->self;
    return is_missing(c->arg[0]) ? jinja_str_literal(r, "") : c->arg[0];
}

static struct value int_of_str(struct render *r, const struct str *s, struct value fallback) {
    int64_t i;
    jinja_work_chars(r, s->len);
    const enum number_result result = number_parse_int(s->data, s->len, &i);
    if (result == NUMBER_OK) return value_int(i);
    if (result == NUMBER_BIG) jinja_fail(r, "the integer does not fit 64 bits");
    for (size_t at = 0; at < s->len; at++) { // Python may read it as a float
        if (s->data[at] < '0' || s->data[at] > '9') continue;
        jinja_fail(r, "int of '%.*s' is not supported", jinja_shown(s->len), s->data);
    }
    return fallback;
}

static struct value filter_int(struct render *r, const struct call *c) {
    const struct value v = c->self, fallback = is_missing(c->arg[0]) ? value_int(0) : c->arg[0];
    if (v.kind == V_UNDEFINED) jinja_fail_undefined(r, v);
    if (v.kind == V_BIG) return v;
    if (v.kind == V_STR) return int_of_str(r, v.s, fallback);
    if (is_int(v)) return value_int(int_of(v));
    if (v.kind != V_FLOAT || !isfinite(v.f)) return fallback;
    if (fabs(v.f) >= 0x1p63) jinja_fail(r, "the integer does not fit 64 bits");
    return value_int((int64_t)v.f);
}

// ---------------------------------------------------------------- text

// A result keeps the flag of the text that it was made of.
static struct value flagged(struct value v, struct value from) {
    v.flag = from.flag;
    return v;
}

static struct value filter_case(struct render *r, const struct call *c) {
    const struct value text = jinja_to_str(r, c->self);
    return flagged(jinja_text_case(r, text.s, (enum text_case)c->entry->option), text);
}

// The option is the flag of safe text.
static struct value filter_string(struct render *r, const struct call *c) {
    struct value v = jinja_to_str(r, c->self);
    v.flag |= c->entry->option;
    return v;
}

static struct value filter_trim(struct render *r, const struct call *c) {
    const struct value text = jinja_to_str(r, c->self);
    const struct str *chars = jinja_arg_str(r, c, 0);
    return flagged(jinja_text_strip(r, text.s, chars, TEXT_LEFT | TEXT_RIGHT), text);
}

static struct value filter_replace(struct render *r, const struct call *c) {
    const struct value s = jinja_to_str(r, c->self), from = jinja_to_str(r, c->arg[0]);
    const struct value to = jinja_to_str(r, c->arg[1]);
    return jinja_text_replace(r, s.s, from.s, to.s, jinja_arg_int(r, c, 2, -1));
}

static struct value filter_join(struct render *r, const struct call *c) {
    const struct seq *q = jinja_iterate(r, c->self);
    const struct value separator = c->arg[0];
    const size_t mark = r->out_len;
    for (size_t i = 0; i < q->n; i++) {
        jinja_charge(r, 1);
        if (i && !is_missing(separator)) jinja_print(r, separator);
        jinja_print(r, jinja_getpath(r, q->items[i], c->arg[1]));
    }
    return jinja_take(r, mark);
}

static struct value filter_format(struct render *r, const struct call *c) {
    if (c->raw->n > c->raw->n_pos) jinja_fail(r, "format with names is not supported");
    return jinja_format(r, jinja_to_str(r, c->self).s, c->raw, true);
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

// Lines are those of the text with a newline added: a newline at its end starts an empty line.
static struct value filter_indent(struct render *r, const struct call *c) {
    const bool first = jinja_arg_bool(c, 1), blank = jinja_arg_bool(c, 2);
    const struct value width = indention(r, c, 0, 4);
    if (c->self.kind == V_UNDEFINED) jinja_fail_undefined(r, c->self);
    if (c->self.kind != V_STR) jinja_fail(r, "indent needs a string");
    const struct str *const s = c->self.s;
    jinja_work_chars(r, s->len);
    const size_t mark = r->out_len;
    for (size_t from = 0, next = 0; next <= s->len; from = next) {
        const size_t end = jinja_line_end(s, from, &next);
        if (from) jinja_write(r, "\n", 1);
        if (from ? blank || end > from : first) jinja_write_str(r, width.s, 0, width.s->len);
        jinja_write_str(r, s, from, end);
        jinja_charge(r, 1);
    }
    return flagged(jinja_take(r, mark), c->self);
}

// As transformers defines it: json.dumps without escapes for HTML.
static struct value filter_tojson(struct render *r, const struct call *c) {
    struct print_style style = {.is_json = true, .is_ascii = jinja_arg_bool(c, 0)};
    const struct value pair = c->arg[2];
    if (!is_absent(c->arg[1])) style.indent = indention(r, c, 1, 0).s;
    if (!is_absent(pair)) {
        const bool is_pair = pair.kind == V_SEQ && pair.q->n == 2 &&
                             pair.q->items[0].kind == V_STR && pair.q->items[1].kind == V_STR;
        if (!is_pair) jinja_fail(r, "tojson: separators are a pair of strings");
        style.item_separator = pair.q->items[0].s;
        style.key_separator = pair.q->items[1].s;
    }
    const size_t mark = r->out_len;
    jinja_print_styled(r, c->self, &style);
    return jinja_take(r, mark);
}

// ---------------------------------------------------------------- sequences

static struct value filter_length(struct render *r, const struct call *c) {
    const int64_t n = jinja_length(r, c->self);
    if (n < 0) jinja_fail(r, "'%s' object has no length", jinja_type_name(c->self));
    return value_int(n);
}

static struct value filter_list(struct render *r, const struct call *c) {
    const struct seq *q = jinja_iterate(r, c->self);
    struct seq *list = jinja_seq_new(r, SEQ_LIST, q->n);
    jinja_charge(r, list->n);
    for (size_t i = 0; i < q->n; i++) list->items[i] = q->items[i];
    return jinja_seq_close(r, list);
}

static struct value filter_items(struct render *r, const struct call *c) {
    if (c->self.kind == V_UNDEFINED) return value_seq(jinja_seq_new(r, SEQ_ITER, 0));
    if (c->self.kind == V_DICT) return jinja_dict_view(r, c->self.d, SEQ_ITER);
    jinja_fail(r, "'%s' object has no pairs of keys and values", jinja_type_name(c->self));
}

static struct value filter_first(struct render *r, const struct call *c) {
    const struct value v = c->self;
    if (is_seq(v, SEQ_ITER) && v.q->pos < v.q->n) return v.q->items[v.q->pos++];
    const struct seq *q = jinja_iterate(r, v);
    return q->n ? q->items[0] : jinja_undefined(r, "no first item, the sequence is empty");
}

static struct value filter_last(struct render *r, const struct call *c) {
    if (is_seq(c->self, SEQ_ITER)) jinja_fail(r, "a generator cannot be reversed");
    const struct seq *q = jinja_iterate(r, c->self);
    return q->n ? q->items[q->n - 1] : jinja_undefined(r, "no last item, the sequence is empty");
}

// A false value has no items, even if it is of a kind that cannot be walked.
static const struct seq *items_of(struct render *r, struct value v) {
    return jinja_is_true(v) ? jinja_iterate(r, v) : jinja_seq_new(r, SEQ_LIST, 0);
}

// The row that the n-th argument names, called with the arguments behind it.
static struct value named_call(struct render *r, const struct table *table, struct value v,
                               const struct args *args, size_t n) {
    const struct args rest = {args->list + n + 1, args->n - n - 1, args->n_pos - n - 1};
    return jinja_call_named(r, table, args->list[n].value, v, &rest);
}

static struct value filter_map(struct render *r, const struct call *c) {
    const struct args *args = c->raw;
    const bool by_attribute =
        args->n_pos == 0 && args->n == 1 && str_equals(args->list[0].name, "attribute");
    const struct seq *q = items_of(r, c->self);
    struct seq *out = jinja_seq_new(r, SEQ_ITER, q->n);
    if (args->n_pos == 0 && args->n > 1) jinja_fail(r, "map with a default is not supported");
    if (args->n_pos == 0 && !by_attribute && q->n) {
        jinja_fail(r, "map needs the name of a filter, or an attribute");
    }
    for (size_t i = 0; i < q->n; i++) {
        jinja_charge(r, 1);
        out->items[i] = by_attribute ? jinja_getpath(r, q->items[i], args->list[0].value)
                                     : named_call(r, &jinja_filters, q->items[i], args, 0);
    }
    return jinja_seq_close(r, out);
}

enum { BY_ATTRIBUTE = 1, REJECTS = 2 }; // options

// The items that pass a test, or whose attribute does.
static struct value filter_select(struct render *r, const struct call *c) {
    const bool by_attribute = c->entry->option & BY_ATTRIBUTE,
               wanted = !(c->entry->option & REJECTS);
    const struct args *args = c->raw;
    if (by_attribute && args->n_pos == 0) jinja_fail(r, "%s needs an attribute", c->entry->name);
    const struct seq *q = items_of(r, c->self);
    struct seq *out = jinja_seq_new(r, SEQ_ITER, 0);
    for (size_t i = 0; i < q->n; i++) {
        struct value v =
            by_attribute ? jinja_getpath(r, q->items[i], args->list[0].value) : q->items[i];
        jinja_charge(r, 1);
        if (args->n_pos > by_attribute) v = named_call(r, &jinja_tests, v, args, by_attribute);
        if (jinja_is_true(v) == wanted) jinja_seq_add(r, out, q->items[i]);
    }
    return jinja_seq_close(r, out);
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

struct order {
    struct value path; // of the key; absent: the item itself
    bool is_case_sensitive, is_reverse;
    bool may_equal; // equal keys need no order
};

static bool comes_before(struct render *r, struct value a, struct value b, struct order order) {
    if (order.may_equal && jinja_equal(r, a, b)) return false;
    return order.is_reverse ? jinja_less(r, b, a) : jinja_less(r, a, b);
}

// Sorts a list, stable: each item is inserted behind the last that it does not come before.
static void sort(struct render *r, struct seq *q, struct order order) {
    struct value *keys = jinja_array(r, q->n, sizeof *keys); // of each item
    for (size_t i = 0; i < q->n; i++) {
        const struct value item = q->items[i];
        const struct value key = key_of(r, item, order.path, order.is_case_sensitive);
        size_t low = 0, high = i;
        while (low < high) {
            const size_t mid = (low + high) / 2;
            const bool is_before = comes_before(r, key, keys[mid], order);
            *(is_before ? &high : &low) = is_before ? mid : mid + 1;
        }
        jinja_work(r, 2 * (i - low) * sizeof item);
        memmove(q->items + low + 1, q->items + low, (i - low) * sizeof item);
        memmove(keys + low + 1, keys + low, (i - low) * sizeof key);
        q->items[low] = item;
        keys[low] = key;
    }
}

static struct value filter_sort(struct render *r, const struct call *c) {
    const struct value list = filter_list(r, c);
    sort(r, list.q, (struct order){c->arg[2], jinja_arg_bool(c, 1), jinja_arg_bool(c, 0), true});
    return list;
}

static struct value filter_dictsort(struct render *r, const struct call *c) {
    if (c->self.kind != V_DICT) jinja_fail(r, "dictsort needs a mapping");
    const struct value pairs = jinja_dict_view(r, c->self.d, SEQ_LIST);
    sort(r, pairs.q, (struct order){.path = value_int(0)});
    return pairs;
}

// The smallest item, or the largest (the option).
static struct value filter_extreme(struct render *r, const struct call *c) {
    const struct value list = filter_list(r, c);
    if (list.q->n == 0) return jinja_undefined(r, "no aggregated item, the sequence is empty");
    sort(r, list.q, (struct order){c->arg[1], jinja_arg_bool(c, 0), c->entry->option, false});
    return list.q->items[0];
}

static struct value filter_unique(struct render *r, const struct call *c) {
    const struct seq *q = jinja_iterate(r, c->self);
    struct seq *out = jinja_seq_new(r, SEQ_ITER, 0);
    struct dict *seen = jinja_dict_new(r);
    for (size_t i = 0; i < q->n; i++) {
        const struct value key = key_of(r, q->items[i], c->arg[1], jinja_arg_bool(c, 0));
        const size_t before = seen->n;
        jinja_dict_set(r, seen, key, value_none());
        if (seen->n > before) jinja_seq_add(r, out, q->items[i]);
    }
    return jinja_seq_close(r, out);
}

static const struct entry filters[] = {
    {"capitalize", filter_case, "", 0, TEXT_CAPITALIZE},
    {"count", filter_length, "", 0, 0},
    {"d", filter_default, "default_value boolean", 0, 0},
    {"default", filter_default, "default_value boolean", 0, 0},
    {"dictsort", filter_dictsort, "", 0, 0},
    {"first", filter_first, "", 0, 0},
    {"format", filter_format, "*", 0, 0},
    {"indent", filter_indent, "width first blank", 0, 0},
    {"int", filter_int, "default", 0, 0},
    {"items", filter_items, "", 0, 0},
    {"join", filter_join, "d attribute", 0, 0},
    {"last", filter_last, "", 0, 0},
    {"length", filter_length, "", 0, 0},
    {"list", filter_list, "", 0, 0},
    {"lower", filter_case, "", 0, TEXT_LOWER},
    {"map", filter_map, "*", 0, 0},
    {"max", filter_extreme, "case_sensitive attribute", 0, true},
    {"min", filter_extreme, "case_sensitive attribute", 0, false},
    {"reject", filter_select, "*", 0, REJECTS},
    {"rejectattr", filter_select, "*", 0, REJECTS | BY_ATTRIBUTE},
    {"replace", filter_replace, "old new count", 2, 0},
    {"safe", filter_string, "", 0, 1},
    {"select", filter_select, "*", 0, 0},
    {"selectattr", filter_select, "*", 0, BY_ATTRIBUTE},
    {"sort", filter_sort, "reverse case_sensitive attribute", 0, 0},
    {"string", filter_string, "", 0, 0},
    {"tojson", filter_tojson, "ensure_ascii indent separators", 0, 0},
    {"trim", filter_trim, "chars", 0, 0},
    {"unique", filter_unique, "case_sensitive attribute", 0, 0},
    {"upper", filter_case, "", 0, TEXT_UPPER},
};

const struct table jinja_filters = {
    "filter", filters, sizeof filters / sizeof filters[0],
    "abs attr batch center e escape filesizeformat float forceescape groupby pprint random "
    "reverse round slice striptags sum title truncate urlencode urlize wordcount wordwrap xmlattr",
    ""};
