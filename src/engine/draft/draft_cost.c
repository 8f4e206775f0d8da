// See draft_cost.h.
#include "engine/draft/draft_cost.h"

#include <assert.h>

static const double most_faster = 0.5; // of what was expected: how much of one step is believed
static const double most_slower = 1.25;
static const double correction = 0.125; // of the difference, per step
static const double elsewhere = 0.25;   // of a correction, for sizes that were not measured
static const double unknown = 1.5;      // factor to twice as many where one size was measured

void draft_cost_init(struct draft_cost *cost, const double *measured, int n) {
    assert(n > 0 && n <= DRAFT_COST_SIZES);
    double *ns = cost->ns;
    for (int i = 0; i < DRAFT_COST_SIZES; i++) {
        if (i < n)
            ns[i] = measured[i];
        else
            ns[i] = i == 1 ? ns[0] * unknown : ns[i - 1] + 2 * (ns[i - 1] - ns[i - 2]);
        if (i > 0 && ns[i] < ns[i - 1]) ns[i] = ns[i - 1];
    }
}

// Sizes `at` and `at` + 1 are around n_seqs; returns the share of the latter.
static double place_of(int n_seqs, int *at) {
    assert(n_seqs > 0);
    int i = 0;
    while (i < DRAFT_COST_SIZES - 2 && n_seqs >= 2 << i) i++;
    *at = i;
    return (double)(n_seqs - (1 << i)) / (double)(1 << i);
}

double draft_cost_ns(const struct draft_cost *cost, int n_seqs) {
    int at;
    const double share = place_of(n_seqs, &at);
    return cost->ns[at] + share * (cost->ns[at + 1] - cost->ns[at]);
}

// The factor to what was expected.
static double factor_of(double expected_ns, double ns) {
    double ratio = ns / expected_ns;
    if (ratio < most_faster) ratio = most_faster;
    if (ratio > most_slower) ratio = most_slower;
    return 1 + correction * (ratio - 1);
}

// A clock that stands still must not take it to 0.
static double positive(double ns) { return ns < 1 ? 1 : ns; }

double draft_cost_corrected(double expected_ns, double ns) {
    return positive(expected_ns * factor_of(expected_ns, ns));
}

void draft_cost_learn(struct draft_cost *cost, int n_seqs, double ns) {
    int at;
    const double share = place_of(n_seqs, &at);
    const double change = factor_of(draft_cost_ns(cost, n_seqs), ns) - 1;
    for (int i = 0; i < DRAFT_COST_SIZES; i++) {
        double weight = i == at ? 1 - share : i == at + 1 ? share : 0;
        if (weight < elsewhere) weight = elsewhere;
        cost->ns[i] = positive(cost->ns[i] * (1 + change * weight));
    }
}
