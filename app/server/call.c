// What handlers do with a call: read its body, refuse, answer. The connection's side is http.c's.
#include "call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "routes.h"
#include "tools.h"

static const char *error_type(enum call_api api, int status) {
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return api == API_ANTHROPIC ? "request_too_large" : "invalid_request_error";
    case 429:
        return "rate_limit_error";
    case 503:
        return api == API_ANTHROPIC ? "overloaded_error" : "unavailable_error";
    default:
        if (status < 500) return "invalid_request_error";
        return api == API_ANTHROPIC ? "api_error" : "server_error";
    }
}

void call_error_object(enum call_api api, int status, const char *param, const char *code,
                       const char *message, struct jbuf *out) {
    jbuf_text(out, api == API_ANTHROPIC ? "{\"type\":\"error\",\"error\":{\"type\":"
                                        : "{\"error\":{\"type\":");
    jbuf_cstring(out, error_type(api, status));
    jbuf_key(out, "message");
    jbuf_cstring(out, message);
    if (api == API_OPENAI) {
        jbuf_key(out, "param");
        jbuf_cstring(out, param);
        jbuf_key(out, "code");
        if (code) {
            jbuf_cstring(out, code);
        } else if (status == 503) { // as the peers' health checks have it
            jbuf_int(out, status);
        } else {
            jbuf_text(out, "null");
        }
    }
    jbuf_text(out, "}}");
}

// Whose form errors have where no route was found.
static enum call_api api_of_path(const char *path) {
    static const char anthropic[] = "/v1/messages";
    const size_t len = strlen(anthropic);
    const bool is_theirs = !strncmp(path, anthropic, len) && (!path[len] || path[len] == '/');
    return is_theirs ? API_ANTHROPIC : API_OPENAI;
}

static enum call_api api_of(const struct call *call) {
    if (call->route) return call->route->api;
    return call->io ? api_of_path(call_path(call)) : API_OPENAI;
}

bool call_refused(const struct call *call) { return call->status >= 400; }

bool call_refuse(struct call *call, int status, const char *param, const char *code,
                 const char *fmt, ...) {
    if (call_refused(call)) return false;
    char message[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    jbuf_clear(&call->out);
    call_error_object(api_of(call), status, param, code, message, &call->out);
    call->content_type = NULL;
    call->status = status;
    if ((status == 429 || status == 503) && !call->retry_after_s) call->retry_after_s = 1;
    return false;
}

bool call_refuse_error(struct call *call, const char *param, const rn_error *err) {
    const char *message = err->message;
    const char *path = err_path(call->server->info->path);
    const size_t len = strlen(path);
    if (len && !strncmp(message, path, len) && !strncmp(message + len, ": ", 2)) message += len + 2;
    if (err->status == RN_ERR_NOMEM)
        return call_refuse(call, 503, NULL, "out_of_memory", "out of memory");
    return call_refuse(call, 400, param, NULL, "%s: %s", param, message);
}

void call_answer(struct call *call) {
    if (call_refused(call)) return;
    if (call->out.failed) {
        call_refuse(call, 503, NULL, "out_of_memory", "out of memory");
        return;
    }
    call->status = 200;
}

// jansson goes on where there is no memory for a character, and takes what is left for the text or
// for bad syntax. State of a thread, because its allocator is told no more than a size.
static _Thread_local bool json_starved;

static void *json_allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) json_starved = true;
    return memory;
}

void call_json_init(void) { json_set_alloc_funcs(json_allocate, free); }

static json_t *body_load(struct call *call, json_error_t *problem) {
    json_starved = false;
    return json_loadb(call->body ? call->body : "", call->body_len,
                      JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, problem);
}

json_t *call_json(struct call *call) {
    if (call->json) return call->json;
    json_error_t problem;
    char path[256] = "";
    call->json = body_load(call, &problem);
    if (!call->json && json_error_code(&problem) == json_error_numeric_overflow) {
        call->has_big_seed = json_integers_fit(call->body, call->body_len, "seed", &call->big_seed);
        call->json = body_load(call, &problem);
    }
    if (call->json && !json_starved && json_is_object(call->json)) return call->json;
    if (json_starved) {
        call_refuse(call, 503, NULL, "out_of_memory", "out of memory");
    } else if (call->json) {
        call_refuse(call, 400, NULL, "invalid_type", "the body must be a JSON object");
    } else if (!*problem.text) { // jansson has no words for want of memory
        call_refuse(call, 503, NULL, "out_of_memory", "out of memory");
    } else {
        json_path_at(call->body ? call->body : "", call->body_len, (size_t)problem.position, path,
                     sizeof path);
        call_refuse(call, 400, *path ? path : NULL, "invalid_json",
                    "the body is not valid JSON: %s (at byte %d%s%s)", problem.text,
                    problem.position, *path ? ", in " : "", path);
    }
    json_decref(call->json);
    call->json = NULL;
    return NULL;
}
