// Kept responses and Ollama's streams over HTTP, with a real engine and two API keys.
// label: threads memory
#include "json_at.h"
#include "serve.h"

static const char *const keys[] = {"first-key", "second-key"};

static int setup(void **state) {
    struct server_config config = serve_config();
    config.keys = keys;
    config.n_keys = 2;
    config.keep_responses = 3;
    return serve_setup_with(state, &config);
}

static int stop(void **state) {
    json_kept_free();
    return serve_teardown(state);
}

// Sends a request as HTTP/1.0, which has no chunks.
static int ask_with(const struct serve *serve, int key, const char *method, const char *path,
                    const char *body) {
    char text[4096];
    const int len = snprintf(text, sizeof text,
                             "%s %s HTTP/1.0\r\nAuthorization: Bearer %s\r\nContent-Length: "
                             "%zu\r\n\r\n%s",
                             method, path, keys[key], strlen(body), body);
    check(len > 0 && (size_t)len < sizeof text, "%d", len);
    const int fd = serve_connect(serve);
    assert_true(serve_send(fd, text, (size_t)len));
    return fd;
}

// The same with ' for ". body NULL: none.
static int ask(const struct serve *serve, int key, const char *method, const char *path,
               const char *body) {
    char *quoted = json_quoted(body ? body : "");
    const int fd = ask_with(serve, key, method, path, quoted);
    free(quoted);
    return fd;
}

static const json_t *answer(const struct serve *serve, int key, const char *method,
                            const char *path, const char *body, int status) {
    struct reply reply = serve_finish(ask(serve, key, method, path, body));
    check(reply.status == status, "%s %s: %.300s", method, path, reply.data);
    const json_t *json = json_of(reply.body, strlen(reply.body));
    reply_free(&reply);
    return json;
}

#define ASKED "'max_output_tokens':40,'ignore_eos':true"

// The path of a response, with an ending.
static const char *path_of(const json_t *response, const char *ending, char out[128]) {
    snprintf(out, 128, "/v1/responses/%s%s", string_at(response, "id"), ending);
    return out;
}

static const json_t *turn(const struct serve *serve, const json_t *previous, const char *rest) {
    char body[512];
    snprintf(body, sizeof body, "{" ASKED ",'previous_response_id':'%s',%s}",
             string_at(previous, "id"), rest);
    return answer(serve, 0, "POST", "/v1/responses", body, 200);
}

// A turn evaluates its new tokens alone, and is the turn of a client that sends everything.
CASE(a_turn_continues_the_conversation_that_it_names) {
    const json_t *first =
        answer(*state, 0, "POST", "/v1/responses", "{" ASKED ",'input':'abc def'}", 200);
    const json_t *second = turn(*state, first, "'input':'ghi','instructions':null");
    json_t *body = json_keep(
        json_pack("{s:i,s:b,s:b,s:[{s:s,s:s},O,{s:s,s:s}]}", "max_output_tokens", 40, "ignore_eos",
                  1, "store", 0, "input", "role", "user", "content", "abc def",
                  json_array_get(at_path(first, "output"), 0), "role", "user", "content", "ghi"));
    char *text = json_dumps(body, 0);
    struct reply reply = serve_finish(ask_with(*state, 0, "POST", "/v1/responses", text));
    free(text);
    const json_t *whole = json_of(reply.body, strlen(reply.body));
    reply_free(&reply);
    check(json_equal(at_path(second, "usage.input_tokens"), at_path(whole, "usage.input_tokens")),
          "tokens");
    assert_string_equal(string_at(json_array_get(at_path(second, "output.0.content"), 0), "text"),
                        string_at(json_array_get(at_path(whole, "output.0.content"), 0), "text"));
    const json_int_t prompt = json_integer_value(at_path(first, "usage.input_tokens"));
    const json_int_t cached =
        json_integer_value(at_path(second, "usage.input_tokens_details.cached_tokens"));
    // the text of this model's answers has other tokens than the model wrote: only the prompt is
    // found
    check(cached >= prompt / 32 * 32 && cached > 0, "%lld of %lld", (long long)cached,
          (long long)prompt);
    assert_string_equal(string_at(second, "previous_response_id"), string_at(first, "id"));
    expect_json(second, "store", "true");
    expect_json(whole, "store", "false");
    char path[128];
    answer(*state, 0, "GET", path_of(whole, "", path), NULL, 404);
}

CASE(a_result_belongs_to_a_call_that_is_kept) {
    static const char result[] =
        "'input':[{'type':'function_call_output','call_id':'c','output':'e'}]";
    const json_t *first =
        answer(*state, 0, "POST", "/v1/responses",
               "{" ASKED ",'input':[{'role':'user','content':'d'},{'type':'function_call','call_id'"
               ":'c','name':'f','arguments':'{}'}]}",
               200);
    const json_t *second = turn(*state, first, result);
    turn(*state, second, result);
    const json_t *other =
        answer(*state, 0, "POST", "/v1/responses", "{" ASKED ",'input':'d'}", 200);
    char body[512];
    snprintf(body, sizeof body, "{" ASKED ",'previous_response_id':'%s',%s}",
             string_at(other, "id"), result);
    expect_json(answer(*state, 0, "POST", "/v1/responses", body, 400), "error.param",
                "'input[0].call_id'");
}

CASE(a_response_is_shown_as_it_was_sent_and_deleted) {
    const json_t *first =
        answer(*state, 0, "POST", "/v1/responses", "{" ASKED ",'input':'abc'}", 200);
    const json_t *second = turn(*state, first,
                                "'input':[{'type':'function_call','call_id':'c','name':'f','"
                                "arguments':'{}'},{'role':'user','content':'d'},{'type':"
                                "'function_call_output','call_id':'c','output':'e',"
                                "'id':'own'}]");
    char path[128];
    check(json_equal(answer(*state, 0, "GET", path_of(second, "", path), NULL, 200), second),
          "another response");
    const json_t *items =
        answer(*state, 0, "GET", path_of(second, "/input_items?order=asc", path), NULL, 200);
    assert_int_equal(json_array_size(at_path(items, "data")), 5); // two of the turn before it
    expect_json(json_array_get(at_path(items, "data"), 0), "content",
                "[{'type':'input_text','text':'abc'}]");
    expect_json(json_array_get(at_path(items, "data"), 1), "role", "'assistant'");
    expect_json(items, "last_id", "'own'");
    expect_json(items, "has_more", "false");
    const json_t *page = answer(*state, 0, "GET",
                                path_of(second, "/input_items?limit=2&after=own", path), NULL, 200);
    expect_json(json_array_get(at_path(page, "data"), 0), "content",
                "[{'type':'input_text','text':'d'}]");
    expect_json(page, "has_more", "true");
    answer(*state, 0, "GET", path_of(second, "/input_items?limit=0", path), NULL, 400);
    answer(*state, 0, "GET", path_of(second, "/input_items?order=up", path), NULL, 400);
    answer(*state, 0, "GET", path_of(second, "/input_items?after=none", path), NULL, 404);
    answer(*state, 0, "GET", path_of(second, "/nothing", path), NULL, 404);
    answer(*state, 0, "GET", path_of(second, "?stream=true", path), NULL, 400);
    expect_json(answer(*state, 0, "DELETE", path_of(first, "", path), NULL, 200), "deleted",
                "true");
    answer(*state, 0, "GET", path_of(first, "", path), NULL, 404);
    turn(*state, second, "'input':'f'"); // its conversation is still there
}

// Clients that know an item's id send that alone.
CASE(an_item_is_found_by_its_id) {
    const json_t *first =
        answer(*state, 0, "POST", "/v1/responses", "{" ASKED ",'input':'abc'}", 200);
    const json_t *output = json_array_get(at_path(first, "output"), 0);
    char body[512];
    snprintf(body, sizeof body,
             "{" ASKED ",'input':[{'role':'user','content':'abc'},{'type':'item_reference','id':"
             "'%s'},{'role':'user','content':'d'}]}",
             string_at(output, "id"));
    const json_t *by_id = answer(*state, 0, "POST", "/v1/responses", body, 200);
    const json_t *by_turn = turn(*state, first, "'input':'d'");
    check(json_equal(at_path(by_id, "usage.input_tokens"), at_path(by_turn, "usage.input_tokens")),
          "tokens");
    expect_json(answer(*state, 1, "POST", "/v1/responses", body, 404), "error.param", "'input'");
    const json_t *count = answer(*state, 0, "POST", "/v1/responses/input_tokens", body, 200);
    check(json_equal(at_path(count, "input_tokens"), at_path(by_id, "usage.input_tokens")),
          "counted");
}

CASE(a_response_is_not_cancelled) {
    const json_t *first =
        answer(*state, 0, "POST", "/v1/responses", "{" ASKED ",'input':'abc'}", 200);
    char path[128];
    const json_t *refusal = answer(*state, 0, "POST", path_of(first, "/cancel", path), "{}", 400);
    check(strstr(string_at(refusal, "error.message"), "Cannot cancel a synchronous response"),
          "why");
    answer(*state, 1, "POST", path_of(first, "/cancel", path), "{}", 404);
    answer(*state, 0, "POST", "/v1/responses/resp_x/cancel", "{}", 404);
    refusal = answer(*state, 0, "POST", "/v1/responses/compact", "{}", 404);
    check(strstr(string_at(refusal, "error.message"), "not compacted"), "what to do");
}

// ---------------------------------------------------------------- threads

#define SAID(text)                                                                                 \
    "'max_tokens':30,'ignore_eos':true,'messages':[{'role':'user','content':'" text "'}]"

static const json_t *thread_turn(const struct serve *serve, int key, const json_t *previous,
                                 int status) {
    char body[512];
    snprintf(body, sizeof body,
             "{" SAID("ghi") ",'thread':{'type':'continue','previous_message_id':'%s'}}",
             string_at(previous, "id"));
    return answer(serve, key, "POST", "/v1/messages?beta=true", body, status);
}

// A turn evaluates its new tokens alone, and is the turn of a client that sends everything.
CASE(a_thread_is_continued_by_its_key_and_once) {
    const json_t *first = answer(*state, 0, "POST", "/v1/messages",
                                 "{" SAID("abc def") ",'thread':{'type':'create'}}", 200);
    expect_json(thread_turn(*state, 1, first, 404), "error.details.error_code",
                "'thread_not_found'");
    const json_t *second = thread_turn(*state, 0, first, 200);
    json_t *body = json_keep(
        json_pack("{s:i,s:b,s:[{s:s,s:s},{s:s,s:O},{s:s,s:s}]}", "max_tokens", 30, "ignore_eos", 1,
                  "messages", "role", "user", "content", "abc def", "role", "assistant", "content",
                  at_path(first, "content"), "role", "user", "content", "ghi"));
    char *text = json_dumps(body, 0);
    struct reply reply = serve_finish(ask_with(*state, 0, "POST", "/v1/messages", text));
    free(text);
    const json_t *whole = json_of(reply.body, strlen(reply.body));
    reply_free(&reply);
    check(json_equal(at_path(second, "content"), at_path(whole, "content")), "another text");
    expect_json(thread_turn(*state, 0, first, 400), "error.details.error_code",
                "'thread_already_continued'");
    thread_turn(*state, 0, second, 200);
    char path[128];
    answer(*state, 0, "GET", path_of(first, "", path), NULL, 404);
}

CASE(another_key_finds_nothing) {
    const json_t *mine =
        answer(*state, 0, "POST", "/v1/responses", "{" ASKED ",'input':'abc'}", 200);
    char path[128], body[256];
    static const char *const methods[] = {"GET", "DELETE"};
    for (int i = 0; i < 2; i++)
        expect_json(answer(*state, 1, methods[i], path_of(mine, "", path), NULL, 404), "error.code",
                    "'response_not_found'");
    snprintf(body, sizeof body, "{'input':'a','previous_response_id':'%s'}", string_at(mine, "id"));
    const json_t *error = answer(*state, 1, "POST", "/v1/responses", body, 404);
    expect_json(error, "error.code", "'previous_response_not_found'");
    expect_json(error, "error.param", "'previous_response_id'");
    answer(*state, 0, "GET", path_of(mine, "", path), NULL, 200);
    for (int i = 0; i < 3; i++) // the table has three places
        answer(*state, 1, "POST", "/v1/responses", "{" ASKED ",'input':'abc'}", 200);
    answer(*state, 0, "GET", path_of(mine, "", path), NULL, 404);
}

// ---------------------------------------------------------------- Ollama's streams

#define CHAT                                                                                       \
    "{'messages':[{'role':'user','content':'abc'}],'ignore_eos':true,'options':{'num_"             \
    "predict':%d}}"

// The number of lines, each a JSON object, blanks before it or not. The last one ends the answer.
static int lines_check(const char *text) {
    int n = 0;
    const json_t *line = NULL;
    for (const char *end; *text; text = end + 1, n++) {
        end = strchr(text, '\n');
        check(end && end > text, "no line: %s", text);
        line = json_of(text, (size_t)(end - text));
    }
    expect_json(line, "done", "true");
    return n;
}

CASE(a_stream_is_lines_of_json) {
    char body[256];
    snprintf(body, sizeof body, CHAT, 12);
    struct reply reply = serve_finish(ask(*state, 0, "POST", "/api/chat", body));
    check(strstr(reply.data, "Content-Type: application/x-ndjson\r\n"), "%.400s", reply.data);
    assert_true(lines_check(reply.body) > 3);
    reply_free(&reply);
    reply = serve_finish(ask(*state, 0, "POST", "/api/show", "{'model':'none'}"));
    check(reply.status == 404 && strstr(reply.data, "application/json") &&
              strstr(reply.body, "{\"error\":\"model 'none' not found\"}"),
          "%.600s", reply.data);
    reply_free(&reply);
}

// Such a client is sent something, to see whether it is there: a blank, which is part of a line.
CASE(a_client_that_closed_its_side_gets_its_lines) {
    char body[256];
    snprintf(body, sizeof body, CHAT, 40);
    for (int i = 0; i < 10; i++) {
        const int fd = ask(*state, 0, "POST", "/api/chat", body);
        shutdown(fd, SHUT_WR);
        struct reply reply = serve_finish(fd);
        assert_true(lines_check(reply.body) > 3);
        reply_free(&reply);
    }
}

CASE(a_client_that_hangs_up_leaves_nothing) {
    char body[256];
    snprintf(body, sizeof body, CHAT, 500);
    for (int i = 0; i < 10; i++) close(ask(*state, 0, "POST", "/api/chat", body));
    bool idle = false;
    for (int i = 0; i < 3000 && !idle; i++) {
        struct reply reply = serve_finish(ask(*state, 0, "GET", "/metrics", NULL));
        idle = strstr(reply.data, "runnel:choices_submitted{model_name=\"tiny\",engine=\"0\"} 0\n");
        reply_free(&reply);
    }
    assert_true(idle);
}

TEST_PROGRAM(responses_http) { return cases_run(setup, stop); }
