// The 20 bytes that hold 32 values of 5 bits in Q5_0 and Q5_1. First 4 bytes: bit i of the
// little-endian word is the fifth bit of value i. Then 16 bytes: byte i has the low 4 bits of value
// i in its low nibble, those of value i + 16 in its high one.
#ifndef RN_QUANT_FIVE_BITS_H
#define RN_QUANT_FIVE_BITS_H

#include <stdint.h>
#include <string.h>

static inline void five_bits_get(const uint8_t bits[20], int8_t value[32]) {
    uint32_t fifth;
    memcpy(&fifth, bits, sizeof fifth);
    for (int i = 0; i < 16; i++) {
        const uint8_t byte = bits[4 + i];
        value[i] = (int8_t)((byte & 15) | (fifth >> i & 1) << 4);
        value[i + 16] = (int8_t)(byte >> 4 | (fifth >> (i + 16) & 1) << 4);
    }
}

static inline void five_bits_put(const uint8_t value[32], uint8_t bits[20]) {
    for (int byte = 0; byte < 4; byte++) {
        bits[byte] = 0;
        for (int i = 0; i < 8; i++) bits[byte] |= (uint8_t)(value[8 * byte + i] >> 4 << i);
    }
    for (int i = 0; i < 16; i++) {
        bits[4 + i] = (uint8_t)((value[i] & 15) | (value[i + 16] & 15) << 4);
    }
}

#endif
