// The records of the last finished requests, for /requests. I/O thread only.
#ifndef RN_SERVER_KEPT_H
#define RN_SERVER_KEPT_H

#include "owner.h"
#include "record/record.h"
#include "server_state.h"

struct stream;

struct kept_request {
    struct record record; // its choices that have ended
    struct owner owner;
    bool ended; // all have
    uint64_t submit_ns;
    int places;                       // that it takes: one for each choice that is kept
    struct kept_request *next, *prev; // older, newer
};

// places: choices that are kept; 0: none. NULL: out of memory.
struct kept *kept_create(int places);
void kept_destroy(struct kept *kept);
// A choice of the stream has ended. It is not kept where memory runs out.
void kept_take(struct kept *kept, const struct stream *stream, const rn_event *event);
const struct kept_request *kept_newest(const struct kept *kept); // NULL: none
// The owner's request of that number (stream->number), or (where that is 0) the first of that
// response or X-Request-Id; NULL: it is not there.
const struct kept_request *kept_find(const struct kept *kept, struct owner owner, uint64_t number,
                                     const char *id);

#endif
