// Routers as stages.
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
