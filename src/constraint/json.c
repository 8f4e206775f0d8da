// JSON values from a pull reader. The reader bounds the depth, so reading may recurse.
#include "constraint/json.h"

#include <stdlib.h>
#include <string.h>

static struct json *read_value(struct grammar *g, struct jread *r);

static bool read_text(struct grammar *g, const struct jread_text *text, const char **out,
                      size_t *len) {
    char *copy = grammar_alloc(g, text->len + 1, 1);
    if (!copy) return false;
    *len = jread_unescape(text, copy);
    *out = copy;
    return true;
}

static bool read_items(struct grammar *g, struct jread *r, struct json *json) {
    size_t capacity = 0;
    if (!jread_enter_array(r)) return false;
    while (jread_next_item(r)) {
        if (json->len == capacity) {
            capacity = capacity ? 2 * capacity : 8;
            struct json **grown = grammar_alloc(g, capacity, sizeof *grown);
            if (!grown) return false;
            if (json->len) memcpy(grown, json->item, json->len * sizeof *grown);
            json->item = grown;
        }
        struct json *value = read_value(g, r);
        if (!value) return false;
        json->item[json->len++] = value;
    }
    return !r->error;
}

uint64_t json_key_hash(const char *key, size_t len) {
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < len; i++) h = (h ^ (uint8_t)key[i]) * 0x100000001B3u;
    return h ^ h >> 29;
}

// The slot of a key, or a free one. *steps grows by the slots that were looked at.
static uint32_t *slot_of(const struct json *json, const char *key, size_t len, uint64_t *steps) {
    uint64_t at = json_key_hash(key, len) & (json->n_slot - 1);
    for (++*steps; json->slot[at]; at = (at + 1) & (json->n_slot - 1), ++*steps) {
        const struct json_member *member = &json->member[json->slot[at] - 1];
        if (member->len == len && memcmp(member->key, key, len) == 0) break;
    }
    return &json->slot[at];
}

// Schemas are asked for dozens of keywords, so objects with many members have a table of them.
static bool index_members(struct grammar *g, struct json *json) {
    enum { FEW = 16 };
    if (json->len <= FEW) return true;
    json->n_slot = 4 * FEW;
    while (json->n_slot < 2 * json->len) json->n_slot *= 2;
    json->slot = grammar_alloc(g, json->n_slot, sizeof *json->slot);
    for (size_t i = 0; json->slot && i < json->len; i++) {
        uint64_t steps = 0;
        *slot_of(json, json->member[i].key, json->member[i].len, &steps) = (uint32_t)i + 1;
        if (!grammar_work(g, steps)) return false;
    }
    return json->slot;
}

static bool read_members(struct grammar *g, struct jread *r, struct json *json) {
    size_t capacity = 0;
    struct jread_text key;
    if (!jread_enter_object(r)) return false;
    while (jread_next_key(r, &key)) {
        if (json->len == capacity) {
            capacity = capacity ? 2 * capacity : 8;
            struct json_member *grown = grammar_alloc(g, capacity, sizeof *grown);
            if (!grown) return false;
            if (json->len) memcpy(grown, json->member, json->len * sizeof *grown);
            json->member = grown;
        }
        struct json_member *member = &json->member[json->len];
        if (!read_text(g, &key, &member->key, &member->len)) return false;
        member->value = read_value(g, r);
        if (!member->value) return false;
        json->len++;
    }
    return !r->error && index_members(g, json);
}

static bool read_kind(struct grammar *g, struct jread *r, struct json *json) {
    struct jread_text text;
    switch (json->kind) {
    case JREAD_NULL:
        return jread_null(r);
    case JREAD_BOOL:
        return jread_bool(r, &json->boolean);
    case JREAD_NUMBER:
        return jread_raw(r, &json->text, &json->len);
    case JREAD_STRING:
        return jread_string(r, &text) && read_text(g, &text, &json->text, &json->len);
    case JREAD_ARRAY:
        return read_items(g, r, json);
    case JREAD_OBJECT:
        return read_members(g, r, json);
    case JREAD_ERROR:
        break;
    }
    return false;
}

static struct json *read_value(struct grammar *g, struct jread *r) {
    struct json *json = grammar_alloc(g, 1, sizeof *json);
    if (!json) return NULL;
    json->kind = jread_peek(r);
    return read_kind(g, r, json) ? json : NULL;
}

struct json *json_read(struct grammar *g, const char *name, const char *text, size_t len) {
    struct jread r;
    char *copy = grammar_alloc(g, len + 1, 1); // numbers are borrowed
    if (!copy || !grammar_work(g, len)) return NULL;
    if (len) memcpy(copy, text, len);
    jread_init(&r, copy, len);
    struct json *json = read_value(g, &r);
    if (json && jread_finish(&r)) return json;
    if (r.error) grammar_fail(g, RN_ERR_ARG, "%s: offset %zu: %s", name, r.error_at, r.error);
    return NULL;
}

const struct json *json_find(const struct json *json, const char *key, size_t len) {
    if (!json || json->kind != JREAD_OBJECT) return NULL;
    if (json->slot) {
        uint64_t steps = 0;
        const uint32_t found = *slot_of(json, key, len, &steps);
        return found ? json->member[found - 1].value : NULL;
    }
    for (size_t i = json->len; i-- > 0;)
        if (json->member[i].len == len && memcmp(json->member[i].key, key, len) == 0)
            return json->member[i].value;
    return NULL;
}

const struct json *json_get(const struct json *json, const char *key) {
    return json_find(json, key, strlen(key));
}

bool json_is(const struct json *json, const char *text) {
    return json && json->kind == JREAD_STRING && json->len == strlen(text) &&
           memcmp(json->text, text, json->len) == 0;
}

static bool members_equal(struct grammar *g, const struct json *a, const struct json *b) {
    if (a->len != b->len || !grammar_work(g, 4 * a->len)) return false;
    for (size_t i = 0; i < a->len; i++) {
        const struct json *other = json_find(b, a->member[i].key, a->member[i].len);
        if (!other || !json_same(g, a->member[i].value, other)) return false;
    }
    return true;
}

bool json_same(struct grammar *g, const struct json *a, const struct json *b) {
    const bool has_text = a->kind == JREAD_STRING || a->kind == JREAD_NUMBER;
    if (a->kind != b->kind || !grammar_work(g, 1 + (has_text ? a->len / 16 : 0))) return false;
    switch (a->kind) {
    case JREAD_BOOL:
        return a->boolean == b->boolean;
    case JREAD_NUMBER: // a blank or a comma stands behind the digits
        return strtod(a->text, NULL) == strtod(b->text, NULL);
    case JREAD_STRING:
        return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
    case JREAD_ARRAY:
        if (a->len != b->len) return false;
        for (size_t i = 0; i < a->len; i++)
            if (!json_same(g, a->item[i], b->item[i])) return false;
        return true;
    case JREAD_OBJECT:
        return members_equal(g, a, b);
    case JREAD_NULL:
    case JREAD_ERROR:
        break;
    }
    return a->kind == JREAD_NULL;
}
