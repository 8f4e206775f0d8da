// The cost of every op for a given batch. A new op adds a case here; the ledger, `inspect` and the
// roofline follow.
#include "plan/cost.h"

// Positions that a query at pos sees in a group.
static int64_t visible(const struct plan_kv_group *group, int64_t pos) {
    return pos + 1 - kv_first_seen(group->kind, group->window, pos);
}

// Adds the queries at positions [first, first + n) of one sequence: KV is read once for all of
// them.
static void add_queries(const struct plan_kv_group *group, int64_t first, int64_t n, int64_t *read,
                        int64_t *pairs) {
    if (n == 0) return;
    if (group->kind == KV_RECURRENT) {
        *read += 1;
        return;
    }
    const int64_t last = first + n - 1;
    const int64_t oldest = first + 1 - visible(group, first);
    *read += last + 1 - oldest;
    for (int64_t pos = first; pos <= last; pos++) *pairs += visible(group, pos);
}

void batch_shape_decode(const struct plan *plan, int pos, struct batch_shape *out) {
    *out = (struct batch_shape){.n_tokens = 1, .n_out = 1, .n_logits = 1, .n_seqs = 1};
    for (int g = 0; g < plan->n_group; g++)
        for (int rows = 0; rows < 2; rows++)
            add_queries(&plan->group[g], pos, 1, &out->kv_read[g][rows], &out->kv_pairs[g][rows]);
}

// Of one row of the buffer's domain, all its slots.
static uint64_t width_bytes(const struct plan *plan, int buffer) {
    if (buffer == PLAN_NONE) return 0;
    const struct plan_buffer *b = &plan->buffer[buffer];
    return (uint64_t)b->width * (uint64_t)b->slots * sizeof(float);
}

static uint64_t vector_bytes(const struct plan *plan, int weight) {
    return weight == PLAN_NONE ? 0 : plan->weight[weight].bytes;
}

double cost_experts_touched(int total, int used, int64_t n) {
    double untouched = 1;
    for (int64_t i = 0; i < n && untouched > 1e-12; i++) untouched *= 1 - (double)used / total;
    return total * (1 - untouched);
}

static uint64_t rows_of(const struct batch_shape *shape, enum row_domain rows) {
    return (uint64_t)(rows == ROWS_TOKENS ? shape->n_tokens
                      : rows == ROWS_OUT  ? shape->n_out
                                          : shape->n_logits);
}

// A sequence's state is read when its rows begin and written when they end; the states that blocks
// leave on the way are not counted.
static void state_cost(const struct plan *plan, const struct op *op, const struct kv_bytes *kv,
                       const struct batch_shape *shape, struct cost *cost) {
    const uint64_t rows = rows_of(shape, op->rows);
    const uint64_t floats = (uint64_t)op_state_floats(plan, op);
    const uint64_t n_seqs = (uint64_t)shape->kv_read[op->state.group][op->rows];
    const struct plan_kv_group *group = &plan->group[op->state.group];
    const uint64_t layer = kv->page[op->state.group] / (uint64_t)group->n_layer;
    const uint64_t exact = (uint64_t)group->exact * sizeof(float);
    const bool is_whole = op->kind == OP_CONV || layer < exact; // no page is known
    cost->kv_read_bytes =
        2 * n_seqs * (is_whole ? floats * sizeof(float) : layer - exact); // written
    cost->weight_bytes = vector_bytes(plan, op->weight) + vector_bytes(plan, op->bias);
    if (op->kind == OP_CONV) { // an activation is taken as 4
        const uint64_t width = (uint64_t)plan->buffer[op->out].width;
        cost->flops = rows * width * (2 * (uint64_t)op->state.taps + 4);
        return;
    }
    if (op->kind == OP_DELTA) cost->act_bytes += rows * width_bytes(plan, op->state.beta);
    if (op->kind == OP_SCAN) cost->weight_bytes += vector_bytes(plan, op->state.skip);
    cost->flops = rows * floats * (op->kind == OP_DELTA ? 8 : 5);
}

// Of one token in one layer, scales included; a head's bytes are a multiple of the page's tokens.
static uint64_t layer_token_bytes(const struct plan *plan, int group, const struct kv_bytes *kv) {
    return kv->page[group] / (uint64_t)plan->group[group].n_layer / KV_PAGE_TOKENS;
}

struct cost op_cost(const struct plan *plan, const struct op *op, const struct kv_bytes *kv,
                    const struct batch_shape *shape) {
    const uint64_t rows = rows_of(shape, op->rows);
    struct cost cost = {0};
    if (rows == 0) return cost;
    cost.act_bytes = rows * (width_bytes(plan, op->in[0]) + width_bytes(plan, op->in[1]) +
                             width_bytes(plan, op->out));
    const struct plan_weight *weight = op->weight == PLAN_NONE ? NULL : &plan->weight[op->weight];
    const uint64_t width = op->out == PLAN_NONE ? 0 : (uint64_t)plan->buffer[op->out].width;
    switch (op->kind) {
    case OP_EMBED: // only the rows looked up
        cost.weight_bytes = rows * format_row_bytes(weight->format, weight->cols);
        break;
    case OP_INPUT:
    case OP_GATHER:
        break;
    case OP_NORM:
        cost.weight_bytes = vector_bytes(plan, op->weight) + vector_bytes(plan, op->bias);
        cost.flops = rows * width * 4;
        break;
    case OP_MATMUL:
        cost.weight_bytes = weight->bytes + vector_bytes(plan, op->bias);
        cost.flops = rows * (uint64_t)weight->rows * (uint64_t)weight->cols * 2;
        if (op->matmul.add) cost.act_bytes += rows * width_bytes(plan, op->out);
        break;
    case OP_ROPE:
        cost.act_bytes += rows * width_bytes(plan, op->out);
        cost.flops =
            rows * (uint64_t)op->rope.n_head * (uint64_t)plan->rope[op->rope.rope].n_rot * 3;
        break;
    case OP_KV_APPEND:
        cost.kv_write_bytes = rows * layer_token_bytes(plan, op->kv.group, kv);
        break;
    case OP_ATTENTION: {
        const struct plan_kv_group *group = &plan->group[op->kv.group];
        const uint64_t dims = (uint64_t)(group->dim_k + group->dim_v);
        cost.weight_bytes = vector_bytes(plan, op->weight);
        cost.kv_read_bytes = (uint64_t)shape->kv_read[op->kv.group][op->rows] *
                             layer_token_bytes(plan, op->kv.group, kv);
        cost.flops =
            (uint64_t)shape->kv_pairs[op->kv.group][op->rows] * (uint64_t)op->kv.n_head * dims * 2;
        break;
    }
    case OP_CONV:
    case OP_DELTA:
    case OP_SCAN:
        state_cost(plan, op, kv, shape, &cost);
        break;
    case OP_COLUMNS:
        cost.act_bytes = rows * 2 * (uint64_t)(op->columns.n * op->columns.len) * sizeof(float);
        break;
    case OP_GATE:
        cost.flops = rows * width * (uint64_t)plan->buffer[op->out].slots * 4;
        break;
    case OP_ROUTE:
        cost.weight_bytes = vector_bytes(plan, op->weight) + vector_bytes(plan, op->bias);
        cost.flops = rows * (uint64_t)plan->buffer[op->in[0]].width * (uint64_t)op->route.n_used;
        break;
    case OP_EXPERTS: {
        const int used = plan->buffer[op->out].slots;
        const double share =
            cost_experts_touched(weight->n_expert, used, (int64_t)rows) / weight->n_expert;
        cost.weight_bytes = cost.expert_bytes =
            (uint64_t)((double)(weight->bytes + vector_bytes(plan, op->bias)) * share + 0.5);
        cost.flops = rows * (uint64_t)used * (uint64_t)(weight->rows * weight->cols) * 2;
        if (op->experts.weighs_input) cost.flops += rows * (uint64_t)used * (uint64_t)weight->cols;
        break;
    }
    case OP_COMBINE:
        cost.flops = rows * width * (uint64_t)plan->buffer[op->in[0]].slots * 2;
        break;
    case OP_SOFTCAP:
        cost.act_bytes += rows * width_bytes(plan, op->out);
        cost.flops = rows * width * 8;
        break;
    case OP_TEMPER:
        cost.act_bytes += rows * width_bytes(plan, op->out);
        cost.flops = rows * width;
        break;
    case OP_HEADS: // a head reads its own columns and writes its own rows
        cost.weight_bytes = weight->bytes;
        cost.act_bytes =
            rows * (uint64_t)(weight->rows + weight->cols) * (uint64_t)op->heads.n * sizeof(float);
        cost.flops = rows * (uint64_t)op->heads.n * (uint64_t)(weight->rows * weight->cols) * 2;
        break;
    case OP_COUNT:
        break;
    }
    return cost;
}

struct cost plan_cost(const struct plan *plan, const struct kv_bytes *kv,
                      const struct batch_shape *shape) {
    struct cost sum = {0};
    for (int i = 0; i < plan->n_op; i++) {
        const struct cost one = op_cost(plan, &plan->op[i], kv, shape);
        sum.weight_bytes += one.weight_bytes;
        sum.expert_bytes += one.expert_bytes;
        sum.kv_read_bytes += one.kv_read_bytes;
        sum.kv_write_bytes += one.kv_write_bytes;
        sum.act_bytes += one.act_bytes;
        sum.flops += one.flops;
    }
    return sum;
}

uint64_t plan_kv_token_bytes(const struct plan *plan, const struct kv_bytes *kv) {
    uint64_t bytes = 0;
    for (int g = 0; g < plan->n_group; g++)
        if (plan->group[g].kind != KV_RECURRENT) // which keeps one state, however many tokens
            bytes += kv->page[g] / KV_PAGE_TOKENS;
    return bytes;
}

uint64_t plan_cold_bytes(const struct plan *plan) {
    uint64_t bytes = 0;
    for (int i = 0; i < plan->n_weight; i++)
        if (plan->weight[i].is_cold) bytes += plan->weight[i].bytes;
    return bytes;
}

uint64_t plan_state_bytes(const struct plan *plan, const struct kv_bytes *kv) {
    uint64_t bytes = 0;
    for (int g = 0; g < plan->n_group; g++)
        if (plan->group[g].kind == KV_RECURRENT) bytes += kv->page[g];
    return bytes;
}
