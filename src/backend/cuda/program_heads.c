// Products of heads (OP_HEADS): their stage, and its launch.
#include "backend/cuda/heads.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/program.h"

void heads_add(struct compiler *c, const struct op *op) {
    const struct plan_weight *weight = &c->plan->weight[op->weight];
    const struct cuda_weight *w = &c->b->layout.weight[op->weight];
    struct stage *s = stage_add(c, STAGE_HEADS, op, weight->name);
    s->heads = (struct stage_heads){.in = buffer_f32(c, op->in[0]),
                                    .out = buffer_f32(c, op->out),
                                    .weight = (const uint8_t *const *)(const void *)(c->b->weights +
                                                                                     w->table_at),
                                    .ld_in = ld_of(c, op->in[0]),
                                    .ld_out = ld_of(c, op->out),
                                    .n = op->heads.n,
                                    .from = op->heads.from,
                                    .stride_from = op->heads.stride_from,
                                    .to = op->heads.to,
                                    .stride_to = op->heads.stride_to,
                                    .cols = (int)weight->cols,
                                    .n_units = w->n_units,
                                    .n_tiles = (int)w->n_tiles,
                                    .n_rows = (int)weight->rows,
                                    .codec = (int)w->codec};
}

cudaError_t cuda_heads_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                              struct launch_clock clock) {
    const bool is_few = n_rows <= SMALL_ROWS;
    struct heads_args args = {.stage = s->heads, .clock = clock, .n_rows = n_rows};
    const struct stage_heads *h = &args.stage;
    const int row_bytes = h->n_units * UNIT_COLS * 2;
    int rows = is_few ? (int)SMALL_ROWS : (int)HEADS_ROWS;
    while (rows > 8 && (uint32_t)(rows * row_bytes) > b->shared_most) rows -= 8;
    args.group_rows = rows;
    args.n_groups = (n_rows + rows - 1) / rows;
    args.tiles_each = is_few ? HEADS_TILES_FEW : HEADS_TILES_MANY;
    args.n_chunks = (h->n_tiles + args.tiles_each - 1) / args.tiles_each;
    const int held = n_rows < rows ? n_rows : rows;
    return cuda_launch(heads_kernel(h->codec, is_few),
                       (uint64_t)h->n * (uint64_t)args.n_groups * (uint64_t)args.n_chunks,
                       HEADS_THREADS, (uint64_t)(held * row_bytes), &args, b->overlaps, b->stream);
}

rn_status cuda_heads_prepare(struct cuda_backend *b, rn_error *err) {
    for (int i = 0; i < b->plan->n_op_all; i++) {
        const struct op *op = &b->plan->op[i];
        if (op->kind != OP_HEADS) continue;
        for (int is_few = 0; is_few < 2; is_few++) {
            const void *kernel = heads_kernel((int)b->layout.weight[op->weight].codec, is_few);
            const cudaError_t code =
                cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)b->shared_most);
            if (code) return cuda_fault(code, RN_ERR_UNSUPPORTED, "shared memory of heads", err);
        }
    }
    return RN_OK;
}
