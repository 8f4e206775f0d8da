// JSON values in the memory of a grammar, read by base/jread.h: members keep their order, numbers
// keep their text.
#ifndef RN_CONSTRAINT_JSON_H
#define RN_CONSTRAINT_JSON_H

#include "base/jread.h"
#include "constraint/grammar.h"

struct json {
    enum jread_kind kind;
    bool boolean;
    const char *text; // of a string, without escapes; of a number, as it is written
    size_t len;       // of the text; members; items
    struct json_member *member;
    struct json **item;
    uint32_t *slot, n_slot; // members by their key: index + 1; NULL: few members
};

struct json_member {
    const char *key;
    size_t len;
    struct json *value;
};

// NULL: an error of the grammar, whose message starts with the name.
struct json *json_read(struct grammar *g, const char *name, const char *text, size_t len);

uint64_t json_key_hash(const char *key, size_t len);
// NULL where the value is no object or has no such member. Of several the last one.
const struct json *json_get(const struct json *json, const char *key);
const struct json *json_find(const struct json *json, const char *key, size_t len);
bool json_is(const struct json *json, const char *text); // a string
// Deep equality, numbers by value; objects by their members in any order.
bool json_same(struct grammar *g, const struct json *a, const struct json *b);

#endif
