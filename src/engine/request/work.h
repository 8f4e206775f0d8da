// The work of one sequence in one step. The schedule makes it, the draft room adds rows, the batch
// gives it its place, sample says which tokens were chosen, publish makes events of them.
#ifndef RN_ENGINE_REQUEST_WORK_H
#define RN_ENGINE_REQUEST_WORK_H

#include "engine/account/divide.h"
#include "engine/request/seq.h"
#include "plan/cost_rates.h"

struct seq_work {
    struct seq *seq;
    int n_tokens;   // evaluated this step
    int n_again;    // of them, the first ones, which were evaluated before
    int n_draft;    // of them, the last ones, which are drafted; each is one of the n_out rows
    int n_verified; // of them, the first ones, behind which the choice is described, or the end is
    int n_out;      // rows whose result is wanted: the last ones
    int n_hidden;   // rows before them whose hidden state is wanted
    rn_drafter drafter;       // of the n_draft
    int at;                   // its place in the batch
    int first_pos, first_out; // as in the batch
    int first_hidden;         // of the n_hidden
    bool is_ahead;            // later rows may refer to the token that it chooses
    bool samples;   // a token is chosen after its last known token, and after each draft that was
                    // right
    bool has_guess; // free drafters had a token for it, drafted or not (seq_draft.guess)
    bool failed;    // no token was possible after the chosen ones
    int first_pick, n_pick; // the chosen tokens
    int n_accepted;         // of them, the first ones, which were drafted
    struct divide_own own;  // its part of the step's time; made when the step has landed
    uint64_t ns;            // its sequence's time up to then, which is to be divided
};

// Whether the step only adds to its text.
static inline bool seq_is_stream(const struct seq *seq) {
    return seq_known(seq) - seq_next(seq) == 1 + seq->n_again;
}

// The work's rows join the shape of a step. first_pos: of the first row.
static inline void seq_work_shape(const struct plan *plan, const struct seq_work *work,
                                  int first_pos, struct batch_shape *shape) {
    batch_shape_add(plan, shape, first_pos, work->n_tokens, work->n_out);
    if (work->seq->pooling) shape->n_logits -= work->n_out;
}

#endif
