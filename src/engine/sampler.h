// From logits to a token. Each filter is a row of the table in sampler.c and runs in the table's
// order over the candidates that are left; the choice is Gumbel-max with noise that depends on
// (seed, choice, position, token id) alone, so a token is chosen the same way whatever else is in
// the batch. Ties go to the lower id.
#ifndef RN_ENGINE_SAMPLER_H
#define RN_ENGINE_SAMPLER_H

#include "base/status.h"
#include "runnel.h"

// Scratch for one choice at a time; allocated once.
struct sampler {
    float *logit; // [n_vocab]
    int32_t *id;  // [n_vocab]
    int n_vocab;
};

rn_status sampler_init(struct sampler *sampler, int n_vocab, rn_error *err);
void sampler_deinit(struct sampler *sampler);

// Checks ranges; RN_ERR_ARG names the field and the value.
rn_status sampling_check(const rn_sampling *sampling, rn_error *err);

// Returns the token, or -1 when no logit is finite.
int32_t sampler_choose(struct sampler *sampler, const rn_sampling *sampling, int position,
                       const float *logits);

// The noise itself, for tests and for speculation: standard Gumbel.
float sampler_noise(uint64_t seed, uint32_t choice, uint32_t position, uint32_t token);

#endif
