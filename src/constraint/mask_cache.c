// The slots are sets of a few places. A key has one set, in which the mask that was used least
// recently makes room.
#include "constraint/mask_cache.h"

#include <stdlib.h>
#include <string.h>

#include "constraint/brief_lock.h"

enum { WAYS = 4, SETS_MIN = 4, SETS_MAX = 256 };

bool mask_cache_init(struct mask_cache *cache, size_t n_words) {
    const size_t fit = MASK_CACHE_BYTES / (WAYS * n_words * sizeof(uint64_t));
    const size_t n_sets = fit < SETS_MIN ? SETS_MIN : fit > SETS_MAX ? SETS_MAX : fit;
    *cache = (struct mask_cache){.n_slots = (uint32_t)n_sets * WAYS, .n_words = n_words};
    return pthread_mutex_init(&cache->mutex, NULL) == 0;
}

void mask_cache_deinit(struct mask_cache *cache) {
    for (uint32_t i = 0; cache->slot && i < cache->n_slots; i++) kept_mask_release(cache->slot[i]);
    free(cache->slot);
    pthread_mutex_destroy(&cache->mutex);
}

static uint32_t hash_of(const struct mask_key *key) {
    uint64_t h = key->n;
    for (uint32_t i = 0; i < key->n; i++) {
        h = (h ^ key->at[i]) * 0x9FB21C651E98DF25u;
        h ^= h >> 29;
    }
    return (uint32_t)(h ^ h >> 32);
}

static struct kept_mask **set_of(const struct mask_cache *cache, uint32_t hash) {
    return cache->slot + hash % (cache->n_slots / WAYS) * WAYS;
}

struct kept_mask *mask_cache_find(struct mask_cache *cache, const struct mask_key *key) {
    const uint32_t hash = hash_of(key);
    struct kept_mask *found = NULL;
    if (!brief_lock(&cache->mutex)) return NULL;
    for (uint32_t i = 0; cache->slot && i < WAYS; i++) {
        struct kept_mask *mask = set_of(cache, hash)[i];
        if (!mask || mask->hash != hash || mask->n_key != key->n ||
            memcmp(mask->key, key->at, key->n * sizeof *key->at) != 0)
            continue;
        mask->refs++;
        mask->used = ++cache->clock;
        found = mask;
        break;
    }
    pthread_mutex_unlock(&cache->mutex);
    return found;
}

// The place that was used least recently; a wrapped clock costs a mask.
static struct kept_mask **oldest(struct kept_mask **set) {
    struct kept_mask **place = set;
    for (uint32_t i = 0; i < WAYS; i++) {
        if (!set[i]) return &set[i];
        if (set[i]->used < (*place)->used) place = &set[i];
    }
    return place;
}

void mask_cache_add(struct mask_cache *cache, struct kept_mask *mask) {
    struct kept_mask *dropped = NULL;
    if (!brief_lock(&cache->mutex)) return;
    if (!cache->slot) cache->slot = calloc(cache->n_slots, sizeof *cache->slot);
    if (cache->slot) {
        struct kept_mask **place = oldest(set_of(cache, mask->hash));
        dropped = *place;
        mask->refs++;
        mask->used = ++cache->clock;
        *place = mask;
    }
    pthread_mutex_unlock(&cache->mutex);
    kept_mask_release(dropped);
}

struct kept_mask *kept_mask_create(size_t n_words, const struct mask_key *key) {
    const uint32_t n_key = key ? key->n : 0;
    struct kept_mask *mask =
        malloc(sizeof *mask + n_words * sizeof *mask->bits + n_key * sizeof *mask->key);
    if (!mask) return NULL;
    mask->refs = 1;
    mask->hash = key ? hash_of(key) : 0;
    mask->n_key = n_key;
    mask->key = (uint32_t *)(mask->bits + n_words);
    if (n_key) memcpy(mask->key, key->at, n_key * sizeof *mask->key);
    return mask;
}

void kept_mask_release(struct kept_mask *mask) {
    if (mask && atomic_fetch_sub(&mask->refs, 1) == 1) free(mask);
}
