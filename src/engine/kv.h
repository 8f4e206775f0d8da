// Pages of KV memory and who owns them. The manager knows ids and bytes; the memory is the
// backend's. A page holds 32 positions (a block) of all layers of a group. All groups draw on one
// budget in bytes: a page that no table holds is reclaimable, whatever group needs its bytes.
//
// What a group needs of a table that has n positions done:
//   full       the pages of all blocks
//   window     those of the blocks that position n, or a later one, can see
//   recurrent  the page of the block that holds position n - 1: the state after it. A block's page
//              is the state after the last of its positions that was evaluated, so a full block's
//              page is a checkpoint. It is read when the next block begins and not needed after.
//
// Invariants (kv_check_*):
//  1. ref of a page is the number of tables that hold it;
//  2. a page is exactly one of: held (ref > 0), cached (ref 0, has a node), free (ref 0, no node,
//     has memory), fresh (never had memory, or gave it back);
//  3. cached pages are in their group's LRU list once, free ones on its free stack once;
//  4. held + cached + free bytes never exceed the budget;
//  5. a node and a page that it names name each other; a node lives while it has a page, a child
//     or a table, and its children and tables are counted;
//  6. a table's blocks [0, n_node) are full and registered: its node is the chain of their tokens;
//  7. a table names, in every group, the pages of the blocks [first[g], n_page), none before.
//
//              kv_grow (cleared or copied by the run)        kv_commit (block full)
//   fresh/free ------------------------------------> held ------------------------> held, node
//      ^  ^                                            |  release without node         |  ^
//      |  +--------------------------------------------+                       release |  | kv_hit
//      +------------------------- evicted, least recently used ---------------- cached +--+
#ifndef RN_ENGINE_KV_H
#define RN_ENGINE_KV_H

#include "backend/backend.h"
#include "plan/batch.h"

enum { KV_NO_PAGE = UINT32_MAX, KV_MAX_SALT = KV_PAGE_TOKENS * 4 };

struct kv_config {
    int n_group;
    struct {
        enum kv_kind kind;
        int window;
        uint64_t page_bytes;
    } group[PLAN_MAX_KV_GROUPS];
    uint64_t budget;  // bytes
    int max_tables;   // that hold pages at a time
    int max_page_ops; // clears and copies between two kv_take_ops
    bool no_prefix;   // nothing is kept for others: kv_hit finds nothing, kv_commit does nothing
};

// The pages of one sequence; zeroed it is empty.
struct kv_table {
    uint32_t *page[PLAN_MAX_KV_GROUPS]; // [max_page]; KV_NO_PAGE where none is held
    uint32_t first[PLAN_MAX_KV_GROUPS]; // blocks before it were given back
    uint32_t n_page, max_page;          // blocks
    uint32_t node, n_node;              // the last registered block's node, and how many there are
};

struct kv_stats {
    uint64_t budget, held_bytes, cached_bytes;
    uint32_t pages_total, pages_held, pages_cached; // of all groups; total: what the budget holds
                                                    // at most
    uint32_t pages_shared;              // held by more than one table
    uint64_t lookups, hits;             // kv_hit calls on empty tables; those that found something
    uint64_t lookup_tokens, hit_tokens; // tokens that could have been found; that were
    uint64_t evictions, copies;
};

struct kv; // kv.c and prefix.c share kv_internal.h

rn_status kv_create(const struct kv_config *config, struct backend *backend, struct kv **out,
                    rn_error *err);
void kv_destroy(struct kv *kv); // NULL is fine

// The most pages a group can have: what the backend's memory must have room for.
uint32_t kv_group_pages(const struct kv_config *config, int group);

// --- tables ---

// Memory for a table of that many positions; no page is taken. Any thread.
rn_status kv_table_init(struct kv_table *table, int n_group, int n_positions, rn_error *err);
void kv_table_deinit(struct kv_table *table); // holds nothing

// Extends a table whose blocks are all full and registered (an empty one too) with the pages of
// equal prefixes, as far as every group can serve; returns the positions that it has now, a
// multiple of KV_PAGE_TOKENS and less than n_token. salt: [n_salt], at most KV_MAX_SALT bytes.
int kv_hit(struct kv *kv, struct kv_table *table, const int32_t *token, int n_token,
           const char *salt, size_t n_salt);

// Of `wanted` positions after the n_done that are done, how many kv_grow would give: page bytes are
// the limit. 0 to wanted.
int kv_room(const struct kv *kv, const struct kv_table *table, int n_done, int wanted);

// Makes positions [n_done, n_done + n) writable: gives back what position n_done and later ones
// cannot see, copies a shared page that will be written, takes new pages. False: not enough bytes,
// nothing was changed but what was given back.
bool kv_grow(struct kv *kv, struct kv_table *table, int n_done, int n);

// Blocks that are full by now become findable; a block that another table computed too is stored
// once from then on. token: the sequence's.
void kv_commit(struct kv *kv, struct kv_table *table, const int32_t *token, int n_done);

// `to`, which is empty, shares the pages of the first n_positions of `from`, in whole blocks where
// a group is recurrent. Returns the positions that it has then, 0 when `from` gave back what is
// needed.
int kv_fork(struct kv *kv, const struct kv_table *from, struct kv_table *to, int n_positions);

// Gives up all pages; registered ones stay findable until their bytes are needed.
void kv_release(struct kv *kv, struct kv_table *table);

// Forgets every page that no table holds: what is cached becomes free.
void kv_forget_prefixes(struct kv *kv);

// The bytes that a sequence of n_positions needs at once when it grows `chunk` positions at a time.
uint64_t kv_need(const struct kv_config *config, int n_positions, int chunk);

// Clears and copies since the last call, in order; valid until the next kv_grow. They are to be
// done before the batch that writes the pages.
const struct batch_page *kv_take_ops(struct kv *kv, int *n);

void kv_get_stats(const struct kv *kv, struct kv_stats *out);

// Tests the invariants: begin, every table that holds pages, end. False: broken. Allocates nothing.
void kv_check_begin(struct kv *kv);
void kv_check_table(struct kv *kv, const struct kv_table *table);
bool kv_check_end(struct kv *kv);

#endif
