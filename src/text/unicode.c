// UTF-8 scanning after the table of well-formed sequences in the Unicode standard (3-7), and the
// classes from utf8proc's categories. ASCII goes through a table of its own.
#include "text/unicode.h"

#include <assert.h>
#include <string.h>
#include <utf8proc.h>

#define S UNICODE_SPACE
#define N UNICODE_NUMBER
#define L UNICODE_LETTER
const uint8_t unicode_ascii[128] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, S, S, S, S, S, 0, 0, // 0x00
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // 0x10
    S, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // 0x20
    N, N, N, N, N, N, N, N, N, N, 0, 0, 0, 0, 0, 0, // 0x30
    0, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, // 0x40
    L, L, L, L, L, L, L, L, L, L, L, 0, 0, 0, 0, 0, // 0x50
    0, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, // 0x60
    L, L, L, L, L, L, L, L, L, L, L, 0, 0, 0, 0, 0, // 0x70
};
#undef S
#undef N
#undef L

// Length of the character that a lead byte announces, 0 for a byte that leads none, and the range
// of its second byte (which excludes overlong forms, surrogates and what lies past U+10FFFF).
static size_t lead(uint8_t byte, uint8_t *low, uint8_t *high) {
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

enum unicode_form unicode_scan(const uint8_t *text, size_t len, size_t *n) {
    assert(len > 0);
    uint8_t low, high;
    const size_t want = lead(text[0], &low, &high);
    *n = 1;
    if (want == 0) return UNICODE_ILL;
    for (; *n < want; ++*n) {
        if (*n == len) return UNICODE_PARTIAL;
        if (text[*n] < low || text[*n] > high) return UNICODE_ILL;
        low = 0x80;
        high = 0xBF;
    }
    return UNICODE_WELL;
}

int32_t unicode_decode(const uint8_t *text, size_t len, size_t *n) {
    if (unicode_scan(text, len, n) != UNICODE_WELL) {
        *n = 1;
        return -1;
    }
    if (*n == 1) return text[0];
    int32_t cp = text[0] & (0x7F >> *n);
    for (size_t i = 1; i < *n; i++) cp = cp << 6 | (text[i] & 0x3F);
    return cp;
}

size_t unicode_encode(uint32_t cp, uint8_t out[4]) {
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

static int is_space(int32_t cp) {
    if (cp <= 0x20) return cp == 0x20 || (cp >= 0x09 && cp <= 0x0D);
    if (cp < 0x1680) return cp == 0x85 || cp == 0xA0;
    return cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

enum unicode_class unicode_class(int32_t cp) {
    if (cp < 0) return UNICODE_OTHER;
    if (cp < 0x80) return (enum unicode_class)unicode_ascii[cp];
    if (is_space(cp)) return UNICODE_SPACE;
    switch (utf8proc_category(cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return UNICODE_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return UNICODE_NUMBER;
    default:
        return UNICODE_OTHER;
    }
}

bool unicode_is_valid(const char *text, size_t len) {
    for (size_t n; len > 0; text += n, len -= n)
        if (unicode_scan((const uint8_t *)text, len, &n) != UNICODE_WELL) return false;
    return true;
}

void unicode_quote(const char *text, size_t len, char *out, size_t size) {
    assert(size > 0);
    size_t at = 0, used = 0;
    while (at < len) {
        size_t n;
        const int well = unicode_scan((const uint8_t *)text + at, len - at, &n) == UNICODE_WELL;
        const char *const piece = well ? text + at : "?";
        const size_t piece_len = well ? n : 1;
        if (piece_len >= size - used) break;
        memcpy(out + used, piece, piece_len);
        used += piece_len;
        at += n;
    }
    out[used] = '\0';
}
