// Template source to tokens, with the whitespace rules that trim_blocks and lstrip_blocks give.
// Pulled by the parser; allocates nothing, tokens point into the source.
#ifndef RN_JINJA_LEXER_H
#define RN_JINJA_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jinja/template.h"

// A token's kind is one of these, or the character that it consists of.
enum token_kind {
    T_ERROR = 256, // lexer.error has the reason
    T_EOF,
    T_DATA,
    T_VARIABLE_BEGIN,
    T_VARIABLE_END,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_NAME,
    T_STRING, // with its quotes
    T_INTEGER,
    T_FLOAT,
    T_EQ,
    T_NE,
    T_GE,
    T_LE,
};

struct token {
    int kind;
    uint32_t at; // offset in the source
    const char *text;
    size_t len;
};

enum lexer_mode { LEXER_ROOT, LEXER_VARIABLE, LEXER_BLOCK, LEXER_RAW };

enum { JINJA_MAX_NAME = 256 }; // bytes; bounds the comparison of names

struct lexer {
    const char *source; // newlines are \n alone
    size_t len, pos;
    enum lexer_mode mode;
    bool is_line_start; // the last match ended with a newline
    bool has_begun;     // the opening token of the mode was given
    uint32_t begin_at;
    int n_open;        // brackets around the place
    const char *error; // a literal
    size_t error_at;
};

void jinja_lexer_init(struct lexer *lex, const char *source, size_t len);
struct token jinja_lexer_next(struct lexer *lex);
// "'('", "the end of the template", ...: how a message names the kind.
void jinja_token_name(int kind, char *out, size_t size);

#endif
