// URLs are split by hand: the few forms that a server's address has, every other one is refused
// with its reason. No byte that would end a request line or a header passes.
#include "client/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_host_char(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_';
}

static bool is_address_char(char c) { // of an IPv6 address; the last form holds an IPv4 address
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':' || c == '.';
}

static const char *scheme_take(const char *at, bool *tls) {
    static const char *const schemes[] = {"http://", "https://"};
    for (int i = 0; i < 2; i++) {
        const size_t len = strlen(schemes[i]);
        if (strncmp(at, schemes[i], len) != 0) continue;
        *tls = i == 1;
        return at + len;
    }
    return NULL;
}

// The place behind the host; NULL: there is no host, or it holds other characters.
static const char *host_take(const char *at, char out[URL_HOST_SIZE]) {
    const bool bracket = *at == '[';
    size_t len = 0;
    at += bracket;
    while (bracket ? is_address_char(at[len]) : is_host_char(at[len])) len++;
    if (len == 0 || len >= URL_HOST_SIZE || (bracket && at[len] != ']')) return NULL;
    memcpy(out, at, len);
    out[len] = '\0';
    return at + len + bracket;
}

static const char *port_take(const char *at, int *out) {
    if (*at != ':') return at;
    long port = 0;
    const char *digits = ++at;
    for (; is_digit(*at) && at - digits < 5; at++) port = 10 * port + (*at - '0');
    if (at == digits || is_digit(*at) || port < 1 || port > 65535) return NULL;
    *out = (int)port;
    return at;
}

static bool path_take(const char *at, char out[URL_PATH_SIZE]) {
    if (*at && *at != '/' && *at != '?') return false;
    for (const char *c = at; *c; c++)
        if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7f || *c == '#') return false;
    const int len = snprintf(out, URL_PATH_SIZE, "%s%s", *at == '/' ? "" : "/", at);
    return len < URL_PATH_SIZE;
}

static rn_status refuse(const char *text, const char *why, rn_error *err) {
    return err_set(err, RN_ERR_ARG, "'%.120s' is not a URL of a server: %s", text, why);
}

rn_status client_url_parse(const char *text, struct client_url *out, rn_error *err) {
    *out = (struct client_url){0};
    const char *at = scheme_take(text, &out->tls);
    if (!at) return refuse(text, "it starts with neither http:// nor https://", err);
    if (memchr(at, '@', strcspn(at, "/?#"))) // it may hold a password, which is not repeated
        return err_set(err, RN_ERR_ARG, "a URL with a user before the host is not supported");
    const int usual = out->tls ? 443 : 80;
    out->port = usual;
    at = host_take(at, out->host);
    if (!at) return refuse(text, "expected a host name or an address", err);
    at = port_take(at, &out->port);
    if (!at) return refuse(text, "the port is not a number from 1 to 65535", err);
    if (!path_take(at, out->path)) return refuse(text, "the path cannot be sent as it is", err);
    const bool bracket = strchr(out->host, ':') != NULL;
    int len = snprintf(out->authority, sizeof out->authority, "%s%s%s", bracket ? "[" : "",
                       out->host, bracket ? "]" : "");
    if (out->port != usual)
        snprintf(out->authority + len, sizeof out->authority - (size_t)len, ":%d", out->port);
    return RN_OK;
}

bool client_url_join(const struct client_url *base, const char *path, struct client_url *out) {
    *out = *base;
    size_t len = strlen(base->path);
    while (len > 0 && base->path[len - 1] == '/') len--;
    const int needed = snprintf(out->path + len, sizeof out->path - len, "%s", path);
    return needed >= 0 && (size_t)needed < sizeof out->path - len;
}
