// Masks that all runs of a constraint share, found by a key that stands for a configuration in
// every run. A mask is counted: it lives as long as a run uses it, in the cache or not. Any thread
// may call; a new mask takes the place of one that was not used for long.
#ifndef RN_CONSTRAINT_MASK_CACHE_H
#define RN_CONSTRAINT_MASK_CACHE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MASK_KEY_MAX = 768, MASK_CACHE_BYTES = 1 << 20 };

struct mask_key {
    uint32_t n, at[MASK_KEY_MAX];
};

struct kept_mask {
    _Atomic int refs;
    uint32_t used; // of the cache's clock
    uint32_t hash, n_key;
    uint32_t *key;
    uint64_t bits[]; // [n_words], then the key
};

struct mask_cache {
    pthread_mutex_t mutex;
    struct kept_mask **slot; // [n_slots]; NULL before the first mask
    uint32_t n_slots, clock;
    size_t n_words;
};

bool mask_cache_init(struct mask_cache *cache, size_t n_words); // false: it failed
void mask_cache_deinit(struct mask_cache *cache);

// A reference of the caller; NULL: there is none, or the lock was taken for long.
struct kept_mask *mask_cache_find(struct mask_cache *cache, const struct mask_key *key);
// For a mask that was made with a key. No memory, or a lock that is taken: it is not kept.
void mask_cache_add(struct mask_cache *cache, struct kept_mask *mask);

// A mask whose bits are not set yet, with one reference. key NULL: it is not for a cache. NULL: out
// of memory.
struct kept_mask *kept_mask_create(size_t n_words, const struct mask_key *key);
void kept_mask_release(struct kept_mask *mask); // NULL is fine

#endif
