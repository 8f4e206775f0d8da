// Template source to tokens. The root mode finds the next tag and cuts the text before it: '-'
// strips all blanks, '+' keeps them, else blanks between a line's start and a block or comment go.
// Ends of blocks and comments swallow one newline. Inside brackets the ends of tags are plain
// operators.
#include <string.h>

#include "jinja/chars.h"
#include "jinja/parser.h"
#include "unicode/unicode.h"

static _Noreturn void fail(const struct lexer *lex, size_t at, const char *text) {
    jinja_parse_fail(lex->parser, (uint32_t)at, "%s", text);
}

static struct token token_make(const struct lexer *lex, int kind, size_t from, size_t to) {
    return (struct token){kind, (uint32_t)from, lex->source + from, to - from};
}

static char char_at(const struct lexer *lex, size_t pos) {
    return pos < lex->len ? lex->source[pos] : 0;
}

static bool has_text(const struct lexer *lex, size_t pos, const char *text) {
    const size_t n = strlen(text);
    return lex->len - pos >= n && memcmp(lex->source + pos, text, n) == 0;
}

static size_t skip_blanks(const struct lexer *lex, size_t pos) {
    return pos + chars_blank_prefix(lex->source + pos, lex->len - pos);
}

// The end of a tag at pos, whose closer is two characters: the offset behind it and behind the
// newline that it swallows; 0 when none stands there.
static size_t tag_end(const struct lexer *lex, size_t pos, const char *closer, bool eats_newline) {
    if (char_at(lex, pos) == '-' && has_text(lex, pos + 1, closer)) {
        return skip_blanks(lex, pos + 3);
    }
    if (eats_newline && char_at(lex, pos) == '+' && has_text(lex, pos + 1, closer)) return pos + 3;
    if (!has_text(lex, pos, closer)) return 0;
    pos += 2;
    return pos + (eats_newline && char_at(lex, pos) == '\n');
}

// "{%" SIGN? blanks WORD blanks, at pos: the offset behind it or 0.
static size_t tag_word(const struct lexer *lex, size_t pos, const char *word, char *sign) {
    pos += 2;
    const char c = char_at(lex, pos);
    *sign = c == '-' || c == '+' ? c : 0;
    pos = skip_blanks(lex, pos + (*sign != 0));
    if (!has_text(lex, pos, word)) return 0;
    return skip_blanks(lex, pos + strlen(word));
}

// The end of the text from `from` to `to` that stays before a tag with this sign.
static size_t text_end(const struct lexer *lex, size_t from, size_t to, char sign, bool is_block) {
    if (sign == '-') return to - chars_blank_suffix(lex->source + from, to - from);
    if (sign == '+' || !is_block) return to;
    size_t line = to;
    while (line > from && lex->source[line - 1] != '\n') line--;
    if (line == from && from > 0 && lex->source[from - 1] != '\n') return to;
    return chars_blank_prefix(lex->source + line, to - line) == to - line ? line : to;
}

static size_t find_tag(const struct lexer *lex, size_t pos) {
    for (; pos + 1 < lex->len; pos++) {
        const char *brace = memchr(lex->source + pos, '{', lex->len - pos);
        if (!brace) break;
        pos = (size_t)(brace - lex->source);
        const char c = char_at(lex, pos + 1);
        if (c == '%' || c == '{' || c == '#') return pos;
    }
    return lex->len;
}

static void skip_comment(struct lexer *lex) {
    for (size_t pos = lex->pos; pos < lex->len; pos++) {
        const size_t end = tag_end(lex, pos, "#}", true);
        if (!end) continue;
        lex->pos = end;
        return;
    }
    fail(lex, lex->begin_at, "the comment has no end");
}

// The end of the tag "raw" at `at`, or 0.
static size_t raw_tag_end(const struct lexer *lex, size_t at) {
    char sign;
    const size_t pos = tag_word(lex, at, "raw", &sign);
    return pos ? tag_end(lex, pos, "%}", false) : 0;
}

// Enters the mode of the tag at `at`.
static void tag_open(struct lexer *lex, size_t at, bool has_sign) {
    const char c = lex->source[at + 1];
    const size_t raw_end = c == '%' ? raw_tag_end(lex, at) : 0;
    lex->pos = at + 2 + has_sign;
    lex->has_begun = false;
    lex->begin_at = (uint32_t)at;
    if (c == '#') {
        skip_comment(lex);
    } else if (raw_end) {
        lex->pos = raw_end;
        lex->mode = LEXER_RAW;
    } else {
        lex->mode = c == '{' ? LEXER_VARIABLE : LEXER_BLOCK;
    }
}

static struct token next_in_root(struct lexer *lex) {
    const size_t from = lex->pos, at = find_tag(lex, from);
    if (at == lex->len) {
        lex->pos = lex->len;
        return token_make(lex, from < at ? T_DATA : T_EOF, from, at);
    }
    const char next = char_at(lex, at + 2);
    const char sign = next == '-' || next == '+' ? next : 0;
    const size_t to = text_end(lex, from, at, sign, lex->source[at + 1] != '{');
    tag_open(lex, at, sign != 0);
    return token_make(lex, T_DATA, from, to);
}

static struct token next_in_raw(struct lexer *lex) {
    const size_t from = lex->pos;
    for (size_t at = from; at < lex->len; at++) {
        char sign;
        if (!has_text(lex, at, "{%")) continue;
        const size_t pos = tag_word(lex, at, "endraw", &sign);
        const size_t end = pos ? tag_end(lex, pos, "%}", true) : 0;
        if (!end) continue;
        const size_t to = text_end(lex, from, at, sign, true);
        lex->pos = end;
        lex->mode = LEXER_ROOT;
        return token_make(lex, T_DATA, from, to);
    }
    fail(lex, lex->begin_at, "expected 'endraw'");
}

static size_t digits_end(const struct lexer *lex, size_t pos) {
    while (char_at(lex, pos) >= '0' && char_at(lex, pos) <= '9') pos++;
    return pos;
}

// Floats and numbers of other bases, with underscores or with zeros in front are not supported.
static struct token next_number(struct lexer *lex) {
    const size_t from = lex->pos, end = digits_end(lex, from);
    const char next = char_at(lex, end);
    const bool is_item = from && lex->source[from - 1] == '.'; // x.0.1 has two of them
    const bool is_float = !is_item && next == '.' && digits_end(lex, end + 1) > end + 1;
    const bool has_zero = lex->source[from] == '0' && end > from + 1;
    if (is_float || has_zero || (next && strchr("_eExXoObB", next))) {
        fail(lex, from, "this form of a number is not supported");
    }
    lex->pos = end;
    return token_make(lex, T_INTEGER, from, end);
}

static struct token next_string(struct lexer *lex) {
    const size_t from = lex->pos;
    const char quote = lex->source[from];
    for (size_t pos = from + 1; pos < lex->len; pos++) {
        if (lex->source[pos] == '\\') {
            pos++;
        } else if (lex->source[pos] == quote) {
            lex->pos = pos + 1;
            return token_make(lex, T_STRING, from, lex->pos);
        }
    }
    fail(lex, from, "the string has no end");
}

static struct token next_name(struct lexer *lex) {
    const size_t from = lex->pos;
    size_t pos = from;
    while (pos < lex->len) {
        size_t n;
        const int32_t cp = unicode_decode((const uint8_t *)lex->source + pos, lex->len - pos, &n);
        const unsigned in_names = UNICODE_LETTER | UNICODE_MARK | UNICODE_NUMBER;
        if (cp != '_' && !(unicode_traits(cp) & in_names)) break;
        pos += n;
    }
    if (pos == from) fail(lex, from, "unexpected character");
    if (pos - from > JINJA_MAX_NAME) fail(lex, from, "the name is longer than 256 bytes");
    lex->pos = pos;
    return token_make(lex, T_NAME, from, pos);
}

static struct token next_operator(struct lexer *lex) {
    const size_t from = lex->pos;
    const char c = lex->source[from];
    if (has_text(lex, from, "**")) fail(lex, from, "the operator '**' is not supported");
    if (c == '/') fail(lex, from, "the operator '/' is not supported");
    if (c && strchr("=!<>", c) && char_at(lex, from + 1) == '=') {
        lex->pos = from + 2;
        return token_make(lex, T_SIGN, from, lex->pos);
    }
    if (c == 0 || !strchr("+-*%~[](){}><=.:|,", c)) return next_name(lex);
    lex->n_open += c == '(' || c == '[' || c == '{';
    // The parser checks that they match.
    lex->n_open -= (c == ')' || c == ']' || c == '}') && lex->n_open > 0;
    lex->pos = from + 1;
    return token_make(lex, T_SIGN, from, lex->pos);
}

static struct token next_in_tag(struct lexer *lex) {
    const bool is_block = lex->mode == LEXER_BLOCK;
    const char *closer = is_block ? "%}" : "}}";
    if (!lex->has_begun) {
        lex->has_begun = true;
        return token_make(lex, is_block ? T_TAG : T_OUTPUT, lex->begin_at, lex->pos);
    }
    for (;;) { // the end is tried before blanks, as "-%}" begins with an operator
        const size_t from = lex->pos;
        const size_t end = lex->n_open ? 0 : tag_end(lex, from, closer, is_block);
        if (end) {
            lex->pos = end;
            lex->mode = LEXER_ROOT;
            return (struct token){T_SIGN, (uint32_t)from, closer, 2}; // without '-' and blanks
        }
        lex->pos = skip_blanks(lex, from);
        if (lex->pos == from) break;
    }
    if (lex->pos == lex->len) {
        fail(lex, lex->begin_at, is_block ? "the block has no '%}'" : "expected '}}'");
    }
    const char c = lex->source[lex->pos];
    if (c >= '0' && c <= '9') return next_number(lex);
    if (c == '"' || c == '\'') return next_string(lex);
    return next_operator(lex);
}

struct token jinja_lexer_next(struct lexer *lex) {
    while (lex->mode == LEXER_ROOT || lex->mode == LEXER_RAW) {
        const struct token token = lex->mode == LEXER_RAW ? next_in_raw(lex) : next_in_root(lex);
        if (token.kind != T_DATA || token.len) return token; // else the rules for blanks left none
    }
    return next_in_tag(lex);
}
