// Reading a request: what its head must be before anything else happens, and its body within the
// limits. A refusal is an answer in call->out; http.c sends it.
#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "http_internal.h"
#include "tools.h"

enum { HEADER_BYTES = 16 << 10 }; // of a request's head

// ---------------------------------------------------------------- the head

bool request_phase(struct call *call) {
    const int phase = atomic_load(&call->server->phase);
    if (phase == PHASE_READY || call->route->always) return true;
    return call_refuse(call, 503, NULL, NULL, "%s",
                       phase == PHASE_LOADING ? "Loading model" : "Draining");
}

// Beyond the connections that may be, only what tells how the server is gets an answer.
static bool place_check(struct call *call) {
    const struct http *http = call->io->link->http;
    if (http->n_links <= http->server->config.connections_max) return true;
    call->io->close_after = true;
    if (call->route && call->route->always) return true;
    return call_refuse(call, 503, NULL, "connections_full",
                       "The server has as many connections as it takes, %d",
                       http->server->config.connections_max);
}

static bool route_check(struct call *call) {
    if (call->route) return true;
    if (call->allow[0]) {
        return call_refuse(call, 405, NULL, "method_not_allowed", "%s takes %s, not %s",
                           call->io->path, call->allow, call->io->method);
    }
    char shown[128];
    unicode_quote(call->io->path, strlen(call->io->path), shown, sizeof shown);
    return call_refuse(call, 404, NULL, "not_found", "There is no %s", shown);
}

// Unknown paths are not told from known ones without a key.
static bool key_check(struct call *call) {
    if (call->route && call->route->access == ROUTE_OPEN) return true;
    const char *key = call_header(call, "x-api-key");
    if (gate_key(&call->server->config, call_header(call, "Authorization"),
                 key ? key : call_header(call, "api-key")))
        return true;
    return call_refuse(call, 401, NULL, "invalid_api_key",
                       "A valid API key is needed: 'Authorization: Bearer KEY'");
}

static bool origin_check(struct call *call) {
    const struct server_config *config = &call->server->config;
    const char *host = call_header(call, "Host");
    if (!gate_host(config, host)) {
        return call_refuse(call, 403, NULL, "host_not_allowed",
                           "The Host header names no host of this server; --allow-host adds one");
    }
    if (!gate_origin(config, call_header(call, "Origin"), host, &call->io->cors)) {
        call->io->cors = false;
        return call_refuse(call, 403, NULL, "origin_not_allowed",
                           "Pages of this origin may not call; --cors-origin adds one");
    }
    return true;
}

static bool size_check(struct call *call) {
    const union MHD_ConnectionInfo *head =
        MHD_get_connection_info(call->io->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (head && head->header_size > HEADER_BYTES) {
        return call_refuse(call, 431, NULL, "headers_too_large",
                           "The request's head has %zu bytes, at most %d are taken",
                           head->header_size, HEADER_BYTES);
    }
    const char *length = call_header(call, "Content-Length");
    const unsigned long long bytes = length ? strtoull(length, NULL, 10) : 0;
    if (bytes > call->server->config.body_bytes_max) {
        return call_refuse(call, 413, NULL, "body_too_large",
                           "The body has %llu bytes, at most %zu are taken", bytes,
                           call->server->config.body_bytes_max);
    }
    return true;
}

struct head_signs {
    int lengths, codings; // headers that say where the body ends
    bool odd;             // a byte that readers disagree about, or a coding that is not ours
};

static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                 size_t name_len, const char *value, size_t value_len) {
    struct head_signs *signs = cls;
    (void)kind;
    for (size_t i = 0; i < name_len; i++) signs->odd |= name[i] <= ' ' || name[i] == 0x7F;
    for (size_t i = 0; i < value_len; i++) {
        const unsigned char c = (unsigned char)value[i];
        signs->odd |= (c < ' ' && c != '\t') || c == 0x7F;
    }
    signs->lengths += !strcasecmp(name, "Content-Length");
    if (strcasecmp(name, "Transfer-Encoding")) return MHD_YES;
    signs->codings++;
    signs->odd |= strcasecmp(value, "chunked") != 0;
    return MHD_YES;
}

// Another reader between the client and us must find the same end of the body, or it could be made
// to see one request where we see two. Where that is in doubt nothing more is read.
static bool framing_check(struct call *call, const char *version) {
    struct head_signs signs = {0};
    MHD_get_connection_values_n(call->io->connection, MHD_HEADER_KIND, on_header, &signs);
    const bool chunked_before_1_1 = signs.codings && strcmp(version, "HTTP/1.1");
    if (!signs.odd && signs.lengths + signs.codings <= 1 && !chunked_before_1_1) return true;
    call->io->close_after = true;
    return call_refuse(call, 400, NULL, "ambiguous_request",
                       "The request's head does not say clearly where the request ends");
}

static bool is_preflight(const struct call *call) {
    return !strcmp(call->io->method, "OPTIONS") &&
           call_header(call, "Access-Control-Request-Method");
}

// A refusal waits for the end of the body, which is read and forgotten: a client that is still
// sending would not see it. call->io->discarding says so.
void request_head(struct call *call, const char *version) {
    call->route = route_find(call->io->method, call->io->path, call->allow, sizeof call->allow);
    if (framing_check(call, version) && origin_check(call) && size_check(call)) {
        if (is_preflight(call)) {
            call->status = MHD_HTTP_NO_CONTENT;
        } else if (key_check(call) && route_check(call) && place_check(call)) {
            request_phase(call);
        }
    }
    if (call->status != 405) call->allow[0] = '\0';
    call->io->discarding = call->status != 0;
}

// ---------------------------------------------------------------- the body

// What the body will take when it is parsed, more or less: each of these bytes begins a value, and
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
    struct call_io *io = call->io;
    if (needed <= io->body_capacity) return true;
    size_t capacity = io->body_capacity ? io->body_capacity : 1024;
    while (capacity < needed) capacity *= 2;
    char *body = realloc(call->body, capacity);
    if (!body) return call_refuse(call, 503, NULL, "out_of_memory", "out of memory");
    io->body_capacity = capacity;
    call->body = body;
    return true;
}

static bool body_room(struct call *call, struct http *http, const char *data, size_t more) {
    const struct server_config *config = &http->server->config;
    struct call_io *io = call->io;
    if (call->body_len + more > config->body_bytes_max) {
        return call_refuse(call, 413, NULL, "body_too_large", "The body has more than %zu bytes",
                           config->body_bytes_max);
    }
    const size_t cost = more + values_cost(data, more);
    if (io->pending_bytes + cost > config->pending_bytes_max) {
        return call_refuse(call, 413, NULL, "body_too_large", "The body holds too many values");
    }
    if (http->pending_bytes + cost > config->pending_bytes_max) {
        return call_refuse(call, 429, NULL, "bodies_full",
                           "The bodies of other requests take %zu bytes. Try again in 1 s.",
                           http->pending_bytes);
    }
    if (!body_grow(call, call->body_len + more + 1)) return false;
    http->pending_bytes += cost;
    io->pending_bytes += cost;
    return true;
}

static void body_forget(struct call *call, struct http *http) {
    free(call->body);
    call->body = NULL;
    call->body_len = call->io->body_capacity = 0;
    http_pending_release(call, http);
}

bool request_body(struct call *call, struct http *http, const char *data, size_t len) {
    struct call_io *io = call->io;
    if (!io->discarding && !body_room(call, http, data, len)) {
        io->discarding = true;
        body_forget(call, http);
    }
    if (io->discarding) {
        io->discarded += len;
        return io->discarded <= 4 * http->server->config.body_bytes_max;
    }
    memcpy(call->body + call->body_len, data, len);
    call->body_len += len;
    call->body[call->body_len] = '\0';
    return true;
}
