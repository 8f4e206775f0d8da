// Reading a request: the checks of its head before anything else happens, and its body within the
// limits. A refusal is an answer in call->out; conn.c sends it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conn.h"
#include "gate.h"
#include "helpers.h"
#include "otlp_span.h"
#include "routes.h"
#include "routing.h"

// ---------------------------------------------------------------- the head

bool request_phase(struct call *call) {
    const int phase = atomic_load(&call->server->phase);
    if (phase == PHASE_READY || call->route->always) return true;
    return call_refuse(call, 503, NULL, NULL, "%s",
                       phase == PHASE_LOADING ? "Loading model" : "Draining");
}

// Beyond the limit of connections, only the routes that always answer do.
static bool place_check(struct call *call, bool too_many) {
    if (!too_many) return true;
    call->close_after = true;
    if (call->route && call->route->always) return true;
    return call_refuse(call, 503, NULL, "connections_full",
                       "The server has as many connections as it takes, %d",
                       call->server->config.connections_max);
}

// The path without a doubled slash or one at its end.
static bool path_tidy(const char *path, char *out, size_t size) {
    size_t len = 0;
    for (; *path; path++) {
        if (*path == '/' && len && out[len - 1] == '/') continue;
        if (len + 1 >= size) return false;
        out[len++] = *path;
    }
    while (len > 1 && out[len - 1] == '/') len--;
    out[len] = '\0';
    return true;
}

// The path that was meant, where a base URL has a slash, or a folder such as /v1, too many or too
// few. False: none is near.
static bool path_near(const char *path, char *out, size_t size) {
    char tidy[128], longer[sizeof tidy + 3];
    if (!path_tidy(path, tidy, sizeof tidy)) return false;
    const char *rest = strchr(tidy + 1, '/');
    snprintf(longer, sizeof longer, "/v1%s", tidy);
    const char *const candidates[] = {tidy, longer, rest ? rest : ""};
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        if (strlen(candidates[i]) < 2 || !route_path(candidates[i])) continue;
        unicode_quote(candidates[i], strlen(candidates[i]), out, size);
        return true;
    }
    return false;
}

static bool route_check(struct call *call) {
    if (call->route) return true;
    if (call->allow[0]) {
        return call_refuse(call, 405, NULL, "method_not_allowed", "%s takes %s, not %s", call->path,
                           call->allow, head_method(&call->head));
    }
    char shown[128], near[128];
    const char *why = route_absent(call->path);
    unicode_quote(call->path, strlen(call->path), shown, sizeof shown);
    if (why) return call_refuse(call, 404, NULL, "not_found", "There is no %s: %s", shown, why);
    if (path_near(call->path, near, sizeof near))
        return call_refuse(call, 404, NULL, "not_found", "There is no %s; did you mean %s?", shown,
                           near);
    return call_refuse(call, 404, NULL, "not_found", "There is no %s", shown);
}

// Without a key, unknown and known paths get the same answer.
static bool key_check(struct call *call) {
    if (call->route && call->route->access == ROUTE_OPEN) return true;
    const char *key = call_header(call, "x-api-key");
    if (gate_key(&call->server->config, call_header(call, "Authorization"),
                 key ? key : call_header(call, "api-key"), &call->owner))
        return true;
    return call_refuse(call, 401, NULL, "invalid_api_key",
                       "A valid API key is needed: 'Authorization: Bearer KEY'");
}

// The name by which the client reached us: the name in an absolute target takes precedence over
// Host.
static const char *host_of(const struct call *call, char *named, size_t size) {
    const char *target = head_target(&call->head);
    const char *name = *target == '/' ? NULL : strstr(target, "://");
    if (!name) return call_header(call, "Host");
    snprintf(named, size, "%.*s", (int)strcspn(name + 3, "/?"), name + 3);
    return named;
}

static bool origin_check(struct call *call) {
    const struct server_config *config = &call->server->config;
    char named[300];
    const char *host = host_of(call, named, sizeof named);
    char shown[128];
    if (!gate_host(config, host)) {
        unicode_quote(host, strlen(host), shown, sizeof shown);
        return call_refuse(call, 403, NULL, "host_not_allowed",
                           "The Host header, %s, names no host of this server; --allow-host adds "
                           "one",
                           shown);
    }
    const char *origin = call_header(call, "Origin");
    if (!gate_origin(config, origin, host, &call->cors)) {
        call->cors = false;
        unicode_quote(origin, strlen(origin), shown, sizeof shown);
        return call_refuse(call, 403, NULL, "origin_not_allowed",
                           "Pages of the origin %s may not call; --cors-origin adds one", shown);
    }
    return true;
}

static bool size_check(struct call *call) {
    const uint64_t bytes = call->head.length;
    if (bytes <= call->server->config.body_bytes_max) return true;
    return call_refuse(call, 413, NULL, "body_too_large",
                       "The body has %llu bytes, at most %zu are taken", (unsigned long long)bytes,
                       call->server->config.body_bytes_max);
}

// Some clients name the charset here, which is no coding: such a body is plain.
static bool coding_is_plain(const char *coding, size_t len) {
    static const char *const plain[] = {"identity", "utf-8", "utf8"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (len == strlen(plain[i]) && !strncasecmp(coding, plain[i], len)) return true;
    return false;
}

// The first coding of a Content-Encoding that packs; its length is 0 where there is none.
static size_t coding_find(const char *value, const char **out) {
    while (*value) {
        value += strspn(value, " \t,");
        const size_t len = strcspn(value, " \t,");
        *out = value;
        if (len && !coding_is_plain(value, len)) return len;
        value += len;
    }
    return 0;
}

// A packed body is not taken for a plain one.
static bool coding_check(struct call *call) {
    const struct head *head = &call->head;
    for (const char *name = head_next(head, NULL); name; name = head_next(head, name)) {
        const char *coding = NULL;
        if (strcasecmp(name, "Content-Encoding")) continue;
        const size_t len = coding_find(field_value(name), &coding);
        if (!len) continue;
        char shown[64];
        unicode_quote(coding, len, shown, sizeof shown);
        return call_refuse(call, 415, NULL, "unsupported_encoding",
                           "Content-Encoding: %s is not taken: send the body as it is", shown);
    }
    return true;
}

static bool is_preflight(const struct call *call) {
    return !strcmp(head_method(&call->head), "OPTIONS") &&
           call_header(call, "Access-Control-Request-Method");
}

void request_head(struct call *call, bool too_many) {
    call->route = route_find(head_method(&call->head), call->path, call->allow, sizeof call->allow);
    otlp_context_read(&call->head, call->server->config.otlp && otlp_is_traced(call->route),
                      &call->trace);
    routing_id_read(&call->head, call->request_id);
    if (origin_check(call) && size_check(call)) {
        if (is_preflight(call)) {
            call->status = 204;
        } else if (key_check(call) && route_check(call) && place_check(call, too_many) &&
                   request_phase(call) && head_has_body(&call->head)) {
            coding_check(call);
        }
    }
    if (call->status != 405) call->allow[0] = '\0';
}

// ---------------------------------------------------------------- the body

// About the memory of the parsed body: each of these bytes starts a value, and
// a body of "[[],[],..." grows by a factor of forty.
static size_t values_cost(const char *data, size_t len) {
    enum { VALUE_BYTES = 64 };
    size_t count = 0;
    for (size_t i = 0; i < len; i++) {
        count += (data[i] == ',') + (data[i] == '[') + (data[i] == '{') + (data[i] == ':');
    }
    return count * VALUE_BYTES;
}

static bool body_grow(struct call *call, size_t needed) {
    if (needed <= call->body_capacity) return true;
    size_t capacity = call->body_capacity ? call->body_capacity : 1024;
    while (capacity < needed) capacity *= 2;
    char *body = realloc(call->body, capacity);
    if (!body) return call_refuse_memory(call);
    call->body_capacity = capacity;
    call->body = body;
    return true;
}

static bool body_room(struct call *call, const char *data, size_t more) {
    const struct server_config *config = &call->server->config;
    struct server_counts *counts = &call->server->counts;
    if (call->body_len + more > config->body_bytes_max) {
        return call_refuse(call, 413, NULL, "body_too_large", "The body has more than %zu bytes",
                           config->body_bytes_max);
    }
    const size_t cost = more + values_cost(data, more);
    if (call->body_cost + cost > config->pending_bytes_max) {
        return call_refuse(call, 413, NULL, "body_too_large", "The body holds too many values");
    }
    if (counts->body_bytes + cost > config->pending_bytes_max) {
        return call_refuse(call, 429, NULL, "bodies_full",
                           "The bodies of other requests take %zu bytes. Try again in 1 s.",
                           counts->body_bytes);
    }
    if (!body_grow(call, call->body_len + more + 1)) return false;
    counts->body_bytes += cost;
    call->body_cost += cost;
    return true;
}

static void body_forget(struct call *call) {
    free(call->body);
    call->body = NULL;
    call->body_len = call->body_capacity = 0;
    call->server->counts.body_bytes -= call->body_cost;
    call->body_cost = 0;
}

void request_body(struct call *call, const char *data, size_t len) {
    if (call->status) return; // refused, or answered without it
    if (!body_room(call, data, len)) {
        body_forget(call);
        return;
    }
    memcpy(call->body + call->body_len, data, len);
    call->body_len += len;
    call->body[call->body_len] = '\0';
}
