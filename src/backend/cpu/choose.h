// From a row of logits to a token, as plan/choice.h describes it. The steps and their order are the
// table plan/sampling.def. Nothing is kept between choices, so a token is chosen the same way
// whatever else is in the batch. Ties go to the lower id. Called by the threads of a run, each with
// a chooser of its own.
#ifndef RN_BACKEND_CPU_CHOOSE_H
#define RN_BACKEND_CPU_CHOOSE_H

#include "base/status.h"
#include "plan/choice.h"

struct choose_passes;

// Scratch for one choice at a time; allocated once. Choices at the same time need one each, and
// share nothing that changes.
struct chooser {
    const struct choose_passes *passes;
    float *logit;               // [n_vocab]
    float *peak;                // of blocks of logits; behind them, their own
    int32_t *id;                // [n_vocab]
    uint32_t *distance, *units; // [whole blocks] of the candidates that a filter's cut is among
    int32_t *near_id;           // [whole blocks] and their ids
    int n_vocab;                // the most candidates
};

rn_status chooser_init(struct chooser *chooser, int n_vocab, const struct choose_passes *passes,
                       rn_error *err);
void chooser_deinit(struct chooser *chooser);

// Returns the token, or -1 when no token that is allowed has a finite logit. The choice has
// numbers; logits: [choice->n_vocab].
int32_t chooser_choose(struct chooser *chooser, const struct choice *choice, const float *logits);

#endif
