// Tables: how they grow, try, fork and go. The state of a recurrent group moves from block to block
// in one page, and stays behind in a page of its own where it is a checkpoint. See kv.h for the
// invariants. Called as kv.c is.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/pages/kv_internal.h"

enum { LOOK_BLOCKS = 64 }; // that a table may be behind a state of another that it waits for

// --- tables ---

static uint32_t blocks_for(int n_positions) {
    return ((uint32_t)n_positions + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
}

rn_status kv_table_init(struct kv_table *table, int n_group, int n_positions, rn_error *err) {
    assert(n_positions > 0);
    *table = (struct kv_table){.max_page = blocks_for(n_positions)};
    for (int g = 0; g < n_group; g++) {
        const size_t bytes = table->max_page * sizeof *table->page[g];
        table->page[g] = malloc(bytes);
        if (!table->page[g]) {
            kv_table_deinit(table);
            return err_set(err, RN_ERR_NOMEM, "no memory for a table of %d positions", n_positions);
        }
        memset(table->page[g], 0xff, bytes); // KV_NO_PAGE
    }
    return RN_OK;
}

void kv_table_deinit(struct kv_table *table) {
    assert(table->n_page == 0 && table->node == KV_ROOT);
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++) free(table->page[g]);
    memset(table, 0, sizeof *table);
}

uint32_t kv_first_block(const struct kv_group *group, int n_done) {
    if (group->kind == KV_RECURRENT)
        return n_done == 0 ? 0 : (uint32_t)(n_done - 1) / KV_PAGE_TOKENS;
    return (uint32_t)kv_first_seen(group->kind, group->window, n_done) / KV_PAGE_TOKENS;
}

bool kv_is_kept(const struct kv *kv, const struct kv_table *table, int g, uint32_t block) {
    if (kv->no_prefix || table->unlisted) return false;
    if ((block + 1) % kv->group[g].interval == 0) return true;
    for (uint32_t i = 0; i < table->n_keep; i++)
        if (table->keep[i] == block) return true;
    return false;
}

void kv_keep(struct kv_table *table, int n_positions) {
    if (n_positions < KV_PAGE_TOKENS) return;
    const uint32_t block = (uint32_t)n_positions / KV_PAGE_TOKENS - 1;
    uint32_t lowest = 0;
    for (uint32_t i = 0; i < table->n_keep; i++) {
        if (table->keep[i] == block) return;
        if (table->keep[i] < table->keep[lowest]) lowest = i;
    }
    table->keep[table->n_keep < KV_MAX_KEEP ? table->n_keep++ : lowest] = block;
}

int kv_next_state(const struct kv *kv, const struct kv_table *table, const struct kv_table *ahead) {
    const uint32_t n = table->n_node;
    uint32_t end = ahead->n_node;
    if (end < n || end - n > LOOK_BLOCKS) return 0;
    if (prefix_above(kv, ahead->node, end - n) != table->node) return 0;
    while (end++ - n <= LOOK_BLOCKS) {
        bool is_kept = true;
        for (int g = 0; g < kv->n_group; g++)
            if (kv->group[g].kind == KV_RECURRENT) is_kept &= kv_is_kept(kv, ahead, g, end - 1);
        if (is_kept) return (int)end * KV_PAGE_TOKENS;
    }
    return 0;
}

// The block names no page any more. The page stays held while a neighbour of the run names it.
static void entry_drop(struct kv *kv, struct kv_table *table, int g, uint32_t block) {
    uint32_t *const page = table->page[g];
    const uint32_t id = page[block];
    page[block] = KV_NO_PAGE;
    const bool before = block > 0 && page[block - 1] == id;
    const bool behind = block + 1 < table->max_page && page[block + 1] == id;
    if (!before && !behind) kv_page_drop(kv, g, id);
}

void kv_give_back(struct kv *kv, struct kv_table *table, int n_done) {
    for (int g = 0; g < kv->n_group; g++) {
        const uint32_t first = kv_first_block(&kv->group[g], n_done - table->n_flight);
        for (uint32_t *b = &table->first[g]; *b < first; ++*b) {
            if (*b >= table->n_page) continue; // about to be passed over by a hit
            entry_drop(kv, table, g, *b);
        }
    }
}

// --- room ---

// Room that is left for pages: bytes of all groups, pages of each, operations.
struct room {
    uint64_t bytes, ops;
    uint64_t pages[PLAN_MAX_KV_GROUPS];
};

// Takes a page of the group off the room, and an operation for it; false: there is none.
static bool room_take(const struct kv *kv, struct room *room, int g, bool has_op) {
    const uint64_t bytes = kv->group[g].page_bytes;
    if (room->bytes < bytes || room->pages[g] == 0 || room->ops < has_op) return false;
    room->bytes -= bytes;
    room->pages[g]--;
    room->ops -= has_op;
    return true;
}

// Adds the pages that kv_give_back would make reclaimable.
static void add_unseen(const struct kv *kv, const struct kv_table *table, int n_done,
                       struct room *room) {
    for (int g = 0; g < kv->n_group; g++) {
        const struct kv_group *const group = &kv->group[g];
        const uint32_t first = kv_first_block(group, n_done - table->n_flight);
        for (uint32_t b = table->first[g]; b < first && b < table->n_page; b++) {
            const struct kv_page *const page = &group->page[table->page[g][b]];
            if (page->ref != 1 || page->pins > 0 || !kv_ends_run(table, g, b)) continue;
            room->bytes += group->page_bytes;
            room->pages[g]++;
        }
    }
}

// A recurrent group's page is copied only inside a block: rows at the start of a block read the
// page before.
static bool is_copied(enum kv_kind kind, uint32_t block, int n_done) {
    return kind != KV_RECURRENT || (int64_t)block * KV_PAGE_TOKENS < n_done;
}

// Takes the pages that writing a block of the table needs off the room: a shared one is copied. The
// blocks of a run are written to one page.
static bool writes_fit(const struct kv *kv, const struct kv_table *table, uint32_t block,
                       int n_done, struct room *room) {
    for (int g = 0; g < kv->n_group; g++) {
        const struct kv_group *const group = &kv->group[g];
        const uint32_t *const page = table->page[g];
        const bool begun = (int64_t)block * KV_PAGE_TOKENS > n_done;
        if (group->page[page[block]].ref == 1 || (begun && page[block - 1] == page[block]))
            continue;
        if (!room_take(kv, room, g, is_copied(group->kind, block, n_done))) return false;
    }
    return true;
}

// Takes the pages that the states need for a first new block off the room. A table without blocks
// has no state; a state that others hold too stays theirs.
static bool states_fit(const struct kv *kv, const struct kv_table *table, int n_done,
                       struct room *room) {
    const uint32_t block = table->n_page;
    if ((uint32_t)n_done / KV_PAGE_TOKENS < block) return true; // writes_fit saw to it
    for (int g = 0; g < kv->n_group; g++) {
        const struct kv_group *const group = &kv->group[g];
        if (group->kind != KV_RECURRENT) continue;
        if (block > 0 && group->page[table->page[g][block - 1]].ref == 1) continue;
        if (!room_take(kv, room, g, false)) return false;
    }
    return true;
}

// Takes up to `wanted` new blocks off the room, without states; returns how many fit.
static uint32_t blocks_fit(const struct kv *kv, uint32_t wanted, struct room *room) {
    uint64_t n = wanted;
    const uint64_t n_group = (uint64_t)kv->n_block_group;
    if (n_group == 0) return wanted;
    if (n > room->bytes / kv->block_bytes) n = room->bytes / kv->block_bytes;
    if (n > room->ops / n_group) n = room->ops / n_group;
    for (int g = 0; g < kv->n_group; g++)
        if (kv->group[g].kind != KV_RECURRENT && n > room->pages[g]) n = room->pages[g];
    room->bytes -= n * kv->block_bytes;
    room->ops -= n * n_group;
    for (int g = 0; g < kv->n_group; g++)
        if (kv->group[g].kind != KV_RECURRENT) room->pages[g] -= n;
    return (uint32_t)n;
}

// Positions up to the start of the block, at most wanted.
static int positions_to(uint32_t block, int n_done, int wanted) {
    const int64_t n = (int64_t)block * KV_PAGE_TOKENS - n_done;
    return n < 0 ? 0 : n < wanted ? (int)n : wanted;
}

// kv_room, and the room that these positions leave. Pages for checkpoints are not counted.
static int fit(const struct kv *kv, const struct kv_table *table, int n_done, int wanted,
               struct room *left) {
    assert(n_done >= 0 && wanted >= 0 && blocks_for(n_done) <= table->n_page);
    *left = (struct room){.bytes = kv->budget - kv->held_bytes,
                          .ops = (uint64_t)(kv->max_op - kv->n_op)};
    for (int g = 0; g < kv->n_group; g++)
        left->pages[g] = kv->group[g].n_page - kv->group[g].n_held;
    add_unseen(kv, table, n_done, left);
    const int64_t end = (int64_t)n_done + wanted;
    uint32_t block = (uint32_t)n_done / KV_PAGE_TOKENS;
    for (; block < table->n_page && (int64_t)block * KV_PAGE_TOKENS < end; block++)
        if (!writes_fit(kv, table, block, n_done, left)) return positions_to(block, n_done, wanted);
    uint64_t n_new = ((uint64_t)end + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    n_new = n_new > block ? n_new - block : 0;
    if (n_new > table->max_page - block) n_new = table->max_page - block;
    if (n_new > 0 && states_fit(kv, table, n_done, left))
        block += blocks_fit(kv, (uint32_t)n_new, left);
    return positions_to(block, n_done, wanted);
}

int kv_room(const struct kv *kv, const struct kv_table *table, int n_done, int wanted) {
    struct room left;
    return fit(kv, table, n_done, wanted, &left);
}

// --- growing ---

// The table's page is its own and not findable. A lone owner keeps the page, so that it never needs
// bytes for a copy that kv_need does not know of. A tail that it continues is a tail no more. The
// rest of a run moves to the new page.
static void make_writable(struct kv *kv, struct kv_table *table, int g, uint32_t block,
                          int n_done) {
    uint32_t *const page = table->page[g];
    const uint32_t id = page[block];
    assert(block >= table->n_node); // registered blocks are full, and are not written
    if (kv->group[g].page[id].ref == 1) {
        if (kv->group[g].page[id].node != KV_ROOT) prefix_detach(kv, g, id);
        return;
    }
    const uint32_t own = kv_page_acquire(kv, g);
    if (is_copied(kv->group[g].kind, block, n_done)) {
        if (table->marked && id == table->mark_page[g])
            table->from[g] = id; // the mark holds it; the rows write the other page
        else
            kv_op_add(kv, g, own, id);
    }
    const bool is_first = block == 0 || page[block - 1] != id;
    for (uint32_t b = block; b < table->n_page && page[b] == id; b++) page[b] = own;
    if (is_first) kv_page_drop(kv, g, id);
}

// A page of a new block.
static void page_add(struct kv *kv, struct kv_table *table, int g, uint32_t block) {
    const uint32_t id = kv_page_acquire(kv, g);
    kv_op_add(kv, g, id, BATCH_ZERO);
    table->page[g][block] = id;
}

// The page of a new block of a recurrent group. The state moves on in place unless others hold it,
// or it is a checkpoint and there is room for another page. Where there is none, a checkpoint goes:
// it is worth less than a sequence that runs.
static void state_add(struct kv *kv, struct kv_table *table, int g, uint32_t block,
                      struct room *left) {
    uint32_t *const page = table->page[g];
    if (block == 0) {
        page[0] = kv_page_acquire(kv, g);
        return;
    }
    const struct kv_page *const before = &kv->group[g].page[page[block - 1]];
    const bool stays = before->node != KV_ROOT || kv_is_kept(kv, table, g, block - 1);
    if (before->ref > 1 || (stays && room_take(kv, left, g, false))) {
        page[block] = kv_page_acquire(kv, g);
        return;
    }
    if (before->node != KV_ROOT) prefix_detach(kv, g, page[block - 1]);
    page[block] = page[block - 1];
}

// Whether the blocks [first, end) need no room: the table has them, for itself. So it is in most
// steps of a stream.
static bool has_blocks(const struct kv *kv, const struct kv_table *table, uint32_t first,
                       uint32_t end) {
    if (end > table->n_page) return false;
    for (uint32_t b = first; b < end; b++)
        for (int g = 0; g < kv->n_group; g++)
            if (kv->group[g].page[table->page[g][b]].ref != 1) return false;
    return true;
}

bool kv_grow(struct kv *kv, struct kv_table *table, int n_done, int n) {
    struct room left;
    kv_give_back(kv, table, n_done);
    const uint32_t first = (uint32_t)n_done / KV_PAGE_TOKENS, end = blocks_for(n_done + n);
    if (!has_blocks(kv, table, first, end) && fit(kv, table, n_done, n, &left) < n) return false;
    for (uint32_t b = first; b < end; b++) {
        const bool is_new = b == table->n_page;
        for (int g = 0; g < kv->n_group; g++) {
            if (!is_new)
                make_writable(kv, table, g, b, n_done);
            else if (kv->group[g].kind == KV_RECURRENT)
                state_add(kv, table, g, b, &left);
            else
                page_add(kv, table, g, b);
        }
        table->n_page += is_new;
    }
    return true;
}

// --- positions that are only tried ---

// The block that a recurrent state of n positions is in.
static uint32_t state_block(uint32_t n_positions) { return (n_positions - 1) / KV_PAGE_TOKENS; }

void kv_mark(struct kv *kv, struct kv_table *table, int n_done) {
    assert(!table->marked && blocks_for(n_done) <= table->n_page);
    table->marked = true;
    table->mark = (uint32_t)n_done;
    table->n_snapshot = 0;
    for (int g = 0; g < kv->n_group; g++) {
        table->mark_page[g] = table->from[g] = table->snapshot[g] = KV_NO_PAGE;
        if (kv->group[g].kind != KV_RECURRENT || n_done == 0) continue;
        const uint32_t id = table->page[g][state_block(table->mark)];
        // the other groups' pages of a tail are written, so its state would serve nobody
        const bool is_tail = n_done % KV_PAGE_TOKENS != 0 && kv->group[g].page[id].ref == 1;
        if (is_tail && kv->group[g].page[id].node != KV_ROOT) prefix_detach(kv, g, id);
        table->mark_page[g] = id;
        kv_page_hold(kv, g, table->mark_page[g]); // the next write goes to another page
    }
}

// Blocks from `block` on are given back, as far as they are held.
static void drop_from(struct kv *kv, struct kv_table *table, int g, uint32_t block) {
    if (block < table->first[g]) block = table->first[g];
    for (uint32_t b = table->n_page; b-- > block;) entry_drop(kv, table, g, b);
}

void kv_cut(struct kv *kv, struct kv_table *table, uint32_t block) {
    for (int g = 0; g < kv->n_group; g++) drop_from(kv, table, g, block);
    if (table->n_page > block) table->n_page = block;
}

// Whether states of so many bytes can be had without the last few that prefixes continue from.
static bool spares_states(const struct kv *kv, uint64_t bytes) {
    enum { FEW = 4 };
    const uint64_t used = kv->held_bytes + kv->cached_bytes;
    return used + bytes <= kv->budget || kv->stats.states_cached > FEW;
}

void kv_snapshot(struct kv *kv, struct kv_table *table, int n_known) {
    const uint32_t next = table->mark + (uint32_t)n_known;
    assert(table->marked && table->n_snapshot == 0);
    // the position behind them writes the table's page of the same block
    if (!kv->recurrent || n_known < 1 || table->mark / KV_PAGE_TOKENS != next / KV_PAGE_TOKENS)
        return;
    uint64_t bytes = 0;
    for (int g = 0; g < kv->n_group; g++) {
        const struct kv_group *const group = &kv->group[g];
        if (group->kind != KV_RECURRENT) continue;
        if (group->n_held == group->n_page) return;
        bytes += group->page_bytes;
    }
    if (bytes > kv->budget - kv->held_bytes || !spares_states(kv, bytes)) return;
    for (int g = 0; g < kv->n_group; g++)
        if (kv->group[g].kind == KV_RECURRENT) table->snapshot[g] = kv_page_acquire(kv, g);
    table->n_snapshot = n_known;
}

// The state of n positions replaces the later one; its hold becomes the table's.
static void state_restore(struct kv *kv, struct kv_table *table, int g, uint32_t n, uint32_t page) {
    const uint32_t block = n > 0 ? state_block(n) : 0;
    drop_from(kv, table, g, 0);
    table->first[g] = block;
    if (n > 0) table->page[g][block] = page;
}

static void drop_aside(struct kv *kv, int g, uint32_t page) {
    if (page != KV_NO_PAGE) kv_page_drop(kv, g, page);
}

int kv_settle(struct kv *kv, struct kv_table *table, int n_kept, int n_all) {
    assert(table->marked && (int)table->mark <= n_kept && n_kept <= n_all);
    const bool back = kv->recurrent && n_kept < n_all;
    const int behind = (int)table->mark + table->n_snapshot;
    const bool to_snapshot = back && table->n_snapshot > 0 && n_kept >= behind;
    if (back) n_kept = to_snapshot ? behind : (int)table->mark;
    const uint32_t n_page = blocks_for(n_kept);
    for (int g = 0; g < kv->n_group; g++) {
        if (back && kv->group[g].kind == KV_RECURRENT) {
            const uint32_t page = to_snapshot ? table->snapshot[g] : table->mark_page[g];
            state_restore(kv, table, g, (uint32_t)n_kept, page);
            drop_aside(kv, g, to_snapshot ? table->mark_page[g] : table->snapshot[g]);
            continue;
        }
        drop_aside(kv, g, table->mark_page[g]);
        drop_aside(kv, g, table->snapshot[g]);
        drop_from(kv, table, g, n_page);
    }
    table->n_page = n_page;
    table->n_snapshot = 0;
    table->marked = false;
    return n_kept;
}

void kv_release(struct kv *kv, struct kv_table *table) {
    assert(!table->marked);
    // A store gets the first block first: the blocks behind it are worth nothing without.
    for (uint32_t b = 0; kv->store.pages && b < table->n_page; b++)
        for (int g = 0; g < kv->n_group; g++)
            if (b >= table->first[g] && kv->group[g].page[table->page[g][b]].ref == 1)
                kv_offer(kv, g, table->page[g][b]);
    // The last block first: the least recently used page then has no block behind it.
    for (uint32_t b = table->n_page; b-- > 0;)
        for (int g = 0; g < kv->n_group; g++)
            if (b >= table->first[g]) entry_drop(kv, table, g, b);
    prefix_move(kv, table, KV_ROOT, 0);
    table->n_page = 0;
    table->n_flight = 0;
    table->n_keep = 0;
    memset(table->first, 0, sizeof table->first);
    table->unlisted = false;
}

// --- forks ---

// A place at which a fork could begin: n positions of `from`, whose states stand at n_state.
struct parting {
    const struct kv_table *from;
    int n_state, n;
    uint32_t node; // of the last block before n that is registered
};

// The page of a block of `from`: its own, or a page that it gave back and that is still findable.
// node: the block's, where it is registered. A run's page is the state at its end alone.
static uint32_t fork_page(const struct kv *kv, const struct parting *at, uint32_t node, int g,
                          uint32_t block) {
    const struct kv_table *const from = at->from;
    const bool is_held = block >= from->first[g], is_whole = at->n % KV_PAGE_TOKENS == 0;
    if (kv->group[g].kind == KV_RECURRENT) {
        const bool is_last = block + 1 == from->n_page;
        const bool stands =
            is_last ? at->n == at->n_state : is_whole && kv_ends_run(from, g, block);
        if (is_held && stands) return from->page[g][block];
        return is_whole && block < from->n_node ? kv->node[node].page[g] : KV_NO_PAGE;
    }
    if (is_held) return from->page[g][block];
    return block < from->n_node ? kv->node[node].page[g] : KV_NO_PAGE;
}

// The node of the block before, given this block's node: unregistered blocks have from's last.
static uint32_t node_before(const struct kv *kv, const struct kv_table *from, uint32_t node,
                            uint32_t block) {
    return block < from->n_node ? kv->node[node].parent : node;
}

// Whether every group has its pages there; with `to`, it gets them.
static bool fork_at(struct kv *kv, const struct parting *at, struct kv_table *to) {
    uint32_t first[PLAN_MAX_KV_GROUPS], lowest = blocks_for(at->n), node = at->node;
    for (int g = 0; g < kv->n_group; g++) {
        first[g] = kv_first_block(&kv->group[g], at->n);
        if (first[g] < lowest) lowest = first[g];
    }
    for (uint32_t b = blocks_for(at->n); b-- > lowest; node = node_before(kv, at->from, node, b)) {
        for (int g = 0; g < kv->n_group; g++) {
            if (b < first[g]) continue;
            const uint32_t id = fork_page(kv, at, node, g, b);
            if (id == KV_NO_PAGE) return false;
            if (!to) continue;
            to->page[g][b] = id;
            kv_page_hold(kv, g, id);
        }
    }
    if (to) memcpy(to->first, first, sizeof first[0] * (size_t)kv->n_group);
    return true;
}

// The next lower place, at the end of a block.
static void part_earlier(const struct kv *kv, struct parting *at) {
    const uint32_t block = (uint32_t)(at->n - 1) / KV_PAGE_TOKENS; // the last one, which is left
    at->node = node_before(kv, at->from, at->node, block);
    at->n = (int)block * KV_PAGE_TOKENS;
}

int kv_fork(struct kv *kv, const struct kv_table *from, int n_state, struct kv_table *to,
            int n_positions) {
    assert(to->n_page == 0 && to->n_node == 0);
    const uint32_t n_page = blocks_for(n_positions);
    assert(n_page <= from->n_page && n_page <= to->max_page);
    struct parting at = {.from = from, .n_state = n_state, .n = n_positions};
    at.node =
        n_page < from->n_node ? prefix_above(kv, from->node, from->n_node - n_page) : from->node;
    while (at.n > 0 && !fork_at(kv, &at, NULL)) {
        if (!kv->recurrent) return 0;
        part_earlier(kv, &at);
    }
    if (at.n == 0) return 0;
    fork_at(kv, &at, to);
    to->n_page = blocks_for(at.n);
    to->unlisted = from->unlisted;
    // a block that `to` has in part is not registered for it, even if it is for `from`
    const uint32_t n_full = (uint32_t)at.n / KV_PAGE_TOKENS;
    const uint32_t n_node = n_full < from->n_node ? n_full : from->n_node;
    prefix_move(kv, to, prefix_above(kv, from->node, from->n_node - n_node), n_node);
    return at.n;
}
