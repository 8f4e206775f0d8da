// A strict reader of HTTP/1.1 requests (RFC 9112). Bytes go in, requests come out. It knows no
// socket, no route and no limit but its own; conn.c calls it, fuzzers and the comparison with
// another parser do too.
//
//   LINE -> FIELDS -> (READER_HEAD) -> LENGTH -> (READER_END) -> LINE, the next request
//                                   -> CHUNK -> DATA -> DATA_END -> CHUNK ...
//                                      CHUNK (size 0) -> TRAILERS -> (READER_END) -> LINE
//   any state: bytes that two readers could take for different things -> REFUSED, for good
//
// Refused bytes: NUL and other control characters, bare LF or CR. Refused fields: folded ones,
// blanks around names, two Host fields or (HTTP/1.1) none. Refused framing: lengths that are not
// plain digits or come twice, a length beside a coding, codings other than chunked, a tab behind
// such a field. Such a field or Connection among trailers is refused too, and so are versions other
// than 1.0 and 1.1 and unknown methods.
#ifndef RN_SERVER_READER_H
#define RN_SERVER_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    READER_HEAD_BYTES = 16 << 10,  // of a request's line and fields, as they were sent
    READER_CHUNK_LINE_BYTES = 256, // of a chunk's size and extensions
    READER_EXTRA_BYTES = 16 << 10, // of all extensions and trailers of a body
};

// A request's line and fields. `text` holds method, target, then name and value of each field, each
// ended by a NUL; values have no blanks around them.
struct head {
    char *text; // owned; NULL: none
    size_t len;
    size_t target, fields; // where in text the target and the first field start
    int n_fields;
    int minor;       // of HTTP/1.minor
    bool keep_alive; // another request may follow on the connection
    bool expects;    // Expect: 100-continue
    bool chunked;
    uint64_t length; // of the body, where it is not chunked
    size_t host;     // where in text the Host field's value is; 0: there was none
};

void head_deinit(struct head *head);
int hex_digit(char c); // its value; -1: it is none
static inline const char *head_method(const struct head *head) { return head->text; }
static inline const char *head_target(const struct head *head) { return head->text + head->target; }
static inline bool head_has_body(const struct head *head) { return head->chunked || head->length; }
// The first field of that name, case aside; NULL: none.
const char *head_field(const struct head *head, const char *name);
// The field after the one whose name this is; the first: after NULL. NULL: none.
const char *head_next(const struct head *head, const char *name);
static inline const char *field_value(const char *name) {
    const char *at = name;
    while (*at) at++;
    return at + 1;
}

enum reader_state {
    READER_LINE,
    READER_FIELDS,
    READER_LENGTH,
    READER_CHUNK,
    READER_DATA,
    READER_DATA_END,
    READER_TRAILERS,
    READER_REFUSED,
};

struct reader {
    enum reader_state state;
    struct head head;      // being read; its text also holds lines of a chunked body
    size_t capacity, used; // of head.text: all, and those before the line that is being read
    size_t line;           // bytes of that line so far
    size_t sent;           // bytes of the head so far, as they were sent
    uint64_t left;         // bytes of the body, or of the chunk
    size_t extra;          // bytes of extensions and trailers so far
    int n_hosts, n_lengths, n_codings;
    bool closes, keeps; // from the Connection fields
    int status;         // REFUSED: of the answer
    const char *code;   // the same: the fault, for programs and
    const char *why;    // for people
};

enum reader_event {
    READER_MORE,   // all bytes were taken, and more are needed
    READER_HEAD,   // line and fields are complete: reader_take_head
    READER_BODY,   // bytes of the body
    READER_END,    // the request is complete; the next starts
    READER_REFUSE, // status, code and why are the answer; the connection ends with it
};

struct reader_bytes {
    size_t taken;     // of the bytes given
    const char *body; // READER_BODY: some of the bytes given
    size_t body_len;
};

// Continues with these bytes up to the next event. The caller repeats the call with the bytes that
// were not taken, even if there are none, until it returns READER_MORE.
enum reader_event reader_next(struct reader *reader, const char *data, size_t len,
                              struct reader_bytes *out);
// After READER_HEAD: the head becomes the caller's.
void reader_take_head(struct reader *reader, struct head *out);
// Whether nothing of the next request has come.
static inline bool reader_is_idle(const struct reader *reader) {
    return reader->state == READER_LINE && !reader->sent;
}
void reader_deinit(struct reader *reader);

#endif
