// The engine through the public interface: many sequences at once do not see each other, limits and
// stops hold, pages come back, and a step allocates nothing.
// label: async

#define _GNU_SOURCE 1 // memmem
#include <math.h>
#include <time.h>

#include "streams.h"
#include "tale.h"

// Allocations of the whole program are counted; sanitizers bring their own allocator, so there the
// count stays 0.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 0
enum { n_allocations };
#else
#define COUNTS_ALLOCATIONS 1
static volatile int n_allocations;
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t align, size_t size);
void *malloc(size_t size) {
    n_allocations++;
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
    n_allocations++;
    return __libc_calloc(count, size);
}
void *realloc(void *memory, size_t size) {
    n_allocations++;
    return __libc_realloc(memory, size);
}
void *aligned_alloc(size_t align, size_t size) {
    n_allocations++;
    return __libc_memalign(align, size);
}
#endif

enum { MAX_REQUESTS = TEST_IS_SLOW ? 8 : 24 };

static rn_engine *new_engine(int max_seqs, int batch_tokens, int n_ctx) {
    return streams_engine(model, &(rn_engine_options){.max_seqs = max_seqs,
                                                      .batch_tokens = batch_tokens,
                                                      .n_ctx = n_ctx,
                                                      .speculate = TEST_IS_SLOW ? "off" : NULL});
}

// Prompts of different lengths, seeds and settings; the same i gives the same request.
static rn_request request_at(int i, int32_t *prompt) {
    const int n = 1 + (i * 37) % 90;
    for (int t = 0; t < n; t++) prompt[t] = (i * 131 + t * t * 17 + t) % 4096;
    return (rn_request){.prompt = prompt,
                        .n_prompt = (size_t)n,
                        .max_tokens = 10 + i % 40,
                        .ignore_eos = true,
                        .sampling = {.temperature = i % 3 ? 0.9f : 0,
                                     .top_p = 0.9f,
                                     .has_seed = true,
                                     .seed = (uint64_t)i}};
}

CASE(sequences_in_one_batch_do_not_see_each_other) {
    static struct stream alone[MAX_REQUESTS], mixed[MAX_REQUESTS];
    int32_t prompt[128];
    rn_engine *engine = new_engine(1, 512, 0);
    for (int i = 0; i < MAX_REQUESTS; i++) {
        const rn_request request = request_at(i, prompt);
        streams_run(engine, &request, &alone[i]);
        assert_int_equal(alone[i].n_ids, request.max_tokens);
    }
    rn_engine_destroy(engine);
    static const int shapes[][2] = {{2, 2}, {5, 16}, {8, 33}, {16, 512}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        engine = new_engine(shapes[s][0], shapes[s][1], 0);
        int submitted = 0;
        for (bool busy = true;
             busy || submitted < MAX_REQUESTS;) { // requests join while others run
            for (int k = 0; k < 2 && submitted < MAX_REQUESTS; k++, submitted++) {
                const rn_request request = request_at(submitted, prompt);
                streams_submit(engine, &request, &mixed[submitted]);
            }
            busy = streams_step(engine, mixed, submitted, 0, 0);
        }
        for (int i = 0; i < MAX_REQUESTS; i++) {
            streams_check_same(&alone[i], &mixed[i]);
        }
        streams_check_empty(engine);
        rn_engine_destroy(engine);
    }
}

struct rows {
    float *logits; // [STREAM_MAX_IDS][n_vocab]
    int n;
};

static void keep_row(void *ctx, int position, const float *logits, int n_vocab) {
    struct rows *rows = ctx;
    assert_int_equal(position, rows->n);
    memcpy(rows->logits + (size_t)rows->n++ * (size_t)n_vocab, logits,
           (size_t)n_vocab * sizeof *logits);
}

// Two requests that listen to every position, with fewer rows of logits in a step than both want.
CASE(listeners_share_the_rows_of_a_step) {
    static struct stream r[2];
    static int32_t prompt[2][128];
    const int n_vocab = rn_model_get_info(model)->n_vocab;
    struct rows rows[2][2] = {{{0}}};
    for (int together = 0; together < 2; together++) {
        rn_engine *engine;
        rn_error err = {0};
        const rn_engine_options o = {.max_seqs = 1 + together, .batch_tokens = 64, .logit_rows = 5};
        assert_int_equal(rn_engine_create(model, &o, &engine, &err), RN_OK);
        for (int i = 0; i < 2; i++) {
            rows[together][i].logits =
                malloc((size_t)STREAM_MAX_IDS * (size_t)n_vocab * sizeof(float));
            rn_request request = request_at(i + 1, prompt[i]);
            request.on_logits = keep_row;
            request.on_logits_ctx = &rows[together][i];
            streams_submit(engine, &request, &r[i]);
        }
        streams_drain(engine, r, 2);
        rn_engine_destroy(engine);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rows[0][i].n, rows[1][i].n);
        assert_true(rows[0][i].n > 30);
        assert_memory_equal(rows[0][i].logits, rows[1][i].logits,
                            (size_t)rows[0][i].n * (size_t)n_vocab * sizeof(float));
        free(rows[0][i].logits);
        free(rows[1][i].logits);
    }
}

#ifndef TEST_ASYNC // it looks at single steps, and results trail by one there
CASE(a_step_allocates_nothing) {
    if (!COUNTS_ALLOCATIONS) skip();
    static struct stream results[4];
    int32_t prompt[128];
    rn_engine *engine = new_engine(4, 64, 0);
    for (int i = 0; i < 4; i++) {
        const rn_request request = request_at(i + 5, prompt);
        streams_submit(engine, &request, &results[i]);
    }
    const int before = n_allocations;
    streams_drain(engine, results, 4);
    assert_int_equal(n_allocations, before);
    void *volatile one = malloc(1); // the counter counts
    free(one);
    assert_true(n_allocations > before);
    for (int i = 0; i < 4; i++) assert_true(results[i].n_ids >= 10);
    rn_engine_destroy(engine);
}
#endif

CASE(limits_end_a_sequence_with_length) {
    static const int max_tokens[] = {3, -1, 0}, n_ids[] = {3, 10, 0}; // 10: the context is full
    static struct stream r;
    const int32_t prompt[30] = {5};
    rn_engine *engine = new_engine(1, 0, 40);
    for (int i = 0; i < 3; i++) {
        const rn_request request = {.prompt = prompt,
                                    .n_prompt = 30,
                                    .max_tokens = max_tokens[i],
                                    .prompt_only = max_tokens[i] == 0,
                                    .ignore_eos = true};
        streams_run(engine, &request, &r);
        assert_int_equal(r.n_ids, n_ids[i]);
        assert_int_equal(r.finish, RN_FINISH_LENGTH);
    }
    rn_engine_destroy(engine);
}

CASE(end_tokens_stop_unless_ignored) {
    static struct stream r;
    rn_error err;
    static const char question[] = "<|user|>\nHello, who are you?<|end|>\n<|assistant|>\n";
    int32_t *ids;
    size_t n;
    assert_int_equal(rn_tokenize(model, question, strlen(question),
                                 RN_TOKENIZE_BOS | RN_TOKENIZE_SPECIAL, &ids, &n, &err),
                     RN_OK);
    rn_engine *engine = new_engine(1, 0, 0);
    streams_run(engine, &(rn_request){.prompt = ids, .n_prompt = n, .max_tokens = 200}, &r);
    assert_int_equal(r.finish, RN_FINISH_STOP);
    assert_true(r.n_ids > 3 && r.n_ids < 200);
    assert_true(r.ids[r.n_ids - 1] == 3 || r.ids[r.n_ids - 1] == 0);
    assert_null(memmem(r.text, r.n_text, "<|", 2)); // special tokens are no text
    const int length = r.n_ids;
    streams_run(engine,
                &(rn_request){.prompt = ids, .n_prompt = n, .max_tokens = 200, .ignore_eos = true},
                &r);
    assert_int_equal(r.finish, RN_FINISH_LENGTH);
    assert_int_equal(r.n_ids, 200);
    assert_true(r.n_ids > length);
    rn_engine_destroy(engine);
    rn_free(ids);
}

CASE(stop_strings_cut_the_text_before_them) {
    static struct stream whole, cut;
    const int32_t prompt[] = {0};
    rn_engine *engine = new_engine(1, 0, 0);
    rn_request request = {.prompt = prompt, .n_prompt = 1, .max_tokens = 120, .ignore_eos = true};
    streams_run(engine, &request, &whole);
    assert_true(whole.n_text > 60);
    // every stop string taken from the text itself ends it where it first occurs
    for (size_t at = 5; at + 12 < whole.n_text; at += (size_t)test_scale(45, 9, 9)) {
        char stop[13];
        snprintf(stop, sizeof stop, "%.*s", 12, whole.text + at);
        if ((stop[0] & 0xc0) == 0x80 || (unsigned char)stop[11] >= 0x80) continue;
        const char *list[] = {"never there", stop};
        request.stop = list;
        request.n_stop = 2;
        streams_run(engine, &request, &cut);
        const char *first = memmem(whole.text, whole.n_text, stop, 12);
        assert_int_equal(cut.finish, RN_FINISH_STOP);
        assert_string_equal(cut.stop, stop);
        assert_int_equal(cut.n_text, first - whole.text);
        assert_memory_equal(cut.text, whole.text, cut.n_text);
    }
    rn_engine_destroy(engine);
}

CASE(cancelling_gives_pages_back_and_leaves_others_alone) {
    static struct stream alone, r[6];
    int32_t prompt[128];
    rn_engine *engine = new_engine(1, 0, 0);
    rn_request request = request_at(3, prompt);
    streams_run(engine, &request, &alone);
    rn_engine_destroy(engine);
    engine = new_engine(3, 8, 0);
    for (int i = 0; i < 6; i++) {
        request = request_at(i == 1 ? 3 : i + 10, prompt);
        request.draft_max = -1; // no request ends in 4 steps
        streams_submit(engine, &request, &r[i]);
    }
    for (int step = 0; step < 4; step++) streams_step(engine, r, 6, step, 0);
    rn_engine_cancel(engine, r[0].id); // running
    rn_engine_cancel(engine, r[4].id); // waiting
    rn_engine_cancel(engine, 999);     // nobody
    streams_drain(engine, r, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(r[i].finish, i == 0 || i == 4 ? RN_FINISH_CANCELLED : RN_FINISH_LENGTH);
    streams_check_same(&alone, &r[1]);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

// A prompt that takes several steps and is given up after the first, a prompt that never runs, and
// a prompt that is evaluated without a token to follow.
CASE(times_of_what_never_came_are_zero) {
    static struct stream r[3];
    static int32_t prompt[200];
    for (int i = 0; i < 200; i++) prompt[i] = i % 64;
    rn_engine *engine = new_engine(1, 32, 0);
    rn_request request = {.prompt = prompt, .n_prompt = 200, .max_tokens = 4};
    streams_submit(engine, &request, &r[0]);
    streams_submit(engine, &request, &r[1]);
    streams_step(engine, r, 2, 0, 0);
    assert_int_equal(r[0].finish, RN_FINISH_NONE);
    assert_int_equal(r[0].n_ids, 0);
    rn_engine_cancel(engine, r[0].id);
    rn_engine_cancel(engine, r[1].id);
    streams_drain(engine, r, 2);
    for (int i = 0; i < 2; i++) {
        const rn_timings *t = &r[i].timings;
        assert_int_equal(r[i].finish, RN_FINISH_CANCELLED);
        assert_int_equal(t->prompt_tokens, 200);
        check(t->ttft_ms == 0 && t->prompt_ms == 0, "%d: first token after %g ms, prompt %g ms", i,
              t->ttft_ms, t->prompt_ms);
    }
    request.prompt_only = true;
    streams_run(engine, &request, &r[2]);
    assert_int_equal(r[2].finish, RN_FINISH_LENGTH);
    assert_true(r[2].timings.ttft_ms == 0 && r[2].timings.prompt_ms > 0);
    request.prompt_only = false;
    request.max_tokens = 1;
    streams_run(engine, &request, &r[2]);
    assert_true(r[2].timings.ttft_ms >= r[2].timings.prompt_ms && r[2].timings.prompt_ms > 0);
    rn_engine_destroy(engine);
}

CASE(cancelling_gives_out_the_text_that_was_held_back) {
    static struct stream whole, cut;
    const int32_t prompt[] = {0};
    rn_engine *engine = new_engine(1, 0, 0);
    rn_request request = {.prompt = prompt, .n_prompt = 1, .max_tokens = 20, .ignore_eos = true};
    streams_run(engine, &request, &whole);
    // a stop string that the text begins like, but does not reach: everything is held back
    char stop[STREAM_MAX_TEXT];
    snprintf(stop, sizeof stop, "%.*s#", (int)whole.n_text, whole.text);
    const char *list[] = {stop};
    request.stop = list;
    request.n_stop = 1;
    request.draft_max = -1; // the last text would be drafted, and the request over in 6 steps
    streams_submit(engine, &request, &cut);
    for (int step = 0; step < 6; step++) streams_step(engine, &cut, 1, step, 0);
    assert_int_equal(cut.n_text, 0);
    rn_engine_cancel(engine, cut.id);
    streams_drain(engine, &cut, 1);
    assert_int_equal(cut.finish, RN_FINISH_CANCELLED);
    assert_true(cut.n_text > 0);
    assert_memory_equal(cut.text, whole.text, cut.n_text);
    rn_engine_destroy(engine);
}

CASE(bad_requests_are_refused_with_the_value) {
    rn_engine *engine = new_engine(1, 0, 64);
    const int32_t good[70] = {1}, negative[] = {1, -1}, large[] = {4096};
    const char *empty[] = {""}, *broken[] = {"\xff"}, *fine[] = {"x"};
    const struct {
        rn_request request;
        rn_status status;
        const char *names;
    } bad[] = {
        {{.prompt = good, .n_prompt = 0}, RN_ERR_ARG, "no tokens"},
        {{.prompt = good, .n_prompt = 64, .max_tokens = 1}, RN_ERR_CONTEXT, "64"},
        {{.prompt = good, .n_prompt = 65, .prompt_only = true}, RN_ERR_CONTEXT, "65"},
        {{.prompt = negative, .n_prompt = 2}, RN_ERR_ARG, "-1"},
        {{.prompt = large, .n_prompt = 1}, RN_ERR_ARG, "4096"},
        {{.prompt = good, .n_prompt = 1, .max_tokens = -2}, RN_ERR_ARG, "-2"},
        {{.prompt = good, .n_prompt = 1, .stop = empty, .n_stop = 1}, RN_ERR_ARG, "stop"},
        {{.prompt = good, .n_prompt = 1, .stop = broken, .n_stop = 1}, RN_ERR_ARG, "UTF-8"},
        {{.prompt = good, .n_prompt = 1, .stop = fine, .n_stop = 17}, RN_ERR_ARG, "17"},
        {{.prompt = good, .n_prompt = 1, .sampling = {.temperature = -3}}, RN_ERR_ARG, "-3"},
        {{.prompt = good, .n_prompt = 1, .priority = 101}, RN_ERR_ARG, "101"},
        {{.prompt = good, .n_prompt = 1, .priority = -101}, RN_ERR_ARG, "-101"},
        {{.prompt = good, .n_prompt = 1, .n = -2}, RN_ERR_ARG, "-2"},
        {{.prompt = good, .n_prompt = 1, .n = 129}, RN_ERR_ARG, "129"},
        {{.prompt = good, .n_prompt = 1, .timeout_ms = -7}, RN_ERR_ARG, "-7"},
        {{.prompt = good, .n_prompt = 1, .timeout_ms = NAN}, RN_ERR_ARG, "nan"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rn_error err = {0};
        uint64_t id;
        const rn_status status = rn_engine_submit(engine, &bad[i].request, &id, &err);
        check(status == bad[i].status, "case %zu: status %d, %s", i, status, err.message);
        check(strstr(err.message, bad[i].names), "case %zu: '%s' does not name %s", i, err.message,
              bad[i].names);
    }
    rn_engine_destroy(engine);
}

CASE(bad_options_are_refused_with_the_value) {
    const struct {
        rn_engine_options options;
        const char *names;
    } bad[] = {
        {{.n_ctx = 1025}, "1025"},
        {{.n_ctx = -1}, "-1"},
        {{.kv_type = "f15"}, "f15"},
        {{.isa = "mmx"}, "mmx"},
        {{.backend = "abacus"}, "abacus"},
        {{.max_seqs = -4}, "-4"},
        {{.max_seqs = 8, .batch_tokens = 7}, "7"},
        {{.n_threads = -2}, "-2"},
        {{.max_waiting = -6}, "-6"},
        {{.itl_ms = -0.5}, "-0.5"},
        {{.itl_ms = NAN}, "nan"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rn_error err = {0};
        rn_engine *engine;
        const rn_status status = rn_engine_create(model, &bad[i].options, &engine, &err);
        check(status == RN_ERR_ARG, "case %zu: status %d, %s", i, status, err.message);
        check(strstr(err.message, bad[i].names), "case %zu: '%s' does not name %s", i, err.message,
              bad[i].names);
    }
}

CASE(a_full_queue_refuses_and_loses_nobody) {
    rn_engine *engine = new_engine(1, 0, 64);
    const int32_t prompt[] = {1};
    const rn_request request = {.prompt = prompt,
                                .n_prompt = 1,
                                .max_tokens = 1,
                                .ignore_eos = true};
    uint64_t id, last = 0;
    rn_status status;
    int accepted = 0, finished = 0;
    while ((status = rn_engine_submit(engine, &request, &id, NULL)) == RN_OK) {
        accepted++;
        last = id;
    }
    assert_int_equal(status, RN_ERR_FULL);
    assert_true(accepted >= 1000);
    rn_engine_cancel(engine, last);
    for (bool busy = true; busy;) {
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);)
            finished += event.finish != RN_FINISH_NONE;
    }
    assert_int_equal(finished, accepted);
    rn_engine_destroy(engine);
}

CASE(the_ledger_counts_weights_and_context) {
    struct stream r;
    const int32_t prompt[] = {1, 2, 3};
    rn_engine *engine = new_engine(1, 0, 0);
    rn_engine_info info;
    rn_engine_get_info(engine, &info);
    streams_run(engine,
                &(rn_request){.prompt = prompt,
                              .n_prompt = 3,
                              .max_tokens = 11,
                              .ignore_eos = true,
                              .draft_max = -1},
                &r);
    assert_int_equal(r.timings.decode_steps, 10);
    uint64_t context = 0; // the step that evaluates position p reads p + 1 positions
    for (int p = 3; p < 13; p++) context += (uint64_t)p + 1;
    assert_int_equal(r.timings.decode_bytes,
                     10 * info.weight_bytes + context * info.kv_token_bytes);
    rn_engine_destroy(engine);
}

CASE(every_number_has_a_text) {
    assert_string_equal(rn_finish_text(RN_FINISH_ERROR), "error");
    assert_string_equal(rn_finish_text((rn_finish)RN_FINISH_COUNT), "unknown");
    assert_string_equal(rn_finish_text((rn_finish)-1), "unknown");
    assert_string_equal(rn_cause_name(RN_CAUSE_NONE), "none");
    assert_string_equal(rn_cause_name(RN_CAUSE_HOST), "host");
    assert_string_equal(rn_cause_name((rn_cause)RN_CAUSE_COUNT), "unknown");
    assert_string_equal(rn_cause_name((rn_cause)-1), "unknown");
    for (int i = 0; i < RN_CAUSE_COUNT; i++)
        assert_string_not_equal(rn_cause_name((rn_cause)i), "unknown");
}

// Four times a token of that text, or until it ends the text.
static struct stream repeat(rn_engine *engine, const char *text, rn_request request) {
    static const int32_t prompt[] = {5, 6, 7};
    int32_t *ids;
    size_t n;
    struct stream r;
    assert_int_equal(rn_tokenize(model, text, strlen(text), RN_TOKENIZE_SPECIAL, &ids, &n, NULL),
                     RN_OK);
    assert_int_equal(n, 1);
    const rn_logit_bias bias = {.token = ids[0], .bias = 100};
    request.prompt = prompt;
    request.n_prompt = 3;
    request.max_tokens = 4;
    request.sampling.logit_bias = &bias;
    request.sampling.n_logit_bias = 1;
    streams_run(engine, &request, &r);
    for (int i = 0; i < r.n_ids; i++) assert_int_equal(r.ids[i], ids[0]);
    rn_free(ids);
    return r;
}

CASE(special_tokens_are_text_where_asked_for) {
    rn_engine *engine = new_engine(1, 0, 0);
    struct stream r = repeat(engine, "<|user|>", (rn_request){.special_text = true});
    assert_int_equal(r.n_text, 32);
    assert_memory_equal(r.text, "<|user|><|user|><|user|><|user|>", 32);
    r = repeat(engine, "<|user|>", (rn_request){0});
    assert_int_equal(r.n_ids, 4);
    assert_int_equal(r.n_text, 0);
    r = repeat(engine, "<|end|>", (rn_request){.special_text = true});
    assert_int_equal(r.n_ids, 1);
    assert_int_equal(r.n_text, 0); // it ended the text
    assert_int_equal(r.finish, RN_FINISH_STOP);
    r = repeat(engine, "<|end|>", (rn_request){.special_text = true, .ignore_eos = true});
    assert_int_equal(r.n_ids, 4);
    assert_memory_equal(r.text, "<|end|><|end|>", 14);
    r = repeat(engine, "<|end|>", (rn_request){.ignore_eos = true});
    assert_int_equal(r.n_ids, 4);
    assert_int_equal(r.n_text, 0);
    assert_int_equal(r.finish, RN_FINISH_LENGTH);
    rn_engine_destroy(engine);
}

struct stuck {
    rn_engine *engine;
    double step_ms[3]; // as seen from inside the step, one after the other
};

static void look_at_step(void *ctx, int position, const float *logits, int n_vocab) {
    (void)position, (void)logits, (void)n_vocab;
    struct stuck *stuck = ctx;
    for (int i = 0; i < 3; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
        stuck->step_ms[i] = streams_stats(stuck->engine).step_ms;
    }
}

CASE(a_step_that_takes_long_is_seen_to) {
    struct stream r;
    const int32_t prompt[] = {1};
    struct stuck stuck = {.engine = new_engine(1, 0, 0)};
    assert_true(streams_stats(stuck.engine).step_ms == 0);
    streams_submit(stuck.engine,
                   &(rn_request){.prompt = prompt,
                                 .n_prompt = 1,
                                 .prompt_only = true,
                                 .on_logits = look_at_step,
                                 .on_logits_ctx = &stuck},
                   &r);
    streams_drain(stuck.engine, &r, 1);
    assert_true(0 < stuck.step_ms[0]);
    assert_true(stuck.step_ms[0] < stuck.step_ms[1] && stuck.step_ms[1] < stuck.step_ms[2]);
    assert_true(streams_stats(stuck.engine).step_ms == 0);
    rn_engine_destroy(stuck.engine);
}

TEST_PROGRAM(engine) { return cases_run(open_model, close_model); }
