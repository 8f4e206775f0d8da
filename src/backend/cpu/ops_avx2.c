// The ops for AVX2 with FMA and F16C: the primitives of ops_simd.h on two registers of 8 floats,
// the quantizer, and the tables. Must run only where is_here() says so.
#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include "backend/cpu/ops.h"
#include "base/rmath.h"
#include "base/x86.h"

typedef struct {
    __m256 lo, hi;
} v16;

#define BOTH(f, a)        ((v16){f((a).lo), f((a).hi)})
#define BOTH2(f, a, b)    ((v16){f((a).lo, (b).lo), f((a).hi, (b).hi)})
#define BOTH3(f, a, b, c) ((v16){f((a).lo, (b).lo, (c).lo), f((a).hi, (b).hi, (c).hi)})

// Lanes [0, n) of the eight from `lane` on, as a mask of sign bits.
static inline __m256i mask_below(int n, int lane) {
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - lane), index);
}

static inline v16 v_load(const float *x) {
    return (v16){_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
}
static inline v16 v_load_part(const float *x, int n) {
    return (v16){_mm256_maskload_ps(x, mask_below(n, 0)),
                 _mm256_maskload_ps(x + 8, mask_below(n, 8))};
}
static inline void v_store(float *x, v16 v) {
    _mm256_storeu_ps(x, v.lo);
    _mm256_storeu_ps(x + 8, v.hi);
}
static inline void v_store_part(float *x, v16 v, int n) {
    _mm256_maskstore_ps(x, mask_below(n, 0), v.lo);
    _mm256_maskstore_ps(x + 8, mask_below(n, 8), v.hi);
}
static inline v16 v_load_f16(const uint16_t *x) {
    return (v16){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x)),
                 _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + 8)))};
}
static inline v16 v_load_f16_part(const uint16_t *x, int n) {
    uint16_t whole[16] = {0};
    for (int i = 0; i < n; i++) whole[i] = x[i];
    return v_load_f16(whole);
}
static inline void v_store_f16(uint16_t *x, v16 v) {
    _mm_storeu_si128((__m128i *)x, _mm256_cvtps_ph(v.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(x + 8), _mm256_cvtps_ph(v.hi, _MM_FROUND_TO_NEAREST_INT));
}
static inline __m256 load_bf16(const uint16_t *x) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
static inline v16 v_load_bf16(const uint16_t *x) { return (v16){load_bf16(x), load_bf16(x + 8)}; }
// As f32_to_bf16; each lane has its result.
static inline __m256i round_bf16(__m256 v) {
    const __m256i bits = _mm256_castps_si256(v), high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i nan = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), nan,
                              _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
}
static inline void v_store_bf16(uint16_t *x, v16 v) {
    const __m256i both = _mm256_packus_epi32(round_bf16(v.lo), round_bf16(v.hi));
    _mm256_storeu_si256((__m256i *)x, _mm256_permute4x64_epi64(both, 0xd8));
}
static inline v16 v_set(float x) { return (v16){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline v16 v_add(v16 a, v16 b) { return BOTH2(_mm256_add_ps, a, b); }
static inline v16 v_sub(v16 a, v16 b) { return BOTH2(_mm256_sub_ps, a, b); }
static inline v16 v_mul(v16 a, v16 b) { return BOTH2(_mm256_mul_ps, a, b); }
static inline v16 v_div(v16 a, v16 b) { return BOTH2(_mm256_div_ps, a, b); }
static inline v16 v_fma(v16 a, v16 b, v16 c) { return BOTH3(_mm256_fmadd_ps, a, b, c); }
static inline v16 v_max(v16 a, v16 b) { return BOTH2(_mm256_max_ps, a, b); }
// With x second, a NaN passes.
static inline v16 v_clamp_exp(v16 x) {
    x = BOTH2(_mm256_max_ps, v_set(RMATH_EXP_LO), x);
    return BOTH2(_mm256_min_ps, v_set(RMATH_EXP_HI), x);
}
static inline __m256 exp2_half(__m256 p, __m256 z) {
    const __m256i k =
        _mm256_sub_epi32(_mm256_castps_si256(z), _mm256_castps_si256(_mm256_set1_ps(RMATH_MAGIC)));
    const __m256i half = _mm256_srai_epi32(k, 1), bias = _mm256_set1_epi32(127);
    const __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(k, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
}
static inline v16 v_exp2(v16 p, v16 z, v16 n) {
    (void)n;
    return BOTH2(exp2_half, p, z);
}
static inline v16 v_abs(v16 x) { return BOTH2(_mm256_andnot_ps, v_set(-0.0f), x); }
static inline v16 v_or_sign(v16 x, v16 sign) {
    const v16 bit = BOTH2(_mm256_and_ps, sign, v_set(-0.0f));
    return BOTH2(_mm256_or_ps, x, bit);
}
static inline __m256 less_half(__m256 a, __m256 b, __m256 x, __m256 y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
static inline v16 v_less(v16 a, v16 b, v16 x, v16 y) {
    return (v16){less_half(a.lo, b.lo, x.lo, y.lo), less_half(a.hi, b.hi, x.hi, y.hi)};
}
static inline __m256 lanes_half(__m256 x, int lo, int hi, __m256 y, int lane) {
    const __m256i keep = _mm256_andnot_si256(mask_below(lo, lane), mask_below(hi, lane));
    return _mm256_blendv_ps(y, x, _mm256_castsi256_ps(keep));
}
static inline v16 v_lanes(v16 x, int lo, int hi, v16 y) {
    return (v16){lanes_half(x.lo, lo, hi, y.lo, 0), lanes_half(x.hi, lo, hi, y.hi, 8)};
}
static inline float v_fold_add(v16 v) {
    const __m256 a = _mm256_add_ps(v.lo, v.hi);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
static inline float v_fold_max(v16 v) {
    const __m256 a = _mm256_max_ps(v.lo, v.hi);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
static inline v16 v_pair_even(v16 x) { return BOTH(_mm256_moveldup_ps, x); }
static inline v16 v_pair_odd(v16 x) { return BOTH(_mm256_movehdup_ps, x); }
static inline __m256 swap_negate_half(__m256 cs) {
    const __m256 sign = _mm256_castsi256_ps(_mm256_set1_epi64x(0x80000000));
    return _mm256_xor_ps(_mm256_permute_ps(cs, 0xb1), sign);
}
static inline v16 v_pair_swap_negate(v16 cs) { // (c, s) to (-s, c)
    return BOTH(swap_negate_half, cs);
}

static inline __m256 swap1_half(__m256 x) { return _mm256_permute_ps(x, 0xb1); }
static inline __m256 swap2_half(__m256 x) { return _mm256_permute_ps(x, 0x4e); }
static inline __m256 swap4_half(__m256 x) { return _mm256_permute2f128_ps(x, x, 1); }
static inline v16 v_swap1(v16 x) { return BOTH(swap1_half, x); }
static inline v16 v_swap2(v16 x) { return BOTH(swap2_half, x); }
static inline v16 v_swap4(v16 x) { return BOTH(swap4_half, x); }
static inline v16 v_swap8(v16 x) { return (v16){x.hi, x.lo}; }
static inline v16 v_from_i8(__m128i x) {
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)),
                 _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)))};
}
static inline v16 v_load_i8(const int8_t *x) {
    return v_from_i8(_mm_loadu_si128((const __m128i *)x));
}
static inline void v_store_i8(int8_t *x, v16 v) {
    const __m256i lo = _mm256_cvtps_epi32(v.lo), hi = _mm256_cvtps_epi32(v.hi);
    const __m256i pairs = _mm256_permute4x64_epi64(_mm256_packs_epi32(lo, hi), 0xd8);
    const __m128i a = _mm256_castsi256_si128(pairs), b = _mm256_extracti128_si256(pairs, 1);
    _mm_storeu_si128((__m128i *)x, _mm_packs_epi16(a, b));
}
static inline v16 v_load_i4(const uint8_t *x, bool high) {
    const __m128i both = _mm_loadu_si128((const __m128i *)x);
    const __m128i code = _mm_and_si128(high ? _mm_srli_epi16(both, 4) : both, _mm_set1_epi8(15));
    return v_from_i8(_mm_sub_epi8(code, _mm_set1_epi8(8)));
}

typedef struct {
    __m256i lo, hi;
} i16;
enum { DOT8_ZERO = 0, DOT4_ZERO = 8 };
static inline i16 i_set(int32_t x) { return (i16){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
static inline i16 i_load(const uint8_t *x) {
    return (i16){_mm256_loadu_si256((const __m256i *)x),
                 _mm256_loadu_si256((const __m256i *)(x + 32))};
}
static inline i16 i_low(i16 x) {
    const __m256i low = _mm256_set1_epi8(15);
    return (i16){_mm256_and_si256(x.lo, low), _mm256_and_si256(x.hi, low)};
}
static inline i16 i_high(i16 x) {
    return i_low((i16){_mm256_srli_epi16(x.lo, 4), _mm256_srli_epi16(x.hi, 4)});
}
static inline v16 i_float(i16 x) {
    return (v16){_mm256_cvtepi32_ps(x.lo), _mm256_cvtepi32_ps(x.hi)};
}
// x unsigned; the sum of two products fits 16 bits: 2 * 127 * 127, or 2 * 15 * 127.
static inline __m256i dot_half(__m256i acc, __m256i x, __m256i q) {
    const __m256i pairs = _mm256_maddubs_epi16(x, q);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
static inline i16 i_dot4(i16 acc, i16 x, i16 q) {
    return (i16){dot_half(acc.lo, x.lo, q.lo), dot_half(acc.hi, x.hi, q.hi)};
}
static inline i16 i_dot8(i16 acc, i16 x, i16 q) { // the sign of a code goes to q
    return (i16){dot_half(acc.lo, _mm256_abs_epi8(x.lo), _mm256_sign_epi8(q.lo, x.lo)),
                 dot_half(acc.hi, _mm256_abs_epi8(x.hi), _mm256_sign_epi8(q.hi, x.hi))};
}

static inline v16 v_of_codes(i16 x) {
    return (v16){_mm256_castsi256_ps(x.lo), _mm256_castsi256_ps(x.hi)};
}
static inline void transpose_eight(__m256 x[8]) {
    __m256 pair[8], four[8];
    for (int i = 0; i < 8; i += 2) {
        pair[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) { // half h of four[i + c]: rows i to i + 3 of lane 4 h + c
        four[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
        four[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
        four[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        four[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
    }
    for (int c = 0; c < 4; c++) {
        x[c] = _mm256_permute2f128_ps(four[c], four[4 + c], 0x20);
        x[4 + c] = _mm256_permute2f128_ps(four[c], four[4 + c], 0x31);
    }
}
static inline void v_transpose(v16 x[16]) {
    __m256 part[2][2][8]; // rows of eight, lanes of eight
    for (int i = 0; i < 16; i++) {
        part[i / 8][0][i % 8] = x[i].lo;
        part[i / 8][1][i % 8] = x[i].hi;
    }
    for (int i = 0; i < 4; i++) transpose_eight(part[i / 2][i % 2]);
    for (int i = 0; i < 16; i++) x[i] = (v16){part[0][i / 8][i % 8], part[1][i / 8][i % 8]};
}

enum { QUAD_LINES = 2 };
static inline void i_quads(i16 x[4]) {
    const __m256i order = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0,
                                           4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m256i lo[4], hi[4];
    for (int i = 0; i < 4; i++) {
        lo[i] = _mm256_shuffle_epi8(x[i].lo, order);
        hi[i] = _mm256_shuffle_epi8(x[i].hi, order);
    }
    x[0] = (i16){_mm256_permute2x128_si256(lo[0], lo[1], 0x20),
                 _mm256_permute2x128_si256(lo[2], lo[3], 0x20)};
    x[1] = (i16){_mm256_permute2x128_si256(lo[0], lo[1], 0x31),
                 _mm256_permute2x128_si256(lo[2], lo[3], 0x31)};
    x[2] = (i16){_mm256_permute2x128_si256(hi[0], hi[1], 0x20),
                 _mm256_permute2x128_si256(hi[2], hi[3], 0x20)};
    x[3] = (i16){_mm256_permute2x128_si256(hi[0], hi[1], 0x31),
                 _mm256_permute2x128_si256(hi[2], hi[3], 0x31)};
}
static inline void i_store(int32_t *at, i16 x) {
    _mm256_storeu_si256((__m256i *)at, x.lo);
    _mm256_storeu_si256((__m256i *)(at + 8), x.hi);
}
// Lines of 16-bit codes: tokens 0 and 2 of the quad, then 1 and 3.
static inline void i_quad_store(uint8_t *line, int64_t stride, i16 x) {
    i_store((int32_t *)line, (i16){_mm256_srai_epi16(_mm256_slli_epi16(x.lo, 8), 8),
                                   _mm256_srai_epi16(_mm256_slli_epi16(x.hi, 8), 8)});
    i_store((int32_t *)(line + stride),
            (i16){_mm256_srai_epi16(x.lo, 8), _mm256_srai_epi16(x.hi, 8)});
}
static inline void i_weights_part(uint8_t *row, int t, v16 x) {
    const __m256i low = _mm256_set1_epi32(0xffff);
    const __m256i lo = _mm256_and_si256(_mm256_castps_si256(x.lo), low);
    const __m256i hi = _mm256_and_si256(_mm256_castps_si256(x.hi), low);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xd8);
    const __m256i pairs = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(words, 0xd8), 0xd8);
    _mm256_storeu_si256((__m256i *)(row + 2 * t), pairs);
}
static inline void i_weights_store(uint8_t *row, int t, const v16 x[2]) {
    for (int i = 0; i < 2; i++) i_weights_part(row, t + 16 * i, x[i]);
}
static inline i16 i_mac(i16 acc, i16 x, i16 w) {
    return (i16){_mm256_add_epi32(acc.lo, _mm256_madd_epi16(x.lo, w.lo)),
                 _mm256_add_epi32(acc.hi, _mm256_madd_epi16(x.hi, w.hi))};
}
static inline i16 i_total(const int32_t *sum, int next) {
    (void)next;
    return i_load((const uint8_t *)sum);
}

enum { SCORE_QUERIES = 6, VALUE_QUERIES = 6 };
#define SCORE_VECS    1
#define VALUE_VECS(n) ((n) <= 2 ? 2 : 1)

#include "backend/cpu/ops_simd.h"

static inline uint32_t fold_max_u32(__m256i v) {
    __m128i a = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    a = _mm_max_epu32(a, _mm_shuffle_epi32(a, 0x4e));
    a = _mm_max_epu32(a, _mm_shuffle_epi32(a, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(a);
}

static inline int fold_add_i32(__m256i v) {
    __m128i a = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4e));
    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0xb1));
    return _mm_cvtsi128_si32(a);
}

static inline __m256i magnitude_bits(const float *x) {
    return _mm256_castps_si256(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(x)));
}

// Four registers of eight int32, each within int8, to 32 bytes in order.
static inline void store_int8(int8_t *q, const __m256i v[4]) {
    const __m256i a = _mm256_packs_epi32(v[0], v[1]), b = _mm256_packs_epi32(v[2], v[3]);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order);
    _mm256_storeu_si256((__m256i *)q, bytes);
}

static void quantize_block(const float *x, int8_t *q, float *d, int16_t *sum) {
    const __m256i a = _mm256_max_epu32(magnitude_bits(x), magnitude_bits(x + 8));
    const __m256i b = _mm256_max_epu32(magnitude_bits(x + 16), magnitude_bits(x + 24));
    const uint32_t amax_bits = fold_max_u32(_mm256_max_epu32(a, b));
    const float amax = f32_from_bits(amax_bits);
    const float id = amax_bits == 0 || amax_bits >= 0x7f800000u ? 0.0f : 127.0f / amax;
    if (id == 0.0f || id == INFINITY) {
        *d = amax_bits >= 0x7f800000u ? NAN : 0.0f;
        memset(q, 0, 32);
        sum[0] = sum[1] = 0;
        return;
    }
    *d = amax / 127.0f;
    __m256i v[4];
    for (int i = 0; i < 4; i++)
        v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(id)));
    store_int8(q, v);
    sum[0] = (int16_t)fold_add_i32(_mm256_add_epi32(v[0], v[1]));
    sum[1] = (int16_t)fold_add_i32(_mm256_add_epi32(v[2], v[3]));
}

static void quantize_row(const float *x, int64_t n, int8_t *q, float *d, int16_t *sum,
                         int64_t stride) {
    for (const float *end = x + n; x < end; x += 32) {
        quantize_block(x, q, d, sum);
        q += 32 * stride, d += stride, sum += 2 * stride;
    }
}

static uint64_t stream_read(const void *data, int64_t bytes, int64_t ahead) {
    const char *at = data;
    __m256i sum[8];
    for (int j = 0; j < 8; j++) sum[j] = _mm256_setzero_si256();
    for (const char *end = at + bytes; at < end; at += 256) {
        for (int j = 0; j < 8; j++) {
            if (ahead && j % 2 == 0) _mm_prefetch(at + ahead + 32 * j, _MM_HINT_T0);
            const __m256i line = _mm256_loadu_si256((const __m256i *)(at + 32 * j));
            sum[j] = _mm256_xor_si256(sum[j], line);
        }
    }
    for (int j = 1; j < 8; j++) sum[0] = _mm256_xor_si256(sum[0], sum[j]);
    return (uint64_t)_mm256_extract_epi64(sum[0], 0) + (uint64_t)_mm256_extract_epi64(sum[0], 1) +
           (uint64_t)_mm256_extract_epi64(sum[0], 2) + (uint64_t)_mm256_extract_epi64(sum[0], 3);
}

static bool is_here(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && x86_has_f16c();
}

// Leaf 7, part 1, says AVX-VNNI in bit 4 of eax; gcc 12 has no name for it.
static bool is_here_vnni(void) {
    unsigned a, b, c, d;
    if (!is_here() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || a < 1) return false;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 4 & 1;
}

const struct cpu_ops ops_avx2 = {.isa = ISA_AVX2,
                                 .name = "avx2",
                                 .is_here = is_here,
                                 SIMD_FUNCTIONS(simd_attention)};

// Only the matrix products use the added instruction.
const struct cpu_ops ops_avxvnni = {.isa = ISA_AVXVNNI,
                                    .name = "avxvnni",
                                    .is_here = is_here_vnni,
                                    SIMD_FUNCTIONS(simd_attention)};

#else
typedef int ops_avx2_is_empty; // ISO C wants a declaration
#endif
