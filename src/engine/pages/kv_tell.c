// Tells a listener (rn_engine_on_blocks) which blocks the prefix cache has. Full blocks are told,
// tails are not. A block is named once, behind its parent, then stored and removed by group. When
// the listener has no room, everything told is void: it is told to forget all of it, and the tree
// is walked again, a part in each step. Steps never wait for the listener.
//
// What a step does for this is bounded, however deep a chain is: the walk tells so many changes,
// and a new block names its ancestors if they are near. Otherwise the walk does, or another one
// behind it. Each time that the listener has no room, the walk is to tell half as many in a step.
// So it ends wherever the listener takes more in a step than the step's own changes and WALK_LEAST.
//
// Invariant: bit g of told_pages is set where the listener knows that the node's page of group g is
// there; both `told` marks are those of the present epoch, or mean nothing.
#include "engine/pages/kv_internal.h"

enum {
    WALK_NODES = 1024, // that a step visits
    WALK_MOST = 2048,  // changes that the walk tells in a step
    WALK_LEAST = 64,
    NEAR = 256, // ancestors that a new block may name
};

void kv_listen(struct kv *kv, rn_block_fn fn, void *ctx) {
    kv->teller = (struct kv_teller){.fn = fn, .ctx = ctx, .epoch = 1, .walk_most = WALK_MOST};
}

// False: the listener has no room, or had none before, and everything is void.
static bool tell(struct kv *kv, const rn_block_event *event) {
    struct kv_teller *const teller = &kv->teller;
    if (teller->is_lost) return false;
    teller->is_lost = !teller->fn(teller->ctx, event);
    if (teller->is_lost && teller->walk_most > WALK_LEAST) teller->walk_most /= 2;
    teller->has_changes |= !teller->is_lost;
    return !teller->is_lost;
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

// Names the block behind its ancestors, of which at most so many are looked at, and *left blocks
// are named. False: it has no name yet. All ancestors but the nearest are known, except in a walk
// or where blocks have no page. The way down is noted on the way up.
static bool name(struct kv *kv, uint32_t at, uint32_t most_up, int *left) {
    uint32_t *const below = kv->node_mark;
    uint32_t top = at;
    if (is_told(kv, at)) return true;
    for (uint32_t up; (up = kv->node[top].parent) != KV_ROOT; top = up) {
        if (kv->node[up].n_salt > 0 || is_told(kv, up)) break;
        if (most_up-- == 0) return false;
        below[up] = top;
    }
    for (; *left > 0 && name_one(kv, top); top = below[top]) {
        --*left;
        if (top == at) return true;
    }
    return false;
}

// Of a node that has its name.
static bool tell_stored(struct kv *kv, uint32_t at, int g) {
    const rn_block_event event = event_of(kv, RN_BLOCK_STORED, at, g);
    if (!tell(kv, &event)) return false;
    kv->node[at].told_pages |= (uint8_t)(1 << g);
    return true;
}

void kv_tell_stored(struct kv *kv, uint32_t at, int g) {
    struct kv_teller *const teller = &kv->teller;
    if (!teller->fn || teller->is_lost || !is_block(&kv->node[at])) return;
    if (name(kv, at, NEAR, &(int){NEAR + 1}))
        tell_stored(kv, at, g);
    else
        teller->is_behind = true;
}

void kv_tell_removed(struct kv *kv, uint32_t at, int g) {
    struct kv_node *const node = &kv->node[at];
    if (!kv->teller.fn || !is_told(kv, at) || !(node->told_pages >> g & 1)) return;
    const rn_block_event event = event_of(kv, RN_BLOCK_REMOVED, at, g);
    tell(kv, &event);
    node->told_pages &= (uint8_t) ~(1 << g);
}

// Tells what is not known of the node, at most so many changes and one for each group. False: there
// is more, and the node is visited again. *left: changes.
static bool visit(struct kv *kv, uint32_t at, int *left) {
    for (int g = 0; g < kv->n_group; g++) {
        const struct kv_node *const node = &kv->node[at];
        if (!is_block(node) || node->page[g] == KV_NO_PAGE) continue;
        if (is_told(kv, at) && node->told_pages >> g & 1) continue;
        if (!name(kv, at, UINT32_MAX, left) || !tell_stored(kv, at, g)) return false;
        --*left;
    }
    return true;
}

// Everything that was told is void, if the listener can take that now.
static void start_again(struct kv *kv) {
    struct kv_teller *const teller = &kv->teller;
    const int most = teller->walk_most;
    teller->is_lost = false;
    if (!tell(kv, &(rn_block_event){.change = RN_BLOCKS_CLEARED})) {
        teller->walk_most = most; // it is asked in each step
        return;
    }
    teller->epoch++;
    teller->walk = KV_ROOT + 1;
    teller->is_behind = false;
}

// A part of the walk.
static void walk(struct kv *kv) {
    struct kv_teller *const teller = &kv->teller;
    int left = teller->walk_most;
    for (int i = 0; i < WALK_NODES && left > 0; i++) {
        if (teller->walk >= kv->n_node_used) {
            teller->walk = KV_ROOT;
            if (teller->walk_most < WALK_MOST) teller->walk_most *= 2;
            return;
        }
        if (!visit(kv, teller->walk, &left)) return; // the rest follows with the next steps
        teller->walk++;
    }
}

void kv_tell_settled(struct kv *kv) {
    struct kv_teller *const teller = &kv->teller;
    if (!teller->fn) return;
    if (teller->is_lost) start_again(kv);
    if (teller->walk == KV_ROOT && teller->is_behind) {
        teller->walk = KV_ROOT + 1;
        teller->is_behind = false;
    }
    if (teller->walk != KV_ROOT && !teller->is_lost) walk(kv);
    if (!teller->has_changes) return;
    tell(kv, &(rn_block_event){.change = RN_BLOCKS_SETTLED});
    teller->has_changes = false;
}

bool kv_is_telling(const struct kv *kv) {
    const struct kv_teller *const teller = &kv->teller;
    return teller->fn && (teller->is_lost || teller->is_behind || teller->walk != KV_ROOT);
}
