// Attention of up to 64 queries: a warp has 8 of them. All warps read the pages of a split from a
// ring in shared memory, which the block fills. A warp keeps the scores of a split in registers and
// adds the sums of pages in their order. Called by attention.cuh.
#ifndef RN_BACKEND_CUDA_ATTENTION_MANY_CUH
#define RN_BACKEND_CUDA_ATTENTION_MANY_CUH

#include "attention_item.cuh"

// Pages are read in chunks of RING_SLOT bytes: of each split its keys page by page, then its
// values, a chunk of elements of all pages after the other. A warp copies a chunk, the next one is
// the next warp's. Slots that are not read are filled ahead.
struct chunk_stream {
    int taken, slot; // chunks that were read, and the slot of the next one
};

DEV int chunks_of(uint32_t bytes) { return (int)((bytes + RING_SLOT - 1) / RING_SLOT); }

// The first and the last page of a split that the item reads.
DEV int page_first_of(const struct attention_item &w, int split) {
    const int first = w.lowest / PAGE_TOKENS;
    return split * SPLIT_PAGES > first ? split * SPLIT_PAGES : first;
}
DEV int page_last_of(const struct attention_item &w, int split) {
    const int last = w.pos_last / PAGE_TOKENS, end = split * SPLIT_PAGES + SPLIT_PAGES - 1;
    return end < last ? end : last;
}
// The splits that the item reads.
DEV int split_first_of(const struct attention_item &w) {
    return w.split_first < w.seen_first ? w.seen_first : w.split_first;
}
DEV int split_last_of(const struct attention_item &w) {
    return w.split_last > w.seen_last ? w.seen_last : w.split_last;
}

// Copies a chunk of the item, if it is this warp's.
template <class F>
DEV void chunk_copy(const struct stage_attention &s, const struct attention_block &m, int chunk,
                    int slot) {
    if (chunk % 8 != m.warp) return;
    const struct attention_item &w = m.item();
    const uint32_t k_bytes = kv_k_bytes<F>(F::dim_k(s));
    const uint32_t v_bytes = (uint32_t)kv_units(F::dim_v(s)) * kv_unit_bytes<F>();
    int split = split_first_of(w);
    if (chunk >= w.chunks_first) {
        chunk -= w.chunks_first;
        const int more = chunk / w.chunks_split;
        split += 1 + more;
        chunk -= more * w.chunks_split;
    }
    if (split > split_last_of(w)) return;
    const int first = page_first_of(w, split), n = page_last_of(w, split) - first + 1;
    const int n_k = chunks_of(k_bytes), keys = n * n_k;
    const bool is_value = chunk >= keys;
    if (is_value) chunk -= keys;
    const int page = first + (is_value ? chunk % n : chunk / n_k);
    const uint32_t at = (uint32_t)(is_value ? chunk / n : chunk % n_k) * RING_SLOT;
    const uint32_t bytes = is_value ? v_bytes : k_bytes;
    const uint8_t *from = kv_head_at<F>(s, w.table, page, w.head_kv) + (is_value ? k_bytes : 0);
    const uint32_t to = shared_address(m.memory + w.query_bytes) + (uint32_t)(slot * RING_SLOT);
    UNROLL for (uint32_t i = (uint32_t)m.lane * 16; i < RING_SLOT; i += 512) {
        if (at + i < bytes) copy_16(to + i, from + at + i);
    }
    copies_commit();
}

// The address of the next chunk. The chunk before it is not read any more.
template <class F>
DEV uint32_t chunk_take(const struct stage_attention &s, const struct attention_block &m,
                        struct chunk_stream &stream) {
    const int n_slots = m.item().n_slots;
    if (stream.taken % 8 == m.warp) copies_wait<0>();
    __syncthreads();
    const int before = stream.slot ? stream.slot - 1 : n_slots - 1;
    chunk_copy<F>(s, m, stream.taken + n_slots - 1, before);
    const uint32_t address =
        shared_address(m.memory + m.item().query_bytes) + (uint32_t)(stream.slot * RING_SLOT);
    stream.taken++;
    stream.slot = stream.slot + 1 == n_slots ? 0 : stream.slot + 1;
    return address;
}

// New positions of the item's splits.
template <class F>
DEV void many_append(const struct stage_attention &s, const struct attention_block &m,
                     uint8_t *scratch, int n_warps) {
    const struct attention_item &w = m.item();
    int pos = w.split_first * SPLIT_TOKENS, end = (w.split_last + 1) * SPLIT_TOKENS;
    pos = pos < w.first_pos ? w.first_pos : pos;
    end = end > w.first_pos + w.n_new ? w.first_pos + w.n_new : end;
    if (m.warp >= n_warps) return;
    for (pos += m.warp; pos < end; pos += n_warps)
        entry_append<F>(s, kv_head_at<F>(s, w.table, pos / PAGE_TOKENS, w.head_kv), nullptr,
                        nullptr, w.first_row + (pos - w.first_pos), w.head_kv, pos % PAGE_TOKENS,
                        (float *)scratch + m.warp * F::dim_k(s), m.lane);
}

// A chunk of a page's keys: more of the scores of the warp's queries.
template <class F>
DEV void many_scores(const struct stage_attention &s, const struct attention_block &m,
                     uint32_t chunk, int block, int n, float (&sum)[8], uint32_t &bad) {
    enum { CHUNK_BLOCKS = RING_SLOT / 2 / kv_unit_bytes<F>() };
    const uint32_t queries = shared_address(m.memory);
    float c[2][4];
    UNROLL for (int i = 0; i < 8; i++) c[i / 4][i % 4] = sum[i];
    UNROLL for (int b = 0; b < CHUNK_BLOCKS; b++) {
        if (block + b >= n) continue;
        const uint4 q =
            query_fragment(queries, F::dim_k(s), m.warp * FEW_QUERIES + m.g, block + b, m.t);
        UNROLL for (int half = 0; half < 2; half++) {
            const uint32_t unit = chunk + (uint32_t)(2 * b + half) * kv_unit_bytes<F>();
            uint32_t a[2][4];
            unit_fragments<F>(a, unit, m.lane);
            kv_mma<F>(c[half], a[0], q.x, q.y);
            kv_mma<F>(c[half], a[1], q.z, q.w);
            if (F::TYPE == KV_FP8 && b == 0 && block == 0)
                bad |= fp8_bad(shared_u128(unit + (uint32_t)m.lane * 16)) << 2 * half;
        }
    }
    UNROLL for (int i = 0; i < 8; i++) sum[i] = c[i / 4][i % 4];
}

// A chunk of a page's values: more of o of the split.
template <class F, int UNITS>
DEV void many_values(const struct attention_block &m, uint32_t chunk, int n, const uint32_t (&b)[4],
                     float (&o)[UNITS][4]) {
    UNROLL for (int u = 0; u < UNITS; u++) {
        if (u >= n) continue;
        uint32_t a[2][4];
        unit_fragments<F>(a, chunk + (uint32_t)u * kv_unit_bytes<F>(), m.lane);
        kv_mma<F>(o[u], a[0], b[0], b[1]);
        kv_mma<F>(o[u], a[1], b[2], b[3]);
    }
}

// What becomes of a split's o, a unit of the warp's queries: to its slot, or to the state.
DEV void many_unit(const struct stage_attention &s, const struct attention_block &m, int split,
                   int unit, const float (&o)[4], const struct fold_by (&by)[2]) {
    const struct attention_item &w = m.item();
    const int first = m.warp * FEW_QUERIES;
    const int n_pairs = 1 << pairs_log(w.n - first);
    float4 v;
    v.x = o[0], v.y = o[1], v.z = o[2], v.w = o[3];
    if (w.is_part) {
        float4 *slot =
            w.slots + (int64_t)(split - w.slot_split) * w.slot_size + first / 2 * slot_pair_size(s);
        if (m.t < n_pairs) slot[n_pairs + (unit * 8 + m.g) * n_pairs + m.t] = v;
        return;
    }
    float4 *state = w.state + (m.warp * kv_units(s.dim_v) + unit) * 32 + m.lane;
    float4 before = {0.0f, 0.0f, 0.0f, 0.0f};
    if (split != w.seen_first) before = *state;
    v.x = fold_value(by[0], before.x, v.x);
    v.y = fold_value(by[1], before.y, v.y);
    v.z = fold_value(by[0], before.z, v.z);
    v.w = fold_value(by[1], before.w, v.w);
    *state = v;
}

// The results of a warp's queries, from the state.
DEV void many_end(const struct stage_attention &s, const struct attention_block &m,
                  const struct softmax_fold (&fold)[2]) {
    const int n_units = kv_units(s.dim_v);
    const float4 *state = m.item().state + m.warp * n_units * 32 + m.lane;
    const int first = m.warp * FEW_QUERIES + 2 * m.t;
    const struct query_end end[2] = {query_end_of(s, m, first, fold[0]),
                                     query_end_of(s, m, first + 1, fold[1])};
    ROLLED for (int unit = 0; unit < n_units; unit++) {
        const float4 v = state[unit * 32];
        const int d = unit * 16 + m.g;
        result_put(s, end[0], d, v.x);
        result_put(s, end[1], d, v.y);
        result_put(s, end[0], d + 8, v.z);
        result_put(s, end[1], d + 8, v.w);
    }
}

// The scales of a page's keys (0) or values (1), the lane's positions.
template <class F>
DEV uint2 page_scales(const struct stage_attention &s, const struct attention_block &m, int page,
                      int which) {
    uint2 v = {0, 0};
    if (F::TYPE == KV_INT8)
        v = load_l2((const uint2 *)(kv_head_at<F>(s, m.item().table, page, m.item().head_kv) +
                                    kv_scales_at<F>(F::dim_k(s), F::dim_v(s))) +
                    8 * which + m.g);
    return v;
}

// The item of up to 64 queries: a warp has 8 of them.
template <class F>
static __device__ __noinline__ void many_run(const struct stage_attention &s, uint32_t shared_at) {
    enum {
        CHUNK_BLOCKS = RING_SLOT / 2 / kv_unit_bytes<F>(), // of keys
        CHUNK_UNITS = RING_SLOT / kv_unit_bytes<F>(),      // of values
    };
    const struct attention_block m = block_of(shared_at);
    struct attention_item &w = m.item();
    const int n_blocks = kv_blocks(F::dim_k(s)), n_units = kv_units(F::dim_v(s));
    const int query_bytes = (w.n * query_stride(F::dim_k(s)) + 127) / 128 * 128;
    const int n_heads = head_warps(F::dim_k(s), STATS_AT - query_bytes);
    if (s.fused) {
        many_append<F>(s, m, m.memory + query_bytes, n_heads);
        __syncthreads();
    }
    if (split_first_of(w) > split_last_of(w)) return;
    queries_load<F>(s, m, m.memory + query_bytes, n_heads, 7);
    if (m.thread == 0) {
        const int split = split_first_of(w), free_slots = (STATS_AT - query_bytes) / RING_SLOT;
        const int a_page = chunks_of(kv_k_bytes<F>(F::dim_k(s))) +
                           chunks_of((uint32_t)n_units * kv_unit_bytes<F>());
        w.query_bytes = query_bytes;
        w.n_slots = free_slots < RING_SLOTS ? free_slots : RING_SLOTS;
        w.chunks_first = (page_last_of(w, split) - page_first_of(w, split) + 1) * a_page;
        w.chunks_split = SPLIT_PAGES * a_page;
    }
    __syncthreads();
    struct chunk_stream stream = {0, 0};
    for (int i = 0; i + 1 < w.n_slots; i++) chunk_copy<F>(s, m, i, i);

    const bool is_busy = m.warp * FEW_QUERIES < w.n;
    struct softmax_fold fold[2] = {{-INFINITY, 0.0f}, {-INFINITY, 0.0f}};
    for (int split = split_first_of(w); split <= split_last_of(w); split++) {
        const int page_first = page_first_of(w, split) - split * SPLIT_PAGES;
        const int page_last = page_last_of(w, split) - split * SPLIT_PAGES;
        float score[SPLIT_PAGES][8], top[2] = {-INFINITY, -INFINITY}, l[2] = {0.0f, 0.0f};
        UNROLL for (int i = 0; i < SPLIT_PAGES; i++) {
            UNROLL for (int j = 0; j < 8; j++) score[i][j] = 0.0f;
            if (i < page_first || i > page_last) continue;
            const uint2 scales = page_scales<F>(s, m, split * SPLIT_PAGES + i, 0);
            uint32_t bad = 0;
            ROLLED for (int b0 = 0; b0 < n_blocks; b0 += CHUNK_BLOCKS) {
                const uint32_t chunk = chunk_take<F>(s, m, stream);
                if (is_busy) many_scores<F>(s, m, chunk, b0, n_blocks, score[i], bad);
            }
            scores_finish<F>(s, score[i], scales, bad, lane_queries_of(s, m, m.warp * FEW_QUERIES),
                             split * SPLIT_PAGES + i, m.g);
            UNROLL for (int j = 0; j < 8; j++) top[j % 2] = fmaxf(top[j % 2], score[i][j]);
        }
        top[0] = queries_max(top[0]);
        top[1] = queries_max(top[1]);
        uint32_t b[SPLIT_PAGES][4];
        UNROLL for (int i = 0; i < SPLIT_PAGES; i++) {
            UNROLL for (int j = 0; j < 4; j++) b[i][j] = 0;
            if (i < page_first || i > page_last) continue;
            float page_l[2];
            page_weights(score[i], top, page_l);
            l[0] = l[0] + page_l[0];
            l[1] = l[1] + page_l[1];
            page_operand<F>(score[i], page_scales<F>(s, m, split * SPLIT_PAGES + i, 1), b[i], m.g,
                            m.t);
        }
        struct fold_by by[2] = {};
        if (w.is_part) {
            float4 v;
            v.x = top[0], v.y = l[0], v.z = top[1], v.w = l[1];
            const int first = m.warp * FEW_QUERIES;
            if (m.g == 0 && first + 2 * m.t < w.n)
                w.slots[(int64_t)(split - w.slot_split) * w.slot_size +
                        first / 2 * slot_pair_size(s) + m.t] = v;
        } else {
            UNROLL for (int q = 0; q < 2; q++) by[q] = fold_split(fold[q], top[q], l[q]);
        }
        ROLLED for (int u0 = 0; u0 < n_units; u0 += CHUNK_UNITS) {
            float o[CHUNK_UNITS][4];
            UNROLL for (int j = 0; j < 4 * CHUNK_UNITS; j++) o[j / 4][j % 4] = 0.0f;
            UNROLL for (int i = 0; i < SPLIT_PAGES; i++) {
                if (i < page_first || i > page_last) continue;
                const uint32_t chunk = chunk_take<F>(s, m, stream);
                if (is_busy) many_values<F, CHUNK_UNITS>(m, chunk, n_units - u0, b[i], o);
            }
            UNROLL for (int u = 0; u < CHUNK_UNITS; u++) {
                if (is_busy && u0 + u < n_units) many_unit(s, m, split, u0 + u, o[u], by);
            }
        }
    }
    if (w.is_part)
        parts_end(s, shared_at);
    else if (is_busy && w.split_last >= w.seen_last)
        many_end(s, m, fold);
}

#endif
