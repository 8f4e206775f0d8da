// A world for the page manager: a backend with hashes in its pages, and tables that know their
// tokens. Each slot holds a hash of the salt and all tokens up to its position (a recurrent page:
// of the last position evaluated). After each operation every slot that a table needs must hold its
// own history, and every findable page the history of its node's tokens. So a wrong copy, hit,
// eviction or shared write is seen, and a checkpoint or tail whose state moved on. Only world_run
// applies clears and copies, as in the engine, and counts the bytes that have memory.
#ifndef RN_TESTS_KV_WORLD_H
#define RN_TESTS_KV_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "engine/pages/kv_internal.h"

enum { WORLD_TABLES = 12, WORLD_POSITIONS = 320, WORLD_PAGES = 512 };

struct world_page {
    uint64_t slot[KV_PAGE_TOKENS]; // recurrent: only [0] is used
    bool memory;
};

struct world_table {
    struct kv_table kv;
    int32_t token[WORLD_POSITIONS + 1];
    int n_token, n_done;
    int n_planned; // positions that kv_grow gave and that were not run yet
    int n_kept;    // while they are only tried: how many of all positions will stay
    const char *salt;
    bool live;
};

struct world {
    struct backend backend; // first: the class gets a pointer to it
    struct kv_config config;
    struct kv *kv;
    struct world_page page[PLAN_MAX_KV_GROUPS][WORLD_PAGES];
    uint64_t bytes;                  // that have memory
    int n_forgets, n_hits, n_copies; // pages forgotten, tables that found a prefix, pages copied
    int n_tails;                     // tables that found a tail
    struct world_table table[WORLD_TABLES];
    uint64_t random;
};

// A configuration of these groups with that budget and as many page operations in a step.
#define WORLD_CONFIG(bytes, ops, ...)                                                              \
    {                                                                                              \
        .n_group = sizeof(int[][5]){__VA_ARGS__} / sizeof(int[5]), .group = {__VA_ARGS__},         \
        .budget = bytes, .max_tables = WORLD_TABLES, .max_page_ops = ops                           \
    }

static inline uint64_t world_mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static inline uint32_t world_random(struct world *w, uint32_t n) { // below n
    w->random = world_mix(w->random + 0x1234567, 77);
    return (uint32_t)(w->random >> 20) % n;
}

static inline void world_forget(struct backend *backend, int group, uint32_t page) {
    struct world *const w = (struct world *)(void *)backend;
    // a page whose clear was not done yet never got memory
    if (w->page[group][page].memory) w->bytes -= w->config.group[group].page_bytes;
    w->page[group][page].memory = false;
    memset(w->page[group][page].slot, 0xee, sizeof w->page[group][page].slot);
    w->n_forgets++;
}

static const struct backend_class world_class = {.name = "world", .page_release = world_forget};

// Of a device that takes the memory of all pages at once: there is nothing to give back.
static const struct backend_class world_class_fixed = {.name = "fixed world"};

// Whether the pages of all groups together have memory within the budget.
static inline bool world_is_fixed(const struct kv_config *config) {
    uint64_t bytes = 0;
    for (int g = 0; g < config->n_group; g++) {
        if (config->group[g].max_pages == 0) return false;
        bytes += config->group[g].max_pages * config->group[g].page_bytes;
    }
    return bytes <= config->budget;
}

static inline struct world *world_create(const struct kv_config *config, uint64_t seed) {
    struct world *const w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->backend.cls = world_is_fixed(config) ? &world_class_fixed : &world_class;
    w->config = *config;
    w->random = seed;
    for (int g = 0; g < config->n_group; g++)
        check(kv_group_pages(config, g) <= WORLD_PAGES, "group %d has too many pages", g);
    rn_error err = {0};
    check(kv_create(config, &w->backend, &w->kv, &err) == RN_OK, "%s", err.message);
    for (int i = 0; i < WORLD_TABLES; i++)
        assert_int_equal(kv_table_init(&w->table[i].kv, config->n_group, WORLD_POSITIONS, NULL),
                         RN_OK);
    return w;
}

// retires: its state stays findable, as at the end of a sequence.
static inline void world_leave(struct world *w, struct world_table *t, bool retires) {
    if (retires)
        kv_retire(w->kv, &t->kv, t->token, t->n_done);
    else
        kv_release(w->kv, &t->kv);
    t->live = false;
    t->n_planned = t->n_done = t->n_token = 0;
}

static inline void world_release(struct world *w, struct world_table *t) {
    world_leave(w, t, false);
}

static inline void world_destroy(struct world *w) {
    for (int i = 0; i < WORLD_TABLES; i++) {
        world_release(w, &w->table[i]);
        kv_table_deinit(&w->table[i].kv);
    }
    kv_check_begin(w->kv);
    assert_true(kv_check_end(w->kv));
    struct kv_stats stats;
    kv_take_ops(w->kv, &(int){0});
    kv_get_stats(w->kv, &stats);
    assert_int_equal(stats.held_bytes, 0);
    assert_int_equal(stats.pages_shared, 0);
    kv_destroy(w->kv);
    free(w);
}

// --- what pages hold ---

static inline uint64_t world_salt(const struct world_table *t) {
    uint64_t h = 1;
    for (const char *c = t->salt; c && *c; c++) h = world_mix(h, (uint64_t)*c + 1000);
    return h;
}

// The slot's contents after the pending ops.
static inline uint64_t world_slot(const struct world *w, int g, uint32_t page, int slot) {
    for (int i = w->kv->n_op; i-- > 0;) {
        if (w->kv->op[i].group != g || w->kv->op[i].page != page) continue;
        const uint32_t from = w->kv->op[i].from;
        return from == BATCH_ZERO ? 0 : world_slot(w, g, from, slot);
    }
    check(w->page[g][page].memory, "group %d page %u was forgotten", g, page);
    return w->page[g][page].slot[slot];
}

// The page that has the state before the position: the table's, the mark's or the snapshot's.
static inline uint32_t world_state_page(const struct world_table *t, int g, int p) {
    const uint32_t *const from = kv_state_from(&t->kv, p);
    const bool is_behind = t->kv.marked && t->kv.n_snapshot > 0 &&
                           (uint32_t)p == t->kv.mark + (uint32_t)t->kv.n_snapshot;
    if (is_behind) return t->kv.snapshot[g];
    return from && from[g] != KV_NO_PAGE ? from[g] : t->kv.page[g][(p - 1) / KV_PAGE_TOKENS];
}

// Every slot that the table needs holds the history of its position.
static inline void world_check_table(const struct world *w, const struct world_table *t) {
    uint64_t history[WORLD_POSITIONS];
    uint64_t h = world_salt(t);
    for (int p = 0; p < t->n_done; p++)
        history[p] = h = world_mix(h, (uint64_t)(uint32_t)t->token[p]);
    for (int g = 0; g < w->config.n_group && t->n_done > 0; g++) {
        int p = 0;
        if (w->config.group[g].kind == KV_RECURRENT) p = t->n_done - 1;
        if (w->config.group[g].kind == KV_WINDOW && t->n_done >= w->config.group[g].window)
            p = t->n_done - w->config.group[g].window + 1;
        if (w->config.group[g].kind == KV_CHUNK)
            p = t->n_done / w->config.group[g].window * w->config.group[g].window;
        for (; p < t->n_done; p++) {
            const bool recurrent = w->config.group[g].kind == KV_RECURRENT;
            const uint32_t page =
                recurrent ? world_state_page(t, g, t->n_done) : t->kv.page[g][p / KV_PAGE_TOKENS];
            check(page != KV_NO_PAGE, "group %d position %d of %d has no page", g, p, t->n_done);
            const uint64_t is = world_slot(w, g, page, recurrent ? 0 : p % KV_PAGE_TOKENS);
            check(is == history[p], "group %d position %d of %d is another's", g, p, t->n_done);
        }
    }
}

// The history at the end of a node; slot: [n_token] that at each of its tokens.
static inline uint64_t world_node(const struct world *w, uint32_t at, uint64_t *slot) {
    const struct kv_node *const node = &w->kv->node[at];
    uint64_t h = 1;
    if (at == KV_ROOT) return h;
    if (node->n_salt > 0) {
        for (int i = 0; i < node->n_salt; i++)
            h = world_mix(h, (uint64_t)((const char *)node->token)[i] + 1000);
        return h;
    }
    uint64_t before[KV_PAGE_TOKENS];
    h = world_node(w, node->parent, before);
    for (int i = 0; i < node->n_token; i++)
        slot[i] = h = world_mix(h, (uint64_t)(uint32_t)node->token[i]);
    return h;
}

// Every page that a node names holds the history of the node's tokens.
static inline void world_check_nodes(const struct world *w) {
    uint64_t slot[KV_PAGE_TOKENS];
    for (uint32_t at = 1; at < w->kv->n_node_used; at++) {
        const struct kv_node *const node = &w->kv->node[at];
        if (!node->used || node->n_page == 0) continue;
        const uint64_t end = world_node(w, at, slot);
        for (int g = 0; g < w->config.n_group; g++) {
            if (node->page[g] == KV_NO_PAGE) continue;
            if (w->config.group[g].kind == KV_RECURRENT) {
                check(world_slot(w, g, node->page[g], 0) == end,
                      "group %d: the state of a node of %d tokens is another's", g, node->n_token);
                continue;
            }
            for (int i = 0; i < node->n_token; i++)
                check(world_slot(w, g, node->page[g], i) == slot[i],
                      "group %d: token %d of a node is another's", g, i);
        }
    }
}

static inline bool world_is_valid(struct world *w) {
    kv_check_begin(w->kv);
    for (int i = 0; i < WORLD_TABLES; i++) kv_check_table(w->kv, &w->table[i].kv);
    return kv_check_end(w->kv);
}

static inline void world_check(struct world *w) {
    assert_true(world_is_valid(w));
    for (int i = 0; i < WORLD_TABLES; i++)
        if (w->table[i].live) world_check_table(w, &w->table[i]);
    world_check_nodes(w);
    check(w->bytes <= w->config.budget, "%llu bytes have memory", (unsigned long long)w->bytes);
    for (int g = 0; g < w->config.n_group; g++)
        assert_true(w->kv->group[g].n_used <= kv_group_pages(&w->config, g));
}

// --- operations ---

static inline struct world_table *world_unused(struct world *w) { // NULL: none
    for (int i = 0; i < WORLD_TABLES; i++)
        if (!w->table[i].live) return &w->table[i];
    return NULL;
}

// A table with these tokens, after its hit.
static inline struct world_table *world_begin(struct world *w, const int32_t *token, int n,
                                              const char *salt) {
    struct world_table *const t = world_unused(w);
    assert_non_null(t);
    t->live = true;
    t->salt = salt;
    memcpy(t->token, token, sizeof *token * (size_t)n);
    t->n_token = n;
    t->n_done = kv_hit(w->kv, &t->kv, token, n, salt, salt ? strlen(salt) : 0);
    check(t->n_done < n, "%d of %d tokens found", t->n_done, n);
    check(w->kv->recurrent || t->n_done % KV_PAGE_TOKENS == 0, "%d of %d tokens found", t->n_done,
          n);
    w->n_hits += t->n_done > 0;
    w->n_tails += t->n_done % KV_PAGE_TOKENS > 0;
    return t;
}

// The same with n tokens from `start` on, which later ones would continue.
static inline struct world_table *world_tell(struct world *w, int32_t start, int n,
                                             const char *salt) {
    int32_t token[WORLD_POSITIONS];
    for (int i = 0; i < WORLD_POSITIONS; i++) token[i] = start + i;
    struct world_table *const t = world_begin(w, token, n, salt);
    memcpy(t->token, token, sizeof token);
    return t;
}

// Runs of the page that end in the table's blocks [begin, end).
static inline int world_runs(const struct kv_table *table, int g, uint32_t page, uint32_t begin,
                             uint32_t end) {
    int n = 0;
    for (uint32_t b = begin; b < end && b < table->n_page; b++)
        n += table->page[g][b] == page && (b + 1 == table->n_page || table->page[g][b + 1] != page);
    return n;
}

// Tables that hold the page, and copies that are to read it.
static inline int world_holders(const struct world *w, int g, uint32_t page, int *n_pins) {
    int n = 0;
    *n_pins = 0;
    for (int i = 0; i < WORLD_TABLES; i++)
        n += world_runs(&w->table[i].kv, g, page, 0, w->table[i].kv.n_page);
    for (int i = 0; i < w->kv->n_op; i++)
        *n_pins += w->kv->op[i].group == g && w->kv->op[i].from == page;
    return n;
}

struct world_left {
    int64_t bytes, pages[PLAN_MAX_KV_GROUPS], ops;
};

// The pages that no table holds once this table has given back the pages that it no longer sees.
static inline struct world_left world_left(const struct world *w, const struct world_table *t) {
    struct world_left left = {.bytes = (int64_t)w->config.budget,
                              .ops = w->kv->max_op - w->kv->n_op};
    for (int g = 0; g < w->config.n_group; g++) {
        left.pages[g] = kv_group_pages(&w->config, g);
        const uint32_t seen = kv_first_block(&w->kv->group[g], t->n_done);
        for (uint32_t id = 0; id < w->kv->group[g].n_used; id++) {
            int n_pins, n = world_holders(w, g, id, &n_pins);
            n -= world_runs(&t->kv, g, id, 0, seen);
            if (n + n_pins == 0) continue;
            left.pages[g]--;
            left.bytes -= (int64_t)w->config.group[g].page_bytes;
        }
    }
    return left;
}

// Whether writing the block needs another page of the group than the table has, for a table that is
// not marked. *n_op: whether it is cleared or copied.
static inline bool world_wants(const struct world *w, const struct world_table *t, int g,
                               uint32_t b, int *n_op) {
    const uint32_t *const page = t->kv.page[g];
    const uint32_t first = (uint32_t)t->n_done / KV_PAGE_TOKENS; // that is written
    int n_pins;
    *n_op = 1;
    if (w->config.group[g].kind != KV_RECURRENT)
        return b >= t->kv.n_page || world_holders(w, g, page[b], &n_pins) != 1;
    // the state is written to the page of the first block, and moves on from there
    *n_op = b < t->kv.n_page && t->n_done % KV_PAGE_TOKENS != 0;
    if (b > first) return false;
    if (b < t->kv.n_page) return world_holders(w, g, page[b], &n_pins) != 1;
    return b == 0 || world_holders(w, g, page[b - 1], &n_pins) != 1;
}

// kv_room by counting: block by block, each with the pages and operations that it takes.
static inline int world_room(const struct world *w, const struct world_table *t, int n) {
    struct world_left left = world_left(w, t);
    int n_fit = 0;
    for (uint32_t b = (uint32_t)t->n_done / KV_PAGE_TOKENS; n_fit < n; b++) {
        if (b >= t->kv.max_page) break;
        bool fits = true;
        for (int g = 0; g < w->config.n_group; g++) {
            int n_op;
            if (!world_wants(w, t, g, b, &n_op)) continue;
            left.pages[g]--;
            left.ops -= n_op;
            left.bytes -= (int64_t)w->config.group[g].page_bytes;
            fits &= left.pages[g] >= 0 && left.ops >= 0 && left.bytes >= 0;
        }
        if (!fits) break;
        n_fit = (int)(b + 1) * KV_PAGE_TOKENS - t->n_done;
    }
    return n_fit < n ? n_fit : n;
}

static inline bool world_grow(struct world *w, struct world_table *t, int n) {
    const int room = kv_room(w->kv, &t->kv, t->n_done, n);
    if (!t->kv.marked) {
        const int counted = world_room(w, t, n);
        check(room == counted, "%d of %d: room for %d, counted %d", t->n_done, n, room, counted);
    }
    const bool grown = kv_grow(w->kv, &t->kv, t->n_done, n);
    check(grown == (room >= n), "%d of %d: room for %d", t->n_done, n, room);
    if (grown) t->n_planned = n;
    return grown;
}

static inline void world_run(struct world *w);

// Evaluates n_try positions, known tokens and others, of which n_keep stay, in a step of its own;
// false: no room. The tokens that were tried and not kept are others afterwards.
static inline bool world_try(struct world *w, struct world_table *t, int n_try, int n_keep) {
    const int n_token = t->n_token;
    kv_mark(w->kv, &t->kv, t->n_done);
    if (!world_grow(w, t, n_try)) {
        assert_int_equal(kv_settle(w->kv, &t->kv, t->n_done, t->n_done), t->n_done);
        return false;
    }
    const int most = n_keep < n_try ? n_keep : n_try - 1;
    kv_snapshot(w->kv, &t->kv, (int)world_random(w, (uint32_t)most + 1));
    t->n_kept = t->n_done + n_keep;
    const int end = t->n_done + n_try;
    for (; t->n_token < end; t->n_token++) t->token[t->n_token] = (int32_t)world_random(w, 2);
    const int kept = t->n_kept;
    world_run(w);
    t->n_token = kept > n_token ? kept : n_token;
    return true;
}

static inline void world_apply(struct world *w) {
    int n;
    const struct batch_page *const op = kv_take_ops(w->kv, &n);
    for (int i = 0; i < n; i++) {
        struct world_page *const page = &w->page[op[i].group][op[i].page];
        if (!page->memory) w->bytes += w->config.group[op[i].group].page_bytes;
        page->memory = true;
        if (op[i].from == BATCH_ZERO) {
            memset(page->slot, 0, sizeof page->slot);
            continue;
        }
        w->n_copies++;
        assert_true(w->page[op[i].group][op[i].from].memory);
        *page = w->page[op[i].group][op[i].from];
    }
}

// Writes what was planned for the table: its new positions.
static inline void world_write(struct world *w, struct world_table *t) {
    uint64_t h = world_salt(t);
    for (int p = 0; p < t->n_done + t->n_planned; p++) {
        h = world_mix(h, (uint64_t)(uint32_t)t->token[p]);
        if (p < t->n_done) continue;
        for (int g = 0; g < w->config.n_group; g++) {
            const uint32_t *const aside = kv_snapshot_of(&t->kv, t->n_done);
            const bool is_aside = w->config.group[g].kind == KV_RECURRENT && aside &&
                                  p < t->n_done + t->kv.n_snapshot;
            const uint32_t id = is_aside ? aside[g] : t->kv.page[g][p / KV_PAGE_TOKENS];
            struct world_page *const page = &w->page[g][id];
            if (w->config.group[g].kind != KV_RECURRENT) {
                assert_true(page->memory);
                page->slot[p % KV_PAGE_TOKENS] = h;
                continue;
            }
            if (!page->memory)
                w->bytes += w->config.group[g].page_bytes; // it is not cleared before
            page->memory = true;
            const uint64_t before = p == 0 ? world_salt(t)
                                    : p > t->n_done && is_aside
                                        ? w->page[g][aside[g]].slot[0]
                                        : w->page[g][world_state_page(t, g, p)].slot[0];
            page->slot[0] = world_mix(before, (uint64_t)(uint32_t)t->token[p]);
        }
    }
    t->n_done += t->n_planned;
    t->n_planned = 0;
    if (!t->kv.marked) return;
    const bool recurrent = w->kv->recurrent && t->n_kept < t->n_done;
    const int behind = (int)t->kv.mark + t->kv.n_snapshot; // the mark's without a snapshot
    const int expected = !recurrent ? t->n_kept : t->n_kept >= behind ? behind : (int)t->kv.mark;
    t->n_done = kv_settle(w->kv, &t->kv, t->n_kept, t->n_done);
    check(t->n_done == expected, "%d positions left, %d expected", t->n_done, expected);
    check(t->kv.n_page == (uint32_t)(t->n_done + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS,
          "%u pages for %d positions", t->kv.n_page, t->n_done);
}

// A step: ops, then all writes, then commits.
static inline void world_run(struct world *w) {
    world_apply(w);
    for (int i = 0; i < WORLD_TABLES; i++)
        if (w->table[i].live && w->table[i].n_planned > 0) world_write(w, &w->table[i]);
    for (int i = 0; i < WORLD_TABLES; i++)
        if (w->table[i].live)
            kv_commit(w->kv, &w->table[i].kv, w->table[i].token, w->table[i].n_done);
}

// Evaluates all tokens of the table, in chunks; false: no room.
static inline bool world_finish(struct world *w, struct world_table *t, int chunk) {
    while (t->n_done < t->n_token) {
        const int left = t->n_token - t->n_done;
        if (!world_grow(w, t, left < chunk ? left : chunk)) return false;
        world_run(w);
        world_check(w);
    }
    return true;
}

static inline struct world_table *world_fork(struct world *w, const struct world_table *from,
                                             int n) {
    struct world_table *const t = world_unused(w);
    assert_non_null(t);
    t->live = true;
    t->salt = from->salt;
    memcpy(t->token, from->token, sizeof t->token);
    t->n_token = from->n_token;
    const int n_state = from->n_planned > 0 ? -1 : from->n_done;
    t->n_done = kv_fork(w->kv, &from->kv, n_state, &t->kv, n);
    check(t->n_done <= n, "%d of %d positions are shared", t->n_done, n);
    if (t->n_done == 0) world_release(w, t);
    return t;
}

static inline struct kv_stats world_stats(const struct world *w) {
    struct kv_stats stats;
    kv_get_stats(w->kv, &stats);
    return stats;
}

#endif
