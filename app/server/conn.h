// A connection: a socket, the reader of its requests and at most one call. I/O thread only; http.c
// opens connections and tells them of events, everything else is here.
//
//   state      on                                    to          by
//   HANDSHAKE  TLS is agreed on                      HEAD        handshake()
//   HEAD       the head is complete                  BODY        head_read()
//   BODY       the request is complete, for workers  WAITING     dispatch()
//              it is complete, and answered at once  SENDING     dispatch()
//              it is refused before its end          SENDING     answer_early()
//   WAITING    its answer starts                     SENDING     answer_begin()
//   SENDING    all is sent, the connection is kept   IDLE        answer_end()
//              all is sent, and it was the last      LINGERING   answer_end()
//   IDLE       a first byte                          HEAD        feed()
//   LINGERING  further bytes are read and forgotten, so that the peer sees the answer
//   any        the peer is gone, a deadline, failure CLOSED      conn_close()
//
// A CLOSED connection is freed at the end of the turn: an event of that turn may still name it.
//
// A connection beyond the limit has a spare place. It has two seconds for all of its life, and the
// next one that comes may end it earlier. If there is room once its head is there, it becomes one
// of the others; otherwise it gets its one answer: health, or 503.
//
// A peer that closes its sending side may still read. probe() finds out by sending something
// harmless: a peer that has gone answers with a reset.
#ifndef RN_SERVER_CONN_H
#define RN_SERVER_CONN_H

#include "call.h"
#include "wheel.h"

enum conn_state {
    CONN_HANDSHAKE,
    CONN_IDLE,      // nothing of a next request has come
    CONN_HEAD,      // of a new connection: also before its first byte
    CONN_BODY,      // from here to SENDING there is a call
    CONN_WAITING,   // a worker or the engine has it
    CONN_SENDING,   // its answer has started
    CONN_LINGERING, // the answer was sent and ours is closed
    CONN_CLOSED,
};

// How the end of an answer's body is told.
enum framing {
    FRAMING_NONE,    // there is no body
    FRAMING_LENGTH,  // Content-Length
    FRAMING_CHUNKED, // Transfer-Encoding
    FRAMING_CLOSE,   // by the connection's end, for HTTP/1.0
};

struct conn {
    struct timer timer;       // first: a due timer is a connection
    struct conn *next, *prev; // in a list of http, the longest there first
    struct http *http;
    enum conn_state state;
    bool is_spare; // its place is beyond the limit
    int fd;
    struct tls *tls;         // NULL: plain
    bool readable, writable; // as far as is known: the events are told once
    bool peer_ended;         // it sends nothing more
    bool probed;             // and was sent something, to see whether it still reads
    struct reader reader;
    struct jbuf in; // bytes behind the request that is being served
    size_t in_at;   // how many of them were read
    struct call *call;
    enum framing framing;
    bool keep;            // the head of the answer says that the connection is kept
    bool framed;          // the end of a chunked body is in out
    bool is_early;        // the head of a stream was sent before its first event
    struct jbuf out;      // heads, and chunks
    size_t out_at;        // bytes of it that were sent
    uint64_t since_ns;    // when it came into its state
    uint64_t deadline_ns; // of the present read; 0: none
    uint64_t moved_ns;    // when the peer last took bytes, or there were none before
    uint64_t acked;       // bytes that the peer's system had taken when that was last asked
    struct conn *ready;   // next in http->ready or http->running
    bool is_ready;
};

struct http {
    struct server *server;
    struct tls_context *tls;                // NULL: plain
    _Atomic(struct tls_context *) tls_next; // takes its place; NULL: none
    int listen_fd;
    bool listening;        // its events are watched
    struct timer relisten; // when to try that again
    struct wheel wheel;
    // Heads of lists. All spare connections are in `spare`, in the order in which they came. Of the
    // others `quiet` has those without a call, in the order of their last states.
    struct conn quiet, busy, lingering, spare;
    int n_spare, spare_max;
    int reserve_fd;       // closed to accept a connection where descriptors run out; -1: it is
    struct conn *ready;   // that have more to do than one turn lets them
    struct conn *running; // of these, the ones whose turn it is
    struct conn *closed;  // to be freed at the end of the turn
    int n_lingering;      // spare ones too
    uint64_t n_received;  // bytes, of all connections
    bool draining;
    uint64_t last_ns;       // draining, and all is answered: when the server ends; 0: not yet
    char scratch[64 << 10]; // where bytes are read to first
};

void conn_open(struct http *http, int fd, bool is_spare); // fd is taken over
void conn_event(struct conn *conn, uint32_t events);
void conn_run(struct conn *conn); // as far as it goes now
void conn_due(struct conn *conn, uint64_t now_ns);
void conn_close(struct conn *conn);
// Tells the reader of a stream that its request waits. The first comment starts the answer: a
// failure is an event of the stream from then on.
void conn_comment(struct conn *conn);
void conn_hasten(struct conn *conn); // the server ends: a refused request is not read to its end
// Whether a connection more is within the limit; one that is worth less may be closed for it.
bool http_has_room(struct http *http);
void http_closed(struct http *http); // a connection was closed, and its descriptor is free

// The head of an answer, from its status line to the empty line: the lines that all heads start
// with, then the rest. length: FRAMING_LENGTH's.
void reply_begin(struct jbuf *out);
void reply_head(const struct call *call, enum framing framing, size_t length, bool keep,
                struct jbuf *out);
// The head of a stream is out (conn_comment): its refusal becomes its last event.
void reply_late_refusal(struct call *call);
// When there is no memory for the answer itself.
void reply_starved(struct call *call);

// Everything that is known before the body: route, key, host, origin, sizes. A refusal is in call.
void request_head(struct call *call, bool too_many);
// Whether the route answers in the server's phase; false: refused.
bool request_phase(struct call *call);
// More of the body; bytes beyond the limit are refused.
void request_body(struct call *call, const char *data, size_t len);

#endif
