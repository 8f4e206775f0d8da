// Merging. A short word has the ranks of all adjacent pairs in an array, and the least is found by
// looking at each. A long word has a chain. Both keep one invariant: rank[i] is the rank of the
// pair that starts at i now.
#include "text/bpe.h"

#include <assert.h>
#include <string.h>

enum { SHORT_MAX = 32 }; // symbols of a word that is merged by looking at every pair

static uint32_t pair_find(const struct bpe *bpe, int32_t left, int32_t right, int32_t *made) {
    size_t at = bpe_pair_hash(bpe->seed, left, right) & bpe->mask;
    for (;; at = (at + 1) & bpe->mask) {
        const struct bpe_pair *const pair = &bpe->pair[at];
        if (pair->rank < 0) return CHAIN_NONE;
        if (pair->left != left || pair->right != right) continue;
        *made = pair->made;
        return (uint32_t)pair->rank;
    }
}

static size_t merge_short(const struct bpe *bpe, int32_t *id, size_t count) {
    uint32_t rank[SHORT_MAX];
    int32_t made[SHORT_MAX];
    for (size_t i = 0; i + 1 < count; i++) rank[i] = pair_find(bpe, id[i], id[i + 1], &made[i]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++) {
            if (rank[i] < rank[best]) best = i;
        }
        if (rank[best] == CHAIN_NONE) break;
        id[best] = made[best];
        count--;
        for (size_t i = best + 1; i < count; i++) {
            id[i] = id[i + 1];
            rank[i - 1] = rank[i];
            made[i - 1] = made[i];
        }
        if (best > 0) rank[best - 1] = pair_find(bpe, id[best - 1], id[best], &made[best - 1]);
        if (best + 1 < count) rank[best] = pair_find(bpe, id[best], id[best + 1], &made[best]);
    }
    return count;
}

static uint32_t chain_pair(const void *context, const struct chain *chain, uint32_t at,
                           int32_t *made) {
    return pair_find(context, chain->id[at], chain->id[chain->next[at]], made);
}

rn_status bpe_merge(const struct bpe *bpe, struct chain_scratch *scratch, int32_t *id,
                    size_t *count, rn_error *err) {
    assert(*count > 0 && *count <= BPE_WORD_MAX);
    if (*count <= SHORT_MAX) {
        *count = merge_short(bpe, id, *count);
        return RN_OK;
    }
    const rn_status status = chain_reserve(scratch, *count, 0, err);
    if (status == RN_OK) chain_merge(scratch, 0, id, *count, chain_pair, bpe, count);
    return status;
}
