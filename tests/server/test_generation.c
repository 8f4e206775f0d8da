// The common parts of all APIs, without their writers: the limits of prompts, the sums in
// `timings`, and requests that cannot run or may not continue.
// label: threads
#include <jansson.h>
#include <math.h>

#include "generation.h"
#include "serve_watch.h"

// A call of N choices, as it is after its end; nothing of it is owned.
struct ended {
    struct server server;
    struct served served;
    struct call call;
    struct generation generation;
    struct generation_prompt prompt[2];
    struct generation_choice choice[4];
};

static void ended_init(struct ended *ended) {
    *ended = (struct ended){.served = {.bandwidth = 1e9}};
    ended->call.server = &ended->server;
    ended->call.served = &ended->served;
    ended->call.generation = &ended->generation;
    ended->generation.prompt = ended->prompt;
    ended->generation.n_prompts = 2;
    ended->generation.choice = ended->choice;
    ended->generation.n_choices = 4;
    for (int i = 0; i < 4; i++) {
        ended->prompt[i / 2].n_ids = 100;
        ended->choice[i].prompt = i / 2;
        ended->choice[i].timings = (rn_timings){.prompt_tokens = 100,
                                                .output_tokens = 11,
                                                .cached_tokens = 64,
                                                .queue_ms = 1 + i,
                                                .prompt_ms = 10 + i,
                                                .ttft_ms = 20 + i,
                                                .decode_ms = 40,
                                                .decode_bytes = 1000000,
                                                .decode_steps = 10};
    }
}

static double timing_at(const json_t *root, const char *key) {
    const json_t *value = json_object_get(json_object_get(root, "timings"), key);
    check(json_is_number(value), "%s is no number", key);
    return json_number_value(value);
}

static json_t *timings_json(const struct ended *ended) {
    struct jbuf out = {0};
    jbuf_text(&out, "{");
    generation_timings(&ended->call, &out);
    jbuf_text(&out, "}");
    json_t *root = json_loadb(out.data, out.len, 0, NULL);
    check(root != NULL, "%.*s", (int)out.len, out.data);
    jbuf_deinit(&out);
    return root;
}

// A prompt is added once for all its choices; times of choices overlap, their bytes add up.
CASE(test_timings_are_sums_over_choices) {
    static const struct {
        const char *key;
        double value;
    } wanted[] = {
        {"cache_n", 128},
        {"prompt_n", 72},
        {"prompt_ms", 13},
        {"prompt_per_second", 5538.46},
        {"predicted_n", 44},
        {"predicted_ms", 40},
        {"predicted_per_second", 1000},
        {"predicted_per_token_ms", 1},
        {"ttft_ms", 23},
        {"queue_ms", 4},
        {"bytes_per_token", 100000},
        {"bandwidth_share", 0.1},
    };
    struct ended ended;
    ended_init(&ended);
    json_t *root = timings_json(&ended);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const double value = timing_at(root, wanted[i].key);
        check(fabs(value - wanted[i].value) < 0.01, "%s is %g, expected %g", wanted[i].key, value,
              wanted[i].value);
    }
    json_decref(root);
}

// A choice of 11 tokens in 4 steps after its first, beside one without drafts.
CASE(test_drafts_are_summed_and_bytes_are_those_of_a_token) {
    struct ended ended;
    ended_init(&ended);
    json_t *root = timings_json(&ended);
    assert_true(timing_at(root, "draft_n") == 0 && timing_at(root, "draft_n_accepted") == 0);
    assert_true(json_is_null(json_object_get(json_object_get(root, "timings"), "draft_speedup")));
    json_decref(root);
    ended.generation.n_choices = 2;
    for (int i = 0; i < 2; i++) ended.choice[i].timings.undrafted_ms = 40;
    ended.choice[0].timings.draft_tokens = 9;
    ended.choice[0].timings.accepted_tokens = 6;
    ended.choice[0].timings.decode_steps = 4;
    ended.choice[0].timings.undrafted_ms = 120;
    root = timings_json(&ended);
    assert_true(timing_at(root, "draft_n") == 9 && timing_at(root, "draft_n_accepted") == 6);
    assert_true(timing_at(root, "draft_speedup") == 2); // 160 ms became 80
    assert_true(timing_at(root, "bytes_per_token") == 100000);
    json_decref(root);
}

static int prompt_status(const struct serve *serve, int n_ids, int max_tokens) {
    char body[16384];
    int len = snprintf(body, sizeof body, "{\"max_tokens\":%d,\"prompt\":[", max_tokens);
    for (int i = 0; i < n_ids; i++) {
        len += snprintf(body + len, sizeof body - (size_t)len, i ? ",%d" : "%d", 10 + i % 50);
    }
    snprintf(body + len, sizeof body - (size_t)len, "]}");
    struct reply reply = serve_post(serve, "/v1/completions", body);
    const int status = reply.status;
    if (status == 400) check(strstr(reply.body, "context_length_exceeded"), "%.300s", reply.body);
    reply_free(&reply);
    return status;
}

CASE(test_a_prompt_leaves_room_for_the_first_token) {
    const struct serve *serve = *state;
    rn_engine_info info;
    rn_engine_get_info(serve->engine, &info);
    assert_int_equal(prompt_status(serve, info.n_ctx - 1, 5), 200);
    assert_int_equal(prompt_status(serve, info.n_ctx, 5), 400);
    assert_int_equal(prompt_status(serve, info.n_ctx, 0), 200);
    assert_int_equal(prompt_status(serve, info.n_ctx + 1, 0), 400);
}

// A reader that does not read keeps some of the 256 places.
CASE(test_a_list_that_does_not_fit_leaves_nothing_running) {
    struct serve serve;
    struct server_config config = serve_config();
    config.stream_bytes_max = 16 << 10;
    serve_start(&serve, &config);
    const int fd = serve_ask(&serve, "HTTP/1.1", "/v1/completions",
                             "{\"prompt\":[\"a\",\"b\",\"c\"],\"n\":80,\"max_tokens\":200,"
                             "\"ignore_eos\":true,\"logprobs\":20,\"stream\":true}",
                             false);
    while (serve_gauge(&serve, "runnel:choices_submitted") == 0) serve_sleep_ms(1);
    char list[1024] = "{\"n\":4,\"max_tokens\":200,\"prompt\":[\"a\"";
    for (int i = 1; i < 64; i++) strcat(list, ",\"b\"");
    strcat(list, "]}");
    reply_expect(serve_post(&serve, "/v1/completions", list), 429, "Retry-After:");
    close(fd);
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

CASE(test_a_stream_that_takes_too_long_says_so_and_its_connection_ends) {
    const struct serve *serve = *state;
    struct reply reply =
        serve_finish(serve_ask(serve, "HTTP/1.1", "/v1/completions",
                               "{\"prompt\":\"a\",\"stream\":true,\"timeout_ms\":0.001}", false));
    check(reply.status == 200 && strstr(reply.body, "data: {\"error\":") &&
              strstr(reply.body, "took longer") && !strstr(reply.body, "[DONE]"),
          "%.500s", reply.data);
    assert_true(reply.closed);
    reply_free(&reply);
    reply_expect(
        serve_post(serve, "/v1/completions", "{\"prompt\":\"a\",\"timeout_ms\":0.001}"), 504,
        "longer than its timeout_ms, or the server's --request-timeout, allows\",\"param\":"
        "null,\"code\":\"timeout\"");
    serve_expect_idle(serve);
}

TEST_PROGRAM(generation) { return cases_run(serve_setup, serve_teardown); }
