// Attention over KV pages: the stage, its arithmetic, and how a step's work becomes items of
// blocks. step.cu calls attention_run and attention_small_run. The forms of an item are in
// attention_few.cuh and attention_many.cuh, what they share in attention_item.cuh, and the layout
// of pages in kv.cuh. Steps of few rows with long contexts are attention_long.cuh's.
//
// Invariant: the bits of a query row depend on its own sequence up to its position alone. They do
// not depend on the batch, the chunks, the form or the blocks.
#ifndef RN_BACKEND_CUDA_ATTENTION_CUH
#define RN_BACKEND_CUDA_ATTENTION_CUH

#include "attention_few.cuh"
#include "attention_many.cuh"

// The arithmetic of a query row and head.
//  1. q: norm and rope in f32 (head_norm), rounded to f16, with bf16 pages to bf16. Keys and values
//     are rounded when they are appended, and read back from pages.
//  2. The score of a position is a chain of matrix instructions from 0, in f32. Step 2b + h has the
//     elements 32b + 8t + 4h + i, t and i from 0 to 3. Elements are padded with 0. With int8 the
//     sum is multiplied by the key's scale. Then s * scale; with a cap cap * tanh(s / cap).
//  3. Positions are cut into splits of 256 at multiples of 256, and splits into 8 pages. In a split
//     m is the largest visible score. p = exp(s - m) as weight_of has it, and 0 where the position
//     is not visible.
//  4. l of a page: (p[g] + p[g + 8]) + (p[g + 16] + p[g + 24]) for g of 0 to 7, then pairs g ^ 1,
//     g ^ 2, g ^ 4. l of the split: pages in order, from 0.
//  5. o of a split is a chain of matrix instructions from 0, in f32: 16 positions each, in order. P
//     is rounded to f16, with bf16 pages to bf16; with int8 p is multiplied by the value's scale
//     before. Pages that no query of a tile sees may be left out, since their weights are 0.
//  6. Splits are folded in order into (M, L, O), from (-inf, 0, 0). Where l is 0 the split is
//     skipped. M' = max(M, m), a = exp(M - M'), b = exp(m - M'), L = fmaf(l, b, L * a) and
//     O = fmaf(o, b, O * a). Then the sink s: M' = max(M, s), a = exp(M - M'),
//     L = fmaf(L, a, exp(s - M')), O = O * a.
//  7. The result is O / L.
//
// The work. The queries of a KV head are the rows of a sequence times the query heads of the KV
// head. Queries are cut into tiles. An item is a tile of a KV head with one split, or with all
// splits. A block has one item at a time, in the form "few" or "many". Neither the cut nor the form
// changes an operation above.

// ---------------------------------------------------------------- the work of a step

// A sequence in this stage.
struct attention_shape {
    int n_queries, tile, n_tiles; // of a KV head
    int split_first, n_splits;
    int cost; // of a tile and a split
    bool is_few;
};

DEV int many_tile(const struct stage_attention &s) {
    const int n = QUERY_BYTES / query_stride(s.dim_k) / FEW_QUERIES * FEW_QUERIES;
    return n < MANY_QUERIES ? n : MANY_QUERIES;
}
DEV int few_tile(const struct stage_attention &s) {
    return query_stride(s.dim_k) * FEW_QUERIES <= KEPT_AT ? FEW_QUERIES : FEW_QUERIES / 2;
}

DEV struct attention_shape shape_of(const struct stage_attention &s, const struct step &step,
                                    const struct step_seq &seq, int rows, int n_workers) {
    const int n_rows = rows == STAGE_OUT ? seq.n_out : seq.n_tokens;
    struct attention_shape shape = {n_rows * s.ratio, few_tile(s), 0, 0, 0, 1, true};
    if (n_rows == 0 && !s.fused) return shape;
    int low = seq.first_pos, high = seq.first_pos + seq.n_tokens - 1; // of the append
    if (n_rows > 0) {
        const int seen = s.window > 0 ? lowest_seen(s, query_at(s, step, seq, rows, 0, 0).pos) : 0;
        low = !s.fused || seen < low ? seen : low;
        if (!s.fused) high = query_at(s, step, seq, rows, 0, shape.n_queries - 1).pos;
    }
    shape.split_first = low / SPLIT_TOKENS;
    shape.n_splits = high / SPLIT_TOKENS - shape.split_first + 1;
    shape.n_tiles = n_rows ? (shape.n_queries + shape.tile - 1) / shape.tile : 1;
    // "few" also for more queries, while blocks are idle
    const int64_t items =
        (int64_t)shape.n_tiles * s.n_head_kv * shape.n_splits * n_seqs_of(step, rows);
    if (shape.n_tiles > 1 && items > n_workers) {
        shape.tile = many_tile(s);
        shape.n_tiles = (shape.n_queries + shape.tile - 1) / shape.tile;
        shape.is_few = false;
        const int most = shape.n_queries < shape.tile ? shape.n_queries : shape.tile;
        shape.cost = most < 32 ? 1 : most / 16;
    }
    return shape;
}

DEV int shape_slot_size(const struct stage_attention &s, const struct attention_shape &shape) {
    return slot_size(s, shape.n_queries < shape.tile ? shape.n_queries : shape.tile);
}
DEV int shape_segments(const struct attention_shape &shape) {
    return (shape.n_splits + SEGMENT_SPLITS - 1) / SEGMENT_SPLITS;
}
DEV uint32_t shape_cost(const struct stage_attention &s, const struct attention_shape &shape) {
    return (uint32_t)(shape.n_tiles * s.n_head_kv) * (uint32_t)(shape.n_splits * shape.cost);
}

// Sums over sequences: items that have all splits and items of one split, float4 of slots,
// counters.
struct attention_sums {
    uint32_t n_whole, n_split, n_slots, n_counters;
};

// What a sequence takes. Tiles are done whole where splits are few, or a tile is a small share of
// the work of a block, or there is no room for parts.
DEV struct attention_sums shape_takes(const struct stage_attention &s,
                                      const struct attention_shape &shape, uint32_t cost_all,
                                      int n_workers) {
    const uint32_t cost = (uint32_t)(shape.n_splits * shape.cost);
    const uint64_t jobs = (uint64_t)shape.n_tiles * (uint64_t)s.n_head_kv;
    const uint64_t splits = jobs * (uint64_t)shape.n_splits;
    const uint64_t n_slots = splits * (uint64_t)shape_slot_size(s, shape);
    const uint64_t n_counters = jobs * (uint64_t)shape_segments(shape) * 2;
    struct attention_sums takes = {(uint32_t)jobs, 0, 0, 0};
    if (shape.n_splits <= 2 || cost <= cost_all / (2 * (uint32_t)n_workers) ||
        n_slots > ATTENTION_PARTS / 16 || n_counters > ATTENTION_COUNTERS)
        return takes;
    takes.n_whole = 0;
    takes.n_split = (uint32_t)splits;
    takes.n_slots = (uint32_t)n_slots;
    takes.n_counters = (uint32_t)n_counters;
    return takes;
}

// Of up to ATTENTION_SEQS sequences, in shared memory: their first items, slots and counters.
struct attention_table {
    uint32_t whole_first[ATTENTION_SEQS], split_first[ATTENTION_SEQS];
    uint32_t slot_first[ATTENTION_SEQS], counter_first[ATTENTION_SEQS];
    struct attention_sums all;
};
static_assert(sizeof(struct attention_table) <= TABLE_BYTES, "the table has room");

DEV uint32_t warp_scan(uint32_t x, int lane) { // the sum of the lanes up to this one
    UNROLL for (int o = 1; o < 32; o *= 2) {
        const uint32_t other = __shfl_up_sync(0xffffffffu, x, (unsigned)o);
        if (lane >= o) x += other;
    }
    return x;
}

// One warp. Sequences of earlier tables have the first slots and counters. A sequence that finds no
// more room is done whole, so a sum is below 33 times the room.
DEV void table_fill(const struct stage_attention &s, const struct step &step, int rows,
                    const struct attention_seqs &seqs, int first, int n, int n_workers,
                    struct attention_sums sums, struct attention_table *table, int lane) {
    uint32_t cost = 0;
    for (int i = lane; i < n; i += 32)
        cost += shape_cost(s, shape_of(s, step, step.seq[seqs.at(first + i)], rows, n_workers));
    UNROLL for (int o = 16; o > 0; o /= 2) cost += __shfl_xor_sync(0xffffffffu, cost, o);
    sums.n_whole = sums.n_split = 0;
    for (int i0 = 0; i0 < n; i0 += 32) {
        const int i = i0 + lane;
        struct attention_sums takes = {0, 0, 0, 0};
        uint32_t jobs = 0;
        if (i < n) {
            const struct attention_shape shape =
                shape_of(s, step, step.seq[seqs.at(first + i)], rows, n_workers);
            takes = shape_takes(s, shape, cost, n_workers);
            jobs = (uint32_t)(shape.n_tiles * s.n_head_kv);
        }
        const uint32_t slot_end = sums.n_slots + warp_scan(takes.n_slots, lane);
        const uint32_t counter_end = sums.n_counters + warp_scan(takes.n_counters, lane);
        const uint32_t slot = slot_end - takes.n_slots, counter = counter_end - takes.n_counters;
        if (slot_end > ATTENTION_PARTS / 16 || counter_end > ATTENTION_COUNTERS)
            takes = {jobs, 0, 0, 0};
        const uint32_t whole_end = sums.n_whole + warp_scan(takes.n_whole, lane);
        const uint32_t split_end = sums.n_split + warp_scan(takes.n_split, lane);
        if (i < n) {
            table->whole_first[i] = whole_end - takes.n_whole;
            table->split_first[i] = split_end - takes.n_split;
            table->slot_first[i] = slot;
            table->counter_first[i] = counter;
        }
        const uint32_t has_room = __ballot_sync(0xffffffffu, takes.n_split > 0);
        const int last =
            has_room ? 31 - __clz((int)has_room) : 0; // lanes without room are after it
        const uint32_t slots = __shfl_sync(0xffffffffu, slot_end, last);
        const uint32_t counters = __shfl_sync(0xffffffffu, counter_end, last);
        if (has_room) sums.n_slots = slots, sums.n_counters = counters;
        sums.n_whole = __shfl_sync(0xffffffffu, whole_end, 31);
        sums.n_split = __shfl_sync(0xffffffffu, split_end, 31);
    }
    if (lane == 0) table->all = sums;
}

// The sequence that has the item: the last one that begins at it or before.
DEV int table_find(const uint32_t *first, int n, uint32_t item) {
    int low = 0, high = n;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (first[middle] <= item)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// The item `index` of a sequence, and its queries, into the block's memory. A warp. run: splits of
// an item that is not whole. slot and
// counter: the sequence's first ones, where it is not done whole.
DEV void item_make(const struct stage_attention &s, const struct step &step,
                   const struct step_seq &seq, int rows, const struct attention_shape &shape,
                   bool is_whole, int run, uint32_t index, uint32_t slot, uint32_t counter,
                   int worker, const struct attention_block &m) {
    const uint32_t jobs = (uint32_t)(shape.n_tiles * s.n_head_kv), job = index % jobs;
    const int n_head_kv = s.n_head_kv, in_tiles = (int)job / n_head_kv;
    // of whole ones the last tiles come first: they see most
    const int first = (is_whole ? shape.n_tiles - 1 - in_tiles : in_tiles) * shape.tile;
    struct attention_item w = {};
    w.head_kv = (int)job % n_head_kv;
    w.n = shape.n_queries - first < shape.tile ? shape.n_queries - first : shape.tile;
    const int end = shape.split_first + shape.n_splits - 1;
    w.split_first = shape.split_first + (is_whole ? 0 : (int)(index / jobs) * run);
    w.split_last = is_whole || w.split_first + run - 1 > end ? end : w.split_first + run - 1;
    w.seen_last = -1;
    w.is_few = shape.is_few;
    w.first_row = seq.first_row, w.first_pos = seq.first_pos, w.n_new = seq.n_tokens;
    w.table = step.tables + seq.table[s.group];
    w.state = (float4 *)s.parts + (int64_t)worker * (kv_units(s.dim_v) * 8 * 32);
    struct item_query q = {};
    for (int i = m.lane; i < w.n; i += 32) {
        q = query_at(s, step, seq, rows, w.head_kv, first + i);
        m.queries()[i] = q;
    }
    if (w.n > 0) { // the first and the last query
        const int pos = __shfl_sync(0xffffffffu, w.n > 32 ? 0 : q.pos, 0);
        const int pos_first = w.n > 32 ? query_at(s, step, seq, rows, w.head_kv, first).pos : pos;
        w.pos_last = __shfl_sync(0xffffffffu, q.pos, (w.n - 1) % 32);
        w.lowest = lowest_seen(s, pos_first);
        w.seen_first = w.lowest / SPLIT_TOKENS;
        w.seen_last = w.pos_last / SPLIT_TOKENS;
    }
    w.is_part = !is_whole && w.seen_first < w.seen_last && w.split_last >= w.seen_first &&
                w.split_first <= w.seen_last &&
                (w.split_first > w.seen_first || w.split_last < w.seen_last);
    if (!is_whole) {
        w.slot_split = shape.split_first;
        w.slot_size = shape_slot_size(s, shape);
        w.slots = (float4 *)s.parts + ATTENTION_STATES / 16 + slot +
                  (int64_t)job * shape.n_splits * w.slot_size;
        w.counters = s.counters + counter + job * (uint32_t)shape_segments(shape) * 2;
    }
    w.is_last = m.item().is_last;
    if (m.lane == 0) m.item() = w;
}

// What the block knows of the items of up to ATTENTION_SEQS sequences. Of a single sequence there
// is no table: the first warp of the block has its shape, and only it.
struct attention_list {
    struct attention_seqs seqs;
    const struct attention_table *table;
    struct attention_shape shape;
    struct attention_sums all;
    int first, n, n_workers, worker; // first, n: sequences
};

// The block's item `item` into its memory. A warp.
DEV void item_find(const struct stage_attention &s, const struct step &step, int rows,
                   const struct attention_list &list, uint32_t item,
                   const struct attention_block &m) {
    const uint32_t n_items = list.all.n_whole + list.all.n_split;
    const bool is_whole = item < list.all.n_whole, is_none = item >= n_items;
    const bool is_last = is_none || n_items - item <= (uint32_t)list.n_workers;
    if (m.lane == 0) m.item().is_none = is_none, m.item().is_last = is_last;
    if (is_none) return;
    const uint32_t index = is_whole ? item : item - list.all.n_whole;
    if (!list.table) {
        item_make(s, step, step.seq[list.seqs.at(0)], rows, list.shape, is_whole, 1, index, 0, 0,
                  list.worker, m);
        return;
    }
    const uint32_t *firsts = is_whole ? list.table->whole_first : list.table->split_first;
    const int i = table_find(firsts, list.n, index);
    const struct step_seq &seq = step.seq[list.seqs.at(list.first + i)];
    item_make(s, step, seq, rows, shape_of(s, step, seq, rows, list.n_workers), is_whole, 1,
              index - firsts[i], list.table->slot_first[i], list.table->counter_first[i],
              list.worker, m);
}

// ---------------------------------------------------------------- small steps

// The item of a small step into the block's memory; false: there is none. A warp. Each tile of 8
// queries is done for itself. An item has `run` splits of it; a sequence of few splits is done
// whole.
DEV bool small_item_find(const struct stage_attention &s, const struct step &step, int rows,
                         int run, uint32_t item, const struct attention_block &m) {
    uint64_t slot = 0, counter = 0;
    for (int i = 0; i < n_seqs_of(step, rows); i++) {
        const struct step_seq &seq = step.seq[i];
        const struct attention_shape shape = shape_of(s, step, seq, rows, INT32_MAX);
        const uint32_t jobs = (uint32_t)(shape.n_tiles * s.n_head_kv);
        const uint64_t slots =
            (uint64_t)jobs * (uint64_t)shape.n_splits * (uint64_t)shape_slot_size(s, shape);
        const uint64_t counters = (uint64_t)jobs * (uint64_t)shape_segments(shape) * 2;
        const bool is_whole = shape.n_splits <= (run > 2 ? run : 2) ||
                              slot + slots > ATTENTION_PARTS / 16 ||
                              counter + counters > ATTENTION_COUNTERS;
        const uint32_t n = is_whole ? jobs : jobs * (uint32_t)((shape.n_splits + run - 1) / run);
        if (item < n) {
            item_make(s, step, seq, rows, shape, is_whole, run, item, (uint32_t)slot,
                      (uint32_t)counter, (int)blockIdx.x, m);
            if (m.lane == 0)
                m.item().is_last = i + 1 == n_seqs_of(step, rows) && item + gridDim.x >= n;
            return true;
        }
        item -= n;
        if (!is_whole) slot += slots, counter += counters;
    }
    return false;
}

// The stage of a small step. The first item is planned before the launch waits.
template <class F>
DEV void attention_small_run(const struct stage_attention &s, const struct step &step, int rows,
                             int run, bool is_early, uint8_t *memory) {
    SHARED_MEMORY(shared);
    const uint32_t shared_at = (uint32_t)(memory - shared);
    const struct attention_block m = block_of(shared_at);
    page_stream<F> c = stream_begin<F>(s, m);
    for (uint32_t item = blockIdx.x;; item += gridDim.x) {
        if (m.warp == 0) {
            const bool is_there = small_item_find(s, step, rows, run, item, m);
            if (m.lane == 0) m.item().is_none = !is_there;
        }
        m.sync();
        if (m.item().is_none) break;
        const bool is_last = m.item().is_last;
        few_item<F, true>(s, c, shared_at, is_early);
        if (is_last) return;
        copies_may_follow();
        m.sync(); // the memory is used again
    }
    dependency_wait();
}

// ---------------------------------------------------------------- any step

// The stage. rows: enum stage_rows, of the queries and the output; part: enum step_part of its
// sequences; memory: ATTENTION_SHARED bytes of shared memory, then the slots of pages. Every block
// plans the same items, and takes every n-th.
template <class F>
DEV void attention_run(const struct stage_attention &s, const struct step &step, int rows, int part,
                       uint8_t *memory) {
    SHARED_MEMORY(shared);
    const uint32_t shared_at = (uint32_t)(memory - shared);
    const struct attention_block m = block_of(shared_at);
    const int places = ATTENTION_STATES / (kv_units(F::dim_v(s)) * 8 * 32 * 16);
    const int n_blocks = (int)gridDim.x, n_workers = n_blocks < places ? n_blocks : places;
    page_stream<F> c = stream_begin<F>(s, m);
    struct attention_list list = {};
    list.seqs = seqs_of(step, rows, part);
    list.n_workers = n_workers;
    list.worker = (int)blockIdx.x;
    for (; list.first < list.seqs.n; list.first += ATTENTION_SEQS) {
        const int rest = list.seqs.n - list.first;
        list.n = rest < ATTENTION_SEQS ? rest : ATTENTION_SEQS;
        if (list.seqs.n > 1) {
            struct attention_table *table = (struct attention_table *)memory;
            __syncthreads();
            if (threadIdx.x < 32)
                table_fill(s, step, rows, list.seqs, list.first, list.n, n_workers, list.all, table,
                           m.lane);
            __syncthreads();
            list.table = table;
            list.all = table->all;
        } else if (m.warp == 0) {
            list.shape = shape_of(s, step, step.seq[list.seqs.at(0)], rows, n_workers);
            list.all = shape_takes(s, list.shape, shape_cost(s, list.shape), n_workers);
        }
        if (list.worker >= n_workers) continue;
        for (uint32_t item = (uint32_t)list.worker;; item += (uint32_t)n_workers) {
            if (m.warp == 0) item_find(s, step, rows, list, item, m);
            m.sync();
            if (m.item().is_none) break;
            const bool is_last = m.item().is_last;
            if (m.item().is_few)
                few_item<F, true>(s, c, shared_at, true);
            else
                many_run<F>(s, shared_at);
            if (is_last) break;
            copies_may_follow(); // where new entries were put into the slots
            m.sync();            // the memory is used again
        }
    }
}

#endif
