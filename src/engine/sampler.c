// The sampler: candidates, a table of filters in their fixed order, and the Gumbel-max choice.
// Logits are shifted by their maximum before anything else, so no temperature can overflow them.
#include "engine/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rmath.h"

struct set {
    struct candidate *item;
    int n;
};

// Better first: the higher logit, then the lower id.
static bool better(struct candidate a, struct candidate b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void sift_down(struct candidate *heap, int n, int at) {
    const struct candidate moved = heap[at];
    for (int child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && better(heap[child + 1], heap[child])) child++;
        if (!better(heap[child], moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void heapify(struct candidate *heap, int n) {
    for (int i = n / 2; i-- > 0;) sift_down(heap, n, i);
}

// Takes the best out of a heap of n and puts it at item[n - 1].
static struct candidate pop(struct candidate *heap, int n) {
    const struct candidate best = heap[0];
    heap[0] = heap[n - 1];
    sift_down(heap, n - 1, 0);
    heap[n - 1] = best;
    return best;
}

// What was popped lies at the end of the array; it becomes the set.
static void keep_popped(struct set *set, int n_popped) {
    memmove(set->item, set->item + set->n - n_popped, (size_t)n_popped * sizeof *set->item);
    set->n = n_popped;
}

static void filter_temperature(const rn_sampling *sampling, struct set *set) {
    for (int i = 0; i < set->n; i++) set->item[i].logit /= sampling->temperature;
}

static void filter_top_k(const rn_sampling *sampling, struct set *set) {
    if (sampling->top_k <= 0 || sampling->top_k >= set->n) return;
    heapify(set->item, set->n);
    for (int i = 0; i < sampling->top_k; i++) pop(set->item, set->n - i);
    keep_popped(set, sampling->top_k);
}

// The smallest set of the most likely tokens whose probabilities reach top_p.
static void filter_top_p(const rn_sampling *sampling, struct set *set) {
    if (!(sampling->top_p > 0 && sampling->top_p < 1)) return;
    double total = 0;
    for (int i = 0; i < set->n; i++) total += (double)rmath_exp(set->item[i].logit);
    heapify(set->item, set->n);
    const double wanted = total * (double)sampling->top_p;
    double sum = 0;
    int n = 0;
    while (n < set->n && sum < wanted) {
        sum += (double)rmath_exp(pop(set->item, set->n - n).logit);
        n++;
    }
    keep_popped(set, n);
}

// Tokens at least min_p times as likely as the best, whose logit is 0 here.
static void filter_min_p(const rn_sampling *sampling, struct set *set) {
    if (!(sampling->min_p > 0)) return;
    int n = 0;
    for (int i = 0; i < set->n; i++)
        if (rmath_exp(set->item[i].logit) >= sampling->min_p) set->item[n++] = set->item[i];
    set->n = n;
}

// The order is part of the contract.
static const struct {
    const char *name;
    void (*apply)(const rn_sampling *sampling, struct set *set);
} filters[] = {
    {"temperature", filter_temperature},
    {"top_k", filter_top_k},
    {"top_p", filter_top_p},
    {"min_p", filter_min_p},
};

// splitmix64's finalizer: a bijection in which every input bit moves every output bit.
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Natural logarithm in double for x in (0, 2^60), of our own operations so that it is the same
// everywhere. log(m 2^e) = e ln 2 + 2 atanh(s), s = (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2));
// the series' rest is below 1e-14.
static double log_double(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent++;
    }
    const double s = (m - 1) / (m + 1), z = s * s;
    double series = 0;
    for (int k = 17; k >= 1; k -= 2) series = series * z + 1.0 / k;
    return exponent * 0.6931471805599453 + 2 * s * series;
}

float sampler_noise(uint64_t seed, uint32_t choice, uint32_t position, uint32_t token) {
    const uint64_t golden = 0x9e3779b97f4a7c15u;
    uint64_t x = mix(seed + golden);
    x = mix(x ^ (((uint64_t)choice << 32 | position) * golden + golden));
    x = mix(x + (uint64_t)token * golden);
    const double uniform = ((double)(x >> 11) + 0.5) * 0x1p-53; // in (0, 1)
    return (float)-log_double(-log_double(uniform));
}

static int32_t choose_gumbel(const rn_sampling *sampling, int position, const struct set *set) {
    struct candidate best = {-INFINITY, -1};
    for (int i = 0; i < set->n; i++) {
        struct candidate c = set->item[i];
        c.logit += sampler_noise(sampling->seed, 0, (uint32_t)position, (uint32_t)c.id);
        if (best.id < 0 || better(c, best)) best = c;
    }
    return best.id;
}

static int32_t choose_greedy(const float *logits, int n_vocab) {
    struct candidate best = {-INFINITY, -1};
    for (int32_t id = 0; id < n_vocab; id++)
        if (logits[id] > best.logit) best = (struct candidate){logits[id], id};
    return isfinite(best.logit) ? best.id : -1;
}

rn_status sampler_init(struct sampler *sampler, int n_vocab, rn_error *err) {
    sampler->n_vocab = n_vocab;
    sampler->item = calloc((size_t)n_vocab, sizeof *sampler->item);
    return sampler->item ? RN_OK
                         : err_set(err, RN_ERR_NOMEM, "no memory for %d candidates", n_vocab);
}

void sampler_deinit(struct sampler *sampler) {
    free(sampler->item);
    sampler->item = NULL;
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
    const int32_t top = choose_greedy(logits, sampler->n_vocab);
    if (top < 0 || sampling->temperature == 0) return top;
    struct set set = {sampler->item, 0};
    for (int32_t id = 0; id < sampler->n_vocab; id++) // NaN and -inf compare false
        if (logits[id] > -INFINITY)
            set.item[set.n++] = (struct candidate){logits[id] - logits[top], id};
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) filters[i].apply(sampling, &set);
    return choose_gumbel(sampling, position, &set);
}
