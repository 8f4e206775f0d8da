// Runs of characters, the pieces that hand-written patterns are made of. Internal to pattern_*.c.
#ifndef RN_TEXT_PATTERN_RUNS_H
#define RN_TEXT_PATTERN_RUNS_H

#include <stdbool.h>

#include "unicode/unicode.h"

// Where the characters from `at` on that have a trait of the mask (or, if not `inside`, none of
// them) end; at most `max` of them.
static inline size_t run_to(const uint8_t *text, size_t len, size_t at, unsigned mask, bool inside,
                            size_t max) {
    for (size_t count = 0; at < len && count < max; count++) {
        size_t n;
        const bool has = (unicode_traits_at(text + at, len - at, &n) & mask) != 0;
        if (has != inside) break;
        at += n;
    }
    return at;
}

// [mask]*
static inline size_t run_of(const uint8_t *text, size_t len, size_t at, unsigned mask) {
    return run_to(text, len, at, mask, true, SIZE_MAX);
}

// [^mask]*
static inline size_t run_outside(const uint8_t *text, size_t len, size_t at, unsigned mask) {
    return run_to(text, len, at, mask, false, SIZE_MAX);
}

static inline bool is_line_end(uint8_t byte) { return byte == '\r' || byte == '\n'; }

// [\r\n]*, with slashes too if asked for
static inline size_t run_line_ends(const uint8_t *text, size_t len, size_t at, bool slashes) {
    while (at < len && (is_line_end(text[at]) || (slashes && text[at] == '/'))) at++;
    return at;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ at white space (without the first alternative if not `lines`). The match
// goes up to the last line end of the run. Without a line end, it is the whole run at the end of
// the text. Elsewhere it is all but the run's last character, which belongs to the next word or
// stands alone.
static inline size_t run_white(const uint8_t *text, size_t len, bool lines) {
    size_t end = 0, last = 0, line = 0;
    while (end < len) {
        size_t n;
        if (!(unicode_traits_at(text + end, len - end, &n) & UNICODE_SPACE)) break;
        last = end;
        end += n;
        if (is_line_end(text[last])) line = end;
    }
    if (lines && line > 0) return line;
    return end == len || last == 0 ? end : last;
}

// 's|'t|'re|'ve|'m|'ll|'d: its length, or 0.
static inline size_t contraction_len(const uint8_t *text, size_t len) {
    if (len < 2 || text[0] != '\'') return 0;
    if (text[1] == 's' || text[1] == 't' || text[1] == 'm' || text[1] == 'd') return 2;
    if (len < 3) return 0;
    const int pair = text[1] << 8 | text[2];
    return pair == ('r' << 8 | 'e') || pair == ('v' << 8 | 'e') || pair == ('l' << 8 | 'l') ? 3 : 0;
}

// The same in either case. U+017F, the long s, folds to s.
static inline size_t contraction_len_folded(const uint8_t *text, size_t len) {
    if (len < 2 || text[0] != '\'') return 0;
    if (text[1] == 0xC5) return len > 2 && text[2] == 0xBF ? 3 : 0;
    const uint8_t folded[3] = {'\'', text[1] | 0x20, len > 2 ? text[2] | 0x20 : 0};
    return contraction_len(folded, len > 2 ? 3 : 2);
}

#endif
