// All connections: the listening socket, admission, deadlines, and the calls' way from a
// connection to a worker and back. I/O thread only.
#ifndef RN_SERVER_HTTP_H
#define RN_SERVER_HTTP_H

#include "call.h"

struct http;

// listen_fd is taken over, on failure too.
rn_status http_create(struct server *server, int listen_fd, struct http **out, rn_error *err);
void http_destroy(struct http *http); // closes every connection; requests are cancelled

// Any thread: see server_renew_tls.
rn_status http_renew_tls(struct http *http, const char *cert, const char *key, rn_error *err);

// An event of the server's epoll descriptor whose data is not the server's own.
void http_event(struct http *http, void *from, uint32_t events);
void http_prepared(struct http *http); // calls that workers gave back
// After all events of a turn: sends woken calls and handles deadlines that have passed.
void http_turn(struct http *http, uint64_t now_ns);
int http_wait_ms(const struct http *http, uint64_t now_ns); // until http_turn is due; -1: never

// Draining: idle connections end, streams that no generation feeds end, others continue. abort:
// everything ends now.
void http_drain(struct http *http, bool abort);
void http_cancel(struct http *http);  // all requests on the engine end with an error
bool http_is_busy(struct http *http); // answers are made or on their way

#endif
