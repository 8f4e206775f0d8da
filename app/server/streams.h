// Engine requests of generations: submission, and the way of their events into choices and through
// writers. I/O thread only.
#ifndef RN_SERVER_STREAMS_H
#define RN_SERVER_STREAMS_H

#include "generation.h"

// One engine request. It outlives its call when that is given up: the engine's last event frees it.
struct stream {
    struct generation *generation; // NULL: given up
    struct call *call;
    struct server *server;
    uint64_t request;
    int first_choice; // in generation->choice[]
    int n_choices;
};

// Submits all prompts of a prepared call. False: refused (429, 503, 400), and nothing is running.
bool streams_submit(struct call *call);
// Cancels what runs and lets go of it.
void streams_leave(struct generation *generation);
// Cancels what runs; the call ends with an error when the engine's events say so.
void streams_cancel(const struct generation *generation);
void streams_pause(const struct generation *generation, bool pause);
// Takes all events that wait. Calls that got bytes or came to their end are told to http.c.
void streams_collect(struct server *server);

#endif
