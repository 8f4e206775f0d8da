// Merging in a long row of symbols: over and over, the adjacent pair of the lowest rank (the
// leftmost of equals) becomes one symbol, until no pair has a rank. A heap over a linked list, so
// that n symbols take n log n for every text. Called by bpe.c and spm.c, which give the rank of a
// pair.
#ifndef RN_TEXT_CHAIN_H
#define RN_TEXT_CHAIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define CHAIN_NONE UINT32_MAX // the rank of a pair that is not merged; above every other

// Symbol i stands at a position from 0 to len - 1 and goes up to next[i].
struct chain {
    uint32_t len;
    int32_t *id;           // [len] the symbols, the caller's
    uint32_t *prev, *next; // [len]; next is len at the end
    uint32_t *rank;        // [len] of the pair that begins at i now
    int32_t *made;         // [len] the symbol that the pair becomes
    uint64_t *heap;        // [2 * len]: a merge takes one entry out and puts at most two in
    size_t n_heap;
};

// The rank of the pair that begins at `at` (and has a second symbol), and the symbol that it
// becomes.
typedef uint32_t (*chain_pair_fn)(const void *context, const struct chain *chain, uint32_t at,
                                  int32_t *made);

// Memory of long words, grown on demand and used from word to word.
struct chain_scratch {
    void *memory;
    size_t bytes;
};
void chain_scratch_deinit(struct chain_scratch *scratch);

// Merges the len symbols (1 to 2^31 - 1) of id in place and returns in *count how many remain. The
// chain lives in the scratch, with `extra` bytes, aligned for 64-bit numbers, in front of it: they
// are the caller's to fill and are given to `pair` as scratch->memory.
rn_status chain_reserve(struct chain_scratch *scratch, size_t len, size_t extra, rn_error *err);
void chain_merge(const struct chain_scratch *scratch, size_t extra, int32_t *id, size_t len,
                 chain_pair_fn pair, const void *context, size_t *count);

#endif
