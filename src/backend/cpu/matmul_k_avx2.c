// AVX2 codecs of the formats with blocks of 256 columns (see matmul_avx2.h; layouts:
// matmul_layout.h). Reached through matmul_table.c; matmul_avxvnni.c includes this, too.
#if defined(__x86_64__)

#include "backend/cpu/matmul_avx2.h"
#include "backend/cpu/matmul_codes_avx2.h"
#include "backend/cpu/matmul_table.h"
#include "quant/iq4_nl.h"

INLINE __m128i row_bytes(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)p); }

INLINE __m128i shift_right(__m128i v, int count) {
    return _mm_srl_epi16(v, _mm_cvtsi32_si128(count));
}

INLINE __m128i and_bits(__m128i v, int bits) { return _mm_and_si128(v, _mm_set1_epi8((char)bits)); }

// 16 signed bytes as floats, times d.
INLINE struct rows times(__m128i bytes, struct rows d) {
    const __m256i low = _mm256_cvtepi8_epi32(bytes);
    const __m256i high = _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes));
    return (struct rows){{_mm256_mul_ps(d.half[0], _mm256_cvtepi32_ps(low)),
                          _mm256_mul_ps(d.half[1], _mm256_cvtepi32_ps(high))}};
}

INLINE __m128i minus_32(__m128i bytes) { return _mm_sub_epi8(bytes, _mm_set1_epi8(32)); }

INLINE struct rows negative(struct rows d) {
    const __m256 minus = _mm256_set1_ps(-0.0f);
    return (struct rows){{_mm256_xor_ps(d.half[0], minus), _mm256_xor_ps(d.half[1], minus)}};
}

// 6 bits from the low 4 and, somewhere in high, the upper 2 at bit `at`.
INLINE __m128i six_bits(__m128i low4, __m128i high, int at) {
    const __m128i two = and_bits(shift_right(high, at), 3);
    return _mm_or_si128(low4, _mm_slli_epi16(two, 4));
}

// --- Q4_K, Q5_K ---

INLINE __m128i k_high(const uint8_t *unit, int block) {
    return shift_right(row_bytes(unit + K_HIGH + MATMUL_GROUP * (block / 2)), 4 * (block % 2));
}

INLINE struct rows k_scale(const uint8_t *unit, int block, int span) {
    const __m128i low = and_bits(row_bytes(unit + K_LOW + MATMUL_GROUP * block), 15);
    (void)span;
    return times(six_bits(low, k_high(unit, block), 0), load_f16(unit));
}

INLINE struct rows k_offset(const uint8_t *unit, int block, int span) {
    const __m128i low = row_bytes(unit + K_LOW + MATMUL_GROUP * block);
    const __m128i six = six_bits(and_bits(_mm_srli_epi16(low, 4), 15), k_high(unit, block), 2);
    (void)span;
    return times(six, negative(load_f16(unit + K_DMIN)));
}

INLINE void codes_q4_k(const uint8_t *unit, int block, int half, int part, __m256i *q) {
    codes_nibbles(unit + K_CODES + PACK_NIBBLES * block + HALF_VECTOR * half, part, q);
}

INLINE void codes_q5_k(const uint8_t *unit, int block, int half, int part, __m256i *q) {
    codes_fives(unit + K_CODES + PACK_FIVES * block + HALF_VECTOR * half, part, q);
}

// --- Q6_K ---

INLINE struct rows scale_q6_k(const uint8_t *unit, int block, int span) {
    const uint8_t *bytes = unit + Q6_K_SCALE + MATMUL_GROUP * (2 * block + span);
    return times(row_bytes(bytes), load_f16(unit));
}

INLINE void codes_q6_k(const uint8_t *unit, int block, int half, int part, __m256i *q) {
    const int i = part % 2;
    const uint8_t *w = unit + Q6_K_CODES + Q6_K_SPAN * (2 * block + part / 2) + HALF_VECTOR * half;
    const __m256i v = load(w + PACK_VECTOR * i), upper = load(w + 2 * PACK_VECTOR);
    const __m256i first = _mm256_slli_epi16(upper, 4 - 2 * i);
    const __m256i second = _mm256_srli_epi16(upper, 2 * i);
    q[0] = _mm256_or_si256(and_bytes(v, 15), and_bytes(first, 0x30));
    q[1] = _mm256_or_si256(and_bytes(_mm256_srli_epi16(v, 4), 15), and_bytes(second, 0x30));
}

// --- Q2_K ---

INLINE struct rows scale_q2_k(const uint8_t *unit, int block, int span) {
    const __m128i bytes = row_bytes(unit + Q2_K_SCALE + MATMUL_GROUP * (2 * block + span));
    return times(and_bits(bytes, 15), load_f16(unit));
}

INLINE struct rows offset_q2_k(const uint8_t *unit, int block, int span) {
    const __m128i bytes = row_bytes(unit + Q2_K_SCALE + MATMUL_GROUP * (2 * block + span));
    const __m128i four = and_bits(_mm_srli_epi16(bytes, 4), 15);
    return times(four, negative(load_f16(unit + K_DMIN)));
}

INLINE void codes_q2_k(const uint8_t *unit, int block, int half, int part, __m256i *q) {
    const uint8_t *w = unit + Q2_K_CODES + PACK_VECTOR * (2 * block + part / 2);
    codes_twos(w + HALF_VECTOR * half, part % 2, q);
}

// --- Q3_K ---

INLINE struct rows scale_q3_k(const uint8_t *unit, int block, int span) {
    const __m128i low = row_bytes(unit + K_LOW + MATMUL_GROUP * block);
    const __m128i high = row_bytes(unit + K_HIGH + MATMUL_GROUP * (block / 2));
    const __m128i four = and_bits(_mm_srli_epi16(low, 4 * span), 15);
    return times(minus_32(six_bits(four, high, 4 * (block % 2) + 2 * span)), load_f16(unit));
}

INLINE void codes_q3_k(const uint8_t *unit, int block, int half, int part, __m256i *q) {
    const uint8_t *w = unit + K_CODES + Q3_K_PART * block + HALF_VECTOR * half;
    const __m256i plane = load(w + 2 * PACK_VECTOR);
    const int first = quad_first(16, part);
    codes_twos(w + PACK_VECTOR * (part / 2), part % 2, q);
    q[0] = bit_add(q[0], plane, first, 2);
    q[1] = bit_add(q[1], plane, first + 2, 2);
}

// --- IQ4_XS ---

INLINE struct rows scale_iq4_xs(const uint8_t *unit, int block, int span) {
    const __m128i low = row_bytes(unit + IQ4_XS_LOW + MATMUL_GROUP * (block / 2));
    const __m128i high = row_bytes(unit + IQ4_XS_HIGH + MATMUL_GROUP * (block / 4));
    const __m128i four = and_bits(shift_right(low, 4 * (block % 2)), 15);
    (void)span;
    return times(minus_32(six_bits(four, high, 2 * (block % 4))), load_f16(unit));
}

INLINE void codes_iq4_xs(const uint8_t *unit, int block, int half, int part, __m256i *q) {
    codes_nibbles(unit + IQ4_XS_CODES + PACK_NIBBLES * block + HALF_VECTOR * half, part, q);
    codes_levels(iq4_nl_level, 128, q);
}

// name, layout, span, bits, zero, fetch, scale, offset
CODEC(q4_k, q4_k, 32, 4, 0, NONE, k_scale, k_offset)
CODEC(q5_k, q5_k, 32, 5, 0, L2, k_scale, k_offset)
CODEC(q6_k, q6_k, 16, 6, 32, L2, scale_q6_k, NULL)
CODEC(q2_k, q2_k, 16, 2, 0, L2, scale_q2_k, offset_q2_k)
CODEC(q3_k, q3_k, 16, 3, 4, L2, scale_q3_k, NULL)
CODEC(iq4_xs, iq4_xs, 32, 8, 128, L2, scale_iq4_xs, NULL)

#endif
