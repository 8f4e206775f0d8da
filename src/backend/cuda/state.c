// The launches of ops with a state. The kernels are in state.cu, the pages in sizes/state_bytes.c.
#include "backend/cuda/state.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.h"

cudaError_t cuda_state_prepare(const struct cuda_backend *b) {
    cudaError_t code = cudaSuccess;
    for (int i = 0; i < b->plan->n_op_all && !code; i++) {
        const struct op *op = &b->plan->op[i];
        if (op->kind != OP_DELTA && op->kind != OP_SCAN) continue;
        const int kind = op->kind == OP_DELTA ? STAGE_DELTA : STAGE_SCAN;
        code =
            cudaFuncSetAttribute(state_kernel(kind, state_units(op->state.dim_k),
                                              b->sizes.bf16_states),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, (int)b->shared_most);
    }
    return code;
}

// Rows are shared out to more blocks than the device runs at once; no more, because each block
// reads the weights, and rows before its own.
static cudaError_t launch_conv(struct cuda_backend *b, struct state_args *args, int n_rows) {
    enum { BLOCKS = 16 };                                                    // of a multiprocessor
    const int each = args->stage.taps == 3 || args->stage.taps == 4 ? 4 : 1; // channels
    const int of_block = CONV_THREADS * each;
    args->n_parts = (args->stage.width + of_block - 1) / of_block;
    const int64_t rows = (int64_t)n_rows * args->n_parts / (BLOCKS * b->n_sm) + 1;
    args->n_each = rows < CONV_ROWS ? (int)rows : (int)CONV_ROWS;
    const int64_t chunks = (n_rows + args->n_each - 1) / args->n_each;
    return cuda_launch(conv_kernel(args->stage.taps), (uint64_t)(chunks * args->n_parts),
                       CONV_THREADS, 0, args, b->overlaps, b->stream);
}

static cudaError_t launch_heads(struct cuda_backend *b, int kind, struct state_args *args,
                                const struct cuda_shape *shape) {
    const struct stage_state *s = &args->stage;
    const int units = state_units(s->dim_k), rows = shape->seq_rows;
    args->n_parts = (s->dim_v + STATE_BLOCK_COLS - 1) / STATE_BLOCK_COLS;
    args->chunk = rows < STATE_CHUNK ? rows : (int)STATE_CHUNK;
    args->n_slots = (rows + args->chunk - 1) / args->chunk;
    if (args->n_slots > STATE_SLOTS) args->n_slots = STATE_SLOTS;
    uint32_t shared = (uint32_t)args->n_slots * STATE_SLOT_BYTES(units, args->chunk);
    if (shared > b->shared_most) { // of other GPUs: two slots are enough
        args->n_slots--;
        shared = (uint32_t)args->n_slots * STATE_SLOT_BYTES(units, args->chunk);
    }
    return cuda_launch(state_kernel(kind, units, s->is_bf16),
                       (uint64_t)shape->n_seqs * (uint64_t)s->n_head * (uint64_t)args->n_parts,
                       STATE_THREADS, shared, args, b->overlaps, b->stream);
}

cudaError_t cuda_state_launch(struct cuda_backend *b, const struct stage *s,
                              const struct cuda_shape *shape, struct launch_clock clock) {
    struct state_args args = {.stage = s->state,
                              .step = (const struct step *)(const void *)shape->upload,
                              .clock = clock,
                              .is_early = !shape->has_pages && !b->profiling};
    return s->kind == STAGE_CONV ? launch_conv(b, &args, shape->n_tokens)
                                 : launch_heads(b, s->kind, &args, shape);
}
