// Threads of Anthropic's API: conversations that the server keeps (turns.h), so that a request
// brings its new messages alone. The first turn has `system` and `tools`, which all turns share.
#ifndef RN_SERVER_THREADS_H
#define RN_SERVER_THREADS_H

#include "call.h"
#include "turns.h"

// The thread of a request, from its handler to the end of its answer.
struct thread {
    bool is_kept;          // the request asks for that, and the turn was not handed over yet
    struct turn *previous; // claimed; NULL if the thread starts here
    struct turns *store;
    struct jbuf text; // the turn's, so far
    size_t input_len;
    struct jbuf shared; // of the first turn: what all turns share
};

// The body's `thread`. If it continues one, the body gets the thread's `system` and `tools`.
// False: refused. thread_deinit either way.
bool thread_read(struct call *call, json_t *body, struct thread *out);
void thread_deinit(struct thread *thread);
// The messages before the request's own, a new reference; *out is NULL if there are none. False:
// refused.
bool thread_messages(struct call *call, const struct thread *thread, json_t **out);
// Takes the request's own messages, which are valid, into the turn. False: refused.
bool thread_take(struct call *call, struct thread *thread, const json_t *body);
// The answer is whole: its content as JSON. The turn is kept.
void thread_keep(const struct call *call, struct thread *thread, const char *content, size_t len);

#endif
