// Attention of many streams at the memory's bandwidth: see attention_streams.h for teams, items and
// runs. The operations are those of attention.cuh.
//
// A warp of a team has every fourth page of a split's keys, and a fourth of the elements of all its
// values. So each warp reads bytes that no other reads, into a ring of its own that runs ahead into
// the next splits, and a split has two barriers: the largest scores meet, then the operands of the
// values' product. The tiles of an item share the bytes.
#ifndef RN_BACKEND_CUDA_ATTENTION_STREAMS_CUH
#define RN_BACKEND_CUDA_ATTENTION_STREAMS_CUH

#include "attention_item.cuh"
#include "attention_streams.h"

// ---------------------------------------------------------------- a team

template <class F, int TILES> struct stream_form {
    static constexpr int V_UNITS = F::DIM / (16 * STREAM_WARPS); // of a warp
    static constexpr int SLOT_UNITS = 2;
    static constexpr int V_CHUNKS = V_UNITS < 2 ? 1 : V_UNITS / 2; // of a page
    static constexpr int CHUNK_UNITS = V_UNITS / V_CHUNKS;         // of values
    static constexpr uint32_t UNIT = F::TYPE == KV_F16 || F::TYPE == KV_BF16 ? 1024 : 512;
    static constexpr uint32_t SLOT = SLOT_UNITS * UNIT;
    static constexpr int K_CHUNKS = F::DIM / 16 / SLOT_UNITS; // of a page
    static constexpr int K_PAGES = SPLIT_PAGES / STREAM_WARPS;
    static constexpr int QUERIES = TILES * FEW_QUERIES;
    // in shared memory
    static constexpr int FULL_AT = 0; // barriers [warp][slot]
    static constexpr int SLOTS_MAX = 16;
    static constexpr int WORDS_AT = STREAM_WARPS * SLOTS_MAX * 8;
    static constexpr int INFO_AT = WORDS_AT + 64;                          // struct item_query
    static constexpr int MAXIMA_AT = INFO_AT + QUERIES * 16;               // [warp][query]
    static constexpr int SUMS_AT = MAXIMA_AT + STREAM_WARPS * QUERIES * 4; // [page][query]
    static constexpr int QUERIES_AT = (SUMS_AT + SPLIT_PAGES * QUERIES * 4 + 127) / 128 * 128;
    static constexpr int OPERANDS_AT = QUERIES_AT + QUERIES * F::DIM * 2; // [page][tile][lane]
    static constexpr int RING_AT = OPERANDS_AT + SPLIT_PAGES * TILES * 512;
    static constexpr int N_FIT =
        (int)((uint32_t)(STREAM_SHARED(TILES) - RING_AT) / (STREAM_WARPS * SLOT));
    static constexpr int N_SLOTS = N_FIT < SLOTS_MAX ? N_FIT : SLOTS_MAX;
    static_assert(N_SLOTS >= 4, "a ring runs ahead");
    static_assert(STREAM_WARPS * F::DIM * 4 <= SPLIT_PAGES * TILES * 512, "heads have scratch");
};

// An item, as a warp knows it.
struct stream_item {
    const struct stream_entry *entry;
    const struct step_seq *seq;
    const uint32_t *table;
    int head_kv, n_tiles;
    int page_first, page_last, split_last;
};

template <class F, int TILES> struct stream_warp {
    typedef stream_form<F, TILES> S;
    int warp, lane, g, t;
    uint8_t *shared;
    int n_free, ask_slot, read_slot; // of the ring
    uint32_t parity;                 // of the slot that is read next
    // the chunk that is asked for next: of keys of this warp's pages, then of values of all pages
    int split, chunk, n_keys, n_chunks;
    int page, page_own; // the split's first visible page, and the warp's
    uint32_t ids;       // of lane i: page i of the 32 around

    DEV uint64_t *full(int slot) const {
        return (uint64_t *)(shared + S::FULL_AT) + warp * S::N_SLOTS + slot;
    }
    DEV uint8_t *slot_at(int slot) const {
        return shared + S::RING_AT + (uint32_t)(warp * S::N_SLOTS + slot) * S::SLOT;
    }
    DEV struct item_query *info() const { return (struct item_query *)(shared + S::INFO_AT); }
    DEV float *maxima() const { return (float *)(shared + S::MAXIMA_AT); }
    DEV float *sums() const { return (float *)(shared + S::SUMS_AT); }
    DEV uint8_t *operands(int page_index, int tile) const {
        return shared + S::OPERANDS_AT + (page_index * TILES + tile) * 512;
    }
    DEV void sync() const { barrier_sync(1, STREAM_THREADS); }
};

DEV int split_page_first(const struct stream_item &x, int split) {
    return split * SPLIT_PAGES > x.page_first ? split * SPLIT_PAGES : x.page_first;
}
DEV int split_page_last(const struct stream_item &x, int split) {
    const int end = split * SPLIT_PAGES + SPLIT_PAGES - 1;
    return end < x.page_last ? end : x.page_last;
}

// ---------------------------------------------------------------- the ring

// Goes to the chunks of a split.
template <class F, int TILES>
DEV void ring_split(stream_warp<F, TILES> &w, const struct stream_item &x, int split) {
    const int last = split_page_last(x, split);
    w.split = split;
    w.chunk = 0;
    w.page = split_page_first(x, split);
    w.page_own = w.page + ((w.warp - w.page) & (STREAM_WARPS - 1));
    w.n_keys = w.page_own > last
                   ? 0
                   : ((last - w.page_own) / STREAM_WARPS + 1) * (stream_form<F, TILES>::K_CHUNKS);
    w.n_chunks = w.n_keys + (last - w.page + 1) * (stream_form<F, TILES>::V_CHUNKS);
}
template <class F, int TILES>
DEV void ring_ids(stream_warp<F, TILES> &w, const struct stream_item &x) {
    const int page = w.split / 4 * 32 + w.lane;
    w.ids = page >= x.page_first && page <= x.page_last ? x.table[page] : 0;
}

// Asks for chunks of pages below `end` while a slot is free.
template <class F, int TILES>
DEV void ring_ask(stream_warp<F, TILES> &w, const struct stage_attention &s,
                  const struct stream_item &x, int end) {
    typedef stream_form<F, TILES> S;
    while (w.n_free > 0 && w.split <= x.split_last) {
        const bool is_key = w.chunk < w.n_keys;
        const int of = is_key ? w.chunk : w.chunk - w.n_keys;
        const int page =
            is_key ? w.page_own + of / S::K_CHUNKS * STREAM_WARPS : w.page + of / S::V_CHUNKS;
        if (page >= end) return;
        const uint8_t *head =
            kv_head_in<F>(s, __shfl_sync(0xffffffffu, w.ids, page % 32), x.head_kv);
        uint32_t at = (uint32_t)(is_key ? of % S::K_CHUNKS : of % S::V_CHUNKS) * S::SLOT;
        if (!is_key) at += kv_k_bytes<F>(F::DIM) + (uint32_t)(w.warp * S::V_UNITS) * S::UNIT;
        fetch<true>(w.slot_at(w.ask_slot), head + at, is_key ? S::SLOT : S::CHUNK_UNITS * S::UNIT,
                    w.full(w.ask_slot), w.lane);
        w.n_free--;
        w.ask_slot = w.ask_slot + 1 == S::N_SLOTS ? 0 : w.ask_slot + 1;
        if (++w.chunk < w.n_chunks) continue;
        ring_split(w, x, w.split + 1);
        if (w.split % 4 == 0 && w.split <= x.split_last) ring_ids(w, x);
    }
}

// The next chunk is there: its address.
template <class F, int TILES> DEV uint32_t ring_wait(const stream_warp<F, TILES> &w) {
    fetch_wait(w.full(w.read_slot), w.parity);
    return shared_address(w.slot_at(w.read_slot));
}
// It was read.
template <class F, int TILES>
DEV void ring_next(stream_warp<F, TILES> &w, const struct stage_attention &s,
                   const struct stream_item &x) {
    __syncwarp();
    w.n_free++;
    w.read_slot++;
    if (w.read_slot == (stream_form<F, TILES>::N_SLOTS)) w.read_slot = 0, w.parity ^= 1;
    ring_ask(w, s, x, INT32_MAX);
}

// ---------------------------------------------------------------- queries

// The queries of the item, as queries_load has them. A warp has every fourth, and asks for two of
// them at a time where registers suffice.
template <class F, int TILES>
DEV void stream_queries(const stream_warp<F, TILES> &w, const struct stage_attention &s,
                        const struct step &step, int rows, const struct stream_item &x) {
    typedef stream_form<F, TILES> S;
    constexpr int AT_ONCE = TILES == 1 && (F::TYPE >= KV_INT8 || F::DIM > 128) ? 1 : 2;
    const struct head_rule rule = {s.q_norm ? s.q_weight : nullptr, s.q_eps, s.n_rot, s.halves};
    const int first = x.entry->first, n = x.entry->n;
    float *scratch = (float *)(w.shared + S::OPERANDS_AT) + w.warp * F::DIM;
    for (int i = (int)threadIdx.x; i < S::QUERIES; i += STREAM_THREADS) {
        struct item_query q = {-1, 0, 0, 0};
        if (i < n) q = query_at(s, step, *x.seq, rows, x.head_kv, first + i);
        w.info()[i] = q;
    }
    ROLLED for (int i0 = w.warp; i0 < n; i0 += AT_ONCE * STREAM_WARPS) {
        struct head_load load[AT_ONCE];
        const float *from[AT_ONCE] = {};
        const float2 *rope[AT_ONCE] = {};
        UNROLL for (int k = 0; k < AT_ONCE; k++) {
            const int i = i0 + k * STREAM_WARPS;
            if (i >= n) continue;
            const struct item_query q = query_at(s, step, *x.seq, rows, x.head_kv, first + i);
            from[k] = s.q + (int64_t)(s.q_is_out ? q.out_row : q.token) * s.ld_q + q.head * F::DIM;
            rope[k] = (const float2 *)s.rope + (int64_t)q.token * (s.n_rot / 2);
            head_ask(load[k], from[k], F::DIM, rule.weight, s.n_rot, rope[k], w.lane);
        }
        UNROLL for (int k = 0; k < AT_ONCE; k++) {
            const int i = i0 + k * STREAM_WARPS;
            if (i >= n) continue;
            head_finish(scratch, load[k], from[k], F::DIM, rule, rope[k], w.lane);
            query_put<F>(w.shared + S::QUERIES_AT, i, scratch, F::DIM, w.lane);
        }
    }
}

template <class F, int TILES>
DEV struct lane_queries tile_queries(const stream_warp<F, TILES> &w,
                                     const struct stage_attention &s, int tile) {
    struct lane_queries l;
    UNROLL for (int q = 0; q < 2; q++) {
        l.pos[q] = w.info()[tile * FEW_QUERIES + 2 * w.t + q].pos;
        l.low[q] = lowest_seen(s, l.pos[q]);
    }
    return l;
}

// ---------------------------------------------------------------- a split

// Scores of the warp's pages, then p; of pages that are not seen nothing is used.
template <int TILES> struct stream_scores {
    float v[TILES][SPLIT_PAGES / STREAM_WARPS][8];
    float top[TILES][2];
};
// Scales of int8, of the warp's pages: keys, then values.
struct stream_scales {
    uint2 v[2][SPLIT_PAGES / STREAM_WARPS];
};

template <class F, int TILES>
DEV void scales_load(const stream_warp<F, TILES> &w, const struct stage_attention &s,
                     const struct stream_item &x, int split, struct stream_scales &scales) {
    if constexpr (F::TYPE == KV_INT8) {
        UNROLL for (int i = 0; i < (stream_form<F, TILES>::K_PAGES); i++) {
            const int page = split * SPLIT_PAGES + w.warp + STREAM_WARPS * i;
            if (split > x.split_last || page < x.page_first || page > x.page_last) continue;
            const uint2 *at = (const uint2 *)(kv_head_at<F>(s, x.table, page, x.head_kv) +
                                              kv_scales_at<F>(F::DIM, F::DIM));
            scales.v[0][i] = load_l2(at + w.g);
            scales.v[1][i] = load_l2(at + 8 + w.g);
        }
    }
}

// A chunk of a page's keys, from block b0 on, with the queries of all tiles.
template <class F, int TILES>
DEV void keys_chunk(const stream_warp<F, TILES> &w, uint32_t chunk, int b0, int n_tiles,
                    float (&sum)[TILES][8], uint32_t &bad) {
    typedef stream_form<F, TILES> S;
    const uint32_t queries = shared_address(w.shared + S::QUERIES_AT);
    UNROLL for (int b = 0; b < S::SLOT_UNITS / 2; b++) {
        UNROLL for (int half = 0; half < 2; half++) {
            const uint32_t unit = chunk + (uint32_t)(2 * b + half) * S::UNIT;
            uint32_t a[2][4];
            unit_fragments<F>(a, unit, w.lane);
            if (F::TYPE == KV_FP8 && b == 0 && b0 == 0)
                bad |= fp8_bad(shared_u128(unit + (uint32_t)w.lane * 16)) << 2 * half;
            UNROLL for (int tile = 0; tile < TILES; tile++) {
                if (tile >= n_tiles) continue;
                const uint4 q =
                    query_fragment(queries, F::DIM, tile * FEW_QUERIES + w.g, b0 + b, w.t);
                float c[4];
                UNROLL for (int k = 0; k < 4; k++) c[k] = sum[tile][4 * half + k];
                kv_mma<F>(c, a[0], q.x, q.y);
                kv_mma<F>(c, a[1], q.z, q.w);
                UNROLL for (int k = 0; k < 4; k++) sum[tile][4 * half + k] = c[k];
            }
        }
    }
}

// The scores of the warp's pages; the largest ones of the warp go to shared memory.
template <class F, int TILES>
DEV void split_scores(stream_warp<F, TILES> &w, const struct stage_attention &s,
                      const struct stream_item &x, int split, const struct stream_scales &scales,
                      struct stream_scores<TILES> &score) {
    typedef stream_form<F, TILES> S;
    UNROLL for (int tile = 0; tile < TILES; tile++) score.top[tile][0] = score.top[tile][1] =
        -INFINITY;
    UNROLL for (int i = 0; i < S::K_PAGES; i++) {
        const int page = split * SPLIT_PAGES + w.warp + STREAM_WARPS * i;
        float sum[TILES][8];
        UNROLL for (int tile = 0; tile < TILES; tile++) UNROLL for (int k = 0; k < 8; k++)
            sum[tile][k] = 0.0f;
        if (page >= x.page_first && page <= x.page_last) {
            uint32_t bad = 0;
            ROLLED for (int c = 0; c < S::K_CHUNKS; c++) {
                keys_chunk<F, TILES>(w, ring_wait(w), c * (S::SLOT_UNITS / 2), x.n_tiles, sum, bad);
                ring_next(w, s, x);
            }
            UNROLL for (int tile = 0; tile < TILES; tile++) {
                if (tile >= x.n_tiles) continue;
                scores_finish<F, true>(s, sum[tile], scales.v[0][i], bad, tile_queries(w, s, tile),
                                       page, w.g);
                UNROLL for (int k = 0; k < 8; k++) score.top[tile][k % 2] =
                    fmaxf(score.top[tile][k % 2], sum[tile][k]);
            }
        }
        UNROLL for (int tile = 0; tile < TILES; tile++) UNROLL for (int k = 0; k < 8; k++)
            score.v[tile][i][k] = sum[tile][k];
    }
    UNROLL for (int tile = 0; tile < TILES; tile++) {
        if (tile >= x.n_tiles) continue;
        UNROLL for (int q = 0; q < 2; q++) {
            score.top[tile][q] = queries_max(score.top[tile][q]);
            if (w.g == 0)
                w.maxima()[w.warp * S::QUERIES + tile * FEW_QUERIES + 2 * w.t + q] =
                    score.top[tile][q];
        }
    }
}

// p of the warp's pages as operands for all warps, and their sums. top becomes that of the split.
template <class F, int TILES>
DEV void split_weights(const stream_warp<F, TILES> &w, const struct stream_item &x, int split,
                       const struct stream_scales &scales, struct stream_scores<TILES> &score) {
    typedef stream_form<F, TILES> S;
    UNROLL for (int tile = 0; tile < TILES; tile++) {
        if (tile >= x.n_tiles) continue;
        const int at = tile * FEW_QUERIES + 2 * w.t;
        UNROLL for (int q = 0; q < 2; q++) {
            UNROLL for (int i = 0; i < STREAM_WARPS; i++) score.top[tile][q] =
                fmaxf(score.top[tile][q], w.maxima()[i * S::QUERIES + at + q]);
        }
        UNROLL for (int i = 0; i < S::K_PAGES; i++) {
            const int index = w.warp + STREAM_WARPS * i, page = split * SPLIT_PAGES + index;
            if (page < x.page_first || page > x.page_last) continue;
            float l[2];
            uint32_t b[4];
            page_weights(score.v[tile][i], score.top[tile], l);
            page_operand<F>(score.v[tile][i], scales.v[1][i], b, w.g, w.t);
            ((uint4 *)w.operands(index, tile))[w.lane] = make_uint4(b[0], b[1], b[2], b[3]);
            if (w.g > 0) continue;
            w.sums()[index * S::QUERIES + at] = l[0];
            w.sums()[index * S::QUERIES + at + 1] = l[1];
        }
    }
}

// Results of the warp's elements: of a split, or of all splits up to it.
template <int TILES, int UNITS> struct stream_result {
    float o[TILES][UNITS][4];
    struct softmax_fold f[TILES][2]; // m and l
};

// A chunk of a page's values, from the warp's unit u0 on, with the operands of all tiles.
template <class F, int TILES>
DEV void values_chunk(const stream_warp<F, TILES> &w, uint32_t chunk, int index, int u0,
                      int n_tiles, stream_result<TILES, stream_form<F, TILES>::V_UNITS> &r) {
    typedef stream_form<F, TILES> S;
    uint32_t a[S::CHUNK_UNITS][2][4];
    UNROLL for (int u = 0; u < S::CHUNK_UNITS; u++)
        unit_fragments<F>(a[u], chunk + (uint32_t)u * S::UNIT, w.lane);
    UNROLL for (int tile = 0; tile < TILES; tile++) {
        if (tile >= n_tiles) continue;
        const uint4 b =
            shared_u128(shared_address(w.operands(index, tile)) + (uint32_t)w.lane * 16);
        UNROLL for (int u = 0; u < S::CHUNK_UNITS; u++) {
            kv_mma<F>(r.o[tile][u0 + u], a[u][0], b.x, b.y);
            kv_mma<F>(r.o[tile][u0 + u], a[u][1], b.z, b.w);
        }
    }
}

// o and l of a split.
template <class F, int TILES>
DEV void split_values(stream_warp<F, TILES> &w, const struct stage_attention &s,
                      const struct stream_item &x, int split,
                      stream_result<TILES, stream_form<F, TILES>::V_UNITS> &r) {
    typedef stream_form<F, TILES> S;
    UNROLL for (int tile = 0; tile < TILES; tile++) {
        r.f[tile][0].l = r.f[tile][1].l = 0.0f;
        UNROLL for (int u = 0; u < S::V_UNITS; u++) UNROLL for (int k = 0; k < 4; k++)
            r.o[tile][u][k] = 0.0f;
    }
    const int last = split_page_last(x, split);
    ROLLED for (int page = split_page_first(x, split); page <= last; page++) {
        const int index = page % SPLIT_PAGES;
        UNROLL for (int tile = 0; tile < TILES; tile++) {
            if (tile >= x.n_tiles) continue;
            const float *l = w.sums() + index * S::QUERIES + tile * FEW_QUERIES + 2 * w.t;
            UNROLL for (int q = 0; q < 2; q++) r.f[tile][q].l = r.f[tile][q].l + l[q];
        }
        UNROLL for (int c = 0; c < S::V_CHUNKS; c++) {
            values_chunk<F, TILES>(w, ring_wait(w), index, c * S::CHUNK_UNITS, x.n_tiles, r);
            ring_next(w, s, x);
        }
    }
}

// ---------------------------------------------------------------- results and parts

// The splits before, and a split: folded.
template <int TILES, int UNITS>
DEV void result_fold(stream_result<TILES, UNITS> &all, const stream_result<TILES, UNITS> &r,
                     int n_tiles) {
    UNROLL for (int tile = 0; tile < TILES; tile++) {
        if (tile >= n_tiles) continue;
        struct fold_by by[2];
        UNROLL for (int q = 0; q < 2; q++) by[q] =
            fold_split<true>(all.f[tile][q], r.f[tile][q].m, r.f[tile][q].l);
        UNROLL for (int u = 0; u < UNITS; u++) UNROLL for (int k = 0; k < 4; k++)
            all.o[tile][u][k] = fold_value(by[k % 2], all.o[tile][u][k], r.o[tile][u][k]);
    }
}

// The end of a tile's queries.
template <class F, int TILES>
DEV void tile_end(const stream_warp<F, TILES> &w, const struct stage_attention &s, int tile,
                  const struct softmax_fold (&f)[2],
                  const float (&o)[stream_form<F, TILES>::V_UNITS][4]) {
    typedef stream_form<F, TILES> S;
    struct query_end end[2];
    UNROLL for (int q = 0; q < 2; q++) {
        const struct item_query query = w.info()[tile * FEW_QUERIES + 2 * w.t + q];
        end[q] = query_end_at(s, query.pos >= 0, query, f[q]);
    }
    UNROLL for (int u = 0; u < S::V_UNITS; u++) {
        const int d = (w.warp * S::V_UNITS + u) * 16 + w.g;
        UNROLL for (int k = 0; k < 4; k++) result_put(s, end[k % 2], d + 8 * (k / 2), o[u][k]);
    }
}

// A warp's part of a tile and a split: m and l of each pair of queries, then o [unit][g][pair].
template <class F, int TILES>
DEV float4 *part_at(const stream_warp<F, TILES> &w, const struct stage_attention &s,
                    const struct stream_item &x, int split, int tile, int n_pairs) {
    const int begin = x.page_first / SPLIT_PAGES, n_splits = x.page_last / SPLIT_PAGES - begin + 1;
    const int size = n_pairs * STREAM_PAIR_SLOTS(F::DIM); // of a tile
    return (float4 *)s.parts + ATTENTION_STATES / 16 + x.entry->slot +
           (((int64_t)x.head_kv * n_splits + split - begin) * STREAM_WARPS + w.warp) *
               (x.n_tiles * size) +
           tile * size;
}

template <class F, int TILES>
DEV void part_put(const stream_warp<F, TILES> &w, const struct stage_attention &s,
                  const struct stream_item &x, int split,
                  const stream_result<TILES, stream_form<F, TILES>::V_UNITS> &r) {
    typedef stream_form<F, TILES> S;
    const int n_pairs = 1 << pairs_log(x.entry->n);
    if (w.t >= n_pairs) return;
    UNROLL for (int tile = 0; tile < TILES; tile++) {
        if (tile >= x.n_tiles) continue;
        float4 *to = part_at(w, s, x, split, tile, n_pairs);
        const struct softmax_fold(&f)[2] = r.f[tile];
        if (w.g == 0) to[w.t] = make_float4(f[0].m, f[0].l, f[1].m, f[1].l);
        UNROLL for (int u = 0; u < S::V_UNITS; u++) {
            const float(&o)[4] = r.o[tile][u];
            to[n_pairs + (u * 8 + w.g) * n_pairs + w.t] = make_float4(o[0], o[1], o[2], o[3]);
        }
    }
}

// All parts of the warp's elements are there: folds them in order, the first run's first. The ring
// is empty, so parts come there.
template <class F, int TILES>
DEV void parts_fold(const stream_warp<F, TILES> &w, const struct stage_attention &s,
                    const struct stream_item &x) {
    typedef stream_form<F, TILES> S;
    constexpr int AHEAD = S::N_SLOTS * (int)S::SLOT / (4 * STREAM_PAIR_SLOTS(F::DIM) * 16);
    static_assert(AHEAD >= 4, "several parts come at a time");
    const int n_pairs = 1 << pairs_log(x.entry->n), pair = w.t < n_pairs ? w.t : 0;
    const int size = n_pairs * STREAM_PAIR_SLOTS(F::DIM); // of a part
    const int begin = x.page_first / SPLIT_PAGES, end = x.page_last / SPLIT_PAGES;
    const float4 *here = (const float4 *)w.slot_at(0);
    ROLLED for (int tile = 0; tile < x.n_tiles; tile++) {
        struct softmax_fold f[2] = {{-INFINITY, 0.0f}, {-INFINITY, 0.0f}};
        float o[S::V_UNITS][4];
        const float4 *from = part_at(w, s, x, begin, tile, n_pairs);
        const int64_t stride = part_at(w, s, x, begin + 1, tile, n_pairs) - from;
        // the first run's part is the state behind it; parts of its other splits are not there
        int split = begin, next = begin + x.entry->n_folded;
        ROLLED while (split <= end) {
            int n = 0;
            for (int at = split; n < AHEAD && at <= end; n++) {
                for (int i = w.lane; i < size; i += 32)
                    copy_16(shared_address(here + n * size + i), from + (at - begin) * stride + i);
                at = at == begin ? next : at + 1;
            }
            copies_commit();
            copies_wait<0>();
            __syncwarp();
            ROLLED for (int k = 0; k < n; k++) {
                const float4 *part = here + k * size;
                const float4 head = part[pair];
                struct fold_by by[2] = {};
                if (split == begin)
                    f[0] = {head.x, head.y}, f[1] = {head.z, head.w};
                else
                    by[0] = fold_split<true>(f[0], head.x, head.y),
                    by[1] = fold_split<true>(f[1], head.z, head.w);
                UNROLL for (int u = 0; u < S::V_UNITS; u++) {
                    const float4 v = part[n_pairs + (u * 8 + w.g) * n_pairs + pair];
                    const float y[4] = {v.x, v.y, v.z, v.w};
                    UNROLL for (int i = 0; i < 4; i++) o[u][i] =
                        split == begin ? y[i] : fold_value(by[i % 2], o[u][i], y[i]);
                }
                split = split == begin ? next : split + 1;
            }
            __syncwarp(); // the memory is used again
        }
        tile_end<F, TILES>(w, s, tile, f, o);
    }
    copies_may_follow(); // into the ring
    __syncwarp();
}

// The warp's parts of a run are written. Whether it is the last one: each warp has a counter.
template <class F, int TILES>
DEV bool parts_are_there(const stream_warp<F, TILES> &w, const struct stage_attention &s,
                         const struct stream_item &x) {
    uint32_t *counter = s.counters + x.entry->counter + x.head_kv * STREAM_WARPS + w.warp;
    uint32_t is_last = 0;
    __syncwarp();
    if (w.lane == 0) {
        is_last = add_acq_rel(counter, 1) + 1 == (uint32_t)x.entry->n_runs;
        if (is_last) *counter = 0;
    }
    return __shfl_sync(0xffffffffu, is_last, 0) != 0;
}

// ---------------------------------------------------------------- items

// A run. Whether the warp must fold the parts of all runs.
template <class F, int TILES>
DEV bool item_run(stream_warp<F, TILES> &w, const struct stage_attention &s,
                  const struct stream_item &x) {
    typedef stream_form<F, TILES> S;
    stream_result<TILES, S::V_UNITS> all;
    UNROLL for (int tile = 0; tile < TILES; tile++) {
        all.f[tile][0] = all.f[tile][1] = {-INFINITY, 0.0f};
        UNROLL for (int u = 0; u < S::V_UNITS; u++) UNROLL for (int k = 0; k < 4; k++)
            all.o[tile][u][k] = 0.0f;
    }
    const int first = x.entry->split_first, begin = x.page_first / SPLIT_PAGES;
    const int end = x.page_last / SPLIT_PAGES;
    const bool folds = first == begin;
    struct stream_scales scales = {};
    scales_load(w, s, x, first, scales);
    ROLLED for (int split = first; split <= x.split_last; split++) {
        struct stream_scores<TILES> score;
        split_scores(w, s, x, split, scales, score);
        w.sync();
        split_weights(w, x, split, scales, score);
        scales_load(w, s, x, split + 1, scales);
        w.sync();
        stream_result<TILES, S::V_UNITS> r;
        split_values(w, s, x, split, r);
        UNROLL for (int tile = 0; tile < TILES; tile++) UNROLL for (int q = 0; q < 2; q++)
            r.f[tile][q]
                .m = score.top[tile][q];
        if (folds)
            result_fold(all, r, x.n_tiles);
        else
            part_put<F, TILES>(w, s, x, split, r);
    }
    if (folds && x.split_last == end) {
        UNROLL for (int tile = 0; tile < TILES; tile++) if (tile < x.n_tiles)
            tile_end<F, TILES>(w, s, tile, all.f[tile], all.o[tile]);
        return false;
    }
    if (folds) part_put<F, TILES>(w, s, x, first, all);
    return parts_are_there<F, TILES>(w, s, x);
}

DEV struct stream_item item_at(const struct stage_attention &s, const struct step &step,
                               const struct stream_entry *entries, uint32_t item) {
    struct stream_item x;
    x.entry = entries + item / (uint32_t)s.n_head_kv;
    x.head_kv = (int)(item % (uint32_t)s.n_head_kv);
    x.seq = step.seq + x.entry->seq;
    x.table = step.tables + x.seq->table[s.group];
    x.n_tiles = (x.entry->n + FEW_QUERIES - 1) / FEW_QUERIES;
    x.page_first = x.entry->page_first, x.page_last = x.entry->page_last;
    x.split_last = x.entry->split_last;
    return x;
}

// A team's first item. Items are in the order of cost, and teams of a multiprocessor are n_sm
// blocks apart: every second one counts from the other end.
DEV uint32_t item_first(uint32_t n_teams) {
    if (gridDim.x % n_teams > 0) return blockIdx.x;
    const uint32_t n = gridDim.x / n_teams, turn = blockIdx.x / n, in = blockIdx.x % n;
    return turn * n + (turn % 2 ? n - 1 - in : in);
}

// The stage. STREAM_THREADS threads and STREAM_SHARED bytes. is_early: old pages may be read before
// the launch waits.
template <class F, int TILES>
DEV void attention_streams_run(const struct stage_attention &s, const struct step &step, int rows,
                               bool is_early, uint8_t *shared) {
    typedef stream_form<F, TILES> S;
    const struct step_work &work = step.work[s.work];
    const uint32_t n_items = (uint32_t)(work.n * s.n_head_kv);
    uint32_t *next = (uint32_t *)(shared + S::WORDS_AT);
    stream_warp<F, TILES> w = {};
    w.shared = shared;
    w.warp = (int)threadIdx.x / 32, w.lane = (int)threadIdx.x % 32;
    w.g = w.lane / 4, w.t = w.lane % 4;
    w.n_free = S::N_SLOTS;
    if (w.lane < S::N_SLOTS) fetch_init(w.full(w.lane));
    fetch_init_done();
    __syncwarp();
    ROLLED for (uint32_t item = item_first(STREAM_TEAMS(TILES)); item < n_items;) {
        const struct stream_item x = item_at(s, step, work.entry, item);
        ring_split(w, x, x.entry->split_first);
        ring_ids(w, x);
        if (is_early) ring_ask(w, s, x, x.seq->first_pos / PAGE_TOKENS);
        dependency_wait();
        is_early = false;
        ring_ask(w, s, x, INT32_MAX);
        w.sync(); // the memory is used again
        if (threadIdx.x == 0)
            *next = n_items > gridDim.x ? gridDim.x + add_acq_rel(s.counters + STREAM_TAKEN, 1)
                                        : n_items;
        stream_queries(w, s, step, rows, x);
        w.sync();
        if (item_run<F, TILES>(w, s, x)) parts_fold<F, TILES>(w, s, x);
        item = *next;
    }
    dependency_wait();
    if (n_items <= gridDim.x || threadIdx.x > 0) return;
    if (add_acq_rel(s.counters + STREAM_ENDED, 1) + 1 < gridDim.x) return;
    s.counters[STREAM_TAKEN] = s.counters[STREAM_ENDED] = 0; // the last team
}

#endif
