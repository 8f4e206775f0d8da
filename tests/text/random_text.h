// Random texts that meet the edges of patterns: few kinds of characters, many ways to follow each
// other.
#ifndef TEST_RANDOM_TEXT_H
#define TEST_RANDOM_TEXT_H

#include <stdlib.h>

#include "unicode/unicode.h"

static const int32_t random_common[] = {
    'a',     'b',     'z',     's',      't',    'r',    'e',    'v',    'm',    'l',     'd',
    'A',     'S',     'L',     'T',      '\'',   '\'',   '\'',   ' ',    ' ',    ' ',     ' ',
    '\n',    '\n',    '\r',    '\t',     '0',    '1',    '7',    '9',    '.',    ',',     '!',
    '/',     '/',     '-',     '_',      '$',    '+',    '<',    '>',    '^',    '`',     '|',
    '~',     '(',     '[',     '\\',     '"',    0x01,   0x7F,   0x85,   0xA0,   0xAA,    0xB2,
    0xB5,    0xBD,    0xC9,    0xE9,     0x17F,  0x1C5,  0x2B0,  0x301,  0x301,  0x308,   0x345,
    0x3A3,   0x3C3,   0x430,   0x5D0,    0x661,  0x903,  0x915,  0x93E,  0xE01,  0xE31,   0x1680,
    0x180E,  0x200B,  0x200D,  0x2003,   0x2014, 0x2028, 0x203F, 0x20AC, 0x20DD, 0x2160,  0x2460,
    0x24B6,  0x2581,  0x3000,  0x3002,   0x3007, 0x3042, 0x30A2, 0x4E2D, 0x6587, 0x9FA5,  0x9FA6,
    0xAC00,  0xD7FF,  0xE000,  0xFB01,   0xFEFF, 0xFF01, 0xFF11, 0xFF21, 0xFFFD, 0x10400, 0x1D165,
    0x1F130, 0x1F642, 0x20000, 0x10FFFF,
};

// One character: mostly a common one, now and then any at all.
static inline int32_t random_character(void) {
    if (rand() % 16)
        return random_common[(size_t)rand() % (sizeof random_common / sizeof random_common[0])];
    int32_t cp;
    do {
        static const int32_t below[] = {0x80, 0x800, 0x3000, 0x10000, 0x20000, 0x110000};
        cp = (int32_t)((unsigned)rand() % (unsigned)below[rand() % 6]);
    } while (cp >= 0xD800 && cp <= 0xDFFF);
    return cp;
}

// At most max bytes of whole characters; returns how many. Runs of one character are likely.
static inline size_t random_text(uint8_t *out, size_t max) {
    size_t len = 0;
    int32_t cp = 'a';
    while (len + 4 <= max) {
        if (rand() % 4) cp = random_character();
        len += unicode_encode((uint32_t)cp, out + len);
    }
    return len;
}

// Puts bytes that are not UTF-8, or not at this place, into a text.
static inline void random_damage(uint8_t *text, size_t len) {
    static const uint8_t bad[] = {0x80, 0xBF, 0xC0, 0xC3, 0xE2, 0xED, 0xF0, 0xF4, 0xFE, 0xFF};
    for (int n = 1 + rand() % 4; len > 0 && n > 0; n--)
        text[(size_t)rand() % len] = bad[(size_t)rand() % sizeof bad];
}

#endif
