// States follow response.h from top to bottom; an interim response (1xx) returns to the status
// line. Lines are gathered in `line` until their LF, so a byte at a time gives the same result as
// all at once.
#include "client/response.h"

#include <string.h>
#include <strings.h>

static void fail(struct response *r, const char *why) {
    r->state = RESPONSE_BAD;
    r->error = why;
    r->keep_alive = false;
}

void response_init(struct response *r, bool no_body) {
    *r = (struct response){.state = RESPONSE_STATUS_LINE, .no_body = no_body};
}

// ---------------------------------------------------------------- lines

static bool is_token(unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "HTTP/1.1 200 OK"; the reason may be missing, and so may the blank before it.
static void status_line(struct response *r) {
    const char *line = r->line;
    const bool version = !strncmp(line, "HTTP/1.1 ", 9) || !strncmp(line, "HTTP/1.0 ", 9);
    if (!version || !is_digit(line[9]) || !is_digit(line[10]) || !is_digit(line[11]) ||
        (line[12] && line[12] != ' ')) {
        fail(r, "the status line is not one of HTTP/1.1");
        return;
    }
    r->status = 100 * (line[9] - '0') + 10 * (line[10] - '0') + (line[11] - '0');
    r->keep_alive = line[7] == '1';
    if (r->status < 100 || r->status > 599 || r->status == 101) {
        fail(r, "the status is not one that was asked for");
        return;
    }
    r->state = RESPONSE_HEADERS;
}

static void length_take(struct response *r, const char *value) {
    uint64_t length = 0;
    const char *c = value;
    for (; is_digit(*c) && c - value < 18; c++) length = 10 * length + (uint64_t)(*c - '0');
    if (c == value || *c) {
        fail(r, "Content-Length is not a number");
    } else if (r->has_length && length != r->length) {
        fail(r, "two different Content-Length");
    } else {
        r->has_length = true;
        r->length = length;
    }
}

// A list of words: only close and keep-alive matter.
static void connection_take(struct response *r, const char *value) {
    while (*value) {
        const size_t len = strcspn(value, ", \t");
        if (len == 5 && !strncasecmp(value, "close", len)) r->keep_alive = false;
        value += len;
        value += strspn(value, ", \t");
    }
}

static void type_take(struct response *r, const char *value) {
    const size_t len = strcspn(value, "; \t");
    if (len >= sizeof r->type) return; // no type that anyone here asks for
    for (size_t i = 0; i < len; i++)
        r->type[i] = (char)(value[i] >= 'A' && value[i] <= 'Z' ? value[i] + 0x20 : value[i]);
    r->type[len] = '\0';
}

static void header_take(struct response *r, const char *name, const char *value) {
    if (!strcasecmp(name, "content-length")) {
        length_take(r, value);
    } else if (!strcasecmp(name, "transfer-encoding")) {
        if (r->chunked || strcasecmp(value, "chunked") != 0)
            fail(r, "a Transfer-Encoding other than chunked");
        r->chunked = true;
    } else if (!strcasecmp(name, "connection")) {
        connection_take(r, value);
    } else if (!strcasecmp(name, "content-type")) {
        type_take(r, value);
    } else if (!strcasecmp(name, "retry-after")) {
        const size_t size = strlen(value) + 1;
        if (size <= sizeof r->retry_after) memcpy(r->retry_after, value, size);
    }
}

// The body's kind, when the head is complete.
static void head_end(struct response *r) {
    const bool none = r->no_body || r->status == 204 || r->status == 304;
    if (r->status < 200) {
        if (++r->n_interim > RESPONSE_INTERIM_MAX) {
            fail(r, "too many interim responses");
            return;
        }
        const int n = r->n_interim;
        response_init(r, r->no_body);
        r->n_interim = n;
        return;
    }
    if (r->chunked && r->has_length) {
        fail(r, "Content-Length beside Transfer-Encoding");
        return;
    }
    r->left = r->length;
    r->head_len = 0; // trailers have the same bound
    if (none) {
        r->state = RESPONSE_DONE;
    } else if (r->chunked) {
        r->state = RESPONSE_CHUNK_SIZE;
    } else if (r->has_length) {
        r->state = r->left ? RESPONSE_BODY_LENGTH : RESPONSE_DONE;
    } else {
        r->state = RESPONSE_BODY_CLOSE;
        r->keep_alive = false;
    }
}

// A line of the head or a trailer; the empty one ends them.
static void header_line(struct response *r) {
    char *line = r->line;
    const bool trailer = r->state == RESPONSE_TRAILERS;
    if (!*line) {
        if (trailer)
            r->state = RESPONSE_DONE;
        else
            head_end(r);
        return;
    }
    size_t name_len = 0;
    while (is_token((unsigned char)line[name_len])) name_len++;
    if (name_len == 0 || line[name_len] != ':') {
        fail(r, "a header without a name");
        return;
    }
    line[name_len] = '\0';
    char *value = line + name_len + 1;
    value += strspn(value, " \t");
    size_t len = strlen(value);
    while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t')) value[--len] = '\0';
    if (!trailer) header_take(r, line, value);
}

// "1a" or "1A;name=value": at most 15 digits.
static void chunk_line(struct response *r) {
    uint64_t size = 0;
    const char *c = r->line;
    for (; c - r->line < 16; c++) {
        const char lower = (char)(*c | 0x20);
        if (is_digit(*c))
            size = 16 * size + (uint64_t)(*c - '0');
        else if (lower >= 'a' && lower <= 'f')
            size = 16 * size + (uint64_t)(lower - 'a' + 10);
        else
            break;
    }
    const char *end = c + strspn(c, " \t");
    if (c == r->line || c - r->line > 15 || (*end && *end != ';')) {
        fail(r, "a chunk's size is not a number");
        return;
    }
    r->left = size;
    r->state = size ? RESPONSE_CHUNK_DATA : RESPONSE_TRAILERS;
}

static void line_take(struct response *r) {
    switch (r->state) {
    case RESPONSE_STATUS_LINE:
        status_line(r);
        break;
    case RESPONSE_HEADERS:
    case RESPONSE_TRAILERS:
        header_line(r);
        break;
    case RESPONSE_CHUNK_SIZE:
        chunk_line(r);
        break;
    default: // RESPONSE_CHUNK_END
        if (*r->line)
            fail(r, "a chunk is longer than its size");
        else
            r->state = RESPONSE_CHUNK_SIZE;
    }
}

// Bytes up to the LF, at most len; a complete line is taken.
static size_t line_feed(struct response *r, const char *data, size_t len) {
    const char *lf = memchr(data, '\n', len);
    const size_t used = lf ? (size_t)(lf - data) + 1 : len;
    const bool counted = r->state != RESPONSE_CHUNK_SIZE && r->state != RESPONSE_CHUNK_END;
    if (r->line_len + used > RESPONSE_LINE_MAX) {
        fail(r, "a line is too long");
        return used;
    }
    memcpy(r->line + r->line_len, data, used);
    r->line_len += used;
    if (counted && (r->head_len += used) > RESPONSE_HEAD_MAX) {
        fail(r, "the head is too long");
        return used;
    }
    if (!lf) return used;
    if (r->line_len < 2 || r->line[r->line_len - 2] != '\r') {
        fail(r, "a line does not end in CRLF");
        return used;
    }
    const size_t text_len = r->line_len - 2;
    for (size_t i = 0; i < text_len; i++) {
        const unsigned char c = (unsigned char)r->line[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            fail(r, "a control character in a line");
            return used;
        }
    }
    r->line[text_len] = '\0';
    r->line_len = 0;
    line_take(r);
    return used;
}

// ---------------------------------------------------------------- the body

static size_t body_feed(struct response *r, const char *data, size_t len, response_body_fn on_body,
                        void *ctx) {
    const bool bounded = r->state != RESPONSE_BODY_CLOSE;
    const size_t used = bounded && r->left < len ? (size_t)r->left : len;
    on_body(ctx, data, used);
    if (!bounded) return used;
    r->left -= used;
    if (r->left == 0)
        r->state = r->state == RESPONSE_CHUNK_DATA ? RESPONSE_CHUNK_END : RESPONSE_DONE;
    return used;
}

size_t response_feed(struct response *r, const char *data, size_t len, response_body_fn on_body,
                     void *ctx) {
    size_t used = 0;
    while (used < len && r->state < RESPONSE_DONE) {
        const bool body = r->state == RESPONSE_BODY_LENGTH || r->state == RESPONSE_BODY_CLOSE ||
                          r->state == RESPONSE_CHUNK_DATA;
        used += body ? body_feed(r, data + used, len - used, on_body, ctx)
                     : line_feed(r, data + used, len - used);
    }
    return used;
}

void response_close(struct response *r) {
    if (r->state == RESPONSE_BODY_CLOSE) {
        r->state = RESPONSE_DONE;
    } else if (r->state < RESPONSE_DONE) {
        r->cut = true;
        fail(r, r->status ? "the connection was closed within the response"
                          : "the connection was closed before the response");
    }
    r->keep_alive = false;
}
