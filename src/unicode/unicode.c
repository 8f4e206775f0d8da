// UTF-8 scanning over base/utf8.h, and the traits from utf8proc's categories. ASCII goes through a
// table of its own.
#include "unicode/unicode.h"

#include <assert.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

#define W UNICODE_SPACE
#define N UNICODE_NUMBER
#define C UNICODE_CAPITAL
#define L UNICODE_SMALL
#define P UNICODE_PUNCTUATION
#define S UNICODE_SYMBOL
const uint8_t unicode_ascii[128] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, W, W, W, W, W, 0, 0, // 0x00
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // 0x10
    W, P, P, P, S, P, P, P, P, P, P, S, P, P, P, P, // 0x20
    N, N, N, N, N, N, N, N, N, N, P, P, S, S, S, P, // 0x30
    P, C, C, C, C, C, C, C, C, C, C, C, C, C, C, C, // 0x40
    C, C, C, C, C, C, C, C, C, C, C, P, P, P, S, P, // 0x50
    S, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, // 0x60
    L, L, L, L, L, L, L, L, L, L, L, P, S, P, S, 0, // 0x70
};
#undef W
#undef N
#undef C
#undef L
#undef P
#undef S

static const uint8_t category_traits[] = {
    [UTF8PROC_CATEGORY_LU] = UNICODE_CAPITAL,
    [UTF8PROC_CATEGORY_LT] = UNICODE_CAPITAL,
    [UTF8PROC_CATEGORY_LL] = UNICODE_SMALL,
    [UTF8PROC_CATEGORY_LM] = UNICODE_UNCASED,
    [UTF8PROC_CATEGORY_LO] = UNICODE_UNCASED,
    [UTF8PROC_CATEGORY_MN] = UNICODE_MARK,
    [UTF8PROC_CATEGORY_MC] = UNICODE_MARK,
    [UTF8PROC_CATEGORY_ME] = UNICODE_MARK,
    [UTF8PROC_CATEGORY_ND] = UNICODE_NUMBER,
    [UTF8PROC_CATEGORY_NL] = UNICODE_NUMBER,
    [UTF8PROC_CATEGORY_NO] = UNICODE_NUMBER,
    [UTF8PROC_CATEGORY_PC] = UNICODE_PUNCTUATION,
    [UTF8PROC_CATEGORY_PD] = UNICODE_PUNCTUATION,
    [UTF8PROC_CATEGORY_PS] = UNICODE_PUNCTUATION,
    [UTF8PROC_CATEGORY_PE] = UNICODE_PUNCTUATION,
    [UTF8PROC_CATEGORY_PI] = UNICODE_PUNCTUATION,
    [UTF8PROC_CATEGORY_PF] = UNICODE_PUNCTUATION,
    [UTF8PROC_CATEGORY_PO] = UNICODE_PUNCTUATION,
    [UTF8PROC_CATEGORY_SM] = UNICODE_SYMBOL,
    [UTF8PROC_CATEGORY_SC] = UNICODE_SYMBOL,
    [UTF8PROC_CATEGORY_SK] = UNICODE_SYMBOL,
    [UTF8PROC_CATEGORY_SO] = UNICODE_SYMBOL,
    [UTF8PROC_CATEGORY_CO] = 0, // the last one
};

enum unicode_form unicode_scan(const uint8_t *text, size_t len, size_t *n) {
    assert(len > 0);
    uint8_t low, high;
    const size_t want = utf8_lead(text[0], &low, &high);
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

size_t unicode_encode(uint32_t cp, uint8_t out[4]) { return utf8_encode(cp, out); }

static bool is_space(int32_t cp) {
    if (cp <= 0x20) return cp == 0x20 || (cp >= 0x09 && cp <= 0x0D);
    if (cp < 0x1680) return cp == 0x85 || cp == 0xA0;
    return cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

unsigned unicode_traits(int32_t cp) {
    if (cp < 0) return 0;
    if (cp < 0x80) return unicode_ascii[cp];
    if (is_space(cp)) return UNICODE_SPACE;
    return category_traits[utf8proc_category(cp)];
}

// Letters in the sense of the property Alphabetic that are symbols by category: circled and
// squared.
static bool is_enclosed_letter(int32_t cp) {
    return (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
           (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189);
}

bool unicode_is_word(int32_t cp) {
    if (unicode_traits(cp) & (UNICODE_LETTER | UNICODE_MARK)) return true;
    if (cp < 0) return false;
    if (cp < 0x80) return (cp >= '0' && cp <= '9') || cp == '_';
    const utf8proc_category_t category = utf8proc_category(cp);
    return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
           category == UTF8PROC_CATEGORY_PC || cp == 0x200C || cp == 0x200D ||
           is_enclosed_letter(cp);
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
        const bool well = // and no NUL, which would end the copy
            unicode_scan((const uint8_t *)text + at, len - at, &n) == UNICODE_WELL && text[at];
        const char *const piece = well ? text + at : "?";
        const size_t piece_len = well ? n : 1;
        if (piece_len >= size - used) break;
        memcpy(out + used, piece, piece_len);
        used += piece_len;
        at += n;
    }
    out[used] = '\0';
}
