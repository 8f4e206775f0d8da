// Thompson's construction: a node becomes states with edges that are empty, a range of bytes, or
// the call of a rule. Internal to the automaton.
#ifndef RN_CONSTRAINT_NFA_H
#define RN_CONSTRAINT_NFA_H

#include "constraint/grammar.h"

enum nfa_kind { NFA_EMPTY, NFA_BYTES, NFA_CALL };

struct nfa_edge {
    uint32_t to;
    uint32_t next; // of the same state; UINT32_MAX: none
    uint32_t rule;
    uint8_t kind, lo, hi;
};

struct nfa {
    uint32_t *first; // [n] the first edge of a state; UINT32_MAX: none
    uint32_t n, capacity;
    struct nfa_edge *edge;
    uint32_t n_edge, edge_capacity;
    uint32_t start, end;
};

// counted: the end is the start, so that the node repeats.
bool nfa_build(struct grammar *g, const struct node *node, bool counted, struct nfa *nfa);

#endif
