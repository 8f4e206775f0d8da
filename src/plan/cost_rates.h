// plan_cost() for callers that ask at every step. Apart from the experts it is affine in the
// numbers of a batch. So its coefficients are found once, by asking op_cost() for unit batches.
// Applying them takes a time that does not depend on the number of ops. A new op needs nothing here
// as long as its cost is affine in its rows and linear in the KV bytes that it reads. Callers: the
// engine's ledger and its price.
#ifndef RN_PLAN_COST_RATES_H
#define RN_PLAN_COST_RATES_H

#include "plan/cost.h"

enum { COST_DOMAINS = ROWS_LOGITS + 1, COST_MAX_EXPERTS = 32 };

// Products over experts that read equally many bytes: each rounds its expectation, so they are
// counted instead of summed.
struct cost_experts {
    enum row_domain rows;
    int total, used;
    uint64_t bytes; // of all experts of one product
    uint64_t count;
};

struct cost_rates {
    int n_group;
    bool is_empty;                           // of a class without ops
    struct cost fixed[COST_DOMAINS];         // when the domain has a row at all
    struct cost row[COST_DOMAINS];           // for each row
    struct cost read[PLAN_MAX_KV_GROUPS][2]; // for each kv_read
    struct cost pair[PLAN_MAX_KV_GROUPS][2]; // for each of kv_pairs
    int n_experts;
    struct cost_experts experts[COST_MAX_EXPERTS];
};

void cost_rates_init(struct cost_rates *rates, const struct plan *plan, const struct kv_bytes *kv);
// The same for the ops of one class.
void cost_rates_init_class(struct cost_rates *rates, const struct plan *plan,
                           const struct kv_bytes *kv, enum op_class ops);
// = plan_cost(plan, kv, shape). Products over experts of more sizes than the table holds are off
// by at most half a byte each.
struct cost cost_rates_apply(const struct cost_rates *rates, const struct batch_shape *shape);

// The KV bytes that such a sequence reads (see batch_shape_add).
uint64_t cost_rates_kv_bytes(const struct cost_rates *rates, const struct plan *plan, int first_pos,
                             int n_tokens, int n_out);

// One more sequence: n_tokens rows from first_pos on, of which the last n_out are out rows that
// want logits (a caller whose rows want none takes them off n_logits again).
void batch_shape_add(const struct plan *plan, struct batch_shape *shape, int first_pos,
                     int n_tokens, int n_out);

#endif
