// Attention over latents: a value is the first dim_v elements of its key, and no values are stored.
// All query heads of a KV head share its pages, so a tile of 32 queries reads a page once.
//
// Pages and the append are in latent_rows.cuh, the division of a step's work in latent_plan.cuh.
//
// The arithmetic of a query row and head. It differs from attention.cuh's in 2 to 5.
//  1. Norm and rope are in f32 (latent_entry, latent_joined). q is rounded to f16, with bf16 pages
//     to bf16.
//  2. The blocks of 32 elements are cut into two halves, [0, n / 2) and [n / 2, n). The score of a
//     position is the sum of two chains of matrix instructions, one of each half, from 0, of 16
//     elements each. The mark is added. Then s * scale; with a cap cap * tanh(s / cap).
//  3. Splits have 256 positions at multiples of 256. In a split pages follow each other in order,
//     from m = -inf, l = 0, o = 0. m' is the larger of m and the largest visible score of the page.
//     a = exp(m - m'), and 1 where m' = m. p is weight_of's, and 0 where it is not visible.
//  4. l' = fmaf(l, a, l0 + l1), where l0 and l1 are of the page's positions 0 to 15 and 16 to 31:
//     p[g] + p[g + 8] for g of 0 to 7, then pairs g ^ 1, g ^ 2, g ^ 4.
//  5. o' is a chain of two matrix instructions, of positions 0 to 15 and 16 to 31, from o * a + 0.
//     P is rounded to f16, with bf16 pages to bf16.
//  6. Splits are folded in order, then the sink, as in attention.cuh. 7. The result is O / L.
//
// The work. An item is a tile of queries with all splits of its sequence, or with a run of them.
// The results of a run's splits are parts, and a second launch folds the parts. Blocks take items
// one by one. Warps: of scores each has a half of the elements, of the positions and of the
// queries; of values each has every eighth unit of 16 elements, for all queries.
#ifndef RN_BACKEND_CUDA_ATTENTION_LATENT_CUH
#define RN_BACKEND_CUDA_ATTENTION_LATENT_CUH

#include "clock.cuh"
#include "latent_plan.cuh"

// ---------------------------------------------------------------- queries

// Rows of 16 bits by chunks, as pages have them: [chunk][query][8]. Those without a query are 0.
template <class F>
DEV void latent_queries_load(const struct stage_attention &s, const struct latent_block &m) {
    const int n_chunks = F::blocks(s) * 4, own = s.joined ? s.joined_at : s.dim_k;
    for (int i = m.thread; i < n_chunks * LATENT_QUERIES; i += LATENT_THREADS) {
        const int query = i / n_chunks, d = i % n_chunks * 8;
        uint32_t w[4] = {0, 0, 0, 0};
        if (query < m.item().n) {
            const struct item_query q = m.rows()[query];
            const int64_t row = s.q_is_out ? q.out_row : q.token;
            const float *from = s.q + row * s.ld_q + q.head * s.dim_k;
            const float *joined = s.joined + row * s.ld_joined + q.head * s.joined_step;
            UNROLL for (int e = 0; e < 8; e++) {
                float x = d + e < own ? load_l2(from + d + e) : 0.0f;
                if (d + e >= own && d + e < s.dim_k)
                    x = latent_joined(s, joined, q.token, d + e - own);
                w[e / 2] |= (uint32_t)kv_round<F>(x) << e % 2 * 16;
            }
        }
        *(uint4 *)(m.q() + d / 8 * LATENT_CHUNK + query * 16) = make_uint4(w[0], w[1], w[2], w[3]);
    }
}

// The second operand of a step of 16 elements, for the warp's two groups of 8 queries.
DEV void latent_query(uint32_t (&b)[4], const struct latent_block &m, int step) {
    shared_matrices_at<false>(b,
                              shared_address(m.q()) +
                                  (uint32_t)(2 * step * LATENT_CHUNK + 16 * m.queries * 16),
                              LATENT_CHUNK, 128, m.lane);
}

// The queries of the warp's half of the elements, in registers where their number is known.
template <class F> struct latent_operand { uint32_t b[F::BLOCKS ? F::BLOCKS : 1][4]; };

template <class F>
DEV void latent_operand_load(struct latent_operand<F> &q, const struct latent_block &m) {
    if constexpr (F::BLOCKS > 0)
        UNROLL for (int i = 0; i < F::BLOCKS; i++) latent_query(q.b[i], m, m.half * F::BLOCKS + i);
}

// ---------------------------------------------------------------- scores

// Sums of the warp's half of the elements: its 16 positions, and 16 queries.
template <class F>
DEV void latent_sums(const struct stage_attention &s, const struct latent_block &m, uint32_t page,
                     const struct latent_operand<F> &q, float (&c)[2][4]) {
    const int n = F::blocks(s), first = 2 * (m.half * n / 2), end = 2 * ((m.half + 1) * n / 2);
    UNROLL for (int i = 0; i < 2; i++) UNROLL for (int j = 0; j < 4; j++) c[i][j] = 0.0f;
    if (16 * m.queries >= m.item().n) return;
    const uint32_t at = page + (uint32_t)(16 * m.positions) * 16;
    uint32_t a[4];
    if constexpr (F::BLOCKS > 0) {
        UNROLL for (int i = 0; i < F::BLOCKS; i++) {
            shared_matrices_at<false>(a,
                                      at + (uint32_t)((m.half * F::BLOCKS + i) * 2 * LATENT_CHUNK),
                                      128, LATENT_CHUNK, m.lane);
            kv_mma<F>(c[0], a, q.b[i][0], q.b[i][1]);
            kv_mma<F>(c[1], a, q.b[i][2], q.b[i][3]);
        }
    } else {
        for (int step = first; step < end; step++) {
            uint32_t b[4];
            latent_query(b, m, step);
            shared_matrices_at<false>(a, at + (uint32_t)(step * 2 * LATENT_CHUNK), 128,
                                      LATENT_CHUNK, m.lane);
            kv_mma<F>(c[0], a, b[0], b[1]);
            kv_mma<F>(c[1], a, b[2], b[3]);
        }
    }
}

// The other half's sums are added: this warp has the scores of 16 positions and 8 queries then.
DEV void latent_exchange(const struct latent_block &m, const float (&c)[2][4], float (&x)[4]) {
    float4 *sums = (float4 *)(m.shared + LATENT_SUMS_AT);
    const int other = 1 - m.half;
    sums[m.warp * 32 + m.lane] = make_float4(other ? c[1][0] : c[0][0], other ? c[1][1] : c[0][1],
                                             other ? c[1][2] : c[0][2], other ? c[1][3] : c[0][3]);
    barrier_sync(LATENT_PAIR_BARRIER + m.warp / 2, 64);
    const float4 v = sums[(m.warp ^ 1) * 32 + m.lane];
    x[0] = (other ? c[0][0] : c[1][0]) + v.x;
    x[1] = (other ? c[0][1] : c[1][1]) + v.y;
    x[2] = (other ? c[0][2] : c[1][2]) + v.z;
    x[3] = (other ? c[0][3] : c[1][3]) + v.w;
}

// What a lane knows of its two queries: the positions that each sees, and m.
struct latent_lane {
    int pos[2], low[2];
    float top[2];
};

// The lane's first query of the tile.
DEV int latent_column(const struct latent_block &m) {
    return 8 * (2 * m.queries + m.half) + 2 * m.t;
}

DEV struct latent_lane latent_lane_of(const struct stage_attention &s,
                                      const struct latent_block &m) {
    struct latent_lane l;
    UNROLL for (int q = 0; q < 2; q++) {
        l.pos[q] = m.rows()[latent_column(m) + q].pos; // -1: no query
        l.low[q] = l.pos[q] < 0 ? 0 : lowest_seen(s, l.pos[q]);
        l.top[q] = -INFINITY;
    }
    return l;
}

// Scores of positions g and g + 8 of the warp's 16; -inf where the position is not visible. The
// largest of each query go to shared memory.
template <class F>
DEV void latent_finish(const struct stage_attention &s, const struct latent_block &m,
                       const struct latent_lane &l, const uint16_t *marks, int page,
                       float (&x)[4]) {
    UNROLL for (int i = 0; i < 2; i++) {
        const int slot = 16 * m.positions + m.g + 8 * i, pos = page * PAGE_TOKENS + slot;
        const float mark = f32_of_f16(marks[slot]);
        UNROLL for (int q = 0; q < 2; q++) {
            float y = (x[2 * i + q] + mark) * s.scale;
            if (s.softcap > 0.0f) y = rmath_capped(y, s.softcap);
            x[2 * i + q] = pos <= l.pos[q] && pos >= l.low[q] ? y : -INFINITY;
        }
    }
    UNROLL for (int q = 0; q < 2; q++) {
        const float top = queries_max(fmaxf(x[q], x[2 + q]));
        if (m.g == 0) m.maxima(m.positions)[latent_column(m) + q] = top;
    }
}

// p of the scores, as the values' second operand: [8 queries][position][8] of 16 bits.
template <class F>
DEV void latent_weights(const struct latent_block &m, struct latent_lane &l, const float (&x)[4]) {
    const int column = latent_column(m);
    float p[4], a[2];
    UNROLL for (int q = 0; q < 2; q++) {
        const float top = fmaxf(l.top[q], fmaxf(m.maxima(0)[column + q], m.maxima(1)[column + q]));
        const float from = weights_top(top);
        a[q] = top == l.top[q] ? 1.0f : rmath_exp(l.top[q] - top);
        UNROLL for (int i = 0; i < 2; i++) p[2 * i + q] = weight_of(x[2 * i + q], from);
        const float sum = queries_sum(p[q] + p[2 + q]);
        l.top[q] = top;
        if (m.g != 0) continue;
        m.sums(m.positions)[column + q] = sum;
        if (m.positions != 0) continue;
        m.factor()[column + q] = a[q];
        m.top()[column + q] = top;
    }
    UNROLL for (int i = 0; i < 2; i++) {
        const int slot = 16 * m.positions + m.g + 8 * i;
        const uint32_t both = F::TYPE == KV_BF16 ? bf16x2_of(p[2 * i], p[2 * i + 1])
                                                 : f16x2_of(p[2 * i], p[2 * i + 1]);
        *(uint32_t *)(m.shared + LATENT_P_AT + column / 8 * 512 + slot * 16 + m.t * 4) = both;
    }
}

// ---------------------------------------------------------------- values

// o of the warp's units of 16 elements: rows are elements, columns are queries.
struct latent_values {
    float o[LATENT_UNITS][LATENT_N_TILES][4];
};

DEV void latent_clear(struct latent_values &v) {
    UNROLL for (int i = 0; i < LATENT_UNITS; i++) UNROLL for (int n = 0; n < LATENT_N_TILES; n++)
        UNROLL for (int j = 0; j < 4; j++) v.o[i][n][j] = 0.0f;
}

template <class F>
DEV void latent_page_values(const struct stage_attention &s, const struct latent_block &m,
                            uint32_t page, struct latent_values &v) {
    const int n_queries = m.item().n;
    const uint32_t p = shared_address(m.shared + LATENT_P_AT);
    uint32_t b[LATENT_N_TILES][4];
    UNROLL for (int n = 0; n < LATENT_N_TILES; n++) {
        if (8 * n >= n_queries) continue;
        shared_matrices_at<true>(b[n], p + (uint32_t)n * 512, 128, 256, m.lane);
        const float2 a = *(const float2 *)(m.factor() + 8 * n + 2 * m.t);
        if (__all_sync(0xffffffffu, a.x == 1.0f && a.y == 1.0f)) continue;
        UNROLL for (int i = 0; i < LATENT_UNITS; i++) UNROLL for (int j = 0; j < 4; j++)
            v.o[i][n][j] = v.o[i][n][j] * (j % 2 ? a.y : a.x) + 0.0f; // never -0
    }
    UNROLL for (int i = 0; i < LATENT_UNITS; i++) {
        const int unit = m.warp + N_WARPS * i;
        if (unit >= F::units(s)) continue;
        uint32_t c[2][4];
        UNROLL for (int h = 0; h < 2; h++)
            shared_matrices_at<true>(c[h], page + (uint32_t)(unit * 2 * LATENT_CHUNK + h * 16 * 16),
                                     LATENT_CHUNK, 128, m.lane);
        UNROLL for (int n = 0; n < LATENT_N_TILES; n++) {
            if (8 * n >= n_queries) continue;
            kv_mma<F>(v.o[i][n], c[0], b[n][0], b[n][1]);
            kv_mma<F>(v.o[i][n], c[1], b[n][2], b[n][3]);
        }
    }
}

// ---------------------------------------------------------------- results

// The end of a query: what multiplies O, and what divides it.
DEV float2 latent_end_of(const struct stage_attention &s, int head, const struct softmax_fold &f) {
    float2 e = {1.0f, f.l};
    if (!s.sinks) return e;
    const float sink = s.sinks[head], top = fmaxf(f.m, sink);
    e.x = rmath_exp_called(f.m - top);
    e.y = fmaf(f.l, e.x, rmath_exp_called(sink - top));
    return e;
}

DEV void latent_put(const struct stage_attention &s, const struct item_query &q, float2 end, int d,
                    float o) {
    if (d >= s.dim_v) return;
    const float y = (s.sinks ? o * end.x : o) / end.y;
    if (s.out16.at)
        rows16_put(s.out16, q.out_row, q.head * s.dim_v + d, y);
    else
        s.out[(int64_t)q.out_row * s.ld_out + q.head * s.dim_v + d] = y;
}

// A part has (m, l) of each query, then o as [query][elements].
DEV void latent_part_put(const struct stage_attention &s, const struct latent_block &m, int split,
                         const struct latent_values &v) {
    const struct latent_item &w = m.item();
    const int n_units = kv_units(s.dim_v), n = (w.n + 7) / 8 * 8;
    float *part = w.part + (uint64_t)(split - w.part_first) * w.part_stride, *o = part + 2 * n;
    if (m.thread < n) {
        part[2 * m.thread] = m.top()[m.thread];
        part[2 * m.thread + 1] = m.total()[m.thread];
    }
    UNROLL for (int i = 0; i < LATENT_UNITS; i++) UNROLL for (int k = 0; k < LATENT_N_TILES; k++) {
        const int unit = m.warp + N_WARPS * i;
        if (unit >= n_units || 8 * k >= w.n) continue;
        UNROLL for (int j = 0; j < 4; j++) {
            const int query = 8 * k + 2 * m.t + j % 2, d = unit * 16 + m.g + 8 * (j / 2);
            o[query * (n_units * 16) + d] = v.o[i][k][j];
        }
    }
}

// The end of a split of a whole item: it is folded into the running results, which each thread has
// a place for; the last one gives the result.
DEV void latent_fold_split(const struct stage_attention &s, const struct latent_block &m,
                           float4 *kept, bool is_first, bool is_last,
                           const struct latent_values &v) {
    if (m.thread < LATENT_QUERIES) {
        struct softmax_fold f = {-INFINITY, 0.0f};
        if (!is_first) f = m.fold()[m.thread];
        const struct fold_by by = fold_split(f, m.top()[m.thread], m.total()[m.thread]);
        m.fold()[m.thread] = f;
        m.by()[m.thread] = make_float4(by.a, by.b, by.is_live ? 1.0f : 0.0f, 0.0f);
        if (is_last) m.ends()[m.thread] = latent_end_of(s, m.rows()[m.thread].head, f);
    }
    m.sync();
    UNROLL for (int n = 0; n < LATENT_N_TILES; n++) {
        if (8 * n >= m.item().n) continue;
        const int column = 8 * n + 2 * m.t;
        const float4 f0 = m.by()[column], f1 = m.by()[column + 1];
        const struct fold_by by[2] = {{f0.x, f0.y, f0.z != 0.0f}, {f1.x, f1.y, f1.z != 0.0f}};
        UNROLL for (int i = 0; i < LATENT_UNITS; i++) {
            const int unit = m.warp + N_WARPS * i;
            if (unit >= kv_units(s.dim_v)) continue;
            float4 *place = kept + (i * LATENT_N_TILES + n) * LATENT_THREADS + m.thread;
            float4 before = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (!is_first) before = *place;
            const float y[4] = {fold_value(by[0], before.x, v.o[i][n][0]),
                                fold_value(by[1], before.y, v.o[i][n][1]),
                                fold_value(by[0], before.z, v.o[i][n][2]),
                                fold_value(by[1], before.w, v.o[i][n][3])};
            if (!is_last) {
                *place = make_float4(y[0], y[1], y[2], y[3]);
                continue;
            }
            UNROLL for (int j = 0; j < 4; j++) {
                const int query = column + j % 2;
                if (query < m.item().n)
                    latent_put(s, m.rows()[query], m.ends()[query], unit * 16 + m.g + 8 * (j / 2),
                               y[j]);
            }
        }
    }
}

// ---------------------------------------------------------------- pages

// The pages that the block reads, in order: those asked for by the first warp, and those read.
struct latent_stream {
    uint32_t asked, read; // pages of all items
    int next;             // the item's next page to ask for
};

struct latent_slot {
    uint32_t slot, parity;
};
DEV struct latent_slot latent_slot_of(const struct latent_args &args, uint32_t index) {
    const uint32_t n = (uint32_t)args.n_slots;
    return {index % n, index / n & 1};
}

// The first warp: asks for pages up to `last` while slots are free; `freed`: pages whose slots are.
template <class F>
DEV void latent_ask(const struct latent_args &args, const struct latent_block &m,
                    struct latent_stream &c, uint32_t freed, int last) {
    const struct stage_attention &s = args.stage;
    const uint32_t bytes = latent_page_bytes<F>(s);
    for (; c.next <= last && c.asked < freed + (uint32_t)args.n_slots; c.next++, c.asked++) {
        const struct latent_slot at = latent_slot_of(args, c.asked);
        fetch(m.shared + args.slots_at + at.slot * bytes,
              latent_head_at<F>(s, m.item().table[c.next], m.item().head_kv), bytes,
              m.full() + at.slot, m.lane);
    }
}

// The page number `index` of the block has arrived: its address. Pages of 8 bits are not made wide.
template <class F>
DEV const uint8_t *latent_arrived(const struct latent_args &args, const struct latent_block &m,
                                  uint32_t index) {
    const struct latent_slot at = latent_slot_of(args, index);
    fetch_wait(m.full() + at.slot, at.parity);
    return m.shared + args.slots_at + at.slot * latent_page_bytes<F>(args.stage);
}

// Where the page is that matrices are read from.
template <class F>
DEV const uint8_t *latent_page_at(const struct latent_args &args, const struct latent_block &m,
                                  uint32_t index) {
    if (!kv_is_wide<F>())
        return m.shared + args.wide_at +
               (index & 1) * LATENT_PAGE_BYTES(F::blocks(args.stage), KV_F16);
    return m.shared + args.slots_at +
           latent_slot_of(args, index).slot * latent_page_bytes<F>(args.stage);
}
template <class F>
DEV const uint16_t *latent_marks(const struct stage_attention &s, const uint8_t *page) {
    return (const uint16_t *)(page + F::blocks(s) * 4 * LATENT_CHUNK);
}

DEV uint4 halves_scaled(const uint4 &v, uint32_t by) {
    return make_uint4(half2_mul(v.x, by), half2_mul(v.y, by), half2_mul(v.z, by),
                      half2_mul(v.w, by));
}

// A page of 8 bits becomes 16 bits. All threads; a thread has two positions of a chunk at a time.
template <class F>
DEV void latent_widen(const struct latent_args &args, const struct latent_block &m,
                      uint32_t index) {
    const struct stage_attention &s = args.stage;
    const uint8_t *from = latent_arrived<F>(args, m, index);
    uint8_t *to = (uint8_t *)latent_page_at<F>(args, m, index);
    const int n = F::blocks(s) * 4 * (PAGE_TOKENS / 2);
    for (int i = m.thread; i < n; i += LATENT_THREADS) {
        const uint4 v = shared_u128(shared_address(from) + (uint32_t)i * 16);
        uint4 low, high;
        halves_of<F>(v.x, low.x, low.y);
        halves_of<F>(v.y, low.z, low.w);
        halves_of<F>(v.z, high.x, high.y);
        halves_of<F>(v.w, high.z, high.w);
        if (F::TYPE == KV_INT8) {
            const uint32_t at = (uint32_t)(n * 16 + 64 * (1 + i / (8 * 16)) + i % 16 * 4);
            const uint32_t both = shared_u32(shared_address(from) + at);
            low = halves_scaled(low, bytes_of(both, both, 0x1010));
            high = halves_scaled(high, bytes_of(both, both, 0x3232));
        }
        ((uint4 *)to)[2 * i] = low;
        ((uint4 *)to)[2 * i + 1] = high;
    }
    if (m.thread < PAGE_TOKENS)
        ((uint16_t *)latent_marks<F>(s, to))[m.thread] =
            ((const uint16_t *)(from + n * 16))[m.thread];
}

// ---------------------------------------------------------------- an item

// The pages of the item are asked for up to the first one that has new entries, where is_early.
template <class F>
DEV void latent_item_run(const struct latent_args &args, const struct latent_block &m,
                         struct latent_stream &c, float4 *kept, bool is_early) {
    const struct stage_attention &s = args.stage;
    const struct latent_item &w = m.item();
    const int first = w.page_first, last = w.page_last;
    c.next = first;
    if (m.warp == 0 && is_early)
        latent_ask<F>(args, m, c, c.read, last < w.new_first ? last : w.new_first - 1);
    dependency_wait();
    copies_may_follow();
    if (m.warp == 0) latent_ask<F>(args, m, c, c.read, last);
    latent_queries_load<F>(s, m);
    if (m.thread < LATENT_QUERIES) m.total()[m.thread] = 0.0f;
    if (!kv_is_wide<F>()) latent_widen<F>(args, m, c.read);
    m.sync();
    struct latent_operand<F> q;
    latent_operand_load(q, m);
    struct latent_lane l = latent_lane_of(s, m);
    struct latent_values v;
    latent_clear(v);
    float sums[2][4];
    if (kv_is_wide<F>()) latent_arrived<F>(args, m, c.read);
    latent_sums<F>(s, m, shared_address(latent_page_at<F>(args, m, c.read)), q, sums);
    ROLLED for (int page = first; page <= last; page++, c.read++) {
        const uint8_t *at = latent_page_at<F>(args, m, c.read);
        const uint16_t *marks = latent_marks<F>(s, at);
        float x[4];
        latent_exchange(m, sums, x);
        latent_finish<F>(s, m, l, marks, page, x);
        m.sync(); // the page before was read by all, and its P
        if (m.warp == 0 && kv_is_wide<F>()) latent_ask<F>(args, m, c, c.read, last);
        if (!kv_is_wide<F>() && page < last) latent_widen<F>(args, m, c.read + 1);
        latent_weights<F>(m, l, x);
        m.sync();
        if (m.warp == 0 && !kv_is_wide<F>()) latent_ask<F>(args, m, c, c.read + 2, last);
        if (page < last) { // the next page's scores and this page's values have no order
            if (kv_is_wide<F>()) latent_arrived<F>(args, m, c.read + 1);
            latent_sums<F>(s, m, shared_address(latent_page_at<F>(args, m, c.read + 1)), q, sums);
        }
        latent_page_values<F>(s, m, shared_address(at), v);
        if (m.thread < LATENT_QUERIES)
            m.total()[m.thread] = fmaf(m.total()[m.thread], m.factor()[m.thread],
                                       m.sums(0)[m.thread] + m.sums(1)[m.thread]);
        if ((page + 1) % SPLIT_PAGES != 0 && page < last) continue;
        if (w.is_part)
            latent_part_put(s, m, page / SPLIT_PAGES, v);
        else
            latent_fold_split(s, m, kept, page / SPLIT_PAGES == w.seen_first, page == last, v);
        latent_clear(v);
        UNROLL for (int k = 0; k < 2; k++) l.top[k] = -INFINITY;
        if (m.thread < LATENT_QUERIES) m.total()[m.thread] = 0.0f;
    }
}

// ---------------------------------------------------------------- the launches

// Every block plans the same items. Its first one is that of its number; a counter gives the
// others. As many numbers are taken as there are items, and the last one clears the counter.
template <class F> DEV void latent_run(const struct latent_args &args, uint8_t *shared) {
    const struct stage_attention &s = args.stage;
    const struct latent_block m = latent_block_of(shared);
    const int n_seqs = n_seqs_of(*args.step, args.rows);
    float4 *kept = args.kept_at ? (float4 *)(shared + args.kept_at)
                                : (float4 *)s.parts + (int64_t)blockIdx.x * LATENT_UNITS *
                                                          LATENT_N_TILES * LATENT_THREADS;
    struct latent_stream c = {0, 0, 0};
    bool is_early = args.is_early != 0;
    uint32_t parts = 0;
    if (m.warp == 0) {
        if (m.lane < args.n_slots) fetch_init(m.full() + m.lane);
        fetch_init_done();
    }
    for (int first = 0; first < n_seqs; first += LATENT_SEQS) {
        const int n = n_seqs - first < LATENT_SEQS ? n_seqs - first : (int)LATENT_SEQS;
        if (m.warp == 0) latent_plan(args, first, n, parts, m.table(), m.lane);
        m.sync();
        const uint32_t n_items = m.table()->n_whole + m.table()->n_split;
        parts = m.table()->n_parts;
        for (uint32_t item = blockIdx.x; item < n_items;) {
            if (m.warp == 0) latent_item_make(args, first, n, item, m);
            m.sync();
            if (m.item().page_first <= m.item().page_last)
                latent_item_run<F>(args, m, c, kept, is_early);
            is_early = false;
            dependency_wait();
            if (m.thread == 0) {
                uint32_t *counter = s.counters + first / LATENT_SEQS;
                const uint32_t taken = add_acq_rel(counter, 1);
                if (taken + 1 == n_items) *counter = 0;
                m.table()->next = gridDim.x + taken;
            }
            m.sync(); // the memory is used again
            item = m.table()->next;
        }
        m.sync();
    }
    dependency_wait();
}

// The fold of a query's parts: a thread has an element. Every warp computes the factors.
DEV void latent_fold_query(const struct stage_attention &s, const struct latent_item &w,
                           const struct item_query &query, int index, int d, int lane) {
    const int n_units = kv_units(s.dim_v), rows = (w.n + 7) / 8 * 8;
    const int n = w.seen_last - w.seen_first + 1;
    struct softmax_fold f = {-INFINITY, 0.0f};
    float o = 0.0f;
    for (int first = 0; first < n; first += 32) {
        const float *parts =
            w.part + (uint64_t)(w.seen_first - w.part_first + first) * w.part_stride;
        const int m = n - first < 32 ? n - first : 32;
        float v[32];
        UNROLL for (int j = 0; j < 32; j++) {
            v[j] = 0.0f;
            if (j < m && d < s.dim_v)
                v[j] = load_l2(parts + (uint64_t)j * w.part_stride + 2 * rows +
                               index * (n_units * 16) + d);
        }
        float2 ml = {-INFINITY, 0.0f};
        if (lane < m)
            ml = load_l2((const float2 *)(parts + (uint64_t)lane * w.part_stride) + index);
        const struct split_factors by = split_factors_of(ml, f.m, lane);
        f.m = __shfl_sync(0xffffffffu, f.m, 31);
        UNROLL for (int j = 0; j < 32; j++) {
            const float l = __shfl_sync(0xffffffffu, ml.y, j);
            const float a = __shfl_sync(0xffffffffu, by.by.x, j);
            const float b = __shfl_sync(0xffffffffu, by.by.y, j);
            if (!(by.live >> j & 1)) continue;
            f.l = fmaf(l, b, f.l * a);
            o = fmaf(v[j], b, o * a);
        }
    }
    latent_put(s, query, latent_end_of(s, query.head, f), d, o);
}

// A block has 128 elements of a query at a time.
DEV void latent_fold_run(const struct latent_args &args, uint8_t *shared) {
    const struct stage_attention &s = args.stage;
    struct latent_table *table = (struct latent_table *)(shared + LATENT_TABLE_AT);
    struct item_query *rows = (struct item_query *)(shared + LATENT_ROWS_AT);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int n_ranges = (s.dim_v + LATENT_FOLD_THREADS - 1) / LATENT_FOLD_THREADS;
    const int n_seqs = n_seqs_of(*args.step, args.rows);
    uint32_t parts = 0;
    bool has_waited = false;
    for (int first = 0; first < n_seqs; first += LATENT_SEQS) {
        const int n = n_seqs - first < LATENT_SEQS ? n_seqs - first : (int)LATENT_SEQS;
        __syncthreads();
        if (warp == 0) latent_plan(args, first, n, parts, table, lane);
        __syncthreads();
        parts = table->n_parts;
        const uint64_t n_all = (uint64_t)table->n_jobs * LATENT_QUERIES * (uint32_t)n_ranges;
        for (uint64_t index = blockIdx.x; index < n_all; index += gridDim.x) {
            const int range = (int)(index % (uint32_t)n_ranges);
            const int query = (int)(index / (uint32_t)n_ranges % LATENT_QUERIES);
            const uint32_t job = (uint32_t)(index / (uint32_t)(n_ranges * LATENT_QUERIES));
            const int i = table_find(table->job_first, n, job);
            const struct step_seq &seq = args.step->seq[first + i];
            const struct latent_shape shape = latent_shape_of(s, *args.step, seq, args.rows);
            const int in_seq = (int)(job - table->job_first[i]);
            struct latent_item w = {};
            latent_tile(args, seq, shape, in_seq, w, rows + warp * 32, lane);
            __syncwarp();
            if (query >= w.n) continue;
            latent_parts_find(s, table, i, shape, in_seq, w);
            if (!has_waited) dependency_wait();
            has_waited = true;
            latent_fold_query(s, w, rows[warp * 32 + query], query,
                              range * LATENT_FOLD_THREADS + (int)threadIdx.x, lane);
            __syncwarp();
        }
    }
    if (!has_waited) dependency_wait();
}

#endif
