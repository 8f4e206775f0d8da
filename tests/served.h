// A server without sockets for tests of handlers: a model, its template, and calls made by hand.
#ifndef RN_TESTS_SERVED_H
#define RN_TESTS_SERVED_H

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "check.h"
#include "generation.h"

struct served {
    struct server server;
    rn_model *model;
    rn_chat_template *tmpl;
};

// The vocabulary alone: nothing can be evaluated with it.
static inline struct served *served_create(const char *path) {
    struct served *served = calloc(1, sizeof *served);
    rn_error err = {0};
    assert_non_null(served);
    check(rn_model_open_vocab(path, &served->model, &err) == RN_OK, "%s", err.message);
    check(rn_chat_template_create(served->model, NULL, &served->tmpl, &err) == RN_OK, "%s",
          err.message);
    struct server *server = &served->server;
    server->model = served->model;
    server->info = rn_model_get_info(served->model);
    server->tmpl = served->tmpl;
    server->tmpl_source = rn_model_chat_template(served->model);
    server->engine_info.n_ctx = 1024;
    server->engine_info.max_seqs = 4;
    server->engine_info.max_waiting = 64;
    server->config.model_name = "tale";
    server->config.sampling = rn_sampling_neutral();
    server->config.max_tokens = -1;
    atomic_init(&server->phase, PHASE_READY);
    return served;
}

static inline void served_destroy(struct served *served) {
    rn_chat_template_destroy(served->tmpl);
    rn_model_close(served->model);
    free(served);
}

static inline struct call *call_new(struct served *served, const char *body) {
    struct call *call = calloc(1, sizeof *call);
    assert_non_null(call);
    call->server = &served->server;
    call->body = strdup(body);
    call->body_len = strlen(body);
    return call;
}

static inline void call_free(struct call *call) {
    generation_destroy(call->generation);
    json_decref(call->json);
    jbuf_deinit(&call->out);
    free(call->body);
    free(call);
}

// The answer, to be given back with json_decref.
static inline json_t *call_answer_json(const struct call *call) {
    json_error_t problem = {0};
    json_t *json = json_loadb(call->out.data, call->out.len, JSON_DECODE_ANY, &problem);
    check(json, "'%.*s': %s", (int)call->out.len, call->out.data, problem.text);
    return json;
}

// The handler's answer, which must have this status; to be freed.
static inline json_t *served_answer(struct served *served, void (*handler)(struct call *call),
                                    const char *body, int status) {
    struct call *call = call_new(served, body);
    handler(call);
    check(call->status == status, "%.200s: status %d, expected %d: %.*s", body, call->status,
          status, (int)call->out.len, call->out.data ? call->out.data : "");
    json_t *json = call_answer_json(call);
    call_free(call);
    return json;
}

// The handler must refuse with 400, this param, and a message with this part.
static inline void expect_refused(struct served *served, void (*handler)(struct call *call),
                                  const char *body, const char *param, const char *part) {
    json_t *json = served_answer(served, handler, body, 400);
    const char *got = NULL, *message = NULL;
    check(json_unpack(json, "{s:{s:s,s?s}}", "error", "message", &message, "param", &got) == 0,
          "%.200s: not an error", body);
    check(got && !strcmp(got, param), "%.200s: param '%s', expected '%s' (%s)", body,
          got ? got : "null", param, message);
    check(strstr(message, part), "%.200s: '%s' lacks '%s'", body, message, part);
    json_decref(json);
}

// The answer must equal this JSON text.
static inline void expect_answer(struct served *served, void (*handler)(struct call *call),
                                 const char *body, const char *want) {
    json_t *json = served_answer(served, handler, body, 200);
    json_t *expected = json_loads(want, JSON_DECODE_ANY, NULL);
    check(expected, "%s is not JSON", want);
    char *got = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
    check(json_equal(json, expected), "%.200s gave %.500s, expected %s", body, got, want);
    free(got);
    json_decref(expected);
    json_decref(json);
}

#endif
