// The bytes that a batch must move and the operations it must compute, op by op: the byte ledger,
// the roofline and the planner all read this. Bytes are those of the file's format; padding from
// repacking is left out.
#ifndef RN_PLAN_COST_H
#define RN_PLAN_COST_H

#include "plan/plan.h"

// The numbers of a batch that costs depend on.
struct batch_shape {
    int64_t n_tokens, n_out, n_logits;
    int64_t n_seqs; // no cost needs it; predicted times do
    // per KV group: positions read, each once per sequence, and (query, key) pairs, of ROWS_TOKENS
    // and of ROWS_OUT. Recurrent groups: read is the number of sequences that have such rows, their
    // states; there are no pairs.
    int64_t kv_read[PLAN_MAX_KV_GROUPS][2];
    int64_t kv_pairs[PLAN_MAX_KV_GROUPS][2];
};

// Bytes of a KV page of each group, as the backend stores it.
struct kv_bytes {
    uint64_t page[PLAN_MAX_KV_GROUPS];
};

struct cost {
    uint64_t weight_bytes;  // read
    uint64_t expert_bytes;  // of them, expected bytes of experts for a batch of that size
    uint64_t kv_read_bytes; // of OP_CONV, OP_DELTA and OP_SCAN: their states, read and written
    uint64_t kv_write_bytes;
    uint64_t act_bytes; // activations read and written; usually in cache
    uint64_t flops;     // a multiply-add is two
};

// One sequence, one token at position pos, with logits: a decode step.
void batch_shape_decode(const struct plan *plan, int pos, struct batch_shape *out);

// Experts that n tokens touch together when each takes `used` of `total` at random: `used` for one
// token. The backend knows which experts a run really touched.
double cost_experts_touched(int total, int used, int64_t n);

struct cost op_cost(const struct plan *plan, const struct op *op, const struct kv_bytes *kv,
                    const struct batch_shape *shape);
struct cost plan_cost(const struct plan *plan, const struct kv_bytes *kv,
                      const struct batch_shape *shape);

// KV bytes that one more token keeps, over all groups. States are not counted.
uint64_t plan_kv_token_bytes(const struct plan *plan, const struct kv_bytes *kv);
// Bytes of the tables that stay in their file.
uint64_t plan_cold_bytes(const struct plan *plan);
// Bytes of the states of a sequence, one of each recurrent layer; 0: there are none.
uint64_t plan_state_bytes(const struct plan *plan, const struct kv_bytes *kv);

#endif
