// Products by head: each head of a row has a matrix of its own, and reads and writes a part of the
// row in place. A head is a matrix product over all rows, by the kernels of program.c. Bits do not
// depend on the order of heads: their parts of the output do not overlap. Called by program.c.
#include "backend/cpu/cpu.h"

// Rows of the quantized input are stored head after head, each as a product of its own.
static void quantize_heads(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct cpu_rows_job *job = ctx;
    const struct cpu_backend *b = job->b;
    const struct op *op = job->op;
    const int64_t n = job->stage->in_cols, n_rows = job->stage->matmul[0].args.n;
    for (int64_t r = begin; r < end; r++) {
        const float *x = cpu_row_at(b, op->in[0], r) + op->heads.from;
        for (int h = 0; h < op->heads.n; h++) {
            struct matmul_x at = matmul_x_of((int)n_rows, r, n);
            at.first += h * n_rows * (n / MATMUL_SPAN);
            cpu_quantize(b, x + (int64_t)h * op->heads.stride_from, n, at);
        }
    }
}

// Groups [begin, end) of one head's matrix.
static void head_groups(const struct cpu_rows_job *job, int64_t head, int64_t begin, int64_t end,
                        void *scratch) {
    const struct op *op = job->op;
    struct cpu_matmul one = job->stage->matmul[0];
    const int64_t before = head * one.args.n * one.args.cols; // of the quantized input
    one.args.w = one.weight->expert[head];
    one.args.x += head * op->heads.stride_from;
    one.args.y += head * op->heads.stride_to;
    one.args.xq += before;
    one.args.xd += before / 32;
    one.args.xsum += before / 16;
    cpu_matmul_run(&one, job->stage->token_tile, begin, end, scratch);
}

// Items are (head, group).
static void heads_items(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct cpu_rows_job *job = ctx;
    void *scratch = cpu_matmul_scratch(job->b, worker);
    const int64_t n_groups = job->stage->n_groups;
    while (begin < end) {
        const int64_t group = begin % n_groups, rest = n_groups - group;
        const int64_t n = end - begin < rest ? end - begin : rest;
        head_groups(job, begin / n_groups, group, group + n, scratch);
        begin += n;
    }
}

void cpu_heads_stage(struct cpu_backend *b, struct cpu_stage *stage, int n_rows) {
    struct cpu_rows_job job = {b, stage, &b->plan->op[stage->first]};
    const int64_t n_head = job.op->heads.n;
    stage->matmul[0].args.n = n_rows;
    if (stage->quantize) cpu_rows_run(b, quantize_heads, &job, n_rows, n_head * stage->in_cols);
    cpu_ahead_name(b, stage, n_rows);
    pool_run_on(b->pool, cpu_product_workers(b, stage->bytes * (uint64_t)n_head, n_rows),
                heads_items, &job, n_head * stage->n_groups, stage->group_chunk);
}
