// One post at a time over one connection. The name is looked up again after a failure: collectors
// move. A kept connection that the collector has closed meanwhile is replaced once.
#include "otlp_post.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "client/connection.h"
#include "helpers.h"

enum { ANSWER_BYTES = 4 << 20 }; // as the protocol recommends

struct otlp_collector {
    struct client_url url;
    char headers[CLIENT_HEADERS_SIZE + 64];
    struct client_host host;
    bool has_host, is_open;
    struct client_connection connection;
    struct jbuf request, answer;
    int stop_fd; // readable from the stop on
    bool failing;
    otlp_told *told;
    void *told_ctx;
};

struct otlp_collector *otlp_collector_create(const struct client_url *url, const char *headers,
                                             otlp_told *told, void *told_ctx) {
    struct otlp_collector *collector = calloc(1, sizeof *collector);
    if (!collector) return NULL;
    collector->url = *url;
    collector->told = told;
    collector->told_ctx = told_ctx;
    collector->answer.most = ANSWER_BYTES;
    collector->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (collector->stop_fd < 0) {
        free(collector);
        return NULL;
    }
    snprintf(collector->headers, sizeof collector->headers, "Content-Type: application/json\r\n%s",
             headers);
    return collector;
}

static void disconnect(struct otlp_collector *collector) {
    if (collector->is_open) client_connection_close(&collector->connection);
    if (collector->has_host) client_host_close(&collector->host);
    collector->is_open = collector->has_host = false;
}

void otlp_collector_free(void *ctx) {
    struct otlp_collector *collector = ctx;
    disconnect(collector);
    jbuf_deinit(&collector->request);
    jbuf_deinit(&collector->answer);
    close(collector->stop_fd);
    free(collector);
}

void otlp_collector_stop(void *ctx) {
    const struct otlp_collector *collector = ctx;
    const uint64_t one = 1;
    const ssize_t n = write(collector->stop_fd, &one, sizeof one);
    (void)n; // a full counter is readable all the same
}

static bool is_stopped(const struct otlp_collector *collector) {
    struct pollfd stop = {.fd = collector->stop_fd, .events = POLLIN};
    return poll(&stop, 1, 0) > 0;
}

// ---------------------------------------------------------------- one post

static void body_take(void *ctx, const char *data, size_t len) { jbuf_bytes(ctx, data, len); }

static bool is_over(const struct otlp_collector *collector) {
    const struct client_connection *c = &collector->connection;
    return c->state == CONNECTION_FAILED || c->state == CONNECTION_CLOSED ||
           (c->state == CONNECTION_IDLE && !c->has_request) || collector->answer.failed;
}

// Steps until the answer is complete or has failed. NULL, or the reason that neither came.
static const char *answer_wait(struct otlp_collector *collector, uint64_t deadline_ns) {
    struct client_connection *c = &collector->connection;
    for (;;) {
        client_connection_step(c);
        if (is_over(collector)) return NULL;
        const int wait_ms = client_connection_wait_ms(c, deadline_ns);
        if (!wait_ms) return "no answer in time";
        struct pollfd ready[] = {{.fd = c->fd, .events = (short)c->events},
                                 {.fd = collector->stop_fd, .events = POLLIN}};
        poll(ready, 2, wait_ms);
        if (ready[1].revents) return "stopped";
    }
}

// A connection that may take a request. NULL, or the reason that there is none.
static const char *connection_get(struct otlp_collector *collector, uint64_t deadline_ns,
                                  rn_error *err) {
    struct client_connection *c = &collector->connection;
    if (collector->is_open && c->state == CONNECTION_IDLE) client_connection_step(c);
    if (collector->is_open && c->state == CONNECTION_IDLE) return NULL;
    if (collector->is_open) client_connection_close(c);
    collector->is_open = false;
    if (!collector->has_host && client_host_open(&collector->url, &collector->host, err))
        return err->message;
    collector->has_host = true;
    // a failure is a state of the connection
    client_connection_open(c, &collector->host, deadline_ns);
    collector->is_open = true;
    return NULL;
}

// NULL: the answer is complete; otherwise why there is none.
static const char *exchange(struct otlp_collector *collector, uint64_t deadline_ns, rn_error *err) {
    struct client_connection *c = &collector->connection;
    for (;;) {
        const char *problem = connection_get(collector, deadline_ns, err);
        if (problem) return problem;
        jbuf_clear(&collector->answer);
        client_connection_send(c, collector->request.data, collector->request.len, false, body_take,
                               &collector->answer);
        problem = answer_wait(collector, deadline_ns);
        if (problem) return problem;
        if (client_connection_done(c)) return NULL;
        if (collector->answer.full) return "its answer has more than 4 MiB";
        if (collector->answer.failed) return "out of memory";
        if (client_connection_was_stale(c)) continue; // at most once: the next one is new
        const bool connected = c->out_at > 0 || c->response_begun;
        if (connected || !client_host_advance(&collector->host)) return c->error;
    }
}

static void tell(struct otlp_collector *collector, const char *problem) {
    const bool failing = problem != NULL;
    if (failing == collector->failing || is_stopped(collector)) return;
    collector->failing = failing;
    if (collector->told) collector->told(collector->told_ctx, problem);
}

static void failure_tell(struct otlp_collector *collector, const char *problem, bool again) {
    char text[512];
    snprintf(text, sizeof text, "%.400s; %s", problem, again ? "trying again" : "they are dropped");
    tell(collector, text);
}

static void reply_take(struct otlp_collector *collector, struct otlp_reply *out) {
    const struct response *response = &collector->connection.response;
    char problem[64];
    out->status = response->status;
    const int wait_s = otlp_retry_after(response->retry_after, (int64_t)time(NULL));
    if (wait_s >= 0) out->retry_after_ms = 1000 * wait_s;
    if (otlp_verdict_of(out->status) == OTLP_SENT)
        out->n_rejected = otlp_rejected(collector->answer.data, collector->answer.len);
    const enum otlp_verdict verdict = otlp_verdict_of(out->status);
    snprintf(problem, sizeof problem, "it answers with status %d", out->status);
    if (verdict == OTLP_SENT)
        tell(collector, NULL);
    else
        failure_tell(collector, problem, verdict == OTLP_RETRY);
}

// Whether this post's answer can never be used; one that was cut off is asked for again.
static bool is_bad(const struct otlp_collector *collector) {
    const struct response *response = &collector->connection.response;
    return collector->is_open &&
           (collector->answer.full || (response->state == RESPONSE_BAD && !response->cut));
}

void otlp_collector_post(void *ctx, const char *body, size_t len, int timeout_ms,
                         struct otlp_reply *out) {
    struct otlp_collector *collector = ctx;
    rn_error err = {0};
    const uint64_t deadline_ns = clock_ns() + (uint64_t)timeout_ms * 1000000u;
    jbuf_clear(&collector->request);
    client_request_write(&collector->request, &collector->url, "POST", collector->headers, body,
                         len);
    const char *problem =
        collector->request.failed ? "out of memory" : exchange(collector, deadline_ns, &err);
    if (!problem) {
        reply_take(collector, out);
        return;
    }
    const bool bad = is_bad(collector);
    if (bad) out->status = -1;
    failure_tell(collector, problem, !bad);
    disconnect(collector);
}
