// Tool calls in the text of an answer, for answer_parts.c alone.
#ifndef RN_SERVER_ANSWER_CALLS_H
#define RN_SERVER_ANSWER_CALLS_H

#include "answer_parts.h"

enum call_verdict {
    CALL_MORE, // not complete
    CALL_GOOD, // *end is behind it
    CALL_BAD,  // *end is behind the bytes looked at
};

// Reads the text behind an opening mark. A good call, or several, are let out.
enum call_verdict parts_call_read(struct answer_parts *parts, const char *text, size_t len,
                                  size_t *end, parts_fn fn, void *ctx);
// A call whose name and arguments are known. False: the arguments are not a JSON object.
bool parts_call_put(struct answer_parts *parts, const char *name, size_t name_len,
                    const char *arguments, size_t len, parts_fn fn, void *ctx);

#endif
