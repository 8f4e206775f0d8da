// Dictionaries: entries in order of insertion, found by a walk when few and by an index of hashes
// when many. Nothing is ever removed. The work of finding is charged, so keys made to collide run
// into the limit of steps.
#include <math.h>
#include <string.h>

#include "jinja/render.h"
#include "jinja/text.h"

enum { INDEX_FROM = 8 }; // entries; below it a walk is as fast

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

static uint64_t hash_bytes(const char *data, size_t len) {
    uint64_t hash = 0xcbf29ce484222325u ^ len;
    for (; len >= 8; data += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, data, sizeof word);
        hash = mix(hash, word);
    }
    uint64_t rest = 0;
    if (len) memcpy(&rest, data, len);
    return mix(hash, rest);
}

// Numbers that are equal hash alike whatever their kind.
static uint64_t hash_number(struct value v) {
    if (is_int(v)) return mix(1, (uint64_t)int_of(v));
    if (v.f == floor(v.f) && fabs(v.f) < 0x1p63) return mix(1, (uint64_t)(int64_t)v.f);
    uint64_t bits;
    memcpy(&bits, &v.f, sizeof bits);
    return mix(2, bits);
}

bool jinja_hash(struct render *r, struct value v, uint64_t *out) {
    switch (v.kind) {
    case V_STR:
    case V_BIG:
        jinja_work(r, v.s->len);
        *out = hash_bytes(v.s->data, v.s->len);
        return true;
    case V_BOOL:
    case V_INT:
    case V_FLOAT:
        *out = hash_number(v);
        return true;
    case V_NONE:
    case V_UNDEFINED:
        *out = mix(3, v.kind);
        return true;
    case V_DICT:
        return false;
    case V_SEQ:
        if (v.q->flavor != SEQ_TUPLE && v.q->flavor != SEQ_RANGE) return false;
        *out = v.q->n;
        for (size_t i = 0; i < v.q->n; i++) {
            uint64_t item;
            jinja_charge(r, 1);
            if (!jinja_hash(r, v.q->items[i], &item)) return false;
            *out = mix(*out, item);
        }
        return true;
    default:
        *out = mix(4, (uint64_t)(uintptr_t)v.d);
        return true;
    }
}

struct dict *jinja_dict_new(struct render *r, size_t cap) {
    struct dict *d = jinja_alloc(r, sizeof *d);
    d->entries = jinja_array(r, cap, sizeof *d->entries);
    d->cap = cap;
    d->depth = 1;
    return d;
}

static struct value *find_hashed(struct render *r, const struct dict *d, struct value key,
                                 uint64_t hash) {
    const size_t mask = d->index_size - 1;
    for (size_t slot = hash & mask; d->index[slot]; slot = (slot + 1) & mask) {
        struct dict_entry *entry = &d->entries[d->index[slot] - 1];
        if (jinja_equal(r, entry->key, key)) return &entry->value;
    }
    return NULL;
}

struct value *jinja_dict_find(struct render *r, const struct dict *d, struct value key) {
    uint64_t hash;
    if (!jinja_hash(r, key, &hash)) return NULL;
    if (d->index) return find_hashed(r, d, key, hash);
    for (size_t i = 0; i < d->n; i++) {
        if (jinja_equal(r, d->entries[i].key, key)) return &d->entries[i].value;
    }
    return NULL;
}

// Without charges for each entry: the few of a small one cost less than the node that asks.
struct value *jinja_dict_find_str(struct render *r, const struct dict *d, const struct str *key) {
    if (d->index) {
        return find_hashed(r, d, value_str((struct str *)key), hash_bytes(key->data, key->len));
    }
    for (size_t i = 0; i < d->n; i++) {
        const struct value k = d->entries[i].key;
        if (k.kind == V_STR && str_same(k.s, key)) return &d->entries[i].value;
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

static void index_add(struct dict *d, size_t entry, uint64_t hash) {
    const size_t mask = d->index_size - 1;
    size_t slot = hash & mask;
    while (d->index[slot]) slot = (slot + 1) & mask;
    d->index[slot] = (uint32_t)entry + 1;
}

// At least twice as many slots as entries; made again when it would be too full.
static void index_grow(struct render *r, struct dict *d) {
    if (d->n < INDEX_FROM || d->n * 2 < d->index_size) return;
    const size_t size = d->index_size ? d->index_size * 2 : INDEX_FROM * 4;
    jinja_charge(r, d->n);
    d->index = jinja_array(r, size, sizeof *d->index);
    d->index_size = size;
    for (size_t i = 0; i < d->n; i++) {
        uint64_t hash = 0;
        jinja_hash(r, d->entries[i].key, &hash);
        index_add(d, i, hash);
    }
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
    uint64_t hash;
    if (!jinja_hash(r, key, &hash)) jinja_fail(r, "'%s' cannot be a key", jinja_type_name(key));
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
    index_grow(r, d);
    if (d->index) index_add(d, d->n, hash);
    d->entries[d->n++] = (struct dict_entry){key, value};
}
