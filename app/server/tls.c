// The pair of struct names is OpenSSL's SSL_CTX and SSL under names of our own, so that its types
// stay in this file.
#include "tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include "helpers.h"

static SSL_CTX *context_of(struct tls_context *context) { return (SSL_CTX *)context; }
static SSL *ssl_of(struct tls *tls) { return (SSL *)tls; }
static const SSL *ssl_view(const struct tls *tls) { return (const SSL *)tls; }

// A key with a passphrase is not for a server that starts by itself.
static int no_passphrase(char *out, int size, int writes, void *ctx) {
    (void)out;
    (void)size;
    (void)writes;
    (void)ctx;
    return -1;
}

// The last error's reason, in OpenSSL's words.
static const char *reason(void) {
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    return text ? text : "unknown error";
}

// Whether the text ended where another part could have begun.
static bool is_end(void) {
    const unsigned long why = ERR_peek_last_error();
    return ERR_GET_LIB(why) == ERR_LIB_PEM && ERR_GET_REASON(why) == PEM_R_NO_START_LINE;
}

// The server's own certificate, then the certificates that vouch for it.
static rn_status chain_use(SSL_CTX *context, const char *pem, rn_error *err) {
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *own = bio ? PEM_read_bio_X509_AUX(bio, NULL, no_passphrase, NULL) : NULL;
    bool ok = own && SSL_CTX_use_certificate(context, own) == 1;
    int n = ok;
    X509_free(own);
    for (X509 *other; ok && (other = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL)); n++) {
        ok = SSL_CTX_add0_chain_cert(context, other) == 1;
        if (!ok) X509_free(other);
    }
    BIO_free(bio);
    if (ok && is_end()) return RN_OK;
    return err_set(err, RN_ERR_ARG, "--tls-cert: certificate %d of the file cannot be used: %s",
                   n + 1, reason());
}

static rn_status key_use(SSL_CTX *context, const char *pem, rn_error *err) {
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;
    BIO_free(bio);
    if (!key) {
        return err_set(err, RN_ERR_ARG,
                       "--tls-key: the key cannot be read: %s; a key with a passphrase is not "
                       "supported",
                       reason());
    }
    const bool ok = SSL_CTX_use_PrivateKey(context, key) == 1;
    EVP_PKEY_free(key);
    if (ok && SSL_CTX_check_private_key(context) == 1) return RN_OK;
    return err_set(err, RN_ERR_ARG, "--tls-cert, --tls-key: the key is not the certificate's: %s",
                   reason());
}

// The one protocol that is spoken; a client that offers others only gets no answer to the offer.
static int on_protocols(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                        const unsigned char *offered, unsigned offered_len, void *ctx) {
    static const unsigned char spoken[] = "\x08http/1.1";
    (void)ssl;
    (void)ctx;
    unsigned char *chosen = NULL;
    if (SSL_select_next_proto(&chosen, out_len, spoken, sizeof spoken - 1, offered, offered_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

// The settings that both sides share. A read takes one record: a peer that sends records without
// data, such as updates of keys, does not keep the thread.
static void context_prepare(SSL_CTX *context) {
    SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
}

rn_status tls_context_create(const char *cert, const char *key, struct tls_context **out,
                             rn_error *err) {
    *out = NULL;
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context) return err_set(err, RN_ERR_NOMEM, "out of memory");
    context_prepare(context);
    SSL_CTX_set_alpn_select_cb(context, on_protocols, NULL);
    ERR_clear_error();
    rn_status status = chain_use(context, cert, err);
    if (!status) status = key_use(context, key, err);
    ERR_clear_error();
    if (status) {
        SSL_CTX_free(context);
        return status;
    }
    *out = (struct tls_context *)context;
    return RN_OK;
}

rn_status tls_client_context_create(struct tls_context **out, rn_error *err) {
    static const unsigned char offered[] = "\x08http/1.1";
    *out = NULL;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    const bool ok = context && SSL_CTX_set_default_verify_paths(context) == 1 &&
                    SSL_CTX_set_alpn_protos(context, offered, sizeof offered - 1) == 0;
    ERR_clear_error();
    if (!ok) {
        SSL_CTX_free(context);
        return err_set(err, RN_ERR_NOMEM, "out of memory");
    }
    context_prepare(context);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    *out = (struct tls_context *)context;
    return RN_OK;
}

void tls_context_destroy(struct tls_context *context) { SSL_CTX_free(context_of(context)); }

struct tls *tls_open(struct tls_context *context, int fd) {
    SSL *ssl = SSL_new(context_of(context));
    if (ssl && SSL_set_fd(ssl, fd) == 1) {
        SSL_set_accept_state(ssl);
        return (struct tls *)ssl;
    }
    SSL_free(ssl);
    ERR_clear_error();
    return NULL;
}

struct tls *tls_open_client(struct tls_context *context, int fd, const char *host) {
    unsigned char address[16];
    SSL *ssl = SSL_new(context_of(context));
    const bool numeric =
        inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
    if (ssl && SSL_set_fd(ssl, fd) == 1 &&
        (numeric ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1
                 : SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1)) {
        SSL_set_connect_state(ssl);
        return (struct tls *)ssl;
    }
    SSL_free(ssl);
    ERR_clear_error();
    return NULL;
}

void tls_close(struct tls *tls) {
    SSL_free(ssl_of(tls));
    ERR_clear_error();
}

// The errno for the `result` of a call of OpenSSL.
static ssize_t outcome(SSL *ssl, int result) {
    if (result > 0) return result;
    const int why = SSL_get_error(ssl, result);
    ERR_clear_error();
    if (why == SSL_ERROR_ZERO_RETURN) return 0;
    errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
    return -1;
}

int tls_handshake(struct tls *tls) {
    const ssize_t result = outcome(ssl_of(tls), SSL_do_handshake(ssl_of(tls)));
    if (result > 0) return 1;
    return result < 0 && errno == EAGAIN ? 0 : -1;
}

bool tls_wants_write(const struct tls *tls) { return SSL_want_write(ssl_view(tls)) != 0; }

const char *tls_refusal(const struct tls *tls) {
    const long result = SSL_get_verify_result(ssl_view(tls));
    return result == X509_V_OK ? NULL : X509_verify_cert_error_string(result);
}

// Whether the socket has bytes, its end, or an error.
static bool has_more(const struct tls *tls) {
    char byte;
    const ssize_t n = recv(SSL_get_fd(ssl_view(tls)), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n >= 0 || errno != EAGAIN;
}

ssize_t tls_recv(struct tls *tls, void *data, size_t size) {
    const int most = size > INT_MAX ? INT_MAX : (int)size;
    const ssize_t n = outcome(ssl_of(tls), SSL_read(ssl_of(tls), data, most));
    if (n >= 0 || errno != EAGAIN) return n;
    const bool again = SSL_want_read(ssl_view(tls)) && has_more(tls);
    errno = again ? EINTR : EAGAIN;
    return n;
}

ssize_t tls_send(struct tls *tls, const void *data, size_t len) {
    const int most = len > INT_MAX ? INT_MAX : (int)len;
    return outcome(ssl_of(tls), SSL_write(ssl_of(tls), data, most));
}

void tls_end(struct tls *tls) {
    SSL_shutdown(ssl_of(tls));
    ERR_clear_error();
}
