// Attention of long contexts, for steps of few rows: one launch for the splits, another for their
// fold. The first has a block of 16 warps on each multiprocessor. Two of them, a *pair*, work on a
// split of old positions: a single warp would take longer for its instructions than the memory for
// the bytes. Splits with new positions are done by the form "few", in the launch's last blocks.
// The operations are those of attention.cuh.
#ifndef RN_BACKEND_CUDA_ATTENTION_LONG_CUH
#define RN_BACKEND_CUDA_ATTENTION_LONG_CUH

#include "attention.cuh"

// In a block's shared memory.
enum {
    LONG_PAIRS = LONG_THREADS / 64,
    LONG_FULL_AT = 0, // barriers of slots [warp][KV_SLOTS_MAX]
    LONG_STATS_AT = 2 * LONG_PAIRS * KV_SLOTS_MAX * 8,
    LONG_STATS = 512, // of a pair: maxima [warp][query], sums [page][query]
    LONG_QUERIES_AT = LONG_STATS_AT + LONG_PAIRS * LONG_STATS,
    LONG_QUERIES = FEW_QUERIES * 128 * 2, // of a pair
    LONG_KEPT_AT = LONG_QUERIES_AT + LONG_PAIRS * LONG_QUERIES,
    LONG_KEPT = SPLIT_PAGES / 2 * 1024, // of a warp: scores of its pages, then their operands
    LONG_SLOTS_AT = LONG_KEPT_AT + 2 * LONG_PAIRS * LONG_KEPT,
    LONG_SLOTS = 8192,              // of a warp
    LONG_ITEM_AT = LONG_QUERIES_AT, // the memory of "few", before the pairs use it
};
static_assert(LONG_SLOTS_AT + 2 * LONG_PAIRS * LONG_SLOTS <= LONG_SHARED, "a block has room");
static_assert(LONG_ITEM_AT % 128 == 0 && LONG_SLOTS_AT % 128 == 0, "regions are aligned");

// ---------------------------------------------------------------- the work

// A sequence of the step. Where it has few splits, or its parts have no room, a block does each of
// its tiles whole.
struct long_seq {
    struct attention_shape shape;
    uint32_t jobs; // tiles of all KV heads
    int written;   // the first split with new positions
    uint64_t slot; // its first one
    bool is_whole;
};

// The sequences in order. slot: the first free one; it moves past this sequence.
DEV struct long_seq long_seq_at(const struct stage_attention &s, const struct step &step, int rows,
                                int index, uint64_t &slot) {
    const struct step_seq &seq = step.seq[index];
    struct long_seq l;
    l.shape = shape_of(s, step, seq, rows, INT32_MAX);
    l.jobs = (uint32_t)(l.shape.n_tiles * s.n_head_kv);
    l.written = seq.first_pos / SPLIT_TOKENS;
    l.slot = slot;
    const uint64_t slots =
        (uint64_t)l.jobs * (uint64_t)l.shape.n_splits * (uint64_t)shape_slot_size(s, l.shape);
    l.is_whole = l.shape.n_splits <= 2 || slot + slots > ATTENTION_PARTS / 16;
    if (!l.is_whole) slot += slots;
    return l;
}

// Items of "few": all tiles of sequences that are done whole, and the splits with new positions.
DEV uint32_t few_items(const struct long_seq &l) {
    return l.is_whole ? l.jobs
                      : l.jobs * (uint32_t)(l.shape.split_first + l.shape.n_splits - l.written);
}
DEV uint32_t few_items_all(const struct stage_attention &s, const struct step &step, int rows) {
    uint64_t slot = 0;
    uint32_t n = 0;
    for (int i = 0; i < n_seqs_of(step, rows); i++)
        n += few_items(long_seq_at(s, step, rows, i, slot));
    return n;
}

// Such an item into the block's memory. A warp.
DEV void few_item_find(const struct stage_attention &s, const struct step &step, int rows,
                       uint32_t item, const struct attention_block &m) {
    uint64_t slot = 0;
    for (int i = 0; i < n_seqs_of(step, rows); i++) {
        const struct long_seq l = long_seq_at(s, step, rows, i, slot);
        const uint32_t n = few_items(l);
        if (item >= n) {
            item -= n;
            continue;
        }
        const uint32_t before = l.is_whole ? 0 : (uint32_t)(l.written - l.shape.split_first);
        item_make(s, step, step.seq[i], rows, l.shape, l.is_whole, 1, item + l.jobs * before,
                  (uint32_t)l.slot, 0, (int)blockIdx.x, m);
        return;
    }
}

// The tile of a job; most steps have one.
DEV int job_tile(const struct stage_attention &s, uint32_t job) {
    return (int)job < s.n_head_kv ? 0 : (int)job / s.n_head_kv;
}

// A split of old positions with a tile of queries: the work of a pair at a time.
struct pair_item {
    const struct step_seq *seq;
    const uint32_t *table; // of the split's pages
    float4 *slot;
    int head_kv, first, n; // queries
    int split;
    int page_first; // the first visible page of the split
};

DEV bool pair_item_find(const struct stage_attention &s, const struct step &step, int rows,
                        uint32_t index, struct pair_item &p) {
    uint64_t slot = 0;
    for (int i = 0; i < n_seqs_of(step, rows); i++) {
        const struct long_seq l = long_seq_at(s, step, rows, i, slot);
        const int n_old = l.is_whole ? 0 : l.written - l.shape.split_first;
        const uint32_t n = n_old > 0 ? l.jobs * (uint32_t)n_old : 0;
        if (index >= n) {
            index -= n;
            continue;
        }
        const uint32_t job = index % l.jobs, in = index / l.jobs;
        const int tile = job_tile(s, job), rest = l.shape.n_queries - tile * l.shape.tile;
        p.seq = &step.seq[i];
        p.head_kv = (int)job - tile * s.n_head_kv;
        p.first = tile * l.shape.tile;
        p.n = rest < l.shape.tile ? rest : l.shape.tile;
        p.split = l.shape.split_first + (int)in;
        p.table = step.tables + p.seq->table[s.group] + p.split * SPLIT_PAGES;
        p.slot = (float4 *)s.parts + ATTENTION_STATES / 16 + l.slot +
                 ((int64_t)job * l.shape.n_splits + in) * shape_slot_size(s, l.shape);
        p.page_first = 0;
        if (s.window > 0) {
            const int lowest =
                lowest_seen(s, query_at(s, step, *p.seq, rows, p.head_kv, p.first).pos);
            const int low = lowest / PAGE_TOKENS - p.split * SPLIT_PAGES;
            p.page_first = low > 0 ? low : 0;
        }
        return true;
    }
    return false;
}

// ---------------------------------------------------------------- a pair

// A warp of a pair: it has every second page of the split's keys, and one half of the elements of
// all values.
template <class F> struct pair_warp {
    static constexpr int N_SLOTS = LONG_SLOTS / (CHUNK_UNITS * (int)kv_unit_bytes<F>());
    static constexpr int UNITS = F::DIM / 32; // of values: half of them
    static constexpr int N_K = F::DIM / 64;   // chunks of a page's keys
    int warp, lane, g, t, pair, half;
    uint8_t *shared;
    uint32_t n_asked, n_read; // chunks
    int chunk;                // the split's next one
    uint32_t page;            // of lane i: page i of the split

    DEV uint8_t *slot(uint32_t index) const {
        return shared + LONG_SLOTS_AT + warp * LONG_SLOTS +
               (index % N_SLOTS) * (CHUNK_UNITS * kv_unit_bytes<F>());
    }
    DEV uint64_t *full(uint32_t index) const {
        return (uint64_t *)(shared + LONG_FULL_AT) + warp * KV_SLOTS_MAX + index % N_SLOTS;
    }
    DEV float *maxima() const { return (float *)(shared + LONG_STATS_AT + pair * LONG_STATS); }
    DEV float *sums() const { return maxima() + 2 * FEW_QUERIES; }
    DEV uint8_t *queries() const { return shared + LONG_QUERIES_AT + pair * LONG_QUERIES; }
    DEV uint8_t *kept(int of_half, int page_index) const {
        return shared + LONG_KEPT_AT + (pair * 2 + of_half) * LONG_KEPT + page_index / 2 * 1024;
    }
    DEV void sync() const { barrier_sync(1 + pair, 64); }
    DEV int page_own(const struct pair_item &p) const { // the first one of its keys
        return p.page_first + ((p.page_first ^ half) & 1);
    }
    DEV const uint8_t *head(const struct stage_attention &s, const struct pair_item &p,
                            int index) const {
        return kv_head_in<F>(s, __shfl_sync(0xffffffffu, page, index), p.head_kv);
    }
};

template <class F> DEV pair_warp<F> pair_warp_of(uint8_t *shared) {
    pair_warp<F> w = {};
    w.shared = shared;
    w.warp = (int)threadIdx.x / 32, w.lane = (int)threadIdx.x % 32;
    w.g = w.lane / 4, w.t = w.lane % 4;
    w.pair = w.warp / 2, w.half = w.warp % 2;
    return w;
}

// Asks for chunks while a slot is free: the keys of the warp's pages, then its values of all pages.
template <class F>
DEV void pair_ask(pair_warp<F> &w, const struct stage_attention &s, const struct pair_item &p) {
    constexpr uint32_t UNIT = kv_unit_bytes<F>();
    const int own = w.page_own(p);
    const int n_k = (SPLIT_PAGES - own + 1) / 2 * w.N_K;
    const int n = n_k + SPLIT_PAGES - p.page_first;
    while (w.chunk < n && w.n_asked < w.n_read + w.N_SLOTS) {
        const bool is_key = w.chunk < n_k;
        const int index = is_key ? own + w.chunk / w.N_K * 2 : p.page_first + w.chunk - n_k;
        const uint32_t at = is_key ? (uint32_t)(w.chunk % w.N_K) * (CHUNK_UNITS * UNIT)
                                   : kv_k_bytes<F>(F::DIM) + (uint32_t)(w.half * w.UNITS) * UNIT;
        fetch<true>(w.slot(w.n_asked), w.head(s, p, index) + at,
                    (uint32_t)(is_key ? (int)CHUNK_UNITS : w.UNITS) * UNIT, w.full(w.n_asked),
                    w.lane);
        w.n_asked++;
        w.chunk++;
    }
}
template <class F> DEV uint32_t pair_wait(const pair_warp<F> &w) {
    fetch_wait(w.full(w.n_read), w.n_read / w.N_SLOTS & 1);
    return shared_address(w.slot(w.n_read));
}
template <class F>
DEV void pair_next(pair_warp<F> &w, const struct stage_attention &s, const struct pair_item &p) {
    __syncwarp();
    w.n_read++;
    pair_ask(w, s, p);
}

// The queries of the pair, as queries_load has them; each warp prepares every second one. All of
// them are asked for before the first one is used.
template <class F> struct pair_queries {
    enum { N = FEW_QUERIES / 2 };
    struct head_load load[N];
};
template <class F>
DEV void queries_ask(pair_queries<F> &x, const pair_warp<F> &w, const struct stage_attention &s,
                     const struct step &step, int rows, const struct pair_item &p) {
    UNROLL for (int k = 0; k < x.N; k++) {
        const int i = 2 * k + w.half;
        if (i >= p.n) continue;
        const struct item_query q = query_at(s, step, *p.seq, rows, p.head_kv, p.first + i);
        head_ask(x.load[k],
                 s.q + (int64_t)(s.q_is_out ? q.out_row : q.token) * s.ld_q + q.head * F::DIM,
                 F::DIM, s.q_norm ? s.q_weight : nullptr, s.n_rot,
                 (const float2 *)s.rope + (int64_t)q.token * (s.n_rot / 2), w.lane);
    }
}
template <class F>
DEV void queries_put(const pair_queries<F> &x, const pair_warp<F> &w,
                     const struct stage_attention &s, const struct pair_item &p) {
    const struct head_rule rule = {s.q_norm ? s.q_weight : nullptr, s.q_eps, s.n_rot, s.halves};
    float *to = (float *)w.kept(w.half, 0);
    UNROLL for (int k = 0; k < x.N; k++) {
        const int i = 2 * k + w.half;
        if (i >= p.n) continue;
        head_finish(to, x.load[k], nullptr, F::DIM, rule, nullptr, w.lane); // of at most 128
        query_put<F>(w.queries(), i, to, F::DIM, w.lane);
    }
}

// Scores of the warp's pages; top: the largest of them.
template <class F>
DEV void pair_scores(pair_warp<F> &w, const struct stage_attention &s, const struct pair_item &p,
                     const struct lane_queries &l, float (&top)[2]) {
    const uint32_t queries = shared_address(w.queries());
    top[0] = top[1] = -INFINITY;
    ROLLED for (int i = w.page_own(p); i < SPLIT_PAGES; i += 2) {
        float sum[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}}, score[8], most[2];
        uint32_t bad = 0;
        uint2 scales = {0, 0};
        if (F::TYPE == KV_INT8)
            scales =
                load_l2((const uint2 *)(w.head(s, p, i) + kv_scales_at<F>(F::DIM, F::DIM)) + w.g);
        UNROLL for (int c = 0; c < w.N_K; c++) {
            scores_chunk<F>(s, pair_wait(w), queries, c * CHUNK_BLOCKS, sum, bad, w.lane);
            pair_next(w, s, p);
        }
        UNROLL for (int k = 0; k < 8; k++) score[k] = sum[k / 4][k % 4];
        scores_finish<F>(s, score, scales, bad, l, p.split * SPLIT_PAGES + i, w.g);
        page_max(score, most);
        top[0] = fmaxf(top[0], most[0]), top[1] = fmaxf(top[1], most[1]);
        float *kept = (float *)w.kept(w.half, i) + w.lane;
        UNROLL for (int k = 0; k < 8; k++) kept[k * 32] = score[k];
    }
}

// p of the warp's pages, as operands for both warps, and their sums.
template <class F>
DEV void pair_weights(const pair_warp<F> &w, const struct stage_attention &s,
                      const struct pair_item &p, const float (&top)[2]) {
    ROLLED for (int i = w.page_own(p); i < SPLIT_PAGES; i += 2) {
        float score[8], of_page[2];
        uint32_t b[4];
        uint2 scales = {0, 0};
        if (F::TYPE == KV_INT8)
            scales = load_l2((const uint2 *)(w.head(s, p, i) + kv_scales_at<F>(F::DIM, F::DIM)) +
                             8 + w.g);
        const float *kept = (const float *)w.kept(w.half, i) + w.lane;
        UNROLL for (int k = 0; k < 8; k++) score[k] = kept[k * 32];
        page_weights(score, top, of_page);
        page_operand<F>(score, scales, b, w.g, w.t);
        __syncwarp(); // all lanes have read their scores
        ((uint4 *)w.kept(w.half, i))[w.lane] = make_uint4(b[0], b[1], b[2], b[3]);
        if (w.lane >= 4) continue;
        w.sums()[i * FEW_QUERIES + 2 * w.t] = of_page[0];
        w.sums()[i * FEW_QUERIES + 2 * w.t + 1] = of_page[1];
    }
}

// The warp's half of the elements, over all pages; the part goes to its slot.
template <class F>
DEV void pair_values(pair_warp<F> &w, const struct stage_attention &s, const struct pair_item &p,
                     const float (&top)[2]) {
    constexpr int UNITS = pair_warp<F>::UNITS;
    const int n_pairs = 1 << pairs_log(p.n);
    float o[UNITS][4], l[2] = {0.0f, 0.0f};
    UNROLL for (int u = 0; u < UNITS; u++) UNROLL for (int k = 0; k < 4; k++) o[u][k] = 0.0f;
    ROLLED for (int i = p.page_first; i < SPLIT_PAGES; i++) {
        const uint4 b = shared_u128(shared_address(w.kept(i & 1, i)) + (uint32_t)w.lane * 16);
        UNROLL for (int q = 0; q < 2; q++) l[q] = l[q] + w.sums()[i * FEW_QUERIES + 2 * w.t + q];
        const uint32_t chunk = pair_wait(w);
        UNROLL for (int u = 0; u < UNITS; u++) {
            uint32_t a[2][4];
            unit_fragments<F>(a, chunk + (uint32_t)u * kv_unit_bytes<F>(), w.lane);
            kv_mma<F>(o[u], a[0], b.x, b.y);
            kv_mma<F>(o[u], a[1], b.z, b.w);
        }
        pair_next(w, s, p);
    }
    if (w.t >= n_pairs) return;
    if (w.half == 0 && w.g == 0) p.slot[w.t] = make_float4(top[0], l[0], top[1], l[1]);
    UNROLL for (int u = 0; u < UNITS; u++) {
        const int unit = w.half * UNITS + u;
        p.slot[n_pairs + (unit * 8 + w.g) * n_pairs + w.t] =
            make_float4(o[u][0], o[u][1], o[u][2], o[u][3]);
    }
}

// The pair's first item. Blocks without an item of "few" take the first splits, so the other blocks
// get fewer.
DEV uint32_t pair_first(int pair, uint32_t n_few) {
    const uint32_t n = n_few < gridDim.x ? gridDim.x - n_few : gridDim.x;
    if (blockIdx.x < n) return (uint32_t)pair * n + blockIdx.x;
    return n * LONG_PAIRS + (uint32_t)pair * (gridDim.x - n) + (blockIdx.x - n);
}

// The splits of old positions. is_early: pages may be read before the launch waits.
template <class F>
DEV void pairs_run(const struct stage_attention &s, const struct step &step, int rows,
                   uint32_t n_few, uint8_t *shared, bool is_early) {
    pair_warp<F> w = pair_warp_of<F>(shared);
    if (w.lane < w.N_SLOTS) fetch_init(w.full((uint32_t)w.lane));
    fetch_init_done();
    __syncwarp();
    struct pair_item p;
    ROLLED for (uint32_t index = pair_first(w.pair, n_few); pair_item_find(s, step, rows, index, p);
                index += gridDim.x * LONG_PAIRS) {
        if (p.page_first >= SPLIT_PAGES) continue; // the window begins after it
        w.page = 0;
        if (w.lane >= p.page_first && w.lane < SPLIT_PAGES) w.page = p.table[w.lane];
        w.chunk = 0;
        __syncwarp();
        if (!is_early) dependency_wait();
        pair_ask(w, s, p);
        dependency_wait();
        pair_queries<F> x;
        queries_ask(x, w, s, step, rows, p);
        struct lane_queries l; // all positions are old
        UNROLL for (int q = 0; q < 2; q++) {
            const int i = 2 * w.t + q;
            l.pos[q] = i < p.n ? INT32_MAX : -1;
            l.low[q] = 0;
            if (s.window > 0 && i < p.n)
                l.low[q] =
                    lowest_seen(s, query_at(s, step, *p.seq, rows, p.head_kv, p.first + i).pos);
        }
        queries_put(x, w, s, p);
        w.sync();
        float top[2];
        pair_scores(w, s, p, l, top);
        UNROLL for (int q = 0; q < 2; q++) if (w.lane < 4)
            w.maxima()[w.half * FEW_QUERIES + 2 * w.t + q] = top[q];
        w.sync();
        UNROLL for (int q = 0; q < 2; q++) top[q] =
            fmaxf(w.maxima()[2 * w.t + q], w.maxima()[FEW_QUERIES + 2 * w.t + q]);
        pair_weights(w, s, p, top);
        w.sync();
        pair_values(w, s, p, top);
        w.sync(); // the memory of the pair is used again
    }
}

// ---------------------------------------------------------------- the launches

// All splits; parts of them are in their slots. LONG_THREADS threads and LONG_SHARED bytes.
template <class F>
DEV void attention_long_run(const struct stage_attention &s, const struct step &step, int rows,
                            uint8_t *shared, bool is_early) {
    const uint32_t n_few = few_items_all(s, step, rows), first = gridDim.x - 1 - blockIdx.x;
    if (first < n_few) {
        if (threadIdx.x < BLOCK_THREADS) {
            const struct attention_block m = block_of(LONG_ITEM_AT);
            page_stream<F> c = stream_begin<F>(s, m);
            ROLLED for (uint32_t item = first; item < n_few; item += gridDim.x) {
                if (m.warp == 0) few_item_find(s, step, rows, item, m);
                m.sync();
                few_item<F, false>(s, c, LONG_ITEM_AT, is_early);
                copies_may_follow();
                m.sync(); // the memory is used again
            }
            if (m.lane < (int)c.n_slots) fetch_end(c.full + m.lane);
            copies_may_follow();
        }
        __syncthreads();
    }
    pairs_run<F>(s, step, rows, n_few, shared, is_early);
}

enum {
#ifdef RN_EMULATED
    FOLD_SPLITS = 32, // at a time; tests have contexts of a few more
#else
    FOLD_SPLITS = 128,
#endif
    FOLD_QUERY = FOLD_SPLITS * 8 + 32,
    // in shared memory, where an item has its queries: of a query its factors and live splits;
    // (m, l) of splits. Behind the item: parts of a unit
    FOLD_FACTORS_AT = TABLE_BYTES,
    FOLD_HEADS_AT = FOLD_FACTORS_AT + FEW_QUERIES * FOLD_QUERY,
    FOLD_PARTS_AT = ATTENTION_SHARED,
};
static_assert(FOLD_HEADS_AT + FOLD_SPLITS * FEW_QUERIES * 8 <= TABLE_BYTES + STATS_AT &&
                  FOLD_PARTS_AT + FOLD_SPLITS * 512 <= FOLD_SHARED,
              "a block has room");

// Factors of n splits for one query, by a warp. top: the largest m of the splits before; at the end
// that of these, too.
DEV void fold_factors(uint8_t *shared, int query, int n, float &top, int lane) {
    float2 *by = (float2 *)(shared + FOLD_FACTORS_AT + query * FOLD_QUERY);
    uint32_t *live = (uint32_t *)(by + FOLD_SPLITS);
    const float2 *heads = (const float2 *)(shared + FOLD_HEADS_AT) + query;
    for (int j0 = 0; j0 < n; j0 += 32) {
        const int j = j0 + lane;
        float2 ml = {-INFINITY, 0.0f};
        if (j < n) ml = heads[j * FEW_QUERIES];
        const struct split_factors f = split_factors_of(ml, top, lane);
        by[j] = f.by;
        if (lane == 0) live[j0 / 32] = f.live;
        top = __shfl_sync(0xffffffffu, top, 31);
    }
}

// One number of a query, over n splits.
DEV float fold_chain(const uint8_t *shared, int query, int n, float x, const float *parts,
                     int stride) {
    const float2 *by = (const float2 *)(shared + FOLD_FACTORS_AT + query * FOLD_QUERY);
    const uint32_t *live = (const uint32_t *)(by + FOLD_SPLITS);
    UNROLL_8 for (int j = 0; j < n; j++) {
        const float2 f = by[j];
        const float v = fmaf(parts[j * stride], f.y, x * f.x);
        x = live[j / 32] >> (j % 32) & 1 ? v : x;
    }
    return x;
}

// The fold of a tile's unit of 16 elements. The item is in the block's memory.
DEV void fold_unit(const struct stage_attention &s, const struct attention_block &m,
                   uint8_t *shared, int unit) {
    const struct attention_item &w = m.item();
    const int n_pairs = 1 << pairs_log(w.n), n_queries = 2 * n_pairs;
    float2 *heads = (float2 *)(shared + FOLD_HEADS_AT);
    float *parts = (float *)(shared + FOLD_PARTS_AT);
    struct softmax_fold *ends = m.folds();
    // a thread has an element of a query, or its l
    const int n_elements = 16 * n_queries, in_unit = m.thread / 4 / n_pairs;
    const int query = m.thread / 4 % n_pairs * 2 + m.thread % 2;
    const int d = unit * 16 + in_unit + 8 * (m.thread / 2 % 2);
    const int of_l = m.thread - (BLOCK_THREADS - 32); // the last warp
    float x = 0.0f, top = -INFINITY;
    for (int first = w.seen_first; first <= w.seen_last; first += FOLD_SPLITS) {
        const int n =
            w.seen_last - first + 1 < FOLD_SPLITS ? w.seen_last - first + 1 : (int)FOLD_SPLITS;
        const float4 *slots = w.slots + (int64_t)(first - w.slot_split) * w.slot_size;
        for (int i = m.thread; i < n * n_pairs; i += BLOCK_THREADS) {
            const float4 v = load_l2(slots + (int64_t)(i / n_pairs) * w.slot_size + i % n_pairs);
            *(float4 *)(heads + i / n_pairs * FEW_QUERIES + i % n_pairs * 2) = v;
        }
        UNROLL_8 for (int i = m.thread; i < n * 8 * n_pairs; i += BLOCK_THREADS) {
            const int j = i / (8 * n_pairs), e = i % (8 * n_pairs);
            const float4 *at = slots + (int64_t)j * w.slot_size + n_pairs + unit * 8 * n_pairs + e;
            ((float4 *)parts)[i] = load_l2(at);
        }
        m.sync();
        if (m.warp < n_queries) fold_factors(shared, m.warp, n, top, m.lane);
        m.sync();
        if (m.thread < n_elements)
            x = fold_chain(shared, query, n, x, parts + m.thread, 32 * n_pairs);
        else if (of_l >= 0 && of_l < n_queries)
            x = fold_chain(shared, of_l, n, x, (float *)(heads + of_l) + 1, 2 * FEW_QUERIES);
        m.sync();
    }
    if (of_l >= 0 && of_l < n_queries) ends[of_l].l = x;
    if (m.warp < n_queries && m.lane == 0) ends[m.warp].m = top;
    m.sync();
    if (m.thread < n_elements) result_put(s, query_end_of(s, m, query, ends[query]), d, x);
}

// The fold of all parts: a block has a unit of a tile. BLOCK_THREADS threads and FOLD_SHARED bytes.
DEV void attention_fold_run(const struct stage_attention &s, const struct step &step, int rows,
                            uint8_t *shared) {
    const struct attention_block m = block_of(0);
    const uint32_t n_units = (uint32_t)kv_units(s.dim_v);
    uint64_t slot = 0;
    uint32_t before = 0;
    bool has_waited = false;
    for (int i = 0; i < n_seqs_of(step, rows); i++) {
        const struct long_seq l = long_seq_at(s, step, rows, i, slot);
        if (l.is_whole) continue;
        const uint32_t n = l.jobs * n_units;
        uint32_t index = blockIdx.x;
        while (index < before) index += gridDim.x;
        for (; index < before + n; index += gridDim.x) {
            const uint32_t job = (index - before) / n_units;
            m.sync(); // the memory is used again
            if (m.warp == 0)
                item_make(s, step, step.seq[i], rows, l.shape, false, 1, job, (uint32_t)l.slot, 0,
                          (int)blockIdx.x, m);
            m.sync();
            if (!has_waited) dependency_wait();
            has_waited = true;
            if (m.item().seen_first >= m.item().seen_last) continue; // it was done as a whole
            fold_unit(s, m, shared, (int)((index - before) % n_units));
        }
        before += n;
    }
    if (!has_waited) dependency_wait();
}

#endif
