// Where a sequence's time went. A sequence's account divides its life, from submit to its last
// token, among the causes of rn_cause. It grows by stretches, each from the mark to `now`: a wait
// has one cause, a step is divided (divide.h). A token closes the gap that the stretches since the
// last token make.
//
//   submit      admitted    step      step (token)   step   paused ... resumed   step (token)
//   | QUEUE,PAGES  |  divided  | divided   |  divided  |       READER       | divided |
//   mark --------> mark -----> mark -----> mark ...
//
// Invariants: open.ns is the time from the last token (or submit) to the mark; every share's ns is
// the sum of its cause_ns. Nothing here reads a clock, or allocates. Called by the step's thread
// (step/charge.c); the size of an account is constant.
#ifndef RN_ENGINE_ACCOUNT_ACCOUNT_H
#define RN_ENGINE_ACCOUNT_ACCOUNT_H

#include "runnel.h"

// Reasons for admission to stop, each with a clock of the engine.
enum account_block { ACCOUNT_PLACES, ACCOUNT_PAGES, ACCOUNT_BLOCKS };

// Members that every token reads and writes come first, close together: a run replaces them in the
// caches.
struct account {
    uint64_t mark_ns;                 // all earlier time is divided
    rn_share open;                    // since the last token
    rn_share decode;                  // sum.decode
    rn_work work;                     // sum.decode_work
    int n_tokens;                     // after the first
    int span_tokens;                  // of a full span
    rn_span last;                     // the last one of sum.span, whose place is behind the others
    uint64_t span_ns[RN_CAUSE_COUNT]; // of it, where full ones have several tokens
    int slow_least;                   // the shortest of sum.slow, where it is full
    uint64_t slow_least_ns;           // a gap that is not longer is no news; 0: there is room
    uint64_t slow_ns[RN_SLOW_GAPS];   // of sum.slow
    rn_account sum;                   // complete after account_end
    uint64_t blocked_mark_ns[ACCOUNT_BLOCKS]; // of the engine's block clocks, at the mark of a wait
};

void account_init(struct account *account, uint64_t submit_ns);
// The time since the mark has one cause. No time passed: nothing happens.
void account_add(struct account *account, rn_cause cause, uint64_t now_ns);
// A wait: how much of the time since the mark admission lacked places or pages. The rest has its
// own cause: a step was running.
void account_wait(struct account *account, const uint64_t blocked_ns[ACCOUNT_BLOCKS], rn_cause rest,
                  uint64_t now_ns);
// The time since the mark is divided in the proportions of part[], which are those of a step. Time
// beyond their sum was before the step: it is the host's. Where it is less than their sum, the step
// had begun before the mark: the host's part shrinks first.
void account_divide(struct account *account, const double part[RN_CAUSE_COUNT], uint64_t now_ns);
// The same in two calls, for a step: the mark moves first, and the stretch that was before it is
// divided when its sequence is looked at.
uint64_t account_advance(struct account *account, uint64_t now_ns);
void account_divide_ns(struct account *account, const double part[RN_CAUSE_COUNT], uint64_t ns);

// A token at the mark closes the gap, whose parts are added to total[]. Returns the gap's largest
// cause; NONE: it came with the token before. *ns: the gap's length.
rn_cause account_token(struct account *account, uint64_t total[RN_CAUSE_COUNT], uint64_t *ns);
// The sequence is over at the mark: time without a token goes to the rest, and sum is complete.
void account_end(struct account *account);

#endif
