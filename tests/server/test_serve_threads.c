// A running server with badly behaved clients: they hang up in every state, read nothing, read
// late, watch, and come too many at once. Nothing may crash, hang or stay counted, and no text may
// depend on other clients.
// label: threads
#include <malloc.h>
#include <sys/resource.h>

#include "helpers.h"
#include "serve_clients.h"

enum { BYTES_MIN = 400000 }; // of an answer of CHAT_TOKENS

static const char get[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

static void close_hard(int fd) {
    const struct linger now = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

// ---------------------------------------------------------------- hang-ups

// Sends a part of the request or all of it, reads a little or nothing, and is gone.
static void hang_up(const struct serve *serve, int which, int stage, bool hard) {
    char text[1024], seen[600];
    const int len = post_write(text, sizeof text, which);
    static const int parts[] = {1, 4, 6, 7};
    const int fd = serve_connect(serve);
    serve_send(fd, text, stage < 4 ? (size_t)(len * parts[stage] / 8) : (size_t)len);
    if (stage == 5) serve_sleep_ms(1);
    if (stage == 6) serve_sleep_ms(4);
    if (stage >= 7) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        poll(&wait, 1, 1000);
        const ssize_t n = recv(fd, seen, sizeof seen, MSG_DONTWAIT);
        (void)n;
    }
    if (stage == 8) shutdown(fd, SHUT_WR);
    if (hard) {
        close_hard(fd);
    } else {
        close(fd);
    }
}

CASE_WITH(test_hang_ups_in_every_state_leave_nothing_behind, serve_setup, serve_teardown) {
    const struct serve *serve = *state;
    enum { STAGES = 9 };
    const int rounds = test_scale(1, 1, 3);
    char *before = chat_finish(chat_open(serve, 40, true), true);
    for (int i = 0; i < BODIES * STAGES * 2 * rounds; i++) {
        hang_up(serve, i % BODIES, i / BODIES % STAGES, i / (BODIES * STAGES) % 2);
    }
    char *after = chat_finish(chat_open(serve, 40, true), true);
    assert_string_equal(before, after);
    serve_expect_idle(serve);
    free(before);
    free(after);
}

// A whole answer sends nothing before it is complete. A client that has closed its connection is
// found out all the same, in either version.
CASE_WITH(test_nothing_is_written_for_those_who_hung_up, serve_setup, serve_teardown) {
    const struct serve *serve = *state;
    enum { CHOICES = 128, LENGTH = 900 }; // long enough to be seen at work
    static const char *const versions[] = {"HTTP/1.0", "HTTP/1.1"};
    char body[200];
    snprintf(body, sizeof body, "{\"prompt\":\"a\",\"n\":%d,\"max_tokens\":%d,\"ignore_eos\":true}",
             CHOICES, LENGTH);
    for (int minor = 0; minor < 2; minor++) {
        const double before = serve_gauge(serve, "vllm:generation_tokens_total");
        const int fd = serve_ask(serve, versions[minor], "/v1/completions", body, false);
        serve_await_some(serve, "runnel:choices_submitted"); // all are there for a moment only
        close(fd);
        serve_expect_idle(serve);
        const double written = serve_gauge(serve, "vllm:generation_tokens_total") - before;
        check(written < CHOICES * LENGTH / 2, "HTTP/1.%d: %g tokens were written", minor, written);
    }
}

static size_t bytes_in_use(void) { return mallinfo2().uordblks; }

// Requests behind one that is being answered stay with the client's own system but for a few.
CASE_WITH(test_requests_ahead_of_time_take_little_memory, serve_setup, serve_teardown) {
    const struct serve *serve = *state;
    enum { CLIENTS = 64, AHEAD = 60 << 10, MOST = 24 << 10 };
    static char text[AHEAD];
    size_t len = sizeof WATCH - 1;
    memcpy(text, WATCH, len);
    for (const size_t n = sizeof get - 1; len + n <= AHEAD; len += n) memcpy(text + len, get, n);
    int fd[CLIENTS];
    const size_t before = bytes_in_use();
    for (int i = 0; i < CLIENTS; i++) fd[i] = text_open(serve, text, len, false);
    serve_await(serve, "runnel:http_active", CLIENTS);
    const size_t now = bytes_in_use(), each = now > before ? (now - before) / CLIENTS : 0;
    check(each < MOST, "%zu bytes for each connection", each);
    for (int i = 0; i < CLIENTS; i++) close_hard(fd[i]);
    serve_expect_idle(serve);
}

// However many clients have much to be done for them, the next one has its turn soon.
CASE(test_a_crowd_with_pipelines_keeps_nobody_waiting) {
    enum { CROWD = 400, REQUESTS = 1000, ROUNDS = 3, EXCHANGES = 1000 };
    static char text[REQUESTS * (sizeof get - 1)];
    for (size_t i = 0; i < REQUESTS; i++) memcpy(text + i * (sizeof get - 1), get, sizeof get - 1);
    struct serve serve;
    struct server_config config = serve_config();
    config.connections_max = 2 * CROWD;
    serve_start(&serve, &config);
    const uint64_t before_ns = clock_ns(); // how fast this machine is
    for (int i = 0; i < EXCHANGES; i++) serve_is_well(&serve, "the start");
    const double soon_ms = (double)(clock_ns() - before_ns) * 1e-6;
    double best_ms = 1e9;
    for (int round = 0; round < ROUNDS && best_ms > soon_ms; round++) {
        int fd[CROWD];
        for (int i = 0; i < CROWD; i++) fd[i] = serve_connect(&serve);
        for (int i = 0; i < CROWD; i++) send(fd[i], text, sizeof text, MSG_DONTWAIT | MSG_NOSIGNAL);
        const uint64_t start_ns = clock_ns();
        serve_is_well(&serve, "pipelines");
        const double ms = (double)(clock_ns() - start_ns) * 1e-6;
        if (ms < best_ms) best_ms = ms;
        for (int i = 0; i < CROWD; i++) close_hard(fd[i]);
    }
    check(best_ms < soon_ms, "health took %.0f ms, at most %.0f are right", best_ms, soon_ms);
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

// ---------------------------------------------------------------- readers

CASE(test_a_slow_reader_is_paused_alone_and_misses_nothing) {
    struct serve serve;
    struct server_config config = serve_config();
    config.stream_bytes_max = 16 << 10;
    serve_start(&serve, &config);
    char *want = chat_finish(chat_open(&serve, CHAT_TOKENS, true), true);
    assert_true(strlen(want) > BYTES_MIN);
    // the engine may be ahead of a busy machine's other threads by as much as its ring takes
    int n_paused = 0;
    for (int i = 0; i < 20 && n_paused < 2; i++) {
        const bool chunked = i % 2;
        const double tokens = serve_gauge(&serve, "vllm:generation_tokens_total");
        const int slow = slow_chat(&serve, chunked ? "HTTP/1.1" : "HTTP/1.0");
        char *other = chat_finish(chat_open(&serve, CHAT_TOKENS, true), true);
        assert_string_equal(other, want);
        free(other);
        const double left = serve_gauge(&serve, "runnel:choices_submitted");
        const double made = serve_gauge(&serve, "vllm:generation_tokens_total") - tokens;
        n_paused += left == 1 && made < CHAT_TOKENS + CHAT_TOKENS / 2;
        char *text = chat_finish(slow, chunked);
        assert_string_equal(text, want);
        free(text);
    }
    check(n_paused == 2, "%d were paused", n_paused);
    free(want);
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

// Streams, answers in one piece, watchers, and an answer to a pipelined request.
CASE(test_readers_that_take_nothing_are_cut_off) {
    struct serve serve;
    struct server_config config = serve_config();
    config.stall_s = 0.5;
    config.stream_bytes_max = 16 << 10;
    serve_start(&serve, &config);
    const int fd[] = {slow_chat(&serve, "HTTP/1.1"), slow_chat(&serve, "HTTP/1.0"),
                      slow_whole(&serve), text_open(&serve, WATCH, sizeof WATCH - 1, true)};
    shutdown(slow_chat(&serve, "HTTP/1.1"), SHUT_WR); // it stays open and is not read
    serve_await(&serve, "runnel:choices_submitted", 0);
    close(fd[3]); // watchers are sent little
    serve_expect_idle(&serve);
    for (int i = 0; i < 3; i++) {
        struct reply reply = serve_finish(fd[i]);
        check(reply.closed && !strstr(reply.data, "[DONE]"), "reader %d got all", i);
        reply_free(&reply);
    }
    serve_stop(&serve);
}

CASE_WITH(test_a_late_reader_of_a_whole_answer_gets_it, serve_setup, serve_teardown) {
    const struct serve *serve = *state;
    const int fd = slow_whole(serve);
    serve_await(serve, "runnel:choices_submitted", 0);
    struct reply reply = serve_receive(fd, false, SERVE_PATIENCE_MS);
    check(reply_is_whole(&reply) && reply.len > BYTES_MIN, "%zu bytes", reply.len);
    assert_non_null(strstr(reply.body, "\"finish_reason\":\"length\""));
    reply_free(&reply);
    close(fd);
    serve_expect_idle(serve);
}

// ---------------------------------------------------------------- limits

// Of those whose answers have not been read.
static int count_refused(const int *fd, int n) {
    int refused = 0;
    for (int i = 0; i < n; i++) {
        char head[12] = "";
        if (recv(fd[i], head, sizeof head, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)sizeof head)
            refused += !memcmp(head, "HTTP/1.1 429", sizeof head);
    }
    return refused;
}

CASE(test_of_too_many_at_once_each_is_served_or_told_to_come_back) {
    enum { CLIENTS = 60, WAITING = 32, PLACES = 4 + WAITING, SOME = 20 }; // nobody ends
    struct serve serve;
    struct server_config config = serve_config();
    config.connections_max = 2 * CLIENTS;
    config.stream_bytes_max = 16 << 10;
    config.stall_s = 600; // some wait long until they are read
    serve_start_with(&serve, &config, WAITING);
    char *want = chat_finish(chat_open(&serve, SOME, true), true);
    int fd[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) fd[i] = slow_chat(&serve, "HTTP/1.1");
    for (int waited_ms = 0; count_refused(fd, CLIENTS) < CLIENTS - PLACES; waited_ms += 10) {
        check(waited_ms < SERVE_PATIENCE_MS, "%d refused", count_refused(fd, CLIENTS));
        serve_sleep_ms(10);
    }
    for (int i = 0; i < CLIENTS; i++) { // most do not wait for their answers
        if (i % 32 == 0) continue;
        close(fd[i]);
        fd[i] = chat_open(&serve, SOME, true);
    }
    for (int i = 0; i < CLIENTS; i++) {
        struct reply reply = serve_receive(fd[i], true, SERVE_PATIENCE_MS);
        close(fd[i]);
        if (reply.status == 429) {
            assert_non_null(strstr(reply.data, "\r\nRetry-After: "));
            assert_non_null(strstr(reply.body, "\"queue_full\""));
        } else {
            check(reply.status == 200 && reply_dechunk(&reply), "%.300s", reply.data);
            char *text = stream_text(reply.body);
            check(strstr(reply.body, "[DONE]") && (i % 32 == 0 || !strcmp(text, want)), "%d: %s", i,
                  text);
            free(text);
        }
        reply_free(&reply);
    }
    free(want);
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

CASE(test_an_idle_connection_makes_room_for_a_new_one) {
    enum { MOST = 8 };
    struct serve serve;
    struct server_config config = serve_config();
    config.connections_max = MOST;
    serve_start(&serve, &config);
    int fd[MOST];
    for (int i = 0; i < MOST; i++) fd[i] = serve_connect(&serve);
    poll(NULL, 0, 200); // until they are idle, and not just new
    for (int i = 0; i < 3 * MOST; i++) serve_is_well(&serve, "idle connections");
    reply_expect(serve_post(&serve, "/tokenize", "{\"content\":\"a\"}"), 200, "");
    struct reply reply = serve_receive(fd[0], true, SERVE_PATIENCE_MS);
    assert_true(reply.closed && !reply.len); // the oldest
    reply_free(&reply);
    for (int i = 0; i < MOST; i++) close(fd[i]);
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

// Takes all places of a server with so many: each client has sent a head, and no body yet.
static void fill(const struct serve *serve, int *fd, int n) {
    static const char head[] = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                               "Expect: 100-continue\r\nContent-Length: 15\r\n\r\n";
    for (int i = 0; i < n; i++) {
        fd[i] = text_open(serve, head, sizeof head - 1, false);
        char go_on[64];
        assert_true(recv(fd[i], go_on, sizeof go_on, 0) > 0); // its head was read
    }
}

CASE(test_health_is_told_where_all_connections_are_busy) {
    enum { MOST = 4, MANY = 12 };
    struct serve serve;
    struct server_config config = serve_config();
    config.connections_max = MOST;
    serve_start(&serve, &config);
    int fd[MOST];
    fill(&serve, fd, MOST);
    serve_is_well(&serve, "busy connections");
    reply_expect(serve_post(&serve, "/tokenize", "{\"content\":\"a\"}"), 503, "\r\nRetry-After: ");
    int asker[MANY]; // all are there before the first has asked
    for (int i = 0; i < MANY; i++) asker[i] = serve_connect(&serve);
    for (int i = 0; i < MANY; i++) serve_send(asker[i], get, sizeof get - 1);
    for (int i = 0; i < MANY; i++) {
        reply_expect(serve_receive(asker[i], false, SERVE_PATIENCE_MS), 200, "");
        close(asker[i]);
    }
    for (int i = 0; i < MOST; i++) { // they were not disturbed
        serve_send(fd[i], "{\"content\":\"a\"}", 15);
        reply_expect(serve_receive(fd[i], false, SERVE_PATIENCE_MS), 200, "");
        close(fd[i]);
    }
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

enum { SOON_MS = 1000 };
static const char half_body[] = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                                "Content-Length: 100000\r\n\r\n{\"content\":\"";

static void health_expect_soon(const struct serve *serve, const char *after) {
    const uint64_t start_ns = clock_ns();
    serve_is_well(serve, after);
    const double ms = (double)(clock_ns() - start_ns) * 1e-6;
    check(ms < SOON_MS, "health took %.0f ms after %s", ms, after);
}

// However many others come to a full server, whatever they send, and though none of them ends.
CASE(test_a_crowd_before_a_full_server_leaves_health_its_place) {
    enum { MOST = 4, CROWD = 300 };
    static const char *const sent[] = {
        "",
        "GE",
        "GET /health HTTP/1.1\r\nHost: loc",
        half_body,
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n",
    };
    struct serve serve;
    struct server_config config = serve_config();
    config.connections_max = MOST;
    serve_start(&serve, &config);
    int busy[MOST];
    fill(&serve, busy, MOST);
    for (size_t kind = 0; kind < sizeof sent / sizeof *sent; kind++) {
        int fd[CROWD];
        for (int i = 0; i < CROWD; i++) {
            fd[i] = text_open(&serve, sent[kind], strlen(sent[kind]), true);
            if (i % 50 == 49) health_expect_soon(&serve, sent[kind]);
        }
        const double open = serve_gauge(&serve, "runnel:http_connections");
        check(open <= MOST + 64 + 1, "%.0f connections are open after %s", open, sent[kind]);
        for (int i = 0; i < CROWD; i++) close(fd[i]);
    }
    for (int i = 0; i < MOST; i++) { // they were not disturbed
        char byte;
        assert_true(recv(busy[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
        close(busy[i]);
    }
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

CASE(test_a_place_beyond_the_limit_lasts_two_seconds_or_until_there_is_room) {
    enum { MOST = 2 };
    struct serve serve;
    struct server_config config = serve_config();
    config.connections_max = MOST;
    serve_start(&serve, &config);
    int busy[MOST];
    fill(&serve, busy, MOST);
    const int silent = serve_connect(&serve),
              refused = text_open(&serve, half_body, sizeof half_body - 1, false);
    struct reply reply = serve_receive(silent, true, SERVE_PATIENCE_MS);
    assert_true(reply.closed && !reply.len);
    reply_free(&reply);
    reply_expect(serve_receive(refused, true, SERVE_PATIENCE_MS), 503, "\"connections_full\"");
    const int late = serve_connect(&serve);
    serve_is_well(&serve, "a connection without a request");
    close(busy[0]);
    serve_await(&serve, "runnel:http_connections", MOST + 1); // busy[1], late, the asker
    poll(NULL, 0, 200); // until the asker's connection is not new, if it is still there
    static const char whole[] = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                                "Content-Length: 15\r\n\r\n{\"content\":\"a\"}";
    serve_send(late, whole, sizeof whole - 1);
    reply_expect(serve_receive(late, false, SERVE_PATIENCE_MS), 200, "");
    close(silent);
    close(refused);
    close(late);
    close(busy[1]);
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

// Their answers were sent, and their bodies are only read so that these arrive.
CASE(test_refused_bodies_make_room_for_a_new_connection) {
    enum { MOST = 4 };
    static const char head[] = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Length: 99999999\r\n\r\n";
    struct serve serve;
    struct server_config config = serve_config();
    config.connections_max = MOST;
    serve_start(&serve, &config);
    int fd[MOST];
    for (int i = 0; i < MOST; i++) {
        fd[i] = text_open(&serve, head, sizeof head - 1, false);
        reply_expect(serve_receive(fd[i], false, SERVE_PATIENCE_MS), 413, "");
    }
    poll(NULL, 0, 200); // until they are not new
    for (int i = 0; i < MOST; i++)
        reply_expect(serve_post(&serve, "/tokenize", "{\"content\":\"a\"}"), 200, "");
    for (int i = 0; i < MOST; i++) close(fd[i]);
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

// The sockets of the clients are there before the process has all the descriptors that it may have.
CASE(test_health_is_told_where_descriptors_run_out) {
    enum { CLIENTS = 20 };
    struct serve serve;
    const struct server_config config = serve_config();
    serve_start(&serve, &config);
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)serve.port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd[CLIENTS];
    struct rlimit before, none;
    for (int i = 0; i < CLIENTS; i++) fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_false(getrlimit(RLIMIT_NOFILE, &before));
    none = (struct rlimit){.rlim_cur = (rlim_t)fd[CLIENTS - 1] + 1, .rlim_max = before.rlim_max};
    const int filler = dup(0); // a descriptor below the last is not free
    assert_true(filler > fd[CLIENTS - 1]);
    close(filler);
    assert_false(setrlimit(RLIMIT_NOFILE, &none));
    for (int i = 0; i < CLIENTS; i++) {
        assert_false(connect(fd[i], (const struct sockaddr *)&address, sizeof address));
        if (i % 5 < 4) continue; // it stays open, without a request
        serve_send(fd[i], get, sizeof get - 1);
        reply_expect(serve_receive(fd[i], false, SERVE_PATIENCE_MS), 200, "");
    }
    assert_false(setrlimit(RLIMIT_NOFILE, &before));
    for (int i = 0; i < CLIENTS; i++) close(fd[i]);
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

CASE(test_bodies_count_as_what_they_become) {
    enum { LISTS = 30000 };
    struct serve serve;
    struct server_config config = serve_config();
    config.pending_bytes_max = 4 << 20;
    serve_start(&serve, &config);
    char *body = malloc(LISTS * 3 + 64);
    assert_non_null(body);
    int len = sprintf(body, "{\"content\":\"a\",\"x\":[[]");
    for (int i = 0; i < LISTS; i++) len += sprintf(body + len, ",[]");
    sprintf(body + len, "]}");
    reply_expect(serve_post(&serve, "/tokenize", body), 200, ""); // 3.84 MB
    serve_expect_idle(&serve);
    serve_stop(&serve);
    config.pending_bytes_max = 3 << 20;
    serve_start(&serve, &config);
    reply_expect(serve_post(&serve, "/tokenize", body), 413, "");
    free(body);
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

// An answer that waits for its reader takes its memory as text, too. When all is full the next one
// is told so, before its first byte.
CASE(test_answers_that_are_not_read_are_counted) {
    enum { READERS = 5 };
    struct serve serve;
    struct server_config config = serve_config();
    config.answer_bytes_max = 4 << 20;
    serve_start(&serve, &config);
    int fd[READERS], full = 0;
    for (int i = 0; i < READERS; i++) fd[i] = slow_whole(&serve);
    serve_await(&serve, "runnel:http_preparing", 0);
    serve_await(&serve, "runnel:choices_submitted", 0);
    const double kept = serve_gauge(&serve, "runnel:http_answer_bytes");
    check(kept > BYTES_MIN && kept <= (double)config.answer_bytes_max, "%.0f bytes", kept);
    for (int i = 0; i < READERS; i++) {
        struct reply reply = serve_finish(fd[i]);
        check(reply.closed && (reply.status == 200 || strstr(reply.data, "answers_full")),
              "%d: %.300s", reply.status, reply.data);
        full += reply.status == 503;
        reply_free(&reply);
    }
    check(full > 0 && full < READERS, "%d of %d were refused", full, READERS);
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

TEST_PROGRAM(serve_threads) { return cases_run(NULL, NULL); }
