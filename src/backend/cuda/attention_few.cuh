// Attention of up to 8 queries: a warp has a page of the split, whose fragments it loads straight
// into registers. The block adds the sums of its warps in the order of pages, through shared memory.
// Called by attention.cuh.
#ifndef RN_BACKEND_CUDA_ATTENTION_FEW_CUH
#define RN_BACKEND_CUDA_ATTENTION_FEW_CUH

#include "attention_item.cuh"

// 4 blocks of a page's keys, and 8 units of its values: 64 registers of 16 bits.
template <int TYPE> struct page_fragments {
    enum { STEPS = kv_is_wide<TYPE>() ? 2 : 1 }; // 16 bytes of a lane in a unit
    uint4 v[16 / (3 - STEPS)];
    DEV uint4 &at(int unit, int step) { return v[unit * STEPS + (STEPS == 2 ? step : 0)]; }
    // Units [first, first + 8) of n, whose first one is at `from`. Others are zeros, also where n
    // is 0: registers that are not written would be kept from one use to the next.
    DEV void load(const uint8_t *from, int first, int n, int lane) {
        UNROLL for (int u = 0; u < 8; u++) {
            const uint8_t *unit = from + (uint32_t)(first + u) * kv_unit_bytes<TYPE>();
            UNROLL for (int i = 0; i < STEPS; i++) {
                uint4 x = {0, 0, 0, 0};
                if (first + u < n) x = load_l2((const uint4 *)(unit + i * 512) + lane);
                v[u * STEPS + i] = x;
            }
        }
    }
};

// The new positions of a page, by the warp that reads it.
template <int TYPE>
DEV void page_append(const struct stage_attention &s, const struct attention_item &w, uint8_t *head,
                     int page, float *x, int lane) {
    int pos = page * PAGE_TOKENS, end = pos + PAGE_TOKENS;
    pos = pos < w.first_pos ? w.first_pos : pos;
    end = end > w.first_pos + w.n_new ? w.first_pos + w.n_new : end;
    for (; pos < end; pos++)
        entry_append<TYPE>(s, head, w.first_row + (pos - w.first_pos), w.head_kv, pos % PAGE_TOKENS,
                           x, lane);
    __syncwarp();
}

// A split's m and l of both queries of a pair, from those of its pages.
DEV float4 few_stats(const struct attention_block &m, int pair) {
    float v[4];
    UNROLL for (int q = 0; q < 2; q++) {
        v[2 * q] = -INFINITY, v[2 * q + 1] = 0.0f;
        UNROLL for (int i = 0; i < SPLIT_PAGES; i++) {
            const int at = i * FEW_QUERIES + 2 * pair + q;
            v[2 * q] = fmaxf(v[2 * q], m.maxima()[at]);
            v[2 * q + 1] = v[2 * q + 1] + m.sums()[at];
        }
    }
    float4 stats;
    stats.x = v[0], stats.y = v[1], stats.z = v[2], stats.w = v[3];
    return stats;
}

// A split's results of a thread's pair of queries: factors, and the fold behind it.
struct few_fold {
    struct softmax_fold f[2];
    struct fold_by by[2];
};

// Of a part only its head.
DEV void few_fold_split(const struct attention_block &m, int split, struct few_fold &r) {
    const struct attention_item &w = m.item();
    const int n_pairs = (w.n + 1) / 2, pair = m.thread / 2 % n_pairs;
    const float4 stats = few_stats(m, w.is_part ? m.thread % n_pairs : pair);
    UNROLL for (int q = 0; q < 2; q++) {
        r.f[q] = {-INFINITY, 0.0f};
        if (!w.is_part && split != w.seen_first) r.f[q] = m.folds()[2 * pair + q];
        r.by[q] = fold_split(r.f[q], q ? stats.z : stats.x, q ? stats.w : stats.y);
    }
    if (w.is_part && m.thread < n_pairs)
        w.slots[(int64_t)(split - w.slot_split) * w.slot_size + m.thread] = stats;
}

// The end of a round of units: the sums of the warps, then what becomes of them. A thread has the
// element [unit][g][pair][half of the unit]. Running results of the first 8 units are in shared
// memory, `which` half of them; those of others in the block's state.
DEV void few_round(const struct stage_attention &s, const struct attention_block &m, int split,
                   int unit, int round, int which, const struct few_fold &r) {
    const struct attention_item &w = m.item();
    const int n_pairs = (w.n + 1) / 2, pair = m.thread / 2 % n_pairs;
    const int d = unit * 16 + m.thread / (16 * n_pairs) * 16 + m.thread / (2 * n_pairs) % 8 +
                  8 * (m.thread % 2);
    const int warp_first = w.lowest / PAGE_TOKENS - split * SPLIT_PAGES;
    const int warp_last = w.pos_last / PAGE_TOKENS - split * SPLIT_PAGES;
    float2 o = {0.0f, 0.0f};
    UNROLL for (int i = 0; i < SPLIT_PAGES; i++) {
        if (i < warp_first || i > warp_last) continue;
        const float2 v =
            ((const float2 *)(m.memory + EXCHANGE_AT + i * (EXCHANGE_BYTES / 8)))[m.thread];
        o.x = o.x + v.x;
        o.y = o.y + v.y;
    }
    if (m.thread >= round * 16 * n_pairs || d >= kv_units(s.dim_v) * 16) return;
    const int at = unit * 16 * n_pairs + m.thread;
    if (w.is_part) {
        float4 *slot = w.slots + (int64_t)(split - w.slot_split) * w.slot_size;
        ((float2 *)(slot + n_pairs))[at] = o;
        return;
    }
    float2 *kept = unit < 8 ? (float2 *)(m.memory + KEPT_AT) + which * BLOCK_THREADS + m.thread
                            : (float2 *)w.state + at;
    float2 sum = {0.0f, 0.0f};
    if (split != w.seen_first) sum = *kept;
    sum.x = fold_value(r.by[0], sum.x, o.x);
    sum.y = fold_value(r.by[1], sum.y, o.y);
    if (split == w.seen_last) {
        result_put(s, query_end_of(s, m, 2 * pair, r.f[0]), d, sum.x);
        result_put(s, query_end_of(s, m, 2 * pair + 1, r.f[1]), d, sum.y);
        return;
    }
    *kept = sum;
    if (unit == 0 && m.thread < 2 * n_pairs) m.folds()[m.thread] = r.f[m.thread % 2];
}

// A page's scores, before the scales.
template <int TYPE>
DEV void few_scores(const struct stage_attention &s, const struct attention_block &m,
                    const uint8_t *head, float (&score)[8], uint32_t &bad) {
    const int n_blocks = kv_blocks(s.dim_k);
    const uint32_t queries = shared_address(m.memory);
    float sum[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    ROLLED for (int b0 = 0; b0 < n_blocks; b0 += 4) {
        page_fragments<TYPE> f;
        f.load(head, 2 * b0, 2 * n_blocks, m.lane);
        UNROLL for (int b = 0; b < 4; b++) {
            if (b0 + b >= n_blocks) continue;
            const uint4 q = query_fragment(queries, s.dim_k, m.g, b0 + b, m.t);
            UNROLL for (int half = 0; half < 2; half++) {
                uint32_t a[4];
                kv_fragment<TYPE>(a, f.at(2 * b + half, 0), 0);
                kv_mma<TYPE>(sum[half], a, q.x, q.y);
                kv_fragment<TYPE>(a, f.at(2 * b + half, 1), 1);
                kv_mma<TYPE>(sum[half], a, q.z, q.w);
                if (TYPE == KV_FP8 && b == 0 && b0 == 0) bad |= fp8_bad(f.at(half, 0)) << 2 * half;
            }
        }
    }
    UNROLL for (int i = 0; i < 8; i++) score[i] = sum[i / 4][i % 4];
}

// 8 units of a page's values, from unit u0 on: o of the warps, and the end of their rounds.
template <int TYPE>
DEV void few_values(const struct stage_attention &s, const struct attention_block &m, int split,
                    int u0, bool reads, page_fragments<TYPE> &f, const uint32_t (&b)[4],
                    const struct few_fold &fold) {
    const int n_units = kv_units(s.dim_v), n_pairs = (m.item().n + 1) / 2;
    const int round = n_pairs <= 2 ? 8 : 4; // units of a round
    float4 *to = (float4 *)(m.memory + EXCHANGE_AT + m.warp * (EXCHANGE_BYTES / 8));
    UNROLL for (int half = 0; half < 2; half++) {
        UNROLL for (int u = 4 * half; u < 4 * half + 4; u++) {
            if (!reads || u0 + u >= n_units) continue;
            float o[4] = {0, 0, 0, 0};
            uint32_t a[4];
            kv_fragment<TYPE>(a, f.at(u, 0), 0);
            kv_mma<TYPE>(o, a, b[0], b[1]);
            kv_fragment<TYPE>(a, f.at(u, 1), 1);
            kv_mma<TYPE>(o, a, b[2], b[3]);
            if (m.t >= n_pairs) continue;
            float4 v;
            v.x = o[0], v.y = o[1], v.z = o[2], v.w = o[3];
            to[((round == 8 ? u : u % 4) * 8 + m.g) * n_pairs + m.t] = v;
        }
        const int unit = round == 8 ? u0 : u0 + 4 * half;
        if ((round == 8 && half == 0) || unit >= n_units) continue;
        m.sync();
        few_round(s, m, split, unit, round, half, fold);
        if (unit + round < n_units || split < m.item().split_last) m.sync(); // it is written again
    }
}

// The item of up to 8 queries. The page is brought to the L2 cache while entries and queries are
// prepared, the values to registers while the weights are computed.
template <int TYPE>
static __device__ __noinline__ void few_run(const struct stage_attention &s, uint32_t shared_at) {
    const struct attention_block m = block_of(shared_at);
    const struct attention_item &w = m.item();
    const int n_units = kv_units(s.dim_v), n_heads = head_warps(s.dim_k, EXCHANGE_BYTES);
    uint8_t *scratch = m.memory + EXCHANGE_AT;
    ROLLED for (int split = w.split_first; split <= w.split_last; split++) {
        const int page = split * SPLIT_PAGES + m.warp, pos = page * PAGE_TOKENS;
        const bool is_seen = split >= w.seen_first && split <= w.seen_last;
        const bool reads = is_seen && pos <= w.pos_last && pos + PAGE_TOKENS > w.lowest;
        const bool writes =
            s.fused && pos < w.first_pos + w.n_new && pos + PAGE_TOKENS > w.first_pos;
        uint8_t *head = nullptr;
        if (reads || writes) head = kv_head_at<TYPE>(s, w.table, page, w.head_kv);
        if (reads)
            for (uint32_t i = (uint32_t)m.lane * 128; i < kv_head_bytes<TYPE>(s.dim_k, s.dim_v);
                 i += 32 * 128)
                prefetch_l2(head + i);
        for (int turn = 0; turn < 8 && s.fused; turn += n_heads) {
            if (writes && m.warp >= turn && m.warp < turn + n_heads)
                page_append<TYPE>(s, w, head, page, (float *)scratch + (m.warp - turn) * s.dim_k,
                                  m.lane);
            if (n_heads < 8) m.sync();
        }
        if (!is_seen) continue;
        if (split == w.seen_first || split == w.split_first) {
            queries_load<TYPE>(s, m, scratch, n_heads,
                               (w.first_pos + w.n_new - 1) / PAGE_TOKENS % SPLIT_PAGES);
            m.sync();
        }

        page_fragments<TYPE> f;
        float score[8] = {0, 0, 0, 0, 0, 0, 0, 0}, top[2], l[2];
        uint2 scales_k = {0, 0}, scales_v = {0, 0};
        uint32_t bad = 0, b[4];
        const uint8_t *values = head + kv_k_bytes<TYPE>(s.dim_k);
        if (reads) {
            if (TYPE == KV_INT8) {
                const uint8_t *at = head + kv_scales_at<TYPE>(s.dim_k, s.dim_v);
                scales_k = load_l2((const uint2 *)at + m.g);
                scales_v = load_l2((const uint2 *)at + 8 + m.g);
            }
            few_scores<TYPE>(s, m, head, score, bad);
        }
        scores_finish<TYPE>(s, score, scales_k, bad, lane_queries_of(s, m, 0), page, m.g);
        f.load(values, 0, reads ? n_units : 0, m.lane);
        page_max(score, top);
        if (m.lane < 4) {
            m.maxima()[m.warp * FEW_QUERIES + 2 * m.t] = top[0];
            m.maxima()[m.warp * FEW_QUERIES + 2 * m.t + 1] = top[1];
        }
        m.sync();
        UNROLL for (int i = 0; i < SPLIT_PAGES; i++) {
            const float *of_page = m.maxima() + i * FEW_QUERIES + 2 * m.t;
            top[0] = fmaxf(top[0], of_page[0]);
            top[1] = fmaxf(top[1], of_page[1]);
        }
        page_weights(score, top, l);
        page_operand<TYPE>(score, scales_v, b, m.g, m.t);
        if (m.lane < 4) {
            m.sums()[m.warp * FEW_QUERIES + 2 * m.t] = l[0];
            m.sums()[m.warp * FEW_QUERIES + 2 * m.t + 1] = l[1];
        }
        m.sync();
        struct few_fold fold;
        few_fold_split(m, split, fold);
        few_values<TYPE>(s, m, split, 0, reads, f, b, fold);
        ROLLED for (int u0 = 8; u0 < n_units; u0 += 8) {
            page_fragments<TYPE> more;
            more.load(values, u0, reads ? n_units : 0, m.lane);
            few_values<TYPE>(s, m, split, u0, reads, more, b, fold);
        }
    }
    if (w.is_part) part_arrive(s, shared_at);
}

#endif
