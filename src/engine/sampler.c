// The sampler: the steps of the table in their order, and the Gumbel-max choice among what they
// leave. As long as no filter has dropped a token, nothing is written out: the passes read the
// logits where they are. Called by the engine once per sequence and step.
#include "engine/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "engine/sampler_steps.h"

typedef void step_fn(struct choice *choice);

// The order is part of the contract; temperature 0 skips the filters.
#define SAMPLING_STEP(phase, name) STEP_##phase(sampler_step_##name)
static step_fn *const edits[] = {
#define STEP_EDIT(function) function,
#define STEP_FILTER(function)
#include "runnel_sampling.def"
#undef STEP_EDIT
#undef STEP_FILTER
};

#define SAMPLING_STEP(phase, name) STEP_##phase(sampler_step_##name)
static step_fn *const filters[] = {
#define STEP_EDIT(function)
#define STEP_FILTER(function) function,
#include "runnel_sampling.def"
#undef STEP_EDIT
#undef STEP_FILTER
};

float sampler_noise(uint64_t seed, uint32_t choice, uint32_t position, uint32_t token) {
    return noise_gumbel(noise_uniform(noise_bits(noise_key(seed, choice, position), token)));
}

// The draw of an id that no token has.
double sampler_xtc_draw(uint64_t seed, uint32_t choice, uint32_t position) {
    return noise_uniform(noise_bits(noise_key(seed, choice, position), UINT32_MAX));
}

rn_status sampler_init(struct sampler *sampler, int n_vocab, rn_error *err) {
    const size_t n = (size_t)n_vocab;
    const int n_peaks = sampler_blocks(n_vocab);
    const size_t n_near = (size_t)n_peaks * SAMPLER_BLOCK;
    *sampler = (struct sampler){.n_vocab = n_vocab, .passes = sampler_passes_best()};
    sampler->logit = calloc(n, sizeof *sampler->logit);
    sampler->peak =
        calloc((size_t)n_peaks + (size_t)sampler_blocks(n_peaks), sizeof *sampler->peak);
    sampler->id = calloc(n, sizeof *sampler->id);
    sampler->distance = calloc(n_near, sizeof *sampler->distance);
    sampler->units = calloc(n_near, sizeof *sampler->units);
    sampler->near_id = calloc(n_near, sizeof *sampler->near_id);
    sampler->count = calloc(n, sizeof *sampler->count);
    sampler->match = calloc(SAMPLER_DRY_MATCH, sizeof *sampler->match);
    sampler->allowed = calloc(token_set_words(n_vocab), sizeof *sampler->allowed);
    if (sampler->logit && sampler->peak && sampler->id && sampler->distance && sampler->units &&
        sampler->near_id && sampler->count && sampler->match && sampler->allowed)
        return RN_OK;
    sampler_deinit(sampler);
    return err_set(err, RN_ERR_NOMEM, "no memory for %d candidates", n_vocab);
}

void sampler_deinit(struct sampler *sampler) {
    free(sampler->logit);
    free(sampler->peak);
    free(sampler->id);
    free(sampler->distance);
    free(sampler->units);
    free(sampler->near_id);
    free(sampler->count);
    free(sampler->match);
    free(sampler->allowed);
    memset(sampler, 0, sizeof *sampler);
}

struct run sampler_run(const struct choice *choice) {
    const struct sampler *sampler = choice->sampler;
    const struct candidates *set = &choice->set;
    if (choice->whole)
        return (struct run){.logit = choice->logit,
                            .peak = sampler->peak,
                            .n = sampler->n_vocab,
                            .shift = choice->top,
                            .scale = choice->scale};
    bool holes;
    sampler->passes->peaks(set->logit, set->n, sampler->peak, &holes);
    return (struct run){
        .logit = set->logit, .peak = sampler->peak, .id = set->id, .n = set->n, .scale = 1};
}

// The first token whose logit is the largest: in the first block whose peak it is.
static int32_t choose_greedy(const struct choice *choice) {
    const float *peak = choice->sampler->peak;
    int32_t id = 0;
    while (peak[id / SAMPLER_BLOCK] != choice->top) id += SAMPLER_BLOCK;
    while (choice->logit[id] != choice->top) id++;
    return id;
}

int32_t sampler_choose(struct sampler *sampler, const rn_sampling *sampling,
                       const struct sampler_view *view, const float *logits) {
    const int n_vocab = sampler->n_vocab;
    struct choice choice = {.sampler = sampler,
                            .sampling = sampling,
                            .view = view,
                            .raw = logits,
                            .logit = logits,
                            .scale = 1,
                            .set = {sampler->logit, sampler->id, 0}};
    sampler->dry_compares = 0;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) edits[i](&choice);
    bool holes; // NaN and -INFINITY are no candidates; mostly there are none of them
    choice.top = sampler->passes->peaks(choice.logit, n_vocab, sampler->peak, &holes);
    if (!isfinite(choice.top)) return -1;
    if (sampling->temperature == 0) return choose_greedy(&choice);
    choice.whole = !holes;
    if (holes)
        choice.set.n = sampler->passes->fill(choice.logit, n_vocab, choice.top, choice.set.logit,
                                             choice.set.id);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) filters[i](&choice);
    const struct run left = sampler_run(&choice);
    return sampler->passes->choose(&left, noise_key(sampling->seed, view->choice,
                                                    (uint32_t)view->n_token));
}
