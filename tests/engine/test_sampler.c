// The sampler: filters against a slow definition, and the law of the choice.
// label: no-address
#define VOCAB 50
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "sampler_chain.h"

static uint32_t random_state = 12345;
static float random_unit(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 8) * 0x1p-24f;
}

// The choice of a sequence that has reached that position; its tokens do not matter here.
static int32_t choose(const rn_sampling *sampling, int position, const float *logits) {
    struct sampler_view view = {.n_token = position};
    return sampler_choose(&sampler, sampling, &view, logits);
}

static void fill_random(float *logits) {
    for (int i = 0; i < VOCAB; i++) logits[i] = 8 * random_unit() - 4;
}

// Probabilities after the filters, by their definitions, in double.
static void expected_law(const rn_sampling *s, const float *logits, double *p) {
    int order[VOCAB];
    for (int i = 0; i < VOCAB; i++) order[i] = i;
    for (int i = 1; i < VOCAB; i++)
        for (int j = i; j > 0 && logits[order[j]] > logits[order[j - 1]]; j--) {
            const int t = order[j];
            order[j] = order[j - 1];
            order[j - 1] = t;
        }
    int n = s->top_k > 0 && s->top_k < VOCAB ? s->top_k : VOCAB;
    double weight[VOCAB], total = 0, sum = 0;
    for (int i = 0; i < n; i++)
        total += weight[i] =
            exp((double)(logits[order[i]] - logits[order[0]]) / (double)s->temperature);
    if (s->top_p < 1) {
        int kept = 0;
        while (kept < n && sum < total * (double)s->top_p) sum += weight[kept++];
        n = kept;
    }
    while (s->min_p > 0 && n > 1 && weight[n - 1] < (double)s->min_p) n--;
    total = 0;
    for (int i = 0; i < n; i++) total += weight[i];
    memset(p, 0, VOCAB * sizeof *p);
    for (int i = 0; i < n; i++) p[order[i]] = weight[i] / total;
}

// Chi-square over many positions: the choice follows the filtered law, and nothing filtered is ever
// chosen.
static void check_law(rn_sampling s) {
    enum { DRAWS = 40000 };
    float logits[VOCAB];
    double p[VOCAB];
    int count[VOCAB] = {0};
    fill_random(logits);
    expected_law(&s, logits, p);
    for (int position = 0; position < DRAWS; position++) count[choose(&s, position, logits)]++;
    double chi = 0;
    int cells = 0;
    for (int i = 0; i < VOCAB; i++) {
        check(p[i] > 0 || count[i] == 0, "token %d was filtered and chosen %d times", i, count[i]);
        if (p[i] * DRAWS < 5) continue;
        const double expected = p[i] * DRAWS;
        chi += (count[i] - expected) * (count[i] - expected) / expected;
        cells++;
    }
    // mean cells - 1, deviation sqrt(2 (cells - 1)): five deviations never happen by chance
    check(chi < cells + 5 * sqrt(2.0 * cells), "chi-square %g over %d cells", chi, cells);
}

CASE(the_choice_follows_the_filtered_law) {
    check_law((rn_sampling){.temperature = 1, .top_p = 1, .seed = 1});
    check_law((rn_sampling){.temperature = 0.7f, .top_p = 0.9f, .seed = 2});
    check_law((rn_sampling){.temperature = 1.5f, .top_k = 7, .top_p = 1, .seed = 3});
    check_law((rn_sampling){.temperature = 1, .top_p = 1, .min_p = 0.1f, .seed = 4});
    check_law(
        (rn_sampling){.temperature = 0.8f, .top_k = 20, .top_p = 0.8f, .min_p = 0.05f, .seed = 5});
}

CASE(the_choice_is_the_largest_sum_of_logit_and_noise) {
    float logits[VOCAB];
    for (int position = 0; position < 20000; position++) {
        fill_random(logits);
        const rn_sampling s = {.temperature = 0.25f * (float)(1 + position % 8),
                               .top_p = 1,
                               .seed = 42};
        float top = -INFINITY, best = -INFINITY;
        int32_t expected = -1;
        for (int i = 0; i < VOCAB; i++) top = fmaxf(top, logits[i]);
        for (int i = 0; i < VOCAB; i++) {
            const float noise = sampler_noise(42, 0, (uint32_t)position, (uint32_t)i);
            const float sum = (logits[i] - top) / s.temperature + noise;
            if (sum > best) {
                best = sum;
                expected = i;
            }
        }
        assert_int_equal(choose(&s, position, logits), expected);
    }
}

CASE(greedy_takes_the_largest_and_of_equals_the_lower_id) {
    float logits[VOCAB] = {0};
    logits[7] = logits[30] = 3;
    assert_int_equal(choose(&(rn_sampling){0}, 0, logits), 7);
    logits[30] = 3.5f;
    assert_int_equal(choose(&(rn_sampling){0}, 0, logits), 30);
    // top_k 1 is greedy at any temperature
    for (int i = 0; i < 100; i++)
        assert_int_equal(choose(&(rn_sampling){.temperature = 2, .top_k = 1}, i, logits), 30);
}

// For any logits.
CASE(a_top_p_of_zero_and_the_smallest_temperature_are_greedy) {
    static const rn_sampling samplings[] = {{.temperature = 5},
                                            {.temperature = 1e-38f, .top_p = 0.95f}};
    float logits[VOCAB];
    for (int i = 0; i < 400; i++) {
        fill_random(logits);
        const int32_t greedy = choose(&(rn_sampling){0}, i, logits);
        assert_int_equal(choose(&samplings[i % 2], i, logits), greedy);
    }
}

CASE(logits_that_are_no_numbers_are_never_chosen) {
    float logits[VOCAB];
    for (int i = 0; i < VOCAB; i++) logits[i] = i % 2 ? NAN : -INFINITY;
    const rn_sampling sampling[] = {{0},
                                    {.temperature = 1, .top_p = 1},
                                    {.temperature = 1, .top_p = 0.5f, .top_k = 3}};
    for (int i = 0; i < 3; i++) {
        logits[11] = NAN;
        assert_int_equal(choose(&sampling[i], 0, logits), -1);
        logits[11] = -5;
        assert_int_equal(choose(&sampling[i], 0, logits), 11);
    }
}

CASE(noise_depends_on_every_key) {
    const float noise = sampler_noise(1, 2, 3, 4);
    assert_true(noise == sampler_noise(1, 2, 3, 4));
    assert_true(noise != sampler_noise(2, 2, 3, 4) && noise != sampler_noise(1, 3, 3, 4));
    assert_true(noise != sampler_noise(1, 2, 4, 4) && noise != sampler_noise(1, 2, 3, 5));
    // standard Gumbel: mean 0.5772, variance pi^2 / 6
    double sum = 0, squares = 0;
    enum { N = 200000 };
    for (uint32_t i = 0; i < N; i++) {
        const double x = (double)sampler_noise(77, 0, i / 500, i % 500);
        sum += x;
        squares += x * x;
    }
    const double mean = sum / N, variance = squares / N - mean * mean;
    check(fabs(mean - 0.57722) < 0.02, "mean %g", mean);
    check(fabs(variance - 1.64493) < 0.05, "variance %g", variance);
}

TEST_PROGRAM(sampler) { return cases_run(sampler_setup, sampler_teardown); }
