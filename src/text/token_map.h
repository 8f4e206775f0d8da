// From a token's string to its id, while a tokenizer is being made. Borrows the strings. A string
// that several ids have belongs to the first one put, so callers put in rising order of ids.
#ifndef RN_TEXT_TOKEN_MAP_H
#define RN_TEXT_TOKEN_MAP_H

#include "text/tokenizer.h"

struct token_map_slot {
    uint64_t hash;
    int32_t id; // -1: free
};

struct token_map {
    const struct text_span *token; // [n_token], what ids refer to
    struct token_map_slot *slot;   // [mask + 1], a power of two, at most half of them taken
    size_t mask;
    uint64_t seed; // of the hash, so that no file can be made to collide
};

rn_status token_map_init(struct token_map *map, const struct text_span *token, int32_t n_token);
void token_map_deinit(struct token_map *map);
void token_map_put(struct token_map *map, int32_t id);

// The id whose string is head and then tail, or -1. Two parts, so that a merge's result is found
// without joining the strings.
int32_t token_map_find(const struct token_map *map, struct text_span head, struct text_span tail);

#endif
