// The choice of experts against a plain version in double: scores, bias, groups, ties, weights.
// Logits and biases come from few values, so many keys are equal, and the lower index must win.
#include <math.h>

#include "backend/cpu/reference.h"
#include "check.h"
#include "parts.h"

enum { MAX_N = 64 };

struct drawn {
    struct route_args args;
    float logit[MAX_N], bias[MAX_N];
};

static double score_plain(const struct drawn *d, int i) {
    double total = 0;
    if (d->args.score == ROUTE_SIGMOID) return 1 / (1 + exp(-(double)d->logit[i]));
    for (int k = 0; k < d->args.n; k++) total += exp((double)d->logit[k]);
    return exp((double)d->logit[i]) / total;
}

// Equal inputs give equal keys here too: a key is made of one logit, one bias and a shared total.
static double key_plain(const struct drawn *d, int i) {
    return score_plain(d, i) + (d->args.bias ? (double)d->bias[i] : 0);
}

// How many of the n keys come before key i: larger ones, and equal ones with a lower index.
static int rank_of(const double *key, int n, int i) {
    int before = 0;
    for (int k = 0; k < n; k++) before += key[k] > key[i] || (key[k] == key[i] && k < i);
    return before;
}

static double group_plain(const double *key, int size, int n_best) {
    double sum = 0;
    for (int i = 0; i < size; i++)
        if (rank_of(key, size, i) < n_best) sum += key[i];
    return sum;
}

// The experts by rank; those of groups that are not kept come last.
static void ranks_plain(const struct drawn *d, int *rank) {
    const int n = d->args.n, n_group = d->args.n_group ? d->args.n_group : 1, size = n / n_group;
    double key[MAX_N], group[MAX_N];
    for (int i = 0; i < n; i++) key[i] = key_plain(d, i);
    for (int g = 0; g < n_group; g++)
        group[g] = group_plain(key + g * size, size, d->args.group_best);
    for (int i = 0; i < n && d->args.n_group; i++)
        if (rank_of(group, n_group, i / size) >= d->args.n_group_used) key[i] = -1e9;
    for (int i = 0; i < n; i++) rank[i] = rank_of(key, n, i);
}

static void weights_plain(const struct drawn *d, const int *rank, double *weight) {
    double sum = (double)d->args.least;
    for (int i = 0; i < d->args.n; i++)
        if (rank[i] < d->args.k) sum += score_plain(d, i);
    for (int i = 0; i < d->args.n; i++) {
        weight[i] = score_plain(d, i) / (d->args.normalize ? sum : 1);
        if (d->args.scale != 0) weight[i] *= (double)d->args.scale;
    }
}

static void values_draw(struct drawn *d) {
    // pairs, so that no two different sums of two keys are the same number rounded differently
    static const float logits[] = {-1.9f, -0.7f, 0.3f, 1.1f, 2.6f};
    static const float biases[] = {0.61f, 0, -0.37f, 0.113f, -0.05f};
    for (int i = 0; i < d->args.n; i++) {
        const int pair = (int)(rng() % 5);
        d->logit[i] = logits[pair];
        d->bias[i] = biases[pair];
    }
}

static void case_draw(struct drawn *d) {
    const int n_group = 1 + (int)(rng() % 8), size = 2 + (int)(rng() % 7);
    const int kept = 1 + (int)(rng() % (uint32_t)n_group);
    *d = (struct drawn){.args = {.n = n_group * size,
                                 .score = rng() % 2 ? ROUTE_SIGMOID : ROUTE_SOFTMAX,
                                 .normalize = rng() % 2,
                                 .scale = rng() % 2 ? 2.5f : 0,
                                 .least = rng() % 2 ? 1e-20f : 0.25f}};
    const bool has_groups = rng() % 3 > 0;
    d->args.k = 1 + (int)(rng() % (uint32_t)(has_groups ? kept * size : d->args.n));
    if (rng() % 2) d->args.bias = d->bias;
    if (has_groups) {
        d->args.n_group = n_group;
        d->args.n_group_used = kept;
        d->args.group_best = 1 + (int)(rng() % 2);
    }
    // a softmax by logits alone is normalized without a floor
    const bool by_logits = !d->args.bias && d->args.group_best < 2;
    if (d->args.score == ROUTE_SOFTMAX && by_logits) d->args.least = 0;
    values_draw(d);
}

CASE(a_route_is_the_plain_choice) {
    for (int round = 0; round < 4000; round++) {
        struct drawn d;
        int rank[MAX_N];
        double want[MAX_N];
        float id[MAX_N], weight[MAX_N];
        case_draw(&d);
        reference_route(&d.args, d.logit, id, weight);
        ranks_plain(&d, rank);
        weights_plain(&d, rank, want);
        for (int j = 0; j < d.args.k; j++) {
            const int e = (int)id[j];
            check(rank[e] == j,
                  "round %d: rank %d is expert %d, expected that at %d (%d of %d, %d groups, %d "
                  "kept, best %d)",
                  round, j, e, rank[e], d.args.k, d.args.n, d.args.n_group, d.args.n_group_used,
                  d.args.group_best);
            check(fabs((double)weight[j] - want[e]) < 3e-6 * want[e], "round %d: weight %g, not %g",
                  round, (double)weight[j], want[e]);
        }
    }
}

CASE(a_bias_is_of_the_choice_alone) {
    const float logit[] = {2, 1, 0, -1}, bias[] = {-9, 0, 0, 9};
    struct route_args args = {.n = 4, .k = 2, .bias = bias, .score = ROUTE_SIGMOID};
    float id[2], weight[2];
    reference_route(&args, logit, id, weight);
    assert_true(id[0] == 3 && id[1] == 1);
    assert_true(fabs((double)weight[0] - 1 / (1 + exp(1))) < 1e-6);
    // a softmax's bias is added to its probabilities: 0.03 + 0.7 beats 0.64 and 0.24
    const float small[] = {0, 0, 0, 0.7f};
    args.bias = small;
    args.score = ROUTE_SOFTMAX;
    reference_route(&args, logit, id, weight);
    const double total = exp(2) + exp(1) + 1 + exp(-1);
    assert_true(id[0] == 3 && id[1] == 0);
    assert_true(fabs((double)weight[0] - exp(-1) / total) < 1e-7);
    assert_true(fabs((double)weight[1] - exp(2) / total) < 1e-6);
}

// The two experts of PhiMoE as transformers has them: a mask of the logits that are far from the
// best by their own size, a softmax over the others, and the same again without the first.
static double sparse_plain(const float *logit, int n, int top, int without, double jitter) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        const double size = fmax(fabs((double)logit[i]), (double)logit[top]);
        if (i == without) continue;
        if (((double)logit[top] - (double)logit[i]) / size > 2 * jitter) continue;
        sum += exp((double)logit[i] - (double)logit[top]);
    }
    return 1 / sum;
}

CASE(sparse_weights_are_shares_of_what_is_close) {
    const float near[] = {1.0f, 2.0f, 1.97f, -3.0f, 1.95f}; // 1.97 is within 2%, 1.95 is not
    const struct route_args args = {.n = 5, .k = 2, .score = ROUTE_SPARSEMIXER, .jitter = 0.01f};
    float id[2], weight[2];
    reference_route(&args, near, id, weight);
    assert_true(id[0] == 1 && id[1] == 2);
    assert_true(fabs((double)weight[0] - 1 / (1 + exp(-0.03))) < 1e-6);
    assert_true(fabs((double)weight[1] - 1 / (1 + exp(-0.02))) < 1e-6); // the first is left out
    for (int round = 0; round < 1000; round++) {
        float logit[16];
        const int n = 2 + (int)(rng() % 15);
        const float middle = (float)(rng() % 5) - 2;
        for (int i = 0; i < n; i++) logit[i] = middle + (float)(rng() % 64) * 0.003f;
        reference_route(
            &(struct route_args){.n = n, .k = 2, .score = ROUTE_SPARSEMIXER, .jitter = 0.013f},
            logit, id, weight);
        const double first = sparse_plain(logit, n, (int)id[0], -1, 0.013);
        const double second = sparse_plain(logit, n, (int)id[1], (int)id[0], 0.013);
        check(fabs((double)weight[0] - first) < 1e-6, "round %d: %g, not %g", round,
              (double)weight[0], first);
        check(fabs((double)weight[1] - second) < 1e-6, "round %d: %g, not %g", round,
              (double)weight[1], second);
    }
}

CASE(groups_of_equals_keep_the_lower_ones) {
    const float logit[12] = {0};
    float id[3], weight[3];
    for (int best = 1; best <= 2; best++) {
        const struct route_args args = {.n = 12,
                                        .k = 3,
                                        .score = ROUTE_SIGMOID,
                                        .n_group = 4,
                                        .n_group_used = 2,
                                        .group_best = best};
        reference_route(&args, logit, id, weight);
        assert_true(id[0] == 0 && id[1] == 1 && id[2] == 2);
    }
}

TEST_PROGRAM(routes) { return cases_run(NULL, NULL); }
