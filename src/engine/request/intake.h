// Where other threads meet the engine: submit, cancel, pause, and freeing ended sequences. The step
// itself takes no lock: it takes the whole inbox with one exchange, looks at flags, and leaves the
// dead on a stack. The lock guards the table of live sequences between submitters, cancellers and
// reapers only; a sequence is freed under it, so an id that is found is alive.
//
// Every sequence is in the table from before the step can see it until it is freed.
#ifndef RN_ENGINE_REQUEST_INTAKE_H
#define RN_ENGINE_REQUEST_INTAKE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/request/seq.h"

enum { INTAKE_BUCKETS = 1024 };

struct intake {
    struct seq_limits limits; // the limits that requests are checked against
    int max_waiting;
    _Atomic(struct seq *) inbox; // submitted, newest first, linked by next
    _Atomic(struct seq *) grave; // over, linked by next
    _Atomic bool flagged;        // some sequence's cancel or pause flag was changed
    _Atomic int n_waiting;       // submitted and not admitted yet, or preempted
    void (*wake)(void *ctx);     // after a submit or a flag; may be NULL; set before others know it
    void *wake_ctx;
    pthread_mutex_t lock; // of the members below
    uint64_t last_id;
    bool closed;                        // nothing more is taken
    rn_status refusal;                  // not RN_OK: no request will be taken again, and why
    struct seq *bucket[INTAKE_BUCKETS]; // by id, linked by seq->same_bucket
};

rn_status intake_init(struct intake *intake, const struct seq_limits *limits, int max_waiting,
                      rn_error *err);
void intake_deinit(struct intake *intake); // frees every sequence that is still known

// --- any thread ---

// One sequence per choice; RN_ERR_FULL when they do not all find room, RN_ERR_CANCELLED when the
// intake is closed, RN_ERR_DEVICE when the device was lost. All or none are queued. Ids increase,
// and the inbox has them in their order.
rn_status intake_submit(struct intake *intake, const rn_request *request, uint64_t *id,
                        rn_error *err);
void intake_cancel(struct intake *intake, uint64_t id); // sets seq->cancelled of every choice
void intake_cancel_all(struct intake *intake);
void intake_pause(struct intake *intake, uint64_t id, bool pause);
// Closed: requests queued before this returned are the last.
void intake_close(struct intake *intake, bool closed);
// Nothing is taken any more, and callers are told that status.
void intake_refuse(struct intake *intake, rn_status status);
// Sequences that are over and whose events were collected, linked by next: only the table still
// refers to them. They are freed by the next intake_reap.
void intake_bury(struct intake *intake, struct seq *list);
void intake_reap(struct intake *intake); // frees the buried; not the step's thread: it locks

// --- the step's thread ---

struct seq *intake_take(struct intake *intake); // sequences submitted since, oldest first
bool intake_take_flag(struct intake *intake);   // whether flags changed since the last call
void intake_admitted(struct intake *intake);    // one of the waiting was admitted or ended
// An admitted sequence waits again. It is included, so that no more than max_waiting sequences and
// the running ones are ever alive.
void intake_preempted(struct intake *intake);

#endif
