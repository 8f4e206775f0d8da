// The sampler: the steps of the table in their order, and the Gumbel-max choice among what they
// leave. Passes over the whole vocabulary are plain loops over arrays that the compiler turns into
// vector code. Called by the engine once per sequence and step.
#include "engine/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "base/rmath.h"
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

static const uint64_t golden = 0x9e3779b97f4a7c15u;

// splitmix64's finalizer: a bijection in which every input bit moves every output bit.
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t noise_key(uint64_t seed, uint32_t choice, uint32_t position) {
    return mix(mix(seed + golden) ^ (((uint64_t)choice << 32 | position) * golden + golden));
}

// Uniform in (0, 1).
static double noise_uniform(uint64_t key, uint32_t token) {
    return ((double)(mix(key + (uint64_t)token * golden) >> 11) + 0.5) * 0x1p-53;
}

static float gumbel(double uniform) { return (float)-rmath_log(-rmath_log(uniform)); }

float sampler_noise(uint64_t seed, uint32_t choice, uint32_t position, uint32_t token) {
    return gumbel(noise_uniform(noise_key(seed, choice, position), token));
}

// The draw of an id that no token has.
double sampler_xtc_draw(uint64_t seed, uint32_t choice, uint32_t position) {
    return noise_uniform(noise_key(seed, choice, position), UINT32_MAX);
}

// An upper bound of exp(x), for any finite x: weight_of's error covered, and capped where it could
// not be represented.
static double exp_bound(float x) {
    if (x > 80) return INFINITY;
    return 1.00001 * (x <= 0 ? (double)weight_of(x) : 1 / (double)weight_of(-x));
}

// The candidate with the largest logit + noise. Most cannot win, which is seen without logarithms:
// to pass a best sum b, a candidate needs -log(u) < exp(logit - b), and -log(u) > 1 - u.
static int32_t choose_gumbel(const struct choice *choice) {
    const struct candidates *set = &choice->set;
    const uint64_t key =
        noise_key(choice->sampling->seed, choice->view->choice, (uint32_t)choice->view->n_token);
    int32_t best = -1;
    float best_sum = 0;
    double limit = 0; // exp(-best_sum), a little more
    for (int i = 0; i < set->n; i++) {
        const double uniform = noise_uniform(key, (uint32_t)set->id[i]);
        if (best >= 0 && 1 - uniform > (double)weight_of(set->logit[i]) * limit) continue;
        const float sum = set->logit[i] + gumbel(uniform);
        if (best >= 0 && (sum < best_sum || (sum == best_sum && set->id[i] > best))) continue;
        best = set->id[i];
        best_sum = sum;
        limit = exp_bound(-best_sum);
    }
    return best;
}

float sampler_largest(const float *logits, int n) {
    float most[8];
    for (int j = 0; j < 8; j++) most[j] = -INFINITY;
    int i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) most[j] = logits[i + j] > most[j] ? logits[i + j] : most[j];
    for (; i < n; i++) most[0] = logits[i] > most[0] ? logits[i] : most[0];
    for (int j = 1; j < 8; j++) most[0] = most[j] > most[0] ? most[j] : most[0];
    return most[0];
}

static int32_t first_equal(const float *logits, int n, float value) {
    for (int32_t id = 0; id < n; id++)
        if (logits[id] == value) return id;
    return -1;
}

rn_status sampler_init(struct sampler *sampler, int n_vocab, rn_error *err) {
    const size_t n = (size_t)n_vocab;
    *sampler = (struct sampler){.n_vocab = n_vocab};
    sampler->logit = calloc(n, sizeof *sampler->logit);
    sampler->id = calloc(n, sizeof *sampler->id);
    sampler->count = calloc(n, sizeof *sampler->count);
    sampler->match = calloc(SAMPLER_DRY_MATCH, sizeof *sampler->match);
    if (sampler->logit && sampler->id && sampler->count && sampler->match) return RN_OK;
    sampler_deinit(sampler);
    return err_set(err, RN_ERR_NOMEM, "no memory for %d candidates", n_vocab);
}

void sampler_deinit(struct sampler *sampler) {
    free(sampler->logit);
    free(sampler->id);
    free(sampler->count);
    free(sampler->match);
    memset(sampler, 0, sizeof *sampler);
}

static bool all_candidates(const float *logits, int n) {
    int others = 0;
    for (int i = 0; i < n; i++) others |= !(logits[i] > -INFINITY);
    return !others;
}

// NaN and -INFINITY are no candidates; mostly there are none of them. The logits may be the set's
// own array: what is overwritten was read before.
static void candidates_fill(struct candidates *set, const float *logits, int n_vocab, float top) {
    if (all_candidates(logits, n_vocab)) {
        for (int32_t id = 0; id < n_vocab; id++) set->logit[id] = logits[id] - top;
        for (int32_t id = 0; id < n_vocab; id++) set->id[id] = id;
        set->n = n_vocab;
        return;
    }
    for (int32_t id = 0; id < n_vocab; id++) {
        const float logit = logits[id];
        set->logit[set->n] = logit - top;
        set->id[set->n] = id;
        set->n += logit > -INFINITY;
    }
}

int32_t sampler_choose(struct sampler *sampler, const rn_sampling *sampling,
                       const struct sampler_view *view, const float *logits) {
    const int n_vocab = sampler->n_vocab;
    struct choice choice = {.sampler = sampler,
                            .sampling = sampling,
                            .view = view,
                            .raw = logits,
                            .logit = logits,
                            .set = {sampler->logit, sampler->id, 0}};
    sampler->dry_compares = 0;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) edits[i](&choice);
    choice.top = sampler_largest(choice.logit, n_vocab);
    if (!isfinite(choice.top)) return -1;
    if (sampling->temperature == 0) return first_equal(choice.logit, n_vocab, choice.top);
    candidates_fill(&choice.set, choice.logit, n_vocab, choice.top);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) filters[i](&choice);
    return choose_gumbel(&choice);
}
