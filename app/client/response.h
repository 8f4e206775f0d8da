// The response of an HTTP/1.1 server, read piece by piece as bytes arrive. Strict: lines end in
// CRLF, a length is one number, chunked is the only coding. Bounds on lines, heads and their number
// hold whatever the server sends. One struct serves one response.
#ifndef RN_CLIENT_RESPONSE_H
#define RN_CLIENT_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RESPONSE_LINE_MAX = 8192,     // bytes of a line, its end included
    RESPONSE_HEAD_MAX = 64 << 10, // of all lines of a head, and of all trailers
    RESPONSE_INTERIM_MAX = 8,     // responses 1xx before the final one
    RESPONSE_TYPE_SIZE = 64,
    RESPONSE_RETRY_SIZE = 32,
};

enum response_state {
    RESPONSE_STATUS_LINE,
    RESPONSE_HEADERS,
    RESPONSE_BODY_LENGTH, // `left` bytes of the body are to come
    RESPONSE_BODY_CLOSE,  // the body ends with the connection
    RESPONSE_CHUNK_SIZE,
    RESPONSE_CHUNK_DATA, // `left` bytes of the chunk
    RESPONSE_CHUNK_END,  // the CRLF behind them
    RESPONSE_TRAILERS,
    RESPONSE_DONE,
    RESPONSE_BAD // `error` says why
};

struct response {
    enum response_state state;
    int status;                    // 0: not known yet
    bool keep_alive;               // the connection may serve another request
    bool has_length, chunked;      // what the head said
    bool no_body;                  // of a request HEAD
    bool cut;                      // RESPONSE_BAD because the connection ended first
    char type[RESPONSE_TYPE_SIZE]; // media type in lower case, without parameters; "": none
    // Retry-After as it was sent; "": none, or too long to be valid
    char retry_after[RESPONSE_RETRY_SIZE];
    uint64_t left;
    uint64_t length;
    int n_interim;
    size_t head_len; // bytes of this head so far
    size_t line_len;
    char line[RESPONSE_LINE_MAX];
    const char *error; // a literal; NULL: none
};

// Gets the bytes of the body as they come; they are borrowed.
typedef void (*response_body_fn)(void *ctx, const char *data, size_t len);

void response_init(struct response *r, bool no_body);
// Returns the number of bytes that belong to this response; it stops at its end or at an error.
size_t response_feed(struct response *r, const char *data, size_t len, response_body_fn on_body,
                     void *ctx);
// The server has closed the connection: the end of a body without a length, otherwise an error.
void response_close(struct response *r);

#endif
