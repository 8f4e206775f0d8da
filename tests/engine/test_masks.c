// Masks that are too expensive for a step: their sequences wait alone, the maker makes them, and
// the texts are those of an engine that makes every mask at once. The maker that has not started
// yet stands for one that takes long.
// label: threads
#include "base/clock.h"
#include "flight_world.h"

enum { CTX = 192, ALL = 1 << 30, FEW = 1, SOME = 3000 };

static rn_shape *shape[3];

// A grammar that no other call has compiled: nothing of it is at hand.
static rn_shape *fresh_shape(void) {
    static int salt;
    char many[8000], *at = many + sprintf(many, "root ::= r0");
    for (int i = 1; i < 60; i++) at += sprintf(at, " | r%d", i);
    for (int i = 0; i < 60; i++)
        at += sprintf(at, "\nr%d ::= ([a-zA-Z ,.]{%d})* \"{%d,%d\"", i, 2 + i % 7, salt, i);
    salt++;
    rn_shape *out;
    rn_error err = {0};
    check(!rn_shape_compile(world_model[STORY], RN_SHAPE_GRAMMAR, many, strlen(many), &out, &err),
          "%s", err.message);
    return out;
}

static int open_world(void **state) {
    const struct {
        rn_shape_kind kind;
        const char *source;
    } source[] = {{RN_SHAPE_SCHEMA,
                   "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
                   "\"name\":{\"type\":\"string\",\"maxLength\":20},\"n\":{\"type\":"
                   "\"integer\"}},\"required\":[\"name\",\"n\"]},\"minItems\":9}"},
                  {RN_SHAPE_REGEX, "([a-z]{1,5} ){200}"}};
    world_open(state);
    shape[0] = fresh_shape();
    for (int i = 1; i < 3; i++) {
        rn_error err = {0};
        check(!rn_shape_compile(world_model[STORY], source[i - 1].kind, source[i - 1].source,
                                strlen(source[i - 1].source), &shape[i], &err),
              "%s", err.message);
    }
    return 0;
}

static int close_world(void **state) {
    for (int i = 0; i < 3; i++) rn_shape_release(shape[i]);
    return world_close(state);
}

static rn_engine *engine_with(int64_t units, const struct backend_class *cls,
                              rn_engine_options options) {
    bare_mask_units = units;
    options.n_ctx = CTX;
    rn_engine *engine = world_engine_on(cls, STORY, options);
    bare_mask_units = 0;
    return engine;
}

static rn_request shaped(int which, int n_prompt, int max_tokens, int s) {
    rn_request request = world_sampled(which, n_prompt, max_tokens);
    request.sampling.has_seed = true;
    request.shape = shape[s];
    return request;
}

// No thread makes masks yet, although requests with shapes were submitted.
static void hold_maker(rn_engine *engine) { atomic_store(&engine->engine.maker.has_thread, true); }

static void start_maker(rn_engine *engine) {
    atomic_store(&engine->engine.maker.has_thread, false);
    assert_int_equal(mask_maker_start(&engine->engine.maker, NULL), RN_OK);
}

// The streams without an expensive mask get a token in every step, until the other one goes on.
static void check_alone(const struct backend_class *cls) {
    enum { TOKENS = 40, PROMPT = 5 };
    rn_request request[] = {shaped(0, PROMPT, TOKENS, 0), world_sampled(1, PROMPT, TOKENS),
                            world_sampled(2, PROMPT, TOKENS)};
    rn_shape *fresh = fresh_shape();
    request[0].shape = fresh;
    rn_engine *engine = engine_with(FEW, cls, (rn_engine_options){.max_seqs = 3});
    hold_maker(engine);
    world_submit(engine, request, 3);
    int steps = 0;
    bool busy = true;
    for (; got[1].n_ids < TOKENS || got[2].n_ids < TOKENS; steps++) {
        const int before = got[1].n_ids;
        world_step(engine, 3, &busy);
        check(steps < 4 || got[1].n_ids > before, "step %d gave no token", steps);
        check(got[0].n_ids == 0 && busy, "the mask is not made");
    }
    check(steps <= TOKENS + 4, "%d steps", steps);
    check(engine->engine.n_masks_ordered == 1 && engine->engine.n_ordered == 1, "%d orders",
          engine->engine.n_ordered);
    start_maker(engine);
    world_alone(STORY, request, 3);
    world_end(engine, 3);
    rn_shape_release(fresh);
}

CASE(an_expensive_mask_keeps_nobody_waiting) { check_alone(&backend_cpu); }
CASE(nor_where_steps_are_in_flight) { check_alone(&backend_fake); }

// The wait is the choice's own time; that all its time has a cause is an assertion of the account.
CASE(the_wait_has_a_cause) {
    enum { PAUSE_MS = 30 };
    rn_request request = shaped(0, 5, 8, 0);
    rn_shape *fresh = fresh_shape();
    request.shape = fresh;
    rn_engine *engine = engine_with(FEW, &backend_cpu, (rn_engine_options){.max_seqs = 2});
    hold_maker(engine);
    world_submit(engine, &request, 1);
    bool busy;
    world_step(engine, 1, &busy);
    const uint64_t begin = clock_ns();
    while (clock_ns() - begin < PAUSE_MS * UINT64_C(1000000)) world_step(engine, 1, &busy);
    start_maker(engine);
    uint64_t choice_ns = 0;
    for (busy = true; busy;) {
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);)
            if (event.account) choice_ns = event.account->first.cause_ns[RN_CAUSE_CHOICE];
    }
    check(choice_ns > PAUSE_MS * UINT64_C(1000000) / 2, "%llu ns", (unsigned long long)choice_ns);
    rn_engine_destroy(engine);
    rn_shape_release(fresh);
}

// Whatever the units of a step, drafts, choices and threads are.
CASE(texts_do_not_depend_on_who_makes_the_masks) {
    enum { N = 4, CHOICES = 3 };
    static struct stream all[N + CHOICES - 1], some[N + CHOICES - 1];
    rn_request request[N] = {shaped(0, 40, 60, 0), shaped(1, 5, 60, 1), world_sampled(2, 9, 60),
                             shaped(3, 5, 50, 2)};
    request[3].n = CHOICES;
    for (int way = 0; way < 12; way++) {
        const struct backend_class *cls = way % 3 == 2 ? &backend_fake : &backend_cpu;
        const rn_engine_options options = {.max_seqs = 5,
                                           .n_threads = 1 + way % 2,
                                           .batch_tokens = 16,
                                           .speculate = way / 6 ? "shape,lookup" : "off",
                                           .draft_min = way / 6 ? 3 : 0};
        struct stream *to = way ? some : all;
        rn_shape *fresh = fresh_shape(); // its texts differ far from the start
        request[0].shape = fresh;
        rn_engine *engine = engine_with(way == 0 ? ALL : way % 4 == 1 ? FEW : SOME, cls, options);
        for (int i = 0; i < N; i++) streams_submit(engine, &request[i], &to[i]);
        streams_drain(engine, to, N + CHOICES - 1);
        check((engine->engine.n_masks_ordered > 0) == (way > 0), "way %d: %d orders", way,
              (int)engine->engine.n_masks_ordered);
        for (int i = 0; way && i < N + CHOICES - 1; i++) streams_check_same(&all[i], &some[i]);
        streams_check_empty(engine);
        rn_engine_destroy(engine);
        rn_shape_release(fresh);
    }
}

// Pages for one of them: they take turns, and the maker works for sequences that wait.
CASE(preempted_sequences_keep_their_masks) {
    enum { N = 4, TOKENS = 90 };
    rn_request request[N];
    for (int i = 0; i < N; i++) request[i] = shaped(i, 9, TOKENS, i % 3);
    world_alone(STORY, request, N);
    rn_engine *engine =
        engine_with(FEW, &backend_cpu, (rn_engine_options){.max_seqs = N, .kv_pages = 8});
    world_submit(engine, request, N);
    streams_drain(engine, got, N);
    rn_engine_stats stats;
    rn_engine_get_stats(engine, &stats);
    check(stats.preemptions > 0, "no preemption");
    world_check_texts(0, N);
    rn_engine_destroy(engine);
}

// Requests that go at any moment of a mask, then the engine itself.
CASE(cancelled_masks_are_dropped) {
    for (int round = 0; round < test_scale(20, 60, 300); round++) {
        const rn_request request[] = {shaped(0, 5, 60, 0), shaped(1, 5, 60, 1),
                                      world_sampled(2, 5, 60), shaped(3, 5, 60, 2)};
        world_alone(STORY, &request[2], 1);
        const struct stream plain = want[0];
        rn_engine *engine =
            engine_with(round % 2 ? FEW : SOME, round % 3 ? &backend_cpu : &backend_fake,
                        (rn_engine_options){.max_seqs = 4, .n_threads = 1 + round % 2});
        if (round % 4 == 3) hold_maker(engine);
        world_submit(engine, request, 4);
        bool busy = true;
        for (int i = 0; i < round % 11; i++) world_step(engine, 4, &busy);
        rn_engine_cancel(engine, got[0].id);
        for (int i = 0; i < round % 5; i++) world_step(engine, 4, &busy);
        rn_engine_cancel(engine, got[3].id);
        if (round % 4 == 3) atomic_store(&engine->engine.maker.has_thread, false);
        if (round % 4 < 2) {
            streams_drain(engine, got, 4);
            streams_check_same(&plain, &got[2]);
            check(got[0].finish == RN_FINISH_CANCELLED || got[0].n_ids > 0, "stream 0");
        }
        rn_engine_destroy(engine);
    }
}

// The engine's own thread sleeps until a mask is made.
CASE(the_own_thread_is_woken) {
    enum { N = 2, WAIT_MS = 20000 };
    const rn_request request[N] = {shaped(0, 5, 30, 0), shaped(1, 5, 30, 2)};
    world_alone(STORY, request, N);
    rn_engine *engine = engine_with(FEW, &backend_cpu, (rn_engine_options){.max_seqs = 4});
    assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
    world_submit(engine, request, N);
    for (int left = N; left > 0;) {
        rn_event event[8];
        const int n = rn_engine_wait(engine, event, 8, WAIT_MS);
        check(n > 0, "no event came");
        for (int i = 0; i < n; i++) {
            streams_take(streams_find(got, N, &event[i]), &event[i], 0);
            left -= event[i].finish != RN_FINISH_NONE;
        }
    }
    world_check_texts(0, N);
    rn_engine_destroy(engine);
}

TEST_PROGRAM(masks) { return cases_run(open_world, close_world); }
