// A server whose device fails. A failed step ends its requests with an error, and the server
// continues. A lost device ends every answer with an error, health reports it, and the server exits
// for its supervisor to restart it. Engines here run on the fake backend.
// label: threads device
#include "fake/fake_backend.h"
#include "serve_watch.h"

enum { SOON_MS = 10000 };

static char *body_of(int max_tokens, bool stream) {
    static char body[256];
    snprintf(body, sizeof body,
             "{\"prompt\":\"go on\",\"max_tokens\":%d,\"ignore_eos\":true,\"stream\":%s}",
             max_tokens, stream ? "true" : "false");
    return body;
}

// Begins a request and leaves the answer to be read.
static int begin(const struct serve *serve, int max_tokens, bool stream) {
    char text[1024];
    const char *body = body_of(max_tokens, stream);
    const int len = snprintf(text, sizeof text,
                             "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                             strlen(body), body);
    const int fd = serve_connect(serve);
    assert_true(serve_send(fd, text, (size_t)len));
    return fd;
}

static void expect(struct reply *reply, int status, const char *part) {
    check(reply->status == status && strstr(reply->data, part), "expected %d, %s: %.400s", status,
          part, reply->data);
    reply_free(reply);
}

static void await_submits(long n) {
    for (int waited_ms = 0; fake_control.n_submit < n; waited_ms += 5) {
        assert_true(waited_ms < SERVE_PATIENCE_MS);
        serve_sleep_ms(5);
    }
}

static void a_failed_step_is_told_and_the_next_request_works(void **state) {
    (void)state;
    const struct server_config config = serve_config();
    struct serve serve;
    fake_reset();
    serve_start(&serve, &config);
    for (int by_submit = 0; by_submit < 2; by_submit++) {
        fake_fail_at(by_submit ? FAKE_SUBMIT : FAKE_STEP, 4);
        struct reply whole = serve_post(&serve, "/v1/completions", body_of(12, false));
        expect(&whole, 500, "step_failed");
        fake_fail_at(by_submit ? FAKE_SUBMIT : FAKE_STEP, 4);
        struct reply stream = serve_post(&serve, "/v1/completions", body_of(12, true));
        assert_null(strstr(stream.data, "[DONE]"));
        expect(&stream, 200, "The device failed in a step");
        struct reply next = serve_post(&serve, "/v1/completions", body_of(12, false));
        expect(&next, 200, "\"finish_reason\":\"length\"");
        serve_is_well(&serve, "a failed step");
    }
    serve_stop(&serve);
}

// Three streams, one of which is not read, and two whole answers, one of which waits for a place.
static void a_lost_device_is_told_to_all_and_ends_the_server(void **state) {
    (void)state;
    for (int way = 0; way < 2; way++) {
        const struct server_config config = serve_config();
        struct serve serve;
        fake_reset();
        serve_start(&serve, &config);
        fake_control.delay_us = 20000;
        const int stream[] = {begin(&serve, 400, true), begin(&serve, 400, true),
                              begin(&serve, 400, true)};
        const int whole[] = {begin(&serve, 400, false), begin(&serve, 400, false)};
        await_submits(5);
        fake_fail_at(way ? FAKE_LOST_SUBMIT : FAKE_LOST, 5);
        for (int i = 0; i < 2; i++) {
            struct reply reply = serve_receive(stream[i], true, SERVE_PATIENCE_MS);
            assert_null(strstr(reply.data, "[DONE]"));
            expect(&reply, 200, "The device was lost");
            reply = serve_receive(whole[i], false, SERVE_PATIENCE_MS);
            expect(&reply, 503, "device_lost");
        }
        struct reply unread = serve_receive(stream[2], true, SERVE_PATIENCE_MS);
        expect(&unread, 200, "The device was lost");
        assert_int_equal(abs(server_wait(serve.server)), SERVER_LOST);
        rn_error err = {0};
        assert_int_equal(rn_engine_health(serve.engine, &err), RN_ERR_DEVICE);
        assert_non_null(strstr(err.message, "was to fail"));
        for (int i = 0; i < 3; i++) close(stream[i]);
        for (int i = 0; i < 2; i++) close(whole[i]);
        serve_stop(&serve);
    }
}

// A stream with much to read, on a connection that takes as little as possible.
static int begin_unread(const struct serve *serve) {
    static const char body[] = "{\"prompt\":\"go on\",\"max_tokens\":200,\"ignore_eos\":true,"
                               "\"logprobs\":20,\"stream\":true}";
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), bytes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)serve->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char text[1024];
    const int len = snprintf(text, sizeof text,
                             "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                             "Content-Length: %zu\r\n\r\n%s",
                             sizeof body - 1, body);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    check(!connect(fd, (struct sockaddr *)&address, sizeof address), "%s", strerror(errno));
    assert_true(serve_send(fd, text, (size_t)len));
    return fd;
}

static struct reply get(const struct serve *serve, const char *path) {
    char text[256];
    const int len =
        snprintf(text, sizeof text,
                 "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    return serve_exchange(serve, text, (size_t)len);
}

// The reader keeps the server for a while, and not for longer: meanwhile health and new requests
// are answered.
static void a_lost_device_shows_while_a_reader_reads_nothing(void **state) {
    (void)state;
    struct server_config config = serve_config();
    struct serve serve;
    config.stream_bytes_max = 16 << 10;
    fake_reset();
    serve_start(&serve, &config);
    const int unread = begin_unread(&serve);
    for (long before = -1; before != fake_control.n_submit; serve_sleep_ms(300))
        before = fake_control.n_submit; // until it is paused
    assert_true(fake_control.n_submit > 0);
    fake_fail_at(FAKE_LOST, 3);
    struct reply reply = serve_post(&serve, "/v1/completions", body_of(12, false));
    expect(&reply, 503, "device_lost");
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    reply = get(&serve, "/health");
    expect(&reply, 503, "device_lost");
    reply = get(&serve, "/health/live");
    expect(&reply, 503, "device_lost");
    reply = serve_post(&serve, "/v1/completions", body_of(12, false));
    expect(&reply, 503, "");
    assert_int_equal(abs(server_wait(serve.server)), SERVER_LOST);
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_true((to.tv_sec - from.tv_sec) * 1000 < SOON_MS);
    close(unread);
    serve_stop(&serve);
}

TEST_PROGRAM(lost_device) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_step_is_told_and_the_next_request_works),
        cmocka_unit_test(a_lost_device_is_told_to_all_and_ends_the_server),
        cmocka_unit_test(a_lost_device_shows_while_a_reader_reads_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
