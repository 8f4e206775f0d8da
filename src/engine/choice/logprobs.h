// Log-probabilities of tokens from a row of raw logits, as requests ask for. Every machine gives
// the same bits: one pass in the order of ids, of additions and multiplications alone.
#ifndef RN_ENGINE_CHOICE_LOGPROBS_H
#define RN_ENGINE_CHOICE_LOGPROBS_H

#include "runnel.h"

// Of a token, unless all are wanted: its own and the likeliest.
enum { LOGPROBS_MAX = 1 + RN_MAX_TOP_LOGPROBS };

// How many of the likeliest a request wants.
static inline int logprobs_wanted(int n_top, int n_vocab) {
    return n_top == RN_ALL_LOGPROBS ? n_vocab : n_top;
}
// Fills `out` with the token's own, then the n_top likeliest in descending order, among equals the
// lower id first. n_top is at most RN_MAX_TOP_LOGPROBS, or n_vocab. Returns their number: logits
// that are not finite take no part. A token whose own logit is not finite has -INFINITY.
int logprobs_fill(const float *logits, int n_vocab, int32_t token, int n_top, rn_logprob *out);
// The token's place in that order, from 1 on. A logit that is not finite comes last.
int32_t logprobs_rank(const float *logits, int n_vocab, int32_t token);

#endif
