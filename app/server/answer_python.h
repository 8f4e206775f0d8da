// Tool calls that are written as Python writes them, "[name(key=value, ...), ...]" with literals as
// values, for answer_calls.c alone.
#ifndef RN_SERVER_ANSWER_PYTHON_H
#define RN_SERVER_ANSWER_PYTHON_H

#include "answer_calls.h"

// Looks for the end of the calls that start at scan->begin; continues where it stopped.
enum call_verdict python_scan(struct parts_scan *scan, const char *text, size_t len, size_t *end);
// Lets the calls of a whole text out. False: not all of them are calls. A second walk over the same
// text needs no more memory.
bool python_calls_walk(struct answer_parts *parts, const char *text, size_t len, parts_fn fn,
                       void *ctx);
// One literal as JSON; *out keeps its bytes where it is none.
bool python_literal_put(struct jbuf *out, const char *text, size_t len);

#endif
