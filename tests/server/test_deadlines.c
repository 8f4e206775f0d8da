// Deadlines and sizes of a server that has little patience: senders that trickle are cut off by
// deadlines that they cannot move, idle connections end, and a body is taken up to its limit.
// label: threads
#include "helpers.h"
#include "serve.h"

#define POST "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
#define GET  "GET /health HTTP/1.1\r\nHost: localhost\r\n"

static int setup(void **state) {
    struct server_config config = serve_config();
    config.header_s = config.body_s = config.idle_s = 1;
    config.body_bytes_max = 64 << 10;
    return serve_setup_with(state, &config);
}

CASE(bodies_are_taken_up_to_their_limit) {
    static const struct {
        const char *head, *unit;
        size_t n;
        const char *tail;
        int status;
    } cases[] = {
        {"Content-Length: 65536\r\n\r\n", " ", 65536, "", 400}, // no JSON, but read
        {"Content-Length: 65537\r\n\r\n", " ", 65537, "", 413},
        {"Transfer-Encoding: chunked\r\n\r\n10001\r\n", " ", 65537, "\r\n0\r\n\r\n", 413},
        {"Transfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n", 65537, "0\r\n\r\n", 413},
        // no client is asked to send a body that would not be taken
        {"Expect: 100-continue\r\nContent-Length: 65537\r\n\r\n", "", 0, "", 413},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = malloc(512 + cases[i].n * 6), *at = stpcpy(text, POST "Connection: close\r\n");
        assert_non_null(text);
        at = stpcpy(at, cases[i].head);
        for (size_t n = 0; n < cases[i].n; n++) at = stpcpy(at, cases[i].unit);
        at = stpcpy(at, cases[i].tail);
        const int fd = serve_connect(*state);
        serve_send(fd, text, (size_t)(at - text));
        struct reply reply = serve_finish(fd);
        check(reply.status == cases[i].status && reply.closed, "%zu: %.300s", i, reply.data);
        reply_free(&reply);
        free(text);
    }
}

// Each sends a little at a time until the server ends its connection.
CASE(slow_senders_are_cut_off) {
    const struct serve *serve = *state;
    static const struct {
        const char *head, *unit;
    } sender[] = {
        {"", ""},
        {"GE", "T"},
        {GET, "X: a\r\n"},
        {POST "Content-Length: 60000\r\n\r\n", " "},
        {POST "Transfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n"},
        {POST "Content-Length: 999999999\r\n\r\n", " "}, // refused already
    };
    enum { N = sizeof sender / sizeof *sender };
    int fd[N], n_ended = 0;
    bool ended[N] = {false};
    for (int i = 0; i < N; i++) {
        fd[i] = serve_connect(serve);
        assert_true(serve_send(fd[i], sender[i].head, strlen(sender[i].head)));
    }
    const uint64_t end_ns = clock_ns() + SERVE_PATIENCE_MS * UINT64_C(1000000);
    while (n_ended < N && clock_ns() < end_ns) {
        for (int i = 0; i < N; i++) {
            struct pollfd wait = {.fd = fd[i], .events = POLLIN};
            char bytes[256];
            if (ended[i]) continue;
            serve_send(fd[i], sender[i].unit, strlen(sender[i].unit));
            ended[i] = poll(&wait, 1, 1) > 0 && recv(fd[i], bytes, sizeof bytes, 0) <= 0;
            n_ended += ended[i];
        }
    }
    for (int i = 0; i < N; i++) {
        check(ended[i], "%s: goes on", sender[i].head);
        close(fd[i]);
    }
    serve_is_well(serve, "slow senders");
}

CASE(idle_connections_are_ended_and_busy_ones_kept) {
    const struct serve *serve = *state;
    const int fd = serve_connect(serve);
    for (int i = 0; i < 3; i++) {
        assert_true(serve_send(fd, GET "\r\n", strlen(GET "\r\n")));
        struct reply reply = serve_receive(fd, false, SERVE_PATIENCE_MS);
        check(reply.status == 200 && !reply.closed, "%d: %.300s", i, reply.data);
        reply_free(&reply);
    }
    struct reply rest = serve_receive(fd, true, SERVE_PATIENCE_MS);
    check(rest.closed && rest.len == 0, "%.300s", rest.data);
    reply_free(&rest);
    close(fd);
}

TEST_PROGRAM(deadlines) { return cases_run(setup, serve_teardown); }
