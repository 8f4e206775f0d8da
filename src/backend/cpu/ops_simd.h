// The ops of cpu_ops over an abstract vector of 16 floats; ops_avx2.c, ops_avx512.c and ops_neon.c
// include this after defining v16, its primitives and the blocking constants. So each algorithm is
// written once. 16 is the number of virtual lanes of the contract's reductions.
//
// Primitives: v_load, v_load_part (n < 16; the rest 0), v_store, v_store_part, v_load_f16,
// v_load_f16_part, v_store_f16, v_load_bf16, v_store_bf16, v_set, v_add, v_sub, v_mul, v_div, v_fma
// (a * b + c), v_max (a > b ? a : b, so a NaN in a gives b), v_clamp_exp, v_exp2 (p * 2^n), v_abs,
// v_or_sign, v_less (a < b ? x : y), v_lanes (lanes [lo, hi) of x, the rest of y), v_fold_add,
// v_fold_max, v_pair_even, v_pair_odd, v_pair_swap_negate, v_swap1, 2, 4 and 8 (lane i gets lane i
// ^ that), v_load_i8, v_store_i8 (rounded to even; within int8), v_load_i4 (the low or the high
// halves of 16 bytes, minus 8). i16 is 16 lanes of int32, or of 4 bytes: i_set, i_load (64 bytes),
// i_low and i_high (halves of all bytes), i_float, i_dot8 and i_dot4 (adds the products of 4 codes
// and the 4 bytes of q to each lane; the codes are those stored plus DOT8_ZERO or DOT4_ZERO).
// v_of_codes (the bits of an i16), v_transpose (16 vectors: lane i of x[j] and lane j of x[i]).
// For sums of int8 values over tokens: i_quads (4 lines of 16 tokens, 4 elements each, to 4 quads
// of tokens, 16 elements each, a lane being an element), i_quad_store (a quad as QUAD_LINES lines
// of a panel), i_weights_store (the whole numbers of 32 tokens to a row: a 32-bit word meets a
// line, and a query has 2 / QUAD_LINES such rows), i_mac (adds the products of a line's lanes and
// one word), i_store, i_total (16 sums of a query; its second row's are `next` words behind).
// Constants: SCORE_QUERIES and SCORE_VECS, VALUE_QUERIES and VALUE_VECS(n): a block of attention,
// queries by vectors (1 or 2), whose accumulators fit the registers.

#include <math.h>
#include <string.h>

#include "backend/cpu/latent.h"
#include "base/rmath.h"

#define INLINE static inline __attribute__((always_inline))

INLINE v16 v_exp(v16 x) {
    x = v_clamp_exp(x);
    const v16 z = v_fma(x, v_set(RMATH_LOG2E), v_set(RMATH_MAGIC));
    const v16 n = v_sub(z, v_set(RMATH_MAGIC));
    v16 r = v_fma(n, v_set(-RMATH_LN2_HI), x);
    r = v_fma(n, v_set(-RMATH_LN2_LO), r);
    v16 p = v_set(RMATH_EXP_C6);
    p = v_fma(p, r, v_set(RMATH_EXP_C5));
    p = v_fma(p, r, v_set(RMATH_EXP_C4));
    p = v_fma(p, r, v_set(RMATH_EXP_C3));
    p = v_fma(p, r, v_set(RMATH_EXP_C2));
    p = v_fma(p, r, v_set(1.0f));
    p = v_fma(p, r, v_set(1.0f));
    return v_exp2(p, z, n);
}

INLINE v16 v_expm1(v16 x) {
    v16 p = v_set(RMATH_EXP_C6);
    p = v_fma(p, x, v_set(RMATH_EXP_C5));
    p = v_fma(p, x, v_set(RMATH_EXP_C4));
    p = v_fma(p, x, v_set(RMATH_EXP_C3));
    p = v_fma(p, x, v_set(RMATH_EXP_C2));
    const v16 small = v_fma(v_mul(x, x), p, x), large = v_sub(v_exp(x), v_set(1.0f));
    return v_less(v_abs(x), v_set(RMATH_EXPM1_SMALL), small, large);
}

INLINE v16 v_tanh(v16 x) {
    const v16 a = v_abs(x), u = v_mul(a, a);
    v16 p = v_set(RMATH_TANH_C5);
    p = v_fma(p, u, v_set(RMATH_TANH_C4));
    p = v_fma(p, u, v_set(RMATH_TANH_C3));
    p = v_fma(p, u, v_set(RMATH_TANH_C2));
    p = v_fma(p, u, v_set(RMATH_TANH_C1));
    p = v_fma(p, u, v_set(RMATH_TANH_C0));
    const v16 small = v_fma(v_mul(u, a), p, a);
    const v16 e = v_add(v_exp(v_add(a, a)), v_set(1.0f));
    const v16 large = v_sub(v_set(1.0f), v_div(v_set(2.0f), e));
    return v_or_sign(v_less(a, v_set(RMATH_TANH_SMALL), small, large), x);
}

// ---------------------------------------------------------------- rows

INLINE v16 sum_squares(v16 v, v16 lane) { return v_fma(v, v, lane); }

// y[i] = v, or y[i] + v.
INLINE void row_store(float *y, v16 v, int n, bool add) {
    if (n == 16) {
        v_store(y, add ? v_add(v_load(y), v) : v);
    } else {
        v_store_part(y, add ? v_add(v_load_part(y, n), v) : v, n);
    }
}

INLINE v16 row_load(const float *x, int n) { return n == 16 ? v_load(x) : v_load_part(x, n); }

// Runs body for the vectors of n elements, the last one partial: i is where, m how many.
#define FOR_ROW(n, body)                                                                           \
    do {                                                                                           \
        int64_t i = 0;                                                                             \
        for (; i + 16 <= (n); i += 16) {                                                           \
            const int m = 16;                                                                      \
            body                                                                                   \
        }                                                                                          \
        if (i < (n)) {                                                                             \
            const int m = (int)((n)-i);                                                            \
            body                                                                                   \
        }                                                                                          \
    } while (0)

static void simd_norm_rms(const float *x, const float *w, float *y, int n, float eps, bool add) {
    v16 lane = v_set(0);
    // 0 * 0 + lane is lane: sums of squares are never -0
    FOR_ROW(n, lane = sum_squares(row_load(x + i, m), lane););
    const v16 r = v_set(1.0f / sqrtf(v_fold_add(lane) / (float)n + eps));
    FOR_ROW(n, row_store(y + i, v_mul(v_mul(row_load(x + i, m), r), row_load(w + i, m)), m, add););
}

static void simd_norm_layer(const float *x, const float *w, const float *bias, float *y, int n,
                            float eps, bool add) {
    v16 lane = v_set(0), square = v_set(0);
    FOR_ROW(n, lane = v_add(lane, row_load(x + i, m)););
    const v16 mean = v_set(v_fold_add(lane) / (float)n);
    FOR_ROW(n, {
        const v16 d = v_lanes(v_sub(row_load(x + i, m), mean), 0, m, v_set(0));
        square = sum_squares(d, square);
    });
    const v16 r = v_set(1.0f / sqrtf(v_fold_add(square) / (float)n + eps));
    FOR_ROW(n, {
        const v16 d = v_mul(v_sub(row_load(x + i, m), mean), r);
        row_store(y + i, v_fma(d, row_load(w + i, m), row_load(bias + i, m)), m, add);
    });
}

// Compiled here for its fused multiply-adds in hardware; the sequence is the reference's.
static void simd_rope_table(const struct plan_rope *rope, int32_t pos, float *table) {
    const bool halves = rope->style == ROPE_HALVES;
    const int n = rope->n_rot / 2;
    for (int i = 0; i < n; i++) {
        double s, c;
        rmath_sincos((double)((float)pos * rope->inv_freq[i]), &s, &c);
        table[halves ? i : 2 * i] = (float)c * rope->magnitude;
        table[halves ? i + n : 2 * i + 1] = (float)s * rope->magnitude;
    }
}

INLINE void rotate_halves(v16 c, v16 s, v16 *a, v16 *b) {
    const v16 x0 = *a, x1 = *b;
    *a = v_fma(x0, c, v_sub(v_set(-0.0f), v_mul(x1, s))); // -0 - p is -p, the sign of 0 included
    *b = v_fma(x0, s, v_mul(x1, c));
}

static void rope_halves(const float *table, int n, float *x) {
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 a = v_load(x + i), b = v_load(x + n + i);
        rotate_halves(v_load(table + i), v_load(table + n + i), &a, &b);
        v_store(x + i, a);
        v_store(x + n + i, b);
    }
    if (i < n) {
        const int rest = n - i;
        v16 a = v_load_part(x + i, rest), b = v_load_part(x + n + i, rest);
        rotate_halves(v_load_part(table + i, rest), v_load_part(table + n + i, rest), &a, &b);
        v_store_part(x + i, a, rest);
        v_store_part(x + n + i, b, rest);
    }
}

// Lanes are (x0, x1) pairs: y = x0 * (c, s) + x1 * (-s, c), the second product rounded.
INLINE v16 rotate_pairs(v16 cs, v16 x) {
    return v_fma(v_pair_even(x), cs, v_mul(v_pair_odd(x), v_pair_swap_negate(cs)));
}

static void rope_pairs(const float *table, int n_rot, float *x) {
    int i = 0;
    for (; i + 16 <= n_rot; i += 16) v_store(x + i, rotate_pairs(v_load(table + i), v_load(x + i)));
    if (i < n_rot) {
        const int rest = n_rot - i;
        const v16 y = rotate_pairs(v_load_part(table + i, rest), v_load_part(x + i, rest));
        v_store_part(x + i, y, rest);
    }
}

static void simd_rope(const struct plan_rope *rope, const float *table, int n_head, int dim,
                      float *x) {
    for (int h = 0; h < n_head; h++, x += dim) {
        if (rope->style == ROPE_HALVES)
            rope_halves(table, rope->n_rot / 2, x);
        else
            rope_pairs(table, rope->n_rot, x);
    }
}

INLINE v16 v_negate(v16 x) { return v_sub(v_set(-0.0f), x); }

INLINE v16 act_silu(v16 g) { return v_div(g, v_add(v_set(1.0f), v_exp(v_negate(g)))); }

INLINE v16 act_gelu(v16 g) {
    const v16 inner = v_fma(v_mul(v_set(GELU_CUBE), v_mul(g, g)), g, g);
    const v16 half = v_mul(v_set(0.5f), g);
    return v_fma(half, v_tanh(v_mul(v_set(GELU_SCALE), inner)), half);
}

INLINE v16 act_sigmoid(v16 g) { return v_div(v_set(1.0f), v_add(v_set(1.0f), v_exp(v_negate(g)))); }

INLINE v16 act_relu2(v16 g) {
    const v16 a = v_less(g, v_set(0), v_set(0), g);
    return v_mul(a, a);
}

INLINE v16 act_oai(v16 g) {
    const v16 limit = v_set(GATE_OAI_LIMIT), a = v_less(limit, g, limit, g);
    const v16 e = v_exp(v_negate(v_mul(v_set(GATE_OAI_ALPHA), a)));
    return v_div(a, v_add(v_set(1.0f), e));
}

INLINE v16 up_oai(v16 u) {
    const v16 limit = v_set(GATE_OAI_LIMIT), low = v_set(-GATE_OAI_LIMIT);
    u = v_less(limit, u, limit, u);
    u = v_less(u, low, low, u);
    return v_add(u, v_set(1.0f));
}

INLINE v16 up_plain(v16 u) { return u; }

#define GATE(name, act, up)                                                                        \
    static void simd_gate_##name(const float *g, const float *u, float *y, int64_t n) {            \
        if (u)                                                                                     \
            FOR_ROW(n, row_store(y + i, v_mul(act(row_load(g + i, m)), up(row_load(u + i, m))), m, \
                                 false););                                                         \
        else                                                                                       \
            FOR_ROW(n, row_store(y + i, act(row_load(g + i, m)), m, false););                      \
    }

GATE(silu, act_silu, up_plain)
GATE(gelu, act_gelu, up_plain)
GATE(swiglu_oai, act_oai, up_oai)
GATE(sigmoid, act_sigmoid, up_plain)
GATE(relu2, act_relu2, up_plain)
GATE(none, up_plain, up_plain)

INLINE v16 act_xielu(const struct gate_xielu *gate, v16 x) {
    const v16 eps = v_set(gate->eps), linear = v_mul(v_set(gate->linear), x);
    const v16 low = v_expm1(v_less(x, eps, x, eps));
    const v16 below = v_fma(v_set(gate->below), v_sub(low, x), linear);
    return v_less(v_set(0), x, v_fma(v_set(gate->above), v_mul(x, x), linear), below);
}

static void simd_xielu(const struct gate_xielu *gate, const float *x, float *y, int64_t n) {
    FOR_ROW(n, row_store(y + i, act_xielu(gate, row_load(x + i, m)), m, false););
}

static void simd_combine(const float *const *x, const float *w, int k, float *y, int64_t n) {
    FOR_ROW(n, {
        v16 sum = v_set(0);
        for (int j = 0; j < k; j++) sum = v_fma(v_set(w[j]), row_load(x[j] + i, m), sum);
        row_store(y + i, sum, m, true);
    });
}

static void simd_softcap(float *x, float cap, int64_t n) {
    const v16 c = v_set(cap);
    FOR_ROW(n, row_store(x + i, v_mul(c, v_tanh(v_div(row_load(x + i, m), c))), m, false););
}

#include "backend/cpu/state_simd.h"

#include "backend/cpu/kv_simd.h"

#include "backend/cpu/attention_simd.h"

// The functions of a struct cpu_ops, with its attention. quantize_row and stream_read are of the
// file that includes this.
// clang-format off
#define SIMD_FUNCTIONS(simd_or_tiles)                                                              \
    .quantize = quantize_row,                                                                      \
    .norm_rms = simd_norm_rms,                                                                     \
    .norm_layer = simd_norm_layer,                                                                 \
    .rope_table = simd_rope_table,                                                                 \
    .rope = simd_rope,                                                                             \
    .gate = {[GATE_SILU] = simd_gate_silu,                                                         \
             [GATE_GELU] = simd_gate_gelu,                                                         \
             [GATE_SWIGLU_OAI] = simd_gate_swiglu_oai,                                             \
             [GATE_SIGMOID] = simd_gate_sigmoid,                                                   \
             [GATE_RELU2] = simd_gate_relu2,                                                       \
             [GATE_NONE] = simd_gate_none},                                                        \
    .xielu = simd_xielu,                                                                           \
    .combine = simd_combine,                                                                       \
    .softcap = simd_softcap,                                                                       \
    .conv = simd_conv,                                                                             \
    .delta = simd_delta,                                                                           \
    .scan = simd_scan,                                                                             \
    .kv_append = simd_kv_append,                                                                   \
    .attention = simd_or_tiles,                                                                    \
    .attention_fold = simd_attention_fold,                                                         \
    .stream_read = stream_read,
// clang-format on
