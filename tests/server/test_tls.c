// TLS as the server uses it: records without data, certificates that cannot be used, and renewed
// ones.
// label: threads memory
#include <errno.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve_clients.h"
#include "tls.h"

// ---------------------------------------------------------------- certificates

struct pem {
    char cert[4096], key[4096];
};

static void pem_text(BIO *bio, char *out, size_t size) {
    const int n = BIO_read(bio, out, (int)size - 1);
    assert_true(n > 0);
    out[n] = '\0';
    BIO_free(bio);
}

static struct pem pem_make(void) {
    struct pem out;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    assert_non_null(key);
    X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, cert);
    pem_text(bio, out.cert, sizeof out.cert);
    bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL);
    pem_text(bio, out.key, sizeof out.key);
    X509_free(cert);
    EVP_PKEY_free(key);
    return out;
}

static void refused(const char *cert, const char *key, const char *why) {
    struct tls_context *context;
    rn_error err = {0};
    assert_int_equal(tls_context_create(cert, key, &context, &err), RN_ERR_ARG);
    assert_null(context);
    check(strstr(err.message, why) != NULL, "'%s' has no '%s'", err.message, why);
}

CASE(the_file_at_fault_is_named) {
    const struct pem one = pem_make(), other = pem_make();
    struct tls_context *context;
    rn_error err = {0};
    char chain[3 * sizeof one.cert];
    snprintf(chain, sizeof chain, "%s%sand a note\n", one.cert, other.cert);
    assert_int_equal(tls_context_create(chain, one.key, &context, &err), RN_OK);
    tls_context_destroy(context);
    memset(strstr(chain + strlen(one.cert), "\n") + 20, 'A', 8);
    refused(chain, one.key, "--tls-cert: certificate 2 of the file");
    refused("no certificate", one.key, "--tls-cert: certificate 1 of the file");
    refused(one.cert, "no key", "--tls-key: the key cannot be read");
    refused(one.cert, other.key, "--tls-cert, --tls-key: the key is not the certificate's");
}

// ---------------------------------------------------------------- records

struct pair {
    struct tls_context *context;
    SSL_CTX *client_context;
    struct tls *server;
    SSL *client;
    int fd[2]; // of the server, of the client
};

static void pair_open(struct pair *pair) {
    const struct pem pem = pem_make();
    rn_error err = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair->fd), 0);
    assert_int_equal(tls_context_create(pem.cert, pem.key, &pair->context, &err), RN_OK);
    pair->client_context = SSL_CTX_new(TLS_client_method());
    pair->client = SSL_new(pair->client_context);
    SSL_set_fd(pair->client, pair->fd[1]);
    SSL_set_connect_state(pair->client);
    pair->server = tls_open(pair->context, pair->fd[0]);
    int server = 0, client = 0;
    for (int i = 0; i < 100 && (server <= 0 || client <= 0); i++) {
        if (client <= 0) client = SSL_do_handshake(pair->client);
        if (server <= 0) server = tls_handshake(pair->server);
        assert_true(server >= 0);
    }
    assert_true(server == 1 && client == 1);
}

static void pair_close(struct pair *pair) {
    tls_close(pair->server);
    tls_context_destroy(pair->context);
    SSL_free(pair->client);
    SSL_CTX_free(pair->client_context);
    close(pair->fd[0]);
    close(pair->fd[1]);
}

// A peer may update its keys as often as it likes. Each read takes one update, so other connections
// have their turns; bytes behind them arrive.
CASE(a_read_takes_one_record) {
    enum { UPDATES = 50 };
    struct pair pair;
    char data[16];
    int n_empty = 0;
    pair_open(&pair);
    assert_int_equal(tls_recv(pair.server, data, sizeof data), -1);
    assert_int_equal(errno, EAGAIN);
    for (int i = 0; i < UPDATES; i++) {
        assert_int_equal(SSL_key_update(pair.client, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        assert_int_equal(SSL_do_handshake(pair.client), 1);
    }
    while (tls_recv(pair.server, data, sizeof data) < 0 && errno == EINTR) n_empty++;
    assert_int_equal(errno, EAGAIN);
    assert_true(n_empty >= UPDATES - 1);
    assert_int_equal(SSL_key_update(pair.client, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    assert_int_equal(SSL_write(pair.client, "hello", 5), 5);
    ssize_t n;
    while ((n = tls_recv(pair.server, data, sizeof data)) < 0 && errno == EINTR) continue;
    assert_int_equal(n, 5);
    assert_memory_equal(data, "hello", 5);
    // an end behind an update is seen
    assert_int_equal(SSL_key_update(pair.client, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    assert_int_equal(SSL_do_handshake(pair.client), 1);
    shutdown(pair.fd[1], SHUT_WR);
    while ((n = tls_recv(pair.server, data, sizeof data)) < 0 && errno == EINTR) continue;
    assert_int_equal(n, 0);
    pair_close(&pair);
}

// ---------------------------------------------------------------- the server

// The certificate that a new connection is shown, as PEM text.
static void shown(const struct serve *serve, SSL_CTX *context, char *out, size_t size) {
    SSL *ssl = SSL_new(context);
    const int fd = serve_connect(serve);
    SSL_set_fd(ssl, fd);
    assert_int_equal(SSL_connect(ssl), 1);
    X509 *cert = SSL_get1_peer_certificate(ssl);
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, cert);
    pem_text(bio, out, size);
    X509_free(cert);
    SSL_free(ssl);
    close(fd);
}

CASE(a_certificate_is_renewed_while_the_server_runs) {
    const struct pem first = pem_make(), second = pem_make();
    struct server_config config = serve_config();
    struct serve serve = {0};
    char cert[sizeof first.cert];
    rn_error err = {0};
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    config.tls_cert = first.cert;
    config.tls_key = first.key;
    assert_int_equal(server_create(&config, &serve.server, &err), RN_OK);
    serve.port = server_port(serve.server);
    shown(&serve, context, cert, sizeof cert);
    assert_string_equal(cert, first.cert);
    assert_int_equal(server_renew_tls(serve.server, second.cert, first.key, &err), RN_ERR_ARG);
    shown(&serve, context, cert, sizeof cert);
    assert_string_equal(cert, first.cert);
    for (int i = 0; i < 2; i++) // one of them is never used
        assert_int_equal(server_renew_tls(serve.server, second.cert, second.key, &err), RN_OK);
    shown(&serve, context, cert, sizeof cert);
    assert_string_equal(cert, second.cert);
    server_renew_tls(serve.server, first.cert, first.key, &err);
    server_destroy(serve.server);
    SSL_CTX_free(context);
}

TEST_PROGRAM(tls) { return cases_run(NULL, NULL); }
