// The program's HTTP client. client_fetch() makes one request and waits for its response; code with
// many streams at once uses connection.h (with response.h and sse.h) in a loop of its own.
#ifndef RN_CLIENT_CLIENT_H
#define RN_CLIENT_CLIENT_H

#include "client/url.h"

enum { CLIENT_HEADERS_SIZE = 2048 };

struct client_reply {
    int status; // of HTTP, whatever it is: a 500 is a reply too
    char *body; // owned, with a NUL behind it; may hold NULs
    size_t body_len;
};

// `headers` holds whole lines with their CRLF, or is NULL; body is NULL where there is none. The
// request may take timeout_ms in all, except for looking up the name. Redirects are not followed. A
// body of more than `limit` bytes is an error. RN_ERR_ARG: a bad URL; RN_ERR_DEADLINE: too late;
// RN_ERR_IO: no connection, or no valid response; the message starts with the server's name.
// Threads may call it at the same time. On failure nothing is to be freed.
rn_status client_fetch(const char *url, const char *method, const char *headers, const char *body,
                       size_t body_len, int timeout_ms, size_t limit, struct client_reply *out,
                       rn_error *err);
// The same for a URL that was parsed.
rn_status client_fetch_url(const struct client_url *url, const char *method, const char *headers,
                           const char *body, size_t body_len, int timeout_ms, size_t limit,
                           struct client_reply *out, rn_error *err);
void client_reply_free(struct client_reply *reply);

// Appends a header line "NAME: VALUE" to a text of headers. RN_ERR_ARG: the name or the value
// cannot be sent; the message names neither, as a value may be a secret.
rn_status client_header_add(char headers[CLIENT_HEADERS_SIZE], const char *name, const char *value,
                            rn_error *err);
// The header of an API key: "Authorization: Bearer KEY".
rn_status client_bearer_add(char headers[CLIENT_HEADERS_SIZE], const char *key, rn_error *err);

#endif
