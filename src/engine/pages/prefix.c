// The prefix cache: full blocks of tokens are nodes of a tree, and a node names the page of its
// block in each group that has one. Equal chains of nodes are equal prefixes; a chain begins at the
// root or at its salt's node. The hash of a node is seeded by its parent's, and the root's is
// random, so no client can aim at a bucket. Nodes come from a pool: when it is empty, old pages are
// evicted for a few nodes, or the table continues unregistered. Called as kv.c is.
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
    NODES_SPARE = 64, // beyond one for each page and one for each table's salt
    NODE_EVICTIONS =
        64, // pages that one node may cost: a pool full of held chains has none to give
};

rn_status prefix_init(struct kv *kv, int max_tables, rn_error *err) {
    uint64_t n = NODES_SPARE + (uint64_t)max_tables;
    for (int g = 0; g < kv->n_group; g++) n += kv->group[g].n_page;
    if (kv->no_prefix) n = 1;
    kv->n_node = n > NODES_MAX ? NODES_MAX : (uint32_t)n;
    kv->n_bucket = 1;
    while (kv->n_bucket < kv->n_node) kv->n_bucket *= 2;
    kv->node = calloc(kv->n_node, sizeof *kv->node);
    kv->node_seen = calloc(kv->n_node, sizeof *kv->node_seen);
    kv->bucket = calloc(kv->n_bucket, sizeof *kv->bucket);
    if (!kv->node || !kv->node_seen || !kv->bucket)
        return err_set(err, RN_ERR_NOMEM, "no memory for %u blocks of prefixes", kv->n_node);
    kv->hash_mask = UINT64_MAX;
    kv->node[KV_ROOT].hash = entropy_u64();
    kv->n_node_used = 1;
    return RN_OK;
}

void prefix_deinit(struct kv *kv) {
    free(kv->node);
    free(kv->node_seen);
    free(kv->bucket);
}

// --- nodes ---

uint64_t prefix_hash(const struct kv *kv, uint32_t parent, const int32_t *token) {
    const size_t bytes = KV_PAGE_TOKENS * sizeof *token;
    return XXH3_64bits_withSeed(token, bytes, kv->node[parent].hash) & kv->hash_mask;
}

static uint32_t *bucket_of(struct kv *kv, uint64_t hash) {
    return &kv->bucket[hash & (kv->n_bucket - 1)];
}

// KV_ROOT: there is none.
static uint32_t find(struct kv *kv, uint32_t parent, const int32_t *token, size_t n_salt) {
    const uint64_t hash = prefix_hash(kv, parent, token);
    uint32_t at = *bucket_of(kv, hash);
    for (; at != KV_ROOT; at = kv->node[at].next) {
        const struct kv_node *const node = &kv->node[at];
        if (node->hash == hash && node->parent == parent && node->n_salt == n_salt &&
            memcmp(node->token, token, sizeof node->token) == 0)
            break;
    }
    return at;
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
static uint32_t find_or_add(struct kv *kv, uint32_t parent, const int32_t *token, size_t n_salt) {
    uint32_t at = find(kv, parent, token, n_salt);
    if (at != KV_ROOT || (at = take_free_node(kv)) == KV_ROOT) return at;
    struct kv_node *const node = &kv->node[at];
    *node = (struct kv_node){.hash = prefix_hash(kv, parent, token),
                             .parent = parent,
                             .n_salt = (uint8_t)n_salt,
                             .used = true};
    memcpy(node->token, token, sizeof node->token);
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++) node->page[g] = KV_NO_PAGE;
    uint32_t *const bucket = bucket_of(kv, node->hash);
    node->next = *bucket;
    *bucket = at;
    kv->node[parent].n_child++;
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
    int32_t padded[KV_PAGE_TOKENS] = {0};
    memcpy(padded, salt, n_salt);
    const uint32_t node = find_or_add(kv, KV_ROOT, padded, n_salt);
    if (node == KV_ROOT) return false;
    prefix_move(kv, table, node, 0);
    return true;
}

// The longest prefix of up to max_block blocks that every group can serve: its last node, and in
// n_block how many blocks it has.
static uint32_t longest(struct kv *kv, const struct kv_table *table, const int32_t *token,
                        uint32_t max_block, uint32_t *n_block) {
    uint32_t run[PLAN_MAX_KV_GROUPS]; // from this block on every page is there
    memcpy(run, table->first, sizeof run);
    uint32_t best = table->node, at = table->node;
    *n_block = table->n_node;
    for (uint32_t b = table->n_node; b < max_block; b++) {
        at = find(kv, at, token + (size_t)b * KV_PAGE_TOKENS, 0);
        if (at == KV_ROOT) break;
        bool served = true;
        for (int g = 0; g < kv->n_group; g++) {
            const struct kv_group *const group = &kv->group[g];
            if (kv->node[at].page[g] == KV_NO_PAGE) {
                if (group->kind == KV_FULL) return best; // nor can it serve a longer prefix
                run[g] = b + 1;
            }
            served &= run[g] <= kv_first_block(group, (int)(b + 1) * KV_PAGE_TOKENS);
        }
        if (!served) continue;
        best = at;
        *n_block = b + 1;
    }
    return best;
}

// Takes the pages of the blocks after the table's own, up to the node's.
static void extend(struct kv *kv, struct kv_table *table, uint32_t node, uint32_t n_block) {
    kv_give_back(kv, table, (int)n_block * KV_PAGE_TOKENS);
    uint32_t at = node;
    for (uint32_t b = n_block; b-- > table->n_node; at = kv->node[at].parent) {
        for (int g = 0; g < kv->n_group; g++) {
            if (b < table->first[g]) continue;
            table->page[g][b] = kv->node[at].page[g];
            kv_page_hold(kv, g, table->page[g][b]);
        }
    }
    table->n_page = n_block;
    prefix_move(kv, table, node, n_block);
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
    uint32_t n_block;
    const uint32_t node = longest(kv, table, token, max_block, &n_block);
    if (n_block == table->n_node) return had;
    extend(kv, table, node, n_block);
    return (int)n_block * KV_PAGE_TOKENS;
}

// --- registering ---

// The table's page becomes the node's, or the other way round where the node has one: they are
// equal bit for bit.
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
        return;
    }
    kv_page_hold(kv, g, known);
    table->page[g][block] = known;
    kv_page_drop(kv, g, mine);
}

void kv_commit(struct kv *kv, struct kv_table *table, const int32_t *token, int n_done) {
    if (kv->no_prefix || table->unlisted) return;
    const uint32_t n_full = (uint32_t)n_done / KV_PAGE_TOKENS;
    assert(n_full <= table->n_page);
    for (uint32_t b = table->n_node; b < n_full; b++) {
        const uint32_t at = find_or_add(kv, table->node, token + (size_t)b * KV_PAGE_TOKENS, 0);
        if (at == KV_ROOT) {
            table->unlisted = true;
            return;
        }
        for (int g = 0; g < kv->n_group; g++)
            if (b >= table->first[g]) enlist(kv, table, at, g, b);
        prefix_move(kv, table, at, b + 1);
    }
}

void kv_forget_prefixes(struct kv *kv) {
    for (int g = 0; g < kv->n_group; g++)
        while (kv->group[g].oldest != KV_NO_PAGE) kv_evict(kv, g, kv->group[g].oldest);
}
