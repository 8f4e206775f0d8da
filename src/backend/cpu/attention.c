// The attention stage: which thread takes which query rows, heads and positions. Called by
// program.c; the kernels are in attention_simd.h and reference.c.
//
// An item is a tile (query rows of one sequence), one KV head, and a range of the splits that the
// tile sees. A tile that would keep one thread busy while others idle is cut into ranges. Each
// split then leaves its part, and the thread that ends the last range of a head folds the parts in
// ascending order. So the bits do not depend on the ranges. Without room for the parts a tile stays
// whole.
#include <stdatomic.h>

#include "backend/cpu/cpu.h"

enum {
    ITEMS_PER_THREAD = 8,   // so that a core that is taken away stalls little
    QUERY_COST = 2,         // queries whose arithmetic takes as long as reading a position
    RANGE_SPLITS = 2,       // of a range, at least: a short one ends before its prefetches pay.
                            // Where workers would go without, 1
    RANGE_SPLITS_CODES = 4, // of a latent's int8 pages, whose splits take less time
};

struct attention_job {
    struct cpu_backend *b;
    const struct op *op;
    const struct plan_kv_group *group;
    int ratio;     // query heads of a KV head
    int n_workers; // of the run
};

static struct attention_args args_of(const struct attention_job *job, const struct cpu_tile *tile,
                                     int head) {
    const struct cpu_backend *b = job->b;
    const struct op *op = job->op;
    const struct plan_kv_group *group = job->group;
    const uint64_t head_bytes =
        b->page_bytes[op->kv.group] / (uint64_t)(group->n_layer * group->n_head_kv);
    const int32_t *pos = op->rows == ROWS_TOKENS ? b->batch->pos : b->out_pos;
    return (struct attention_args){
        .q = cpu_row_at(b, op->in[0], tile->first_row),
        .ldq = b->buffer[op->in[0]].ld,
        .out = cpu_row_at(b, op->out, tile->first_row),
        .ldo = b->buffer[op->out].ld,
        .pos = pos + tile->first_row,
        .n_rows = tile->n_rows,
        .head_kv = head,
        .n_head = op->kv.n_head,
        .n_head_kv = group->n_head_kv,
        .dim_k = group->dim_k,
        .dim_v = group->dim_v,
        .is_latent = group->is_latent,
        .window = op_window(b->plan, op),
        .is_chunked = group->kind == KV_CHUNK,
        .scale = op->kv.scale,
        .softcap = op->kv.softcap,
        .sinks = op->weight == PLAN_NONE ? NULL : b->weight[op->weight].vector,
        .type = b->kv_type,
        .pages = b->kv[op->kv.group].base,
        .page_bytes = b->page_bytes[op->kv.group],
        .head_at = cpu_layer_at(b, op) + (uint64_t)head * head_bytes,
        .page_table = b->batch->seq[tile->seq].page_table[op->kv.group],
    };
}

// ---------------------------------------------------------------- tiles

// Rows of one sequence, their positions ascending. Out rows that want no logits follow the others
// (batch_add_hidden), so a sequence may have several runs of them.
struct run {
    int seq, first, n;
};

// The run behind this one; {0} before the first. False: there are no more.
static bool run_next(const struct attention_job *job, struct run *run) {
    const struct cpu_backend *b = job->b;
    const struct batch *batch = b->batch;
    const bool tokens = job->op->rows == ROWS_TOKENS;
    const int first = run->first + run->n, end = tokens ? batch->n_tokens : batch->n_out;
    if (first == end) return false;
    *run = (struct run){.first = first, .n = 1};
    run->seq = b->row_seq[tokens ? first : batch->out_row[first]];
    for (int i = first + 1; i < end; i++, run->n++) {
        const int row = tokens ? i : batch->out_row[i];
        if (b->row_seq[row] != run->seq || (!tokens && row < batch->out_row[i - 1])) break;
    }
    return true;
}

// Rows of a tile: many, so that a page is converted for many queries; fewer while threads would go
// without.
static int tile_rows(const struct attention_job *job) {
    const struct cpu_backend *b = job->b;
    const int wanted = pool_size(b->pool) * ITEMS_PER_THREAD / 2;
    int most = cpu_tile_rows(b->plan, job->op);
    for (; most * job->ratio >= 2 * ATTENTION_BLOCK && most > 1; most /= 2) {
        int64_t n = 0;
        for (struct run run = {0}; run_next(job, &run);) n += (run.n + most - 1) / most;
        if (pool_size(b->pool) == 1 || n * job->group->n_head_kv >= wanted) break;
    }
    return most;
}

// Work of one head of a tile: positions, each weighted by the cost of its queries.
static int64_t tile_cost(const struct attention_job *job, const struct cpu_tile *tile) {
    const struct attention_args args = args_of(job, tile, 0);
    const int64_t seen = args.pos[args.n_rows - 1] + 1 - attention_first(&args, args.pos[0]);
    return seen * ((int64_t)tile->n_rows * job->ratio + QUERY_COST);
}

static int64_t tiles_make(const struct attention_job *job) {
    struct cpu_backend *b = job->b;
    const int most = tile_rows(job);
    int64_t cost = 0;
    b->n_tile = 0;
    for (struct run run = {0}; run_next(job, &run);) {
        for (int i = 0; i < run.n; i += most) {
            const int n = run.n - i < most ? run.n - i : most;
            struct cpu_tile *tile = &b->tile[b->n_tile++];
            *tile = (struct cpu_tile){run.seq, run.first + i, n, 1, 0, 0, NULL};
            cost += tile_cost(job, tile);
        }
    }
    return cost;
}

// Cuts a tile into ranges whose cost is about `target`, if its parts find room after *used floats.
static void tile_cut(const struct attention_job *job, struct cpu_tile *tile, int64_t target,
                     int64_t *used) {
    struct cpu_backend *b = job->b;
    const struct attention_args args = args_of(job, tile, 0);
    const int n_splits = attention_split_end(&args) - attention_split_begin(&args);
    int64_t n = (tile_cost(job, tile) + target - 1) / target;
    const int64_t n_all = (int64_t)n_splits * job->group->n_head_kv * b->n_tile;
    const bool codes = job->group->is_latent && b->kv_type == KV_INT8;
    const int range = codes ? RANGE_SPLITS_CODES : RANGE_SPLITS;
    const int64_t most = n_all / range < job->n_workers ? n_splits : n_splits / range;
    n = n < most ? n : most;
    if (n < 2) return;
    const int64_t part = attention_part_floats((int64_t)tile->n_rows * job->ratio, args.dim_v);
    const int64_t floats = part * n_splits * job->group->n_head_kv;
    if (floats > b->parts_floats - *used) return;
    tile->parts = b->parts + *used;
    tile->head_floats = part * n_splits;
    tile->n_ranges = (int)n;
    *used += floats;
}

// Items of the tiles, the last tile first: it has seen most and takes longest.
static int64_t items_count(const struct attention_job *job) {
    struct cpu_backend *b = job->b;
    const int n_head = job->group->n_head_kv;
    int64_t n_items = 0;
    for (int i = b->n_tile - 1; i >= 0; i--) {
        b->tile[i].first_item = n_items;
        n_items += (int64_t)b->tile[i].n_ranges * n_head;
        for (int h = 0; h < n_head; h++)
            atomic_store_explicit(&b->ranges_left[i * n_head + h], b->tile[i].n_ranges,
                                  memory_order_relaxed);
    }
    return n_items;
}

// ---------------------------------------------------------------- items

static int tile_find(const struct cpu_backend *b, int64_t item) {
    int lo = 0, hi = b->n_tile - 1; // the first tile that begins at the item or before
    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        if (b->tile[mid].first_item <= item)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static void attention_item(const struct attention_job *job, int64_t item, float *scratch) {
    const struct cpu_backend *b = job->b;
    const int n_head = job->group->n_head_kv, index = tile_find(b, item);
    const struct cpu_tile *tile = &b->tile[index];
    const int64_t in_tile = item - tile->first_item;
    const int head = (int)(in_tile % n_head), range = (int)(in_tile / n_head);
    struct attention_args args = args_of(job, tile, head);
    if (tile->n_ranges == 1) {
        b->ops->attention(&args, scratch);
        return;
    }
    const int64_t first = attention_split_begin(&args), n = attention_split_end(&args) - first;
    args.parts = tile->parts + head * tile->head_floats;
    args.split_begin = (int)(first + n * range / tile->n_ranges);
    args.split_end = (int)(first + n * (range + 1) / tile->n_ranges);
    b->ops->attention(&args, scratch);
    // release: my parts; acquire: the parts of all
    _Atomic int32_t *left = &b->ranges_left[index * n_head + head];
    if (atomic_fetch_sub_explicit(left, 1, memory_order_acq_rel) == 1)
        b->ops->attention_fold(&args, scratch);
}

static void attention_items(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct attention_job *job = ctx;
    for (int64_t item = begin; item < end; item++)
        attention_item(job, item, job->b->attention + worker * job->b->attention_floats);
}

void cpu_attention_stage(struct cpu_backend *b, const struct op *op) {
    const struct plan_kv_group *group = &b->plan->group[op->kv.group];
    struct attention_job job = {b, op, group, op->kv.n_head / group->n_head_kv, 1};
    const int64_t cost = tiles_make(&job) * group->n_head_kv;
    const int n_workers = cpu_workers(b, cost * (group->dim_k + group->dim_v) / 8);
    int64_t used = 0;
    job.n_workers = n_workers;
    if (n_workers > 1 && b->ops->attention_fold)
        for (int i = b->n_tile - 1; i >= 0; i--)
            tile_cut(&job, &b->tile[i], cost / (n_workers * ITEMS_PER_THREAD) + 1, &used);
    const int64_t n_items = items_count(&job);
    pool_run_on(b->pool, n_workers, attention_items, &job, n_items, n_workers == 1 ? n_items : 1);
}
