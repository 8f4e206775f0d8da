// Characters as Python's str sees them. Traits come from the module unicode; simple case and case
// folding come from utf8proc. A small letter whose folding has several characters has the capitals
// of those characters.
#include "jinja/chars.h"

#include <utf8proc.h>

#include "unicode/unicode.h"

bool chars_is_blank(int32_t cp) {
    return (cp >= 0x1c && cp <= 0x1f) || unicode_traits(cp) & UNICODE_SPACE;
}

bool chars_is_cased(int32_t cp) {
    return unicode_traits(cp) & (UNICODE_CAPITAL | UNICODE_SMALL) || utf8proc_toupper(cp) != cp ||
           utf8proc_tolower(cp) != cp;
}

size_t chars_blank_prefix(const char *text, size_t len) {
    size_t at = 0, n;
    while (at < len && chars_is_blank(unicode_decode((const uint8_t *)text + at, len - at, &n))) {
        at += n;
    }
    return at;
}

int32_t chars_before(const char *text, size_t at, size_t *start) {
    size_t from = at - 1, n;
    while (from > 0 && ((uint8_t)text[from] & 0xc0) == 0x80) from--;
    *start = from;
    return unicode_decode((const uint8_t *)text + from, at - from, &n);
}

size_t chars_blank_suffix(const char *text, size_t len) {
    size_t at = len, start;
    while (at > 0 && chars_is_blank(chars_before(text, at, &start))) at = start;
    return len - at;
}

// The case folding of a letter that is no capital, where it has several characters; 0 otherwise.
static size_t expansion(int32_t cp, utf8proc_int32_t out[4]) {
    int boundary = 0;
    const utf8proc_category_t category = utf8proc_category(cp);
    if (category != UTF8PROC_CATEGORY_LL && category != UTF8PROC_CATEGORY_LT) return 0;
    const utf8proc_ssize_t n = utf8proc_decompose_char(cp, out, 4, UTF8PROC_CASEFOLD, &boundary);
    return n > 1 && n <= 3 ? (size_t)n : 0;
}

static size_t map_capital(int32_t cp, bool is_title, uint32_t out[3]) {
    utf8proc_int32_t folded[4];
    const size_t n = expansion(cp, folded);
    const bool has_title = utf8proc_totitle(cp) != cp && cp != 0xdf; // sharp s has none for Python
    if (n == 0 || (is_title && (has_title || utf8proc_category(cp) == UTF8PROC_CATEGORY_LT))) {
        out[0] = (uint32_t)(is_title ? utf8proc_totitle(cp) : utf8proc_toupper(cp));
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        const bool is_small = is_title && i > 0 && cp != 0x149; // whose second is the letter
        out[i] = (uint32_t)(is_small ? folded[i] : utf8proc_toupper(folded[i]));
        if (is_small && folded[i] == 0x3b9) out[i] = 0x345; // an iota stays below
    }
    return n;
}

size_t chars_map(enum chars_case to, int32_t cp, uint32_t out[3]) {
    if (cp < 0x80) {
        const bool is_up = cp >= 'A' && cp <= 'Z', is_low = cp >= 'a' && cp <= 'z';
        out[0] = (uint32_t)cp ^ ((to == CHARS_LOWER ? is_up : is_low) ? 0x20u : 0);
        return 1;
    }
    if (to != CHARS_LOWER) return map_capital(cp, to == CHARS_TITLE, out);
    out[0] = (uint32_t)utf8proc_tolower(cp);
    out[1] = 0x307;
    return cp == 0x130 ? 2 : 1; // the capital I with a dot keeps the dot
}

// Marks and the like, which do not separate a letter from its word.
static bool is_case_ignorable(int32_t cp) {
    switch (utf8proc_category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        return cp == '\'' || cp == '.' || cp == ':' || cp == 0xb7 || cp == 0x2019;
    }
}

bool chars_is_final_sigma(const char *text, size_t len, size_t at) {
    int32_t cp = 0;
    size_t before = at, n;
    while (before > 0) {
        cp = chars_before(text, before, &before);
        if (!is_case_ignorable(cp)) break;
    }
    if (at == 0 || is_case_ignorable(cp) || !chars_is_cased(cp)) return false;
    for (size_t after = at + 2; after < len; after += n) {
        cp = unicode_decode((const uint8_t *)text + after, len - after, &n);
        if (!is_case_ignorable(cp)) return !chars_is_cased(cp);
    }
    return true;
}
