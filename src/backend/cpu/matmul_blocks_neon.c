// NEON codecs of the formats with blocks of 32 columns (see matmul_neon.h; layouts:
// matmul_layout.h). Reached through matmul_table.c.
#if defined(__aarch64__)

#include "backend/cpu/matmul_codes_neon.h"
#include "backend/cpu/matmul_table.h"
#include "quant/iq4_nl.h"
#include "quant/mxfp4.h"

INLINE void pair_scales(const uint8_t *unit, int block, rows16 *scale) {
    scale[0] = rows_load_f16(unit + PACK_HALVES * block);
}

INLINE void pair_mins(const uint8_t *unit, int block, rows16 *min) {
    min[0] = rows_load_f16(unit + PAIR_MIN + PACK_HALVES * block);
}

// Without the 128 that the packed quads have.
INLINE void codes_q8_0(const uint8_t *unit, int block, int quarter, int8x16_t *q) {
    UNROLL for (int i = 0; i < QUADS; i++) {
        const uint8x16_t v = vector_load(unit + Q8_0_CODES + Q8_0_BLOCK * block, i, quarter);
        q[i] = as_signed(veorq_u8(v, vdupq_n_u8(0x80)));
    }
}

INLINE void codes_q4_0(const uint8_t *unit, int block, int quarter, int8x16_t *q) {
    codes_nibbles(unit + Q4_0_CODES + PACK_NIBBLES * block, quarter, q);
}

INLINE void codes_q4_1(const uint8_t *unit, int block, int quarter, int8x16_t *q) {
    codes_nibbles(unit + Q4_1_CODES + PACK_NIBBLES * block, quarter, q);
}

INLINE void codes_q5_0(const uint8_t *unit, int block, int quarter, int8x16_t *q) {
    codes_fives(unit + Q5_0_CODES + PACK_FIVES * block, quarter, q);
}

INLINE void codes_q5_1(const uint8_t *unit, int block, int quarter, int8x16_t *q) {
    codes_fives(unit + Q5_1_CODES + PACK_FIVES * block, quarter, q);
}

INLINE void codes_iq4_nl(const uint8_t *unit, int block, int quarter, int8x16_t *q) {
    codes_q4_0(unit, block, quarter, q);
    codes_levels(iq4_nl_level, q);
}

INLINE void codes_mxfp4(const uint8_t *unit, int block, int quarter, int8x16_t *q) {
    codes_nibbles(unit + MXFP4_CODES + PACK_NIBBLES * block, quarter, q);
    codes_levels(mxfp4_level, q);
}

// 2^(e - 128), as mxfp4_scale.
INLINE float32x4_t power(uint32x4_t e) {
    const uint32x4_t normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
    const uint32x4_t small = vshlq_u32(vdupq_n_u32(0x200000), vreinterpretq_s32_u32(e));
    return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), small, normal));
}

INLINE void scales_mxfp4(const uint8_t *unit, int block, rows16 *scale) {
    const uint8x16_t e = vld1q_u8(unit + MATMUL_GROUP * block);
    const uint16x8_t low = vmovl_u8(vget_low_u8(e)), high = vmovl_u8(vget_high_u8(e));
    scale[0] =
        (rows16){{power(vmovl_u16(vget_low_u16(low))), power(vmovl_u16(vget_high_u16(low))),
                  power(vmovl_u16(vget_low_u16(high))), power(vmovl_u16(vget_high_u16(high)))}};
}

#define CODEC(name, layout, offset, zero_point, scale_fn, min_fn)                                  \
    static const struct codec codec_##name = {                                                     \
        .span = 32,                                                                                \
        .zero = zero_point,                                                                        \
        .offsets = offset,                                                                         \
        .unit_blocks = UNIT_COLS_##layout / 32,                                                    \
        .unit_bytes = UNIT_BYTES_##layout,                                                         \
        .codes = codes_##name,                                                                     \
        .scales = scale_fn,                                                                        \
        .mins = min_fn,                                                                            \
    };                                                                                             \
    MATMUL_BLOCK(name, layout)

CODEC(q8_0, q8_0, false, 0, pair_scales, NULL)
CODEC(q4_0, q4_0, false, 8, pair_scales, NULL)
CODEC(q4_1, q4_1, true, 0, pair_scales, pair_mins)
CODEC(q5_0, q5_0, false, 16, pair_scales, NULL)
CODEC(q5_1, q5_1, true, 0, pair_scales, pair_mins)
CODEC(iq4_nl, q4_0, false, 0, pair_scales, NULL)
CODEC(mxfp4, mxfp4, false, 0, scales_mxfp4, NULL)

#else
typedef int matmul_blocks_neon_is_empty; // ISO C wants a declaration
#endif
