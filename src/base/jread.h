// A pull reader of JSON text (RFC 8259): strict, valid UTF-8 only, depth at most JREAD_MAX_DEPTH.
// Allocates nothing and copies nothing, so files of any size cost no more than their mapping. The
// caller walks the values in the text's order; after the first error every call returns false and
// `error` names the fault and its place. Keys that an object has twice are the caller's business.
#ifndef RN_BASE_JREAD_H
#define RN_BASE_JREAD_H

#include "base/status.h"

enum { JREAD_MAX_DEPTH = 64 };

enum jread_kind {
    JREAD_ERROR,
    JREAD_NULL,
    JREAD_BOOL,
    JREAD_NUMBER,
    JREAD_STRING,
    JREAD_ARRAY,
    JREAD_OBJECT,
};

struct jread {
    const char *begin, *at, *end;
    int depth;
    uint64_t is_object;  // bit d: the container at depth d is an object
    uint64_t has_member; // bit d: a member of the container at depth d was read
    bool has_constants;  // Infinity, -Infinity and NaN, which Python writes, may be skipped
    const char *error;   // NULL: none so far; a literal such as "expected ':'"
    size_t error_at;     // byte offset
};

// A string as it stands between its quotes, escapes included; checked, borrowed from the text.
struct jread_text {
    const char *data;
    size_t len;
    bool has_escape;
};

void jread_init(struct jread *r, const char *text, size_t len);

// The kind of the value that comes next; JREAD_ERROR when none does.
enum jread_kind jread_peek(struct jread *r);

// Containers: enter, then next until it returns false (the end, or an error). After a next the
// member's value is to be read or skipped.
bool jread_enter_object(struct jread *r);
bool jread_next_key(struct jread *r, struct jread_text *key);
bool jread_enter_array(struct jread *r);
bool jread_next_item(struct jread *r);

// Scalars; false when the value is of another kind (an error then) or, for i64, not an integer of
// that range.
bool jread_null(struct jread *r);
bool jread_bool(struct jread *r, bool *out);
bool jread_i64(struct jread *r, int64_t *out);
bool jread_f64(struct jread *r, double *out); // finite
bool jread_string(struct jread *r, struct jread_text *out);

// The next value, of any kind.
bool jread_skip(struct jread *r);
// The same, giving its text.
bool jread_raw(struct jread *r, const char **text, size_t *len);

// Whether the text has ended after one value, with blanks alone behind it.
bool jread_finish(struct jread *r);

// Writes the string with its escapes resolved and returns its length, at most text->len.
size_t jread_unescape(const struct jread_text *text, char *out);
bool jread_equals(const struct jread_text *text, const char *literal);

// Marks the text as wrong at the current place; for callers who expected something else.
bool jread_fail(struct jread *r, const char *literal);
// "NAME: offset 17: expected ':'", as status.
rn_status jread_status(const struct jread *r, const char *name, rn_error *err);

#endif
