// Views of a running server for tests: its counters, and streams without the parts that differ
// between two runs.
#ifndef RN_TESTS_SERVER_SERVE_WATCH_H
#define RN_TESTS_SERVER_SERVE_WATCH_H

#include <time.h>

#include "helpers.h"
#include "serve.h"

// The value of one of the server's own gauges.
static inline double serve_gauge(const struct serve *serve, const char *name) {
    struct reply reply = serve_get(serve, "/metrics");
    char key[128];
    snprintf(key, sizeof key, "\n%s{", name);
    const char *at = strstr(reply.data, key);
    check(reply.status == 200 && at, "%s: %.300s", name, reply.data);
    const char *value = strstr(at, "} ");
    assert_non_null(value);
    const double number = strtod(value + 2, NULL);
    reply_free(&reply);
    return number;
}

static inline void serve_sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

// Waits until the gauge is not 0, without a pause: the work behind it may end soon.
static inline void serve_await_some(const struct serve *serve, const char *name) {
    const uint64_t end_ns = clock_ns() + SERVE_PATIENCE_MS * UINT64_C(1000000);
    while (serve_gauge(serve, name) == 0) check(clock_ns() < end_ns, "%s stays 0", name);
}

// Waits until the gauge has that value; fails the test where it never does.
static inline void serve_await(const struct serve *serve, const char *name, double value) {
    double now = -1;
    for (int waited_ms = 0; waited_ms < SERVE_PATIENCE_MS; waited_ms += 10) {
        if ((now = serve_gauge(serve, name)) == value) return;
        serve_sleep_ms(10);
    }
    check(false, "%s is %g, expected %g", name, now, value);
}

// Nothing is counted that is not there any more.
static inline void serve_expect_idle(const struct serve *serve) {
    static const char *const gauges[] = {"runnel:http_active",       "runnel:http_preparing",
                                         "runnel:http_body_bytes",   "runnel:http_answer_bytes",
                                         "runnel:choices_submitted", "runnel:kv_pages"}; // held
    for (size_t i = 0; i < sizeof gauges / sizeof *gauges; i++) serve_await(serve, gauges[i], 0);
    serve_await(serve, "runnel:http_connections", 1);
}

// Chunks become one body, in place. False: the last chunk is missing.
static inline bool reply_dechunk(struct reply *reply) {
    char *to = reply->data + (reply->body - reply->data);
    const char *from = to;
    for (;;) {
        char *end;
        const size_t len = strtoul(from, &end, 16);
        if (end == from || strncmp(end, "\r\n", 2)) return false;
        if (!len) break;
        from = end + 2;
        if (from + len + 2 > reply->data + reply->len) return false;
        memmove(to, from, len);
        to += len;
        from += len + 2;
    }
    *to = '\0';
    return true;
}

// The events of a chat stream, without ids and times; to be freed.
static inline char *stream_text(const char *body) {
    char *text = calloc(1, strlen(body) + 1), *to = text;
    assert_non_null(text);
    for (const char *at = body; (at = strstr(at, "\"choices\":"));) {
        const char *end = strchr(at, '\n'), *times = strstr(at, "\"timings\":");
        if (!end) break;
        if (times && times < end) end = times;
        memcpy(to, at, (size_t)(end - at));
        to += end - at;
        at = end;
    }
    return text;
}

#endif
