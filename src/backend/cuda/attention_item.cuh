// An item of attention, the work of a block at a time, and what its two forms share: queries in
// shared memory, a page with 8 queries, running results, slots of parts and their fold.
// attention.cuh has the arithmetic and makes the items; attention_few.cuh and attention_many.cuh
// run them.
#ifndef RN_BACKEND_CUDA_ATTENTION_ITEM_CUH
#define RN_BACKEND_CUDA_ATTENTION_ITEM_CUH

#include "kv.cuh"
#include "rows16.cuh"

// ROLLED: a large or rare loop is not unrolled. UNROLL_8: the number of turns is not known, and
// loads of several turns overlap.
#ifdef RN_EMULATED
#define ROLLED
#define UNROLL_8
#else
#define ROLLED   _Pragma("unroll 1")
#define UNROLL_8 _Pragma("unroll 8")
#endif

enum {
    ATTENTION_SEQS = 256, // sequences that are planned at a time
    FEW_QUERIES = 8,
    MANY_QUERIES = 64,
    SEGMENT_SPLITS = 32,
    ATTENTION_BARRIER = 14, // of the 256 threads that have an item
    RING_SLOT = 4096,       // bytes of keys or values that a block copies at a time
    RING_SLOTS = 6,
    QUERY_BYTES = 16 << 10,    // of the queries of an item in shared memory
    EXCHANGE_BYTES = 16 << 10, // of heads that are normed; then of what warps tell each other
    TABLE_BYTES = 4352,
    ITEM_BYTES = ATTENTION_SHARED - TABLE_BYTES,
    // in a block's memory
    KEPT_AT = 8 << 10, // of "few", whose queries take less: running results
    EXCHANGE_AT = 12 << 10,
    STATS_AT = EXCHANGE_AT + EXCHANGE_BYTES,
    QUERIES_AT = STATS_AT + 640,              // struct item_query [MANY_QUERIES]
    FULL_AT = QUERIES_AT + MANY_QUERIES * 16, // barriers of "few"
    ITEM_AT = FULL_AT + N_WARPS * KV_SLOTS_MAX * 8,
};
static_assert(ITEM_BYTES % 128 == 0, "a block's memory is aligned");
static_assert(QUERY_BYTES + 3 * RING_SLOT <= STATS_AT, "a ring has at least 3 slots");

// An item: the work of a block at a time.
struct attention_item {
    int32_t head_kv, n;              // n: queries
    int32_t pos_last, lowest;        // of the queries' positions; the lowest that they see
    int32_t split_first, split_last; // to do; some may have no position that is visible
    int32_t seen_first, seen_last;   // splits that the queries see; none: the last is -1
    int32_t is_part;                 // one split of several: the result goes to its slot
    int32_t is_few;
    int32_t is_none, is_last; // of the block's items: there is no item; it is the last one
    int32_t first_row, first_pos, n_new; // of the sequence: rows and positions of the batch
    int32_t slot_split, slot_size;       // slots: from that split on; slot_size: float4
    int32_t chunks_first, chunks_split; // "many": chunks of the first split that is read, of others
    int32_t query_bytes, n_slots;       // "many": of shared memory
    const uint32_t *table;              // of pages
    float4 *slots;
    uint32_t *counters; // [segments][2] arrivals, then events of the segment
    float4 *state;      // this block's
};
static_assert(ITEM_AT + sizeof(struct attention_item) <= ITEM_BYTES, "a block's memory has room");

// A query of an item.
struct item_query {
    int32_t pos, head, token, out_row;
};

// The threads that work together, and their memory. The item and its queries are read from shared
// memory where they are needed: they would take too many registers.
struct attention_block {
    int thread, warp, lane, g, t;
    uint8_t *memory;
    uint8_t *pages; // "few": [warp][page_slots] chunks
    DEV void sync() const { barrier_sync(ATTENTION_BARRIER, BLOCK_THREADS); }
    DEV float *maxima() const { return (float *)(memory + STATS_AT); } // [page][query]
    DEV float *sums() const { return maxima() + SPLIT_PAGES * FEW_QUERIES; }
    DEV struct softmax_fold *folds() const; // [query] of the splits before
    DEV uint32_t *flag() const { return (uint32_t *)(sums() + SPLIT_PAGES * FEW_QUERIES + 16); }
    DEV struct attention_item &item() const { return *(struct attention_item *)(memory + ITEM_AT); }
    DEV struct item_query *queries() const { return (struct item_query *)(memory + QUERIES_AT); }
};

DEV struct attention_block block_of(uint32_t shared_at) {
    SHARED_MEMORY(shared);
    struct attention_block m;
    m.thread = (int)threadIdx.x;
    m.warp = m.thread / 32, m.lane = m.thread % 32;
    m.g = m.lane / 4, m.t = m.lane % 4;
    m.memory = shared + shared_at + TABLE_BYTES;
    m.pages = shared + shared_at + ATTENTION_SHARED;
    return m;
}

DEV int n_seqs_of(const struct step &step, int rows) {
    return rows == STAGE_OUT ? step.n_seqs_out : step.n_seqs;
}

// The sequences of a stage that a launch does. index NULL: all of the step.
struct attention_seqs {
    const int32_t *index;
    int n;
    DEV int at(int i) const { return index ? index[i] : i; }
};
DEV struct attention_seqs seqs_of(const struct step &step, int rows, int part) {
    if (part == STEP_PARTS) return {nullptr, n_seqs_of(step, rows)};
    const struct step_seqs &seqs = step.part[rows == STAGE_OUT][part];
    return {seqs.index, seqs.n};
}

// Query `index` of a sequence's KV head.
DEV struct item_query query_at(const struct stage_attention &s, const struct step &step,
                               const struct step_seq &seq, int rows, int head_kv, int index) {
    const int ratio = s.ratio, i = index < ratio ? 0 : index / ratio; // most steps have one row
    struct item_query q;
    q.token = rows == STAGE_OUT ? step.out_row[seq.first_out + i] : seq.first_row + i;
    q.out_row = rows == STAGE_OUT ? seq.first_out + i : q.token;
    q.pos = seq.first_pos + (q.token - seq.first_row);
    q.head = head_kv * ratio + (index - i * ratio);
    return q;
}

// The lowest position that a query sees: kv_first_seen of plan.h.
DEV int lowest_seen(const struct stage_attention &s, int pos) {
    if (s.window == 0 || pos < s.window) return 0;
    return s.is_chunk ? pos - pos % s.window : pos - s.window + 1;
}

// ---------------------------------------------------------------- queries in shared memory

// Rows of f16 or bf16, padded to whole blocks. Lanes of two queries read 64 bytes each at a time,
// in different banks: where rows are whole multiples of 128 bytes, every second one has its halves
// of 128 bytes exchanged.
DEV int query_stride(int dim_k) { return kv_blocks(dim_k) * 64; }
DEV uint32_t query_turn(int dim_k, int query) {
    return kv_blocks(dim_k) % 2 == 0 ? (uint32_t)(query & 1) << 6 : 0;
}

// Warps that prepare heads at a time, in `bytes` of scratch.
DEV int head_warps(int dim_k, int bytes) {
    const int n = bytes / (dim_k * 4);
    return n < 8 ? n : 8;
}

// Query i, rounded. A warp.
template <class F>
DEV void query_put(uint8_t *queries, int i, const float *x, int dim_k, int lane) {
    uint8_t *to = queries + i * query_stride(dim_k);
    for (int d = 2 * lane; d < kv_blocks(dim_k) * 32; d += 64) {
        const uint32_t low = d < dim_k ? kv_round<F>(x[d]) : 0;
        const uint32_t high = d < dim_k ? kv_round<F>(x[d + 1]) : 0;
        *(uint32_t *)(to + ((uint32_t)(d * 2) ^ query_turn(dim_k, i))) = low | high << 16;
    }
}

// The queries of the item, normed, rotated and rounded, at the start of the block's memory. Each
// warp of the first n_warps has scratch. Warp `last` gets its queries last: it may be late.
template <class F>
DEV void queries_load(const struct stage_attention &s, const struct attention_block &m,
                      uint8_t *scratch, int n_warps, int last) {
    const struct head_rule rule = {s.q_norm ? s.q_weight : nullptr, s.q_eps, s.n_rot, s.halves};
    if (m.warp >= n_warps) return;
    float *x = (float *)scratch + m.warp * F::dim_k(s);
    const int n = m.item().n;
    for (int i = n_warps == 8 ? (m.warp + 7 - last) % 8 : m.warp; i < n; i += n_warps) {
        const struct item_query q = m.queries()[i];
        head_norm(x,
                  s.q + (int64_t)(s.q_is_out ? q.out_row : q.token) * s.ld_q + q.head * F::dim_k(s),
                  F::dim_k(s), rule, (const float2 *)s.rope + (int64_t)q.token * (s.n_rot / 2),
                  m.lane);
        query_put<F>(m.memory, i, x, F::dim_k(s), m.lane);
    }
}

// The second operand of a block's two steps, for the lane's query of 8: x and y, then z and w.
DEV uint4 query_fragment(uint32_t queries, int dim_k, int query, int block, int t) {
    const uint32_t at = (uint32_t)(block * 64 + t * 16) ^ query_turn(dim_k, query);
    return shared_u128(queries + (uint32_t)(query * query_stride(dim_k)) + at);
}

// ---------------------------------------------------------------- a page and 8 queries

// The first operand of both steps of a unit in shared memory.
template <class F> DEV void unit_fragments(uint32_t (&a)[2][4], uint32_t unit, int lane) {
    if (kv_is_wide<F>()) {
        shared_matrices(a[0], unit, lane);
        shared_matrices(a[1], unit + 256, lane);
    } else {
        kv_fragments<F>(a, shared_u128(unit + (uint32_t)lane * 16));
    }
}

// A lane has 4 positions g + 8i of the page and 2 queries 2t + q of the 8: score [2i + q].
struct lane_queries {
    int pos[2], low[2]; // positions that each sees: low to pos; none: pos is -1
};

DEV struct lane_queries lane_queries_of(const struct stage_attention &s,
                                        const struct attention_block &m, int first) {
    struct lane_queries l;
    UNROLL for (int q = 0; q < 2; q++) {
        const int i = first + 2 * m.t + q;
        l.pos[q] = i < m.item().n ? m.queries()[i].pos : -1;
        l.low[q] = lowest_seen(s, l.pos[q]);
    }
    return l;
}

// The scales of a lane's 4 positions.
DEV void scales_of(float (&scale)[4], const uint2 &v) {
    scale[0] = f32_of_f16((uint16_t)v.x), scale[1] = f32_of_f16((uint16_t)(v.x >> 16));
    scale[2] = f32_of_f16((uint16_t)v.y), scale[3] = f32_of_f16((uint16_t)(v.y >> 16));
}

// From sums of products to scores; -inf where the position is not visible. scales: of keys.
template <class F, bool IS_INLINED = false>
DEV void scores_finish(const struct stage_attention &s, float (&score)[8], const uint2 &scales,
                       uint32_t bad, const struct lane_queries &l, int page, int g) {
    float scale[4];
    if (F::TYPE == KV_INT8) scales_of(scale, scales);
    if (F::TYPE == KV_FP8) { // lanes of short heads have only padding
        bad |= __shfl_xor_sync(0xffffffffu, bad, 1);
        bad |= __shfl_xor_sync(0xffffffffu, bad, 2);
    }
    UNROLL for (int i = 0; i < 4; i++) {
        const int pos = page * PAGE_TOKENS + g + 8 * i;
        UNROLL for (int q = 0; q < 2; q++) {
            float x = score[2 * i + q];
            if (F::TYPE == KV_INT8) x = x * scale[i];
            if (F::TYPE == KV_FP8 && (bad >> i & 1)) x = NAN;
            x = x * s.scale;
            if (s.softcap > 0.0f)
                x = IS_INLINED ? s.softcap * rmath_tanh(x / s.softcap) : rmath_capped(x, s.softcap);
            score[2 * i + q] = pos <= l.pos[q] && pos >= l.low[q] ? x : -INFINITY;
        }
    }
}

// A bit for each of the lane's two positions of a unit of fp8 keys that are NaN.
DEV uint32_t fp8_bad(const uint4 &v) {
    return (uint32_t)((v.x & 0x7f) == 0x7f) | (uint32_t)((v.y & 0x7f) == 0x7f) << 1;
}

// Over the lanes that have the same query.
DEV float queries_max(float x) {
    UNROLL for (int o = 4; o < 32; o *= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, o));
    return x;
}
DEV float queries_sum(float x) {
    UNROLL for (int o = 4; o < 32; o *= 2) x = x + __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}

// The largest of the page, for each of the lane's queries; all lanes of a query get it.
DEV void page_max(const float (&score)[8], float (&m)[2]) {
    UNROLL for (int q = 0; q < 2; q++) {
        m[q] = fmaxf(fmaxf(score[q], score[2 + q]), fmaxf(score[4 + q], score[6 + q]));
        m[q] = queries_max(m[q]);
    }
}

// A weight p is 2^y of y = fmaf(score, log2 e, -top), top = m * log2 e, by the device's own
// instruction (exp2_device). It has an error of 2 units in the last place, is exactly 1 at 0, and 0
// below 2^-126: nothing can see such a p beside p = 1 of the largest score.

// A query that sees nothing has m = -inf, and all its weights are 0.
DEV float weights_top(float m) { return m == -INFINITY ? 0.0f : m * RMATH_LOG2E; }
DEV float weight_of(float score, float top) { return exp2_device(fmaf(score, RMATH_LOG2E, -top)); }

// p instead of scores, and l of the page.
DEV void page_weights(float (&score)[8], const float (&m)[2], float (&l)[2]) {
    UNROLL for (int q = 0; q < 2; q++) {
        const float top = weights_top(m[q]);
        UNROLL for (int i = 0; i < 4; i++) score[2 * i + q] = weight_of(score[2 * i + q], top);
        l[q] = queries_sum((score[q] + score[2 + q]) + (score[4 + q] + score[6 + q]));
    }
}

// The second operand of both steps of the values' product. Lanes have positions by rows and queries
// by columns; the operand has them the other way, so each 8 x 8 is turned by shuffles.
template <class F>
DEV void page_operand(const float (&p)[8], const uint2 &scales, uint32_t (&b)[4], int g, int t) {
    float scale[4];
    if (F::TYPE == KV_INT8) scales_of(scale, scales);
    UNROLL for (int i = 0; i < 4; i++) {
        const float x = F::TYPE == KV_INT8 ? p[2 * i] * scale[i] : p[2 * i];
        const float y = F::TYPE == KV_INT8 ? p[2 * i + 1] * scale[i] : p[2 * i + 1];
        const uint32_t both = F::TYPE == KV_BF16 ? bf16x2_of(x, y) : f16x2_of(x, y);
        const uint32_t even = __shfl_sync(0xffffffffu, both, 8 * t + g / 2);
        const uint32_t odd = __shfl_sync(0xffffffffu, both, 8 * t + 4 + g / 2);
        b[i] = bytes_of(even, odd, g & 1 ? 0x7632 : 0x5410);
    }
}

// ---------------------------------------------------------------- results

// Running results of a query.
struct softmax_fold {
    float m, l;
};
DEV struct softmax_fold *attention_block::folds() const {
    return (struct softmax_fold *)(sums() + SPLIT_PAGES * FEW_QUERIES);
}

// What multiplies O and o of the next split; is_live: the split takes part.
struct fold_by {
    float a, b;
    bool is_live;
};

template <bool IS_INLINED = false>
DEV struct fold_by fold_split(struct softmax_fold &f, float m, float l) {
    struct fold_by by = {1.0f, 0.0f, l != 0.0f};
    if (!by.is_live) return by;
    const float top = fmaxf(f.m, m);
    if (f.m == -INFINITY && fabsf(m) < INFINITY) { // the first one: the exponentials are known
        by.a = 0.0f;
        by.b = 1.0f;
    } else {
        by.a = IS_INLINED ? rmath_exp(f.m - top) : rmath_exp_called(f.m - top);
        by.b = IS_INLINED ? rmath_exp(m - top) : rmath_exp_called(m - top);
    }
    f.m = top;
    f.l = fmaf(l, by.b, f.l * by.a);
    return by;
}
DEV float fold_value(const struct fold_by &by, float before, float o) {
    return by.is_live ? fmaf(o, by.b, before * by.a) : before;
}

// The end of a query: the sink, and where the result goes.
struct query_end {
    bool is_valid;
    float a, l;
    int row, column; // of the output: the head's first element
};

DEV struct query_end query_end_at(const struct stage_attention &s, bool is_valid,
                                  const struct item_query &q, const struct softmax_fold &f) {
    struct query_end e = {is_valid, 1.0f, f.l, 0, 0};
    if (!e.is_valid) return e;
    e.row = q.out_row, e.column = q.head * s.dim_v;
    if (s.sinks) {
        const float sink = s.sinks[q.head], top = fmaxf(f.m, sink);
        e.a = rmath_exp_called(f.m - top);
        e.l = fmaf(f.l, e.a, rmath_exp_called(sink - top));
    }
    return e;
}

DEV struct query_end query_end_of(const struct stage_attention &s, const struct attention_block &m,
                                  int index, const struct softmax_fold &f) {
    const bool is_valid = index < m.item().n;
    struct item_query q = {};
    if (is_valid) q = m.queries()[index];
    return query_end_at(s, is_valid, q, f);
}

DEV void result_put(const struct stage_attention &s, const struct query_end &e, int d, float o) {
    if (!e.is_valid || d >= s.dim_v) return;
    const float y = (s.sinks ? o * e.a : o) / e.l;
    if (s.out16.at)
        rows16_put(s.out16, e.row, e.column + d, y);
    else
        s.out[(int64_t)e.row * s.ld_out + e.column + d] = y;
}

// Pairs of up to 8 queries, as a power of two: 1, 2 or 4 of them.
DEV int pairs_log(int n_queries) { return n_queries <= 2 ? 0 : n_queries <= 4 ? 1 : 2; }

// Slots. Of each 8 queries, n_pairs of two: a head (m, l, m, l) of each pair, then o by units of 16
// elements as [unit][g][pair] (o[g], o[g], o[g + 8], o[g + 8] of both queries).
DEV int slot_pair_size(const struct stage_attention &s) { return 1 + kv_units(s.dim_v) * 8; }
DEV int slot_size(const struct stage_attention &s, int n_queries) {
    const int rest = n_queries % FEW_QUERIES;
    return (n_queries / FEW_QUERIES * 4 + (rest ? 1 << pairs_log(rest) : 0)) * slot_pair_size(s);
}

// ---------------------------------------------------------------- the fold of splits

enum {                                              // places in a block's memory, for the fold
    FOLD_BY_AT = 0,                                 // float2 [split][query]
    FOLD_END_AT = SEGMENT_SPLITS * FEW_QUERIES * 8, // float2 [query]: M, L
    FOLD_LIVE_AT = FOLD_END_AT + FEW_QUERIES * 8,   // uint32_t [query]: a bit a split
};

// What multiplies O and o of up to 32 splits of a query; a lane has the m and l of one. top: the
// largest m of the splits before; then up to the lane's own.
struct split_factors {
    float2 by;
    uint32_t live; // a bit a split
};
DEV struct split_factors split_factors_of(float2 ml, float &top, int lane) {
    const bool is_live = ml.y != 0.0f;
    const float first = top;
    struct split_factors f;
    f.live = __ballot_sync(0xffffffffu, is_live);
    top = is_live ? fmaxf(first, ml.x) : first;
    UNROLL for (int o = 1; o < 32; o *= 2) {
        const float other = __shfl_up_sync(0xffffffffu, top, (unsigned)o);
        if (lane >= o) top = fmaxf(top, other);
    }
    const float other = __shfl_up_sync(0xffffffffu, top, 1), before = lane ? other : first;
    f.by.x = is_live ? rmath_exp(before - top) : 1.0f;
    f.by.y = is_live ? rmath_exp(ml.x - top) : 0.0f;
    return f;
}

// Factors of a segment's splits for one query of 8. A warp; a lane has a split.
DEV void segment_factors(const struct attention_block &m, const float4 *heads, const float4 *before,
                         int n, int query) {
    const int pair = query / 2, odd = query % 2;
    struct softmax_fold f = {-INFINITY, 0.0f};
    if (before) {
        const float2 v = load_l2((const float2 *)(before + pair) + odd);
        f.m = v.x, f.l = v.y;
    }
    float2 ml = {-INFINITY, 0.0f};
    if (m.lane < n)
        ml = load_l2((const float2 *)(heads + (int64_t)m.lane * m.item().slot_size + pair) + odd);
    const struct split_factors s = split_factors_of(ml, f.m, m.lane);
    for (int j = 0; j < n; j++) {
        const float l = __shfl_sync(0xffffffffu, ml.y, j);
        const float a = __shfl_sync(0xffffffffu, s.by.x, j);
        const float b = __shfl_sync(0xffffffffu, s.by.y, j);
        if (s.live >> j & 1) f.l = fmaf(l, b, f.l * a);
    }
    ((float2 *)(m.memory + FOLD_BY_AT))[m.lane * FEW_QUERIES + query] = s.by;
    if (m.lane == 31) {
        float2 end;
        end.x = f.m, end.y = f.l;
        ((float2 *)(m.memory + FOLD_END_AT))[query] = end;
        ((uint32_t *)(m.memory + FOLD_LIVE_AT))[query] = s.live;
    }
}

// Of 8 queries: the parts of n splits from `parts` on, after `before`. The result goes out, or as a
// part into the first slot.
DEV void segment_fold_queries(const struct stage_attention &s, const struct attention_block &m,
                              float4 *parts, const float4 *before, int n, int first, bool is_last) {
    const int n_queries = m.item().n - first;
    const int log = pairs_log(n_queries), n_pairs = 1 << log;
    const int64_t slot_stride = (int64_t)m.item().slot_size * 2;
    const int n_elements = kv_units(s.dim_v) * 16 * n_pairs;
    if (m.warp < 2 * n_pairs) segment_factors(m, parts, before, n, m.warp);
    m.sync();
    const float2 *ends = (const float2 *)(m.memory + FOLD_END_AT);
    const uint32_t *live = (const uint32_t *)(m.memory + FOLD_LIVE_AT);
    for (int e = m.thread; e < n_elements; e += BLOCK_THREADS) {
        const int pair = e / 2 & (n_pairs - 1);
        const int d = (e >> (4 + log)) * 16 + (e >> (1 + log)) % 8 + 8 * (e % 2);
        const float2 *from = (const float2 *)(parts + n_pairs) + e;
        const float4 *by = (const float4 *)(m.memory + FOLD_BY_AT) + pair;
        const uint32_t live0 = live[2 * pair], live1 = live[2 * pair + 1];
        float2 o = {0.0f, 0.0f};
        if (before) o = load_l2((const float2 *)(before + n_pairs) + e);
        for (int j = 0; j < n; j += 8) {
            float2 v[8];
            UNROLL for (int i = 0; i < 8; i++) {
                v[i] = {0.0f, 0.0f};
                if (j + i < n) v[i] = load_l2(from + (j + i) * slot_stride);
            }
            UNROLL for (int i = 0; i < 8; i++) {
                if (j + i >= n) continue;
                const float4 f = by[(j + i) * (FEW_QUERIES / 2)];
                o.x = live0 >> (j + i) & 1 ? fmaf(v[i].x, f.y, o.x * f.x) : o.x;
                o.y = live1 >> (j + i) & 1 ? fmaf(v[i].y, f.w, o.y * f.z) : o.y;
            }
        }
        if (is_last) {
            UNROLL for (int q = 0; q < 2; q++) {
                const float2 end = ends[2 * pair + q];
                const struct softmax_fold f = {end.x, end.y};
                result_put(s, query_end_of(s, m, first + 2 * pair + q, f), d, q ? o.y : o.x);
            }
        } else {
            ((float2 *)(parts + n_pairs))[e] = o;
        }
    }
    if (!is_last && m.thread < 2 * n_pairs) ((float2 *)parts)[m.thread] = ends[m.thread];
    m.sync();
}

// Thread 0's word, for all threads of the block.
DEV uint32_t block_word(const struct attention_block &m, uint32_t word) {
    if (m.thread == 0) *m.flag() = word;
    m.sync();
    const uint32_t v = *m.flag();
    m.sync();
    return v;
}

// Parts of splits [from, to], all of one segment, are in their slots: folds all segments that can
// be folded now. A segment has two events: all its parts are there, and the segment before is
// folded. The block of the second event folds it.
static __device__ __noinline__ void parts_arrive(const struct stage_attention &s,
                                                 uint32_t shared_at, int from, int to) {
    const struct attention_block m = block_of(shared_at);
    const struct attention_item w = m.item();
    const int base = w.slot_split;
    const int last = (w.seen_last - base) / SEGMENT_SPLITS;
    const int first = (w.seen_first - base) / SEGMENT_SPLITS;
    int segment = (from - base) / SEGMENT_SPLITS;
    uint32_t go = 0;
    m.sync(); // all of the parts are written
    int begin = base + segment * SEGMENT_SPLITS, end = begin + SEGMENT_SPLITS - 1;
    begin = begin < w.seen_first ? w.seen_first : begin;
    end = end > w.seen_last ? w.seen_last : end;
    if (m.thread == 0) {
        uint32_t *counter = w.counters + 2 * segment;
        const uint32_t n = (uint32_t)(to - from + 1);
        if (add_acq_rel(counter, n) + n == (uint32_t)(end - begin + 1)) {
            *counter = 0;
            go = segment == first || add_acq_rel(counter + 1, 1) == 1;
        }
    }
    go = block_word(m, go);
    const float4 *before = nullptr;
    if (go && segment > first) {
        int at = base + (segment - 1) * SEGMENT_SPLITS;
        at = at < w.seen_first ? w.seen_first : at;
        before = w.slots + (int64_t)(at - base) * w.slot_size;
    }
    while (go) {
        if (m.thread == 0) w.counters[2 * segment + 1] = 0;
        float4 *parts = w.slots + (int64_t)(begin - base) * w.slot_size;
        for (int q = 0; q < w.n; q += FEW_QUERIES) {
            const int64_t at = (int64_t)(q / 2) * slot_pair_size(s);
            segment_fold_queries(s, m, parts + at, before ? before + at : nullptr, end - begin + 1,
                                 q, segment == last);
        }
        if (segment == last) break;
        segment++;
        before = parts;
        begin = base + segment * SEGMENT_SPLITS;
        end = begin + SEGMENT_SPLITS - 1 > w.seen_last ? w.seen_last : begin + SEGMENT_SPLITS - 1;
        go = m.thread == 0 ? add_acq_rel(w.counters + 2 * segment + 1, 1) == 1 : 0;
        go = block_word(m, go);
    }
}

// The same for all splits of the item that were seen.
DEV void parts_end(const struct stage_attention &s, uint32_t shared_at) {
    const struct attention_item &w = block_of(shared_at).item();
    int from = w.split_first < w.seen_first ? w.seen_first : w.split_first;
    const int last = w.split_last > w.seen_last ? w.seen_last : w.split_last;
    while (from <= last) {
        int to = w.slot_split + ((from - w.slot_split) / SEGMENT_SPLITS + 1) * SEGMENT_SPLITS - 1;
        if (to > last) to = last;
        parts_arrive(s, shared_at, from, to);
        from = to + 1;
    }
}

#endif
