// Pages: their holders, their cost, and the clears and copies of the next run. The checker sees
// each broken invariant.
#include <math.h>

#include "kv_world.h"

enum {
    FULL_ONLY,
    THREE_KINDS,
    TWO_WINDOWS,
    FULL_AND_WINDOW,
    STATES_ONLY,
    LARGE_STATES,
    TWO_STATES,
    WINDOW_AND_STATE,
    FULL_AND_CHUNK,
    TWO_CHUNKS,
    CHUNK_AND_STATE,
    N_CONFIGS
};

static const struct kv_config configs[N_CONFIGS] = {
    [FULL_ONLY] = WORLD_CONFIG(1600, 256, {KV_FULL, 0, 100, 0, 0}),
    [THREE_KINDS] = WORLD_CONFIG(2500, 256, {KV_FULL, 0, 100, 0, 0}, {KV_WINDOW, 50, 70, 0, 0},
                                 {KV_RECURRENT, 0, 31, 0, 0}),
    [TWO_WINDOWS] = WORLD_CONFIG(1300, 256, {KV_WINDOW, 33, 90, 0, 0}, {KV_WINDOW, 1, 40, 0, 0}),
    [FULL_AND_WINDOW] = WORLD_CONFIG(3001, 24, {KV_FULL, 0, 64, 0, 0}, {KV_WINDOW, 40, 200, 0, 0}),
    [STATES_ONLY] = WORLD_CONFIG(2000, 64, {KV_RECURRENT, 0, 90, 0, 4}),
    [LARGE_STATES] = WORLD_CONFIG(4000, 64, {KV_FULL, 0, 40, 0, 0}, {KV_RECURRENT, 0, 150, 0, 32}),
    [TWO_STATES] = WORLD_CONFIG(3300, 64, {KV_RECURRENT, 0, 70, 0, 2}, {KV_FULL, 0, 60, 0, 0},
                                {KV_RECURRENT, 0, 110, 0, 2}),
    [WINDOW_AND_STATE] =
        WORLD_CONFIG(1700, 64, {KV_WINDOW, 40, 60, 0, 0}, {KV_RECURRENT, 0, 80, 0, 2}),
    [FULL_AND_CHUNK] = WORLD_CONFIG(3001, 24, {KV_FULL, 0, 64, 0, 0}, {KV_CHUNK, 64, 200, 0, 0}),
    [TWO_CHUNKS] = WORLD_CONFIG(1300, 256, {KV_CHUNK, 50, 90, 0, 0}, {KV_CHUNK, 24, 40, 0, 0}),
    [CHUNK_AND_STATE] =
        WORLD_CONFIG(1700, 64, {KV_CHUNK, 96, 60, 0, 0}, {KV_RECURRENT, 0, 80, 0, 2}),
};

// --- random use ---

// Prompts that often share a prefix: another table's tokens up to somewhere, then new ones.
static void random_begin(struct world *w) {
    static const char *const salts[] = {NULL, NULL, "a", "b"};
    if (!world_unused(w)) return;
    const struct world_table *const like = &w->table[world_random(w, WORLD_TABLES)];
    int32_t token[WORLD_POSITIONS];
    int n = like->n_token > 0 ? (int)world_random(w, (uint32_t)like->n_token + 1) : 0;
    memcpy(token, like->token, sizeof *token * (size_t)n);
    const int end = n + 1 + (int)world_random(w, 70);
    for (; n < end && n < WORLD_POSITIONS; n++)
        token[n] = n % 32 < 30 ? n : (int32_t)world_random(w, 2);
    world_begin(w, token, n, world_random(w, 3) ? like->salt : salts[world_random(w, 4)]);
}

static void random_grow(struct world *w, struct world_table *t) {
    if (t->n_planned > 0) return;
    if (t->n_done == t->n_token && t->n_token < WORLD_POSITIONS)
        t->token[t->n_token++] = (int32_t)world_random(w, 2);
    const int left = t->n_token - t->n_done;
    if (left > 0) world_grow(w, t, 1 + (int)world_random(w, (uint32_t)left));
}

// Tries further positions, at times after a plain growth of one, as a stream that drafts does.
static void random_try(struct world *w, struct world_table *t) {
    const int room = WORLD_POSITIONS - t->n_done;
    if (t->n_planned > 0 || room == 0) return;
    int n = 1 + (int)world_random(w, 40);
    if (n > room) n = room;
    if (world_random(w, 2) && !kv_grow(w->kv, &t->kv, t->n_done, 1)) return;
    world_try(w, t, n, (int)world_random(w, (uint32_t)n + 1));
}

static void random_step(struct world *w) {
    struct world_table *const t = &w->table[world_random(w, WORLD_TABLES)];
    const uint32_t what = world_random(w, 100);
    if (!t->live || what < 10) {
        random_begin(w);
    } else if (what < 20) {
        random_try(w, t);
    } else if (what < 50) {
        random_grow(w, t);
    } else if (what < 70) {
        world_run(w);
    } else if (what < 80) {
        if (t->n_planned > 0 || t->n_token == 0) return;
        const int n =
            kv_hit(w->kv, &t->kv, t->token, t->n_token, t->salt, t->salt ? strlen(t->salt) : 0);
        check(n < t->n_token || n <= t->n_done, "%d of %d found", n, t->n_token);
        if (n > t->n_done) t->n_done = n;
    } else if (what < 90) {
        if (t->n_done > 0 && world_unused(w))
            world_fork(w, t, 1 + (int)world_random(w, (uint32_t)t->n_done));
    } else if (what < 97) {
        world_leave(w, t, world_random(w, 3) > 0); // maybe grown, and not run
    } else if (what < 99) {
        kv_keep(&t->kv, (int)world_random(w, WORLD_POSITIONS));
    } else if (world_random(w, 4) == 0) {
        kv_forget_prefixes(w->kv);
        assert_int_equal(world_stats(w).pages_cached, 0);
    }
}

// Events that random use has seen.
struct use {
    uint64_t evictions;
    int hits, copies, forgets;
    int tails; // hits that end inside a block
};

static void random_use(const struct kv_config *config, uint64_t seed, int n, uint32_t n_node,
                       struct use *total) {
    struct world *const w = world_create(config, seed);
    if (n_node > 0) w->kv->n_node = n_node;
    for (int i = 0; i < n; i++) {
        random_step(w);
        world_check(w);
    }
    total->evictions += world_stats(w).evictions + world_stats(w).state_evictions;
    total->hits += w->n_hits;
    total->tails += w->n_tails;
    total->copies += w->n_copies;
    total->forgets += w->n_forgets;
    world_destroy(w);
}

CASE(random_use_keeps_the_invariants_and_each_tables_content) {
    struct use total = {0};
    for (size_t i = 0; i < N_CONFIGS; i++)
        for (uint64_t seed = 1; seed <= (uint64_t)test_scale(5, 20, 20); seed++)
            random_use(&configs[i], seed * 31 + i, 1500, 0, &total);
    // the test is worth something: it has seen them all
    assert_true(total.hits > 100 && total.evictions > 100 && total.copies > 100);
    assert_true(total.forgets > 100 && total.tails > 100);
}

// Groups that have pages of their own: as kv_fix_pages divides them, the first one short, the last
// one short, and more pages than there are bytes for.
static struct kv_config fixed_config(const struct kv_config *like, int way) {
    struct kv_config config = *like;
    kv_fix_pages(&config, WORLD_POSITIONS / 2, 40);
    if (way == 1) config.group[0].max_pages = 4;
    if (way == 2) config.group[config.n_group - 1].max_pages = 3;
    for (int g = 0; way == 3 && g < config.n_group; g++) config.group[g].max_pages += 5;
    return config;
}

CASE(random_use_is_valid_where_groups_have_pages_of_their_own) {
    for (int way = 0; way < 4; way++) {
        struct use total = {0};
        for (uint64_t i = 0; i < (uint64_t)test_scale(16, 32, 32); i++) {
            const struct kv_config config = fixed_config(&configs[i % N_CONFIGS], way);
            assert_true(world_is_fixed(&config) == (way < 3));
            random_use(&config, i * 37 + (uint64_t)way, 1200, 0, &total);
        }
        assert_true(total.hits > 15 && total.evictions > 15 && total.copies > 15);
        check((total.forgets > 0) == (way == 3), "%d pages were forgotten", total.forgets);
    }
}

CASE(random_use_is_valid_when_nodes_run_out) {
    struct use total = {0};
    for (uint32_t n_node = 1; n_node <= 9; n_node += 2)
        random_use(&configs[THREE_KINDS], n_node, 800, n_node, &total);
    assert_true(total.hits > 0);
}

CASE(random_use_without_a_prefix_cache_keeps_nothing) {
    struct kv_config config = configs[THREE_KINDS];
    config.no_prefix = true;
    struct use total = {0};
    random_use(&config, 5, 1500, 0, &total);
    assert_int_equal(total.hits, 0);
    assert_int_equal(total.evictions, 0);
}

// --- bytes ---

CASE(a_lone_sequence_always_fits_into_what_kv_need_says) {
    for (int round = 0; round < 120; round++) {
        struct kv_config config = configs[round % N_CONFIGS];
        const int n = 1 + (round * 37) % WORLD_POSITIONS, chunk = 1 + (round * 23) % 100;
        config.budget = kv_need(&config, n, chunk);
        struct world *const w = world_create(&config, (uint64_t)round);
        // what another one left is in the way
        struct world_table *t = world_tell(w, 5000, WORLD_POSITIONS, NULL);
        world_finish(w, t, 7);
        world_release(w, t);
        t = world_tell(w, 0, n, NULL);
        while (t->n_done < n) {
            int step = 1 + (int)world_random(w, (uint32_t)chunk);
            if (step > n - t->n_done) step = n - t->n_done;
            check(world_grow(w, t, step), "%d of %d, chunk %d", t->n_done, n, chunk);
            world_run(w);
            world_check(w);
        }
        world_destroy(w);
    }
}

CASE(kv_need_counts_partial_blocks_at_both_ends) {
    struct kv_config config = {.n_group = 1, .group = {{KV_FULL, 0, 10, 0, 0}}};
    assert_int_equal(kv_need(&config, 64, 8), 20);
    assert_int_equal(kv_need(&config, 65, 8), 30);
    config.group[0].kind = KV_WINDOW;
    config.group[0].window = 33; // 32 before the chunk, at any place
    assert_int_equal(kv_need(&config, 1000, 1), 20);
    assert_int_equal(kv_need(&config, 1000, 2), 30);
    assert_int_equal(kv_need(&config, 40, 40), 20);
    config.group[0].kind = KV_CHUNK; // up to 32 before, of chunks that begin at any place
    assert_int_equal(kv_need(&config, 1000, 1), 20);
    assert_int_equal(kv_need(&config, 1000, 2), 30);
    config.group[0].window = 64; // 63 before, and chunks begin where pages do
    assert_int_equal(kv_need(&config, 1000, 1), 20);
    assert_int_equal(kv_need(&config, 1000, 2), 30);
    assert_int_equal(kv_need(&config, 1000, 33), 30);
    assert_int_equal(kv_need(&config, 1000, 34), 40);
    config.group[0].kind = KV_RECURRENT;
    assert_int_equal(kv_need(&config, 1000, 1), 20);
    assert_int_equal(kv_need(&config, 1000, 32), 20);
    assert_int_equal(kv_need(&config, 1000, 33), 20); // the state, and one that stays behind
    assert_int_equal(kv_need(&config, 32, 32), 10);
    config.group[0].page_bytes = UINT64_MAX / 2 + 1;
    assert_true(kv_need(&config, 1000, 64) == UINT64_MAX);
}

CASE(pages_of_a_chunk_go_when_the_next_one_begins) {
    const struct kv_config config =
        WORLD_CONFIG(400, 256, {KV_FULL, 0, 10, 0, 0}, {KV_CHUNK, 96, 40, 0, 0});
    struct world *const w = world_create(&config, 1);
    struct world_table *const t = world_tell(w, 0, WORLD_POSITIONS, NULL);
    for (int n = 0; n < WORLD_POSITIONS; n++) {
        assert_true(world_grow(w, t, 1));
        world_run(w);
        world_check(w);
        // position n was evaluated, and the growth before it gave back the chunks before n's
        assert_int_equal(t->kv.first[1], n / 96 * 3);
        assert_int_equal(t->kv.first[0], 0);
    }
    world_destroy(w);
}

CASE(bytes_go_to_whichever_group_needs_them) {
    // the window's pages are large: all of the budget is 10 of them, or 40 of the full group
    const struct kv_config config =
        WORLD_CONFIG(400, 256, {KV_FULL, 0, 10, 0, 0}, {KV_WINDOW, 32, 40, 0, 0});
    struct world *const w = world_create(&config, 1);
    struct world_table *t = world_tell(w, 0, WORLD_POSITIONS, NULL);
    assert_true(world_finish(w, t, 32)); // 10 full pages, the window slides
    assert_int_equal(world_stats(w).pages_total, 40);
    world_release(w, t);
    // another one, larger chunks: the first one's pages of both groups make room
    t = world_tell(w, 1000, 240, NULL);
    assert_true(world_grow(w, t, 240)); // 8 * 50 = 400
    assert_int_equal(world_stats(w).held_bytes, 400);
    assert_true(w->n_forgets > 0);
    world_run(w);
    world_check(w);
    assert_int_equal(kv_room(w->kv, &t->kv, 240, 40), 16 + 24); // the window gives 7 pages back
    world_destroy(w);
}

static uint64_t fixed_bytes(const struct kv_config *config, int g) {
    return config->group[g].max_pages * config->group[g].page_bytes;
}

static uint64_t block_of(const struct kv_config *config) {
    uint64_t bytes = 0;
    for (int g = 0; g < config->n_group; g++) bytes += config->group[g].page_bytes;
    return bytes;
}

// Over random budgets: a lone sequence has its pages, the rest is divided by what growth needs, and
// little of it is left.
CASE(fixed_pages_divide_the_budget) {
    for (int round = 0; round < 400; round++) {
        struct kv_config config = configs[round % N_CONFIGS];
        const int n = 1 + (round * 37) % 5000, chunk = 1 + (round * 23) % 600;
        const uint64_t lone = kv_need(&config, n, 1), all = kv_need(&config, n, chunk);
        config.budget = lone + (uint64_t)(round * 7919 % 60000) * (uint64_t)(round % 3);
        kv_fix_pages(&config, n, chunk);
        uint64_t sum = 0, block = 0;
        for (int g = 0; g < config.n_group; g++) {
            struct kv_config one = {.n_group = 1, .group = {config.group[g]}};
            const uint64_t own = kv_need(&one, n, 1), grown = kv_need(&one, n, chunk);
            const double share = (double)(config.budget - lone) * (double)grown / (double)all;
            const double bytes = (double)fixed_bytes(&config, g);
            assert_true(bytes >= (double)own);
            // checkpoints have a part of it, at most a half
            const bool is_state = config.group[g].kind == KV_RECURRENT;
            const double most = is_state ? (double)(config.budget - lone) / 2 : share;
            assert_true(bytes <= (double)own + fmax(most, share) + 0.5);
            if (is_state) assert_true(bytes >= (double)own + share - (double)block_of(&config));
            assert_int_equal(kv_group_pages(&config, g), config.group[g].max_pages);
            sum += fixed_bytes(&config, g);
            block += config.group[g].page_bytes;
        }
        assert_true(sum <= config.budget && config.budget - sum <= block);
    }
    struct kv_config large = configs[FULL_ONLY];
    large.group[0].page_bytes = 1;
    large.budget = UINT64_MAX / 2;
    kv_fix_pages(&large, 100, 10);
    assert_int_equal(large.group[0].max_pages, KV_MAX_GROUP_PAGES);
}

CASE(a_lone_sequence_always_fits_into_fixed_pages) {
    for (int round = 0; round < 80; round++) {
        struct kv_config config = configs[round % N_CONFIGS];
        const int n = 1 + (round * 37) % WORLD_POSITIONS;
        config.budget = kv_need(&config, n, 1) + (uint64_t)(round % 5 * 100);
        kv_fix_pages(&config, n, 1 + round % 70);
        struct world *const w = world_create(&config, (uint64_t)round);
        // what another one left is in the way
        struct world_table *t = world_tell(w, 5000, WORLD_POSITIONS, NULL);
        world_finish(w, t, 7);
        world_release(w, t);
        t = world_tell(w, 0, n, NULL);
        check(world_finish(w, t, 1), "%d of %d", t->n_done, n);
        world_destroy(w);
    }
}

// The window's group has pages for two blocks beside the chunk; the full group's bytes do not help.
CASE(room_ends_where_the_pages_of_a_group_do) {
    const struct kv_config config =
        WORLD_CONFIG(1000, 256, {KV_FULL, 0, 10, 30, 0}, {KV_WINDOW, 32, 40, 3, 0});
    struct world *const w = world_create(&config, 1);
    struct world_table *t = world_tell(w, 0, WORLD_POSITIONS, NULL);
    assert_int_equal(kv_room(w->kv, &t->kv, 0, 200), 96);
    const struct kv_stats before = world_stats(w);
    assert_false(world_grow(w, t, 97));
    const struct kv_stats after = world_stats(w);
    assert_memory_equal(&before, &after, sizeof before);
    assert_true(world_grow(w, t, 80));
    struct world_table *const other = world_tell(w, 0, 100, NULL);
    assert_int_equal(kv_room(w->kv, &other->kv, 0, 100), 0); // bytes and full pages are left
    assert_true(w->config.budget - world_stats(w).held_bytes > 800);
    world_run(w);
    world_check(w);
    // the window gives its first page back
    assert_int_equal(kv_room(w->kv, &t->kv, 80, 200), 16 + 32);
    assert_true(world_finish(w, t, 32));
    world_check(w);
    world_destroy(w);
}

static uint32_t cached_pages(const struct world *w, int g) {
    const struct kv_group *const group = &w->kv->group[g];
    uint32_t n = 0;
    for (uint32_t id = group->oldest; id != KV_NO_PAGE; id = group->page[id].newer) n++;
    return n;
}

// Two groups see everything, and one has few pages: it evicts its own, although the other one has
// cached pages that are older.
CASE(a_group_without_pages_evicts_its_own) {
    const struct kv_config config =
        WORLD_CONFIG(400, 256, {KV_FULL, 0, 10, 12, 0}, {KV_FULL, 0, 30, 4, 0});
    struct world *const w = world_create(&config, 1);
    for (int round = 0; round < 6; round++) {
        struct world_table *const t = world_tell(w, 1000 * round, 65, NULL);
        const uint32_t cached[2] = {cached_pages(w, 0), cached_pages(w, 1)};
        const uint64_t evictions = world_stats(w).evictions;
        assert_true(world_grow(w, t, 65)); // three pages of each
        const uint32_t lost[2] = {cached[0] - cached_pages(w, 0), cached[1] - cached_pages(w, 1)};
        assert_int_equal(lost[0], cached[0] + 3 > 12 ? cached[0] + 3 - 12 : 0);
        assert_int_equal(lost[1], cached[1] + 3 > 4 ? cached[1] + 3 - 4 : 0);
        assert_int_equal(world_stats(w).evictions - evictions, lost[0] + lost[1]);
        world_run(w);
        world_check(w);
        world_release(w, t);
    }
    // a prefix ends where a group lacks its pages
    assert_int_equal(world_tell(w, 5000, 65, NULL)->n_done, 64);
    assert_int_equal(world_tell(w, 4000, 65, NULL)->n_done, 32);
    assert_int_equal(w->n_forgets, 0);
    world_destroy(w);
}

CASE(room_ends_where_page_operations_do) {
    struct kv_config config = configs[FULL_ONLY];
    config.max_page_ops = 3;
    struct world *const w = world_create(&config, 1);
    struct world_table *const t = world_tell(w, 0, WORLD_POSITIONS, NULL);
    assert_int_equal(kv_room(w->kv, &t->kv, 0, 200), 96);
    assert_true(world_grow(w, t, 64));
    world_check(w);
    struct world_table *const other = world_tell(w, 0, 100, NULL);
    assert_int_equal(kv_room(w->kv, &other->kv, 0, 200), 32);
    world_run(w);
    assert_int_equal(kv_room(w->kv, &other->kv, 0, 200), 96);
    world_destroy(w);
}

CASE(growth_that_does_not_fit_changes_nothing) {
    struct world *const w = world_create(&configs[FULL_ONLY], 1);
    struct world_table *const a = world_tell(w, 0, 320, NULL);
    assert_true(world_finish(w, a, 320));
    struct world_table *const b = world_tell(w, 1000, 320, NULL);
    const struct kv_stats before = world_stats(w);
    assert_false(world_grow(w, b, 193)); // 7 blocks, and 6 pages are left
    const struct kv_stats after = world_stats(w);
    assert_memory_equal(&before, &after, sizeof before);
    assert_true(world_grow(w, b, 192));
    world_run(w);
    world_check(w);
    assert_int_equal(world_stats(w).held_bytes, 1600);
    world_destroy(w);
}

CASE(budgets_that_cannot_be_counted_are_refused) {
    struct kv_config config = configs[FULL_ONLY];
    config.budget = UINT64_MAX;
    struct kv *kv = NULL;
    rn_error err = {0};
    assert_int_equal(kv_create(&config, NULL, &kv, &err), RN_ERR_ARG);
    assert_null(kv);
    assert_non_null(strstr(err.message, "18446744073709551615"));
    config = configs[FULL_ONLY];
    config.budget = 99; // not even a page: a valid manager without any room
    struct world *const w = world_create(&config, 1);
    assert_int_equal(kv_room(w->kv, &w->table[0].kv, 0, 10), 0);
    assert_false(kv_grow(w->kv, &w->table[0].kv, 0, 1));
    world_check(w);
    world_destroy(w);
}

// --- copies ---

CASE(a_shared_partial_page_is_copied_by_all_writers_but_the_last) {
    struct world *const w = world_create(&configs[FULL_ONLY], 1);
    struct world_table *const a = world_tell(w, 0, 41, NULL);
    a->n_token = 40;
    assert_true(world_finish(w, a, 40));
    struct world_table *const b = world_fork(w, a, 40), *const c = world_fork(w, a, 40);
    assert_int_equal(b->n_done, 40);
    world_check(w);
    assert_int_equal(world_stats(w).pages_held, 2);
    struct world_table *const all[] = {a, b, c};
    for (int i = 0; i < 3; i++) {
        all[i]->token[40] = 900 + i;
        all[i]->n_token = 41;
        assert_true(world_grow(w, all[i], 1));
        world_check(w);
    }
    assert_int_equal(world_stats(w).pages_held, 4);
    assert_int_equal(w->kv->n_op, 2);
    assert_int_equal(w->kv->op[0].from, w->kv->op[1].from);
    world_run(w);
    world_check(w);
    world_destroy(w);
}

CASE(a_copys_source_stays_until_the_copy_is_taken) {
    // two groups, so that the source could be forgotten, which no order of ops could undo
    const struct kv_config config =
        WORLD_CONFIG(160, 256, {KV_FULL, 0, 10, 0, 0}, {KV_FULL, 0, 30, 0, 0}); // 4 blocks
    struct world *const w = world_create(&config, 1);
    struct world_table *const a = world_tell(w, 0, 40, NULL);
    assert_true(world_finish(w, a, 40));
    struct world_table *const b = world_fork(w, a, 40);
    b->token[b->n_token++] = 7;
    assert_true(world_grow(w, b, 1));
    world_release(w, a); // now only the copy that waits needs the page
    assert_true(world_is_valid(w));
    assert_int_equal(world_stats(w).pages_held, 6);
    struct world_table *const c = world_tell(w, 500, 64, NULL);
    assert_int_equal(kv_room(w->kv, &c->kv, 0, 64), 32);
    assert_true(world_grow(w, c, 32));
    world_check(w);
    world_run(w);
    world_check(w);
    assert_int_equal(world_stats(w).pages_held, 6); // the source is free
    world_destroy(w);
}

CASE(a_page_that_changes_hands_before_the_run_has_one_operation) {
    struct world *const w = world_create(&configs[THREE_KINDS], 1);
    for (int round = 0; round < 3; round++) {
        struct world_table *const t = world_tell(w, 0, 200, NULL);
        assert_true(world_grow(w, t, 96));
        assert_int_equal(w->kv->n_op, 6); // states are not cleared
        world_check(w);
        if (round < 2) world_release(w, t);
    }
    world_run(w);
    world_check(w);
    world_destroy(w);
}

CASE(a_page_that_loses_its_memory_before_the_run_is_not_written) {
    // A released table's page of the window, to be cleared, is forgotten for the full group's sake:
    // the clear must go, or the page would have memory again that nobody counts.
    struct kv_config config =
        WORLD_CONFIG(620, 256, {KV_FULL, 0, 100, 0, 0}, {KV_WINDOW, 1, 10, 0, 0});
    config.no_prefix = true;
    struct world *const w = world_create(&config, 1);
    struct world_table *const t = world_tell(w, 0, 320, NULL);
    assert_true(world_grow(w, t, 96));
    world_run(w);
    assert_true(world_grow(w, t, 32)); // two of the window's pages are free now
    world_run(w);
    struct world_table *const other = world_tell(w, 0, 320, NULL);
    assert_true(world_grow(w, other, 32));
    const uint32_t page = other->kv.page[1][0];
    world_release(w, other);
    assert_true(world_grow(w, t, 64));
    assert_int_equal(w->n_forgets, 1);
    assert_false(w->page[1][page].memory);
    world_check(w);
    world_run(w);
    assert_false(w->page[1][page].memory);
    assert_int_equal(w->bytes, 620);
    world_check(w);
    world_destroy(w);
}

CASE(a_fork_inside_a_registered_block_leaves_that_block_alone) {
    for (int alone = 0; alone < 2; alone++) {
        struct world *const w = world_create(&configs[FULL_ONLY], 1);
        struct world_table *const a = world_tell(w, 0, 65, NULL);
        assert_true(world_finish(w, a, 65));
        struct world_table *const b = world_fork(w, a, 40);
        assert_int_equal(b->n_done, 40);
        b->token[40] = 999; // parts from a inside the block
        if (alone) world_release(w, a);
        assert_true(world_finish(w, b, 3));
        assert_int_equal(w->n_copies, alone ? 0 : 1);
        struct world_table *const c = world_tell(w, 0, 65, NULL);
        assert_int_equal(c->n_done, alone ? 32 : 64);
        world_check(w);
        world_destroy(w);
    }
}

CASE(a_fork_begins_at_the_last_place_with_a_state) {
    struct world *const w = world_create(&configs[THREE_KINDS], 1);
    struct world_table *const a = world_tell(w, 0, 100, NULL);
    assert_true(world_finish(w, a, 50));
    // the state stands at 100; before, it was kept at the ends of blocks
    struct world_table *t = world_fork(w, a, 100);
    assert_int_equal(t->n_done, 100);
    world_check(w);
    world_release(w, t);
    t = world_fork(w, a, 99);
    assert_int_equal(t->n_done, 96);
    world_check(w);
    assert_int_equal(kv_fork(w->kv, &a->kv, a->n_done, &world_unused(w)->kv, 31), 0);
    world_release(w, t);
    // where it stands is not known, or steps in flight move it on
    static const int unknown[] = {-1, 101};
    for (int i = 0; i < 2; i++) {
        struct kv_table *const to = &world_unused(w)->kv;
        assert_int_equal(kv_fork(w->kv, &a->kv, unknown[i], to, 100), 96);
        kv_release(w->kv, to);
    }
    // the checkpoint was given back, and is found in the cache; then it is gone
    a->n_token = 110;
    assert_true(world_finish(w, a, 5));
    t = world_fork(w, a, 97);
    assert_int_equal(t->n_done, 96);
    world_check(w);
    world_release(w, t);
    kv_forget_prefixes(w->kv);
    t = world_fork(w, a, 97);
    assert_int_equal(t->n_done, 0);
    world_check(w);
    world_destroy(w);
}

CASE(a_fork_finds_what_a_window_gave_back_while_it_is_cached) {
    struct world *const w = world_create(&configs[FULL_AND_WINDOW], 1);
    struct world_table *const a = world_tell(w, 0, 200, NULL);
    assert_true(world_finish(w, a, 25));
    assert_true(a->kv.first[1] >= 4);
    struct world_table *t = world_fork(w, a, 70);
    assert_int_equal(t->n_done, 70);
    world_check(w);
    assert_true(world_finish(w, t, 30));
    world_release(w, t);
    kv_forget_prefixes(w->kv);
    assert_int_equal(world_fork(w, a, 70)->n_done, 0);
    assert_int_equal(world_fork(w, a, 200)->n_done, 200);
    world_check(w);
    world_destroy(w);
}

// --- the checker ---

// A table with 100 positions and a released one that left cached pages, a free and a fresh page.
static struct world *checker_world(void) {
    const struct kv_config config =
        WORLD_CONFIG(1000, 256, {KV_FULL, 0, 10, 0, 0}, {KV_WINDOW, 40, 20, 0, 0});
    struct world *const w = world_create(&config, 1);
    assert_true(world_finish(w, world_tell(w, 0, 100, "s"), 10));
    struct world_table *const t = world_tell(w, 700, 100, NULL);
    assert_true(world_finish(w, t, 100));
    world_release(w, t);
    assert_true(w->kv->stats.pages_cached >= 6 && w->kv->group[0].n_free > 0);
    world_check(w);
    return w;
}

// Breaks a value, sees the checker notice, and mends it.
#define BREAK(w, place, value)                                                                     \
    do {                                                                                           \
        __typeof__(place) kept = (place);                                                          \
        (place) = (value);                                                                         \
        check(!world_is_valid(w), "not seen: %s = %s", #place, #value);                            \
        (place) = kept;                                                                            \
        assert_true(world_is_valid(w));                                                            \
    } while (0)

CASE(the_checker_sees_a_wrong_page) {
    struct world *const w = checker_world();
    struct kv_group *const group = &w->kv->group[0];
    struct kv_page *const page = &group->page[w->table[0].kv.page[0][1]];
    BREAK(w, page->ref, 2);
    BREAK(w, page->pins, 1);
    BREAK(w, page->pending, true);
    BREAK(w, w->kv->stats.pages_shared, 1);
    // in two states
    BREAK(w, page->memory, false);
    BREAK(w, group->page[group->oldest].memory, false);
    BREAK(w, group->page[group->stack[0]].memory, false);
    BREAK(w, group->page[group->stack[0]].node, 1);
    // in no list, or in two
    BREAK(w, group->n_free, 0);
    BREAK(w, group->stack[0], group->oldest);
    BREAK(w, group->oldest, group->page[group->oldest].newer);
    BREAK(w, group->newest, group->page[group->newest].older);
    BREAK(w, group->page[group->newest].newer, group->oldest);
    BREAK(w, group->page[group->oldest].tick, UINT64_MAX);
    // bytes
    BREAK(w, w->kv->held_bytes, w->kv->held_bytes + 10);
    BREAK(w, group->n_held, group->n_held - 1);
    BREAK(w, w->kv->cached_bytes, 0);
    BREAK(w, w->kv->free_bytes, 0);
    BREAK(w, w->kv->budget, w->kv->held_bytes + 1);
    world_destroy(w);
}

CASE(the_checker_sees_a_wrong_node) {
    struct world *const w = checker_world();
    struct kv_node *const node = &w->kv->node[w->table[0].kv.node];
    BREAK(w, node->page[0], KV_NO_PAGE);
    BREAK(w, node->n_table, 2);
    BREAK(w, node->n_child, 1);
    BREAK(w, node->n_page, 0);
    BREAK(w, node->token[3], -5); // its hash is another one
    BREAK(w, node->parent, KV_ROOT);
    BREAK(w, node->used, false);
    BREAK(w, w->kv->bucket[node->hash & (w->kv->n_bucket - 1)], KV_ROOT);
    BREAK(w, w->kv->group[0].page[node->page[0]].node, KV_ROOT);
    BREAK(w, w->kv->node[KV_ROOT].n_child, 0);
    BREAK(w, w->kv->n_node_used, w->kv->n_node_used + 1);
    world_destroy(w);
}

CASE(the_checker_sees_a_wrong_table) {
    struct world *const w = checker_world();
    struct kv_table *const t = &w->table[0].kv;
    assert_true(t->first[1] > 0);
    BREAK(w, t->page[0][3], t->page[0][2]);
    BREAK(w, t->page[0][3], KV_NO_PAGE);
    BREAK(w, t->page[0][4], w->kv->group[0].oldest);
    BREAK(w, t->page[1][0], w->kv->group[1].oldest);
    BREAK(w, t->first[1], t->first[1] - 1);
    BREAK(w, t->first[1], t->n_page + 1);
    BREAK(w, t->n_page, t->max_page + 1);
    // the chain of its nodes
    BREAK(w, t->n_node, t->n_node - 1);
    BREAK(w, t->n_node, t->n_node + 1);
    BREAK(w, t->n_node, t->n_page + 1);
    BREAK(w, t->node, w->kv->node[t->node].parent);
    // as many owners as before, in another order
    const uint32_t page = t->page[0][0];
    t->page[0][0] = t->page[0][1];
    t->page[0][1] = page;
    assert_false(world_is_valid(w));
    t->page[0][1] = t->page[0][0];
    t->page[0][0] = page;
    world_destroy(w);
}

TEST_PROGRAM(kv) { return cases_run(NULL, NULL); }
