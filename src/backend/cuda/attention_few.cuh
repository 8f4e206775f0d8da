// Attention of up to 8 queries: a warp has a page of each split, which it brings to shared memory,
// scores and weighs. Then it has some of the values' elements, of all pages. Called by
// attention.cuh and attention_long.cuh.
#ifndef RN_BACKEND_CUDA_ATTENTION_FEW_CUH
#define RN_BACKEND_CUDA_ATTENTION_FEW_CUH

#include "attention_item.cuh"

// A page comes in chunks of 4 units: of its keys, then of its values. A warp has 1, 2 or 4 slots in
// shared memory, and asks for a chunk when a slot is free. So the chunks run ahead, also into the
// item's next split.
enum { CHUNK_BLOCKS = KV_CHUNK_UNITS / 2, CHUNK_UNITS = KV_CHUNK_UNITS };

DEV int chunks_k(int dim_k) { return (kv_blocks(dim_k) + CHUNK_BLOCKS - 1) / CHUNK_BLOCKS; }
DEV int chunks_v(int dim_v) { return (kv_units(dim_v) + CHUNK_UNITS - 1) / CHUNK_UNITS; }

template <class F> struct page_stream {
    uint8_t *slots;
    uint64_t *full;
    uint32_t n_slots, log;    // log: of n_slots
    uint32_t n_asked, n_read; // chunks, of all items of the block
    int split, chunk;         // the next one to ask for
    const uint8_t *head;      // of its page; NULL: none is left
};

// Whether the warp's page of a split is read, and written by this step.
DEV bool page_is_read(const struct attention_item &w, int page) {
    const int pos = page * PAGE_TOKENS, split = page / SPLIT_PAGES;
    return split >= w.seen_first && split <= w.seen_last && pos <= w.pos_last &&
           pos + PAGE_TOKENS > w.lowest;
}
DEV bool page_is_written(const struct stage_attention &s, const struct attention_item &w,
                         int page) {
    const int pos = page * PAGE_TOKENS;
    return s.fused && pos < w.first_pos + w.n_new && pos + PAGE_TOKENS > w.first_pos;
}

// Goes to the next split whose page is read, from `split` on.
template <class F>
DEV void stream_seek(page_stream<F> &c, const struct stage_attention &s,
                     const struct attention_block &m, int split) {
    const struct attention_item &w = m.item();
    c.head = nullptr;
    c.chunk = 0;
    for (c.split = split; c.split <= w.split_last; c.split++) {
        const int page = c.split * SPLIT_PAGES + m.warp;
        if (!page_is_read(w, page)) continue;
        c.head = kv_head_at<F>(s, w.table, page, w.head_kv);
        return;
    }
}

// Whether a page is in the slots as a whole, in its own order: then new entries are put there, too.
template <class F> DEV bool page_fits(const page_stream<F> &c, const struct stage_attention &s) {
    return (int)c.n_slots == chunks_k(F::dim_k(s)) + chunks_v(F::dim_v(s));
}
template <class F> DEV constexpr uint32_t chunk_bytes() { return CHUNK_UNITS * kv_unit_bytes<F>(); }

// Asks for chunk `index` of a page's keys or values. A slot is free.
template <class F>
DEV void chunk_ask(page_stream<F> &c, const struct stage_attention &s,
                   const struct attention_block &m, const uint8_t *head, bool is_value, int index) {
    const int first = index * CHUNK_UNITS;
    const int all = is_value ? kv_units(F::dim_v(s)) : kv_blocks(F::dim_k(s)) * 2;
    const int n = all - first < CHUNK_UNITS ? all - first : (int)CHUNK_UNITS;
    const uint32_t slot = c.n_asked & (c.n_slots - 1);
    if (is_value) head += kv_k_bytes<F>(F::dim_k(s));
    fetch(c.slots + slot * chunk_bytes<F>(), head + (uint32_t)first * kv_unit_bytes<F>(),
          (uint32_t)n * kv_unit_bytes<F>(), c.full + slot, m.lane);
    c.n_asked++;
}

// Asks for chunks while a slot is free. written: the last split whose new entries are in memory. A
// page that does not fit and has new entries is asked for behind them.
template <class F>
DEV void stream_ask(page_stream<F> &c, const struct stage_attention &s,
                    const struct attention_block &m, int written) {
    const int n_k = chunks_k(F::dim_k(s)), n_v = chunks_v(F::dim_v(s));
    while (c.head && c.n_asked < c.n_read + c.n_slots) {
        if (!page_fits(c, s) && c.split > written &&
            page_is_written(s, m.item(), c.split * SPLIT_PAGES + m.warp))
            return;
        const bool is_value = c.chunk >= n_k;
        chunk_ask(c, s, m, c.head, is_value, is_value ? c.chunk - n_k : c.chunk);
        if (++c.chunk == n_k + n_v) stream_seek(c, s, m, c.split + 1);
    }
}

// The chunk `ahead` of the next one is there: the address of its slot.
template <class F> DEV uint32_t stream_wait(const page_stream<F> &c, uint32_t ahead) {
    const uint32_t index = c.n_read + ahead, slot = index & (c.n_slots - 1);
    fetch_wait(c.full + slot, index >> c.log & 1);
    return shared_address(c.slots + slot * chunk_bytes<F>());
}

// The next chunk was read.
template <class F>
DEV void stream_next(page_stream<F> &c, const struct stage_attention &s,
                     const struct attention_block &m, int written) {
    __syncwarp();
    c.n_read++;
    stream_ask(c, s, m, written);
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
    const int n_pairs = 1 << pairs_log(w.n), pair = m.t & (n_pairs - 1);
    const float4 stats = few_stats(m, pair);
    UNROLL for (int q = 0; q < 2; q++) {
        r.f[q] = {-INFINITY, 0.0f};
        if (!w.is_part && split != w.seen_first) r.f[q] = m.folds()[2 * pair + q];
        r.by[q] = fold_split(r.f[q], q ? stats.z : stats.x, q ? stats.w : stats.y);
    }
    if (w.is_part && m.thread < n_pairs)
        w.slots[(int64_t)(split - w.slot_split) * w.slot_size + m.thread] = stats;
}

// What becomes of o of a unit: the lane has elements g and g + 8 of its pair of queries. Running
// results of the first 8 units are in shared memory, those of others in the block's state.
template <class F>
DEV void few_put(const struct stage_attention &s, const struct attention_block &m, int split,
                 int unit, const float (&o)[4], const struct few_fold &r) {
    const struct attention_item &w = m.item();
    const int n_pairs = 1 << pairs_log(w.n), at = (unit * 8 + m.g) * n_pairs + m.t;
    if (m.t >= n_pairs) return;
    float4 v;
    v.x = o[0], v.y = o[1], v.z = o[2], v.w = o[3];
    if (w.is_part) {
        w.slots[(int64_t)(split - w.slot_split) * w.slot_size + n_pairs + at] = v;
        return;
    }
    float4 *kept = unit < 8 ? (float4 *)(m.memory + KEPT_AT) + at : w.state + at;
    float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
    if (split != w.seen_first) sum = *kept;
    sum.x = fold_value(r.by[0], sum.x, v.x), sum.z = fold_value(r.by[0], sum.z, v.z);
    sum.y = fold_value(r.by[1], sum.y, v.y), sum.w = fold_value(r.by[1], sum.w, v.w);
    if (split != w.seen_last) {
        *kept = sum;
        return;
    }
    const int d = unit * 16 + m.g;
    const struct query_end first = query_end_of(s, m, 2 * m.t, r.f[0]);
    result_put(s, first, d, sum.x);
    result_put(s, first, d + 8, sum.z);
    const struct query_end second = query_end_of(s, m, 2 * m.t + 1, r.f[1]);
    result_put(s, second, d, sum.y);
    result_put(s, second, d + 8, sum.w);
}

// A chunk of a page's keys, from block b0 on: more of its scores.
template <class F>
DEV void scores_chunk(const struct stage_attention &s, uint32_t chunk, uint32_t queries, int b0,
                      float (&sum)[2][4], uint32_t &bad, int lane) {
    UNROLL for (int b = 0; b < CHUNK_BLOCKS; b++) {
        if (b0 + b >= kv_blocks(F::dim_k(s))) continue;
        const uint4 q = query_fragment(queries, F::dim_k(s), lane / 4, b0 + b, lane % 4);
        UNROLL for (int half = 0; half < 2; half++) {
            const uint32_t unit = chunk + (uint32_t)(2 * b + half) * kv_unit_bytes<F>();
            uint32_t a[2][4];
            unit_fragments<F>(a, unit, lane);
            kv_mma<F>(sum[half], a[0], q.x, q.y);
            kv_mma<F>(sum[half], a[1], q.z, q.w);
            if (F::TYPE == KV_FP8 && b == 0 && b0 == 0)
                bad |= fp8_bad(shared_u128(unit + (uint32_t)lane * 16)) << 2 * half;
        }
    }
}

// A page's scores, before the scales.
template <class F>
DEV void few_scores(const struct stage_attention &s, const struct attention_block &m,
                    page_stream<F> &c, int split, float (&score)[8], uint32_t &bad) {
    const int n_blocks = kv_blocks(F::dim_k(s));
    const uint32_t queries = shared_address(m.memory);
    float sum[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    ROLLED for (int b0 = 0; b0 < n_blocks; b0 += CHUNK_BLOCKS) {
        scores_chunk<F>(s, stream_wait(c, 0), queries, b0, sum, bad, m.lane);
        stream_next(c, s, m, split);
    }
    UNROLL for (int i = 0; i < 8; i++) score[i] = sum[i / 4][i % 4];
}

// What warps tell each other of a split: the weights of each page, as the second operand of its two
// instructions, and the slot of its first chunk of values.
DEV uint4 *few_operand(const struct attention_block &m, int page) {
    return (uint4 *)(m.memory + EXCHANGE_AT) + page * 32 + m.lane;
}
DEV uint32_t *few_slots(const struct attention_block &m) {
    return (uint32_t *)(m.memory + EXCHANGE_AT + SPLIT_PAGES * 32 * 16);
}

// The warp's chunks of units from u0 on are there: as many as a round has.
template <class F>
DEV void values_wait(const struct stage_attention &s, const page_stream<F> &c, int u0, bool reads) {
    if (!reads) return;
    stream_wait(c, 0);
    if (c.n_slots > 1 && u0 + CHUNK_UNITS < kv_units(F::dim_v(s))) stream_wait(c, 1);
}

// A split's values. In a round warps have a unit each of two chunks (with a single slot: of one),
// for all pages of the split, which the warps have brought.
template <class F>
DEV void few_values(const struct stage_attention &s, const struct attention_block &m,
                    page_stream<F> &c, int split, bool reads, const struct few_fold &fold) {
    const struct attention_item &w = m.item();
    const int n_units = kv_units(F::dim_v(s)), round = CHUNK_UNITS * (c.n_slots > 1 ? 2 : 1);
    const int page_first = w.lowest / PAGE_TOKENS - split * SPLIT_PAGES;
    const int page_last = w.pos_last / PAGE_TOKENS - split * SPLIT_PAGES;
    const uint32_t pages = shared_address(m.pages);
    ROLLED for (int u0 = 0; u0 < n_units; u0 += round) {
        const int unit = u0 + m.warp;
        if (u0 > 0) {
            values_wait(s, c, u0, reads);
            m.sync();
        }
        if (m.warp < round && unit < n_units) {
            float o[4] = {0, 0, 0, 0};
            UNROLL for (int i = 0; i < SPLIT_PAGES; i++) {
                if (i < page_first || i > page_last) continue;
                const uint32_t slot =
                    (few_slots(m)[i] + (uint32_t)(unit / CHUNK_UNITS)) & (c.n_slots - 1);
                const uint32_t chunk = pages + ((uint32_t)i * c.n_slots + slot) * chunk_bytes<F>();
                const uint4 b = shared_u128(shared_address(few_operand(m, i)));
                uint32_t a[2][4];
                unit_fragments<F>(a, chunk + (uint32_t)(unit % CHUNK_UNITS) * kv_unit_bytes<F>(),
                                  m.lane);
                kv_mma<F>(o, a[0], b.x, b.y);
                kv_mma<F>(o, a[1], b.z, b.w);
            }
            few_put<F>(s, m, split, unit, o, fold);
        }
        if (u0 + round < n_units || split < w.split_last) m.sync(); // it is written again
        if (!reads) continue;
        stream_next(c, s, m, split);
        if (round > CHUNK_UNITS && u0 + CHUNK_UNITS < n_units) stream_next(c, s, m, split);
    }
    if (m.thread < 1 << pairs_log(w.n) && !w.is_part && split < w.split_last)
        UNROLL for (int q = 0; q < 2; q++) m.folds()[2 * m.thread + q] = fold.f[q];
}

// The new positions of a split, to pages and to the slots that have them already. They are dealt to
// the n_heads warps that have scratch; a single one is done by the warp of its page, which then
// waits for no other.
template <class F>
DEV void few_append(const struct stage_attention &s, const struct attention_block &m,
                    page_stream<F> &c, int split, bool reads, uint8_t *scratch, int n_heads) {
    const struct attention_item &w = m.item();
    int begin = split * SPLIT_TOKENS, end = begin + SPLIT_TOKENS;
    begin = begin < w.first_pos ? w.first_pos : begin;
    end = end > w.first_pos + w.n_new ? w.first_pos + w.n_new : end;
    if (!s.fused || begin >= end) return;
    const bool is_one = end - begin == 1 && n_heads == N_WARPS, fits = page_fits(c, s);
    if (fits && reads && page_is_written(s, w, split * SPLIT_PAGES + m.warp))
        for (uint32_t i = 0; i < c.n_slots; i++)
            stream_wait(c, i); // so no copy overwrites the new entries
    if (!is_one) m.sync();
    const bool takes_part = is_one ? m.warp == begin / PAGE_TOKENS % SPLIT_PAGES : m.warp < n_heads;
    int pos = takes_part ? begin + (is_one ? 0 : m.warp) : end;
    ROLLED for (; pos < end; pos += n_heads) {
        const int page = pos / PAGE_TOKENS;
        uint8_t *copy_k = nullptr, *copy_v = nullptr;
        if (fits && page_is_read(w, page)) {
            copy_k = m.pages + (uint32_t)(page % SPLIT_PAGES) * c.n_slots * chunk_bytes<F>();
            copy_v = copy_k + (uint32_t)chunks_k(F::dim_k(s)) * chunk_bytes<F>();
        }
        entry_append<F>(s, kv_head_at<F>(s, w.table, page, w.head_kv), copy_k, copy_v,
                        w.first_row + (pos - w.first_pos), w.head_kv, pos % PAGE_TOKENS,
                        (float *)scratch + m.warp * F::dim_k(s), m.lane);
    }
    if (!fits || split < w.split_last) copies_may_follow();
    __syncwarp();
    if (!is_one) m.sync();
}

// The item of up to 8 queries. Its first pages are asked for before the launch waits for the one
// before it, where is_early: nothing else of the step writes them. FOLDS: parts are folded by the
// block that brings the last one.
template <class F, bool FOLDS>
DEV void few_item(const struct stage_attention &s, page_stream<F> &c, uint32_t shared_at,
                  bool is_early) {
    const struct attention_block m = block_of(shared_at);
    const struct attention_item &w = m.item();
    const int n_heads = head_warps(F::dim_k(s), EXCHANGE_BYTES);
    uint8_t *scratch = m.memory + EXCHANGE_AT;
    if (!is_early) dependency_wait();
    stream_seek(c, s, m, w.split_first);
    stream_ask(c, s, m, -1);
    dependency_wait();
    ROLLED for (int split = w.split_first; split <= w.split_last; split++) {
        const int page = split * SPLIT_PAGES + m.warp;
        const bool is_seen = split >= w.seen_first && split <= w.seen_last;
        const bool reads = page_is_read(w, page);
        few_append<F>(s, m, c, split, reads, scratch, n_heads);
        stream_ask(c, s, m, split);
        if (!is_seen) continue;
        if (split == w.seen_first || split == w.split_first) {
            queries_load<F>(s, m, scratch, n_heads,
                            (w.first_pos + w.n_new - 1) / PAGE_TOKENS % SPLIT_PAGES);
            m.sync();
        }
        float score[8] = {0, 0, 0, 0, 0, 0, 0, 0}, top[2], l[2];
        uint2 scales_k = {0, 0}, scales_v = {0, 0};
        uint32_t bad = 0;
        if (reads) {
            if (F::TYPE == KV_INT8) {
                const uint8_t *at = kv_head_at<F>(s, w.table, page, w.head_kv) +
                                    kv_scales_at<F>(F::dim_k(s), F::dim_v(s));
                scales_k = load_l2((const uint2 *)at + m.g);
                scales_v = load_l2((const uint2 *)at + 8 + m.g);
            }
            few_scores<F>(s, m, c, split, score, bad);
        }
        scores_finish<F>(s, score, scales_k, bad, lane_queries_of(s, m, 0), page, m.g);
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
        if (reads) {
            uint32_t b[4];
            page_operand<F>(score, scales_v, b, m.g, m.t);
            *few_operand(m, m.warp) = {b[0], b[1], b[2], b[3]};
            if (m.lane == 0) few_slots(m)[m.warp] = c.n_read;
        }
        if (m.lane < 4) {
            m.sums()[m.warp * FEW_QUERIES + 2 * m.t] = l[0];
            m.sums()[m.warp * FEW_QUERIES + 2 * m.t + 1] = l[1];
        }
        values_wait(s, c, 0, reads);
        m.sync();
        struct few_fold fold;
        few_fold_split(m, split, fold);
        few_values<F>(s, m, c, split, reads, fold);
    }
    if (FOLDS && w.is_part) parts_end(s, shared_at);
}

// The slots of a warp, before its first item.
template <class F>
DEV page_stream<F> stream_begin(const struct stage_attention &s, const struct attention_block &m) {
    page_stream<F> c = {};
    c.n_slots = (uint32_t)s.page_slots;
    c.log = c.n_slots == 4 ? 2 : c.n_slots == 2 ? 1 : 0;
    c.slots = m.pages + (uint32_t)m.warp * c.n_slots * chunk_bytes<F>();
    c.full = (uint64_t *)(m.memory + FULL_AT) + m.warp * KV_SLOTS_MAX;
    if (m.lane < (int)c.n_slots) fetch_init(c.full + m.lane);
    fetch_init_done();
    __syncwarp();
    return c;
}

#endif
