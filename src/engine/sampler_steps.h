// What the files of the sampler share: the choice in the making and the steps of the table.
//
// Filters see logits shifted by their maximum, so no temperature can overflow them and the best
// candidate's logit is 0; a filter that drops the best shifts again.
#ifndef RN_ENGINE_SAMPLER_STEPS_H
#define RN_ENGINE_SAMPLER_STEPS_H

#include <string.h>

#include "engine/sampler.h"

// The candidates that are left, in no particular order.
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
    struct candidates set; // after the edits
};

#define SAMPLING_STEP(phase, name) void sampler_step_##name(struct choice *choice);
#include "runnel_sampling.def"

// exp(x) for x <= 0, relative error below 1e-6, of multiplications and additions alone: the same
// everywhere, and four at a time on any x86-64. 2^(k + f), f in [-1/2, 1/2] by its Taylor series.
static inline float weight_of(float x) {
    const float y = x * 1.44269504f;
    const float bounded = y > -126.0f ? y : -126.0f;
    const int32_t k = (int32_t)(bounded - 0.5f);
    const float f = bounded - (float)k;
    float p = 1.5403530e-4f;
    p = p * f + 1.3333558e-3f;
    p = p * f + 9.6181291e-3f;
    p = p * f + 5.5504109e-2f;
    p = p * f + 2.4022651e-1f;
    p = p * f + 6.9314718e-1f;
    p = p * f + 1.0f;
    const uint32_t bits = (uint32_t)(k + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return y > -126.0f ? p * power : 0.0f;
}

// The largest logit; NaN never is. -INFINITY when there is no other.
float sampler_largest(const float *logits, int n);

#endif
