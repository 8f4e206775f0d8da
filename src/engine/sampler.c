// The sampler: candidates, a table of filters in their fixed order, and the Gumbel-max choice.
//
// Logits are shifted by their maximum before anything else, so no temperature can overflow them and
// the best candidate's logit is 0 throughout. Passes over the whole vocabulary are plain loops over
// arrays that the compiler turns into vector code; only what they leave is ordered.
#include "engine/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rmath.h"

// The candidates that are left, in no particular order.
struct set {
    float *logit;
    int32_t *id;
    int n;
};

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

// Better first: the higher logit, then the lower id.
static bool better(const struct set *set, int a, int b) {
    return set->logit[a] > set->logit[b] ||
           (set->logit[a] == set->logit[b] && set->id[a] < set->id[b]);
}

static void swap(struct set *set, int a, int b) {
    const float logit = set->logit[a];
    const int32_t id = set->id[a];
    set->logit[a] = set->logit[b];
    set->id[a] = set->id[b];
    set->logit[b] = logit;
    set->id[b] = id;
}

static void sift_down(struct set *set, int n, int at) {
    for (int child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && better(set, child + 1, child)) child++;
        if (!better(set, child, at)) return;
        swap(set, at, child);
    }
}

static void heapify(struct set *set) {
    for (int i = set->n / 2; i-- > 0;) sift_down(set, set->n, i);
}

// Takes the best out of a heap of n and puts it at n - 1; returns its logit.
static float pop(struct set *set, int n) {
    swap(set, 0, n - 1);
    sift_down(set, n - 1, 0);
    return set->logit[n - 1];
}

// What was popped lies at the end of the arrays; it becomes the set.
static void keep_popped(struct set *set, int n_popped) {
    memmove(set->logit, set->logit + set->n - n_popped, (size_t)n_popped * sizeof *set->logit);
    memmove(set->id, set->id + set->n - n_popped, (size_t)n_popped * sizeof *set->id);
    set->n = n_popped;
}

static void keep_above(struct set *set, float threshold) {
    int n = 0;
    for (int i = 0; i < set->n; i++) {
        set->logit[n] = set->logit[i];
        set->id[n] = set->id[i];
        n += set->logit[i] >= threshold;
    }
    set->n = n;
}

// How many candidates have at least that logit.
static int count_above(const struct set *set, float threshold) {
    int n = 0;
    for (int i = 0; i < set->n; i++) n += set->logit[i] >= threshold;
    return n;
}

// The sum of the weights of those. Eight running sums, in a fixed order.
static double mass_above(const struct set *set, float threshold) {
    float sum[8] = {0};
    int i = 0;
    for (; i + 8 <= set->n; i += 8)
        for (int j = 0; j < 8; j++) {
            const float x = set->logit[i + j];
            const float weight = weight_of(x);
            sum[j] += x >= threshold ? weight : 0.0f;
        }
    for (; i < set->n; i++)
        if (set->logit[i] >= threshold) sum[0] += weight_of(set->logit[i]);
    double total = 0;
    for (int j = 0; j < 8; j++) total += (double)sum[j];
    return total;
}

static void filter_temperature(const rn_sampling *sampling, struct set *set) {
    for (int i = 0; i < set->n; i++) set->logit[i] /= sampling->temperature;
}

// Lowered until enough candidates are above it, so that few have to be ordered.
static const float first_threshold = -1, last_threshold = -1024;

static void filter_top_k(const rn_sampling *sampling, struct set *set) {
    const int k = sampling->top_k;
    if (k <= 0 || k >= set->n) return;
    float threshold = first_threshold;
    while (threshold >= last_threshold && count_above(set, threshold) < k) threshold *= 2;
    if (threshold >= last_threshold) keep_above(set, threshold);
    heapify(set);
    for (int i = 0; i < k; i++) pop(set, set->n - i);
    keep_popped(set, k);
}

// The smallest set of the most likely tokens whose probabilities reach top_p; at least one.
static void filter_top_p(const rn_sampling *sampling, struct set *set) {
    if (!(sampling->top_p < 1)) return;
    const double wanted = mass_above(set, -INFINITY) * (double)sampling->top_p;
    float threshold = first_threshold;
    while (threshold >= last_threshold && mass_above(set, threshold) < wanted) threshold *= 2;
    if (threshold >= last_threshold) keep_above(set, threshold);
    heapify(set);
    double sum = 0;
    int n = 0;
    do sum += (double)weight_of(pop(set, set->n - n++));
    while (n < set->n && sum < wanted);
    keep_popped(set, n);
}

// Tokens at least min_p times as likely as the best, whose weight is 1.
static void filter_min_p(const rn_sampling *sampling, struct set *set) {
    if (!(sampling->min_p > 0)) return;
    int n = 0;
    for (int i = 0; i < set->n; i++) {
        set->logit[n] = set->logit[i];
        set->id[n] = set->id[i];
        n += weight_of(set->logit[i]) >= sampling->min_p;
    }
    set->n = n;
}

// The order is part of the contract.
static void (*const filters[])(const rn_sampling *sampling, struct set *set) = {
    filter_temperature,
    filter_top_k,
    filter_top_p,
    filter_min_p,
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

// An upper bound of exp(x), for any finite x: weight_of's error covered, and capped where it could
// not be represented.
static double exp_bound(float x) {
    if (x > 80) return INFINITY;
    return 1.00001 * (x <= 0 ? (double)weight_of(x) : 1 / (double)weight_of(-x));
}

// The candidate with the largest logit + noise. Most cannot win, which is seen without logarithms:
// to pass a best sum b, a candidate needs -log(u) < exp(logit - b), and -log(u) > 1 - u.
static int32_t choose_gumbel(const rn_sampling *sampling, int position, const struct set *set) {
    const uint64_t key = noise_key(sampling->seed, 0, (uint32_t)position);
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

// The largest logit; NaN never is. -INFINITY when there is no other.
static float largest(const float *logits, int n) {
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
    sampler->n_vocab = n_vocab;
    sampler->logit = calloc((size_t)n_vocab, sizeof *sampler->logit);
    sampler->id = calloc((size_t)n_vocab, sizeof *sampler->id);
    if (sampler->logit && sampler->id) return RN_OK;
    sampler_deinit(sampler);
    return err_set(err, RN_ERR_NOMEM, "no memory for %d candidates", n_vocab);
}

void sampler_deinit(struct sampler *sampler) {
    free(sampler->logit);
    free(sampler->id);
    sampler->logit = NULL;
    sampler->id = NULL;
}

rn_status sampling_check(const rn_sampling *s, rn_error *err) {
    if (!(s->temperature >= 0 && s->temperature <= 100))
        return err_set(err, RN_ERR_ARG, "temperature is %g, expected 0 to 100",
                       (double)s->temperature);
    if (s->top_k < 0) return err_set(err, RN_ERR_ARG, "top_k is %d, expected 0 or more", s->top_k);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return err_set(err, RN_ERR_ARG, "top_p is %g, expected 0 to 1", (double)s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return err_set(err, RN_ERR_ARG, "min_p is %g, expected 0 to 1", (double)s->min_p);
    return RN_OK;
}

int32_t sampler_choose(struct sampler *sampler, const rn_sampling *sampling, int position,
                       const float *logits) {
    const int n_vocab = sampler->n_vocab;
    const float top = largest(logits, n_vocab);
    if (!isfinite(top)) return -1;
    if (sampling->temperature == 0) return first_equal(logits, n_vocab, top);
    struct set set = {sampler->logit, sampler->id, 0};
    for (int32_t id = 0; id < n_vocab; id++) { // NaN and -INFINITY are no candidates
        set.logit[set.n] = logits[id] - top;
        set.id[set.n] = id;
        set.n += logits[id] > -INFINITY;
    }
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) filters[i](sampling, &set);
    return choose_gumbel(sampling, position, &set);
}
