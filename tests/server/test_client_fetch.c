// client_fetch against servers that answer, misbehave, or do not answer at all. A thread accepts
// one connection, reads the request's head and sends the text of the case.
// label: threads
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client.h"
#include "client/connection.h"
#include "helpers.h"
#include "loopback.h"

struct fake {
    int listener, port;
    const char *replies[4]; // one for each request of the connection
    bool endless;           // the last one again and again
    bool silent;            // nothing is sent until the client goes
    char seen[4096];        // the requests
    size_t seen_len;
    pthread_t thread;
};

static bool request_read(struct fake *fake, int fd) {
    const size_t from = fake->seen_len;
    for (;;) {
        const ssize_t n =
            recv(fd, fake->seen + fake->seen_len, sizeof fake->seen - 1 - fake->seen_len, 0);
        if (n <= 0) return false;
        fake->seen_len += (size_t)n;
        fake->seen[fake->seen_len] = '\0';
        if (strstr(fake->seen + from, "\r\n\r\n")) return true;
    }
}

static bool text_send(int fd, const char *text) {
    return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

static void *fake_run(void *ctx) {
    struct fake *fake = ctx;
    const int fd = accept(fake->listener, NULL, NULL);
    if (fd < 0) return NULL;
    for (int i = 0; i < 4 && fake->replies[i] && request_read(fake, fd); i++) {
        text_send(fd, fake->replies[i]);
        while (fake->endless && text_send(fd, "0123456789abcdef")) continue;
    }
    if (fake->silent) request_read(fake, fd);
    if (fake->silent) request_read(fake, fd);
    close(fd);
    return NULL;
}

static void fake_start(struct fake *fake) {
    fake->listener = loopback_listen(4, &fake->port);
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_run, fake), 0);
}

static void fake_stop(struct fake *fake) {
    shutdown(fake->listener, SHUT_RDWR);
    pthread_join(fake->thread, NULL);
    close(fake->listener);
}

static rn_status fetch(struct fake *fake, const char *method, const char *body, int timeout_ms,
                       size_t limit, struct client_reply *reply, rn_error *err) {
    char url[64];
    fake_start(fake);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/a?b", fake->port);
    const rn_status status = client_fetch(url, method, "X-Key: v\r\n", body,
                                          body ? strlen(body) : 0, timeout_ms, limit, reply, err);
    fake_stop(fake);
    return status;
}

CASE(a_request_is_sent_and_its_reply_comes_back) {
    struct fake fake = {.replies = {"HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\nsorry"}};
    struct client_reply reply;
    rn_error err = {0};
    check(fetch(&fake, "POST", "{}", 10000, 100, &reply, &err) == RN_OK, "%s", err.message);
    assert_int_equal(reply.status, 500);
    assert_int_equal(reply.body_len, 5);
    assert_string_equal(reply.body, "sorry");
    client_reply_free(&reply);
    char want[512];
    snprintf(want, sizeof want,
             "POST /a?b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: runnel/%s\r\nAccept: */*\r\n"
             "Content-Length: 2\r\nX-Key: v\r\nConnection: close\r\n\r\n",
             fake.port, RN_VERSION);
    assert_int_equal(strncmp(fake.seen, want, strlen(want)), 0);
}

CASE(an_empty_reply_is_an_empty_text) {
    struct fake fake = {.replies = {"HTTP/1.1 204 Empty\r\n\r\n"}};
    struct client_reply reply;
    assert_int_equal(fetch(&fake, "GET", NULL, 10000, 100, &reply, NULL), RN_OK);
    assert_int_equal(reply.body_len, 0);
    assert_string_equal(reply.body, "");
    client_reply_free(&reply);
    struct fake head = {.replies = {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"}};
    assert_int_equal(fetch(&head, "HEAD", NULL, 10000, 100, &reply, NULL), RN_OK);
    client_reply_free(&reply);
}

CASE(bad_replies_are_errors_with_the_servers_name) {
    static const char *const replies[] = {"", "garbage\r\n\r\n",
                                          "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"};
    for (int i = 0; i < 3; i++) {
        struct fake fake = {.replies = {replies[i]}};
        struct client_reply reply;
        rn_error err = {0};
        assert_int_equal(fetch(&fake, "GET", NULL, 10000, 100, &reply, &err), RN_ERR_IO);
        check(!strncmp(err.message, "127.0.0.1:", 10), "%s", err.message);
        assert_null(reply.body);
    }
}

CASE(a_reply_has_a_limit) {
    struct fake fake = {.replies = {"HTTP/1.1 200 OK\r\n\r\n"}, .endless = true};
    struct client_reply reply;
    rn_error err = {0};
    assert_int_equal(fetch(&fake, "GET", NULL, 60000, 1 << 16, &reply, &err), RN_ERR_IO);
    check(strstr(err.message, "more than 65536 bytes"), "%s", err.message);
}

CASE(a_silent_server_is_left_in_time) {
    struct fake fake = {.silent = true};
    struct client_reply reply;
    rn_error err = {0};
    const uint64_t start = clock_ns();
    assert_int_equal(fetch(&fake, "GET", NULL, 50, 100, &reply, &err), RN_ERR_DEADLINE);
    assert_true(clock_ns() - start >= 50 * 1000000ull);
}

CASE(nobody_listens) {
    struct client_reply reply;
    rn_error err = {0};
    struct fake fake = {0};
    char url[64];
    fake_start(&fake); // its port is free again
    fake_stop(&fake);
    snprintf(url, sizeof url, "http://localhost:%d", fake.port);
    assert_int_equal(client_fetch(url, "GET", NULL, NULL, 0, 10000, 100, &reply, &err), RN_ERR_IO);
    check(strstr(err.message, "Connection refused"), "%s", err.message);
    assert_int_equal(client_fetch("http:/x", "GET", NULL, NULL, 0, 1, 1, &reply, &err), RN_ERR_ARG);
}

// ---------------------------------------------------------------- connections

static void body_ignore(void *ctx, const char *data, size_t len) {}

static void request_run(struct client_connection *c, struct jbuf *request) {
    client_connection_send(c, request->data, request->len, false, body_ignore, NULL);
    for (int i = 0; i < 10000 && c->has_request && c->state != CONNECTION_FAILED; i++) {
        client_connection_step(c);
        if (c->has_request) usleep(200);
    }
}

CASE(a_connection_is_used_again_and_its_end_is_told_from_a_bad_reply) {
    struct fake fake = {.replies = {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
                                    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb"}};
    struct client_url url = {.host = "127.0.0.1", .path = "/", .authority = "h"};
    struct client_host host;
    struct client_connection *c = malloc(sizeof *c);
    struct jbuf request = {0};
    fake_start(&fake);
    url.port = fake.port;
    assert_int_equal(client_host_open(&url, &host, NULL), RN_OK);
    client_request_write(&request, &url, "GET", NULL, NULL, 0);
    assert_true(client_connection_open(c, &host, 0));
    for (int i = 0; i < 2; i++) {
        request_run(c, &request);
        check(client_connection_done(c) && c->state == CONNECTION_IDLE, "%d: %s", i, c->error);
    }
    fake_stop(&fake);
    request_run(c, &request);
    assert_true(client_connection_was_stale(c));
    client_connection_close(c);
    client_host_close(&host);
    jbuf_deinit(&request);
    free(c);
}

TEST_PROGRAM(client_fetch) { return cases_run(NULL, NULL); }
