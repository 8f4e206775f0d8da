// Tool calls that are written as Python writes them, "[name(key=value, ...), ...]" with literals as
// values, for answer_calls.c alone.
#ifndef RN_SERVER_ANSWER_PYTHON_H
#define RN_SERVER_ANSWER_PYTHON_H

#include "answer_calls.h"

// Reads a call at call->at, or a list of calls.
enum call_verdict python_read(struct call_run *run);

#endif
