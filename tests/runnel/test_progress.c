// How far prompts are: what the events of a request that asks for it tell. tests/mix.h has the same
// beside any other requests, with preemptions.
// label: async
#define TALE_ANY
#include "streams.h"
#include "tale.h"

enum { N_PROMPT = 200, BATCH = 64, MAX_TOLD = 16, N_OUT = 4 };

// What was told of one request.
struct told {
    int done[MAX_TOLD], cached[MAX_TOLD], n;
    double ms[MAX_TOLD];
    int n_tokens;
};

static void take(struct told *told, const rn_event *event) {
    if (event->token >= 0) told->n_tokens++;
    if (!event->progress) return;
    assert_true(told->n < MAX_TOLD && event->choice == 0 && event->token < 0);
    told->done[told->n] = event->prompt_done;
    told->cached[told->n] = event->prompt_cached;
    told->ms[told->n++] = event->prompt_ms;
}

static struct told run(rn_engine *engine, rn_request request) {
    static int32_t prompt[N_PROMPT];
    struct told told = {0};
    rn_error err = {0};
    uint64_t id;
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = (i * 37 + i * i) % 500;
    request.prompt = prompt;
    request.n_prompt = N_PROMPT;
    request.max_tokens = N_OUT;
    request.ignore_eos = true;
    const rn_status status = rn_engine_submit(engine, &request, &id, &err);
    check(status == RN_OK, "%s", err.message);
    for (bool busy = true; busy;) {
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);) take(&told, &event);
    }
    return told;
}

static rn_engine *engine_new(void) {
    return streams_engine(model, &(rn_engine_options){.max_seqs = 4, .batch_tokens = BATCH});
}

CASE(each_step_of_a_prompt_is_told) {
    rn_engine *engine = engine_new();
    const struct told told = run(engine, (rn_request){.prompt_progress = true});
    const int want[] = {0, 64, 128, 192, 200};
    assert_int_equal(told.n, 5);
    for (int i = 0; i < told.n; i++) {
        assert_int_equal(told.done[i], want[i]);
        assert_int_equal(told.cached[i], 0);
        assert_true(i ? told.ms[i] >= told.ms[i - 1] && told.ms[i] > 0 : told.ms[i] >= 0);
    }
    rn_engine_destroy(engine);
}

// The second time most of the prompt is cached, and the first event says so.
CASE(cached_tokens_are_told_first) {
    rn_engine *engine = engine_new();
    run(engine, (rn_request){0});
    const struct told told = run(engine, (rn_request){.prompt_progress = true});
    assert_int_equal(told.n, 2);
    assert_int_equal(told.done[0], 192);
    assert_int_equal(told.cached[0], 192);
    assert_int_equal(told.done[1], N_PROMPT);
    rn_engine_destroy(engine);
}

CASE(several_choices_have_one_prompt_to_tell_of) {
    rn_engine *engine = engine_new();
    const struct told told = run(engine, (rn_request){.prompt_progress = true, .n = 3});
    assert_int_equal(told.n, 5);
    assert_int_equal(told.done[4], N_PROMPT);
    assert_int_equal(told.n_tokens, 3 * N_OUT);
    rn_engine_destroy(engine);
}

CASE(nothing_is_told_that_nobody_asks_for) {
    rn_engine *engine = engine_new();
    assert_int_equal(run(engine, (rn_request){0}).n, 0);
    rn_engine_destroy(engine);
}

TEST_PROGRAM(progress) { return cases_run(open_model, close_model); }
