// The prefix cache: hits and misses, blocks that are stored once, and the order of eviction.
#include "kv_world.h"

static const struct kv_config large_full = WORLD_CONFIG(WORLD_PAGES, 256, {KV_FULL, 0, 1, 0, 0});
static const struct kv_config large_three =
    WORLD_CONFIG(1000, 256, {KV_FULL, 0, 4, 0, 0}, {KV_WINDOW, 50, 3, 0, 0},
                 {KV_RECURRENT, 0, 2, 0, 0});

// Evaluates n tokens from `start` in a table that then goes.
static void leave_behind(struct world *w, int32_t start, int n, int chunk, const char *salt) {
    struct world_table *const t = world_tell(w, start, n, salt);
    assert_true(world_finish(w, t, chunk));
    world_release(w, t);
}

// How many of n tokens from `start` a new table finds; it goes again.
static int found(struct world *w, int32_t start, int n, const char *salt) {
    struct world_table *const t = world_tell(w, start, n, salt);
    world_check(w);
    const int n_found = t->n_done;
    world_release(w, t);
    return n_found;
}

// --- what is found ---

CASE(a_hit_is_the_longest_prefix_of_whole_blocks_but_never_everything) {
    const struct kv_config *const configs[] = {&large_full, &large_three};
    for (int i = 0; i < 2; i++) {
        struct world *const w = world_create(configs[i], 1);
        assert_int_equal(found(w, 0, 100, NULL), 0);
        leave_behind(w, 0, 100, 40, NULL);
        assert_int_equal(found(w, 0, 100, NULL), 96);
        assert_int_equal(found(w, 0, 200, NULL), 96);
        assert_int_equal(found(w, 0, 97, NULL), 96);
        assert_int_equal(found(w, 0, 96, NULL), 64);
        assert_int_equal(found(w, 0, 33, NULL), 32);
        assert_int_equal(found(w, 0, 32, NULL), 0);
        assert_int_equal(found(w, 0, 1, NULL), 0);
        assert_int_equal(found(w, 1, 200, NULL), 0);
        world_destroy(w);
    }
}

CASE(a_hit_finds_what_a_naive_search_over_all_tables_finds) {
    enum { ROUNDS = 90, LENGTH = 160 };
    const struct kv_config config =
        WORLD_CONFIG(WORLD_PAGES, 256, {KV_FULL, 0, 1, 0, 0}, {KV_WINDOW, 50, 1, 0, 0},
                     {KV_RECURRENT, 0, 1, 0, 0});
    struct world *const w = world_create(&config, 7);
    static int32_t past[ROUNDS][LENGTH];
    static int done[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        // few different blocks, so that the tree branches but stays within the budget
        int32_t *const token = past[round];
        for (int p = 0; p < LENGTH; p++)
            token[p] = p % 32 ? 0 : (int32_t)world_random(w, p < 96 ? 2 : 1);
        int expected = 0;
        done[round] = 1 + (int)world_random(w, LENGTH);
        for (int i = 0; i < round; i++) {
            int same = 0;
            while (same < done[i] && past[i][same] == token[same]) same++;
            if (same > done[round] - 1) same = done[round] - 1;
            if (expected < same / 32 * 32) expected = same / 32 * 32;
        }
        struct world_table *const t = world_begin(w, token, done[round], NULL);
        check(t->n_done == expected, "round %d: %d found, not %d", round, t->n_done, expected);
        assert_true(world_finish(w, t, 1 + (int)world_random(w, 80)));
        world_release(w, t);
    }
    assert_int_equal(world_stats(w).evictions, 0);
    world_destroy(w);
}

CASE(a_hit_needs_only_the_blocks_that_a_window_sees) {
    const struct kv_config config =
        WORLD_CONFIG(WORLD_PAGES, 256, {KV_FULL, 0, 1, 0, 0}, {KV_WINDOW, 40, 1, 0, 0});
    struct world *const w = world_create(&config, 1);
    leave_behind(w, 0, 161, 32, NULL);
    struct kv_group *const window = &w->kv->group[1];
    // the window's blocks go in the order in which they slid out
    kv_evict(w->kv, 1, window->oldest);
    kv_evict(w->kv, 1, window->oldest);
    struct world_table *t = world_tell(w, 0, 300, NULL);
    assert_int_equal(t->n_done, 160); // sees positions from 121 on: blocks 3 and 4
    assert_int_equal(t->kv.first[1], 3);
    assert_true(t->kv.page[1][2] == KV_NO_PAGE);
    world_check(w);
    world_release(w, t);
    // 128 needs block 2 (89 on) and 3; 96 needs 1 (57 on), which is gone
    assert_int_equal(found(w, 0, 129, NULL), 128);
    assert_int_equal(found(w, 0, 97, NULL), 0);
    world_destroy(w);
}

CASE(a_hit_needs_only_the_blocks_of_the_last_chunk) {
    const struct kv_config config =
        WORLD_CONFIG(WORLD_PAGES, 256, {KV_FULL, 0, 1, 0, 0}, {KV_CHUNK, 96, 1, 0, 0});
    struct world *const w = world_create(&config, 1);
    leave_behind(w, 0, 193, 32, NULL);
    struct kv_group *const chunk = &w->kv->group[1];
    // a chunk's blocks go together when it ends, the first one first
    for (int i = 0; i < 4; i++) kv_evict(w->kv, 1, chunk->oldest);
    struct world_table *t = world_tell(w, 0, 300, NULL);
    assert_int_equal(t->n_done, 192); // where a chunk begins: no block before it is seen
    assert_int_equal(t->kv.first[1], 6);
    assert_true(t->kv.page[1][5] == KV_NO_PAGE);
    world_check(w);
    assert_true(world_finish(w, t, 50));
    world_release(w, t);
    // 160 needs blocks 3, which is gone, and 4; at 96 a chunk begins; 64 needs 0 and 1, also gone
    assert_int_equal(found(w, 0, 161, NULL), 96);
    assert_int_equal(found(w, 0, 96, NULL), 0);
    world_destroy(w);
}

CASE(a_hit_needs_one_checkpoint_of_a_recurrent_group) {
    const struct kv_config config =
        WORLD_CONFIG(WORLD_PAGES, 256, {KV_FULL, 0, 1, 0, 0}, {KV_RECURRENT, 0, 1, 0, 0});
    struct world *const w = world_create(&config, 1);
    leave_behind(w, 0, 161, 70, NULL);
    for (uint32_t id = 0; id < w->kv->group[1].n_used; id++) {
        const uint32_t node = w->kv->group[1].page[id].node;
        const int32_t first = node == KV_ROOT ? -1 : w->kv->node[node].token[0];
        if (first == 32 || first == 128) kv_evict(w->kv, 1, id);
    }
    assert_int_equal(found(w, 0, 300, NULL), 128);
    assert_int_equal(found(w, 0, 128, NULL), 96);
    assert_int_equal(found(w, 0, 90, NULL), 32);
    world_destroy(w);
}

CASE(a_table_is_extended_by_what_others_computed_meanwhile) {
    struct world *const w = world_create(&large_three, 1);
    struct world_table *const slow = world_tell(w, 0, 300, "s");
    assert_true(world_grow(w, slow, 32));
    world_run(w);
    leave_behind(w, 0, 200, 64, "s");
    slow->n_done = kv_hit(w->kv, &slow->kv, slow->token, 300, "s", 1);
    assert_int_equal(slow->n_done, 192);
    world_check(w);
    assert_int_equal(slow->kv.first[2], 5);
    // nothing more, and a partial block is left alone
    assert_int_equal(kv_hit(w->kv, &slow->kv, slow->token, 300, "s", 1), 192);
    assert_true(world_grow(w, slow, 10));
    world_run(w);
    assert_int_equal(kv_hit(w->kv, &slow->kv, slow->token, 300, "s", 1), 192);
    assert_true(world_finish(w, slow, 40));
    world_destroy(w);
}

CASE(salts_separate) {
    struct world *const w = world_create(&large_full, 1);
    leave_behind(w, 0, 100, 100, "tenant");
    assert_int_equal(found(w, 0, 100, "tenant"), 96);
    assert_int_equal(found(w, 0, 100, NULL), 0);
    assert_int_equal(found(w, 0, 100, "tenan"), 0);
    assert_int_equal(found(w, 0, 100, "tenants"), 0);
    // a table that looks for nothing registers under its salt all the same
    struct world_table *const quiet = world_tell(w, 400, 1, "tenant");
    quiet->n_token = 100;
    assert_true(world_finish(w, quiet, 100));
    world_release(w, quiet);
    assert_int_equal(found(w, 400, 100, NULL), 0);
    assert_int_equal(found(w, 400, 100, "tenant"), 96);
    // zeros at the end count, though salts are padded with zeros
    int32_t token[100];
    for (int i = 0; i < 100; i++) token[i] = i;
    struct world_table *const t = world_unused(w);
    assert_int_equal(kv_hit(w->kv, &t->kv, token, 100, "tenant\0", 7), 0);
    kv_release(w->kv, &t->kv);
    // nor is a salt a block: these 128 bytes are the tokens 0 to 31
    char longest[KV_MAX_SALT];
    memcpy(longest, token, sizeof longest);
    leave_behind(w, 0, 70, 70, NULL);
    leave_behind(w, 32, 70, 70, NULL);
    assert_int_equal(kv_hit(w->kv, &t->kv, token, 100, longest, sizeof longest), 0);
    kv_release(w->kv, &t->kv);
    world_check(w);
    assert_int_equal(world_stats(w).pages_held, 0);
    world_destroy(w);
}

CASE(a_salts_node_goes_with_the_last_that_needs_it) {
    struct world *const w = world_create(&large_full, 1);
    for (int i = 0; i < 5000; i++) { // many more than there are nodes
        char salt[32];
        snprintf(salt, sizeof salt, "user %d", i);
        assert_int_equal(found(w, 0, 100, salt), 0);
    }
    assert_true(w->kv->node[KV_ROOT].n_child == 0);
    leave_behind(w, 0, 100, 100, "s");
    assert_int_equal(w->kv->node[KV_ROOT].n_child, 1);
    kv_forget_prefixes(w->kv);
    assert_int_equal(w->kv->node[KV_ROOT].n_child, 0);
    world_destroy(w);
}

CASE(prefixes_whose_hashes_collide_are_not_mixed) {
    struct world *const w = world_create(&large_three, 3);
    w->kv->hash_mask = 0;
    w->kv->node[KV_ROOT].hash = 0;
    for (int32_t i = 0; i < 5; i++) leave_behind(w, i * 1000, 100, 33, i % 2 ? "s" : NULL);
    for (int32_t i = 0; i < 5; i++) {
        assert_int_equal(found(w, i * 1000, 100, i % 2 ? "s" : NULL), 96);
        assert_int_equal(found(w, i * 1000, 100, i % 2 ? NULL : "s"), 0);
        assert_int_equal(found(w, i * 1000 + 32, 100, i % 2 ? "s" : NULL), 0);
    }
    world_destroy(w);
}

// --- what is stored once ---

CASE(a_thousand_tables_hold_their_common_prefix_once) {
    enum { TABLES = 1000, PREFIX = 768, BLOCKS = PREFIX / KV_PAGE_TOKENS };
    const struct kv_config config = {.n_group = 1,
                                     .group = {{KV_FULL, 0, 1000, 0, 0}},
                                     .budget = 1000 * (TABLES + BLOCKS),
                                     .max_tables = TABLES,
                                     .max_page_ops = TABLES + BLOCKS};
    struct backend backend = {&world_class};
    struct kv *kv;
    assert_int_equal(kv_create(&config, &backend, &kv, NULL), RN_OK);
    static struct kv_table table[TABLES];
    static int32_t token[PREFIX + 1];
    for (int i = 0; i < PREFIX; i++) token[i] = i;
    for (int i = 0; i < TABLES; i++) {
        assert_int_equal(kv_table_init(&table[i], 1, PREFIX + 32, NULL), RN_OK);
        token[PREFIX] = i;
        const int n = kv_hit(kv, &table[i], token, PREFIX + 1, NULL, 0);
        assert_int_equal(n, i ? PREFIX : 0);
        assert_true(kv_grow(kv, &table[i], n, PREFIX + 1 - n));
        kv_commit(kv, &table[i], token, PREFIX + 1);
    }
    struct kv_stats stats;
    kv_get_stats(kv, &stats);
    assert_int_equal(stats.pages_held, BLOCKS + TABLES);
    assert_int_equal(stats.pages_shared, BLOCKS);
    assert_int_equal(stats.held_bytes, config.budget);
    kv_check_begin(kv);
    for (int i = 0; i < TABLES; i++) kv_check_table(kv, &table[i]);
    assert_true(kv_check_end(kv));
    for (int i = 0; i < TABLES; i++) {
        kv_release(kv, &table[i]);
        kv_table_deinit(&table[i]);
    }
    kv_get_stats(kv, &stats);
    assert_int_equal(stats.pages_held, 0);
    assert_int_equal(stats.pages_cached, BLOCKS);
    kv_destroy(kv);
}

CASE(a_block_that_two_computed_is_stored_once) {
    struct world *const w = world_create(&large_three, 1);
    struct world_table *const a = world_tell(w, 0, 100, NULL);
    struct world_table *const b = world_tell(w, 0, 100, NULL);
    assert_true(world_grow(w, a, 100));
    assert_true(world_grow(w, b, 100));
    assert_int_equal(world_stats(w).pages_held, 16);
    assert_int_equal(world_stats(w).states_held, 8);
    world_run(w);
    world_check(w);
    // three full blocks are common, the fourth, partial one is each one's own, in three groups
    const struct kv_stats stats = world_stats(w);
    assert_int_equal(stats.pages_held, 6 + 4);
    assert_int_equal(stats.pages_shared, 6);
    assert_int_equal(stats.states_held, 3 + 2);
    assert_int_equal(stats.held_bytes, stats.state_held_bytes + (3 + 2) * (4 + 3));
    for (int g = 0; g < 3; g++) {
        assert_int_equal(a->kv.page[g][2], b->kv.page[g][2]);
        assert_int_not_equal(a->kv.page[g][3], b->kv.page[g][3]);
    }
    world_destroy(w);
}

CASE(what_forks_share_before_it_is_registered_is_stored_once_too) {
    struct world *const w = world_create(&large_full, 1);
    leave_behind(w, 0, 33, 33, NULL);
    struct world_table *const a = world_tell(w, 0, 30, NULL);
    assert_true(world_finish(w, a, 30));
    struct world_table *const b = world_fork(w, a, 30);
    a->n_token = b->n_token = 64;
    assert_true(world_finish(w, a, 3));
    assert_true(world_finish(w, b, 7));
    world_check(w);
    assert_int_equal(world_stats(w).pages_held, 2);
    world_destroy(w);
}

CASE(blocks_that_slid_out_before_they_were_registered_have_no_page) {
    struct world *const w = world_create(&large_three, 1);
    struct world_table *const t = world_tell(w, 0, 161, NULL);
    struct world_table *const other = world_tell(w, 0, 32, NULL);
    assert_true(world_finish(w, other, 32)); // the first block is registered, with all pages
    world_release(w, other);
    for (int i = 0; i < 5; i++) { // steps without a commit
        assert_true(world_grow(w, t, i < 4 ? 32 : 33));
        world_apply(w);
        world_write(w, t);
        world_check(w);
    }
    kv_commit(w->kv, &t->kv, t->token, 161);
    world_check(w);
    assert_int_equal(t->kv.n_node, 5);
    assert_int_equal(found(w, 0, 200, NULL), 160);
    assert_int_equal(found(w, 0, 128, NULL), 32); // other checkpoints were never registered
    world_destroy(w);
}

// --- what goes ---

// In full groups a page's parent has its page too: no page was evicted before the pages that
// continue it.
static void check_parents(const struct world *w) {
    for (int g = 0; g < w->config.n_group; g++) {
        if (w->config.group[g].kind != KV_FULL) continue;
        for (uint32_t at = 1; at < w->kv->n_node_used; at++) {
            const struct kv_node *const node = &w->kv->node[at];
            if (!node->used || node->page[g] == KV_NO_PAGE) continue;
            const struct kv_node *const parent = &w->kv->node[node->parent];
            check(node->parent == KV_ROOT || parent->n_salt || parent->page[g] != KV_NO_PAGE,
                  "node %u has a page, the one before has none", at);
        }
    }
}

CASE(an_evicted_block_never_has_one_behind_it_in_full_groups) {
    const struct kv_config config =
        WORLD_CONFIG(200, 256, {KV_FULL, 0, 3, 0, 0}, {KV_WINDOW, 40, 7, 0, 0});
    struct world *const w = world_create(&config, 11);
    for (int i = 0; i < 6000; i++) {
        struct world_table *const t = &w->table[world_random(w, WORLD_TABLES)];
        const uint32_t what = world_random(w, 10);
        if (!t->live) {
            int32_t token[WORLD_POSITIONS];
            const int n = 1 + (int)world_random(w, 250);
            for (int p = 0; p < n; p++) token[p] = p % 32 ? 0 : (int32_t)world_random(w, 2);
            world_begin(w, token, n, NULL);
        } else if (what < 6 && t->n_done < t->n_token) {
            const int n = 1 + (int)world_random(w, (uint32_t)(t->n_token - t->n_done));
            if (world_grow(w, t, n)) world_run(w);
        } else if (what < 7 && t->n_done >= 32 && world_unused(w)) {
            world_fork(w, t, t->n_done / 32 * 32);
        } else if (what >= 8) {
            world_release(w, t);
        }
        world_check(w);
        check_parents(w);
    }
    assert_true(world_stats(w).evictions > 500 && w->n_hits > 100);
    world_destroy(w);
}

CASE(the_least_recently_used_goes_first_whatever_its_group) {
    const struct kv_config config =
        WORLD_CONFIG(160, 256, {KV_FULL, 0, 10, 0, 0}, {KV_WINDOW, 100, 10, 0, 0}); // 8 blocks
    struct world *const w = world_create(&config, 1);
    for (int32_t i = 0; i < 4; i++) leave_behind(w, 1000 * i, 64, 64, NULL);
    assert_int_equal(found(w, 0, 65, NULL), 64); // now 1000 is the least recently used
    leave_behind(w, 9000, 32, 32, NULL);
    assert_int_equal(world_stats(w).evictions, 2);
    assert_int_equal(found(w, 0, 65, NULL), 64);
    assert_int_equal(found(w, 1000, 65, NULL), 32); // and its last block went, in both groups
    assert_int_equal(found(w, 2000, 65, NULL), 64);
    assert_int_equal(found(w, 3000, 65, NULL), 64);
    world_destroy(w);
}

CASE(forgotten_prefixes_are_not_found_and_held_ones_stay) {
    struct world *const w = world_create(&large_three, 1);
    struct world_table *const t = world_tell(w, 0, 100, NULL);
    assert_true(world_finish(w, t, 100));
    leave_behind(w, 5000, 100, 100, NULL);
    kv_forget_prefixes(w->kv);
    world_check(w);
    assert_int_equal(world_stats(w).cached_bytes, 0);
    assert_int_equal(found(w, 5000, 100, NULL), 0);
    assert_int_equal(found(w, 0, 100, NULL), 96);
    world_destroy(w);
}

CASE(a_table_without_a_node_continues_unregistered) {
    struct world *const w = world_create(&large_full, 1);
    w->kv->n_node = 3; // two blocks
    struct world_table *const t = world_tell(w, 0, 200, NULL);
    assert_true(world_finish(w, t, 32));
    assert_true(t->kv.unlisted);
    assert_int_equal(t->kv.n_node, 2);
    assert_int_equal(found(w, 0, 200, NULL), 64);
    assert_int_equal(found(w, 0, 200, "salt"), 0); // nor has its salt a node
    // a salted table without its node must not register where others would find it
    struct world_table *const salted = world_tell(w, 800, 100, "salt");
    assert_true(salted->kv.unlisted);
    assert_true(world_finish(w, salted, 50));
    // nor may a fork of it, once there are nodes again
    struct world_table *const fork = world_fork(w, salted, 64);
    assert_int_equal(fork->n_done, 64);
    w->kv->n_node = 50;
    assert_true(world_finish(w, fork, 50));
    assert_int_equal(found(w, 800, 100, NULL), 0);
    w->kv->n_node = 3;
    world_release(w, fork);
    world_release(w, salted);
    world_release(w, t);
    leave_behind(w, 800, 33, 33, NULL); // an old page makes room for its node
    assert_int_equal(found(w, 800, 33, NULL), 32);
    world_destroy(w);
}

// --- numbers ---

CASE(statistics_count_pages) {
    struct world *const w = world_create(&large_full, 1);
    leave_behind(w, 0, 100, 50, NULL);
    struct kv_stats s = world_stats(w);
    assert_int_equal(s.budget, WORLD_PAGES);
    assert_int_equal(s.pages_total, WORLD_PAGES);
    assert_int_equal(s.pages_cached, 3);
    assert_int_equal(s.cached_bytes, 3);
    struct world_table *const a = world_tell(w, 0, 70, NULL);
    struct world_table *const b = world_tell(w, 0, 200, NULL);
    s = world_stats(w);
    assert_int_equal(s.pages_held, 3);
    assert_int_equal(s.pages_shared, 2);
    assert_int_equal(s.pages_cached, 0);
    world_release(w, a);
    assert_int_equal(world_stats(w).pages_shared, 0);
    leave_behind(w, 0, 161, 65, NULL);
    assert_int_equal(kv_hit(w->kv, &b->kv, b->token, 200, NULL, 0), 160);
    b->n_done = 160;
    s = world_stats(w);
    assert_int_equal(s.pages_held, 5);
    assert_int_equal(s.pages_cached, 0);
    world_check(w);
    world_destroy(w);
}

TEST_PROGRAM(prefix) { return cases_run(NULL, NULL); }
