// What the files of the sampler share: the choice in the making and the steps of the table.
//
// Filters see logits shifted by their maximum, so no temperature can overflow them and the best
// candidate's logit is 0; a filter that drops the best shifts again.
#ifndef RN_ENGINE_SAMPLER_STEPS_H
#define RN_ENGINE_SAMPLER_STEPS_H

#include "engine/sampler.h"
#include "engine/sampler_noise.h"
#include "engine/sampler_passes.h"

// The candidates that are left, written out; their ids ascend.
struct candidates {
    float *logit;
    int32_t *id;
    int n;
};

// One choice in the making.
struct choice {
    struct sampler *sampler;
    const rn_sampling *sampling;
    const struct sampler_view *view;
    const float *raw;      // [n_vocab] as the model gave them
    const float *logit;    // [n_vocab] raw, or the sampler's copy from the first edit on
    float top;             // the largest of them; after the edits
    bool whole;            // all tokens are candidates still, and nothing is written out
    float scale;           // while whole: what the temperature divides by
    struct candidates set; // unless whole
};

#define SAMPLING_STEP(phase, name) void sampler_step_##name(struct choice *choice);
#include "runnel_sampling.def"

// The candidates as one run, wherever they are.
struct run sampler_run(const struct choice *choice);

// --- sampler_select.c: what is nearest to a centre ---

// Where a run of the nearest ends: at that distance, among equals at that id.
struct cut {
    float distance;
    int32_t id;
};

// The candidates up to the cut become the set.
void sampler_keep_until(struct choice *choice, float centre, struct cut cut);
// The k candidates with the largest logits; there are more.
void sampler_keep_best(struct choice *choice, int k);
// The shortest run of the nearest whose units of mass reach `share` of their total, which is below
// 1; at least one. The total, or 0: not known, and the centre is the best.
void sampler_keep_share(struct choice *choice, float centre, float share, uint64_t total);

#endif
