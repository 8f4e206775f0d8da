// See shape.h. Lists of tokens around the marks (marks.h) are there before the text starts, so that
// a mask looks at few tokens besides those of the run.
#include "engine/choice/shape.h"

#include <stdlib.h>
#include <string.h>

#include "engine/choice/rules.h"
#include "plan/choice.h"

// ---------------------------------------------------------------- create

static rn_status check(const rn_request *request, const struct tokenizer *tokenizer,
                       rn_error *err) {
    if (request->shape->tokenizer != tokenizer)
        return err_set(err, RN_ERR_ARG, "the shape was compiled for another model");
    if (request->pooling)
        return err_set(err, RN_ERR_ARG, "a shape with pooling %d, which gives no text",
                       (int)request->pooling);
    return RN_OK;
}

rn_status shape_create(const rn_request *request, int n_choices, const struct rules *rules,
                       const struct tokenizer *tokenizer, struct text_shape **out, rn_error *err) {
    *out = NULL;
    if (!request->shape) return RN_OK;
    rn_status status = check(request, tokenizer, err);
    if (status) return status;
    struct text_shape *shape = calloc(1, sizeof *shape);
    if (!shape) return err_set(err, RN_ERR_NOMEM, "no memory for the shape of a request");
    shape->rules = rules;
    shape->reasoning = rules && rules->has_reasoning ? &rules->reasoning : NULL;
    status = constraint_open(request->shape->constraint, n_choices, &shape->run, err);
    if (!status && shape->reasoning)
        status = marks_acquire(request->shape->marks, shape->reasoning, &shape->marks, err);
    if (status) {
        shape_destroy(shape);
        return status;
    }
    shape->hook = constraint_hook(shape->run);
    *out = shape;
    return RN_OK;
}

void shape_destroy(struct text_shape *shape) {
    if (!shape) return;
    constraint_close(shape->run);
    marks_release(shape->marks);
    free(shape);
}

// ---------------------------------------------------------------- masks

static void set_bit(uint64_t *bits, int32_t id) { bits[id / 64] |= UINT64_C(1) << (id % 64); }
static void clear_bit(uint64_t *bits, int32_t id) { bits[id / 64] &= ~(UINT64_C(1) << (id % 64)); }

static struct reasoning_state behind(const struct text_shape *shape,
                                     const struct reasoning_state *state, int32_t token) {
    struct reasoning_state next = *state;
    reasoning_advance(shape->reasoning, &next, token);
    return next;
}

// A model that thinks has to answer, and its answer starts with a token of its own.
static void mask_inside(const struct text_shape *shape, const struct reasoning_state *state,
                        uint64_t *allowed) {
    const struct marks *marks = shape->marks;
    const int n = state->matched ? marks->n_closing : marks->n_whole;
    for (int i = 0; i < marks->n_end; i++) clear_bit(allowed, marks->end[i]);
    for (int i = 0; i < shape->rules->n_stop; i++) clear_bit(allowed, shape->rules->stop[i]);
    for (int i = 0; i < n; i++)
        if (behind(shape, state, marks->closing[i]).phase == REASONING_AFTER)
            clear_bit(allowed, marks->closing[i]);
}

// Tokens that are no part of the shape: blanks, and before the reasoning its mark.
static void add_others(const struct text_shape *shape, const struct reasoning_state *state,
                       uint64_t *allowed) {
    for (int i = 0; i < shape->marks->n_opening; i++) {
        const int32_t id = shape->marks->opening[i];
        const struct reasoning_state next = behind(shape, state, id);
        if (next.phase != REASONING_AFTER && next.n_blank <= REASONING_BLANKS) set_bit(allowed, id);
    }
}

void shape_mask(struct text_shape *shape, int choice, const struct reasoning_state *state,
                uint64_t *allowed, int n_vocab) {
    const enum reasoning_phase phase = shape->reasoning ? state->phase : REASONING_AFTER;
    if (phase == REASONING_INSIDE) {
        mask_inside(shape, state, allowed);
        return;
    }
    shape->hook.mask(shape->run, choice, allowed, n_vocab);
    if (phase != REASONING_AFTER) add_others(shape, state, allowed);
    if (!shape->rules || shape->rules->n_stop == 0) return;
    if (!constraint_may_end(shape->run, choice)) return;
    for (int i = 0; i < shape->rules->n_stop; i++) set_bit(allowed, shape->rules->stop[i]);
}

// ---------------------------------------------------------------- following a text

// Whether the text behind the token has nothing of the shape yet.
static bool is_at_start(const struct reasoning_state *state) {
    return state->phase == REASONING_INSIDE || state->phase == REASONING_GAP ||
           (state->phase == REASONING_BEFORE && state->matched == 0);
}

void shape_advance(struct text_shape *shape, int choice, const struct reasoning_state *state,
                   int32_t token) {
    const bool waits = shape->reasoning && state->phase != REASONING_AFTER;
    if (waits) {
        const struct reasoning_state next = behind(shape, state, token);
        if (is_at_start(&next)) {
            constraint_restart(shape->run, choice);
            return;
        }
    }
    shape->hook.advance(shape->run, choice, token);
}

void shape_rollback(struct text_shape *shape, int choice, int n_tokens) {
    shape->hook.rollback(shape->run, choice, n_tokens);
}

size_t shape_forced(struct text_shape *shape, int choice, const struct reasoning_state *state,
                    char *out, size_t size) {
    if (shape->reasoning && state->phase != REASONING_AFTER) return 0;
    return constraint_forced(shape->run, choice, out, size);
}

bool shape_is_complete(struct text_shape *shape, int choice, const struct reasoning_state *state) {
    if (shape->reasoning && state->phase == REASONING_INSIDE) return false;
    return constraint_may_end(shape->run, choice);
}

const char *shape_failure(const struct text_shape *shape, int choice, rn_status *status) {
    const char *why = constraint_failure(shape->run, choice);
    *status = why ? constraint_status(shape->run, choice) : RN_ERR_SHAPE;
    return why ? why : "no token of the vocabulary continues the text in its shape";
}
