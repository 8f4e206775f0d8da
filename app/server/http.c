// Admission of connections, and the part of the I/O loop that concerns them. Invariant:
// counts.connections is the number of connections that are not CLOSED, n_spare of them spare ones.
// At the limit, the connection that has been quiet for longest makes room, unless it is new. If
// none is quiet, a new connection gets a spare place, if need be the oldest spare connection's: the
// server cannot know that a connection is there to ask for health until it has read the head.
#define _GNU_SOURCE 1 // accept4
#include "http.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn.h"
#include "helpers.h"
#include "streams.h"
#include "tls.h"
#include "waiting.h"
#include "workers.h"

enum {
    WORK_QUEUE = 4096,
    SPARES = 64,       // most spare places, and
    SPARE_DIVISOR = 4, // the share of the descriptors that they take at most
    ACCEPTS = 64,      // in a turn
    TURN_NS = 5000000, // for connections with more to do, before others are looked at
    SHUT_NS = 100000000,
    QUIET_NS = 100000000,
    LAST_NS = 2000000000,
};

// ---------------------------------------------------------------- the door

static void listen_set(struct http *http, bool on) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &http->listen_fd};
    if (http->listening == on) return;
    if (!epoll_ctl(http->server->epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, http->listen_fd,
                   &event))
        http->listening = on;
}

// The list's first connection, unless it is new in its state: its request, or the peer's end, is on
// the way. Otherwise clients that connect together would close each other's connections.
static struct conn *rested(const struct conn *list) {
    struct conn *conn = list->next;
    return conn != list && clock_ns() - conn->since_ns >= QUIET_NS ? conn : NULL;
}

// Closes the connection within the limit that is worth least. False: all are busy.
static bool make_room(struct http *http) {
    struct conn *conn = rested(&http->lingering);
    if (!conn) conn = rested(&http->quiet);
    if (conn) conn_close(conn);
    return conn;
}

bool http_has_room(struct http *http) {
    const struct server *server = http->server;
    if (http->reserve_fd < 0) return false;
    return server->counts.connections - http->n_spare < server->config.connections_max ||
           make_room(http);
}

// Closes the spare connection that was answered first; if none was, the one that came first.
static bool spare_evict(struct http *http) {
    struct conn *list = &http->spare, *conn = list->next;
    if (conn == list) return false;
    while (conn != list && conn->state != CONN_LINGERING) conn = conn->next;
    conn_close(conn != list ? conn : list->next);
    return true;
}

// Admits no connection until another one is closed, or for a while.
static void shut(struct http *http) {
    listen_set(http, false);
    wheel_set(&http->wheel, &http->relisten, clock_ns() + SHUT_NS);
}

// A context is kept by its connections.
static void tls_renew(struct http *http) {
    struct tls_context *next = atomic_exchange(&http->tls_next, NULL);
    if (!next) return;
    tls_context_destroy(http->tls);
    http->tls = next;
}

// Without the reserve a new connection is a spare one, so that the reserve comes back soon.
static bool descriptor_free(struct http *http) {
    if (spare_evict(http) || make_room(http)) return true;
    if (http->reserve_fd < 0) return false;
    close(http->reserve_fd);
    http->reserve_fd = -1;
    return true;
}

void http_closed(struct http *http) {
    if (http->reserve_fd < 0) http->reserve_fd = fcntl(http->listen_fd, F_DUPFD_CLOEXEC, 0);
    listen_set(http, true);
}

static void admit(struct http *http, int fd) {
    const bool is_spare = !http_has_room(http);
    if (is_spare && http->n_spare >= http->spare_max) spare_evict(http);
    tls_renew(http);
    conn_open(http, fd, is_spare);
}

// The system looks for a descriptor before it looks for a connection.
static bool is_knocking(const struct http *http) {
    struct pollfd door = {.fd = http->listen_fd, .events = POLLIN};
    return poll(&door, 1, 0) > 0;
}

static void accept_some(struct http *http) {
    for (int i = 0; i < ACCEPTS; i++) {
        const int fd = accept4(http->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            admit(http, fd);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            if (!is_knocking(http)) return;
            if (descriptor_free(http)) continue;
            shut(http);
            return;
        }
    }
}

// ---------------------------------------------------------------- turns

void http_event(struct http *http, void *from, uint32_t events) {
    if (from == &http->listen_fd) {
        accept_some(http);
    } else {
        conn_event(from, events);
    }
}

void http_prepared(struct http *http) {
    struct call *call;
    while ((call = workers_pop(http->server->workers))) {
        http->server->counts.preparing--;
        if (call->is_bound) call->served->preparing--;
        free(call->body); // the parsed body stays until the end, and is counted
        call->body = NULL;
        call->body_capacity = 0;
        if (call->conn && !call->is_bound && !call->status) {
            waiting_take(call); // its model was found
        } else if (call->conn) {
            streams_start(call);
            conn_run(call->conn);
        } else { // its connection was closed
            call_state_set(call, CALL_ENDED);
            streams_finish(call, true);
        }
    }
}

static void free_closed(struct http *http) {
    while (http->closed) {
        struct conn *conn = http->closed;
        http->closed = conn->next;
        free(conn);
    }
}

// A connection that got no time goes before connections that became ready meanwhile.
static void run_ready(struct http *http) {
    const uint64_t end_ns = clock_ns() + TURN_NS;
    http->running = http->ready;
    http->ready = NULL;
    while (http->running && clock_ns() < end_ns) {
        struct conn *conn = http->running;
        http->running = conn->ready;
        conn->is_ready = false;
        conn_run(conn);
    }
    struct conn **last = &http->running;
    while (*last) last = &(*last)->ready;
    *last = http->ready;
    http->ready = http->running;
    http->running = NULL;
}

void http_turn(struct http *http, uint64_t now) {
    struct timer *timer;
    while ((timer = wheel_due(&http->wheel, now))) {
        if (timer == &http->relisten) {
            listen_set(http, true);
        } else {
            conn_due((struct conn *)timer, now);
        }
    }
    run_ready(http);
    for (struct call *call; (call = call_woken(http->server));) conn_run(call->conn);
    free_closed(http);
}

int http_wait_ms(const struct http *http, uint64_t now) {
    return http->ready || http->server->woken ? 0 : wheel_wait_ms(&http->wheel, now);
}

// ---------------------------------------------------------------- the end

// Calls f for each connection of a list, which it may close.
static void each(struct conn *list, void (*f)(struct conn *conn)) {
    for (struct conn *conn = list->next, *next; conn != list; conn = next) {
        next = conn->next;
        f(conn);
    }
}

static void wind_up(struct conn *conn) {
    struct call *call = conn->call;
    if (call && call->state == CALL_STREAMING && !call->generation) call_end(call);
}

static void cancel(struct conn *conn) {
    if (conn->call) streams_cancel(conn->call);
}

void http_drain(struct http *http, bool abort) {
    http->draining = true;
    each(&http->quiet, conn_close);
    each(&http->busy, abort ? conn_close : wind_up);
    each(&http->lingering, abort ? conn_close : conn_hasten);
    if (abort) each(&http->spare, conn_close);
}

void http_cancel(struct http *http) { each(&http->busy, cancel); }

// Once all is answered, peers that have not closed their side get a moment. Others that connect do
// not prolong it.
bool http_is_busy(struct http *http) {
    if (http->server->counts.active > 0) return true;
    if (!http->n_lingering) return false;
    const uint64_t now = clock_ns();
    if (!http->last_ns) http->last_ns = now + LAST_NS;
    return now < http->last_ns;
}

// ---------------------------------------------------------------- life

static void list_init(struct conn *list) { list->next = list->prev = list; }

static int spares(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / SPARE_DIVISOR >= SPARES) return SPARES;
    return limit.rlim_cur > SPARE_DIVISOR ? (int)limit.rlim_cur / SPARE_DIVISOR : 1;
}

rn_status http_create(struct server *server, int listen_fd, struct http **out, rn_error *err) {
    const struct server_config *config = &server->config;
    struct http *http = calloc(1, sizeof *http);
    *out = NULL;
    if (!http) {
        close(listen_fd);
        return err_set(err, RN_ERR_NOMEM, "out of memory");
    }
    http->server = server;
    http->listen_fd = listen_fd;
    list_init(&http->quiet);
    list_init(&http->busy);
    list_init(&http->lingering);
    list_init(&http->spare);
    http->spare_max = spares();
    http->reserve_fd = fcntl(listen_fd, F_DUPFD_CLOEXEC, 0);
    wheel_init(&http->wheel, clock_ns());
    rn_status status = RN_OK;
    if (config->tls_cert)
        status = tls_context_create(config->tls_cert, config->tls_key, &http->tls, err);
    if (!status)
        status =
            workers_create(config->workers, WORK_QUEUE, server->wake_fd, &server->workers, err);
    if (!status) {
        listen_set(http, true);
        if (!http->listening) status = err_set(err, RN_ERR_IO, "epoll: %s", strerror(errno));
    }
    if (status) {
        http_destroy(http);
        return status;
    }
    *out = http;
    return RN_OK;
}

rn_status http_renew_tls(struct http *http, const char *cert, const char *key, rn_error *err) {
    struct tls_context *next;
    const rn_status status = tls_context_create(cert, key, &next, err);
    if (status) return status;
    struct tls_context *unused = atomic_exchange(&http->tls_next, next);
    if (unused) tls_context_destroy(unused);
    return RN_OK;
}

// Calls come back from their workers before these end.
void http_destroy(struct http *http) {
    if (!http) return;
    http_drain(http, true);
    while (http->server->counts.preparing) {
        struct pollfd wake = {.fd = http->server->wake_fd, .events = POLLIN};
        uint64_t count;
        poll(&wake, 1, 100);
        const ssize_t n = read(http->server->wake_fd, &count, sizeof count);
        (void)n;
        http_prepared(http);
    }
    free_closed(http);
    close(http->listen_fd);
    if (http->reserve_fd >= 0) close(http->reserve_fd);
    workers_destroy(http->server->workers);
    http->server->workers = NULL;
    if (http->tls) tls_context_destroy(http->tls);
    if (http->tls_next) tls_context_destroy(http->tls_next);
    assert(!http->server->counts.connections && !http->server->counts.active);
    assert(!http->server->counts.body_bytes && !http->server->counts.answer_bytes);
    free(http);
}
