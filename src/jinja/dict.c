// Dictionaries: entries in order of insertion, found by a walk. Objects of chats have few members;
// the walk through a large one is charged, so a huge one runs into the limit of steps.
#include "jinja/render.h"
#include "jinja/text.h"

bool jinja_is_key(struct render *r, struct value v) {
    jinja_charge(r, 1); // tuples of tuples are walked as often as they are shared
    if (v.kind == V_DICT) return false;
    if (v.kind != V_SEQ) return true;
    if (v.q->flavor != SEQ_TUPLE && v.q->flavor != SEQ_RANGE) return false;
    for (size_t i = 0; i < v.q->n; i++) {
        if (!jinja_is_key(r, v.q->items[i])) return false;
    }
    return true;
}

struct dict *jinja_dict_new(struct render *r, size_t cap) {
    struct dict *d = jinja_alloc(r, sizeof *d);
    d->entries = jinja_array(r, cap, sizeof *d->entries);
    d->cap = cap;
    d->depth = 1;
    return d;
}

struct value *jinja_dict_find(struct render *r, const struct dict *d, struct value key) {
    if (key.kind == V_STR) return jinja_dict_find_str(r, d, key.s);
    for (size_t i = 0; i < d->n; i++) {
        if (jinja_equal(r, d->entries[i].key, key)) return &d->entries[i].value;
    }
    return NULL;
}

struct value *jinja_dict_find_str(struct render *r, const struct dict *d, const struct str *key) {
    jinja_charge(r, d->n / 16);
    for (size_t i = 0; i < d->n; i++) {
        const struct value k = d->entries[i].key;
        if (k.kind != V_STR || k.s->len != key->len) continue;
        if (key->len > 64) jinja_work(r, key->len);
        if (str_same(k.s, key)) return &d->entries[i].value;
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

static void depth_add(struct render *r, struct dict *d, struct value v) {
    if (d == r->globals) return; // which no value holds
    const int inner = v.kind == V_SEQ ? v.q->depth : v.kind == V_DICT ? v.d->depth : 0;
    if (inner >= TEMPLATE_MAX_DEPTH) {
        jinja_fail(r, "values are nested deeper than %d", TEMPLATE_MAX_DEPTH);
    }
    if (inner + 1 > d->depth) d->depth = (uint8_t)(inner + 1);
}

void jinja_dict_set(struct render *r, struct dict *d, struct value key, struct value value) {
    if (!jinja_is_key(r, key)) jinja_fail(r, "'%s' cannot be a key", jinja_type_name(key));
    depth_add(r, d, value);
    depth_add(r, d, key);
    struct value *old = jinja_dict_find(r, d, key);
    if (old) {
        *old = value;
        return;
    }
    if (d->n == d->cap) {
        d->entries = jinja_array_grow(r, d->entries, d->n, &d->cap, sizeof *d->entries);
    }
    d->entries[d->n++] = (struct dict_entry){key, value};
}
