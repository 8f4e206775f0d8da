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

static struct stage_route route_stage(const struct compiler *c, int index) {
    const struct op *op = &c->plan->op[index];
    struct stage_route s = {.logit = buffer_f32(c, op->in[0]),
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
    s.expert_bytes = expert_bytes_of(c, index);
    s.table = route_table_of(c, c->plan->buffer[op->in[0]].width, op->route.n_used);
    return s;
}

// Whether an op from `from` on reads what the buffer has there.
static bool is_read(const struct compiler *c, int from, int buffer) {
    for (int i = from; i < c->end; i++) {
        if (cuda_reads(&c->plan->op[i], buffer)) return true;
        if (writes(&c->plan->op[i], buffer)) return false;
    }
    return buffer == c->plan->hidden || buffer == c->plan->logits;
}

// ROUTE, two EXPERTS of one input, their GATE, EXPERTS of its rows, COMBINE, and no other reader.
enum { UP = 1, DOWN = 4, SUM = 5, N_FUSED = 6 };

static bool is_fused(const struct compiler *c, int index) {
    const struct plan *plan = c->plan;
    const struct op *route = &plan->op[index], *up = route + UP, *down = route + DOWN;
    const struct op *sum = route + SUM;
    int second;
    if (!c->is_small || index + N_FUSED > c->end) return false;
    const struct op *gate = cuda_pair_of(plan, index + UP, &second);
    if (!gate || up->kind != OP_EXPERTS || down->kind != OP_EXPERTS || sum->kind != OP_COMBINE)
        return false;
    if (up->in[1] != route->out || down->in[0] != gate->out || down->in[1] != route->out)
        return false;
    if (sum->in[0] != down->out || sum->in[1] != route->out) return false;
    if (cuda_weighs(up) || cuda_weighs(down) || sum->experts.weighs_input) return false;
    if (up->rows != route->rows || down->rows != route->rows || sum->rows != route->rows)
        return false;
    if (plan->buffer[route->in[0]].width > EXPERTS_MOST || route->route.n_used > EXPERTS_USED)
        return false;
    return !is_read(c, index + N_FUSED, route->out) && !is_read(c, index + N_FUSED, down->out);
}

static void experts_add(struct compiler *c, int index) {
    const struct op *route = &c->plan->op[index], *sum = route + SUM;
    prepare_input(c, index + UP, false);
    struct stage *s = stage_add(c, STAGE_UP, route + UP, name_of(c, index, DOWN));
    s->experts.route = route_stage(c, index);
    product_fill(c, &s->experts.product, index + UP);
    s = stage_add(c, STAGE_DOWN, route + DOWN, name_of(c, index + DOWN, 2));
    s->experts.route = route_stage(c, index);
    product_fill(c, &s->experts.product, index + DOWN);
    s->experts.sum = buffer_f32(c, sum->out);
    s->experts.ld_sum = ld_of(c, sum->out);
    s->experts.add = !sum->experts.set;
}

int route_add(struct compiler *c, int index) {
    if (is_fused(c, index)) {
        experts_add(c, index);
        return N_FUSED;
    }
    stage_add(c, STAGE_ROUTE, &c->plan->op[index], "route")->route = route_stage(c, index);
    return 1;
}

struct rows16 weighed_rows(const struct compiler *c, const struct op *op) {
    const struct cuda_buffer *buffer = &c->b->layout.buffer[op->in[0]];
    return (struct rows16){.at = (uint16_t *)(void *)(c->b->memory + c->b->layout.weighed_at),
                           .ld = buffer->ld16,
                           .n_groups = c->is_small ? 0 : buffer->n_groups,
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
    if (c->is_small) return;
    s->row.position = route_of_experts(c, index).position;
    s->row.n_position = 1;
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
