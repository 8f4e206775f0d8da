// Bytes that are no HTTP, or HTTP that two readers could take for different things. Each connection
// gets a 4xx or its end, never a second answer that it did not ask for, and other connections
// continue. Senders that trickle are cut off by deadlines that they cannot move.
// label: threads
#include "helpers.h"
#include "serve.h"

enum { HEADERS_MAX = 16 << 10 };

static int serve_setup(void **state) {
    struct server_config config = serve_config();
    config.header_s = 2;
    config.body_s = 2;
    config.idle_s = 2;
    config.body_bytes_max = 64 << 10;
    return serve_setup_with(state, &config);
}

static int answer_count(const struct reply *reply) {
    int count = 0;
    for (const char *at = reply->data; (at = strstr(at, "X-Request-Id: ")); at++) count++;
    return count;
}

#define HOST "Host: localhost\r\n"
#define POST "POST /tokenize HTTP/1.1\r\n" HOST
#define GET  "GET /health HTTP/1.1\r\n" HOST

struct wire {
    const char *data;
    size_t len;
    int status; // 0: any refusal, or none
};
#define WIRE(text, status)                                                                         \
    { text, sizeof text - 1, status }
enum { WIRES_MAX = 32 };

// Sends each on a connection of its own, and takes all that comes until the server ends it, as it
// must. All at once, so that deadlines pass once.
static void outcomes(const struct serve *serve, const struct wire *wire, int n,
                     struct reply reply[WIRES_MAX]) {
    int fd[WIRES_MAX];
    assert_true(n <= WIRES_MAX);
    for (int i = 0; i < n; i++) {
        fd[i] = serve_connect(serve);
        serve_send(fd[i], wire[i].data, wire[i].len);
    }
    for (int i = 0; i < n; i++) {
        reply[i] = serve_receive(fd[i], true, SERVE_PATIENCE_MS);
        close(fd[i]);
        check(reply[i].closed, "%.200s: the connection stayed open", wire[i].data);
    }
    serve_is_well(serve, wire[0].data);
}

static bool is_refusal(int status) {
    return status == 0 || (status >= 400 && status < 500) || status == 501 || status == 505;
}

static void refused_or_ended(const struct serve *serve, const struct wire *wire, int n) {
    struct reply reply[WIRES_MAX];
    outcomes(serve, wire, n, reply);
    for (int i = 0; i < n; i++) {
        check(is_refusal(reply[i].status), "%.200s: %.300s", wire[i].data, reply[i].data);
        check(!wire[i].status || reply[i].status == wire[i].status, "%.200s: %.300s", wire[i].data,
              reply[i].data);
        check(answer_count(&reply[i]) <= 1, "%.200s: %.600s", wire[i].data, reply[i].data);
        reply_free(&reply[i]);
    }
}

static void bad_request_lines_are_refused(void **state) {
    static const struct wire wire[] = {
        WIRE("GARBAGE\r\n\r\n", 0),
        WIRE("GET\r\n\r\n", 0),
        WIRE("\0\0\0\0\0\0\0\0\r\n\r\n", 0),
        WIRE("GET /health HTTP/9.9\r\n" HOST "\r\n", 0),
        WIRE("GET /health JUNK/1.1\r\n" HOST "\r\n", 0),
        WIRE("GET /health HTTP/1.1\r\n\r\n", 0),
        WIRE("GET /hea\0lth HTTP/1.1\r\n" HOST "\r\n", 0),
        WIRE("get /health HTTP/1.1\r\n" HOST "\r\n", 0),
        WIRE("BREW /health HTTP/1.1\r\n" HOST "\r\n", 501),
        WIRE("TRACE / HTTP/1.1\r\n" HOST "\r\n", 405),
        WIRE("CONNECT localhost:80 HTTP/1.1\r\n" HOST "\r\n", 0),
        WIRE("POST /health HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", 405),
        WIRE("GET /../../etc/passwd HTTP/1.1\r\n" HOST "\r\n", 404),
        WIRE("GET /assets/../../etc/passwd HTTP/1.1\r\n" HOST "\r\n", 404),
        WIRE("GET /assets/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" HOST "\r\n", 404),
        WIRE("GET /health%00 HTTP/1.1\r\n" HOST "\r\n", 404),
        WIRE("GET /\xFF\xFE HTTP/1.1\r\n" HOST "\r\n", 400),
        WIRE("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        WIRE("GET /health HTTP/1.1\r\n" HOST "Origin: http://evil.example\r\n\r\n", 403),
        WIRE("\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03", 0), // TLS to a plain port
        WIRE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0),
    };
    refused_or_ended(*state, wire, sizeof wire / sizeof *wire);
}

static void bad_lengths_are_refused(void **state) {
    static const struct wire wire[] = {
        WIRE(POST "Content-Length: -1\r\n\r\n{}", 0),
        WIRE(POST "Content-Length: +2\r\n\r\n{}", 0),
        WIRE(POST "Content-Length: 0x2\r\n\r\n{}", 0),
        WIRE(POST "Content-Length: 2 2\r\n\r\n{}", 0),
        WIRE(POST "Content-Length: \r\n\r\n{}", 0),
        WIRE(POST "Content-Length: 99999999999999999999999\r\n\r\n{}", 0),
        WIRE(POST "Content-Length: 18446744073709551615\r\n\r\n{}", 0),
        WIRE(POST "Content-Length: 18446744073709551618\r\n\r\n{}", 0),
        WIRE(POST "Content-Length: 2, 2\r\n\r\n{}", 0),
        WIRE(POST "Transfer-Encoding: gzip\r\n\r\n{}", 0),
        WIRE(POST "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 0),
        WIRE(POST "Transfer-Encoding: chunked\r\n\r\nZZ\r\n\r\n", 0),
        WIRE(POST "Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n", 0),
        WIRE(POST "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n{}\r\n", 0),
        WIRE(POST "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n{}\r\n", 0),
        WIRE(POST "Transfer-Encoding: chunked\r\n\r\n2\r\n{}garbage\r\n0\r\n\r\n", 0),
        WIRE(POST "Transfer-Encoding: chunked\r\n\r\n\r\n\r\n", 0),
    };
    refused_or_ended(*state, wire, sizeof wire / sizeof *wire);
}

// A second request hides where a reader with other ideas of the first one's length would see it.
// One answer at most, of any kind.
static void no_request_is_smuggled_behind_another(void **state) {
    const struct serve *serve = *state;
    static const struct wire wire[] = {
        WIRE(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET "\r\n", 0),
        WIRE(POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" GET "\r\n", 0),
        WIRE(POST "Transfer-Encoding: xchunked\r\n\r\n" GET "\r\n", 0),
        WIRE(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" GET
                  "\r\n",
             0),
        WIRE(POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" GET "\r\n", 0),
        WIRE(POST " Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET "\r\n", 0),
        WIRE(POST "Transfer-Encoding:\x0b"
                  "chunked\r\n\r\n0\r\n\r\n" GET "\r\n",
             0),
        WIRE(POST "Content-Length: 0\r\nContent-Length: 60\r\n\r\n" GET "\r\n", 0),
        WIRE(POST "Content-Length: 60\r\nContent-Length: 0\r\n\r\n" GET "\r\n", 0),
        WIRE(POST "Content-Length : 0\r\n\r\n" GET "\r\n", 0),
        WIRE(POST "Content-Length:\x0b"
                  "0\r\n\r\n" GET "\r\n",
             0),
        WIRE(POST "No colon\r\n\r\n" GET "\r\n", 0),
        WIRE("GET /health HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET
             "\r\n",
             0),
    };
    enum { N = sizeof wire / sizeof *wire };
    struct reply reply[WIRES_MAX];
    outcomes(serve, wire, N, reply);
    for (int i = 0; i < N; i++) {
        check(answer_count(&reply[i]) <= 1, "%.300s: %.900s", wire[i].data, reply[i].data);
        check(reply[i].status < 500, "%.300s: %.300s", wire[i].data, reply[i].data);
        reply_free(&reply[i]);
    }
}

// ---------------------------------------------------------------- sizes

struct filled {
    const char *head, *unit; // then so many bytes of units
    size_t bytes;
    const char *tail;
    int status; // 0: 414, 431 or the end
};

static struct wire wire_of(const struct filled *filled) {
    const size_t unit_len = strlen(filled->unit), n = filled->bytes / unit_len;
    char *data = malloc(strlen(filled->head) + n * unit_len + strlen(filled->tail) + 1);
    assert_non_null(data);
    char *at = stpcpy(data, filled->head);
    for (size_t i = 0; i < n; i++, at += unit_len) memcpy(at, filled->unit, unit_len);
    at = stpcpy(at, filled->tail);
    return (struct wire){data, (size_t)(at - data), filled->status};
}

static void sizes_are_judged(const struct serve *serve, const struct filled *filled, int n) {
    struct wire wire[WIRES_MAX] = {0};
    struct reply reply[WIRES_MAX];
    for (int i = 0; i < n; i++) wire[i] = wire_of(&filled[i]);
    outcomes(serve, wire, n, reply);
    for (int i = 0; i < n; i++) {
        const int got = reply[i].status;
        check(filled[i].status ? got == filled[i].status : got == 0 || got == 414 || got == 431,
              "%d: %.300s", i, reply[i].data);
        reply_free(&reply[i]);
        free((void *)(uintptr_t)wire[i].data);
    }
}

static void large_heads_are_refused(void **state) {
    static const struct filled cases[] = {
        {GET "X: ", "a", HEADERS_MAX / 2, "\r\n\r\n", 200},
        {GET "X: ", "a", HEADERS_MAX + 1, "\r\n\r\n", 431},
        {GET "X: ", "a", 1 << 20, "\r\n\r\n", 0},
        {GET, "X: a\r\n", HEADERS_MAX + 6, "\r\n", 431},
        {GET, "X: a\r\n", 1 << 20, "\r\n", 0},
        {"GET /", "a", HEADERS_MAX + 1, " HTTP/1.1\r\n" HOST "\r\n", 0},
        {"GET /", "a", 1 << 20, " HTTP/1.1\r\n" HOST "\r\n", 0},
        {"GET /health?", "a&", HEADERS_MAX, " HTTP/1.1\r\n" HOST "\r\n", 0},
        {"", "A", 1 << 20, "", 0},
        {"", "\r\n", 1 << 20, "", 0},
    };
    sizes_are_judged(*state, cases, sizeof cases / sizeof *cases);
}

static void large_bodies_are_refused(void **state) {
    static const struct filled cases[] = {
        {POST "Connection: close\r\nContent-Length: 65536\r\n\r\n", " ", 65536, "", 400},
        {POST "Connection: close\r\nContent-Length: 65537\r\n\r\n", " ", 65537, "", 413},
        {POST "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n", " ", 65537,
         "\r\n0\r\n\r\n", 413},
        {POST "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n", 6 * 65537,
         "0\r\n\r\n", 413},
        // no client is asked to send a body that would not be taken
        {POST "Expect: 100-continue\r\nContent-Length: 65537\r\n\r\n", " ", 0, "", 413},
    };
    sizes_are_judged(*state, cases, sizeof cases / sizeof *cases);
}

// ---------------------------------------------------------------- deadlines

// Each sends a little at a time until the server ends its connection.
static void slow_senders_are_cut_off(void **state) {
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

static void idle_connections_are_ended_and_busy_ones_kept(void **state) {
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

static void requests_behind_each_other_are_answered_in_order(void **state) {
    static const char two[] =
        POST "Content-Length: 15\r\n\r\n{\"content\":\"a\"}" GET "Connection: close\r\n\r\n";
    const struct wire wire = WIRE(two, 200);
    struct reply reply[WIRES_MAX];
    outcomes(*state, &wire, 1, reply);
    check(answer_count(reply) == 2 && reply->status == 200, "%s", reply->data);
    const char *tokens = strstr(reply->data, "tokens"), *status = strstr(reply->data, "\"ok\"");
    check(tokens && status && tokens < status, "%s", reply->data);
    reply_free(reply);
}

TEST_PROGRAM(malformed) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_request_lines_are_refused),
        cmocka_unit_test(bad_lengths_are_refused),
        cmocka_unit_test(no_request_is_smuggled_behind_another),
        cmocka_unit_test(large_heads_are_refused),
        cmocka_unit_test(large_bodies_are_refused),
        cmocka_unit_test(slow_senders_are_cut_off),
        cmocka_unit_test(idle_connections_are_ended_and_busy_ones_kept),
        cmocka_unit_test(requests_behind_each_other_are_answered_in_order),
    };
    return cmocka_run_group_tests(tests, serve_setup, serve_teardown);
}
