// Lines are gathered in head.text, behind the lines read before, and parsed in place when they are
// complete: a parsed line is never longer than it was. Invariants: used + line < capacity while a
// line is read; text[0..used) is parsed and never looked at again by the reader.
#include "reader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum line_result { LINE_MORE, LINE_DONE, LINE_REFUSED };

static bool refuse(struct reader *reader, int status, const char *code, const char *why) {
    reader->state = READER_REFUSED;
    reader->status = status;
    reader->code = code;
    reader->why = why;
    return false;
}

static bool bad(struct reader *reader, const char *why) {
    return refuse(reader, 400, "bad_request", why);
}

// Where another reader could see another end of the request.
static bool ambiguous(struct reader *reader, const char *why) {
    return refuse(reader, 400, "ambiguous_request", why);
}

// ---------------------------------------------------------------- characters

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static bool is_token(char c) {
    return is_letter(c) || is_digit(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_control(char c) { return ((unsigned char)c < ' ' && c != '\t') || c == 0x7F; }

int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    const char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static size_t token_len(const char *text) {
    size_t len = 0;
    while (is_token(text[len])) len++;
    return len;
}

// ---------------------------------------------------------------- heads

void head_deinit(struct head *head) {
    free(head->text);
    *head = (struct head){0};
}

const char *head_next(const struct head *head, const char *name) {
    const char *at = head->text + head->fields;
    if (name) {
        at = field_value(name);
        at += strlen(at) + 1;
    }
    return at < head->text + head->len ? at : NULL;
}

const char *head_field(const struct head *head, const char *name) {
    for (const char *at = head_next(head, NULL); at; at = head_next(head, at)) {
        if (!strcasecmp(at, name)) return field_value(at);
    }
    return NULL;
}

// ---------------------------------------------------------------- lines

static bool room(struct reader *reader, size_t more) {
    const size_t needed = reader->used + reader->line + more + 1;
    if (needed <= reader->capacity) return true;
    size_t capacity = reader->capacity ? reader->capacity : 512;
    while (capacity < needed) capacity *= 2;
    char *text = realloc(reader->head.text, capacity);
    if (!text) return refuse(reader, 503, "out_of_memory", "out of memory");
    reader->head.text = text;
    reader->capacity = capacity;
    return true;
}

static bool is_head(const struct reader *reader) {
    return reader->state == READER_LINE || reader->state == READER_FIELDS;
}

// How many more bytes the line may have.
static size_t allowance(const struct reader *reader) {
    if (is_head(reader)) return READER_HEAD_BYTES - reader->sent;
    if (reader->extra > READER_EXTRA_BYTES) return 0;
    if (reader->state == READER_TRAILERS) return READER_EXTRA_BYTES - reader->extra;
    return READER_CHUNK_LINE_BYTES + 2 - reader->line;
}

static void too_long(struct reader *reader) {
    if (reader->state == READER_LINE) {
        refuse(reader, 414, "uri_too_long",
               "The request's line is longer than the 16384 bytes of a head");
    } else if (reader->state == READER_FIELDS) {
        refuse(reader, 431, "headers_too_large", "The request's head has more than 16384 bytes");
    } else if (reader->state == READER_TRAILERS || reader->extra > READER_EXTRA_BYTES) {
        refuse(reader, 431, "headers_too_large",
               "The body's chunks have more than 16384 bytes of extensions and trailers");
    } else {
        bad(reader, "The size of a chunk of the body is not plain digits");
    }
}

// Within the limits, and no control characters. Bytes past a limit are not looked at: a refusal
// does not depend on the pieces in which the line comes.
static bool line_check(struct reader *reader, const char *data, size_t len) {
    const size_t allowed = allowance(reader);
    for (size_t i = 0; i < len && i < allowed; i++) {
        if (is_control(data[i]) && data[i] != '\r' && data[i] != '\n') {
            return bad(reader, "The request holds a control character where none may be");
        }
    }
    if (len > allowed) {
        too_long(reader);
        return false;
    }
    if (is_head(reader)) reader->sent += len;
    if (reader->state == READER_TRAILERS) reader->extra += len;
    return true;
}

// The line, without its end and NUL-terminated, is at text + used once it is done.
static enum line_result line_take(struct reader *reader, const char *data, size_t len,
                                  size_t *taken) {
    const char *end = memchr(data, '\n', len);
    size_t n = end ? (size_t)(end - data) + 1 : len;
    *taken = n;
    if (!line_check(reader, data, n) || !room(reader, n)) return LINE_REFUSED;
    char *line = reader->head.text + reader->used;
    memcpy(line + reader->line, data, n);
    reader->line += n;
    if (!end) return LINE_MORE;
    n = reader->line;
    reader->line = 0;
    if (n < 2 || line[n - 2] != '\r' || memchr(line, '\r', n - 2)) {
        bad(reader, "A line of the request does not end with CR LF");
        return LINE_REFUSED;
    }
    line[n - 2] = '\0';
    return LINE_DONE;
}

// ---------------------------------------------------------------- the request's line

static bool method_check(struct reader *reader, const char *method) {
    static const char *const known[] = {"GET",    "HEAD",    "POST",  "PUT",
                                        "DELETE", "OPTIONS", "PATCH", "TRACE"};
    if (!*method || method[token_len(method)]) {
        return bad(reader, "The request does not start with a method");
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!strcmp(known[i], method)) return true;
    }
    return refuse(reader, 501, "method_not_implemented", "The request's method is not known");
}

static bool is_name_char(char c) {
    return is_letter(c) || is_digit(c) || (c && strchr("-._~:[]%", c));
}

static size_t name_len(const char *text) {
    size_t len = 0;
    while (is_name_char(text[len])) len++;
    return len;
}

// "http://name:8080/path": the name replaces the Host field, the rest is the path. Returns where
// the path starts; NULL: it is no such target.
static const char *absolute_path(const char *target) {
    const char *name = !strncasecmp(target, "http://", 7)    ? target + 7
                       : !strncasecmp(target, "https://", 8) ? target + 8
                                                             : NULL;
    const size_t len = name ? name_len(name) : 0;
    if (!len || (name[len] && name[len] != '/' && name[len] != '?')) return NULL;
    return name + len;
}

static bool target_check(struct reader *reader, const char *method, const char *target) {
    for (const char *at = target; *at; at++) {
        if ((unsigned char)*at > ' ' && (unsigned char)*at < 0x7F && *at != '#') continue;
        return bad(reader, "The request's target holds a character that must be escaped");
    }
    if (*target == '/' || (!strcmp(target, "*") && !strcmp(method, "OPTIONS"))) return true;
    return absolute_path(target) || bad(reader, "The request's target is not a path");
}

// METHOD SP target SP HTTP/1.x
static bool line_parse(struct reader *reader) {
    struct head *head = &reader->head;
    char *line = head->text + reader->used;
    char *target = strchr(line, ' ');
    char *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version) return bad(reader, "The request's line is not METHOD TARGET HTTP/1.1");
    *target++ = *version++ = '\0';
    if (strncmp(version, "HTTP/", 5) || !is_digit(version[5]) || version[6] != '.' ||
        !is_digit(version[7]) || version[8])
        return bad(reader, "The request's line does not end with HTTP/1.1");
    if (version[5] != '1' || version[7] > '1') {
        return refuse(reader, 505, "version_not_supported", "Only HTTP/1.1 and 1.0 are spoken");
    }
    if (!method_check(reader, line) || !target_check(reader, line, target)) return false;
    head->minor = version[7] - '0';
    head->target = (size_t)(target - head->text);
    head->fields = head->len = reader->used = (size_t)(version - head->text);
    reader->state = READER_FIELDS;
    return true;
}

// ---------------------------------------------------------------- fields

static bool length_parse(struct reader *reader, const char *value) {
    uint64_t length = 0;
    if (!*value) return ambiguous(reader, "Content-Length is empty");
    for (const char *at = value; *at; at++) {
        if (!is_digit(*at)) return ambiguous(reader, "Content-Length is not a number");
        if (length > (UINT64_MAX - 9) / 10) {
            return refuse(reader, 413, "body_too_large", "The body has more bytes than are taken");
        }
        length = length * 10 + (uint64_t)(*at - '0');
    }
    reader->head.length = length;
    return true;
}

// Connection: a list of tokens, close, keep-alive, and names of other fields. Readers differ in the
// blanks that they take between tokens: close is seen between any, keep-alive only as all between
// two commas, with no tab behind it.
static void connection_parse(struct reader *reader, const char *value) {
    for (const char *at = value; *at; at += strspn(at, ", \t")) {
        const size_t len = strcspn(at, ", \t");
        if (len == 5 && !strncasecmp(at, "close", len)) reader->closes = true;
        at += len;
    }
    for (const char *at = value; *at; at += *at == ',') {
        at += strspn(at, " \t");
        const size_t len = strcspn(at, ",");
        size_t end = len;
        while (end && at[end - 1] == ' ') end--;
        if (end == 10 && !strncasecmp(at, "keep-alive", end)) reader->keeps = true;
        at += len;
    }
}

// Proxy-Connection is not part of HTTP/1.1, but other readers take it for Connection.
static bool is_connection(const char *name) {
    return !strcasecmp(name, "Connection") || !strcasecmp(name, "Proxy-Connection");
}

// Whether the field says where the request ends, or whether another follows.
static bool is_framing(const char *name) {
    return !strcasecmp(name, "Content-Length") || !strcasecmp(name, "Transfer-Encoding") ||
           is_connection(name);
}

static bool field_read(struct reader *reader, const char *name, const char *value) {
    struct head *head = &reader->head;
    if (!strcasecmp(name, "Content-Length")) {
        reader->n_lengths++;
        return length_parse(reader, value);
    }
    if (!strcasecmp(name, "Transfer-Encoding")) {
        reader->n_codings++;
        head->chunked = true;
        if (!strcasecmp(value, "chunked")) return true;
        return ambiguous(reader, "Transfer-Encoding is not chunked");
    }
    if (!strcasecmp(name, "Host")) {
        reader->n_hosts++;
        head->host = (size_t)(value - head->text);
        return !value[name_len(value)] || bad(reader, "The Host field is not a name");
    }
    if (is_connection(name)) connection_parse(reader, value);
    if (!strcasecmp(name, "Expect") && head->minor) {
        head->expects = true;
        if (strcasecmp(value, "100-continue")) {
            return refuse(reader, 417, "expectation_failed",
                          "No expectation but 100-continue is met");
        }
    }
    return true;
}

// Cuts name:value in two, blanks around the value aside. Returns the value; NULL: refused.
static char *field_cut(struct reader *reader, char *line) {
    const size_t len = token_len(line);
    if (is_blank(*line)) {
        ambiguous(reader, "A header field is folded, or starts with a blank");
        return NULL;
    }
    if (!len || line[len] != ':') {
        ambiguous(reader, "A header field is not NAME: VALUE");
        return NULL;
    }
    line[len] = '\0';
    char *value = line + len + 1;
    while (is_blank(*value)) value++;
    size_t end = strlen(value);
    bool tab = false;
    while (end && is_blank(value[end - 1])) tab |= value[--end] == '\t';
    value[end] = '\0';
    if (tab && is_framing(line)) { // some readers take it for a part of the value
        ambiguous(reader, "A tab follows a length, a coding or Connection");
        return NULL;
    }
    return value;
}

static bool field_parse(struct reader *reader) {
    struct head *head = &reader->head;
    char *name = head->text + reader->used;
    const char *sent = field_cut(reader, name);
    if (!sent) return false;
    char *value = name + strlen(name) + 1;
    const size_t len = strlen(sent);
    memmove(value, sent, len + 1);
    head->len = reader->used = (size_t)(value + len + 1 - head->text);
    head->n_fields++;
    return field_read(reader, name, value);
}

static bool head_check(struct reader *reader) {
    struct head *head = &reader->head;
    if (reader->n_hosts > 1 || (head->minor && !reader->n_hosts)) {
        return bad(reader, reader->n_hosts ? "There is more than one Host field"
                                           : "There is no Host field");
    }
    if (reader->n_lengths + reader->n_codings > 1) {
        return ambiguous(reader, "More than one field says where the request ends");
    }
    if (head->chunked && !head->minor) {
        return ambiguous(reader, "Transfer-Encoding is not part of HTTP/1.0");
    }
    head->keep_alive = !reader->closes && (head->minor || reader->keeps);
    reader->left = head->length;
    reader->state = head->chunked ? READER_CHUNK : READER_LENGTH;
    return true;
}

void reader_take_head(struct reader *reader, struct head *out) {
    *out = reader->head;
    reader->head.text = NULL;
    reader->capacity = reader->used = 0;
}

// ---------------------------------------------------------------- chunks

// ;name, ;name=token or ;name="text", as often as there are.
static bool extensions_check(const char *at) {
    while (*at == ';') {
        size_t len = token_len(++at);
        if (!len) return false;
        at += len;
        if (*at != '=') continue;
        if (*++at != '"') {
            if (!(len = token_len(at))) return false;
            at += len;
            continue;
        }
        for (at++; *at && *at != '"'; at++) {
            if (*at == '\\' && !*++at) return false;
        }
        if (*at++ != '"') return false;
    }
    return !*at;
}

static bool chunk_parse(struct reader *reader) {
    const char *line = reader->head.text + reader->used;
    uint64_t size = 0;
    int n = 0;
    for (int digit; (digit = hex_digit(line[n])) >= 0; n++) {
        if (size >> 58) return bad(reader, "A chunk of the body is too large");
        size = size << 4 | (unsigned)digit;
    }
    if (!n || !extensions_check(line + n)) {
        return bad(reader, "The size of a chunk of the body is not plain digits");
    }
    reader->extra += strlen(line + n);
    reader->left = size;
    reader->state = size ? READER_DATA : READER_TRAILERS;
    return true;
}

// The fields that tell where the request ends came with the head.
static bool trailer_check(struct reader *reader) {
    char *name = reader->head.text + reader->used;
    if (!field_cut(reader, name)) return false;
    if (!is_framing(name) && strcasecmp(name, "Host")) return true;
    return ambiguous(reader, "The body's trailers hold a field of the head");
}

// ---------------------------------------------------------------- events

// The next request starts. An idle connection keeps no memory.
static enum reader_event request_end(struct reader *reader) {
    reader_deinit(reader);
    return READER_END;
}

static enum reader_event body_take(struct reader *reader, const char *data, size_t len,
                                   struct reader_bytes *out) {
    if (!len) return READER_MORE;
    const size_t n = reader->left < len ? (size_t)reader->left : len;
    reader->left -= n;
    if (!reader->left && reader->state == READER_DATA) reader->state = READER_DATA_END;
    *out = (struct reader_bytes){.taken = n, .body = data, .body_len = n};
    return READER_BODY;
}

// A whole line was read. False: refused. *event: the event that it gives, READER_MORE: none yet.
static bool line_done(struct reader *reader, enum reader_event *event) {
    const bool empty = !reader->head.text[reader->used];
    *event = READER_MORE;
    switch (reader->state) {
    case READER_LINE: // empty lines before a request are passed over
        return empty || line_parse(reader);
    case READER_FIELDS:
        if (!empty) return field_parse(reader);
        *event = READER_HEAD;
        return head_check(reader);
    case READER_CHUNK:
        return chunk_parse(reader);
    case READER_DATA_END:
        reader->state = READER_CHUNK;
        return empty || bad(reader, "A chunk of the body is longer than its size says");
    case READER_TRAILERS:
        if (!empty) return trailer_check(reader);
        *event = request_end(reader);
        return true;
    default:
        assert(false);
        return false;
    }
}

enum reader_event reader_next(struct reader *reader, const char *data, size_t len,
                              struct reader_bytes *out) {
    *out = (struct reader_bytes){0};
    for (;;) {
        const size_t left = len - out->taken;
        if (reader->state == READER_REFUSED) return READER_REFUSE;
        if (reader->state == READER_LENGTH && !reader->left) return request_end(reader);
        if (reader->state == READER_LENGTH || reader->state == READER_DATA) {
            const size_t before = out->taken;
            const enum reader_event event = body_take(reader, data + before, left, out);
            out->taken += event == READER_BODY ? before : 0;
            return event;
        }
        if (!left) return READER_MORE;
        size_t taken = 0;
        const enum line_result line = line_take(reader, data + out->taken, left, &taken);
        out->taken += taken;
        enum reader_event event = READER_MORE;
        if (line == LINE_REFUSED || (line == LINE_DONE && !line_done(reader, &event)))
            return READER_REFUSE;
        if (event != READER_MORE) return event;
    }
}

void reader_deinit(struct reader *reader) {
    head_deinit(&reader->head);
    *reader = (struct reader){0};
}
