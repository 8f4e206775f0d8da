// KV pages on the device: the layout of a head, its fragments for the matrix units, and the append
// of keys and values. pages.cuh clears and copies pages. sizes/kv.c has the same bytes for
// the host. Attention (attention.cuh) reads pages by the functions here.
#ifndef RN_BACKEND_CUDA_KV_CUH
#define RN_BACKEND_CUDA_KV_CUH

#include "rmath.cuh"
#include "stage.h"

// A head has its keys, its values and, for int8, a scale of each position's key and value. Both are
// stored for the registers of a matrix instruction's first operand, with g = lane / 4 and t = lane
// % 4. Those of 16 bits are matrices of 8 x 8, which a warp loads as fragments (shared_matrices)
// and a warpgroup reads in shared memory as its second operand (warpgroup_mma).
//   K  units of 16 positions x 32 elements, [block of 32 elements][half of the page]. Of step h of
//      a unit, lane has in register j the position g + 8 (j & 1) of the half and the elements
//      8t + 4h + 2 (j >> 1) + {0, 1} of the block. 16 bits: [j & 1][h][j >> 1][lane] words; 8 bits:
//      [lane][h][j & 1] words of 4 elements.
//   V  units of 16 elements x 32 positions. Of step h (half of the page), lane has in register j
//      the element g + 8 (j & 1) and the positions 16h + 8 (j >> 1) + 2t + {0, 1}. 16 bits:
//      [j & 1][h][j >> 1][lane] words; 8 bits: [lane][h][j & 1] words of 4 positions.
//   scales  f16 [position % 8][position / 8], of keys, then of values.
// Elements are padded with zeros, keys to 32 and values to 16. A page is all zeros before its first
// append, so the padding and the positions without an entry are zeros.
//
// Numbers. f16 (saturated), bf16, fp8 (e4m3, saturated): rounded to nearest even. int8: S =
// f16(amax * (128 / 127)), code = rint(x * (128 / S)) within -127..127, and the number is code /
// 128 * S. The fragments of int8 are code / 128.
// An entry is not finite where an element of its value is beyond 0x1.fep127 or not a number, or
// where its key is (int8, fp8). Its value is then stored as 0 and its key as NaN: a query that
// sees it becomes NaN, and a query that does not see it is not changed by it.

// The form of a group's pages, which kernels are compiled for. DIM: elements of keys and of values;
// 0: those of the stage.
template <int KV_TYPE, int KV_DIM> struct kv_form {
    static constexpr int TYPE = KV_TYPE;
    static constexpr int DIM = KV_DIM;
    static DEV int dim_k(const struct stage_attention &s) { return DIM ? DIM : s.dim_k; }
    static DEV int dim_v(const struct stage_attention &s) { return DIM ? DIM : s.dim_v; }
};

template <class F> DEV constexpr bool kv_is_wide() {
    return F::TYPE == KV_F16 || F::TYPE == KV_BF16;
}
template <class F> DEV constexpr uint32_t kv_unit_bytes() { return kv_is_wide<F>() ? 1024 : 512; }

DEV int kv_blocks(int dim_k) { return (dim_k + 31) / 32; }
DEV int kv_units(int dim_v) { return (dim_v + 15) / 16; }

template <class F> DEV uint32_t kv_k_bytes(int dim_k) {
    return (uint32_t)kv_blocks(dim_k) * 2 * kv_unit_bytes<F>();
}
template <class F> DEV uint32_t kv_scales_at(int dim_k, int dim_v) {
    return kv_k_bytes<F>(dim_k) + (uint32_t)kv_units(dim_v) * kv_unit_bytes<F>();
}
template <class F> DEV uint32_t kv_head_bytes(int dim_k, int dim_v) {
    return kv_scales_at<F>(dim_k, dim_v) + (F::TYPE == KV_INT8 ? 2 * PAGE_TOKENS * 2 : 0);
}

// A head's part of a page, and of the page of a block of positions.
template <class F>
DEV uint8_t *kv_head_in(const struct stage_attention &s, uint64_t page_id, int head_kv) {
    return s.pages + page_id * s.page_bytes +
           (uint64_t)((uint32_t)head_kv * kv_head_bytes<F>(F::dim_k(s), F::dim_v(s)));
}
template <class F>
DEV uint8_t *kv_head_at(const struct stage_attention &s, const uint32_t *table, int page,
                        int head_kv) {
    return kv_head_in<F>(s, table[page], head_kv);
}

// Offsets of an element from the head's keys and values; slot: the position in the page.
template <class F> DEV uint32_t kv_k_at(int slot, int d) {
    const uint32_t unit = (uint32_t)(d / 32 * 2 + slot / 16) * kv_unit_bytes<F>();
    const uint32_t lane = (uint32_t)(slot % 8 * 4 + d % 32 / 8), h = (uint32_t)(d % 8 / 4);
    const uint32_t low = (uint32_t)(slot % 16 / 8);
    if (kv_is_wide<F>())
        return unit + low * 512 + h * 256 + (uint32_t)(d % 4 / 2) * 128 + lane * 4 +
               (uint32_t)(d % 2) * 2;
    return unit + lane * 16 + (h * 2 + low) * 4 + (uint32_t)(d % 4);
}
template <class F> DEV uint32_t kv_v_at(int slot, int d) {
    const uint32_t unit = (uint32_t)(d / 16) * kv_unit_bytes<F>(), h = (uint32_t)(slot / 16);
    const uint32_t lane = (uint32_t)(d % 8 * 4 + slot % 8 / 2), low = (uint32_t)(d % 16 / 8);
    const uint32_t high = (uint32_t)(slot % 16 / 8);
    if (kv_is_wide<F>())
        return unit + low * 512 + h * 256 + high * 128 + lane * 4 + (uint32_t)(slot % 2) * 2;
    return unit + lane * 16 + (h * 2 + low) * 4 + high * 2 + (uint32_t)(slot % 2);
}
DEV uint32_t kv_scale_index(int slot) { return (uint32_t)(slot % 8 * 4 + slot / 8); }

// ---------------------------------------------------------------- numbers

template <class F> DEV uint16_t kv_round(float x) {
    return F::TYPE == KV_BF16 ? bf16_of(x) : f16_of(x);
}

// Of an entry of int8: codes are x * kv_code_factor, rounded.
DEV uint16_t kv_scale_of(float most) { return f16_of(most * (128.0f / 127.0f)); }
DEV float kv_code_factor(uint16_t scale) {
    const float step = f32_of_f16(scale);
    return step > 0.0f ? 128.0f / step : 0.0f;
}
DEV uint32_t int8_of(float x, float factor) {
    const float y = x * factor;
    const float bounded = y > 127.0f ? 127.0f : y < -127.0f ? -127.0f : y;
    return (uint32_t)(int32_t)((bounded + 0x1.8p23f) - 0x1.8p23f) & 0xff;
}

// Finite x only. Above 448: 448.
DEV uint32_t fp8_of(float x) {
    const uint32_t bits = f32_to_bits(x), sign = bits >> 24 & 0x80;
    uint32_t u = bits & 0x7fffffff;
    const float a = f32_from_bits(u);
    if (a >= 448.0f) return sign | 0x7e;
    if (a < 0x1p-6f) return sign | (f32_to_bits(a * 512.0f + 0x1.8p23f) & 0xf);
    u += 0x7ffff + (u >> 20 & 1);
    return sign | ((u >> 20) - (120 << 3));
}

// Four codes as two registers of halves: the first pair, then the second.
template <class F> DEV void halves_of(uint32_t w, uint32_t &low, uint32_t &high) {
    if (F::TYPE == KV_INT8) { // 8 + (code + 128) / 128, less 9
        const uint32_t u = w ^ 0x80808080u;
        low = half2_add(bytes_of(u, 0x48484848u, 0x4140), 0xc880c880u);
        high = half2_add(bytes_of(u, 0x48484848u, 0x4342), 0xc880c880u);
    } else { // the bits of f16, but for the bias of the exponent
        const uint32_t a = bytes_of(w, 0, 0x1404), b = bytes_of(w, 0, 0x3424);
        low = half2_mul((a & 0x80008000u) | (a >> 1 & 0x3f803f80u), 0x5c005c00u);
        high = half2_mul((b & 0x80008000u) | (b >> 1 & 0x3f803f80u), 0x5c005c00u);
    }
}

// The first operand of both steps of a unit of 8 bits, from the 16 bytes of the lane.
template <class F> DEV void kv_fragments(uint32_t (&a)[2][4], const uint4 &v) {
    halves_of<F>(v.x, a[0][0], a[0][2]);
    halves_of<F>(v.y, a[0][1], a[0][3]);
    halves_of<F>(v.z, a[1][0], a[1][2]);
    halves_of<F>(v.w, a[1][1], a[1][3]);
}

template <class F>
DEV void kv_mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if (F::TYPE == KV_BF16)
        mma_bf16(c, a, b0, b1);
    else
        mma_f16(c, a, b0, b1);
}

// ---------------------------------------------------------------- heads before attention

// One head's vector: RMS norm, then rope. A warp; x is its scratch of dim floats. The sum of
// squares is by lanes, d = lane, lane + 32, ..., then by halves of the warp.
struct head_rule {
    const float *weight; // NULL: no norm
    float eps;
    int n_rot, halves;
};

DEV float warp_sum(float x) {
    UNROLL for (int o = 16; o > 0; o /= 2) x = x + __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}
DEV float warp_max(float x) {
    UNROLL for (int o = 16; o > 0; o /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, o));
    return x;
}

// What a lane loads of a head: of its first 128 elements.
struct head_load {
    float v[4], w[4];
    float2 turn[2];
};
DEV void head_ask(struct head_load &l, const float *from, int dim, const float *weight, int n_rot,
                  const float2 *rope, int lane) {
    UNROLL for (int i = 0; i < 4; i++) {
        const int d = lane + 32 * i;
        l.v[i] = d < dim ? load_l2(from + d) : 0.0f;
        l.w[i] = weight && d < dim ? weight[d] : 0.0f;
    }
    UNROLL for (int i = 0; i < 2; i++) {
        l.turn[i] = {0.0f, 0.0f};
        if (lane + 32 * i < n_rot / 2) l.turn[i] = load_l2(rope + lane + 32 * i);
    }
}

// The head, from what was loaded; from, rope: the rest of a head of more than 128 elements.
DEV void head_finish(float *x, const struct head_load &l, const float *from, int dim,
                     const struct head_rule &rule, const float2 *rope, int lane) {
    const int n_pairs = rule.n_rot / 2;
    float sum = 0.0f;
    __syncwarp(); // the scratch is free
    UNROLL for (int i = 0; i < 4; i++) {
        const int d = lane + 32 * i;
        sum = fmaf(l.v[i], l.v[i], sum);
        if (d < dim) x[d] = l.v[i];
    }
    for (int d = lane + 128; d < dim; d += 32) {
        const float y = load_l2(from + d);
        sum = fmaf(y, y, sum);
        x[d] = y;
    }
    if (rule.weight) {
        const float r = 1.0f / sqrtf(warp_sum(sum) / (float)dim + rule.eps);
        UNROLL for (int i = 0; i < 4; i++) {
            if (lane + 32 * i < dim) x[lane + 32 * i] = (l.v[i] * r) * l.w[i];
        }
        for (int d = lane + 128; d < dim; d += 32) x[d] = (x[d] * r) * rule.weight[d];
    }
    __syncwarp();
    if (n_pairs == 0) return;
    for (int first = 0; first < n_pairs; first += 64) {
        UNROLL for (int i = 0; i < 2; i++) {
            const int p = first + lane + 32 * i;
            if (p >= n_pairs) continue;
            const float2 cs = first ? load_l2(rope + p) : l.turn[i];
            float *x0 = x + (rule.halves ? p : 2 * p), *x1 = rule.halves ? x0 + n_pairs : x0 + 1;
            const float a = *x0, b = *x1;
            *x0 = fmaf(a, cs.x, -(b * cs.y));
            *x1 = fmaf(a, cs.y, b * cs.x);
        }
    }
    __syncwarp();
}

// Keys and queries share the code.
DEV_CALL void head_norm(float *x, const float *from, int dim, const struct head_rule &rule,
                        const float2 *rope, int lane) {
    struct head_load l;
    head_ask(l, from, dim, rule.weight, rule.n_rot, rope, lane);
    head_finish(x, l, from, dim, rule, rope, lane);
}

// ---------------------------------------------------------------- append

#define KV_FINITE 0x1.fep127f

DEV bool is_bounded(float x) { return fabsf(x) <= KV_FINITE; }

// Keys of 16 bits: two elements a lane.
template <class F>
DEV void key_put_wide(uint8_t *k, uint8_t *copy, const float *x, int dim, int slot, bool is_bad,
                      int lane) {
    for (int d = 2 * lane; d < dim; d += 64) {
        const uint32_t low = kv_round<F>(x[d]), high = kv_round<F>(x[d + 1]);
        const uint32_t at = kv_k_at<F>(slot, d), w = is_bad ? 0x7fff7fffu : low | high << 16;
        *(uint32_t *)(k + at) = w;
        if (copy) *(uint32_t *)(copy + at) = w;
    }
}

// Keys of 8 bits: four elements a lane, of which the last two may be padding. scale: int8.
template <class F>
DEV void key_put_narrow(uint8_t *k, uint8_t *copy, uint16_t *scale, const float *x, int dim,
                        int slot, bool is_bad, int lane) {
    float most = 0.0f;
    bool all = true;
    for (int d = lane; d < dim; d += 32) {
        most = fmaxf(most, fabsf(x[d]));
        all = all && is_bounded(x[d]);
    }
    is_bad = is_bad || __ballot_sync(0xffffffffu, all) != 0xffffffffu;
    const uint16_t step = kv_scale_of(warp_max(most));
    const float factor = kv_code_factor(step);
    for (int d = 4 * lane; d < dim; d += 128) {
        uint32_t w = 0;
        UNROLL for (int i = 0; i < 4; i++) {
            if (d + i >= dim || (is_bad && F::TYPE == KV_INT8)) continue;
            const uint32_t code = F::TYPE == KV_INT8 ? int8_of(x[d + i], factor)
                                  : is_bad           ? 0x7f
                                                     : fp8_of(x[d + i]);
            w |= code << 8 * i;
        }
        const uint32_t at = kv_k_at<F>(slot, d);
        *(uint32_t *)(k + at) = w;
        if (copy) *(uint32_t *)(copy + at) = w;
    }
    if (F::TYPE == KV_INT8 && lane == 0) *scale = is_bad ? 0x7fff : step;
}

// One element of a value.
template <class F>
DEV void value_put(uint8_t *v, float x, int d, int slot, float factor, bool is_bad) {
    const uint32_t at = kv_v_at<F>(slot, d);
    if (is_bad) x = 0.0f;
    if (kv_is_wide<F>())
        *(uint16_t *)(v + at) = kv_round<F>(x);
    else
        v[at] = (uint8_t)(F::TYPE == KV_INT8 ? int8_of(x, factor) : fp8_of(x));
}

// A position's key and value of a head, from the products' rows. A warp; x: scratch of dim_k
// floats. copy_k, copy_v: where keys and values of the page are too; NULL: nowhere.
template <class F>
DEV void entry_append(const struct stage_attention &s, uint8_t *head, uint8_t *copy_k,
                      uint8_t *copy_v, int row, int head_kv, int slot, float *x, int lane) {
    const float *from = s.v + (int64_t)row * s.ld_v + head_kv * F::dim_v(s);
    const struct head_rule rule = {s.k_norm ? s.k_weight : nullptr, s.k_eps, s.n_rot, s.halves};
    uint8_t *v = head + kv_k_bytes<F>(F::dim_k(s));
    uint16_t *scales = (uint16_t *)(head + kv_scales_at<F>(F::dim_k(s), F::dim_v(s)));
    float y[4], most = 0.0f;
    bool all = true;
    UNROLL for (int i = 0; i < 4; i++) {
        const int d = lane + 32 * i;
        y[i] = d < F::dim_v(s) ? load_l2(from + d) : 0.0f;
    }
    head_norm(x, s.k + (int64_t)row * s.ld_k + head_kv * F::dim_k(s), F::dim_k(s), rule,
              (const float2 *)s.rope + (int64_t)row * (s.n_rot / 2), lane);
    UNROLL for (int i = 0; i < 4; i++) {
        most = fmaxf(most, fabsf(y[i]));
        all = all && is_bounded(y[i]);
    }
    for (int d = lane + 128; d < F::dim_v(s); d += 32) {
        const float e = load_l2(from + d);
        most = fmaxf(most, fabsf(e));
        all = all && is_bounded(e);
    }
    const bool is_bad = __ballot_sync(0xffffffffu, all) != 0xffffffffu;
    const uint16_t step = is_bad || F::TYPE != KV_INT8 ? 0 : kv_scale_of(warp_max(most));
    const float factor = kv_code_factor(step);
    UNROLL for (int i = 0; i < 4; i++) {
        const int d = lane + 32 * i;
        if (d >= F::dim_v(s)) continue;
        value_put<F>(v, y[i], d, slot, factor, is_bad);
        if (copy_v) value_put<F>(copy_v, y[i], d, slot, factor, is_bad);
    }
    for (int d = lane + 128; d < F::dim_v(s); d += 32) {
        const float e = load_l2(from + d);
        value_put<F>(v, e, d, slot, factor, is_bad);
        if (copy_v) value_put<F>(copy_v, e, d, slot, factor, is_bad);
    }
    if (F::TYPE == KV_INT8 && lane == 0) scales[PAGE_TOKENS + kv_scale_index(slot)] = step;
    if (kv_is_wide<F>())
        key_put_wide<F>(head, copy_k, x, F::dim_k(s), slot, is_bad, lane);
    else
        key_put_narrow<F>(head, copy_k, scales + kv_scale_index(slot), x, F::dim_k(s), slot, is_bad,
                          lane);
}

// The stage of the append, where attention does not do it: a warp has a position of a head. The
// launch waits when it knows where its first entry goes. shared: ATTENTION_SHARED bytes.
template <class F>
DEV void append_run(const struct stage_attention &s, const struct step &step, int n_rows,
                    uint8_t *shared) {
    static_assert(ATTENTION_SHARED / N_WARPS >= 1024 * 4, "a warp has room for a head");
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    float *x = (float *)shared + warp * (ATTENTION_SHARED / N_WARPS / 4);
    const int64_t n = (int64_t)n_rows * s.n_head_kv;
    for (int64_t i = (int64_t)warp * gridDim.x + blockIdx.x; i < n;
         i += (int64_t)gridDim.x * N_WARPS) {
        const int row = (int)(i / s.n_head_kv), head_kv = (int)(i % s.n_head_kv);
        const int pos = step.pos[row];
        const uint32_t *table = step.tables + step.seq[step.row_seq[row]].table[s.group];
        uint8_t *head = kv_head_at<F>(s, table, pos / PAGE_TOKENS, head_kv);
        dependency_wait();
        entry_append<F>(s, head, nullptr, nullptr, row, head_kv, pos % PAGE_TOKENS, x, lane);
    }
    dependency_wait();
}

#endif
