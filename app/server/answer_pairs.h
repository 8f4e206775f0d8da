// Tool calls that are written as a name and pairs, "name{key:value, ...}", with a mark of the model
// around strings, for answer_calls.c alone.
#ifndef RN_SERVER_ANSWER_PAIRS_H
#define RN_SERVER_ANSWER_PAIRS_H

#include "answer_calls.h"

// Reads the call at call->at.
enum call_verdict pairs_read(struct call_run *run);

#endif
