// Every allocation between a request's submit and its last event is made to fail once. That request
// is refused (or does without). The request beside it and the request after it give their tokens,
// no page stays held and nothing leaks (a leak is seen by count).
#include "streams.h"

#include "failing_malloc.h"
#include "tale.h"

enum { MAX_CHOICES = 4, N_KINDS = 5 };

static const int32_t prompt[70] = {7, 8, 9};
static const char *const stops[] = {"zebra", "never there"}, *const breakers[] = {"\n", "*"};
static const char *const bad[] = {"zebra", "never there"};
static const char *const answer[] = {"<a>", "<b>", NULL};
static const int32_t stop_ids[] = {4000, 9};
static const rn_logit_bias biases[] = {{5, 1}, {6, -1}};

static const rn_request beside = {.prompt = prompt,
                                  .n_prompt = 40,
                                  .max_tokens = 20,
                                  .ignore_eos = true};

static rn_shape *shape;

// Everything that takes memory, in turn: plain, with all lists, choices, an embedding, a shape.
static rn_request request_at(int kind) {
    rn_request r = {.prompt = prompt, .n_prompt = 70, .max_tokens = 6, .ignore_eos = true};
    r.sampling = rn_sampling_neutral();
    r.sampling.has_seed = true;
    if (kind >= 1) {
        r.stop = stops;
        r.n_stop = 2;
        r.sampling.dry_multiplier = 1;
        r.sampling.dry_sequence_breakers = breakers;
        r.sampling.n_dry_sequence_breakers = 2;
        r.sampling.logit_bias = biases;
        r.sampling.n_logit_bias = 2;
        r.user = "somebody";
        r.cache_salt = "salt";
        r.timeout_ms = 1e9;
        r.logprobs = true;
        r.top_logprobs = 3;
        r.min_tokens = 6;
        r.stop_tokens = stop_ids;
        r.n_stop_tokens = 2;
        r.bad_words = bad;
        r.n_bad_words = 2;
        r.reasoning =
            (rn_reasoning){.has_budget = true, .budget = 2, .close = "</think>", .answer = answer};
        r.prompt_logprobs = kind != 3;
        r.top_prompt_logprobs = 2;
    }
    if (kind == 2) r.n = MAX_CHOICES;
    if (kind == 3) r.pooling = RN_POOLING_MEAN;
    if (kind == 4) r.shape = shape;
    if (kind == 4) r.max_tokens = 12;
    if (kind == 4) r.draft_max = -1; // masks of drafts would take memory, now and then
    return r;
}

static int n_embd(void) { return rn_model_get_info(model)->n_embd; }

static void drain(rn_engine *engine, struct stream *streams, int n) {
    for (int step = 0; streams_step(engine, streams, n, step, n_embd());) step++;
}

static void check_same(const struct stream *a, const struct stream *b) {
    streams_check_same(a, b);
    assert_int_equal(a->has_embedding, b->has_embedding);
    assert_memory_equal(a->embedding, b->embedding, sizeof a->embedding);
}

// [0] runs beside it, the others are its choices.
static struct stream got[1 + MAX_CHOICES], want[1 + MAX_CHOICES];

// Submits it beside another one. With fail > 0 its allocation number fail - 1 fails. Returns
// whether one did.
static bool run_beside(rn_engine *engine, const rn_request *request, long fail,
                       struct stream *streams, rn_status *status) {
    const int n = request->n ? request->n : 1;
    rn_error err = {0};
    uint64_t id = 0;
    streams_submit(engine, &beside, &streams[0]);
    for (int step = 0; step < 3; step++) streams_step(engine, streams, 1, step, 0);
    fail_at = fail - 1;
    *status = rn_engine_submit(engine, request, &id, &err);
    for (int i = 0; i < n; i++) {
        memset(&streams[1 + i], 0, sizeof *streams);
        streams[1 + i].id = id;
        streams[1 + i].choice = i;
    }
    if (*status) assert_int_equal(err.status, *status);
    if (*status) assert_true(err.message[0]);
    drain(engine, streams, *status ? 1 : 1 + n);
    const bool failed = fail > 0 && fail_at < 0;
    fail_at = -1;
    return failed;
}

// A shape takes memory while it follows the text, too.
static bool is_out_of_memory(int kind, const struct stream *s) {
    return kind == 4 && s->finish == RN_FINISH_ERROR && s->status == RN_ERR_NOMEM;
}

static void check_kind(int kind) {
    const rn_request request = request_at(kind);
    const int n = request.n ? request.n : 1;
    const long at_first = live;
    rn_engine *engine =
        streams_engine(model, &(rn_engine_options){.n_threads = 1, .max_seqs = 4, .kv_pages = 40});
    rn_status status;
    run_beside(engine, &request, 0, want, &status);
    assert_int_equal(status, RN_OK);
    const long before = live;
    int refused = 0;
    bool failed = true;
    for (long at = 1; failed; at++) {
        failed = run_beside(engine, &request, at, got, &status);
        check_same(&want[0], &got[0]);
        if (status) {
            check(status == RN_ERR_NOMEM, "allocation %ld: status %d", at, status);
            refused++;
        } else {
            for (int i = 1; i <= n; i++)
                if (!is_out_of_memory(kind, &got[i])) check_same(&want[i], &got[i]);
        }
        streams_check_empty(engine);
        run_beside(engine, &request, 0, got, &status); // the next one
        assert_int_equal(status, RN_OK);
        for (int i = 0; i <= n; i++) check_same(&want[i], &got[i]);
        streams_check_empty(engine);
        check(live == before, "allocation %ld: %ld blocks more are live", at, live - before);
    }
    check(refused >= 3 * n, "kind %d: only %d allocations were seen to fail", kind, refused);
    rn_engine_destroy(engine);
    assert_int_equal(live, at_first);
}

// The first run makes what all texts of a shape share.
static void open_shape(void) {
    static const char source[] = "([a-z]{1,9} ){40}";
    rn_status status;
    assert_int_equal(rn_shape_compile(model, RN_SHAPE_REGEX, source, strlen(source), &shape, NULL),
                     RN_OK);
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_threads = 1});
    const rn_request request = request_at(4);
    run_beside(engine, &request, 0, want, &status);
    assert_int_equal(status, RN_OK);
    rn_engine_destroy(engine);
}

CASE(a_failed_allocation_is_that_requests_error_alone) {
    open_shape();
    for (int kind = 0; kind < N_KINDS; kind++) check_kind(kind);
    rn_shape_release(shape);
}

CASE(a_watcher_without_memory_is_refused) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_threads = 1});
    const long before = live;
    rn_status status = RN_ERR_NOMEM;
    long at = 0;
    for (; status; at++) {
        rn_watcher *watcher;
        rn_error err = {0};
        fail_at = at;
        status = rn_watcher_create(engine, &watcher, &err);
        fail_at = -1;
        assert_int_equal(status == RN_OK, watcher != NULL);
        if (status) assert_int_equal(status, RN_ERR_NOMEM);
        if (status) assert_true(err.message[0]);
        rn_watcher_destroy(watcher);
        assert_int_equal(live, before);
    }
    assert_int_equal(at, 4); // three that failed
    rn_engine_destroy(engine);
}

TEST_PROGRAM(request_memory) { return cases_run(open_model, close_model); }
