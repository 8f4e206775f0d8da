// One request, waited for: a connection is stepped between calls of poll, until its response is
// complete, it fails or the time is up. Every address of the name is tried in turn.
#include "client/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "client/connection.h"
#include "helpers.h"

// ---------------------------------------------------------------- headers

rn_status client_header_add(char headers[CLIENT_HEADERS_SIZE], const char *name, const char *value,
                            rn_error *err) {
    bool valid = *name != '\0';
    for (const char *c = name; *c; c++) valid &= *c > 0x20 && *c < 0x7f && *c != ':';
    if (!valid) return err_set(err, RN_ERR_ARG, "'%.64s' is not the name of a header", name);
    for (const char *c = value; *c; c++) valid &= (unsigned char)*c >= 0x20 && *c != 0x7f;
    if (!valid) return err_set(err, RN_ERR_ARG, "a header's value cannot hold control characters");
    const size_t at = strlen(headers), needed = strlen(name) + strlen(value) + 4;
    if (needed >= CLIENT_HEADERS_SIZE - at)
        return err_set(err, RN_ERR_ARG, "the headers have more than %d bytes", CLIENT_HEADERS_SIZE);
    snprintf(headers + at, CLIENT_HEADERS_SIZE - at, "%s: %s\r\n", name, value);
    return RN_OK;
}

rn_status client_bearer_add(char headers[CLIENT_HEADERS_SIZE], const char *key, rn_error *err) {
    char value[CLIENT_HEADERS_SIZE];
    const int len = snprintf(value, sizeof value, "Bearer %s", key);
    if (len >= (int)sizeof value)
        return err_set(err, RN_ERR_ARG, "the API key has more than %d bytes", CLIENT_HEADERS_SIZE);
    return client_header_add(headers, "Authorization", value, err);
}

// ---------------------------------------------------------------- one request

static void body_take(void *ctx, const char *data, size_t len) { jbuf_bytes(ctx, data, len); }

static bool is_over(const struct client_connection *c) {
    return c->state == CONNECTION_FAILED || c->state == CONNECTION_CLOSED ||
           (c->state == CONNECTION_IDLE && !c->has_request);
}

// Steps until the request is over, or its body has no more room. False: the time was up first.
static bool request_wait(struct client_connection *c, const struct jbuf *body,
                         uint64_t deadline_ns) {
    while (!is_over(c)) {
        client_connection_step(c);
        if (is_over(c) || body->failed) break;
        const int wait_ms = client_connection_wait_ms(c, deadline_ns);
        if (!wait_ms) return false;
        struct pollfd ready = {.fd = c->fd, .events = (short)c->events};
        poll(&ready, 1, wait_ms);
    }
    return true;
}

// A connection to the first address that answers gets the request.
static rn_status request_run(struct client_host *host, struct client_connection *c,
                             const struct jbuf *request, bool is_head, uint64_t deadline_ns,
                             struct jbuf *body, rn_error *err) {
    for (;;) {
        client_connection_open(c, host, deadline_ns);
        client_connection_send(c, request->data, request->len, is_head, body_take, body);
        if (!request_wait(c, body, deadline_ns))
            return err_set(err, RN_ERR_DEADLINE, "no response in time");
        const bool connected = c->out_at > 0 || c->response_begun;
        if (c->state != CONNECTION_FAILED || connected) break;
        if (!client_host_advance(host)) break;
        client_connection_close(c);
    }
    if (body->full)
        return err_set(err, RN_ERR_IO, "the response has more than %zu bytes", body->most);
    if (body->failed) return err_set(err, RN_ERR_NOMEM, "out of memory");
    if (!client_connection_done(c)) return err_set(err, RN_ERR_IO, "%s", c->error);
    return RN_OK;
}

static rn_status fetch(const struct client_url *url, const struct jbuf *request, bool is_head,
                       uint64_t deadline_ns, struct jbuf *body, int *status_out, rn_error *err) {
    struct client_host host;
    rn_status status = client_host_open(url, &host, err);
    if (status) return status;
    struct client_connection *c = malloc(sizeof *c);
    if (c) {
        status = request_run(&host, c, request, is_head, deadline_ns, body, err);
        *status_out = c->response.status;
        client_connection_close(c);
        free(c);
    } else {
        status = err_set(err, RN_ERR_NOMEM, "out of memory");
    }
    if (status == RN_ERR_IO || status == RN_ERR_DEADLINE) err_prefix(err, url->authority);
    client_host_close(&host);
    return status;
}

rn_status client_fetch_url(const struct client_url *url, const char *method, const char *headers,
                           const char *body, size_t body_len, int timeout_ms, size_t limit,
                           struct client_reply *out, rn_error *err) {
    const uint64_t deadline_ns = clock_ns() + (uint64_t)timeout_ms * 1000000;
    struct jbuf request = {0}, received = {.most = limit};
    char lines[CLIENT_HEADERS_SIZE + 32];
    *out = (struct client_reply){0};
    snprintf(lines, sizeof lines, "%sConnection: close\r\n", headers ? headers : "");
    client_request_write(&request, url, method, lines, body, body_len);
    rn_status status = request.failed ? err_set(err, RN_ERR_NOMEM, "out of memory")
                                      : fetch(url, &request, !strcmp(method, "HEAD"), deadline_ns,
                                              &received, &out->status, err);
    jbuf_deinit(&request);
    received.most = 0;
    if (!status) {
        jbuf_bytes(&received, "", 1);
        if (received.failed) status = err_set(err, RN_ERR_NOMEM, "out of memory");
    }
    if (status) {
        jbuf_deinit(&received);
        *out = (struct client_reply){0};
        return status;
    }
    out->body = received.data;
    out->body_len = received.len - 1;
    return RN_OK;
}

rn_status client_fetch(const char *url, const char *method, const char *headers, const char *body,
                       size_t body_len, int timeout_ms, size_t limit, struct client_reply *out,
                       rn_error *err) {
    struct client_url parsed;
    *out = (struct client_reply){0};
    const rn_status status = client_url_parse(url, &parsed, err);
    return status ? status
                  : client_fetch_url(&parsed, method, headers, body, body_len, timeout_ms, limit,
                                     out, err);
}

void client_reply_free(struct client_reply *reply) {
    free(reply->body);
    *reply = (struct client_reply){0};
}
