// Merging. Short words: the ranks of all adjacent pairs in an array, the least found by looking at
// each. Long words: a heap over a linked list, so that a word of n bytes takes n log n, whatever
// the text. Both keep one invariant: rank[i] is the rank of the pair that starts at i now.
#include "text/bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHORT_MAX = 32,         // bytes of a word that is merged by looking at every pair
    RANK_NONE = 0x7FFFFFFF, // above every rank
};

static int32_t pair_rank(const struct bpe *bpe, int32_t left, int32_t right) {
    size_t at = bpe_pair_hash(bpe->seed, left, right) & bpe->mask;
    for (;; at = (at + 1) & bpe->mask) {
        const struct bpe_pair *const pair = &bpe->pair[at];
        if (pair->rank < 0) return RANK_NONE;
        if (pair->left == left && pair->right == right) return pair->rank;
    }
}

// The tokens of the single bytes; false when one has none.
static bool bytes_load(const struct bpe *bpe, const uint8_t *word, size_t len, int32_t *id) {
    int32_t all = 0;
    for (size_t i = 0; i < len; i++) all |= id[i] = bpe->byte_id[word[i]];
    return all >= 0;
}

static rn_status byte_error(const struct bpe *bpe, const uint8_t *word, size_t len, rn_error *err) {
    size_t at = 0;
    while (at + 1 < len && bpe->byte_id[word[at]] >= 0) at++;
    return err_set(err, RN_ERR_MODEL, "the vocabulary has no token for the byte 0x%02X", word[at]);
}

// Merges in place and returns how many ids remain.
static size_t merge_short(const struct bpe *bpe, int32_t *id, size_t count) {
    int32_t rank[SHORT_MAX];
    for (size_t i = 0; i + 1 < count; i++) rank[i] = pair_rank(bpe, id[i], id[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++) {
            if (rank[i] < rank[best]) best = i;
        }
        if (rank[best] == RANK_NONE) break;
        id[best] = bpe->merged[rank[best]];
        count--;
        for (size_t i = best + 1; i < count; i++) {
            id[i] = id[i + 1];
            rank[i - 1] = rank[i];
        }
        if (best > 0) rank[best - 1] = pair_rank(bpe, id[best - 1], id[best]);
        if (best + 1 < count) rank[best] = pair_rank(bpe, id[best], id[best + 1]);
    }
    return count;
}

// ---------------------------------------------------------------- long words

// Entries are rank << 32 | position, so the least is the one to merge next. An entry whose rank is
// no longer that of its position is stale and dropped when it comes up.
struct chain {
    uint64_t *heap;        // [2 * len]: a merge takes one entry out and puts at most two in
    int32_t *rank;         // [len]
    uint32_t *prev, *next; // [len]; next is len at the end
    int32_t *id;           // [len], the caller's
    size_t n_heap;
    uint32_t len;
};

static void heap_down(struct chain *chain, size_t at) {
    uint64_t *const heap = chain->heap;
    const uint64_t entry = heap[at];
    for (size_t child; (child = 2 * at + 1) < chain->n_heap; at = child) {
        if (child + 1 < chain->n_heap && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= entry) break;
        heap[at] = heap[child];
    }
    heap[at] = entry;
}

static void heap_push(struct chain *chain, uint64_t entry) {
    assert(chain->n_heap < 2 * (size_t)chain->len);
    size_t at = chain->n_heap++;
    for (size_t parent; at > 0; at = parent) {
        parent = (at - 1) / 2;
        if (chain->heap[parent] <= entry) break;
        chain->heap[at] = chain->heap[parent];
    }
    chain->heap[at] = entry;
}

static uint64_t heap_pop(struct chain *chain) {
    const uint64_t least = chain->heap[0];
    chain->heap[0] = chain->heap[--chain->n_heap];
    if (chain->n_heap > 0) heap_down(chain, 0);
    return least;
}

static uint64_t entry_of(int32_t rank, uint32_t at) { return (uint64_t)(uint32_t)rank << 32 | at; }

static void chain_fill(const struct bpe *bpe, struct chain *chain) {
    chain->n_heap = 0;
    for (uint32_t i = 0; i < chain->len; i++) {
        chain->prev[i] = i - 1; // never read at 0
        chain->next[i] = i + 1;
        chain->rank[i] =
            i + 1 < chain->len ? pair_rank(bpe, chain->id[i], chain->id[i + 1]) : RANK_NONE;
        if (chain->rank[i] != RANK_NONE) chain->heap[chain->n_heap++] = entry_of(chain->rank[i], i);
    }
    for (size_t i = chain->n_heap / 2; i-- > 0;) heap_down(chain, i);
}

// The pair at a position has changed.
static void chain_rank(const struct bpe *bpe, struct chain *chain, uint32_t at) {
    const uint32_t next = chain->next[at];
    chain->rank[at] =
        next < chain->len ? pair_rank(bpe, chain->id[at], chain->id[next]) : RANK_NONE;
    if (chain->rank[at] != RANK_NONE) heap_push(chain, entry_of(chain->rank[at], at));
}

static void chain_merge(const struct bpe *bpe, struct chain *chain) {
    while (chain->n_heap > 0) {
        const uint64_t entry = heap_pop(chain);
        const uint32_t at = (uint32_t)entry;
        const int32_t rank = (int32_t)(entry >> 32);
        if (chain->rank[at] != rank) continue;
        const uint32_t gone = chain->next[at];
        chain->id[at] = bpe->merged[rank];
        chain->rank[gone] = RANK_NONE;
        chain->next[at] = chain->next[gone];
        if (chain->next[at] < chain->len) chain->prev[chain->next[at]] = at;
        chain_rank(bpe, chain, at);
        if (at > 0) chain_rank(bpe, chain, chain->prev[at]);
    }
}

static rn_status scratch_reserve(struct bpe_scratch *scratch, size_t bytes) {
    if (bytes <= scratch->bytes) return RN_OK;
    if (bytes < 2 * scratch->bytes) bytes = 2 * scratch->bytes;
    free(scratch->memory);
    *scratch = (struct bpe_scratch){0};
    if (!(scratch->memory = malloc(bytes))) return RN_ERR_NOMEM;
    scratch->bytes = bytes;
    return RN_OK;
}

static rn_status merge_long(const struct bpe *bpe, struct bpe_scratch *scratch, int32_t *id,
                            size_t *count, rn_error *err) {
    const size_t len = *count;
    struct chain chain = {.id = id, .len = (uint32_t)len};
    const size_t bytes = len * (2 * sizeof *chain.heap + 3 * sizeof(uint32_t));
    if (scratch_reserve(scratch, bytes) != RN_OK)
        return err_set(err, RN_ERR_NOMEM, "out of memory for a word of %zu bytes", len);
    chain.heap = scratch->memory;
    chain.rank = (int32_t *)(chain.heap + 2 * len);
    chain.prev = (uint32_t *)(chain.rank + len);
    chain.next = chain.prev + len;
    chain_fill(bpe, &chain);
    chain_merge(bpe, &chain);
    *count = 0;
    for (uint32_t at = 0; at < chain.len; at = chain.next[at]) id[(*count)++] = id[at];
    return RN_OK;
}

void bpe_scratch_deinit(struct bpe_scratch *scratch) {
    free(scratch->memory);
    *scratch = (struct bpe_scratch){0};
}

rn_status bpe_encode(const struct bpe *bpe, const uint8_t *word, size_t len,
                     struct bpe_scratch *scratch, int32_t *out, size_t *count, rn_error *err) {
    assert(len > 0 && len <= BPE_WORD_MAX);
    if (!bytes_load(bpe, word, len, out)) return byte_error(bpe, word, len, err);
    *count = len;
    if (len > SHORT_MAX) return merge_long(bpe, scratch, out, count, err);
    *count = merge_short(bpe, out, len);
    return RN_OK;
}
