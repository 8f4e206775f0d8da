// The page manager: states of pages, tables, and the clears and copies that the next run is to do.
// See kv.h for the invariants. Called by the scheduler and the publisher, on the step's thread.
#include "engine/pages/kv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "engine/pages/kv_internal.h"

// --- create ---

uint32_t kv_group_pages(const struct kv_config *config, int group) {
    const uint32_t fixed = config->group[group].max_pages;
    const uint64_t n = fixed ? fixed : config->budget / config->group[group].page_bytes;
    return n > KV_MAX_GROUP_PAGES ? KV_MAX_GROUP_PAGES : (uint32_t)n;
}

static rn_status group_init(struct kv *kv, const struct kv_config *config, int g, rn_error *err) {
    struct kv_group *const group = &kv->group[g];
    assert(config->group[g].page_bytes > 0);
    assert(config->group[g].kind != KV_WINDOW || config->group[g].window > 0);
    *group = (struct kv_group){.kind = config->group[g].kind,
                               .window = config->group[g].window,
                               .page_bytes = config->group[g].page_bytes,
                               .n_page = kv_group_pages(config, g),
                               .oldest = KV_NO_PAGE,
                               .newest = KV_NO_PAGE};
    if (config->budget / group->page_bytes > KV_MAX_GROUP_PAGES)
        return err_set(err, RN_ERR_ARG,
                       "%llu bytes of KV memory are more than %d pages of %llu bytes",
                       (unsigned long long)config->budget, KV_MAX_GROUP_PAGES,
                       (unsigned long long)group->page_bytes);
    if (!ck_add(kv->block_bytes, group->page_bytes, &kv->block_bytes))
        return err_set(err, RN_ERR_ARG, "a KV page of %llu bytes is too large",
                       (unsigned long long)group->page_bytes);
    kv->recurrent |= group->kind == KV_RECURRENT;
    if (config->group[g].max_pages) // they have memory of their own
        kv->stats.pages_total += group->n_page;
    else if (kv->stats.pages_total < group->n_page)
        kv->stats.pages_total = group->n_page;
    const size_t n = (size_t)group->n_page + 1; // never an allocation of nothing
    group->page = calloc(n, sizeof *group->page);
    group->stack = calloc(n, sizeof *group->stack);
    group->seen = calloc(n, sizeof *group->seen);
    if (!group->page || !group->stack || !group->seen)
        return err_set(err, RN_ERR_NOMEM, "no memory for %u pages", group->n_page);
    return RN_OK;
}

rn_status kv_create(const struct kv_config *config, struct backend *backend, struct kv **out,
                    rn_error *err) {
    assert(config->n_group > 0 && config->n_group <= PLAN_MAX_KV_GROUPS);
    assert(config->max_tables > 0 && config->max_page_ops > 0);
    struct kv *const kv = calloc(1, sizeof *kv);
    if (!kv) return err_set(err, RN_ERR_NOMEM, "no memory for the page manager");
    kv->backend = backend;
    kv->n_group = config->n_group;
    kv->first_group = config->first_group;
    kv->budget = config->budget;
    kv->no_prefix = config->no_prefix;
    kv->max_op = config->max_page_ops;
    rn_status status = RN_OK;
    for (int g = 0; g < kv->n_group && status == RN_OK; g++)
        status = group_init(kv, config, g, err);
    if (status == RN_OK) status = prefix_init(kv, config->max_tables, err);
    if (status == RN_OK && !(kv->op = calloc((size_t)kv->max_op, sizeof *kv->op)))
        status = err_set(err, RN_ERR_NOMEM, "no memory for %d page operations", kv->max_op);
    if (status != RN_OK) {
        kv_destroy(kv);
        return status;
    }
    *out = kv;
    return RN_OK;
}

void kv_destroy(struct kv *kv) {
    if (!kv) return;
    for (int g = 0; g < kv->n_group; g++) {
        free(kv->group[g].page);
        free(kv->group[g].stack);
        free(kv->group[g].seen);
    }
    prefix_deinit(kv);
    free(kv->op);
    free(kv);
}

// --- states of a page ---

static bool is_held(const struct kv_page *page) { return page->ref > 0 || page->pins > 0; }

static void lru_add(struct kv *kv, struct kv_group *group, uint32_t id) {
    struct kv_page *const page = &group->page[id];
    page->tick = kv->tick++;
    page->older = group->newest;
    page->newer = KV_NO_PAGE;
    if (group->newest == KV_NO_PAGE)
        group->oldest = id;
    else
        group->page[group->newest].newer = id;
    group->newest = id;
    kv->cached_bytes += group->page_bytes;
    kv->stats.pages_cached++;
}

static void lru_remove(struct kv *kv, struct kv_group *group, uint32_t id) {
    const struct kv_page *const page = &group->page[id];
    if (page->older == KV_NO_PAGE)
        group->oldest = page->newer;
    else
        group->page[page->older].newer = page->newer;
    if (page->newer == KV_NO_PAGE)
        group->newest = page->older;
    else
        group->page[page->newer].older = page->older;
    kv->cached_bytes -= group->page_bytes;
    kv->stats.pages_cached--;
}

static void free_add(struct kv *kv, struct kv_group *group, uint32_t id) {
    group->stack[group->n_free++] = id;
    kv->free_bytes += group->page_bytes;
}

static void begin_hold(struct kv *kv, struct kv_group *group) {
    group->n_held++;
    kv->held_bytes += group->page_bytes;
    kv->stats.pages_held++;
}

// No table holds the page any more.
static void end_hold(struct kv *kv, struct kv_group *group, uint32_t id) {
    group->n_held--;
    kv->held_bytes -= group->page_bytes;
    kv->stats.pages_held--;
    if (group->page[id].node != KV_ROOT)
        lru_add(kv, group, id);
    else
        free_add(kv, group, id);
}

void kv_page_hold(struct kv *kv, int g, uint32_t id) {
    struct kv_group *const group = &kv->group[g];
    struct kv_page *const page = &group->page[id];
    if (!is_held(page)) {
        assert(page->node != KV_ROOT);
        lru_remove(kv, group, id);
        begin_hold(kv, group);
    }
    if (++page->ref == 2) kv->stats.pages_shared++;
}

void kv_page_drop(struct kv *kv, int g, uint32_t id) {
    struct kv_page *const page = &kv->group[g].page[id];
    assert(page->ref > 0);
    if (page->ref-- == 2) kv->stats.pages_shared--;
    if (!is_held(page)) end_hold(kv, &kv->group[g], id);
}

static void unpin(struct kv *kv, int g, uint32_t id) {
    struct kv_page *const page = &kv->group[g].page[id];
    assert(page->pins > 0);
    page->pins--;
    if (!is_held(page)) end_hold(kv, &kv->group[g], id);
}

void kv_evict(struct kv *kv, int g, uint32_t id) {
    lru_remove(kv, &kv->group[g], id);
    prefix_detach(kv, g, id);
    free_add(kv, &kv->group[g], id);
}

bool kv_evict_oldest(struct kv *kv) {
    int found = -1;
    uint64_t tick = UINT64_MAX;
    for (int g = 0; g < kv->n_group; g++) {
        const struct kv_group *const group = &kv->group[g];
        if (group->oldest == KV_NO_PAGE || group->page[group->oldest].tick >= tick) continue;
        tick = group->page[group->oldest].tick;
        found = g;
    }
    if (found < 0) return false;
    kv_evict(kv, found, kv->group[found].oldest);
    kv->stats.evictions++;
    return true;
}

// --- clears and copies ---

// The op's content is not wanted any more: the page changed hands before the run. Nothing reads it,
// since a copy's source is pinned.
static void cancel_op(struct kv *kv, int g, uint32_t id) {
    int i = 0;
    while (i < kv->n_op && (kv->op[i].group != g || kv->op[i].page != id)) i++;
    assert(i < kv->n_op && kv->group[g].page[id].pins == 0);
    const uint32_t from = kv->op[i].from;
    kv->n_op--;
    memmove(&kv->op[i], &kv->op[i + 1], (size_t)(kv->n_op - i) * sizeof *kv->op);
    kv->group[g].page[id].pending = false;
    if (from != BATCH_ZERO) unpin(kv, g, from);
}

static void add_op(struct kv *kv, int g, uint32_t id, uint32_t from) {
    struct kv_page *const page = kv->group[g].page;
    // Until the copy is done its source must not change, even if its owners leave: forgetting a
    // page is not ordered with the ops.
    if (from != BATCH_ZERO) page[from].pins++;
    assert(!page[id].pending && kv->n_op < kv->max_op);
    kv->op[kv->n_op++] = (struct batch_page){.group = g, .page = id, .from = from};
    page[id].pending = true;
}

const struct batch_page *kv_take_ops(struct kv *kv, int *n) {
    for (int i = 0; i < kv->n_op; i++) {
        const struct batch_page op = kv->op[i];
        kv->group[op.group].page[op.page].pending = false;
        if (op.from != BATCH_ZERO) unpin(kv, op.group, op.from);
        kv->op[i].group += kv->first_group;
    }
    *n = kv->n_op;
    kv->n_op = 0;
    return kv->op;
}

// --- getting a page ---

// The last free page of the group becomes fresh.
static void forget(struct kv *kv, int g) {
    struct kv_group *const group = &kv->group[g];
    const uint32_t id = group->stack[--group->n_free];
    kv->free_bytes -= group->page_bytes;
    // out of the list before anything is unpinned and put on its stack
    group->page[id].memory = false;
    group->n_forgotten++;
    group->stack[group->n_page - group->n_forgotten] = id;
    if (group->page[id].pending) cancel_op(kv, g, id);
    if (kv->backend->cls->page_release)
        kv->backend->cls->page_release(kv->backend, kv->first_group + g, id);
}

// Makes a page of some group free, or gives a free one's bytes back to the budget.
static void reclaim(struct kv *kv) {
    for (int g = 0; g < kv->n_group; g++) {
        if (kv->group[g].n_free == 0) continue;
        forget(kv, g);
        return;
    }
    const bool evicted = kv_evict_oldest(kv);
    assert(evicted); // otherwise all memory is held, and the caller asked for more than is left
    (void)evicted;
}

static bool has_id(const struct kv_group *group) {
    return group->n_free > 0 || group->n_forgotten > 0 || group->n_used < group->n_page;
}

// A page for one table. The caller made sure that the held pages leave room for it, which is
// enough: reclaiming ends with nothing but held pages.
static uint32_t acquire(struct kv *kv, int g) {
    struct kv_group *const group = &kv->group[g];
    assert(kv->held_bytes + group->page_bytes <= kv->budget);
    while (group->n_free == 0 &&
           kv->held_bytes + kv->cached_bytes + kv->free_bytes + group->page_bytes > kv->budget)
        reclaim(kv);
    if (!has_id(group)) { // of a group with memory of its own: while bytes are left so are ids
        assert(group->oldest != KV_NO_PAGE);
        kv_evict(kv, g, group->oldest);
        kv->stats.evictions++;
    }
    uint32_t id;
    if (group->n_free > 0) {
        id = group->stack[--group->n_free];
        kv->free_bytes -= group->page_bytes;
    } else if (group->n_forgotten > 0) {
        id = group->stack[group->n_page - group->n_forgotten];
        group->n_forgotten--;
    } else {
        assert(group->n_used < group->n_page);
        id = group->n_used++;
    }
    struct kv_page *const page = &group->page[id];
    assert(page->ref == 0 && page->pins == 0 && page->node == KV_ROOT);
    if (page->pending) cancel_op(kv, g, id);
    page->memory = true;
    page->ref = 1;
    begin_hold(kv, group);
    return id;
}

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
    switch (group->kind) {
    case KV_FULL:
        return 0;
    case KV_WINDOW:
        return n_done < group->window ? 0 : (uint32_t)(n_done - group->window + 1) / KV_PAGE_TOKENS;
    case KV_RECURRENT:
        return n_done == 0 ? 0 : (uint32_t)(n_done - 1) / KV_PAGE_TOKENS;
    }
    assert(false);
    return 0;
}

void kv_give_back(struct kv *kv, struct kv_table *table, int n_done) {
    for (int g = 0; g < kv->n_group; g++) {
        const uint32_t first = kv_first_block(&kv->group[g], n_done - table->n_flight);
        for (uint32_t *b = &table->first[g]; *b < first; ++*b) {
            if (*b >= table->n_page) continue; // about to be passed over by a hit
            kv_page_drop(kv, g, table->page[g][*b]);
            table->page[g][*b] = KV_NO_PAGE;
        }
    }
}

// Room that is left for pages: bytes of all groups, pages of each, operations.
struct room {
    uint64_t bytes, ops;
    uint64_t pages[PLAN_MAX_KV_GROUPS];
};

// Adds the pages that kv_give_back would make reclaimable.
static void add_unseen(const struct kv *kv, const struct kv_table *table, int n_done,
                       struct room *room) {
    for (int g = 0; g < kv->n_group; g++) {
        const struct kv_group *const group = &kv->group[g];
        const uint32_t first = kv_first_block(group, n_done - table->n_flight);
        for (uint32_t b = table->first[g]; b < first && b < table->n_page; b++) {
            const struct kv_page *const page = &group->page[table->page[g][b]];
            if (page->ref != 1 || page->pins > 0) continue;
            room->bytes += group->page_bytes;
            room->pages[g]++;
        }
    }
}

// Takes the copies that writing the block needs off the rest; false: they do not fit.
static bool copies_fit(const struct kv *kv, const struct kv_table *table, uint32_t block,
                       struct room *room) {
    for (int g = 0; g < kv->n_group; g++) {
        const struct kv_group *const group = &kv->group[g];
        if (group->page[table->page[g][block]].ref == 1) continue;
        if (room->bytes < group->page_bytes || room->pages[g] == 0 || room->ops == 0) return false;
        room->bytes -= group->page_bytes;
        room->pages[g]--;
        room->ops--;
    }
    return true;
}

// Whole blocks that fit, a page of each group.
static uint64_t blocks_fit(const struct kv *kv, const struct room *room) {
    uint64_t n = room->bytes / kv->block_bytes;
    if (n > room->ops / (uint64_t)kv->n_group) n = room->ops / (uint64_t)kv->n_group;
    for (int g = 0; g < kv->n_group; g++)
        if (n > room->pages[g]) n = room->pages[g];
    return n;
}

int kv_room(const struct kv *kv, const struct kv_table *table, int n_done, int wanted) {
    assert(n_done >= 0 && wanted >= 0 && blocks_for(n_done) <= table->n_page);
    struct room left = {.bytes = kv->budget - kv->held_bytes,
                        .ops = (uint64_t)(kv->max_op - kv->n_op)};
    for (int g = 0; g < kv->n_group; g++) left.pages[g] = kv->group[g].n_page - kv->group[g].n_held;
    add_unseen(kv, table, n_done, &left);
    const int64_t end = (int64_t)n_done + wanted;
    uint32_t block = (uint32_t)n_done / KV_PAGE_TOKENS;
    while (block < table->n_page && (int64_t)block * KV_PAGE_TOKENS < end &&
           copies_fit(kv, table, block, &left))
        block++;
    if (block == table->n_page) {
        uint64_t n_new = blocks_fit(kv, &left);
        if (n_new > table->max_page - block) n_new = table->max_page - block;
        block += (uint32_t)n_new;
    }
    const int64_t room = (int64_t)block * KV_PAGE_TOKENS - n_done;
    return room < 0 ? 0 : room < wanted ? (int)room : wanted;
}

// The table's page is its own and not findable. A lone owner keeps the page, so that it never needs
// bytes for a copy that kv_need does not know of.
static void make_writable(struct kv *kv, struct kv_table *table, int g, uint32_t block) {
    const uint32_t id = table->page[g][block];
    const struct kv_page *const page = &kv->group[g].page[id];
    assert(block >= table->n_node); // registered blocks are full, and are not written
    if (page->ref == 1) {
        if (page->node != KV_ROOT) prefix_detach(kv, g, id);
        return;
    }
    const uint32_t copy = acquire(kv, g);
    add_op(kv, g, copy, id);
    kv_page_drop(kv, g, id);
    table->page[g][block] = copy;
}

bool kv_grow(struct kv *kv, struct kv_table *table, int n_done, int n) {
    kv_give_back(kv, table, n_done);
    if (kv_room(kv, table, n_done, n) < n) return false;
    const uint32_t end = blocks_for(n_done + n);
    for (uint32_t b = (uint32_t)n_done / KV_PAGE_TOKENS; b < end; b++) {
        if (b < table->n_page) {
            for (int g = 0; g < kv->n_group; g++) make_writable(kv, table, g, b);
            continue;
        }
        for (int g = 0; g < kv->n_group; g++) {
            const uint32_t id = acquire(kv, g);
            add_op(kv, g, id, BATCH_ZERO);
            table->page[g][b] = id;
        }
        table->n_page++;
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
    for (int g = 0; g < kv->n_group; g++) {
        table->mark_page[g] = KV_NO_PAGE;
        if (kv->group[g].kind != KV_RECURRENT || n_done == 0) continue;
        table->mark_page[g] = table->page[g][state_block(table->mark)];
        kv_page_hold(kv, g, table->mark_page[g]); // the next write copies it
    }
}

// Blocks from `block` on are given back, as far as they are held.
static void drop_from(struct kv *kv, struct kv_table *table, int g, uint32_t block) {
    for (uint32_t b = table->n_page; b-- > block;) {
        if (b < table->first[g]) break;
        kv_page_drop(kv, g, table->page[g][b]);
        table->page[g][b] = KV_NO_PAGE;
    }
}

// The state at the mark replaces the later one. The table's hold on it was given up with the copy,
// or goes now: the mark's becomes the table's.
static void state_restore(struct kv *kv, struct kv_table *table, int g) {
    const uint32_t block = table->mark > 0 ? state_block(table->mark) : 0;
    drop_from(kv, table, g, block);
    table->first[g] = block;
    if (table->mark > 0) table->page[g][block] = table->mark_page[g];
}

int kv_settle(struct kv *kv, struct kv_table *table, int n_kept, int n_all) {
    assert(table->marked && (int)table->mark <= n_kept && n_kept <= n_all);
    const bool back = kv->recurrent && n_kept < n_all;
    if (back) n_kept = (int)table->mark;
    const uint32_t n_page = blocks_for(n_kept);
    for (int g = 0; g < kv->n_group; g++) {
        if (back && kv->group[g].kind == KV_RECURRENT) {
            state_restore(kv, table, g);
            continue;
        }
        if (table->mark_page[g] != KV_NO_PAGE) kv_page_drop(kv, g, table->mark_page[g]);
        drop_from(kv, table, g, n_page);
    }
    table->n_page = n_page;
    table->marked = false;
    return n_kept;
}

void kv_release(struct kv *kv, struct kv_table *table) {
    assert(!table->marked);
    // The last block first: the least recently used page then has no block behind it.
    for (uint32_t b = table->n_page; b-- > 0;) {
        for (int g = 0; g < kv->n_group; g++) {
            if (b < table->first[g]) continue;
            kv_page_drop(kv, g, table->page[g][b]);
            table->page[g][b] = KV_NO_PAGE;
        }
    }
    prefix_move(kv, table, KV_ROOT, 0);
    table->n_page = 0;
    table->n_flight = 0;
    memset(table->first, 0, sizeof table->first);
    table->unlisted = false;
}

// The page of a block of `from`: its own, or a page that it gave back and that is still findable.
static uint32_t fork_page(const struct kv *kv, const struct kv_table *from, uint32_t node, int g,
                          uint32_t block) {
    if (block >= from->first[g]) return from->page[g][block];
    return block < from->n_node ? kv->node[node].page[g] : KV_NO_PAGE;
}

// The node of the block before, given this block's node: unregistered blocks have from's last.
static uint32_t node_before(const struct kv *kv, const struct kv_table *from, uint32_t node,
                            uint32_t block) {
    return block < from->n_node ? kv->node[node].parent : node;
}

int kv_fork(struct kv *kv, const struct kv_table *from, struct kv_table *to, int n_positions) {
    assert(to->n_page == 0 && to->n_node == 0);
    if (kv->recurrent) n_positions -= n_positions % KV_PAGE_TOKENS;
    const uint32_t n_page = blocks_for(n_positions);
    assert(n_page <= from->n_page && n_page <= to->max_page);
    uint32_t first[PLAN_MAX_KV_GROUPS], lowest = n_page;
    for (int g = 0; g < kv->n_group; g++) {
        first[g] = kv_first_block(&kv->group[g], n_positions);
        if (first[g] < lowest) lowest = first[g];
    }
    const uint32_t last =
        n_page < from->n_node ? prefix_above(kv, from->node, from->n_node - n_page) : from->node;
    uint32_t node = last;
    for (uint32_t b = n_page; b-- > lowest; node = node_before(kv, from, node, b))
        for (int g = 0; g < kv->n_group; g++)
            if (b >= first[g] && fork_page(kv, from, node, g, b) == KV_NO_PAGE) return 0;
    if (n_page == 0) return 0;
    node = last;
    for (uint32_t b = n_page; b-- > lowest; node = node_before(kv, from, node, b)) {
        for (int g = 0; g < kv->n_group; g++) {
            if (b < first[g]) continue;
            to->page[g][b] = fork_page(kv, from, node, g, b);
            kv_page_hold(kv, g, to->page[g][b]);
        }
    }
    memcpy(to->first, first, sizeof first[0] * (size_t)kv->n_group);
    to->n_page = n_page;
    to->unlisted = from->unlisted;
    // a block that `to` has in part is not registered for it, even if it is for `from`
    const uint32_t n_full = (uint32_t)n_positions / KV_PAGE_TOKENS;
    const uint32_t n_node = n_full < from->n_node ? n_full : from->n_node;
    prefix_move(kv, to, prefix_above(kv, from->node, from->n_node - n_node), n_node);
    return n_positions;
}

// --- numbers ---

// The most blocks that n positions in a row can touch.
static uint64_t blocks_touched(uint64_t n) {
    return n == 0 ? 0 : (n + KV_PAGE_TOKENS - 2) / KV_PAGE_TOKENS + 1;
}

// Pages of a group that such a sequence needs.
static uint64_t group_need(const struct kv_config *config, int g, int n_positions, int chunk) {
    uint64_t blocks = blocks_for(n_positions), most = blocks;
    // position n_done, the others of its chunk, and the past positions that n_done sees
    if (config->group[g].kind == KV_WINDOW)
        most = blocks_touched((uint64_t)config->group[g].window - 1 + (uint64_t)chunk);
    if (config->group[g].kind == KV_RECURRENT) most = blocks_touched(1 + (uint64_t)chunk);
    return most < blocks ? most : blocks;
}

void kv_fix_pages(struct kv_config *config, int n_positions, int chunk) {
    const uint64_t lone = kv_need(config, n_positions, 1);
    const double rest = lone < config->budget ? (double)(config->budget - lone) : 0;
    const double all = (double)kv_need(config, n_positions, chunk);
    for (int g = 0; g < config->n_group; g++) {
        const double share = (double)group_need(config, g, n_positions, chunk) / all;
        const uint64_t n = group_need(config, g, n_positions, 1) + (uint64_t)(rest * share);
        config->group[g].max_pages = n < KV_MAX_GROUP_PAGES ? (uint32_t)n : KV_MAX_GROUP_PAGES;
    }
}

uint64_t kv_need(const struct kv_config *config, int n_positions, int chunk) {
    uint64_t need = 0;
    for (int g = 0; g < config->n_group; g++) {
        const uint64_t blocks = group_need(config, g, n_positions, chunk);
        uint64_t bytes;
        if (!ck_mul(blocks, config->group[g].page_bytes, &bytes) || !ck_add(need, bytes, &need))
            return UINT64_MAX;
    }
    return need;
}

void kv_get_stats(const struct kv *kv, struct kv_stats *out) {
    *out = kv->stats;
    out->budget = kv->budget;
    out->held_bytes = kv->held_bytes;
    out->cached_bytes = kv->cached_bytes;
}
