// Pages and the page store: names of nodes, offers, and the pages that a table gets from there. A
// page is offered when nobody holds it any more. The names of chains are hashes, so they are made
// when they are needed, and kept with their nodes. Called as kv.c is.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/pages/kv_internal.h"

enum {
    TAIL_BLOCKS =
        64,    // places at which tails are looked for, where blocks themselves are not stored
    PATH = 64, // nodes that get a key at once
};

rn_status kv_set_store(struct kv *kv, const struct kv_store *store, rn_error *err) {
    if (kv->no_prefix) return RN_OK;
    kv->key = calloc(kv->n_node, sizeof *kv->key);
    if (!kv->key) return err_set(err, RN_ERR_NOMEM, "no memory for %u names of pages", kv->n_node);
    kv->store = *store;
    kv_meet_store(kv);
    return RN_OK;
}

// Whether nodes can have keys.
static bool has_keys(const struct kv *kv) { return kv->store.pages && kv->node[KV_ROOT].has_key; }

void kv_meet_store(struct kv *kv) {
    if (!kv->store.pages || has_keys(kv) || !page_store_is_ready(kv->store.pages)) return;
    kv->key[KV_ROOT] = *page_store_root(kv->store.pages);
    kv->node[KV_ROOT].has_key = true;
    for (int g = 0; g < kv->n_group; g++) // the newest first: they are the first blocks
        for (uint32_t id = kv->group[g].newest; id != KV_NO_PAGE; id = kv->group[g].page[id].older)
            kv_offer(kv, g, id);
}

// ---------------------------------------------------------------- keys

static void key_make(struct kv *kv, uint32_t at) {
    struct kv_node *const node = &kv->node[at];
    kv->key[at] = node->n_salt > 0
                      ? page_key_salt(&kv->key[KV_ROOT], node->token, node->n_salt)
                      : page_key_block(&kv->key[node->parent], node->token, node->n_token);
    node->has_key = true;
}

// The node's key. Nodes above get theirs first, from the highest one that lacks it.
static const struct page_key *key_of(struct kv *kv, uint32_t node) {
    while (!kv->node[node].has_key) {
        uint32_t path[PATH], n = 0;
        for (uint32_t at = node; !kv->node[at].has_key; at = kv->node[at].parent)
            path[n++ % PATH] = at;
        for (uint32_t i = 1; i <= n && i <= PATH; i++) key_make(kv, path[(n - i) % PATH]);
    }
    return &kv->key[node];
}

// ---------------------------------------------------------------- offers

// A block is computed by all groups together; a state from the one before it.
static uint64_t cost_of(const struct kv *kv, int g, uint32_t id) {
    const struct kv_node *const node = &kv->node[kv->group[g].page[id].node];
    const bool is_state = kv->group[g].kind == KV_RECURRENT;
    const int n_block = is_state ? kv_state_cost(kv, g, id) : 1;
    const int end = (int)node->depth * KV_PAGE_TOKENS, n = n_block * KV_PAGE_TOKENS;
    const uint64_t ns = kv->store.cost(kv->store.ctx, end > n ? end - n : 0, n);
    return is_state ? ns : ns / (uint64_t)kv->n_block_group;
}

void kv_offer(struct kv *kv, int g, uint32_t id) {
    struct kv_page *const page = &kv->group[g].page[id];
    if (!has_keys(kv) || page->node == KV_ROOT) return;
    if (page_store_is_offered(kv->store.pages, page->offer, kv->first_group + g, id)) return;
    const struct page_facts facts = {.name = {*key_of(kv, page->node), kv->first_group + g},
                                     .parent = *key_of(kv, kv->node[page->node].parent),
                                     .bytes = kv->group[g].page_bytes,
                                     .cost_ns = cost_of(kv, g, id)};
    if (page_store_has(kv->store.pages, &facts.name)) return;
    page->offer = page_store_offer(kv->store.pages, &facts, id);
}

void kv_withdraw(struct kv *kv, int g, uint32_t id) {
    struct kv_page *const page = &kv->group[g].page[id];
    if (page->offer) page_store_withdraw(kv->store.pages, page->offer, kv->first_group + g, id);
    page->offer = 0;
}

// ---------------------------------------------------------------- looking

// A place in a chain that may go on where the tree ends.
struct spot {
    struct page_key key;
    uint32_t node; // KV_ROOT behind the tree
    bool in_tree;  // node is the place's
    uint32_t n_block;
    int n_tail;                       // tokens of a tail behind the blocks
    uint32_t run[PLAN_MAX_KV_GROUPS]; // from this block on every page is there
};

static int positions_of(const struct spot *spot) {
    return (int)spot->n_block * KV_PAGE_TOKENS + spot->n_tail;
}

static bool is_stored(const struct kv *kv, const struct page_key *key, int g) {
    return page_store_has(kv->store.pages, &(struct page_name){*key, kv->first_group + g});
}

static struct spot spot_of(struct kv *kv, const struct kv_table *table) {
    struct spot spot = {.key = *key_of(kv, table->node),
                        .node = table->node,
                        .in_tree = true,
                        .n_block = table->n_node};
    memcpy(spot.run, table->first, sizeof spot.run);
    return spot;
}

// The place behind the next n tokens.
static struct spot spot_after(struct kv *kv, const struct spot *spot, const int32_t *token, int n) {
    struct spot next = *spot;
    const int32_t *at = token + (size_t)spot->n_block * KV_PAGE_TOKENS;
    next.node = spot->in_tree ? prefix_find(kv, spot->node, at, n) : KV_ROOT;
    next.in_tree = next.node != KV_ROOT;
    next.key = next.in_tree ? *key_of(kv, next.node) : page_key_block(&spot->key, at, n);
    return next;
}

static bool is_there(const struct kv *kv, const struct spot *spot, int g) {
    if (spot->in_tree && kv->node[spot->node].page[g] != KV_NO_PAGE) return true;
    return is_stored(kv, &spot->key, g);
}

// Takes the block's pages into account; false: a full group lacks its page.
static bool spot_add(const struct kv *kv, struct spot *spot) {
    const uint32_t block = spot->n_block++;
    for (int g = 0; g < kv->n_group; g++) {
        if (is_there(kv, spot, g)) continue;
        if (kv->group[g].kind == KV_FULL) return false;
        spot->run[g] = block + 1;
    }
    return true;
}

static bool is_served(const struct kv *kv, const struct spot *spot) {
    for (int g = 0; g < kv->n_group; g++) {
        if (spot->n_tail > 0 && !is_there(kv, spot, g)) return false;
        if (spot->run[g] > kv_first_block(&kv->group[g], positions_of(spot))) return false;
    }
    return true;
}

// The longest tail behind the place, if it is further than the best.
static void try_tails(struct kv *kv, const struct spot *spot, const int32_t *token, int n_token,
                      struct spot *best) {
    int n = n_token - 1 - (int)spot->n_block * KV_PAGE_TOKENS;
    if (n >= KV_PAGE_TOKENS) n = KV_PAGE_TOKENS - 1;
    for (; n > 0 && positions_of(spot) + n > positions_of(best); n--) {
        struct spot tail = spot_after(kv, spot, token, n);
        tail.n_tail = n;
        if (is_served(kv, &tail)) *best = tail;
    }
}

// Follows the tokens from the table's node on.
static struct spot look(struct kv *kv, const struct kv_table *table, const int32_t *token,
                        int n_token, uint32_t max_block) {
    struct spot at = spot_of(kv, table), best = at;
    for (bool goes_on = true; goes_on;) {
        struct spot next = at;
        goes_on = at.n_block < max_block;
        if (goes_on) {
            next = spot_after(kv, &at, token, KV_PAGE_TOKENS);
            goes_on = spot_add(kv, &next);
        }
        // with full groups the stored blocks end where a text did; otherwise it is not known where
        const bool may_end =
            !goes_on || (kv->n_block_group == 0 && at.n_block + TAIL_BLOCKS > max_block);
        if (kv->recurrent && may_end && at.n_block < table->max_page)
            try_tails(kv, &at, token, n_token, &best);
        if (!goes_on) break;
        at = next;
        if (is_served(kv, &at)) best = at;
    }
    return best;
}

// ---------------------------------------------------------------- pages for a table

static uint32_t max_block_of(const struct kv_table *table, int n_token) {
    const uint32_t n = n_token > 0 ? (uint32_t)(n_token - 1) / KV_PAGE_TOKENS : 0;
    return n < table->max_page ? n : table->max_page;
}

// Lists every page that a table needs for so many positions beyond its own: the known page, or
// KV_NO_PAGE where the store's is needed. Returns the time of reading these.
static double list_needs(struct kv *kv, const struct kv_table *table, const int32_t *token,
                         int n_positions, struct page_fetch *fetch) {
    struct spot at = spot_of(kv, table);
    double ns = 0;
    fetch->n_item = 0;
    while (positions_of(&at) < n_positions) {
        const int left = n_positions - positions_of(&at);
        at = spot_after(kv, &at, token, left < KV_PAGE_TOKENS ? left : KV_PAGE_TOKENS);
        for (int g = 0; g < kv->n_group; g++) {
            if (at.n_block < kv_first_block(&kv->group[g], n_positions)) continue;
            const uint32_t known = at.in_tree ? kv->node[at.node].page[g] : KV_NO_PAGE;
            if (known == KV_NO_PAGE)
                ns += page_store_read_ns(kv->store.pages,
                                         &(struct page_name){at.key, kv->first_group + g});
            fetch->item[fetch->n_item++] =
                (struct page_item){.name = {at.key, g}, .page = known, .block = at.n_block};
        }
        at.n_block++;
    }
    return ns;
}

int kv_count_stored(struct kv *kv, const struct kv_table *table, const int32_t *token,
                    int n_token) {
    if (!has_keys(kv) || table->unlisted || table->n_page != table->n_node)
        return (int)table->n_node * KV_PAGE_TOKENS;
    const struct spot best = look(kv, table, token, n_token, max_block_of(table, n_token));
    return positions_of(&best);
}

int kv_find_stored(struct kv *kv, const struct kv_table *table, const int32_t *token, int n_token,
                   struct page_fetch *fetch, double *read_ns) {
    const int n = kv_count_stored(kv, table, token, n_token);
    *read_ns = 0;
    if (n > (int)table->n_node * KV_PAGE_TOKENS) *read_ns = list_needs(kv, table, token, n, fetch);
    return n;
}

static bool fits(const struct kv *kv, const struct page_fetch *fetch) {
    uint64_t bytes = 0, n_more[PLAN_MAX_KV_GROUPS] = {0};
    for (int i = 0; i < fetch->n_item; i++) {
        const struct page_item *const item = &fetch->item[i];
        const struct kv_group *const group = &kv->group[item->name.group];
        const struct kv_page *const page =
            item->page == KV_NO_PAGE ? NULL : &group->page[item->page];
        if (page && (page->ref > 0 || page->pins > 0)) continue; // held already
        bytes += group->page_bytes;
        n_more[item->name.group]++;
    }
    for (int g = 0; g < kv->n_group; g++)
        if (n_more[g] > kv->group[g].n_page - kv->group[g].n_held) return false;
    return bytes <= kv->budget - kv->held_bytes;
}

bool kv_expect_stored(struct kv *kv, struct kv_table *table, int n_positions,
                      struct page_fetch *fetch) {
    assert(table->n_page == table->n_node && table->n_flight == 0 && !table->marked);
    if (!fits(kv, fetch)) return false;
    kv_give_back(kv, table, n_positions);
    // Known pages are held first: the new ones may evict others.
    for (int i = 0; i < fetch->n_item; i++) {
        const struct page_item *const item = &fetch->item[i];
        if (item->page == KV_NO_PAGE) continue;
        kv_page_hold(kv, item->name.group, item->page);
        table->page[item->name.group][item->block] = item->page;
    }
    int n = 0;
    for (int i = 0; i < fetch->n_item; i++) {
        struct page_item item = fetch->item[i];
        const int g = item.name.group;
        if (item.page != KV_NO_PAGE) continue;
        item.page = table->page[g][item.block] = kv_page_acquire(kv, g);
        item.name.group += kv->first_group;
        fetch->item[n++] = item;
    }
    fetch->n_item = n;
    table->n_page = ((uint32_t)n_positions + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    if (n_positions % KV_PAGE_TOKENS == 0) kv_keep(table, n_positions);
    return true;
}

void kv_take_stored(struct kv *kv, struct kv_table *table, const int32_t *token, int n_positions) {
    kv_commit(kv, table, token, n_positions);
}
