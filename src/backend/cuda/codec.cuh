// The device's side of codec.h: the A operands of a unit. Lane l = 4 g + t needs rows g and g + 8,
// columns 8 t to 8 t + 7. Register j of step h holds row g + 8 (j & 1) and columns 8 t + 4 h + 2
// (j >> 1) + {0, 1}. So the B operand of a lane is 16 contiguous bytes of the input.
//
// Decoding is bound by the number of instructions: 26 a lane for a unit of 4 bits. Integers
// come from bits that are placed in the mantissa of a power of two; removing that power is exact,
// and so is every operation here but the last. The counts below are without loads.
#ifndef RN_BACKEND_CUDA_CODEC_CUH
#define RN_BACKEND_CUDA_CODEC_CUH

#include <string.h>

#include "codec.h"
#include "device.cuh"

template <int CODEC> DEV constexpr int codec_unit_bytes() {
#define X(id, unit_bytes, is_bf16)                                                                 \
    if (CODEC == CODEC_##id) return unit_bytes;
    CODEC_LIST(X)
#undef X
    return 0;
}

template <int CODEC> DEV constexpr bool codec_is_bf16() { return CODEC == CODEC_BF16; }

// A unit in shared memory.
struct shared_unit {
    uint32_t at;
    DEV uint32_t u32(int offset) const { return shared_u32(at + (uint32_t)offset); }
    DEV uint2 u64(int offset) const { return shared_u64(at + (uint32_t)offset); }
    DEV uint4 u128(int offset) const { return shared_u128(at + (uint32_t)offset); }
};

// A unit in memory that nobody writes during the launch.
struct global_unit {
    const uint8_t *at;
    DEV uint32_t u32(int offset) const { return *(const uint32_t *)(at + offset); }
    DEV uint2 u64(int offset) const { return *(const uint2 *)(at + offset); }
    DEV uint4 u128(int offset) const { return *(const uint4 *)(at + offset); }
};

namespace fragments {

// Pairs of halves, named by the value of both.
enum : uint32_t {
    PLUS_16 = 0x4C004C00,
    OF_8 = 0x30003000, // 1 / 8
    OF_16 = 0x2C002C00,
    OF_32 = 0x28002800,
    MINUS_1 = 0xBC00BC00,
    MINUS_32 = 0xD000D000,
    MINUS_64 = 0xD400D400,
    MINUS_96 = 0xD600D600,
    MINUS_128 = 0xD800D800,
    MINUS_1024 = 0xE400E400,
    MINUS_1056 = 0xE420E420,
    MINUS_1152 = 0xE480E480,
    MINUS_1160 = 0xE488E488,
};

// One half twice. The compiler makes it a choice of operand halves, which costs no instruction;
// with bytes_of it would be one.
DEV uint32_t low_twice(uint32_t pair) {
    uint16_t half[2];
    memcpy(half, &pair, sizeof half);
    half[1] = half[0];
    memcpy(&pair, half, sizeof half);
    return pair;
}
DEV uint32_t high_twice(uint32_t pair) {
    uint16_t half[2];
    memcpy(half, &pair, sizeof half);
    half[0] = half[1];
    memcpy(&pair, half, sizeof half);
    return pair;
}

// scale: those of rows g and g + 8.
DEV void scale(uint32_t (&a)[2][4], uint32_t scale) {
    const uint32_t low = low_twice(scale), high = high_twice(scale);
    UNROLL for (int h = 0; h < 2; h++) {
        UNROLL for (int j = 0; j < 4; j++) { a[h][j] = half2_mul(a[h][j], j & 1 ? high : low); }
    }
}
DEV void scale_add(uint32_t (&a)[2][4], uint2 scale_offset) {
    const uint32_t low = low_twice(scale_offset.x), high = high_twice(scale_offset.x);
    const uint32_t low_add = low_twice(scale_offset.y), high_add = high_twice(scale_offset.y);
    UNROLL for (int h = 0; h < 2; h++) {
        UNROLL for (int j = 0; j < 4; j += 2) {
            a[h][j] = half2_fma(a[h][j], low, low_add);
            a[h][j + 1] = half2_fma(a[h][j + 1], high, high_add);
        }
    }
}

// F16, BF16: [h][lane][4 registers].
template <class LOAD> DEV void get_16(const LOAD &unit, int lane, uint32_t (&a)[2][4]) {
    UNROLL for (int h = 0; h < 2; h++) {
        const uint4 v = unit.u128(h * 512 + lane * 16);
        a[h][0] = v.x, a[h][1] = v.y, a[h][2] = v.z, a[h][3] = v.w;
    }
}

// Q8: [lane][row][8] bytes q + 128. 8 to take two bytes as 1024 + byte, 16 for numbers.
template <class LOAD> DEV void get_q8(const LOAD &unit, int lane, uint32_t (&a)[2][4]) {
    const uint4 v = unit.u128(lane * 16);
    const uint32_t word[2][2] = {{v.x, v.z}, {v.y, v.w}}; // [h][row]
    UNROLL for (int h = 0; h < 2; h++) {
        UNROLL for (int j = 0; j < 4; j++) {
            const uint32_t two = bytes_of(word[h][j & 1], 0x64646464, j < 2 ? 0x4140 : 0x4342);
            a[h][j] = half2_add(two, MINUS_1152);
        }
    }
    scale(a, unit.u32(512 + lane / 4 * 4));
}

// Q4, Q4O: [lane][8 columns] bytes; the low nibble is of row g, the high one of row g + 8. A byte
// becomes 64 + high + low / 16. So the high nibble is what remains when 64 + low / 16 is taken
// away; with 72 both are less by 8. 8 for bits, 16 for numbers. A mask for each nibble would make
// it 10 for bits.
template <bool IS_CENTRED, class LOAD>
DEV void get_nibbles(const LOAD &unit, int lane, uint32_t (&a)[2][4]) {
    constexpr uint32_t LOW_BASE = IS_CENTRED ? 0x54805480 : 0x54005400; // 72 or 64
    const uint2 v = unit.u64(lane * 8);
    UNROLL for (int h = 0; h < 2; h++) {
        UNROLL for (int j = 0; j < 4; j += 2) {
            const uint32_t both = bytes_of(h ? v.y : v.x, 0x54545454, j < 2 ? 0x4140 : 0x4342);
            const uint32_t low = and_or<0x000F000F, LOW_BASE>(both);
            a[h][j] = half2_fma(low, PLUS_16, IS_CENTRED ? MINUS_1160 : MINUS_1024);
            a[h][j + 1] = half2_fma(low, MINUS_1, both);
        }
    }
}

// Q5O: register i = 4 h + j has 5 bits in each half of a word. Words 0 and 1 of [lane][2]:
// registers 0, 1, 2 and 3, 4, 5 from bit 0 up, and bit 15. Then [lane / 2]: a byte of each lane in
// each half, with register 6 and the low 3 bits of register 7. Bits 15 of the words are its other
// two. 13 for bits, 16 for numbers.
template <class LOAD> DEV void get_q5o(const LOAD &unit, int lane, uint32_t (&a)[2][4]) {
    const uint2 v = unit.u64(lane * 8);
    const uint32_t rest = unit.u32(256 + lane / 2 * 4) >> (lane & 1) * 8;
    const uint32_t high0 = v.x >> 7, high1 = v.y >> 6;
    uint32_t last = and_or<0x00E000E0, 0x64006400>(rest);
    last |= high0 & 0x01000100;
    last |= high1 & 0x02000200;
    a[0][0] = half2_add(and_or<0x001F001F, 0x64006400>(v.x), MINUS_1024);
    a[0][1] = half2_fma(and_or<0x03E003E0, 0x64006400>(v.x), OF_32, MINUS_32);
    a[0][2] = half2_fma(and_or<0x00F800F8, 0x64006400>(high0), OF_8, MINUS_128);
    a[0][3] = half2_add(and_or<0x001F001F, 0x64006400>(v.y), MINUS_1024);
    a[1][0] = half2_fma(and_or<0x03E003E0, 0x64006400>(v.y), OF_32, MINUS_32);
    a[1][1] = half2_fma(and_or<0x01F001F0, 0x64006400>(high1), OF_16, MINUS_64);
    a[1][2] = half2_add(and_or<0x001F001F, 0x64006400>(rest), MINUS_1024);
    a[1][3] = half2_fma(last, OF_32, MINUS_32);
    scale_add(a, unit.u64(320 + lane / 4 * 8));
}

// Q6: register i = 4 h + j has 6 bits in each half of a word. Words 0 and 1 of [lane][2] and word 2
// of [lane]: word w has register w at bit 0, w + 3 at bit 6, and 4 bits from bit 12. These are the
// high bits of registers 6 and 7 in words 0 and 1, and the low 2 bits of both in word 2. 15 for
// bits, 16 for numbers.
template <class LOAD> DEV void get_q6(const LOAD &unit, int lane, uint32_t (&a)[2][4]) {
    const uint2 v = unit.u64(lane * 8);
    const uint32_t word[3] = {v.x, v.y, unit.u32(256 + lane * 4)};
    UNROLL for (int w = 0; w < 3; w++) {
        const uint32_t high = word[w] >> 6;
        a[0][w] = half2_add(and_or<0x003F003F, 0x64006400>(word[w]), MINUS_1056);
        a[(w + 3) / 4][(w + 3) % 4] = half2_add(and_or<0x003F003F, 0x64006400>(high), MINUS_1056);
        if (w == 2) continue;
        uint32_t split = and_or<0x03C003C0, 0x64006400>(high);
        split |= word[2] >> (8 + 2 * w) & 0x00300030;
        a[1][2 + w] = half2_fma(split, OF_16, MINUS_96);
    }
    scale(a, unit.u32(384 + lane / 2 * 4));
}

// T4: nibbles as in Q4, which number the levels. The low 3 bits of 4 nibbles look up both halves of
// the table, the high bits choose between them. 30 for bits, 16 for numbers.
template <class LOAD> DEV void get_t4(const LOAD &unit, int lane, uint32_t (&a)[2][4]) {
    // IQ4_NL's levels + 128
    const uint32_t low[2] = {0x3F2D1801, 0x766A5D4F}, high[2] = {0xA6998D81, 0xF1D9C5B5};
    const uint2 v = unit.u64(lane * 8);
    UNROLL for (int h = 0; h < 2; h++) {
        const uint32_t word = h ? v.y : v.x;
        const uint32_t index = word & 0x77777777;
        const uint32_t side = and_or<0x44444444, 0x32103210>(word >> 1);
        UNROLL for (int j = 0; j < 4; j += 2) {
            const int shift = j * 8;
            const uint32_t level =
                bytes_of(bytes_of(low[0], low[1], index >> shift),
                         bytes_of(high[0], high[1], index >> shift), side >> shift);
            a[h][j] = half2_add(bytes_of(level, 0x64646464, 0x4240), MINUS_1152);
            a[h][j + 1] = half2_add(bytes_of(level, 0x64646464, 0x4341), MINUS_1152);
        }
    }
    scale(a, unit.u32(256 + lane / 4 * 4));
}

// E2M1: word h of [lane][2] has 8 numbers: columns c and c + 1, then c + 2 and c + 3, of a column
// row g, then row g + 8. Nibble i has the magnitude of number i. The nibbles' high bits are the
// signs of numbers 4, 0, 5, 1, 6, 2, 7, 3, so that they reach the bytes of the numbers with one
// shift. Twice a magnitude in f16 is one byte and a byte of zeros. 22 for bits, 8 for numbers.
template <class LOAD> DEV void get_e2m1(const LOAD &unit, int lane, uint32_t (&a)[2][4]) {
    const uint32_t magnitude[2] = {0x42403C00, 0x4A484644}; // 0, 1, 2, 3, 4, 6, 8, 12
    const uint2 v = unit.u64(lane * 8);
    UNROLL for (int h = 0; h < 2; h++) {
        const uint32_t word = h ? v.y : v.x;
        const uint32_t index = word & 0x77777777;
        UNROLL for (int j = 0; j < 4; j += 2) {
            uint32_t top = bytes_of(magnitude[0], magnitude[1], index >> j * 8);
            top |= word << j * 2 & 0x80808080;
            a[h][j] = bytes_of(top, 0, 0x2404);
            a[h][j + 1] = bytes_of(top, 0, 0x3414);
        }
    }
    scale(a, unit.u32(256 + lane / 4 * 4));
}

} // namespace fragments

template <int CODEC, class LOAD>
DEV void codec_fragments(const LOAD &unit, int lane, uint32_t (&a)[2][4]) {
    if constexpr (CODEC == CODEC_F16 || CODEC == CODEC_BF16) {
        fragments::get_16(unit, lane, a);
    } else if constexpr (CODEC == CODEC_Q8) {
        fragments::get_q8(unit, lane, a);
    } else if constexpr (CODEC == CODEC_Q4) {
        fragments::get_nibbles<true>(unit, lane, a);
        fragments::scale(a, unit.u32(256 + lane / 4 * 4));
    } else if constexpr (CODEC == CODEC_Q4O) {
        fragments::get_nibbles<false>(unit, lane, a);
        fragments::scale_add(a, unit.u64(256 + lane / 4 * 8));
    } else if constexpr (CODEC == CODEC_Q5O) {
        fragments::get_q5o(unit, lane, a);
    } else if constexpr (CODEC == CODEC_Q6) {
        fragments::get_q6(unit, lane, a);
    } else if constexpr (CODEC == CODEC_T4) {
        fragments::get_t4(unit, lane, a);
    } else {
        static_assert(CODEC == CODEC_E2M1, "a codec without a decoder");
        fragments::get_e2m1(unit, lane, a);
    }
}

#endif
