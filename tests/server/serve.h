// A server with a tiny model inside the test program, on a free port of the loopback, and a client
// that sends any bytes.
#ifndef RN_TESTS_SERVER_SERVE_H
#define RN_TESTS_SERVER_SERVE_H

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "server.h"

struct serve {
    rn_model *model;
    rn_engine *engine;
    rn_chat_template *tmpl;
    struct server *server;
    int port;
};

#ifndef SERVE_TURN // that the template opens
#define SERVE_TURN ""
#endif
#ifndef SERVE_MODEL
#define SERVE_MODEL TEST_DATA "/golden/llama/model.gguf"
#endif
static const char serve_template[] =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n" SERVE_TURN "{% endif %}";

// Deadlines that no test waits for; a test that waits sets its own.
static inline struct server_config serve_config(void) {
    struct server_config config = {.host = "127.0.0.1",
                                   .model_name = "tiny",
                                   .body_bytes_max = 1 << 20,
                                   .pending_bytes_max = 8 << 20,
                                   .answer_bytes_max = 8 << 20,
                                   .connections_max = 256,
                                   .workers = 2,
                                   .header_s = 60,
                                   .body_s = 60,
                                   .idle_s = 60,
                                   .keepalive_s = 60,
                                   .stall_s = 60,
                                   .stuck_s = 60,
                                   .stream_bytes_max = 1 << 20,
                                   .keep_responses = 16,
                                   .response_bytes_max = 1 << 20,
                                   .keep_requests = 16};
    return config;
}

// max_waiting: the requests that wait beside the four that run; page_store NULL: none.
static inline void serve_start_store(struct serve *serve, const struct server_config *config,
                                     int max_waiting, const char *page_store) {
    rn_error err = {0};
    // how many events a step has, and so how the chunks of choices follow each other, is not to
    // vary
    const rn_engine_options options = {.n_threads = 1,
                                       .max_seqs = 4,
                                       .max_waiting = max_waiting,
                                       .speculate = "off",
                                       .page_store = page_store};
    *serve = (struct serve){0};
    check(!server_create(config, &serve->server, &err), "%s", err.message);
    check(!rn_model_open(SERVE_MODEL, &serve->model, &err), "%s", err.message);
    check(!rn_chat_template_create(serve->model, serve_template, &serve->tmpl, &err), "%s",
          err.message);
    check(!rn_engine_create(serve->model, &options, &serve->engine, &err), "%s", err.message);
    struct server_model ready = {.model = serve->model,
                                 .engine = serve->engine,
                                 .tmpl = serve->tmpl,
                                 .tmpl_source = serve_template,
                                 .sampling = rn_sampling_neutral(),
                                 .max_tokens = 16};
    ready.sampling.temperature = 0;
    check(!server_ready(serve->server, &ready, &err), "%s", err.message);
    serve->port = server_port(serve->server);
}

static inline void serve_start_with(struct serve *serve, const struct server_config *config,
                                    int max_waiting) {
    serve_start_store(serve, config, max_waiting, NULL);
}

static inline void serve_start(struct serve *serve, const struct server_config *config) {
    serve_start_with(serve, config, 256);
}

static inline void serve_stop(struct serve *serve) {
    server_destroy(serve->server);
    rn_engine_destroy(serve->engine);
    rn_chat_template_destroy(serve->tmpl);
    rn_model_close(serve->model);
}

// ---------------------------------------------------------------- the client

struct reply {
    int status; // of the first answer; 0: none came
    bool closed;
    char *data; // all that came, NUL-terminated
    size_t len;
    const char *body; // of the first answer; "": none
};

static inline void reply_free(struct reply *reply) { free(reply->data); }

// slow: its receive buffer is as small as it can be. -1: nobody listens.
static inline int serve_connect_to(int port, bool slow) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), bytes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    if (slow) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    if (!connect(fd, (struct sockaddr *)&address, sizeof address)) return fd;
    close(fd);
    return -1;
}

static inline int serve_connect(const struct serve *serve) {
    const int fd = serve_connect_to(serve->port, false);
    check(fd >= 0, "%s", strerror(errno));
    return fd;
}

// False: the server has closed the connection.
static inline bool serve_send(int fd, const char *data, size_t len) {
    while (len) {
        const ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0) return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

// Whether the first answer is there as a whole, where its head says how long it is.
static inline bool reply_is_whole(const struct reply *reply) {
    const char *end = strstr(reply->data, "\r\n\r\n");
    const char *length = strstr(reply->data, "Content-Length:");
    if (!end || !length || length > end) return false;
    return reply->len >= (size_t)(end + 4 - reply->data) + strtoul(length + 15, NULL, 10);
}

// The bytes until the server closes the connection, or nothing came for patience_ms, or (unless all
// is wanted) the first answer is whole.
static inline struct reply serve_receive(int fd, bool all, int patience_ms) {
    struct reply reply = {.body = ""};
    size_t capacity = 4096;
    reply.data = calloc(1, capacity);
    assert_non_null(reply.data);
    for (struct pollfd wait = {.fd = fd, .events = POLLIN}; poll(&wait, 1, patience_ms) > 0;) {
        if (capacity - reply.len < 2048) reply.data = realloc(reply.data, capacity *= 2);
        assert_non_null(reply.data);
        const ssize_t n = recv(fd, reply.data + reply.len, capacity - reply.len - 1, 0);
        if (n <= 0) {
            reply.closed = true;
            break;
        }
        reply.len += (size_t)n;
        reply.data[reply.len] = '\0';
        if (!all && reply_is_whole(&reply)) break;
    }
    if (sscanf(reply.data, "HTTP/1.%*d %d", &reply.status) != 1) reply.status = 0;
    const char *end = strstr(reply.data, "\r\n\r\n");
    if (end) reply.body = end + 4;
    return reply;
}

enum { SERVE_PATIENCE_MS = 30000 };

static inline struct reply serve_exchange(const struct serve *serve, const char *data, size_t len) {
    const int fd = serve_connect(serve);
    serve_send(fd, data, len);
    const struct reply reply = serve_receive(fd, false, SERVE_PATIENCE_MS);
    close(fd);
    return reply;
}

static inline struct reply serve_get(const struct serve *serve, const char *path) {
    char text[256];
    const int len =
        snprintf(text, sizeof text,
                 "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    return serve_exchange(serve, text, (size_t)len);
}

// Sends a request, as "HTTP/1.1" or another version, and leaves its answer to be read.
static inline int serve_ask(const struct serve *serve, const char *version, const char *path,
                            const char *body, bool slow) {
    const size_t size = strlen(path) + strlen(body) + 256;
    char *text = malloc(size);
    assert_non_null(text);
    const int len = snprintf(text, size,
                             "POST %s %s\r\nHost: localhost\r\nConnection: close\r\n"
                             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                             path, version, strlen(body), body);
    const int fd = serve_connect_to(serve->port, slow);
    check(fd >= 0, "%s", strerror(errno));
    serve_send(fd, text, (size_t)len);
    free(text);
    return fd;
}

// All of the answer, until the connection ends.
static inline struct reply serve_finish(int fd) {
    const struct reply reply = serve_receive(fd, true, SERVE_PATIENCE_MS);
    close(fd);
    return reply;
}

static inline struct reply serve_post(const struct serve *serve, const char *path,
                                      const char *body) {
    const int fd = serve_ask(serve, "HTTP/1.1", path, body, false);
    const struct reply reply = serve_receive(fd, false, SERVE_PATIENCE_MS);
    close(fd);
    return reply;
}

// The answer must have this status and hold this text; it is freed.
static inline void reply_expect(struct reply reply, int status, const char *part) {
    check(reply.status == status && strstr(reply.data, part), "expected %d, %s: %.400s", status,
          part, reply.data);
    reply_free(&reply);
}

// A few times, where a deadline of the test's own cut the first off on a busy machine.
static inline void serve_is_well(const struct serve *serve, const char *after) {
    for (int tries = 3; tries > 0; tries--) {
        struct reply reply = serve_get(serve, "/health");
        const bool ok = reply.status == 200 && strstr(reply.body, "ok");
        check(ok || tries > 1, "after %.100s: %.300s", after, reply.data);
        reply_free(&reply);
        if (ok) return;
    }
}

// For a group's set-up: a server of its own in *state, and its end.
static inline int serve_setup_with(void **state, const struct server_config *config) {
    struct serve *serve = calloc(1, sizeof *serve);
    assert_non_null(serve);
    serve_start(serve, config);
    *state = serve;
    return 0;
}

static inline int serve_setup(void **state) {
    const struct server_config config = serve_config();
    return serve_setup_with(state, &config);
}

static inline int serve_teardown(void **state) {
    serve_stop(*state);
    free(*state);
    return 0;
}

#endif
