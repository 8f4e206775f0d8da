// Words one after the other, without a state: a reader goes back by going back to an offset.
#include "constraint/lark_lex.h"

#include <string.h>

static uint8_t char_at(const struct source *s, size_t at) { return at < s->len ? s->text[at] : 0; }

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
static bool is_lower(uint8_t c) { return c >= 'a' && c <= 'z'; }
static bool is_upper(uint8_t c) { return c >= 'A' && c <= 'Z'; }
static bool is_name(uint8_t c) { return is_lower(c) || is_upper(c) || is_digit(c) || c == '_'; }

// Blanks, comments and ends of lines. *is_line: there was an end of a line.
static size_t skip(const struct source *s, size_t at, bool *is_line) {
    *is_line = false;
    for (;; at++) {
        const uint8_t c = char_at(s, at);
        if ((c == '/' && char_at(s, at + 1) == '/') || c == '#')
            while (at < s->len && s->text[at] != '\n') at++;
        if (at >= s->len || !memchr(" \t\r\n\f", s->text[at], 5)) return at;
        *is_line |= s->text[at] == '\n';
    }
}

// Up to the closing mark; the mark itself and the backslash may stand behind a backslash.
static bool quoted(const struct source *s, struct lark_token *out, uint8_t mark) {
    size_t at = out->at + 1;
    while (at < s->len && s->text[at] != mark) at += s->text[at] == '\\' ? 2 : 1;
    if (at >= s->len)
        return source_fail(s, out->at, "%s without its end",
                           mark == '"' ? "a string" : "an expression");
    at++;
    if (mark == '/')
        while (is_lower(char_at(s, at))) at++;
    else if (char_at(s, at) == 'i' && !is_name(char_at(s, at + 1)))
        at++;
    out->end = at;
    out->word = mark == '"' ? LARK_STRING : LARK_REGEXP;
    return true;
}

// A minus may stand in a name, as in llguidance's.
static bool name(const struct source *s, struct lark_token *out) {
    size_t at = out->at;
    while (char_at(s, at) == '_') at++;
    out->word = is_upper(char_at(s, at)) ? LARK_TERMINAL : LARK_RULE;
    while (is_name(char_at(s, at)) || (char_at(s, at) == '-' && is_name(char_at(s, at + 1)))) at++;
    out->end = at;
    return true;
}

static bool mark(const struct source *s, struct lark_token *out, uint8_t c) {
    const uint8_t next = char_at(s, out->at + 1);
    out->end = out->at + 1;
    out->mark = c;
    if (c == '%') {
        while (is_name(char_at(s, out->end))) out->end++;
        out->word = LARK_DIRECTIVE;
    } else if ((c == '.' && next == '.') || (c == '-' && next == '>')) {
        out->end++;
        out->word = c == '.' ? LARK_RANGE : LARK_ARROW;
    } else if (!c || !strchr("|()[]*+?~:.,!{}-", c)) {
        return source_fail(s, out->at, "an unexpected character");
    }
    return true;
}

bool lark_next(const struct source *s, size_t at, struct lark_token *out) {
    bool is_line;
    if (!grammar_work(s->g, 2)) return false;
    at = skip(s, at, &is_line);
    *out = (struct lark_token){.word = LARK_MARK, .at = at, .end = at};
    const uint8_t c = char_at(s, at);
    if (at >= s->len || (is_line && c != '|')) {
        out->word = is_line ? LARK_LINE : LARK_END;
        return true;
    }
    if (c == '"' || c == '/') return quoted(s, out, c);
    if (is_digit(c)) {
        out->word = LARK_NUMBER;
        while (is_digit(char_at(s, out->end))) out->end++;
        return true;
    }
    return is_name(c) ? name(s, out) : mark(s, out, c);
}
