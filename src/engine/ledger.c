// See ledger.h: the costs of plan/cost.c, applied to real batches.
#include "engine/ledger.h"

struct cost ledger_step(const struct plan *plan, enum kv_type kv, const struct batch *batch,
                        uint64_t expert_bytes) {
    struct batch_shape shape;
    batch_shape_of(plan, batch, &shape);
    struct cost cost = plan_cost(plan, kv, &shape);
    cost.weight_bytes += expert_bytes - cost.expert_bytes;
    cost.expert_bytes = expert_bytes;
    return cost;
}

uint64_t ledger_share(const struct plan *plan, enum kv_type kv, const struct batch *batch, int seq,
                      const struct cost *step) {
    struct batch alone = *batch;
    alone.seq = &batch->seq[seq];
    alone.n_seqs = 1;
    alone.n_tokens = batch->seq[seq].n_tokens;
    alone.n_out = alone.n_logits = batch->seq[seq].n_out;
    struct batch_shape shape;
    batch_shape_of(plan, &alone, &shape);
    return step->weight_bytes / (uint64_t)batch->n_seqs + plan_cost(plan, kv, &shape).kv_read_bytes;
}
