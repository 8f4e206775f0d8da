// Filters that compare items: by themselves or by an attribute, text without regard to case unless
// case_sensitive. Sorting is a stable merge sort; every comparison is charged.
#include <string.h>

#include "jinja/filters.h"
#include "jinja/text.h"

static struct value key_fold(struct render *r, struct value v, bool is_case_sensitive) {
    if (v.kind != V_STR || is_case_sensitive) return v;
    return jinja_text_case(r, v.s, TEXT_LOWER);
}

static struct value key_of(struct render *r, struct value item, struct value path,
                           struct value fallback, bool is_case_sensitive) {
    const struct value v = jinja_getpath(r, item, path, fallback);
    return is_error(v) ? v : key_fold(r, v, is_case_sensitive);
}

// "a,b.c": a list of the keys of each path. One path gives a list of one: lists compare their items
// for equality first, so that equal items need no order.
static struct value keys_of(struct render *r, struct value item, struct value paths,
                            bool is_case_sensitive) {
    size_t n = 1;
    const size_t len = paths.kind == V_STR ? paths.s->len : 0;
    for (size_t i = 0; i < len; i++) n += paths.s->data[i] == ',';
    struct seq *keys = jinja_seq_new(r, SEQ_LIST, n);
    if (!keys) return value_error();
    if (n == 1) {
        keys->items[0] = key_of(r, item, paths, value_missing(), is_case_sensitive);
        return jinja_seq_close(r, keys);
    }
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        size_t to = from;
        while (to < paths.s->len && paths.s->data[to] != ',') to++;
        const struct value path = jinja_substr(r, paths.s, from, to);
        if (is_error(path)) return path;
        keys->items[i] = key_of(r, item, path, value_missing(), is_case_sensitive);
        from = to + 1;
    }
    return jinja_seq_close(r, keys);
}

// Merges the sorted runs [from, mid) and [mid, to). Of equals the left one comes first.
static bool runs_merge(struct render *r, struct value *from[2], struct value *to[2], size_t low,
                       size_t mid, size_t high, bool is_reverse) {
    size_t left = low, right = mid;
    for (size_t i = low; i < high; i++) {
        bool takes_right = left == mid;
        if (left < mid && right < high) {
            const struct value a = from[1][left], b = from[1][right];
            const int less = is_reverse ? jinja_less(r, a, b) : jinja_less(r, b, a);
            if (less < 0) return false;
            takes_right = less;
        }
        const size_t taken = takes_right ? right++ : left++;
        to[0][i] = from[0][taken];
        to[1][i] = from[1][taken];
    }
    return true;
}

bool jinja_sort(struct render *r, struct value *items, struct value *keys, size_t n,
                bool is_reverse) {
    struct value *here[2] = {items, keys};
    struct value *there[2] = {jinja_array(r, n, sizeof *items), jinja_array(r, n, sizeof *keys)};
    if (!there[0] || !there[1]) return false;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            const size_t mid = low + width < n ? low + width : n;
            const size_t high = mid + width < n ? mid + width : n;
            if (!runs_merge(r, here, there, low, mid, high, is_reverse)) return false;
        }
        for (int i = 0; i < 2; i++) {
            struct value *swap = here[i];
            here[i] = there[i];
            there[i] = swap;
        }
    }
    if (here[0] != items && n) {
        memcpy(items, here[0], n * sizeof *items);
        memcpy(keys, here[1], n * sizeof *keys);
    }
    return true;
}

// A copy of the items and their keys, to be sorted.
static struct seq *sortable(struct render *r, struct value self, struct value **keys) {
    const struct seq *q = jinja_iterate(r, self);
    struct seq *list = q ? jinja_seq_new(r, SEQ_LIST, q->n) : NULL;
    *keys = list ? jinja_array(r, q->n, sizeof **keys) : NULL;
    if (!*keys || !jinja_charge(r, q->n)) return NULL;
    for (size_t i = 0; i < q->n; i++) list->items[i] = q->items[i];
    return list;
}

struct value jinja_filter_sort(struct render *r, struct value self, const struct call *c) {
    bool is_reverse = false, is_case_sensitive = false;
    struct value *keys;
    struct seq *list = sortable(r, self, &keys);
    if (!list || !jinja_arg_bool(r, c, 0, &is_reverse) ||
        !jinja_arg_bool(r, c, 1, &is_case_sensitive)) {
        return value_error();
    }
    for (size_t i = 0; i < list->n; i++) {
        keys[i] = keys_of(r, list->items[i], c->arg[2], is_case_sensitive);
        if (is_error(keys[i])) return value_error();
    }
    if (!jinja_sort(r, list->items, keys, list->n, is_reverse)) return value_error();
    return jinja_seq_close(r, list);
}

struct value jinja_filter_dictsort(struct render *r, struct value self, const struct call *c) {
    bool is_case_sensitive = false, is_reverse = false;
    const struct str *by = NULL;
    if (!jinja_arg_bool(r, c, 0, &is_case_sensitive) || !jinja_arg_str(r, c, 1, &by) ||
        !jinja_arg_bool(r, c, 2, &is_reverse)) {
        return value_error();
    }
    if (self.kind != V_DICT) return jinja_fail(r, "dictsort needs a mapping");
    if (by && !str_equals(by, "key") && !str_equals(by, "value")) {
        return jinja_fail(r, "dictsort: by is \"key\" or \"value\"");
    }
    const bool by_value = by && str_equals(by, "value");
    struct seq *list = jinja_seq_new(r, SEQ_LIST, self.d->n);
    struct value *keys = list ? jinja_array(r, self.d->n, sizeof *keys) : NULL;
    if (!keys) return value_error();
    for (size_t i = 0; i < self.d->n; i++) {
        const struct dict_entry *entry = &self.d->entries[i];
        list->items[i] = jinja_pair(r, entry->key, entry->value);
        keys[i] = key_fold(r, by_value ? entry->value : entry->key, is_case_sensitive);
        if (is_error(list->items[i]) || is_error(keys[i])) return value_error();
    }
    if (!jinja_sort(r, list->items, keys, list->n, is_reverse)) return value_error();
    return jinja_seq_close(r, list);
}

struct value jinja_filter_unique(struct render *r, struct value self, const struct call *c) {
    bool is_case_sensitive = false;
    const struct seq *q = jinja_iterate(r, self);
    struct seq *out = q ? jinja_seq_new(r, SEQ_ITER, q->n) : NULL;
    struct dict *seen = out ? jinja_dict_new(r, 8) : NULL;
    if (!seen || !jinja_arg_bool(r, c, 0, &is_case_sensitive)) return value_error();
    size_t n = 0;
    for (size_t i = 0; i < q->n; i++) {
        const struct value key =
            key_of(r, q->items[i], c->arg[1], value_missing(), is_case_sensitive);
        const size_t before = seen->n;
        if (is_error(key) || !jinja_dict_set(r, seen, key, value_none())) return value_error();
        if (seen->n > before) out->items[n++] = q->items[i];
    }
    out->n = n;
    return jinja_seq_close(r, out);
}

static struct value extreme(struct render *r, struct value self, const struct call *c,
                            bool is_max) {
    bool is_case_sensitive = false;
    const struct seq *q = jinja_iterate(r, self);
    if (!q || !jinja_arg_bool(r, c, 0, &is_case_sensitive)) return value_error();
    if (q->n == 0) {
        return jinja_undefined(r, UNDEFINED_HINT, "no aggregated item, the sequence is empty");
    }
    size_t best = 0;
    struct value best_key = value_none();
    for (size_t i = 0; i < q->n; i++) {
        const struct value key =
            key_of(r, q->items[i], c->arg[1], value_missing(), is_case_sensitive);
        if (is_error(key)) return key;
        int is_better = 1;
        if (i) is_better = is_max ? jinja_less(r, best_key, key) : jinja_less(r, key, best_key);
        if (is_better < 0) return value_error();
        if (is_better) {
            best = i;
            best_key = key;
        }
    }
    return q->items[best];
}

struct value jinja_filter_max(struct render *r, struct value self, const struct call *c) {
    return extreme(r, self, c, true);
}

struct value jinja_filter_min(struct render *r, struct value self, const struct call *c) {
    return extreme(r, self, c, false);
}

// One group of sorted items; its name is the first item's own key, not the folded one.
static struct value group_make(struct render *r, const struct seq *list, size_t from, size_t to,
                               const struct call *c) {
    struct seq *members = jinja_seq_new(r, SEQ_LIST, to - from);
    struct seq *group = members ? jinja_seq_new(r, SEQ_GROUP, 2) : NULL;
    if (!group) return value_error();
    for (size_t i = from; i < to; i++) members->items[i - from] = list->items[i];
    group->items[0] = jinja_getpath(r, list->items[from], c->arg[0], c->arg[1]);
    group->items[1] = jinja_seq_close(r, members);
    return jinja_seq_close(r, group);
}

struct value jinja_filter_groupby(struct render *r, struct value self, const struct call *c) {
    bool is_case_sensitive = false;
    struct value *keys;
    struct seq *list = sortable(r, self, &keys);
    if (!list || !jinja_arg_bool(r, c, 2, &is_case_sensitive)) return value_error();
    for (size_t i = 0; i < list->n; i++) {
        keys[i] = key_of(r, list->items[i], c->arg[0], c->arg[1], is_case_sensitive);
        if (is_error(keys[i])) return value_error();
    }
    if (!jinja_sort(r, list->items, keys, list->n, false)) return value_error();
    struct seq *out = jinja_seq_new(r, SEQ_LIST, list->n);
    if (!out) return value_error();
    size_t n = 0;
    for (size_t from = 0, to; from < list->n; from = to) {
        for (to = from + 1; to < list->n; to++) {
            const int equal = jinja_equal(r, keys[from], keys[to]);
            if (equal < 0) return value_error();
            if (!equal) break;
        }
        out->items[n] = group_make(r, list, from, to, c);
        if (is_error(out->items[n++])) return value_error();
    }
    out->n = n;
    return jinja_seq_close(r, out);
}
