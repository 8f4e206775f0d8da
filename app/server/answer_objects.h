// Tool calls that are JSON values with a name and arguments, for answer_calls.c alone.
#ifndef RN_SERVER_ANSWER_OBJECTS_H
#define RN_SERVER_ANSWER_OBJECTS_H

#include "answer_calls.h"

// Reads the value at call->at, an object or an array of them.
enum call_verdict objects_read(struct call_run *run);
// The same with Python's literals.
enum call_verdict objects_read_python(struct call_run *run);

#endif
