// Events on their way from the step's thread to the one thread that reads them, in memory that is
// taken at init. Invariants:
//  1. slots [tail, head) are full. The reader was given the slots before `given`. Their contents
//     stay as they are until the reader comes back for more: only then does tail follow.
//  2. the logprobs and the text of an event are copied into a ring of bytes beside the slots, in
//     one piece. A last event is not copied: its text, logprobs, stop string, timings and embedding
//     are its sequence's. The slot keeps that sequence until the reader has passed it, and the step
//     no longer touches it.
//  3. an event that finds no room when the ring is empty does not exist: bytes_max is known.
#ifndef RN_ENGINE_DOOR_EVENT_RING_H
#define RN_ENGINE_DOOR_EVENT_RING_H

#include <stdalign.h>
#include <stdatomic.h>

#include "base/status.h"
#include "runnel.h"

struct seq;

struct event_slot {
    rn_event event;
    uint64_t bytes_end; // where the content of the ring of bytes ends with this event
    struct seq *over;   // sequences whose last event is this or an earlier one, linked by next
};

struct event_ring {
    struct event_slot *slot; // [n_slot]
    char *bytes;             // [n_bytes] every piece is aligned for logprobs
    uint64_t n_slot;         // a power of two
    uint64_t n_bytes, bytes_max;
    // numbers since the beginning; the writer's
    alignas(64) _Atomic uint64_t head;
    uint64_t bytes_head;
    // the reader's
    alignas(64) _Atomic uint64_t tail;
    _Atomic uint64_t bytes_tail;
    uint64_t given;
};

// At least n_event events; the most logprobs and the longest text of an event.
rn_status event_ring_init(struct event_ring *ring, uint64_t n_event, uint64_t logprobs_max,
                          uint64_t text_max, rn_error *err);
void event_ring_deinit(struct event_ring *ring);

// --- the writer ---

// False: no room now. over: see event_slot.
bool event_ring_put(struct event_ring *ring, const rn_event *event, struct seq *over);

// --- the reader ---

// Gives the slots of the last take back; returns the sequences that are over with them, linked by
// next.
struct seq *event_ring_release(struct event_ring *ring);
// Up to max events. Valid until the next release, which comes first.
int event_ring_take(struct event_ring *ring, rn_event *out, int max);
// Whether events wait that were not given out.
bool event_ring_waits(const struct event_ring *ring);

#endif
