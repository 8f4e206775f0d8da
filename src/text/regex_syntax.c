// One pass over a pattern that copies it and knows only escapes and brackets. Syntax that both
// libraries read alike is copied. \w and \b, for which PCRE2 has other characters, are written out.
// Other syntax that they read differently is refused: sets within brackets, \h, \K, \R, \X, inline
// options other than i.
#include "text/regex_syntax.h"

#include <stdlib.h>
#include <string.h>

#include "unicode/unicode.h"

struct reader {
    const char *text;
    size_t len, at;
    char *out;
    size_t used;
    bool in_set;   // inside [ ]
    size_t set_at; // where its first character is
    rn_error *err;
};

// Oniguruma's \w: the property Alphabetic, which has the enclosed letters, marks, decimal digits
// and connectors. Outside brackets it also takes the other numbers of Latin-1. A class is last, so
// that a hyphen behind it makes no range.
#define WORD_IN_SET                                                                                \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}"      \
    "\\x{1F170}-\\x{1F189}\\p{Pc}"
#define WORD "\\xB2\\xB3\\xB9\\xBC-\\xBE" WORD_IN_SET

// The replacement of an escape; `in_set` is NULL where the escape is copied inside brackets.
static const struct escape {
    char letter;
    const char *plain, *in_set;
} escapes[] = {
    {'w', "[" WORD "]", WORD_IN_SET},
    {'W', "[^" WORD "]", NULL},
    {'b', "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))", NULL},
    {'B', "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))", NULL},
};

enum { ESCAPE_MAX = 4 * sizeof WORD + 40 }; // the longest of them

static void put(struct reader *reader, const char *text) {
    const size_t len = strlen(text);
    memcpy(reader->out + reader->used, text, len);
    reader->used += len;
}

static void put_next(struct reader *reader) {
    reader->out[reader->used++] = reader->text[reader->at++];
}

static rn_status differs(const struct reader *reader, const char *what) {
    return err_set(reader->err, RN_ERR_UNSUPPORTED, "%s at offset %zu", what, reader->at);
}

static bool sees(const struct reader *reader, const char *text) {
    const size_t len = strlen(text);
    return reader->len - reader->at >= len && memcmp(reader->text + reader->at, text, len) == 0;
}

static rn_status escape_read(struct reader *reader) {
    if (reader->len - reader->at < 2) return differs(reader, "a backslash without a character");
    const char next = reader->text[reader->at + 1];
    if (memchr("hHKRXCNOyYQE", next, 12)) return differs(reader, "an escape that is not supported");
    if (next == 'W' && reader->in_set) return differs(reader, "\\W within brackets");
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        const char *const spelled = reader->in_set ? escapes[i].in_set : escapes[i].plain;
        if (next != escapes[i].letter || !spelled) continue;
        put(reader, spelled);
        reader->at += 2;
        return RN_OK;
    }
    put_next(reader);
    put_next(reader);
    // \p{L}, \x{41}: the braces and their content belong to the escape
    bool open = memchr("pPx", next, 3) && sees(reader, "{");
    for (; open && reader->at < reader->len; put_next(reader))
        open = reader->text[reader->at] != '}';
    return RN_OK;
}

static rn_status set_read(struct reader *reader) {
    const char next = reader->text[reader->at];
    if (next == '[') return differs(reader, "a set within brackets");
    if (sees(reader, "&&")) return differs(reader, "an intersection of sets");
    // ] as the first member is itself
    if (next == ']' && reader->at > reader->set_at) reader->in_set = false;
    put_next(reader);
    return RN_OK;
}

// (?i: (?i) (?-i: and the like are read alike; m means something else.
static rn_status options_read(struct reader *reader) {
    size_t at = reader->at + 2;
    while (at < reader->len && (reader->text[at] == 'i' || reader->text[at] == '-')) at++;
    if (at < reader->len && memchr("msxaduwnJU", reader->text[at], 10))
        return differs(reader, "an option that is not supported");
    put_next(reader);
    put_next(reader);
    return RN_OK;
}

static rn_status plain_read(struct reader *reader) {
    const char next = reader->text[reader->at];
    if (sees(reader, "(*") || sees(reader, "(?C") || sees(reader, "(?#"))
        return differs(reader, "a group that is not supported");
    if (sees(reader, "(?")) return options_read(reader);
    // In Oniguruma a count has no possessive form: {2}+ repeats.
    if (sees(reader, "}+")) return differs(reader, "a repeated count");
    put_next(reader);
    if (next != '[') return RN_OK;
    reader->in_set = true;
    if (reader->at < reader->len && reader->text[reader->at] == '^') put_next(reader);
    reader->set_at = reader->at;
    return RN_OK;
}

rn_status regex_syntax_read(struct text_span pattern, char **out, size_t *out_len, rn_error *err) {
    if (pattern.len > REGEX_BYTES_MAX)
        return err_set(err, RN_ERR_UNSUPPORTED, "%zu bytes, at most %d", pattern.len,
                       REGEX_BYTES_MAX);
    if (!unicode_is_valid(pattern.data, pattern.len))
        return err_set(err, RN_ERR_UNSUPPORTED, "not valid UTF-8");
    struct reader reader = {.text = pattern.data, .len = pattern.len, .err = err};
    // an escape has two characters
    reader.out = malloc((pattern.len + 1) * ESCAPE_MAX / 2 + 2);
    if (!reader.out) return err_set(err, RN_ERR_NOMEM, "out of memory for a regular expression");
    rn_status status = RN_OK;
    while (status == RN_OK && reader.at < reader.len) {
        if (reader.text[reader.at] == '\\')
            status = escape_read(&reader);
        else
            status = reader.in_set ? set_read(&reader) : plain_read(&reader);
    }
    if (status != RN_OK) {
        free(reader.out);
        return status;
    }
    *out = reader.out;
    *out_len = reader.used;
    return RN_OK;
}
