// Time as the engine sees it, with the test's own clock and a backend whose step times are a table,
// so that gaps and deadlines are exact. With a bound on the gap a long prompt does not stop running
// streams. Deadlines end waiting and running requests. Each gap has the cause that the script of
// its steps gave it.
#include <math.h>

#include "clock_world.h"

enum { N_STREAMS = 8 };

static struct stream stream[N_STREAMS + 1];

struct gaps {
    double max_ms;
    double ttft_ms; // of the long prompt
};

// 8 streams run; a prompt of 900 tokens arrives. The gaps from then to its first token.
static struct gaps measure(double itl_ms) {
    rn_engine *engine = new_engine(&(rn_engine_options){
        .max_seqs = N_STREAMS + 1, .batch_tokens = 1000, .n_threads = 1, .itl_ms = itl_ms});
    struct gaps gaps = {0};
    int had[N_STREAMS];
    uint64_t at_ns[N_STREAMS];
    for (int i = 0; i < N_STREAMS; i++) {
        const rn_request request = request_for(i + 1, 10 + i, 500);
        streams_submit(engine, &request, &stream[i]);
    }
    for (int step = 0; step < 60; step++) streams_step(engine, stream, N_STREAMS, step, 0);
    for (int i = 0; i < N_STREAMS; i++) {
        had[i] = stream[i].n_ids;
        at_ns[i] = fake.now_ns;
        assert_true(had[i] > 10);
    }
    const rn_request request = request_for(99, 900, 5);
    streams_submit(engine, &request, &stream[N_STREAMS]);
    while (stream[N_STREAMS].n_ids == 0) {
        assert_true(streams_step(engine, stream, N_STREAMS + 1, 0, 0));
        for (int i = 0; i < N_STREAMS; i++) {
            if (stream[i].n_ids == had[i]) continue;
            gaps.max_ms = fmax(gaps.max_ms, (double)(fake.now_ns - at_ns[i]) / MS);
            had[i] = stream[i].n_ids;
            at_ns[i] = fake.now_ns;
        }
    }
    for (int i = 0; i <= N_STREAMS; i++) rn_engine_cancel(engine, stream[i].id);
    streams_drain(engine, stream, N_STREAMS + 1);
    gaps.ttft_ms = stream[N_STREAMS].timings.ttft_ms;
    streams_check_empty(engine);
    rn_engine_destroy(engine);
    return gaps;
}

CASE(a_long_prompt_keeps_the_bound_on_the_gap) {
    const struct gaps unbounded = measure(0);
    check(unbounded.max_ms > 40, "without a bound the prompt is one step, the gap %g ms",
          unbounded.max_ms);
    static const double bounds_ms[] = {2, 5, 20};
    static const double longest_ms[] = {1.87, 4.58, 16.52}; // the clock is fixed: they are exact
    double ttft_ms = 0;
    for (int i = 2; i >= 0; i--) {
        const struct gaps gaps = measure(bounds_ms[i]);
        check(gaps.max_ms <= longest_ms[i], "bound %g ms: longest gap %g ms", bounds_ms[i],
              gaps.max_ms);
        check(gaps.ttft_ms > ttft_ms, "a tighter bound did not cost the prompt anything");
        // the bound is used: the prompt's time is not many times the cost of its rows in one step
        check(gaps.ttft_ms < 2.5 * rows_ms(900), "first token after %g ms", gaps.ttft_ms);
        ttft_ms = gaps.ttft_ms;
    }
}

CASE(a_deadline_ends_who_waits) {
    rn_engine *engine = new_engine(&(rn_engine_options){.n_threads = 1});
    rn_request request = request_for(1, 20, 200);
    streams_submit(engine, &request, &stream[0]);
    request = request_for(2, 20, 200);
    request.timeout_ms = 30;
    streams_submit(engine, &request, &stream[1]);
    const uint64_t begin = fake.now_ns;
    uint64_t end = 0;
    for (bool busy = true; busy;) {
        const uint64_t before = fake.now_ns;
        busy = streams_step(engine, stream, 2, 0, 0);
        if (stream[1].finish && !end) end = before;
    }
    assert_int_equal(stream[0].finish, RN_FINISH_LENGTH);
    assert_int_equal(stream[1].finish, RN_FINISH_ERROR);
    assert_int_equal(stream[1].status, RN_ERR_DEADLINE);
    assert_int_equal(stream[1].n_ids, 0);
    const double after_ms = (double)(end - begin) / MS; // by the first step that begins late
    check(after_ms >= 30 && after_ms < 30 + 2 * rows_ms(20), "ended after %g ms", after_ms);
    assert_int_equal(streams_stats(engine).failed, 1);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

CASE(a_deadline_ends_who_runs_and_keeps_its_tokens) {
    static struct stream whole;
    rn_engine *engine = new_engine(&(rn_engine_options){.n_threads = 1, .max_seqs = 2});
    rn_request request = request_for(1, 20, 200);
    streams_run(engine, &request, &whole);
    request.timeout_ms = 30;
    streams_submit(engine, &request, &stream[0]);
    request = request_for(2, 20, 100);
    streams_submit(engine, &request, &stream[1]);
    streams_drain(engine, stream, 2);
    assert_int_equal(stream[0].finish, RN_FINISH_ERROR);
    assert_int_equal(stream[0].status, RN_ERR_DEADLINE);
    assert_true(stream[0].n_ids > 15 && stream[0].n_ids <= 30);
    assert_memory_equal(stream[0].ids, whole.ids, (size_t)stream[0].n_ids * sizeof(int32_t));
    assert_int_equal(stream[1].finish, RN_FINISH_LENGTH);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

// A paused request is late like any other.
CASE(a_deadline_ends_who_is_paused) {
    rn_engine *engine = new_engine(&(rn_engine_options){.n_threads = 1, .max_seqs = 2});
    rn_request request = request_for(1, 20, 200);
    request.timeout_ms = 30;
    streams_submit(engine, &request, &stream[0]);
    streams_step(engine, stream, 1, 0, 0);
    rn_engine_pause(engine, stream[0].id, true);
    streams_drain(engine, stream, 1);
    assert_int_equal(stream[0].finish, RN_FINISH_NONE);
    fake.now_ns += (uint64_t)(31 * MS);
    streams_drain(engine, stream, 1);
    assert_int_equal(stream[0].status, RN_ERR_DEADLINE);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

// Queue, prompt and decode times are those of the clock.
CASE(timings_are_those_of_the_clock) {
    rn_engine *engine = new_engine(&(rn_engine_options){.n_threads = 1});
    const rn_request request = request_for(1, 8, 11);
    streams_submit(engine, &request, &stream[0]);
    fake.now_ns += (uint64_t)(5 * MS);
    streams_drain(engine, stream, 1);
    const rn_timings *t = &stream[0].timings;
    assert_true(fabs(t->queue_ms - 5) < 1e-9);
    assert_true(fabs(t->prompt_ms - rows_ms(8)) < 1e-9);
    assert_true(fabs(t->ttft_ms - 5 - rows_ms(8)) < 1e-9);
    assert_true(fabs(t->decode_ms - 10 * rows_ms(1)) < 1e-9);
    assert_true(fabs(t->gap_ms_max - rows_ms(1)) < 1e-9);
    rn_engine_destroy(engine);
}

// ---------------------------------------------------------------- causes

// One step; the token events of a request's choice 0, of which there is at most one.
static rn_event step_for(rn_engine *engine, uint64_t id) {
    bool busy;
    rn_event found = {.token = -1};
    assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
    for (rn_event event; rn_engine_next_event(engine, &event);)
        if (event.request == id && event.token >= 0) found = event;
    return found;
}

static void check_gap(const rn_event *event, rn_cause gap, double gap_ms) {
    check(event->token >= 0, "there is no token");
    check(event->cause == gap, "the gap is put down to %d, expected %d", event->cause, gap);
    check(fabs(event->gap_ms - gap_ms) < 1e-5, "the gap is %g ms, expected %g", event->gap_ms,
          gap_ms);
    check(event->time_ns == fake.now_ns, "the event's time is not its step's end");
}

CASE(a_gap_is_put_down_to_what_took_most_of_it) {
    rn_engine *engine =
        new_engine(&(rn_engine_options){.n_threads = 1, .max_seqs = 2, .batch_tokens = 300});
    rn_request request = request_for(1, 8, 400);
    const uint64_t id = submit(engine, &request);
    rn_event event = step_for(engine, id);
    check_gap(&event, RN_CAUSE_NONE, 0); // the first token
    event = step_for(engine, id);
    check_gap(&event, RN_CAUSE_WEIGHTS, rows_ms(1));
    request = request_for(2, 200, 2);
    submit(engine, &request);
    event = step_for(engine, id);
    check_gap(&event, RN_CAUSE_PROMPTS, rows_ms(201));
    event = step_for(engine, id); // both decode
    check_gap(&event, RN_CAUSE_WEIGHTS, rows_ms(2));
    pass_ms(rows_ms(1) / 2);
    event = step_for(engine, id);
    check_gap(&event, RN_CAUSE_WEIGHTS, rows_ms(1) * 3 / 2);
    pass_ms(rows_ms(1) * 2);
    event = step_for(engine, id);
    check_gap(&event, RN_CAUSE_HOST, rows_ms(1) * 3);
    request = request_for(3, 200, 1);
    submit(engine, &request);
    pass_ms(rows_ms(201) + 1);
    event = step_for(engine, id);
    check_gap(&event, RN_CAUSE_HOST, rows_ms(201) * 2 + 1);
    event = step_for(engine, id);
    check_gap(&event, RN_CAUSE_WEIGHTS, rows_ms(1));
    rn_engine_destroy(engine);
}

CASE(a_gap_with_a_pause_is_put_down_to_it) {
    rn_engine *engine = new_engine(&(rn_engine_options){.n_threads = 1, .max_seqs = 2});
    rn_request request = request_for(1, 8, 400);
    const uint64_t id = submit(engine, &request);
    step_for(engine, id);
    rn_engine_pause(engine, id, true);
    request = request_for(2, 8, 400);
    const uint64_t other = submit(engine, &request);
    for (int i = 0; i < 3; i++) assert_int_equal(step_for(engine, id).token, -1);
    rn_engine_pause(engine, id, false);
    rn_event event = step_for(engine, id);
    check_gap(&event, RN_CAUSE_READER, rows_ms(8) + 2 * rows_ms(1) + rows_ms(2));
    event = step_for(engine, id);
    check_gap(&event, RN_CAUSE_WEIGHTS, rows_ms(2));
    rn_engine_pause(engine, id, true); // and was resumed before any step saw it
    rn_engine_pause(engine, id, false);
    event = step_for(engine, id);
    check_gap(&event, RN_CAUSE_WEIGHTS, rows_ms(2));
    assert_int_equal(step_for(engine, other).cause, RN_CAUSE_WEIGHTS);
    rn_engine_destroy(engine);
}

// Three pages for two streams that come to need two each: the younger makes way.
CASE(a_gap_with_a_preemption_is_put_down_to_it) {
    rn_engine *engine =
        new_engine(&(rn_engine_options){.n_threads = 1, .max_seqs = 2, .n_ctx = 64, .kv_pages = 3});
    rn_request request = request_for(1, 20, 30);
    const uint64_t senior = submit(engine, &request);
    request = request_for(2, 20, 30);
    const uint64_t junior = submit(engine, &request);
    int n_preempted = 0, n_tokens = 0;
    for (bool busy = true; busy;) {
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);) {
            n_preempted += event.cause == RN_CAUSE_PREEMPTED;
            n_tokens += event.request == junior;
            assert_true(event.request == junior || event.cause != RN_CAUSE_PREEMPTED);
            assert_true(event.gap_ms <= rows_ms(20) || event.cause == RN_CAUSE_PREEMPTED);
            if (event.finish && event.request == junior)
                assert_int_equal(event.timings->preemptions, 1);
        }
    }
    assert_int_equal(n_tokens, 30);
    assert_int_equal(n_preempted, 1);
    assert_true(senior < junior);
    rn_engine_destroy(engine);
}

// The end of a line ends the text once the lines' time is over; other tokens do not.
CASE(a_line_that_ends_late_ends_the_text) {
    static const struct {
        const char *text; // of every token
        double line_ms_max;
        int n_ids;
        rn_finish finish;
    } cases[] = {
        {"\n", 0, 30, RN_FINISH_LENGTH},   {"\n", 3.5, 5, RN_FINISH_LENGTH},
        {"\n", 4, 6, RN_FINISH_LENGTH},    {"\n", 1e-3, 2, RN_FINISH_LENGTH},
        {"\n", 1e9, 30, RN_FINISH_LENGTH}, {" a", 3.5, 30, RN_FINISH_LENGTH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rn_engine *engine = new_engine(&(rn_engine_options){.n_ctx = 64});
        int32_t *ids;
        size_t n_ids;
        assert_int_equal(rn_tokenize(model, cases[i].text, strlen(cases[i].text), 0, &ids, &n_ids,
                                     NULL),
                         RN_OK);
        const rn_logit_bias bias = {.token = ids[n_ids - 1], .bias = 100};
        rn_free(ids);
        rn_request request = request_for(1, 4, 30); // then every step takes 1 ms
        request.sampling.logit_bias = &bias;
        request.sampling.n_logit_bias = 1;
        request.line_ms_max = cases[i].line_ms_max;
        streams_run(engine, &request, &stream[0]);
        check(stream[0].n_ids == cases[i].n_ids, "case %zu: %d tokens", i, stream[0].n_ids);
        assert_int_equal(stream[0].finish, cases[i].finish);
        streams_check_empty(engine);
        rn_engine_destroy(engine);
    }
}

TEST_PROGRAM(gaps) { return cases_run(open_model, close_model); }
