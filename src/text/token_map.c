// Open addressing with linear probing; strings are compared where the hashes are equal.
#include "text/token_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/entropy.h"

static uint64_t hash_add(const struct token_map *map, uint64_t hash, struct text_span part) {
    for (size_t i = 0; i < part.len; i++)
        hash = token_map_hash_add(map, hash, (uint8_t)part.data[i]);
    return hash;
}

static bool part_equal(const char *data, struct text_span part) {
    return part.len == 0 || memcmp(data, part.data, part.len) == 0;
}

static bool joined_equal(struct text_span whole, struct text_span head, struct text_span tail) {
    return whole.len >= head.len && whole.len - head.len == tail.len &&
           part_equal(whole.data, head) &&
           (tail.len == 0 || part_equal(whole.data + head.len, tail));
}

// The slot that holds the string, or the free one where it would be.
static struct token_map_slot *probe(const struct token_map *map, uint64_t hash,
                                    struct text_span head, struct text_span tail) {
    size_t at = (hash * map->mixer) >> 32 & map->mask;
    for (;; at = (at + 1) & map->mask) {
        struct token_map_slot *const slot = &map->slot[at];
        if (slot->id < 0) return slot;
        if (slot->hash == hash && joined_equal(map->token[slot->id], head, tail)) return slot;
    }
}

rn_status token_map_init(struct token_map *map, const struct text_span *token, int32_t n_token) {
    assert(n_token >= 0);
    size_t size = 16;
    while (size < 2 * (size_t)n_token) size *= 2;
    struct token_map_slot *const slot = calloc(size, sizeof *slot);
    if (!slot) return RN_ERR_NOMEM;
    for (size_t i = 0; i < size; i++) slot[i].id = -1;
    *map = (struct token_map){.token = token, .slot = slot, .mask = size - 1};
    map->base = entropy_u64() % (TOKEN_MAP_PRIME - 1024) + 512; // not a small one
    map->mixer = entropy_u64() | 1;
    return RN_OK;
}

void token_map_deinit(struct token_map *map) {
    free(map->slot);
    *map = (struct token_map){0};
}

void token_map_put(struct token_map *map, int32_t id) {
    const struct text_span none = {0};
    const uint64_t hash = hash_add(map, 0, map->token[id]);
    struct token_map_slot *const slot = probe(map, hash, map->token[id], none);
    if (slot->id < 0) *slot = (struct token_map_slot){.hash = hash, .id = id};
}

int32_t token_map_find(const struct token_map *map, struct text_span head, struct text_span tail) {
    return probe(map, hash_add(map, hash_add(map, 0, head), tail), head, tail)->id;
}

int32_t token_map_find_hash(const struct token_map *map, uint64_t hash, struct text_span text) {
    return probe(map, hash, text, (struct text_span){0})->id;
}
