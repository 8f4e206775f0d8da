// Engine requests of generations: submission, and the way of their events into choices and through
// writers into calls. I/O thread only.
#ifndef RN_SERVER_STREAMS_H
#define RN_SERVER_STREAMS_H

#include "generation.h"

// One engine request. It outlives its call when that is given up: the engine's last event frees it.
struct stream {
    struct generation *generation; // NULL: given up
    struct call *call;
    struct served *served;
    struct owner owner;
    char id[CALL_ID_BYTES];                 // of the answer; the call may be gone
    char request_id[CALL_REQUEST_ID_BYTES]; // the client's; "": none
    uint64_t request;                       // the engine's number of it
    uint64_t number;  // for clients: the same, but unique over all engines of the server
    int first_choice; // in generation->choice[]
    int n_choices;
    uint64_t *allowed;          // the set of allowed_token_ids, for the engine; NULL: any
    struct stream *next, *prev; // in served->streams
};

// The owner's engine request of that number, or (where that is 0) the first of that answer or of
// that X-Request-Id, also of a call that is gone; NULL: it has ended.
const struct stream *streams_lookup(const struct server *server, struct owner owner,
                                    uint64_t number, const char *id);
// A worker has prepared the call: its generation is submitted, and the call becomes
// RUNNING or STREAMING; or ENDED, when it is answered or refused (429, 503, 400).
void streams_start(struct call *call);
// The call has come to its end: its running requests are cancelled, it is counted and freed. gone:
// its answer was not sent to the last byte.
void streams_finish(struct call *call, bool gone);
// Cancels its requests; the call ends with an error when the engine's events say so.
void streams_cancel(const struct call *call);
// Bytes of the call's answer were taken: a paused stream continues when few are left.
void streams_taken(struct call *call);
// Takes all events that wait. Calls that got bytes or came to their end are woken.
void streams_collect(struct served *served);
// The stream of an engine request; NULL: given up.
const struct stream *streams_find(const struct served *served, uint64_t request);

// For answers whose tokens come with the request (derender.c), on a worker: the choices of all
// prompts, and all of the text of one, taken apart as a text of the engine is. False: out of
// memory.
bool streams_choices_create(const struct call *call);
bool streams_feed(struct call *call, struct generation_choice *choice, const char *text,
                  size_t len);

// --- between streams.c and stream_events.c ---

void streams_begin(struct call *call); // the answer of a stream starts
// Cancels the call's requests. The engine's last events free the streams.
void streams_leave(struct generation *generation);
void streams_forget(struct stream *stream); // its last event has come

#endif
