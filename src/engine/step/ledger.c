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

// The sizes double from 8 tokens on; see rn_engine_stats.
void ledger_count(rn_engine_stats *stats, int64_t n_tokens) {
    int size = 0;
    for (int64_t most = 1; n_tokens > most && size < RN_STEP_SIZES - 1; size++)
        most = most == 1 ? 8 : 2 * most;
    stats->steps_of[size]++;
    stats->step_tokens += (uint64_t)n_tokens;
    stats->steps++;
}
