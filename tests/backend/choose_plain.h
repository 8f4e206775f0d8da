// A choice's arithmetic once more, in plain loops: every instruction set has to give its bits.
// choose_reference.h defines the steps; this file defines their sums. Masses are integers, in units
// of 2^-30. Other sums have eight lanes of floats; the elements behind the last whole eight are in
// lane 0.
#ifndef RN_TESTS_CHOOSE_PLAIN_H
#define RN_TESTS_CHOOSE_PLAIN_H

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "choose_view.h"

struct candidate {
    float logit;
    int32_t id;
};

struct plain {
    struct candidate *at; // [n]
    int n;
};

// Candidates at most so far from the centre, in their order.
static inline int plain_within(const struct plain *plain, float centre, float distance,
                               struct candidate *out) {
    int n = 0;
    for (int i = 0; i < plain->n; i++)
        if (fabsf(plain->at[i].logit - centre) <= distance) out[n++] = plain->at[i];
    return n;
}

static inline int plain_lane(int i, int n) { return i < n - n % 8 ? i % 8 : 0; }

static inline uint64_t plain_units(float logit) {
    return (uint64_t)((double)weight_of(logit) * 0x1p30);
}

static inline uint64_t plain_mass(const struct plain *plain, float centre, float distance) {
    uint64_t units = 0;
    for (int i = 0; i < plain->n; i++)
        if (fabsf(plain->at[i].logit - centre) <= distance)
            units += plain_units(plain->at[i].logit);
    return units;
}

static inline float plain_mean(const struct plain *plain) {
    float sum[8] = {0}, mass[8] = {0};
    double total = 0, total_mass = 0;
    for (int i = 0; i < plain->n; i++) {
        const float x = plain->at[i].logit, weight = weight_of(x);
        if (weight > 0) sum[plain_lane(i, plain->n)] += weight * x;
        mass[plain_lane(i, plain->n)] += weight;
    }
    for (int j = 0; j < 8; j++) {
        total += (double)sum[j];
        total_mass += (double)mass[j];
    }
    return (float)(total / total_mass);
}

static inline double plain_deviation(const float *logits, int n, float shift) {
    double sum[8] = {0}, squares[8] = {0};
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(logits[i])) continue;
        const double d = (double)logits[i] - (double)shift;
        sum[plain_lane(i, n)] += d;
        squares[plain_lane(i, n)] += d * d;
        count++;
    }
    for (int j = 1; j < 8; j++) {
        sum[0] += sum[j];
        squares[0] += squares[j];
    }
    const double mean = sum[0] / count, variance = squares[0] / count - mean * mean;
    return sqrt(variance > 0 ? variance : 0);
}

static inline int32_t plain_choose(const struct plain *plain, uint64_t key) {
    int32_t best = -1;
    float best_sum = 0;
    for (int i = 0; i < plain->n; i++) {
        const int32_t id = plain->at[i].id;
        const float sum =
            plain->at[i].logit + noise_gumbel(noise_uniform(noise_bits(key, (uint32_t)id)));
        if (best >= 0 && (sum < best_sum || (sum == best_sum && id > best))) continue;
        best = id;
        best_sum = sum;
    }
    return best;
}

// ---------------------------------------------------------------- the steps

struct plain_distance {
    float distance;
    struct candidate candidate;
};

static inline int plain_compare(const void *a, const void *b) {
    const struct plain_distance *x = a, *y = b;
    if (x->distance != y->distance) return x->distance > y->distance ? -1 : 1;
    return x->candidate.id > y->candidate.id ? -1 : 1;
}

// The nearest last, of equals the lower id last.
static inline void plain_sort(struct plain *plain, float centre) {
    struct plain_distance *order = malloc((size_t)plain->n * sizeof *order);
    if (!order) abort();
    for (int i = 0; i < plain->n; i++)
        order[i] = (struct plain_distance){fabsf(plain->at[i].logit - centre), plain->at[i]};
    qsort(order, (size_t)plain->n, sizeof *order, plain_compare);
    for (int i = 0; i < plain->n; i++) plain->at[i] = order[i].candidate;
    free(order);
}

static inline void plain_keep_last(struct plain *plain, int n) {
    memmove(plain->at, plain->at + plain->n - n, (size_t)n * sizeof *plain->at);
    plain->n = n;
}

static inline void plain_keep_share(struct plain *plain, float centre, float share) {
    const double wanted = (double)plain_mass(plain, centre, INFINITY) * (double)share;
    uint64_t units = 0;
    int n = 0;
    plain_sort(plain, centre);
    do units += plain_units(plain->at[plain->n - 1 - n++].logit);
    while (n < plain->n && (double)units < wanted);
    plain_keep_last(plain, n);
}

static inline void plain_typical(struct plain *plain, float share) {
    float top = -INFINITY;
    plain_keep_share(plain, plain_mean(plain), share);
    for (int i = 0; i < plain->n; i++) top = fmaxf(top, plain->at[i].logit);
    for (int i = 0; i < plain->n; i++) plain->at[i].logit -= top;
}

static inline void plain_min_p(struct plain *plain, float min_p) {
    int n = 0;
    for (int i = 0; i < plain->n; i++)
        if (weight_of(plain->at[i].logit) >= min_p) plain->at[n++] = plain->at[i];
    plain->n = n;
}

static inline void plain_xtc(struct plain *plain, float share) {
    const double total = (double)plain_mass(plain, 0, INFINITY) * 0x1p-30;
    const double threshold = total * (double)share;
    const struct candidate *last = NULL;
    for (int i = 0; i < plain->n; i++) {
        const struct candidate *at = &plain->at[i];
        if ((double)weight_of(at->logit) < threshold) continue;
        if (!last || at->logit < last->logit || (at->logit == last->logit && at->id > last->id))
            last = at;
    }
    if (!last) return;
    const int32_t last_id = last->id;
    int n = 0;
    for (int i = 0; i < plain->n; i++)
        if (plain->at[i].id == last_id || (double)weight_of(plain->at[i].logit) < threshold)
            plain->at[n++] = plain->at[i];
    plain->n = n;
}

static inline void plain_filters(struct plain *plain, const struct choice_numbers *s, double sigma,
                                 double xtc_draw) {
    for (int i = 0; i < plain->n; i++) plain->at[i].logit /= s->temperature;
    if (s->top_n_sigma > 0) {
        const double far = (double)s->top_n_sigma * sigma / (double)s->temperature;
        const float distance = far < (double)FLT_MAX ? (float)far : INFINITY;
        plain->n = plain_within(plain, 0, distance, plain->at);
    }
    if (s->top_k > 0 && s->top_k < plain->n) {
        plain_sort(plain, 0);
        plain_keep_last(plain, s->top_k);
    }
    if (s->typical_p > 0 && s->typical_p < 1) plain_typical(plain, s->typical_p);
    if (s->top_p < 1) plain_keep_share(plain, 0, s->top_p);
    if (s->min_p > 0) plain_min_p(plain, s->min_p);
    if (xtc_draw < (double)s->xtc_probability) plain_xtc(plain, s->xtc_threshold);
}

// ---------------------------------------------------------------- the edits

static inline float plain_bounded(double x) {
    return (float)fmin(fmax(x, (double)-FLT_MAX), (double)FLT_MAX);
}

// DRY's power as the contract has it: by squares and products.
static inline double plain_power(double base, int exponent) {
    double result = 1;
    for (int bit = 0; exponent >> bit; bit++, base *= base)
        if (exponent >> bit & 1) result *= base;
    return result;
}

static inline float plain_edit(const struct choice_numbers *s, const struct choice_edit *edit,
                               float x) {
    if (edit->bias <= -100) return -INFINITY;
    if (!isfinite(x)) return x;
    if (edit->bias != 0) x = plain_bounded((double)x + (double)edit->bias);
    if (edit->repeats && s->repetition_penalty != 0 && s->repetition_penalty != 1) {
        const double factor = (double)s->repetition_penalty;
        x = plain_bounded(x > 0 ? (double)x / factor : (double)x * factor);
    }
    if (edit->n_output > 0) {
        const double count = (double)edit->n_output;
        const double penalty = (double)s->presence_penalty + (double)s->frequency_penalty * count;
        x = plain_bounded((double)x - penalty);
    }
    if (edit->dry >= 0 && s->dry_multiplier != 0) {
        const double power = plain_power((double)s->dry_base, edit->dry);
        x = plain_bounded((double)x - (double)s->dry_multiplier * power);
    }
    return x;
}

// The token that every backend has to choose.
static inline int32_t plain_sample(const struct choice *choice, const float *logits) {
    const struct choice_numbers *s = choice->numbers;
    const int n_vocab = choice->n_vocab;
    float *edited = malloc((size_t)n_vocab * sizeof *edited);
    struct plain plain = {malloc((size_t)n_vocab * sizeof *plain.at), 0};
    if (!edited || !plain.at) abort();
    for (int i = 0; i < n_vocab; i++)
        edited[i] = choice->allowed && !token_set_has(choice->allowed, i) ? -INFINITY : logits[i];
    for (int i = 0; i < choice->n_edit; i++) {
        const struct choice_edit *edit = &choice->edit[i];
        if (edit->id < n_vocab) edited[edit->id] = plain_edit(s, edit, edited[edit->id]);
    }
    float top = -INFINITY;
    int32_t best = -1;
    for (int i = 0; i < n_vocab; i++) {
        if (!(edited[i] > top)) continue;
        top = edited[i];
        best = i;
    }
    for (int i = 0; i < n_vocab; i++)
        if (edited[i] > -INFINITY) plain.at[plain.n++] = (struct candidate){edited[i] - top, i};
    if (!isfinite(top)) {
        best = -1;
    } else if (s->temperature != 0) {
        plain_filters(&plain, s, plain_deviation(logits, n_vocab, top), noise_xtc(choice->key));
        best = plain_choose(&plain, choice->key);
    }
    free(edited);
    free(plain.at);
    return best;
}

#endif
