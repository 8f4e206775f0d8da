// Characters as Python's str sees them. Categories and simple case come from utf8proc; what
// Python's full case mapping and its isdigit and friends have beyond them is in the tables here.
#include "jinja/chars.h"

#include <utf8proc.h>

#include "unicode/unicode.h"

struct range {
    int32_t first, last;
};

static bool ranges_have(const struct range *ranges, size_t n, int32_t cp) {
    for (size_t i = 0; i < n && ranges[i].first <= cp; i++) {
        if (cp <= ranges[i].last) return true;
    }
    return false;
}
#define RANGES_HAVE(ranges, cp) ranges_have(ranges, sizeof(ranges) / sizeof((ranges)[0]), cp)

int chars_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

static const struct range blanks[] = {
    {0x09, 0x0d},     {0x1c, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
    {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
};
bool chars_is_blank(int32_t cp) { return RANGES_HAVE(blanks, cp); }

static const struct range newlines[] = {{0x0a, 0x0d}, {0x1c, 0x1e}, {0x85, 0x85}, {0x2028, 0x2029}};
bool chars_is_newline(int32_t cp) { return RANGES_HAVE(newlines, cp); }

bool chars_is_alpha(int32_t cp) {
    const utf8proc_category_t category = utf8proc_category(cp);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool chars_is_decimal(int32_t cp) { return utf8proc_category(cp) == UTF8PROC_CATEGORY_ND; }

// Digits that are no decimal ones: superscripts, circled and so on.
static const struct range digits[] = {
    {0xb2, 0xb3},       {0xb9, 0xb9},       {0x1369, 0x1371},   {0x19da, 0x19da},
    {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
    {0x2474, 0x247c},   {0x2488, 0x2490},   {0x24ea, 0x24ea},   {0x24f5, 0x24fd},
    {0x24ff, 0x24ff},   {0x2776, 0x277e},   {0x2780, 0x2788},   {0x278a, 0x2792},
    {0x10a40, 0x10a43}, {0x10e60, 0x10e68}, {0x11052, 0x1105a}, {0x1f100, 0x1f10a},
};
bool chars_is_digit(int32_t cp) { return chars_is_decimal(cp) || RANGES_HAVE(digits, cp); }

// Ideographs with a numeric value are left out: they are letters either way.
bool chars_is_numeric(int32_t cp) {
    const utf8proc_category_t category = utf8proc_category(cp);
    return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

static const struct range other_upper[] = {
    {0x2160, 0x216f}, {0x24b6, 0x24cf}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};
bool chars_is_upper(int32_t cp) {
    return utf8proc_category(cp) == UTF8PROC_CATEGORY_LU || RANGES_HAVE(other_upper, cp);
}

static const struct range other_lower[] = {
    {0xaa, 0xaa},       {0xba, 0xba},       {0x2b0, 0x2b8},     {0x2c0, 0x2c1},
    {0x2e0, 0x2e4},     {0x345, 0x345},     {0x37a, 0x37a},     {0x1d2c, 0x1d6a},
    {0x1d78, 0x1d78},   {0x1d9b, 0x1dbf},   {0x2071, 0x2071},   {0x207f, 0x207f},
    {0x2090, 0x209c},   {0x2170, 0x217f},   {0x24d0, 0x24e9},   {0x2c7c, 0x2c7d},
    {0xa69c, 0xa69d},   {0xa770, 0xa770},   {0xa7f8, 0xa7f9},   {0xab5c, 0xab5f},
    {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba},
};
bool chars_is_lower(int32_t cp) {
    return utf8proc_category(cp) == UTF8PROC_CATEGORY_LL || RANGES_HAVE(other_lower, cp);
}

bool chars_is_title(int32_t cp) { return utf8proc_category(cp) == UTF8PROC_CATEGORY_LT; }

static bool is_cased(int32_t cp) {
    return chars_is_upper(cp) || chars_is_lower(cp) || chars_is_title(cp);
}

bool chars_is_printable(int32_t cp) {
    if (cp >= 0x20 && cp < 0x7f) return true;
    switch (utf8proc_category(cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    default:
        return true;
    }
}

bool chars_is_word(int32_t cp) { return cp == '_' || chars_is_alpha(cp) || chars_is_numeric(cp); }

bool chars_is_name(int32_t cp) {
    const utf8proc_category_t category = utf8proc_category(cp);
    return chars_is_word(cp) ||
           (category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME);
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

// Capitals of more than one character; those of 1F80 to 1FAF follow a rule.
static const struct {
    uint16_t cp, upper[3];
} expansions[] = {
    {0x00df, {0x0053, 0x0053}},         {0x0149, {0x02bc, 0x004e}},
    {0x01f0, {0x004a, 0x030c}},         {0x0390, {0x0399, 0x0308, 0x0301}},
    {0x03b0, {0x03a5, 0x0308, 0x0301}}, {0x0587, {0x0535, 0x0552}},
    {0x1e96, {0x0048, 0x0331}},         {0x1e97, {0x0054, 0x0308}},
    {0x1e98, {0x0057, 0x030a}},         {0x1e99, {0x0059, 0x030a}},
    {0x1e9a, {0x0041, 0x02be}},         {0x1f50, {0x03a5, 0x0313}},
    {0x1f52, {0x03a5, 0x0313, 0x0300}}, {0x1f54, {0x03a5, 0x0313, 0x0301}},
    {0x1f56, {0x03a5, 0x0313, 0x0342}}, {0x1fb2, {0x1fba, 0x0399}},
    {0x1fb3, {0x0391, 0x0399}},         {0x1fb4, {0x0386, 0x0399}},
    {0x1fb6, {0x0391, 0x0342}},         {0x1fb7, {0x0391, 0x0342, 0x0399}},
    {0x1fbc, {0x0391, 0x0399}},         {0x1fc2, {0x1fca, 0x0399}},
    {0x1fc3, {0x0397, 0x0399}},         {0x1fc4, {0x0389, 0x0399}},
    {0x1fc6, {0x0397, 0x0342}},         {0x1fc7, {0x0397, 0x0342, 0x0399}},
    {0x1fcc, {0x0397, 0x0399}},         {0x1fd2, {0x0399, 0x0308, 0x0300}},
    {0x1fd3, {0x0399, 0x0308, 0x0301}}, {0x1fd6, {0x0399, 0x0342}},
    {0x1fd7, {0x0399, 0x0308, 0x0342}}, {0x1fe2, {0x03a5, 0x0308, 0x0300}},
    {0x1fe3, {0x03a5, 0x0308, 0x0301}}, {0x1fe4, {0x03a1, 0x0313}},
    {0x1fe6, {0x03a5, 0x0342}},         {0x1fe7, {0x03a5, 0x0308, 0x0342}},
    {0x1ff2, {0x1ffa, 0x0399}},         {0x1ff3, {0x03a9, 0x0399}},
    {0x1ff4, {0x038f, 0x0399}},         {0x1ff6, {0x03a9, 0x0342}},
    {0x1ff7, {0x03a9, 0x0342, 0x0399}}, {0x1ffc, {0x03a9, 0x0399}},
    {0xfb00, {0x0046, 0x0046}},         {0xfb01, {0x0046, 0x0049}},
    {0xfb02, {0x0046, 0x004c}},         {0xfb03, {0x0046, 0x0046, 0x0049}},
    {0xfb04, {0x0046, 0x0046, 0x004c}}, {0xfb05, {0x0053, 0x0054}},
    {0xfb06, {0x0053, 0x0054}},         {0xfb13, {0x0544, 0x0546}},
    {0xfb14, {0x0544, 0x0535}},         {0xfb15, {0x0544, 0x053b}},
    {0xfb16, {0x054e, 0x0546}},         {0xfb17, {0x0544, 0x053d}},
};
enum { N_EXPANSIONS = sizeof expansions / sizeof expansions[0] };

static const uint16_t *expansion_find(int32_t cp) {
    size_t low = 0, high = N_EXPANSIONS;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (expansions[mid].cp == cp) return expansions[mid].upper;
        if (expansions[mid].cp < cp) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return NULL;
}

static size_t map_upper(int32_t cp, uint32_t out[3]) {
    if (cp >= 0x1f80 && cp <= 0x1faf) { // Greek vowels with an iota below: the iota follows
        static const uint16_t base[3] = {0x1f08, 0x1f28, 0x1f68};
        out[0] = base[(cp - 0x1f80) / 16] + (uint32_t)(cp & 7);
        out[1] = 0x399;
        return 2;
    }
    const uint16_t *upper = expansion_find(cp);
    if (!upper) {
        out[0] = (uint32_t)utf8proc_toupper(cp);
        return 1;
    }
    size_t n = 0;
    for (; n < 3 && upper[n]; n++) out[n] = upper[n];
    return n;
}

// A letter with a title form of its own uses it; an expansion keeps its first capital and lowers
// the rest.
static size_t map_title(int32_t cp, uint32_t out[3]) {
    const bool is_letter = utf8proc_category(cp) == UTF8PROC_CATEGORY_LL;
    const bool has_own = utf8proc_totitle(cp) != cp && cp != 0xdf; // sharp s has none for Python
    if (!is_letter || has_own || !expansion_find(cp)) {
        out[0] = (uint32_t)utf8proc_totitle(cp);
        return 1;
    }
    const size_t n = map_upper(cp, out);
    for (size_t i = 1; i < n; i++) {
        if (cp == 0x149) break; // its second is the letter
        out[i] = out[i] == 0x399 ? 0x345 : (uint32_t)utf8proc_tolower((int32_t)out[i]);
    }
    return n;
}

static size_t map_fold(int32_t cp, uint32_t out[3]) {
    utf8proc_int32_t folded[4];
    int boundary = 0;
    const utf8proc_ssize_t n = utf8proc_decompose_char(cp, folded, 4, UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < n && i < 3; i++) out[i] = (uint32_t)folded[i];
    return n < 3 ? (size_t)n : 3;
}

size_t chars_map(enum chars_case to, int32_t cp, uint32_t out[3]) {
    if (cp < 0x80) {
        const bool is_up = cp >= 'A' && cp <= 'Z', is_low = cp >= 'a' && cp <= 'z';
        const bool flips = to == CHARS_LOWER || to == CHARS_FOLD ? is_up : is_low;
        out[0] = (uint32_t)cp ^ (flips ? 0x20u : 0);
        return 1;
    }
    if (to == CHARS_UPPER) return map_upper(cp, out);
    if (to == CHARS_TITLE) return map_title(cp, out);
    if (to == CHARS_FOLD) return map_fold(cp, out);
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
    bool has_letter = false;
    while (before > 0) {
        cp = chars_before(text, before, &before);
        if (is_case_ignorable(cp)) continue;
        has_letter = is_cased(cp);
        break;
    }
    if (!has_letter) return false;
    for (size_t after = at + 2; after < len; after += n) {
        cp = unicode_decode((const uint8_t *)text + after, len - after, &n);
        if (!is_case_ignorable(cp)) return !is_cased(cp);
    }
    return true;
}
