// See shape.h. Lists of tokens around the marks (marks.h) are there before the text starts, so that
// a mask looks at few tokens besides those of the run.
#include "engine/choice/shape.h"

#include <stdlib.h>
#include <string.h>

#include "engine/choice/rules.h"
#include "plan/choice.h"

enum { BEHIND_MAX = 64 }; // bytes of a token behind a mark that the answer starts with

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
    struct text_shape *shape =
        calloc(1, sizeof *shape + (size_t)n_choices * sizeof shape->order[0]);
    if (!shape) return err_set(err, RN_ERR_NOMEM, "no memory for the shape of a request");
    shape->refs = 1;
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
    if (!shape || atomic_fetch_sub(&shape->refs, 1) > 1) return;
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

// The token, behind which the state is `next`, ended the reasoning by a mark of the answer: moves
// the run, which is at the shape's start. A token that is the mark moves it by itself, since the
// mark may be a special token. Otherwise the mark was written in several tokens of plain text.
// False where the shape does not start so.
static bool start(struct text_shape *shape, int choice, const struct reasoning_state *next,
                  int32_t token) {
    const struct reasoning_mark *mark = &shape->reasoning->answer[next->mark - 1];
    const struct text_span bytes = tokenizer_bytes(shape->reasoning->tokenizer, token);
    const size_t n_behind = (size_t)next->n_behind;
    char text[RN_MAX_MARK_BYTES + BEHIND_MAX];
    if (bytes.len == mark->len && n_behind == 0) return constraint_take(shape->run, choice, token);
    if (n_behind > BEHIND_MAX) {
        constraint_restart(shape->run, choice); // the step that is rolled back
        return false;
    }
    memcpy(text, mark->text, mark->len);
    memcpy(text + mark->len, bytes.data + bytes.len - n_behind, n_behind);
    return constraint_feed(shape->run, choice, text, mark->len + n_behind);
}

// Whether the token may come while the model thinks. The answer starts with a token of its own, or
// with its mark.
static bool may_think(struct text_shape *shape, int choice, const struct reasoning_state *state,
                      int32_t token) {
    const struct reasoning_state next = behind(shape, state, token);
    if (next.phase != REASONING_AFTER) return true;
    if (!next.mark) return false;
    const bool starts = start(shape, choice, &next, token);
    shape->hook.rollback(shape->run, choice, 1);
    return starts;
}

static bool is_in_mark(const struct text_shape *shape, const struct reasoning_state *state) {
    bool any = state->matched > 0;
    for (int i = 0; i < shape->reasoning->n_answer; i++) any |= state->starts[i] > 0;
    return any;
}

// A model that thinks has to answer.
static void mask_inside(struct text_shape *shape, int choice, const struct reasoning_state *state,
                        uint64_t *allowed) {
    const struct marks *marks = shape->marks;
    const int n = is_in_mark(shape, state) ? marks->n_closing : marks->n_whole;
    for (int i = 0; i < marks->n_end; i++) clear_bit(allowed, marks->end[i]);
    for (int i = 0; i < shape->rules->n_stop; i++) clear_bit(allowed, shape->rules->stop[i]);
    for (int i = 0; i < n; i++)
        if (!may_think(shape, choice, state, marks->closing[i]))
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

static bool is_inside(const struct text_shape *shape, const struct reasoning_state *state) {
    return shape->reasoning && state->phase == REASONING_INSIDE;
}

bool shape_prepare(struct text_shape *shape, int choice, const struct reasoning_state *state,
                   uint64_t units, uint64_t *spent) {
    if (is_inside(shape, state)) return true; // any token but a few
    const uint64_t before = constraint_spent(shape->run, choice);
    const bool is_made = constraint_prepare(shape->run, choice, units);
    *spent += constraint_spent(shape->run, choice) - before;
    return is_made;
}

uint64_t shape_spent(const struct text_shape *shape, int choice) {
    return constraint_spent(shape->run, choice);
}

void shape_mask(struct text_shape *shape, int choice, const struct reasoning_state *state,
                uint64_t *allowed, int n_vocab) {
    const enum reasoning_phase phase = shape->reasoning ? state->phase : REASONING_AFTER;
    if (phase == REASONING_INSIDE) {
        mask_inside(shape, choice, state, allowed);
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
        if (next.mark) {
            start(shape, choice, &next, token);
            return;
        }
    }
    shape->hook.advance(shape->run, choice, token);
}

void shape_rollback(struct text_shape *shape, int choice, int n_tokens) {
    shape->hook.rollback(shape->run, choice, n_tokens);
}

size_t shape_forced(struct text_shape *shape, int choice, const struct reasoning_state *state,
                    char *out, size_t size, uint64_t units) {
    if (shape->reasoning && state->phase != REASONING_AFTER) return 0;
    return constraint_forced(shape->run, choice, out, size, units);
}

bool shape_is_complete(struct text_shape *shape, int choice, const struct reasoning_state *state) {
    if (is_inside(shape, state)) return false;
    return constraint_may_end(shape->run, choice);
}

const char *shape_failure(const struct text_shape *shape, int choice, rn_status *status) {
    const char *why = constraint_failure(shape->run, choice);
    *status = why ? constraint_status(shape->run, choice) : RN_ERR_SHAPE;
    return why ? why : "no token of the vocabulary continues the text in its shape";
}
