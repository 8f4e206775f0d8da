// From passes to the bandwidth: bursts do not raise it, stalls do not lower it, the best
// configuration is used, all configurations take turns, and the budget holds. Passes are made up.
// label: threads
#include "backend/cpu/bandwidth.h"

#include <math.h>

#include "check.h"

enum { PASS_BYTES = 1000000, STEADY_NS = 1000, MAX_CALLS = 4096 };

// A machine whose passes take what `times` says, by configuration and how often it was called.
struct machine {
    uint64_t (*times)(int config, int call);
    int n_configs, n_calls;
    int calls[BANDWIDTH_MAX_CONFIGS];
    int order[MAX_CALLS];
    uint64_t total_ns;
};

static uint64_t machine_pass(void *ctx, int config) {
    struct machine *m = ctx;
    check(config >= 0 && config < m->n_configs, "configuration %d", config);
    const uint64_t ns = m->times(config, m->calls[config]++);
    if (m->n_calls < MAX_CALLS) m->order[m->n_calls] = config;
    m->n_calls++;
    m->total_ns += ns;
    return ns;
}

static double run(struct machine *m, uint64_t (*times)(int, int), int n_configs, uint64_t budget) {
    *m = (struct machine){.times = times, .n_configs = n_configs};
    return bandwidth_sustained(machine_pass, m, n_configs, PASS_BYTES, budget);
}

// The time of a pass that the rate speaks of.
static double ns_of(double rate) { return (double)PASS_BYTES * 1e9 / rate; }

static void check_ns(double rate, double ns) {
    check(fabs(ns_of(rate) - ns) < 0.01 * ns, "%g ns, expected %g", ns_of(rate), ns);
}

static uint64_t times_steady(int config, int call) { return STEADY_NS; }

// The mean of such passes is a little less than the median: 940.
static uint64_t times_bursts(int config, int call) {
    return (call + config) % 10 == 3 ? STEADY_NS * 2 / 5 : STEADY_NS;
}

static uint64_t times_stalls(int config, int call) {
    return (call + config) % 5 < 2 ? 20 * STEADY_NS : STEADY_NS;
}

static uint64_t times_one_better(int config, int call) {
    return config == 2 ? STEADY_NS / 2 : STEADY_NS;
}

// Fast two times of five, for long enough that a step would have its share of it: mean 640.
static uint64_t times_two_speeds(int config, int call) {
    return call % 5 < 2 ? STEADY_NS / 10 : STEADY_NS;
}

static uint64_t times_nothing(int config, int call) { return 0; }

// Each configuration has a speed of its own, the slower the higher its number.
static uint64_t times_own(int config, int call) { return (uint64_t)(config + 1) * STEADY_NS; }

CASE(steady_passes_give_their_rate) {
    struct machine m;
    check_ns(run(&m, times_steady, 12, 400 * STEADY_NS), STEADY_NS);
    assert_int_equal(m.n_calls, 400);
}

CASE(bursts_weigh_no_more_than_their_time) {
    struct machine m;
    check_ns(run(&m, times_bursts, 12, 1200 * STEADY_NS), 0.94 * STEADY_NS);
}

CASE(stalls_do_not_lower_the_rate) {
    struct machine m;
    check_ns(run(&m, times_stalls, 4, 4000 * STEADY_NS), STEADY_NS);
}

CASE(the_best_configuration_is_used) {
    struct machine m;
    check_ns(run(&m, times_one_better, 6, 300 * STEADY_NS), 0.5 * STEADY_NS);
}

CASE(the_rate_is_not_below_that_of_all_passes_together) {
    struct machine m;
    check_ns(run(&m, times_two_speeds, 3, 600 * STEADY_NS), 0.64 * STEADY_NS);
}

CASE(configurations_are_called_in_turn_and_rounds_begin_with_another) {
    enum { N = 5, ROUNDS = 20 };
    struct machine m;
    run(&m, times_steady, N, N * ROUNDS * STEADY_NS);
    assert_int_equal(m.n_calls, N * ROUNDS);
    int firsts[N] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        int seen[N] = {0};
        for (int i = 0; i < N; i++) seen[m.order[round * N + i]]++;
        for (int c = 0; c < N; c++) assert_int_equal(seen[c], 1);
        firsts[m.order[round * N]]++;
    }
    for (int c = 0; c < N; c++) assert_int_equal(firsts[c], ROUNDS / N);
}

CASE(the_budget_holds_as_far_as_passes_can_be_foreseen) {
    struct machine m;
    for (uint64_t budget = 6 * STEADY_NS; budget < 60 * STEADY_NS; budget += 700) {
        assert_true(run(&m, times_own, 6, budget) > 0);
        // a pass that is longer than all before it is not foreseen; here by one step at most
        assert_true(m.total_ns <= budget + STEADY_NS && m.n_calls > 1);
    }
    check_ns(run(&m, times_steady, 6, 0), STEADY_NS); // one is needed
    assert_int_equal(m.n_calls, 1);
}

CASE(many_passes_and_passes_without_time_give_a_number) {
    struct machine m;
    check_ns(run(&m, times_steady, 2, 100000 * STEADY_NS), STEADY_NS);
    check_ns(run(&m, times_nothing, 1, 5000), 1);
}

TEST_PROGRAM(bandwidth) { return cases_run(NULL, NULL); }
