// The history of typed messages: one message per line, a line feed in it as \n and a backslash
// as \\. Its last messages are loaded at the start, and each new one is appended at once, so that
// several programs may share it.
#ifndef RN_APP_PAST_H
#define RN_APP_PAST_H

#include "app.h"

enum { PAST_SIZE = 1000 }; // messages that are loaded; the file is cut when it has twice as many

// Called for each message, the oldest first.
typedef void (*past_fn)(void *ctx, const char *message, size_t len);

struct past {
    char *path; // NULL: no file
};

// Finds the file, makes its folder, and hands out its messages. Fails silently to no file.
void past_open(struct past *past, past_fn fn, void *ctx);
void past_add(const struct past *past, const char *message, size_t len);
void past_close(struct past *past);

#endif
