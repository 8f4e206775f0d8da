// The steps of a choice once more, by their definitions: slow, in double, in any order. A result is
// unsure if rounding could change one of its decisions. Only the noise is shared with the code
// under test.
#ifndef RN_TESTS_CHOOSE_REFERENCE_H
#define RN_TESTS_CHOOSE_REFERENCE_H

#include <math.h>
#include <string.h>

#include "choose_view.h"

#ifndef VOCAB
#define VOCAB 40
#endif

enum { REFERENCE_DRY_MATCH = 1024 };

enum step {
    STEP_MASK,
    STEP_BIAS,
    STEP_PENALTIES,
    STEP_DRY,
    STEP_TEMPERATURE,
    STEP_TOP_N_SIGMA,
    STEP_TOP_K,
    STEP_TYPICAL,
    STEP_TOP_P,
    STEP_MIN_P,
    STEP_XTC,
    STEP_COUNT
};

struct reference {
    const rn_sampling *s;
    const struct sampler_view *view;
    double raw[VOCAB];
    double logit[VOCAB];
    bool alive[VOCAB];
    double scale; // the temperature's divisor so far
    bool unsure;
};

static inline void reference_init(struct reference *r, const rn_sampling *s,
                                  const struct sampler_view *view, const float *logits) {
    *r = (struct reference){.s = s, .view = view, .scale = 1};
    for (int i = 0; i < VOCAB; i++) {
        r->raw[i] = r->logit[i] = (double)logits[i];
        r->alive[i] = logits[i] > -INFINITY;
    }
}

static inline float reference_largest(const float *logits) {
    float most = -INFINITY;
    for (int i = 0; i < VOCAB; i++) most = logits[i] > most ? logits[i] : most;
    return most;
}

// a >= b, if that is beyond doubt.
static inline bool reference_reaches(struct reference *r, double a, double b) {
    if (fabs(a - b) < 1e-5 * fmax(1, fabs(b))) r->unsure = true;
    return a >= b;
}

// ---------------------------------------------------------------- edits

static inline void reference_mask(struct reference *r) {
    for (int id = 0; r->view->allowed && id < VOCAB; id++)
        if ((r->view->allowed[id / 64] >> (id % 64) & 1) == 0) r->alive[id] = false;
}

static inline void reference_bias(struct reference *r) {
    for (size_t i = 0; i < r->s->n_logit_bias; i++) {
        const rn_logit_bias *entry = &r->s->logit_bias[i];
        r->logit[entry->token] += (double)entry->bias;
        if (entry->bias == -100) r->alive[entry->token] = false;
    }
}

static inline bool reference_in(const struct sampler_view *view, int from, int32_t token) {
    for (int i = from; i < view->n_token; i++)
        if (view->token[i] == token) return true;
    return false;
}

static inline void reference_penalties(struct reference *r) {
    const struct sampler_view *view = r->view;
    const int last_n = r->s->repeat_last_n;
    const int from = last_n < 0 || last_n > view->n_token ? 0 : view->n_token - last_n;
    const double penalty = r->s->repetition_penalty == 0 ? 1 : (double)r->s->repetition_penalty;
    for (int id = 0; id < VOCAB; id++) {
        double *logit = &r->logit[id];
        if (reference_in(view, from, id)) *logit = *logit > 0 ? *logit / penalty : *logit * penalty;
        int count = 0;
        for (int i = view->n_prompt; i < view->n_token; i++) count += view->token[i] == id;
        *logit -= (double)r->s->frequency_penalty * count;
        if (count > 0) *logit -= (double)r->s->presence_penalty;
    }
}

static inline bool reference_breaks(const struct sampler_view *view, int32_t token) {
    return view->breakers.bits && (view->breakers.bits[token / 64] >> (token % 64) & 1) != 0;
}

// How many tokens before `at` equal those at the end, within the window and up to a breaker.
static inline int reference_match(const struct sampler_view *view, int from, int at) {
    int len = 0;
    while (at - 1 - len >= from && len < REFERENCE_DRY_MATCH) {
        const int32_t token = view->token[view->n_token - 1 - len];
        if (view->token[at - 1 - len] != token || reference_breaks(view, token)) break;
        len++;
    }
    return len;
}

// The longest repetition that the token would continue.
static inline int reference_dry_length(const struct sampler_view *view, int last_n, int32_t token) {
    const int from = last_n < 0 || last_n > view->n_token ? 0 : view->n_token - last_n;
    int longest = 0;
    for (int at = from + 1; at < view->n_token; at++) {
        if (view->token[at] != token) continue;
        const int len = reference_match(view, from, at);
        if (len > longest) longest = len;
    }
    return reference_breaks(view, token) ? 0 : longest;
}

static inline void reference_dry(struct reference *r) {
    const rn_sampling *s = r->s;
    for (int id = 0; s->dry_multiplier > 0 && id < VOCAB; id++) {
        const int len = reference_dry_length(r->view, s->dry_penalty_last_n, id);
        if (len == 0 || len < s->dry_allowed_length) continue;
        r->logit[id] -=
            (double)s->dry_multiplier * pow((double)s->dry_base, len - s->dry_allowed_length);
    }
}

// ---------------------------------------------------------------- filters

// Candidates by key, largest first, of equals the lower id; returns their number.
static inline int reference_sort(const struct reference *r, const double *key, int *order) {
    int n = 0;
    for (int id = 0; id < VOCAB; id++) {
        if (!r->alive[id]) continue;
        int at = n++;
        for (; at > 0 && key[id] > key[order[at - 1]]; at--) order[at] = order[at - 1];
        order[at] = id;
    }
    return n;
}

static inline void reference_probabilities(const struct reference *r, double *p) {
    double top = -INFINITY, sum = 0;
    for (int id = 0; id < VOCAB; id++)
        if (r->alive[id]) top = fmax(top, r->logit[id]);
    for (int id = 0; id < VOCAB; id++) {
        p[id] = r->alive[id] ? exp(r->logit[id] - top) : 0;
        sum += p[id];
    }
    for (int id = 0; id < VOCAB; id++) p[id] /= sum;
}

static inline void reference_temperature(struct reference *r) {
    r->scale *= (double)r->s->temperature;
    for (int id = 0; id < VOCAB; id++) r->logit[id] /= (double)r->s->temperature;
}

static inline void reference_top_n_sigma(struct reference *r) {
    double mean = 0, variance = 0, top = -INFINITY;
    int n = 0;
    if (r->s->top_n_sigma <= 0) return;
    for (int id = 0; id < VOCAB; id++)
        if (isfinite(r->raw[id])) n++, mean += r->raw[id];
    mean /= n;
    for (int id = 0; id < VOCAB; id++) {
        if (isfinite(r->raw[id])) variance += (r->raw[id] - mean) * (r->raw[id] - mean) / n;
        if (r->alive[id]) top = fmax(top, r->logit[id]);
    }
    const double least = top - (double)r->s->top_n_sigma * sqrt(variance) / r->scale;
    for (int id = 0; id < VOCAB; id++)
        if (r->alive[id] && !reference_reaches(r, r->logit[id], least)) r->alive[id] = false;
}

static inline void reference_top_k(struct reference *r) {
    int order[VOCAB];
    const int n = reference_sort(r, r->logit, order);
    for (int i = r->s->top_k; r->s->top_k > 0 && i < n; i++) r->alive[order[i]] = false;
}

// Neighbours in the order that rounding could swap.
static inline bool reference_close(const struct reference *r, const double *key, int a, int b) {
    return r->logit[a] != r->logit[b] && fabs(key[a] - key[b]) < 1e-5;
}

// Of the candidates in the order of the key the first that reach the share; at least one.
static inline void reference_keep(struct reference *r, const double *key, double share) {
    double p[VOCAB], sum = 0;
    int order[VOCAB], kept = 0;
    const int n = reference_sort(r, key, order);
    if (n == 0) return; // the mask and the bans left none
    reference_probabilities(r, p);
    do sum += p[order[kept++]];
    while (kept < n && !reference_reaches(r, sum, share));
    if (kept < n && reference_close(r, key, order[kept - 1], order[kept])) r->unsure = true;
    if (kept > 1 && reference_close(r, key, order[kept - 2], order[kept - 1])) r->unsure = true;
    for (int i = kept; i < n; i++) r->alive[order[i]] = false;
}

static inline void reference_typical(struct reference *r) {
    double p[VOCAB], key[VOCAB], entropy = 0;
    if (r->s->typical_p == 0 || r->s->typical_p == 1) return;
    reference_probabilities(r, p);
    for (int id = 0; id < VOCAB; id++)
        if (p[id] > 0) entropy -= p[id] * log(p[id]);
    for (int id = 0; id < VOCAB; id++) key[id] = -fabs(-log(p[id]) - entropy);
    for (int a = 0; a < VOCAB; a++) // equal logits have equal keys, for any rounding of log
        for (int b = 0; b < a; b++)
            if (r->alive[b] && r->logit[a] == r->logit[b]) key[a] = key[b];
    reference_keep(r, key, (double)r->s->typical_p);
}

static inline void reference_top_p(struct reference *r) {
    if (r->s->top_p < 1) reference_keep(r, r->logit, (double)r->s->top_p);
}

static inline void reference_min_p(struct reference *r) {
    double p[VOCAB], most = 0;
    if (r->s->min_p == 0) return;
    reference_probabilities(r, p);
    for (int id = 0; id < VOCAB; id++) most = fmax(most, p[id]);
    for (int id = 0; id < VOCAB; id++)
        if (r->alive[id] && !reference_reaches(r, p[id] / most, (double)r->s->min_p))
            r->alive[id] = false;
}

static inline void reference_xtc(struct reference *r) {
    double p[VOCAB];
    int order[VOCAB];
    const double draw = sampler_xtc_draw(r->s->seed, r->view->choice, (uint32_t)r->view->n_token);
    if (draw >= (double)r->s->xtc_probability) return;
    const int n = reference_sort(r, r->logit, order);
    reference_probabilities(r, p);
    for (int i = 0; i + 1 < n; i++)
        if (reference_reaches(r, p[order[i + 1]], (double)r->s->xtc_threshold))
            r->alive[order[i]] = false;
}

// ---------------------------------------------------------------- all of it

static inline void reference_step(struct reference *r, enum step step) {
    static void (*const steps[STEP_COUNT])(struct reference *) = {
        [STEP_MASK] = reference_mask,
        [STEP_BIAS] = reference_bias,
        [STEP_PENALTIES] = reference_penalties,
        [STEP_DRY] = reference_dry,
        [STEP_TEMPERATURE] = reference_temperature,
        [STEP_TOP_N_SIGMA] = reference_top_n_sigma,
        [STEP_TOP_K] = reference_top_k,
        [STEP_TYPICAL] = reference_typical,
        [STEP_TOP_P] = reference_top_p,
        [STEP_MIN_P] = reference_min_p,
        [STEP_XTC] = reference_xtc,
    };
    steps[step](r);
}

// The candidate with the largest sum of logit and noise (greedy: without noise).
static inline int32_t reference_choose(struct reference *r, bool greedy) {
    double best = -INFINITY;
    int32_t chosen = -1;
    for (int id = 0; id < VOCAB; id++) {
        if (!r->alive[id]) continue;
        const double sum =
            r->logit[id] + (greedy
                                ? 0
                                : (double)sampler_noise(r->s->seed, r->view->choice,
                                                        (uint32_t)r->view->n_token, (uint32_t)id));
        const bool tie = greedy && chosen >= 0 && r->raw[id] == r->raw[chosen];
        if (chosen >= 0 && !tie && fabs(sum - best) < 1e-4) r->unsure = true;
        if (sum > best) {
            best = sum;
            chosen = id;
        }
    }
    return chosen;
}

#endif
