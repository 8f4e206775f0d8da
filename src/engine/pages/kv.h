// Pages of KV memory and their owners. The manager knows ids and bytes; the memory is the
// backend's. A page holds 32 positions (a block) of all layers of a group. All groups draw on one
// budget in bytes: any group may reclaim a page that no table holds.
//
// The pages that a group needs for a table with n positions done:
//   full       the pages of all blocks
//   window     the pages of the blocks that position n, or a later one, can see
//   chunk      the same: those from the start of the chunk that position n is in
//   recurrent  the page of the block that holds position n - 1: the state after it
//
// The state of a recurrent group moves. Neighbouring blocks of a table may name the same page: a
// run. Its page is the state after the last position of the run's last block, or after the last
// position that was evaluated. The next block joins the run unless the state before it is to be
// kept: then the block has a page of its own, and the run's page is a checkpoint.
//
// A checkpoint is kept at every interval-th block, and where kv_keep asked for it. It is a wish: a
// growth that finds no other page moves the state on and loses it. So a sequence never needs more
// than its one state, and never fails for the sake of a checkpoint.
//
// Invariants (kv_check_*):
//  1. ref of a page is the number of tables that hold it, pins the number of copies not yet taken
//     that read it. A run is one hold. A mark holds its state once more, and a snapshot is held.
//  2. a page is exactly one of: held (ref or pins > 0), cached (else, has a node), free (no node,
//     has memory), fresh (never had memory, or gave it back).
//  3. cached pages are in their group's LRU list once, free ones on its free stack once.
//  4. held + cached + free bytes never exceed the budget.
//  5. a node and a page that it names name each other. A node lives while it has a page, a child or
//     a table. Its children and tables are counted. A tail, a node of fewer than 32 tokens, has
//     neither children nor tables.
//  6. a table's blocks [0, n_node) are full and registered: its node is the chain of their tokens.
//     Of other groups than recurrent ones, pages that the table holds of them are the chain's. A
//     recurrent page with a node is the state at that node's end, and its run ends there too.
//  7. a table names, in every group, the pages of the blocks [first[g], n_page), no others. A page
//     is named twice only by a run, in recurrent groups.
//
//              kv_grow (cleared or copied by the run)    kv_commit, kv_retire (block full; tail)
//   fresh/free ------------------------------------> held ------------------------> held, node
//      ^  ^                                            |  release without node         |  ^
//      |  +--------------------------------------------+                       release |  | kv_hit
//      +------------------------------- evicted, see kv_evict.c --------------- cached +--+
//
// Growing never fails while held_bytes and the new pages fit the budget. Pages that are not held
// are taken back one by one, and a group has ids for the whole budget. Where the groups have memory
// of their own (kv_fix_pages), each must have the pages too.
#ifndef RN_ENGINE_PAGES_KV_H
#define RN_ENGINE_PAGES_KV_H

#include "backend/backend.h"
#include "base/status.h"
#include "engine/store/page_store.h"
#include "plan/batch.h"
#include "runnel.h"

#define KV_NO_PAGE UINT32_MAX
enum { KV_MAX_SALT = KV_PAGE_TOKENS * 4, KV_MAX_GROUP_PAGES = 1 << 28, KV_MAX_KEEP = 4 };

struct kv_config {
    int n_group;
    int first_group; // the number that group 0 has on the backend
    struct {
        enum kv_kind kind;
        int window; // KV_WINDOW, KV_CHUNK: at least 1
        uint64_t page_bytes;
        uint32_t max_pages; // that the group has memory for; 0: as many as the budget holds
        int interval;       // KV_RECURRENT: blocks from one checkpoint to the next; 0 is 1
    } group[PLAN_MAX_KV_GROUPS];
    uint64_t budget;  // bytes
    int max_tables;   // that hold pages at a time
    int max_page_ops; // clears and copies between two kv_take_ops: kv_room ends where they do
    bool no_prefix;   // nothing is kept for others: kv_hit finds nothing, kv_commit does nothing
};

// The pages of one sequence; zeroed it is empty.
struct kv_table {
    uint32_t *page[PLAN_MAX_KV_GROUPS]; // [max_page]; KV_NO_PAGE where none is held
    uint32_t first[PLAN_MAX_KV_GROUPS]; // blocks before it were given back
    uint32_t n_page, max_page;          // blocks
    uint32_t node, n_node; // the last registered block's node, or the salt's without one, and the
                           // number of such blocks
    int n_flight; // the last of the n_done positions that kv_room and kv_grow are told of: steps in
                  // flight evaluate them. Pages that the first of them sees are kept until then
    uint32_t keep[KV_MAX_KEEP]; // blocks whose state was asked for, beside those of the interval
    uint32_t n_keep;
    bool unlisted;                          // nodes ran out: registers no more
    bool marked;                            // between kv_mark and kv_settle
    uint32_t mark;                          // positions at the mark
    uint32_t mark_page[PLAN_MAX_KV_GROUPS]; // recurrent groups': the state there; KV_NO_PAGE: none
    uint32_t from[PLAN_MAX_KV_GROUPS]; // the same where the first tried row reads it from there,
                                       // see kv_state_from
    int n_snapshot; // tried positions behind which the state is kept too; 0: none
    uint32_t snapshot[PLAN_MAX_KV_GROUPS]; // recurrent groups': that state
};

struct kv_stats {
    uint64_t budget, held_bytes, cached_bytes;
    uint64_t state_held_bytes, state_cached_bytes; // of them, those of recurrent groups
    // pages of the other groups
    uint32_t pages_total; // the most that the budget can hold
    uint32_t pages_held, pages_cached;
    uint32_t pages_shared; // held by more than one table
    // pages of recurrent groups
    uint32_t states_total, states_held, states_cached;
    uint64_t evictions, state_evictions; // of pages, of states
};

struct kv; // the files of this folder share kv_internal.h

// Takes all memory that the manager will ever need. A budget of more than KV_MAX_GROUP_PAGES pages
// of a group is RN_ERR_ARG.
rn_status kv_create(const struct kv_config *config, struct backend *backend, struct kv **out,
                    rn_error *err);
void kv_destroy(struct kv *kv); // NULL is fine

// Divides the budget among the groups, for memory that cannot move between them: each gets the
// pages that a lone sequence of n_positions needs. The rest is divided in proportion to the needs
// of a sequence that grows by `chunk`. A recurrent group needs its checkpoints there too, as far as
// they take no more than the other groups. The budget holds a sequence of n_positions.
void kv_fix_pages(struct kv_config *config, int n_positions, int chunk);

// The most pages a group can have; the backend's memory must have room for them.
uint32_t kv_group_pages(const struct kv_config *config, int group);

// --- tables ---

// Memory for a table of that many positions; no page is taken. Any thread.
rn_status kv_table_init(struct kv_table *table, int n_group, int n_positions, rn_error *err);
void kv_table_deinit(struct kv_table *table); // released before, or never used

// Extends a table whose blocks are all full and registered (an empty one too) with the pages of
// equal prefixes, as far as every group can serve. Returns the positions that it has now, less than
// n_token. They end inside a block where a tail was found. A table with other blocks too is left as
// it is, and the result is not more than its positions. salt: [n_salt], at most KV_MAX_SALT bytes.
// The call on the empty table decides where kv_commit registers, so the caller must make it, and
// must call kv_release afterwards even when nothing was found. With an n_token of 1 it does only
// that, for a sequence whose positions are all to be evaluated. Where the known blocks of the first
// call go further than the states, the state at their end will be kept: prompts part there.
int kv_hit(struct kv *kv, struct kv_table *table, const int32_t *token, int n_token,
           const char *salt, size_t n_salt);
// The positions that a table of such tokens would start with. Nothing changes.
int kv_peek(struct kv *kv, const int32_t *token, int n_token, const char *salt, size_t n_salt);

// The state at the end of the last whole block within the first n_positions is to be kept, when the
// table comes there. A few are remembered, the latest blocks.
void kv_keep(struct kv_table *table, int n_positions);

// Where `ahead`, which has registered at least the blocks of `table`, will next leave a state that
// `table` may continue from if its tokens are equal up to there: at the end of a block. 0: nowhere,
// or too far ahead to look.
int kv_next_state(const struct kv *kv, const struct kv_table *table, const struct kv_table *ahead);

// Of `wanted` positions after the n_done that are done, how many kv_grow would give: page bytes are
// the limit. 0 to wanted.
int kv_room(const struct kv *kv, const struct kv_table *table, int n_done, int wanted);

// Makes positions [n_done, n_done + n) writable: gives back pages that position n_done and later
// ones cannot see, copies a shared page that will be written, takes new pages. A new page of a
// recurrent group is not cleared: rows write it whole. Checkpoints get the pages that are left.
// False: not enough bytes; only the pages that were given back have changed.
bool kv_grow(struct kv *kv, struct kv_table *table, int n_done, int n);

// Positions from n_done on are tried: kv_grow, a run, then kv_settle says which stay. In between
// the table is not committed; positions before the mark may be forked. The state of recurrent
// groups at n_done is kept aside: the tried rows read it from there, and write other pages.
void kv_mark(struct kv *kv, struct kv_table *table, int n_done);
// The pages that rows from first_pos on read their states from, where the table names others:
// batch_rows.state_from.
static inline const uint32_t *kv_state_from(const struct kv_table *table, int first_pos) {
    return table->marked && (uint32_t)first_pos == table->mark ? table->from : NULL;
}
// The same for the pages of the snapshot, which the first n_snapshot rows leave.
static inline const uint32_t *kv_snapshot_of(const struct kv_table *table, int first_pos) {
    const bool is_first = table->marked && (uint32_t)first_pos == table->mark;
    return is_first && table->n_snapshot > 0 ? table->snapshot : NULL;
}
// Behind kv_grow of the tried positions, more than n_known: the first n_known of them will stay, so
// the state behind them is kept aside as well. Does nothing where pages are short, or a block ends
// among or behind them.
void kv_snapshot(struct kv *kv, struct kv_table *table, int n_known);
// Of the n_all evaluated positions the first n_kept stay, at least those up to the mark. Pages
// behind them are given back. Returns the positions that the table has then: n_kept, or fewer where
// a recurrent group has gone further than n_kept, which cannot be undone in part. Then it is the
// snapshot's, or the mark's.
int kv_settle(struct kv *kv, struct kv_table *table, int n_kept, int n_all);

// Blocks that are full by now become findable; a block that another table computed too is stored
// once from then on. Of recurrent groups only kept states do. token: the sequence's.
void kv_commit(struct kv *kv, struct kv_table *table, const int32_t *token, int n_done);

// `to`, which is empty, shares the pages of the first n_positions of `from`. n_state: the positions
// that the states of `from` will have seen when the steps in flight are done; no position behind
// them may have been grown. A negative one: unknown. Returns the positions that `to` has then. They
// are fewer where a recurrent group has no state at n_positions: the highest place with one. 0 when
// `from` gave back a page that is needed and the prefix cache has not kept it.
int kv_fork(struct kv *kv, const struct kv_table *from, int n_state, struct kv_table *to,
            int n_positions);

// kv_release for a sequence that ends, or waits, after n_done positions, none of them in flight.
// First its state there becomes findable: as the last block's if that is full, else as a tail that
// names the last block's pages of all groups. Without a recurrent group there is no tail.
void kv_retire(struct kv *kv, struct kv_table *table, const int32_t *token, int n_done);

// --- the page store (kv_stored.c) ---

// Pages that become cached are offered to it, and prompts are looked for in it too.
struct kv_store {
    struct page_store *pages; // outlives the manager
    // ns that computing the n positions from `first` on takes, as a part of a prompt; 0: unknown
    uint64_t (*cost)(void *ctx, int first, int n);
    void *ctx;
};
rn_status kv_set_store(struct kv *kv, const struct kv_store *store, rn_error *err);
// To be called now and then: the store may have become ready, and then gets the cached pages.
void kv_meet_store(struct kv *kv);

// The positions that a table would have with pages of the store, by the rules of kv_hit: fewer than
// n_token. The table is one that kv_hit may extend and found no more for; otherwise, or where the
// store adds nothing, the result is what it has. fetch: lists the pages. read_ns: of those to read.
int kv_find_stored(struct kv *kv, const struct kv_table *table, const int32_t *token, int n_token,
                   struct page_fetch *fetch, double *read_ns);
// The same positions, and no list.
int kv_count_stored(struct kv *kv, const struct kv_table *table, const int32_t *token, int n_token);
// Directly behind kv_find_stored. Gives the table the pages for these positions: known ones, and
// new ones whose bytes are to be read, which are left in the fetch. False: there is no room, and
// nothing changed. Until kv_take_stored the table is not grown, forked or committed; after a
// failure it is released, because its new pages hold nothing.
bool kv_expect_stored(struct kv *kv, struct kv_table *table, int n_positions,
                      struct page_fetch *fetch);
// The bytes are there: full blocks become findable.
void kv_take_stored(struct kv *kv, struct kv_table *table, const int32_t *token, int n_positions);

// Gives up all pages; registered ones stay findable until their bytes are needed.
void kv_release(struct kv *kv, struct kv_table *table);

// Forgets every page that no table holds: cached pages become free.
void kv_forget_prefixes(struct kv *kv);

// --- the listener of blocks (kv_tell.c) ---

// Before any block is stored. fn NULL: none.
void kv_listen(struct kv *kv, rn_block_fn fn, void *ctx);
// A step has ended: its changes are complete. Tells blocks again where the listener lost some.
void kv_tell_settled(struct kv *kv);
// Whether blocks are left to be told with the next steps.
bool kv_is_telling(const struct kv *kv);

// The bytes that a sequence of n_positions needs at once when it grows by `chunk` positions, or
// fewer, at a time. A recurrent group needs two pages, the state and one checkpoint. UINT64_MAX:
// more than can be counted.
uint64_t kv_need(const struct kv_config *config, int n_positions, int chunk);

// The pages of a group that a table holds, but for that of a mark, and the bytes of all groups'.
uint32_t kv_table_pages(const struct kv_config *config, const struct kv_table *table, int g);
uint64_t kv_table_bytes(const struct kv_config *config, const struct kv_table *table);

// Bytes of all groups together; of each group with memory of its own its pages too. Bytes that one
// of those has left are of no use to another.
struct kv_amount {
    uint64_t bytes;
    uint64_t pages[PLAN_MAX_KV_GROUPS];
};
// kv_need in both units. Of a recurrent group's pages it has the state alone.
struct kv_amount kv_need_amount(const struct kv_config *config, int n_positions, int chunk);
struct kv_amount kv_table_amount(const struct kv_config *config, const struct kv_table *table);
// What tables and copies hold, and the most that they can.
void kv_get_amounts(const struct kv *kv, struct kv_amount *held, struct kv_amount *most);
void kv_amount_add(struct kv_amount *sum, const struct kv_amount *more);
void kv_amount_take(struct kv_amount *sum, const struct kv_amount *less); // at least 0 stays
bool kv_amount_fits(const struct kv_amount *amount, const struct kv_amount *room);

// Clears and copies since the last call, in order; valid until the next kv_grow, before which they
// are to be done. A page is the target of at most one of them.
const struct batch_page *kv_take_ops(struct kv *kv, int *n);

void kv_get_stats(const struct kv *kv, struct kv_stats *out);

// A picture of all pages, group after group (kv_view.c). Room for all of them is initialised once.
// Then come the states, which name no holder, then every table that holds pages, with the id of its
// request.
size_t kv_view_pages(const struct kv *kv);
void kv_view_init(const struct kv *kv, rn_page_view *out);
void kv_view_states(const struct kv *kv, rn_page_view *out);
void kv_view_table(const struct kv *kv, const struct kv_table *table, uint64_t owner,
                   rn_page_view *out);

// Tests the invariants: begin, every table that holds pages or a salt, end. False: broken.
// Allocates nothing.
void kv_check_begin(struct kv *kv);
void kv_check_table(struct kv *kv, const struct kv_table *table);
bool kv_check_end(struct kv *kv);

#endif
