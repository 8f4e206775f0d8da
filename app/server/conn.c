// One connection's states (conn.h has the diagram). Invariants: only BODY, WAITING and SENDING have
// a call. A spare connection is in http->spare until it is CLOSED. Any other connection is in
// http->quiet in HANDSHAKE, IDLE and HEAD, in http->lingering in LINGERING, and in http->busy
// otherwise. Bytes are read from the socket in HEAD, IDLE, BODY and LINGERING only, so a peer that
// sends ahead is slowed down by its own system.
#include "conn.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "helpers.h"
#include "metrics.h"
#include "routes.h"
#include "streams.h"
#include "tls.h"
#include "waiting.h"
#include "workers.h"

enum {
    TURN_STEPS = 8,           // of one connection before others have theirs
    TURN_BYTES = 64 << 10,    // that it reads, the same
    STEP_SENDS = 8,           // of one step
    AHEAD_BYTES = 8 << 10,    // that are read at a time where the request may end before
    FILL_BYTES = 64 << 10,    // of an answer that are framed at a time
    DISCARD_BYTES = 64 << 10, // of a refused body that are read to keep the connection
    LINGER_NS = 2000000000,
    SPARE_NS = 2000000000,
    SPARE_UNSENT_BYTES = 4 << 10,
};

static uint64_t ns_of(double seconds) { return (uint64_t)(seconds * 1e9); }
static uint64_t after(double seconds) { return clock_ns() + ns_of(seconds); }

static const struct server_config *config_of(const struct conn *conn) {
    return &conn->http->server->config;
}

// ---------------------------------------------------------------- states

static void list_remove(struct conn *conn) {
    conn->next->prev = conn->prev;
    conn->prev->next = conn->next;
}

static void list_append(struct conn *list, struct conn *conn) {
    conn->next = list;
    conn->prev = list->prev;
    list->prev->next = conn;
    list->prev = conn;
}

// deadline_ns 0: none. The deadline of a spare connection stays.
static void state_set(struct conn *conn, enum conn_state state, uint64_t deadline_ns) {
    struct http *http = conn->http;
    http->n_lingering += (state == CONN_LINGERING) - (conn->state == CONN_LINGERING);
    conn->state = state;
    conn->since_ns = clock_ns();
    if (conn->is_spare) return;
    conn->deadline_ns = deadline_ns;
    list_remove(conn);
    list_append(state <= CONN_HEAD        ? &http->quiet
                : state == CONN_LINGERING ? &http->lingering
                                          : &http->busy,
                conn);
    if (deadline_ns) wheel_set(&http->wheel, &conn->timer, deadline_ns);
}

static void spare_begin(struct conn *conn) {
    struct http *http = conn->http;
    conn->is_spare = true;
    http->n_spare++;
    list_append(&http->spare, conn);
    conn->deadline_ns = clock_ns() + SPARE_NS;
    wheel_set(&http->wheel, &conn->timer, conn->deadline_ns);
}

// The caller sets its next state.
static void spare_end(struct conn *conn) {
    if (!conn->is_spare) return;
    conn->is_spare = false;
    conn->http->n_spare--;
}

// The call ends, with its answer or without (gone). A call that a worker has ends after that work.
static void call_leave(struct conn *conn, bool gone) {
    struct call *call = conn->call;
    conn->call = NULL;
    call->conn = NULL;
    if (call->state == CALL_WORKING)
        call->is_gone = true;
    else
        streams_finish(call, gone);
}

static void ready_remove(struct conn *conn) {
    struct conn **at = &conn->http->ready;
    if (!conn->is_ready) return;
    while (*at && *at != conn) at = &(*at)->ready;
    if (!*at) at = &conn->http->running;
    while (*at != conn) at = &(*at)->ready;
    *at = conn->ready;
    conn->is_ready = false;
}

// Where the connection's end marks the answer's end, an answer that is cut short must not look
// complete.
static void reset_at_close(const struct conn *conn) {
    const struct linger reset = {.l_onoff = 1};
    setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

// The system keeps the bytes of a closed connection for minutes if the peer takes none. So many
// are not kept for a spare one.
static bool leaves_much(const struct conn *conn) {
    int unsent = 0;
    return conn->is_spare && !ioctl(conn->fd, SIOCOUTQ, &unsent) && unsent > SPARE_UNSENT_BYTES;
}

void conn_close(struct conn *conn) {
    struct http *http = conn->http;
    if (conn->state == CONN_CLOSED) return;
    if (leaves_much(conn) || (conn->state == CONN_SENDING && conn->framing == FRAMING_CLOSE))
        reset_at_close(conn);
    if (conn->call) call_leave(conn, true);
    spare_end(conn);
    state_set(conn, CONN_CLOSED, 0);
    list_remove(conn);
    wheel_unset(&http->wheel, &conn->timer);
    ready_remove(conn);
    if (conn->tls) tls_close(conn->tls);
    close(conn->fd);
    reader_deinit(&conn->reader);
    jbuf_deinit(&conn->in);
    jbuf_deinit(&conn->out);
    http->server->counts.connections--;
    conn->next = http->closed; // an event of this turn may still name it
    http->closed = conn;
    http_closed(http);
}

void conn_open(struct http *http, int fd, bool is_spare) {
    const struct server *server = http->server;
    struct conn *conn = calloc(1, sizeof *conn);
    struct tls *tls = conn && http->tls ? tls_open(http->tls, fd) : NULL;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = conn};
    if (!conn || (http->tls && !tls) || epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
        if (tls) tls_close(tls);
        free(conn);
        close(fd);
        return;
    }
    *conn = (struct conn){.http = http, .fd = fd, .tls = tls, .writable = true};
    conn->next = conn->prev = conn;
    http->server->counts.connections++;
    if (is_spare) spare_begin(conn);
    state_set(conn, tls ? CONN_HANDSHAKE : CONN_HEAD, after(server->config.header_s));
    if (!is_spare) return;
    conn->readable = true; // its head may be there, and its time is short
    conn_run(conn);
}

void conn_hasten(struct conn *conn) {
    const uint64_t soon_ns = clock_ns() + LINGER_NS;
    if (conn->state != CONN_LINGERING || conn->deadline_ns < soon_ns) return;
    conn->deadline_ns = soon_ns;
    wheel_set(&conn->http->wheel, &conn->timer, soon_ns);
}

// ---------------------------------------------------------------- the socket

static ssize_t receive(struct conn *conn, char *data, size_t size) {
    const ssize_t n = conn->tls ? tls_recv(conn->tls, data, size) : recv(conn->fd, data, size, 0);
    const bool drained = n > 0 && (size_t)n < size && !conn->tls && !conn->peer_ended;
    if (drained || (n < 0 && errno == EAGAIN)) conn->readable = false; // until the next event
    if (n > 0) conn->http->n_received += (uint64_t)n;
    return n;
}

// The bytes in out, then these. TLS takes one of them at a time.
static ssize_t transmit(struct conn *conn, const char *data, size_t len) {
    char *out = conn->out.data + conn->out_at;
    const size_t out_len = conn->out.len - conn->out_at;
    if (conn->tls)
        return out_len ? tls_send(conn->tls, out, out_len) : tls_send(conn->tls, data, len);
    if (!len) return send(conn->fd, out, out_len, MSG_NOSIGNAL);
    if (!out_len) return send(conn->fd, data, len, MSG_NOSIGNAL);
    struct iovec part[2] = {{out, out_len}, {(void *)(uintptr_t)data, len}};
    const struct msghdr message = {.msg_iov = part, .msg_iovlen = 2};
    return sendmsg(conn->fd, &message, MSG_NOSIGNAL);
}

// ---------------------------------------------------------------- sending

// Bytes of the body were sent, or framed.
static void body_taken(struct conn *conn, size_t n) {
    struct call *call = conn->call;
    if (!n) return;
    call->taken += n;
    call->sent += n;
    if (call->immutable) return;
    if (call->taken == call->out.len) {
        jbuf_clear(&call->out);
        call->taken = 0;
    } else if (call->taken > call->out.len / 2) {
        jbuf_drop(&call->out, call->taken);
        call->taken = 0;
    }
    streams_taken(call);
}

static bool body_ended(const struct call *call) {
    return call->state == CALL_ENDED && !call->more && !call_unsent(call);
}

static void chunk_fill(struct conn *conn) {
    struct call *call = conn->call;
    const size_t unsent = call_unsent(call), n = unsent < FILL_BYTES ? unsent : FILL_BYTES;
    if (conn->framed) return;
    if (n) {
        jbuf_printf(&conn->out, "%zx\r\n", n);
        jbuf_bytes(&conn->out, (call->immutable ? call->bytes : call->out.data) + call->taken, n);
        jbuf_bytes(&conn->out, "\r\n", 2);
        body_taken(conn, n);
    }
    if (!body_ended(call)) return;
    jbuf_text(&conn->out, "0\r\n\r\n");
    conn->framed = true;
}

// The first check of the reader's progress.
static uint64_t first_look(const struct server_config *config) {
    return after(config->stall_s < config->keepalive_s ? config->stall_s : config->keepalive_s);
}

static void answer_begin(struct conn *conn) {
    struct call *call = conn->call;
    const bool old = !call->head.minor;
    if (conn->is_early) { // the head is out
        if (call_refused(call)) reply_late_refusal(call);
        conn->moved_ns = call->written_ns = clock_ns();
        state_set(conn, CONN_SENDING, first_look(config_of(conn)));
        return;
    }
    if (!call_fill(call, FILL_BYTES) && !call->out.failed) call_refuse_answers(call);
    if (call->out.full && call->state == CALL_ENDED) call_answer(call); // refuses
    if (call->out.failed) reply_starved(call);
    const bool whole = call->state == CALL_ENDED && !call->more;
    conn->framing = call->head_only || call->status == 204 || call->status == 304 ? FRAMING_NONE
                    : whole                                                       ? FRAMING_LENGTH
                    : old                                                         ? FRAMING_CLOSE
                                                                                  : FRAMING_CHUNKED;
    conn->keep = call->head.keep_alive && !call->close_after && !conn->is_spare &&
                 !conn->http->draining && conn->framing != FRAMING_CLOSE;
    conn->framed = false;
    conn->moved_ns = call->written_ns = clock_ns();
    if (!conn->probed) reply_begin(&conn->out);
    reply_head(call, whole && call->head_only ? FRAMING_LENGTH : conn->framing, call_unsent(call),
               conn->keep, &conn->out);
    state_set(conn, CONN_SENDING, first_look(config_of(conn)));
}

// The bytes for the peer are all with the system.
static void answer_end(struct conn *conn) {
    const bool goes_on = // the peer is still sending a request that was refused
        conn->reader.state != READER_LINE && conn->reader.state != READER_REFUSED;
    const uint64_t deadline_ns = goes_on && !conn->http->draining
                                     ? conn->call->start_ns + ns_of(config_of(conn)->body_s)
                                     : clock_ns() + LINGER_NS;
    const bool keep = conn->keep && !conn->call->close_after;
    call_leave(conn, false);
    jbuf_deinit(&conn->out);
    conn->out_at = 0;
    conn->probed = conn->is_early = false;
    if (keep) {
        conn->readable |= conn->tls != NULL; // it may hold bytes that were decrypted
        state_set(conn, CONN_IDLE, after(config_of(conn)->idle_s));
        return;
    }
    if (conn->tls) tls_end(conn->tls);
    shutdown(conn->fd, SHUT_WR);
    conn->readable = true;
    state_set(conn, CONN_LINGERING, deadline_ns);
}

// Sends the bytes at hand. True: the state has changed, or there is more to send than a turn takes.
static bool pump_out(struct conn *conn) {
    struct call *call = conn->call;
    const bool has_answer = conn->state == CONN_SENDING;
    for (int i = 0; i < STEP_SENDS && conn->writable; i++) {
        const char *data = NULL;
        size_t len = 0;
        if (has_answer) call_fill(call, FILL_BYTES);
        if (has_answer && (call->failed || call->out.failed)) {
            conn_close(conn);
            return true;
        }
        if (conn->out_at == conn->out.len && !conn->out.failed) {
            jbuf_clear(&conn->out);
            conn->out_at = 0;
            if (has_answer && conn->framing == FRAMING_CHUNKED) chunk_fill(conn);
        }
        if (conn->out.failed) { // a piece is missing, perhaps the head
            conn_close(conn);
            return true;
        }
        if (has_answer && (conn->framing == FRAMING_LENGTH || conn->framing == FRAMING_CLOSE)) {
            len = call_unsent(call);
            data = (call->immutable ? call->bytes : call->out.data) + (len ? call->taken : 0);
        }
        const size_t out_len = conn->out.len - conn->out_at;
        if (!out_len && !len) {
            if (!has_answer) return false;
            const bool ended = conn->framing == FRAMING_NONE ||
                               (conn->framing == FRAMING_CHUNKED ? conn->framed : body_ended(call));
            if (ended) answer_end(conn);
            return ended;
        }
        const ssize_t n = transmit(conn, data, len);
        if (n < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN) {
                conn->writable = false;
                return false;
            }
            conn_close(conn);
            return true;
        }
        conn->moved_ns = clock_ns();
        const size_t of_out = (size_t)n < out_len ? (size_t)n : out_len;
        conn->out_at += of_out;
        if (has_answer) body_taken(conn, (size_t)n - of_out);
    }
    return conn->writable;
}

// ---------------------------------------------------------------- requests

static void head_read(struct conn *conn, bool last) {
    struct http *http = conn->http;
    struct head head;
    reader_take_head(&conn->reader, &head);
    struct call *call = call_create(http->server, &head);
    if (!call) {
        conn_close(conn);
        return;
    }
    conn->call = call;
    call->conn = conn;
    if (conn->is_spare && http_has_room(http)) spare_end(conn);
    state_set(conn, CONN_BODY, after(config_of(conn)->body_s));
    request_head(call, conn->is_spare);
    if (!call->status && call->head.expects && head_has_body(&call->head) && last)
        jbuf_text(&conn->out, "HTTP/1.1 100 Continue\r\n\r\n");
}

// Answers before the request's end. The rest of a refused body is not waited for, unless it is so
// short that the connection can be kept; it is read and dropped.
static bool refused_early(struct conn *conn) {
    const struct call *call = conn->call;
    const struct head *head = &call->head;
    if (!call_refused(call) || !head_has_body(head)) return false;
    return call->close_after || head->expects || head->chunked || head->length > DISCARD_BYTES;
}

static void answer_early(struct conn *conn) {
    conn->call->close_after = true;
    call_state_set(conn->call, CALL_ENDED);
    answer_begin(conn);
}

// With several models the call's own is not known yet: waiting_take looks at its places.
static bool prepare(struct call *call) {
    struct server *server = call->server;
    call->is_bound = !server->loader; // which the worker sees
    if (call->is_bound && !served_has_room(call->served)) return false;
    if (!workers_push(server->workers, call)) return false;
    call_state_set(call, CALL_WORKING);
    server->counts.preparing++;
    if (call->is_bound) call->served->preparing++;
    return true;
}

// The request is complete.
static void dispatch(struct conn *conn) {
    struct call *call = conn->call;
    struct server *server = conn->http->server;
    if (!call->status && request_phase(call)) { // the phase may have changed meanwhile
        if (call->route->at_once) {
            if (!server->loader || waiting_pick(call)) call->route->at_once(call);
            if (call->state == CALL_RUNNING) {
                state_set(conn, CONN_WAITING, 0);
                return;
            }
            assert(call->status);
        } else if (prepare(call)) {
            state_set(conn, CONN_WAITING, 0);
            return;
        } else {
            call_refuse_full(call);
        }
    }
    if (call->state == CALL_READING) call_state_set(call, CALL_ENDED);
    answer_begin(conn);
}

// Bytes that are no request get an answer of their own, the last one of the connection.
static void request_refuse(struct conn *conn) {
    const struct reader *reader = &conn->reader;
    if (!conn->call) {
        struct head none = {0};
        conn->call = call_create(conn->http->server, &none);
        if (!conn->call) {
            conn_close(conn);
            return;
        }
        conn->call->conn = conn;
        conn->call->head.minor = 1;
    }
    call_refuse(conn->call, reader->status, NULL, reader->code, "%s", reader->why);
    answer_early(conn);
}

// Takes bytes up to the end of a request. Returns how many.
static size_t feed(struct conn *conn, const char *data, size_t len) {
    size_t at = 0;
    while (conn->state == CONN_HEAD || conn->state == CONN_IDLE || conn->state == CONN_BODY) {
        struct reader_bytes bytes;
        const enum reader_event event = reader_next(&conn->reader, data + at, len - at, &bytes);
        at += bytes.taken;
        if (event == READER_MORE) {
            if (conn->state == CONN_IDLE && !reader_is_idle(&conn->reader))
                state_set(conn, CONN_HEAD, after(config_of(conn)->header_s));
            break;
        }
        if (event == READER_REFUSE) request_refuse(conn);
        if (event == READER_HEAD) head_read(conn, at == len);
        if (event == READER_BODY) request_body(conn->call, bytes.body, bytes.body_len);
        if (event == READER_END) dispatch(conn);
        if (conn->state == CONN_BODY && refused_early(conn)) answer_early(conn);
    }
    return at;
}

// Bytes that were read before. True: there were any.
static bool feed_kept(struct conn *conn) {
    if (conn->in_at == conn->in.len) return false;
    conn->in_at += feed(conn, conn->in.data + conn->in_at, conn->in.len - conn->in_at);
    if (conn->state == CONN_CLOSED || conn->in_at < conn->in.len) return true;
    jbuf_deinit(&conn->in);
    conn->in_at = 0;
    return true;
}

// How much to read at once. Bytes behind the request are kept until its answer is sent. They are
// few, so no limit includes them.
static size_t appetite(const struct conn *conn) {
    const uint64_t left = conn->reader.left;
    if (left < AHEAD_BYTES) return AHEAD_BYTES;
    return left < sizeof conn->http->scratch ? (size_t)left : sizeof conn->http->scratch;
}

// Reads once. True: something has changed.
static bool pump_in(struct conn *conn) {
    struct http *http = conn->http;
    if (feed_kept(conn)) return true;
    if (!conn->readable) return false;
    const ssize_t n = receive(conn, http->scratch, appetite(conn));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return errno == EINTR;
    if (n <= 0) { // half a request gets no answer
        conn_close(conn);
        return true;
    }
    const size_t taken = feed(conn, http->scratch, (size_t)n);
    if (conn->state == CONN_CLOSED || taken == (size_t)n) return true;
    jbuf_bytes(&conn->in, http->scratch + taken, (size_t)n - taken);
    if (conn->in.failed) conn_close(conn);
    return true;
}

// ---------------------------------------------------------------- running

static bool handshake(struct conn *conn) {
    const int result = tls_handshake(conn->tls);
    if (!result) return false;
    if (result < 0) {
        conn_close(conn);
    } else {
        conn->readable = conn->writable = true;
        state_set(conn, CONN_HEAD, conn->deadline_ns);
    }
    return true;
}

static bool answer_ready(struct conn *conn) {
    if (conn->call->state != CALL_STREAMING && conn->call->state != CALL_ENDED) {
        pump_out(conn); // bytes from before the answer
        return false;
    }
    answer_begin(conn);
    return true;
}

static bool discard(struct conn *conn) {
    if (!conn->readable) return false;
    const ssize_t n = receive(conn, conn->http->scratch, sizeof conn->http->scratch);
    if (n > 0 || (n < 0 && errno == EINTR)) return true;
    if (n < 0 && errno == EAGAIN) return false;
    conn_close(conn);
    return true;
}

static bool step(struct conn *conn) {
    switch (conn->state) {
    case CONN_HANDSHAKE:
        return handshake(conn);
    case CONN_IDLE:
    case CONN_HEAD:
        return pump_in(conn);
    case CONN_BODY: // the interim answer goes out first
        return pump_out(conn) || pump_in(conn);
    case CONN_WAITING:
        return answer_ready(conn);
    case CONN_SENDING:
        return pump_out(conn);
    case CONN_LINGERING:
        return discard(conn);
    case CONN_CLOSED:
        break;
    }
    return false;
}

// Finds out whether a peer that closed its side still reads. It gets the first bytes of the answer,
// which are the same for every answer; a stream gets a comment.
static void probe(struct conn *conn) {
    struct call *call = conn->call;
    if (conn->probed || !conn->peer_ended) return;
    if (conn->state == CONN_WAITING && conn->is_early) {
        conn->probed = true; // its comments tell
    } else if (conn->state == CONN_WAITING) {
        reply_begin(&conn->out);
        conn->probed = true;
    } else if (conn->state == CONN_SENDING && call->state == CALL_STREAMING && call->generation) {
        jbuf_text(&call->out, generation_ping(call->generation));
        conn->probed = true;
    }
}

static void ready_add(struct conn *conn) {
    if (conn->state == CONN_CLOSED || conn->is_ready) return;
    conn->is_ready = true;
    conn->ready = conn->http->ready;
    conn->http->ready = conn;
}

void conn_run(struct conn *conn) {
    const uint64_t end = conn->http->n_received + TURN_BYTES;
    for (int i = 0; i < TURN_STEPS && conn->http->n_received < end; i++) {
        probe(conn);
        if (!step(conn)) return;
    }
    ready_add(conn);
}

// Bodies and answers wait until the turn's heads have been read: there may be much of them. A
// peer's end does not wait: it may free a place.
static bool is_bulky(const struct conn *conn) {
    return !conn->peer_ended && (conn->state == CONN_BODY || conn->state == CONN_SENDING ||
                                 conn->state == CONN_LINGERING);
}

void conn_event(struct conn *conn, uint32_t events) {
    if (conn->state == CONN_CLOSED) return;
    // both sides have ended where ours had: bytes that have come are read first, or the close is a
    // reset
    const bool lingers = conn->state == CONN_LINGERING;
    if (events & EPOLLERR || (events & EPOLLHUP && !lingers)) {
        conn_close(conn);
        return;
    }
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP)) conn->readable = true;
    if (events & EPOLLOUT) conn->writable = true;
    if (events & EPOLLRDHUP) conn->peer_ended = true;
    if (conn->tls) conn->readable = conn->writable = true; // each may wait for the other
    if (is_bulky(conn))
        ready_add(conn);
    else
        conn_run(conn);
}

// ---------------------------------------------------------------- deadlines

// The system may have taken bytes that the reader has not read; the system knows how many.
static bool reader_took_bytes(struct conn *conn) {
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    const uint64_t before = conn->acked;
    if (getsockopt(conn->fd, IPPROTO_TCP, TCP_INFO, &info, &len)) return false;
    conn->acked = info.tcpi_bytes_acked;
    return conn->acked != before;
}

// A reader that takes nothing is cut off; a stream that is silent says that it is there.
static void sending_due(struct conn *conn, uint64_t now) {
    const struct server_config *config = config_of(conn);
    struct call *call = conn->call;
    const uint64_t stall_ns = ns_of(config->stall_s), silence_ns = ns_of(config->keepalive_s);
    if (conn->out_at < conn->out.len || call_unsent(call)) {
        if (now >= conn->moved_ns + stall_ns) {
            conn->moved_ns = now;
            if (!reader_took_bytes(conn)) {
                conn_close(conn);
                return;
            }
        }
        const uint64_t stalled_ns = conn->moved_ns + stall_ns;
        wheel_set(&conn->http->wheel, &conn->timer,
                  stalled_ns < now + silence_ns ? stalled_ns : now + silence_ns);
        return;
    }
    if (now >= call->written_ns + silence_ns) {
        call->written_ns = now;
        if (call->generation) jbuf_text(&call->out, generation_ping(call->generation));
    }
    const uint64_t silent_ns = call->written_ns + silence_ns;
    wheel_set(&conn->http->wheel, &conn->timer,
              silent_ns < now + stall_ns ? silent_ns : now + stall_ns);
    conn_run(conn);
}

void conn_due(struct conn *conn, uint64_t now) {
    if (conn->state == CONN_SENDING && !conn->is_spare) {
        sending_due(conn, now);
    } else if (conn->deadline_ns && now < conn->deadline_ns) {
        wheel_set(&conn->http->wheel, &conn->timer, conn->deadline_ns);
    } else if (conn->deadline_ns) {
        conn_close(conn);
    }
}
