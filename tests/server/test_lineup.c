// Which model is loaded or unloaded next, from states alone: nothing is loaded here.
#include "lineup.h"

#include <math.h>

#include "check.h"

enum { MODELS = 4, NOW = 1000 };

struct world {
    struct served served[MODELS];
    struct server_source source[MODELS];
    uint64_t due_ns;
};

// Four models of 10 bytes each, of which 25 may be loaded.
static struct world *world_create(void **state) {
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    for (int i = 0; i < MODELS; i++)
        world->served[i] = (struct served){.source = &world->source[i],
                                           .need = {.bytes = 10},
                                           .bytes_max = 25,
                                           .is_planned = true};
    *state = world;
    return world;
}

static int setup(void **state) { return !world_create(state); }

static int teardown(void **state) {
    free(*state);
    return 0;
}

static void ready(struct world *world, int i, uint64_t used_ns) {
    world->served[i].state = SERVED_READY;
    world->served[i].used_ns = used_ns;
}

static void want(struct world *world, int i, uint64_t since_ns) {
    world->served[i].state = SERVED_LOADING;
    world->served[i].wanted_ns = since_ns;
    world->served[i].n_waiting = 1;
}

static void expect_at(struct world *world, uint64_t now_ns, enum lineup_act act, int which) {
    const struct lineup_step step = lineup_next(world->served, MODELS, now_ns, &world->due_ns);
    const int got = step.served ? (int)(step.served - world->served) : -1;
    check(step.act == act && got == which, "act %d of model %d, expected %d of %d", step.act, got,
          act, which);
}

static void expect(struct world *world, enum lineup_act act, int which) {
    expect_at(world, NOW, act, which);
}

CASE_WITH(test_nothing_is_done_where_nothing_is_wanted, setup, teardown) {
    struct world *world = *state;
    ready(world, 0, 1);
    expect(world, LINEUP_NOTHING, -1);
    assert_int_equal(world->due_ns, 0);
}

CASE_WITH(test_models_are_planned_then_loaded_in_the_order_of_requests, setup, teardown) {
    struct world *world = *state;
    want(world, 1, 7);
    want(world, 2, 5);
    world->served[2].is_planned = false;
    expect(world, LINEUP_PLAN, 2);
    world->served[2].is_planned = true;
    expect(world, LINEUP_LOAD, 2);
    ready(world, 2, 8);
    world->served[2].wanted_ns = 0;
    expect(world, LINEUP_LOAD, 1);
}

CASE_WITH(test_the_least_recently_used_idle_model_makes_room, setup, teardown) {
    struct world *world = *state;
    ready(world, 0, 9);
    ready(world, 1, 3);
    want(world, 2, 10);
    expect(world, LINEUP_UNLOAD, 1);
    world->served[1].users = 1;
    expect(world, LINEUP_UNLOAD, 0);
}

CASE_WITH(test_a_busy_model_yields_only_if_no_other_can_go, setup, teardown) {
    struct world *world = *state;
    ready(world, 0, 9);
    ready(world, 1, 3);
    want(world, 2, 10);
    world->served[0].users = 1;
    world->served[1].load = 2; // calls that are gone: the engine still has their requests
    expect(world, LINEUP_NOTHING, -1);
    assert_false(world->served[0].yields);
    assert_true(world->served[1].yields);
    world->served[1].load = 0;
    expect(world, LINEUP_UNLOAD, 1);
}

// Each call that ends makes its model the most recently used one. If another one yielded then, two
// busy models would let the third wait for ever.
CASE_WITH(test_a_model_that_yields_does_so_until_it_is_idle, setup, teardown) {
    struct world *world = *state;
    ready(world, 0, 9);
    ready(world, 1, 3);
    want(world, 2, 10);
    world->served[0].users = world->served[1].users = 2;
    expect(world, LINEUP_NOTHING, -1);
    world->served[1].users = 1;
    world->served[1].used_ns = 20;
    expect(world, LINEUP_NOTHING, -1);
    assert_true(world->served[1].yields);
    assert_false(world->served[0].yields);
    world->served[1].users = 0;
    expect(world, LINEUP_UNLOAD, 1);
}

CASE_WITH(test_nothing_yields_any_more_when_nobody_waits, setup, teardown) {
    struct world *world = *state;
    ready(world, 0, 9);
    ready(world, 1, 3);
    want(world, 2, 10);
    world->served[0].users = world->served[1].users = 1;
    expect(world, LINEUP_NOTHING, -1);
    assert_true(world->served[1].yields);
    world->served[2].n_waiting = 0; // all have hung up
    expect(world, LINEUP_UNLOAD, 2);
    world->served[2].wanted_ns = 0;
    world->served[2].state = SERVED_UNLOADED;
    expect(world, LINEUP_NOTHING, -1);
    assert_false(world->served[1].yields);
}

// Clients that ask and hang up do not make models replace each other.
CASE_WITH(test_no_model_goes_for_one_that_nobody_waits_for, setup, teardown) {
    struct world *world = *state;
    ready(world, 0, 9);
    ready(world, 1, 3);
    want(world, 2, 10);
    world->served[2].n_waiting = 0;
    expect(world, LINEUP_UNLOAD, 2); // its plan is forgotten
    world->served[2].is_asked = true;
    expect(world, LINEUP_UNLOAD, 1);
}

CASE_WITH(test_a_kept_model_never_goes, setup, teardown) {
    struct world *world = *state;
    world->source[0].keep = world->source[1].keep = true;
    world->source[0].idle_s = 1e-9;
    ready(world, 0, 1);
    ready(world, 1, 2);
    expect(world, LINEUP_NOTHING, -1);
    want(world, 2, 10);
    expect(world, LINEUP_FAIL, 2);
    assert_non_null(strstr(world->served[2].reason, "kept"));
}

CASE_WITH(test_a_model_that_is_too_large_fails_and_nothing_goes_for_it, setup, teardown) {
    struct world *world = *state;
    ready(world, 0, 1);
    want(world, 1, 10);
    world->served[1].need.bytes = 26;
    expect(world, LINEUP_FAIL, 1);
    world->served[1].need.bytes = 25;
    expect(world, LINEUP_UNLOAD, 0);
}

CASE_WITH(test_memory_that_others_took_is_made_up_for, setup, teardown) {
    struct world *world = *state;
    ready(world, 0, 1);
    want(world, 1, 10);
    world->served[1].is_short = true; // 20 of 25 bytes, but the machine has less
    expect(world, LINEUP_UNLOAD, 0);
    world->served[0].state = SERVED_UNLOADED;
    expect(world, LINEUP_FAIL, 1); // no model is left that could go
}

CASE_WITH(test_models_of_another_device_do_not_go, setup, teardown) {
    struct world *world = *state;
    ready(world, 0, 1);
    ready(world, 1, 2);
    ready(world, 2, 3);
    strcpy(world->served[0].need.device, "a GPU");
    want(world, 3, 10);
    expect(world, LINEUP_UNLOAD, 1);
    strcpy(world->served[3].need.device, "a GPU");
    expect(world, LINEUP_LOAD, 3);
}

CASE_WITH(test_an_unused_model_goes_after_its_time, setup, teardown) {
    struct world *world = *state;
    world->source[1].idle_s = 1e-6;
    ready(world, 1, 500);
    expect(world, LINEUP_NOTHING, -1);
    assert_int_equal(world->due_ns, 1500);
    world->served[1].users = 1;
    expect_at(world, 1500, LINEUP_NOTHING, -1);
    world->served[1].users = 0;
    expect_at(world, 1500, LINEUP_UNLOAD, 1);
}

CASE_WITH(test_a_request_says_how_long_its_model_stays, setup, teardown) {
    struct world *world = *state;
    world->source[1].idle_s = 1e-6;
    ready(world, 1, 500);
    world->served[1].stay = (struct served_stay){.is_given = true, .seconds = 2e-6};
    expect_at(world, 1500, LINEUP_NOTHING, -1);
    assert_int_equal(world->due_ns, 2500);
    expect_at(world, 2500, LINEUP_UNLOAD, 1);
    static const double for_ever[] = {-1, -1e-9, 1e10, HUGE_VAL};
    for (size_t i = 0; i < sizeof for_ever / sizeof *for_ever; i++) {
        world->served[1].stay.seconds = for_ever[i];
        expect_at(world, UINT64_MAX, LINEUP_NOTHING, -1);
        assert_int_equal(world->due_ns, 0);
    }
    world->served[1].stay.seconds = 0;
    expect_at(world, 500, LINEUP_UNLOAD, 1);
    world->source[1].keep = true;
    expect_at(world, 500, LINEUP_NOTHING, -1);
}

CASE_WITH(test_a_dismissed_model_goes_when_it_is_idle, setup, teardown) {
    struct world *world = *state;
    ready(world, 0, 500);
    world->served[0].is_dismissed = true;
    world->served[0].users = 1;
    expect(world, LINEUP_NOTHING, -1);
    world->served[0].users = 0;
    expect(world, LINEUP_UNLOAD, 0);
}

TEST_PROGRAM(lineup) { return cases_run(NULL, NULL); }
