// NEON codecs of the formats with blocks of 256 columns (see matmul_neon.h; layouts:
// matmul_layout.h). Reached through matmul_table.c.
#if defined(__aarch64__)

#include "backend/cpu/matmul_codes_neon.h"
#include "backend/cpu/matmul_table.h"
#include "quant/iq4_nl.h"

// A byte for each row.
INLINE uint8x16_t row_bytes(const uint8_t *p, int line) {
    return vld1q_u8(p + MATMUL_GROUP * line);
}

INLINE uint8x16_t shift_right(uint8x16_t v, int count) {
    return vshlq_u8(v, vdupq_n_s8((int8_t)-count));
}

INLINE uint8x16_t and_bits(uint8x16_t v, int bits) {
    return vandq_u8(v, vdupq_n_u8((uint8_t)bits));
}

// Bytes - zero, as floats, times d.
INLINE rows16 times(uint8x16_t bytes, const int zero, rows16 d) {
    const int8x16_t level = vsubq_s8(as_signed(bytes), vdupq_n_s8((int8_t)zero));
    rows16 rows = rows_of_bytes(level);
    UNROLL for (int i = 0; i < QUARTERS; i++) rows.val[i] = vmulq_f32(d.val[i], rows.val[i]);
    return rows;
}

INLINE rows16 negative(rows16 rows) {
    UNROLL for (int i = 0; i < QUARTERS; i++) rows.val[i] = vnegq_f32(rows.val[i]);
    return rows;
}

// 6 bits from the low 4 and, somewhere in high, the upper 2 at bit `at`.
INLINE uint8x16_t six_bits(uint8x16_t low4, uint8x16_t high, int at) {
    return vorrq_u8(low4, vshlq_n_u8(and_bits(shift_right(high, at), 3), 4));
}

// --- Q4_K, Q5_K ---

INLINE uint8x16_t k_high(const uint8_t *unit, int block) {
    return shift_right(row_bytes(unit + K_HIGH, block / 2), 4 * (block % 2));
}

INLINE void k_scales(const uint8_t *unit, int block, rows16 *scale) {
    const uint8x16_t low = and_bits(row_bytes(unit + K_LOW, block), 15);
    scale[0] = times(six_bits(low, k_high(unit, block), 0), 0, rows_load_f16(unit));
}

INLINE void k_mins(const uint8_t *unit, int block, rows16 *min) {
    const uint8x16_t low = vshrq_n_u8(row_bytes(unit + K_LOW, block), 4);
    const rows16 dmin = negative(rows_load_f16(unit + K_DMIN));
    min[0] = times(six_bits(low, k_high(unit, block), 2), 0, dmin);
}

INLINE void codes_q4_k(const uint8_t *unit, int block, int quarter, int8x16_t *q) {
    codes_nibbles(unit + K_CODES + PACK_NIBBLES * block, quarter, q);
}

INLINE void codes_q5_k(const uint8_t *unit, int block, int quarter, int8x16_t *q) {
    codes_fives(unit + K_CODES + PACK_FIVES * block, quarter, q);
}

// --- Q6_K ---

INLINE void scales_q6_k(const uint8_t *unit, int block, rows16 *scale) {
    const rows16 d = rows_load_f16(unit);
    for (int s = 0; s < 2; s++) scale[s] = times(row_bytes(unit + Q6_K_SCALE, 2 * block + s), 0, d);
}

INLINE void codes_q6_k(const uint8_t *unit, int block, int quarter, int8x16_t *q) {
    const uint8_t *w = unit + Q6_K_CODES + Q6_K_SPAN * 2 * block;
    const uint8x16_t low = vdupq_n_u8(15), upper = vdupq_n_u8(0x30);
    UNROLL for (int s = 0; s < 2; s++, w += Q6_K_SPAN, q += 4) {
        const uint8x16_t v0 = vector_load(w, 0, quarter), v1 = vector_load(w, 1, quarter);
        const uint8x16_t v2 = vector_load(w, 2, quarter);
        q[0] = as_signed(vorrq_u8(vandq_u8(v0, low), vandq_u8(vshlq_n_u8(v2, 4), upper)));
        q[1] = as_signed(vorrq_u8(vandq_u8(v1, low), vandq_u8(vshlq_n_u8(v2, 2), upper)));
        q[2] = as_signed(vorrq_u8(vshrq_n_u8(v0, 4), vandq_u8(v2, upper)));
        q[3] = as_signed(vorrq_u8(vshrq_n_u8(v1, 4), vandq_u8(vshrq_n_u8(v2, 2), upper)));
    }
}

// --- Q2_K ---

INLINE void scales_q2_k(const uint8_t *unit, int block, rows16 *scale) {
    const rows16 d = rows_load_f16(unit);
    for (int s = 0; s < 2; s++)
        scale[s] = times(and_bits(row_bytes(unit + Q2_K_SCALE, 2 * block + s), 15), 0, d);
}

INLINE void mins_q2_k(const uint8_t *unit, int block, rows16 *min) {
    const rows16 dmin = negative(rows_load_f16(unit + K_DMIN));
    for (int s = 0; s < 2; s++)
        min[s] = times(vshrq_n_u8(row_bytes(unit + Q2_K_SCALE, 2 * block + s), 4), 0, dmin);
}

INLINE void codes_q2_k(const uint8_t *unit, int block, int quarter, int8x16_t *q) {
    codes_twos(unit + Q2_K_CODES + PACK_VECTOR * 2 * block, quarter, q);
    codes_twos(unit + Q2_K_CODES + PACK_VECTOR * (2 * block + 1), quarter, q + 4);
}

// --- Q3_K ---

INLINE void scales_q3_k(const uint8_t *unit, int block, rows16 *scale) {
    const rows16 d = rows_load_f16(unit);
    const uint8x16_t low = row_bytes(unit + K_LOW, block),
                     high = row_bytes(unit + K_HIGH, block / 2);
    const int at = 4 * (block % 2);
    scale[0] = times(six_bits(and_bits(low, 15), high, at), 32, d);
    scale[1] = times(six_bits(vshrq_n_u8(low, 4), high, at + 2), 32, d);
}

INLINE void codes_q3_k(const uint8_t *unit, int block, int quarter, int8x16_t *q) {
    const uint8_t *w = unit + K_CODES + Q3_K_PART * block;
    codes_twos(w, quarter, q);
    codes_twos(w + PACK_VECTOR, quarter, q + 4);
    codes_add_bits(w + 2 * PACK_VECTOR, quarter, 2, q);
}

// --- IQ4_XS ---

INLINE void scales_iq4_xs(const uint8_t *unit, int block, rows16 *scale) {
    const uint8x16_t low = row_bytes(unit + IQ4_XS_LOW, block / 2);
    const uint8x16_t high = row_bytes(unit + IQ4_XS_HIGH, block / 4);
    const uint8x16_t four = and_bits(shift_right(low, 4 * (block % 2)), 15);
    scale[0] = times(six_bits(four, high, 2 * (block % 4)), 32, rows_load_f16(unit));
}

INLINE void codes_iq4_xs(const uint8_t *unit, int block, int quarter, int8x16_t *q) {
    codes_nibbles(unit + IQ4_XS_CODES + PACK_NIBBLES * block, quarter, q);
    codes_levels(iq4_nl_level, q);
}

#define CODEC(name, columns, offset, zero_point, scale_fn, min_fn)                                 \
    static const struct codec codec_##name = {                                                     \
        .span = columns,                                                                           \
        .zero = zero_point,                                                                        \
        .offsets = offset,                                                                         \
        .unit_blocks = UNIT_COLS_##name / 32,                                                      \
        .unit_bytes = UNIT_BYTES_##name,                                                           \
        .codes = codes_##name,                                                                     \
        .scales = scale_fn,                                                                        \
        .mins = min_fn,                                                                            \
    };                                                                                             \
    MATMUL_BLOCK(name, name)

CODEC(q4_k, 32, true, 0, k_scales, k_mins)
CODEC(q5_k, 32, true, 0, k_scales, k_mins)
CODEC(q6_k, 16, false, 32, scales_q6_k, NULL)
CODEC(q2_k, 16, true, 0, scales_q2_k, mins_q2_k)
CODEC(q3_k, 16, false, 4, scales_q3_k, NULL)
CODEC(iq4_xs, 32, false, 0, scales_iq4_xs, NULL)

#else
typedef int matmul_k_neon_is_empty; // ISO C wants a declaration
#endif
