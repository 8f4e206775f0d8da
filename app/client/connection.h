// One connection to a server, without blocking: it connects, makes the TLS handshake, sends a
// request and reads its response, as far as the socket allows, in client_connection_step(). The
// caller waits for `events` on `fd`, with poll or epoll, and steps again. After a response a
// connection may take the next request. All connections of a client_host belong to one thread.
#ifndef RN_CLIENT_CONNECTION_H
#define RN_CLIENT_CONNECTION_H

#include "client/response.h"
#include "client/url.h"
#include "server/jbuf.h"

struct tls;
struct tls_context;
struct addrinfo;

// A server: its addresses, and what TLS needs.
struct client_host {
    struct client_url url;
    struct addrinfo *addresses;
    const struct addrinfo *address; // the one that connections use
    struct tls_context *tls;        // NULL: plain
};

// Looks the name up, which may take as long as the system's resolver takes. RN_ERR_IO: no address.
rn_status client_host_open(const struct client_url *url, struct client_host *out, rn_error *err);
void client_host_close(struct client_host *host);
// Connects once to each address in turn, and keeps the first that answers for later connections.
rn_status client_host_probe(struct client_host *host, int timeout_ms, rn_error *err);
// The next address, after one that did not answer. False: that was the last; the first is next.
bool client_host_advance(struct client_host *host);

enum connection_state {
    CONNECTION_CONNECTING,
    CONNECTION_HANDSHAKE,
    CONNECTION_IDLE, // it may take a request
    CONNECTION_SENDING,
    CONNECTION_RECEIVING,
    CONNECTION_CLOSED, // by the server while idle, or after a response that was the last
    CONNECTION_FAILED, // `error` says why
};

struct client_connection {
    enum connection_state state;
    int fd;
    unsigned events; // POLLIN, POLLOUT; epoll has the same bits
    const struct client_host *host;
    struct tls *tls;
    const char *out; // the request, borrowed until it is sent
    size_t out_len, out_at;
    bool has_request;
    bool was_used; // a response came before
    bool response_begun;
    uint64_t read_ns;       // clock of the last bytes that arrived
    uint64_t connect_by_ns; // when connecting is given up; 0: never
    uint64_t n_requests;
    response_body_fn on_body;
    void *ctx;
    struct response response; // of the last request
    char error[160];
};

// False: no socket; the state is CONNECTION_FAILED. An address that does not answer is given up
// while there is time for those after it. deadline_ns 0: there is no deadline.
bool client_connection_open(struct client_connection *c, const struct client_host *host,
                            uint64_t deadline_ns);
void client_connection_close(struct client_connection *c);
// The request's bytes are borrowed until the connection is receiving. Only where no request runs:
// it may still be connecting.
void client_connection_send(struct client_connection *c, const char *request, size_t len,
                            bool is_head, response_body_fn on_body, void *ctx);
// Whether the response of the last request is complete.
bool client_connection_done(const struct client_connection *c);
// Whether the request failed because a connection that was kept open had ended meanwhile: it may be
// sent once more, on a new connection.
bool client_connection_was_stale(const struct client_connection *c);
// How long to wait for `events` at most; 0: the deadline has passed.
int client_connection_wait_ms(const struct client_connection *c, uint64_t deadline_ns);
// Does what can be done without waiting, up to a bound: a server that sends without end must not
// keep the caller from its other work.
enum connection_state client_connection_step(struct client_connection *c);

// A request's head and body. `headers` holds whole lines with their CRLF, or is NULL.
void client_request_write(struct jbuf *out, const struct client_url *url, const char *method,
                          const char *headers, const char *body, size_t body_len);

#endif
