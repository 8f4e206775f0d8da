// How a token is to be chosen from a row of logits: a description that the engine makes of a
// sequence and that every backend carries out with the same result. The operations, in their order:
//
//   1. mask: the logit of an id that is not allowed becomes -INFINITY;
//   2. the rows of edits, in their order; within a row bias, repetition, presence and frequency,
//      DRY. Each is computed in double from the float before it, bounded to the finite floats and
//      rounded to a float. It leaves a logit alone that is not finite;
//   3. the largest logit when the temperature is 0, of equals the lowest id. Otherwise the filters
//      of sampling.def, then the largest sum of logit and noise (noise.h).
//
// docs/NUMERICS.md, "Sampling", defines each filter to the bit.
#ifndef RN_PLAN_CHOICE_H
#define RN_PLAN_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The numbers of the sampling table. Windows and lengths that look at the history
// (repeat_last_n, dry_penalty_last_n, dry_allowed_length) are applied by the engine already.
struct choice_numbers {
#define CHOICE_FLOAT                          float
#define CHOICE_INT                            int
#define SAMPLING_NUMBER(kind, id, field, ...) CHOICE_##kind field;
#include "plan/sampling.def"
#undef CHOICE_FLOAT
#undef CHOICE_INT
};

#define CHOICE_BAN (-100.0f)

// The operands of one id's edits. Rows of one id are adjacent.
struct choice_edit {
    int32_t id;
    float bias;       // added when it is not 0; at most CHOICE_BAN: the logit becomes -INFINITY
    int32_t n_output; // times that the token is in the output; 0: no presence or frequency penalty
    int16_t dry;      // exponent of DRY's penalty; -1: none
    bool repeats;     // the repetition penalty applies
};
_Static_assert(sizeof(struct choice_edit) == 16, "a device reads arrays of it");

struct choice {
    const struct choice_numbers *numbers; // NULL: nothing is chosen from this row
    const struct choice_edit *edit;       // [n_edit] ids that are no candidates change nothing
    int n_edit;
    int n_vocab;             // ids below it are candidates: 1 to the plan's
    const uint64_t *allowed; // [token_set_words(n_vocab)] bit id % 64 of word id / 64; NULL: all
    uint64_t key;            // noise_key(seed, choice, position)
    bool wants_logits;       // the row's logits are wanted on the host
};

// A set of token ids.
struct token_set {
    uint64_t *bits; // [token_set_words(n_vocab)], or NULL: empty
};
static inline size_t token_set_words(int n_vocab) { return ((size_t)n_vocab + 63) / 64; }
static inline bool token_set_has(const uint64_t *bits, int32_t id) {
    return (bits[id / 64] >> (id % 64) & 1) != 0;
}

#endif
