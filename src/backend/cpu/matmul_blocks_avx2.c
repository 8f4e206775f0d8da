// AVX2 codecs of the formats with blocks of 32 columns (see matmul_avx2.h; layouts:
// matmul_layout.h). Reached through matmul_table.c; matmul_avxvnni.c includes this, too.
#if defined(__x86_64__)

#include "backend/cpu/matmul_avx2.h"
#include "backend/cpu/matmul_codes_avx2.h"
#include "backend/cpu/matmul_table.h"
#include "quant/iq4_nl.h"
#include "quant/mxfp4.h"

enum { MXFP4_ZERO = 12 }; // its levels are -12 to 12

INLINE struct rows pair_scale(const uint8_t *unit, int block, int span) {
    (void)span;
    return load_f16(unit + PACK_HALVES * block);
}

INLINE struct rows pair_offset(const uint8_t *unit, int block, int span) {
    (void)span;
    return load_f16(unit + PAIR_MIN + PACK_HALVES * block);
}

INLINE void codes_q8_0(const uint8_t *unit, int block, int half, int part, __m256i *q) {
    const uint8_t *w = unit + Q8_0_CODES + Q8_0_BLOCK * block + HALF_VECTOR * half;
    q[0] = load(w + PACK_VECTOR * part);
    q[1] = load(w + PACK_VECTOR * (part + 4));
}

INLINE void codes_q4_0(const uint8_t *unit, int block, int half, int part, __m256i *q) {
    codes_nibbles(unit + Q4_0_CODES + PACK_NIBBLES * block + HALF_VECTOR * half, part, q);
}

INLINE void codes_q4_1(const uint8_t *unit, int block, int half, int part, __m256i *q) {
    codes_nibbles(unit + Q4_1_CODES + PACK_NIBBLES * block + HALF_VECTOR * half, part, q);
}

INLINE void codes_q5_0(const uint8_t *unit, int block, int half, int part, __m256i *q) {
    codes_fives(unit + Q5_0_CODES + PACK_FIVES * block + HALF_VECTOR * half, part, q);
}

INLINE void codes_q5_1(const uint8_t *unit, int block, int half, int part, __m256i *q) {
    codes_fives(unit + Q5_1_CODES + PACK_FIVES * block + HALF_VECTOR * half, part, q);
}

INLINE void codes_iq4_nl(const uint8_t *unit, int block, int half, int part, __m256i *q) {
    codes_q4_0(unit, block, half, part, q);
    codes_levels(iq4_nl_level, 128, q);
}

INLINE void codes_mxfp4(const uint8_t *unit, int block, int half, int part, __m256i *q) {
    codes_nibbles(unit + MXFP4_CODES + PACK_NIBBLES * block + HALF_VECTOR * half, part, q);
    codes_levels(mxfp4_level, MXFP4_ZERO, q);
}

// 2^(e - 128), as mxfp4_scale.
INLINE __m256 half_mxfp4(const uint8_t *bytes) {
    const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)bytes));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e);
    const __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, is_small));
}

INLINE struct rows scale_mxfp4(const uint8_t *unit, int block, int span) {
    const uint8_t *bytes = unit + MATMUL_GROUP * block;
    (void)span;
    return (struct rows){{half_mxfp4(bytes), half_mxfp4(bytes + HALF_ROWS)}};
}

// name, layout, span, bits, zero, fetch, scale, offset
CODEC(q8_0, q8_0, 32, 8, 128, NONE, pair_scale, NULL)
CODEC(q4_0, q4_0, 32, 4, 8, NONE, pair_scale, NULL)
CODEC(q4_1, q4_1, 32, 4, 0, NONE, pair_scale, pair_offset)
CODEC(q5_0, q5_0, 32, 5, 16, L2, pair_scale, NULL)
CODEC(q5_1, q5_1, 32, 5, 0, L2, pair_scale, pair_offset)
CODEC(iq4_nl, q4_0, 32, 8, 128, L2, pair_scale, NULL)
CODEC(mxfp4, mxfp4, 32, 5, MXFP4_ZERO, NONE, scale_mxfp4, NULL)

#endif
