// Stages of the ops with a state, and of the columns around them.
#include "backend/cuda/gate.h"
#include "backend/cuda/program.h"

void columns_add(struct compiler *c, const struct op *op) {
    struct stage *s = stage_add(c, STAGE_COLUMNS, op, "columns");
    s->row = (struct stage_rows_op){.in = buffer_f32(c, op->in[0]) + op->columns.from,
                                    .out = buffer_f32(c, op->out) + op->columns.to,
                                    .ld_in = ld_of(c, op->in[0]),
                                    .ld_out = ld_of(c, op->out),
                                    .n_parts = op->columns.n,
                                    .len = op->columns.len,
                                    .ld_in2 = op->columns.stride_from,
                                    .dim = op->columns.stride_to};
}

const struct op *gated_norm_of(const struct compiler *c, int index) {
    const struct plan *plan = c->plan;
    if (index <= c->first || index >= c->end) return NULL;
    const struct op *gate = &plan->op[index], *norm = gate - 1;
    if (gate->kind != OP_GATE || norm->kind != OP_NORM) return NULL;
    // all of it happens in one buffer, so nobody sees what is between
    const int buffer = gate->out, width = plan->buffer[buffer].width, group = norm->norm.group;
    if (norm->in[0] != buffer || norm->out != buffer || gate->in[1] != buffer) return NULL;
    if (gate->in[0] == buffer || plan->buffer[gate->in[0]].width != width) return NULL;
    if (plan->buffer[buffer].slots != 1 || norm->rows != gate->rows) return NULL;
    if (norm->norm.kind != NORM_RMS || norm->norm.add || norm->norm.scale != 0) return NULL;
    if (group > NORM_GATE_MOST || group == width || norm->weight == PLAN_NONE) return NULL;
    const struct plan_weight *weight = &plan->weight[norm->weight];
    if (weight->rows * weight->cols != group || gate->gate == GATE_XIELU) return NULL;
    return norm;
}

void state_add(struct compiler *c, const struct op *op) {
    const bool is_conv = op->kind == OP_CONV, is_delta = op->kind == OP_DELTA;
    const bool is_bf16 = c->b->sizes.bf16_states;
    const struct step_kv *kv = &c->b->kv[op->state.group];
    const enum stage_kind kind = is_conv ? STAGE_CONV : is_delta ? STAGE_DELTA : STAGE_SCAN;
    struct stage *s = stage_add(c, kind, op, op_name(op->kind));
    s->state = (struct stage_state){.in = buffer_f32(c, op->in[0]),
                                    .out = buffer_f32(c, op->out),
                                    .weight = vector_of(c, op->weight),
                                    .bias = vector_of(c, op->bias),
                                    .ld_in = ld_of(c, op->in[0]),
                                    .ld_out = ld_of(c, op->out),
                                    .group = op->state.group,
                                    .width = c->plan->buffer[op->out].width,
                                    .taps = op->state.taps,
                                    .n_head = op->state.n_head,
                                    .n_key = op->state.n_key,
                                    .dim_k = op->state.dim_k,
                                    .dim_v = op->state.dim_v,
                                    .silu = op->state.silu,
                                    .is_tiled = op->state.is_tiled,
                                    .is_bf16 = is_bf16,
                                    .eps = op->state.eps,
                                    .dt_min = op->state.dt_min,
                                    .dt_max = op->state.dt_max,
                                    .page_bytes = kv->page_bytes,
                                    .pages = kv->at + (uint64_t)op->state.layer * kv->layer_bytes +
                                             cuda_state_at(c->plan, op, is_bf16)};
    if (is_conv) return;
    s->state.time = buffer_f32(c, op->in[1]);
    s->state.ld_time = ld_of(c, op->in[1]);
    if (is_delta) {
        s->state.beta = buffer_f32(c, op->state.beta);
        s->state.ld_beta = ld_of(c, op->state.beta);
    } else {
        s->state.skip = vector_of(c, op->state.skip);
    }
}
