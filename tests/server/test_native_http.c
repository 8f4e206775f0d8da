// The native routes over HTTP with a real engine: a stream has the content of the whole answer, and
// ends with its last object.
// label: threads memory
#include "json_at.h"
#include "serve.h"

static const json_t *parsed(struct reply reply, int status) {
    check(reply.status == status, "%.300s", reply.data);
    const json_t *json = json_of(reply.body, strlen(reply.body));
    reply_free(&reply);
    return json;
}

static const json_t *get(const struct serve *serve, const char *path) {
    return parsed(serve_get(serve, path), 200);
}

#define ASKED "{\"prompt\":[5,6,7],\"n_predict\":12,\"ignore_eos\":true,"

// The stream as HTTP/1.0, which has no chunks: the body is the events alone.
CASE(a_stream_says_what_an_answer_says) {
    const json_t *whole =
        parsed(serve_post(*state, "/completion", ASKED "\"return_tokens\":true}"), 200);
    struct reply reply =
        serve_finish(serve_ask(*state, "HTTP/1.0", "/completion", ASKED "\"stream\":true}", false));
    check(!strstr(reply.body, "[DONE]"), "native streams have no such end");
    json_t *tokens = json_keep(json_array());
    const json_t *last = NULL;
    char text[1024] = "";
    for (const char *at = reply.body, *end; *at; at = end + 2) {
        end = strstr(at, "\n\n");
        check(!strncmp(at, "data: ", 6) && end, "'%.60s' is no event", at);
        last = json_of(at + 6, (size_t)(end - at - 6));
        strcat(text, string_at(last, "content"));
        json_array_extend(tokens, at_path(last, "tokens"));
    }
    assert_string_equal(text, string_at(whole, "content"));
    check(json_equal(tokens, at_path(whole, "tokens")) && json_array_size(tokens) == 12,
          "%zu tokens", json_array_size(tokens));
    static const char *const same[] = {
        "stop", "stop_type", "tokens_predicted", "tokens_evaluated", "prompt", "has_new_line"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        check(json_equal(at_path(last, same[i]), at_path(whole, same[i])), "%s", same[i]);
    reply_free(&reply);
}

CASE(the_server_tells_about_itself) {
    expect_json(get(*state, "/props"), "total_slots", "4");
    assert_int_equal(json_array_size(get(*state, "/slots")), 4);
    get(*state, "/slots?fail_on_no_slot=1");
    get(*state, "/health/live");
}

CASE(nothing_of_a_bad_request_is_left_behind) {
    static const char *const cases[][2] = {
        {"/completion", "{\"prompt\":[99999999]}"},
        {"/completion", "{\"prompt\":[[[1]]]}"},
        {"/completion", "{"},
        {"/tokenize", "{\"content\":{}}"},
        {"/detokenize", "{\"tokens\":[-1]}"},
        {"/apply-template", "{\"messages\":{}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        parsed(serve_post(*state, cases[i][0], cases[i][1]), 400);
    serve_is_well(*state, "bad requests");
}

static int stop(void **state) {
    json_kept_free();
    return serve_teardown(state);
}

TEST_PROGRAM(native_http) { return cases_run(serve_setup, stop); }
