// Addresses of servers: http://HOST[:PORT][/PATH] and https://..., HOST a name, an IPv4 address or
// an IPv6 address in brackets. No user, no fragment; a query stays a part of the path.
#ifndef RN_CLIENT_URL_H
#define RN_CLIENT_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "runnel.h"

enum { URL_HOST_SIZE = 256, URL_PATH_SIZE = 1024, URL_AUTHORITY_SIZE = URL_HOST_SIZE + 8 };

struct client_url {
    bool tls;
    char host[URL_HOST_SIZE]; // an IPv6 address without its brackets
    int port;
    char authority[URL_AUTHORITY_SIZE]; // of the header Host: with brackets; a default port is left
                                        // out
    char path[URL_PATH_SIZE];           // starts with '/'
};

// RN_ERR_ARG: the message names the text.
rn_status client_url_parse(const char *text, struct client_url *out, rn_error *err);
// The same server with `path` behind the path of the URL: ".../v1" and "/models". False: too long.
bool client_url_join(const struct client_url *base, const char *path, struct client_url *out);

#endif
