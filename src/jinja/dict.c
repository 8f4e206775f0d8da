// Dictionaries: entries in order of insertion. Few entries are found by a walk. A dictionary that
// grows past WALK_MAX gets a hash table of its entries, open addressing with linear steps. Only
// strings are hashed: all other keys share a hash. Every comparison is charged, so keys that are
// chosen to collide run into the limit of steps.
#include "jinja/render.h"
#include "jinja/text.h"

enum { WALK_MAX = 8 };

static bool is_key(struct render *r, struct value v) {
    jinja_charge(r, 1); // tuples of tuples are walked as often as they are shared
    if (v.kind == V_DICT) return false;
    if (v.kind != V_SEQ) return true;
    if (v.q->flavor != SEQ_TUPLE && v.q->flavor != SEQ_RANGE) return false;
    for (size_t i = 0; i < v.q->n; i++) {
        if (!is_key(r, v.q->items[i])) return false;
    }
    return true;
}

void jinja_check_key(struct render *r, struct value v) {
    if (!is_key(r, v)) jinja_fail(r, "'%s' cannot be a key", jinja_type_name(v));
}

struct dict *jinja_dict_new(struct render *r) {
    struct dict *d = jinja_alloc(r, sizeof *d);
    d->depth = 1;
    return d;
}

static bool keys_equal(struct render *r, struct value a, struct value b) {
    if (a.kind != V_STR || b.kind != V_STR) return jinja_equal(r, a, b);
    const bool may_be = a.s->len == b.s->len;
    jinja_work(r, JINJA_STEP_BYTES / 32 + (may_be ? a.s->len : 0));
    return may_be && str_same(a.s, b.s);
}

// FNV-1a.
static size_t hash_of(struct render *r, struct value key) {
    uint32_t hash = 2166136261;
    if (key.kind != V_STR) return hash;
    jinja_work_chars(r, key.s->len);
    for (size_t i = 0; i < key.s->len; i++) hash = (hash ^ (uint8_t)key.s->data[i]) * 16777619;
    return hash;
}

// The slot of the key, or the free one where it belongs.
static uint32_t *slot_find(struct render *r, const struct dict *d, struct value key) {
    const size_t mask = 2 * d->cap - 1;
    size_t at = hash_of(r, key) & mask;
    while (d->slots[at] && !keys_equal(r, d->entries[d->slots[at] - 1].key, key)) {
        jinja_work(r, JINJA_STEP_BYTES / 4); // rare unless the keys were chosen to collide
        at = (at + 1) & mask;
    }
    return &d->slots[at];
}

struct value *jinja_dict_find(struct render *r, const struct dict *d, struct value key) {
    if (d->slots) {
        const uint32_t number = *slot_find(r, d, key);
        return number ? &d->entries[number - 1].value : NULL;
    }
    for (size_t i = 0; i < d->n; i++) {
        if (keys_equal(r, d->entries[i].key, key)) return &d->entries[i].value;
    }
    return NULL;
}

struct value *value_member(struct value v, const char *name) {
    for (size_t i = 0; v.kind == V_DICT && i < v.d->n; i++) {
        const struct value key = v.d->entries[i].key;
        if (key.kind == V_STR && str_equals(key.s, name)) return &v.d->entries[i].value;
    }
    return NULL;
}

static void grow(struct render *r, struct dict *d) {
    d->entries = jinja_array_grow(r, d->entries, d->n, &d->cap, sizeof *d->entries);
    if (d->cap <= WALK_MAX) return;
    d->slots = jinja_array(r, 2 * d->cap, sizeof *d->slots);
    for (size_t i = 0; i < d->n; i++) {
        *slot_find(r, d, d->entries[i].key) = (uint32_t)i + 1;
    }
}

void jinja_dict_put(struct render *r, struct dict *d, struct value key, struct value value) {
    struct value *old = jinja_dict_find(r, d, key);
    if (old) {
        *old = value;
        return;
    }
    if (d->n == d->cap) grow(r, d);
    d->entries[d->n++] = (struct dict_entry){key, value};
    if (d->slots) *slot_find(r, d, key) = (uint32_t)d->n;
}

void jinja_dict_set(struct render *r, struct dict *d, struct value key, struct value value) {
    jinja_check_key(r, key);
    d->depth = jinja_depth_with(r, d->depth, key);
    d->depth = jinja_depth_with(r, d->depth, value);
    jinja_dict_put(r, d, key, value);
}

struct value jinja_dict_view(struct render *r, const struct dict *d, enum seq_flavor flavor) {
    struct seq *q = jinja_seq_new(r, flavor, d->n);
    jinja_charge(r, d->n);
    for (size_t i = 0; i < d->n; i++) {
        const struct dict_entry *entry = &d->entries[i];
        q->items[i] = flavor == SEQ_KEYS     ? entry->key
                      : flavor == SEQ_VALUES ? entry->value
                                             : jinja_pair(r, entry->key, entry->value);
    }
    return jinja_seq_close(r, q);
}
