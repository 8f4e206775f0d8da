// Where other threads meet the engine: submit, cancel, pause, and freeing what is over. The step
// itself takes no lock: it takes the whole inbox with one exchange, looks at flags, and leaves the
// dead on a stack. The lock guards the table of live sequences between submitters, cancellers and
// reapers only; a sequence is freed under it, so an id that is found is alive.
#ifndef RN_ENGINE_INTAKE_H
#define RN_ENGINE_INTAKE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/seq.h"

enum { INTAKE_BUCKETS = 1024 };

struct intake {
    struct seq_limits limits; // what requests are checked against
    int max_waiting;
    _Atomic(struct seq *) inbox; // submitted, newest first, linked by next
    _Atomic(struct seq *) grave; // over, linked by next
    _Atomic bool flagged;        // some sequence's cancel or pause flag was changed
    _Atomic int n_waiting;       // submitted and never yet admitted
    _Atomic uint64_t next_id;
    void (*wake)(void *ctx); // after a submit or a flag; may be NULL
    void *wake_ctx;
    pthread_mutex_t lock;
    struct seq *bucket[INTAKE_BUCKETS]; // by id, linked by seq->same_bucket
};

rn_status intake_init(struct intake *intake, const struct seq_limits *limits, int max_waiting,
                      rn_error *err);
void intake_deinit(struct intake *intake); // frees every sequence that is still known

// --- any thread ---
// One sequence per choice; RN_ERR_FULL when they do not all find room. All or none are queued.
rn_status intake_submit(struct intake *intake, const rn_request *request, uint64_t *id,
                        rn_error *err);
void intake_cancel(struct intake *intake, uint64_t id); // sets seq->cancelled of every choice
void intake_pause(struct intake *intake, uint64_t id, bool pause);
void intake_reap(struct intake *intake); // frees the buried

// --- the step's thread ---
struct seq *intake_take(struct intake *intake); // what was submitted since, oldest first
bool intake_take_flag(struct intake *intake);   // whether flags changed since the last call
void intake_admitted(struct intake *intake);    // one of the waiting was admitted or ended
void intake_bury(struct intake *intake, struct seq *list); // linked by next; events were collected
#endif
