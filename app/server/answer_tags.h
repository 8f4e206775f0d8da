// Tool calls whose arguments stand one by one between tags, for answer_calls.c alone.
#ifndef RN_SERVER_ANSWER_TAGS_H
#define RN_SERVER_ANSWER_TAGS_H

#include "answer_calls.h"

// Reads the call at call->at.
enum call_verdict tags_read(struct call_run *run);

#endif
