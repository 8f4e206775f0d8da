// How packed codes become quads of unsigned bytes with AVX-512; shared by the codecs of
// matmul_blocks_avx512.c and matmul_k_avx512.c.
#ifndef RN_BACKEND_CPU_MATMUL_CODES_AVX512_H
#define RN_BACKEND_CPU_MATMUL_CODES_AVX512_H

#if defined(__AVX512VNNI__)
#include "backend/cpu/matmul_avx512.h"
#else
#include "backend/cpu/matmul_avx512bw.h"
#endif

INLINE void codes_nibbles(const uint8_t *w, __m512i *q) {
    const __m512i low = _mm512_set1_epi8(15);
    for (int i = 0; i < 4; i++) {
        const __m512i v = load(w + PACK_VECTOR * i);
        q[i] = _mm512_and_si512(v, low);
        q[i + 4] = _mm512_and_si512(_mm512_srli_epi16(v, 4), low);
    }
}

// A load that is not made twice, as the operand of two instructions.
INLINE __m512i load_once(const uint8_t *p) {
    __m512i v = load(p);
    __asm__("" : "+v"(v));
    return v;
}

// The high halves in place: 16 times their value, without a shift.
INLINE void codes_halves(const uint8_t *w, __m512i *q) {
    const __m512i low = _mm512_set1_epi8(15);
    for (int i = 0; i < 4; i++) {
        const __m512i v = load_once(w + PACK_VECTOR * i);
        q[i] = _mm512_and_si512(v, low);
        q[i + 4] = _mm512_andnot_si512(low, v);
    }
}

// a | (b & c) in one instruction
INLINE __m512i or_and(__m512i a, __m512i b, __m512i c) {
    return _mm512_ternarylogic_epi32(a, b, c, 0xf8);
}

// Bit i of each byte of plane to bit `to`.
INLINE __m512i bit_move(__m512i plane, const int i, const int to) {
    return i < to ? _mm512_slli_epi16(plane, (unsigned)(to - i))
                  : _mm512_srli_epi16(plane, (unsigned)(i - to));
}

INLINE void codes_fives(const uint8_t *w, __m512i *q) {
    const __m512i plane = load(w + PACK_NIBBLES), fifth = _mm512_set1_epi8(16);
    codes_nibbles(w, q);
    for (int i = 0; i < QUADS; i++) q[i] = or_and(q[i], bit_move(plane, i, 4), fifth);
}

// Nibbles to their levels + zero.
INLINE void codes_levels(const int8_t level[16], const int zero, __m512i *q) {
    const __m128i plus = _mm_set1_epi8((char)zero);
    const __m128i one = _mm_add_epi8(_mm_loadu_si128((const __m128i *)level), plus);
    const __m512i table = _mm512_broadcast_i32x4(one);
    for (int i = 0; i < QUADS; i++) q[i] = _mm512_shuffle_epi8(table, q[i]);
}

// The quads of 16 columns from 2 bits each.
INLINE void codes_twos(const uint8_t *w, __m512i *q) {
    const __m512i v = load(w), two = _mm512_set1_epi8(3);
    q[0] = _mm512_and_si512(v, two);
    q[1] = _mm512_and_si512(_mm512_srli_epi16(v, 2), two);
    q[2] = _mm512_and_si512(_mm512_srli_epi16(v, 4), two);
    q[3] = _mm512_and_si512(_mm512_srli_epi16(v, 6), two);
}

#endif
