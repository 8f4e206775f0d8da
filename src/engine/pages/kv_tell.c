// Tells a listener (rn_engine_on_blocks) which blocks the prefix cache has. Full blocks are told,
// tails are not. A block is named once, behind its parent, then stored and removed by group. When
// the listener has no room, everything told is void: it is told to forget all of it, and the tree
// is walked again, a part in each step. Steps never wait for the listener.
//
// Invariant: bit g of told_pages is set where the listener knows that the node's page of group g is
// there; both `told` marks are those of the present epoch, or mean nothing.
#include "engine/pages/kv_internal.h"

enum { WALK_NODES = 1024 }; // that a step visits

void kv_listen(struct kv *kv, rn_block_fn fn, void *ctx) {
    kv->teller = (struct kv_teller){.fn = fn, .ctx = ctx, .epoch = 1};
}

static bool tell(struct kv *kv, const rn_block_event *event) {
    struct kv_teller *const teller = &kv->teller;
    if (teller->is_lost || !teller->fn(teller->ctx, event)) return false;
    teller->has_changes = true;
    return true;
}

static bool is_told(const struct kv *kv, uint32_t at) {
    return kv->node[at].told == kv->teller.epoch;
}

static bool is_block(const struct kv_node *node) {
    return node->used && node->n_salt == 0 && node->n_token == KV_PAGE_TOKENS;
}

// The block as its listener sees it. A salt is no block: its children start a text.
static rn_block_event event_of(const struct kv *kv, rn_block_change change, uint32_t at, int g) {
    const struct kv_node *const node = &kv->node[at], *const parent = &kv->node[node->parent];
    const bool is_salted = parent->n_salt > 0;
    return (rn_block_event){.change = change,
                            .group = g,
                            .block = at,
                            .parent = is_salted ? KV_ROOT : node->parent,
                            .token = node->token,
                            .salt = is_salted ? (const char *)parent->token : "",
                            .n_salt = parent->n_salt};
}

static bool name_one(struct kv *kv, uint32_t at) {
    const rn_block_event event = event_of(kv, RN_BLOCK_NAMED, at, 0);
    if (!tell(kv, &event)) return false;
    kv->node[at].told = kv->teller.epoch;
    kv->node[at].told_pages = 0;
    return true;
}

// Its ancestors first. All but the last one are known, except in a walk.
static bool name(struct kv *kv, uint32_t at) {
    while (!is_told(kv, at)) {
        uint32_t top = at;
        for (uint32_t up = kv->node[top].parent;
             up != KV_ROOT && kv->node[up].n_salt == 0 && !is_told(kv, up);
             up = kv->node[up].parent)
            top = up;
        if (!name_one(kv, top)) return false;
    }
    return true;
}

// False: the listener has no room.
static bool tell_stored(struct kv *kv, uint32_t at, int g) {
    struct kv_node *const node = &kv->node[at];
    if (!name(kv, at)) return false;
    const rn_block_event event = event_of(kv, RN_BLOCK_STORED, at, g);
    if (!tell(kv, &event)) return false;
    node->told_pages |= (uint8_t)(1 << g);
    return true;
}

void kv_tell_stored(struct kv *kv, uint32_t at, int g) {
    if (!kv->teller.fn || !is_block(&kv->node[at])) return;
    if (!tell_stored(kv, at, g)) kv->teller.is_lost = true;
}

void kv_tell_removed(struct kv *kv, uint32_t at, int g) {
    struct kv_node *const node = &kv->node[at];
    if (!kv->teller.fn || !is_told(kv, at) || !(node->told_pages >> g & 1)) return;
    const rn_block_event event = event_of(kv, RN_BLOCK_REMOVED, at, g);
    if (!tell(kv, &event)) kv->teller.is_lost = true;
    node->told_pages &= (uint8_t) ~(1 << g);
}

// False: the listener has no room, and the node is visited again.
static bool visit(struct kv *kv, uint32_t at) {
    for (int g = 0; g < kv->n_group; g++) {
        const struct kv_node *const node = &kv->node[at];
        if (!is_block(node) || node->page[g] == KV_NO_PAGE) continue;
        if (is_told(kv, at) && node->told_pages >> g & 1) continue;
        if (!tell_stored(kv, at, g)) return false;
    }
    return true;
}

// Everything that was told is void, if the listener can take that now.
static void start_again(struct kv *kv) {
    struct kv_teller *const teller = &kv->teller;
    teller->is_lost = false;
    teller->is_lost = !tell(kv, &(rn_block_event){.change = RN_BLOCKS_CLEARED});
    if (teller->is_lost) return;
    teller->epoch++;
    teller->walk = KV_ROOT + 1;
}

void kv_tell_settled(struct kv *kv) {
    struct kv_teller *const teller = &kv->teller;
    if (!teller->fn) return;
    if (teller->is_lost) start_again(kv);
    for (int i = 0; i < WALK_NODES && teller->walk != KV_ROOT; i++) {
        if (teller->walk >= kv->n_node_used)
            teller->walk = KV_ROOT;
        else if (visit(kv, teller->walk))
            teller->walk++;
        else
            break; // the rest follows with the next steps
    }
    if (!teller->has_changes) return;
    teller->is_lost |= !tell(kv, &(rn_block_event){.change = RN_BLOCKS_SETTLED});
    teller->has_changes = false;
}
