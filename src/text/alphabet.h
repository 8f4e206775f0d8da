// The byte-level alphabet of gpt-2: each byte has one printable character, in which vocabularies
// and merges are written. Bytes that print as they are stand for themselves; the other 68 are
// numbered from U+0100 in byte order. So a space is U+0120.
#ifndef RN_TEXT_ALPHABET_H
#define RN_TEXT_ALPHABET_H

#include <stdint.h>

// The code point that stands for a byte.
static inline uint32_t alphabet_char(uint8_t byte) {
    if (byte <= 32) return 256u + byte;
    if (byte >= 127 && byte <= 160) return 256u + 33u + (byte - 127u);
    if (byte == 173) return 256u + 67u;
    return byte;
}

// The byte that a code point stands for; -1: it is not of the alphabet.
static inline int alphabet_byte(int32_t cp) {
    if (cp >= 256 && cp < 256 + 33) return cp - 256;
    if (cp >= 256 + 33 && cp < 256 + 67) return cp - 256 - 33 + 127;
    if (cp == 256 + 67) return 173;
    const int printable = (cp > 32 && cp < 127) || (cp > 160 && cp < 256 && cp != 173);
    return printable ? cp : -1;
}

#endif
