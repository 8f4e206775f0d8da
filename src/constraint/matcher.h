// Follows one text through a machine. A configuration is a set of frames; a frame is a state, the
// units of a counted rule that have ended, and the frame to return to. Frames and sets are kept
// once each, so that equal configurations have equal numbers, and masks and steps can be found
// again by them. The history has a set for each token: rolling back drops its end.
// Whether a choice fails depends on its text alone: work is counted as if no step was remembered,
// or each step once in a mask, and frames that only tried texts left behind are dropped before a
// limit applies. `spent` is another count, of the work that is really done: it bounds time.
// Not thread-safe: each choice of a request has its own.
#ifndef RN_CONSTRAINT_MATCHER_H
#define RN_CONSTRAINT_MATCHER_H

#include "constraint/mask_cache.h"
#include "constraint/summary.h"

enum {
    MATCHER_SET_MAX = 256,            // frames of a configuration: more than that is too ambiguous
    MATCHER_STEPS = 4096,             // remembered steps
    MATCHER_MASKS = RN_MAX_DRAFT + 1, // remembered masks: those of a draft, and the one before it
};

struct frame {
    uint32_t state, count;
    uint32_t parent; // 0: the text ends with the rule
    uint32_t guard;  // the state of a greedy rule that was left behind the last byte; 0: none
    uint32_t stamp;
};

struct frame_set {
    uint32_t at, n; // frames with bytes, ascending, in the pool
    bool can_end;
};

struct matcher_step {
    uint32_t from, to; // sets; from 0: free
    uint32_t work;
    uint8_t byte;
};

struct matcher_mask {
    uint32_t set;  // 0: none
    uint32_t used; // of the matcher's clock
    struct kept_mask *mask;
};

// Where a walk over the trie stands at a depth: at a set, or at a frame without its returns and
// calls.
struct walk_cell {
    uint32_t set; // 0: the frame
    struct frame frame;
    bool is_closed; // the frame was a whole set: it has no returns and calls
};

struct matcher {
    struct constraint_vocab *vocab;
    const struct machine *machine;
    struct share *const *share; // [n_rule]
    struct mask_cache *cache;
    // NULL: none, or one of the texts below. It belongs to the text of that many tokens and to
    // those that continue it; a rollback to a shorter text clears it.
    const char *failure;
    uint32_t failed_at; // UINT32_MAX: not noted

    struct frame *frame; // from 1 on
    uint32_t n_frame, frame_capacity;
    uint32_t *frame_slot, n_frame_slot;
    struct frame_set *set; // set 0 is dead
    uint32_t n_set, set_capacity;
    uint32_t *set_slot, n_set_slot;
    uint32_t *pool, n_pool, pool_capacity;
    struct matcher_step *step; // [MATCHER_STEPS] by hash
    struct matcher_mask mask[MATCHER_MASKS];
    uint32_t mask_clock;
    struct mask_job *job; // the mask of the current set that is being made (masks.c), or NULL
    uint32_t collect_at;  // frames and pool entries after which the unused ones are dropped

    uint32_t *history; // [n_token + 1] sets
    uint32_t n_token, history_capacity;
    uint32_t n_lost; // tokens behind the history, for want of memory

    uint32_t *todo, n_todo, todo_capacity; // of a closure
    uint32_t found[MATCHER_SET_MAX];       // its frames with bytes
    uint32_t n_found;
    bool can_end;
    uint32_t now;           // stamp of the closure
    uint64_t work;          // of the current mask
    uint64_t spent;         // units of work since init, a few ns each
    uint32_t widest;        // frames of the current mask's largest set
    struct walk_cell *cell; // [max_depth + 1] along a walk
};

extern const char matcher_too_ambiguous[], matcher_out_of_memory[];

// RN_ERR_ARG: the start is too ambiguous.
rn_status matcher_init(struct matcher *m, struct constraint_vocab *vocab,
                       const struct machine *machine, struct share *const *share,
                       struct mask_cache *cache, rn_error *err);
void matcher_deinit(struct matcher *m);

uint32_t matcher_set(const struct matcher *m); // the current one
uint32_t matcher_next(struct matcher *m, uint32_t set, uint8_t byte);
bool matcher_can_end(const struct matcher *m, uint32_t set);

// One step of the history; false where the bytes cannot come (the set is dead then).
bool matcher_feed(struct matcher *m, const uint8_t *bytes, size_t len);
void matcher_token(struct matcher *m, int32_t id);
void matcher_restart(struct matcher *m); // one step, to the set of the start
void matcher_rollback(struct matcher *m, uint32_t n);
// Works on the mask of the current set, for about that many units (0: only finds it). True: it is
// made, and matcher_mask has it at hand, or the text has failed. Another thread may go on with it;
// any other call that moves the text drops what was made.
bool matcher_prepare(struct matcher *m, uint64_t units);
// Units that suffice for every part of a mask that cannot be divided.
uint64_t matcher_slice(const struct matcher *m);
// Clears the bits of tokens that cannot come next.
void matcher_mask(struct matcher *m, uint64_t *allowed, int32_t n_vocab);
// The bytes that must come next, as many as fit and as about that many units find.
size_t matcher_forced(struct matcher *m, char *out, size_t size, uint64_t units);

// --- for masks.c ---

static inline const struct machine_rule *frame_rule(const struct matcher *m, struct frame f) {
    return &m->machine->rule[m->machine->rule_of[f.state]];
}
// Whether the frame may step over a byte of its own.
static inline bool frame_may_grow(const struct matcher *m, struct frame f) {
    const uint8_t flags = m->machine->flags[f.state];
    if (!(flags & STATE_COUNTED) || !(flags & STATE_ACCEPT)) return true;
    const int64_t max = frame_rule(m, f)->max;
    return max < 0 || (int64_t)f.count < max;
}
// Whether the byte would make the text of a rule in this state longer.
static inline bool state_ends_with(const struct matcher *m, uint32_t state, uint8_t byte) {
    return m->machine->flags[m->machine->next[state][byte]] & STATE_ACCEPT;
}
// Whether a byte behind the frame may take another way than its own bytes.
static inline bool frame_may_leave(const struct matcher *m, struct frame f, uint8_t byte) {
    const uint8_t flags = m->machine->flags[f.state];
    if (flags & STATE_CALLS) return true;
    const struct machine_rule *rule = frame_rule(m, f);
    if (rule->greedy && state_ends_with(m, f.state, byte)) return false;
    return (flags & STATE_ACCEPT) && (rule->follow[byte >> 6] >> (byte & 63) & 1);
}

// The set of a frame that was stepped to.
uint32_t matcher_enter(struct matcher *m, struct frame f);
// The frame behind a byte, without its returns and calls; state 0: it cannot come, or a greedy rule
// would take it.
struct frame matcher_step_frame(const struct matcher *m, struct frame f, uint8_t byte);
// The set behind a state of a frame: its returns and calls, without its own bytes.
uint32_t matcher_leave(struct matcher *m, uint32_t state, uint32_t count, uint32_t parent);
uint32_t matcher_subset(struct matcher *m, const uint32_t *frame, uint32_t n);
void matcher_drop_job(struct matcher *m);
// A new stamp, which no frame has.
void matcher_stamp(struct matcher *m);
// Drops unused frames and sets where there are many; numbers of sets change.
void matcher_tidy(struct matcher *m);
// Whether a failure was for want of frames: it is cleared, and unused frames are dropped.
bool matcher_try_again(struct matcher *m);

#endif
