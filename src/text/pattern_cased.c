// The patterns of gpt-4o, tekken and youtu, which cut where a capital follows a small letter. Every
// character of a text belongs to a match, so *skip is never needed.
#include "text/pattern.h"
#include "text/pattern_runs.h"

enum {
    UPPER = UNICODE_CAPITAL | UNICODE_UNCASED | UNICODE_MARK,
    LOWER = UNICODE_SMALL | UNICODE_UNCASED | UNICODE_MARK,
    BOTH = UPPER & LOWER,
};

// Where the UPPER characters from `at` on end; *both is the end of the last character that is LOWER
// too, or 0.
static size_t upper_end(const uint8_t *text, size_t len, size_t at, size_t *both) {
    *both = 0;
    while (at < len) {
        size_t n;
        const unsigned traits = unicode_traits_at(text + at, len - at, &n);
        if (!(traits & UPPER)) break;
        at += n;
        if (traits & BOTH) *both = at;
    }
    return at;
}

// U*L+ from `at` on: its end, or 0. Where nothing LOWER follows, U* gives back the last character
// that L+ can take, and all behind it.
static size_t lower_word(const uint8_t *text, size_t len, size_t at) {
    size_t both;
    const size_t upper = upper_end(text, len, at, &both);
    const size_t end = run_of(text, len, upper, LOWER);
    return end > upper ? end : both;
}

// U+L* from `at` on: its end, or 0.
static size_t upper_word(const uint8_t *text, size_t len, size_t at) {
    const size_t upper = run_of(text, len, at, UPPER);
    return upper > at ? run_of(text, len, upper, LOWER) : 0;
}

// The first two alternatives, each with the character before the word if there is one, then
// without.
static size_t word_end(const uint8_t *text, size_t len, size_t n, bool lead) {
    size_t end = lead ? lower_word(text, len, n) : 0;
    if (!end) end = lower_word(text, len, 0);
    if (!end && lead) end = upper_word(text, len, n);
    return end ? end : upper_word(text, len, 0);
}

static inline size_t cased_next(const uint8_t *text, size_t len, bool contractions, size_t digits) {
    enum { KINDS = UNICODE_LETTER | UNICODE_NUMBER | UNICODE_SPACE };
    size_t n, next = 0;
    const unsigned traits = unicode_traits_at(text, len, &n);
    if (traits & UNICODE_NUMBER) return run_to(text, len, n, UNICODE_NUMBER, true, digits - 1);
    const unsigned behind = n < len ? unicode_traits_at(text + n, len - n, &next) : 0;
    // A word, or a character that may stand before one. Sought only where a word can begin, so that
    // long runs of other characters are not searched again and again.
    if ((traits | behind) & (UPPER | LOWER)) {
        const bool lead = !(traits & UNICODE_LETTER) && !is_line_end(text[0]);
        const size_t end = word_end(text, len, n, lead);
        if (end) return contractions ? end + contraction_len_folded(text + end, len - end) : end;
    }
    size_t end = n;
    if (traits & UNICODE_SPACE) {
        if (text[0] != ' ' || n == len || behind & KINDS) return run_white(text, len, true);
        end += next;
    }
    return run_line_ends(text, len, run_outside(text, len, end, KINDS), true);
}

size_t pattern_gpt4o(const uint8_t *text, size_t len, size_t *skip) {
    (void)skip;
    return cased_next(text, len, true, 3);
}

size_t pattern_tekken(const uint8_t *text, size_t len, size_t *skip) {
    (void)skip;
    return cased_next(text, len, false, 1);
}

size_t pattern_youtu(const uint8_t *text, size_t len, size_t *skip) {
    (void)skip;
    return cased_next(text, len, true, 1);
}
