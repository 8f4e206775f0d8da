// Byte-pair encoding of one word: bytes become tokens, then the adjacent pair of the lowest rank
// (the leftmost of equals) is merged until no pair has a rank. Immutable after bpe_init; the
// scratch belongs to one encode call.
#ifndef RN_TEXT_BPE_H
#define RN_TEXT_BPE_H

#include "base/arena.h"
#include "text/token_map.h"

struct bpe_pair {
    int32_t left, right;
    int32_t rank; // -1: a free slot
};

struct bpe {
    int32_t byte_id[256];  // -1: neither a token for this byte nor an unknown token
    struct bpe_pair *pair; // [mask + 1], open addressing by (left, right)
    size_t mask;
    uint64_t seed;   // of the pairs' hash, so that no file can be made to collide
    int32_t *merged; // [n_merge] by rank: the token that the pair becomes
};

// What bpe_init.c fills the table by and bpe.c looks it up by. The product's high half depends on
// both ids; the slot is taken from the low bits.
static inline uint64_t bpe_pair_hash(uint64_t seed, int32_t left, int32_t right) {
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    const uint64_t mixed = (key ^ seed) * UINT64_C(0x9E3779B97F4A7C15);
    return mixed ^ mixed >> 32;
}

// Working memory of long words, grown on demand and reused from word to word.
struct bpe_scratch {
    void *memory;
    size_t bytes;
};
void bpe_scratch_deinit(struct bpe_scratch *scratch);

// Takes the merges of source, whose tokens map knows; unknown is the token for bytes that have none
// (-1: none). The memory is the arena's.
rn_status bpe_init(struct bpe *bpe, const struct vocab_source *source, const struct token_map *map,
                   int32_t unknown, struct arena *arena, rn_error *err);

// Longer words are refused: positions have 32 bits.
enum { BPE_WORD_MAX = 0x7FFFFFFF };

// Writes the ids of a word (len from 1 to BPE_WORD_MAX) to out, which must hold len of them, and
// their number to count.
rn_status bpe_encode(const struct bpe *bpe, const uint8_t *word, size_t len,
                     struct bpe_scratch *scratch, int32_t *out, size_t *count, rn_error *err);

#endif
