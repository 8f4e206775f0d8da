// The words of one encode call that came lately, with their ids: most of a text is a few thousand
// words. Direct-mapped, so that a look-up is one line of memory; words that do not fit are not
// kept. Only for words whose ids depend on nothing else.
#ifndef RN_TEXT_WORD_CACHE_H
#define RN_TEXT_WORD_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORD_CACHE_BYTES = 23, WORD_CACHE_IDS = 9 }; // of a word that is kept

// The word's bytes, zeros, and its length in the last byte.
struct word_key {
    uint64_t part[3];
};

struct word_entry { // 64 bytes
    struct word_key key;
    int32_t count; // 0: free
    int32_t id[WORD_CACHE_IDS];
};
_Static_assert(sizeof(struct word_entry) == 64, "an entry is a line of memory");

struct word_cache {
    struct word_entry *entry; // [mask + 1]; NULL: there is no cache
    size_t mask;
    uint64_t seed;
};

// Of a size that suits a text of len bytes; none for a short text, nor where memory is short.
void word_cache_init(struct word_cache *cache, size_t len);
void word_cache_deinit(struct word_cache *cache);

// The entry where a word belongs (len from 1 to WORD_CACHE_BYTES), and whether it is there.
// readable is how many bytes may be read from word on, at least len.
struct word_entry *word_cache_find(const struct word_cache *cache, const uint8_t *word, size_t len,
                                   size_t readable, struct word_key *key, bool *found);

#endif
