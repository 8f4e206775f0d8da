// The shape of a request's text (rn_shape), followed token by token by a run of its constraint. The
// shape starts where the prompt ends, or behind the reasoning:
//
//   BEFORE   the shape, or blanks and the opening mark. The run follows both
//   INSIDE   any token that does not end the text, and none that has text behind the closing mark.
//            A mark that the answer starts with comes where the shape may start with it
//   GAP      the shape, or a few blanks that are no part of it
//   AFTER    the shape
//
// The run has one step of its history for each token of the output, so that n tokens are rolled
// back by n steps. The choices of a request share its shape; each has its own place in the run.
#ifndef RN_ENGINE_CHOICE_SHAPE_H
#define RN_ENGINE_CHOICE_SHAPE_H

#include "constraint/constraint.h"
#include "engine/choice/marks.h"
#include "engine/choice/mask_maker.h"

struct rn_shape {
    struct constraint *constraint;
    const struct tokenizer *tokenizer; // of the model that it was compiled for
    struct marks_kept *marks;          // the model's
};

struct text_shape {
    _Atomic int refs; // of the request, and of each mask that is being made
    struct constraint_run *run;
    rn_constraint hook;                     // of the run
    const struct reasoning_rule *reasoning; // NULL: the text starts with the shape
    const struct rules *rules;              // NULL: none
    struct marks *marks;                    // NULL without a reasoning
    // the maker's: other shapes with orders, and its own ones
    struct text_shape *next_turn;
    struct mask_order *first_order, *last_order;
    struct mask_order order[]; // [n_choices]
};

struct rules;
// *out is NULL where the request has no shape. rules: the request's, which outlive it.
rn_status shape_create(const rn_request *request, int n_choices, const struct rules *rules,
                       const struct tokenizer *tokenizer, struct text_shape **out, rn_error *err);
// Gives up a reference. NULL is fine.
void shape_destroy(struct text_shape *shape);

// state: the reasoning's before the next token; it is not read without a reasoning.
// Works on the next mask, for about that many units (0: only finds it); true: shape_mask has it at
// hand. *spent grows by the units.
bool shape_prepare(struct text_shape *shape, int choice, const struct reasoning_state *state,
                   uint64_t units, uint64_t *spent);
// Clears the bits of tokens that cannot come next; all bits are set before. A mask that was not
// prepared is made, however long that takes.
void shape_mask(struct text_shape *shape, int choice, const struct reasoning_state *state,
                uint64_t *allowed, int n_vocab);
void shape_advance(struct text_shape *shape, int choice, const struct reasoning_state *state,
                   int32_t token);
void shape_rollback(struct text_shape *shape, int choice, int n_tokens);
uint64_t shape_spent(const struct text_shape *shape, int choice); // units so far

// The bytes that must come next, at most size, as far as about that many units find them; none
// before the shape has begun for sure.
size_t shape_forced(struct text_shape *shape, int choice, const struct reasoning_state *state,
                    char *out, size_t size, uint64_t units);
// Whether the text has its shape and may end. Not while the model thinks.
bool shape_is_complete(struct text_shape *shape, int choice, const struct reasoning_state *state);
// Why no token is left where the text has not its shape yet, in words and as a status.
const char *shape_failure(const struct text_shape *shape, int choice, rn_status *status);

#endif
