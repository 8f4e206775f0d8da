// Routers, and the rows before and behind experts, as stages.
#include "backend/cuda/program.h"

struct route_table route_table_of(const struct compiler *c, int n_expert, int n_used) {
    const int experts = c->b->layout.max_expert + 2;
    int32_t *at = (int32_t *)(void *)(c->b->memory + c->b->layout.route_at);
    struct route_table t = {.n_expert = n_expert, .n_used = n_used};
    t.n_active = at;
    t.arrived = (uint32_t *)(at + 1);
    t.first = at + 4;
    t.active = t.first + experts;
    t.first_padded = t.active + experts;
    t.pair = t.first_padded + experts;
    t.position = t.pair + c->b->layout.max_pairs;
    return t;
}

// Bytes of the file of one expert, over all products that read the route which `index` writes.
static uint64_t expert_bytes_of(const struct compiler *c, int index) {
    const struct plan *plan = c->plan;
    uint64_t bytes = 0;
    for (int i = index + 1; i < c->end; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind == OP_EXPERTS && op->in[1] == plan->op[index].out)
            bytes += plan->weight[op->weight].bytes / (uint64_t)plan->weight[op->weight].n_expert;
        if (writes(op, plan->op[index].out)) break;
    }
    return bytes;
}

void route_add(struct compiler *c, int index) {
    const struct op *op = &c->plan->op[index];
    struct stage *s = stage_add(c, STAGE_ROUTE, op, "route");
    s->route =
        (struct stage_route){.logit = buffer_f32(c, op->in[0]),
                             .out = buffer_f32(c, op->out),
                             .bias = vector_of(c, op->bias),
                             .factor = vector_of(c, op->weight),
                             .ld_in = ld_of(c, op->in[0]),
                             .ld_out = ld_of(c, op->out),
                             .score = (int)op->route.score,
                             .is_by_scores = op->bias != PLAN_NONE ||
                                             (op->route.n_group > 0 && op->route.group_best > 1),
                             .normalize = op->route.normalize,
                             .n_group = op->route.n_group,
                             .n_group_used = op->route.n_group_used,
                             .group_best = op->route.group_best,
                             .scale = op->route.scale,
                             .least = op->route.least,
                             .jitter = op->route.jitter};
    s->route.expert_bytes = expert_bytes_of(c, index);
    s->route.table = route_table_of(c, c->plan->buffer[op->in[0]].width, op->route.n_used);
}

struct rows16 weighed_rows(const struct compiler *c, const struct op *op) {
    return (struct rows16){.at = (uint16_t *)(void *)(c->b->memory + c->b->layout.weighed_at),
                           .ld = c->b->layout.buffer[op->in[0]].ld16,
                           .is_bf16 = cuda_input_type(c->plan, op)};
}

void weigh_add(struct compiler *c, int index) {
    const struct op *op = &c->plan->op[index];
    const struct op *norm = c->norm_of[index] == PLAN_NONE ? NULL : &c->plan->op[c->norm_of[index]];
    const int source = norm ? norm->in[0] : op->in[0];
    struct stage *s = stage_add(c, STAGE_WEIGH, op, "input");
    s->ops = OPS_OTHER;
    s->row = (struct stage_rows_op){.in = buffer_f32(c, source),
                                    .in2 = buffer_f32(c, op->in[1]),
                                    .out16 = weighed_rows(c, op),
                                    .ld_in = ld_of(c, source),
                                    .ld_in2 = ld_of(c, op->in[1]),
                                    .width = c->plan->buffer[source].width,
                                    .n_used = c->plan->buffer[op->out].slots,
                                    .input = norm ? norm_input(norm) : INPUT_F32};
    if (norm) s->row.norm = norm_by_of(c, norm);
}

void combine_add(struct compiler *c, const struct op *op) {
    struct stage *s = stage_add(c, STAGE_COMBINE, op, "combine");
    s->row =
        (struct stage_rows_op){.in = buffer_f32(c, op->in[0]),
                               .in2 = op->experts.weighs_input ? NULL : buffer_f32(c, op->in[1]),
                               .out = buffer_f32(c, op->out),
                               .ld_in = ld_of(c, op->in[0]),
                               .ld_in2 = ld_of(c, op->in[1]),
                               .ld_out = ld_of(c, op->out),
                               .width = c->plan->buffer[op->out].width,
                               .n_used = c->plan->buffer[op->in[0]].slots,
                               .add = !op->experts.set};
}
