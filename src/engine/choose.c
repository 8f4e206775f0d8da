// Choosing a token under a sequence's constraint: the constraint's mask is the sampler's first
// edit. Nothing is kept here: where a constraint stands is its own to know, and the tokens of the
// sequence say it, so a choice that is taken back and made again comes out the same. Called by the
// threads of the step, with a sampler each, and by the drafters.
#include "engine/choose.h"

#include <assert.h>
#include <string.h>

// The tokens that may come next.
static const uint64_t *mask_of(struct sampler *sampler, const struct seq *seq) {
    const rn_constraint *constraint = &seq->constraint;
    memset(sampler->allowed, 0xff, token_set_words(sampler->n_vocab) * sizeof *sampler->allowed);
    constraint->mask(constraint->ctx, seq->choice, sampler->allowed, sampler->n_vocab);
    return sampler->allowed;
}

int32_t choose_token(struct sampler *sampler, const struct seq *seq, int n_token,
                     const float *logits) {
    const struct sampler_view view = {.token = seq->token,
                                      .n_prompt = seq->n_prompt,
                                      .n_token = n_token,
                                      .choice = (uint32_t)seq->choice,
                                      .breakers = seq->breakers,
                                      .allowed =
                                          seq->constraint.mask ? mask_of(sampler, seq) : NULL};
    return sampler_choose(sampler, &seq->sampling, &view, logits);
}

int choose_allowed(struct sampler *sampler, const struct seq *seq, int n_token, int n) {
    const rn_constraint *constraint = &seq->constraint;
    if (!constraint->mask) return n;
    const int32_t *token = seq->token + n_token;
    int allowed = 0, advanced = 0;
    while (allowed < n) {
        assert(token[allowed] >= 0 && token[allowed] < sampler->n_vocab);
        if (!token_set_has(mask_of(sampler, seq), token[allowed])) break;
        if (++allowed == n) break; // nothing is asked behind the last one
        constraint->advance(constraint->ctx, seq->choice, token[allowed - 1]);
        advanced++;
    }
    if (advanced) constraint->rollback(constraint->ctx, seq->choice, advanced);
    return allowed;
}
