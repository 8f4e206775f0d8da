// How packed codes become quads of signed bytes with NEON, a quarter of the rows at a time; shared
// by the codecs of matmul_blocks_neon.c and matmul_k_neon.c.
#ifndef RN_BACKEND_CPU_MATMUL_CODES_NEON_H
#define RN_BACKEND_CPU_MATMUL_CODES_NEON_H

#include "backend/cpu/matmul_neon.h"

INLINE uint8x16_t vector_load(const uint8_t *w, int vector, int quarter) {
    return vld1q_u8(w + PACK_VECTOR * vector + 16 * quarter);
}

INLINE int8x16_t as_signed(uint8x16_t v) { return vreinterpretq_s8_u8(v); }

INLINE void codes_nibbles(const uint8_t *w, int quarter, int8x16_t *q) {
    UNROLL for (int i = 0; i < 4; i++) {
        const uint8x16_t v = vector_load(w, i, quarter);
        q[i] = as_signed(vandq_u8(v, vdupq_n_u8(15)));
        q[i + 4] = as_signed(vshrq_n_u8(v, 4));
    }
}

// Bit i of each byte of plane to bit `to`, alone.
INLINE int8x16_t bit_move(uint8x16_t plane, const int i, const int to) {
    const uint8x16_t moved = vshlq_u8(plane, vdupq_n_s8((int8_t)(to - i)));
    return as_signed(vandq_u8(moved, vdupq_n_u8((uint8_t)(1 << to))));
}

// Gives each quad the bit that a plane has for it.
INLINE void codes_add_bits(const uint8_t *w, int quarter, const int to, int8x16_t *q) {
    const uint8x16_t plane = vector_load(w, 0, quarter);
    UNROLL for (int i = 0; i < QUADS; i++) q[i] = vorrq_s8(q[i], bit_move(plane, i, to));
}

INLINE void codes_fives(const uint8_t *w, int quarter, int8x16_t *q) {
    codes_nibbles(w, quarter, q);
    codes_add_bits(w + PACK_NIBBLES, quarter, 4, q);
}

// Nibbles to their levels.
INLINE void codes_levels(const int8_t level[16], int8x16_t *q) {
    const int8x16_t table = vld1q_s8(level);
    UNROLL for (int i = 0; i < QUADS; i++) q[i] = vqtbl1q_s8(table, vreinterpretq_u8_s8(q[i]));
}

// The quads of 16 columns from 2 bits each.
INLINE void codes_twos(const uint8_t *w, int quarter, int8x16_t *q) {
    const uint8x16_t v = vector_load(w, 0, quarter), two = vdupq_n_u8(3);
    q[0] = as_signed(vandq_u8(v, two));
    q[1] = as_signed(vandq_u8(vshrq_n_u8(v, 2), two));
    q[2] = as_signed(vandq_u8(vshrq_n_u8(v, 4), two));
    q[3] = as_signed(vshrq_n_u8(v, 6));
}

// A byte for each row, signed, as floats.
INLINE rows16 rows_of_bytes(int8x16_t v) {
    const int16x8_t low = vmovl_s8(vget_low_s8(v)), high = vmovl_s8(vget_high_s8(v));
    return (rows16){{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
                     vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
                     vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
                     vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
}

#endif
