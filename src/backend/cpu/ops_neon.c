// The ops for AArch64 with NEON and the dot product instructions: the primitives of ops_simd.h on
// four registers of 4 floats, the quantizer, and the table. Must run only where is_here() says so.
// The blocking constants follow from the 32 registers; they were not measured on hardware.
#if defined(__aarch64__)

#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "backend/cpu/ops.h"
#include "base/rmath.h"

typedef float32x4x4_t v16;

#define EACH(i, expression)                                                                        \
    v16 result;                                                                                    \
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) result.val[i] = (expression);              \
    return result

static inline v16 v_load(const float *x) { EACH(i, vld1q_f32(x + 4 * i)); }
static inline v16 v_load_part(const float *x, int n) {
    float whole[16] = {0};
    for (int i = 0; i < n; i++) whole[i] = x[i];
    return v_load(whole);
}
static inline void v_store(float *x, v16 v) {
    for (int i = 0; i < 4; i++) vst1q_f32(x + 4 * i, v.val[i]);
}
static inline void v_store_part(float *x, v16 v, int n) {
    float whole[16];
    v_store(whole, v);
    for (int i = 0; i < n; i++) x[i] = whole[i];
}
static inline v16 v_load_f16(const uint16_t *x) {
    EACH(i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x + 4 * i))));
}
static inline v16 v_load_f16_part(const uint16_t *x, int n) {
    uint16_t whole[16] = {0};
    for (int i = 0; i < n; i++) whole[i] = x[i];
    return v_load_f16(whole);
}
static inline void v_store_f16(uint16_t *x, v16 v) {
    for (int i = 0; i < 4; i++) vst1_u16(x + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(v.val[i])));
}
static inline v16 v_load_bf16(const uint16_t *x) {
    EACH(i, vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(x + 4 * i), 16)));
}
// As f32_to_bf16.
static inline void v_store_bf16(uint16_t *x, v16 v) {
    for (int i = 0; i < 4; i++) {
        const uint32x4_t bits = vreinterpretq_u32_f32(v.val[i]), high = vshrq_n_u32(bits, 16);
        const uint32x4_t odd = vandq_u32(high, vdupq_n_u32(1));
        const uint32x4_t sum = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
        const uint32x4_t nan = vorrq_u32(high, vdupq_n_u32(0x40));
        const uint32x4_t is_number = vceqq_f32(v.val[i], v.val[i]);
        vst1_u16(x + 4 * i, vmovn_u32(vbslq_u32(is_number, vshrq_n_u32(sum, 16), nan)));
    }
}
static inline v16 v_set(float x) { EACH(i, vdupq_n_f32(x)); }
static inline v16 v_add(v16 a, v16 b) { EACH(i, vaddq_f32(a.val[i], b.val[i])); }
static inline v16 v_sub(v16 a, v16 b) { EACH(i, vsubq_f32(a.val[i], b.val[i])); }
static inline v16 v_mul(v16 a, v16 b) { EACH(i, vmulq_f32(a.val[i], b.val[i])); }
static inline v16 v_div(v16 a, v16 b) { EACH(i, vdivq_f32(a.val[i], b.val[i])); }
static inline v16 v_fma(v16 a, v16 b, v16 c) { EACH(i, vfmaq_f32(c.val[i], a.val[i], b.val[i])); }
// Comparisons and selections throughout: FMAX and FMIN would let a NaN win.
static inline v16 v_less(v16 a, v16 b, v16 x, v16 y) {
    EACH(i, vbslq_f32(vcltq_f32(a.val[i], b.val[i]), x.val[i], y.val[i]));
}
static inline v16 v_max(v16 a, v16 b) { return v_less(b, a, a, b); }
static inline v16 v_clamp_exp(v16 x) { // a NaN passes
    x = v_less(x, v_set(RMATH_EXP_LO), v_set(RMATH_EXP_LO), x);
    return v_less(v_set(RMATH_EXP_HI), x, v_set(RMATH_EXP_HI), x);
}
static inline float32x4_t exp2_quarter(float32x4_t p, float32x4_t z) {
    const float32x4_t magic = vdupq_n_f32(RMATH_MAGIC);
    const int32x4_t k = vsubq_s32(vreinterpretq_s32_f32(z), vreinterpretq_s32_f32(magic));
    const int32x4_t half = vshrq_n_s32(k, 1), bias = vdupq_n_s32(127);
    const int32x4_t a = vshlq_n_s32(vaddq_s32(half, bias), 23);
    const int32x4_t b = vshlq_n_s32(vaddq_s32(vsubq_s32(k, half), bias), 23);
    return vmulq_f32(vmulq_f32(p, vreinterpretq_f32_s32(a)), vreinterpretq_f32_s32(b));
}
static inline v16 v_exp2(v16 p, v16 z, v16 n) {
    (void)n;
    EACH(i, exp2_quarter(p.val[i], z.val[i]));
}
static inline v16 v_abs(v16 x) { EACH(i, vabsq_f32(x.val[i])); }
// x | (sign & the sign bit), as the reference has it
static inline v16 v_or_sign(v16 x, v16 sign) {
    const uint32x4_t bit = vdupq_n_u32(0x80000000u);
    EACH(i, vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(x.val[i]),
                                            vandq_u32(vreinterpretq_u32_f32(sign.val[i]), bit))));
}
static inline float32x4_t lanes_quarter(float32x4_t x, int lo, int hi, float32x4_t y, int lane) {
    static const int32_t first[4] = {0, 1, 2, 3};
    const int32x4_t index = vaddq_s32(vld1q_s32(first), vdupq_n_s32(lane));
    const uint32x4_t keep =
        vandq_u32(vcgeq_s32(index, vdupq_n_s32(lo)), vcltq_s32(index, vdupq_n_s32(hi)));
    return vbslq_f32(keep, x, y);
}
static inline v16 v_lanes(v16 x, int lo, int hi, v16 y) {
    EACH(i, lanes_quarter(x.val[i], lo, hi, y.val[i], 4 * i));
}
static inline float v_fold_add(v16 v) {
    const float32x4_t a = vaddq_f32(vaddq_f32(v.val[0], v.val[2]), vaddq_f32(v.val[1], v.val[3]));
    return vpadds_f32(vadd_f32(vget_low_f32(a), vget_high_f32(a)));
}
// No lane is a NaN here: v_max gave the other operand.
static inline float v_fold_max(v16 v) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(v.val[0], v.val[2]), vmaxq_f32(v.val[1], v.val[3])));
}
static inline v16 v_pair_even(v16 x) { EACH(i, vtrn1q_f32(x.val[i], x.val[i])); }
static inline v16 v_pair_odd(v16 x) { EACH(i, vtrn2q_f32(x.val[i], x.val[i])); }
static inline v16 v_pair_swap_negate(v16 cs) { // (c, s) to (-s, c)
    const uint32x4_t sign = vreinterpretq_u32_u64(vdupq_n_u64(0x80000000u));
    EACH(i, vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(vrev64q_f32(cs.val[i])), sign)));
}

static inline v16 v_swap1(v16 x) { EACH(i, vrev64q_f32(x.val[i])); }
static inline v16 v_swap2(v16 x) { EACH(i, vextq_f32(x.val[i], x.val[i], 2)); }
static inline v16 v_swap4(v16 x) { EACH(i, x.val[i ^ 1]); }
static inline v16 v_swap8(v16 x) { EACH(i, x.val[i ^ 2]); }
static inline v16 v_from_i8(int8x16_t x) {
    const int16x8_t lo = vmovl_s8(vget_low_s8(x)), hi = vmovl_high_s8(x);
    return (v16){{vcvtq_f32_s32(vmovl_s16(vget_low_s16(lo))), vcvtq_f32_s32(vmovl_high_s16(lo)),
                  vcvtq_f32_s32(vmovl_s16(vget_low_s16(hi))), vcvtq_f32_s32(vmovl_high_s16(hi))}};
}
static inline v16 v_load_i8(const int8_t *x) { return v_from_i8(vld1q_s8(x)); }
static inline void v_store_i8(int8_t *x, v16 v) {
    int16x4_t q[4];
    for (int i = 0; i < 4; i++) q[i] = vqmovn_s32(vcvtnq_s32_f32(v.val[i]));
    const int8x8_t lo = vqmovn_s16(vcombine_s16(q[0], q[1]));
    vst1q_s8(x, vcombine_s8(lo, vqmovn_s16(vcombine_s16(q[2], q[3]))));
}
static inline v16 v_load_i4(const uint8_t *x, bool high) {
    const uint8x16_t both = vld1q_u8(x);
    const uint8x16_t code = high ? vshrq_n_u8(both, 4) : vandq_u8(both, vdupq_n_u8(15));
    return v_from_i8(vsubq_s8(vreinterpretq_s8_u8(code), vdupq_n_s8(8)));
}

typedef int32x4x4_t i16;
enum { DOT8_ZERO = 0, DOT4_ZERO = 8 };
#define EACH_INT(i, expression)                                                                    \
    i16 result;                                                                                    \
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) result.val[i] = (expression);              \
    return result
static inline i16 i_set(int32_t x) { EACH_INT(i, vdupq_n_s32(x)); }
static inline i16 i_load(const uint8_t *x) {
    EACH_INT(i, vreinterpretq_s32_u8(vld1q_u8(x + 16 * i)));
}
static inline i16 i_low(i16 x) { EACH_INT(i, vandq_s32(x.val[i], vdupq_n_s32(0x0f0f0f0f))); }
static inline i16 i_high(i16 x) {
    EACH_INT(i, vreinterpretq_s32_u8(vshrq_n_u8(vreinterpretq_u8_s32(x.val[i]), 4)));
}
static inline v16 i_float(i16 x) { EACH(i, vcvtq_f32_s32(x.val[i])); }
static inline i16 i_dot8(i16 acc, i16 x, i16 q) {
    EACH_INT(i,
             vdotq_s32(acc.val[i], vreinterpretq_s8_s32(x.val[i]), vreinterpretq_s8_s32(q.val[i])));
}
static inline i16 i_dot4(i16 acc, i16 x, i16 q) { return i_dot8(acc, x, q); }

static inline v16 v_of_codes(i16 x) { EACH(i, vreinterpretq_f32_s32(x.val[i])); }
static inline void v_transpose(v16 x[16]) {
    v16 y[16];
    for (int i = 0; i < 16; i += 4) {
        for (int q = 0; q < 4; q++) {
            const float32x4x2_t a = vzipq_f32(x[i].val[q], x[i + 2].val[q]);
            const float32x4x2_t b = vzipq_f32(x[i + 1].val[q], x[i + 3].val[q]);
            const float32x4x2_t low = vzipq_f32(a.val[0], b.val[0]);
            const float32x4x2_t high = vzipq_f32(a.val[1], b.val[1]);
            y[4 * q].val[i / 4] = low.val[0];
            y[4 * q + 1].val[i / 4] = low.val[1];
            y[4 * q + 2].val[i / 4] = high.val[0];
            y[4 * q + 3].val[i / 4] = high.val[1];
        }
    }
    for (int i = 0; i < 16; i++) x[i] = y[i];
}

enum { QUAD_LINES = 1 };
static inline void i_quads(i16 x[4]) {
    static const uint8_t order[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    const uint8x16_t at = vld1q_u8(order);
    i16 y[4];
    for (int i = 0; i < 4; i++)
        for (int q = 0; q < 4; q++)
            y[q].val[i] = vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(x[i].val[q]), at));
    for (int i = 0; i < 4; i++) x[i] = y[i];
}
static inline void i_store(int32_t *at, i16 x) {
    for (int i = 0; i < 4; i++) vst1q_s32(at + 4 * i, x.val[i]);
}
static inline void i_quad_store(uint8_t *line, int64_t stride, i16 x) {
    (void)stride;
    i_store((int32_t *)line, x);
}
// A row of the high parts, then one of the low parts.
static inline void i_weights_part(uint8_t *row, int t, v16 x) {
    uint16x4_t word[4];
    for (int i = 0; i < 4; i++) word[i] = vmovn_u32(vreinterpretq_u32_f32(x.val[i]));
    const uint16x8_t a = vcombine_u16(word[0], word[1]), b = vcombine_u16(word[2], word[3]);
    const uint8x16_t low = vcombine_u8(vmovn_u16(a), vmovn_u16(b));
    vst1q_u8(row + t, vcombine_u8(vshrn_n_u16(a, WEIGHT_BITS), vshrn_n_u16(b, WEIGHT_BITS)));
    vst1q_u8(row + ATTENTION_SPLIT + t, vandq_u8(low, vdupq_n_u8((1 << WEIGHT_BITS) - 1)));
}
static inline void i_weights_store(uint8_t *row, int t, const v16 x[2]) {
    for (int i = 0; i < 2; i++) i_weights_part(row, t + 16 * i, x[i]);
}
static inline i16 i_mac(i16 acc, i16 x, i16 w) { return i_dot8(acc, x, w); }
static inline i16 i_total(const int32_t *sum, int next) {
    EACH_INT(i, vaddq_s32(vshlq_n_s32(vld1q_s32(sum + 4 * i), WEIGHT_BITS),
                          vld1q_s32(sum + next + 4 * i)));
}

enum { SCORE_QUERIES = 6, VALUE_QUERIES = 6 };
#define SCORE_VECS    1
#define VALUE_VECS(n) ((n) <= 2 ? 2 : 1)

#include "backend/cpu/ops_simd.h"

static uint32_t magnitude_max_bits(const float x[32]) {
    uint32x4_t top = vdupq_n_u32(0);
    for (int i = 0; i < 32; i += 4)
        top = vmaxq_u32(top, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i))));
    return vmaxvq_u32(top);
}

// 16 values, whose quants are within int8; returns the quants' sum.
static int16_t quantize_half(const float *x, float factor, int8_t *q) {
    int32x4_t v[4];
    for (int i = 0; i < 4; i++) v[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), factor));
    const int16x8_t low = vcombine_s16(vqmovn_s32(v[0]), vqmovn_s32(v[1]));
    const int16x8_t high = vcombine_s16(vqmovn_s32(v[2]), vqmovn_s32(v[3]));
    vst1q_s8(q, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
    return vaddvq_s16(vaddq_s16(low, high));
}

static void quantize_block(const float *x, int8_t *q, float *d, int16_t *sum) {
    const uint32_t amax_bits = magnitude_max_bits(x);
    const float amax = f32_from_bits(amax_bits);
    const float id = amax_bits == 0 || amax_bits >= 0x7f800000u ? 0.0f : 127.0f / amax;
    if (id == 0.0f || id == INFINITY) {
        *d = amax_bits >= 0x7f800000u ? NAN : 0.0f;
        memset(q, 0, 32);
        sum[0] = sum[1] = 0;
        return;
    }
    *d = amax / 127.0f;
    sum[0] = quantize_half(x, id, q);
    sum[1] = quantize_half(x + 16, id, q + 16);
}

static void quantize_row(const float *x, int64_t n, int8_t *q, float *d, int16_t *sum,
                         int64_t stride) {
    for (const float *end = x + n; x < end; x += 32) {
        quantize_block(x, q, d, sum);
        q += 32 * stride, d += stride, sum += 2 * stride;
    }
}

static uint64_t stream_read(const void *data, int64_t bytes, int64_t ahead) {
    const uint8_t *at = data;
    uint8x16_t sum[8];
    for (int j = 0; j < 8; j++) sum[j] = vdupq_n_u8(0);
    for (const uint8_t *end = at + bytes; at < end; at += 128) {
        for (int j = 0; j < 8; j++) {
            if (ahead && j % 4 == 0) __builtin_prefetch(at + ahead + 16 * j);
            sum[j] = veorq_u8(sum[j], vld1q_u8(at + 16 * j));
        }
    }
    for (int j = 1; j < 8; j++) sum[0] = veorq_u8(sum[0], sum[j]);
    const uint64x2_t halves = vreinterpretq_u64_u8(sum[0]);
    return vgetq_lane_u64(halves, 0) ^ vgetq_lane_u64(halves, 1);
}

static bool is_here(void) { return getauxval(AT_HWCAP) & HWCAP_ASIMDDP; }

const struct cpu_ops ops_neon = {.isa = ISA_NEON,
                                 .name = "neon",
                                 .is_here = is_here,
                                 SIMD_FUNCTIONS(simd_attention)};

#else
typedef int ops_neon_is_empty; // ISO C wants a declaration
#endif
