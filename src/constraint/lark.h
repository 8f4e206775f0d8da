// What lark.c and lark_body.c share: the definitions of a grammar.
#ifndef RN_CONSTRAINT_LARK_H
#define RN_CONSTRAINT_LARK_H

#include "constraint/front.h"
#include "constraint/lark_lex.h"

enum { LARK_MAX_IGNORED = 64 };

struct lark_definition {
    bool is_defined;
    bool is_open;            // its body is being read
    size_t at, body;         // offsets of the name and of its text
    const char *expression;  // of a terminal that is imported; NULL: the text is in the source
    const struct node *node; // of a terminal, once it was read
    uint32_t rule;           // of a rule: index + 1; 0: none yet
};

struct lark {
    struct source source;
    regex_class_fn class_node;
    struct names names;
    struct lark_definition *definition; // [n_definition] by the index of their name
    uint32_t n_definition;
    uint32_t *todo, n_todo, todo_capacity; // definitions whose rules have no body yet
    size_t ignored[LARK_MAX_IGNORED];      // [n_ignored] offsets behind "%ignore"
    uint32_t n_ignored;
    const struct node *between; // ignored text, any number of times; NULL: none
    int depth;                  // of terminals inside each other
};

// The index of a name's definition; UINT32_MAX: an error.
uint32_t lark_named(struct lark *l, const struct lark_token *token);
// Alternatives up to the end of their line. self: the rule that they define, index + 1; 0: they are
// a terminal's.
const struct node *lark_body(struct lark *l, size_t at, uint32_t self);
// A terminal by its name, and a rule.
const struct node *lark_terminal(struct lark *l, const struct lark_token *token);
// A terminal's text where a rule has it: as long as it can be there. name: for messages.
const struct node *lark_text(struct lark *l, const struct node *node, const char *name, size_t len);
const struct node *lark_rule(struct lark *l, const struct lark_token *token);

#endif
