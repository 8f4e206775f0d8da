// The ops for AVX-512 (F, BW, VL, DQ): the primitives of ops_simd.h on one register of 16 floats,
// the quantizer, and the tables. Compiled with VNNI, and once more without (ops_avx512bw.c). Must
// run only where is_here() says so.
#if defined(__x86_64__)

#include <immintrin.h>

#include "backend/cpu/ops.h"
#include "base/rmath.h"
#include "base/x86.h"

typedef __m512 v16;

#define INT(x)   _mm512_castps_si512(x)
#define FLOAT(x) _mm512_castsi512_ps(x)

static inline __mmask16 first_lanes(int n) { return (__mmask16)((1u << n) - 1u); }

static inline v16 v_load(const float *x) { return _mm512_loadu_ps(x); }
static inline v16 v_load_part(const float *x, int n) {
    return _mm512_maskz_loadu_ps(first_lanes(n), x);
}
static inline void v_store(float *x, v16 v) { _mm512_storeu_ps(x, v); }
static inline void v_store_part(float *x, v16 v, int n) {
    _mm512_mask_storeu_ps(x, first_lanes(n), v);
}
static inline v16 v_load_f16(const uint16_t *x) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x));
}
static inline v16 v_load_f16_part(const uint16_t *x, int n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), x));
}
static inline void v_store_f16(uint16_t *x, v16 v) {
    _mm256_storeu_si256((__m256i *)x, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
static inline v16 v_load_bf16(const uint16_t *x) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
// As f32_to_bf16.
static inline void v_store_bf16(uint16_t *x, v16 v) {
    const __m512i bits = _mm512_castps_si512(v), high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i nan = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    const __m512i out = _mm512_mask_mov_epi32(_mm512_srli_epi32(sum, 16),
                                              _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
    _mm256_storeu_si256((__m256i *)x, _mm512_cvtepi32_epi16(out));
}
static inline v16 v_set(float x) { return _mm512_set1_ps(x); }
static inline v16 v_add(v16 a, v16 b) { return _mm512_add_ps(a, b); }
static inline v16 v_sub(v16 a, v16 b) { return _mm512_sub_ps(a, b); }
static inline v16 v_mul(v16 a, v16 b) { return _mm512_mul_ps(a, b); }
static inline v16 v_div(v16 a, v16 b) { return _mm512_div_ps(a, b); }
static inline v16 v_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
static inline v16 v_max(v16 a, v16 b) { return _mm512_max_ps(a, b); }
// With x second, a NaN passes.
static inline v16 v_clamp_exp(v16 x) {
    x = _mm512_max_ps(_mm512_set1_ps(RMATH_EXP_LO), x);
    return _mm512_min_ps(_mm512_set1_ps(RMATH_EXP_HI), x);
}
// One rounding, as the reference's two factors.
static inline v16 v_exp2(v16 p, v16 z, v16 n) {
    (void)z;
    return _mm512_scalef_ps(p, n);
}
static inline v16 v_abs(v16 x) { return _mm512_abs_ps(x); }
static inline v16 v_or_sign(v16 x, v16 sign) {
    return _mm512_or_ps(x, _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}
static inline v16 v_less(v16 a, v16 b, v16 x, v16 y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
static inline v16 v_lanes(v16 x, int lo, int hi, v16 y) {
    const uint32_t below_hi = hi >= 16 ? 0xffffu : (1u << hi) - 1u;
    const uint32_t below_lo = lo <= 0 ? 0 : (1u << lo) - 1u;
    return _mm512_mask_blend_ps((__mmask16)(below_hi & ~below_lo), y, x);
}
static inline float v_fold_add(v16 v) {
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
static inline float v_fold_max(v16 v) { return _mm512_reduce_max_ps(v); }
static inline v16 v_pair_even(v16 x) { return _mm512_moveldup_ps(x); }
static inline v16 v_pair_odd(v16 x) { return _mm512_movehdup_ps(x); }
static inline v16 v_pair_swap_negate(v16 cs) { // (c, s) to (-s, c)
    const v16 swapped = _mm512_permute_ps(cs, 0xb1);
    return FLOAT(_mm512_xor_si512(INT(swapped), _mm512_set1_epi64(0x80000000)));
}

static inline v16 v_swap1(v16 x) { return _mm512_permute_ps(x, 0xb1); }
static inline v16 v_swap2(v16 x) { return _mm512_permute_ps(x, 0x4e); }
static inline v16 v_swap4(v16 x) { return _mm512_shuffle_f32x4(x, x, 0xb1); }
static inline v16 v_swap8(v16 x) { return _mm512_shuffle_f32x4(x, x, 0x4e); }
static inline v16 v_load_i8(const int8_t *x) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)x)));
}
static inline void v_store_i8(int8_t *x, v16 v) {
    _mm_storeu_si128((__m128i *)x, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}
// The permutation looks at the low 4 bits of a lane only.
static inline v16 v_load_i4(const uint8_t *x, bool high) {
    const v16 value = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    const __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)x));
    return _mm512_permutexvar_ps(high ? _mm512_srli_epi32(code, 4) : code, value);
}

typedef __m512i i16;
static inline i16 i_set(int32_t x) { return _mm512_set1_epi32(x); }
static inline i16 i_load(const uint8_t *x) { return _mm512_loadu_si512(x); }
static inline i16 i_low(i16 x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
static inline i16 i_high(i16 x) { return i_low(_mm512_srli_epi16(x, 4)); }
static inline v16 i_float(i16 x) { return _mm512_cvtepi32_ps(x); }
#if defined(__AVX512VNNI__)
enum { DOT8_ZERO = 128, DOT4_ZERO = 8 };
// As the intrinsic, for which gcc 12 copies the sums of a loop twice, and spills some of them.
static inline i16 i_dot4(i16 acc, i16 x, i16 q) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(x), "v"(q));
    return acc;
}
static inline i16 i_dot8(i16 acc, i16 x, i16 q) {
    return i_dot4(acc, _mm512_xor_si512(x, _mm512_set1_epi8(-128)), q);
}
static inline i16 i_mac(i16 acc, i16 x, i16 w) { return _mm512_dpwssd_epi32(acc, x, w); }
#else
enum { DOT8_ZERO = 0, DOT4_ZERO = 8 };
// x unsigned; the sum of two products fits 16 bits: 2 * 128 * 127, or 2 * 15 * 127.
static inline i16 i_dot4(i16 acc, i16 x, i16 q) {
    const __m512i pairs = _mm512_maddubs_epi16(x, q);
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
static inline i16 i_dot8(i16 acc, i16 x, i16 q) { // the sign of a code goes to q
    q = _mm512_mask_sub_epi8(q, _mm512_movepi8_mask(x), _mm512_setzero_si512(), q);
    return i_dot4(acc, _mm512_abs_epi8(x), q);
}
static inline i16 i_mac(i16 acc, i16 x, i16 w) {
    return _mm512_add_epi32(acc, _mm512_madd_epi16(x, w));
}
#endif

static inline v16 v_of_codes(i16 x) { return FLOAT(x); }
static inline void v_transpose(v16 x[16]) {
    v16 pair[16], four[16];
    for (int i = 0; i < 16; i += 2) {
        pair[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        pair[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
#define PAIRS(f, a, b) _mm512_castpd_ps(f(_mm512_castps_pd(a), _mm512_castps_pd(b)))
    for (int i = 0; i < 16; i += 4) { // quarter q of four[i + c]: rows i to i + 3 of lane 4 q + c
        four[i] = PAIRS(_mm512_unpacklo_pd, pair[i], pair[i + 2]);
        four[i + 1] = PAIRS(_mm512_unpackhi_pd, pair[i], pair[i + 2]);
        four[i + 2] = PAIRS(_mm512_unpacklo_pd, pair[i + 1], pair[i + 3]);
        four[i + 3] = PAIRS(_mm512_unpackhi_pd, pair[i + 1], pair[i + 3]);
    }
#undef PAIRS
    for (int c = 0; c < 4; c++) {
        const v16 a = four[c], b = four[4 + c], d = four[8 + c], e = four[12 + c];
        const v16 even = _mm512_shuffle_f32x4(a, b, 0x88), odd = _mm512_shuffle_f32x4(a, b, 0xdd);
        const v16 even2 = _mm512_shuffle_f32x4(d, e, 0x88), odd2 = _mm512_shuffle_f32x4(d, e, 0xdd);
        x[c] = _mm512_shuffle_f32x4(even, even2, 0x88);
        x[4 + c] = _mm512_shuffle_f32x4(odd, odd2, 0x88);
        x[8 + c] = _mm512_shuffle_f32x4(even, even2, 0xdd);
        x[12 + c] = _mm512_shuffle_f32x4(odd, odd2, 0xdd);
    }
}

enum { QUAD_LINES = 2 };
static inline void i_quads(i16 x[4]) {
    const __m512i order = _mm512_set4_epi32(0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400);
    for (int i = 0; i < 4; i++) x[i] = _mm512_shuffle_epi8(x[i], order);
    const i16 even = _mm512_shuffle_i32x4(x[0], x[1], 0x88);
    const i16 odd = _mm512_shuffle_i32x4(x[0], x[1], 0xdd);
    const i16 even2 = _mm512_shuffle_i32x4(x[2], x[3], 0x88);
    const i16 odd2 = _mm512_shuffle_i32x4(x[2], x[3], 0xdd);
    x[0] = _mm512_shuffle_i32x4(even, even2, 0x88);
    x[1] = _mm512_shuffle_i32x4(odd, odd2, 0x88);
    x[2] = _mm512_shuffle_i32x4(even, even2, 0xdd);
    x[3] = _mm512_shuffle_i32x4(odd, odd2, 0xdd);
}
// Lines of 16-bit codes: tokens 0 and 2 of the quad, then 1 and 3.
static inline void i_quad_store(uint8_t *line, int64_t stride, i16 x) {
    _mm512_storeu_si512(line, _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8));
    _mm512_storeu_si512(line + stride, _mm512_srai_epi16(x, 8));
}
// Words 0, 2, 1, 3 of each quad: the low halves of the lanes.
static inline void i_weights_store(uint8_t *row, int t, const v16 x[2]) {
    const __m512i order =
        _mm512_set_epi16(0x3e, 0x3a, 0x3c, 0x38, 0x36, 0x32, 0x34, 0x30, 0x2e, 0x2a, 0x2c, 0x28,
                         0x26, 0x22, 0x24, 0x20, 0x1e, 0x1a, 0x1c, 0x18, 0x16, 0x12, 0x14, 0x10,
                         0x0e, 0x0a, 0x0c, 0x08, 0x06, 0x02, 0x04, 0x00);
    _mm512_storeu_si512(row + 2 * t, _mm512_permutex2var_epi16(INT(x[0]), order, INT(x[1])));
}
static inline i16 i_total(const int32_t *sum, int next) {
    (void)next;
    return _mm512_loadu_si512(sum);
}
static inline void i_store(int32_t *at, i16 x) { _mm512_storeu_si512(at, x); }

enum { SCORE_QUERIES = 8, VALUE_QUERIES = 8 };
#define SCORE_VECS    2
#define VALUE_VECS(n) 2

#include "backend/cpu/ops_simd.h"

static void quantize_block(const float *x, int8_t *q, float *d, int16_t *sum) {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + 16);
    const __m512i a0 = _mm512_and_si512(INT(x0), magnitude);
    const __m512i a1 = _mm512_and_si512(INT(x1), magnitude);
    const uint32_t amax_bits = _mm512_reduce_max_epu32(_mm512_max_epu32(a0, a1));
    const float amax = f32_from_bits(amax_bits);
    const float id = amax_bits == 0 || amax_bits >= 0x7f800000u ? 0.0f : 127.0f / amax;
    if (id == 0.0f || id == INFINITY) {
        *d = amax_bits >= 0x7f800000u ? NAN : 0.0f;
        memset(q, 0, 32);
        sum[0] = sum[1] = 0;
        return;
    }
    *d = amax / 127.0f;
    const __m512 factor = _mm512_set1_ps(id);
    const __m512i q0 = _mm512_cvtps_epi32(_mm512_mul_ps(x0, factor));
    const __m512i q1 = _mm512_cvtps_epi32(_mm512_mul_ps(x1, factor));
    _mm_storeu_si128((__m128i *)q, _mm512_cvtepi32_epi8(q0));
    _mm_storeu_si128((__m128i *)(q + 16), _mm512_cvtepi32_epi8(q1));
    sum[0] = (int16_t)_mm512_reduce_add_epi32(q0);
    sum[1] = (int16_t)_mm512_reduce_add_epi32(q1);
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
    __m512i sum[8];
    for (int j = 0; j < 8; j++) sum[j] = _mm512_setzero_si512();
    for (const char *end = at + bytes; at < end; at += 512) {
        for (int j = 0; j < 8; j++) {
            if (ahead) _mm_prefetch(at + ahead + 64 * j, _MM_HINT_T0);
            sum[j] = _mm512_xor_si512(sum[j], _mm512_loadu_si512(at + 64 * j));
        }
    }
    for (int j = 1; j < 8; j++) sum[0] = _mm512_xor_si512(sum[0], sum[j]);
    return (uint64_t)_mm512_reduce_add_epi64(sum[0]);
}

// All that the file is compiled for: a hypervisor may hide FMA or F16C and leave AVX-512.
static bool is_here(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("fma") && x86_has_f16c();
}

#if defined(__AVX512VNNI__)

static bool is_here_vnni(void) { return is_here() && __builtin_cpu_supports("avx512vnni"); }

static bool is_here_amx(void) { return is_here_vnni() && x86_takes_amx_int8(); }

const struct cpu_ops ops_avx512 = {.isa = ISA_AVX512,
                                   .name = "avx512",
                                   .is_here = is_here_vnni,
                                   SIMD_FUNCTIONS(simd_attention)};

void attention_avx512_tiles(const struct attention_args *args, float *scratch,
                            const struct latent_kernels *tiles) {
    attention_run(args, scratch, tiles);
}

static void amx_attention(const struct attention_args *args, float *scratch) {
    attention_run(args, scratch, &latent_amx);
}

// Matrix products and attention over a latent use the added instructions.
const struct cpu_ops ops_amx = {.isa = ISA_AMX,
                                .name = "amx",
                                .is_here = is_here_amx,
                                SIMD_FUNCTIONS(amx_attention)};

#else

const struct cpu_ops ops_avx512bw = {.isa = ISA_AVX512BW,
                                     .name = "avx512bw",
                                     .is_here = is_here,
                                     SIMD_FUNCTIONS(simd_attention)};

#endif

#else
typedef int ops_avx512_is_empty; // ISO C wants a declaration
#endif
