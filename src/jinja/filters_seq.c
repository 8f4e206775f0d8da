// Filters on sequences. What is a generator in Jinja is made at once here, and still can be walked
// only once.
#include "jinja/filters.h"

struct value jinja_filter_length(struct render *r, struct value self, const struct call *c) {
    (void)c;
    const int64_t n = jinja_length(r, self);
    if (n < 0) return jinja_fail(r, "'%s' object has no length", jinja_type_name(self));
    return value_int(n);
}

struct value jinja_filter_list(struct render *r, struct value self, const struct call *c) {
    (void)c;
    const struct seq *q = jinja_iterate(r, self);
    struct seq *list = q ? jinja_seq_new(r, SEQ_LIST, q->n) : NULL;
    if (!list || !jinja_charge(r, list->n)) return value_error();
    for (size_t i = 0; i < q->n; i++) list->items[i] = q->items[i];
    return jinja_seq_close(r, list);
}

struct value jinja_filter_items(struct render *r, struct value self, const struct call *c) {
    (void)c;
    const size_t n = self.kind == V_DICT ? self.d->n : 0;
    if (self.kind != V_DICT && self.kind != V_UNDEFINED) {
        return jinja_fail(r, "'%s' object has no pairs of keys and values", jinja_type_name(self));
    }
    struct seq *q = jinja_seq_new(r, SEQ_ITER, n);
    if (!q) return value_error();
    for (size_t i = 0; i < n; i++) {
        q->items[i] = jinja_pair(r, self.d->entries[i].key, self.d->entries[i].value);
    }
    return jinja_seq_close(r, q);
}

struct value jinja_filter_first(struct render *r, struct value self, const struct call *c) {
    (void)c;
    if (is_seq(self, SEQ_ITER) && self.q->pos < self.q->n) return self.q->items[self.q->pos++];
    if (self.kind == V_STR && self.s->len) return jinja_getitem(r, self, value_int(0));
    const struct seq *q = jinja_iterate(r, self);
    if (!q) return value_error();
    if (q->n) return q->items[0];
    return jinja_undefined(r, UNDEFINED_HINT, "no first item, the sequence is empty");
}

struct value jinja_filter_last(struct render *r, struct value self, const struct call *c) {
    (void)c;
    if (is_seq(self, SEQ_ITER)) return jinja_fail(r, "a generator cannot be reversed");
    if (self.kind == V_STR && self.s->len) return jinja_getitem(r, self, value_int(-1));
    const struct seq *q = jinja_iterate(r, self);
    if (!q) return value_error();
    if (q->n) return q->items[q->n - 1];
    return jinja_undefined(r, UNDEFINED_HINT, "no last item, the sequence is empty");
}

struct value jinja_filter_reverse(struct render *r, struct value self, const struct call *c) {
    (void)c;
    if (self.kind == V_STR) {
        return jinja_getslice(r, self, value_none(), value_none(), value_int(-1));
    }
    const bool is_iter = is_seq(self, SEQ_ITER);
    const struct seq *q = jinja_iterate(r, self);
    struct seq *out = q ? jinja_seq_new(r, is_iter ? SEQ_LIST : SEQ_ITER, q->n) : NULL;
    if (!out || !jinja_charge(r, out->n)) return value_error();
    for (size_t i = 0; i < q->n; i++) out->items[i] = q->items[q->n - 1 - i];
    return jinja_seq_close(r, out);
}

struct value jinja_filter_sum(struct render *r, struct value self, const struct call *c) {
    struct value total = is_missing(c->arg[1]) ? value_int(0) : c->arg[1];
    const struct seq *q = jinja_iterate(r, self);
    if (!q) return value_error();
    if (total.kind == V_STR) return jinja_fail(r, "sum cannot add strings");
    for (size_t i = 0; i < q->n && !is_error(total); i++) {
        const struct value v = jinja_getpath(r, q->items[i], c->arg[0], value_missing());
        if (is_error(v) || !jinja_charge(r, 1)) return value_error();
        total = jinja_binary(r, OP_ADD, total, v);
    }
    return total;
}

// A part of q with fill added at its end, as a list.
static struct value part_make(struct render *r, const struct seq *q, size_t from, size_t n,
                              struct value fill, size_t n_fill) {
    struct seq *part = jinja_seq_new(r, SEQ_LIST, n + n_fill);
    if (!part) return value_error();
    for (size_t i = 0; i < n; i++) part->items[i] = q->items[from + i];
    for (size_t i = 0; i < n_fill; i++) part->items[n + i] = fill;
    return jinja_seq_close(r, part);
}

struct value jinja_filter_batch(struct render *r, struct value self, const struct call *c) {
    int64_t size = 0;
    const struct seq *q = jinja_iterate(r, self);
    if (!q || !jinja_arg_int(r, c, 0, &size)) return value_error();
    if (size < 1) return jinja_fail(r, "batch: the size must be positive");
    // A size past the end makes one batch; only the fill then depends on it.
    const size_t per = (size_t)size;
    const size_t n = q->n / per + (q->n % per != 0);
    struct seq *out = jinja_seq_new(r, SEQ_ITER, n);
    if (!out) return value_error();
    for (size_t i = 0; i < n; i++) {
        const size_t left = q->n - i * per, count = left < per ? left : per;
        const size_t n_fill = is_absent(c->arg[1]) ? 0 : per - count;
        out->items[i] = part_make(r, q, i * per, count, c->arg[1], n_fill);
        if (is_error(out->items[i])) return value_error();
    }
    return jinja_seq_close(r, out);
}

struct value jinja_filter_slice(struct render *r, struct value self, const struct call *c) {
    int64_t slices = 0;
    const struct seq *q = jinja_iterate(r, self);
    if (!q || !jinja_arg_int(r, c, 0, &slices)) return value_error();
    if (slices < 1) return jinja_fail(r, "slice: the number of slices must be positive");
    struct seq *out = jinja_seq_new(r, SEQ_ITER, (size_t)slices);
    if (!out) return value_error();
    const size_t per = q->n / (size_t)slices, n_extra = q->n % (size_t)slices;
    size_t from = 0;
    for (size_t i = 0; i < (size_t)slices; i++) {
        const size_t n = per + (i < n_extra);
        const size_t n_fill = !is_absent(c->arg[1]) && i >= n_extra;
        out->items[i] = part_make(r, q, from, n, c->arg[1], n_fill);
        if (is_error(out->items[i])) return value_error();
        from += n;
    }
    return jinja_seq_close(r, out);
}

// --- map, select and their kin ---

static const struct value *named_arg(const struct args *args, const char *name) {
    for (size_t i = 0; i < args->n_named; i++) {
        if (str_equals(args->named[i].name, name)) return &args->named[i].value;
    }
    return NULL;
}

static struct value map_item(struct render *r, struct value item, const struct args *args) {
    const struct value *attribute = named_arg(args, "attribute");
    if (args->n_pos == 0 && attribute) {
        const struct value *fallback = named_arg(args, "default");
        return jinja_getpath(r, item, *attribute, fallback ? *fallback : value_missing());
    }
    struct args rest = *args;
    rest.pos++;
    rest.n_pos--;
    return jinja_call_named(r, &jinja_filters, args->pos[0], item, &rest);
}

struct value jinja_filter_map(struct render *r, struct value self, const struct call *c) {
    if (!jinja_is_true(self)) { // nothing to map, even for what cannot be walked
        struct seq *none = jinja_seq_new(r, SEQ_ITER, 0);
        return none ? value_seq(none) : value_error();
    }
    if (c->raw->n_pos == 0 && !named_arg(c->raw, "attribute")) {
        return jinja_fail(r, "map needs the name of a filter, or an attribute");
    }
    const struct seq *q = jinja_iterate(r, self);
    struct seq *out = q ? jinja_seq_new(r, SEQ_ITER, q->n) : NULL;
    if (!out) return value_error();
    for (size_t i = 0; i < q->n; i++) {
        if (!jinja_charge(r, 1)) return value_error();
        out->items[i] = map_item(r, q->items[i], c->raw);
        if (is_error(out->items[i])) return value_error();
    }
    return jinja_seq_close(r, out);
}

// Whether the item passes: its attribute (with_attr) through the test, or its truth without one.
static int item_passes(struct render *r, struct value item, const struct args *args,
                       bool with_attr) {
    struct args rest = *args;
    if (with_attr) {
        item = jinja_getpath(r, item, rest.pos[0], value_missing());
        if (is_error(item)) return -1;
        rest.pos++;
        rest.n_pos--;
    }
    if (rest.n_pos == 0) return jinja_is_true(item);
    const struct value name = rest.pos[0];
    rest.pos++;
    rest.n_pos--;
    const struct value v = jinja_call_named(r, &jinja_tests, name, item, &rest);
    return is_error(v) ? -1 : jinja_is_true(v);
}

static struct value select_items(struct render *r, struct value self, const struct call *c,
                                 bool with_attr, bool wanted) {
    if (with_attr && c->raw->n_pos == 0) return jinja_fail(r, "%s needs an attribute", c->name);
    const struct seq *q =
        jinja_is_true(self) ? jinja_iterate(r, self) : jinja_seq_new(r, SEQ_LIST, 0);
    struct seq *out = q ? jinja_seq_new(r, SEQ_ITER, q->n) : NULL;
    if (!out) return value_error();
    size_t n = 0;
    for (size_t i = 0; i < q->n; i++) {
        if (!jinja_charge(r, 1)) return value_error();
        const int passes = item_passes(r, q->items[i], c->raw, with_attr);
        if (passes < 0) return value_error();
        if ((passes != 0) == wanted) out->items[n++] = q->items[i];
    }
    out->n = n;
    return jinja_seq_close(r, out);
}

struct value jinja_filter_select(struct render *r, struct value self, const struct call *c) {
    return select_items(r, self, c, false, true);
}

struct value jinja_filter_reject(struct render *r, struct value self, const struct call *c) {
    return select_items(r, self, c, false, false);
}

struct value jinja_filter_selectattr(struct render *r, struct value self, const struct call *c) {
    return select_items(r, self, c, true, true);
}

struct value jinja_filter_rejectattr(struct render *r, struct value self, const struct call *c) {
    return select_items(r, self, c, true, false);
}
