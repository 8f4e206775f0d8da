// The steps that work on candidates: temperature, top-n-sigma, top-k, typical, top-p, min-p, XTC.
//
// Top-k, top-p and typical keep what is nearest to a centre: the best logit, which is 0, for the
// first two, the expected one for the last. Ties go to the lower id. Whole passes are plain loops
// over arrays; a threshold on the distance is widened until enough are within it, so that few
// candidates have to be ordered.
#include <float.h>
#include <math.h>

#include "engine/sampler_steps.h"

static const float first_distance = 1, last_distance = 1024;

static bool nearer(const struct candidates *set, float centre, int a, int b) {
    const float distance_a = fabsf(set->logit[a] - centre);
    const float distance_b = fabsf(set->logit[b] - centre);
    return distance_a < distance_b || (distance_a == distance_b && set->id[a] < set->id[b]);
}

static void swap(struct candidates *set, int a, int b) {
    const float logit = set->logit[a];
    const int32_t id = set->id[a];
    set->logit[a] = set->logit[b];
    set->id[a] = set->id[b];
    set->logit[b] = logit;
    set->id[b] = id;
}

static void sift_down(struct candidates *set, float centre, int n, int at) {
    for (int child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && nearer(set, centre, child + 1, child)) child++;
        if (!nearer(set, centre, child, at)) return;
        swap(set, at, child);
    }
}

static void heapify(struct candidates *set, float centre) {
    for (int i = set->n / 2; i-- > 0;) sift_down(set, centre, set->n, i);
}

// Takes the nearest out of a heap of n and puts it at n - 1; returns its logit.
static float pop(struct candidates *set, float centre, int n) {
    swap(set, 0, n - 1);
    sift_down(set, centre, n - 1, 0);
    return set->logit[n - 1];
}

// What was popped lies at the end of the arrays; it becomes the set.
static void keep_popped(struct candidates *set, int n_popped) {
    memmove(set->logit, set->logit + set->n - n_popped, (size_t)n_popped * sizeof *set->logit);
    memmove(set->id, set->id + set->n - n_popped, (size_t)n_popped * sizeof *set->id);
    set->n = n_popped;
}

enum { BLOCK = 64 }; // logits that are skipped together, a multiple of eight

// Whether one of a block's logits is that near; most blocks have none.
static bool any_within(const float *logit, float centre, float distance) {
    int any = 0;
    for (int j = 0; j < BLOCK; j++) any |= fabsf(logit[j] - centre) <= distance;
    return any != 0;
}

static void keep_within(struct candidates *set, float centre, float distance) {
    int n = 0;
    for (int i = 0; i < set->n;) {
        const int end = i + BLOCK <= set->n ? i + BLOCK : set->n;
        if (end == i + BLOCK && !any_within(set->logit + i, centre, distance)) i = end;
        for (; i < end; i++) {
            const float logit = set->logit[i];
            set->logit[n] = logit;
            set->id[n] = set->id[i];
            n += fabsf(logit - centre) <= distance;
        }
    }
    set->n = n;
}

static int count_within(const struct candidates *set, float centre, float distance) {
    int n = 0;
    for (int i = 0; i < set->n; i++) n += fabsf(set->logit[i] - centre) <= distance;
    return n;
}

// The sum of their weights. Eight running sums, in a fixed order; a block that adds nothing is
// skipped.
static double mass_within(const struct candidates *set, float centre, float distance) {
    float sum[8] = {0};
    int i = 0;
    while (i + 8 <= set->n) {
        const bool whole = i + BLOCK <= set->n;
        if (whole && distance < INFINITY && !any_within(set->logit + i, centre, distance)) {
            i += BLOCK;
            continue;
        }
        for (const int end = whole ? i + BLOCK : i + 8; i < end; i += 8)
            for (int j = 0; j < 8; j++) {
                const float x = set->logit[i + j];
                const float weight = weight_of(x);
                sum[j] += fabsf(x - centre) <= distance ? weight : 0.0f;
            }
    }
    for (; i < set->n; i++)
        if (fabsf(set->logit[i] - centre) <= distance) sum[0] += weight_of(set->logit[i]);
    double total = 0;
    for (int j = 0; j < 8; j++) total += (double)sum[j];
    return total;
}

// The shortest run of the nearest whose weights reach `share` of the sum; at least one.
static void keep_share(struct candidates *set, float centre, float share) {
    const double wanted = mass_within(set, centre, INFINITY) * (double)share;
    float distance = first_distance;
    while (distance <= last_distance && mass_within(set, centre, distance) < wanted) distance *= 2;
    if (distance <= last_distance) keep_within(set, centre, distance);
    heapify(set, centre);
    double sum = 0;
    int n = 0;
    do sum += (double)weight_of(pop(set, centre, set->n - n++));
    while (n < set->n && sum < wanted);
    keep_popped(set, n);
}

// ---------------------------------------------------------------- the steps

void sampler_step_temperature(struct choice *choice) {
    struct candidates *set = &choice->set;
    const float temperature = choice->sampling->temperature;
    if (temperature == 1) return;
    for (int i = 0; i < set->n; i++) set->logit[i] /= temperature;
}

// The standard deviation of the model's finite logits: without bias and penalties, whose outliers
// would say nothing about the model. Eight running sums, in a fixed order.
static double deviation(const float *logits, int n_vocab, float shift) {
    double sum[8] = {0}, squares[8] = {0};
    int32_t count = 0;
    int i = 0;
    for (; i + 8 <= n_vocab; i += 8)
        for (int j = 0; j < 8; j++) {
            const float x = logits[i + j];
            const double d = x - x == 0 ? (double)x - (double)shift : 0;
            sum[j] += d;
            squares[j] += d * d;
        }
    for (; i < n_vocab; i++) {
        const double d = isfinite(logits[i]) ? (double)logits[i] - (double)shift : 0;
        sum[0] += d;
        squares[0] += d * d;
    }
    for (i = 0; i < n_vocab; i++) count += logits[i] - logits[i] == 0;
    for (int j = 1; j < 8; j++) {
        sum[0] += sum[j];
        squares[0] += squares[j];
    }
    const double mean = sum[0] / count;
    const double variance = squares[0] / count - mean * mean;
    return sqrt(variance > 0 ? variance : 0);
}

// As Tang et al. (2024) have it; the temperature divides both sides, so it drops nothing else.
void sampler_step_top_n_sigma(struct choice *choice) {
    const rn_sampling *s = choice->sampling;
    if (!(s->top_n_sigma > 0)) return;
    const double sigma = deviation(choice->raw, choice->sampler->n_vocab, choice->top);
    const double distance = (double)s->top_n_sigma * sigma / (double)s->temperature;
    keep_within(&choice->set, 0, distance < (double)FLT_MAX ? (float)distance : INFINITY);
}

void sampler_step_top_k(struct choice *choice) {
    struct candidates *set = &choice->set;
    const int k = choice->sampling->top_k;
    if (k <= 0 || k >= set->n) return;
    float distance = first_distance;
    while (distance <= last_distance && count_within(set, 0, distance) < k) distance *= 2;
    float step = distance / 4; // a pass more is cheaper than many candidates more
    for (int i = 0; distance <= last_distance && i < 3; i++, step /= 2)
        if (count_within(set, 0, distance - step) >= k) distance -= step;
    if (distance <= last_distance) keep_within(set, 0, distance);
    heapify(set, 0);
    for (int i = 0; i < k; i++) pop(set, 0, set->n - i);
    keep_popped(set, k);
}

// The mean of the logits under their own distribution; the best one's weight is 1.
static float expected_logit(const struct candidates *set) {
    float sum[8] = {0}, mass[8] = {0};
    int i = 0;
    for (; i + 8 <= set->n; i += 8)
        for (int j = 0; j < 8; j++) {
            const float x = set->logit[i + j];
            const float weight = weight_of(x);
            sum[j] += weight > 0 ? weight * x : 0.0f; // x may be -INFINITY
            mass[j] += weight;
        }
    for (; i < set->n; i++) {
        const float weight = weight_of(set->logit[i]);
        if (weight > 0) sum[0] += weight * set->logit[i];
        mass[0] += weight;
    }
    double total = 0, total_mass = 0;
    for (int j = 0; j < 8; j++) {
        total += (double)sum[j];
        total_mass += (double)mass[j];
    }
    return (float)(total / total_mass);
}

// As Meister et al. (2022) have it: the tokens whose information is nearest to the entropy, until
// they reach typical_p. -log p(x) is log(sum) - x and the entropy log(sum) - E[x], so their
// difference is the distance of a logit from the expected one.
void sampler_step_typical(struct choice *choice) {
    struct candidates *set = &choice->set;
    const float share = choice->sampling->typical_p;
    if (!(share > 0 && share < 1)) return;
    keep_share(set, expected_logit(set), share);
    const float top = sampler_largest(set->logit, set->n);
    if (top == 0) return;
    for (int i = 0; i < set->n; i++) set->logit[i] -= top;
}

void sampler_step_top_p(struct choice *choice) {
    if (choice->sampling->top_p < 1) keep_share(&choice->set, 0, choice->sampling->top_p);
}

// Tokens at least min_p times as likely as the best, whose weight is 1.
void sampler_step_min_p(struct choice *choice) {
    struct candidates *set = &choice->set;
    const float min_p = choice->sampling->min_p;
    if (!(min_p > 0)) return;
    int n = 0;
    for (int i = 0; i < set->n; i++) {
        set->logit[n] = set->logit[i];
        set->id[n] = set->id[i];
        n += weight_of(set->logit[i]) >= min_p;
    }
    set->n = n;
}

// Exclude top choices: all tokens that reach the threshold go, but the least likely of them (of
// equals the one with the higher id, which comes last in the order of likelihood).
void sampler_step_xtc(struct choice *choice) {
    struct candidates *set = &choice->set;
    const rn_sampling *s = choice->sampling;
    const struct sampler_view *view = choice->view;
    if (s->xtc_probability == 0) return;
    if (sampler_xtc_draw(s->seed, view->choice, (uint32_t)view->n_token) >=
        (double)s->xtc_probability)
        return;
    const double threshold = mass_within(set, 0, INFINITY) * (double)s->xtc_threshold;
    int last = -1;
    for (int i = 0; i < set->n; i++)
        if ((double)weight_of(set->logit[i]) >= threshold && (last < 0 || nearer(set, 0, last, i)))
            last = i;
    if (last < 0) return;
    const int32_t last_id = set->id[last];
    int n = 0;
    for (int i = 0; i < set->n; i++) {
        const float logit = set->logit[i];
        const int32_t id = set->id[i];
        set->logit[n] = logit;
        set->id[n] = id;
        n += id == last_id || (double)weight_of(logit) < threshold;
    }
    set->n = n;
}
