// The steps that work on candidates: temperature, top-n-sigma, top-k, typical, top-p, min-p, XTC.
//
// Top-k, top-p and typical keep the candidates nearest to a centre (choose_select.c): the best
// logit, which is 0, for the first two, the expected one for the last.
#include <float.h>
#include <math.h>

#include "backend/cpu/choose_steps.h"

// All candidates at most so far from the best become the set.
static void keep_within(struct cpu_choice *choice, float distance) {
    choose_keep_until(choice, 0, (struct cut){distance, INT32_MAX});
}

// The distance from the best that surely contains every candidate of at least this weight (0.001
// covers weight_of's error); infinite if the weight underflows.
static float weight_distance(double weight) {
    return weight < (double)FLT_MIN ? INFINITY : (float)(0.001 - rmath_log(weight));
}

// ---------------------------------------------------------------- the steps

void choose_step_temperature(struct cpu_choice *choice) {
    choice->scale = choice->wanted->numbers->temperature; // the first filter: all are there
}

// As Tang et al. (2024) have it; the temperature divides both sides, so it drops nothing else. The
// standard deviation is that of the model's logits, without bias and penalties, whose outliers
// would say nothing about the model.
void choose_step_top_n_sigma(struct cpu_choice *choice) {
    const struct choice_numbers *s = choice->wanted->numbers;
    const struct chooser *chooser = choice->chooser;
    if (!(s->top_n_sigma > 0)) return;
    const double sigma =
        chooser->passes->deviation(choice->raw, choice->wanted->n_vocab, choice->top);
    const double distance = (double)s->top_n_sigma * sigma / (double)s->temperature;
    keep_within(choice, distance < (double)FLT_MAX ? (float)distance : INFINITY);
}

void choose_step_top_k(struct cpu_choice *choice) {
    const int k = choice->wanted->numbers->top_k;
    if (k > 0 && k < (choice->is_whole ? choice->n : choice->set.n)) choose_keep_best(choice, k);
}

// As Meister et al. (2022) have it: the tokens whose information is nearest to the entropy, until
// they reach typical_p. -log p(x) is log(sum) - x and the entropy log(sum) - E[x], so their
// difference is the distance of a logit from the expected one.
void choose_step_typical(struct cpu_choice *choice) {
    struct candidates *set = &choice->set;
    const float share = choice->wanted->numbers->typical_p;
    if (!(share > 0 && share < 1)) return;
    const struct run run = choose_run(choice);
    uint64_t total;
    const float centre = choice->chooser->passes->mean(&run, &total);
    choose_keep_share(choice, centre, share, total);
    float top = -INFINITY;
    for (int i = 0; i < set->n; i++) top = set->logit[i] > top ? set->logit[i] : top;
    if (top == 0) return;
    for (int i = 0; i < set->n; i++) set->logit[i] -= top;
}

void choose_step_top_p(struct cpu_choice *choice) {
    if (choice->wanted->numbers->top_p < 1)
        choose_keep_share(choice, 0, choice->wanted->numbers->top_p, 0);
}

// Tokens at least min_p times as likely as the best, whose weight is 1. Those that surely are not
// go by their distance.
void choose_step_min_p(struct cpu_choice *choice) {
    struct candidates *set = &choice->set;
    const float min_p = choice->wanted->numbers->min_p;
    if (!(min_p > 0)) return;
    if (choice->is_whole) keep_within(choice, weight_distance((double)min_p));
    int n = 0;
    for (int i = 0; i < set->n; i++) {
        set->logit[n] = set->logit[i];
        set->id[n] = set->id[i];
        n += weight_of(set->logit[i]) >= min_p;
    }
    set->n = n;
}

// Exclude top choices: all tokens that reach the threshold are dropped, except the least likely of
// them. Of equals that is the token with the higher id, which is last in the order of likelihood.
void choose_step_xtc(struct cpu_choice *choice) {
    struct candidates *set = &choice->set;
    const struct choice_numbers *s = choice->wanted->numbers;
    if (s->xtc_probability == 0) return;
    if (noise_xtc(choice->wanted->key) >= (double)s->xtc_probability) return;
    const struct run run = choose_run(choice);
    const uint64_t total = choice->chooser->passes->mass_within(&run, 0, INFINITY);
    const double threshold = (double)total / (double)WEIGHT_ONE * (double)s->xtc_threshold;
    if (choice->is_whole) keep_within(choice, INFINITY);
    const float least = -weight_distance(threshold);
    int last = -1;
    for (int i = 0; i < set->n; i++)
        if (set->logit[i] >= least && (double)weight_of(set->logit[i]) >= threshold &&
            (last < 0 || set->logit[i] <= set->logit[last]))
            last = i;
    if (last < 0) return;
    const int32_t last_id = set->id[last];
    int n = 0;
    for (int i = 0; i < set->n; i++) {
        const float logit = set->logit[i];
        const int32_t id = set->id[i];
        set->logit[n] = logit;
        set->id[n] = id;
        n += id == last_id || logit < least || (double)weight_of(logit) < threshold;
    }
    set->n = n;
}
