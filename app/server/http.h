// Connections and the calls on them: libmicrohttpd inside the I/O thread's loop. Owns calls, the
// suspension of connections, deadlines, and the answers' bytes. I/O thread only.
#ifndef RN_SERVER_HTTP_H
#define RN_SERVER_HTTP_H

#include "call.h"

struct http;

// listen_fd is taken over, on failure too.
rn_status http_create(struct server *server, int listen_fd, int epoll_fd, int wake_fd,
                      struct http **out, rn_error *err);
void http_destroy(struct http *http); // closes every connection; requests are cancelled

int http_epoll_fd(const struct http *http);
void http_run(struct http *http);       // whatever the sockets have
int http_timeout_ms(struct http *http); // until http_run is due without an event; -1: never
void http_prepared(struct http *http);  // calls that workers gave back
void http_hang_up(struct http *http, void *link);   // the peer of an epoll event has gone
void http_tick(struct http *http, uint64_t now_ns); // deadlines, silence, stalls

// Draining: streams that no generation feeds end, others go on. abort: everything ends now.
void http_drain(struct http *http, bool abort);
void http_cancel(struct http *http);      // what the engine works on ends with an error
int http_active(const struct http *http); // calls that are worked on or answered

// --- for streams.c ---

bool http_refuse_full(struct call *call); // 429; false
void http_close_after(struct call *call); // the connection ends with the answer
// Nobody reads the answer any more, or it cannot be written: its requests are cancelled, the
// connection is closed.
void http_give_up(struct call *call);

// --- for those who watch ---

const struct stream *http_find(const struct http *http, uint64_t request); // NULL: given up
uint64_t http_bytes(const struct call *call); // of the answer's body, that were sent

struct http_counts {
    int connections, active, preparing; // active: http_active
    size_t body_bytes;                  // of requests, parsed ones counted as what they became
};
struct http_counts http_count(const struct http *http); // NULL: nothing goes on

#endif
