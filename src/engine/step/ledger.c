// See ledger.h: the costs of plan/cost.c, applied to real batches.
#include "engine/step/ledger.h"

struct cost ledger_step(const struct cost_rates *rates, const struct batch_shape *shape,
                        uint64_t expert_bytes) {
    struct cost cost = cost_rates_apply(rates, shape);
    cost.weight_bytes += expert_bytes - cost.expert_bytes;
    cost.expert_bytes = expert_bytes;
    return cost;
}

uint64_t ledger_share(const struct cost_rates *rates, const struct plan *plan,
                      const struct batch_seq *seq, int n_seqs, const struct cost *step) {
    return step->weight_bytes / (uint64_t)n_seqs +
           cost_rates_kv_bytes(rates, plan, seq->first_pos, seq->n_tokens, seq->n_out);
}
