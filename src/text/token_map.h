// From a string to the id of the token that has it. Borrows the strings. A string that several ids
// have belongs to the first one put, so callers put in rising order of ids.
// The hash is a polynomial in a secret base, so that no file and no text can be made to collide.
// The hash of any part of a text follows from those of its prefixes (spm.c).
#ifndef RN_TEXT_TOKEN_MAP_H
#define RN_TEXT_TOKEN_MAP_H

#include "text/tokenizer.h"

struct token_map_slot {
    uint64_t hash;
    int32_t id; // -1: free
};

struct token_map {
    const struct text_span *token; // [n_token] the strings, by id
    struct token_map_slot *slot;   // [mask + 1], a power of two, at most half of them taken
    size_t mask;
    uint64_t base;  // of the polynomial
    uint64_t mixer; // from the hash to the slot
};

rn_status token_map_init(struct token_map *map, const struct text_span *token, int32_t n_token);
void token_map_deinit(struct token_map *map); // also of a zeroed map
void token_map_put(struct token_map *map, int32_t id);

// The id whose string is head and then tail, or -1. Two parts, so that a merge's result is found
// without joining the strings.
int32_t token_map_find(const struct token_map *map, struct text_span head, struct text_span tail);

// The same for a text whose hash is known.
int32_t token_map_find_hash(const struct token_map *map, uint64_t hash, struct text_span text);

// --- the polynomial, modulo the prime 2^61 - 1: hash(text + byte) = hash(text) * base + byte + 1
// ---

#define TOKEN_MAP_PRIME ((UINT64_C(1) << 61) - 1)

static inline uint64_t token_map_multiply(uint64_t a, uint64_t b) {
    const unsigned __int128 product = (unsigned __int128)a * b;
    const uint64_t sum = (uint64_t)(product & TOKEN_MAP_PRIME) + (uint64_t)(product >> 61);
    return sum >= TOKEN_MAP_PRIME ? sum - TOKEN_MAP_PRIME : sum;
}

static inline uint64_t token_map_hash_add(const struct token_map *map, uint64_t hash,
                                          uint8_t byte) {
    const uint64_t next = token_map_multiply(hash, map->base) + byte + 1;
    return next >= TOKEN_MAP_PRIME ? next - TOKEN_MAP_PRIME : next;
}

#endif
