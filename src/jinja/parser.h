// Template source to tokens to syntax tree. lexer.c, parse_expr.c and parse_stmt.c share this
// interface; template.c calls jinja_parse alone. The parser pulls tokens, which point into the
// source. Depth is counted where recursion is: brackets, unary operators, blocks.
// A failure jumps back to jinja_parse, so nothing in between checks for errors. The template owns
// all nodes.
#ifndef RN_JINJA_PARSER_H
#define RN_JINJA_PARSER_H

#include <setjmp.h>
#include <stdarg.h>

#include "base/arena.h"
#include "base/status.h"
#include "jinja/ast.h"
#include "jinja/template.h"

struct template {
    struct arena arena;
    char *source; // newlines are \n alone
    size_t len;
    struct node *body;
};

// Parses tmpl->source into tmpl->body.
rn_status jinja_parse(struct template *tmpl, rn_error *err);

// Sets "line 3, column 14: MESSAGE" for an offset in the source; columns are characters.
rn_status jinja_error(const struct template *tmpl, size_t at, rn_error *err, const char *fmt,
                      va_list args) RN_PRINTF(4, 0);

// The rest is for the parser's own files.

enum token_kind {
    T_EOF,
    T_DATA,
    T_OUTPUT, // "{{"
    T_TAG,    // "{%"
    T_SIGN,   // an operator, a bracket, the end of a tag
    T_NAME,
    T_STRING, // with its quotes
    T_INTEGER,
};

struct token {
    enum token_kind kind;
    uint32_t at; // offset in the source
    const char *text;
    size_t len;
};

enum lexer_mode { LEXER_ROOT, LEXER_VARIABLE, LEXER_BLOCK, LEXER_RAW };

enum { JINJA_MAX_NAME = 256 }; // bytes; bounds the comparison of names

struct lexer {
    struct parser *parser; // for failures
    const char *source;    // newlines are \n alone
    size_t len, pos;
    enum lexer_mode mode;
    bool has_begun; // the opening token of the mode was given
    uint32_t begin_at;
    int n_open; // brackets around the place
};

struct token jinja_lexer_next(struct lexer *lex);

struct parser {
    struct template *tmpl;
    struct lexer lex;
    struct token current, ahead;
    bool has_ahead;
    int depth;
    int n_loops;    // around the current place, within the macro
    jmp_buf failed; // where failures go
    rn_status status;
    rn_error *err;
};

struct node_list {
    struct node *head, *last;
};

void jinja_list_add(struct node_list *list, struct node *node);
struct node *jinja_node(struct parser *p, enum node_kind kind, uint32_t at, struct node *a);
// The name that is the current token, which is taken.
struct node *jinja_name_node(struct parser *p, enum node_kind kind);
void *jinja_parse_alloc(struct parser *p, size_t bytes);
struct str *jinja_parse_str(struct parser *p, const char *data, size_t len); // borrows data

_Noreturn void jinja_parse_fail(struct parser *p, uint32_t at, const char *fmt, ...)
    RN_PRINTF(3, 4);
_Noreturn void jinja_parse_unexpected(struct parser *p, const char *wanted);

void jinja_advance(struct parser *p);
// Names, operators and the ends of tags are known by their text.
bool jinja_is_text(const struct token *token, const char *text);
bool jinja_at(const struct parser *p, const char *text);
bool jinja_skip(struct parser *p, const char *text);
void jinja_expect(struct parser *p, const char *text);
// Counts a level of recursion; jinja_leave takes it back. Fails when it is too deep.
void jinja_enter(struct parser *p);
void jinja_leave(struct parser *p);

// The items with commas between them from the opening bracket, which is the current token, to the
// closer. `last` is the item before, or NULL.
typedef struct node *item_parser(struct parser *p, const struct node *last);
struct node *jinja_parse_items(struct parser *p, const char *closer, item_parser *parse);
struct node *jinja_parse_name(struct parser *p); // a constant or a variable
struct node *jinja_parse_expression(struct parser *p, bool with_cond);
// One expression, or a tuple of several with commas between them.
struct node *jinja_parse_tuple(struct parser *p, bool with_cond, bool is_bracketed);
// "|name(args)|..." onto base, which may be NULL; is_inline: the first has no '|'.
struct node *jinja_parse_filters(struct parser *p, struct node *base, bool is_inline);

#endif
