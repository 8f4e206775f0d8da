// The parts that the files of the page manager share: kv.c owns pages, kv_table.c tables, prefix.c
// the nodes. kv_evict.c chooses the pages to evict, kv_stored.c knows of the page store, kv_check.c
// tests the invariants of kv.h. Zeroed
// pages and nodes are unused ones, so that memory for the largest budget costs nothing until it is
// touched.
#ifndef RN_ENGINE_PAGES_KV_INTERNAL_H
#define RN_ENGINE_PAGES_KV_INTERNAL_H

#include "engine/pages/kv.h"

enum { KV_ROOT = 0 }; // the node that all chains without a salt begin at; a page's: none

struct kv_page {
    uint64_t tick;         // cached: when it became so
    uint32_t ref;          // tables that hold it
    uint32_t pins;         // copies that are to read it
    uint32_t node;         // KV_ROOT: not findable
    uint32_t older, newer; // cached: neighbours in the LRU list
    bool memory;           // false: fresh
    bool pending;          // is the target of an op that was not taken yet
    uint16_t offer;        // to the page store, which may be over; 0: none
};

struct kv_group {
    enum kv_kind kind;
    int window;
    uint32_t interval; // recurrent: at least 1
    uint64_t page_bytes;
    uint32_t n_page;
    uint32_t n_held;
    uint32_t n_used;         // pages [n_used, n_page) never had memory
    struct kv_page *page;    // [n_page]
    uint32_t *stack;         // [n_page] free pages from the start, forgotten ones from the end
    uint32_t n_free;         // have memory
    uint32_t n_forgotten;    // had memory
    uint32_t oldest, newest; // ends of the LRU list; KV_NO_PAGE: empty
    uint32_t *seen;          // [n_page] the check's
};

// 32 tokens after those of the parent, fewer of them (a tail), or a salt. Everything is compared,
// the hash only finds.
struct kv_node {
    int32_t token[KV_PAGE_TOKENS]; // padded with zeros; a salt: its bytes
    uint64_t hash;
    uint32_t parent;
    uint32_t next; // in its bucket, or of the free nodes
    uint32_t n_child, n_table;
    uint32_t depth;                    // blocks from the chain's start, its own included
    uint32_t page[PLAN_MAX_KV_GROUPS]; // KV_NO_PAGE: none
    uint8_t n_page;
    uint8_t n_salt;  // bytes; 0: a block or a tail
    uint8_t n_token; // KV_PAGE_TOKENS, of a tail fewer
    bool used;
    bool has_key;       // in kv.key
    uint8_t told_pages; // kv_tell.c
    uint32_t told;
};

// kv_tell.c: the listener of the prefix cache's blocks.
struct kv_teller {
    rn_block_fn fn; // NULL: there is none
    void *ctx;
    uint32_t epoch;   // of the marks of nodes; 0: none is valid
    uint32_t walk;    // the next node to tell again; KV_ROOT: none
    int walk_most;    // changes that the walk tells in a step
    bool is_behind;   // blocks are left for another walk
    bool is_lost;     // the listener had no room
    bool has_changes; // since the last settled ones
};

struct kv {
    struct backend *backend;
    int n_group, first_group;
    bool no_prefix;
    bool recurrent; // some group is
    struct kv_group group[PLAN_MAX_KV_GROUPS];
    uint64_t block_bytes; // a page of each group that is not recurrent
    int n_block_group;    // the number of these groups
    uint64_t budget, held_bytes, cached_bytes, free_bytes;
    uint64_t tick;
    struct batch_page *op; // [max_op]
    int n_op, max_op;
    // prefix.c
    struct kv_node *node; // [n_node]; 0 is the root
    uint32_t n_node;
    uint32_t n_node_used; // nodes [n_node_used, n_node) were never used
    uint32_t free_node;   // KV_ROOT: none
    uint32_t *bucket;     // [n_bucket], a power of two
    uint32_t n_bucket;
    uint64_t hash_mask;  // all ones; tests force collisions
    uint32_t *node_mark; // [n_node] scratch of the check, and of the naming of chains
    bool sound;          // the check's
    struct kv_stats stats;
    struct kv_teller teller;
    // kv_stored.c
    struct kv_store store; // .pages NULL: none
    struct page_key *key;  // [n_node] of nodes that have one, with a store
};

_Static_assert(sizeof(struct kv_page) == 32, "a page's record grew");
_Static_assert(PLAN_MAX_KV_GROUPS <= 8, "told_pages has a bit for each");
_Static_assert(KV_MAX_SALT <= UINT8_MAX, "a salt's length has a byte");

// --- kv.c ---

void kv_page_hold(struct kv *kv, int g, uint32_t id); // by one more table; held or cached
void kv_page_drop(struct kv *kv, int g, uint32_t id); // by one table
// A page for one table. The caller made sure that there is room for it beside the held ones.
uint32_t kv_page_acquire(struct kv *kv, int g);
// The page is cleared, or copied, before the next run.
void kv_op_add(struct kv *kv, int g, uint32_t id, uint32_t from);
void kv_evict(struct kv *kv, int g, uint32_t id); // cached: becomes free

// --- kv_table.c ---

// The first block that a table with n positions done needs.
uint32_t kv_first_block(const struct kv_group *group, int n_done);
// Gives back the blocks that position n_done and later ones cannot see.
void kv_give_back(struct kv *kv, struct kv_table *table, int n_done);
// Gives back the blocks from `block` on, in all groups.
void kv_cut(struct kv *kv, struct kv_table *table, uint32_t block);
// Whether the state at the end of the block is to be kept.
bool kv_is_kept(const struct kv *kv, const struct kv_table *table, int g, uint32_t block);
// Whether the run that the block is in ends with it.
static inline bool kv_ends_run(const struct kv_table *table, int g, uint32_t block) {
    return block + 1 >= table->n_page || table->page[g][block + 1] != table->page[g][block];
}

// --- kv_evict.c ---

// Blocks that computing a state again takes, from the state before it; at most 64, and 0 where it
// serves nobody.
int kv_state_cost(const struct kv *kv, int g, uint32_t id);
bool kv_evict_oldest(struct kv *kv);           // of all groups; false: nothing is cached
void kv_evict_oldest_of(struct kv *kv, int g); // of a group that has cached pages

// --- kv_tell.c ---

// The group's page was registered at the node; the page of the node is taken from it.
void kv_tell_stored(struct kv *kv, uint32_t at, int g);
void kv_tell_removed(struct kv *kv, uint32_t at, int g);

// --- prefix.c ---

rn_status prefix_init(struct kv *kv, int max_tables, rn_error *err);
void prefix_deinit(struct kv *kv);
// Moves the table's count to a node of the same salt, its n_node-th block.
void prefix_move(struct kv *kv, struct kv_table *table, uint32_t node, uint32_t n_node);
// The node n blocks above.
uint32_t prefix_above(const struct kv *kv, uint32_t node, uint32_t n_block);
// Takes the page from its node, which goes when nothing else needs it.
void prefix_detach(struct kv *kv, int g, uint32_t id);
uint64_t prefix_hash(const struct kv *kv, uint32_t parent, const int32_t *token, int n_token);
// The node of the n_token tokens behind a node: a block, or a tail. KV_ROOT: there is none.
uint32_t prefix_find(struct kv *kv, uint32_t parent, const int32_t *token, int n_token);

// --- kv_stored.c ---

// A findable page is held by nobody any more, or will soon be: the store may have it.
void kv_offer(struct kv *kv, int g, uint32_t id);
// The page stops being findable: its bytes may change.
void kv_withdraw(struct kv *kv, int g, uint32_t id);

#endif
