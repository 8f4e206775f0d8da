// The arithmetic of `runnel eval --reference`, with numbers that are easy to check.
#include "inspect/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static void near(const char *what, double value, double wanted) {
    check(fabs(value - wanted) < 1e-6, "%s: %.9g instead of %.9g", what, value, wanted);
}

CASE(means_have_a_standard_error) {
    struct moments moments = {0};
    moments_add(&moments, 3);
    near("one value", moments_mean(&moments), 3);
    assert_true(isnan(moments_error(&moments)));
    moments_add(&moments, 5);
    moments_add(&moments, 7);
    near("mean", moments_mean(&moments), 5);
    near("deviation 2, of three values", moments_error(&moments), 2 / sqrt(3));
}

// Probabilities of 1/2, 1/4, 1/4 against 1/4, 1/2, 1/4: KL = 1/2 ln 2 - 1/4 ln 2.
static const float reference[] = {0.69314718f, 0, 0};
static const float model[] = {5, 5.69314718f, 5}; // a constant more changes nothing

CASE(rows_are_compared) {
    struct comparison comparison;
    assert_true(comparison_init(&comparison, 1, 2, 3));
    comparison_reference(&comparison, 0, reference, 0);
    comparison_reference(&comparison, 1, reference, 2);
    comparison_model(&comparison, 0, model, 0);
    comparison_model(&comparison, 1, reference, 2);
    near("the reference's loss", moments_mean(&comparison.loss), (log(2) + log(4)) / 2);
    near("the difference", moments_mean(&comparison.difference), log(2) / 2);
    near("the divergence", moments_mean(&comparison.kl_sums), log(2) / 8);
    near("the same token on top", moments_mean(&comparison.same_top), 0.5);
    near("the smaller", comparison_kl_at(&comparison, 0.5), 0);
    near("the larger", comparison_kl_at(&comparison, 1), log(2) / 4);
    assert_true(comparison_kl_at(&comparison, 0.5) == 0); // equal rows: exactly
    comparison_deinit(&comparison);
}

TEST_PROGRAM(compare) { return cases_run(NULL, NULL); }
