// The owner of a request is its API key. What a request leaves behind belongs to its owner: kept
// responses, records, slots and their saved names. An owner is a hash of the key, so it stays the
// same after a restart and with other keys beside it. No client sees it, and gate_key makes it.
#ifndef RN_SERVER_OWNER_H
#define RN_SERVER_OWNER_H

#include <stdbool.h>
#include <stdint.h>

struct owner {
    uint64_t hash; // 0: the server has no keys, so all requests have one owner
};

static inline bool owner_is(struct owner a, struct owner b) { return a.hash == b.hash; }

#endif
