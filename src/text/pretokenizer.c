// The table of pre-tokenizers and their splitters. Called by tokenizer.c for the stretches between
// special tokens.
#include "text/pretokenizer.h"

#include <string.h>

#include "text/unicode.h"

// Where the run of units of one class that goes on at `at` ends.
static size_t run_end(const uint8_t *text, size_t len, size_t at, enum unicode_class class) {
    while (at < len) {
        size_t n;
        if (unicode_class_at(text + at, len - at, &n) != class) break;
        at += n;
    }
    return at;
}

// \s+(?!\S)|\s+ at white space: the whole run at the end of the text; otherwise all but its last
// unit, which belongs to the next word or stands alone.
static size_t space_len(const uint8_t *text, size_t len) {
    size_t end = 0, last = 0;
    while (end < len) {
        size_t n;
        if (unicode_class_at(text + end, len - end, &n) != UNICODE_SPACE) break;
        last = end;
        end += n;
    }
    return end == len || last == 0 ? end : last;
}

// 's|'t|'re|'ve|'m|'ll|'d: its length, or 0.
static size_t contraction_len(const uint8_t *text, size_t len) {
    if (len < 2 || text[0] != '\'') return 0;
    if (memchr("stmd", text[1], 4)) return 2;
    if (len < 3) return 0;
    const int pair = text[1] << 8 | text[2];
    return pair == ('r' << 8 | 'e') || pair == ('v' << 8 | 'e') || pair == ('l' << 8 | 'l') ? 3 : 0;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
static size_t gpt2_next(const uint8_t *text, size_t len) {
    const size_t contraction = contraction_len(text, len);
    if (contraction) return contraction;
    const size_t lead = text[0] == ' ' && len > 1; // the space that a word may begin with
    size_t n;
    const enum unicode_class class = unicode_class_at(text + lead, len - lead, &n);
    if (class == UNICODE_SPACE) return space_len(text, len);
    return run_end(text, len, lead + n, class);
}

static const struct {
    const char *name;
    pretokenizer_fn next;
} table[] = {
    {"", gpt2_next},
    {"gpt-2", gpt2_next},
};

pretokenizer_fn pretokenizer_find(struct text_span name) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strlen(table[i].name) != name.len) continue;
        if (name.len == 0 || !memcmp(table[i].name, name.data, name.len)) return table[i].next;
    }
    return NULL;
}
