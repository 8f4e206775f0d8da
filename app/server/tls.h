// TLS over a socket that does not block (OpenSSL). Reads and writes behave as recv and send do:
// bytes, 0 at the end, -1 with errno (EAGAIN: later; EINTR: at once, a record had no bytes). Of the
// server and of the client (app/client); each connection belongs to one thread.
#ifndef RN_SERVER_TLS_H
#define RN_SERVER_TLS_H

#include <stdbool.h>
#include <sys/types.h>

#include "runnel.h"

struct tls_context; // certificate and key
struct tls;         // of one connection

// PEM texts. RN_ERR_ARG: they cannot be read, or do not fit together.
rn_status tls_context_create(const char *cert, const char *key, struct tls_context **out,
                             rn_error *err);
// For the client's side: servers are checked against the system's certificates, or those that
// SSL_CERT_FILE names.
rn_status tls_client_context_create(struct tls_context **out, rn_error *err);
void tls_context_destroy(struct tls_context *context);

struct tls *tls_open(struct tls_context *context, int fd); // NULL: out of memory
// The client's side: the server has to prove that it is `host`, a name or an address.
struct tls *tls_open_client(struct tls_context *context, int fd, const char *host);
void tls_close(struct tls *tls);
int tls_handshake(struct tls *tls);          // 1: done; 0: more is to come; -1: failed
bool tls_wants_write(const struct tls *tls); // whether EAGAIN meant that the socket was full
// Why the peer's certificate was refused; NULL: it was not.
const char *tls_refusal(const struct tls *tls);
ssize_t tls_recv(struct tls *tls, void *data, size_t size);
ssize_t tls_send(struct tls *tls, const void *data, size_t len);
void tls_end(struct tls *tls); // tells the peer that no more bytes come

#endif
