// The choice of experts, the same for every instruction set: keys, groups, the best by rank,
// weights. Of equal keys the lower index wins, among experts and among groups. Called by
// experts.c; specified in docs/NUMERICS.md, "Routes".
#include <assert.h>
#include <math.h>

#include "backend/cpu/reference.h"
#include "base/rmath.h"

// The largest logit, and the sum of exp(logit - top) over all experts.
struct softmax {
    float top, total;
};

static struct softmax softmax_of(const float *logit, int n, float top) {
    float lane[REFERENCE_LANES] = {0};
    for (int i = 0; i < n; i++) lane[i % REFERENCE_LANES] += rmath_exp(logit[i] - top);
    return (struct softmax){top, reference_fold(lane)};
}

static float largest(const float *x, int n) {
    float top = x[0];
    for (int i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

// Keys are scores where a bias or a second score is added to them, else logits.
static bool is_by_scores(const struct route_args *args) {
    return args->bias || (args->n_group > 0 && args->group_best > 1);
}

static float score_of(const struct route_args *args, const struct softmax *all, float logit) {
    return args->score == ROUTE_SIGMOID ? rmath_sigmoid(logit)
                                        : rmath_exp(logit - all->top) / all->total;
}

static void keys_make(const struct route_args *args, const struct softmax *all, const float *logit,
                      float *key) {
    const bool by_scores = is_by_scores(args);
    for (int i = 0; i < args->n; i++) {
        key[i] = by_scores ? score_of(args, all, logit[i]) : logit[i];
        if (args->bias) key[i] += args->bias[i];
    }
}

// Closes the best open one and returns its index.
static int best_take(const float *key, bool *open, int n) {
    int best = -1;
    for (int i = 0; i < n; i++) {
        // a NaN is never greater: it is chosen where it comes first or nothing else is left
        if (open[i] && (best < 0 || key[i] > key[best])) best = i;
    }
    open[best] = false;
    return best;
}

static float group_score(const float *key, int size, int n_best) {
    bool open[PLAN_MAX_EXPERT];
    for (int i = 0; i < size; i++) open[i] = true;
    float score = key[best_take(key, open, size)];
    if (n_best > 1 && size > 1) score += key[best_take(key, open, size)];
    return score;
}

// Opens only the experts of the best groups.
static void groups_keep(const struct route_args *args, const float *key, bool *open) {
    const int n_group = args->n_group, size = args->n / n_group;
    float score[PLAN_MAX_EXPERT];
    bool is_left[PLAN_MAX_EXPERT];
    for (int g = 0; g < n_group; g++)
        score[g] = group_score(key + g * size, size, args->group_best);
    for (int g = 0; g < n_group; g++) is_left[g] = true;
    for (int k = 0; k < args->n_group_used; k++) best_take(score, is_left, n_group);
    for (int i = 0; i < args->n; i++) open[i] = !is_left[i / size];
}

static void choose(const struct route_args *args, const float *key, float *id) {
    bool open[PLAN_MAX_EXPERT];
    for (int i = 0; i < args->n; i++) open[i] = true;
    if (args->n_group > 0) groups_keep(args, key, open);
    for (int j = 0; j < args->k; j++) id[j] = (float)best_take(key, open, args->n);
}

// A softmax by logits: over the chosen, or over all.
static void weights_of_logits(const struct route_args *args, const float *logit, const float *id,
                              float *weight) {
    float top = logit[(int)id[0]], sum = 0;
    for (int j = 1; j < args->k; j++) top = logit[(int)id[j]] > top ? logit[(int)id[j]] : top;
    for (int j = 0; j < args->k; j++) {
        weight[j] = rmath_exp(logit[(int)id[j]] - top);
        sum += weight[j];
    }
    if (!args->normalize) sum = softmax_of(logit, args->n, top).total;
    for (int j = 0; j < args->k; j++) weight[j] /= sum;
}

static void weights_of_scores(const struct route_args *args, const struct softmax *all,
                              const float *logit, const float *id, float *weight) {
    float sum = 0;
    for (int j = 0; j < args->k; j++) {
        weight[j] = score_of(args, all, logit[(int)id[j]]);
        sum += weight[j];
    }
    sum += args->least;
    for (int j = 0; j < args->k && args->normalize; j++) weight[j] /= sum;
}

// Each expert's share of the experts whose logits are close to its own. The first expert takes no
// part in the second one's share.
static void weights_sparse(const struct route_args *args, const float *logit, const float *id,
                           float *weight) {
    for (int j = 0; j < args->k; j++) {
        const float top = logit[(int)id[j]];
        float lane[REFERENCE_LANES] = {0};
        for (int i = 0; i < args->n; i++) {
            const float size = fabsf(logit[i]) > top ? fabsf(logit[i]) : top;
            const bool is_far = (top - logit[i]) / size > 2 * args->jitter;
            const bool is_before = j > 0 && i == (int)id[0];
            if (!is_far && !is_before) lane[i % REFERENCE_LANES] += rmath_exp(logit[i] - top);
        }
        weight[j] = 1 / reference_fold(lane);
    }
}

void reference_route(const struct route_args *args, const float *logit, float *id, float *weight) {
    float key[PLAN_MAX_EXPERT];
    struct softmax all = {0};
    const bool by_scores = is_by_scores(args);
    assert(args->n <= PLAN_MAX_EXPERT && args->k <= args->n);
    if (by_scores && args->score == ROUTE_SOFTMAX)
        all = softmax_of(logit, args->n, largest(logit, args->n));
    keys_make(args, &all, logit, key);
    choose(args, key, id);
    if (args->score == ROUTE_SPARSEMIXER)
        weights_sparse(args, logit, id, weight);
    else if (args->score == ROUTE_SIGMOID || by_scores)
        weights_of_scores(args, &all, logit, id, weight);
    else
        weights_of_logits(args, logit, id, weight);
    for (int j = 0; j < args->k && args->scale != 0; j++) weight[j] *= args->scale;
    for (int j = 0; j < args->k && args->factor; j++) weight[j] *= args->factor[(int)id[j]];
}
