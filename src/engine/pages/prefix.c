// The prefix cache: full blocks of tokens are nodes of a tree, and a node names the page of its
// block in each group that has one. Equal chains of nodes are equal prefixes; a chain begins at the
// root or at its salt's node. A chain may end with a tail, the start of a block behind which a
// sequence ended. The hash of a node is seeded by its parent's, and the root's is random, so no
// client can aim at a bucket. Nodes come from a pool: when it is empty, old pages are evicted for a
// few nodes, or the table continues unregistered. Called as kv.c is.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/checked.h"
#include "base/entropy.h"
#include "engine/pages/kv_internal.h"

enum {
    NODES_MAX = 1 << 22,
    NODES_SPARE = 64,     // beyond one for each page and one for each table's salt
    NODES_BARE = 1 << 16, // at least, where blocks may have no page: two million tokens
    NODE_EVICTIONS =
        64,          // pages that one node may cost: a pool full of held chains has none to give
    PART_BLOCKS = 2, // that a state at the end of the known blocks must spare to be kept
};

rn_status prefix_init(struct kv *kv, int max_tables, rn_error *err) {
    uint64_t n = NODES_SPARE + (uint64_t)max_tables;
    bool is_bare = true;
    for (int g = 0; g < kv->n_group; g++) { // a state has the blocks of its interval before it
        const struct kv_group *const group = &kv->group[g];
        n += (uint64_t)group->n_page * (group->kind == KV_RECURRENT ? group->interval : 1);
        is_bare &= group->kind == KV_RECURRENT;
    }
    if (is_bare && n < NODES_BARE) n = NODES_BARE;
    if (kv->no_prefix) n = 1;
    kv->n_node = n > NODES_MAX ? NODES_MAX : (uint32_t)n;
    kv->n_bucket = 1;
    while (kv->n_bucket < kv->n_node) kv->n_bucket *= 2;
    kv->node = calloc(kv->n_node, sizeof *kv->node);
    kv->node_mark = calloc(kv->n_node, sizeof *kv->node_mark);
    kv->bucket = calloc(kv->n_bucket, sizeof *kv->bucket);
    if (!kv->node || !kv->node_mark || !kv->bucket)
        return err_set(err, RN_ERR_NOMEM, "no memory for %u blocks of prefixes", kv->n_node);
    kv->hash_mask = UINT64_MAX;
    kv->node[KV_ROOT].hash = entropy_u64();
    kv->n_node_used = 1;
    return RN_OK;
}

void prefix_deinit(struct kv *kv) {
    free(kv->node);
    free(kv->node_mark);
    free(kv->bucket);
}

// --- nodes ---

uint64_t prefix_hash(const struct kv *kv, uint32_t parent, const int32_t *token, int n_token) {
    const size_t bytes = KV_PAGE_TOKENS * sizeof *token;
    const uint64_t seed = kv->node[parent].hash + (uint64_t)(KV_PAGE_TOKENS - n_token);
    return XXH3_64bits_withSeed(token, bytes, seed) & kv->hash_mask;
}

static uint32_t *bucket_of(struct kv *kv, uint64_t hash) {
    return &kv->bucket[hash & (kv->n_bucket - 1)];
}

// The tokens of a node, as it is looked for: a block, a tail or a salt.
struct key {
    uint32_t parent;
    int32_t token[KV_PAGE_TOKENS]; // padded with zeros
    int n_token;
    size_t n_salt;
};

static struct key key_of(uint32_t parent, const int32_t *token, int n_token) {
    struct key key = {.parent = parent, .n_token = n_token};
    memcpy(key.token, token, (size_t)n_token * sizeof *token);
    return key;
}

// KV_ROOT: there is none.
static uint32_t find(struct kv *kv, const struct key *key) {
    const uint64_t hash = prefix_hash(kv, key->parent, key->token, key->n_token);
    uint32_t at = *bucket_of(kv, hash);
    for (; at != KV_ROOT; at = kv->node[at].next) {
        const struct kv_node *const node = &kv->node[at];
        if (node->hash == hash && node->parent == key->parent && node->n_salt == key->n_salt &&
            node->n_token == key->n_token &&
            memcmp(node->token, key->token, sizeof node->token) == 0)
            break;
    }
    return at;
}

uint32_t prefix_find(struct kv *kv, uint32_t parent, const int32_t *token, int n_token) {
    const struct key key = key_of(parent, token, n_token);
    return find(kv, &key);
}

// Frees the node if nothing needs it, then its parent, and so on.
static void settle(struct kv *kv, uint32_t at) {
    while (at != KV_ROOT) {
        struct kv_node *const node = &kv->node[at];
        if (node->n_page > 0 || node->n_child > 0 || node->n_table > 0) return;
        uint32_t *link = bucket_of(kv, node->hash);
        while (*link != at) link = &kv->node[*link].next;
        *link = node->next;
        const uint32_t parent = node->parent;
        node->used = false;
        node->told = 0;
        node->next = kv->free_node;
        kv->free_node = at;
        kv->node[parent].n_child--;
        at = parent;
    }
}

// KV_ROOT: the pool is empty. The parent is held by a table, so evictions leave it.
static uint32_t take_free_node(struct kv *kv) {
    for (int i = 0; i <= NODE_EVICTIONS; i++) {
        const uint32_t at = kv->free_node;
        if (at != KV_ROOT) {
            kv->free_node = kv->node[at].next;
            return at;
        }
        if (kv->n_node_used < kv->n_node) return kv->n_node_used++;
        if (!kv_evict_oldest(kv)) break;
    }
    return KV_ROOT;
}

// The node, found or made; KV_ROOT: the pool is empty. A new one is to get a table or a page.
static uint32_t find_or_add(struct kv *kv, const struct key *key) {
    uint32_t at = find(kv, key);
    if (at != KV_ROOT || (at = take_free_node(kv)) == KV_ROOT) return at;
    struct kv_node *const node = &kv->node[at];
    *node = (struct kv_node){.hash = prefix_hash(kv, key->parent, key->token, key->n_token),
                             .parent = key->parent,
                             .n_salt = (uint8_t)key->n_salt,
                             .n_token = (uint8_t)key->n_token,
                             .depth = kv->node[key->parent].depth + (key->n_salt == 0),
                             .used = true};
    memcpy(node->token, key->token, sizeof node->token);
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++) node->page[g] = KV_NO_PAGE;
    uint32_t *const bucket = bucket_of(kv, node->hash);
    node->next = *bucket;
    *bucket = at;
    kv->node[key->parent].n_child++;
    return at;
}

uint32_t prefix_above(const struct kv *kv, uint32_t node, uint32_t n_block) {
    while (n_block-- > 0) node = kv->node[node].parent;
    return node;
}

void prefix_move(struct kv *kv, struct kv_table *table, uint32_t node, uint32_t n_node) {
    const uint32_t old = table->node;
    if (node != KV_ROOT) kv->node[node].n_table++;
    table->node = node;
    table->n_node = n_node;
    if (old == KV_ROOT) return;
    kv->node[old].n_table--;
    settle(kv, old);
}

void prefix_detach(struct kv *kv, int g, uint32_t id) {
    struct kv_page *const page = &kv->group[g].page[id];
    struct kv_node *const node = &kv->node[page->node];
    assert(node->page[g] == id);
    kv_tell_removed(kv, page->node, g);
    kv_withdraw(kv, g, id);
    node->page[g] = KV_NO_PAGE;
    node->n_page--;
    const uint32_t at = page->node;
    page->node = KV_ROOT;
    settle(kv, at);
}

// --- lookup ---

// The empty table's chain begins at the salt.
static bool enter_salt(struct kv *kv, struct kv_table *table, const char *salt, size_t n_salt) {
    assert(n_salt <= KV_MAX_SALT);
    struct key key = {.parent = KV_ROOT, .n_token = KV_PAGE_TOKENS, .n_salt = n_salt};
    memcpy(key.token, salt, n_salt);
    const uint32_t node = find_or_add(kv, &key);
    if (node == KV_ROOT) return false;
    prefix_move(kv, table, node, 0);
    return true;
}

// A place in the tree that a table could have: whole blocks, then maybe a tail.
struct place {
    uint32_t node, n_block;
    uint32_t run[PLAN_MAX_KV_GROUPS]; // from this block on every page is there
    uint32_t tail;                    // KV_ROOT: none
    int n_tail;                       // its tokens
};

static int positions_of(const struct place *place) {
    return (int)place->n_block * KV_PAGE_TOKENS + place->n_tail;
}

struct walk {
    struct place best; // the furthest that every group can serve
    uint32_t parted;   // blocks of the longest prefix that all but recurrent groups can serve
};

// Takes the block's pages into account; false: a full group lacks its page, and can serve no longer
// prefix.
static bool place_add(const struct kv *kv, struct place *place, uint32_t node) {
    const uint32_t block = place->n_block;
    for (int g = 0; g < kv->n_group; g++) {
        if (kv->node[node].page[g] != KV_NO_PAGE) continue;
        if (kv->group[g].kind == KV_FULL) return false;
        place->run[g] = block + 1;
    }
    place->node = node;
    place->n_block = block + 1;
    return true;
}

// Whether the groups have the pages that such a table needs, recurrent groups included or not.
static bool is_served(const struct kv *kv, const struct place *place, bool with_states) {
    for (int g = 0; g < kv->n_group; g++) {
        const struct kv_group *const group = &kv->group[g];
        if (group->kind == KV_RECURRENT && !with_states) continue;
        if (place->tail != KV_ROOT && kv->node[place->tail].page[g] == KV_NO_PAGE) return false;
        if (place->run[g] > kv_first_block(group, positions_of(place))) return false;
    }
    return true;
}

// The longest tail behind the place's blocks that every group can serve, if it is further than the
// best place. token: [n_token] of which one is left.
static void try_tails(struct kv *kv, struct place place, const int32_t *token, int n_token,
                      struct place *best) {
    const int first = (int)place.n_block * KV_PAGE_TOKENS;
    int n = n_token - 1 - first;
    if (n >= KV_PAGE_TOKENS) n = KV_PAGE_TOKENS - 1;
    for (; n > 0 && first + n > positions_of(best); n--) {
        place.tail = prefix_find(kv, place.node, token + first, n);
        place.n_tail = n;
        if (place.tail != KV_ROOT && is_served(kv, &place, true)) *best = place;
    }
}

// Follows the tokens from the table's node on, in up to max_block blocks. A node has tails beside
// the block that follows only if it has another child.
static void walk_blocks(struct kv *kv, const struct kv_table *table, const int32_t *token,
                        int n_token, uint32_t max_block, struct walk *walk) {
    struct place at = {.node = table->node, .n_block = table->n_node};
    memcpy(at.run, table->first, sizeof at.run);
    *walk = (struct walk){.best = at, .parted = at.n_block};
    for (bool goes_on = true; goes_on;) {
        struct place next = at;
        uint32_t node = KV_ROOT;
        if (at.n_block < max_block)
            node = prefix_find(kv, at.node, token + (size_t)at.n_block * KV_PAGE_TOKENS,
                               KV_PAGE_TOKENS);
        goes_on = node != KV_ROOT && place_add(kv, &next, node);
        if (kv->recurrent && at.n_block < table->max_page &&
            kv->node[at.node].n_child > (node != KV_ROOT))
            try_tails(kv, at, token, n_token, &walk->best);
        if (!goes_on) break;
        at = next;
        if (is_served(kv, &at, false)) walk->parted = at.n_block;
        if (is_served(kv, &at, true)) walk->best = at;
    }
}

static void take_page(struct kv *kv, struct kv_table *table, uint32_t node, uint32_t block) {
    for (int g = 0; g < kv->n_group; g++) {
        if (block < table->first[g]) continue;
        table->page[g][block] = kv->node[node].page[g];
        kv_page_hold(kv, g, table->page[g][block]);
    }
}

// Takes the pages of the blocks after the table's own, up to the place.
static void extend(struct kv *kv, struct kv_table *table, const struct place *place) {
    kv_give_back(kv, table, positions_of(place));
    if (place->tail != KV_ROOT) take_page(kv, table, place->tail, place->n_block);
    uint32_t at = place->node;
    for (uint32_t b = place->n_block; b-- > table->n_node; at = kv->node[at].parent)
        take_page(kv, table, at, b);
    table->n_page = place->n_block + (place->tail != KV_ROOT);
    prefix_move(kv, table, place->node, place->n_block);
}

int kv_hit(struct kv *kv, struct kv_table *table, const int32_t *token, int n_token,
           const char *salt, size_t n_salt) {
    const int had = (int)table->n_node * KV_PAGE_TOKENS;
    if (kv->no_prefix || table->unlisted || table->n_page != table->n_node) return had;
    uint32_t max_block = n_token > 0 ? (uint32_t)(n_token - 1) / KV_PAGE_TOKENS : 0;
    if (max_block > table->max_page) max_block = table->max_page;
    if (table->n_page == 0 && table->node == KV_ROOT && n_salt > 0 &&
        !enter_salt(kv, table, salt, n_salt)) {
        table->unlisted = true;
        return 0;
    }
    struct walk walk;
    walk_blocks(kv, table, token, n_token, max_block, &walk);
    const int n = positions_of(&walk.best), parted = (int)walk.parted * KV_PAGE_TOKENS;
    if (kv->recurrent && table->n_keep == 0 && parted >= n + PART_BLOCKS * KV_PAGE_TOKENS)
        kv_keep(table, parted);
    if (n == had) return had;
    extend(kv, table, &walk.best);
    return n;
}

int kv_peek(struct kv *kv, const int32_t *token, int n_token, const char *salt, size_t n_salt) {
    const uint32_t max_block = n_token > 0 ? (uint32_t)(n_token - 1) / KV_PAGE_TOKENS : 0;
    struct kv_table table = {.max_page = max_block + 1};
    if (kv->no_prefix) return 0;
    if (n_salt > 0) {
        struct key key = {.parent = KV_ROOT, .n_token = KV_PAGE_TOKENS, .n_salt = n_salt};
        memcpy(key.token, salt, n_salt);
        table.node = find(kv, &key);
        if (table.node == KV_ROOT) return 0;
    }
    struct walk walk;
    walk_blocks(kv, &table, token, n_token, max_block, &walk);
    return positions_of(&walk.best);
}

// --- registering ---

// The table's page becomes the node's, or the other way round where the node has one: they are
// equal bit for bit. A run ends with the block.
static void enlist(struct kv *kv, struct kv_table *table, uint32_t at, int g, uint32_t block) {
    struct kv_node *const node = &kv->node[at];
    const uint32_t mine = table->page[g][block], known = node->page[g];
    struct kv_page *const page = &kv->group[g].page[mine];
    if (known == mine) return;
    assert(page->node == KV_ROOT);
    if (known == KV_NO_PAGE) {
        node->page[g] = mine;
        node->n_page++;
        page->node = at;
        kv_tell_stored(kv, at, g);
        return;
    }
    kv_page_hold(kv, g, known);
    for (uint32_t b = block + 1; b-- > table->first[g] && table->page[g][b] == mine;)
        table->page[g][b] = known;
    kv_page_drop(kv, g, mine);
}

// Whether the table's page of a full block belongs to its node. A state does where it is to be kept
// and did not move on.
static bool is_listed(const struct kv *kv, const struct kv_table *table, int g, uint32_t block) {
    if (block < table->first[g]) return false;
    return kv->group[g].kind != KV_RECURRENT ||
           (kv_is_kept(kv, table, g, block) && kv_ends_run(table, g, block));
}

void kv_commit(struct kv *kv, struct kv_table *table, const int32_t *token, int n_done) {
    if (kv->no_prefix || table->unlisted) return;
    const uint32_t n_full = (uint32_t)n_done / KV_PAGE_TOKENS;
    assert(n_full <= table->n_page);
    for (uint32_t b = table->n_node; b < n_full; b++) {
        const struct key key =
            key_of(table->node, token + (size_t)b * KV_PAGE_TOKENS, KV_PAGE_TOKENS);
        const uint32_t at = find_or_add(kv, &key);
        if (at == KV_ROOT) {
            table->unlisted = true;
            return;
        }
        for (int g = 0; g < kv->n_group; g++)
            if (is_listed(kv, table, g, b)) enlist(kv, table, at, g, b);
        prefix_move(kv, table, at, b + 1);
    }
}

// The node that the last block's pages are to be registered at: the tail's, or that of a full
// block. KV_ROOT: there is none. A page that another text registered stays there.
static uint32_t last_node(struct kv *kv, const struct kv_table *table, const int32_t *token,
                          int n_done) {
    const uint32_t n_full = (uint32_t)n_done / KV_PAGE_TOKENS;
    const int n_tail = n_done % KV_PAGE_TOKENS;
    if (table->unlisted || table->n_node != n_full) return KV_ROOT;
    if (n_tail == 0) return table->node;
    const struct key key = key_of(table->node, token + (size_t)n_full * KV_PAGE_TOKENS, n_tail);
    const uint32_t known = find(kv, &key);
    for (int g = 0; g < kv->n_group; g++) {
        const uint32_t node = kv->group[g].page[table->page[g][n_full]].node;
        if (node != KV_ROOT && node != known) return KV_ROOT;
    }
    return known != KV_ROOT ? known : find_or_add(kv, &key);
}

void kv_retire(struct kv *kv, struct kv_table *table, const int32_t *token, int n_done) {
    assert(table->n_flight == 0 && !table->marked);
    if (kv->recurrent && !kv->no_prefix && n_done > 0) {
        const uint32_t block = (uint32_t)(n_done - 1) / KV_PAGE_TOKENS;
        kv_cut(kv, table, block + 1);
        kv_commit(kv, table, token, n_done);
        const uint32_t at = last_node(kv, table, token, n_done);
        for (int g = 0; at != KV_ROOT && g < kv->n_group; g++)
            if (block >= table->first[g]) enlist(kv, table, at, g, block);
    }
    kv_release(kv, table);
}

void kv_forget_prefixes(struct kv *kv) {
    for (int g = 0; g < kv->n_group; g++)
        while (kv->group[g].oldest != KV_NO_PAGE) kv_evict(kv, g, kv->group[g].oldest);
}
