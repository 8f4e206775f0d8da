// The state machine of a connection. CONNECTING -> HANDSHAKE (with TLS) -> IDLE -> SENDING ->
// RECEIVING -> IDLE again, or CLOSED where the server keeps no connection open; FAILED from
// anywhere. A read that gave fewer bytes than it could take is the last one of a step, so each step
// ends with the socket empty or the response complete.
#define _GNU_SOURCE 1 // SOCK_NONBLOCK
#include "client/connection.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "helpers.h"
#include "server/tls.h"

// READ_SIZE holds more than a TLS record, so no decrypted bytes wait when a step ends.
enum { READ_SIZE = 32 << 10, STEP_READS = 32 };

// ---------------------------------------------------------------- hosts

rn_status client_host_open(const struct client_url *url, struct client_host *out, rn_error *err) {
    *out = (struct client_host){.url = *url};
    char port[8];
    snprintf(port, sizeof port, "%d", url->port);
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    const int problem = getaddrinfo(url->host, port, &hints, &out->addresses);
    if (problem) {
        out->addresses = NULL;
        return err_set(err, RN_ERR_IO, "%.200s: %s", url->host,
                       problem == EAI_SYSTEM ? strerror(errno) : gai_strerror(problem));
    }
    out->address = out->addresses;
    const rn_status status = url->tls ? tls_client_context_create(&out->tls, err) : RN_OK;
    if (status) client_host_close(out);
    return status;
}

void client_host_close(struct client_host *host) {
    if (host->addresses) freeaddrinfo(host->addresses);
    if (host->tls) tls_context_destroy(host->tls);
    *host = (struct client_host){0};
}

bool client_host_advance(struct client_host *host) {
    const struct addrinfo *next = host->address->ai_next;
    host->address = next ? next : host->addresses;
    return next != NULL;
}

// ---------------------------------------------------------------- a connection's ends

__attribute__((format(printf, 2, 3))) static void fail(struct client_connection *c, const char *fmt,
                                                       ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->error, sizeof c->error, fmt, args);
    va_end(args);
    c->state = CONNECTION_FAILED;
    c->events = 0;
}

// Each of the addresses that are left has the same share of the time.
static uint64_t connect_by(const struct client_host *host, uint64_t deadline_ns) {
    const uint64_t now = clock_ns();
    unsigned n_left = 0;
    for (const struct addrinfo *at = host->address; at; at = at->ai_next) n_left++;
    if (n_left < 2 || deadline_ns <= now) return 0;
    return now + (deadline_ns - now) / n_left;
}

bool client_connection_open(struct client_connection *c, const struct client_host *host,
                            uint64_t deadline_ns) {
    const struct addrinfo *address = host->address;
    const int on = 1;
    *c = (struct client_connection){.host = host,
                                    .state = CONNECTION_CONNECTING,
                                    .connect_by_ns = connect_by(host, deadline_ns)};
    c->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        fail(c, "a socket: %s", strerror(errno));
        return false;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(c->fd, address->ai_addr, address->ai_addrlen) && errno != EINPROGRESS) {
        fail(c, "cannot connect: %s", strerror(errno));
        return false;
    }
    c->events = POLLOUT;
    return true;
}

void client_connection_close(struct client_connection *c) {
    if (c->tls) tls_close(c->tls);
    if (c->fd >= 0) close(c->fd);
    c->tls = NULL;
    c->fd = -1;
    c->state = CONNECTION_CLOSED;
}

void client_connection_send(struct client_connection *c, const char *request, size_t len,
                            bool is_head, response_body_fn on_body, void *ctx) {
    c->out = request;
    c->out_len = len;
    c->out_at = 0;
    c->on_body = on_body;
    c->ctx = ctx;
    c->has_request = true;
    c->response_begun = false;
    c->was_used = c->n_requests++ > 0;
    response_init(&c->response, is_head);
    if (c->state == CONNECTION_IDLE) c->state = CONNECTION_SENDING;
}

bool client_connection_done(const struct client_connection *c) {
    return c->response.state == RESPONSE_DONE && !c->has_request;
}

bool client_connection_was_stale(const struct client_connection *c) {
    return c->was_used && !c->response_begun &&
           (c->state == CONNECTION_FAILED || c->state == CONNECTION_CLOSED);
}

// ---------------------------------------------------------------- the steps

// Connected: the next state that needs the socket.
static void ready(struct client_connection *c) {
    c->state = c->has_request ? CONNECTION_SENDING : CONNECTION_IDLE;
    c->events = POLLIN;
}

static bool connect_step(struct client_connection *c) {
    struct pollfd socket_state = {.fd = c->fd, .events = POLLOUT};
    int problem = 0;
    socklen_t size = sizeof problem;
    if (poll(&socket_state, 1, 0) == 0) {
        if (c->connect_by_ns && clock_ns() >= c->connect_by_ns) fail(c, "cannot connect in time");
        return false;
    }
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &problem, &size)) problem = errno;
    if (problem) {
        fail(c, "cannot connect: %s", strerror(problem));
        return false;
    }
    if (!c->host->tls) {
        ready(c);
        return true;
    }
    c->tls = tls_open_client(c->host->tls, c->fd, c->host->url.host);
    if (!c->tls) {
        fail(c, "out of memory");
        return false;
    }
    c->state = CONNECTION_HANDSHAKE;
    return true;
}

static bool handshake_step(struct client_connection *c) {
    const int result = tls_handshake(c->tls);
    if (result > 0) {
        ready(c);
        return true;
    }
    c->events = tls_wants_write(c->tls) ? POLLOUT : POLLIN;
    const char *refusal = result < 0 ? tls_refusal(c->tls) : NULL;
    if (refusal) fail(c, "the server's certificate: %s", refusal);
    if (result < 0 && !refusal) fail(c, "the TLS handshake failed");
    return false;
}

static bool send_step(struct client_connection *c) {
    while (c->out_at < c->out_len) {
        const char *data = c->out + c->out_at;
        const size_t len = c->out_len - c->out_at;
        const ssize_t n =
            c->tls ? tls_send(c->tls, data, len) : send(c->fd, data, len, MSG_NOSIGNAL);
        if (n > 0) {
            c->out_at += (size_t)n;
            continue;
        }
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) {
            // A server may refuse a request before it has read all of it.
            c->events = POLLIN | POLLOUT;
            return false;
        }
        if (c->out_at > 0) break; // its answer may have arrived before it closed
        fail(c, "cannot send: %s", n < 0 ? strerror(errno) : "closed");
        return false;
    }
    c->out = NULL;
    c->state = CONNECTION_RECEIVING;
    c->events = POLLIN;
    return true;
}

// The response is complete.
static void response_end(struct client_connection *c, bool more_bytes) {
    const bool keep = c->response.keep_alive && !more_bytes && c->out_at == c->out_len;
    c->has_request = false;
    c->state = keep ? CONNECTION_IDLE : CONNECTION_CLOSED;
    c->events = keep ? POLLIN : 0;
}

static void bytes_take(struct client_connection *c, const char *data, size_t len) {
    c->read_ns = clock_ns();
    c->response_begun = true;
    const size_t used = response_feed(&c->response, data, len, c->on_body, c->ctx);
    if (c->response.state == RESPONSE_BAD)
        fail(c, "%s", c->response.error);
    else if (c->response.state == RESPONSE_DONE)
        response_end(c, used < len);
}

// At the end of the stream.
static void end_take(struct client_connection *c) {
    response_close(&c->response);
    if (c->response.state == RESPONSE_DONE)
        response_end(c, false);
    else
        fail(c, "%s", c->response.error);
}

static bool receive_step(struct client_connection *c) {
    char data[READ_SIZE];
    for (int i = 0; i < STEP_READS; i++) {
        if (c->state != CONNECTION_RECEIVING && c->state != CONNECTION_SENDING) break;
        const ssize_t n =
            c->tls ? tls_recv(c->tls, data, sizeof data) : recv(c->fd, data, sizeof data, 0);
        if (n > 0) {
            bytes_take(c, data, (size_t)n);
        } else if (n == 0) {
            end_take(c);
        } else if (errno == EAGAIN) {
            return false;
        } else if (errno != EINTR) {
            fail(c, c->response_begun ? "the connection broke: %s" : "no response: %s",
                 strerror(errno));
        }
    }
    return false;
}

// Bytes or an end without a request: the connection is of no more use.
static bool idle_step(struct client_connection *c) {
    char byte;
    const ssize_t n = c->tls ? tls_recv(c->tls, &byte, 1) : recv(c->fd, &byte, 1, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    c->state = CONNECTION_CLOSED;
    c->events = 0;
    return false;
}

enum connection_state client_connection_step(struct client_connection *c) {
    bool more = true;
    while (more) {
        switch (c->state) {
        case CONNECTION_CONNECTING:
            more = connect_step(c);
            break;
        case CONNECTION_HANDSHAKE:
            more = handshake_step(c);
            break;
        case CONNECTION_IDLE:
            more = idle_step(c);
            break;
        case CONNECTION_SENDING:
            more = send_step(c) || (c->state == CONNECTION_SENDING && receive_step(c));
            break;
        case CONNECTION_RECEIVING:
            more = receive_step(c);
            break;
        default:
            more = false;
        }
    }
    return c->state;
}

int client_connection_wait_ms(const struct client_connection *c, uint64_t deadline_ns) {
    enum { WAIT_MS_MAX = 60000 };
    const uint64_t now = clock_ns();
    if (now >= deadline_ns) return 0;
    const bool gives_up = c->state == CONNECTION_CONNECTING && c->connect_by_ns;
    const uint64_t until_ns =
        gives_up && c->connect_by_ns < deadline_ns ? c->connect_by_ns : deadline_ns;
    const uint64_t ms = (until_ns > now ? until_ns - now : 0) / 1000000 + 1;
    return ms < WAIT_MS_MAX ? (int)ms : WAIT_MS_MAX;
}

// ---------------------------------------------------------------- a first connection

static bool is_connecting(const struct client_connection *c) {
    return c->state == CONNECTION_CONNECTING || c->state == CONNECTION_HANDSHAKE;
}

static void connect_wait(struct client_connection *c, uint64_t deadline_ns) {
    while (is_connecting(c)) {
        client_connection_step(c);
        const uint64_t now = clock_ns();
        if (!is_connecting(c) || now >= deadline_ns) return;
        struct pollfd ready = {.fd = c->fd, .events = (short)c->events};
        poll(&ready, 1, (int)((deadline_ns - now) / 1000000) + 1);
    }
}

rn_status client_host_probe(struct client_host *host, int timeout_ms, rn_error *err) {
    struct client_connection c;
    rn_status status;
    do {
        client_connection_open(&c, host, 0);
        connect_wait(&c, clock_ns() + (uint64_t)timeout_ms * 1000000);
        const bool late = is_connecting(&c);
        status = c.state == CONNECTION_IDLE ? RN_OK
                                            : err_set(err, RN_ERR_IO, "%s: %s", host->url.authority,
                                                      late ? "no connection in time" : c.error);
        client_connection_close(&c);
    } while (status && client_host_advance(host));
    return status;
}

// ---------------------------------------------------------------- requests

void client_request_write(struct jbuf *out, const struct client_url *url, const char *method,
                          const char *headers, const char *body, size_t body_len) {
    jbuf_printf(out, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: runnel/%s\r\nAccept: */*\r\n",
                method, url->path, url->authority, RN_VERSION);
    if (body || !strcmp(method, "POST")) jbuf_printf(out, "Content-Length: %zu\r\n", body_len);
    if (headers) jbuf_text(out, headers);
    jbuf_text(out, "\r\n");
    jbuf_bytes(out, body, body_len);
}
