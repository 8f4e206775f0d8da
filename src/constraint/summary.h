// The part of a mask that depends on a state alone: the tokens that stay inside its rule, and the
// nodes of the trie at which a token leaves the rule. Only wide states have one, such as those in
// a string; for narrow ones a walk is as cheap. Summaries of equal rules are shared by the
// constraints of a vocabulary. They are made when a constraint is compiled, or when they are
// first needed; whichever thread is first publishes. All summaries of a vocabulary share a bound on
// their bytes: the one that was used least recently makes room. A summary is counted, so it lives
// as long as a mask uses it.
#ifndef RN_CONSTRAINT_SUMMARY_H
#define RN_CONSTRAINT_SUMMARY_H

#include "constraint/automaton.h"
#include "constraint/vocab.h"

struct summary_leave {
    uint32_t node;
    uint16_t state; // in the rule, from 0 on
    uint16_t units; // that ended on the way there
};

struct share;
struct summary {
    _Atomic int refs;
    struct share *share; // of the vocabulary's lock: where it is found, and its place in the list
    uint32_t local;
    struct summary *newer, *older;
    uint64_t *inner;      // [n_words] tokens that stay inside
    uint32_t need_max;    // the most units that one of them needs
    uint32_t *need_begin; // [need_max + 2] of a counted rule: where the tokens of a need begin
    int32_t *by_need;     // tokens by the units that they need
    struct summary_leave *leave; // [n_leave]
    uint32_t n_leave;
    uint32_t leave_max; // the most units of one
    size_t bytes;
};

enum { SUMMARY_BYTES_MAX = 64 << 20 }; // of a vocabulary

enum summary_width { WIDTH_UNKNOWN, WIDTH_NARROW, WIDTH_WIDE };

// The summaries of a rule.
struct share {
    struct share *next, *same_hash;
    _Atomic int refs;
    bool is_listed; // found by constraints with an equal rule
    uint64_t hash;
    uint32_t n;             // states
    uint16_t (*row)[256];   // [n] for the comparison: from 1 on, 0 is dead; NULL where not listed
    uint8_t *flags;         // [n]
    uint64_t follow[4];     // as the rule's
    _Atomic uint8_t *width; // [n] enum summary_width
    struct summary *summary[]; // [n] NULL: not at hand; of the vocabulary's lock
};

// The bytes of the shares that a machine may need, without their summaries.
size_t shares_bytes(const struct machine *machine);
// NULL: out of memory.
struct share *share_acquire(struct constraint_vocab *vocab, const struct machine *machine,
                            uint32_t rule);
void share_release(struct constraint_vocab *vocab, struct share *share);
void shares_destroy(struct constraint_vocab *vocab);

// Whether a walk from the state (of the machine) looks at many nodes. *visited grows by the nodes
// that were looked at.
bool summary_is_wide(const struct constraint_vocab *vocab, const struct machine *machine,
                     struct share *share, uint32_t state, uint64_t *visited);
// The summary of a wide state; NULL: it is not at hand, or the lock was taken for long.
const struct summary *summary_find(struct constraint_vocab *vocab, const struct machine *machine,
                                   struct share *share, uint32_t state);
// Finds it or makes it, by a walk over the trie or two; NULL: out of memory.
const struct summary *summary_acquire(struct constraint_vocab *vocab, const struct machine *machine,
                                      struct share *share, uint32_t state, uint64_t *visited);
void summary_release(const struct summary *summary); // NULL is fine

void constraint_kept_drop(struct constraint_vocab *vocab); // in constraint.c

#endif
