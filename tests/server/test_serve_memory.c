// Allocations of a running server, on all of its threads, are made to fail one after the other. The
// request gets a 503, an error at its stream's end or a closed connection, or does without.
// Complete answers are right and have their head. Nothing leaks or stays counted, and the next
// request works.
#include <jansson.h>
#include <stdatomic.h>

#include "failing_malloc.h"
#include "serve_watch.h"

struct request {
    const char *path, *body;
    bool stream;
};

static const struct request requests[] = {
    {"/v1/chat/completions",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"go on\"}],\"max_tokens\":8,"
     "\"ignore_eos\":true,\"stream\":true}",
     true},
    {"/v1/chat/completions",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"go on\"}],\"max_tokens\":8,\"stop\":\"zq\"}",
     false},
    {"/v1/completions",
     "{\"prompt\":\"go on\",\"n\":2,\"max_tokens\":4,\"logprobs\":2,\"stream\":true}", true},
    {"/v1/completions", "{\"prompt\":[\"a\",\"b\"],\"n\":2,\"max_tokens\":4,\"logprobs\":2}",
     false},
    {"/v1/embeddings", "{\"input\":[\"a b\",\"c\"]}", false},
    {"/v1/messages",
     "{\"model\":\"tiny\",\"max_tokens\":4,\"messages\":[{\"role\":\"user\",\"content\":\"go\"}]}",
     false},
    {"/v1/messages",
     "{\"model\":\"tiny\",\"max_tokens\":4,\"stream\":true,"
     "\"messages\":[{\"role\":\"user\",\"content\":\"go\"}]}",
     true},
    {"/v1/responses", "{\"model\":\"tiny\",\"max_output_tokens\":4,\"input\":\"go\"}", false},
    {"/completion", "{\"prompt\":\"go on\",\"n_predict\":4,\"stream\":true}", true},
    {"/tokenize", "{\"content\":\"go on\"}", false},
};
enum { REQUESTS = sizeof requests / sizeof *requests };

static struct reply ask(const struct serve *serve, const struct request *request) {
    return serve_finish(serve_ask(serve, "HTTP/1.1", request->path, request->body, false));
}

// The common part of two answers to one request; to be freed.
static char *answer_text(const struct request *request, struct reply *reply) {
    static const char *const differ[] = {
        "id",          "created", "timings", "created_at", "output", "usage", "generation_settings",
        "completed_at"};
    if (request->stream) return stream_text(reply->body);
    json_t *json = json_loads(reply->body, 0, NULL);
    check(json, "%s: not JSON: %s", request->path, reply->body);
    for (size_t i = 0; i < sizeof differ / sizeof *differ; i++) json_object_del(json, differ[i]);
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(json);
    assert_non_null(text);
    return text;
}

// Whether it is the answer; otherwise it is a refusal, or not all of an answer.
static bool reply_check(const struct request *request, struct reply *reply, long at,
                        const char *want) {
    check(reply->closed, "%s, allocation %ld: nothing ends: %.300s", request->path, at,
          reply->data);
    if (reply->status == 0) {
        check(!reply->len, "%s, allocation %ld: no head: %.300s", request->path, at, reply->data);
        return false;
    }
    if (reply->status != 200) {
        check(reply->status == 503 && reply_is_whole(reply) && strstr(reply->body, "out of memory"),
              "%s, allocation %ld: %s", request->path, at, reply->data);
        return false;
    }
    if (request->stream ? !reply_dechunk(reply) : !reply_is_whole(reply)) return false;
    if (request->stream && strstr(reply->body, "out of memory")) return false;
    char *text = answer_text(request, reply);
    check(!want || !strcmp(text, want), "%s, allocation %ld: %s\nexpected %s", request->path, at,
          text, want);
    free(text);
    return true;
}

static char *reference(const struct serve *serve, const struct request *request) {
    struct reply reply = ask(serve, request);
    check(reply_check(request, &reply, -1, NULL), "%s: %s", request->path, reply.data);
    char *text = answer_text(request, &reply);
    reply_free(&reply);
    return text;
}

static void fail_each(const struct serve *serve, const struct request *request) {
    char *want = reference(serve, request);
    int refused = 0;
    bool failed = true;
    for (long at = 0; failed; at++) {
        atomic_store(&fail_at, at);
        struct reply reply = ask(serve, request);
        failed = atomic_exchange(&fail_at, -1) < 0;
        refused += !reply_check(request, &reply, at, want);
        reply_free(&reply);
        if (at % 8) continue;
        char *after = reference(serve, request);
        assert_string_equal(after, want);
        free(after);
    }
    check(refused > 0, "%s: no allocation mattered", request->path);
    free(want);
}

CASE(test_each_failed_allocation_costs_one_request_at_most) {
    struct serve serve;
    struct server_config config = serve_config();
    config.connections_max = 8;
    config.keep_requests = 2; // soon full, so that what they take is constant
    config.keep_responses = 1;
    spared = true;
    serve_start(&serve, &config);
    for (int i = 0; i < REQUESTS; i++) free(reference(&serve, &requests[i]));
    serve_expect_idle(&serve);
    const long before = live;
    for (int i = 0; i < REQUESTS; i++) fail_each(&serve, &requests[i]);
    serve_expect_idle(&serve);
    for (int waited_ms = 0; live > before && waited_ms < 5000; waited_ms++) serve_sleep_ms(1);
    check(live <= before, "%ld blocks leak", live - before);
    serve_stop(&serve);
}

TEST_PROGRAM(serve_memory) { return cases_run(NULL, NULL); }
