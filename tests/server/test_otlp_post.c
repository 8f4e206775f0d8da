// Posts to a collector: answers that are too large, no HTTP, cut off or never come cost a post its
// time at most, and the problem is named.
// label: threads memory
#define _GNU_SOURCE 1 // RTLD_NEXT
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "helpers.h"
#include "loopback.h"
#include "otlp_post.h"
#include "serve.h"

enum { MOST_BYTES = 5 << 20 };

// A collector that answers each request with the same bytes, then closes or stays.
struct collector {
    int listen_fd, port;
    const char *head; // of the answer; NULL: nothing is answered
    size_t n_body;    // zeros behind it
    bool stays;       // the connection is not closed
    int n_requests;   // until it ends
    pthread_t thread;
};

static void request_read(int fd) {
    char data[4096];
    size_t len = 0;
    ssize_t n;
    while (len < sizeof data - 1 && (n = recv(fd, data + len, sizeof data - 1 - len, 0)) > 0) {
        len += (size_t)n;
        data[len] = '\0';
        if (strstr(data, "\r\n\r\n{}")) return;
    }
}

static void answer_write(int fd, const struct collector *collector) {
    static const char zeros[1 << 16];
    if (!collector->head) return;
    send(fd, collector->head, strlen(collector->head), MSG_NOSIGNAL);
    for (size_t sent = 0; sent < collector->n_body; sent += sizeof zeros)
        if (send(fd, zeros, sizeof zeros, MSG_NOSIGNAL) < 0) return;
}

static void *collect(void *ctx) {
    const struct collector *collector = ctx;
    int last = -1;
    for (int i = 0; i < collector->n_requests; i++) {
        const int fd = accept(collector->listen_fd, NULL, NULL);
        request_read(fd);
        answer_write(fd, collector);
        if (last >= 0) close(last);
        last = collector->stays ? fd : -1;
        if (!collector->stays) close(fd);
    }
    char byte;
    if (last >= 0 && recv(last, &byte, 1, 0) <= 0) close(last); // the other side ends it
    return NULL;
}

static void collector_start(struct collector *collector) {
    collector->listen_fd = loopback_listen(8, &collector->port);
    assert_int_equal(pthread_create(&collector->thread, NULL, collect, collector), 0);
}

static void collector_end(struct collector *collector) {
    pthread_join(collector->thread, NULL);
    close(collector->listen_fd);
}

struct heard {
    char text[600];
    int n;
};

static void on_told(void *ctx, const char *problem) {
    struct heard *heard = ctx;
    snprintf(heard->text, sizeof heard->text, "%s", problem ? problem : "works");
    heard->n++;
}

static struct otlp_collector *client_open(int port, struct heard *heard) {
    char text[64];
    struct client_url url;
    rn_error err = {0};
    snprintf(text, sizeof text, "http://127.0.0.1:%d/v1/traces", port);
    assert_int_equal(client_url_parse(text, &url, &err), RN_OK);
    struct otlp_collector *client = otlp_collector_create(&url, "", on_told, heard);
    assert_non_null(client);
    return client;
}

#define OK   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
#define LATE "HTTP/1.1 100 Continue\r\n\r\n"

CASE(test_answers_of_any_kind_have_a_result_and_a_name) {
    static const struct {
        const char *head;
        size_t n_body;
        bool stays;
        int status;
        const char *problem;
    } rows[] = {
        {OK, 0, false, 200, NULL},
        {"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", 0, false, 503,
         "it answers with status 503; trying again"},
        {"HTTP/1.1 200 OK\r\n\r\n", MOST_BYTES, false, -1,
         "its answer has more than 4 MiB; they are dropped"},
        {"SSH-2.0-OpenSSH_9.2\r\n", 0, false, -1,
         "the status line is not one of HTTP/1.1; they are dropped"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", 0, false, 0,
         "the connection was closed within the response; trying again"},
        {LATE LATE LATE LATE LATE LATE LATE LATE LATE OK, 0, false, -1,
         "too many interim responses; they are dropped"},
        {NULL, 0, false, 0, "the connection was closed before the response; trying again"},
        {NULL, 0, true, 0, "no answer in time; trying again"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct collector collector = {.head = rows[i].head,
                                      .n_body = rows[i].n_body,
                                      .stays = rows[i].stays,
                                      .n_requests = 1};
        struct heard heard = {.n = 0};
        collector_start(&collector);
        struct otlp_collector *client = client_open(collector.port, &heard);
        struct otlp_reply reply = {.retry_after_ms = -1};
        const int timeout_ms = rows[i].stays ? 50 : 20000;
        otlp_collector_post(client, "{}", 2, timeout_ms, &reply);
        check(reply.status == rows[i].status, "row %zu: status %d", i, reply.status);
        check(heard.n == (rows[i].problem != NULL) &&
                  (!rows[i].problem || !strcmp(heard.text, rows[i].problem)),
              "row %zu: '%s'", i, heard.text);
        otlp_collector_free(client);
        collector_end(&collector);
    }
}

// A failure is told once, and so is its end. A kept connection that the collector has closed is
// replaced without a word.
CASE(test_changes_alone_are_told) {
    struct collector collector = {.head = OK, .n_requests = 3};
    struct heard heard = {.n = 0};
    collector_start(&collector);
    struct otlp_collector *client = client_open(collector.port, &heard);
    for (int i = 0; i < 3; i++) {
        struct otlp_reply reply = {.retry_after_ms = -1};
        otlp_collector_post(client, "{}", 2, 20000, &reply);
        assert_int_equal(reply.status, 200);
    }
    assert_int_equal(heard.n, 0);
    collector_end(&collector); // nobody listens
    for (int i = 0; i < 2; i++) {
        struct otlp_reply reply = {.retry_after_ms = -1};
        otlp_collector_post(client, "{}", 2, 20000, &reply);
        assert_int_equal(reply.status, 0);
    }
    assert_int_equal(heard.n, 1);
    otlp_collector_free(client);
}

// The name "several.test" has these addresses, in this order.
static const char *const *several;
static int n_lookups; // of that name

static const char several_name[] = "several.test";

int getaddrinfo(const char *restrict name, const char *restrict port,
                const struct addrinfo *restrict hints, struct addrinfo **restrict out) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!name || strcmp(name, several_name)) return real(name, port, hints, out);
    n_lookups++;
    for (const char *const *at = several; *at; at++) {
        assert_int_equal(real(*at, port, hints, out), 0);
        while (*out) out = &(*out)->ai_next;
    }
    return 0;
}

static struct otlp_collector *several_open(int port, struct heard *heard) {
    char text[64];
    struct client_url url;
    rn_error err = {0};
    snprintf(text, sizeof text, "http://%s:%d/v1/traces", several_name, port);
    assert_int_equal(client_url_parse(text, &url, &err), RN_OK);
    struct otlp_collector *client = otlp_collector_create(&url, "", on_told, heard);
    assert_non_null(client);
    return client;
}

CASE(test_an_address_that_refuses_is_followed_by_the_next) {
    static const char *const addresses[] = {"::1", "127.0.0.2", "127.0.0.1", NULL};
    struct collector collector = {.head = OK, .n_requests = 2};
    struct heard heard = {.n = 0};
    several = addresses;
    n_lookups = 0;
    collector_start(&collector);
    struct otlp_collector *client = several_open(collector.port, &heard);
    for (int i = 0; i < 2; i++) {
        struct otlp_reply reply = {.retry_after_ms = -1};
        otlp_collector_post(client, "{}", 2, 20000, &reply);
        check(reply.status == 200, "post %d: status %d, '%s'", i, reply.status, heard.text);
    }
    assert_int_equal(n_lookups, 1); // the address that works is kept
    otlp_collector_free(client);
    collector_end(&collector);
}

// At this address and port connections are neither taken nor refused: the queue of a listener that
// accepts nothing is full.
struct silence {
    int listen_fd, fd[4];
};

static void silence_start(struct silence *silence, const char *address, int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    assert_int_equal(inet_pton(AF_INET, address, &at.sin_addr), 1);
    silence->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(silence->listen_fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(silence->listen_fd, 0), 0);
    for (int i = 0; i < 4; i++) {
        silence->fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(silence->fd[i], (struct sockaddr *)&at, sizeof at))
            assert_int_equal(errno, EINPROGRESS);
    }
}

static void silence_end(const struct silence *silence) {
    for (int i = 0; i < 4; i++) close(silence->fd[i]);
    close(silence->listen_fd);
}

// The first of three addresses is silent: it has a third of the time, and the next one answers.
CASE(test_an_address_that_is_silent_leaves_time_for_the_next) {
    enum { TIMEOUT_MS = 3000, LATE_MS = 2500 };
    static const char *const addresses[] = {"127.0.0.2", "127.0.0.1", "127.0.0.1", NULL};
    struct collector collector = {.head = OK, .n_requests = 2};
    struct silence silence;
    struct heard heard = {.n = 0};
    struct otlp_reply reply = {.retry_after_ms = -1};
    struct client_reply fetched;
    char url[64];
    rn_error err = {0};
    several = addresses;
    collector_start(&collector);
    silence_start(&silence, addresses[0], collector.port);
    struct otlp_collector *client = several_open(collector.port, &heard);
    uint64_t start_ns = clock_ns();
    otlp_collector_post(client, "{}", 2, TIMEOUT_MS, &reply);
    check(reply.status == 200, "status %d, '%s'", reply.status, heard.text);
    check(clock_ns() - start_ns < LATE_MS * UINT64_C(1000000), "the post came late");
    otlp_collector_free(client);

    snprintf(url, sizeof url, "http://%s:%d/", several_name, collector.port);
    start_ns = clock_ns();
    const rn_status status =
        client_fetch(url, "POST", NULL, "{}", 2, TIMEOUT_MS, MOST_BYTES, &fetched, &err);
    check(status == RN_OK && fetched.status == 200, "status %d, '%s'", (int)status, err.message);
    check(clock_ns() - start_ns < LATE_MS * UINT64_C(1000000), "the answer came late");
    client_reply_free(&fetched);
    silence_end(&silence);
    collector_end(&collector);
}

// A stop ends a post that waits, and silences it.
CASE(test_a_stopped_post_ends_at_once) {
    struct collector collector = {.stays = true, .n_requests = 1};
    struct heard heard = {.n = 0};
    collector_start(&collector);
    struct otlp_collector *client = client_open(collector.port, &heard);
    struct otlp_reply reply = {.retry_after_ms = -1};
    otlp_collector_stop(client);
    const uint64_t start_ns = clock_ns();
    otlp_collector_post(client, "{}", 2, 600000, &reply);
    assert_true(clock_ns() - start_ns < 60000000000u);
    assert_int_equal(reply.status, 0);
    assert_int_equal(heard.n, 0);
    otlp_collector_free(client);
    collector_end(&collector);
}

TEST_PROGRAM(otlp_post) { return cases_run(NULL, NULL); }
