// See certificates.h. Connections that are open keep the certificate that they started with.
#include "serve/certificates.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "helpers.h"

enum { PEM_LIMIT = 1 << 20 };

static int pem_read(const char *path, const char *what, struct text *out) {
    const int code = source_read(path, PEM_LIMIT, out);
    if (code || strstr(out->data, what)) return code;
    return app_fail(APP_USAGE, "%s: holds no %s in PEM form", err_path(path), what);
}

static int pair_read(const struct certificates *certificates, struct text *cert, struct text *key) {
    const int code = pem_read(certificates->cert_path, "CERTIFICATE", cert);
    return code ? code : pem_read(certificates->key_path, "PRIVATE KEY", key);
}

int certificates_get(const struct options *options, struct certificates *out,
                     struct server_config *config) {
    const char *cert = option_text(options, OPT_TLS_CERT);
    const char *key = option_text(options, OPT_TLS_KEY);
    if (!cert && !key) return APP_OK;
    if (!cert || !key) {
        return app_fail(APP_USAGE, "%s is given without %s", cert ? "--tls-cert" : "--tls-key",
                        cert ? "--tls-key" : "--tls-cert");
    }
    out->cert_path = cert;
    out->key_path = key;
    const int code = pair_read(out, &out->cert, &out->key);
    config->tls_cert = out->cert.data;
    config->tls_key = out->key.data;
    return code;
}

// ---------------------------------------------------------------- again

// A pipe has been read, and would be waited for.
static int file_check(const char *path) {
    struct stat info;
    if (stat(path, &info) || S_ISREG(info.st_mode)) return APP_OK; // reading it says what is wrong
    return app_fail(APP_USAGE, "%s: is no regular file", err_path(path));
}

static void pair_renew(struct certificates *certificates) {
    struct text cert = {0}, key = {0};
    char heard[512] = "";
    rn_error err = {0};
    app_fail_listen(heard, sizeof heard);
    int code = file_check(certificates->cert_path);
    if (!code) code = file_check(certificates->key_path);
    if (!code) code = pair_read(certificates, &cert, &key);
    if (!code && server_renew_tls(atomic_load(&certificates->server), cert.data, key.data, &err))
        code = app_fail_error(&err);
    app_fail_listen(NULL, 0);
    if (code) app_fail(APP_OK, "warning: %s; the old certificate stays", heard);
    text_free(&cert);
    text_free(&key);
}

// Once more where another signal came meanwhile: the files may have changed again.
static void *renew(void *ctx) {
    struct certificates *certificates = ctx;
    int n;
    do {
        n = atomic_load(&certificates->n_wanted);
        pair_renew(certificates);
        certificates->done(certificates->done_ctx);
    } while (atomic_fetch_sub(&certificates->n_wanted, n) != n);
    return NULL;
}

static void thread_end(struct certificates *certificates) {
    if (certificates->has_thread) pthread_join(certificates->thread, NULL);
    certificates->has_thread = false;
}

bool certificates_reload(struct certificates *certificates) {
    if (!certificates->cert_path || !atomic_load(&certificates->server)) return false;
    if (atomic_fetch_add(&certificates->n_wanted, 1)) return true; // the thread goes on
    thread_end(certificates);                                      // it has nothing more to do
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // signals are the I/O thread's
    certificates->has_thread = !pthread_create(&certificates->thread, NULL, renew, certificates);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!certificates->has_thread) atomic_store(&certificates->n_wanted, 0);
    return certificates->has_thread;
}

void certificates_close(struct certificates *certificates) {
    thread_end(certificates);
    text_free(&certificates->cert);
    text_free(&certificates->key);
}
