// Server-sent events (text/event-stream): splits the bytes of a body into events, whatever pieces
// they come in. An event is its data lines joined by LF; names, ids and comments are passed over.
#ifndef RN_CLIENT_SSE_H
#define RN_CLIENT_SSE_H

#include <stdbool.h>
#include <stddef.h>

#include "server/jbuf.h"

enum { SSE_EVENT_MAX = 4 << 20 }; // bytes of a line, and of an event's data

struct sse {
    struct jbuf line; // the unfinished one
    struct jbuf data; // of the event at hand
    bool has_data;
    bool after_cr;     // a LF that follows belongs to the CR before it
    bool started;      // the first bytes, which may be a byte order mark, are behind
    const char *error; // a literal: out of memory, or more than SSE_EVENT_MAX; NULL: none
};

// data is borrowed and ends in a NUL that len does not include.
typedef void (*sse_event_fn)(void *ctx, const char *data, size_t len);

void sse_init(struct sse *sse);
void sse_deinit(struct sse *sse);
// False: error says why, and later bytes are ignored.
bool sse_feed(struct sse *sse, const char *bytes, size_t len, sse_event_fn on_event, void *ctx);

#endif
