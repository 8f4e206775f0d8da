// Calls that take long to prepare do not hold up others: compilations have threads of their own,
// and a small call waits for small ones alone.
// label: threads
#include "serve_watch.h"

enum { MANY = 12, ALTERNATIVES = 20000, TEXT_BYTES = 900000 };

static int setup(void **state) {
    struct server_config config = serve_config();
    config.workers = 1;
    config.pending_bytes_max = config.answer_bytes_max = 64 << 20;
    return serve_setup_with(state, &config);
}

// A request whose grammar is large, and not another's.
static int grammar_ask(const struct serve *serve, int which) {
    char *body = malloc(ALTERNATIVES * 24 + 256), *at = body;
    assert_non_null(body);
    at += sprintf(at, "{\"prompt\":\"a\",\"max_tokens\":1,\"grammar\":\"root ::= \\\"x\\\"");
    for (int i = 0; i < ALTERNATIVES; i++) at += sprintf(at, " | \\\"%d_%d\\\"", i, which);
    sprintf(at, "\"}");
    const int fd = serve_ask(serve, "HTTP/1.1", "/v1/completions", body, false);
    free(body);
    return fd;
}

static int text_ask(const struct serve *serve, int which) {
    char *body = malloc(TEXT_BYTES + 256), *at = body;
    assert_non_null(body);
    at += sprintf(at, "{\"content\":\"%d", which);
    while (at < body + TEXT_BYTES) at = stpcpy(at, " once upon a time");
    strcpy(at, "\"}");
    const int fd = serve_ask(serve, "HTTP/1.1", "/tokenize", body, false);
    free(body);
    return fd;
}

static bool is_answered(int fd) {
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

// Many that take long, then a short one, which must come before most of them.
static void expect_overtaken(const struct serve *serve, int (*ask)(const struct serve *, int),
                             const char *path, const char *body) {
    int fd[MANY];
    for (int i = 0; i < MANY; i++) fd[i] = ask(serve, i);
    for (int n = 0; n < MANY;) { // until all have been read
        n = (int)serve_gauge(serve, "runnel:http_preparing");
        for (int i = 0; i < MANY; i++) n += is_answered(fd[i]);
    }
    reply_expect(serve_post(serve, path, body), 200, "");
    check(!is_answered(fd[MANY - MANY / 4]), "%s came late", path);
    for (int i = 0; i < MANY; i++) reply_expect(serve_finish(fd[i]), 200, "");
    serve_expect_idle(serve);
}

#define COMPLETION "{\"prompt\":\"a\",\"max_tokens\":1"

CASE(a_call_without_a_shape_waits_for_no_compilation) {
    expect_overtaken(*state, grammar_ask, "/v1/completions", COMPLETION "}");
}

CASE(a_small_shape_waits_for_no_large_one) {
    expect_overtaken(*state, grammar_ask, "/v1/completions",
                     COMPLETION ",\"guided_regex\":\"[a-z]+\"}");
}

CASE(a_small_body_waits_for_no_large_one) {
    expect_overtaken(*state, text_ask, "/tokenize", "{\"content\":\"a\"}");
}

static double grammar_ms(const struct serve *serve, int which) {
    const uint64_t start_ns = clock_ns();
    reply_expect(serve_finish(grammar_ask(serve, which)), 200, "");
    return (double)(clock_ns() - start_ns) * 1e-6;
}

CASE(the_shapes_of_clients_that_hung_up_are_not_compiled) {
    enum { GONE = 120 };
    const struct serve *serve = *state;
    const struct linger now = {.l_onoff = 1};
    grammar_ms(serve, 0);
    const double one_ms = grammar_ms(serve, 1);
    for (int i = 0; i < GONE; i++) {
        const int fd = grammar_ask(serve, i);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(fd);
    }
    const double ms = grammar_ms(serve, 2);
    check(ms < one_ms * GONE / 2, "%.0f ms, one takes %.0f", ms, one_ms);
    serve_expect_idle(serve);
}

static long resident_kb(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;
    assert_true(file && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) >> 10);
}

// The blocks of its values are freed one by one, between others that stay.
CASE(the_memory_of_a_large_body_goes_back_to_the_system) {
    enum { VALUES = 200000, SLACK_KB = 8 << 10, PATIENCE = 500 };
    if (TEST_IS_SLOW) return; // a sanitizer's allocator keeps what was freed
    struct serve serve;
    struct server_config config = serve_config();
    config.body_bytes_max = config.pending_bytes_max = 256 << 20;
    serve_start(&serve, &config);
    char *body = malloc(VALUES * 40 + 64), *at = body;
    assert_non_null(body);
    at = stpcpy(at, "{\"content\":\"a\",\"x\":[1");
    for (int i = 0; i < VALUES; i++) at += sprintf(at, ",{\"k%d\":\"value %d\"}", i % 7, i);
    strcpy(at, "]}");
    reply_expect(serve_post(&serve, "/tokenize", "{\"content\":\"a\"}"), 200, "");
    const long before = resident_kb();
    long now = 0;
    for (int round = 0; round < 4; round++)
        reply_expect(serve_post(&serve, "/tokenize", body), 200, "");
    for (int i = 0; i < PATIENCE && (now = resident_kb()) > before + SLACK_KB; i++)
        serve_sleep_ms(10);
    check(now <= before + SLACK_KB, "%ld KB are resident, %ld were", now, before);
    free(body);
    serve_expect_idle(&serve);
    serve_stop(&serve);
}

TEST_PROGRAM(workers) { return cases_run(setup, serve_teardown); }
