// The state of a conversation, for its loop (converse.c) and its commands (slash.c).
#ifndef RN_APP_TALK_H
#define RN_APP_TALK_H

#include "run/chat.h"
#include "run/run.h"
#include "terminal/editor.h"

struct talk {
    struct run *run;
    struct chat *chat;
    struct editor *editor;
    struct options *options;     // the run's, which /set changes; owned
    const struct options *given; // as the program was started
    struct report last;          // of the last answer; model is NULL: none yet
    char *file;                  // of the last /save or /load; NULL: none
    uint64_t retries;            // of the last message, by /regen
    bool leaving;
    int code; // of the program's end
};

// A dim line on standard error.
void talk_note(const struct talk *talk, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Answers the last message, the user's or a tool's. Otherwise the conversation is as it was,
// without `drop` messages at its end.
void talk_answer(struct talk *talk, size_t drop);

// Says which call waits for its result; nothing where none does.
void talk_calls(const struct talk *talk);

// A line that starts with a slash.
void slash_run(struct talk *talk, const char *line);
// The completion of a line by its index; fits editor_complete_fn.
bool slash_complete(void *ctx, const char *line, int index, char out[EDITOR_COMPLETION]);

#endif
