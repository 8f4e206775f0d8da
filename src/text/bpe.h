// Byte-pair encoding by rank: symbols are tokens of single bytes or characters. The adjacent pair
// of the lowest rank, the leftmost of equals, is merged into a token until no pair has a rank.
// Immutable after bpe_init; the scratch belongs to one encode call.
#ifndef RN_TEXT_BPE_H
#define RN_TEXT_BPE_H

#include "base/arena.h"
#include "text/chain.h"
#include "text/token_map.h"

struct bpe_pair {
    int32_t left, right;
    int32_t rank; // -1: a free slot
    int32_t made; // the token that the pair becomes
};

struct bpe {
    struct bpe_pair *pair; // [mask + 1], open addressing by (left, right)
    size_t mask;
    uint64_t seed; // of the pairs' hash, so that no file can be made to collide
};

// The hash by which bpe_init.c fills the table and bpe.c searches it. The product's high half
// depends on both ids; the slot is taken from the low bits.
static inline uint64_t bpe_pair_hash(uint64_t seed, int32_t left, int32_t right) {
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    const uint64_t mixed = (key ^ seed) * UINT64_C(0x9E3779B97F4A7C15);
    return mixed ^ mixed >> 32;
}

// Takes the merges of source, whose tokens map knows. Merges of tokens that are not ordinary
// (ordinary[id] is 0) are left out: no plain text becomes a control token. The memory is the
// arena's.
rn_status bpe_init(struct bpe *bpe, const struct vocab_source *source, const struct token_map *map,
                   const uint8_t *ordinary, struct arena *arena, rn_error *err);

// Longer words are refused: positions have 32 bits.
enum { BPE_WORD_MAX = 0x7FFFFFFF };

// Merges the *count (1 to BPE_WORD_MAX) symbols of id in place; *count becomes how many remain.
// Symbols may be negative: these are in no pair.
rn_status bpe_merge(const struct bpe *bpe, struct chain_scratch *scratch, int32_t *id,
                    size_t *count, rn_error *err);

#endif
