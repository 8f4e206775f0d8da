// Whole answers that are too large for one piece. The memory that they keep is counted and bounded.
// Sent choice by choice, they are the same JSON in every framing.
// label: threads
#include <jansson.h>

#include "serve_watch.h"

enum { CHOICES = 12, TOKENS = 60 };

static char *large_body(int n, int max_tokens) {
    static char body[512];
    snprintf(body, sizeof body,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"go on\"}],\"n\":%d,\"max_tokens\":%d,"
             "\"ignore_eos\":true,\"logprobs\":true,\"top_logprobs\":20,\"temperature\":1,"
             "\"seed\":5}",
             n, max_tokens);
    return body;
}

static struct reply ask(const struct serve *serve, const char *version, const char *body) {
    return serve_finish(serve_ask(serve, version, "/v1/chat/completions", body, false));
}

// A request to tokenize, whose answer is far longer; to be freed.
static char *pieces_body(int n) {
    char *body = malloc((size_t)n * 4 + 256);
    assert_non_null(body);
    char *at = stpcpy(body, "{\"with_pieces\":true,\"content\":\"");
    for (int i = 0; i < n; i++) at = stpcpy(at, "a b ");
    strcpy(at, "\"}");
    return body;
}

// The answer's choices, to be given back.
static json_t *choices_of(const struct reply *reply) {
    json_error_t problem;
    json_t *json = json_loads(reply->body, JSON_ALLOW_NUL, &problem);
    check(json, "%s at %d of %zu bytes", problem.text, problem.position, strlen(reply->body));
    json_t *choices = json_incref(json_object_get(json, "choices"));
    assert_non_null(json_object_get(json, "usage"));
    assert_non_null(json_object_get(json, "timings"));
    json_decref(json);
    return choices;
}

CASE(large_answers_are_the_same_in_every_framing) {
    const struct serve *serve = *state;
    struct reply chunked = ask(serve, "HTTP/1.1", large_body(CHOICES, TOKENS));
    struct reply closed = ask(serve, "HTTP/1.0", large_body(CHOICES, TOKENS));
    assert_non_null(strstr(chunked.data, "\r\nTransfer-Encoding: chunked\r\n"));
    assert_non_null(strstr(chunked.data, "\r\nContent-Type: application/json"));
    assert_null(strstr(closed.data, "\r\nTransfer-Encoding"));
    assert_true(reply_dechunk(&chunked));
    json_t *a = choices_of(&chunked), *b = choices_of(&closed);
    assert_int_equal(json_array_size(a), CHOICES);
    assert_true(json_equal(a, b));
    for (size_t i = 0; i < CHOICES; i++) {
        const json_t *logprobs = json_object_get(json_array_get(a, i), "logprobs");
        check(json_array_size(json_object_get(logprobs, "content")) == TOKENS, "choice %zu", i);
    }
    json_decref(a);
    json_decref(b);
    reply_free(&chunked);
    reply_free(&closed);
    serve_expect_idle(serve);
}

CASE(an_answer_that_cannot_be_kept_is_refused_before_it_is_made) {
    struct serve serve;
    struct server_config config = serve_config();
    config.answer_bytes_max = 128 << 10;
    serve_start(&serve, &config);
    const double made = serve_gauge(&serve, "vllm:generation_tokens_total");
    struct reply reply = ask(&serve, "HTTP/1.1", large_body(CHOICES, TOKENS));
    check(reply.status == 413 && strstr(reply.body, "\"answer_too_large\""), "%s", reply.data);
    assert_non_null(strstr(reply.body, "at most 131072 are kept"));
    reply_free(&reply);
    assert_true(serve_gauge(&serve, "vllm:generation_tokens_total") == made);
    reply_expect(ask(&serve, "HTTP/1.1", large_body(1, TOKENS / 2)), 200, "");
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

// Readers that take nothing keep their answers; who comes then is told, and served when they go.
CASE(unread_answers_leave_no_room_for_others) {
    enum { READERS = 24 };
    struct serve serve;
    struct server_config config = serve_config();
    config.answer_bytes_max = 1 << 20;
    serve_start(&serve, &config);
    char *body = pieces_body(4000);
    int fd[READERS], refused = 0, served = 0;
    for (int i = 0; i < READERS; i++)
        fd[i] = serve_ask(&serve, "HTTP/1.1", "/tokenize", body, true);
    for (int i = 0; i < READERS; i++) {
        char head[12] = "";
        assert_true(recv(fd[i], head, sizeof head, MSG_PEEK | MSG_WAITALL) == sizeof head);
        refused += !memcmp(head, "HTTP/1.1 503", sizeof head);
        served += !memcmp(head, "HTTP/1.1 200", sizeof head);
    }
    check(refused > 0 && served > 0 && refused + served == READERS, "%d refused, %d served",
          refused, served);
    assert_true(serve_gauge(&serve, "runnel:http_answer_bytes") <= 1 << 20);
    for (int i = 0; i < READERS; i++) close(fd[i]);
    serve_await(&serve, "runnel:http_answer_bytes", 0);
    reply_expect(serve_post(&serve, "/tokenize", body), 200, "");
    free(body);
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

CASE(an_answer_larger_than_all_may_be_is_told) {
    struct serve serve;
    struct server_config config = serve_config();
    config.answer_bytes_max = 64 << 10;
    serve_start(&serve, &config);
    char *body = pieces_body(3000);
    reply_expect(serve_post(&serve, "/tokenize", body), 413, "\"answer_too_large\"");
    free(body);
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

TEST_PROGRAM(whole_answers) { return cases_run(serve_setup, serve_teardown); }
