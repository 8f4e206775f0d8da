// The life of connections and calls (see call.h for the states). Invariants: a call in n_active is
// past READING and was not freed; a suspended connection is resumed exactly once; while a worker
// has a call its connection is suspended, so that libmicrohttpd cannot end it; when nothing goes on
// all counters of struct http are 0.
#include "http.h"

#include <assert.h>
#include <linux/tcp.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "generation.h"
#include "http_internal.h"
#include "metrics.h"
#include "streams.h"
#include "tools.h"

enum {
    CONNECTION_BYTES = 40 << 10, // of a connection: its head, and what is being sent
    WORK_QUEUE = 4096,
    SPARE_CONNECTIONS = 16, // beyond connections_max, where health can still be asked for
};

static uint64_t after(double seconds) { return clock_ns() + (uint64_t)(seconds * 1e9); }

// ---------------------------------------------------------------- a call's life

static void id_draw(char out[25]) {
    static const char letters[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ01";
    unsigned char bytes[24];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        const uint64_t now = clock_ns();
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(now >> (i % 8 * 8));
    }
    for (size_t i = 0; i < sizeof bytes; i++) out[i] = letters[bytes[i] & 63];
    out[24] = '\0';
}

static struct call *call_open(struct link *link, struct MHD_Connection *connection,
                              const char *path, const char *method) {
    struct call *call = calloc(1, sizeof *call);
    struct call_io *io = calloc(1, sizeof *io);
    char *own_path = strdup(path), *own_method = strdup(method);
    if (!call || !io || !own_path || !own_method) {
        free(call);
        free(io);
        free(own_path);
        free(own_method);
        return NULL;
    }
    *io = (struct call_io){.link = link,
                           .connection = connection,
                           .path = own_path,
                           .method = own_method};
    call->io = io;
    call->server = link->http->server;
    call->created = (int64_t)time(NULL);
    call->start_ns = clock_ns();
    id_draw(call->id);
    link->call = call;
    return call;
}

static void call_free(struct call *call) {
    generation_destroy(call->generation);
    json_decref(call->json);
    free(call->body);
    jbuf_deinit(&call->out);
    free(call->io->path);
    free(call->io->method);
    free(call->io);
    free(call);
}

static void state_set(struct call *call, struct http *http, enum call_state state) {
    if (call->io->state == CALL_READING && state != CALL_READING) http->n_active++;
    call->io->state = state;
}

void http_pending_release(struct call *call, struct http *http) {
    http->pending_bytes -= call->io->pending_bytes;
    call->io->pending_bytes = 0;
}

const char *call_path(const struct call *call) { return call->io->path; }

const char *call_header(const struct call *call, const char *name) {
    return MHD_lookup_connection_value(call->io->connection, MHD_HEADER_KIND, name);
}

const char *call_query(const struct call *call, const char *key) {
    return MHD_lookup_connection_value(call->io->connection, MHD_GET_ARGUMENT_KIND, key);
}

void http_resume(struct call *call) {
    struct call_io *io = call->io;
    if (!io->suspended) return;
    io->suspended = false;
    io->moved_ns = clock_ns(); // until now it was us who kept the reader waiting
    MHD_resume_connection(io->connection);
}

void call_stream(struct call *call, void (*on_gone)(struct call *call)) {
    state_set(call, call->io->link->http, CALL_STREAMING);
    call->status = MHD_HTTP_OK;
    call->io->on_gone = on_gone;
    call->io->written_ns = call->io->moved_ns = clock_ns();
}

void call_wake(struct call *call) {
    struct call_io *io = call->io;
    if (io->gone || call->out.len == io->head) return;
    const size_t waiting = call->out.len - io->head;
    io->written_ns = clock_ns();
    if (waiting > call->server->config.stream_bytes_max && !io->paused && call->generation) {
        io->paused = true;
        streams_pause(call->generation, true);
    }
    http_resume(call);
}

void call_end(struct call *call) {
    struct call_io *io = call->io;
    io->ended = true;
    if (io->state == CALL_RUNNING) io->state = CALL_ANSWERED;
    http_resume(call);
}

void http_close_after(struct call *call) { call->io->close_after = true; }

// Its requests end with the next step. The socket is shut down, because libmicrohttpd would not ask
// for more bytes, and see `gone`, while a reader that takes none keeps its buffer full.
void http_give_up(struct call *call) {
    struct call_io *io = call->io;
    if (io->gone) return;
    io->gone = true;
    if (io->state != CALL_WORKING && call->generation) streams_leave(call->generation);
    if (io->on_gone) io->on_gone(call);
    io->on_gone = NULL;
    shutdown(io->link->fd, SHUT_RDWR);
    if (io->state != CALL_WORKING) http_resume(call);
}

// ---------------------------------------------------------------- load

// How long it takes until as many as wait now have been served.
static int retry_after(const struct http *http) {
    const int seqs = http->server->engine_info.max_seqs;
    const double rounds = (double)http->server->load / (seqs > 0 ? seqs : 1);
    const double seconds = ceil(http->answer_s * rounds / 2);
    return seconds < 1 ? 1 : seconds > 60 ? 60 : (int)seconds;
}

bool http_refuse_full(struct call *call) {
    const struct http *http = call->server->http;
    call->retry_after_s = retry_after(http);
    return call_refuse(call, 429, NULL, "queue_full",
                       "The server is busy: %d of %d places are taken. Try again in %d s.",
                       http->server->load, server_places(http->server), call->retry_after_s);
}

static void answer_time_learn(struct http *http, const struct call *call) {
    const double seconds = (double)(clock_ns() - call->start_ns) * 1e-9;
    http->answer_s += (seconds - http->answer_s) * 0.1;
}

// ---------------------------------------------------------------- dispatch

static enum MHD_Result answer_now(struct call *call, struct http *http) {
    if (call->io->state != CALL_STREAMING) state_set(call, http, CALL_ANSWERED);
    return reply_queue(call);
}

static void suspend(struct call *call) {
    call->io->suspended = true;
    MHD_suspend_connection(call->io->connection);
}

static bool has_room(const struct http *http) {
    return http->server->load + http->n_preparing < server_places(http->server);
}

// The request is complete.
static enum MHD_Result call_dispatch(struct call *call, struct http *http) {
    call->io->link->deadline_ns = 0;
    if (call->status) return answer_now(call, http);
    if (!request_phase(call)) return answer_now(call, http); // it may have changed meanwhile
    if (call->route->at_once) {
        call->route->at_once(call);
        assert(call->status);
        return answer_now(call, http);
    }
    if (!has_room(http) || !workers_push(http->workers, call)) {
        http_refuse_full(call);
        return answer_now(call, http);
    }
    state_set(call, http, CALL_WORKING);
    http->n_preparing++;
    suspend(call);
    return MHD_YES;
}

// A stream's answer begins; an answer in one piece waits for the end.
static void call_start(struct call *call) {
    struct call_io *io = call->io;
    struct generation *generation = call->generation;
    if (call->status || !generation || !streams_submit(call)) {
        if (!call->status) {
            call_refuse(call, 500, NULL, NULL, "The request was not understood");
        }
        io->state = CALL_ANSWERED;
        return;
    }
    generation->began = true;
    if (!generation->params.stream) {
        io->state = CALL_RUNNING;
        return;
    }
    call_stream(call, NULL);
    if (generation->writer->begin) generation->writer->begin(call);
}

static void call_prepared(struct call *call, struct http *http) {
    struct call_io *io = call->io;
    http->n_preparing--;
    free(call->body); // what was parsed of it stays until the end, and is counted
    call->body = NULL;
    if (io->gone) {
        io->state = CALL_ANSWERED;
    } else {
        call_start(call);
    }
    if (io->state != CALL_RUNNING || io->gone) http_resume(call);
}

void http_prepared(struct http *http) {
    struct call *call;
    while ((call = workers_pop(http->workers))) call_prepared(call, http);
}

// ---------------------------------------------------------------- libmicrohttpd's calls

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_len, void **request) {
    struct http *http = cls;
    struct call *call = *request;
    if (!call) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        struct link *link = info ? info->socket_context : NULL;
        if (!link || !(call = call_open(link, connection, url, method))) return MHD_NO;
        *request = call;
        link->deadline_ns = after(http->server->config.body_s);
        request_head(call, version);
        const bool at_once = call_header(call, "Expect") || call->io->close_after;
        return call->status >= 400 && at_once ? answer_now(call, http) : MHD_YES;
    }
    struct call_io *io = call->io;
    if (io->gone) return MHD_NO;
    if (*data_len) {
        const bool ok = request_body(call, http, data, *data_len);
        *data_len = 0;
        return ok ? MHD_YES : MHD_NO;
    }
    if (io->state == CALL_READING) return call_dispatch(call, http);
    if (io->state == CALL_ANSWERED || io->state == CALL_STREAMING) return reply_queue(call);
    suspend(call); // woken for nothing
    return MHD_YES;
}

// The connection lets go of the call, which ends here.
static void call_close(struct call *call, struct http *http, bool gone) {
    struct call_io *io = call->io;
    struct link *link = io->link;
    if (gone) http_give_up(call);
    if (io->on_gone) io->on_gone(call);
    io->on_gone = NULL;
    link->call = NULL;
    link->since_ns = clock_ns();
    link->deadline_ns = io->close_after || http->draining ? 1 : after(http->server->config.idle_s);
    io->link = NULL;
    io->connection = NULL;
    assert(io->state != CALL_WORKING); // its connection is suspended
    if (io->state != CALL_READING) http->n_active--;
    if (call->generation && call->generation->began && !gone) answer_time_learn(http, call);
    http_pending_release(call, http);
    metrics_call_end(http->server->metrics, call, gone);
    call_free(call);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code) {
    struct call *call = *request;
    (void)connection;
    if (!call) return;
    *request = NULL;
    call_close(call, cls, code != MHD_REQUEST_TERMINATED_COMPLETED_OK);
}

// ---------------------------------------------------------------- connections

// Where no place is left, the connection that was idle for longest makes one.
static void link_make_room(struct http *http) {
    struct link *oldest = NULL;
    for (struct link *link = http->links.next; link != &http->links; link = link->next) {
        if (link->call || link->evicted) continue;
        if (!oldest || link->since_ns < oldest->since_ns) oldest = link;
    }
    if (!oldest) return;
    oldest->evicted = true;
    http->n_links--;
    shutdown(oldest->fd, SHUT_RDWR);
}

static void link_open(struct http *http, struct MHD_Connection *connection, void **context) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct link *link = calloc(1, sizeof *link);
    if (!link || !info) {
        free(link);
        if (info) shutdown(info->connect_fd, SHUT_RDWR);
        return;
    }
    if (http->n_links >= http->server->config.connections_max) link_make_room(http);
    http->n_links++;
    *link = (struct link){.next = http->links.next,
                          .prev = &http->links,
                          .http = http,
                          .fd = info->connect_fd,
                          .since_ns = clock_ns(),
                          .deadline_ns = after(http->server->config.header_s)};
    link->next->prev = http->links.next = link;
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = link};
    if (epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, link->fd, &event)) {
        shutdown(link->fd, SHUT_RDWR); // its hang-up would not be seen
    }
    *context = link;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code) {
    struct http *http = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        link_open(http, connection, context);
        return;
    }
    struct link *link = *context;
    if (!link) return;
    // libmicrohttpd does not say that a request ended where it ran out of memory itself
    if (link->call) call_close(link->call, http, true);
    if (!link->evicted) http->n_links--;
    epoll_ctl(http->epoll_fd, EPOLL_CTL_DEL, link->fd, NULL);
    link->next->prev = link->prev;
    link->prev->next = link->next;
    free(link);
    *context = NULL;
}

// A path with %00 in it is none of ours, and not the one that it begins with.
static size_t on_unescape(void *cls, struct MHD_Connection *connection, char *text) {
    (void)cls;
    (void)connection;
    const size_t len = MHD_http_unescape(text);
    for (size_t i = 0; i < len; i++) {
        if (!text[i]) text[i] = '?';
    }
    return len;
}

// libmicrohttpd's own complaints are about clients; they get their answers.
__attribute__((format(printf, 2, 0))) static void on_log(void *cls, const char *fmt, va_list args) {
    (void)cls;
    (void)fmt;
    (void)args;
}

// ---------------------------------------------------------------- timers

// Whether a hang-up means that the work is for nobody. An answer that is there is sent all the
// same: its reader may have closed only the side that it does not need any more.
static bool works_for_peer(const struct call *call) {
    return call->io->state != CALL_READING && call->io->state != CALL_ANSWERED;
}

void http_hang_up(struct http *http, void *at) {
    struct link *link = at;
    (void)http;
    link->hung_up = true;
    if (link->call && works_for_peer(link->call)) http_give_up(link->call);
}

static double seconds_since(uint64_t then, uint64_t now) {
    return (double)(int64_t)(now - then) * 1e-9;
}

// What libmicrohttpd has taken is not what the reader has: the system knows.
static bool reader_took_bytes(struct link *link) {
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    const uint64_t before = link->acked;
    if (getsockopt(link->fd, IPPROTO_TCP, TCP_INFO, &info, &len)) return false;
    link->acked = info.tcpi_bytes_acked;
    return link->acked != before;
}

static void reader_tick(struct call *call, uint64_t now) {
    const struct server_config *config = &call->server->config;
    struct call_io *io = call->io;
    if (io->gone || !io->queued) return;
    if (!io->suspended) { // bytes wait, in out or already with libmicrohttpd
        if (seconds_since(io->moved_ns, now) < config->stall_s) return;
        io->moved_ns = now;
        if (!reader_took_bytes(io->link)) http_give_up(call);
        return;
    }
    const struct writer *writer = call->generation ? call->generation->writer : NULL;
    if (io->ended || !writer || seconds_since(io->written_ns, now) < config->keepalive_s) return;
    jbuf_text(&call->out, writer->ping ? writer->ping : ": keep-alive\n\n");
    call_wake(call);
}

// A peer that closed its side right after its last bytes: libmicrohttpd took those for all there is
// and was not told of the end apart from them. Closing our side for reading wakes it.
static void end_of_input(const struct link *link) {
    if (link->call && link->call->io->state != CALL_READING) return;
    shutdown(link->fd, SHUT_RD);
}

void http_tick(struct http *http, uint64_t now) {
    struct link *next;
    for (struct link *link = http->links.next; link != &http->links; link = next) {
        next = link->next;
        if (link->deadline_ns && now >= link->deadline_ns) {
            link->deadline_ns = 0;
            shutdown(link->fd, SHUT_RDWR);
        }
        struct call *call = link->call;
        if (link->hung_up) end_of_input(link);
        if (!call) continue;
        if (link->hung_up && works_for_peer(call)) http_give_up(call);
        reader_tick(call, now);
    }
}

void http_drain(struct http *http, bool abort) {
    http->draining = true;
    for (struct link *link = http->links.next; link != &http->links; link = link->next) {
        struct call *call = link->call;
        if (!call) {
            link->deadline_ns = 1; // idle connections end
        } else if (abort) {
            http_give_up(call);
        } else if (call->io->state == CALL_STREAMING && !call->generation) {
            call_end(call);
        }
    }
}

void http_cancel(struct http *http) {
    for (struct link *link = http->links.next; link != &http->links; link = link->next) {
        const struct call *call = link->call;
        if (call && call->generation && call->io->state != CALL_WORKING)
            streams_cancel(call->generation);
    }
}

int http_active(const struct http *http) { return http->n_active; }

const struct stream *http_find(const struct http *http, uint64_t request) {
    for (const struct link *link = http->links.next; link != &http->links; link = link->next) {
        const struct call *call = link->call;
        if (!call || call->io->state == CALL_WORKING || !call->generation) continue;
        const struct generation *generation = call->generation;
        for (int i = 0; generation->stream && i < generation->n_prompts; i++) {
            const struct stream *stream = generation->stream[i];
            if (stream && stream->request == request) return stream;
        }
    }
    return NULL;
}

uint64_t http_bytes(const struct call *call) { return call->io ? call->io->bytes : 0; }

struct http_counts http_count(const struct http *http) {
    if (!http) return (struct http_counts){0};
    return (struct http_counts){.connections = http->n_links,
                                .active = http->n_active,
                                .preparing = http->n_preparing,
                                .body_bytes = http->pending_bytes};
}

// ---------------------------------------------------------------- the daemon

int http_epoll_fd(const struct http *http) {
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info ? info->epoll_fd : -1;
}

void http_run(struct http *http) { MHD_run(http->daemon); }

int http_timeout_ms(struct http *http) {
    MHD_UNSIGNED_LONG_LONG ms;
    if (MHD_get_timeout(http->daemon, &ms) != MHD_YES) return -1;
    return ms > 1000 ? 1000 : (int)ms;
}

static struct MHD_Daemon *daemon_start(struct http *http, int listen_fd) {
    const struct server_config *config = &http->server->config;
    const struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_KEY, 0,
                                          (void *)(uintptr_t)config->tls_key},
                                         {MHD_OPTION_HTTPS_MEM_CERT, 0,
                                          (void *)(uintptr_t)config->tls_cert},
                                         {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    if (config->tls_cert) flags |= MHD_USE_TLS;
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER,
                            on_log, NULL, MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, NULL,
                            MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned)config->connections_max + SPARE_CONNECTIONS,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
                            MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_ARRAY,
                            config->tls_cert ? tls : plain, MHD_OPTION_END);
}

rn_status http_create(struct server *server, int listen_fd, int epoll_fd, int wake_fd,
                      struct http **out, rn_error *err) {
    struct http *http = calloc(1, sizeof *http);
    *out = NULL;
    if (!http) {
        close(listen_fd);
        return err_set(err, RN_ERR_NOMEM, "out of memory");
    }
    http->server = server;
    http->epoll_fd = epoll_fd;
    http->wake_fd = wake_fd;
    http->answer_s = 1;
    http->links.next = http->links.prev = &http->links;
    const rn_status status =
        workers_create(server->config.workers, WORK_QUEUE, wake_fd, &http->workers, err);
    if (!status) http->daemon = daemon_start(http, listen_fd);
    if (!http->daemon) {
        close(listen_fd);
        workers_destroy(http->workers);
        free(http);
        if (status) return status;
        return err_set(
            err, RN_ERR_ARG,
            server->config.tls_cert
                ? "--tls-cert, --tls-key: the certificate and the key do not fit together"
                : "the server cannot be set up");
    }
    *out = http;
    return RN_OK;
}

// No connection may be suspended when the daemon stops: calls come back from their workers first.
void http_destroy(struct http *http) {
    if (!http) return;
    http_drain(http, true);
    while (http->n_preparing) {
        struct pollfd wake = {.fd = http->wake_fd, .events = POLLIN};
        uint64_t count;
        poll(&wake, 1, 100);
        const ssize_t n = read(http->wake_fd, &count, sizeof count);
        (void)n;
        http_prepared(http);
    }
    MHD_stop_daemon(http->daemon); // without another run, which could take new requests in
    workers_destroy(http->workers);
    assert(!http->n_active && !http->n_links && !http->pending_bytes);
    free(http);
}
