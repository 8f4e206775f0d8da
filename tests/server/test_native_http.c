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

// One vector for each text, as llama.cpp nests them.
CASE(embeddings_have_the_native_form) {
    const json_t *answer =
        parsed(serve_post(*state, "/embedding", "{\"content\":[[5,6],[7]]}"), 200);
    assert_int_equal(json_array_size(answer), 2);
    const json_t *own = at_path(answer, "1.embedding.0");
    const json_t *same = parsed(serve_post(*state, "/v1/embeddings", "{\"input\":[7]}"), 200);
    check(json_equal(own, at_path(same, "data.0.embedding")), "the same vector");
    const json_t *raw =
        parsed(serve_post(*state, "/embedding", "{\"content\":[7],\"embd_normalize\":-1}"), 200);
    check(!json_equal(at_path(raw, "0.embedding.0"), own), "its length is not 1");
    parsed(serve_post(*state, "/embedding", "{\"content\":[7],\"embd_normalize\":0}"), 400);
    // fields of texts mean nothing: with such a threshold a text would end before it starts
    const json_t *same_too = parsed(
        serve_post(*state, "/embedding",
                   "{\"content\":[7],\"cache_hit_threshold\":1,\"min_tokens\":3,\"id_slot\":999}"),
        200);
    check(json_equal(at_path(same_too, "0.embedding.0"), own), "fields of texts are ignored");
}

CASE(small_routes_of_peers_answer) {
    expect_json(get(*state, "/version"), "version", "'" RN_VERSION "'");
    expect_json(get(*state, "/load"), "server_load", "0");
    expect_json(get(*state, "/is_sleeping"), "is_sleeping", "false");
    assert_int_equal(json_array_size(get(*state, "/lora-adapters")), 0);
    get(*state, "/ping");
}

// They are named with the reason; the form of errors is that of the API.
CASE(routes_that_are_not_built_say_why) {
    const json_t *answer = parsed(serve_post(*state, "/v1/rerank", "{}"), 404);
    check(strstr(string_at(answer, "error.message"), "There is no /v1/rerank: reranking needs"),
          "%s", string_at(answer, "error.message"));
    answer = parsed(serve_post(*state, "/slots/0?action=save", "{\"filename\":\"a\"}"), 501);
    check(strstr(string_at(answer, "error.message"), "--page-store"), "slots");
    answer = parsed(serve_post(*state, "/v1/messages/batches", "{}"), 404);
    expect_json(answer, "type", "'error'");
    check(strstr(string_at(answer, "error.message"), "batches are not kept"), "batches");
    answer = parsed(serve_post(*state, "/rerankers", "{}"), 404);
    assert_string_equal(string_at(answer, "error.message"), "There is no /rerankers");
}

// In every choice, with drafts from the text so far.
CASE(allowed_tokens_are_the_only_ones) {
    const json_t *answer =
        parsed(serve_post(*state, "/completion",
                          ASKED "\"return_tokens\":true,\"n\":2,\"temperature\":2,"
                                "\"allowed_token_ids\":[9,70,200]}"),
               200);
    bool seen[3] = {0};
    for (size_t i = 0; i < 2; i++) {
        const json_t *tokens = at_path(json_array_get(answer, i), "tokens"), *token;
        size_t k;
        assert_int_equal(json_array_size(tokens), 12);
        json_array_foreach(tokens, k, token) {
            const json_int_t id = json_integer_value(token);
            check(id == 9 || id == 70 || id == 200, "token %lld", (long long)id);
            seen[id == 9 ? 0 : id == 70 ? 1 : 2] = true;
        }
    }
    check(seen[0] + seen[1] + seen[2] > 1, "there is a choice");
    parsed(serve_post(*state, "/completion", ASKED "\"allowed_token_ids\":[99999999]}"), 400);
    parsed(serve_post(*state, "/completion", ASKED "\"allowed_token_ids\":[]}"), 400);
    answer = parsed(serve_post(*state, "/completion",
                               ASKED "\"allowed_token_ids\":[9],\"logit_bias\":[[9,false]]}"),
                    400);
    assert_string_equal(string_at(answer, "error.message"),
                        "allowed_token_ids: none of [9] may come next");
    expect_json(answer, "error.param", "'allowed_token_ids'");
}

// A prompt that is cut is the prompt that its end alone is.
CASE(the_end_of_a_prompt_can_be_kept) {
    const json_t *cut =
        parsed(serve_post(*state, "/v1/completions",
                          "{\"prompt\":[5,6,7,8,9],\"max_tokens\":8,\"temperature\":0,"
                          "\"truncate_prompt_tokens\":3}"),
               200);
    const json_t *end = parsed(serve_post(*state, "/v1/completions",
                                          "{\"prompt\":[7,8,9],\"max_tokens\":8,"
                                          "\"temperature\":0,\"truncate_prompt_tokens\":9}"),
                               200);
    expect_json(cut, "usage.prompt_tokens", "3");
    check(json_equal(at_path(cut, "choices.0.text"), at_path(end, "choices.0.text")), "its text");
    static char body[16384] = "{\"max_tokens\":4,\"truncate_prompt_tokens\":-1,\"prompt\":[5";
    for (int i = 0; i < 3000; i++) strcat(body, ",6");
    strcat(body, "]}");
    parsed(serve_post(*state, "/v1/completions", body), 200);
    parsed(serve_post(*state, "/v1/completions",
                      "{\"prompt\":\"a\",\"truncate_prompt_tokens\":-2}"),
           400);
}

static int stop(void **state) {
    json_kept_free();
    return serve_teardown(state);
}

TEST_PROGRAM(native_http) { return cases_run(serve_setup, stop); }
