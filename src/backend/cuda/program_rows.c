// Ops of rows: embedding, gather, norms that are stages of their own, rope, gates and the like.
#include <assert.h>
#include <string.h>

#include "backend/cuda/program.h"

// ---------------------------------------------------------------- norms

bool has_weight_per_element(const struct plan *plan, const struct op *norm) {
    if (norm->weight == PLAN_NONE) return false;
    const struct plan_weight *weight = &plan->weight[norm->weight];
    return weight->rows * weight->cols > norm->norm.group;
}

const float *norm_weight(const struct compiler *c, const struct op *norm) {
    return norm->weight == PLAN_NONE ? constants_of(c, 1) : vector_of(c, norm->weight);
}

int norm_input(const struct op *norm) {
    return norm->norm.kind == NORM_RMS ? INPUT_RMS : INPUT_LAYER;
}

struct norm_by norm_by_of(const struct compiler *c, const struct op *norm) {
    const bool is_layer = norm->norm.kind != NORM_RMS;
    return (struct norm_by){.weight = norm_weight(c, norm),
                            .bias = !is_layer                 ? NULL
                                    : norm->bias == PLAN_NONE ? constants_of(c, 0)
                                                              : vector_of(c, norm->bias),
                            .eps = norm->norm.eps,
                            .is_layer = is_layer};
}

void norm_add(struct compiler *c, const struct op *op, int flags) {
    struct stage *s = stage_add(c, STAGE_NORM, op, "norm");
    s->flags = flags;
    s->row = (struct stage_rows_op){.in = buffer_f32(c, op->in[0]),
                                    .out = buffer_f32(c, op->out),
                                    .ld_in = ld_of(c, op->in[0]),
                                    .ld_out = ld_of(c, op->out),
                                    .width = c->plan->buffer[op->out].width,
                                    .group = op->norm.group,
                                    .add = op->norm.add,
                                    .scale = op->norm.scale,
                                    .input = norm_input(op),
                                    .norm = norm_by_of(c, op)};
    if (has_weight_per_element(c->plan, op)) s->row.weight_step = op->norm.group;
}

// ---------------------------------------------------------------- the other ops

void gather_add(struct compiler *c, const struct op *op, bool waits) {
    struct stage *s = stage_add(c, STAGE_GATHER, op, "gather");
    s->flags = waits ? 0 : STAGE_JOINS;
    s->row = (struct stage_rows_op){.in = buffer_f32(c, op->in[0]),
                                    .out = buffer_f32(c, op->out),
                                    .ld_in = ld_of(c, op->in[0]),
                                    .ld_out = ld_of(c, op->out),
                                    .width = c->plan->buffer[op->out].width};
}

void embed_add(struct compiler *c, const struct op *op) {
    const struct cuda_weight *w = &c->b->layout.weight[op->weight];
    struct stage *s = stage_add(c, STAGE_EMBED, op, "embed");
    s->row = (struct stage_rows_op){.out = buffer_f32(c, op->out),
                                    .ld_out = ld_of(c, op->out),
                                    .width = c->plan->buffer[op->out].width,
                                    .add = op->embed.add,
                                    .positions = op->embed.positions,
                                    .scale = op->embed.scale,
                                    .codec = (int)w->codec,
                                    .unit_bytes = codec_at(w->codec)->unit_bytes,
                                    .n_units = w->n_units,
                                    .n_rows_table = (int)c->plan->weight[op->weight].rows,
                                    .table = c->b->weights + w->at};
}

// Rows that the batch brings.
void input_add(struct compiler *c, const struct op *op) {
    struct stage *s = stage_add(c, STAGE_INPUT, op, "input");
    s->row = (struct stage_rows_op){.out = buffer_f32(c, op->out),
                                    .ld_out = ld_of(c, op->out),
                                    .width = c->plan->buffer[op->out].width};
}

void rope_add(struct compiler *c, const struct op *op) {
    const struct plan_rope *rope = &c->plan->rope[op->rope.rope];
    struct stage *s = stage_add(c, STAGE_ROPE, op, "rope");
    s->row = (struct stage_rows_op){
        .in2 = (const float *)(const void *)(c->b->memory + c->b->layout.rope_at[op->rope.rope]),
        .out = buffer_f32(c, op->out),
        .ld_out = ld_of(c, op->out),
        .n_head = op->rope.n_head,
        .dim = op->rope.dim,
        .from = op->rope.from,
        .n_rot = rope->n_rot,
        .halves = rope->style == ROPE_HALVES};
}

static_assert((int)GATE_KIND_XIELU == (int)GATE_XIELU, "kernels have the plan's number");

void gate_add(struct compiler *c, int index) {
    const struct op *op = &c->plan->op[index];
    struct stage *s = stage_add(c, STAGE_GATE, op, "gate");
    int type = 0;
    const bool is_16 = is_written_as_16(c, index, &type);
    const struct rows16 none = {0};
    s->row = (struct stage_rows_op){.in = buffer_f32(c, op->in[0]),
                                    .in2 = op->in[1] == PLAN_NONE ? NULL : buffer_f32(c, op->in[1]),
                                    .out = buffer_f32(c, op->out),
                                    .out16 = is_16 ? rows16_of(c, op->out, type) : none,
                                    .ld_in = ld_of(c, op->in[0]),
                                    .ld_in2 = op->in[1] == PLAN_NONE ? 0 : ld_of(c, op->in[1]),
                                    .ld_out = ld_of(c, op->out),
                                    .width = c->plan->buffer[op->out].width,
                                    .slots = c->plan->buffer[op->out].slots,
                                    .gate = (int)op->gate};
    s->row.is_factor = c->plan->buffer[op->in[0]].width < s->row.width;
    const struct op *norm = gated_norm_of(c, index);
    if (norm) {
        s->kind = STAGE_NORM_GATE;
        s->row.group = norm->norm.group;
        s->row.norm = norm_by_of(c, norm);
        c->list->name[c->list->n - 1] = "norm gate";
    }
    if (op->gate != GATE_XIELU) return;
    const float numbers[4] = {op->xielu.above, op->xielu.below, op->xielu.linear, op->xielu.eps};
    memcpy(s->row.xielu, numbers, sizeof numbers);
}

void softcap_add(struct compiler *c, const struct op *op) {
    struct stage *s = stage_add(c, STAGE_SOFTCAP, op, "softcap");
    s->row = (struct stage_rows_op){.out = buffer_f32(c, op->out),
                                    .ld_out = ld_of(c, op->out),
                                    .width = c->plan->buffer[op->out].width,
                                    .cap = op->softcap.cap};
}

void temper_add(struct compiler *c, const struct op *op) {
    struct stage *s = stage_add(c, STAGE_TEMPER, op, "temper");
    s->row = (struct stage_rows_op){.out = buffer_f32(c, op->out),
                                    .ld_out = ld_of(c, op->out),
                                    .width = c->plan->buffer[op->out].width,
                                    .length = op->temper.length,
                                    .offset = op->temper.offset,
                                    .scale = op->temper.factor};
}
