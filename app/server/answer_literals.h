// Python's literals as JSON: whole ones, and token by token as they are written. For the readers of
// calls alone.
#ifndef RN_SERVER_ANSWER_LITERALS_H
#define RN_SERVER_ANSWER_LITERALS_H

#include "answer_call.h"

// One literal as JSON; *out keeps its bytes where it is none.
bool literal_put(struct jbuf *out, const char *text, size_t len);
// The next token of a literal, from the start of text: *n bytes of it, and its JSON. The walk is
// that of the JSON so far. BAD: no literal continues behind *n bytes.
enum call_verdict literal_next(struct literal *literal, const struct json_walk *walk,
                               const char *text, size_t len, size_t *n, struct jbuf *out);
// Bytes of the word at the start of text, which may name a function or an argument. MORE: it may
// be longer.
enum call_verdict literal_name(const char *text, size_t len, size_t *n);

#endif
