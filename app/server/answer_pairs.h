// Tool calls that are written as a name and pairs, "name{key:value, ...}", with a mark of the model
// around strings, for answer_calls.c alone.
#ifndef RN_SERVER_ANSWER_PAIRS_H
#define RN_SERVER_ANSWER_PAIRS_H

#include "answer_calls.h"

// Reads the call at `begin` and lets it out if it is good. The search for its end continues where
// the last piece ended.
enum call_verdict pairs_read(struct answer_parts *parts, const char *text, size_t len, size_t begin,
                             size_t *end, parts_fn fn, void *ctx);

#endif
