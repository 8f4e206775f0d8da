// Reads the items of kept turns (turns.h). Called by the prepare handlers and by the routes that
// show a response.
#ifndef RN_SERVER_TURNS_READ_H
#define RN_SERVER_TURNS_READ_H

#include "call.h"
#include "turns.h"

// All turns of a conversation, the first one first; to be freed. NULL if memory ran out.
const struct turn **turns_chain(const struct turn *last, size_t *n);
// All items of the conversation, an array. The request's field `name` continues it, and is named
// where the conversation is too large. NULL if it is refused.
json_t *turns_items(struct call *call, const struct turn *last, const char *name);

struct line {
    const char *at;
    size_t len;
};
// Takes the lines of len bytes; returns their number. With a NULL list it only counts.
size_t lines_take(const char *at, size_t len, struct line *list);

#endif
