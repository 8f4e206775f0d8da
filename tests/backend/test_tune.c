// From passes to the way of reading weights: the fastest way is chosen, the default stays where no
// way is clearly faster, and phases of a shared machine do not decide. Passes are made up.
#include "backend/cpu/tune.h"

#include <math.h>

#include "check.h"

enum { DEFAULT_NS = 100000 };

typedef uint64_t (*times_fn)(int way, int call);

struct machine {
    times_fn times, alone; // of all threads, of one
    int n_calls;
};

static uint64_t machine_pass(void *ctx, int way, bool alone, int turn) {
    struct machine *m = ctx;
    check(way >= 0 && way < MATMUL_WAYS, "way %d", way);
    check(turn >= 0 && turn < TUNE_TURNS, "turn %d", turn);
    return (alone ? m->alone : m->times)(way, m->n_calls++);
}

static int choose_of_two(times_fn times, times_fn alone, double *gain) {
    struct machine m = {.times = times, .alone = alone};
    return tune_choose(&(struct tune_passes){machine_pass, &m}, gain);
}

static int choose(times_fn times, double *gain) { return choose_of_two(times, times, gain); }

static uint64_t times_alike(int way, int call) { return DEFAULT_NS; }

static uint64_t times_one_better(int way, int call) {
    return way == 6 ? DEFAULT_NS / 2 : way == 3 ? DEFAULT_NS * 3 / 4 : DEFAULT_NS;
}

static uint64_t times_little_better(int way, int call) {
    return way == 5 ? DEFAULT_NS * 995 / 1000 : DEFAULT_NS;
}

static uint64_t times_all_worse(int way, int call) { return way ? DEFAULT_NS * 2 : DEFAULT_NS; }

// The machine is twice as fast in phases of 7 passes.
static uint64_t times_phases(int way, int call) {
    return call / 7 % 2 ? DEFAULT_NS / 2 : DEFAULT_NS;
}

// Way 2 is better in every phase.
static uint64_t times_phases_one_better(int way, int call) {
    return times_phases(way, call) * (way == 2 ? 80 : 100) / 100;
}

// The first look at way 4 meets a stall of the default.
static uint64_t times_lucky_once(int way, int call) {
    return way == 0 && call < 20 ? 3 * DEFAULT_NS : DEFAULT_NS;
}

CASE(the_fastest_way_is_chosen) {
    double gain;
    assert_int_equal(choose(times_one_better, &gain), 6);
    check(fabs(gain - 2) < 0.01, "gain %g", gain);
    assert_int_equal(choose(times_phases_one_better, &gain), 2);
    check(fabs(gain - 1.25) < 0.01, "gain %g", gain);
}

// With one thread, ways 1, 4 and 6 are better than the default.
static uint64_t times_alone(int way, int call) {
    static const uint64_t percent[] = {[1] = 70, [4] = 80, [6] = 90};
    return way == 1 || way == 4 || way == 6 ? DEFAULT_NS * percent[way] / 100 : DEFAULT_NS;
}

// With all, way 1 is worse.
static uint64_t times_one_worse(int way, int call) {
    return way == 1 ? DEFAULT_NS * 5 / 4 : DEFAULT_NS;
}

// With all, way 6 is better than the default, and way 4 as good as way 6.
static uint64_t times_two_better(int way, int call) {
    return way == 6 ? DEFAULT_NS * 80 / 100 : way == 4 ? DEFAULT_NS * 81 / 100 : DEFAULT_NS;
}

CASE(one_thread_decides_between_ways_that_are_alike) {
    double gain;
    assert_int_equal(choose_of_two(times_one_worse, times_alone, &gain), 4);
    check(gain == 1, "gain %g", gain);
    assert_int_equal(choose_of_two(times_two_better, times_alone, &gain), 4);
    check(fabs(gain - 1 / 0.81) < 0.01, "gain %g", gain);
    assert_int_equal(choose_of_two(times_one_better, times_alone, &gain), 6);
}

CASE(the_default_stays_where_no_way_is_clearly_faster) {
    const times_fn times[] = {times_alike, times_little_better, times_all_worse, times_phases,
                              times_lucky_once};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        double gain;
        check(choose(times[i], &gain) == 0, "machine %d", (int)i);
        check(gain == 1, "machine %d: gain %g", (int)i, gain);
    }
}

CASE(a_way_has_a_name) {
    char name[32];
    tune_name(&(struct matmul_way){.fetch = FETCH_L2, .ahead = 4096, .wide = true}, name,
              sizeof name);
    assert_string_equal(name, "L2 +4096 wide");
    tune_name(&(struct matmul_way){.fetch = FETCH_BOTH, .ahead = 16384}, name, sizeof name);
    assert_string_equal(name, "L2+L1 +16384");
    tune_name(&matmul_ways[0], name, sizeof name);
    assert_string_equal(name, "plain");
}

TEST_PROGRAM(tune) { return cases_run(NULL, NULL); }
