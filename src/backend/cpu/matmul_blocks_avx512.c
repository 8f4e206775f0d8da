// AVX-512 codecs of the formats with blocks of 32 columns (see matmul_avx512.h; layouts:
// matmul_layout.h). Reached through matmul_table.c.
#if defined(__x86_64__)

#include "backend/cpu/matmul_codes_avx512.h"
#include "backend/cpu/matmul_one_avx512.h"
#include "backend/cpu/matmul_table.h"
#include "quant/iq4_nl.h"
#include "quant/mxfp4.h"

enum { MXFP4_ZERO = 12 }; // its levels are -12 to 12

INLINE void pair_scales(const uint8_t *unit, int block, __m512 *scale) {
    scale[0] = load_f16(unit + PACK_HALVES * block);
}

INLINE void pair_mins(const uint8_t *unit, int block, __m512 *min) {
    min[0] = load_f16(unit + PAIR_MIN + PACK_HALVES * block);
}

INLINE void codes_q8_0(const uint8_t *unit, int block, __m512i *q) {
    for (int i = 0; i < QUADS; i++)
        q[i] = load(unit + Q8_0_CODES + Q8_0_BLOCK * block + PACK_VECTOR * i);
}

INLINE void codes_q4_0(const uint8_t *unit, int block, __m512i *q) {
    codes_nibbles(unit + Q4_0_CODES + PACK_NIBBLES * block, q);
}

INLINE void halves_q4_0(const uint8_t *unit, int block, __m512i *q) {
    codes_halves(unit + Q4_0_CODES + PACK_NIBBLES * block, q);
}

INLINE void codes_q4_1(const uint8_t *unit, int block, __m512i *q) {
    codes_nibbles(unit + Q4_1_CODES + PACK_NIBBLES * block, q);
}

INLINE void halves_q4_1(const uint8_t *unit, int block, __m512i *q) {
    codes_halves(unit + Q4_1_CODES + PACK_NIBBLES * block, q);
}

INLINE void codes_q5_0(const uint8_t *unit, int block, __m512i *q) {
    codes_fives(unit + Q5_0_CODES + PACK_FIVES * block, q);
}

INLINE void codes_q5_1(const uint8_t *unit, int block, __m512i *q) {
    codes_fives(unit + Q5_1_CODES + PACK_FIVES * block, q);
}

INLINE void codes_iq4_nl(const uint8_t *unit, int block, __m512i *q) {
    codes_q4_0(unit, block, q);
    codes_levels(iq4_nl_level, 128, q);
}

INLINE void codes_mxfp4(const uint8_t *unit, int block, __m512i *q) {
    codes_nibbles(unit + MXFP4_CODES + PACK_NIBBLES * block, q);
    codes_levels(mxfp4_level, MXFP4_ZERO, q);
}

// 2^(e - 128), as mxfp4_scale.
INLINE void scales_mxfp4(const uint8_t *unit, int block, __m512 *scale) {
    const __m512i e =
        _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(unit + MATMUL_GROUP * block)));
    const __m512i exponent = _mm512_sub_epi32(e, _mm512_set1_epi32(128));
    scale[0] = _mm512_scalef_ps(_mm512_set1_ps(1), _mm512_cvtepi32_ps(exponent));
}

#define CODEC(name, layout, code_bits, offset, zero_point, scale_fn, min_fn, codes_fn)             \
    static const struct codec codec_##name = {                                                     \
        .span = 32,                                                                                \
        .bits = code_bits,                                                                         \
        .zero = zero_point,                                                                        \
        .offsets = offset,                                                                         \
        .unit_blocks = UNIT_COLS_##layout / 32,                                                    \
        .unit_bytes = UNIT_BYTES_##layout,                                                         \
        .codes = codes_##name,                                                                     \
        .scales = scale_fn,                                                                        \
        .mins = min_fn,                                                                            \
        .codes_one = codes_fn,                                                                     \
    };                                                                                             \
    MATMUL_BLOCK(name, layout) MATMUL_ONE(name, layout)

CODEC(q8_0, q8_0, 8, false, 128, pair_scales, NULL, NULL)
CODEC(q4_0, q4_0, 4, false, 8, pair_scales, NULL, halves_q4_0)
CODEC(q4_1, q4_1, 4, true, 0, pair_scales, pair_mins, halves_q4_1)
CODEC(q5_0, q5_0, 5, false, 16, pair_scales, NULL, NULL)
CODEC(q5_1, q5_1, 5, true, 0, pair_scales, pair_mins, NULL)
CODEC(iq4_nl, q4_0, 8, false, 128, pair_scales, NULL, NULL)
CODEC(mxfp4, mxfp4, 5, false, MXFP4_ZERO, scales_mxfp4, NULL, NULL)

#endif
