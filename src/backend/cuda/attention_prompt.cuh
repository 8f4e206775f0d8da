// Attention of prompts: sequences with many rows in a step. The operations are those of
// attention.cuh. attention_prompt.cu has the kernels.
//
// A block has 128 queries of a KV head: the rows of a sequence times the head's query heads. Two
// *teams* of 4 warps have 64 of them each, a third warpgroup brings pages to a ring in shared
// memory. A stage of the ring is half a split, 4 pages: 128 elements of their keys or values.
// Queries are the rows of the matrix instructions, so a lane has two of them (g and g + 8 of its
// warp's 16), and the weights P are an operand in registers as they are.
//
// A split, for a team: the scores of 256 positions, 128 registers; m; weights, 64 registers; o, 64
// registers of 128 elements. While one team makes weights of its scores, the other one's products
// run; no barrier makes them take turns, which was slower. The values of a half begin when its
// weights are there, so a team's own products overlap with its weights, too. Queries are read from
// shared memory, since registers are few. Splits are always done as a whole: pages that no query
// sees are copies of others, with weights of 0. So are blocks of elements beyond a head's last one,
// where the queries are 0.
//
// What bounds it, in clocks of a multiprocessor for a split of both teams with heads of 128: the
// matrix units 4,096; shared memory 4,500 (operands 320 KB, pages 128, running results 128); single
// instructions 3,300. It takes 9,400, since each waits for the others: a warp has one split at a
// time.
#ifndef RN_BACKEND_CUDA_ATTENTION_PROMPT_CUH
#define RN_BACKEND_CUDA_ATTENTION_PROMPT_CUH

#include "attention_prompt_ring.cuh"

// ---------------------------------------------------------------- a team

struct prompt_team {
    int team, warp, lane, g, t; // warp: of the team
    uint8_t *shared;
    uint32_t count; // stages that were waited for
};

// The next stage is there; its address.
template <class P> DEV uint32_t stage_wait(struct prompt_team &m) {
    const uint32_t slot = m.count % PROMPT_SLOTS;
    fetch_wait((uint64_t *)m.shared + slot, m.count / PROMPT_SLOTS & 1);
    m.count++;
    return shared_address(m.shared + P::RING_AT) + slot * PROMPT_STAGE;
}
// Stage `index` was read.
template <class P> DEV void stage_end(uint32_t index) {
    barrier_arrive(PROMPT_EMPTY + (int)(index % PROMPT_SLOTS), 256 + P::FILLERS);
}

// Queries of the team, as the first operand of each step.
enum { PROMPT_STEP = 2 * FIRST_HALF_BYTES };
static_assert(PROMPT_KEY_BYTES == 16 * PROMPT_STEP, "queries have room");
template <class P> DEV uint8_t *queries_at(const struct prompt_team &m) {
    return m.shared + P::QUERIES_AT + m.team * (PROMPT_KEY_BYTES / 2 * P::KEYS);
}
template <class P>
DEV void prompt_query_put(const struct prompt_team &m, int i, const float *x, int dim_k) {
    typedef typename P::KV F;
    uint8_t *to = queries_at<P>(m) + (m.warp * 2 + i / 8) * 128 + i % 8 * 16;
    for (int d = 2 * m.lane; d < P::KEYS * P::BLOCKS * 32; d += 64) {
        const uint32_t low = d < dim_k ? kv_round<F>(x[d]) : 0;
        const uint32_t high = d < dim_k ? kv_round<F>(x[d + 1]) : 0;
        const int step = d / 32 * 2 + d % 8 / 4;
        *(uint32_t *)(to + step * PROMPT_STEP + d % 4 / 2 * FIRST_HALF_BYTES + d % 32 / 8 * 4) =
            low | high << 16;
    }
}

// Query `index` of the block; beyond the last one: the last one.
DEV struct item_query prompt_query_at(const struct stage_attention &s, const struct step &step,
                                      int rows, const struct prompt_item &w, int index) {
    return query_at(s, step, *w.seq, rows, w.head_kv, w.first + (index < w.n ? index : w.n - 1));
}

// The warp's 16 queries one after the other, as prompt_query_at has them: a division for all.
struct query_walk {
    int index, last; // of the item
    int row, head;   // of the sequence's rows; of the KV head's heads
};
DEV struct query_walk query_walk_of(const struct stage_attention &s, const struct prompt_team &m,
                                    const struct prompt_item &w) {
    struct query_walk q = {m.team * PROMPT_TEAM + m.warp * 16, w.n - 1, 0, 0};
    const int at = w.first + (q.index < q.last ? q.index : q.last);
    q.row = at / s.ratio;
    q.head = at - q.row * s.ratio;
    return q;
}
DEV void query_walk_next(const struct stage_attention &s, struct query_walk &q) {
    if (q.index++ >= q.last) return;
    if (++q.head < s.ratio) return;
    q.head = 0;
    q.row++;
}

// Where a query is.
struct query_source {
    const float *from;
    const float2 *rope;
};
DEV struct query_source query_source_of(const struct stage_attention &s, const struct step &step,
                                        int rows, const struct prompt_item &w,
                                        const struct query_walk &q) {
    const int out_row = w.seq->first_out + q.row;
    const int token = rows == STAGE_OUT ? step.out_row[out_row] : w.seq->first_row + q.row;
    const int row = s.q_is_out && rows == STAGE_OUT ? out_row : token;
    return {s.q + (int64_t)row * s.ld_q + (w.head_kv * s.ratio + q.head) * s.dim_k,
            (const float2 *)s.rope + (int64_t)token * (s.n_rot / 2)};
}

// Whether the two elements of a pair of the rope are the same lane's, or neighbours'.
DEV bool queries_are_plain(const struct stage_attention &s) {
    return s.n_rot == 0 || !s.halves || s.n_rot == 64 || s.n_rot == 128;
}

// head_finish and prompt_query_put for a plain head of up to 128 elements, in registers: a lane has
// elements lane + 32 i.
template <class P> struct plain_query {
    enum { N = P::BLOCKS };
    float v[N];
    float2 turn[N]; // of each element's pair
};
template <class P>
DEV void plain_ask(plain_query<P> &x, const struct stage_attention &s,
                   const struct query_source &from, int lane) {
    UNROLL for (int i = 0; i < x.N; i++) {
        const int d = lane + 32 * i, n_pairs = s.n_rot / 2;
        x.v[i] = d < s.dim_k ? load_l2(from.from + d) : 0.0f;
        x.turn[i] = {1.0f, 0.0f};
        if (d >= s.n_rot) continue;
        x.turn[i] = load_l2(from.rope + (!s.halves ? d / 2 : d < n_pairs ? d : d - n_pairs));
    }
}
template <class P>
DEV void plain_put(const plain_query<P> &x, const struct stage_attention &s,
                   const struct prompt_team &m, int index, const float (&weight)[P::BLOCKS]) {
    enum { N = P::BLOCKS };
    float y[N], sum = 0.0f;
    uint32_t word[N];
    UNROLL for (int i = 0; i < N; i++) sum = fmaf(x.v[i], x.v[i], sum);
    UNROLL for (int i = 0; i < N; i++) y[i] = x.v[i];
    if (s.q_norm) {
        const float r = 1.0f / sqrtf(warp_sum(sum) / (float)s.dim_k + s.q_eps);
        UNROLL for (int i = 0; i < N; i++) y[i] = (x.v[i] * r) * weight[i];
    }
    UNROLL for (int i = 0; i < N; i++) {
        const int d = m.lane + 32 * i;
        const float near = __shfl_xor_sync(0xffffffffu, y[i], 1);
        const float far = y[(s.n_rot == 128 ? i ^ 2 : i ^ 1) % N];
        const float other = s.halves ? far : near, c = x.turn[i].x, t = x.turn[i].y;
        const bool is_second = s.halves ? d >= s.n_rot / 2 : d % 2 == 1;
        float z = is_second ? fmaf(other, t, y[i] * c) : fmaf(y[i], c, -(other * t));
        if (d >= s.n_rot) z = y[i];
        const uint32_t half = d < s.dim_k ? kv_round<typename P::KV>(z) : 0;
        const uint32_t next = __shfl_xor_sync(0xffffffffu, half, 1);
        word[i] = m.lane % 2 ? next | half << 16 : half | next << 16;
    }
    // a pair of lanes has the same words: each stores half of them
    uint8_t *to = queries_at<P>(m) + (m.warp * 2 + index / 8) * 128 + index % 8 * 16 +
                  m.lane % 8 / 4 * PROMPT_STEP + m.lane % 4 / 2 * FIRST_HALF_BYTES + m.lane / 8 * 4;
    UNROLL for (int k = 0; k < N / 2; k++) {
        const int i = m.lane % 2 * (N / 2) + k;
        *(uint32_t *)(to + 2 * i * PROMPT_STEP) = m.lane % 2 ? word[N / 2 + k] : word[k];
    }
}

template <class P>
DEV void plain_queries(const struct stage_attention &s, const struct step &step, int rows,
                       const struct prompt_team &m, const struct prompt_item &w) {
    enum { AT_ONCE = 4 };
    struct query_walk q = query_walk_of(s, m, w);
    float weight[P::BLOCKS];
    UNROLL for (int i = 0; i < P::BLOCKS; i++) {
        const int d = m.lane + 32 * i;
        weight[i] = s.q_norm && d < s.dim_k ? s.q_weight[d] : 0.0f;
    }
    ROLLED for (int first = 0; first < 16; first += AT_ONCE) {
        plain_query<P> x[AT_ONCE];
        UNROLL for (int i = 0; i < AT_ONCE; i++) {
            plain_ask<P>(x[i], s, query_source_of(s, step, rows, w, q), m.lane);
            query_walk_next(s, q);
        }
        UNROLL for (int i = 0; i < AT_ONCE; i++) plain_put<P>(x[i], s, m, first + i, weight);
    }
}

template <class P>
DEV void other_queries(const struct stage_attention &s, const struct step &step, int rows,
                       const struct prompt_team &m, const struct prompt_item &w) {
    const struct head_rule rule = {s.q_norm ? s.q_weight : nullptr, s.q_eps, s.n_rot, s.halves};
    float *x = (float *)(m.shared + P::KEPT_AT + (m.team * 4 + m.warp) * (P::SCRATCH / 8));
    struct query_walk q = query_walk_of(s, m, w);
    ROLLED for (int i = 0; i < 16; i++) {
        const struct query_source from = query_source_of(s, step, rows, w, q);
        head_norm(x, from.from, s.dim_k, rule, from.rope, m.lane);
        prompt_query_put<P>(m, i, x, s.dim_k);
        query_walk_next(s, q);
    }
}

// The warp prepares its 16 queries. Results beyond the item's last one are not stored.
template <class P>
DEV void prompt_queries(const struct stage_attention &s, const struct step &step, int rows,
                        const struct prompt_team &m, const struct prompt_item &w) {
    if (P::KEYS == 1 && queries_are_plain(s))
        plain_queries<P>(s, step, rows, m, w);
    else
        other_queries<P>(s, step, rows, m, w);
    copies_may_follow(); // the matrix units read them
    barrier_sync(PROMPT_OWN + m.team, 128);
}

// The lane's two queries: little of them, since it is kept in registers.
struct prompt_rows {
    int pos[2];
    int pos_first, low_last; // of the team: the least position, the largest lowest one that is seen
    struct softmax_fold fold[2];
};

DEV struct prompt_rows prompt_rows_of(const struct stage_attention &s, const struct step &step,
                                      int rows, const struct prompt_team &m,
                                      const struct prompt_item &w) {
    struct prompt_rows r;
    const int begin = m.team * PROMPT_TEAM;
    UNROLL for (int i = 0; i < 2; i++) {
        r.pos[i] = prompt_query_at(s, step, rows, w, begin + m.warp * 16 + m.g + 8 * i).pos;
        r.fold[i] = {-INFINITY, 0.0f};
    }
    r.pos_first = prompt_query_at(s, step, rows, w, begin).pos;
    r.low_last = lowest_seen(s, prompt_query_at(s, step, rows, w, begin + PROMPT_TEAM - 1).pos);
    return r;
}

// ---------------------------------------------------------------- a split's scores

// Starts the products of queries and the keys of half a split: 128 positions.
template <class P> DEV void keys_begin(struct prompt_team &m, float (&score)[64]) {
    const uint32_t queries = shared_address(queries_at<P>(m));
    uint32_t at[P::KEYS];
    UNROLL for (int part = 0; part < P::KEYS; part++) at[part] = stage_wait<P>(m);
    warpgroup_begin();
    UNROLL for (int part = 0; part < P::KEYS; part++) UNROLL for (int i = 0; i < 2 * P::BLOCKS; i++)
        warpgroup_mma_shared<P::IS_BF16>(score, queries, (uint32_t)((part * 8 + i) * PROMPT_STEP),
                                         at[part], (uint32_t)(i / 2 * 8192 + i % 2 * 256),
                                         part == 0 && i == 0);
    warpgroup_end();
}

// The scores of a half are there.
template <class P> DEV void keys_end(const struct prompt_team &m, float (&score)[64], int half) {
    if (half == 0)
        warpgroup_wait<1>();
    else
        warpgroup_wait<0>();
    UNROLL for (int i = 0; i < P::KEYS; i++)
        stage_end<P>(m.count - (uint32_t)((2 - half) * P::KEYS - i));
    warpgroup_hold(score);
}

// The scales of a lane's 8 positions of a page, 8 i + 2 t + {0, 1}; which: of keys (0), values (1).
template <class P>
DEV void prompt_scales(float (&scale)[8], const struct stage_attention &s,
                       const struct prompt_item &w, int page, int which, int t) {
    typedef typename P::KV F;
    const uint2 *at = (const uint2 *)(kv_head_at<F>(s, w.table, w.page(page), w.head_kv) +
                                      kv_scales_at<F>(s.dim_k, s.dim_v)) +
                      8 * which + 2 * t;
    UNROLL for (int e = 0; e < 2; e++) {
        float of[4];
        scales_of(of, load_l2(at + e));
        UNROLL for (int i = 0; i < 4; i++) scale[2 * i + e] = of[i];
    }
}

// cap * tanh(x / cap) of all scores. Registers move round, so that the code is that of 16.
DEV void scores_cap(float (&score)[64], float cap) {
    ROLLED for (int turn = 0; turn < 4; turn++) {
        float x[16];
        UNROLL for (int i = 0; i < 16; i++) x[i] = cap * rmath_tanh(score[i] / cap);
        UNROLL for (int i = 0; i < 48; i++) score[i] = score[i + 16];
        UNROLL for (int i = 0; i < 16; i++) score[48 + i] = x[i];
    }
}

// From sums of products to scores of half a split; top: the largest ones, of each row in 4 parts.
template <class P>
DEV void prompt_scores(const struct stage_attention &s, const struct prompt_team &m,
                       const struct prompt_item &w, const struct prompt_rows &r, int split,
                       int half, float (&score)[64], float (&top)[8]) {
    const int begin = split * SPLIT_TOKENS + half * (SPLIT_TOKENS / 2);
    UNROLL for (int page = 0; page < PROMPT_PAGES; page++) {
        float scale[8];
        if (P::KV::TYPE == KV_INT8)
            prompt_scales<P>(scale, s, w, begin / PAGE_TOKENS + page, 0, m.t);
        UNROLL for (int i = 0; i < 16; i++) {
            float &x = score[page * 16 + i];
            if (P::KV::TYPE == KV_INT8) x = x * scale[i / 4 * 2 + i % 2];
            x = x * s.scale;
        }
    }
    if (P::HAS_CAP) scores_cap(score, s.softcap);
    if (begin + SPLIT_TOKENS / 2 - 1 > r.pos_first || begin < r.low_last) {
        const int low[2] = {lowest_seen(s, r.pos[0]), lowest_seen(s, r.pos[1])};
        UNROLL for (int i = 0; i < 64; i++) {
            const int row = i / 2 % 2, at = begin + 2 * m.t + i / 4 * 8 + i % 2;
            if (at > r.pos[row] || at < low[row]) score[i] = -INFINITY;
        }
    }
    UNROLL for (int i = 0; i < 64; i++) top[i % 8] = max_or_nan(top[i % 8], score[i]);
}

// Over the lanes that have the same query.
DEV float team_max(float x) {
    x = max_or_nan(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return max_or_nan(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
DEV float team_sum(float x) {
    x = x + __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// The weights of a page, as the first operand of its two instructions; l grows by their sum.
template <class P>
DEV void prompt_weights(const struct stage_attention &s, const struct prompt_team &m,
                        const struct prompt_item &w, int split, int page, float *score,
                        const float (&top)[2], float (&l)[2], uint32_t (&p)[2][4]) {
    UNROLL for (int i = 0; i < 16; i++) score[i] = weight_of(score[i], top[i / 2 % 2]);
    UNROLL for (int row = 0; row < 2; row++) {
        const float *x = score + 2 * row;
        const float even = (x[0] + x[4]) + (x[8] + x[12]), odd = (x[1] + x[5]) + (x[9] + x[13]);
        l[row] = l[row] + team_sum(even + odd);
    }
    if (P::KV::TYPE == KV_INT8) {
        float scale[8];
        prompt_scales<P>(scale, s, w, split * SPLIT_PAGES + page, 1, m.t);
        UNROLL for (int i = 0; i < 16; i++) score[i] = score[i] * scale[i / 4 * 2 + i % 2];
    }
    UNROLL for (int j = 0; j < 8; j++) p[j / 4][j % 4] =
        P::IS_BF16 ? bf16x2_of(score[2 * j], score[2 * j + 1])
                   : f16x2_of(score[2 * j], score[2 * j + 1]);
}

// The split's m and l, into the row's own: fold_split, but no function is called while so many
// registers are in use. Where the split takes no part its o is 0: fmaf(0, -0, O) is O, also of -0.
DEV struct fold_by prompt_fold_split(struct softmax_fold &f, float m, float l) {
    struct fold_by by = {1.0f, -0.0f, l != 0.0f};
    if (!by.is_live) return by;
    const float top = fmaxf(f.m, m);
    const bool is_first = f.m == -INFINITY && fabsf(m) < INFINITY;
    by.a = is_first ? 0.0f : rmath_exp(f.m - top);
    by.b = is_first ? 1.0f : rmath_exp(m - top);
    f.m = top;
    f.l = fmaf(l, by.b, f.l * by.a);
    return by;
}

// The thread's part of the slot of a split; of the first run's.
template <class P>
DEV float4 *slot_at(const struct prompt_team &m, const struct prompt_item &w, int split) {
    const int slot = w.run == 0 ? 0 : w.slot + split - w.split_first;
    return w.slots + (int64_t)slot * P::SLOT + m.team * 128 + m.warp * 32 + m.lane;
}

// Of a split and the lane's rows.
struct prompt_sums {
    float m[2], l[2];
};

// The largest score of each row, when both halves are there.
template <class P>
DEV void prompt_most(const struct stage_attention &s, const struct prompt_team &m,
                     const struct prompt_item &w, const struct prompt_rows &r, int split,
                     float (&score)[2][64], struct prompt_sums &sums) {
    float most[8];
    UNROLL for (int i = 0; i < 8; i++) most[i] = -INFINITY;
    // with scales the compiler sees no end of the first half's instructions
    if (!P::IS_WIDE) UNROLL for (int half = 0; half < 2; half++) keys_end<P>(m, score[half], half);
    UNROLL for (int half = 0; half < 2; half++) {
        if (P::IS_WIDE) keys_end<P>(m, score[half], half);
        prompt_scores<P>(s, m, w, r, split, half, score[half], most);
    }
    UNROLL for (int row = 0; row < 2; row++) {
        const float *x = most + 2 * row;
        sums.m[row] = team_max(max_or_nan(max_or_nan(x[0], x[1]), max_or_nan(x[4], x[5])));
        sums.l[row] = 0.0f;
    }
}

// Scores of a half become weights.
template <class P>
DEV void half_weights(const struct stage_attention &s, const struct prompt_team &m,
                      const struct prompt_item &w, int split, int half, float (&score)[64],
                      uint32_t (&p)[SPLIT_PAGES][2][4], struct prompt_sums &sums) {
    const float top[2] = {weights_top(sums.m[0]), weights_top(sums.m[1])};
    UNROLL for (int i = 0; i < PROMPT_PAGES; i++)
        prompt_weights<P>(s, m, w, split, half * PROMPT_PAGES + i, score + i * 16, top, sums.l,
                          p[half * PROMPT_PAGES + i]);
}

// The split's m and l are folded into the rows' own. This is done while the matrix units are busy.
template <class P>
DEV void prompt_factors(const struct prompt_team &m, const struct prompt_item &w,
                        struct prompt_rows &r, int split, const struct prompt_sums &sums,
                        struct fold_by (&by)[2]) {
    float l[2];
    UNROLL for (int row = 0; row < 2; row++) {
        l[row] = sums.m[row] < INFINITY ? sums.l[row] : NAN; // NaN: a score is not a number
        if (w.run == 0) by[row] = prompt_fold_split(r.fold[row], sums.m[row], l[row]);
    }
    if (w.run == 0) return;
    by[0] = by[1] = {1.0f, 1.0f, true}; // O is o, from 0
    slot_at<P>(m, w, split)[P::KEPT * 256] = {sums.m[0], l[0], sums.m[1], l[1]};
}

// ---------------------------------------------------------------- a split's values

// Starts o of half a split. is_second: behind the first half's.
template <class P>
DEV void values_begin(struct prompt_team &m, float (&o)[P::GROUPS * 32],
                      const uint32_t (&p)[SPLIT_PAGES][2][4], bool is_second) {
    enum { N = P::GROUPS * 64 };
    const uint32_t at = stage_wait<P>(m);
    warpgroup_begin();
    UNROLL for (int i = 0; i < 2 * PROMPT_PAGES; i++) {
        const uint32_t(&weights)[4] = p[(is_second ? PROMPT_PAGES : 0) + i / 2][i % 2];
        const uint32_t offset = (uint32_t)(i / 2 * 8192 + i % 2 * 256);
        if (is_second || i > 0)
            warpgroup_mma<P::IS_BF16, N>(o, weights, at, true, P::GROUPS * 8, offset);
        else
            warpgroup_mma_first<P::IS_BF16, N>(o, weights, at, offset);
    }
    warpgroup_end();
}

// Running results of the thread: KEPT float4.
template <class P>
DEV float4 *kept_at(const struct stage_attention &s, const struct prompt_team &m) {
    float4 *first = P::IS_KEPT ? (float4 *)(m.shared + P::KEPT_AT)
                               : (float4 *)s.parts + (int64_t)blockIdx.x * (P::KEPT * 256);
    return first + (m.team * 4 + m.warp) * (P::KEPT * 32) + m.lane;
}

// O behind a split's o: half of a pass. Several are asked for at a time.
template <int N>
DEV void prompt_fold(float4 *kept, const float (&o)[N], int half, const struct fold_by (&by)[2]) {
    enum { AT_ONCE = 4 };
    UNROLL for (int i0 = half * (N / 8); i0 < (half + 1) * (N / 8); i0 += AT_ONCE) {
        float4 v[AT_ONCE];
        UNROLL for (int i = 0; i < AT_ONCE; i++) v[i] = kept[(i0 + i) * 32];
        UNROLL for (int i = 0; i < AT_ONCE; i++) {
            const float *of = o + 4 * (i0 + i);
            v[i].x = fmaf(of[0], by[0].b, v[i].x * by[0].a);
            v[i].y = fmaf(of[1], by[0].b, v[i].y * by[0].a);
            v[i].z = fmaf(of[2], by[1].b, v[i].z * by[1].a);
            v[i].w = fmaf(of[3], by[1].b, v[i].w * by[1].a);
        }
        UNROLL for (int i = 0; i < AT_ONCE; i++) kept[(i0 + i) * 32] = v[i];
    }
}

// The second half of o is there, and folded.
template <class P>
DEV void values_end(const struct prompt_team &m, float4 *kept, float (&o)[P::GROUPS * 32],
                    const struct fold_by (&by)[2]) {
    warpgroup_wait<0>();
    stage_end<P>(m.count - 1);
    warpgroup_hold(o);
    UNROLL for (int half = 0; half < 2; half++) prompt_fold(kept, o, half, by);
}

// Weights of a split's scores, and its values: o of the last pass runs on. Of short heads the
// values of a half begin when its weights are there.
template <class P>
DEV void split_values(const struct stage_attention &s, struct prompt_team &m,
                      const struct prompt_item &w, struct prompt_rows &r, float4 *kept, int split,
                      float (&score)[2][64], uint32_t (&p)[SPLIT_PAGES][2][4],
                      struct fold_by (&by)[2], float (&o)[P::GROUPS * 32]) {
    struct prompt_sums sums;
    prompt_most<P>(s, m, w, r, split, score, sums);
    if constexpr (P::IS_SHORT) {
        UNROLL for (int half = 0; half < 2; half++) {
            half_weights<P>(s, m, w, split, half, score[half], p, sums);
            values_begin<P>(m, o, p, half == 1);
        }
        prompt_factors<P>(m, w, r, split, sums, by);
    } else {
        UNROLL for (int half = 0; half < 2; half++)
            half_weights<P>(s, m, w, split, half, score[half], p, sums);
        prompt_factors<P>(m, w, r, split, sums, by);
        ROLLED for (int pass = 0; pass < P::PASSES; pass++) {
            values_begin<P>(m, o, p, false);
            values_begin<P>(m, o, p, true);
            if (pass + 1 == P::PASSES) break;
            warpgroup_wait<1>();
            stage_end<P>(m.count - 2);
            values_end<P>(m, kept + pass * (P::GROUPS * 8 * 32), o, by);
        }
    }
}

// ---------------------------------------------------------------- results

// Two neighbours of a result, rounded. a: the sink's factor.
DEV uint32_t prompt_pair(const struct stage_attention &s, float x, float y, float a, float l) {
    if (s.sinks) x = x * a, y = y * a;
    if (s.out16.is_bf16) return bf16x2_of(x / l, y / l);
    return (uint32_t)f16_of(x / l) | (uint32_t)f16_of(y / l) << 16;
}
DEV void prompt_put(const struct stage_attention &s, const struct item_query &q, int d, float x,
                    float y, float a, float l) {
    const int column = q.head * s.dim_v + d;
    if (s.out16.at) {
        *(uint32_t *)(s.out16.at + rows16_at(s.out16, q.out_row, column)) =
            prompt_pair(s, x, y, a, l);
    } else {
        float *to = s.out + (int64_t)q.out_row * s.ld_out + column;
        to[0] = (s.sinks ? x * a : x) / l;
        to[1] = (s.sinks ? y * a : y) / l;
    }
}

template <class P>
DEV void prompt_results(const struct stage_attention &s, const struct step &step, int rows,
                        const struct prompt_team &m, const struct prompt_item &w,
                        const struct prompt_rows &r) {
    struct item_query q[2];
    const int index = m.team * PROMPT_TEAM + m.warp * 16 + m.g;
    const float4 *kept = kept_at<P>(s, m);
    float a[2], l[2];
    UNROLL for (int row = 0; row < 2; row++) {
        q[row] = prompt_query_at(s, step, rows, w, index + 8 * row);
        a[row] = 1.0f;
        l[row] = r.fold[row].l;
        if (s.sinks) {
            const float sink = s.sinks[q[row].head], top = fmaxf(r.fold[row].m, sink);
            a[row] = rmath_exp_called(r.fold[row].m - top);
            l[row] = fmaf(l[row], a[row], rmath_exp_called(sink - top));
        }
    }
    if (s.out16.at && s.out16.n_groups > 0 && s.dim_v % UNIT_COLS == 0) {
        uint16_t *to[2]; // four words of a lane are neighbours in a unit of 32 columns
        UNROLL for (int row = 0; row < 2; row++) to[row] =
            s.out16.at + rows16_at(s.out16, q[row].out_row, q[row].head * s.dim_v + 2 * m.t);
        ROLLED for (int i = 0; i < s.dim_v / 8; i += 4) {
            uint32_t word[2][4];
            UNROLL for (int k = 0; k < 4; k++) {
                const float4 v = kept[(i + k) * 32];
                word[0][k] = prompt_pair(s, v.x, v.y, a[0], l[0]);
                word[1][k] = prompt_pair(s, v.z, v.w, a[1], l[1]);
            }
            UNROLL for (int row = 0; row < 2; row++) {
                if (index + 8 * row < w.n)
                    *(uint4 *)to[row] =
                        make_uint4(word[row][0], word[row][1], word[row][2], word[row][3]);
                to[row] += (int64_t)s.out16.n_groups * (GROUP_BYTES / 2);
            }
        }
        return;
    }
    ROLLED for (int i = 0; i < P::KEPT; i++) {
        const int d = i * 8 + 2 * m.t;
        if (d >= s.dim_v) break;
        const float4 v = kept[i * 32];
        if (index < w.n) prompt_put(s, q[0], d, v.x, v.y, a[0], l[0]);
        if (index + 8 < w.n) prompt_put(s, q[1], d, v.z, v.w, a[1], l[1]);
    }
}

// ---------------------------------------------------------------- runs

// The results of a split, or of the first run, to its slot.
template <class P> DEV void slot_put(float4 *slot, float4 *kept) {
    UNROLL for (int i = 0; i < P::KEPT; i++) {
        slot[i * 256] = kept[i * 32];
        kept[i * 32] = {0.0f, 0.0f, 0.0f, 0.0f};
    }
}

// The run has left its slots: whether it was the last one of the item. All threads of both teams.
DEV bool run_is_last(const struct prompt_team &m, const struct prompt_item &w) {
    uint32_t *flag = (uint32_t *)(m.shared + PROMPT_FLAG_AT);
    barrier_sync(PROMPT_BOTH, 256);
    if (m.team == 0 && m.warp == 0 && m.lane == 0) {
        *flag = add_acq_rel(w.counter, 1) + 1 == (uint32_t)w.n_runs;
        if (*flag) *w.counter = 0;
    }
    barrier_sync(PROMPT_BOTH, 256);
    return *flag != 0;
}

// All slots of the item, in order, to the thread's running results.
template <class P>
DEV void slots_fold(const struct prompt_team &m, const struct prompt_item &w, float4 *kept,
                    struct prompt_rows &r) {
    enum { N = P::KEPT < 16 ? P::KEPT : 16 };
    const float4 *from = w.slots + m.team * 128 + m.warp * 32 + m.lane;
    ROLLED for (int i0 = 0; i0 < P::KEPT; i0 += N) {
        float4 o[N];
        const float4 first = load_l2(from + P::KEPT * 256);
        r.fold[0] = {first.x, first.y}, r.fold[1] = {first.z, first.w};
        UNROLL for (int i = 0; i < N; i++) o[i] = load_l2(from + (i0 + i) * 256);
        ROLLED for (int slot = 1; slot < w.n_slots; slot++) {
            const float4 *at = from + (int64_t)slot * P::SLOT;
            const float4 ml = load_l2(at + P::KEPT * 256);
            float4 v[N];
            UNROLL for (int i = 0; i < N; i++) v[i] = load_l2(at + (i0 + i) * 256);
            const struct fold_by by[2] = {prompt_fold_split(r.fold[0], ml.x, ml.y),
                                          prompt_fold_split(r.fold[1], ml.z, ml.w)};
            UNROLL for (int i = 0; i < N; i++) {
                o[i].x = fmaf(v[i].x, by[0].b, o[i].x * by[0].a);
                o[i].y = fmaf(v[i].y, by[0].b, o[i].y * by[0].a);
                o[i].z = fmaf(v[i].z, by[1].b, o[i].z * by[1].a);
                o[i].w = fmaf(v[i].w, by[1].b, o[i].w * by[1].a);
            }
        }
        UNROLL for (int i = 0; i < N; i++) kept[(i0 + i) * 32] = o[i];
    }
}

// ---------------------------------------------------------------- the stage

template <class P>
DEV void prompt_item_run(const struct stage_attention &s, const struct step &step, int rows,
                         struct prompt_team &m, const struct prompt_item &w) {
    const int last = w.split_last;
    prompt_queries<P>(s, step, rows, m, w);
    struct prompt_rows r = prompt_rows_of(s, step, rows, m, w);
    float4 *kept = kept_at<P>(s, m), *kept_last = kept + (P::PASSES - 1) * (P::GROUPS * 8 * 32);
    UNROLL for (int i = 0; i < P::KEPT; i++) kept[i * 32] = {0.0f, 0.0f, 0.0f, 0.0f};
    uint32_t p[SPLIT_PAGES][2][4];
    struct fold_by by[2];
    float o[P::GROUPS * 32], score[2][64];
    UNROLL for (int half = 0; half < 2; half++) keys_begin<P>(m, score[half]);
    ROLLED for (int split = w.split_first; split < last; split++) {
        split_values<P>(s, m, w, r, kept, split, score, p, by, o);
        const uint32_t count = m.count;
        warpgroup_wait<1>();
        stage_end<P>(count - 2);
        if (P::IS_SHORT) {
            keys_begin<P>(m, score[0]); // half of p's registers are free
            warpgroup_wait<1>();
            stage_end<P>(count - 1);
            warpgroup_hold(o);
            keys_begin<P>(m, score[1]);
            UNROLL for (int half = 0; half < 2; half++) prompt_fold(kept_last, o, half, by);
        } else { // registers are few
            values_end<P>(m, kept_last, o, by);
            UNROLL for (int half = 0; half < 2; half++) keys_begin<P>(m, score[half]);
        }
        if (w.run > 0) slot_put<P>(slot_at<P>(m, w, split), kept);
    }
    split_values<P>(s, m, w, r, kept, last, score, p, by, o);
    warpgroup_wait<1>();
    stage_end<P>(m.count - 2);
    values_end<P>(m, kept_last, o, by);
    if (w.n_runs > 1) {
        float4 *slot = slot_at<P>(m, w, last);
        slot_put<P>(slot, kept);
        if (w.run == 0) slot[P::KEPT * 256] = {r.fold[0].m, r.fold[0].l, r.fold[1].m, r.fold[1].l};
        if (!run_is_last(m, w)) return;
        slots_fold<P>(m, w, kept, r);
    }
    prompt_results<P>(s, step, rows, m, w, r);
    __syncwarp(); // the running results' memory is used again
}

// The item of a team that has no queries of it.
template <class P> DEV void prompt_item_skip(struct prompt_team &m, const struct prompt_item &w) {
    const int n = (w.split_last - w.split_first + 1) * 2 * (P::KEYS + P::PASSES);
    for (int i = 0; i < n; i++) {
        stage_wait<P>(m);
        stage_end<P>(m.count - 1);
    }
    if (w.n_runs > 1) run_is_last(m, w);
}

static_assert(PROMPT_ITEMS_AT + 8 * sizeof(struct prompt_item) <= PROMPT_HEAD, "items have room");

template <class P>
DEV void teams_run(const struct stage_attention &s, const struct step &step, int rows,
                   const struct attention_seqs &seqs, uint8_t *shared) {
    const int thread = (int)threadIdx.x, lane = thread % 32;
    struct prompt_team m = {thread / 128, thread / 32 % 4, lane, lane / 4, lane % 4, shared, 0};
    const struct prompt_plan plan = prompt_plan_of<P>(s, step, rows, seqs);
    // the warp's item is in shared memory: registers are few
    struct prompt_item &w = ((struct prompt_item *)(shared + PROMPT_ITEMS_AT))[thread / 32];
    for (uint32_t round = 0;; round++) {
        struct prompt_item found;
        if (!prompt_item_find<P>(s, step, rows, seqs, plan, prompt_index(round), found)) break;
        __syncwarp();
        if (lane == 0) w = found;
        __syncwarp();
        if (w.run >= w.n_runs) continue;
        if (m.team * PROMPT_TEAM < w.n)
            prompt_item_run<P>(s, step, rows, m, w);
        else
            prompt_item_skip<P>(m, w);
    }
}

// The sequences of `part` (enum step_part). shared: PROMPT_SHARED bytes.
template <class P>
DEV void attention_prompt_run(const struct stage_attention &s, const struct step &step, int rows,
                              int part, uint8_t *shared) {
    const struct attention_seqs seqs = seqs_of(step, rows, part);
    if (threadIdx.x < PROMPT_SLOTS) {
        uint64_t *full = (uint64_t *)shared + threadIdx.x;
        if (P::IS_WIDE)
            fetch_init(full);
        else
            meet_init(full, P::FILLERS / 32);
    }
    fetch_init_done();
    __syncthreads();
    if (threadIdx.x < 256) {
        registers_take<232>(); // both together: no more than the launch has
        teams_run<P>(s, step, rows, seqs, shared);
    } else {
        registers_give<40>();
        fillers_run<P>(s, step, rows, seqs, shared);
    }
}

#endif
