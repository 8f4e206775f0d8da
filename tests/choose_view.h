// The inputs of a choice in the tests of choices: the parameters of a request, the tokens of a
// sequence and a mask. Only the noise is shared with the code under test.
#ifndef RN_TESTS_CHOOSE_VIEW_H
#define RN_TESTS_CHOOSE_VIEW_H

#include "plan/choice.h"
#include "plan/noise.h"
#include "runnel.h"

struct sampler_view {
    const int32_t *token;      // [n_token] prompt, then output; ids in range
    int n_prompt, n_token;     // the new token gets position n_token
    uint32_t choice;           // which of a request's choices this is
    struct token_set breakers; // of DRY
    const uint64_t *allowed;   // [token_set_words(n_vocab)] NULL: all
};

static inline uint64_t view_key(const rn_sampling *s, const struct sampler_view *view) {
    return noise_key(s->seed, view->choice, (uint32_t)view->n_token);
}

static inline rn_sampling sampling_neutral(void) {
    return (rn_sampling){
#define SAMPLING_NUMBER(kind, id, field, neutral_, ...) .field = neutral_,
#include "plan/sampling.def"
    };
}

static inline struct choice_numbers numbers_of(const rn_sampling *s) {
    return (struct choice_numbers){
#define SAMPLING_NUMBER(kind, id, field_, ...) .field_ = s->field_,
#include "plan/sampling.def"
    };
}

// A token's noise, standard Gumbel.
static inline float sampler_noise(uint64_t seed, uint32_t choice, uint32_t position,
                                  uint32_t token) {
    return noise_gumbel(noise_uniform(noise_bits(noise_key(seed, choice, position), token)));
}

static inline double sampler_xtc_draw(uint64_t seed, uint32_t choice, uint32_t position) {
    return noise_xtc(noise_key(seed, choice, position));
}

#endif
