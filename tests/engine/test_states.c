// Pages of states at the level of the page manager: states that move, checkpoints, tails, the
// places where texts part, and the shares of states and KV in one budget.
#include "kv_world.h"

// Memory is ample; checkpoints as far apart as the last number says.
#define AMPLE(interval)                                                                            \
    WORLD_CONFIG(2000, 256, {KV_FULL, 0, 4, 0, 0}, {KV_WINDOW, 50, 4, 0, 0},                       \
                 {KV_RECURRENT, 0, 4, 0, interval})

enum { STATE = 2 }; // its group

static const struct kv_config ample[] = {AMPLE(1), AMPLE(2), AMPLE(4), AMPLE(32)};
enum { N_AMPLE = sizeof ample / sizeof *ample };
static const struct kv_config *const far_apart = &ample[N_AMPLE - 1];

// Evaluates n tokens from `start` in a table that then retires.
static void leave_behind(struct world *w, int32_t start, int n, int chunk) {
    struct world_table *const t = world_tell(w, start, n, NULL);
    assert_true(world_finish(w, t, chunk));
    world_leave(w, t, true);
    world_check(w);
}

static int found(struct world *w, int32_t start, int n) {
    struct world_table *const t = world_tell(w, start, n, NULL);
    world_check(w);
    const int n_found = t->n_done;
    world_release(w, t);
    return n_found;
}

static uint32_t held_states(const struct world *w) { return w->kv->group[STATE].n_held; }

static uint32_t cached_states(const struct world *w, int g) {
    const struct kv_group *const group = &w->kv->group[g];
    uint32_t n = 0;
    for (uint32_t id = group->oldest; id != KV_NO_PAGE; id = group->page[id].newer) n++;
    return n;
}

// --- states that move ---

CASE(a_sequence_holds_one_state_however_long_it_is) {
    for (int chunk = 1; chunk <= 320; chunk = chunk * 3 + 1) {
        struct world *const w = world_create(far_apart, 1);
        struct world_table *const t = world_tell(w, 0, 320, NULL);
        while (t->n_done < 320) {
            assert_true(world_grow(w, t, 320 - t->n_done < chunk ? 320 - t->n_done : chunk));
            assert_int_equal(held_states(w), 1);
            for (uint32_t b = t->kv.first[STATE]; b < t->kv.n_page; b++)
                assert_int_equal(t->kv.page[STATE][b], t->kv.page[STATE][t->kv.n_page - 1]);
            assert_int_equal(kv_table_pages(far_apart, &t->kv, STATE), 1);
            world_run(w);
            world_check(w);
        }
        assert_int_equal(w->kv->group[STATE].n_used, 1);
        world_destroy(w);
    }
}

// One state, one checkpoint while the chunk that passed it runs; then the checkpoint is cached.
CASE(a_checkpoint_stays_behind_and_the_state_moves_on) {
    struct world *const w = world_create(&ample[1], 1);
    struct world_table *const t = world_tell(w, 0, 320, NULL);
    assert_true(world_grow(w, t, 200));
    assert_int_equal(held_states(w), 4); // behind blocks 1, 3 and 5, and its own
    const uint32_t *const page = t->kv.page[STATE];
    for (int b = 0; b < 6; b += 2) {
        assert_int_equal(page[b], page[b + 1]);
        assert_int_not_equal(page[b + 1], page[b + 2]);
    }
    world_run(w);
    world_check(w);
    assert_true(world_grow(w, t, 1));
    assert_int_equal(held_states(w), 1);
    assert_int_equal(cached_states(w, STATE), 3);
    world_run(w);
    world_check(w);
    world_release(w, t);
    assert_int_equal(found(w, 0, 201), 192);
    assert_int_equal(found(w, 0, 192), 128);
    assert_int_equal(found(w, 0, 128), 64);
    assert_int_equal(found(w, 0, 64), 0);
    world_destroy(w);
}

// No page is left for a checkpoint: the state moves on, also through one that is findable already.
CASE(a_checkpoint_is_a_wish) {
    const struct kv_config config =
        WORLD_CONFIG(10 * 10 + 45, 256, {KV_FULL, 0, 10, 0, 0}, {KV_RECURRENT, 0, 40, 0, 1});
    for (int chunk = 32; chunk <= 320; chunk += 32) {
        struct world *const w = world_create(&config, 1);
        struct world_table *const t = world_tell(w, 0, 320, NULL);
        assert_true(world_finish(w, t, chunk));
        assert_int_equal(t->n_done, 320);
        assert_int_equal(w->kv->group[1].n_held, 1);
        world_release(w, t);
        world_destroy(w);
    }
}

// --- where states are kept ---

CASE(a_state_is_kept_where_it_was_asked_for) {
    struct world *const w = world_create(far_apart, 1);
    struct world_table *const t = world_tell(w, 0, 300, NULL);
    static const int asked[] = {31, 63, 64, 64 + 31, 200, 290}; // blocks 0, 1, 5, 8
    for (int i = 0; i < 6; i++) kv_keep(&t->kv, asked[i]);
    assert_true(world_finish(w, t, 45));
    world_release(w, t);
    assert_int_equal(found(w, 0, 300), 288);
    assert_int_equal(found(w, 0, 288), 192);
    assert_int_equal(found(w, 0, 192), 64);
    assert_int_equal(found(w, 0, 64), 32);
    assert_int_equal(found(w, 0, 32), 0);
    world_destroy(w);
}

CASE(of_too_many_wishes_the_latest_blocks_stay) {
    struct world *const w = world_create(far_apart, 1);
    struct world_table *const t = world_tell(w, 0, 300, NULL);
    for (int n = 32; n <= 256; n += 32) kv_keep(&t->kv, n);
    kv_keep(&t->kv, 64);
    kv_keep(&t->kv, 256); // is there
    assert_true(world_finish(w, t, 300));
    world_release(w, t);
    assert_int_equal(found(w, 0, 300), 256);
    assert_int_equal(found(w, 0, 256), 224);
    assert_int_equal(found(w, 0, 224), 192);
    assert_int_equal(found(w, 0, 192), 64); // it took the place of 160
    world_destroy(w);
}

// The second text finds the first one's blocks and no state, and leaves one where they part.
CASE(a_state_is_kept_where_texts_parted) {
    struct world *const w = world_create(far_apart, 1);
    leave_behind(w, 0, 300, 300);
    int32_t token[WORLD_POSITIONS];
    for (int which = 1; which <= 3; which++) {
        for (int i = 0; i < 250; i++) token[i] = i < 140 ? i : i + which * 1000;
        struct world_table *const t = world_begin(w, token, 250, NULL);
        assert_int_equal(t->n_done, which == 1 ? 0 : 128);
        assert_true(world_finish(w, t, 60));
        world_release(w, t);
    }
    // a block is not worth a state
    for (int i = 0; i < 250; i++) token[i] = i < 170 ? i : i + 9000;
    struct world_table *const t = world_begin(w, token, 250, NULL);
    assert_int_equal(t->n_done, 128);
    assert_int_equal(t->kv.n_keep, 0);
    world_destroy(w);
}

// --- tails ---

CASE(the_end_of_a_text_is_found_wherever_it_is) {
    for (int i = 0; i < N_AMPLE; i++) {
        for (int n = 1; n < 130; n++) {
            struct world *const w = world_create(&ample[i], 1);
            leave_behind(w, 0, n, 50);
            const int before = found(w, 0, n); // a token is always left
            check(before < n, "%d of %d found", before, n);
            assert_int_equal(found(w, 0, n + 1), n);
            assert_int_equal(found(w, 0, n + 60), n);
            assert_int_equal(found(w, 1, n + 60), 0);
            world_destroy(w);
        }
    }
}

CASE(the_longest_tail_is_found) {
    struct world *const w = world_create(far_apart, 1);
    struct world_table *all[7];
    for (int i = 0; i < 7; i++) all[i] = world_tell(w, 0, 70 + i * 4, NULL);
    for (int i = 0; i < 7; i++) assert_true(world_finish(w, all[i], 40));
    for (int i = 0; i < 7; i++) world_leave(w, all[i], true);
    for (int n = 71; n < 95; n++) assert_int_equal(found(w, 0, n), 70 + (n - 71) / 4 * 4);
    assert_int_equal(found(w, 0, 200), 94);
    // of another text only what is equal
    int32_t token[WORLD_POSITIONS];
    for (int i = 0; i < 200; i++) token[i] = i < 81 ? i : 5000 + i;
    struct world_table *const t = world_begin(w, token, 200, NULL);
    assert_int_equal(t->n_done, 78);
    assert_int_equal(t->kv.n_page, 3);
    assert_true(world_finish(w, t, 50));
    world_destroy(w);
}

// A lone reader takes the tail over; of two, the first one to write copies it.
CASE(a_tail_goes_with_its_first_lone_writer) {
    struct world *const w = world_create(far_apart, 1);
    for (int readers = 1; readers <= 3; readers++) {
        leave_behind(w, 0, 75, 75);
        struct world_table *t[3];
        for (int i = 0; i < readers; i++) {
            t[i] = world_tell(w, 0, 100, NULL);
            assert_int_equal(t[i]->n_done, 75);
            t[i]->token[80] = 1000 + i;
        }
        const int n_copies = w->n_copies;
        for (int i = 0; i < readers; i++) {
            assert_int_equal(found(w, 0, 76), 75); // until the last one writes
            assert_true(world_finish(w, t[i], 9));
        }
        assert_int_equal(w->n_copies - n_copies, 3 * (readers - 1));
        assert_int_equal(found(w, 0, 76), 0);
        for (int i = 0; i < readers; i++) world_release(w, t[i]);
        kv_forget_prefixes(w->kv);
    }
    world_destroy(w);
}

// The position behind the known ones writes the page of their block, which may be kept. So no
// snapshot is taken where the block ends behind them.
CASE(a_snapshot_ends_inside_of_its_block) {
    for (int n_known = 1; n_known <= 7; n_known++) {
        struct world *const w = world_create(far_apart, 1);
        struct world_table *const t = world_tell(w, 0, 100, NULL);
        t->n_token = 28;
        assert_true(world_finish(w, t, 28));
        kv_mark(w->kv, &t->kv, t->n_done);
        assert_true(world_grow(w, t, 8));
        kv_snapshot(w->kv, &t->kv, n_known);
        assert_int_equal(t->kv.n_snapshot, 28 + n_known < KV_PAGE_TOKENS ? n_known : 0);
        world_check(w);
        t->n_kept = 35; // the last one is refused
        t->n_token = 36;
        const int n_snapshot = t->kv.n_snapshot;
        world_run(w);
        world_check(w);
        assert_int_equal(t->n_done, 28 + n_snapshot);
        world_destroy(w);
    }
}

// Where memory is full, a snapshot does not take the last states that prefixes continue from.
CASE(a_snapshot_spares_the_last_states) {
    for (int n_cached = 3; n_cached <= 6; n_cached++) {
        struct world *const w = world_create(far_apart, 1);
        for (int i = 0; i < n_cached; i++) leave_behind(w, i + 1, 45, 45);
        struct world_table *const t = world_tell(w, 0, 100, NULL);
        t->n_token = 10;
        assert_true(world_finish(w, t, 10));
        kv_mark(w->kv, &t->kv, t->n_done);
        assert_true(world_grow(w, t, 4));
        const uint64_t budget = w->kv->budget;
        w->kv->budget = w->kv->held_bytes + w->kv->cached_bytes;
        assert_int_equal(cached_states(w, STATE), n_cached);
        kv_snapshot(w->kv, &t->kv, 1);
        assert_int_equal(t->kv.n_snapshot, n_cached > 4);
        w->kv->budget = budget;
        t->n_kept = t->n_done + 1;
        t->n_token = t->n_done + 4;
        world_run(w);
        world_check(w);
        world_destroy(w);
    }
}

// A draft as the first step: the state of the tail is the one that is gone back to.
CASE(a_tail_that_a_draft_continues_is_no_tail_any_more) {
    for (int keep = 0; keep <= 6; keep += 3) {
        struct world *const w = world_create(far_apart, 1);
        leave_behind(w, 0, 75, 75);
        struct world_table *const t = world_tell(w, 0, 100, NULL);
        t->n_token = 76;
        assert_true(world_try(w, t, 6, keep));
        world_check(w);
        assert_in_range(t->n_done, keep == 6 ? 81 : 75, 75 + keep); // the mark, or a snapshot
        assert_int_equal(cached_states(w, STATE), 0);
        assert_int_equal(found(w, 0, 76), 0);
        world_destroy(w);
    }
}

CASE(a_released_table_leaves_no_tail_and_a_cache_that_is_off_none_either) {
    struct world *w = world_create(far_apart, 1);
    struct world_table *t = world_tell(w, 0, 75, NULL);
    assert_true(world_finish(w, t, 75));
    world_release(w, t);
    assert_int_equal(found(w, 0, 100), 0);
    world_destroy(w);
    struct kv_config config = *far_apart;
    config.no_prefix = true;
    w = world_create(&config, 1);
    leave_behind(w, 0, 75, 75);
    assert_int_equal(found(w, 0, 100), 0);
    assert_int_equal(w->kv->cached_bytes, 0);
    world_destroy(w);
}

CASE(without_a_recurrent_group_there_are_no_tails) {
    const struct kv_config config =
        WORLD_CONFIG(400, 256, {KV_FULL, 0, 1, 0, 0}, {KV_WINDOW, 40, 1, 0, 0});
    struct world *const w = world_create(&config, 1);
    leave_behind(w, 0, 75, 75);
    assert_int_equal(found(w, 0, 100), 64);
    world_destroy(w);
}

// Position 75 sees the window from 26 on: a page of blocks 0, 1 and 2.
CASE(a_tail_needs_the_pages_of_every_group) {
    for (int g = 0; g < 3; g++) {
        for (int block = 0; block < 3; block++) {
            struct world *const w = world_create(far_apart, 1);
            leave_behind(w, 0, 75, 75);
            uint32_t evicted = KV_NO_PAGE;
            for (uint32_t id = 0; id < w->kv->group[g].n_used; id++) {
                const uint32_t node = w->kv->group[g].page[id].node;
                if (node != KV_ROOT && w->kv->node[node].token[0] == block * 32) evicted = id;
            }
            assert_true((evicted == KV_NO_PAGE) == (g == STATE && block < 2));
            if (evicted != KV_NO_PAGE) kv_evict(w->kv, g, evicted);
            assert_int_equal(found(w, 0, 100), evicted == KV_NO_PAGE ? 75 : 0);
            world_destroy(w);
        }
    }
}

// Tails are padded with zeros, which are tokens too.
CASE(tails_whose_hashes_collide_are_not_mixed) {
    struct world *const w = world_create(far_apart, 1);
    w->kv->hash_mask = 0;
    w->kv->node[KV_ROOT].hash = 0;
    const int32_t zeros[WORLD_POSITIONS] = {0};
    for (int n = 75; n < 96; n += 5) {
        struct world_table *const other = world_begin(w, zeros, 80, "salt");
        struct world_table *const t = world_begin(w, zeros, n, NULL);
        t->token[n - 1] = n == 85 ? 1 : 0;
        assert_true(world_finish(w, t, 96));
        assert_true(world_finish(w, other, 96));
        world_leave(w, other, true);
        world_leave(w, t, true);
        world_check(w);
        for (int ask = n + 1; ask < n + 9; ask++) {
            struct world_table *const next = world_begin(w, zeros, ask, NULL);
            assert_int_equal(next->n_done, n == 85 ? 0 : n);
            world_check(w);
            world_release(w, next);
        }
        kv_forget_prefixes(w->kv);
    }
    world_destroy(w);
}

// A tail beside blocks that go on, though no state is at their end.
CASE(a_tail_is_found_where_the_known_blocks_go_on) {
    struct world *const w = world_create(far_apart, 1);
    struct world_table *const brief = world_tell(w, 0, 75, NULL);
    struct world_table *const whole = world_tell(w, 0, 200, NULL);
    assert_true(world_finish(w, brief, 75));
    assert_true(world_finish(w, whole, 200));
    world_leave(w, brief, true);
    world_release(w, whole);
    assert_int_equal(found(w, 0, 200), 75);
    assert_int_equal(found(w, 0, 75), 0);
    world_destroy(w);
}

// A model of states alone has many more blocks than pages, and each block has a node.
CASE(a_long_text_of_states_alone_is_found) {
    enum { N = 9000 };
    const struct kv_config config = {.n_group = 1,
                                     .group = {{KV_RECURRENT, 0, 100, 0, 32}},
                                     .budget = 200,
                                     .max_tables = 1,
                                     .max_page_ops = 4};
    struct backend backend = {&world_class};
    struct kv *kv;
    assert_int_equal(kv_create(&config, &backend, &kv, NULL), RN_OK);
    struct kv_table table;
    assert_int_equal(kv_table_init(&table, 1, N + 1, NULL), RN_OK);
    static int32_t token[N + 1];
    for (int i = 0; i <= N; i++) token[i] = i * 7 % 1000;
    assert_int_equal(kv_hit(kv, &table, token, N, NULL, 0), 0);
    for (int n = 0; n < N; n += 300) {
        assert_int_equal(kv_room(kv, &table, n, 300), 300);
        assert_true(kv_grow(kv, &table, n, 300));
        kv_commit(kv, &table, token, n + 300);
    }
    assert_false(table.unlisted);
    assert_int_equal(table.n_node, N / 32);
    kv_retire(kv, &table, token, N);
    assert_int_equal(kv_hit(kv, &table, token, N + 1, NULL, 0), N);
    kv_check_begin(kv);
    kv_check_table(kv, &table);
    assert_true(kv_check_end(kv));
    kv_release(kv, &table);
    kv_table_deinit(&table);
    kv_destroy(kv);
}

// --- against a naive search ---

enum { TEXTS = 70, PLACES = 4000 };

struct place {
    int32_t token[WORLD_POSITIONS];
    int n;
    bool alive;
};

struct naive {
    struct place *place; // [PLACES] where a state is
    int n_place;
    struct place *text; // [TEXTS] whose blocks are known
    int n_text;
};

static void place_add(struct naive *naive, const int32_t *token, int n) {
    assert_true(naive->n_place < PLACES);
    struct place *const place = &naive->place[naive->n_place++];
    memcpy(place->token, token, (size_t)n * sizeof *token);
    place->n = n;
    place->alive = true;
}

static int common(const struct place *place, const int32_t *token, int n) {
    int same = 0;
    while (same < place->n && same < n && place->token[same] == token[same]) same++;
    return same;
}

static int naive_hit(const struct naive *naive, const int32_t *token, int n) {
    int best = 0;
    for (int i = 0; i < naive->n_place; i++) {
        const struct place *const place = &naive->place[i];
        if (place->alive && place->n > best && common(place, token, n - 1) == place->n)
            best = place->n;
    }
    return best;
}

// The blocks that some text has in common with it.
static int naive_parted(const struct naive *naive, const int32_t *token, int n) {
    int best = 0;
    for (int i = 0; i < naive->n_text; i++) {
        const int same = common(&naive->text[i], token, n - 1) / 32 * 32;
        if (same > best) best = same;
    }
    return best;
}

// A text that continues an earlier one, or parts from it.
static int next_text(struct world *w, const struct naive *naive, int32_t *token) {
    int n = 0;
    if (naive->n_text > 0 && world_random(w, 5) > 0) {
        const struct place *const like = &naive->text[world_random(w, (uint32_t)naive->n_text)];
        n = world_random(w, 2) ? like->n : (int)world_random(w, (uint32_t)like->n + 1);
        if (n > WORLD_POSITIONS - 60) n = 100;
        memcpy(token, like->token, (size_t)n * sizeof *token);
    }
    const int end = n + 1 + (int)world_random(w, 59);
    for (; n < end; n++) token[n] = (int32_t)world_random(w, n % 16 ? 1 : 3);
    return n;
}

// Evaluates the text with the wishes of an engine, and notes the places where states stay.
static void run_text(struct world *w, struct naive *naive, int interval) {
    int32_t token[WORLD_POSITIONS];
    const int n = next_text(w, naive, token);
    const int expected = naive_hit(naive, token, n), parted = naive_parted(naive, token, n);
    struct world_table *const t = world_begin(w, token, n, NULL);
    check(t->n_done == expected, "interval %d, text %d of %d: %d found, not %d", interval,
          naive->n_text, n, t->n_done, expected);
    for (int i = 0; i < naive->n_place && expected % 32; i++)
        if (naive->place[i].n == expected && common(&naive->place[i], token, expected) == expected)
            naive->place[i].alive = false;
    const int asked = (int)world_random(w, (uint32_t)n + 1) / 32 * 32;
    kv_keep(&t->kv, asked);
    assert_true(world_finish(w, t, 1 + (int)world_random(w, 90)));
    for (int p = expected / 32 * 32 + 32; p <= n; p += 32)
        if (p / 32 % interval == 0 || p == asked || (p == parted && parted >= expected + 64))
            place_add(naive, token, p);
    place_add(naive, token, n); // its end
    struct place *const text = &naive->text[naive->n_text++];
    memcpy(text->token, token, sizeof token);
    text->n = n;
    world_leave(w, t, true);
    world_check(w);
}

CASE(a_hit_finds_the_state_that_a_naive_search_finds) {
    struct naive naive = {.place = calloc(PLACES, sizeof *naive.place),
                          .text = calloc(TEXTS, sizeof *naive.text)};
    assert_true(naive.place && naive.text);
    static const int intervals[] = {1, 2, 4, 32};
    for (uint64_t round = 0; round < (uint64_t)test_scale(12, 60, 60); round++) {
        const int interval = intervals[round % 4];
        const struct kv_config config =
            WORLD_CONFIG(WORLD_PAGES * 8, 256, {KV_FULL, 0, 8, 0, 0}, {KV_WINDOW, 50, 8, 0, 0},
                         {KV_RECURRENT, 0, 8, 0, interval});
        struct world *const w = world_create(&config, round + 1);
        naive.n_place = naive.n_text = 0;
        while (naive.n_text < 40 &&
               world_stats(w).evictions + world_stats(w).state_evictions == 0 &&
               w->kv->cached_bytes < config.budget * 9 / 10)
            run_text(w, &naive, interval);
        assert_true(naive.n_text > 20);
        world_destroy(w);
    }
    free(naive.place);
    free(naive.text);
}

// Twenty turns, each of which continues the text; little memory for a while in the middle.
CASE(turns_evaluate_their_new_tokens) {
    for (int i = 0; i < N_AMPLE; i++) {
        struct world *const w = world_create(&ample[i], 1);
        int n_text = 0;
        for (int turn = 0; turn < 20; turn++) {
            const int n_new = turn == 0 ? 70 : 2 + turn * 5 % 17;
            struct world_table *const t = world_tell(w, 0, n_text + n_new, NULL);
            assert_int_equal(t->n_done, n_text);
            n_text += n_new;
            assert_true(world_finish(w, t, 33));
            world_leave(w, t, true);
            // of all turns there is one tail
            uint32_t n_tail = 0;
            for (uint32_t at = 1; at < w->kv->n_node_used; at++)
                n_tail += w->kv->node[at].used && w->kv->node[at].n_token < KV_PAGE_TOKENS;
            assert_int_equal(n_tail, n_text % 32 != 0);
        }
        world_destroy(w);
    }
}

// --- shares of the budget ---

enum { BUDGET = 1600, KV_BYTES = 10, STATE_BYTES = 40 };

static const struct kv_config shared =
    WORLD_CONFIG(BUDGET, 256, {KV_FULL, 0, KV_BYTES, 0, 0}, {KV_RECURRENT, 0, STATE_BYTES, 0, 32});

// Short texts leave four bytes of states for each byte of KV.
CASE(states_leave_half_of_the_budget_to_kv) {
    struct world *const w = world_create(&shared, 1);
    leave_behind(w, 0, 321 - 1, 320); // ten pages of KV and a state, then others
    for (int32_t i = 1; i <= 120; i++) {
        leave_behind(w, i * 1000, 30, 30);
        // when memory is short they go first, and their bytes go to KV
        if (i > 100) assert_true(w->kv->stats.state_cached_bytes <= BUDGET / 2 + STATE_BYTES);
    }
    assert_true(world_stats(w).state_evictions > 0);
    assert_true(w->kv->stats.state_cached_bytes > BUDGET / 2 - 2 * STATE_BYTES);
    assert_int_equal(found(w, 120000, 31), 30);
    assert_int_equal(found(w, 1000, 31), 0);
    // the first text's KV has outlived younger states: they had more than their half
    assert_true(w->kv->cached_bytes - w->kv->stats.state_cached_bytes > BUDGET / 4);
    world_destroy(w);
}

// Long texts without states, which would take all of the budget by age.
CASE(kv_leaves_an_eighth_of_the_budget_to_states) {
    struct world *const w = world_create(&shared, 1);
    for (int32_t i = 1; i <= 10; i++) leave_behind(w, i * 1000, 30, 30);
    const uint64_t before = w->kv->stats.state_cached_bytes;
    assert_true(before > BUDGET / 8);
    for (int32_t i = 1; i <= 40; i++) {
        struct world_table *const t = world_tell(w, i * 1000 + 500, 320, NULL);
        assert_true(world_finish(w, t, 320));
        world_release(w, t);
        assert_true(w->kv->stats.state_cached_bytes + STATE_BYTES > BUDGET / 8);
    }
    assert_true(w->kv->stats.state_cached_bytes < before); // by age down to there
    assert_true(w->kv->stats.state_cached_bytes <= BUDGET / 8);
    world_destroy(w);
}

// Held pages want all of it: both give way, and growing does not fail.
CASE(shares_are_of_cached_pages_alone) {
    struct world *const w = world_create(&shared, 1);
    for (int32_t i = 1; i <= 20; i++) leave_behind(w, i * 1000, 30, 30);
    for (int32_t i = 0; i < 10; i++) {
        struct world_table *const t = world_tell(w, 100000 + i * 1000, 320, NULL);
        assert_true(world_finish(w, t, 320)); // ten pages of KV and a state: 140
    }
    assert_true(world_stats(w).held_bytes >= 1400);
    struct world_table *const t = world_tell(w, 200000, 320, NULL);
    assert_true(world_grow(w, t, 320));
    struct world_table *const last = world_tell(w, 300000, 320, NULL); // 60 bytes are left
    assert_int_equal(kv_room(w->kv, &last->kv, 0, 320), 64);
    assert_true(world_grow(w, last, 64));
    world_run(w);
    world_check(w);
    world_destroy(w);
}

CASE(of_the_oldest_states_the_cheapest_goes) {
    const struct kv_config config =
        WORLD_CONFIG(4000, 256, {KV_FULL, 0, 10, 0, 0}, {KV_RECURRENT, 0, 40, 0, 32});
    struct world *const w = world_create(&config, 1);
    leave_behind(w, 0, 200, 200); // seven blocks to compute again, and the oldest
    struct world_table *const t = world_tell(w, 1000, 200, NULL);
    kv_keep(&t->kv, 96);  // three
    kv_keep(&t->kv, 128); // one
    kv_keep(&t->kv, 192); // two
    assert_true(world_finish(w, t, 200));
    world_release(w, t);
    static const int left[] = {192, 192, 0}; // one, then two, or rather three, goes
    assert_int_equal(found(w, 1000, 193), 192);
    assert_int_equal(found(w, 1000, 190), 128);
    kv_evict_oldest_of(w->kv, 1);
    assert_int_equal(found(w, 1000, 190), 96);
    assert_int_equal(found(w, 1000, 193), left[0]);
    kv_evict_oldest_of(w->kv, 1);
    assert_int_equal(found(w, 1000, 190), 0);
    assert_int_equal(found(w, 1000, 193), left[1]);
    kv_evict_oldest_of(w->kv, 1);
    assert_int_equal(found(w, 1000, 193), left[2]);
    assert_int_equal(found(w, 0, 201), 200);
    // a state whose KV is gone serves nobody
    leave_behind(w, 2000, 40, 40);
    leave_behind(w, 3000, 310, 310);
    kv_evict(w->kv, 0, w->kv->node[w->kv->group[1].page[w->kv->group[1].newest].node].page[0]);
    assert_int_equal(found(w, 3000, 311), 0);
    kv_evict_oldest_of(w->kv, 1);
    assert_int_equal(found(w, 0, 201), 200);
    assert_int_equal(found(w, 2000, 41), 40);
    world_destroy(w);
}

// --- numbers and the checker ---

CASE(fixed_pages_leave_room_for_states) {
    struct kv_config config =
        WORLD_CONFIG(0, 256, {KV_FULL, 0, 2, 0, 0}, {KV_RECURRENT, 0, 150, 0, 32});
    config.budget = 100000;
    kv_fix_pages(&config, 262144 / 64, 512);
    const uint64_t states = config.group[1].max_pages * 150, kv = config.group[0].max_pages * 2;
    assert_true(states + kv <= config.budget);
    assert_true(states > config.budget / 3 && states < config.budget * 2 / 3);
    struct kv_config alone = WORLD_CONFIG(3000, 256, {KV_RECURRENT, 0, 150, 0, 32});
    kv_fix_pages(&alone, 4096, 512);
    assert_int_equal(alone.group[0].max_pages, 20);
}

#define BREAK(w, place, value)                                                                     \
    do {                                                                                           \
        __typeof__(place) kept = (place);                                                          \
        (place) = (value);                                                                         \
        check(!world_is_valid(w), "not seen: %s = %s", #place, #value);                            \
        (place) = kept;                                                                            \
        assert_true(world_is_valid(w));                                                            \
    } while (0)

CASE(the_checker_sees_a_wrong_state) {
    struct world *const w = world_create(&ample[1], 1);
    leave_behind(w, 5000, 75, 75);
    struct world_table *const t = world_tell(w, 0, 200, NULL);
    assert_true(world_grow(w, t, 100));
    world_run(w);
    struct kv_table *const table = &t->kv;
    uint32_t *const page = table->page[STATE];
    assert_true(page[0] == page[1] && page[1] != page[2] && page[2] == page[3]);
    struct kv_group *const group = &w->kv->group[STATE];
    // a run is one hold
    BREAK(w, group->page[page[0]].ref, 2);
    BREAK(w, page[0], page[2]);
    BREAK(w, page[3], page[0]);
    // a findable state did not move on
    struct kv_node *const node = &w->kv->node[w->kv->node[table->node].parent];
    assert_int_equal(node->page[STATE], page[1]);
    const uint32_t moving = page[2];
    page[2] = page[3] = page[1]; // as if the state had moved through its checkpoint,
    group->page[moving].ref = 0; // and the other page did not count
    assert_false(world_is_valid(w));
    page[2] = page[3] = moving;
    group->page[moving].ref = 1;
    assert_true(world_is_valid(w));
    BREAK(w, w->kv->stats.state_cached_bytes, w->kv->stats.state_cached_bytes + 4);
    // tails
    uint32_t at = 1;
    while (!w->kv->node[at].used || w->kv->node[at].n_token == KV_PAGE_TOKENS) at++;
    struct kv_node *const tail = &w->kv->node[at];
    assert_int_equal(tail->n_token, 75 - 64);
    BREAK(w, tail->n_token, tail->n_token - 1); // its hash is another one
    BREAK(w, tail->n_token, 0);
    BREAK(w, tail->n_child, 1);
    BREAK(w, tail->n_table, 1);
    world_destroy(w);
}

TEST_PROGRAM(states) { return cases_run(NULL, NULL); }
