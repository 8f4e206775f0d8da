// The owner of a request is its API key. What a request leaves behind belongs to its owner: kept
// responses, records, slots and their saved names. An owner is a hash of the key, so it stays the
// same after a restart and with other keys beside it. No client sees it, and gate_key makes it.
#ifndef RN_SERVER_OWNER_H
#define RN_SERVER_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct owner {
    uint64_t hash; // 0: the server has no keys, so all requests have one owner
};

static inline bool owner_is(struct owner a, struct owner b) { return a.hash == b.hash; }

// The owner's name for the engine; NULL if the server has no keys.
enum { OWNER_NAME = 17 };
static inline const char *owner_name(struct owner owner, char out[OWNER_NAME]) {
    if (!owner.hash) return NULL;
    snprintf(out, OWNER_NAME, "%016llx", (unsigned long long)owner.hash);
    return out;
}

#endif
