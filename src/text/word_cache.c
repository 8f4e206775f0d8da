// See word_cache.h. The key is the word itself, so equal keys are equal words.
#include "text/word_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/entropy.h"

enum { TEXT_MIN = 1 << 10, ENTRIES_MAX = 1 << 13 };

void word_cache_init(struct word_cache *cache, size_t len) {
    *cache = (struct word_cache){0};
    if (len < TEXT_MIN) return;
    size_t count = 64;
    while (count < ENTRIES_MAX && count < len / 16) count *= 2;
    cache->entry = calloc(count, sizeof *cache->entry);
    cache->mask = count - 1;
    cache->seed = entropy_u64() | 1;
}

void word_cache_deinit(struct word_cache *cache) { free(cache->entry); }

// The bytes of a part from `begin` on that belong to the word.
static uint64_t part_mask(size_t len, size_t begin) {
    if (len <= begin) return 0;
    return len - begin >= 8 ? ~UINT64_C(0) : ~(~UINT64_C(0) << 8 * (len - begin));
}

static struct word_key key_of(const uint8_t *word, size_t len, size_t readable) {
    struct word_key key = {{0}};
    if (readable < sizeof key) {
        memcpy(&key, word, len);
    } else { // loads of a fixed size, with the bytes behind the word masked out
        memcpy(&key, word, sizeof key);
        for (size_t i = 0; i < 3; i++) key.part[i] &= part_mask(len, 8 * i);
    }
    key.part[2] |= (uint64_t)len << 56;
    return key;
}

struct word_entry *word_cache_find(const struct word_cache *cache, const uint8_t *word, size_t len,
                                   size_t readable, struct word_key *key, bool *found) {
    *key = key_of(word, len, readable);
    uint64_t hash = (key->part[0] ^ cache->seed) * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ hash >> 29 ^ key->part[1]) * UINT64_C(0xBF58476D1CE4E5B9);
    hash = (hash ^ hash >> 31 ^ key->part[2]) * UINT64_C(0x94D049BB133111EB);
    struct word_entry *const entry = &cache->entry[hash >> 40 & cache->mask];
    *found = entry->count > 0 && entry->key.part[0] == key->part[0] &&
             entry->key.part[1] == key->part[1] && entry->key.part[2] == key->part[2];
    return entry;
}
