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

struct rn_shape {
    struct constraint *constraint;
    const struct tokenizer *tokenizer; // of the model that it was compiled for
    struct marks_kept *marks;          // the model's
};

struct text_shape {
    struct constraint_run *run;
    rn_constraint hook;                     // of the run
    const struct reasoning_rule *reasoning; // NULL: the text starts with the shape
    const struct rules *rules;              // NULL: none
    struct marks *marks;                    // NULL without a reasoning
};

struct rules;
// *out is NULL where the request has no shape. rules: the request's, which outlive it.
rn_status shape_create(const rn_request *request, int n_choices, const struct rules *rules,
                       const struct tokenizer *tokenizer, struct text_shape **out, rn_error *err);
void shape_destroy(struct text_shape *shape); // NULL is fine

// state: the reasoning's before the next token; it is not read without a reasoning.
// Clears the bits of tokens that cannot come next; all bits are set before.
void shape_mask(struct text_shape *shape, int choice, const struct reasoning_state *state,
                uint64_t *allowed, int n_vocab);
void shape_advance(struct text_shape *shape, int choice, const struct reasoning_state *state,
                   int32_t token);
void shape_rollback(struct text_shape *shape, int choice, int n_tokens);

// The bytes that must come next, at most size; none before the shape has begun for sure.
size_t shape_forced(struct text_shape *shape, int choice, const struct reasoning_state *state,
                    char *out, size_t size);
// Whether the text has its shape and may end. Not while the model thinks.
bool shape_is_complete(struct text_shape *shape, int choice, const struct reasoning_state *state);
// Why no token is left where the text has not its shape yet, in words and as a status.
const char *shape_failure(const struct text_shape *shape, int choice, rn_status *status);

#endif
