// The live view of the engine for the page: /engine (one picture, JSON) and /engine/live (a
// picture four times a second as server-sent events). I/O thread only; costs nothing without
// watchers.
#ifndef RN_SERVER_LIVE_H
#define RN_SERVER_LIVE_H

#include "generation.h"

struct live *live_create(struct served *served); // NULL: out of memory
void live_destroy(struct live *live);
// A token of a choice of a running call.
void live_token(struct live *live, const struct call *call, const struct generation_choice *choice,
                const rn_event *event);
// From the loop, at least when the time that it returned (monotonic ns; 0: no need) has come.
uint64_t live_tick(struct live *live, uint64_t now_ns);

#endif
