// The drafters that take no time, each through its class as a step calls it: lookup, shared and
// custom.
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "engine/draft/drafter.h"
#include "engine/request/seq.h"

enum { MOST = RN_MAX_DRAFT, CANARY = -77 };

// A sequence with a text and an index of its own.
struct world {
    struct seq seq;
    struct seq_draft draft;
    int32_t out[MOST + 1]; // the last is a canary
};

static void world_init(struct world *world, int32_t *token, int n_token, bool lookup) {
    memset(world, 0, sizeof *world);
    world->seq.token = token;
    world->seq.n_token = n_token;
    world->seq.draft = &world->draft;
    if (lookup) assert_int_equal(suffix_init(&world->draft.own, n_token + 1, NULL), RN_OK);
}

static void world_deinit(struct world *world) { suffix_deinit(&world->draft.own); }

static struct draft_offer ask(struct drafter *drafter, struct world *world, int most) {
    for (int i = 0; i <= MOST; i++) world->out[i] = CANARY;
    const struct draft_offer offer = drafter->cls->offer(drafter, &world->seq, most, world->out);
    assert_in_range(offer.n, 0, most);
    assert_true(offer.setup_ns == 0);
    for (int i = most; i <= MOST; i++) assert_int_equal(world->out[i], CANARY);
    return offer;
}

static struct drafter *make_lookup(void) {
    struct drafter *drafter;
    assert_int_equal(drafter_lookup_create(&drafter, NULL), RN_OK);
    assert_int_equal(drafter->cls->id, RN_DRAFTER_LOOKUP);
    return drafter;
}

// --- lookup ---

CASE(a_loop_of_any_period_fills_the_draft) {
    struct drafter *const drafter = make_lookup();
    for (int period = 1; period <= 40; period++) {
        int32_t token[200];
        for (int i = 0; i < 200; i++) token[i] = 100 + i % period;
        struct world world;
        world_init(&world, token, 2 * period + 2, true);
        for (int most = 1; most <= MOST; most++) {
            assert_int_equal(ask(drafter, &world, most).n, most);
            assert_memory_equal(world.out, token + 2 * period + 2, (size_t)most * sizeof *token);
        }
        world_deinit(&world);
    }
    drafter->cls->destroy(drafter);
}

CASE(the_length_that_agrees_tells_the_source) {
    struct drafter *const drafter = make_lookup();
    for (int length = 1; length <= 12; length++) {
        int32_t token[64];
        int n = 0;
        token[n++] = 1;
        for (int i = 0; i < length; i++) token[n++] = 10 + i;
        token[n++] = 2;
        for (int i = 0; i < length; i++) token[n++] = 10 + i;
        struct world world;
        world_init(&world, token, n, true);
        const struct draft_offer offer = ask(drafter, &world, 1);
        assert_int_equal(offer.n, length >= 2);
        if (length >= 2) {
            assert_int_equal(world.out[0], 2);
            assert_int_equal(offer.source, length < 4   ? DRAFT_LOOKUP_SHORT
                                           : length < 8 ? DRAFT_LOOKUP_MIDDLE
                                                        : DRAFT_LOOKUP_LONG);
        }
        world_deinit(&world);
    }
    drafter->cls->destroy(drafter);
}

CASE(a_long_prompt_is_offered_for_once_it_is_indexed) {
    enum { N = 10000 };
    struct drafter *const drafter = make_lookup();
    int32_t *const token = malloc(N * sizeof *token);
    assert_non_null(token);
    for (int i = 0; i < N; i++) token[i] = i % 50;
    struct world world;
    world_init(&world, token, N, true);
    int n_asked = 1;
    while (ask(drafter, &world, 4).n == 0) {
        assert_true(world.draft.own.n_token < N);
        assert_true(++n_asked < 10);
    }
    assert_int_equal(world.draft.own.n_token, N);
    assert_int_equal(n_asked, (N + 4095) / 4096);
    world_deinit(&world);
    free(token);
    drafter->cls->destroy(drafter);
}

CASE(lookup_has_nothing_without_an_index_or_a_past) {
    struct drafter *const drafter = make_lookup();
    int32_t token[] = {3, 3, 3, 3};
    for (int n = 0; n <= 4; n++) {
        struct world world;
        world_init(&world, token, n, true);
        assert_int_equal(ask(drafter, &world, MOST).n, n >= 3 ? MOST : 0);
        world_deinit(&world);
        world_init(&world, token, n, false);
        assert_int_equal(ask(drafter, &world, MOST).n, 0);
        world_deinit(&world);
    }
    drafter->cls->destroy(drafter);
}

// The step's way: a token more each time, and drafts that stand behind them in the same array.
CASE(drafts_behind_the_text_are_not_indexed) {
    struct drafter *const drafter = make_lookup();
    int32_t token[300];
    struct world world;
    world_init(&world, token, 200, true);
    world.seq.n_token = 0;
    for (int i = 0; i < 150; i++) {
        token[world.seq.n_token++] = i < 40 ? i : i % 40; // 0..39 again and again
        const struct draft_offer offer = ask(drafter, &world, 8);
        assert_int_equal(offer.n, i < 41 ? 0 : 8);
        for (int j = 0; j < offer.n; j++) assert_int_equal(world.out[j], (i + 1 + j) % 40);
        for (int j = 0; j < 8; j++) token[world.seq.n_token + j] = j; // a draft that is refused
    }
    world_deinit(&world);
    drafter->cls->destroy(drafter);
}

// --- shared ---

static struct drafter *make_shared(int max_tokens) {
    struct drafter *drafter;
    assert_int_equal(drafter_shared_create(max_tokens, &drafter, NULL), RN_OK);
    assert_int_equal(drafter->cls->id, RN_DRAFTER_SHARED);
    return drafter;
}

static void set_salt(struct world *world, const char *salt) {
    world->seq.n_salt = strlen(salt);
    memcpy(world->seq.salt, salt, world->seq.n_salt);
}

CASE(a_finished_text_serves_sequences_of_its_salt_up_to_its_end) {
    struct drafter *const drafter = make_shared(10000);
    int32_t told[40];
    for (int i = 0; i < 40; i++) told[i] = 100 + i;
    struct world past, world;
    world_init(&past, told, 40, false);
    set_salt(&past, "one");
    world_init(&world, told, 0, false);
    set_salt(&world, "one");
    world.seq.n_token = 10;
    assert_int_equal(ask(drafter, &world, 8).n, 0);
    drafter->cls->learn(drafter, &past.seq);
    for (int n = 0; n <= 40; n++) {
        world.seq.n_token = n;
        set_salt(&world, "one");
        const struct draft_offer offer = ask(drafter, &world, 8);
        assert_int_equal(offer.n, n < 2 ? 0 : 40 - n < 8 ? 40 - n : 8);
        if (offer.n > 0) {
            assert_memory_equal(world.out, told + n, (size_t)offer.n * sizeof *told);
            assert_int_equal(offer.source, n < 4   ? DRAFT_SHARED_SHORT
                                           : n < 8 ? DRAFT_SHARED_MIDDLE
                                                   : DRAFT_SHARED_LONG);
        }
        set_salt(&world, "two");
        assert_int_equal(ask(drafter, &world, 8).n, 0);
    }
    drafter->cls->destroy(drafter);
}

CASE(a_text_longer_than_a_quarter_is_kept_by_its_end) {
    struct drafter *const drafter = make_shared(400);
    int32_t told[300];
    for (int i = 0; i < 300; i++) told[i] = i;
    struct world world;
    world_init(&world, told, 300, false);
    drafter->cls->learn(drafter, &world.seq);
    world.seq.n_token = 201;
    assert_int_equal(ask(drafter, &world, 1).n, 0);
    world.seq.n_token = 202; // 200 and 201 are the first of the last hundred
    assert_int_equal(ask(drafter, &world, 1).n, 1);
    assert_int_equal(world.out[0], 202);
    drafter->cls->destroy(drafter);
}

// --- custom ---

struct program {
    int32_t made[MOST];
    int n; // that it says it made
    struct world *world;
    int n_calls;
};

static int program_draft(void *ctx, void *data, int choice, const int32_t *token, int n_token,
                         int32_t *out, int most) {
    struct program *const program = ctx;
    assert_ptr_equal(data, &program->n_calls);
    assert_int_equal(choice, 3);
    assert_ptr_equal(token, program->world->seq.token);
    assert_int_equal(n_token, program->world->seq.n_token);
    program->n_calls++;
    memcpy(out, program->made, (size_t)most * sizeof *out);
    return program->n;
}

CASE(the_programs_drafts_are_cut_at_what_is_no_token) {
    enum { N_VOCAB = 50 };
    int32_t token[] = {1, 2};
    struct world world;
    world_init(&world, token, 2, false);
    struct program program = {.world = &world};
    world.seq.data = &program.n_calls;
    world.seq.choices.index = 3;
    struct drafter *drafter;
    assert_int_equal(drafter_custom_create(program_draft, &program, N_VOCAB, &drafter, NULL),
                     RN_OK);
    assert_int_equal(drafter->cls->id, RN_DRAFTER_CUSTOM);
    const int32_t bad[] = {-1, N_VOCAB, INT32_MIN, INT32_MAX};
    for (int at = 0; at < 8; at++)
        for (int b = 0; b < 4; b++) {
            for (int i = 0; i < MOST; i++) program.made[i] = i % 2 ? 0 : N_VOCAB - 1;
            program.made[at] = bad[b];
            program.n = 8;
            const struct draft_offer offer = ask(drafter, &world, 8);
            assert_int_equal(offer.n, at);
            if (at > 0) assert_int_equal(offer.source, DRAFT_CUSTOM);
            assert_memory_equal(world.out, program.made, (size_t)at * sizeof *token);
        }
    program.made[7] = 1;
    const int n_said[] = {-5, 0, 3, 8, 9, INT32_MAX}, n_taken[] = {0, 0, 3, 8, 8, 8};
    for (int i = 0; i < 6; i++) {
        program.n = n_said[i];
        assert_int_equal(ask(drafter, &world, 8).n, n_taken[i]);
    }
    assert_int_equal(program.n_calls, 8 * 4 + 6);
    drafter->cls->destroy(drafter);
}

TEST_PROGRAM(drafters) { return cases_run(NULL, NULL); }
