// The syntax tree: one kind of node for statements and expressions, immutable once parsed. Chains
// of operators of one precedence, of attributes, calls and filters, of elif and else-if are lists,
// so depth grows with brackets and blocks alone.
#ifndef RN_JINJA_AST_H
#define RN_JINJA_AST_H

#include "jinja/value.h"

enum node_kind {
    // Expressions.
    N_CONST,  // constant
    N_NAME,   // constant: the name
    N_LIST,   // a: items
    N_TUPLE,  // a: items
    N_DICT,   // a: pairs
    N_PAIR,   // a: key, b: value
    N_NEGATE, // a
    N_NOT,    // a
    N_COND,   // a: list of N_BRANCH, b: else or NULL
    N_BRANCH, // a: condition, b: expression or body
    N_CHAIN,  // a: base (NULL in filter blocks), b: links, c: the last of them

    // Links of a chain.
    L_ATTR,   // constant: the name
    L_ITEM,   // a: key
    L_SLICE,  // a, b, c: start, stop, step or NULL
    L_CALL,   // a: arguments
    L_FILTER, // name, entry (NULL: unknown), a: arguments
    L_TEST,   // name, entry, a: arguments; is_negated
    L_BINARY, // op, a: right operand

    A_KEYWORD, // an argument by name. constant: the name, a

    // Targets are N_NAME, N_TUPLE and:
    N_NSREF, // constant: the name, a: N_CONST of the attribute

    // Statements.
    S_TEXT,      // constant
    S_OUTPUT,    // a
    S_IF,        // a: list of N_BRANCH, b: else body
    S_FOR,       // a: target, b: iterable, c: test or NULL, d: body
    S_SET,       // a: target, b: expression
    S_SET_BLOCK, // a: target, b: chain of filters or NULL, c: body
    N_MACRO,     // constant: the name, a: parameters, b: body
    N_PARAM,     // constant: the name, a: default or NULL
    S_FILTER,    // a: chain of filters, b: body
    S_SCOPE,     // b: body
    S_BREAK,
    S_CONTINUE,
};

enum node_op {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_MOD,
    OP_CONCAT,
    OP_AND,
    OP_OR,
    OP_EQ, // from here on comparisons
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOT_IN
};

struct node {
    uint8_t kind, op;
    bool is_negated;   // L_TEST
    uint32_t at;       // offset in the source, for messages
    struct node *next; // in a list
    union {
        struct value constant;
        struct {
            struct str *name;
            const struct entry *entry;
        };
    };
    struct node *a, *b, *c, *d;
};

#endif
