// The certificate and the key of HTTPS: read at the start, and again when the server is told to
// reload, so that a renewed certificate needs no restart.
#ifndef RN_SERVE_CERTIFICATES_H
#define RN_SERVE_CERTIFICATES_H

#include <pthread.h>
#include <stdatomic.h>

#include "app.h"
#include "server/server.h"

struct certificates {
    const char *cert_path, *key_path; // NULL: plain HTTP
    struct text cert, key;            // as they were read at the start
    _Atomic(struct server *) server;  // NULL: it is still starting, and nothing is reloaded
    void (*done)(void *ctx);          // after each reload, on the thread that made it
    void *done_ctx;
    // of reloads
    _Atomic int n_wanted;
    pthread_t thread;
    bool has_thread; // I/O thread
};

// The options' files into the configuration. An exit code; the error has been printed.
int certificates_get(const struct options *options, struct certificates *out,
                     struct server_config *config);
// On the I/O thread: reads the files again, on a thread of its own. A pair that cannot be used is
// told on standard error, and the old one stays. False: there is nothing to read again.
bool certificates_reload(struct certificates *certificates);
void certificates_close(struct certificates *certificates); // the I/O thread has ended

#endif
