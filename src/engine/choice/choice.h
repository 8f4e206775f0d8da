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

// Units of work (constraint.h) that all masks of a step share, and the most that one of them gets.
// Used by several threads at once, so a step may spend a few times more units than these, in the
// time of these.
struct mask_units {
    _Atomic int64_t left;
    int64_t most;
};

enum { CHOICE_DRY_MATCH = 1024 }; // tokens; a longer repetition is taken as one of this length

// Scratch of one thread.
struct choice_scratch {
    int32_t *row;      // [n_vocab] index of an id's edit, from 1 on; all zero between descriptions
    int32_t *match;    // [CHOICE_DRY_MATCH]
    uint64_t compares; // of tokens for DRY in the last description: at most two per token
    struct mask_units *units; // of the step; NULL: no bound
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
    int n_shaped; // tokens that the shape has followed; drafted ones only for a moment
    int n_costly; // masks that get no units of a step, since one before them took too many
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

// The shape follows the known tokens, of which there are n_token, and works on the mask behind
// them, with the units of the step. True: the choice of the token at n_token may be described.
// *is_there: the shape stands at n_token, so that the rest may be left to the maker.
bool choice_prepare(struct choice_scratch *scratch, struct choices *choices, int n_token,
                    bool *is_there);

// How the token at position n_token is chosen, after the n_token tokens before it (known ones, and
// drafted ones behind them); shape and constraint, where there are any, stand there. The
// description is in that slot of the room, until the slot is used again. False: the units of the
// step do not suffice for its mask.
bool choice_describe(struct choice_scratch *scratch, const struct choices *choices, int n_token,
                     int slot, struct choice *out);

// The first n_token tokens stay: the reasoning is followed up to there, or with the shape.
void choice_follow(struct choices *choices, int n_token);

// A token was chosen: the constraint moves over it. The shape follows with choice_prepare.
void choice_take(const struct choices *choices, int32_t token);

// Moves shape and constraint over the drafted token at position n_token, and back over n tokens;
// nothing without them. The tokens before n_token are in place. False: the units of the step are
// spent, and nothing has moved.
bool choice_advance(struct choice_scratch *scratch, const struct choices *choices, int n_token,
                    int32_t token);
void choice_rollback(const struct choices *choices, int n);

// How many of the n tokens from position n_token on shape and constraint would let pass one after
// the other, as far as the units of the step suffice; they stand at n_token before and after. n
// without them. Uses slot 0.
int choice_allowed(struct choice_scratch *scratch, const struct choices *choices, int n_token,
                   int n);

// The bytes that must come at n_token by the shape, where it stands; at most size.
size_t choice_forced(struct choice_scratch *scratch, const struct choices *choices, int n_token,
                     char *out, size_t size);

// Whether no token is left at n_token because the text has its shape: it ends there.
bool choice_is_complete(struct choices *choices, int n_token);
// Why no token is left at n_token: a shape's reason, or NULL. *status: RN_ERR_NUMERIC where it was
// not the shape. Uses slot 0.
const char *choice_failure(struct choices *choices, int n_token, rn_status *status);

#endif
