// What http.c (connections, calls), request.c (what is read) and reply.c (answers) share.
#ifndef RN_SERVER_HTTP_INTERNAL_H
#define RN_SERVER_HTTP_INTERNAL_H

#include <microhttpd.h>

#include "http.h"
#include "routes.h"
#include "workers.h"

// A connection. Deadlines are absolute: a sender that trickles does not move them.
struct link {
    struct link *next, *prev;
    struct http *http;
    int fd;
    uint64_t deadline_ns; // for what is being read; 0: nothing is
    uint64_t since_ns;    // when it was opened or last had a request
    bool hung_up;         // the peer has closed its side
    bool evicted;         // shut down to make room, not counted in n_links any more
    uint64_t acked;       // bytes that the peer's system had taken when that was last asked
    struct call *call;    // NULL between requests
};

enum call_state {
    CALL_READING,
    CALL_WORKING,  // a worker has it
    CALL_RUNNING,  // the engine works for it, and its answer is no stream, or not begun
    CALL_ANSWERED, // the whole answer is there
    CALL_STREAMING
};

struct call_io {
    struct link *link;                 // NULL: the connection is over
    struct MHD_Connection *connection; // the same
    enum call_state state;
    char *path;
    char *method;
    size_t body_capacity;
    bool discarding; // the rest of the body is read and forgotten
    size_t discarded;
    bool suspended;
    bool queued;      // the answer was handed to libmicrohttpd
    bool gone;        // nobody reads the answer any more
    bool ended;       // no bytes come after those in out
    bool close_after; // the connection too
    bool paused;      // too many bytes wait
    bool cors;
    size_t head;          // bytes of out that were taken
    uint64_t moved_ns;    // when the reader last took bytes, or there were none before
    uint64_t written_ns;  // when bytes were last added
    uint64_t bytes;       // sent, of the body
    size_t pending_bytes; // counted in http->pending_bytes
    void (*on_gone)(struct call *call);
};

struct http {
    struct server *server;
    struct MHD_Daemon *daemon;
    struct workers *workers;
    int epoll_fd, wake_fd;
    struct link links; // head of the list
    int n_links;
    int n_active;         // calls past READING
    int n_preparing;      // calls that workers have
    size_t pending_bytes; // bodies and what was parsed of them
    double answer_s;      // how long a generation takes, smoothed
    bool draining;
};

// Answers the call: queues what call->out holds, or the stream. libmicrohttpd's result.
enum MHD_Result reply_queue(struct call *call);
// Wakes a connection that waits for bytes.
void http_resume(struct call *call);
void http_pending_release(struct call *call, struct http *http);

// Everything that is known before the body: route, key, host, origin, sizes. A refusal is in call.
void request_head(struct call *call, const char *version);
// Whether the route answers in the server's phase; false: refused.
bool request_phase(struct call *call);
// More of the body. False: the sender is not worth more of our time.
bool request_body(struct call *call, struct http *http, const char *data, size_t len);

#endif
