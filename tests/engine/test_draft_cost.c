// The table of a draft model's costs: what was measured is given back, the rest follows it, and
// steps move it as far as they should.
#include "check.h"

#include "engine/draft/draft_cost.h"

static void costs_go_through_what_was_measured_and_on_from_there(void **state) {
    (void)state;
    struct draft_cost cost;
    draft_cost_init(&cost, (const double[]){100, 120, 160}, 3);
    assert_float_equal(draft_cost_ns(&cost, 1), 100, 1e-6);
    assert_float_equal(draft_cost_ns(&cost, 2), 120, 1e-6);
    assert_float_equal(draft_cost_ns(&cost, 3), 140, 1e-6);
    assert_float_equal(draft_cost_ns(&cost, 4), 160, 1e-6);
    assert_float_equal(draft_cost_ns(&cost, 8), 240, 1e-6); // 20 for each more
    assert_float_equal(draft_cost_ns(&cost, 4096), 160 + 4092 * 20, 1e-3);
    for (int n = 2; n <= 4096; n++)
        assert_true(draft_cost_ns(&cost, n) >= draft_cost_ns(&cost, n - 1));
    draft_cost_init(&cost, (const double[]){100, 90}, 2); // more never cost less
    assert_float_equal(draft_cost_ns(&cost, 2), 100, 1e-6);
}

static void steps_that_take_longer_from_now_on_are_believed_in_the_end(void **state) {
    (void)state;
    struct draft_cost cost;
    draft_cost_init(&cost, (const double[]){100, 120, 160, 240}, 4);
    for (int i = 0; i < 200; i++) draft_cost_learn(&cost, 3, 280);
    assert_in_range(draft_cost_ns(&cost, 3), 270, 281);
    assert_true(draft_cost_ns(&cost, 8) > 240 && draft_cost_ns(&cost, 8) < 480);
    for (int i = 0; i < 200; i++) draft_cost_learn(&cost, 3, 140);
    assert_in_range(draft_cost_ns(&cost, 3), 139, 145);
}

static void one_accident_is_not(void **state) {
    (void)state;
    struct draft_cost cost;
    draft_cost_init(&cost, (const double[]){100}, 1);
    draft_cost_learn(&cost, 1, 1e9);
    assert_in_range(draft_cost_ns(&cost, 1), 100, 105);
    assert_true(draft_cost_corrected(100, 1e9) < 105 && draft_cost_corrected(100, 100) == 100);
    draft_cost_learn(&cost, 1, 0);
    assert_true(draft_cost_ns(&cost, 1) > 90);
    for (int i = 0; i < 100000; i++) draft_cost_learn(&cost, 1, 0); // the clock stands still
    assert_true(draft_cost_ns(&cost, 1) >= 1 && draft_cost_ns(&cost, 64) >= 1);
}

TEST_PROGRAM(draft_cost) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_go_through_what_was_measured_and_on_from_there),
        cmocka_unit_test(steps_that_take_longer_from_now_on_are_believed_in_the_end),
        cmocka_unit_test(one_accident_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
