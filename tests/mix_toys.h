// Toys for the mixes of mix.h: constraints that check how they are used, and a drafter that is
// right as often as it is told to be.
//
// The step's threads call the functions of a constraint, and cannot fail a test. They note a fault
// in `broken`; the test's thread looks at it when the request is over.
#ifndef RN_TESTS_MIX_TOYS_H
#define RN_TESTS_MIX_TOYS_H

#include <stdatomic.h>
#include <string.h>

#include "runnel.h"

// ---------------------------------------------------------------- a constraint

enum toy_kind {
    TOY_NONE,
    TOY_EVEN,     // even ids only
    TOY_COUNTER,  // the last digit of the id is the number of the token
    TOY_BRACKETS, // some open, some close, up to three deep; outside of all only tokens that open
    TOY_NARROW,   // three tokens, others each time
    TOY_DEAD_END, // after a few tokens nothing is possible
    TOY_KINDS
};

enum { TOY_MAX_CHOICES = 4, TOY_MAX_PASSED = 320 };

struct toy_state { // of one choice
    int32_t passed[TOY_MAX_PASSED];
    int n_passed;
    _Atomic bool busy;
};

struct toy_constraint {
    enum toy_kind kind;
    int n_vocab;
    struct toy_state state[TOY_MAX_CHOICES];
    _Atomic(const char *) broken; // the engine's fault; NULL: none
    _Atomic int rollbacks;
};

// The rule for the next token after the tokens so far: computed once for a mask.
static inline int toy_progress(const struct toy_constraint *toy, const struct toy_state *state) {
    if (toy->kind != TOY_BRACKETS) return state->n_passed;
    int depth = 0;
    for (int i = 0; i < state->n_passed; i++)
        depth += state->passed[i] % 5 == 0 ? 1 : state->passed[i] % 5 == 1 ? -1 : 0;
    return depth;
}

static inline bool toy_allows(const struct toy_constraint *toy, int progress, int32_t id) {
    switch (toy->kind) {
    case TOY_EVEN:
        return id % 2 == 0;
    case TOY_COUNTER:
        return id % 10 == progress % 10;
    case TOY_BRACKETS:
        return id % 5 == 0 ? progress < 3 : progress > 0;
    case TOY_NARROW:
        return (uint32_t)(id - progress * 97 % toy->n_vocab) < 3;
    case TOY_DEAD_END:
        return progress < 6;
    default:
        return true;
    }
}

static inline struct toy_state *toy_enter(struct toy_constraint *toy, int choice) {
    if (choice < 0 || choice >= TOY_MAX_CHOICES) {
        toy->broken = "a choice that is none";
        choice = 0;
    }
    if (atomic_exchange(&toy->state[choice].busy, true)) toy->broken = "two calls at a time";
    return &toy->state[choice];
}

static inline void toy_mask(void *ctx, int choice, uint64_t *allowed, int n_vocab) {
    struct toy_constraint *toy = ctx;
    struct toy_state *state = toy_enter(toy, choice);
    const int progress = toy_progress(toy, state);
    if (n_vocab != toy->n_vocab) toy->broken = "another vocabulary";
    for (int id = 0; id < n_vocab; id++) {
        const uint64_t bit = UINT64_C(1) << (id % 64);
        if (!(allowed[id / 64] & bit)) toy->broken = "a mask that is not full at first";
        if (!toy_allows(toy, progress, id)) allowed[id / 64] &= ~bit;
    }
    state->busy = false;
}

static inline void toy_advance(void *ctx, int choice, int32_t token) {
    struct toy_constraint *toy = ctx;
    struct toy_state *state = toy_enter(toy, choice);
    if (token < 0 || token >= toy->n_vocab || !toy_allows(toy, toy_progress(toy, state), token))
        toy->broken = "an advance over a token that was not allowed";
    if (state->n_passed < TOY_MAX_PASSED)
        state->passed[state->n_passed++] = token;
    else
        toy->broken = "too many tokens";
    state->busy = false;
}

static inline void toy_rollback(void *ctx, int choice, int n_tokens) {
    struct toy_constraint *toy = ctx;
    struct toy_state *state = toy_enter(toy, choice);
    if (n_tokens < 1 || n_tokens > state->n_passed)
        toy->broken = "a rollback beyond the start";
    else
        state->n_passed -= n_tokens;
    toy->rollbacks++;
    state->busy = false;
}

static inline rn_constraint toy_begin(struct toy_constraint *toy, enum toy_kind kind, int n_vocab) {
    memset(toy, 0, sizeof *toy);
    toy->kind = kind;
    toy->n_vocab = n_vocab;
    return (rn_constraint){toy, toy_mask, toy_advance, toy_rollback};
}

// After the choice's last event; NULL: the constraint was led along the text. The last token may
// end the text, or come before others that were chosen in vain.
static inline const char *toy_complaint(const struct toy_constraint *toy, int choice,
                                        const int32_t *ids, int n_ids) {
    const struct toy_state *state = &toy->state[choice];
    const int n = state->n_passed < n_ids ? state->n_passed : n_ids;
    if (toy->broken) return toy->broken;
    if (state->n_passed < n_ids - 1) return "a constraint that was not led to the end";
    if (memcmp(state->passed, ids, (size_t)n * sizeof *ids) != 0) return "a constraint led astray";
    return NULL;
}

// ---------------------------------------------------------------- a drafter

// The coming tokens of a request, so that drafts can be right.
struct toy_truth {
    const int32_t *prompt, *ids;
    int n_prompt, n_ids;
};

struct toy_drafter {
    struct toy_truth (*truth)(void *data, int choice); // of the request's data
    int right;                                         // percent of the tokens
    int n_vocab;
    uint64_t random;
    uint64_t calls, strays; // with a history that is not the request's
};

static inline uint64_t toy_next(struct toy_drafter *toy) {
    uint64_t x = toy->random += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Mostly ids; now and then what is none.
static inline int32_t toy_wrong(struct toy_drafter *toy) {
    static const int32_t none[] = {-1, INT32_MIN, INT32_MAX};
    const uint64_t x = toy_next(toy);
    if (x % 32 == 0) return x % 4096 < 1024 ? toy->n_vocab : none[x / 32 % 3];
    return (int32_t)((x >> 32) % (uint64_t)toy->n_vocab);
}

static inline int toy_draft(void *ctx, void *data, int choice, const int32_t *token, int n_token,
                            int32_t *out, int most) {
    struct toy_drafter *toy = ctx;
    const struct toy_truth truth = toy->truth(data, choice);
    const int at = n_token - truth.n_prompt;
    toy->calls++;
    if (at < 0 || at > truth.n_ids ||
        memcmp(token, truth.prompt, (size_t)truth.n_prompt * sizeof *token) != 0 ||
        memcmp(token + truth.n_prompt, truth.ids, (size_t)at * sizeof *token) != 0)
        toy->strays++;
    const bool whole = toy->right == 100 || toy_next(toy) % 4;
    const int n = whole ? most : (int)(toy_next(toy) % (uint64_t)(most + 1));
    for (int i = 0; i < n; i++) {
        const bool right = (int)(toy_next(toy) % 100) < toy->right;
        out[i] = right && at + i >= 0 && at + i < truth.n_ids ? truth.ids[at + i] : toy_wrong(toy);
    }
    return n;
}

#endif
