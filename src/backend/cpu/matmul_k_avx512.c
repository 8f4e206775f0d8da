// AVX-512 codecs of the formats with blocks of 256 columns (see matmul_avx512.h; layouts:
// matmul_layout.h). Reached through matmul_table.c.
#if defined(__x86_64__)

#include "backend/cpu/matmul_codes_avx512.h"
#include "backend/cpu/matmul_one_avx512.h"
#include "backend/cpu/matmul_table.h"
#include "quant/iq4_nl.h"

#define FOURS 0x0004000400040004 // shifts of four words

INLINE __m128i row_bytes(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)p); }

INLINE __m128i shift_right(__m128i v, int count) {
    return _mm_srl_epi16(v, _mm_cvtsi32_si128(count));
}

INLINE __m128i and_bits(__m128i v, int bits) { return _mm_and_si128(v, _mm_set1_epi8((char)bits)); }

// 16 unsigned bytes - zero, as floats, times d.
INLINE __m512 times(__m128i bytes, const int zero, __m512 d) {
    const __m512i wide = _mm512_sub_epi32(_mm512_cvtepu8_epi32(bytes), _mm512_set1_epi32(zero));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(wide));
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

INLINE void k_scales(const uint8_t *unit, int block, __m512 *scale) {
    const __m128i low = and_bits(row_bytes(unit + K_LOW + MATMUL_GROUP * block), 15);
    scale[0] = times(six_bits(low, k_high(unit, block), 0), 0, load_f16(unit));
}

INLINE void k_mins(const uint8_t *unit, int block, __m512 *min) {
    const __m128i low = row_bytes(unit + K_LOW + MATMUL_GROUP * block);
    const __m128i six = six_bits(and_bits(_mm_srli_epi16(low, 4), 15), k_high(unit, block), 2);
    const __m512 minus = _mm512_castsi512_ps(_mm512_set1_epi32((int)0x80000000u));
    min[0] = times(six, 0, _mm512_xor_ps(load_f16(unit + K_DMIN), minus));
}

INLINE void codes_q4_k(const uint8_t *unit, int block, __m512i *q) {
    codes_nibbles(unit + K_CODES + PACK_NIBBLES * block, q);
}

INLINE void halves_q4_k(const uint8_t *unit, int block, __m512i *q) {
    codes_halves(unit + K_CODES + PACK_NIBBLES * block, q);
}

// 6 bits of 4 spans twice, from the two nibbles of a byte and those of K_HIGH: [4 spans][16].
INLINE void k_sixes(const uint8_t *unit, const int part, __m512i *first, __m512i *second) {
    const __m512i low = load(unit + K_LOW + PACK_VECTOR * part), high = load(unit + K_HIGH);
    const __m512i pairs =
        part == 0 ? _mm512_shuffle_i64x2(high, high, 0x50) : _mm512_shuffle_i64x2(high, high, 0xfa);
    const __m512i odd = _mm512_setr_epi64(0, 0, FOURS, FOURS, 0, 0, FOURS, FOURS);
    const __m512i four = _mm512_set1_epi8(15), two = _mm512_set1_epi8(0x30);
    const __m512i twos = _mm512_srlv_epi16(pairs, odd);
    *first = or_and(_mm512_and_si512(low, four), _mm512_slli_epi16(twos, 4), two);
    *second =
        or_and(_mm512_and_si512(_mm512_srli_epi16(low, 4), four), _mm512_slli_epi16(twos, 2), two);
}

INLINE __m512 minus_f16(const uint8_t *p) {
    return _mm512_xor_ps(load_f16(p), _mm512_castsi512_ps(_mm512_set1_epi32((int)0x80000000u)));
}

INLINE void header_k(const uint8_t *unit, struct header *out) {
    out->d = load_f16(unit);
    out->dmin = minus_f16(unit + K_DMIN);
    for (int part = 0; part < 2; part++) {
        __m512i scale, min;
        k_sixes(unit, part, &scale, &min);
        _mm512_store_si512(out->scale[4 * part], scale);
        _mm512_store_si512(out->min[4 * part], min);
    }
}

INLINE void codes_q5_k(const uint8_t *unit, int block, __m512i *q) {
    codes_fives(unit + K_CODES + PACK_FIVES * block, q);
}

// --- Q6_K ---

INLINE void scales_q6_k(const uint8_t *unit, int block, __m512 *scale) {
    const __m512 d = load_f16(unit);
    for (int s = 0; s < 2; s++) {
        const __m128i bytes = row_bytes(unit + Q6_K_SCALE + MATMUL_GROUP * (2 * block + s));
        scale[s] = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
    }
}

INLINE void header_q6_k(const uint8_t *unit, struct header *out) {
    out->d = load_f16(unit);
    for (int i = 0; i < 16; i += 4)
        _mm512_store_si512(out->scale[i], load(unit + Q6_K_SCALE + MATMUL_GROUP * i));
}

INLINE void codes_q6_k(const uint8_t *unit, int block, __m512i *q) {
    const __m512i low = _mm512_set1_epi8(15), upper = _mm512_set1_epi8(0x30);
    const uint8_t *w = unit + Q6_K_CODES + Q6_K_SPAN * 2 * block;
    for (int s = 0; s < 2; s++, w += Q6_K_SPAN, q += 4) {
        const __m512i v0 = load(w), v1 = load(w + PACK_VECTOR), v2 = load(w + 2 * PACK_VECTOR);
        const __m512i h0 = _mm512_and_si512(v0, low), h1 = _mm512_and_si512(v1, low);
        const __m512i h2 = _mm512_and_si512(_mm512_srli_epi16(v0, 4), low);
        const __m512i h3 = _mm512_and_si512(_mm512_srli_epi16(v1, 4), low);
        q[0] = or_and(h0, _mm512_slli_epi16(v2, 4), upper);
        q[1] = or_and(h1, _mm512_slli_epi16(v2, 2), upper);
        q[2] = or_and(h2, v2, upper);
        q[3] = or_and(h3, _mm512_srli_epi16(v2, 2), upper);
    }
}

// --- Q2_K ---

INLINE void scales_q2_k(const uint8_t *unit, int block, __m512 *scale) {
    const __m512 d = load_f16(unit);
    for (int s = 0; s < 2; s++) {
        const __m128i bytes = row_bytes(unit + Q2_K_SCALE + MATMUL_GROUP * (2 * block + s));
        scale[s] = times(and_bits(bytes, 15), 0, d);
    }
}

INLINE void mins_q2_k(const uint8_t *unit, int block, __m512 *min) {
    const __m512 minus = _mm512_castsi512_ps(_mm512_set1_epi32((int)0x80000000u));
    const __m512 dmin = _mm512_xor_ps(load_f16(unit + K_DMIN), minus);
    for (int s = 0; s < 2; s++) {
        const __m128i bytes = row_bytes(unit + Q2_K_SCALE + MATMUL_GROUP * (2 * block + s));
        min[s] = times(and_bits(_mm_srli_epi16(bytes, 4), 15), 0, dmin);
    }
}

INLINE void header_q2_k(const uint8_t *unit, struct header *out) {
    const __m512i four = _mm512_set1_epi8(15);
    out->d = load_f16(unit);
    out->dmin = minus_f16(unit + K_DMIN);
    for (int i = 0; i < 16; i += 4) {
        const __m512i both = load(unit + Q2_K_SCALE + MATMUL_GROUP * i);
        _mm512_store_si512(out->scale[i], _mm512_and_si512(both, four));
        _mm512_store_si512(out->min[i], _mm512_and_si512(_mm512_srli_epi16(both, 4), four));
    }
}

INLINE void codes_q2_k(const uint8_t *unit, int block, __m512i *q) {
    codes_twos(unit + Q2_K_CODES + PACK_VECTOR * 2 * block, q);
    codes_twos(unit + Q2_K_CODES + PACK_VECTOR * (2 * block + 1), q + 4);
}

// --- Q3_K ---

INLINE void scales_q3_k(const uint8_t *unit, int block, __m512 *scale) {
    const __m512 d = load_f16(unit);
    const __m128i low = row_bytes(unit + K_LOW + MATMUL_GROUP * block);
    const __m128i high = row_bytes(unit + K_HIGH + MATMUL_GROUP * (block / 2));
    const int at = 4 * (block % 2);
    scale[0] = times(six_bits(and_bits(low, 15), high, at), 32, d);
    scale[1] = times(six_bits(and_bits(_mm_srli_epi16(low, 4), 15), high, at + 2), 32, d);
}

INLINE void header_q3_k(const uint8_t *unit, struct header *out) {
    out->d = load_f16(unit);
    for (int part = 0; part < 2; part++) {
        __m512i even, odd;
        k_sixes(unit, part, &even, &odd);
        even = _mm512_sub_epi8(even, _mm512_set1_epi8(32));
        odd = _mm512_sub_epi8(odd, _mm512_set1_epi8(32));
        // spans 0 2 4 6 and 1 3 5 7 to their order
        const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
        const __m512i high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
        _mm512_store_si512(out->scale[8 * part], _mm512_permutex2var_epi64(even, low, odd));
        _mm512_store_si512(out->scale[8 * part + 4], _mm512_permutex2var_epi64(even, high, odd));
    }
}

INLINE void codes_q3_k(const uint8_t *unit, int block, __m512i *q) {
    const uint8_t *w = unit + K_CODES + Q3_K_PART * block;
    const __m512i plane = load(w + 2 * PACK_VECTOR), third = _mm512_set1_epi8(4);
    codes_twos(w, q);
    codes_twos(w + PACK_VECTOR, q + 4);
    for (int i = 0; i < QUADS; i++) q[i] = or_and(q[i], bit_move(plane, i, 2), third);
}

// --- IQ4_XS ---

INLINE void scales_iq4_xs(const uint8_t *unit, int block, __m512 *scale) {
    const __m128i low = row_bytes(unit + IQ4_XS_LOW + MATMUL_GROUP * (block / 2));
    const __m128i high = row_bytes(unit + IQ4_XS_HIGH + MATMUL_GROUP * (block / 4));
    const __m128i four = and_bits(shift_right(low, 4 * (block % 2)), 15);
    scale[0] = times(six_bits(four, high, 2 * (block % 4)), 32, load_f16(unit));
}

INLINE void header_iq4_xs(const uint8_t *unit, struct header *out) {
    const __m512i four = _mm512_set1_epi8(15), two = _mm512_set1_epi8(0x30);
    const __m512i odd = _mm512_setr_epi64(0, 0, FOURS, FOURS, 0, 0, FOURS, FOURS);
    const __m512i twice =
        _mm512_setr_epi64(0, 0, FOURS / 2, FOURS / 2, FOURS, FOURS, FOURS / 2 * 3, FOURS / 2 * 3);
    const __m512i low = load(unit + IQ4_XS_LOW);
    out->d = load_f16(unit);
    for (int part = 0; part < 2; part++) {
        const __m512i pairs =
            part == 0 ? _mm512_shuffle_i64x2(low, low, 0x50) : _mm512_shuffle_i64x2(low, low, 0xfa);
        const __m512i nibbles = _mm512_and_si512(_mm512_srlv_epi16(pairs, odd), four);
        const __m512i high =
            _mm512_broadcast_i32x4(row_bytes(unit + IQ4_XS_HIGH + MATMUL_GROUP * part));
        const __m512i twos = _mm512_slli_epi16(_mm512_srlv_epi16(high, twice), 4);
        const __m512i six = or_and(nibbles, twos, two);
        _mm512_store_si512(out->scale[4 * part], _mm512_sub_epi8(six, _mm512_set1_epi8(32)));
    }
}

INLINE void codes_iq4_xs(const uint8_t *unit, int block, __m512i *q) {
    codes_nibbles(unit + IQ4_XS_CODES + PACK_NIBBLES * block, q);
    codes_levels(iq4_nl_level, 128, q);
}

#define K_CODEC(name, columns, code_bits, offset, zero_point, scale_fn, min_fn, header_fn,         \
                codes_fn)                                                                          \
    static const struct codec codec_##name = {                                                     \
        .span = columns,                                                                           \
        .bits = code_bits,                                                                         \
        .zero = zero_point,                                                                        \
        .offsets = offset,                                                                         \
        .unit_blocks = UNIT_COLS_##name / 32,                                                      \
        .unit_bytes = UNIT_BYTES_##name,                                                           \
        .codes = codes_##name,                                                                     \
        .scales = scale_fn,                                                                        \
        .mins = min_fn,                                                                            \
        .codes_one = codes_fn,                                                                     \
        .header = header_fn,                                                                       \
    };                                                                                             \
    MATMUL_BLOCK(name, name) MATMUL_ONE(name, name)

K_CODEC(q4_k, 32, 4, true, 0, k_scales, k_mins, header_k, halves_q4_k)
K_CODEC(q5_k, 32, 5, true, 0, k_scales, k_mins, header_k, NULL)
K_CODEC(q6_k, 16, 6, false, 32, scales_q6_k, NULL, header_q6_k, NULL)
K_CODEC(q2_k, 16, 4, true, 0, scales_q2_k, mins_q2_k, header_q2_k, NULL)
K_CODEC(q3_k, 16, 4, false, 4, scales_q3_k, NULL, header_q3_k, NULL)
K_CODEC(iq4_xs, 32, 8, false, 128, scales_iq4_xs, NULL, header_iq4_xs, NULL)

#endif
