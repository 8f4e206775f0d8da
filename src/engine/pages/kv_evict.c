// Which cached page goes when its bytes, its id or its node is needed. Pages of KV and of states
// share the budget. While cached states have more than half of it, one of them goes; while they
// have at most an eighth, a page of KV does. Otherwise the page that was cached first goes. Of the
// oldest states the one that costs least to compute again goes. Called by kv.c and prefix.c.
#include <assert.h>

#include "engine/pages/kv_internal.h"

enum {
    STATES_MOST = 2,  // of the budget, a half
    STATES_LEAST = 8, // an eighth
    CANDIDATES = 8,   // oldest states that are compared
    COST_MOST = 64,   // blocks: a longer way to the state before is not measured
};

// Blocks from the state before it in the chain, or from its start, up to this one. A state at which
// another group lacks its page serves nobody.
int kv_state_cost(const struct kv *kv, int g, uint32_t id) {
    uint32_t at = kv->group[g].page[id].node;
    for (int i = 0; i < kv->n_group; i++)
        if (kv->group[i].kind == KV_FULL && kv->node[at].page[i] == KV_NO_PAGE) return 0;
    int cost = 0;
    do {
        cost++;
        at = kv->node[at].parent;
    } while (cost < COST_MOST && at != KV_ROOT && kv->node[at].n_salt == 0 &&
             kv->node[at].page[g] == KV_NO_PAGE);
    return cost;
}

// Of the group's oldest cached pages.
static uint32_t victim_of(const struct kv *kv, int g) {
    const struct kv_group *const group = &kv->group[g];
    uint32_t victim = group->oldest;
    if (group->kind != KV_RECURRENT) return victim;
    int least = INT32_MAX;
    uint32_t id = group->oldest;
    for (int i = 0; i < CANDIDATES && id != KV_NO_PAGE; i++, id = group->page[id].newer) {
        const int cost = kv_state_cost(kv, g, id);
        if (cost >= least) continue;
        least = cost;
        victim = id;
    }
    return victim;
}

void kv_evict_oldest_of(struct kv *kv, int g) {
    assert(kv->group[g].oldest != KV_NO_PAGE);
    kv_evict(kv, g, victim_of(kv, g));
    if (kv->group[g].kind == KV_RECURRENT)
        kv->stats.state_evictions++;
    else
        kv->stats.evictions++;
}

// The group whose oldest cached page is the oldest, of recurrent or other groups; -1: none.
static int oldest_group(const struct kv *kv, bool recurrent, uint64_t *tick) {
    int found = -1;
    *tick = UINT64_MAX;
    for (int g = 0; g < kv->n_group; g++) {
        const struct kv_group *const group = &kv->group[g];
        if ((group->kind == KV_RECURRENT) != recurrent || group->oldest == KV_NO_PAGE) continue;
        if (group->page[group->oldest].tick >= *tick) continue;
        *tick = group->page[group->oldest].tick;
        found = g;
    }
    return found;
}

bool kv_evict_oldest(struct kv *kv) {
    uint64_t kv_tick, state_tick;
    const int of_kv = oldest_group(kv, false, &kv_tick);
    const int of_state = oldest_group(kv, true, &state_tick);
    int found = kv_tick < state_tick ? of_kv : of_state;
    const uint64_t states = kv->stats.state_cached_bytes;
    if (states > kv->budget / STATES_MOST) found = of_state;
    if (states <= kv->budget / STATES_LEAST) found = of_kv;
    if (found < 0) found = of_kv < 0 ? of_state : of_kv;
    if (found < 0) return false;
    kv_evict_oldest_of(kv, found);
    return true;
}
