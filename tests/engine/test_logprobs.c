// Log-probabilities of one row of logits against sums in long double by the C library, and against
// a sort for the order. Also rows with values that are not finite.
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "engine/choice/logprobs.h"
#define RANDOM_SEED 7
#include "random.h"

enum { N_LARGE = 200000 };

static long double log_sum(const float *logits, int n) {
    long double top = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        if (isfinite(logits[i]) && (long double)logits[i] > top) top = logits[i];
    for (int i = 0; i < n; i++)
        if (isfinite(logits[i])) sum += expl((long double)logits[i] - top);
    return top + logl(sum);
}

// The tolerance of a logprob: a few roundings of a float, and 1e-6 of the sum.
static void check_value(float got, long double want) {
    const double tolerance = 2e-6 + 2e-7 * fabs((double)want);
    check(fabs((double)got - (double)want) <= tolerance, "logprob %.9g, expected %.9Lg",
          (double)got, want);
}

// How many go before: larger ones, and equals with a lower id.
static int rank_of(const float *logits, int n, int32_t id) {
    int rank = 0;
    for (int i = 0; i < n; i++)
        rank +=
            isfinite(logits[i]) && (logits[i] > logits[id] || (logits[i] == logits[id] && i < id));
    return rank;
}

static void check_row(const float *logits, int n, int32_t token, int n_top) {
    rn_logprob out[LOGPROBS_MAX];
    const long double sum = log_sum(logits, n);
    int n_finite = 0;
    for (int i = 0; i < n; i++) n_finite += isfinite(logits[i]) != 0;
    const int n_out = logprobs_fill(logits, n, token, n_top, out);
    assert_int_equal(n_out, 1 + (n_top < n_finite ? n_top : n_finite));
    assert_int_equal(out[0].token, token);
    for (int i = 0; i < n_out; i++) {
        check_value(out[i].logprob, (long double)logits[out[i].token] - sum);
        assert_true(out[i].logprob <= 0);
        if (i > 0) assert_int_equal(rank_of(logits, n, out[i].token), i - 1);
    }
}

CASE(they_are_the_softmax_of_the_row_in_order) {
    static const int sizes[] = {1, 2, 7, 20, 21, 64, 1000, 4096};
    static const float scales[] = {0, 0.01f, 1, 10, 100};
    float logits[4096];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t k = 0; k < sizeof scales / sizeof *scales; k++) {
            const int n = sizes[s];
            for (int i = 0; i < n; i++)
                logits[i] = scales[k] * ((float)below(2001) * 1e-3f - 1) + 30;
            for (int top = 0; top <= RN_MAX_TOP_LOGPROBS; top += 5)
                check_row(logits, n, below(n), top);
        }
    }
}

CASE(equal_logits_are_in_the_order_of_ids) {
    float logits[100];
    for (int i = 0; i < 100; i++) logits[i] = (float)(i % 3);
    rn_logprob out[LOGPROBS_MAX];
    assert_int_equal(logprobs_fill(logits, 100, 50, RN_MAX_TOP_LOGPROBS, out), LOGPROBS_MAX);
    for (int i = 1; i < LOGPROBS_MAX; i++) assert_int_equal(out[i].token, 3 * i - 1);
}

// Its start is the list of the likeliest, to the bit.
CASE(all_logprobs_are_the_vocabulary_in_order) {
    static float logits[1000];
    static rn_logprob all[1001], few[LOGPROBS_MAX];
    for (int i = 0; i < 1000; i++) logits[i] = (float)below(300) * 0.01f; // with equals
    logits[3] = NAN;
    logits[4] = -INFINITY;
    assert_int_equal(logprobs_fill(logits, 1000, 50, 1000, all), 999);
    assert_int_equal(logprobs_fill(logits, 1000, 50, RN_MAX_TOP_LOGPROBS, few), LOGPROBS_MAX);
    assert_memory_equal(all, few, sizeof few);
    double sum = 0;
    for (int i = 1; i < 999; i++) {
        assert_int_equal(rank_of(logits, 1000, all[i].token), i - 1);
        sum += exp((double)all[i].logprob);
    }
    assert_true(fabs(sum - 1) < 1e-4);
}

CASE(what_is_not_finite_takes_no_part) {
    float logits[50], plain[50];
    for (int i = 0; i < 50; i++) logits[i] = plain[i] = (float)((i * 7) % 11);
    logits[3] = INFINITY;
    logits[4] = -INFINITY;
    logits[5] = NAN;
    plain[3] = plain[4] = plain[5] = -FLT_MAX;
    for (int top = 0; top <= RN_MAX_TOP_LOGPROBS; top++) {
        rn_logprob a[LOGPROBS_MAX], b[LOGPROBS_MAX];
        const int n = logprobs_fill(logits, 50, 7, top, a);
        assert_int_equal(n, logprobs_fill(plain, 50, 7, top, b));
        assert_memory_equal(a, b, (size_t)n * sizeof *a);
    }
    for (int i = 0; i < 50; i++) logits[i] = i == 8 ? 2 : -INFINITY;
    rn_logprob out[LOGPROBS_MAX];
    assert_int_equal(logprobs_fill(logits, 50, 8, 5, out), 2);
    assert_true(out[0].logprob == 0 && out[1].logprob == 0);
    assert_int_equal(out[1].token, 8);
}

// Many small weights add up, none of them being large enough to be seen beside the largest alone.
CASE(long_tails_count) {
    float *logits = malloc(N_LARGE * sizeof *logits);
    assert_non_null(logits);
    static const float tails[] = {0, -5, -20, -24, -60, -1000, -3e38f};
    for (size_t t = 0; t < sizeof tails / sizeof *tails; t++) {
        for (int i = 0; i < N_LARGE; i++) logits[i] = tails[t];
        logits[77] = 0;
        check_row(logits, N_LARGE, 77, 1);
        check_row(logits, N_LARGE, 78, 3);
    }
    free(logits);
}

TEST_PROGRAM(logprobs) { return cases_run(NULL, NULL); }
