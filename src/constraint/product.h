// Operations on regular languages, given as nodes without calls: both, or the first without the
// second. The result is a node over bytes. NULL: an error of the grammar.
#ifndef RN_CONSTRAINT_PRODUCT_H
#define RN_CONSTRAINT_PRODUCT_H

#include "constraint/automaton.h"

const struct node *node_both(struct grammar *g, const struct node *a, const struct node *b);
const struct node *node_without(struct grammar *g, const struct node *a, const struct node *b);
// Whether the node matches the text.
bool node_matches(struct grammar *g, const struct node *node, const char *text, size_t len);

#endif
