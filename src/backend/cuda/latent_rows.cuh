// Rows of latents: the layout of a page, and the append. attention_latent.cuh reads the pages.
//
// Pages. A head of a page has chunks of 8 elements, [chunk][position][8]: 16 bits or 8 bits each.
// The keys' operand is read from it by ldmatrix, and the values' by ldmatrix.trans. Both read 8
// positions of a chunk at a time: 128 neighbouring bytes of 16 bits. Pages of 8 bits become 16 bits
// in shared memory first. Behind the chunks each position has a mark of 16 bits: 0, or NaN where
// the entry is not finite. Such an entry has zeros: a query that sees it becomes NaN, and no other
// query is changed by it. Behind the marks int8 has scales, [64 elements][position]: the parts of a
// latent differ in size. kv.cuh has the numbers; a number of int8 is f16(code / 128 * S).
#ifndef RN_BACKEND_CUDA_LATENT_ROWS_CUH
#define RN_BACKEND_CUDA_LATENT_ROWS_CUH

#include "attention.cuh"
#include "attention_latent.h"

// BLOCKS: blocks of 32 elements of a key; 0: those of the stage. Where they are known, values have
// LATENT_DIM_V elements.
template <int KV_TYPE, int KV_BLOCKS> struct latent_form {
    static constexpr int TYPE = KV_TYPE;
    static constexpr int BLOCKS = KV_BLOCKS;
    static DEV int blocks(const struct stage_attention &s) {
        return BLOCKS ? BLOCKS : kv_blocks(s.dim_k);
    }
    static DEV int units(const struct stage_attention &s) {
        return BLOCKS ? LATENT_DIM_V / 16 : kv_units(s.dim_v);
    }
};

enum {
    LATENT_CHUNK = 8 * 2 * PAGE_TOKENS, // bytes of a chunk of 16 bits
    LATENT_N_TILES = LATENT_QUERIES / 8,
    LATENT_UNITS = LATENT_DIM_V / 16 / N_WARPS, // of values, that a warp has
    LATENT_PAIR_BARRIER = 1,                    // of two warps; four of them
};
static_assert((int)LATENT_THREADS == (int)BLOCK_THREADS, "a block has 8 warps");

template <class F> DEV uint32_t latent_page_bytes(const struct stage_attention &s) {
    return LATENT_PAGE_BYTES(F::blocks(s), F::TYPE);
}
template <class F>
DEV uint8_t *latent_head_at(const struct stage_attention &s, uint32_t page, int head_kv) {
    return s.pages + page * s.page_bytes + (uint32_t)head_kv * latent_page_bytes<F>(s);
}

// ---------------------------------------------------------------- append

// Element e of the rotated part of a head.
DEV float latent_joined(const struct stage_attention &s, const float *row, int token, int e) {
    if (e >= s.n_rot) return load_l2(row + e);
    const int n_pairs = s.n_rot / 2, p = s.halves ? e % n_pairs : e / 2;
    const bool is_second = s.halves ? e >= n_pairs : e % 2 != 0;
    const float a = load_l2(row + (s.halves ? p : 2 * p));
    const float b = load_l2(row + (s.halves ? p + n_pairs : 2 * p + 1));
    const float2 cs = load_l2((const float2 *)s.rope + (int64_t)token * n_pairs + p);
    return is_second ? fmaf(a, cs.y, b * cs.x) : fmaf(a, cs.x, -(b * cs.y));
}

// A warp has an entry: a lane has its chunks lane, lane + 32 and lane + 64. The sum of squares of a
// norm is by lanes, in the order of their elements, then by halves of the warp.
template <class F>
DEV void latent_entry(const struct stage_attention &s, uint8_t *head, int row, int head_kv,
                      int slot, int lane) {
    const float *from = s.k + (int64_t)row * s.ld_k + head_kv * s.dim_k;
    const int own = s.joined ? s.joined_at : s.dim_k;
    constexpr int N = (LATENT_DIM_K / 8 + 31) / 32;
    float x[N][8], most[N], sum = 0.0f;
    bool all = true;
    UNROLL for (int i = 0; i < N; i++) {
        UNROLL for (int e = 0; e < 8; e++) {
            const int d = (lane + 32 * i) * 8 + e;
            x[i][e] = d < own ? load_l2(from + d) : 0.0f;
            sum = fmaf(x[i][e], x[i][e], sum);
        }
    }
    const float r = s.k_norm ? 1.0f / sqrtf(warp_sum(sum) / (float)own + s.k_eps) : 1.0f;
    UNROLL for (int i = 0; i < N; i++) {
        most[i] = 0.0f;
        UNROLL for (int e = 0; e < 8; e++) {
            const int d = (lane + 32 * i) * 8 + e;
            if (s.k_norm && d < own) x[i][e] = (x[i][e] * r) * s.k_weight[d];
            if (d >= own && d < s.dim_k)
                x[i][e] = latent_joined(s, s.joined + (int64_t)row * s.ld_joined, row, d - own);
            most[i] = fmaxf(most[i], fabsf(x[i][e]));
            all = all && is_bounded(x[i][e]);
        }
    }
    const bool is_bad = __ballot_sync(0xffffffffu, all) != 0xffffffffu;
    const int n_chunks = F::blocks(s) * 4;
    uint16_t *marks =
        (uint16_t *)(head + latent_page_bytes<F>(s) - LATENT_MARKS(F::blocks(s), F::TYPE)) + slot;
    UNROLL for (int i = 0; i < N; i++) {
        const int chunk = lane + 32 * i;
        UNROLL for (int o = 1; o < LATENT_SCALED / 8; o *= 2) most[i] =
            fmaxf(most[i], __shfl_xor_sync(0xffffffffu, most[i], o));
        const uint16_t step = is_bad ? 0 : kv_scale_of(most[i]);
        const float factor = kv_code_factor(step);
        if (chunk >= n_chunks) continue;
        if (F::TYPE == KV_INT8 && lane % 8 == 0) marks[PAGE_TOKENS * (1 + chunk / 8)] = step;
        uint32_t w[4] = {0, 0, 0, 0};
        UNROLL for (int e = 0; e < 8; e++) {
            const float y = is_bad ? 0.0f : x[i][e];
            if (kv_is_wide<F>())
                w[e / 2] |= (uint32_t)kv_round<F>(y) << e % 2 * 16;
            else
                w[e / 4] |= (F::TYPE == KV_INT8 ? int8_of(y, factor) : fp8_of(y)) << e % 4 * 8;
        }
        if (kv_is_wide<F>())
            *(uint4 *)(head + chunk * LATENT_CHUNK + slot * 16) =
                make_uint4(w[0], w[1], w[2], w[3]);
        else
            *(uint2 *)(head + chunk * (LATENT_CHUNK / 2) + slot * 8) = make_uint2(w[0], w[1]);
    }
    if (lane == 0) *marks = is_bad ? 0x7fff : 0;
}

template <class F> DEV void latent_append_run(const struct latent_args &args) {
    const struct stage_attention &s = args.stage;
    const struct step &step = *args.step;
    const int lane = (int)threadIdx.x % 32;
    dependency_wait();
    const int64_t n = (int64_t)step.n_tokens * s.n_head_kv; // a launch may have more
    for (int64_t i = (int64_t)blockIdx.x * N_WARPS + threadIdx.x / 32; i < n;
         i += (int64_t)gridDim.x * N_WARPS) {
        const int row = (int)(i / s.n_head_kv), head_kv = (int)(i % s.n_head_kv);
        const int pos = step.pos[row];
        const uint32_t *table = step.tables + step.seq[step.row_seq[row]].table[s.group];
        latent_entry<F>(s, latent_head_at<F>(s, table[pos / PAGE_TOKENS], head_kv), row, head_kv,
                        pos % PAGE_TOKENS, lane);
    }
}

#endif
