// The steps that work on candidates: temperature, top-n-sigma, top-k, typical, top-p, min-p, XTC.
//
// Top-k, top-p and typical keep what is nearest to a centre: the best logit, which is 0, for the
// first two, the expected one for the last. Ties go to the lower id. A threshold on the distance is
// widened until enough are within it, and narrowed a little, so that few candidates have to be
// written out and ordered.
#include <float.h>
#include <math.h>

#include "engine/sampler_steps.h"

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

enum { FEW = 256 }; // candidates that a heap orders well
enum { DIGIT_BITS = 11, DIGITS = 3, DIGIT_VALUES = 1 << DIGIT_BITS };

// Of the distance's bits; distances are not negative, so they are in the order of their bits.
static uint32_t digit_of(float logit, float centre, int digit) {
    return f32_to_bits(fabsf(logit - centre)) >> digit * DIGIT_BITS & (DIGIT_VALUES - 1);
}

// Where each value of a digit begins, the largest first.
static void digits_place(uint32_t *count) {
    uint32_t at = 0;
    for (int i = DIGIT_VALUES; i-- > 0;) {
        const uint32_t n = count[i];
        count[i] = at;
        at += n;
    }
}

static bool ids_ascend(const struct candidates *set) {
    for (int i = 1; i < set->n; i++)
        if (set->id[i - 1] > set->id[i]) return false;
    return true;
}

// Sorts by distance, the nearest last, of equals the lower id last: digit by digit, from the lowest
// on. Each pass keeps the order of equals, so the first, which turns the ids round, decides it.
static void sort_by_digits(struct sampler *sampler, struct candidates *set, float centre) {
    uint32_t count[DIGITS][DIGIT_VALUES] = {{0}};
    struct candidate *pair = sampler->pair;
    for (int i = 0; i < set->n; i++)
        for (int k = 0; k < DIGITS; k++) count[k][digit_of(set->logit[i], centre, k)]++;
    for (int k = 0; k < DIGITS; k++) digits_place(count[k]);
    for (int i = set->n; i-- > 0;)
        pair[count[0][digit_of(set->logit[i], centre, 0)]++] =
            (struct candidate){set->logit[i], set->id[i]};
    for (int i = 0; i < set->n; i++) {
        const uint32_t at = count[1][digit_of(pair[i].logit, centre, 1)]++;
        set->logit[at] = pair[i].logit;
        set->id[at] = pair[i].id;
    }
    for (int i = 0; i < set->n; i++)
        pair[count[2][digit_of(set->logit[i], centre, 2)]++] =
            (struct candidate){set->logit[i], set->id[i]};
    for (int i = 0; i < set->n; i++) {
        set->logit[i] = pair[i].logit;
        set->id[i] = pair[i].id;
    }
}

// Candidates in the order of their distance: a heap, or sorted where they are many.
struct queue {
    struct candidates *set;
    float centre;
    bool sorted;
    int n_popped;
};

static struct queue queue_of(struct choice *choice, float centre) {
    struct candidates *set = &choice->set;
    const bool sorted = set->n > FEW && ids_ascend(set);
    if (sorted) {
        sort_by_digits(choice->sampler, set, centre);
    } else {
        heapify(set, centre);
    }
    return (struct queue){set, centre, sorted, 0};
}

// Takes the nearest out and puts it behind those that are left; returns its logit.
static float pop(struct queue *queue) {
    struct candidates *set = queue->set;
    const int last = set->n - 1 - queue->n_popped++;
    if (!queue->sorted) {
        swap(set, 0, last);
        sift_down(set, queue->centre, last, 0);
    }
    return set->logit[last];
}

// What was popped lies at the end of the arrays; it becomes the set.
static void keep_popped(const struct queue *queue) {
    struct candidates *set = queue->set;
    const int n = queue->n_popped, first = set->n - n;
    memmove(set->logit, set->logit + first, (size_t)n * sizeof *set->logit);
    memmove(set->id, set->id + first, (size_t)n * sizeof *set->id);
    set->n = n;
}

// ---------------------------------------------------------------- thresholds

static const float first_distance = 1, last_distance = 1024;

// The candidates at most so far from the centre become the set.
static void keep_within(struct choice *choice, float centre, float distance) {
    const struct run run = sampler_run(choice);
    struct candidates *set = &choice->set;
    set->n = choice->sampler->passes->keep_within(&run, centre, distance, set->logit, set->id);
    choice->whole = false;
}

// A distance that holds at least k of the run, if it can be few more.
static float distance_of_count(const struct sampler_passes *passes, const struct run *run, int k) {
    float distance = first_distance;
    while (distance <= last_distance && passes->count_within(run, 0, distance) < k) distance *= 2;
    if (distance > last_distance) return INFINITY;
    float step = distance / 2;
    for (int i = 0; i < 8; i++, step /= 2)
        if (passes->count_within(run, 0, distance - step) >= k) distance -= step;
    return distance;
}

// A distance that holds at least the k best: k of them are peaks, of which there are fewer to look
// at, where there are enough.
static float distance_of_best(const struct choice *choice, int k) {
    const struct sampler *sampler = choice->sampler;
    const struct run run = sampler_run(choice);
    const int n_peaks = sampler_blocks(run.n);
    if (k > n_peaks / 2) return distance_of_count(sampler->passes, &run, k);
    bool holes;
    float *peak = sampler->peak + n_peaks;
    sampler->passes->peaks(run.peak, n_peaks, peak, &holes);
    const struct run peaks = {
        .logit = run.peak, .peak = peak, .n = n_peaks, .shift = run.shift, .scale = run.scale};
    return distance_of_count(sampler->passes, &peaks, k);
}

// A distance from the best within which every candidate is whose weight is at least that, if that
// is more than nothing: more than the weight's error is added.
static float weight_distance(double weight) {
    return weight < (double)FLT_MIN ? INFINITY : (float)(0.001 - rmath_log(weight));
}

// Keeps fewer of the nearest, if they surely still weigh that much: more than the lanes of a sum
// can lose by rounding.
static void narrow(struct choice *choice, float centre, float distance, double wanted) {
    const struct sampler_passes *passes = choice->sampler->passes;
    if (choice->set.n <= FEW) return;
    const struct run run = sampler_run(choice);
    const double enough = wanted * (1 + (run.n / 8 + 16) * 0x1p-23);
    float least = distance, step = distance / 4;
    for (int i = 0; i < 5; i++, step /= 2)
        if (passes->mass_within(&run, centre, least - step) >= enough) least -= step;
    if (least < distance) keep_within(choice, centre, least);
}

// The shortest run of the nearest whose weights reach `share` of the sum; at least one.
static void keep_share(struct choice *choice, float centre, float share) {
    const struct sampler_passes *passes = choice->sampler->passes;
    const struct run run = sampler_run(choice);
    const double wanted = passes->mass_within(&run, centre, INFINITY) * (double)share;
    float distance = first_distance;
    while (distance <= last_distance && passes->mass_within(&run, centre, distance) < wanted)
        distance *= 2;
    keep_within(choice, centre, distance <= last_distance ? distance : INFINITY);
    narrow(choice, centre, distance, wanted);
    struct queue queue = queue_of(choice, centre);
    double sum = 0;
    do sum += (double)weight_of(pop(&queue));
    while (queue.n_popped < choice->set.n && sum < wanted);
    keep_popped(&queue);
}

// ---------------------------------------------------------------- the steps

void sampler_step_temperature(struct choice *choice) {
    struct candidates *set = &choice->set;
    const float temperature = choice->sampling->temperature;
    if (choice->whole) {
        choice->scale = temperature;
        return;
    }
    if (temperature == 1) return;
    for (int i = 0; i < set->n; i++) set->logit[i] /= temperature;
}

// As Tang et al. (2024) have it; the temperature divides both sides, so it drops nothing else. The
// standard deviation is that of the model's logits, without bias and penalties, whose outliers
// would say nothing about the model.
void sampler_step_top_n_sigma(struct choice *choice) {
    const rn_sampling *s = choice->sampling;
    const struct sampler *sampler = choice->sampler;
    if (!(s->top_n_sigma > 0)) return;
    const double sigma = sampler->passes->deviation(choice->raw, sampler->n_vocab, choice->top);
    const double distance = (double)s->top_n_sigma * sigma / (double)s->temperature;
    keep_within(choice, 0, distance < (double)FLT_MAX ? (float)distance : INFINITY);
}

void sampler_step_top_k(struct choice *choice) {
    struct candidates *set = &choice->set;
    const int k = choice->sampling->top_k;
    if (k <= 0 || k >= (choice->whole ? choice->sampler->n_vocab : set->n)) return;
    keep_within(choice, 0, distance_of_best(choice, k));
    struct queue queue = queue_of(choice, 0);
    while (queue.n_popped < k) pop(&queue);
    keep_popped(&queue);
}

// As Meister et al. (2022) have it: the tokens whose information is nearest to the entropy, until
// they reach typical_p. -log p(x) is log(sum) - x and the entropy log(sum) - E[x], so their
// difference is the distance of a logit from the expected one.
void sampler_step_typical(struct choice *choice) {
    struct candidates *set = &choice->set;
    const float share = choice->sampling->typical_p;
    if (!(share > 0 && share < 1)) return;
    const struct run run = sampler_run(choice);
    keep_share(choice, choice->sampler->passes->mean(&run), share);
    float top = -INFINITY;
    for (int i = 0; i < set->n; i++) top = set->logit[i] > top ? set->logit[i] : top;
    if (top == 0) return;
    for (int i = 0; i < set->n; i++) set->logit[i] -= top;
}

void sampler_step_top_p(struct choice *choice) {
    if (choice->sampling->top_p < 1) keep_share(choice, 0, choice->sampling->top_p);
}

// Tokens at least min_p times as likely as the best, whose weight is 1. Those that surely are not
// go by their distance.
void sampler_step_min_p(struct choice *choice) {
    struct candidates *set = &choice->set;
    const float min_p = choice->sampling->min_p;
    if (!(min_p > 0)) return;
    if (choice->whole) keep_within(choice, 0, weight_distance((double)min_p));
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
    const struct run run = sampler_run(choice);
    const double threshold =
        choice->sampler->passes->mass_within(&run, 0, INFINITY) * (double)s->xtc_threshold;
    if (choice->whole) keep_within(choice, 0, INFINITY);
    const float least = -weight_distance(threshold);
    int last = -1;
    for (int i = 0; i < set->n; i++)
        if (set->logit[i] >= least && (double)weight_of(set->logit[i]) >= threshold &&
            (last < 0 || nearer(set, 0, last, i)))
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
