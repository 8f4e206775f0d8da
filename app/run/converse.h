// A conversation on the terminal.
#ifndef RN_APP_CONVERSE_H
#define RN_APP_CONVERSE_H

#include "run/chat.h"
#include "run/run.h"

// Reads messages and commands and answers them until the user leaves; the engine is there. Returns
// the exit code.
int converse(struct run *run, struct chat *chat);

#endif
