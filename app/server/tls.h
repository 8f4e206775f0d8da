// TLS over a socket that does not block (OpenSSL). Reads and writes behave as recv and send do:
// bytes, 0 at the end, -1 with errno (EAGAIN: later). I/O thread only.
#ifndef RN_SERVER_TLS_H
#define RN_SERVER_TLS_H

#include <sys/types.h>

#include "runnel.h"

struct tls_context; // certificate and key
struct tls;         // of one connection

// PEM texts. RN_ERR_ARG: they cannot be read, or do not fit together.
rn_status tls_context_create(const char *cert, const char *key, struct tls_context **out,
                             rn_error *err);
void tls_context_destroy(struct tls_context *context);

struct tls *tls_open(struct tls_context *context, int fd); // NULL: out of memory
void tls_close(struct tls *tls);
int tls_handshake(struct tls *tls); // 1: done; 0: more is to come; -1: failed
ssize_t tls_recv(struct tls *tls, void *data, size_t size);
ssize_t tls_send(struct tls *tls, const void *data, size_t len);
void tls_end(struct tls *tls); // tells the peer that no more bytes come

#endif
