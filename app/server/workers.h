// Threads that prepare calls: JSON, template, tokenizer, and compilations of shapes. A call is a
// worker's from workers_push to workers_pop; the number of calls is bounded.
//
// Handlers run in one lane. A call that wants a shape then goes through the second lane, whose
// threads have a low priority: a call without a shape never waits for a compilation. Each lane has
// n_threads that take the oldest call, and one that takes calls with a small body, or with a small
// source of a shape, alone: a small call waits only for small ones.
#ifndef RN_SERVER_WORKERS_H
#define RN_SERVER_WORKERS_H

#include "call.h"

struct workers;

// Returned calls are announced by a write to wake_fd (an eventfd).
rn_status workers_create(int n_threads, int capacity, int wake_fd, struct workers **out,
                         rn_error *err);
void workers_destroy(struct workers *workers); // after their calls; queued calls are not run
// Much memory was freed. A worker gives it back to the system, at most once a second.
void workers_tidy(struct workers *workers);
bool workers_push(struct workers *workers, struct call *call); // false: full
struct call *workers_pop(struct workers *workers);             // a prepared one; NULL: none

#endif
