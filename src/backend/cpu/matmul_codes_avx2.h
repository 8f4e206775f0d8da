// How a part of the packed codes becomes bytes, for the AVX2 and AVX-VNNI codecs; matmul_layout.h
// defines nibbles, bits and twos. The pointer w is to the half's own bytes of a block. Included by
// the files of codecs only.
#ifndef RN_BACKEND_CPU_MATMUL_CODES_AVX2_H
#define RN_BACKEND_CPU_MATMUL_CODES_AVX2_H

#include "backend/cpu/matmul_avx2.h"

INLINE __m256i and_bytes(__m256i v, const int bits) {
    return _mm256_and_si256(v, _mm256_set1_epi8((char)bits));
}

INLINE void codes_nibbles(const uint8_t *w, int part, __m256i *q) {
    const __m256i v = load(w + PACK_VECTOR * part);
    q[0] = and_bytes(v, 15);
    q[1] = and_bytes(_mm256_srli_epi16(v, 4), 15);
}

// q with bit i of each byte of plane as bit `to`, which it does not have yet.
INLINE __m256i bit_add(__m256i q, __m256i plane, const int i, const int to) {
    const __m256i moved =
        i < to ? _mm256_slli_epi16(plane, to - i) : _mm256_srli_epi16(plane, i - to);
    return _mm256_or_si256(q, and_bytes(moved, 1 << to));
}

INLINE void codes_fives(const uint8_t *w, int part, __m256i *q) {
    const __m256i plane = load(w + PACK_NIBBLES);
    codes_nibbles(w, part, q);
    q[0] = bit_add(q[0], plane, part, 4);
    q[1] = bit_add(q[1], plane, part + 4, 4);
}

// Nibbles to their levels + zero.
INLINE void codes_levels(const int8_t level[16], const int zero, __m256i *q) {
    const __m128i plus = _mm_set1_epi8((char)zero);
    const __m128i one = _mm_add_epi8(_mm_loadu_si128((const __m128i *)level), plus);
    const __m256i table = _mm256_broadcastsi128_si256(one);
    q[0] = _mm256_shuffle_epi8(table, q[0]);
    q[1] = _mm256_shuffle_epi8(table, q[1]);
}

// Quads i and i + 2 of 16 columns from 2 bits each.
INLINE void codes_twos(const uint8_t *w, int i, __m256i *q) {
    const __m256i v = load(w);
    q[0] = and_bytes(_mm256_srli_epi16(v, 2 * i), 3);
    q[1] = and_bytes(_mm256_srli_epi16(v, 2 * i + 4), 3);
}

#endif
