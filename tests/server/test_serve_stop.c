// A server that stops while clients are there: it finishes accepted requests and takes nothing
// new, and no reader keeps it from ending.
// label: threads waits
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "helpers.h"
#include "serve_clients.h"

struct crowd {
    pthread_t thread;
    const struct serve *serve;
    _Atomic bool end;
};

// Requests of all kinds, some hung up on, for as long as somebody listens.
static void *crowd_run(void *ctx) {
    struct crowd *crowd = ctx;
    enum { AT_ONCE = 8 };
    const int port = crowd->serve->port;
    int fd[AT_ONCE];
    char text[1024];
    for (int i = 0; i < AT_ONCE; i++) fd[i] = -1;
    for (int i = 0; !atomic_load(&crowd->end); i++) {
        int *at = &fd[i % AT_ONCE];
        if (*at >= 0) close(*at);
        *at = serve_connect_to(port, false);
        if (*at < 0) continue;
        const int len = post_write(text, sizeof text, i % BODIES);
        serve_send(*at, text, i % 5 ? (size_t)len : (size_t)len / 2);
    }
    for (int i = 0; i < AT_ONCE; i++)
        if (fd[i] >= 0) close(fd[i]);
    return NULL;
}

CASE(test_stopping_in_the_middle_of_everything_is_clean) {
    for (int round = 0; round < 12; round += test_scale(4, 2, 1)) {
        struct serve serve;
        const struct server_config config = serve_config();
        serve_start(&serve, &config);
        struct crowd crowd = {.serve = &serve};
        assert_int_equal(pthread_create(&crowd.thread, NULL, crowd_run, &crowd), 0);
        const int watcher = text_open(&serve, WATCH, sizeof WATCH - 1, false);
        serve_sleep_ms(5 * round);
        serve_stop(&serve);
        atomic_store(&crowd.end, true);
        pthread_join(crowd.thread, NULL);
        close(watcher);
    }
}

static void await_drain(const struct serve *serve) {
    for (int status = 200; status != 503;) {
        struct reply reply = serve_get(serve, "/health");
        assert_true(reply.status == 200 || reply.status == 503);
        status = reply.status;
        reply_free(&reply);
    }
}

// The process's signals are the server's.
static int serve_drain(struct serve *serve, int times) {
    for (int i = 0; i < times; i++) {
        kill(getpid(), SIGTERM);
        if (i + 1 < times) await_drain(serve); // two of a kind at once are one
    }
    const int ended = server_wait(serve->server);
    serve_stop(serve);
    return ended;
}

CASE(test_what_was_accepted_is_finished_before_the_end) {
    enum { STREAMS = 12, SOME = 60 };
    struct serve serve;
    const struct server_config config = serve_config();
    serve_start(&serve, &config);
    char *want = chat_finish(chat_open(&serve, SOME, true), true);
    const int watcher = text_open(&serve, WATCH, sizeof WATCH - 1, false);
    const int idle = serve_connect(&serve);
    int fd[STREAMS];
    for (int i = 0; i < STREAMS; i++) fd[i] = chat_open(&serve, SOME, true);
    const int whole = chat_open(&serve, SOME, false);
    for (double seen = 0; seen < 2 + STREAMS;) { // ended requests are among them
        seen = serve_gauge(&serve, "runnel:http_active") +
               serve_gauge(&serve, "vllm:e2e_request_latency_seconds_count");
    }
    assert_int_equal(serve_drain(&serve, 1), SIGTERM);
    for (int i = 0; i < STREAMS; i++) {
        char *text = chat_finish(fd[i], true);
        assert_string_equal(text, want);
        free(text);
    }
    reply_expect(serve_finish(whole), 200, "\"usage\"");
    struct reply reply = serve_finish(watcher);
    assert_true(reply.status == 200 && reply.closed);
    reply_free(&reply);
    reply = serve_finish(idle);
    assert_true(reply.closed && !reply.len);
    reply_free(&reply);
    free(want);
}

CASE(test_a_draining_server_says_so_and_takes_nothing_new) {
    struct serve serve;
    struct server_config config = serve_config();
    config.stream_bytes_max = 16 << 10;
    serve_start(&serve, &config);
    const int slow = slow_chat(&serve, "HTTP/1.1"); // keeps it from ending
    serve_await(&serve, "runnel:choices_submitted", 1);
    kill(getpid(), SIGTERM);
    await_drain(&serve);
    reply_expect(serve_post(&serve, "/tokenize", "{\"content\":\"a\"}"), 503, "Draining");
    static const char health[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"; // may be kept
    reply_expect(serve_exchange(&serve, health, sizeof health - 1), 503, "Connection: close\r\n");
    free(chat_finish(slow, true));
    assert_int_equal(server_wait(serve.server), SIGTERM);
    serve_stop(&serve);
}

// By the reader's own patience, by the drain's, or by a second signal.
CASE(test_a_drain_ends_though_a_reader_takes_nothing) {
    for (int way = 0; way < 3; way++) {
        struct serve serve;
        struct server_config config = serve_config();
        config.stream_bytes_max = 16 << 10;
        if (way == 0) config.stall_s = 3;
        if (way == 1) config.drain_s = 0.4;
        serve_start(&serve, &config);
        const int n = TEST_IS_SLOW ? 1 : 3; // readers, another one for each way
        int fd[3];
        for (int i = 0; i < n; i++) {
            const int kind = (way + i) % 3;
            fd[i] =
                kind == 2 ? slow_whole(&serve) : slow_chat(&serve, kind ? "HTTP/1.0" : "HTTP/1.1");
        }
        serve_await(&serve, "runnel:http_active", n);
        assert_int_equal(serve_drain(&serve, way == 2 ? 2 : 1), way == 2 ? -SIGTERM : SIGTERM);
        for (int i = 0; i < n; i++) close(fd[i]);
    }
}

CASE(test_a_drain_ends_in_its_time) {
    enum { PAGES = 400 };
    static const char page[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static char pages[PAGES * (sizeof page - 1)];
    struct serve serve;
    struct server_config config = serve_config();
    config.ui = true;
    config.drain_s = 0.4;
    for (int i = 0; i < PAGES; i++) memcpy(pages + i * (sizeof page - 1), page, sizeof page - 1);
    serve_start(&serve, &config);
    const int fd = text_open(&serve, pages, sizeof pages, true);
    serve_await(&serve, "runnel:http_active", 1);
    serve_sleep_ms(2500); // no timer of another connection ends the server's wait
    const uint64_t start_ns = clock_ns();
    assert_int_equal(serve_drain(&serve, 1), SIGTERM);
    const double took_s = (double)(clock_ns() - start_ns) * 1e-9;
    check(took_s < 4, "%.1f s", took_s);
    close(fd);
}

// Its body would be waited for a minute; a client that was answered does not keep the server.
CASE(test_a_drain_does_not_wait_for_bodies_that_were_refused) {
    static const char large[] =
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n";
    struct serve serve;
    const struct server_config config = serve_config();
    serve_start(&serve, &config);
    int fd[3];
    for (int i = 0; i < 3; i++) {
        fd[i] = text_open(&serve, large, sizeof large - 1, false);
        reply_expect(serve_receive(fd[i], false, SERVE_PATIENCE_MS), 413, "");
    }
    const uint64_t start_ns = clock_ns();
    assert_int_equal(serve_drain(&serve, 1), SIGTERM);
    const double took_s = (double)(clock_ns() - start_ns) * 1e-9;
    check(took_s < 8, "%.1f s", took_s);
    for (int i = 0; i < 3; i++) close(fd[i]);
}

TEST_PROGRAM(serve_stop) { return cases_run(NULL, NULL); }
