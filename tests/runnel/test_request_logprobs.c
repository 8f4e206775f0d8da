// Logprobs of requests, through the public interface. They are those of the raw logits, which a
// second request over the same tokens listens to. They do not depend on sampling, choices,
// preemptions, prefix hits or neighbours. tests/mix.h tests that they are equal to the bit beside
// any other requests.
// label: threads async
#include <math.h>
#include <time.h>

#define TALE_ANY
#include "streams.h"
#include "tale.h"

enum { MAX_STREAMS = 8, MAX_OUTPUT = 60, MAX_PROMPT = 128 };

// The results of one choice: its tokens' logprobs, in the order of its ids.
struct heard {
    struct stream stream;
    rn_logprob logprob[MAX_OUTPUT][1 + RN_MAX_TOP_LOGPROBS];
    int n_logprobs[MAX_OUTPUT];
};

static struct heard heard[MAX_STREAMS];

static void take(const rn_event *event) {
    struct heard *h = NULL;
    for (int i = 0; i < MAX_STREAMS && !h; i++)
        if (heard[i].stream.id == event->request && heard[i].stream.choice == event->choice)
            h = &heard[i];
    assert_non_null(h);
    const int at = h->stream.n_ids;
    assert_true(event->n_logprobs == 0 || (event->token >= 0 && at < MAX_OUTPUT));
    assert_int_equal(event->n_logprobs == 0, event->logprob == NULL);
    if (event->n_logprobs) {
        memcpy(h->logprob[at], event->logprob, (size_t)event->n_logprobs * sizeof *event->logprob);
        h->n_logprobs[at] = event->n_logprobs;
    }
    streams_take(&h->stream, event, 0);
}

static void submit(rn_engine *engine, const rn_request *request, struct heard *at) {
    static struct stream choices[MAX_STREAMS];
    streams_submit(engine, request, choices);
    for (int i = 0; i < (request->n ? request->n : 1); i++) {
        memset(&at[i], 0, sizeof *at);
        at[i].stream = choices[i];
    }
}

static inline void drain(rn_engine *engine) {
    for (bool busy = true; busy;) {
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);) take(&event);
    }
}

// ---------------------------------------------------------------- the reference

// A listener at every position of a choice: compares what it had of the next one.
struct reference {
    const struct heard *of;
    int n_prompt, n_top, n_compared;
};

static void compare(const struct reference *r, int at, const float *logits, int n_vocab) {
    const rn_logprob *got = r->of->logprob[at];
    double top = -INFINITY, sum = 0;
    for (int i = 0; i < n_vocab; i++) top = (double)logits[i] > top ? (double)logits[i] : top;
    for (int i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - top);
    assert_int_equal(r->of->n_logprobs[at], 1 + r->n_top);
    assert_int_equal(got[0].token, r->of->stream.ids[at]);
    for (int k = 0; k <= r->n_top; k++) {
        const double want = (double)logits[got[k].token] - top - log(sum);
        check(fabs((double)got[k].logprob - want) < 1e-5, "token %d, place %d: %g, expected %g", at,
              k, (double)got[k].logprob, want);
        if (k == 0) continue;
        int rank = 1;
        for (int i = 0; i < n_vocab; i++)
            rank += logits[i] > logits[got[k].token] ||
                    (logits[i] == logits[got[k].token] && i < got[k].token);
        assert_int_equal(rank, k);
    }
}

static void listen(void *ctx, int position, const float *logits, int n_vocab) {
    struct reference *r = ctx;
    const int at = position - (r->n_prompt - 1);
    if (at < 0 || at >= r->of->stream.n_ids) return;
    compare(r, at, logits, n_vocab);
    r->n_compared++;
}

// Evaluates the choice's tokens again, alone, on another engine of the plainest kind.
static void check_heard(const struct heard *h, const rn_request *request) {
    static int32_t token[MAX_PROMPT + MAX_OUTPUT];
    struct stream r;
    struct reference reference = {.of = h,
                                  .n_prompt = (int)request->n_prompt,
                                  .n_top = request->top_logprobs};
    const size_t n_ids = (size_t)h->stream.n_ids;
    memcpy(token, request->prompt, request->n_prompt * sizeof *token);
    memcpy(token + request->n_prompt, h->stream.ids, n_ids * sizeof *token);
    rn_engine *engine =
        streams_engine(model, &(rn_engine_options){.speculate = "off", .no_prefix_cache = true});
    streams_run(engine,
                &(rn_request){.prompt = token,
                              .n_prompt = request->n_prompt + n_ids,
                              .prompt_only = true,
                              .on_logits = listen,
                              .on_logits_ctx = &reference},
                &r);
    check(n_ids > 0 && reference.n_compared == (int)n_ids, "%d of %zu tokens were compared",
          reference.n_compared, n_ids);
    rn_engine_destroy(engine);
}

// ---------------------------------------------------------------- requests

static int32_t prompt[MAX_PROMPT];

static rn_request request_for(int n_prompt, int n_output, int top_logprobs) {
    for (int i = 0; i < MAX_PROMPT; i++) prompt[i] = (i * 31 + 7) % 500;
    rn_request r = {.prompt = prompt,
                    .n_prompt = (size_t)n_prompt,
                    .max_tokens = n_output,
                    .ignore_eos = true,
                    .logprobs = true,
                    .top_logprobs = top_logprobs,
                    .sampling = rn_sampling_neutral()};
    r.sampling.has_seed = true;
    r.sampling.seed = (uint64_t)n_prompt;
    return r;
}

#ifndef __SANITIZE_THREAD__ // their steps are the caller's
CASE(they_are_those_of_the_raw_logits) {
    static const rn_logit_bias bias[] = {{100, 5}, {200, -100}};
    static const int tops[] = {0, 1, 5, RN_MAX_TOP_LOGPROBS};
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_threads = 2});
    for (size_t i = 0; i < sizeof tops / sizeof *tops; i++) {
        rn_request request = request_for(10, 12, tops[i]);
        request.sampling.temperature = i % 2 ? 1.5f : 0;
        request.sampling.repetition_penalty = 1.3f;
        request.sampling.presence_penalty = 1;
        request.sampling.top_k = 3;
        request.sampling.logit_bias = bias;
        request.sampling.n_logit_bias = 2;
        submit(engine, &request, heard);
        drain(engine);
        check_heard(&heard[0], &request);
    }
    rn_request request = request_for(10, 12, 5);
    request.logprobs = false;
    submit(engine, &request, heard);
    drain(engine);
    for (int i = 0; i < 12; i++) assert_int_equal(heard[0].n_logprobs[i], 0);
    rn_engine_destroy(engine);
}

CASE(each_choice_has_its_own) {
    rn_engine *engine =
        streams_engine(model, &(rn_engine_options){.n_threads = 2, .max_seqs = MAX_STREAMS});
    rn_request request = request_for(50, 20, 4);
    request.n = 4;
    submit(engine, &request, heard);
    drain(engine);
    for (int i = 0; i < 4; i++) check_heard(&heard[i], &request);
    check(memcmp(heard[0].stream.ids, heard[1].stream.ids, 20 * sizeof(int32_t)) != 0,
          "the choices are all the same");
    for (int i = 1; i < 4; i++) // the first token is one of the same row
        assert_memory_equal(&heard[0].logprob[0][1], &heard[i].logprob[0][1],
                            4 * sizeof(rn_logprob));
    rn_engine_destroy(engine);
}

// Streams that preempt each other, and find prefixes of those before them.
CASE(company_does_not_change_them) {
    static rn_request request[MAX_STREAMS];
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_threads = 2,
                                                                   .max_seqs = 4,
                                                                   .n_ctx = 192,
                                                                   .kv_pages = 9,
                                                                   .batch_tokens = 40});
    int preemptions = 0, cached = 0;
    for (int i = 0; i < MAX_STREAMS; i++) {
        request[i] = request_for(70 + i, 40 + i % 3, i % 3);
        submit(engine, &request[i], &heard[i]);
    }
    drain(engine);
    for (int i = 0; i < MAX_STREAMS; i++) {
        preemptions += heard[i].stream.timings.preemptions;
        cached += heard[i].stream.timings.cached_tokens;
        check_heard(&heard[i], &request[i]);
    }
    check(preemptions > 0 && cached > 0, "%d preemptions, %d cached tokens", preemptions, cached);
    rn_engine_destroy(engine);
}
#endif

// The engine's own thread runs ahead of the reader: collected events stay as they are.
CASE(they_stay_until_the_next_wait) {
    rn_engine *engine =
        streams_engine(model, &(rn_engine_options){.n_threads = 1, .max_seqs = MAX_STREAMS});
    static rn_request request[MAX_STREAMS];
    static rn_event event[64];
    for (int i = 0; i < MAX_STREAMS; i++) {
        request[i] = request_for(20 + i, 30, RN_MAX_TOP_LOGPROBS);
        submit(engine, &request[i], &heard[i]);
    }
    assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
    for (int n_open = MAX_STREAMS; n_open > 0;) {
        const int n = rn_engine_wait(engine, event, 64, -1);
        assert_true(n > 0);
        const uint64_t steps = streams_stats(engine).steps;
        while (n < 64 && streams_stats(engine).running > 0 && streams_stats(engine).steps == steps)
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        for (int i = 0; i < n; i++) {
            take(&event[i]);
            n_open -= event[i].last;
        }
    }
    rn_engine_stop(engine, true);
    for (int i = 0; i < MAX_STREAMS; i++) check_heard(&heard[i], &request[i]);
    rn_engine_destroy(engine);
}

// Through the ring between the threads: the start of all logprobs is the list of the likeliest.
CASE(all_logprobs_of_a_vocabulary_come_with_each_token) {
    const int n_vocab = rn_model_get_info(model)->n_vocab;
    static rn_logprob few[4][1 + RN_MAX_TOP_LOGPROBS];
    for (int all = 0; all < 2; all++) {
        rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_ctx = 64});
        rn_request request = request_for(3, 5, all ? RN_ALL_LOGPROBS : RN_MAX_TOP_LOGPROBS);
        request.max_tokens = 4;
        request.ignore_eos = true;
        request.prompt_logprobs = true;
        request.top_prompt_logprobs = request.top_logprobs;
        uint64_t id;
        assert_int_equal(rn_engine_submit(engine, &request, &id, NULL), RN_OK);
        assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
        int n = 0, n_scored = 0;
        for (bool last = false; !last;) {
            rn_event event;
            if (!rn_engine_wait(engine, &event, 1, -1)) continue;
            last = event.last;
            n_scored += event.n_prompt_logprobs;
            if (all && event.n_prompt_logprobs)
                assert_true(event.prompt_logprob[1].logprob >=
                            event.prompt_logprob[n_vocab].logprob);
            if (event.token < 0) continue;
            assert_int_equal(event.n_logprobs, 1 + (all ? n_vocab : RN_MAX_TOP_LOGPROBS));
            if (all)
                assert_memory_equal(event.logprob, few[n], sizeof few[n]);
            else
                memcpy(few[n], event.logprob, sizeof few[n]);
            n++;
        }
        assert_int_equal(n, 4);
        assert_int_equal(n_scored, request.n_prompt - 1);
        rn_engine_stop(engine, true);
        rn_engine_destroy(engine);
    }
}

CASE(more_than_there_can_be_are_refused) {
    static const int bad[] = {-2, RN_MAX_TOP_LOGPROBS + 1, 1000000};
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_threads = 1});
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const rn_request request = request_for(3, 3, bad[i]);
        rn_error err = {0};
        uint64_t id;
        char value[16];
        assert_int_equal(rn_engine_submit(engine, &request, &id, &err), RN_ERR_ARG);
        snprintf(value, sizeof value, "%d", bad[i]);
        assert_non_null(strstr(err.message, "top_logprobs"));
        assert_non_null(strstr(err.message, value));
    }
    rn_engine_destroy(engine);
}

TEST_PROGRAM(request_logprobs) { return cases_run(open_model, close_model); }
