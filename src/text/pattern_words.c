// The patterns of gpt-2, of the llama-3 family and of gemma4: every character of a text belongs to
// a match, so *skip is never needed.
#include <string.h>

#include "text/pattern.h"
#include "text/pattern_runs.h"

size_t pattern_gpt2(const uint8_t *text, size_t len, size_t *skip) {
    (void)skip;
    const size_t contraction = contraction_len(text, len);
    if (contraction) return contraction;
    enum { KINDS = UNICODE_LETTER | UNICODE_NUMBER | UNICODE_SPACE };
    const size_t lead = text[0] == ' ' && len > 1; // the space that a word may begin with
    size_t n;
    const unsigned traits = unicode_traits_at(text + lead, len - lead, &n);
    if (traits & UNICODE_LETTER) return run_of(text, len, lead + n, UNICODE_LETTER);
    if (traits & UNICODE_NUMBER) return run_of(text, len, lead + n, UNICODE_NUMBER);
    if (traits & UNICODE_SPACE) return run_white(text, len, false);
    return run_outside(text, len, lead + n, KINDS);
}

// The differences between the members of the family.
struct family {
    unsigned letters; // the traits of a word's characters
    size_t digits;    // most numbers in a row
    bool line_ends;   // behind other characters
};

static inline size_t family_next(const uint8_t *text, size_t len, struct family family) {
    const size_t contraction = contraction_len_folded(text, len);
    if (contraction) return contraction;
    size_t n, next = 0;
    const unsigned traits = unicode_traits_at(text, len, &n);
    if (traits & family.letters) return run_of(text, len, n, family.letters);
    if (traits & UNICODE_NUMBER)
        return run_to(text, len, n, UNICODE_NUMBER, true, family.digits - 1);
    unsigned behind = 0; // the traits of the second character
    if (n < len) behind = unicode_traits_at(text + n, len - n, &next);
    if (behind & family.letters && !is_line_end(text[0]))
        return run_of(text, len, n + next, family.letters);
    const unsigned kinds = family.letters | UNICODE_NUMBER | UNICODE_SPACE;
    size_t end = n;
    if (traits & UNICODE_SPACE) {
        if (text[0] != ' ' || n == len || behind & kinds) return run_white(text, len, true);
        end += next;
    }
    end = run_outside(text, len, end, kinds);
    return family.line_ends ? run_line_ends(text, len, end, false) : end;
}

size_t pattern_llama3(const uint8_t *text, size_t len, size_t *skip) {
    (void)skip;
    return family_next(text, len, (struct family){UNICODE_LETTER, 3, true});
}

size_t pattern_qwen2(const uint8_t *text, size_t len, size_t *skip) {
    (void)skip;
    return family_next(text, len, (struct family){UNICODE_LETTER, 1, true});
}

size_t pattern_long_numbers(const uint8_t *text, size_t len, size_t *skip) {
    (void)skip;
    return family_next(text, len, (struct family){UNICODE_LETTER, SIZE_MAX, true});
}

size_t pattern_qwen35(const uint8_t *text, size_t len, size_t *skip) {
    (void)skip;
    return family_next(text, len, (struct family){UNICODE_LETTER | UNICODE_MARK, 1, true});
}

size_t pattern_seed_coder(const uint8_t *text, size_t len, size_t *skip) {
    (void)skip;
    return family_next(text, len, (struct family){UNICODE_LETTER, 1, false});
}

size_t pattern_lines(const uint8_t *text, size_t len, size_t *skip) {
    (void)skip;
    size_t end = 0;
    if (text[0] == '\n') {
        while (end < len && text[end] == '\n') end++;
        return end;
    }
    const uint8_t *const line_end = memchr(text, '\n', len);
    return line_end ? (size_t)(line_end - text) : len;
}
