// /inference/v1/generate over HTTP with a real engine: the tokens are those of /completion, and a
// stream has those of the whole answer. A rendered request gives what its own endpoint gives. The
// id of a router's request comes back and finds the record.
// label: threads memory
#include "json_at.h"
#include "runnel_model.h"
#include "serve.h"

static const json_t *parsed(struct reply reply, int status) {
    check(reply.status == status, "%.300s", reply.data);
    const json_t *json = json_of(reply.body, strlen(reply.body));
    reply_free(&reply);
    return json;
}

#define ASKED  "{\"token_ids\":[5,6,7],\"sampling_params\":{\"max_tokens\":12,\"ignore_eos\":true"
#define NATIVE "{\"prompt\":[5,6,7],\"n_predict\":12,\"ignore_eos\":true,\"return_tokens\":true}"
#define PATH   "/inference/v1/generate"

CASE(the_tokens_are_those_of_a_completion) {
    const json_t *want = parsed(serve_post(*state, "/completion", NATIVE), 200);
    const json_t *got = parsed(serve_post(*state, PATH, ASKED "}}"), 200);
    check(json_equal(at_path(got, "choices.0.token_ids"), at_path(want, "tokens")), "other tokens");
    expect_json(got, "choices.0.finish_reason", "\"length\"");
    expect_json(got, "choices.0.logprobs", "null");
    expect_json(got, "usage.prompt_tokens", "3");
    expect_json(got, "usage.completion_tokens", "12");
    expect_json(got, "model", "\"tiny\"");
    check(!strncmp(string_at(got, "request_id"), "generate-tokens-", 16), "%s",
          string_at(got, "request_id"));
}

CASE(logprobs_name_tokens_by_their_ids) {
    const json_t *got =
        parsed(serve_post(*state, PATH, ASKED ",\"logprobs\":2,\"prompt_logprobs\":0}}"), 200);
    assert_int_equal(size_at(got, "choices.0.logprobs.content"), 12);
    assert_int_equal(size_at(got, "choices.0.logprobs.content.3.top_logprobs"), 2);
    char want[32];
    snprintf(want, sizeof want, "\"token_id:%d\"",
             (int)json_integer_value(at_path(got, "choices.0.token_ids.3")));
    expect_json(got, "choices.0.logprobs.content.3.token", want);
    assert_int_equal(size_at(got, "prompt_logprobs"), 3);
}

// Each token has a chunk of its own; the last one says how it ended.
static void stream_check(void **state, const char *body, const json_t *whole, int n_choices) {
    struct reply reply = serve_finish(serve_ask(*state, "HTTP/1.0", PATH, body, false));
    json_t *tokens[2] = {json_keep(json_array()), json_keep(json_array())};
    int n_finished = 0, n_chunks = 0;
    const json_t *last = NULL;
    for (const char *at = reply.body, *end; *at; at = end + 2) {
        end = strstr(at, "\n\n");
        check(!strncmp(at, "data: ", 6) && end, "'%.60s' is no event", at);
        if (!strncmp(at, "data: [DONE]", 12)) break;
        last = json_of(at + 6, (size_t)(end - at - 6));
        if (!size_at(last, "choices")) break; // the usage
        const int index = (int)json_integer_value(at_path(last, "choices.0.index"));
        json_array_extend(tokens[index], at_path(last, "choices.0.token_ids"));
        n_finished += !json_is_null(at_path(last, "choices.0.finish_reason"));
        n_chunks++;
    }
    for (int i = 0; i < n_choices; i++) {
        char path[32];
        snprintf(path, sizeof path, "choices.%d.token_ids", i);
        check(json_equal(tokens[i], at_path(whole, path)), "choice %d", i);
    }
    check(n_finished == n_choices && n_chunks == 12 * n_choices, "%d ends, %d chunks", n_finished,
          n_chunks);
    expect_json(last, "usage.completion_tokens", n_choices == 1 ? "12" : "24");
    check(strstr(reply.body, "data: [DONE]\n\n"), "no end");
    reply_free(&reply);
}

CASE(a_stream_has_the_tokens_of_an_answer) {
    const json_t *whole = parsed(serve_post(*state, PATH, ASKED "}}"), 200);
    stream_check(state, ASKED "},\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
                 whole, 1);
#define TWO ASKED ",\"n\":2,\"temperature\":1,\"seed\":3}"
    whole = parsed(serve_post(*state, PATH, TWO "}"), 200);
    stream_check(state, TWO ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}", whole,
                 2);
}

// The tokens of a request whose settings have this seed. beside: members of the body before them.
static const json_t *seeded(const struct serve *serve, const char *beside, const char *seed) {
    char body[256];
    snprintf(body, sizeof body, "{%s%s,\"temperature\":1,\"seed\":%s}}", beside, &ASKED[1], seed);
    return at_path(parsed(serve_post(serve, PATH, body), 200), "choices.0.token_ids");
}

CASE(a_seed_is_exact_and_that_of_the_settings) {
    static const struct {
        const char *beside, *seed, *same; // same: the 64 bits of the seed with a sign
    } cases[] = {
        {"", "12345678901234567891", "-6101065172474983725"}, // no double
        {"\"seed\":12345678901234567890,", "12345678901234567891", "-6101065172474983725"},
        {"\"seed\":12345678901234567891,", "3", "3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const json_t *got = seeded(*state, cases[i].beside, cases[i].seed);
        check(json_equal(got, seeded(*state, "", cases[i].same)), "case %zu: other tokens", i);
    }
    parsed(serve_post(*state, PATH, ASKED ",\"seed\":18446744073709551615}}"), 200);
    const json_t *answer =
        parsed(serve_post(*state, PATH, ASKED ",\"seed\":-9223372036854775809}}"), 400);
    check(strstr(string_at(answer, "error.message"), "-9223372036854775809 is not between"), "%s",
          string_at(answer, "error.message"));
}

CASE(a_rendered_request_gives_the_same_text) {
    static const char body[] =
        "{\"prompt\":\"Once upon\",\"max_tokens\":9,\"temperature\":1,\"seed\":4}";
    const json_t *want = parsed(serve_post(*state, "/v1/completions", body), 200);
    const json_t *list = parsed(serve_post(*state, "/v1/completions/render", body), 200);
    char *again = json_dumps(json_array_get(list, 0), JSON_COMPACT);
    const json_t *got = parsed(serve_post(*state, PATH, again), 200);
    free(again);
    json_t *ids = json_keep(json_pack("{s:O}", "tokens", at_path(got, "choices.0.token_ids")));
    char *text = json_dumps(ids, JSON_COMPACT);
    const json_t *detokenized = parsed(serve_post(*state, "/detokenize", text), 200);
    free(text);
    const char *wanted = string_at(want, "choices.0.text");
    // an end token is among the ids and not in the text
    check(!strncmp(string_at(detokenized, "content"), wanted, strlen(wanted)), "'%s', not '%s'",
          string_at(detokenized, "content"), wanted);
}

CASE(the_id_of_a_request_comes_back_and_finds_its_record) {
    static const char body[] = "{\"token_ids\":[5,6],\"sampling_params\":{\"max_tokens\":2}}";
    char text[512];
    const int len = snprintf(text, sizeof text,
                             "POST " PATH " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                             "X-Request-Id: router-77\r\nContent-Length: %zu\r\n\r\n%s",
                             strlen(body), body);
    struct reply reply = serve_exchange(*state, text, (size_t)len);
    check(strstr(reply.data, "X-Request-Id: router-77\r\n"), "%.400s", reply.data);
    expect_json(json_of(reply.body, strlen(reply.body)), "request_id",
                "\"generate-tokens-router-77\"");
    reply_free(&reply);
    const json_t *record = parsed(serve_get(*state, "/requests/router-77/trace"), 200);
    expect_json(record, "x_request_id", "\"router-77\"");
    expect_json(parsed(serve_get(*state, "/requests"), 200), "requests.0.x_request_id",
                "\"router-77\"");
    parsed(serve_get(*state, "/requests/router-78/trace"), 404);
}

// ---------------------------------------------------------------- bounds on time

static struct reply ask_with(const struct serve *serve, const char *header, const char *body) {
    char text[1024];
    const int len = snprintf(text, sizeof text,
                             "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: "
                             "close\r\n%s\r\nContent-Length: %zu\r\n\r\n%s",
                             header, strlen(body), body);
    const int fd = serve_connect(serve);
    serve_send(fd, text, (size_t)len);
    return serve_finish(fd);
}

// The engine's prices, as of a machine that takes minutes for a step. The engine is idle: its last
// step learned soon after its events went out.
static void price_scale(const struct serve *serve, double factor) {
    struct price *price = &serve->engine->engine.price;
    usleep(20000);
    for (int i = 0; i < PRICE_BUCKETS; i++) price->bucket[i].ns *= factor;
    for (int i = 0; i < price->n_point; i++) price->point[i].ns *= factor;
    price->ns_per_byte *= factor;
    price->ns_per_flop *= factor;
}

#define BOUNDED "{\"prompt\":[9,8,7,6,5],\"max_tokens\":4,\"ignore_eos\":true"

CASE(a_bound_that_cannot_be_kept_is_refused_with_its_numbers) {
#ifdef __SANITIZE_THREAD__
    skip(); // the test writes prices of the step's thread, between two steps
#endif
    static const char *const bodies[] = {BOUNDED "}", BOUNDED ",\"stream\":true}"};
    for (int i = 0; i < 2; i++) {
        reply_expect(ask_with(*state, "x-slo-ttft-ms: 600000", bodies[i]), 200, "\"length\"");
        price_scale(*state, 1e7);
        struct reply reply = ask_with(*state, "x-llm-d-slo-ttft-ms: 50", bodies[i]);
        check(reply.status == 429 && strstr(reply.data, "Retry-After: "), "%.300s", reply.data);
        check(strstr(reply.data, "slo_unmet") && strstr(reply.data, "not within 50 ms"), "%.600s",
              reply.data);
        reply_free(&reply);
        reply_expect(ask_with(*state, "x-llm-d-slo-tpot-ms: 3", bodies[i]), 429, "not every 3 ms");
        price_scale(*state, 1e-7);
    }
    reply_expect(ask_with(*state, "x-llm-d-slo-ttft-ms: soon", bodies[0]), 400, "'soon'");
    reply_expect(ask_with(*state, "x-slo-tpot-ms: 0", bodies[0]), 400,
                 "\"x-slo-tpot-ms: '0' is no number of ms");
    serve_is_well(*state, "bounds");
}

// Its first token is its last one, so it has ended when its head is written.
CASE(a_short_stream_with_a_bound_is_a_stream) {
    struct reply reply =
        ask_with(*state, "x-llm-d-slo-ttft-ms: 600000",
                 "{\"prompt\":[9,8],\"max_tokens\":1,\"ignore_eos\":true,\"stream\":true}");
    check(reply.status == 200 && strstr(reply.data, "Content-Type: text/event-stream") &&
              strstr(reply.data, "data: [DONE]"),
          "%.600s", reply.data);
    reply_free(&reply);
}

CASE(a_prompt_that_is_not_cached_is_handed_back) {
    char body[1024] = "{\"prompt\":[11", *end = body + strlen(body);
    for (int i = 0; i < 70; i++) end += sprintf(end, ",%d", 12 + i);
    sprintf(end, "],\"max_tokens\":2,\"cache_hit_threshold\":0.8}");
    struct reply reply = serve_post(*state, "/v1/completions", body);
    check(reply.status == 200 && strstr(reply.body, "\"finish_reason\":\"cache_threshold\"") &&
              strstr(reply.body, "\"text\":\"\""),
          "%.400s", reply.data);
    reply_free(&reply);
    sprintf(end, "],\"max_tokens\":2,\"cache_hit_threshold\":0.8,\"stream\":true}");
    reply = serve_post(*state, "/v1/completions", body);
    check(strstr(reply.data, "\"finish_reason\":\"cache_threshold\""), "%.600s", reply.data);
    reply_free(&reply);
    sprintf(end, "],\"max_tokens\":1}"); // as the replica that evaluates prompts does
    reply_free((struct reply[]){serve_post(*state, "/v1/completions", body)});
    sprintf(end, "],\"max_tokens\":2,\"ignore_eos\":true,\"cache_hit_threshold\":0.8}");
    reply_expect(serve_post(*state, "/v1/completions", body), 200, "\"finish_reason\":\"length\"");
}

static int stop(void **state) {
    json_kept_free();
    return serve_teardown(state);
}

TEST_PROGRAM(generate_http) { return cases_run(serve_setup, stop); }
