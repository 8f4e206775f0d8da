// Memory on machines with several memory nodes. A thread that reads another node's memory waits for
// the link between them, and all threads that read one node's wait for its few channels.
//
// Weights of products are stored near the threads whose share of the run they are, for a run with
// one row. This needs a pool that is bound. All other weights are spread over the nodes page by
// page: those of experts, where the router decides who reads what, and those of a pool that is not
// bound. KV pages are spread, too: a page is written by one thread and read by any.
//
// A machine with one node is left alone. Only speed depends on all this.
#include "backend/cpu/cpu.h"

enum { HUGE_BYTES = 2 << 20 };

static const uint8_t *huge_round(const uint8_t *at) {
    return (const uint8_t *)(((uintptr_t)at + HUGE_BYTES / 2) / HUGE_BYTES * HUGE_BYTES);
}

// Groups [begin, end) of the stage, which one node's workers read.
static void groups_place(const struct cpu_stage *stage, int64_t begin, int64_t end, int node,
                         cpu_place_fn fn, void *ctx) {
    for (int i = 0; i < stage->n; i++) {
        const struct cpu_matmul *m = &stage->matmul[i];
        const int64_t a = begin > m->group_first ? begin : m->group_first;
        const int64_t z = end < m->group_end ? end : m->group_end;
        if (a >= z || !m->kernel) continue;
        const int64_t bytes = m->kernel->group_bytes(m->args.cols);
        const uint8_t *w = m->args.w;
        const uint8_t *from = huge_round(w + (a - m->group_first) * bytes);
        const uint8_t *to = huge_round(w + (z - m->group_first) * bytes);
        if (from < to) fn(ctx, from, to, node);
    }
}

void cpu_place_stage(const struct pool *pool, const struct cpu_stage *stage, cpu_place_fn fn,
                     void *ctx) {
    int64_t begin = 0;
    for (int worker = 1; begin < stage->n_groups; worker++) {
        const int node = pool_node(pool, worker - 1);
        int64_t end = stage->n_groups;
        if (worker < pool_size(pool)) {
            if (pool_node(pool, worker) == node) continue;
            end = pool_share_first(pool, stage->n_workers, stage->n_groups, stage->group_chunk,
                                   worker);
        }
        groups_place(stage, begin, end, node, fn, ctx);
        begin = end;
    }
}

static void range_place(void *ctx, const uint8_t *begin, const uint8_t *end, int node) {
    const struct region *packed = ctx;
    const uint8_t *stop = packed->base + packed->mapped;
    if (begin < packed->base) begin = packed->base;
    if (end > stop) end = stop;
    if (begin < end)
        region_place(packed, (uint64_t)(begin - packed->base), (uint64_t)(end - begin),
                     (uint64_t)1 << node);
}

void cpu_place_weights(const struct cpu_backend *b) {
    struct region packed = b->packed;
    const uint64_t nodes = pool_nodes(b->pool);
    region_place(&packed, 0, packed.mapped, nodes);
    region_place(&b->rows, 0, b->rows.mapped, nodes);
    if (pool_node(b->pool, 0) < 0) return;
    for (int i = 0; i < b->n_stage_all; i++)
        if (b->plan->op[b->stage[i].first].kind == OP_MATMUL)
            cpu_place_stage(b->pool, &b->stage[i], range_place, &packed);
}

void cpu_place_kv(const struct cpu_backend *b) {
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++)
        region_place(&b->kv[g], 0, b->kv[g].mapped, pool_nodes(b->pool));
}
