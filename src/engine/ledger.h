// The byte ledger: what each step had to read, and each request's share of it.
#ifndef RN_ENGINE_LEDGER_H
#define RN_ENGINE_LEDGER_H

#include "plan/cost.h"

// The whole step; expert_bytes is what the backend read of experts, in place of the expectation.
struct cost ledger_step(const struct plan *plan, enum kv_type kv, const struct batch *batch,
                        uint64_t expert_bytes);
// One sequence's share of it: an equal part of the weights, and its own KV.
uint64_t ledger_share(const struct plan *plan, enum kv_type kv, const struct batch *batch, int seq,
                      const struct cost *step);

#endif
