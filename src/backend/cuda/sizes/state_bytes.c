// Pages of recurrent groups.
//
// A page has the states of all layers of its group, and all pages of a layer are together (struct
// step_kv). A layer's part has those of its ops, in the order of the plan: of a convolution the
// last inputs in f32, of heads their tiles (stage.h), in f32 or bf16. Layers have equal bytes.
#include "backend/cuda/layout.h"
#include "backend/cuda/stage.h"

enum { PART_ALIGN = 128 };

static uint64_t part_bytes(const struct plan *plan, const struct op *op, bool is_bf16) {
    uint64_t bytes;
    if (op->kind == OP_CONV)
        bytes = (uint64_t)(op->state.taps - 1) * (uint64_t)cuda_ld(plan->buffer[op->in[0]].width) *
                sizeof(float);
    else
        bytes = (uint64_t)op->state.n_head *
                state_head_bytes(op->state.dim_k, op->state.dim_v, is_bf16);
    return (bytes + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
}

uint64_t cuda_state_at(const struct plan *plan, const struct op *op, bool is_bf16) {
    uint64_t at = 0;
    for (const struct op *other = plan->op; other < op; other++)
        if (op_has_state(other->kind) && other->state.group == op->state.group &&
            other->state.layer == op->state.layer)
            at += part_bytes(plan, other, is_bf16);
    return at;
}

uint64_t cuda_state_bytes(const struct plan *plan, int group, bool is_bf16) {
    uint64_t most = PART_ALIGN;
    for (int i = 0; i < plan->n_op_all; i++) {
        const struct op *op = &plan->op[i];
        if (!op_has_state(op->kind) || op->state.group != group) continue;
        const uint64_t end = cuda_state_at(plan, op, is_bf16) + part_bytes(plan, op, is_bf16);
        if (end > most) most = end;
    }
    return most;
}
