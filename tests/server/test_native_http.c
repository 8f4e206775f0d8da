// The native routes over HTTP with a real engine: a stream has the content of the whole answer, and
// ends with its last object.
// label: threads memory
#include "serve.h"

#include <jansson.h>

static int start(void **state) {
    static struct serve serve;
    const struct server_config config = serve_config();
    serve_start(&serve, &config);
    *state = &serve;
    return 0;
}

static int stop(void **state) {
    serve_stop(*state);
    return 0;
}

static json_t *json_of(const struct reply *reply, int status) {
    check(reply->status == status, "%.300s", reply->data);
    json_t *json = json_loads(reply->body, 0, NULL);
    check(json, "%.300s", reply->body);
    return json;
}

static json_t *post(const struct serve *serve, const char *path, const char *body, int status) {
    struct reply reply = serve_post(serve, path, body);
    json_t *json = json_of(&reply, status);
    reply_free(&reply);
    return json;
}

static json_t *get(const struct serve *serve, const char *path, int status) {
    char text[128];
    const int len = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    struct reply reply = serve_exchange(serve, text, (size_t)len);
    json_t *json = json_of(&reply, status);
    reply_free(&reply);
    return json;
}

// As HTTP/1.0, which has no chunks: the body is the events alone.
static struct reply stream(const struct serve *serve, const char *body) {
    char text[512];
    const int len = snprintf(text, sizeof text,
                             "POST /completion HTTP/1.0\r\nHost: localhost\r\n"
                             "Content-Length: %zu\r\n\r\n%s",
                             strlen(body), body);
    const int fd = serve_connect(serve);
    serve_send(fd, text, (size_t)len);
    const struct reply reply = serve_receive(fd, true, SERVE_PATIENCE_MS);
    close(fd);
    return reply;
}

static void a_stream_says_what_an_answer_says(void **state) {
    json_t *whole = post(*state, "/completion",
                         "{\"prompt\":[5,6,7],\"n_predict\":12,\"ignore_eos\":true,"
                         "\"return_tokens\":true}",
                         200);
    struct reply reply = stream(*state, "{\"prompt\":[5,6,7],\"n_predict\":12,\"ignore_eos\":true,"
                                        "\"stream\":true}");
    check(!strstr(reply.body, "[DONE]"), "native streams have no such end");
    json_t *tokens = json_array(), *last = NULL;
    char text[1024] = "";
    for (const char *at = reply.body; *at; at = strstr(at, "\n\n") + 2) {
        check(!strncmp(at, "data: ", 6) && strstr(at, "\n\n"), "'%.60s' is no event", at);
        json_decref(last);
        last = json_loads(at + 6, JSON_DISABLE_EOF_CHECK, NULL);
        check(last, "'%.60s'", at);
        strcat(text, json_string_value(json_object_get(last, "content")));
        json_array_extend(tokens, json_object_get(last, "tokens"));
    }
    check(!strcmp(text, json_string_value(json_object_get(whole, "content"))), "'%s'", text);
    check(json_equal(tokens, json_object_get(whole, "tokens")) && json_array_size(tokens) == 12,
          "%zu tokens", json_array_size(tokens));
    static const char *const same[] = {
        "stop", "stop_type", "tokens_predicted", "tokens_evaluated", "prompt", "has_new_line"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        check(json_equal(json_object_get(last, same[i]), json_object_get(whole, same[i])), "%s",
              same[i]);
    json_decref(last);
    json_decref(tokens);
    json_decref(whole);
    reply_free(&reply);
}

static void the_server_tells_about_itself(void **state) {
    json_t *props = get(*state, "/props", 200), *slots = get(*state, "/slots", 200);
    check(json_integer_value(json_object_get(props, "total_slots")) == 4, "total_slots");
    check(json_array_size(slots) == 4, "%zu slots", json_array_size(slots));
    json_decref(props);
    json_decref(slots);
    json_decref(get(*state, "/slots?fail_on_no_slot=1", 200));
    json_decref(get(*state, "/health/live", 200));
}

static void nothing_of_a_bad_request_is_left_behind(void **state) {
    static const char *const cases[][2] = {
        {"/completion", "{\"prompt\":[99999999]}"},
        {"/completion", "{\"prompt\":[[[1]]]}"},
        {"/completion", "{"},
        {"/tokenize", "{\"content\":{}}"},
        {"/detokenize", "{\"tokens\":[-1]}"},
        {"/apply-template", "{\"messages\":{}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        json_decref(post(*state, cases[i][0], cases[i][1], 400));
    serve_is_well(*state, "bad requests");
}

TEST_PROGRAM(native_http) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_says_what_an_answer_says),
        cmocka_unit_test(the_server_tells_about_itself),
        cmocka_unit_test(nothing_of_a_bad_request_is_left_behind),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
