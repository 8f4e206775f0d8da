// The byte ledger: the bytes that each step had to read, and each request's share of them. Called
// after every run, so it works on the plan's precomputed rates.
#ifndef RN_ENGINE_STEP_LEDGER_H
#define RN_ENGINE_STEP_LEDGER_H

#include "plan/batch.h"
#include "plan/cost_rates.h"
#include "runnel.h"

// The whole step; expert_bytes are the bytes of experts that the backend read, in place of the
// expectation.
struct cost ledger_step(const struct cost_rates *rates, const struct batch_shape *shape,
                        uint64_t expert_bytes);
// One sequence's share of a step of n_seqs: an equal part of the weights, and its own KV.
uint64_t ledger_share(const struct cost_rates *rates, const struct plan *plan,
                      const struct batch_seq *seq, int n_seqs, const struct cost *step);
// A step of that many tokens ran.
void ledger_count(rn_engine_stats *stats, int64_t n_tokens);

#endif
