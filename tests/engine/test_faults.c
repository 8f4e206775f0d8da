// Faults of a device, of the three kinds: a sequence's, a step's, and the loss of the device. Each
// ends the requests that it hits and no others, everything that they held comes back, and every
// request gets one last event.
// label: threads
#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include "bare_engine.h"
#include "mix.h"
// after them: it has names of its own
#include "flight_world.h"

// Where everything is slow, one of this many cases is run. The thread sanitizer, the slowest, has
// the model with groups of all kinds alone.
#ifdef __SANITIZE_THREAD__
enum { STRIDE = 17, FIRST_MODEL = RECURRENT };
#else
enum { STRIDE = 11, FIRST_MODEL = PLAIN };
#endif

static const struct backend_class *const cpu = &backend_cpu, *const fake = &backend_fake;

// The common options of the engines here; drafts: all requests that want drafts try them.
static rn_engine *faulty_engine(int model, int max_seqs, bool drafts) {
    rn_engine_options options = world_drafts(max_seqs, 3, 80);
    if (!drafts) options.speculate = "off";
    options.batch_tokens = 64;
    return world_engine(model, options);
}

static rn_request request[5]; // of which `want` has the texts

static void fill_requests(int model) {
    for (int i = 0; i < 5; i++) {
        request[i] = i % 2 ? world_sampled(i, 20 + 30 * i, 30) : world_request(i, 40 - 4 * i, 30);
        request[i].data = &want[i];
    }
    world_alone(model, request, 5);
}

// The request gave its whole text, or ended with the fault after a part of it.
static bool check_hit(int i, rn_status status) {
    if (got[i].finish != RN_FINISH_ERROR) {
        world_check_texts(i, 1);
        return false;
    }
    assert_int_equal(got[i].status, status);
    assert_true(got[i].last);
    world_check_begins(i);
    return true;
}

static void check_serves(rn_engine *engine, int which) {
    streams_submit(engine, &request[which], &got[WORLD_MOST - 1]);
    streams_drain(engine, &got[WORLD_MOST - 1], 1);
    streams_check_same(&want[which], &got[WORLD_MOST - 1]);
    streams_check_empty(engine);
}

// ---------------------------------------------------------------- a sequence, a step

CASE(a_failed_sequence_ends_alone) {
    for (int model = FIRST_MODEL; model < N_KINDS; model++) {
        fill_requests(model);
        for (int run = 0; run < 8; run += test_scale(STRIDE / 3, 1, 1)) {
            fake_reset();
            rn_engine *engine = faulty_engine(model, 3, run % 2);
            world_submit(engine, request, 3);
            fake_fail_at(FAKE_SEQ, 1 + run * 3 / 2);
            streams_drain(engine, got, 3);
            assert_int_equal(fake_control.n_fault, 1);
            int n_hit = 0;
            for (int i = 0; i < 3; i++) n_hit += check_hit(i, RN_ERR_STEP);
            assert_int_equal(n_hit, 1);
            check_serves(engine, 0);
            rn_engine_destroy(engine);
        }
    }
}

// Until the fault has come and all steps have landed.
static void step_past_fault(rn_engine *engine, int n) {
    bool busy = true;
    while (fake_control.n_fault == 0) {
        assert_true(busy);
        assert_int_equal(world_step(engine, n, &busy), RN_OK);
    }
    world_steps(engine, n, 2);
}

// Two of four are in steps. The others have rows in none: they wait for a place, or one is paused
// and the last one comes later.
static void check_step_fault(int model, enum fake_fault fault, int at, int way) {
    const bool drafts = way & 1, pauses = way & 2;
    fake_reset();
    rn_engine *engine = faulty_engine(model, pauses ? 3 : 2, drafts);
    for (int i = 1; i < 3; i++) streams_submit(engine, &request[i], &got[i]);
    streams_submit(engine, &request[0], &got[0]);
    if (pauses) {
        world_steps(engine, 3, 3);
        rn_engine_pause(engine, got[0].id, true);
        world_steps(engine, 3, 2);
    } else {
        streams_submit(engine, &request[3], &got[3]);
    }
    fake_fail_at(fault, at);
    step_past_fault(engine, pauses ? 3 : 4);
    if (pauses) {
        rn_engine_pause(engine, got[0].id, false);
        streams_submit(engine, &request[3], &got[3]);
    }
    streams_drain(engine, got, 4);
    assert_false(check_hit(0, RN_ERR_STEP));
    assert_false(check_hit(3, RN_ERR_STEP));
    const int n_hit = check_hit(1, RN_ERR_STEP) + check_hit(2, RN_ERR_STEP);
    assert_true(n_hit > 0);
    if (!drafts && at > 3) assert_int_equal(n_hit, 2);
    assert_true(strstr(engine->engine.fault.message, "was to fail") != NULL);
    check_serves(engine, 1);
    rn_engine_destroy(engine);
}

CASE(a_failed_step_ends_its_own_requests_alone) {
    for (int model = FIRST_MODEL; model < N_KINDS; model++) {
        fill_requests(model);
        const int step = test_scale(STRIDE, 5, 1);
        for (int run = model % step; run < 48; run += step)
            check_step_fault(model, run % 2 ? FAKE_SUBMIT : FAKE_STEP, 1 + run / 8, run / 2 % 4);
    }
}

// ---------------------------------------------------------------- the device

static void check_lost(int model, enum fake_fault fault, int at, bool drafts) {
    rn_error err = {0};
    uint64_t id;
    bool busy = true;
    fake_reset();
    rn_engine *engine = faulty_engine(model, 2, drafts);
    world_submit(engine, request, 3);
    fake_fail_at(fault, at);
    rn_status status = RN_OK;
    int n = 3;
    for (int i = 0; busy && !status; i++) {
        if (i == at - 1) streams_submit(engine, &request[n++], &got[3]);
        status = world_step(engine, n, &busy);
        assert_true(status == RN_OK || status == RN_ERR_DEVICE);
    }
    assert_int_equal(status, RN_ERR_DEVICE);
    while (busy) assert_int_equal(world_step(engine, n, &busy), RN_ERR_DEVICE);
    for (int i = 0; i < n; i++) assert_true(check_hit(i, RN_ERR_DEVICE));
    assert_int_equal(rn_engine_submit(engine, &request[4], &id, &err), RN_ERR_DEVICE);
    assert_true(strstr(err.message, "device") != NULL);
    assert_int_equal(world_step(engine, n, &busy), RN_ERR_DEVICE);
    assert_false(busy);
    assert_true(engine->engine.is_lost);
    assert_true(strstr(engine->engine.fault.message, "was to fail") != NULL);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

CASE(a_lost_device_ends_every_request) {
    memset(got, 0, sizeof got);
    for (int model = FIRST_MODEL; model < N_KINDS; model++) {
        fill_requests(model);
        const int step = test_scale(STRIDE, 5, 1);
        for (int run = model % step; run < 24; run += step)
            check_lost(model, run % 2 ? FAKE_LOST_SUBMIT : FAKE_LOST, 1 + run / 4, run / 2 % 2);
    }
}

struct crowd {
    rn_engine *engine;
    _Atomic int n_taken;
    rn_status refusal;
};

// Submits until that is refused.
static void *crowd_main(void *arg) {
    struct crowd *crowd = arg;
    const rn_request one = world_sampled(5, 20, 12);
    for (;;) {
        uint64_t id;
        const rn_status status = rn_engine_submit(crowd->engine, &one, &id, NULL);
        crowd->n_taken += status == RN_OK;
        crowd->refusal = status;
        if (status && status != RN_ERR_FULL) return NULL;
    }
}

static void check_threads(enum fake_fault fault, int at, bool drain) {
    struct crowd crowd;
    pthread_t thread;
    fake_reset();
    rn_engine *engine = world_engine(PLAIN, (rn_engine_options){.max_seqs = 3, .max_waiting = 8});
    crowd = (struct crowd){.engine = engine};
    fake_fail_at(fault, at);
    assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
    assert_int_equal(pthread_create(&thread, NULL, crowd_main, &crowd), 0);
    int n_last = 0, n_lost = 0;
    bool refused = false;
    for (int quiet = 0; quiet < 20;) {
        rn_event event[16];
        const int n = rn_engine_wait(engine, event, 16, 50);
        for (int i = 0; i < n; i++) {
            n_last += event[i].last;
            n_lost += event[i].status == RN_ERR_DEVICE;
        }
        if (!refused && atomic_load(&engine->engine.is_lost)) {
            pthread_join(thread, NULL);
            refused = true;
        }
        if (refused && n_last == crowd.n_taken) break;
        quiet = n > 0 ? 0 : quiet + 1;
    }
    assert_true(refused);
    assert_int_equal(crowd.refusal, RN_ERR_DEVICE);
    assert_int_equal(n_last, crowd.n_taken);
    assert_true(n_lost > 0);
    rn_engine_stop(engine, drain);
    assert_int_equal(rn_engine_wait(engine, &(rn_event){0}, 1, 0), 0);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

CASE(a_lost_device_ends_what_threads_submit) {
    for (int run = 0; run < 24; run += test_scale(5, 3, 1))
        check_threads(run % 2 ? FAKE_LOST_SUBMIT : FAKE_LOST, 1 + 3 * run, run / 2 % 2);
}

// The thread ends without its events being read, and with requests that wait.
CASE(an_engine_with_a_lost_device_ends_unread) {
    for (int run = 0; run < 16; run += test_scale(3, 3, 1)) {
        uint64_t id;
        fake_reset();
        rn_engine *engine = world_engine(PLAIN, (rn_engine_options){.max_seqs = 2});
        fake_fail_at(run % 2 ? FAKE_LOST_SUBMIT : FAKE_LOST, 1 + run);
        const rn_request one = world_request(0, 20, 40);
        for (int i = 0; i < 5; i++)
            assert_int_equal(rn_engine_submit(engine, &one, &id, NULL), RN_OK);
        assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
        if (run % 4 < 2)
            while (!atomic_load(&engine->engine.is_lost)) sched_yield();
        rn_engine_stop(engine, run % 4 > 0);
        rn_engine_destroy(engine);
    }
}

// The step that loses it has only a row past an end: no event comes, and a poll loop wakes up.
CASE(a_lost_device_is_told_where_no_event_is) {
    rn_request stopping = world_request(0, 20, 60);
    world_alone(PLAIN, &stopping, 1);
    const struct world_stop chosen = world_stop_in(&want[0], 20);
    const char *const stop = chosen.text;
    stopping.stop = &stop;
    stopping.n_stop = 1;
    world_alone(PLAIN, &stopping, 1);
    assert_int_equal(want[0].finish, RN_FINISH_STOP);
    fake_reset();
    fake_control.delay_us = 20000;
    rn_engine *engine = world_engine(PLAIN, (rn_engine_options){0});
    world_submit(engine, &stopping, 1);
    fake_fail_at(FAKE_LOST, want[0].n_ids + 1);
    assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
    for (rn_event event; got[0].finish == RN_FINISH_NONE;)
        if (rn_engine_wait(engine, &event, 1, -1) > 0) streams_take(&got[0], &event, 0);
    world_check_texts(0, 1);
    struct pollfd fd = {.fd = rn_engine_event_fd(engine), .events = POLLIN};
    do {
        assert_int_equal(rn_engine_wait(engine, &(rn_event){0}, 1, 0), 0);
        if (atomic_load(&engine->engine.is_lost)) break;
        assert_int_equal(poll(&fd, 1, 10000), 1);
    } while (true);
    rn_engine_destroy(engine);
}

// ---------------------------------------------------------------- mixes

// A choice is its alone run's, or a part of that with the fault.
static void check_choice(const struct mix *mix, const struct mix_live *live, int choice,
                         bool is_lost) {
    const struct mix_output *o = &live->got[choice], *whole = &live->of->alone[choice];
    const bool hit = o->finish == RN_FINISH_ERROR &&
                     (o->status == RN_ERR_STEP || (is_lost && o->status == RN_ERR_DEVICE));
    assert_int_not_equal(o->finish, RN_FINISH_NONE);
    const char *why = hit ? NULL : mix_difference(whole, o, mix->cases->n_embd);
    check(!why, "mix %llx, request %td: %s", (unsigned long long)mix->seed, live - mix->live, why);
    if (!hit) return;
    assert_true(o->n_ids <= whole->n_ids && o->n_certain <= whole->n_text);
    assert_memory_equal(o->ids, whole->ids, (size_t)o->n_ids * sizeof *o->ids);
    assert_memory_equal(o->text, whole->text, o->n_certain);
}

static void check_rest(struct mix *mix, bool is_lost) {
    for (int i = 0; i < mix->n; i++) {
        const struct mix_live *live = &mix->live[i];
        if (!live->submitted) continue;
        check(live->ended, "mix %llx: request %d has no end", (unsigned long long)mix->seed, i);
        for (int c = 0; c < mix_choices(live->of); c++) check_choice(mix, live, c, is_lost);
    }
    streams_check_empty(mix->engine);
    assert_int_equal(mix->drafter.strays, 0);
}

// Faults come again and again, up to the loss of the device where that is one of them.
static void run_faulty_mix(struct mix *mix, struct mix_random *r, long *n_faults) {
    rn_error err = {0};
    fake_reset();
    bare_class = fake;
    const rn_status created =
        rn_engine_create(mix->cases->model, &mix->options, &mix->engine, &err);
    bare_class = NULL;
    check(created == RN_OK, "%s", err.message);
    const int kinds = mix_percent(r, 50) ? FAKE_LOST_SUBMIT : FAKE_SUBMIT;
    rn_status status = RN_OK;
    int idle = 0;
    bool busy = true;
    for (int step = 0; mix->n_ended < mix->n && (busy || !status); step++) {
        if (fake_control.fault_at <= fake_control.n_submit)
            fake_fail_at((enum fake_fault)mix_between(r, FAKE_SEQ, kinds), mix_between(r, 1, 25));
        const int n_active = status ? 0 : mix_act(mix, step);
        status = rn_engine_step(mix->engine, &busy);
        assert_true(status == RN_OK || status == RN_ERR_DEVICE);
        for (rn_event event; rn_engine_next_event(mix->engine, &event);) mix_event(mix, &event);
        idle = busy || !n_active ? 0 : idle + 1;
        check(idle <= 2, "mix %llx: %d requests wait and nothing happens",
              (unsigned long long)mix->seed, n_active);
    }
    *n_faults += fake_control.n_fault;
    for (bool more = true; more;) // rows past ends
        assert_int_equal(rn_engine_step(mix->engine, &more), status);
    check_rest(mix, status == RN_ERR_DEVICE);
    rn_engine_destroy(mix->engine);
}

CASE(faults_in_random_places_leave_nothing_behind) {
    static const struct mix_how how = {
        .speculate = "custom", .has_toy = true, .right = 70, .draft_min = 2, .draft_max = 4};
    long n_faults = 0;
    for (int m = FIRST_MODEL; m < N_KINDS; m++) {
        struct mix_cases cases;
        mix_cases_create(&cases, world_model[m], "f16", 40 + (uint64_t)m, test_scale(14, 40, 40));
        for (int seed = 0; seed < test_scale(2, 9, 40); seed++) {
            struct mix_random r = {mix_hash((uint64_t)(seed * 3 + m))};
            struct mix mix;
            cases.how = seed % 2 ? &how : NULL;
            mix_draw(&mix, &cases, mix_next(&r));
            mix.n = mix.n < 16 ? mix.n : 16;
            run_faulty_mix(&mix, &r, &n_faults);
            free(mix.live);
        }
        mix_cases_destroy(&cases);
    }
    print_message("%ld faults\n", n_faults);
    assert_true(n_faults > test_scale(1, 27, 120));
}

// ---------------------------------------------------------------- a draft model elsewhere

static rn_engine *drafted_engine(const struct backend_class *target,
                                 const struct backend_class *draft, int model) {
    bare_draft_class = draft;
    rn_engine *engine = world_engine_on(target, model,
                                        (rn_engine_options){.max_seqs = 3,
                                                            .speculate = "model",
                                                            .draft = world_model[model],
                                                            .draft_min = 3,
                                                            .draft_max = 3});
    bare_draft_class = NULL;
    return engine;
}

CASE(a_draft_model_on_another_backend_changes_no_text) {
    const struct backend_class *const places[][2] = {{cpu, fake}, {fake, cpu}, {fake, fake}};
    for (int model = FIRST_MODEL; model < N_KINDS; model++) {
        fill_requests(model);
        for (int run = 0; run < 3; run++) {
            fake_reset();
            rn_engine *engine = drafted_engine(places[run][0], places[run][1], model);
            world_submit(engine, request, 3);
            world_end(engine, 3);
            for (int i = 0; i < 3; i++) assert_true(got[i].timings.accepted_tokens > 0);
        }
    }
}

CASE(a_draft_model_whose_backend_fails_drafts_no_more) {
    for (int model = FIRST_MODEL; model <= RECURRENT; model += RECURRENT - PLAIN) {
        fill_requests(model);
        for (int run = 0; run < 20; run += test_scale(STRIDE / 2, 2, 1)) {
            fake_reset();
            rn_engine *engine = drafted_engine(cpu, fake, model);
            fake_fail_at((enum fake_fault)(FAKE_SEQ + run % 5),
                         1 + 2 * (run / 5) + (model == PLAIN));
            world_submit(engine, request, 3);
            streams_drain(engine, got, 3);
            world_check_texts(0, 3);
            const long before = fake_control.n_submit;
            assert_int_equal(before, fake_control.fault_at);
            check_serves(engine, 0);
            assert_int_equal(fake_control.n_submit, before);
            rn_engine_destroy(engine);
        }
    }
}

TEST_PROGRAM(faults) { return cases_run(world_open, world_close); }
