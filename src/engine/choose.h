// One choice of a token for a sequence, for the step and for a draft model alike: the sampler,
// under the sequence's constraint. With the same noise at the same position, whoever's logits they
// are.
#ifndef RN_ENGINE_CHOOSE_H
#define RN_ENGINE_CHOOSE_H

#include "engine/seq.h"

// The token at position n_token, after token[n_token] of seq->token (known ones, and drafted ones
// behind them); the constraint, where there is one, stands there. -1: no token is possible.
int32_t choose_token(struct sampler *sampler, const struct seq *seq, int n_token,
                     const float *logits);

// How many of the n tokens at seq->token + n_token the constraint would let pass one after the
// other; it stands at n_token before and after. n without a constraint.
int choose_allowed(struct sampler *sampler, const struct seq *seq, int n_token, int n);

#endif
