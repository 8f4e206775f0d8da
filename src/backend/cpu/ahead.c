// While the small stages between two products run, memory would be idle: helpers that wait for work
// fetch the start of the weights that they read next into their caches. Weights never change, so
// this needs no input. The next product is named by program.c before it runs one. A helper may see
// the name late, which costs nothing but a useless fetch. Backends that share threads name their
// products in one place. So helpers fetch for the backend that runs, and a change of backends costs
// nothing.
#include <stdatomic.h>

#include "backend/cpu/cpu.h"

enum {
    FETCH_BYTES = 4096,     // per call
    OWN_BYTES = 256 << 10,  // of the helper's own share: a part of its second-level cache
    CALLER_BYTES = 64 << 10 // of the caller's share, which has no time to fetch
};

static void fetch(const uint8_t *at, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, 0, 2);
}

// Fetches bytes [from, from + FETCH_BYTES) behind the beginning of a group.
static void fetch_behind(const struct cpu_stage *stage, int64_t group, int64_t from) {
    for (int i = 0; i < stage->n; i++) {
        const struct cpu_matmul *m = &stage->matmul[i];
        if (group >= m->group_end) continue;
        if (!m->kernel) return;
        const int64_t bytes = m->kernel->group_bytes(m->args.cols);
        const int64_t at = (group - m->group_first) * bytes + from;
        const int64_t rest = (m->group_end - m->group_first) * bytes - at;
        if (rest > 0)
            fetch((const uint8_t *)m->args.w + at, rest < FETCH_BYTES ? rest : FETCH_BYTES);
        return;
    }
}

bool cpu_ahead_fetch(void *ctx, int worker, int64_t step) {
    struct pool *pool = ctx;
    const struct cpu_stage *stage = atomic_load_explicit(pool_slot(pool), memory_order_acquire);
    if (!stage) return false;
    const int64_t own = step * FETCH_BYTES;
    if (own < OWN_BYTES) {
        const int64_t first =
            pool_share_first(pool, stage->n_workers, stage->n_groups, stage->group_chunk, worker);
        if (first == stage->n_groups) return false; // the product does without this helper
        fetch_behind(stage, first, own);
        return true;
    }
    if (worker >= stage->n_workers) return false; // another product may have been named meanwhile
    // the helpers take turns
    const int64_t turn = own - OWN_BYTES, n_helpers = stage->n_workers - 1;
    const int64_t from = turn * n_helpers + (worker - 1) * FETCH_BYTES;
    if (from >= CALLER_BYTES) return false;
    fetch_behind(stage, 0, from);
    return true;
}

void cpu_ahead_name(struct cpu_backend *b, const struct cpu_stage *stage, int n_rows) {
    // with many rows arithmetic is the limit, and the caches have other use
    const struct cpu_stage *next = n_rows > SHAPE_MANY_MAX ? NULL : stage->next;
    atomic_store_explicit(pool_slot(b->pool), next, memory_order_release);
}

void cpu_ahead_enter(struct cpu_backend *b) { pool_set_ahead(b->pool, cpu_ahead_fetch, b->pool); }

void cpu_ahead_leave(struct cpu_backend *b) {
    atomic_store_explicit(pool_slot(b->pool), NULL, memory_order_release);
    cpu_ahead_enter(b); // waits for helpers that are inside
}

void cpu_ahead_link(struct cpu_backend *b) {
    const struct cpu_stage *next = NULL;
    // twice round: the first product follows the last, in the next step
    for (int i = 2 * b->n_stage - 1; i >= 0; i--) {
        struct cpu_stage *stage = &b->stage[i % b->n_stage];
        stage->next = next;
        if (b->plan->op[stage->first].kind == OP_MATMUL) next = stage;
    }
    // the model follows its draft block
    for (int i = b->n_stage_all - 1; i >= b->n_stage; i--) {
        b->stage[i].next = next;
        if (b->plan->op[b->stage[i].first].kind == OP_MATMUL) next = &b->stage[i];
    }
}
