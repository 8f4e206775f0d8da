// Mixtures of experts: routing, the experts' products and their weighted sum. Tokens are sorted by
// expert after routing, so each expert that has tokens is one matrix product over them, and its
// weights are read once. Bits do not depend on the order: a pair's product sees its own row alone,
// and the sum is taken in the order of rank. Called by program.c.
#include <assert.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/reference.h"

// ---------------------------------------------------------------- route

static void route_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct cpu_rows_job *job = ctx;
    const struct op *op = job->op;
    const int used = op->route.n_used, n = job->b->plan->buffer[op->in[0]].width;
    const struct route_args args = {
        .n = n,
        .k = used,
        .bias = op->bias == PLAN_NONE ? NULL : job->b->weight[op->bias].vector,
        .score = op->route.score,
        .normalize = op->route.normalize,
        .scale = op->route.scale,
        .least = op->route.least,
        .n_group = op->route.n_group,
        .n_group_used = op->route.n_group_used,
        .group_best = op->route.group_best,
        .jitter = op->route.jitter,
        .factor = op->weight == PLAN_NONE ? NULL : job->b->weight[op->weight].vector,
    };
    for (int64_t r = begin; r < end; r++) {
        float *out = cpu_row_at(job->b, op->out, r);
        reference_route(&args, cpu_row_at(job->b, op->in[0], r), out, out + used);
    }
}

// Counting sort of the pairs by expert.
static void route_sort(struct cpu_backend *b, const struct op *op, int n_rows) {
    struct cpu_route *route = &b->route;
    const int used = op->route.n_used, n_expert = b->plan->buffer[op->in[0]].width;
    route->buffer = op->out;
    route->n_pairs = n_rows * used;
    memset(route->first, 0, ((size_t)n_expert + 1) * sizeof *route->first);
    for (int r = 0; r < n_rows; r++)
        for (int j = 0; j < used; j++) route->first[(int)cpu_row_at(b, op->out, r)[j] + 1]++;
    route->n_active = 0;
    for (int e = 0; e < n_expert; e++) {
        if (route->first[e + 1] > 0) route->active[route->n_active++] = e;
        route->first[e + 1] += route->first[e];
    }
    for (int r = 0; r < n_rows; r++) {
        for (int j = 0; j < used; j++) {
            const int pair = route->first[(int)cpu_row_at(b, op->out, r)[j]]++;
            route->row[pair] = r;
            route->pair[r * used + j] = pair;
        }
    }
    // each start has moved to its end, which is the next one's start
    memmove(route->first + 1, route->first, (size_t)n_expert * sizeof *route->first);
    route->first[0] = 0;
}

void cpu_route_stage(struct cpu_backend *b, const struct cpu_stage *stage, int n_rows) {
    struct cpu_rows_job job = {b, stage, &b->plan->op[stage->first]};
    const int64_t n = b->plan->buffer[job.op->in[0]].width;
    cpu_rows_run(b, route_rows, &job, n_rows, n * job.op->route.n_used);
    route_sort(b, job.op, n_rows);
}

// ---------------------------------------------------------------- products

// A row times its weight at that expert.
static void weigh_row(const struct cpu_rows_job *job, int row, int expert, const float *x,
                      float *y) {
    const int used = job->b->plan->buffer[job->op->out].slots;
    const float *route = cpu_row_at(job->b, job->op->in[1], row);
    int rank = 0;
    while ((int)route[rank] != expert) rank++;
    for (int64_t i = 0; i < job->stage->in_cols; i++) y[i] = x[i] * route[used + rank];
}

// The input rows of the pairs: quantized, or gathered side by side.
static void input_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct cpu_rows_job *job = ctx;
    const struct cpu_backend *b = job->b;
    const int in = job->op->in[0];
    const int64_t n = job->stage->in_cols;
    const bool shared = !b->plan->buffer[in].has_slots;
    int expert = 0; // each has tiles of its own
    for (int64_t p = begin; p < end; p++) {
        const float *x = cpu_row_at(b, in, shared ? b->route.row[p] : p);
        while (b->route.first[expert + 1] <= p) expert++;
        if (job->stage->weigh) {
            weigh_row(job, b->route.row[p], expert, x, b->xg + p * n);
            x = b->xg + p * n;
        }
        if (job->stage->quantize) {
            const int first = b->route.first[expert];
            struct matmul_x at = matmul_x_of(b->route.first[expert + 1] - first, p - first, n);
            at.first += first * (n / MATMUL_SPAN);
            cpu_quantize(b, x, n, at);
        }
        if (shared && job->stage->gather && !job->stage->weigh)
            memcpy(b->xg + p * n, x, (size_t)n * sizeof *x);
    }
}

// Groups [begin, end) of the stage's products, for one expert.
static void expert_groups(const struct cpu_rows_job *job, int expert, int64_t begin, int64_t end,
                          void *scratch) {
    const int32_t *first = job->b->route.first;
    const int n = first[expert + 1] - first[expert];
    for (int i = 0; i < job->stage->n; i++) {
        const struct cpu_matmul *m = &job->stage->matmul[i];
        const int64_t a = begin > m->group_first ? begin : m->group_first;
        const int64_t z = end < m->group_end ? end : m->group_end;
        if (a >= z) continue;
        struct cpu_matmul one = *m;
        one.args = cpu_matmul_part(&m->args, first[expert], n);
        one.args.w = m->weight->expert[expert];
        if (one.args.bias) one.args.bias += expert * m->args.rows;
        cpu_matmul_run(&one, job->stage->token_tile, a - m->group_first, z - m->group_first,
                       scratch);
    }
}

// Items are (active expert, group).
static void experts_items(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct cpu_rows_job *job = ctx;
    void *scratch = cpu_matmul_scratch(job->b, worker);
    const int64_t n_groups = job->stage->n_groups;
    while (begin < end) {
        const int64_t group = begin % n_groups, rest = n_groups - group;
        const int64_t n = end - begin < rest ? end - begin : rest;
        expert_groups(job, job->b->route.active[begin / n_groups], group, group + n, scratch);
        begin += n;
    }
}

void cpu_experts_stage(struct cpu_backend *b, struct cpu_stage *stage, int n_rows) {
    struct cpu_rows_job rows = {b, stage, &b->plan->op[stage->first]};
    const struct op *op = rows.op;
    assert(b->route.buffer == op->in[1]);
    assert(b->route.n_pairs == n_rows * b->plan->buffer[op->out].slots);
    (void)n_rows;
    if (stage->quantize || stage->gather)
        cpu_rows_run(b, input_rows, &rows, b->route.n_pairs, stage->in_cols);
    for (int i = 0; i < stage->n; i++) {
        const struct plan_weight *weight = &b->plan->weight[op[i].weight];
        const uint64_t bias = op[i].bias == PLAN_NONE ? 0 : b->plan->weight[op[i].bias].bytes;
        b->expert_bytes +=
            (weight->bytes + bias) / (uint64_t)weight->n_expert * (uint64_t)b->route.n_active;
    }
    const int n_active = b->route.n_active;
    assert(n_active > 0); // there are rows
    const int n_workers =
        cpu_product_workers(b, stage->bytes * (uint64_t)n_active, b->route.n_pairs / n_active);
    pool_run_on(b->pool, n_workers, experts_items, &rows, n_active * stage->n_groups,
                stage->group_chunk);
}

// ---------------------------------------------------------------- sum

static void combine_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct cpu_rows_job *job = ctx;
    const struct cpu_backend *b = job->b;
    const struct op *op = job->op;
    const int used = b->plan->buffer[op->in[0]].slots, width = b->plan->buffer[op->out].width;
    float ones[PLAN_MAX_USED];
    for (int j = 0; j < used; j++) ones[j] = 1;
    for (int64_t r = begin; r < end; r++) {
        float *y = cpu_row_at(b, op->out, r);
        const float *slot[PLAN_MAX_USED];
        for (int j = 0; j < used; j++)
            slot[j] = cpu_row_at(b, op->in[0], b->route.pair[r * used + j]);
        const float *weight = op->experts.weighs_input ? ones : cpu_row_at(b, op->in[1], r) + used;
        if (op->experts.set) memset(y, 0, (size_t)width * sizeof *y);
        b->ops->combine(slot, weight, used, y, width);
    }
}

void cpu_combine_stage(struct cpu_backend *b, const struct cpu_stage *stage, int n_rows) {
    struct cpu_rows_job job = {b, stage, &b->plan->op[stage->first]};
    assert(b->route.buffer == job.op->in[1]);
    const struct plan_buffer *in = &b->plan->buffer[job.op->in[0]];
    cpu_rows_run(b, combine_rows, &job, n_rows, (int64_t)in->width * in->slots);
}
