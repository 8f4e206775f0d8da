// Heap entries are rank << 32 | position, so the least is merged next. An entry whose rank is no
// longer that of its position is stale and dropped when it comes up. Invariant: rank[i] is the rank
// of the pair that begins at i now, and if it has one, the heap holds an entry for it.
#include "text/chain.h"

#include <assert.h>
#include <stdlib.h>

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

static uint64_t entry_of(uint32_t rank, uint32_t at) { return (uint64_t)rank << 32 | at; }

static uint32_t pair_at(struct chain *chain, chain_pair_fn pair, const void *context, uint32_t at) {
    if (chain->next[at] == chain->len) return CHAIN_NONE;
    return pair(context, chain, at, &chain->made[at]);
}

static void fill(struct chain *chain, chain_pair_fn pair, const void *context) {
    chain->n_heap = 0;
    for (uint32_t i = 0; i < chain->len; i++) {
        chain->prev[i] = i - 1; // never read at 0
        chain->next[i] = i + 1;
    }
    for (uint32_t i = 0; i < chain->len; i++) {
        chain->rank[i] = pair_at(chain, pair, context, i);
        if (chain->rank[i] != CHAIN_NONE)
            chain->heap[chain->n_heap++] = entry_of(chain->rank[i], i);
    }
    for (size_t i = chain->n_heap / 2; i-- > 0;) heap_down(chain, i);
}

// The pair at a position has changed.
static void renew(struct chain *chain, chain_pair_fn pair, const void *context, uint32_t at) {
    chain->rank[at] = pair_at(chain, pair, context, at);
    if (chain->rank[at] != CHAIN_NONE) heap_push(chain, entry_of(chain->rank[at], at));
}

static void merge_all(struct chain *chain, chain_pair_fn pair, const void *context) {
    while (chain->n_heap > 0) {
        const uint64_t entry = heap_pop(chain);
        const uint32_t at = (uint32_t)entry;
        if (chain->rank[at] != (uint32_t)(entry >> 32)) continue;
        const uint32_t gone = chain->next[at];
        chain->id[at] = chain->made[at];
        chain->rank[gone] = CHAIN_NONE;
        chain->next[at] = chain->next[gone];
        if (chain->next[at] < chain->len) chain->prev[chain->next[at]] = at;
        renew(chain, pair, context, at);
        if (at > 0) renew(chain, pair, context, chain->prev[at]);
    }
}

static size_t round_up(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

rn_status chain_reserve(struct chain_scratch *scratch, size_t len, size_t extra, rn_error *err) {
    size_t bytes = round_up(extra) + len * (2 * sizeof(uint64_t) + 4 * sizeof(uint32_t));
    if (bytes <= scratch->bytes) return RN_OK;
    if (bytes < 2 * scratch->bytes) bytes = 2 * scratch->bytes;
    chain_scratch_deinit(scratch);
    if (!(scratch->memory = malloc(bytes)))
        return err_set(err, RN_ERR_NOMEM, "out of memory for a word of %zu symbols", len);
    scratch->bytes = bytes;
    return RN_OK;
}

void chain_merge(const struct chain_scratch *scratch, size_t extra, int32_t *id, size_t len,
                 chain_pair_fn pair, const void *context, size_t *count) {
    assert(len > 0 && len <= INT32_MAX);
    struct chain chain = {.id = id, .len = (uint32_t)len};
    chain.heap = (uint64_t *)((char *)scratch->memory + round_up(extra));
    chain.rank = (uint32_t *)(chain.heap + 2 * len);
    chain.made = (int32_t *)(chain.rank + len);
    chain.prev = (uint32_t *)(chain.made + len);
    chain.next = chain.prev + len;
    fill(&chain, pair, context);
    merge_all(&chain, pair, context);
    *count = 0;
    for (uint32_t at = 0; at < chain.len; at = chain.next[at]) id[(*count)++] = id[at];
}

void chain_scratch_deinit(struct chain_scratch *scratch) {
    free(scratch->memory);
    *scratch = (struct chain_scratch){0};
}
