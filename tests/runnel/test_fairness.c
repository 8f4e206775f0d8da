// The order of requests, through the public interface: priorities, users' shares, age; bounds on
// the queue; the effect of pausing, cancelling and a shortage of pages on other requests.
// label: async
#include "streams.h"
#include "tale.h"

enum { MANY = 40 };

// An engine without drafts: single steps have known tokens.
#define undrafted(...) streams_engine(model, &(rn_engine_options){.speculate = "off", __VA_ARGS__})

// Prompts of different requests have nothing in common.
static rn_request request_at(int i, int n_prompt, int max_tokens, int32_t *prompt) {
    for (int t = 0; t < n_prompt; t++) prompt[t] = (i * 97 + t * 13 + 1) % 4096;
    return (rn_request){.prompt = prompt,
                        .n_prompt = (size_t)n_prompt,
                        .max_tokens = max_tokens,
                        .ignore_eos = true};
}

static struct stream stream[MANY + 2];

static void submit(rn_engine *engine, int i, int n_prompt, int max_tokens, int priority,
                   const char *user) {
    int32_t prompt[512];
    rn_request request = request_at(i, n_prompt, max_tokens, prompt);
    request.priority = priority;
    request.user = user;
    streams_submit(engine, &request, &stream[i]);
}

// To the end, where the steps so far are known.
static void drain(rn_engine *engine, int n, int step) {
    while (streams_step(engine, stream, n, step, 0)) step++;
}

CASE(a_higher_priority_overtakes_who_waits) {
    rn_engine *engine = undrafted(.max_seqs = 2);
    for (int i = 0; i < 8; i++) submit(engine, i, 10, 10, 0, NULL);
    streams_step(engine, stream, 8, 0, 0); // 0 and 1 run
    submit(engine, 8, 10, 10, 5, NULL);
    submit(engine, 9, 10, 10, -5, NULL);
    submit(engine, 10, 10, 10, 0, NULL);
    drain(engine, 11, 1);
    for (int i = 2; i < 11; i++) {
        if (i != 8) assert_true(stream[8].last_step < stream[i].last_step);
        if (i != 9) assert_true(stream[9].last_step > stream[i].last_step);
    }
    for (int i = 2; i + 2 < 8; i++) // in turn
        assert_true(stream[i].last_step <= stream[i + 1].last_step);
    rn_engine_destroy(engine);
}

// With one place, a running request makes way for a higher priority and continues afterwards as if
// nothing had happened. Equals do not make way.
CASE(a_higher_priority_takes_the_place_of_a_lower_one) {
    static struct stream alone;
    rn_engine *engine = undrafted(.max_seqs = 1);
    submit(engine, 0, 50, 40, 0, NULL);
    streams_drain(engine, stream, 1);
    alone = stream[0];
    for (int priority = 0; priority < 2; priority++) {
        submit(engine, 0, 50, 40, 0, NULL);
        for (int step = 0; step < 10; step++) streams_step(engine, stream, 1, step, 0);
        submit(engine, 1, 50, 40, priority, NULL);
        drain(engine, 2, 10);
        assert_int_equal(stream[0].timings.preemptions, priority);
        assert_int_equal(stream[0].last_step > stream[1].last_step, priority);
        streams_check_same(&alone, &stream[0]);
    }
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

// A user with 20 requests in the queue does not keep another one's single request waiting.
CASE(a_user_with_many_requests_does_not_starve_another) {
    rn_engine *engine = undrafted(.max_seqs = 2);
    for (int i = 0; i < 20; i++) submit(engine, i, 20, 20, 0, "a");
    for (int step = 0; step < 5; step++) streams_step(engine, stream, 20, step, 0);
    submit(engine, 20, 20, 20, 0, "b");
    drain(engine, 21, 5);
    int before = 0; // a's requests that ended before b's
    for (int i = 0; i < 20; i++) before += stream[i].last_step < stream[20].last_step;
    check(before <= 4, "%d of 20 requests of the other user ended first", before);
    rn_engine_destroy(engine);
}

// Two users with work all the time: neither gets more than a request ahead of the other.
CASE(users_get_equal_shares) {
    enum { N_PROMPT = 30, N_OUT = 8, EACH = 16 };
    rn_engine *engine = undrafted(.max_seqs = 2);
    // a's requests are all there before b's, and b's prompts are three times as long
    for (int i = 0; i < EACH; i++) submit(engine, i, N_PROMPT, N_OUT, 0, "a");
    for (int i = 0; i < EACH; i++) submit(engine, EACH + i, 3 * N_PROMPT, N_OUT, 0, "b");
    int served[2] = {0, 0}, widest = 0, ended[2] = {0, 0};
    for (int step = 0; ended[0] < EACH && ended[1] < EACH; step++) {
        streams_step(engine, stream, 2 * EACH, step, 0);
        served[0] = served[1] = ended[0] = ended[1] = 0;
        for (int i = 0; i < 2 * EACH; i++) {
            const int of = i / EACH;
            if (stream[i].n_ids) served[of] += (of ? 3 : 1) * N_PROMPT + stream[i].n_ids;
            ended[of] += stream[i].finish != RN_FINISH_NONE;
        }
        const int apart = abs(served[0] - served[1]);
        if (apart > widest) widest = apart;
    }
    // two slots: each user may be a request ahead in both
    check(widest <= 2 * (3 * N_PROMPT + N_OUT), "%d tokens apart", widest);
    streams_drain(engine, stream, 2 * EACH);
    rn_engine_destroy(engine);
}

CASE(the_queue_is_bounded_and_says_so) {
    rn_engine *engine = undrafted(.max_seqs = 2, .max_waiting = 5);
    int32_t prompt[16];
    rn_request request = request_at(0, 5, 3, prompt);
    rn_error err = {0};
    uint64_t id;
    int accepted = 0;
    while (accepted < 5) streams_submit(engine, &request, &stream[accepted++]);
    assert_int_equal(rn_engine_submit(engine, &request, &id, &err), RN_ERR_FULL);
    assert_non_null(strstr(err.message, "5"));
    streams_step(engine, stream, accepted, 0, 0); // two run: two places are free
    request.n = 3;
    assert_int_equal(rn_engine_submit(engine, &request, &id, &err), RN_ERR_FULL); // all or none
    request.n = 2;
    streams_submit(engine, &request, &stream[accepted]);
    accepted += 2;
    request.n = 1;
    assert_int_equal(rn_engine_submit(engine, &request, &id, &err), RN_ERR_FULL);
    streams_drain(engine, stream, accepted);
    for (int i = 0; i < accepted; i++) assert_int_equal(stream[i].n_ids, 3);
    assert_int_equal(streams_stats(engine).submitted, accepted);
    rn_engine_destroy(engine);
}

CASE(cancelling_works_at_every_moment) {
    rn_engine *engine = undrafted(.max_seqs = 2, .batch_tokens = 16);
    static struct stream alone;
    submit(engine, 0, 40, 8, 0, NULL);
    const int steps = streams_drain(engine, stream, 1);
    alone = stream[0];
    for (int moment = 0; moment <= steps + 1; moment++) {
        rn_engine_forget_prefixes(engine);
        submit(engine, 0, 40, 8, 0, NULL);
        submit(engine, 1, 40, 8, 0, NULL);
        submit(engine, 2, 40, 8, 0, NULL); // waits
        for (int step = 0; step < moment; step++) streams_step(engine, stream, 3, step, 0);
        const rn_finish had = stream[0].finish;
        rn_engine_cancel(engine, stream[0].id);
        rn_engine_cancel(engine, stream[0].id); // twice is once
        rn_engine_cancel(engine, stream[2].id);
        streams_drain(engine, stream, 3);
        if (had == RN_FINISH_NONE) {
            assert_int_equal(stream[0].finish, RN_FINISH_CANCELLED);
            assert_int_equal(stream[0].status, RN_ERR_CANCELLED);
        }
        assert_true(stream[0].n_ids <= alone.n_ids);
        assert_memory_equal(stream[0].ids, alone.ids, (size_t)stream[0].n_ids * sizeof(int32_t));
        assert_int_equal(stream[1].finish, RN_FINISH_LENGTH);
        streams_check_empty(engine);
    }
    rn_engine_destroy(engine);
}

#ifndef TEST_ASYNC // they look at single steps, and results trail by one there
CASE(pausing_one_keeps_the_others_going) {
    rn_engine *engine = undrafted(.max_seqs = 3);
    static struct stream alone;
    submit(engine, 0, 20, 30, 0, NULL);
    streams_drain(engine, stream, 1);
    alone = stream[0];
    for (int i = 0; i < 3; i++) submit(engine, i, 20, 30, 0, NULL);
    for (int step = 0; step < 5; step++) streams_step(engine, stream, 3, step, 0);
    rn_engine_pause(engine, stream[0].id, true);
    rn_engine_pause(engine, 424242, true); // nobody
    const int n_ids = stream[0].n_ids;
    streams_drain(engine, stream, 3);
    assert_int_equal(stream[0].n_ids, n_ids); // nothing came
    assert_int_equal(stream[0].finish, RN_FINISH_NONE);
    for (int i = 1; i < 3; i++) assert_int_equal(stream[i].n_ids, 30);
    assert_int_equal(streams_stats(engine).running + streams_stats(engine).waiting, 1);
    assert_true(streams_stats(engine).pages_held > 0); // it keeps them
    rn_engine_pause(engine, stream[0].id, false);
    streams_drain(engine, stream, 3);
    streams_check_same(&alone, &stream[0]);
    streams_check_empty(engine);
    // a request that is paused before it ran, and is then cancelled
    submit(engine, 0, 20, 30, 0, NULL);
    rn_engine_pause(engine, stream[0].id, true);
    streams_drain(engine, stream, 1);
    assert_int_equal(stream[0].n_ids, 0);
    rn_engine_cancel(engine, stream[0].id);
    streams_drain(engine, stream, 1);
    assert_int_equal(stream[0].finish, RN_FINISH_CANCELLED);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

// Three sequences outgrow the pages: the youngest of the lowest priority gives way, and all give
// the tokens that they give alone.
CASE(a_shortage_of_pages_takes_the_youngest_of_the_lowest_priority) {
    enum { N_OUT = 90 };
    static struct stream alone[3];
    rn_engine *engine = undrafted();
    for (int i = 0; i < 3; i++) {
        submit(engine, i, 20, N_OUT, 0, NULL);
        streams_drain(engine, stream, 3);
        alone[i] = stream[i];
    }
    rn_engine_destroy(engine);
    for (int first = -1; first <= 1; first++) { // the priority of the first request
        engine = undrafted(.max_seqs = 3, .kv_pages = 6);
        for (int i = 0; i < 3; i++) {
            submit(engine, i, 20, N_OUT, i == 0 ? first : 0, NULL);
            streams_step(engine, stream, i + 1, i, 0);
        }
        const int loser = first < 0 ? 0 : 2;
        bool preempted = false;
        for (int step = 3, had; had = stream[loser].n_ids, streams_step(engine, stream, 3, step, 0);
             step++) {
            if (preempted || streams_stats(engine).preemptions == 0) continue;
            assert_int_equal(stream[loser].n_ids, had); // it is the first to make way
            preempted = true;
        }
        for (int i = 0; i < 3; i++) streams_check_same(&alone[i], &stream[i]);
        assert_true(stream[loser].timings.preemptions > 0);
        for (int i = 0; i < 3; i++)
            check(stream[i].timings.preemptions <= stream[loser].timings.preemptions &&
                      (i == loser || stream[i].last_step <= stream[loser].last_step),
                  "first one's priority %d: sequence %d was preempted %d times", first, i,
                  stream[i].timings.preemptions);
        const int safe = first < 0 ? 1 : 0; // the oldest of the highest priority
        assert_int_equal(stream[safe].timings.preemptions, 0);
        streams_check_empty(engine);
        rn_engine_destroy(engine);
    }
}
#endif

// Many in the queue, of priorities in no order: they are served by priority, and by age.
CASE(turns_go_by_priority_and_age) {
    rn_engine *engine = undrafted(.max_seqs = 1);
    int priority[MANY];
    for (int i = 0; i < MANY; i++) {
        priority[i] = i * 7919 % 11 - 5;
        submit(engine, i, 3, 1, priority[i], NULL);
    }
    drain(engine, MANY, 0);
    for (int i = 0; i < MANY; i++)
        for (int j = i + 1; j < MANY; j++)
            check((stream[i].last_step < stream[j].last_step) == (priority[i] >= priority[j]),
                  "request %d of priority %d in step %d, request %d of %d in step %d", i,
                  priority[i], stream[i].last_step, j, priority[j], stream[j].last_step);
    rn_engine_destroy(engine);
}

// Prompts that do not fit together are not started together: no request loses pages, and no token
// is evaluated twice. Their users take turns, so both would hold a part and none could end.
CASE(a_prompt_that_runs_keeps_its_claim_on_pages) {
    enum { N_PROMPT = 250, N_OUT = 4 };
    rn_engine *engine = undrafted(.max_seqs = 4, .kv_pages = 12, .batch_tokens = 32);
    for (int i = 0; i < 4; i++) submit(engine, i, N_PROMPT, N_OUT, 0, i % 2 ? "a" : "b");
    streams_drain(engine, stream, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(stream[i].n_ids, N_OUT);
    assert_int_equal(streams_stats(engine).preemptions, 0);
    assert_int_equal(streams_stats(engine).computed_tokens, 4 * (N_PROMPT + N_OUT - 1));
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

// A request takes no pages if it would not fit beside its equals even after all of lower priority
// left.
CASE(nobody_makes_way_in_vain) {
    rn_engine *engine = undrafted(.max_seqs = 4, .kv_pages = 12);
    submit(engine, 0, 200, 20, 5, NULL);
    submit(engine, 1, 20, 10, 0, NULL);
    for (int step = 0; step < 3; step++) streams_step(engine, stream, 2, step, 0);
    submit(engine, 2, 250, 4, 5, NULL);
    drain(engine, 3, 3);
    assert_int_equal(stream[1].timings.preemptions, 0);
    assert_true(stream[1].last_step < stream[0].last_step);
    assert_true(stream[0].last_step < stream[2].last_step);
    assert_int_equal(streams_stats(engine).preemptions, 0);
    rn_engine_destroy(engine);
}

CASE(a_request_that_could_never_fit_is_refused) {
    rn_engine *engine = undrafted(.kv_pages = 4);
    int32_t prompt[512];
    rn_error err = {0};
    uint64_t id;
    rn_request request = request_at(0, 100, 28, prompt);
    streams_run(engine, &request, &stream[0]);
    assert_int_equal(stream[0].n_ids, 28);
    request = request_at(0, 140, 1, prompt);
    const rn_status status = rn_engine_submit(engine, &request, &id, &err);
    check(status != RN_OK && err.message[0], "140 tokens in 4 pages of 32 were accepted");
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

TEST_PROGRAM(fairness) { return cases_run(open_model, close_model); }
