// Methods of lists, tuples and dictionaries. Those that would change their object are rows without
// a function: the sandbox has them as undefined.
#include "jinja/render.h"

static struct value list_count(struct render *r, struct value self, const struct call *c) {
    int64_t count = 0;
    for (size_t i = 0; i < self.q->n; i++) {
        const int equal = jinja_equal(r, self.q->items[i], c->arg[0]);
        if (equal < 0) return value_error();
        count += equal;
    }
    return value_int(count);
}

static int64_t index_clip(int64_t i, int64_t n) {
    if (i < 0) i = i < -n ? 0 : i + n;
    return i > n ? n : i;
}

static struct value list_index(struct render *r, struct value self, const struct call *c) {
    int64_t start = 0, stop = INT64_MAX;
    const int64_t n = (int64_t)self.q->n;
    if (!jinja_arg_int(r, c, 1, &start) || !jinja_arg_int(r, c, 2, &stop)) return value_error();
    start = index_clip(start, n);
    stop = index_clip(stop, n);
    for (int64_t i = start; i < stop; i++) {
        const int equal = jinja_equal(r, self.q->items[i], c->arg[0]);
        if (equal < 0) return value_error();
        if (equal) return value_int(i);
    }
    return jinja_fail(r, "the value is not in the list");
}

static struct value list_copy(struct render *r, struct value self, const struct call *c) {
    (void)c;
    return jinja_getslice(r, self, value_none(), value_none(), value_none());
}

static const struct entry list_methods[] = {
    {"append", NULL, "", 0},    {"clear", NULL, "", 0},
    {"copy", list_copy, "", 0}, {"count", list_count, "value", 1},
    {"extend", NULL, "", 0},    {"index", list_index, "value start stop", 1},
    {"insert", NULL, "", 0},    {"pop", NULL, "", 0},
    {"remove", NULL, "", 0},    {"reverse", NULL, "", 0},
    {"sort", NULL, "", 0},
};
const struct table jinja_list_methods = {list_methods,
                                         sizeof list_methods / sizeof list_methods[0]};

static const struct entry tuple_methods[] = {
    {"count", list_count, "value", 1},
    {"index", list_index, "value start stop", 1},
};
const struct table jinja_tuple_methods = {tuple_methods,
                                          sizeof tuple_methods / sizeof tuple_methods[0]};

static struct value dict_get(struct render *r, struct value self, const struct call *c) {
    const struct value *found = jinja_dict_find(r, self.d, c->arg[0]);
    if (found) return *found;
    uint64_t hash;
    if (!jinja_hash(r, c->arg[0], &hash)) {
        return jinja_fail(r, "'%s' cannot be a key", jinja_type_name(c->arg[0]));
    }
    if (r->status != RN_OK) return value_error();
    return is_missing(c->arg[1]) ? value_none() : c->arg[1];
}

static struct value dict_walk(struct render *r, const struct dict *d, enum seq_flavor flavor) {
    struct seq *q = jinja_seq_new(r, flavor, d->n);
    if (!q || !jinja_charge(r, d->n)) return value_error();
    for (size_t i = 0; i < d->n; i++) {
        const struct dict_entry *entry = &d->entries[i];
        q->items[i] = flavor == SEQ_KEYS     ? entry->key
                      : flavor == SEQ_VALUES ? entry->value
                                             : jinja_pair(r, entry->key, entry->value);
    }
    return jinja_seq_close(r, q);
}

static struct value dict_items(struct render *r, struct value self, const struct call *c) {
    (void)c;
    return dict_walk(r, self.d, SEQ_ITEMS);
}

static struct value dict_keys(struct render *r, struct value self, const struct call *c) {
    (void)c;
    return dict_walk(r, self.d, SEQ_KEYS);
}

static struct value dict_values(struct render *r, struct value self, const struct call *c) {
    (void)c;
    return dict_walk(r, self.d, SEQ_VALUES);
}

// Nothing changes a dictionary, so it is its own copy.
static struct value dict_copy(struct render *r, struct value self, const struct call *c) {
    (void)r, (void)c;
    return self;
}

static const struct entry dict_methods[] = {
    {"clear", NULL, "", 0},
    {"copy", dict_copy, "", 0},
    {"get", dict_get, "key default", 1},
    {"items", dict_items, "", 0},
    {"keys", dict_keys, "", 0},
    {"pop", NULL, "", 0},
    {"popitem", NULL, "", 0},
    {"setdefault", NULL, "", 0},
    {"update", NULL, "", 0},
    {"values", dict_values, "", 0},
};
const struct table jinja_dict_methods = {dict_methods,
                                         sizeof dict_methods / sizeof dict_methods[0]};
