// Planted causes: each script gives a stream's time one main cause, and the account names it with
// the planted time. The clock is the test's own, so nothing depends on the machine.
#include "account_check.h"
#include "clock_world.h"

enum { N_WARM = 12 }; // steps after which prices are known

static const rn_engine_options small = {.n_threads = 1, .max_seqs = 8, .batch_tokens = 300};

// ---------------------------------------------------------------- running

static rn_account ended; // of the last choice that ended

// One step; the token event of a request, if it got one.
static rn_event step_for(rn_engine *engine, uint64_t id) {
    bool busy;
    rn_event found = {.token = -1};
    assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
    for (rn_event event; rn_engine_next_event(engine, &event);) {
        if (event.finish) account_check(&event);
        if (event.finish && event.request == id) ended = *event.account;
        if (event.request == id && event.token >= 0) found = event;
    }
    return found;
}

static void warm_up(rn_engine *engine, uint64_t id) {
    for (int i = 0; i < N_WARM; i++) step_for(engine, id);
}

// Steps up to the end of the request; its account.
static const rn_account *finish(rn_engine *engine, uint64_t id) {
    ended = (rn_account){0};
    for (int i = 0; i < 2000 && !ended.end_ns; i++) step_for(engine, id);
    assert_true(ended.end_ns > 0);
    return &ended;
}

// The longest gap has this main cause, with that time.
static void check_slowest(const rn_account *account, rn_cause cause, double ms) {
    assert_true(account->n_slow > 0);
    const rn_share *gap = &account->slow[0].share;
    for (int i = 1; i < RN_CAUSE_COUNT; i++)
        check(i == (int)cause || gap->cause_ns[i] < gap->cause_ns[cause], "%s is %g ms, %s %g ms",
              rn_cause_name((rn_cause)i), (double)gap->cause_ns[i] / MS, rn_cause_name(cause),
              (double)gap->cause_ns[cause] / MS);
    check_near((double)gap->cause_ns[cause] / MS, ms, 0.1 * ms);
}

// ---------------------------------------------------------------- the causes

CASE(a_quiet_stream_reads_weights) {
    rn_engine *engine = new_engine(&small);
    const rn_request request = request_for(1, 8, 100);
    const uint64_t id = submit(engine, &request);
    const rn_account *a = finish(engine, id);
    check_near((double)a->decode.cause_ns[RN_CAUSE_WEIGHTS], (double)a->decode.ns,
               0.02 * (double)a->decode.ns);
    check_near((double)a->first.cause_ns[RN_CAUSE_OWN_PROMPT], (double)a->first.ns, 1);
    assert_int_equal(a->decode_work.steps, 99);
    assert_int_equal(a->decode_work.tokens, 99);
    assert_int_equal(a->prompt_work.tokens, 8);
    rn_engine_destroy(engine);
}

CASE(a_long_prompt_of_another) {
    rn_engine *engine = new_engine(&small);
    rn_request request = request_for(1, 8, 100);
    const uint64_t id = submit(engine, &request);
    warm_up(engine, id);
    request = request_for(2, 250, 2);
    const uint64_t other = submit(engine, &request);
    const rn_account *a = finish(engine, id);
    check_slowest(a, RN_CAUSE_PROMPTS, rows_ms(251) - rows_ms(1));
    assert_int_equal(a->slow[0].share.prompt_request, other);
    assert_int_equal(a->slow[0].share.prompt_tokens, 250);
    assert_int_equal(a->slow[0].token, N_WARM);
    rn_engine_destroy(engine);
}

CASE(time_between_steps) {
    rn_engine *engine = new_engine(&small);
    const rn_request request = request_for(1, 8, 60);
    const uint64_t id = submit(engine, &request);
    warm_up(engine, id);
    pass_ms(20);
    check_slowest(finish(engine, id), RN_CAUSE_HOST, 20);
    rn_engine_destroy(engine);
}

CASE(a_stolen_core) {
    rn_engine *engine = new_engine(&small);
    const rn_request request = request_for(1, 8, 60);
    const uint64_t id = submit(engine, &request);
    warm_up(engine, id);
    fake.slower_ms = 7;
    check_slowest(finish(engine, id), RN_CAUSE_SLOWER, 7);
    rn_engine_destroy(engine);
}

// The price follows within a few steps, and still the account knows the usual time. The first slow
// steps raise it a little: a fifth is allowed.
CASE(a_machine_that_stays_slow) {
    rn_engine *engine = new_engine(&small);
    const rn_request request = request_for(1, 8, 100);
    const uint64_t id = submit(engine, &request);
    warm_up(engine, id);
    fake.factor = 2;
    const rn_account *a = finish(engine, id);
    const double slow_ms = 99 - (N_WARM - 1); // each step took a millisecond more
    check_near((double)a->decode.cause_ns[RN_CAUSE_SLOWER] / MS, slow_ms, 0.2 * slow_ms);
    rn_engine_destroy(engine);
}

CASE(a_reader_that_does_not_follow) {
    rn_engine *engine = new_engine(&small);
    const rn_request request = request_for(1, 8, 60);
    const uint64_t id = submit(engine, &request);
    warm_up(engine, id);
    rn_engine_pause(engine, id, true);
    assert_int_equal(step_for(engine, id).token, -1);
    pass_ms(30);
    rn_engine_pause(engine, id, false);
    check_slowest(finish(engine, id), RN_CAUSE_READER, 30);
    rn_engine_destroy(engine);
}

// One place: the second request waits for the first.
CASE(a_place_is_waited_for) {
    rn_engine *engine = new_engine(&(rn_engine_options){.n_threads = 1, .max_seqs = 1});
    rn_request request = request_for(1, 8, 51);
    submit(engine, &request);
    request = request_for(2, 8, 5);
    const rn_account *a = finish(engine, submit(engine, &request));
    check_near((double)a->first.cause_ns[RN_CAUSE_QUEUE] / MS, rows_ms(8) + 50 * rows_ms(1), 0.1);
    check_near((double)a->first.cause_ns[RN_CAUSE_OWN_PROMPT] / MS, rows_ms(8), 0.1);
    assert_int_equal(a->first.cause_ns[RN_CAUSE_PAGES], 0);
    rn_engine_destroy(engine);
}

static rn_engine *late_engine;
static uint64_t late_id;

static void come_late(void) {
    const rn_request request = request_for(3, 8, 3);
    late_id = submit(late_engine, &request);
}

// A request that comes in the middle of a step waits for it: for the prompt that the step
// evaluates.
CASE(a_step_is_waited_for) {
    rn_engine *engine = late_engine = new_engine(&small);
    rn_request request = request_for(1, 8, 100);
    const uint64_t id = submit(engine, &request);
    warm_up(engine, id);
    request = request_for(2, 250, 2);
    const uint64_t other = submit(engine, &request);
    fake.during = come_late;
    step_for(engine, id);
    const rn_account *a = finish(engine, late_id);
    check_near((double)a->first.cause_ns[RN_CAUSE_PROMPTS] / MS, rows_ms(251) / 2, 0.1);
    assert_int_equal(a->first.prompt_request, other);
    assert_int_equal(a->first.cause_ns[RN_CAUSE_QUEUE], 0);
    rn_engine_destroy(engine);
}

// It then waits for a place as well, while other steps run: the first step keeps its cause.
CASE(a_step_and_a_place_are_waited_for) {
    rn_engine *engine = late_engine =
        new_engine(&(rn_engine_options){.n_threads = 1, .max_seqs = 1, .batch_tokens = 300});
    const rn_request request = request_for(2, 250, 41);
    const uint64_t other = submit(engine, &request);
    fake.during = come_late;
    step_for(engine, other);
    const rn_account *a = finish(engine, late_id);
    check_near((double)a->first.cause_ns[RN_CAUSE_PROMPTS] / MS, rows_ms(250) / 2, 0.1);
    check_near((double)a->first.cause_ns[RN_CAUSE_QUEUE] / MS, 40 * rows_ms(1), 0.1);
    assert_int_equal(a->first.prompt_request, other);
    assert_int_equal(a->first.prompt_tokens, 250);
    assert_int_equal(a->first.cause_ns[RN_CAUSE_STREAMS], 0);
    rn_engine_destroy(engine);
}

// Products take 1 ms for any context, attention 1 us for each position that is read. Contexts that
// change their lengths are no slower machine, and a slower machine is seen at every length.
CASE(contexts_of_other_lengths_are_not_slower) {
    rn_engine *engine = new_engine(&small);
    struct divider *divider = &engine->engine.divider;
    static const int positions[] = {10, 900, 10, 400, 900, 10};
    for (size_t p = 0; p < sizeof positions / sizeof *positions; p++) {
        struct batch_shape shape = {0};
        batch_shape_add(engine->engine.plan, &shape, positions[p], 1, 1);
        for (int i = 0; i < 300; i++) {
            const uint64_t attention = (uint64_t)positions[p] * 1000;
            struct divide_step step = {.run_ns = 1000000 + attention,
                                       .attention_ns = attention,
                                       .rows = {.stream = 1},
                                       .shape = &shape};
            step.kv_ns[PART_STREAM] = divide_kv(divider, &shape);
            struct division division;
            divide(divider, &step, &division);
            check(division.slower == 0, "position %d, step %d: slower by %g of %g ms", positions[p],
                  i, division.slower / MS, (double)step.run_ns / MS);
            if (i == 299) { // the same step on half a machine, which is not learned
                step.run_ns *= 2;
                step.attention_ns *= 2;
                divide(divider, &step, &division);
                check_near(division.slower, (double)step.run_ns / 2, 0.02 * (double)step.run_ns);
                continue;
            }
            divider_learn(divider, &step);
        }
    }
    rn_engine_destroy(engine);
}

// The further choices of a request wait for the prompt that the first one evaluates, on a clock
// that moves before it starts; then each has a step of its own.
CASE(a_further_choice_waits_for_its_own_prompt) {
    rn_engine *engine = new_engine(&small);
    rn_request request = request_for(1, 250, 5);
    request.n = 3;
    const uint64_t id = submit(engine, &request);
    pass_ms(2);
    int n_ended = 0;
    while (n_ended < 3) {
        bool busy;
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);) {
            if (!event.finish) continue;
            account_check(&event);
            const rn_share *first = &event.account->first;
            check_near((double)first->cause_ns[RN_CAUSE_HOST] / MS, 2, 0.01);
            check((double)first->cause_ns[RN_CAUSE_OWN_PROMPT] / MS > rows_ms(250) - 0.01,
                  "choice %d: %g ms", event.choice,
                  (double)first->cause_ns[RN_CAUSE_OWN_PROMPT] / MS);
            assert_true(first->prompt_request != id);
            n_ended++;
        }
    }
    rn_engine_destroy(engine);
}

// The first choice makes way and computes its prompt again, while the others wait for pages: that
// wait is not their own prompt.
CASE(a_further_choice_waits_for_pages_after_a_preemption) {
    rn_engine *engine = new_engine(
        &(rn_engine_options){.n_threads = 1, .max_seqs = 4, .n_ctx = 128, .kv_pages = 5});
    rn_request request = request_for(1, 20, 100);
    submit(engine, &request);
    request = request_for(2, 60, 40);
    request.n = 3;
    const uint64_t id = submit(engine, &request);
    int n_ended = 0, n_preempted = 0;
    while (n_ended < 3) {
        bool busy;
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);) {
            if (!event.finish || event.request != id) continue;
            const rn_share *first = &event.account->first;
            n_ended++;
            n_preempted += event.timings->preemptions;
            check((double)first->cause_ns[RN_CAUSE_OWN_PROMPT] / MS < 2 * rows_ms(60),
                  "choice %d: %g of %g ms are its own prompt", event.choice,
                  (double)first->cause_ns[RN_CAUSE_OWN_PROMPT] / MS, (double)first->ns / MS);
        }
    }
    assert_true(n_preempted > 0);
    rn_engine_destroy(engine);
}

// Nobody waits any more: a later request that finds a place did not wait for one.
CASE(a_block_ends_with_its_last_waiter) {
    rn_engine *engine = late_engine =
        new_engine(&(rn_engine_options){.n_threads = 1, .max_seqs = 2});
    rn_request request = request_for(1, 8, 100);
    const uint64_t first = submit(engine, &request);
    submit(engine, &request);
    const uint64_t waiter = submit(engine, &request);
    step_for(engine, first);
    rn_engine_cancel(engine, waiter);
    for (int i = 0; i < 20; i++) step_for(engine, first);
    rn_engine_cancel(engine, first);
    fake.during = come_late;
    step_for(engine, first);
    const rn_account *a = finish(engine, late_id);
    assert_int_equal(a->first.cause_ns[RN_CAUSE_QUEUE], 0);
    assert_true(a->first.cause_ns[RN_CAUSE_STREAMS] > 0);
    rn_engine_destroy(engine);
}

// A kind of step that was not seen for long has no usual time: its price may be wrong by then.
CASE(a_rare_step_is_not_slower) {
    rn_engine *engine = new_engine(&small);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 10; i++) { // a prompt of one kind becomes known
            const rn_request request = request_for(10 * round + i + 2, 250, 1);
            const rn_account *a = finish(engine, submit(engine, &request));
            check(a->first.cause_ns[RN_CAUSE_SLOWER] == 0, "round %d, prompt %d: slower by %g ms",
                  round, i, (double)a->first.cause_ns[RN_CAUSE_SLOWER] / MS);
        }
        for (int i = 0; i < 3; i++) {
            const rn_request request = request_for(1, 8, 900);
            finish(engine, submit(engine, &request));
        }
    }
    rn_engine_destroy(engine);
}

CASE(a_reader_that_does_not_follow_a_waiting_request) {
    rn_engine *engine = new_engine(&(rn_engine_options){.n_threads = 1, .max_seqs = 1});
    rn_request request = request_for(1, 8, 40);
    const uint64_t first = submit(engine, &request);
    step_for(engine, first);
    request = request_for(2, 8, 3);
    const uint64_t id = submit(engine, &request);
    rn_engine_pause(engine, id, true);
    for (int i = 0; i < 20; i++) step_for(engine, first);
    rn_engine_pause(engine, id, false);
    const rn_account *a = finish(engine, id);
    check_near((double)a->first.cause_ns[RN_CAUSE_READER] / MS, 20, 1.1);
    check_near((double)a->first.cause_ns[RN_CAUSE_QUEUE] / MS, 19, 1.1);
    rn_engine_destroy(engine);
}

// A picture of a request that waits has its time up to now.
CASE(a_followed_request_that_waits) {
    rn_engine *engine = new_engine(&(rn_engine_options){.n_threads = 1, .max_seqs = 1});
    rn_watcher *watcher;
    rn_error err = {0};
    assert_int_equal(rn_watcher_create(engine, &watcher, &err), RN_OK);
    rn_request request = request_for(1, 8, 100);
    const uint64_t first = submit(engine, &request);
    step_for(engine, first);
    const uint64_t waiter = submit(engine, &request);
    for (int i = 0; i < 20; i++) step_for(engine, first);
    rn_watcher_follow(watcher, waiter);
    rn_watcher_ask(watcher);
    step_for(engine, first);
    const rn_view *view = rn_watcher_view(watcher);
    assert_non_null(view);
    assert_int_equal(view->account_request, waiter);
    assert_non_null(view->account);
    check_near((double)view->account->first.cause_ns[RN_CAUSE_QUEUE] / MS, 21, 1.1);
    assert_int_equal(view->account->end_ns, 0);
    rn_watcher_destroy(watcher);
    rn_engine_destroy(engine);
}

// Places, but no pages: the second request waits for the pages of the first.
CASE(pages_are_waited_for) {
    rn_engine *engine = new_engine(
        &(rn_engine_options){.n_threads = 1, .max_seqs = 4, .n_ctx = 128, .kv_pages = 4});
    rn_request request = request_for(1, 70, 31);
    const uint64_t holder = submit(engine, &request);
    step_for(engine, holder);
    request = request_for(2, 40, 3);
    const rn_account *a = finish(engine, submit(engine, &request));
    check_near((double)a->first.cause_ns[RN_CAUSE_PAGES] / MS, 30 * rows_ms(1), 3);
    assert_int_equal(a->first.pages_request, holder);
    rn_engine_destroy(engine);
}

// Three pages for two streams that come to need two each: the younger makes way, waits, and
// computes its tokens again.
CASE(a_preemption) {
    rn_engine *engine =
        new_engine(&(rn_engine_options){.n_threads = 1, .max_seqs = 2, .n_ctx = 64, .kv_pages = 3});
    rn_request request = request_for(1, 20, 40);
    const uint64_t senior = submit(engine, &request);
    request = request_for(2, 20, 30);
    const uint64_t junior = submit(engine, &request);
    const rn_account *a = finish(engine, junior);
    const rn_share *gap = &a->slow[0].share;
    check_slowest(a, RN_CAUSE_PREEMPTED, (double)gap->ns / MS);
    assert_true(gap->ns > 20 * MS);
    assert_int_equal(gap->preempt_request, senior);
    rn_engine_destroy(engine);
}

// The tokens that were lost are counted apart: they are no prompt, and no text.
CASE(tokens_that_a_preemption_took_are_computed_again) {
    enum { PROMPT = 20, FIRST = 40, SECOND = 30, MAX = 200 };
    static rn_step step[MAX];
    rn_engine *engine = new_engine(&(rn_engine_options){
        .n_threads = 1, .max_seqs = 2, .n_ctx = 64, .kv_pages = 3, .no_prefix_cache = true});
    rn_request request = request_for(1, PROMPT, FIRST);
    submit(engine, &request);
    request = request_for(2, PROMPT, SECOND);
    finish(engine, submit(engine, &request));
    const int n = (int)rn_engine_steps(engine, 0, step, MAX);
    int n_prompt = 0, n_again = 0, n_stream = 0;
    for (int i = 0; i < n; i++) {
        n_prompt += (int)step[i].prompt_tokens;
        n_again += (int)step[i].again_tokens;
        n_stream += (int)step[i].stream_tokens;
    }
    assert_int_equal(n_prompt, 2 * PROMPT);
    assert_int_equal(n_again, KV_PAGE_TOKENS); // it lost a page when it needed the next one
    assert_int_equal(n_stream, FIRST - 1 + SECOND - 1);
    rn_engine_destroy(engine);
}

static double mask_ms;

static void slow_mask(void *ctx, int choice, uint64_t *allowed, int n_vocab) { pass_ms(mask_ms); }
static void slow_advance(void *ctx, int choice, int32_t token) {}
static void slow_rollback(void *ctx, int choice, int n_tokens) {}

CASE(a_slow_constraint) {
    rn_engine *engine = new_engine(&small);
    rn_request request = request_for(1, 8, 60);
    request.constraint =
        (rn_constraint){.mask = slow_mask, .advance = slow_advance, .rollback = slow_rollback};
    mask_ms = 0;
    const uint64_t id = submit(engine, &request);
    warm_up(engine, id);
    mask_ms = 6;
    step_for(engine, id);
    mask_ms = 0;
    check_slowest(finish(engine, id), RN_CAUSE_CHOICE, 6);
    rn_engine_destroy(engine);
}

static double draft_ms;
static int n_drafts;

// Tokens that are never chosen: the number of each is drawn from places far apart.
static int wrong_draft(void *ctx, void *data, int choice, const int32_t *token, int n_token,
                       int32_t *out, int most) {
    const int n = most < 4 ? most : 4;
    for (int i = 0; i < n; i++) out[i] = (token[n_token - 1] * 31 + 1777 * (i + 1)) % 4096;
    pass_ms(draft_ms);
    n_drafts++;
    return n;
}

CASE(a_refused_draft) {
    rn_engine_options options = small;
    options.speculate = "custom";
    options.draft_fn = wrong_draft;
    options.draft_min = 4;
    draft_ms = 0;
    n_drafts = 0;
    rn_engine *engine = clock_engine(&options);
    const rn_request request = request_for(1, 8, 60);
    const uint64_t id = submit(engine, &request);
    warm_up(engine, id);
    draft_ms = 6;
    step_for(engine, id);
    draft_ms = 0;
    const rn_account *a = finish(engine, id);
    assert_true(n_drafts > 10);
    check_slowest(a, RN_CAUSE_DRAFTS, 6);
    rn_engine_destroy(engine);
}

// 16 streams in a step of 1.5 ms, which one would have for 1 ms.
CASE(other_streams) {
    rn_engine_options options = small;
    options.max_seqs = 16;
    rn_engine *engine = new_engine(&options);
    uint64_t id = 0;
    rn_request request = request_for(1, 8, 30);
    id = submit(engine, &request);
    warm_up(engine, id); // a step of one row is known
    for (int i = 0; i < 15; i++) {
        request = request_for(2 + i, 8, 60);
        submit(engine, &request);
    }
    for (int i = 0; i < 8; i++) step_for(engine, id);
    const rn_event event = step_for(engine, id);
    check_near(event.gap_ms, 1.5, 1e-6);
    assert_int_equal(event.cause, RN_CAUSE_WEIGHTS);
    const rn_account *a = finish(engine, id);
    const rn_share *last = &a->slow[a->n_slow - 1].share; // one of the steps with 16 streams
    assert_int_equal(last->streams, 16);
    check_near((double)(last->cause_ns[RN_CAUSE_STREAMS] + last->cause_ns[RN_CAUSE_KV]) / MS, 0.5,
               0.06);
    rn_engine_destroy(engine);
}

// ---------------------------------------------------------------- steps

CASE(steps_are_recorded) {
    enum { MAX = 64 };
    rn_engine *engine = new_engine(&small);
    rn_step step[MAX];
    const rn_request request = request_for(1, 40, 20);
    finish(engine, submit(engine, &request));
    assert_int_equal(rn_engine_steps(engine, 0, step, MAX), 20);
    assert_int_equal(step[0].index, 1);
    assert_int_equal(step[0].prompt_tokens, 40);
    assert_int_equal(step[0].n_prompts, 1);
    const rn_engine_stats stats = streams_stats(engine);
    uint64_t bytes = 0, stat_bytes = 0;
    for (int i = 0; i < 20; i++) {
        const rn_step *s = &step[i];
        assert_int_equal(s->run_ns + s->choice_ns + s->draft_ns + s->host_ns,
                         s->end_ns - s->begin_ns);
        if (i > 0) assert_int_equal(s->begin_ns, s[-1].end_ns);
        if (i > 0) assert_int_equal(s->stream_tokens, 1);
        for (int c = 0; c < RN_OPS_COUNT; c++) bytes += s->ops_bytes[c];
    }
    for (int c = 0; c < RN_OPS_COUNT; c++) stat_bytes += stats.ops_bytes[c];
    assert_int_equal(bytes, stat_bytes);
    assert_true(bytes > stats.weight_bytes + stats.kv_bytes); // and the KV that was written
    assert_int_equal(rn_engine_steps(engine, 18, step, MAX), 2);
    assert_int_equal(step[0].index, 19);
    assert_int_equal(rn_engine_steps(engine, 20, step, MAX), 0);
    uint64_t cause_ns = 0;
    for (int i = 0; i < RN_CAUSE_COUNT; i++) cause_ns += stats.cause_ns[i];
    assert_int_equal(cause_ns, stats.stream_ns);
    rn_engine_destroy(engine);
}

TEST_PROGRAM(causes) { return cases_run(open_model, close_model); }
