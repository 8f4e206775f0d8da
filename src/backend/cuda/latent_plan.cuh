// The work of a step of attention over latents: which items the blocks have, and a block's memory.
// Every block plans the same items.
#ifndef RN_BACKEND_CUDA_LATENT_PLAN_CUH
#define RN_BACKEND_CUDA_LATENT_PLAN_CUH

#include "latent_rows.cuh"

// A sequence in this stage.
struct latent_shape {
    int n_queries, n_jobs; // jobs: tiles of all KV heads
    int split_first, n_splits;
    uint32_t slot_size; // of a part, in units of 8 floats
};

DEV struct latent_shape latent_shape_of(const struct stage_attention &s, const struct step &step,
                                        const struct step_seq &seq, int rows) {
    const int n_rows = rows == STAGE_OUT ? seq.n_out : seq.n_tokens;
    struct latent_shape shape = {n_rows * s.ratio, 0, 0, 0, 0};
    if (n_rows == 0) return shape;
    const int first = query_at(s, step, seq, rows, 0, 0).pos;
    const int last = query_at(s, step, seq, rows, 0, shape.n_queries - 1).pos;
    shape.n_jobs = (shape.n_queries + LATENT_QUERIES - 1) / LATENT_QUERIES * s.n_head_kv;
    shape.split_first = lowest_seen(s, first) / SPLIT_TOKENS;
    shape.n_splits = last / SPLIT_TOKENS - shape.split_first + 1;
    const int most = shape.n_queries < LATENT_QUERIES ? (shape.n_queries + 7) / 8 : LATENT_N_TILES;
    shape.slot_size = (uint32_t)(most * (kv_units(s.dim_v) * 16 + 2));
    return shape;
}

// Of up to LATENT_SEQS sequences: their first items that have all splits, items of a run of splits,
// and parts. n_jobs: of sequences with parts.
struct latent_table {
    uint32_t whole_first[LATENT_SEQS], split_first[LATENT_SEQS];
    uint32_t part_first[LATENT_SEQS], job_first[LATENT_SEQS];
    uint32_t n_whole, n_split, n_parts, n_jobs;
    uint32_t run;  // splits of an item
    uint32_t next; // the block's next item
};
static_assert(sizeof(struct latent_table) <= LATENT_TABLE_BYTES, "the table has room");

// One warp. Sequences of few splits are done whole; so are those whose splits are a block's share
// of the work, about, and sequences without room for parts.
DEV void latent_plan(const struct latent_args &args, int first, int n, uint32_t parts_before,
                     struct latent_table *table, int lane) {
    const struct stage_attention &s = args.stage;
    const struct step &step = *args.step;
    float cost = 0.0f; // integers
    for (int i = lane; i < n; i += 32) {
        const struct latent_shape shape = latent_shape_of(s, step, step.seq[first + i], args.rows);
        cost = cost + (float)shape.n_jobs * (float)shape.n_splits;
    }
    const float share = warp_sum(cost) / (float)args.n_workers;
    // a block has about three runs, so that few of its items begin with a wait
    const uint32_t most = share < 3.0e6f ? (uint32_t)(share / 3.0f) : 1000000u;
    const uint32_t run = most > (uint32_t)args.run ? most : (uint32_t)args.run;
    uint32_t whole = 0, split = 0, parts = parts_before, jobs = 0;
    for (int i0 = 0; i0 < n; i0 += 32) {
        const int i = i0 + lane;
        struct latent_shape shape = {};
        if (i < n) shape = latent_shape_of(s, step, step.seq[first + i], args.rows);
        const uint64_t needs = (uint64_t)shape.n_jobs * (uint64_t)shape.n_splits * shape.slot_size;
        const bool fits = needs <= args.n_parts;
        bool is_whole = shape.n_splits <= 2 || (float)shape.n_splits * 0.8f <= share || !fits;
        const uint32_t mine = is_whole ? 0 : (uint32_t)needs;
        const uint32_t end = parts + warp_scan(mine, lane);
        if (!is_whole && end > args.n_parts) is_whole = true; // its room stays unused
        const uint32_t n_jobs = (uint32_t)shape.n_jobs;
        const uint32_t n_whole = is_whole ? n_jobs : 0;
        const uint32_t n_split =
            is_whole ? 0 : n_jobs * (((uint32_t)shape.n_splits + run - 1) / run);
        const uint32_t whole_end = whole + warp_scan(n_whole, lane);
        const uint32_t split_end = split + warp_scan(n_split, lane);
        const uint32_t jobs_end = jobs + warp_scan(is_whole ? 0 : n_jobs, lane);
        if (i < n) {
            table->whole_first[i] = whole_end - n_whole;
            table->split_first[i] = split_end - n_split;
            table->part_first[i] = end - mine;
            table->job_first[i] = jobs_end - (is_whole ? 0 : n_jobs);
        }
        whole = __shfl_sync(0xffffffffu, whole_end, 31);
        split = __shfl_sync(0xffffffffu, split_end, 31);
        jobs = __shfl_sync(0xffffffffu, jobs_end, 31);
        parts = __shfl_sync(0xffffffffu, end, 31);
        if (parts > args.n_parts) parts = (uint32_t)args.n_parts;
    }
    if (lane == 0) {
        table->n_whole = whole, table->n_split = split;
        table->n_parts = parts, table->n_jobs = jobs, table->run = run;
    }
}

// An item, in shared memory.
struct latent_item {
    int32_t head_kv, n; // n: queries
    int32_t page_first, page_last;
    int32_t seen_first, seen_last; // splits that the queries see
    int32_t is_part;
    int32_t new_first; // the first page that has new entries
    const uint32_t *table;
    float *part;          // of the split part_first
    uint32_t part_stride; // floats from split to split
    int32_t part_first;
};
static_assert(sizeof(struct latent_item) <= LATENT_ITEM_BYTES, "an item has room");

// Places in a block's memory.
struct latent_block {
    int thread, warp, lane, g, t;
    int half, positions, queries; // of scores: 0 or 1 each
    uint8_t *shared;
    DEV uint64_t *full() const { return (uint64_t *)shared; }
    DEV struct latent_table *table() const {
        return (struct latent_table *)(shared + LATENT_TABLE_AT);
    }
    DEV struct latent_item &item() const {
        return *(struct latent_item *)(shared + LATENT_ITEM_AT);
    }
    DEV struct item_query *rows() const { return (struct item_query *)(shared + LATENT_ROWS_AT); }
    // [LATENT_QUERIES] each: the largest scores of both halves of a page, their sums of p, a, m, l;
    // the fold behind the last split, its factors, and the end of a query
    DEV float *stats(int which) const {
        return (float *)(shared + LATENT_STATS_AT) + which * LATENT_QUERIES;
    }
    DEV float *maxima(int half_page) const { return stats(half_page); }
    DEV float *sums(int half_page) const { return stats(2 + half_page); }
    DEV float *factor() const { return stats(4); }
    DEV float *top() const { return stats(5); }
    DEV float *total() const { return stats(6); }
    DEV struct softmax_fold *fold() const { return (struct softmax_fold *)stats(7); }
    DEV float4 *by() const { return (float4 *)stats(9); }    // a, b, is_live
    DEV float2 *ends() const { return (float2 *)stats(13); } // a, l
    DEV uint8_t *q() const { return shared + LATENT_HEAD; }
    DEV void sync() const { __syncthreads(); }
};

DEV struct latent_block latent_block_of(uint8_t *shared) {
    struct latent_block m;
    m.thread = (int)threadIdx.x;
    m.warp = m.thread / 32, m.lane = m.thread % 32;
    m.g = m.lane / 4, m.t = m.lane % 4;
    m.half = m.warp & 1, m.positions = m.warp >> 1 & 1, m.queries = m.warp >> 2;
    m.shared = shared;
    return m;
}

// The tile `job` of a sequence: its queries and what they see.
DEV void latent_tile(const struct latent_args &args, const struct step_seq &seq,
                     const struct latent_shape &shape, int job, struct latent_item &w,
                     struct item_query *rows, int lane) {
    const struct stage_attention &s = args.stage;
    const int n_tiles = shape.n_jobs / s.n_head_kv;
    const int first = (n_tiles - 1 - job / s.n_head_kv) * LATENT_QUERIES; // the last see most
    w.head_kv = job % s.n_head_kv;
    w.n = shape.n_queries - first < LATENT_QUERIES ? shape.n_queries - first : LATENT_QUERIES;
    struct item_query q = {-1, 0, 0, 0};
    if (lane < w.n) q = query_at(s, *args.step, seq, args.rows, w.head_kv, first + lane);
    rows[lane] = q;
    const int pos_first = __shfl_sync(0xffffffffu, q.pos, 0);
    const int pos_last = __shfl_sync(0xffffffffu, q.pos, w.n - 1);
    w.page_first = lowest_seen(s, pos_first) / PAGE_TOKENS;
    w.page_last = pos_last / PAGE_TOKENS;
    w.seen_first = w.page_first / SPLIT_PAGES;
    w.seen_last = w.page_last / SPLIT_PAGES;
    w.new_first = seq.first_pos / PAGE_TOKENS;
    w.table = args.step->tables + seq.table[s.group];
}

// Where the parts of a job are.
DEV void latent_parts_find(const struct stage_attention &s, const struct latent_table *table, int i,
                           const struct latent_shape &shape, int job, struct latent_item &w) {
    w.part_first = shape.split_first;
    w.part_stride = shape.slot_size * 8;
    w.part =
        s.parts + ATTENTION_STATES / 4 +
        8 * ((uint64_t)table->part_first[i] + (uint64_t)(job * shape.n_splits) * shape.slot_size);
}

// The item `index` of the table's sequences into the block's memory. A warp.
DEV void latent_item_make(const struct latent_args &args, int first_seq, int n_seqs, uint32_t index,
                          const struct latent_block &m) {
    const struct stage_attention &s = args.stage;
    const struct latent_table *table = m.table();
    const bool is_whole = index < table->n_whole;
    const uint32_t *firsts = is_whole ? table->whole_first : table->split_first;
    if (!is_whole) index -= table->n_whole;
    const int i = table_find(firsts, n_seqs, index);
    const struct step_seq &seq = args.step->seq[first_seq + i];
    const struct latent_shape shape = latent_shape_of(s, *args.step, seq, args.rows);
    const int in_seq = (int)(index - firsts[i]);
    const int run = (int)table->run, n_runs = (shape.n_splits + run - 1) / run;
    const int job = is_whole ? in_seq : in_seq / n_runs;
    struct latent_item w = {};
    latent_tile(args, seq, shape, job, w, m.rows(), m.lane);
    w.is_part = !is_whole;
    if (!is_whole) {
        const int first = (shape.split_first + in_seq % n_runs * run) * SPLIT_PAGES;
        if (w.page_first < first) w.page_first = first;
        if (w.page_last > first + run * SPLIT_PAGES - 1)
            w.page_last = first + run * SPLIT_PAGES - 1;
        latent_parts_find(s, table, i, shape, job, w);
    }
    if (m.lane == 0) m.item() = w;
}

#endif
