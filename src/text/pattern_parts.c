// Patterns that pre-tokenizers apply one after the other: numbers, runs of a script, white space.
// Text between matches is a gap, and stays a piece of its own. Each pattern sees from the first two
// characters that nothing matches there, or skips the characters it has looked at.
#include <stdbool.h>

#include "text/pattern.h"
#include "text/pattern_runs.h"

static size_t number_run(const uint8_t *text, size_t len, size_t *skip, size_t max) {
    const size_t end = run_to(text, len, 0, UNICODE_NUMBER, true, max);
    if (end == 0) *skip = run_outside(text, len, 0, UNICODE_NUMBER);
    return end;
}

size_t pattern_number(const uint8_t *text, size_t len, size_t *skip) {
    return number_run(text, len, skip, 1);
}

size_t pattern_numbers(const uint8_t *text, size_t len, size_t *skip) {
    return number_run(text, len, skip, SIZE_MAX);
}

size_t pattern_numbers_3(const uint8_t *text, size_t len, size_t *skip) {
    return number_run(text, len, skip, 3);
}

static bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

size_t pattern_digits_3(const uint8_t *text, size_t len, size_t *skip) {
    size_t count = 0;
    while (count < 3 && count < len && is_digit(text[count])) count++;
    if (count == 3) return 3;
    *skip = count < len ? count + 1 : len; // no three digits begin before the non-digit
    return 0;
}

size_t pattern_line_end(const uint8_t *text, size_t len, size_t *skip) {
    if (is_line_end(text[0])) return 1;
    size_t at = 1;
    while (at < len && !is_line_end(text[at])) at++;
    *skip = at;
    return 0;
}

size_t pattern_space_end(const uint8_t *text, size_t len, size_t *skip) {
    const size_t end = run_of(text, len, 0, UNICODE_SPACE);
    if (end == len) return end;
    size_t line = end; // the run gives back its last line end, and all behind it
    while (line > 0 && text[line - 1] != '\n') line--;
    if (line > 1) return line - 1;
    *skip = run_outside(text, len, end, UNICODE_SPACE);
    return 0;
}

size_t pattern_white(const uint8_t *text, size_t len, size_t *skip) {
    const size_t end = run_to(text, len, 0, UNICODE_SPACE, true, 1);
    if (end == 0) *skip = run_outside(text, len, 0, UNICODE_SPACE);
    return end;
}

enum word_kind { WORD_BLANK, WORD_INSIDE, WORD_OTHER };

static enum word_kind word_kind(const uint8_t *text, size_t len, size_t *n) {
    const int32_t cp = unicode_decode(text, len, n);
    if (unicode_is_word(cp)) return WORD_INSIDE;
    return unicode_traits(cp) & UNICODE_SPACE ? WORD_BLANK : WORD_OTHER;
}

size_t pattern_word(const uint8_t *text, size_t len, size_t *skip) {
    size_t end = 0, n;
    const enum word_kind kind = word_kind(text, len, &n);
    do end += n;
    while (end < len && word_kind(text + end, len - end, &n) == kind);
    if (kind != WORD_BLANK) return end;
    *skip = end;
    return 0;
}

// \s?[mask]+
static size_t after_space(const uint8_t *text, size_t len, size_t *skip, unsigned mask) {
    size_t n;
    const unsigned traits = unicode_traits_at(text, len, &n);
    *skip = n;
    if (traits & mask) return run_of(text, len, n, mask);
    if (!(traits & UNICODE_SPACE)) return 0;
    const size_t end = run_of(text, len, n, mask);
    return end > n ? end : 0;
}

size_t pattern_space_letters(const uint8_t *text, size_t len, size_t *skip) {
    return after_space(text, len, skip, UNICODE_LETTER);
}

size_t pattern_space_marks(const uint8_t *text, size_t len, size_t *skip) {
    return after_space(text, len, skip, UNICODE_PUNCTUATION);
}

// ---------------------------------------------------------------- ranges of characters

struct range {
    int32_t first, last;
};

static bool in_ranges(int32_t cp, const struct range *range, size_t count) {
    size_t low = 0, high = count; // the first range that ends at cp or behind it
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (range[middle].last < cp)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && range[low].first <= cp;
}

#define RANGE_COUNT(range) (sizeof(range) / sizeof(range)[0])

// ---------------------------------------------------------------- punctuation

// ASCII's symbols are punctuation here; the grave accent not always.
static bool is_punctuation(uint8_t byte, unsigned traits, bool grave) {
    if (traits & UNICODE_PUNCTUATION) return true;
    return byte < 0x80 && traits & UNICODE_SYMBOL && (grave || byte != '`');
}

// Hugging Face's Punctuation knows Unicode 8. Characters that have become \p{P} since then are not
// punctuation, and two that no longer are \p{P} still are.
static bool is_punctuation_8(int32_t cp, unsigned traits) {
    static const struct range since[] = {
        {0x61D, 0x61D},     {0x9FD, 0x9FD},     {0xA76, 0xA76},     {0xC77, 0xC77},
        {0xC84, 0xC84},     {0x1B7D, 0x1B7E},   {0x2E43, 0x2E4F},   {0x2E52, 0x2E5D},
        {0x10EAD, 0x10EAD}, {0x10F55, 0x10F59}, {0x10F86, 0x10F89}, {0x1144B, 0x1144F},
        {0x1145A, 0x1145B}, {0x1145D, 0x1145D}, {0x11660, 0x1166C}, {0x116B9, 0x116B9},
        {0x1183B, 0x1183B}, {0x11944, 0x11946}, {0x119E2, 0x119E2}, {0x11A3F, 0x11A46},
        {0x11A9A, 0x11A9C}, {0x11A9E, 0x11AA2}, {0x11B00, 0x11B09}, {0x11C41, 0x11C45},
        {0x11C70, 0x11C71}, {0x11EF7, 0x11EF8}, {0x11F43, 0x11F4F}, {0x11FFF, 0x11FFF},
        {0x12FF1, 0x12FF2}, {0x16E97, 0x16E9A}, {0x16FE2, 0x16FE2}, {0x1E95E, 0x1E95F},
    };
    if (!(traits & UNICODE_PUNCTUATION)) return cp == 0x166D || cp == 0x111C9;
    return !in_ranges(cp, since, RANGE_COUNT(since));
}

size_t pattern_punctuation(const uint8_t *text, size_t len, size_t *skip) {
    size_t at = 0; // letters and blanks of ASCII go by quickly
    while (at < len && text[at] < 0x80 && !is_punctuation(text[at], unicode_ascii[text[at]], true))
        at++;
    *skip = at;
    if (at > 0) return 0;
    const int32_t cp = unicode_decode(text, len, skip);
    if (cp < 0x80) return cp >= 0; // ill-formed bytes are no punctuation
    return is_punctuation_8(cp, unicode_traits(cp)) ? *skip : 0;
}

size_t pattern_punctuation_run(const uint8_t *text, size_t len, size_t *skip) {
    size_t end = 0;
    for (size_t n; end < len; end += n) {
        const unsigned traits = unicode_traits_at(text + end, len - end, &n);
        if (end == 0) *skip = n;
        if (!is_punctuation(text[end], traits, false)) break;
    }
    return end;
}

// ---------------------------------------------------------------- runs of a range

static size_t run_in(const uint8_t *text, size_t len, size_t at, const struct range *range,
                     size_t count) {
    for (size_t n; at < len; at += n) {
        n = 1;
        const int32_t cp = text[at] < 0x80 ? text[at] : unicode_decode(text + at, len - at, &n);
        if (!in_ranges(cp, range, count)) break;
    }
    return at;
}

// [range]+, with \s? before it if asked for
static size_t range_match(const uint8_t *text, size_t len, size_t *skip, bool space,
                          const struct range *range, size_t count) {
    size_t n;
    const unsigned traits = unicode_traits_at(text, len, &n);
    *skip = n;
    // A space may be in the ranges itself; taken as \s? it is the same match, if one follows.
    if (space && traits & UNICODE_SPACE) {
        const size_t end = run_in(text, len, n, range, count);
        if (end > n) return end;
    }
    return run_in(text, len, 0, range, count);
}

size_t pattern_han_kana(const uint8_t *text, size_t len, size_t *skip) {
    static const struct range range[] = {{0x3040, 0x30FF}, {0x4E00, 0x9FA5}};
    return range_match(text, len, skip, false, range, RANGE_COUNT(range));
}

size_t pattern_asian(const uint8_t *text, size_t len, size_t *skip) {
    static const struct range range[] = {{0x800, 0x9FA5}, {0xAC00, 0xD7FF}};
    return range_match(text, len, skip, false, range, RANGE_COUNT(range));
}

size_t pattern_space_signs(const uint8_t *text, size_t len, size_t *skip) {
    static const struct range range[] = {{'!', '/'},       {':', '~'},       {0x2018, 0x201F},
                                         {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}};
    return range_match(text, len, skip, true, range, RANGE_COUNT(range));
}

size_t pattern_space_cased(const uint8_t *text, size_t len, size_t *skip) {
    static const struct range range[] = {
        {0x41, 0x5A},       {0x61, 0x7A},       {0xB5, 0xB5},       {0xC0, 0xD6},
        {0xD8, 0xF6},       {0xF8, 0x1BA},      {0x1BC, 0x1BF},     {0x1C4, 0x293},
        {0x295, 0x2AF},     {0x370, 0x373},     {0x376, 0x376},     {0x377, 0x377},
        {0x37B, 0x37D},     {0x37F, 0x37F},     {0x386, 0x386},     {0x388, 0x38A},
        {0x38C, 0x38C},     {0x38E, 0x3A1},     {0x3A3, 0x3F5},     {0x3F7, 0x481},
        {0x48A, 0x52F},     {0x531, 0x556},     {0x10A0, 0x10C5},   {0x13A0, 0x13F5},
        {0x13F8, 0x13FD},   {0x1C90, 0x1CBA},   {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},
        {0x1D6B, 0x1D77},   {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},   {0x1F18, 0x1F1D},
        {0x1F20, 0x1F45},   {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},
        {0x1F5B, 0x1F5B},   {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},
        {0x1FB6, 0x1FBC},   {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},
        {0x1FD0, 0x1FD3},   {0x1FD6, 0x1FDB},   {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},
        {0x1FF6, 0x1FFC},   {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210A, 0x2113},
        {0x2115, 0x2115},   {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},
        {0x2128, 0x2128},   {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},
        {0x213C, 0x213F},   {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2183},
        {0x2184, 0x2184},   {0x2C00, 0x2C7B},   {0x2C7E, 0x2CE4},   {0x2CEB, 0x2CEE},
        {0x2CF2, 0x2CF2},   {0x2CF3, 0x2CF3},   {0xA640, 0xA66D},   {0xA680, 0xA69B},
        {0xA722, 0xA76F},   {0xA771, 0xA787},   {0xA78B, 0xA78E},   {0xAB70, 0xABBF},
        {0xFB00, 0xFB06},   {0xFB13, 0xFB17},   {0xFF21, 0xFF3A},   {0xFF41, 0xFF5A},
        {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB}, {0x10C80, 0x10CB2},
        {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943},
    };
    return range_match(text, len, skip, true, range, RANGE_COUNT(range));
}

// ---------------------------------------------------------------- deepseek-v3, byte level

static bool is_ascii_letter(uint8_t byte) {
    return byte < 0x80 && unicode_ascii[byte] & UNICODE_LETTER;
}

size_t pattern_deepseek_v3(const uint8_t *text, size_t len, size_t *skip) {
    enum { WORD = UNICODE_LETTER | UNICODE_MARK, SIGN = UNICODE_PUNCTUATION | UNICODE_SYMBOL };
    size_t n, next = 0;
    const unsigned traits = unicode_traits_at(text, len, &n);
    const unsigned behind = n < len ? unicode_traits_at(text + n, len - n, &next) : 0;
    *skip = n;
    if (traits & SIGN && text[0] < 0x80 && n < len && is_ascii_letter(text[n])) {
        size_t end = n;
        while (end < len && is_ascii_letter(text[end])) end++;
        return end;
    }
    if (traits & WORD) return run_of(text, len, n, WORD);
    if (behind & WORD && !(traits & SIGN) && !is_line_end(text[0]))
        return run_of(text, len, n + next, WORD);
    if (traits & SIGN || (text[0] == ' ' && behind & SIGN))
        return run_line_ends(text, len, run_of(text, len, n, SIGN), false);
    return traits & UNICODE_SPACE ? run_white(text, len, true) : 0;
}

// Bytes from 0x80 on stand for characters of their own, and six of these are numbers: U+00B2, say.
static bool is_byte_number(uint8_t byte) {
    return is_digit(byte) || byte == 0xB2 || byte == 0xB3 || byte == 0xB9 ||
           (byte >= 0xBC && byte <= 0xBE);
}

static size_t byte_number_run(const uint8_t *text, size_t len, size_t *skip, size_t max) {
    size_t end = 0;
    while (end < len && end < max && is_byte_number(text[end])) end++;
    if (end > 0) return end;
    while (end < len && !is_byte_number(text[end])) end++;
    *skip = end;
    return 0;
}

size_t pattern_byte_numbers(const uint8_t *text, size_t len, size_t *skip) {
    return byte_number_run(text, len, skip, SIZE_MAX);
}

size_t pattern_byte_number(const uint8_t *text, size_t len, size_t *skip) {
    return byte_number_run(text, len, skip, 1);
}
