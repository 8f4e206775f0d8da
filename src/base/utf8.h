// UTF-8, after the table of well-formed sequences in the Unicode standard (3-7): for the JSON
// reader and, with the classes of characters, for unicode/unicode.c.
#ifndef RN_BASE_UTF8_H
#define RN_BASE_UTF8_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

// Length of the character that a lead byte announces, 0 for other bytes, and the range of its
// second byte. That range excludes overlong forms, surrogates and characters past U+10FFFF.
static inline size_t utf8_lead(uint8_t byte, uint8_t *low, uint8_t *high) {
    *low = 0x80;
    *high = 0xBF;
    if (byte < 0x80) return 1;
    if (byte < 0xC2 || byte > 0xF4) return 0;
    if (byte < 0xE0) return 2;
    if (byte == 0xE0) *low = 0xA0;
    if (byte == 0xED) *high = 0x9F;
    if (byte == 0xF0) *low = 0x90;
    if (byte == 0xF4) *high = 0x8F;
    return byte < 0xF0 ? 3 : 4;
}

// Length of the well-formed character at the start of text (len at least 1); 0 where none is.
static inline size_t utf8_length(const uint8_t *text, size_t len) {
    uint8_t low, high;
    const size_t n = utf8_lead(text[0], &low, &high);
    if (n > len) return 0;
    for (size_t i = 1; i < n; i++) {
        if (text[i] < low || text[i] > high) return 0;
        low = 0x80;
        high = 0xBF;
    }
    return n;
}

// The character of the n bytes that utf8_length found.
static inline uint32_t utf8_decode(const uint8_t *text, size_t n) {
    uint32_t cp = n > 1 ? text[0] & 0x7Fu >> n : text[0];
    for (size_t i = 1; i < n; i++) cp = cp << 6 | (text[i] & 0x3Fu);
    return cp;
}

// Writes 1 to 4 bytes and returns how many; cp must be a scalar value.
static inline size_t utf8_encode(uint32_t cp, uint8_t out[4]) {
    assert(cp <= 0x10FFFF && (cp < 0xD800 || cp > 0xDFFF));
    if (cp < 0x80) {
        out[0] = (uint8_t)cp;
        return 1;
    }
    const size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, cp >>= 6) out[i] = (uint8_t)(0x80 | (cp & 0x3F));
    out[0] = (uint8_t)((0xF00 >> n) | cp); // n ones, then a zero
    return n;
}

#endif
