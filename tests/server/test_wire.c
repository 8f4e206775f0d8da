// HTTP/1.1 on the wire: accepted and refused requests, and answers in the order of a connection's
// requests. Each refusal is one answer whose body is JSON and whose length is right. Rows of a
// table are sent at once and checked one by one; all faults are reported.
// label: threads waits
#define _GNU_SOURCE 1 // syscall
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "answers.h"
#include "helpers.h"

enum {
    BODY_MAX = 16 << 20,
    ROWS_MAX = 64,
    HEAD_MAX = 16 << 10,
    AT_ONCE_MS = 8000, // far less than the deadlines of the server below
};

static _Atomic int n_refused; // sends of the server that the system is to refuse
static pthread_t client;      // whose own sends are not

ssize_t send(int fd, const void *data, size_t len, int flags) {
    if (n_refused > 0 && !pthread_equal(pthread_self(), client)) {
        n_refused--;
        errno = EAGAIN;
        return -1;
    }
    return syscall(SYS_sendto, fd, data, len, flags, NULL, 0);
}

static int wire_setup(void **state) {
    struct server_config config = serve_config();
    config.body_bytes_max = BODY_MAX;
    config.pending_bytes_max = 8 * BODY_MAX;
    config.ui = true;
    return serve_setup_with(state, &config);
}

#define HOST  "Host: localhost\r\n"
#define POST  "POST /tokenize HTTP/1.1\r\n" HOST
#define GET   "GET /health HTTP/1.1\r\n" HOST
#define LAST  "GET /health HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"
#define BODY  "{\"content\":\"a\"}"
#define CHUNK "Transfer-Encoding: chunked\r\n\r\n"
// Bytes that a second reader could take for a request of its own.
#define HIDDEN "GET /v1/models HTTP/1.1\r\n" HOST "\r\n"

struct row {
    const char *data;
    size_t len;
    int status[3]; // one of these; 0: there is no other
};
#define ROW(text, ...)                                                                             \
    {                                                                                              \
        text, sizeof text - 1, { __VA_ARGS__ }                                                     \
    }

// A row as one line of print.
static const char *shown(const struct row *row) {
    static char text[200];
    size_t n = 0;
    for (size_t i = 0; i < row->len && n < sizeof text - 8; i++) {
        const unsigned char c = (unsigned char)row->data[i];
        if (c == '\r')
            n += (size_t)sprintf(text + n, "\\r");
        else if (c == '\n')
            n += (size_t)sprintf(text + n, "\\n");
        else if (c < ' ' || c > '~')
            n += (size_t)sprintf(text + n, "\\x%02x", c);
        else
            text[n++] = (char)c;
    }
    text[n] = '\0';
    return text;
}

// NULL, or why the answers to a row are wrong.
typedef const char *(*judge_of)(const struct row *row, const struct reply *reply,
                                const struct answers *answers);

// Takes the answers until the connection ends, and closes it. 1: they are wrong, which is said.
static int is_wrong(int fd, const struct row *row, judge_of judge, uint64_t end_ns) {
    static struct answers answers;
    const uint64_t now = clock_ns();
    const int left_ms = now < end_ns ? (int)((end_ns - now) / 1000000) : 0;
    struct reply reply = serve_receive(fd, true, left_ms < 100 ? 100 : left_ms);
    answers_of(&reply, !strncmp(row->data, "HEAD ", 5), &answers);
    const char *why = judge(row, &reply, &answers);
    if (why)
        print_error("%s: %s, got %d answers: %.160s\n", shown(row), why, answers.n,
                    reply.len ? reply.data : "nothing");
    answers_free(&answers);
    reply_free(&reply);
    close(fd);
    return why != NULL;
}

static uint64_t soon_ns(void) { return clock_ns() + AT_ONCE_MS * UINT64_C(1000000); }

// Sends each row on a connection of its own; half: and then no more.
static void rows_are_judged(const struct serve *serve, const struct row *row, int n, judge_of judge,
                            bool half) {
    int fd[ROWS_MAX], wrong = 0;
    assert_true(n <= ROWS_MAX);
    for (int i = 0; i < n; i++) {
        fd[i] = serve_connect(serve);
        serve_send(fd[i], row[i].data, row[i].len);
        if (half) shutdown(fd[i], SHUT_WR);
    }
    const uint64_t end_ns = soon_ns();
    for (int i = 0; i < n; i++) wrong += is_wrong(fd[i], &row[i], judge, end_ns);
    serve_is_well(serve, "the rows");
    check(!wrong, "%d of %d rows are wrong", wrong, n);
}
#define ROWS(rows, judge) rows_are_judged(*state, rows, sizeof rows / sizeof *rows, judge, false)

static bool status_is(const struct row *row, int status) {
    for (int i = 0; i < 3; i++) {
        if (status && status == row->status[i]) return true;
    }
    return false;
}

static const char *refused(const struct row *row, const struct reply *reply,
                           const struct answers *answers) {
    if (answers->fault) return answers->fault;
    if (answers->n == 0) return "no answer";
    if (!status_is(row, answers->at[0].status)) return "another status";
    if (answers->n > 1) return "a second answer";
    if (!answer_is_json_error(&answers->at[0])) return "the body is no error of ours";
    return reply->closed ? NULL : "the connection stayed open";
}

// ---------------------------------------------------------------- refusals

CASE(folded_fields_are_refused) {
    static const struct row rows[] = {
        ROW(POST "Content-Length:\r\n 46\r\n\r\n" HIDDEN, 400),
        ROW(POST "Content-Length:\r\n\t46\r\n\r\n" HIDDEN, 400),
        ROW(POST "Content-Length: 1\r\n 0\r\n\r\n" HIDDEN, 400),
        ROW(POST "Content-Length: 0\r\n 60\r\n\r\n" HIDDEN, 400),
        ROW(POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" HIDDEN, 400),
        ROW(POST "Transfer-Encoding:\r\n\tchunked\r\n\r\n0\r\n\r\n" HIDDEN, 400),
        ROW(POST "Transfer-Encoding: chun\r\n ked\r\n\r\n0\r\n\r\n" HIDDEN, 400),
        ROW(POST "Transfer-Encoding: chunked\r\n , identity\r\n\r\n0\r\n\r\n" HIDDEN, 400),
        ROW(POST "X: a\r\n Content-Length: 60\r\n\r\n" HIDDEN, 400),
        ROW("GET /health HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n" HIDDEN, 400),
        ROW("GET /health HTTP/1.1\r\n Host: localhost\r\n\r\n" HIDDEN, 400),
        ROW("GET /health HTTP/1.1\r\nHost:\r\n localhost\r\n\r\n" HIDDEN, 400),
    };
    ROWS(rows, refused);
}

CASE(a_nul_in_the_head_is_refused) {
    static const struct row rows[] = {
        ROW("\0GET /health HTTP/1.1\r\n" HOST "\r\n" HIDDEN, 400),
        ROW("GE\0T /health HTTP/1.1\r\n" HOST "\r\n" HIDDEN, 400),
        ROW("GET /metrics\0/health HTTP/1.1\r\n" HOST "\r\n" HIDDEN, 400),
        ROW("GET /health\0 HTTP/1.1\r\n" HOST "\r\n" HIDDEN, 400),
        ROW("GET /health HTTP/1.1\0\r\n" HOST "\r\n" HIDDEN, 400),
        ROW("GET /health HTTP/1.1\r\nHost: localhost\0.example\r\n\r\n" HIDDEN, 400),
        ROW(GET "X\0: a\r\n\r\n" HIDDEN, 400),
        ROW(GET "X: \0\r\n\r\n" HIDDEN, 400),
        ROW(GET "X: a\0b\r\n\r\n" HIDDEN, 400),
        ROW(GET "\0\r\n\r\n" HIDDEN, 400),
        ROW(POST "Transfer-Encoding: chunked\0x\r\n\r\n0\r\n\r\n" HIDDEN, 400),
        ROW(POST "Content-Length: 5\0 5\r\n\r\n" HIDDEN, 400),
        ROW(POST "Content-Length: 0\0\r\n\r\n" HIDDEN, 400),
    };
    ROWS(rows, refused);
}

CASE(bare_line_feeds_are_refused) {
    static const struct row rows[] = {
        ROW("GET /health HTTP/1.1\nHost: localhost\n\n" HIDDEN, 400),
        ROW("GET /health HTTP/1.1\nHost: localhost\r\n\r\n" HIDDEN, 400),
        ROW(GET "X: a\nY: b\r\n\r\n" HIDDEN, 400),
        ROW(GET "X: a\n\r\n" HIDDEN, 400),
        ROW(GET "X: a\r\n\n" HIDDEN, 400),
        ROW(GET "X: a\rb\r\n\r\n" HIDDEN, 400), // and carriage returns
        ROW(GET "X: a\r\r\n\r\n" HIDDEN, 400),
        ROW(POST CHUNK "f\n" BODY "\r\n0\r\n\r\n" HIDDEN, 400),
        ROW(POST CHUNK "f\r\n" BODY "\n0\r\n\r\n" HIDDEN, 400),
        ROW(POST CHUNK "f;a=b\n" BODY "\r\n0\r\n\r\n" HIDDEN, 400),
        ROW(POST CHUNK "f\r\n" BODY "\r\n0\n\r\n" HIDDEN, 400),
        ROW(POST CHUNK "f\r\n" BODY "\r\n0\r\n\n" HIDDEN, 400),
        ROW(POST CHUNK "f\r\n" BODY "\r\n0\r\nX: a\n\r\n" HIDDEN, 400),
        ROW(POST CHUNK "f\r\n" BODY "\r\n0\r\nContent-Length: 5\r\n\r\n" HIDDEN, 400),
        ROW(POST CHUNK "f\r\n" BODY "\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n" HIDDEN, 400),
    };
    ROWS(rows, refused);
}

CASE(wrong_fields_are_refused) {
    static const struct row rows[] = {
        ROW(GET HOST "\r\n" HIDDEN, 400),
        ROW(GET "Host: evil.example\r\n\r\n" HIDDEN, 400),
        ROW("GET /health HTTP/1.1\r\n\r\n" HIDDEN, 400),
        ROW("GET /health HTTP/1.1\r\nX: a\r\n\r\n" HIDDEN, 400),
        ROW("GET /health HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n", 400, 403),
        ROW("GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n" HIDDEN, 400),
        ROW(GET ": a\r\n\r\n" HIDDEN, 400),
        ROW(GET ":\r\n\r\n" HIDDEN, 400),
        ROW(GET "X : a\r\n\r\n" HIDDEN, 400),
        ROW(GET "X\t: a\r\n\r\n" HIDDEN, 400),
        ROW(GET "X Y: a\r\n\r\n" HIDDEN, 400),
        ROW(GET "X(): a\r\n\r\n" HIDDEN, 400),
        ROW(GET "No colon\r\n\r\n" HIDDEN, 400),
        ROW(GET "X: a\x01\r\n\r\n" HIDDEN, 400),
        ROW(GET "X: a\x7f\r\n\r\n" HIDDEN, 400),
        ROW(POST "Content-Length : 15\r\n\r\n" BODY HIDDEN, 400),
        ROW(POST "Content-Length:\x0b"
                 "0\r\n\r\n" HIDDEN,
            400),
        ROW(POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" HIDDEN, 400),
        ROW(POST "Transfer-Encoding:\x0b"
                 "chunked\r\n\r\n0\r\n\r\n" HIDDEN,
            400),
        ROW("GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 403),
        ROW(GET "Origin: http://evil.example\r\nConnection: close\r\n\r\n", 403),
        ROW(POST "Expect: tea\r\nContent-Length: 15\r\n\r\n" BODY, 417),
    };
    ROWS(rows, refused);
}

CASE(wrong_lengths_are_refused) {
    static const struct row rows[] = {
        ROW(POST "Content-Length: -1\r\n\r\n" BODY, 400),
        ROW(POST "Content-Length: +15\r\n\r\n" BODY, 400),
        ROW(POST "Content-Length: 15, 15\r\n\r\n" BODY, 400),
        ROW(POST "Content-Length: 15,15\r\n\r\n" BODY, 400),
        ROW(POST "Content-Length: 15 15\r\n\r\n" BODY, 400),
        ROW(POST "Content-Length: 15;\r\n\r\n" BODY, 400),
        ROW(POST "Content-Length: 0x0f\r\n\r\n" BODY, 400),
        ROW(POST "Content-Length: 15.0\r\n\r\n" BODY, 400),
        ROW(POST "Content-Length:\r\n\r\n" BODY, 400),
        ROW(POST "Content-Length: \r\n\r\n" BODY, 400),
        ROW(POST "Content-Length: a\r\n\r\n" BODY, 400),
        ROW(POST "Content-Length: 15\r\nContent-Length: 15\r\n\r\n" BODY, 400),
        ROW(POST "Content-Length: 15\r\nContent-Length: 0\r\n\r\n" BODY, 400),
        ROW(POST "Content-Length: 0\r\nContent-Length: 60\r\n\r\n" HIDDEN, 400),
        ROW(POST "Content-Length: 15\r\n" CHUNK "f\r\n" BODY "\r\n0\r\n\r\n" HIDDEN, 400),
        ROW(POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" HIDDEN, 400),
        ROW(POST "Content-Length: 9223372036854775807\r\n\r\n" BODY, 413, 400),
        ROW(POST "Content-Length: 9223372036854775808\r\n\r\n" BODY, 413, 400),
        ROW(POST "Content-Length: 18446744073709551615\r\n\r\n" BODY, 413, 400),
        ROW(POST "Content-Length: 18446744073709551616\r\n\r\n" BODY, 413, 400),
        ROW(POST "Content-Length: 18446744073709551631\r\n\r\n" BODY, 413, 400),
        ROW(POST "Content-Length: 99999999999999999999999999999999\r\n\r\n" BODY, 413, 400),
        ROW(POST "Content-Length: 16777217\r\n\r\n" BODY, 413),
        ROW(POST "Expect: 100-continue\r\nContent-Length: 16777217\r\n\r\n", 413),
    };
    ROWS(rows, refused);
}

CASE(wrong_codings_and_chunks_are_refused) {
    static const struct row rows[] = {
        ROW(POST "Transfer-Encoding: gzip\r\n\r\n" BODY, 400, 501),
        ROW(POST "Transfer-Encoding: identity\r\n\r\n" HIDDEN, 400, 501),
        ROW(POST "Transfer-Encoding: xchunked\r\n\r\n" HIDDEN, 400, 501),
        ROW(POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" HIDDEN, 400, 501),
        ROW(POST "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n" HIDDEN, 400, 501),
        ROW(POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" HIDDEN, 400, 501),
        ROW(POST "Transfer-Encoding:\r\n\r\n" HIDDEN, 400, 501),
        ROW(POST "Transfer-Encoding: chunked\r\n" CHUNK "0\r\n\r\n" HIDDEN, 400),
        ROW(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: a\r\n\r\n0\r\n\r\n" HIDDEN, 400,
            501),
        ROW("POST /tokenize HTTP/1.0\r\n" HOST CHUNK "0\r\n\r\n" HIDDEN, 400),
        ROW(POST CHUNK "ZZ\r\n\r\n", 400),
        ROW(POST CHUNK "-1\r\n" BODY "\r\n", 400),
        ROW(POST CHUNK "+f\r\n" BODY "\r\n", 400),
        ROW(POST CHUNK "0xf\r\n" BODY "\r\n", 400),
        ROW(POST CHUNK " f\r\n" BODY "\r\n", 400),
        ROW(POST CHUNK "\r\n" BODY "\r\n", 400),
        ROW(POST CHUNK "f g\r\n" BODY "\r\n", 400),
        ROW(POST CHUNK "FFFFFFFFFFFFFFFF\r\n" BODY, 400, 413),
        ROW(POST CHUNK "FFFFFFFFFFFFFFFFF\r\n" BODY, 400, 413),
        ROW(POST CHUNK "1000000000000000f\r\n" BODY, 400, 413),
        ROW(POST CHUNK "f\r\n" BODY "garbage\r\n0\r\n\r\n", 400),
    };
    ROWS(rows, refused);
}

CASE(wrong_request_lines_are_refused) {
    static const struct row rows[] = {
        ROW("GARBAGE\r\n\r\n", 400),
        ROW("GET\r\n\r\n", 400),
        ROW("GET /health\r\n\r\n", 400), // HTTP/0.9
        ROW("GET  /health HTTP/1.1\r\n" HOST "\r\n", 400),
        ROW("GET /health  HTTP/1.1\r\n" HOST "\r\n", 400),
        ROW("GET\t/health\tHTTP/1.1\r\n" HOST "\r\n", 400),
        ROW("GET /health a HTTP/1.1\r\n" HOST "\r\n", 400),
        ROW(" GET /health HTTP/1.1\r\n" HOST "\r\n", 400),
        ROW("GET health HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 400, 404),
        ROW("GET /health http/1.1\r\n" HOST "\r\n", 400, 505),
        ROW("GET /health HTTP/1.10\r\n" HOST "\r\n", 400, 505),
        ROW("GET /health HTTP/1\r\n" HOST "\r\n", 400, 505),
        ROW("GET /health JUNK/1.1\r\n" HOST "\r\n", 400, 505),
        ROW("GET /health HTTP/2.0\r\n" HOST "\r\n", 505, 400),
        ROW("GET /health HTTP/9.9\r\n" HOST "\r\n", 505, 400),
        ROW("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, 400),
        ROW("G{T /health HTTP/1.1\r\n" HOST "\r\n", 400, 501),
        ROW("BREW /health HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 501),
        ROW("get /health HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 501, 405, 400),
        ROW("TRACE /health HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 405),
        ROW("CONNECT localhost:80 HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 501, 405, 400),
        ROW("POST /health HTTP/1.1\r\n" HOST "Connection: close\r\nContent-Length: 0\r\n\r\n", 405),
        ROW("GET /nothing HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 404),
        ROW("GET /../../etc/passwd HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 404),
        ROW("GET /assets/../../etc/passwd HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 404),
        ROW("GET /assets/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n",
            404),
        ROW("GET /health%00 HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 404),
        ROW("GET /\xFF\xFE HTTP/1.1\r\n" HOST "\r\n", 400),
        ROW("\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03\r\n\r\n", 400), // TLS to a plain port
    };
    ROWS(rows, refused);
}

// A row of head, so many bytes of units, and tail.
static struct row filled(const char *head, const char *unit, size_t bytes, const char *tail,
                         int status, int other) {
    const size_t unit_len = strlen(unit), n = bytes / unit_len;
    char *data = malloc(strlen(head) + n * unit_len + strlen(tail) + 1);
    assert_non_null(data);
    char *at = stpcpy(data, head);
    for (size_t i = 0; i < n; i++, at += unit_len) memcpy(at, unit, unit_len);
    at = stpcpy(at, tail);
    return (struct row){data, (size_t)(at - data), {status, other}};
}

static void rows_free(struct row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) free((void *)(uintptr_t)rows[i].data);
}

CASE(large_heads_are_refused) {
    struct row rows[] = {
        filled(GET "X: ", "a", HEAD_MAX + 1 - strlen(GET "X: \r\n\r\n"), "\r\n\r\n", 431, 0),
        filled(GET "X: ", "a", 1 << 20, "\r\n\r\n", 431, 0),
        filled(GET, "X: a\r\n", HEAD_MAX, "\r\n", 431, 0),
        filled("GET /", "a", HEAD_MAX, " HTTP/1.1\r\n" HOST "\r\n", 414, 431),
        filled("GET /health?", "a=b&", 1 << 20, " HTTP/1.1\r\n" HOST "\r\n", 414, 431),
        filled("", "A", 1 << 20, "", 431, 414),
        filled("", "\r\n", 1 << 20, "", 431, 414),
    };
    ROWS(rows, refused);
    rows_free(rows, sizeof rows / sizeof *rows);
}

// ---------------------------------------------------------------- bodies that are too large

// Sends as clients do that write all before they read: 413 must be there to be read.
CASE(too_large_a_body_is_told) {
    const struct serve *serve = *state;
    static const struct {
        size_t mb;
        bool chunked;
    } body[] = {{17, false}, {70, false}, {17, true}, {70, true}};
    static char block[8 + (1 << 20) + 2];
    memset(block, ' ', sizeof block);
    memcpy(block, "100000\r\n", 8);
    memcpy(block + sizeof block - 2, "\r\n", 2);
    int wrong = 0;
    for (size_t i = 0; i < sizeof body / sizeof *body; i++) {
        char head[256];
        if (body[i].chunked)
            snprintf(head, sizeof head, "%s", POST "Connection: close\r\n" CHUNK);
        else
            snprintf(head, sizeof head, POST "Connection: close\r\nContent-Length: %zu\r\n\r\n",
                     body[i].mb << 20);
        const int fd = serve_connect(serve);
        const struct timeval patience = {.tv_sec = 30};
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        bool sent = serve_send(fd, head, strlen(head));
        for (size_t n = 0; n < body[i].mb && sent; n++) {
            sent = body[i].chunked ? serve_send(fd, block, sizeof block)
                                   : serve_send(fd, block + 8, 1 << 20);
        }
        if (sent && body[i].chunked) serve_send(fd, "0\r\n\r\n", 5);
        const struct row row = {head, strlen(head), {413}};
        wrong += is_wrong(fd, &row, refused, soon_ns());
    }
    serve_is_well(serve, "large bodies");
    check(!wrong, "%d are wrong", wrong);
}

// ---------------------------------------------------------------- what is taken

// The row's own answer, and one to LAST behind it.
static const char *taken(const struct row *row, const struct reply *reply,
                         const struct answers *answers) {
    if (answers->fault) return answers->fault;
    if (answers->n == 0) return "no answer";
    if (!status_is(row, answers->at[0].status)) return "another status";
    if (answers->n != 2) return "not two answers";
    if (answers->at[1].status != 200 || !strstr(answers->at[1].body, "\"ok\"")) {
        return "the second answer is not that of /health";
    }
    return reply->closed ? NULL : "the connection stayed open";
}

CASE(all_forms_of_a_request_are_taken) {
    struct row rows[] = {
        ROW(GET "\r\n" LAST, 200),
        ROW("\r\n" GET "\r\n" LAST, 200),
        ROW("GET http://127.0.0.1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" LAST, 200),
        ROW("GET http://localhost:8080/health HTTP/1.1\r\n" HOST "\r\n" LAST, 200),
        ROW("GET HTTP://localhost/health?a=b HTTP/1.1\r\n" HOST "\r\n" LAST, 200),
        ROW("GET /health? HTTP/1.1\r\n" HOST "\r\n" LAST, 200),
        ROW("GET /health?a=%00&&=&b HTTP/1.1\r\n" HOST "\r\n" LAST, 200),
        ROW("GET /health HTTP/1.1\r\nhost:localhost\r\n\r\n" LAST, 200),
        ROW("GET /health HTTP/1.1\r\nHOST: \t localhost \t \r\n\r\n" LAST, 200),
        ROW("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" LAST, 200),
        ROW(GET "X:\r\nY: \r\nZ: a: b\r\n\r\n" LAST, 200),
        ROW(GET "X: \xc3\xa9\xff\r\n\r\n" LAST, 200),
        ROW(GET "!#$%&'*+-.^_`|~09aZ: a\r\n\r\n" LAST, 200),
        ROW(GET "Content-Length: 0\r\n\r\n" LAST, 200),
        ROW(POST "Content-Length: 15\r\n\r\n" BODY LAST, 200),
        ROW(POST "content-length:15\r\n\r\n" BODY LAST, 200),
        ROW(POST "Content-Length: 0000015\r\n\r\n" BODY LAST, 200),
        ROW(POST CHUNK "f\r\n" BODY "\r\n0\r\n\r\n" LAST, 200),
        ROW(POST "transfer-encoding:Chunked\r\n\r\nF\r\n" BODY "\r\n0\r\n\r\n" LAST, 200),
        ROW(POST CHUNK "000f\r\n" BODY "\r\n0000\r\n\r\n" LAST, 200),
        ROW(POST CHUNK "f;a=b;c=\"d\"\r\n" BODY "\r\n0;e\r\n\r\n" LAST, 200),
        ROW(POST CHUNK "f\r\n" BODY "\r\n0\r\nX: a\r\nY: b\r\n\r\n" LAST, 200),
        ROW(POST CHUNK "1\r\n{\r\ne\r\n\"content\":\"a\"}\r\n0\r\n\r\n" LAST, 200),
        ROW(POST "Content-Length: 1\r\n\r\n{" LAST, 400), // a wrong body ends nothing
        ROW("GET /nothing HTTP/1.1\r\n" HOST "\r\n" LAST, 404),
        filled("GET /health?", "a=b&", 3500 * 4, " HTTP/1.1\r\n" HOST "\r\n" LAST, 200, 0),
        filled(GET, "X: a\r\n", 100 * 6, "\r\n" LAST, 200, 0),
        filled(GET "X: ", "a", HEAD_MAX - strlen(GET "X: \r\n\r\n"), "\r\n\r\n" LAST, 200, 0),
    };
    ROWS(rows, taken);
    rows_free(rows + sizeof rows / sizeof *rows - 3, 3);
}

// The first answer is read without a body: a byte of one would be a fault of the second.
CASE(head_sends_no_body) {
#define HEAD(path) "HEAD " path " HTTP/1.1\r\n" HOST "\r\n" LAST
    static const struct row rows[] = {
        ROW(HEAD("/health"), 200),
        ROW(HEAD("/v1/health"), 200),
        ROW(HEAD("/health/live"), 200),
        ROW(HEAD("/health/ready"), 200),
        ROW(HEAD("/"), 200),
        ROW(HEAD("/assets/base.css"), 200),
        ROW(HEAD("/favicon.ico"), 200, 404),
        ROW(HEAD("/metrics"), 200),
        ROW(HEAD("/engine"), 200),
        ROW(HEAD("/engine/live"), 200),
        ROW(HEAD("/v1/models"), 200),
        ROW(HEAD("/models"), 200),
        ROW(HEAD("/v1/models/tiny"), 200),
        ROW(HEAD("/v1/models/none"), 404),
        ROW(HEAD("/props"), 200),
        ROW(HEAD("/slots"), 200),
        ROW(HEAD("/api/tags"), 200),
        ROW(HEAD("/api/version"), 200),
        ROW(HEAD("/api/blobs/sha256:0"), 501),
        ROW(HEAD("/v1/responses/resp_0"), 404),
        ROW(HEAD("/nothing"), 404),
        ROW(HEAD("/tokenize"), 405),
    };
    ROWS(rows, taken);
}

CASE(a_packed_body_is_refused_and_not_read_as_a_plain_one) {
#define PACKED(value, body)                                                                        \
    ROW(POST "Connection: close\r\nContent-Encoding: " value "\r\n" body, 415)
    static const struct row rows[] = {
        PACKED("gzip", "Content-Length: 15\r\n\r\n" BODY),
        PACKED("GZIP", "Content-Length: 15\r\n\r\n" BODY),
        PACKED("identity, br", "Content-Length: 15\r\n\r\n" BODY),
        PACKED("identity\r\nContent-Encoding: zstd", "Content-Length: 15\r\n\r\n" BODY),
        PACKED("identitys", "Content-Length: 15\r\n\r\n" BODY),
        PACKED("utf-8, gzip", "Content-Length: 15\r\n\r\n" BODY),
        PACKED("utf-16", "Content-Length: 15\r\n\r\n" BODY),
        PACKED("gzip", CHUNK "4\r\n\x1F\x8B\x08\n\r\n0\r\n\r\n"),
    };
    ROWS(rows, refused);
#undef PACKED
#define PLAIN(value)                                                                               \
    ROW(POST "Content-Encoding: " value "\r\nContent-Length: 15\r\n\r\n" BODY LAST, 200)
    static const struct row plain[] = {
        PLAIN("identity"),
        PLAIN("Identity , identity"),
        PLAIN("UTF-8"),
        PLAIN("utf8, identity"),
        PLAIN(""),
        ROW("GET /health HTTP/1.1\r\n" HOST "Content-Encoding: gzip\r\n\r\n" LAST, 200),
    };
    ROWS(plain, taken);
#undef PLAIN
    static const char packed[] =
        POST "Content-Encoding: x-gzip\r\nContent-Length: 15\r\nConnection: close\r\n\r\n" BODY;
    const int fd = serve_connect(*state);
    serve_send(fd, packed, sizeof packed - 1);
    struct reply reply = serve_receive(fd, true, AT_ONCE_MS);
    check(strstr(reply.data, "\r\nAccept-Encoding: identity\r\n"), "%s", reply.data);
    check(strstr(reply.data, "Content-Encoding: x-gzip is not taken"), "%s", reply.data);
    check(strstr(reply.data, "\"code\":\"unsupported_encoding\""), "%s", reply.data);
    reply_free(&reply);
    close(fd);
}

CASE(a_path_that_is_nearly_right_is_told_the_right_one) {
    static const char *const paths[][2] = {
        {"/v1/chat/completions/", "/v1/chat/completions"},
        {"//v1/chat/completions", "/v1/chat/completions"},
        {"/v1/v1/messages", "/v1/messages"},
        {"/api/v1//completions/", "/v1/completions"},
        {"/messages", "/v1/messages"},
        {"/v1/tokenize", "/tokenize"},
        {"/v1", NULL},
        {"///", NULL},
        {"/v1/none", NULL},
        {"/health/?x=/v1/models", "/health"},
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char text[256], hint[128];
        const int fd = serve_connect(*state);
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n",
                 paths[i][0]);
        snprintf(hint, sizeof hint, "; did you mean %s?\"",
                 paths[i][1] ? paths[i][1] : "another path");
        serve_send(fd, text, strlen(text));
        struct reply reply = serve_receive(fd, true, AT_ONCE_MS);
        check(strstr(reply.data, " 404 ") && !strstr(reply.data, hint) == !paths[i][1], "%s: %s",
              paths[i][0], reply.data);
        check(paths[i][1] || !strstr(reply.data, "mean"), "%s: %s", paths[i][0], reply.data);
        reply_free(&reply);
        close(fd);
    }
}

CASE(a_strange_host_or_origin_is_named) {
    static const char *const asked[][2] = {
        {"GET /health HTTP/1.1\r\nHost: evil.example:80\r\nConnection: close\r\n\r\n",
         "The Host header, evil.example:80, names no host"},
        {GET "Origin: https://evil.example\r\nConnection: close\r\n\r\n",
         "Pages of the origin https://evil.example may not call"},
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        const int fd = serve_connect(*state);
        serve_send(fd, asked[i][0], strlen(asked[i][0]));
        struct reply reply = serve_receive(fd, true, AT_ONCE_MS);
        check(strstr(reply.data, " 403 ") && strstr(reply.data, asked[i][1]), "%s", reply.data);
        reply_free(&reply);
        close(fd);
    }
}

CASE(requests_behind_each_other_are_answered_in_order) {
    enum { N = 100 };
    static struct answers answers;
    char *text = malloc(N * 200 + 200), *at = text;
    assert_non_null(text);
    for (int i = 0; i < N; i++) {
        if (i % 3 == 0)
            at = stpcpy(at, GET "\r\n");
        else if (i % 3 == 1)
            at = stpcpy(at, POST "Content-Length: 15\r\n\r\n" BODY);
        else
            at = stpcpy(at, POST CHUNK "f\r\n" BODY "\r\n0\r\n\r\n");
    }
    at = stpcpy(at, LAST);
    const int fd = serve_connect(*state);
    serve_send(fd, text, (size_t)(at - text));
    struct reply reply = serve_receive(fd, true, SERVE_PATIENCE_MS);
    answers_of(&reply, false, &answers);
    check(!answers.fault && answers.n == N + 1, "%d answers, %s", answers.n, answers.fault);
    for (int i = 0; i < N; i++) {
        check(answers.at[i].status == 200 &&
                  strstr(answers.at[i].body, i % 3 ? "tokens" : "\"ok\""),
              "%d: %s", i, answers.at[i].body);
    }
    answers_free(&answers);
    reply_free(&reply);
    close(fd);
    free(text);
}

// Wherever a packet ends, the request is the same.
CASE(requests_may_be_cut_anywhere) {
    static const char text[] = "POST /tokenize HTTP/1.1\r\n" HOST "X: \t a b \r\n" CHUNK
                               "1\r\n{\r\nE;x=y\r\n\"content\":\"a\"}\r\n0\r\nX: a\r\n\r\n" LAST;
    static const struct row row = ROW(text, 200);
    int wrong = 0;
    for (size_t cut = 1; cut < sizeof text - 1; cut++) {
        const int fd = serve_connect(*state);
        serve_send(fd, text, cut);
        poll(NULL, 0, 1); // so that the server reads what is there
        serve_send(fd, text + cut, sizeof text - 1 - cut);
        wrong += is_wrong(fd, &row, taken, soon_ns());
    }
    check(!wrong, "%d cuts are wrong", wrong);
}

CASE(requests_may_come_byte_by_byte) {
    static const char text[] = POST CHUNK "f\r\n" BODY "\r\n0\r\n\r\n" LAST;
    static const struct row row = ROW(text, 200);
    const int fd = serve_connect(*state);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        serve_send(fd, &text[i], 1);
        poll(NULL, 0, 1);
    }
    assert_false(is_wrong(fd, &row, taken, soon_ns()));
}

// ---------------------------------------------------------------- half-closed clients

static const char *served(const struct row *row, const struct reply *reply,
                          const struct answers *answers) {
    if (answers->fault) return answers->fault;
    if (answers->n == 0) return "no answer";
    if (answers->n > 1) return "a second answer";
    if (!status_is(row, answers->at[0].status)) return "another status";
    if (strstr(row->data, "\"stream\":true") && !strstr(answers->at[0].body, "data: [DONE]")) {
        return "the stream has no end";
    }
    return reply->closed ? NULL : "the connection stayed open";
}

// A client that sends no more still reads: it gets all of its answer, and then the end.
CASE(half_closed_clients_get_their_answers) {
#define ASK(path, length, body)                                                                    \
    "POST " path " HTTP/1.1\r\n" HOST "Content-Length: " length "\r\n\r\n" body
    static const struct row rows[] = {
        ROW(GET "\r\n", 200),
        ROW("GET /metrics HTTP/1.1\r\n" HOST "\r\n", 200),
        ROW("GET /engine HTTP/1.1\r\n" HOST "\r\n", 200),
        ROW("GET /nothing HTTP/1.1\r\n" HOST "\r\n", 404),
        ROW(POST "Content-Length: 15\r\n\r\n" BODY, 200),
        ROW(POST CHUNK "f\r\n" BODY "\r\n0\r\n\r\n", 200),
        ROW(ASK("/v1/completions", "30", "{\"prompt\":\"ab\",\"max_tokens\":8}"), 200),
        ROW(ASK("/v1/completions", "44", "{\"prompt\":\"ab\",\"max_tokens\":8,\"stream\":true}"),
            200),
        ROW(ASK("/v1/completions", "47", "{\"prompt\":\"ab\",\"max_tokens\":200,\"stream\":true} "),
            200),
        ROW(ASK("/v1/embeddings", "14", "{\"input\":\"ab\"}"), 200),
        ROW("POST /v1/completions HTTP/1.0\r\nContent-Length: 32\r\n\r\n"
            "{\"prompt\":\"ab\",\"max_tokens\":200}",
            200),
    };
    rows_are_judged(*state, rows, sizeof rows / sizeof *rows, served, true);
}

static const char *ended(const struct row *row, const struct reply *reply,
                         const struct answers *answers) {
    if (reply->status && reply->status != 400) return "another status";
    return reply->closed ? NULL : "the connection stayed open";
}

// Nothing more can come of these: they are ended long before a deadline.
CASE(half_requests_of_half_closed_clients_are_ended) {
    static const struct row rows[] = {
        ROW("", 0),
        ROW("GE", 0),
        ROW(GET, 0),
        ROW("\r\n", 0),
        ROW(POST "Content-Length: 15\r\n\r\n{", 400),
        ROW(POST CHUNK "f\r\n{", 400),
        ROW(POST CHUNK, 400),
    };
    rows_are_judged(*state, rows, sizeof rows / sizeof *rows, ended, true);
}

// ---------------------------------------------------------------- expectations

CASE(a_client_that_waits_is_told_to_send) {
    static const char *const expect[] = {"Expect: 100-continue", "expect: 100-Continue"};
    for (int i = 0; i < 4; i++) {
        static struct answers answers;
        const bool chunked = i / 2;
        char head[256];
        snprintf(head, sizeof head, POST "%s\r\n%s\r\n\r\n", expect[i % 2],
                 chunked ? "Transfer-Encoding: chunked" : "Content-Length: 15");
        const int fd = serve_connect(*state);
        serve_send(fd, head, strlen(head));
        char told[64] = "";
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, AT_ONCE_MS) > 0) recv(fd, told, sizeof told - 1, 0);
        check(!strcmp(told, "HTTP/1.1 100 Continue\r\n\r\n"), "%s: %s", head, told);
        const char *rest = chunked ? "f\r\n" BODY "\r\n0\r\n\r\n" LAST : BODY LAST;
        serve_send(fd, rest, strlen(rest));
        struct reply reply = serve_receive(fd, true, AT_ONCE_MS);
        answers_of(&reply, false, &answers);
        check(!answers.fault && answers.n == 2 && answers.at[0].status == 200, "%s", reply.data);
        check(answers.n_continue == 0, "%s", reply.data);
        answers_free(&answers);
        reply_free(&reply);
        close(fd);
    }
}

// Also where the system took the words later than they were there.
CASE(a_client_is_told_to_send_late) {
    static const char head[] = POST "Expect: 100-continue\r\nContent-Length: 15\r\n\r\n";
    const int fd = serve_connect(*state);
    client = pthread_self();
    n_refused = 1;
    serve_send(fd, head, sizeof head - 1);
    for (int waited_ms = 0; n_refused && waited_ms < AT_ONCE_MS; waited_ms++) usleep(1000);
    assert_int_equal(n_refused, 0);
    serve_send(fd, "{", 1); // the event that says that there is room, too
    char told[64] = "";
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    if (poll(&wait, 1, AT_ONCE_MS) > 0) recv(fd, told, sizeof told - 1, 0);
    check(!strcmp(told, "HTTP/1.1 100 Continue\r\n\r\n"), "%s", told);
    close(fd);
}

static const char *not_told(const struct row *row, const struct reply *reply,
                            const struct answers *answers) {
    return answers->n_continue ? "told to send" : served(row, reply, answers);
}

// HTTP/1.0 has no such status.
CASE(others_are_not_told_to_send) {
    static const struct row rows[] = {
        ROW("POST /tokenize HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 15\r\n\r\n" BODY,
            200),
        ROW(POST "Content-Length: 15\r\nConnection: close\r\n\r\n" BODY, 200),
    };
    ROWS(rows, not_told);
}

// ---------------------------------------------------------------- the end of a connection

// The received part of a refused body is read before the connection is closed: a reset would
// discard answers that the system still holds.
CASE(a_client_that_ends_a_refused_body_is_not_reset) {
    enum { PAGES = 12 };
    static const char page[] = "GET / HTTP/1.1\r\n" HOST "\r\n";
    static const char refused[] = POST "Content-Length: 99999999\r\n\r\n";
    static struct answers answers;
    const int fd = serve_connect(*state), bytes = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    for (int i = 0; i < PAGES; i++) serve_send(fd, page, sizeof page - 1);
    serve_send(fd, refused, sizeof refused - 1);
    usleep(300000); // until all is answered and nothing is read
    send(fd, refused, sizeof refused - 1, MSG_MORE | MSG_NOSIGNAL); // goes with the end
    shutdown(fd, SHUT_WR);
    usleep(300000);
    struct reply reply = serve_receive(fd, true, AT_ONCE_MS);
    answers_of(&reply, false, &answers);
    check(answers.n == PAGES + 1 && !answers.fault && answers.at[PAGES].status == 413,
          "%d answers in %zu bytes", answers.n, reply.len);
    answers_free(&answers);
    reply_free(&reply);
    close(fd);
}

// Closed where it is to be, and said so; and where not, kept.
CASE(connections_are_kept_as_asked) {
    static const struct {
        const char *text;
        bool kept;
    } row[] = {
        {GET "\r\n", true},
        {GET "Connection: keep-alive\r\n\r\n", true},
        {GET "Connection: close\r\n\r\n", false},
        {GET "Connection: Close\r\n\r\n", false},
        {GET "Connection: x, close\r\n\r\n", false},
        {GET "Connection: x\r\nConnection: close\r\n\r\n", false},
        {"GET /health HTTP/1.0\r\n\r\n", false},
        {"GET /health HTTP/1.0\r\n" HOST "\r\n", false},
        {"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
        {"GET /engine HTTP/1.0\r\n\r\n", false},
    };
    static struct answers answers;
    enum { N = sizeof row / sizeof *row };
    int fd[N], wrong = 0;
    for (int i = 0; i < N; i++) {
        fd[i] = serve_connect(*state);
        serve_send(fd[i], row[i].text, strlen(row[i].text));
    }
    for (int i = 0; i < N; i++) {
        struct reply reply = serve_receive(fd[i], true, row[i].kept ? 300 : AT_ONCE_MS);
        answers_of(&reply, false, &answers);
        const bool ok = answers.n == 1 && !answers.fault && answers.at[0].status == 200 &&
                        reply.closed == !row[i].kept && answers.at[0].close == !row[i].kept;
        if (!ok) wrong++, print_error("%s: %.300s\n", row[i].text, reply.data);
        answers_free(&answers);
        reply_free(&reply);
        close(fd[i]);
    }
    check(!wrong, "%d are wrong", wrong);
}

TEST_PROGRAM(wire) { return cases_run(wire_setup, serve_teardown); }
