// The description of a choice (plan/choice.h), made from a sequence's `struct choices`: edits
// counted from its tokens, the mask of its shape and constraint, the bans of its rules. Nothing
// else is kept between descriptions, so only these two are rolled back: a description depends on
// the tokens up to its position alone.
// Called by the threads of the step, with a scratch each, and by the draft model.
#ifndef RN_ENGINE_CHOICE_CHOICE_H
#define RN_ENGINE_CHOICE_CHOICE_H

#include "base/status.h"
#include "engine/choice/rules.h"
#include "engine/choice/shape.h"
#include "plan/choice.h"
#include "runnel.h"

enum { CHOICE_DRY_MATCH = 1024 }; // tokens; a longer repetition is taken as one of this length

// Scratch of one thread.
struct choice_scratch {
    int32_t *row;      // [n_vocab] index of an id's edit, from 1 on; all zero between descriptions
    int32_t *match;    // [CHOICE_DRY_MATCH]
    uint64_t compares; // of tokens for DRY in the last description: at most two per token
};

rn_status choice_scratch_init(struct choice_scratch *scratch, int n_vocab, rn_error *err);
void choice_scratch_deinit(struct choice_scratch *scratch);

// One scratch for each of n threads.
rn_status choice_scratch_create(int n, int n_vocab, struct choice_scratch **out, rn_error *err);
void choice_scratch_destroy(struct choice_scratch *scratch, int n); // NULL is fine

// How a sequence chooses its tokens. The first part is filled in before choices_init, which makes
// the rest: room for the descriptions of one step, and their common part. Only used memory is ever
// touched.
struct choices {
    const int32_t *token; // the sequence's: the prompt, the output, and a draft behind them
    int n_prompt;
    int index;                 // which choice of its request it is
    rn_sampling sampling;      // checked, with its seed drawn, its biases in the order of their ids
    struct token_set breakers; // of DRY
    rn_constraint constraint;  // mask NULL: none
    const struct rules *rules; // NULL: none
    struct text_shape *shape;  // of the request, which all its choices share; NULL: none

    struct reasoning_state reasoning; // behind the first n_followed tokens
    int n_followed;
    struct choice_numbers numbers;
    int n_vocab;
    int n_slots;              // descriptions: one for each row to choose from
    bool repeats, counts_dry; // edits that look at the history
    bool counts_output, has_bans;
    size_t n_bias;
    size_t max_edits;         // of a slot
    struct choice_edit *edit; // [n_slots, max_edits]; without history the biases alone, for all
    // [n_slots, token_set_words(n_vocab)]; NULL without a shape, a constraint and a reasoning
    uint64_t *allowed;
};

// limit: most tokens of the sequence.
rn_status choices_init(struct choices *choices, int n_vocab, int limit, int n_slots, rn_error *err);
// Frees the room alone: sampling and breakers are the caller's.
void choices_deinit(struct choices *choices);

// Whether the next description depends on the tokens before it, not on their number alone.
bool choice_needs_history(const struct choices *choices);

// How the token at position n_token is chosen, after the n_token tokens before it (known ones, and
// drafted ones behind them); shape and constraint, where there are any, stand there. The
// description is in that slot of the room, until the slot is used again.
void choice_describe(struct choice_scratch *scratch, const struct choices *choices, int n_token,
                     int slot, struct choice *out);

// The first n_token tokens stay: the reasoning is followed up to there.
void choice_follow(struct choices *choices, int n_token);

// Moves shape and constraint over the token at position n_token, and back over n tokens; nothing
// without them. The tokens before n_token are in place.
void choice_advance(const struct choices *choices, int n_token, int32_t token);
void choice_rollback(const struct choices *choices, int n);

// How many of the n tokens from position n_token on shape and constraint would let pass one after
// the other; they stand at n_token before and after. n without them. Uses slot 0.
int choice_allowed(const struct choices *choices, int n_token, int n);

// The bytes that must come at n_token by the shape, where it stands; at most size.
size_t choice_forced(const struct choices *choices, int n_token, char *out, size_t size);

// Whether no token is left at n_token because the text has its shape: it ends there.
bool choice_is_complete(const struct choices *choices, int n_token);
// Why no token is left at n_token: a shape's reason, or NULL. *status: RN_ERR_NUMERIC where it was
// not the shape. Uses slot 0.
const char *choice_failure(const struct choices *choices, int n_token, rn_status *status);

#endif
