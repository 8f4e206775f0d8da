// Front ends: each reads a source into a grammar and sets its start. Errors are the grammar's.
#ifndef RN_CONSTRAINT_FRONT_H
#define RN_CONSTRAINT_FRONT_H

#include "constraint/grammar.h"

void schema_read(struct grammar *g, const char *text, size_t len);
void object_read(struct grammar *g);
void gbnf_read(struct grammar *g, const char *text, size_t len);
void lark_read(struct grammar *g, const char *text, size_t len);
void choices_read(struct grammar *g, const char *text, size_t len);
void structure_read(struct grammar *g, const char *text, size_t len);
void regex_read(struct grammar *g, const char *text, size_t len);

// The rule "root" of a grammar.
const struct node *gbnf_node(struct grammar *g, const char *text, size_t len);
// Whether a grammar is in Lark and not in GBNF.
bool lark_is(const char *text, size_t len);

// The classes of an expression, written in another alphabet: JSON strings escape some characters.
typedef const struct node *(*regex_class_fn)(struct grammar *g, const struct range *range,
                                             size_t n);
// The rule "start" of a grammar in Lark.
const struct node *lark_node(struct grammar *g, const char *text, size_t len,
                             regex_class_fn class_node);
// The node of an expression. is_search: without an anchor, other characters may come before or
// behind. `place` starts the messages ("/pattern: "), and may be "".
const struct node *regex_node(struct grammar *g, const char *text, size_t len, bool is_search,
                              regex_class_fn class_node, const char *place);

// The same with flags.
enum {
    REGEX_SEARCH = 1,      // as is_search
    REGEX_IGNORE_CASE = 2, // of ASCII letters
    REGEX_DOT_ALL = 4,     // "." is any character
    REGEX_VERBOSE = 8,     // blanks and comments are no text
    REGEX_PYTHON = 16,     // {,n} is a repetition
};
const struct node *regex_node_with(struct grammar *g, const char *text, size_t len, unsigned flags,
                                   regex_class_fn class_node, const char *place);

// The value of a hexadecimal digit; -1: it is none.
static inline int hex_digit(uint8_t c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

#endif
