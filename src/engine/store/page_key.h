// The names of stored pages. A name is the hash of all that determines a page's bytes, as a chain:
// the root has the model, the arithmetic, the layout and the KV type; then comes the salt of the
// request; then each block of tokens continues the name of the block before it. So nobody reads a
// page of another model, another version or another tenant. SHA-256, because clients choose tokens:
// no two chains that anybody can find have one name.
#ifndef RN_ENGINE_STORE_PAGE_KEY_H
#define RN_ENGINE_STORE_PAGE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/sha256.h"

enum { PAGE_KEY_VERSION = 1 };

struct page_key {
    uint8_t at[SHA256_BYTES];
};

static inline bool page_key_equal(const struct page_key *a, const struct page_key *b) {
    return memcmp(a->at, b->at, sizeof a->at) == 0;
}

// A page: its key, and the group of layers that it is of.
struct page_name {
    struct page_key key;
    int group;
};

// hash: of the model's files; identity: the rest, as text.
struct page_key page_key_root(const uint8_t *hash, size_t n_hash, const char *identity);
struct page_key page_key_salt(const struct page_key *root, const void *salt, size_t n_salt);
// token: [n_token], a block or the start of one.
struct page_key page_key_block(const struct page_key *parent, const int32_t *token, int n_token);

#endif
