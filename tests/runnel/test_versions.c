// Programs that were compiled with another version of the header: shorter and longer structs of the
// _sized calls. And the calls that spare a program work: defaults, a whole text in one call.
// label: threads
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "streams.h"
#include "tale.h"

// A struct of a later version: a member that we do not know behind ours.
#define LATER(type)                                                                                \
    struct {                                                                                       \
        type now;                                                                                  \
        uint64_t later;                                                                            \
    }

static const int32_t prompt[] = {5, 6, 7};
static const rn_request plain = {.prompt = prompt, .n_prompt = 3, .max_tokens = 4};

static void check_unknown(rn_status status, const rn_error *err, const char *name) {
    assert_int_equal(status, RN_ERR_ARG);
    check(strstr(err->message, "does not know") && strncmp(err->message, name, strlen(name)) == 0,
          "%s", err->message);
}

CASE(members_that_an_old_program_lacks_are_defaults) {
    rn_engine_options options;
    memset(&options, 0xA5, sizeof options); // a program of old has other things there
    const size_t size = offsetof(rn_engine_options, kv_bytes);
    memset(&options, 0, size);
    options.n_ctx = 64;
    options.n_threads = 1;
    rn_engine *engine;
    rn_error err = {0};
    check(rn_engine_create_sized(model, &options, size, &engine, &err) == RN_OK, "%s", err.message);
    rn_request request;
    memset(&request, 0xA5, sizeof request);
    memcpy(&request, &plain, offsetof(rn_request, stop));
    uint64_t id;
    check(rn_engine_submit_sized(engine, &request, offsetof(rn_request, stop), &id, &err) == RN_OK,
          "%s", err.message);
    // of events it knows the first members; those behind its array are not written
    enum { N = 32 };
    const size_t known = offsetof(rn_event, text);
    unsigned char event[N * sizeof(rn_event)];
    memset(event, 0x5A, sizeof event);
    int n_tokens = 0, n = 0;
    for (bool busy = true; busy;) {
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        while (rn_engine_next_event_sized(engine, (rn_event *)(void *)(event + n * known), known)) {
            rn_event seen = {0};
            memcpy(&seen, event + n * known, known);
            assert_int_equal(seen.request, id);
            n_tokens += seen.token >= 0;
            assert_true(++n < N);
        }
    }
    assert_int_equal(n_tokens, 4);
    for (size_t i = n * known; i < sizeof event; i++) assert_int_equal(event[i], 0x5A);
    rn_engine_destroy(engine);
}

CASE(results_are_as_long_as_the_program_knows_them) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_ctx = 64});
    struct stream stream;
    streams_run(engine, &plain, &stream);
    LATER(rn_engine_stats) stats;
    LATER(rn_engine_info) info;
    LATER(rn_memory_plan) plan;
    LATER(rn_step) step[3];
    rn_step own[3];
    stats.later = info.later = plan.later = step[0].later = 7;
    rn_engine_get_stats_sized(engine, &stats.now, sizeof stats);
    rn_engine_get_info_sized(engine, &info.now, sizeof info);
    assert_int_equal(rn_engine_plan_memory_sized(model, NULL, 0, &plan.now, sizeof plan, NULL),
                     RN_OK);
    const size_t n = rn_engine_steps_sized(engine, 0, &step[0].now, sizeof *step, 3);
    assert_int_equal(n, rn_engine_steps(engine, 0, own, 3));
    assert_true(n > 1);
    for (size_t i = 0; i < n; i++)
        assert_true(step[i].now.index == own[i].index && step[i].later == 0);
    assert_true(stats.later == 0 && info.later == 0 && plan.later == 0);
    assert_int_equal(stats.now.output_tokens, 4);
    assert_int_equal(info.now.n_ctx, 64);
    assert_true(plan.now.weight_bytes > 0);
    stats.now.output_tokens = 9;
    rn_engine_get_stats_sized(engine, &stats.now, offsetof(rn_engine_stats, output_tokens));
    assert_int_equal(stats.now.output_tokens, 9); // not written
    rn_engine_destroy(engine);
}

CASE(members_of_a_later_version_are_refused_unless_they_are_0) {
    rn_error err = {0};
    rn_engine *engine;
    LATER(rn_engine_options) options = {.now = {.n_threads = 1}, .later = 1};
    check_unknown(rn_engine_create_sized(model, &options.now, sizeof options, &engine, &err), &err,
                  "options");
    assert_null(engine);
    options.later = 0;
    check(rn_engine_create_sized(model, &options.now, sizeof options, &engine, &err) == RN_OK, "%s",
          err.message);
    uint64_t id;
    LATER(rn_request) request = {.now = plain, .later = 1};
    check_unknown(rn_engine_submit_sized(engine, &request.now, sizeof request, &id, &err), &err,
                  "request");
    request.later = 0;
    request.now.sampling.room[7] = 1;
    check_unknown(rn_engine_submit_sized(engine, &request.now, sizeof request, &id, &err), &err,
                  "sampling");
    request.now.sampling.room[7] = 0;
    request.now.reasoning.room[0] = 1;
    check_unknown(rn_engine_submit_sized(engine, &request.now, sizeof request, &id, &err), &err,
                  "reasoning");
    request.now.reasoning.room[0] = 0;
    check(rn_engine_submit_sized(engine, &request.now, sizeof request, &id, &err) == RN_OK, "%s",
          err.message);
    rn_engine_destroy(engine);
    rn_chat_template *tmpl;
    char *text;
    size_t len;
    assert_int_equal(rn_chat_template_create(model, "{{ tools is none }}", &tmpl, &err), RN_OK);
    LATER(rn_chat) chat = {.now = {.messages = "[]", .tools = "not JSON"}, .later = 1};
    check_unknown(rn_chat_render_sized(tmpl, &chat.now, sizeof chat, &text, &len, &err), &err,
                  "chat");
    assert_int_equal(rn_chat_render_sized(tmpl, &chat.now, offsetof(rn_chat, tools), &text, &len,
                                          &err),
                     RN_OK);
    assert_string_equal(text, "True");
    rn_free(text);
    rn_chat_template_destroy(tmpl);
}

// The engine's own thread hands events to a program with shorter ones.
CASE(an_old_program_waits_for_its_events) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_ctx = 64});
    uint64_t id;
    enum { N = 100, KNOWN = offsetof(rn_event, time_ns) };
    static _Alignas(rn_event) unsigned char event[N * KNOWN];
    assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
    assert_int_equal(rn_engine_submit(engine, &plain, &id, NULL), RN_OK);
    while (streams_stats(engine).lengthy == 0) // so that several events wait
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    int n_tokens = 0;
    for (bool last = false; !last;) {
        const int n = rn_engine_wait_sized(engine, (rn_event *)(void *)event, KNOWN, N, 20000);
        assert_in_range(n, 1, N);
        for (int i = 0; i < n; i++) {
            rn_event seen = {0};
            memcpy(&seen, event + i * KNOWN, KNOWN);
            assert_int_equal(seen.request, id);
            n_tokens += seen.token >= 0;
            last = last || seen.last;
        }
    }
    assert_int_equal(n_tokens, 4);
    rn_engine_destroy(engine);
}

// ---------------------------------------------------------------- defaults

CASE(the_library_says_its_version) { assert_string_equal(rn_version(), RN_VERSION); }

CASE(a_models_settings_are_a_sampling) {
    const rn_model_info *info = rn_model_get_info(model);
    const rn_sampling s = rn_sampling_defaults(model), neutral = rn_sampling_neutral();
    assert_true(s.temperature == info->temperature && s.top_p == info->top_p);
    assert_true(s.min_p == info->min_p && s.top_k == info->top_k);
    assert_true(s.repetition_penalty == info->repeat_penalty && !s.has_seed);
    assert_true(s.dry_base == neutral.dry_base && s.xtc_threshold == neutral.xtc_threshold);
}

CASE(a_request_of_zeros_writes_until_the_context_is_full) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_ctx = 40});
    struct stream stream;
    for (int max_tokens = -1; max_tokens <= 0; max_tokens++) {
        const rn_request request = {.prompt = prompt,
                                    .n_prompt = 3,
                                    .max_tokens = max_tokens,
                                    .ignore_eos = true};
        streams_run(engine, &request, &stream);
        assert_int_equal(stream.n_ids, 37);
        assert_int_equal(stream.finish, RN_FINISH_LENGTH);
    }
    rn_request none = plain;
    none.prompt_only = true;
    streams_run(engine, &none, &stream);
    assert_int_equal(stream.n_ids, 0);
    assert_int_equal(stream.finish, RN_FINISH_LENGTH);
    rn_engine_destroy(engine);
}

CASE(tokens_that_mean_something_are_known) {
    const int n_vocab = rn_model_get_info(model)->n_vocab;
    const int32_t eos = rn_token_eos(model), eot = rn_token_eot(model);
    assert_true(rn_token_is_end(model, eos) && rn_token_is_special(model, eos));
    size_t len;
    const char *text = rn_token_bytes(model, eot, &len);
    check(len == 7 && memcmp(text, "<|end|>", 7) == 0, "eot %d is '%.*s'", eot, (int)len, text);
    assert_int_equal(rn_token_pad(model), 0);
    assert_true(!rn_token_is_special(model, 300) && !rn_token_is_end(model, 300));
    assert_true(!rn_token_is_special(model, -1) && !rn_token_is_special(model, n_vocab));
    assert_true(!rn_token_is_end(model, -1) && !rn_token_is_end(model, n_vocab));
}

// ---------------------------------------------------------------- one call

CASE(a_text_in_one_call_is_that_of_a_request) {
    static const char start[] = "Once upon a time";
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_ctx = 128});
    rn_error err = {0};
    int32_t *ids;
    size_t n_ids, len;
    char *text;
    struct stream stream;
    assert_int_equal(rn_tokenize(model, start, strlen(start), RN_TOKENIZE_BOS, &ids, &n_ids, &err),
                     RN_OK);
    rn_request request = {.prompt = ids,
                          .n_prompt = n_ids,
                          .max_tokens = 30,
                          .sampling = rn_sampling_defaults(model)};
    request.sampling.has_seed = true;
    request.sampling.seed = 3;
    streams_run(engine, &request, &stream);
    request.prompt = NULL;
    request.n_prompt = 0;
    check(rn_complete(engine, start, &request, &text, &len, &err) == RN_OK, "%s", err.message);
    assert_int_equal(len, strlen(text));
    assert_int_equal(len, stream.n_text);
    assert_memory_equal(text, stream.text, len);
    rn_free(text);
    check(rn_complete(engine, start, NULL, &text, &len, &err) == RN_OK, "%s", err.message);
    assert_true(len > 0);
    rn_free(text);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
    rn_free(ids);
}

static void check_refused(rn_engine *engine, const rn_request *request, rn_status status,
                          const char *names) {
    rn_error err = {0};
    char *text = NULL;
    size_t len = 9;
    assert_int_equal(rn_complete(engine, "a b", request, &text, &len, &err), status);
    check(strstr(err.message, names) != NULL, "%s", err.message);
    assert_true(text == NULL && len == 0);
}

CASE(a_text_in_one_call_is_refused_with_the_reason) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_ctx = 40, .max_seqs = 2});
    uint64_t id;
    check_refused(engine, &(rn_request){.n = 2}, RN_ERR_ARG, "n is 2");
    check_refused(engine, &(rn_request){.pooling = RN_POOLING_MEAN}, RN_ERR_ARG, "pooling is 1");
    check_refused(engine, &(rn_request){.max_tokens = -5}, RN_ERR_ARG, "-5");
    check_refused(engine, &(rn_request){.timeout_ms = 1e-5}, RN_ERR_DEADLINE, "deadline");
    assert_int_equal(rn_engine_submit(engine, &plain, &id, NULL), RN_OK);
    check_refused(engine, NULL, RN_ERR_ARG, "other requests");
    struct stream stream = {.id = id};
    streams_drain(engine, &stream, 1);
    assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
    check_refused(engine, NULL, RN_ERR_ARG, "its own thread");
    rn_engine_destroy(engine);
}

TEST_PROGRAM(versions) { return cases_run(open_model, close_model); }
