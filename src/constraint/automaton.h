// The machine: each rule of a grammar as a deterministic automaton over bytes whose states also
// have calls of other rules. Calls are not determined: a state may have bytes and several calls.
// Invariants: state 0 is dead; every other state can reach the end of its rule; no rule reaches a
// call of itself without a byte, so a closure over calls ends. Immutable once built.
#ifndef RN_CONSTRAINT_AUTOMATON_H
#define RN_CONSTRAINT_AUTOMATON_H

#include "constraint/grammar.h"

enum { MACHINE_MAX_STATES = 65535 }; // a row holds 16-bit states

enum state_flag {
    STATE_ACCEPT = 1,  // the rule may end here; in a counted rule: a unit has ended
    STATE_BYTES = 2,   // some byte leads on
    STATE_CALLS = 4,   // has calls
    STATE_COUNTED = 8, // belongs to a counted rule
    STATE_TAIL = 16,   // accepts and nothing else: a call that returns here may return further
};

struct machine_call {
    uint32_t rule;
    uint32_t to; // the state after the call
};

struct machine_rule {
    const char *name; // lives with the grammar, for messages while it is built
    uint32_t base, n; // its states
    uint32_t start;   // 0: the rule matches nothing
    int64_t min, max; // units of a counted rule
    bool counted, nullable;
    bool greedy;        // it is not left before a byte that leads to another end of it
    bool is_open;       // it may end nearly anywhere, so summaries look at `follow`
    uint64_t follow[4]; // bytes that may come behind the rule
};

struct machine {
    uint32_t n_state;
    uint16_t (*next)[256]; // [n_state]
    uint8_t *flags;        // [n_state]
    uint16_t *rule_of;     // [n_state]
    uint32_t *call_begin;  // [n_state + 1]
    struct machine_call *call;
    struct machine_rule *rule; // [n_rule]
    uint32_t n_rule, start;    // start: a rule
};

// Reads a whole grammar. Refuses rules without a body, rules that start with themselves, and
// grammars that match no text. The machine is the caller's to deinit.
rn_status machine_init(struct machine *machine, struct grammar *g);
void machine_deinit(struct machine *machine);
size_t machine_bytes(const struct machine *machine);

// --- one rule, for operations on regular languages (product.c) ---

struct dfa_edge {
    uint8_t lo, hi;
    uint32_t to;
};
struct dfa_call {
    uint32_t rule, to;
};
struct dfa_state {
    uint32_t edge, n_edge; // edges ascending, apart from each other
    uint32_t call, n_call;
    bool accept;
};
struct dfa {
    struct dfa_state *state; // state 0 is the start
    uint32_t n, capacity;
    struct dfa_edge *edge;
    uint32_t n_edge, edge_capacity;
    struct dfa_call *call;
    uint32_t n_call, call_capacity;
};

// The minimal automaton of a node. Memory of the grammar. A counted node loops over its unit.
bool dfa_build(struct grammar *g, const struct node *node, bool counted, struct dfa *out);

#endif
