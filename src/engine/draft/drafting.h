// A draft while it is made, token by token: the part that drafters with a model share.
#ifndef RN_ENGINE_DRAFT_DRAFTING_H
#define RN_ENGINE_DRAFT_DRAFTING_H

#include "engine/draft/drafter.h"
#include "engine/price/price.h"
#include "engine/request/seq.h"
#include "text/tokenizer.h"

struct drafting {
    struct draft_job *job;
    int n_made;     // tokens drafted
    int n_advanced; // of them, the number that the constraint was moved over
    bool ends;
    bool is_short; // its next token has no description: the units of the step are spent
};

// How its next token is chosen: as the target's sequence does, with the noise of the same position.
// Only ids below n_vocab can come.
static inline void drafting_describe(struct drafting *t, struct choice_scratch *scratch,
                                     int n_vocab, struct choice *out) {
    const struct seq *seq = t->job->seq;
    t->is_short = !choice_describe(scratch, &seq->choices, seq->n_token + t->n_made, 0, out);
    if (t->is_short) *out = (struct choice){0};
    if (out->n_vocab > n_vocab) out->n_vocab = n_vocab;
}

// Takes a chosen token; none ends the draft.
static inline void drafting_take(struct drafting *t, struct choice_scratch *scratch,
                                 const struct tokenizer *tokenizer, int32_t token) {
    struct seq *seq = t->job->seq;
    t->ends = t->is_short || token < 0;
    if (t->ends) return;
    seq->token[seq->n_token + t->n_made++] = token;
    t->ends = t->n_made == t->job->n || seq_ends_with(seq, tokenizer, token);
    if (t->ends) return;
    t->ends = !choice_advance(scratch, &seq->choices, seq->n_token + t->n_made - 1, token);
    t->n_advanced += !t->ends;
}

// The job has its number of tokens, and constraints are back where they stood.
static inline void drafting_finish(const struct drafting *t) {
    t->job->n = t->n_made;
    choice_rollback(&t->job->seq->choices, t->n_advanced);
}

// A step of the draft model as its price knows it. Attention is left out, because an offer does not
// know how deep the other sequences are: the averages include it.
static inline struct batch_shape drafting_shape(int n_tokens, int n_logits) {
    return (struct batch_shape){.n_tokens = n_tokens, .n_out = n_logits, .n_logits = n_logits};
}

#endif
