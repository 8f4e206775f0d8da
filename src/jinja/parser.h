// Template source to syntax tree. parse_expr.c and parse_stmt.c share this interface; template.c
// calls jinja_parse alone. Depth is counted where recursion is: brackets, unary operators, blocks.
// A failure jumps back to jinja_parse, so nothing in between checks for errors. The template owns
// all nodes.
#ifndef RN_JINJA_PARSER_H
#define RN_JINJA_PARSER_H

#include <setjmp.h>

#include "base/arena.h"
#include "base/status.h"
#include "jinja/ast.h"
#include "jinja/lexer.h"

struct template {
    struct arena arena;
    char *source; // newlines are \n alone
    size_t len;
    struct node *body;
};

// Parses tmpl->source into tmpl->body.
rn_status jinja_parse(struct template *tmpl, rn_error *err);

// Line and column (in characters) of an offset in the source, both from 1.
void jinja_position(const struct template *tmpl, size_t at, size_t *line, size_t *column);

// The rest is for the parser's own files.
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
struct node *jinja_node(struct parser *p, enum node_kind kind, uint32_t at);
// The name that is the current token, which is taken.
struct node *jinja_name_node(struct parser *p, enum node_kind kind);
void *jinja_parse_alloc(struct parser *p, size_t bytes);
struct str *jinja_parse_str(struct parser *p, const char *data, size_t len); // borrows data

_Noreturn void jinja_parse_fail(struct parser *p, uint32_t at, const char *fmt, ...)
    RN_PRINTF(3, 4);
_Noreturn void jinja_parse_unexpected(struct parser *p, const char *wanted);

void jinja_advance(struct parser *p);
bool jinja_is_name(const struct token *token, const char *name);
bool jinja_skip_name(struct parser *p, const char *name);
bool jinja_skip(struct parser *p, int kind);
void jinja_expect(struct parser *p, int kind);
// Counts a level of recursion; jinja_leave takes it back. Fails when it is too deep.
void jinja_enter(struct parser *p);
void jinja_leave(struct parser *p);

struct node *jinja_parse_expression(struct parser *p, bool with_cond);
// One expression, or a tuple of several with commas between them.
struct node *jinja_parse_tuple(struct parser *p, bool with_cond, bool is_bracketed);
// "|name(args)|..." onto base, which may be NULL; is_inline: the first has no '|'.
struct node *jinja_parse_filters(struct parser *p, struct node *base, bool is_inline);

#endif
