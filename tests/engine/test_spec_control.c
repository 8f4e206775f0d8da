// The controller of drafts: single choices against all there are, and runs on made-up machines.
// Speeds are those of the made-up machines; chance is repeatable.
#define RANDOM_SEED 88172645463325252u

#include "check.h"

#include <math.h>

#include "spec_world.h"

enum { BRUTE_BIDS = 4, BRUTE_MOST = 3 };

static void ignored(void **state) { (void)state; }

// A controller that knows every source, at a middling rate: no draft is a risk.
static struct spec_control knowing(void) {
    struct spec_control control;
    const double priors[SPEC_MAX_SOURCES] = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
    spec_control_init(&control, priors);
    for (int i = 0; i < SPEC_MAX_SOURCES; i++)
        control.all[i] = (struct spec_rate){.tried = 100, .accepted = 50};
    return control;
}

static struct spec_bid free_bid(int most, double rate) {
    return (struct spec_bid){.most = most, .drafter = -1, .rate = rate};
}

static int rows_of(const struct spec_bid *bids, int n_bids) {
    int rows = 0;
    for (int i = 0; i < n_bids; i++) rows += bids[i].n;
    return rows;
}

// Tokens per ns of lengths.
static double value_of(const struct spec_bid *bids, const int *n, int n_bids,
                       const struct spec_costs *costs) {
    double tokens = costs->tokens, ns = 0;
    int rows = 0, n_seqs[SPEC_MAX_DRAFT] = {0};
    for (int i = 0; i < n_bids; i++) {
        rows += n[i];
        double gain = 1;
        for (int k = 0; k < n[i]; k++) tokens += gain *= bids[i].rate;
        for (int k = 0; k < n[i] && bids[i].drafter >= 0; k++) n_seqs[k]++;
    }
    if (rows > costs->max_rows) return 0;
    for (int k = 0; k < SPEC_MAX_DRAFT && n_seqs[k] > 0; k++)
        ns += costs->draft_ns(costs->draft_ctx, 0, k, n_seqs[k]);
    return tokens / (ns + costs->verify_ns[rows]);
}

// The most of all combinations of lengths.
static double brute_force(const struct spec_bid *bids, int n_bids, const struct spec_costs *costs) {
    int n[BRUTE_BIDS] = {0};
    double best = 0;
    for (;;) {
        const double value = value_of(bids, n, n_bids, costs);
        if (value > best) best = value;
        int i = 0;
        while (i < n_bids && n[i] == bids[i].most) n[i++] = 0;
        if (i == n_bids) return best;
        n[i]++;
    }
}

// Costs that rise by chance, in steps of chance, and bids of chance; a drafter's where asked for.
static int random_case(struct spec_bid *bids, double *verify_ns, bool costly) {
    const int n_bids = 1 + below(BRUTE_BIDS);
    const double slope = uniform() * 0.6;
    verify_ns[0] = 1e6;
    for (int i = 1; i <= SPEC_MAX_ROWS; i++)
        verify_ns[i] = verify_ns[i - 1] + (below(3) == 0 ? 3 : 0.1) * slope * 1e6 * uniform();
    for (int i = 0; i < n_bids; i++) {
        bids[i] = free_bid(below(BRUTE_MOST + 1), 0.2 + 0.75 * uniform());
        if (costly && below(2)) bids[i].drafter = 0;
    }
    return n_bids;
}

static void one_choice(struct spec_bid *bids, int n_bids, const struct spec_costs *costs,
                       double *value, double *none) {
    struct spec_control control = knowing();
    const enum spec_turn turn = spec_choose(&control, bids, n_bids, costs);
    assert_int_equal(turn, SPEC_CHOSEN);
    int n[BRUTE_BIDS];
    for (int i = 0; i < n_bids; i++) n[i] = bids[i].n;
    *value = value_of(bids, n, n_bids, costs);
    *none = costs->tokens / costs->verify_ns[0];
}

static void lengths_are_the_best_of_all_combinations(void **state) {
    ignored(state);
    for (int round = 0; round < 3000; round++) {
        double verify_ns[SPEC_MAX_ROWS + 1], value, none;
        struct spec_bid bids[BRUTE_BIDS];
        const int n_bids = random_case(bids, verify_ns, false);
        const struct spec_costs costs = {.verify_ns = verify_ns,
                                         .max_rows = below(BRUTE_BIDS * BRUTE_MOST),
                                         .tokens = n_bids};
        one_choice(bids, n_bids, &costs, &value, &none);
        double best = brute_force(bids, n_bids, &costs);
        if (best < 1.06 * none) best = none;
        check(fabs(value / best - 1) < 1e-9, "round %d: %g of %g", round, value, best);
    }
}

static double slow_draft_ns(void *ctx, int drafter, int place, int n_seqs) {
    (void)drafter, (void)place;
    return *(const double *)ctx * (1 + 0.2 * (n_seqs - 1));
}

static void with_drafters_that_cost_the_choice_is_close_to_the_best(void **state) {
    ignored(state);
    double lost = 0;
    enum { ROUNDS = 3000 };
    for (int round = 0; round < ROUNDS; round++) {
        double verify_ns[SPEC_MAX_ROWS + 1], value, none, draft_ns = 4e5 * uniform();
        struct spec_bid bids[BRUTE_BIDS];
        const int n_bids = random_case(bids, verify_ns, true);
        const struct spec_costs costs = {verify_ns, 16, n_bids, slow_draft_ns, &draft_ns};
        one_choice(bids, n_bids, &costs, &value, &none);
        const double best = brute_force(bids, n_bids, &costs);
        check(value >= none, "round %d: worse than none", round);
        check(value > 0.8 * best, "round %d: %g of %g", round, value, best);
        lost += 1 - value / best;
    }
    check(lost / ROUNDS < 0.003, "%g of the best are lost on average", lost / ROUNDS);
}

// --- tables ---

// What the cost of a step is made of, in steps without drafts.
static void table(double *verify_ns, double per_row, int step_at, double step) {
    for (int i = 0; i <= SPEC_MAX_ROWS; i++)
        verify_ns[i] = 1e6 * (1 + per_row * i + (i >= step_at ? step : 0));
}

// The length that is chosen after some choices with the table.
static int settled(struct spec_control *control, const double *verify_ns, double rate) {
    const struct spec_costs costs = {.verify_ns = verify_ns, .max_rows = 16, .tokens = 1};
    int n = 0;
    for (int i = 0; i < 6; i++) {
        struct spec_bid bid = free_bid(15, rate);
        spec_choose(control, &bid, 1, &costs);
        n = bid.n;
    }
    return n;
}

static void lengths_follow_the_cost_table(void **state) {
    ignored(state);
    struct spec_control control = knowing();
    double verify_ns[SPEC_MAX_ROWS + 1];
    table(verify_ns, 0, SPEC_MAX_ROWS, 0);
    assert_int_equal(settled(&control, verify_ns, 0.9), 15);
    table(verify_ns, 1, SPEC_MAX_ROWS, 0);
    assert_int_equal(settled(&control, verify_ns, 0.9), 0);
    table(verify_ns, 0.01, 8, 2);
    assert_int_equal(settled(&control, verify_ns, 0.9), 7);
    table(verify_ns, 0.01, 4, 2);
    assert_int_equal(settled(&control, verify_ns, 0.9), 3);
    // beyond a step it is flat: it pays to go over it
    table(verify_ns, 0, 2, 0.5);
    assert_int_equal(settled(&control, verify_ns, 0.95), 15);
    table(verify_ns, 0.05, SPEC_MAX_ROWS, 0);
    assert_int_equal(settled(&control, verify_ns, 0.02), 0);
}

// Choices until the length is another one, up to 10.
static int choices_to_change(struct spec_control *control, const double *verify_ns, double rate,
                             int most, int *n) {
    const struct spec_costs costs = {.verify_ns = verify_ns, .max_rows = 16, .tokens = 1};
    const int before = *n;
    for (int i = 0; i < 10; i++) {
        struct spec_bid bid = free_bid(most, rate);
        spec_choose(control, &bid, 1, &costs);
        *n = bid.n;
        if (*n != before) return i + 1;
    }
    return 10;
}

static void a_small_promise_changes_after_some_steps_and_a_large_one_at_once(void **state) {
    ignored(state);
    struct spec_control control = knowing();
    double verify_ns[SPEC_MAX_ROWS + 1];
    table(verify_ns, 0.01, 4, 2);
    int n = settled(&control, verify_ns, 0.7);
    assert_int_equal(n, 3);
    for (int i = 4; i <= SPEC_MAX_ROWS; i++) verify_ns[i] = verify_ns[3] * 1.06;
    const int choices = choices_to_change(&control, verify_ns, 0.7, 4, &n);
    check(choices > 1 && choices < 6 && n == 4, "%d after %d", n, choices);
    table(verify_ns, 1, SPEC_MAX_ROWS, 0);
    assert_int_equal(choices_to_change(&control, verify_ns, 0.7, 4, &n), 1);
    assert_int_equal(n, 0);
}

static void next_to_nothing_changes_no_length_but_no_loss_is_kept(void **state) {
    ignored(state);
    struct spec_control control = knowing();
    double verify_ns[SPEC_MAX_ROWS + 1];
    table(verify_ns, 0.01, 4, 2);
    int n = settled(&control, verify_ns, 0.7);
    assert_int_equal(n, 3);
    const double tokens = 1 + 0.7 + 0.49 + 0.343; // with 3
    // one more would be 1% better
    verify_ns[4] = verify_ns[3] * (tokens + 0.2401) / tokens / 1.01;
    assert_int_equal(choices_to_change(&control, verify_ns, 0.7, 4, &n), 10);
    assert_int_equal(n, 3);
    // none would be 1% better
    for (int i = 1; i <= SPEC_MAX_ROWS; i++) verify_ns[i] = verify_ns[0] * 4;
    verify_ns[3] = verify_ns[0] * tokens * 1.01;
    const int choices = choices_to_change(&control, verify_ns, 0.7, 4, &n);
    check(n == 0 && choices < 6, "%d after %d", n, choices);
    // 1% better than none is not worth it
    verify_ns[3] = verify_ns[0] * tokens / 1.01;
    assert_int_equal(choices_to_change(&control, verify_ns, 0.7, 4, &n), 10);
    assert_int_equal(n, 0);
}

static void rows_go_to_sequences_with_the_better_rates(void **state) {
    ignored(state);
    struct spec_control control = knowing();
    double verify_ns[SPEC_MAX_ROWS + 1];
    table(verify_ns, 0, 7, 100);
    const struct spec_costs costs = {.verify_ns = verify_ns, .max_rows = 32, .tokens = 4};
    struct spec_bid bids[4] = {free_bid(15, 0.3), free_bid(15, 0.9), free_bid(15, 0.6),
                               free_bid(2, 0.95)};
    spec_choose(&control, bids, 4, &costs);
    // 0.95, 0.9025, 0.9, 0.81, 0.729, 0.656
    assert_int_equal(bids[0].n, 0);
    assert_int_equal(bids[1].n, 4);
    assert_int_equal(bids[2].n, 0);
    assert_int_equal(bids[3].n, 2);
}

static void rows_of_prompts_discourage_drafts_where_each_row_costs(void **state) {
    ignored(state);
    double verify_ns[SPEC_MAX_ROWS + 1];
    // a step of one stream has rows to spare; with a prompt of 100 rows each further one costs
    for (int i = 0; i <= SPEC_MAX_ROWS; i++) verify_ns[i] = 1e6 * (1 + 0.02 * i);
    struct spec_costs costs = {.verify_ns = verify_ns, .max_rows = 16, .tokens = 1};
    struct spec_control control = knowing();
    struct spec_bid bid = free_bid(4, 0.7);
    spec_choose(&control, &bid, 1, &costs);
    assert_int_equal(bid.n, 4);
    for (int i = 0; i <= SPEC_MAX_ROWS; i++) verify_ns[i] = 1e6 * (1 + 0.02 * i) * 5;
    costs.tokens = 101;
    bid = free_bid(4, 0.7);
    spec_choose(&control, &bid, 1, &costs);
    assert_int_equal(bid.n, 0);
}

static void a_drafter_that_costs_too_much_is_left_out_and_others_go_on(void **state) {
    ignored(state);
    struct spec_control control = knowing();
    double verify_ns[SPEC_MAX_ROWS + 1], draft_ns = 2e6;
    table(verify_ns, 0.05, SPEC_MAX_ROWS, 0);
    const struct spec_costs costs = {verify_ns, 16, 2, slow_draft_ns, &draft_ns};
    struct spec_bid bids[2] = {free_bid(4, 0.6), free_bid(4, 0.9)};
    bids[1].drafter = 0;
    spec_choose(&control, bids, 2, &costs);
    check(bids[0].n > 0 && bids[1].n == 0, "%d and %d", bids[0].n, bids[1].n);
    draft_ns = 1e4;
    control = knowing();
    spec_choose(&control, bids, 2, &costs);
    check(bids[0].n > 0 && bids[1].n == 4, "%d and %d", bids[0].n, bids[1].n);
}

static void a_setup_is_paid_where_enough_is_left_to_pay_it_back(void **state) {
    ignored(state);
    double verify_ns[SPEC_MAX_ROWS + 1], draft_ns = 1e5;
    table(verify_ns, 0.05, SPEC_MAX_ROWS, 0);
    const struct spec_costs costs = {verify_ns, 16, 1, slow_draft_ns, &draft_ns};
    static const struct {
        double setup_ns;
        int left;
        bool drafts;
    } cases[] = {{0, 0, true},     {5e6, 0, false},       {5e6, 4, false}, {5e6, 200, true},
                 {5e7, 60, false}, {1e9, 1000000, false}, {1e5, 1, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct spec_control control = knowing();
        struct spec_bid bid = {.most = 4, .rate = 0.8, .setup_ns = cases[i].setup_ns};
        bid.left = cases[i].left;
        spec_choose(&control, &bid, 1, &costs);
        check((bid.n > 0) == cases[i].drafts, "case %zu: %d", i, bid.n);
    }
}

static void one_setup_that_does_not_pay_keeps_no_others_from_drafting(void **state) {
    ignored(state);
    struct spec_control control = knowing();
    double verify_ns[SPEC_MAX_ROWS + 1], draft_ns = 1e4;
    table(verify_ns, 0.02, SPEC_MAX_ROWS, 0);
    const struct spec_costs costs = {verify_ns, 16, 3, slow_draft_ns, &draft_ns};
    struct spec_bid bids[3] = {{.most = 3, .rate = 0.8, .setup_ns = 1e8, .left = 20},
                               {.most = 3, .rate = 0.8},
                               {.most = 3, .rate = 0.8, .setup_ns = 1e5, .left = 100}};
    spec_choose(&control, bids, 3, &costs);
    check(bids[0].n == 0 && bids[1].n == 3 && bids[2].n == 3, "%d, %d, %d", bids[0].n, bids[1].n,
          bids[2].n);
}

static void a_large_setup_is_not_risked_for_a_source_that_is_not_known(void **state) {
    ignored(state);
    struct world world;
    for (double setup_ns = 1e4; setup_ns < 1e8; setup_ns *= 10) {
        world_init(&world, &machine_pair, 1, 0.75, 0);
        world.stream[0].setup_ns = setup_ns;
        const double speed = world_run(&world, 128);
        check(speed > 0.98, "setup of %g ns: %g", setup_ns, speed);
    }
    world_init(&world, &machine_pair, 1, 0.75, 0.95);
    world.stream[0].setup_ns = 250e3;
    const double speed = world_run(&world, 128);
    check(speed > 1.3, "%g", speed);
}

// --- odd inputs ---

static void forced_lengths_are_drafted_whatever_is_expected(void **state) {
    ignored(state);
    struct spec_control control = knowing();
    double verify_ns[SPEC_MAX_ROWS + 1];
    table(verify_ns, 1, SPEC_MAX_ROWS, 0);
    struct spec_costs costs = {.verify_ns = verify_ns, .max_rows = 16, .tokens = 3};
    for (int step = 0; step < 200; step++) {
        struct spec_bid bids[3] = {free_bid(15, 0.02), free_bid(3, 0.02), free_bid(15, 0.02)};
        for (int i = 0; i < 3; i++) bids[i].least = 4;
        const enum spec_turn turn = spec_choose(&control, bids, 3, &costs);
        assert_int_equal(turn, SPEC_CHOSEN);
        check(bids[0].n == 4 && bids[1].n == 3 && bids[2].n == 4, "step %d", step);
        spec_learn_step(&control, 1e6);
    }
    // with too little room all have some
    costs.max_rows = 5;
    struct spec_bid bids[3] = {free_bid(15, 0.9), free_bid(15, 0.02), free_bid(15, 0.02)};
    for (int i = 0; i < 3; i++) bids[i].least = 4;
    spec_choose(&control, bids, 3, &costs);
    check(bids[0].n == 2 && bids[1].n == 2 && bids[2].n == 1, "%d, %d, %d", bids[0].n, bids[1].n,
          bids[2].n);
    // what is forced is the least: more where it pays
    table(verify_ns, 0, SPEC_MAX_ROWS, 0);
    struct spec_bid bid = free_bid(15, 0.9);
    bid.least = 2;
    costs.max_rows = 16;
    spec_choose(&control, &bid, 1, &costs);
    assert_int_equal(bid.n, 15);
}

static void nothing_to_choose_from_is_a_choice_of_none(void **state) {
    ignored(state);
    struct spec_control control = knowing();
    double verify_ns[SPEC_MAX_ROWS + 1] = {0};
    struct spec_costs costs = {.verify_ns = verify_ns, .max_rows = 0, .tokens = 1};
    for (int zero = 0; zero < 2; zero++) { // costs of nothing, then equal ones
        costs.max_rows = 0;
        for (int step = 0; step < 100; step++) {
            assert_int_equal(spec_choose(&control, NULL, 0, &costs), SPEC_CHOSEN);
            struct spec_bid bids[2] = {free_bid(15, 0.9), free_bid(0, 0.9)};
            bids[0].least = 3;
            assert_int_equal(spec_choose(&control, bids, 2, &costs), SPEC_CHOSEN);
            assert_int_equal(rows_of(bids, 2), 0);
            spec_learn_step(&control, 0);
        }
        costs.max_rows = SPEC_MAX_ROWS;
        struct spec_bid bids[2] = {free_bid(SPEC_MAX_DRAFT, 1), free_bid(0, 0)};
        spec_choose(&control, bids, 2, &costs);
        check(bids[0].n == SPEC_MAX_DRAFT && bids[1].n == 0, "%d, %d", bids[0].n, bids[1].n);
        table(verify_ns, 0, SPEC_MAX_ROWS, 0);
    }
    costs.tokens = 0;
    struct spec_bid bid = free_bid(3, 0.5);
    spec_choose(&control, &bid, 1, &costs);
    assert_in_range(bid.n, 0, 3);
}

static void choices_of_chance_keep_to_their_limits(void **state) {
    ignored(state);
    struct spec_control control = knowing();
    double draft_ns = 1e5;
    for (int step = 0; step < 20000; step++) {
        double verify_ns[SPEC_MAX_ROWS + 1];
        for (int i = 0; i <= SPEC_MAX_ROWS; i++) verify_ns[i] = 1e6 * (1 + uniform() * i * 0.05);
        const int n_bids = below(20);
        const struct spec_costs costs = {verify_ns, below(SPEC_MAX_ROWS + 1),
                                         n_bids + below(2) * 50, slow_draft_ns, &draft_ns};
        struct spec_bid bids[20];
        struct spec_rates rates = {0};
        for (int i = 0; i < n_bids; i++) {
            bids[i] = free_bid(below(SPEC_MAX_DRAFT + 1), uniform());
            bids[i].drafter = below(SPEC_MAX_DRAFTERS + 1) - 1;
            bids[i].source = below(SPEC_MAX_SOURCES);
            bids[i].setup_ns = below(3) ? 0 : 1e6 * uniform();
            bids[i].left = below(100);
        }
        spec_choose(&control, bids, n_bids, &costs);
        check(rows_of(bids, n_bids) <= costs.max_rows, "step %d", step);
        for (int i = 0; i < n_bids; i++) {
            check(bids[i].n >= 0 && bids[i].n <= bids[i].most, "step %d", step);
            const int accepted = below(bids[i].n + 1);
            if (bids[i].n > 0) spec_learn(&control, &rates, bids[i].source, bids[i].n, accepted);
            const double rate = spec_rate_of(&control, &rates, bids[i].source);
            check(rate >= 0.01 && rate <= 0.99, "step %d: %g", step, rate);
        }
        spec_learn_step(&control, 1e6);
    }
}

// --- rates ---

static void rates_lean_on_all_and_then_on_their_own(void **state) {
    ignored(state);
    struct world world;
    world_init(&world, &machine_1b, 1, 0.75, 0);
    struct spec_control *const control = &world.control;
    struct spec_rates other = {0}, own = {0};
    assert_true(fabs(spec_rate_of(control, &own, 3) - 0.75) < 1e-9);
    for (int i = 0; i < 300; i++) spec_learn(control, &other, 3, 4, 1);
    const double all = spec_rate_of(control, &own, 3);
    check(fabs(all - 0.25) < 0.03, "%g", all);
    check(fabs(spec_rate_of(control, &own, 2) - 0.75) < 1e-9, "another source");
    spec_learn(control, &own, 3, 1, 1);
    const double begun = spec_rate_of(control, &own, 3);
    check(begun > all && begun < 0.6, "%g", begun);
    for (int i = 0; i < 10; i++) spec_learn(control, &own, 3, 10, 9);
    const double later = spec_rate_of(control, &own, 3);
    check(fabs(later - 0.9) < 0.03, "%g", later);
    for (int i = 0; i < 40; i++) spec_learn(control, &own, 3, 5, 2);
    check(fabs(spec_rate_of(control, &own, 3) - 0.4) < 0.08, "the text has changed");
}

// --- runs ---

static double mean_speed(const struct machine *machine, int n_streams, double prior, double rate,
                         int tokens, int n_runs) {
    double ns = 0;
    for (int i = 0; i < n_runs; i++) {
        struct world world;
        world_init(&world, machine, n_streams, prior, rate);
        ns += 1 / world_run(&world, tokens);
    }
    return n_runs / ns;
}

static void drafts_that_all_fail_lose_little_from_a_cold_start(void **state) {
    ignored(state);
    static const struct machine *const machines[] = {&machine_pair, &machine_1b, &machine_linear,
                                                     &machine_flat};
    for (int m = 0; m < 4; m++)
        for (int n_streams = 1; n_streams <= 16; n_streams *= 4)
            for (double prior = 0.1; prior < 1; prior += 0.2) {
                struct world world;
                world_init(&world, machines[m], n_streams, prior, 0);
                const double speed = world_run(&world, 128);
                check(speed > 0.98, "machine %d, %d streams, prior %g: %g", m, n_streams, prior,
                      speed);
                const double later = world_run(&world, 1024);
                check(later > 0.994, "machine %d, %d streams, prior %g: %g later", m, n_streams,
                      prior, later);
            }
}

static void drafts_are_never_slower_than_none_on_average(void **state) {
    ignored(state);
    static const struct machine *const machines[] = {&machine_pair, &machine_1b, &machine_linear};
    for (int m = 0; m < 3; m++)
        for (int n_streams = 1; n_streams <= 16; n_streams *= 4)
            for (double rate = 0.05; rate < 1; rate += 0.15) {
                const double speed =
                    mean_speed(machines[m], n_streams, 0.75, rate, 128, 64 / n_streams);
                check(speed > 0.98, "machine %d, %d streams, rate %g: %g", m, n_streams, rate,
                      speed);
            }
}

static void what_others_do_well_is_soon_seen_not_to_be_for_all(void **state) {
    ignored(state);
    static const struct machine *const machines[] = {&machine_pair, &machine_1b};
    for (int m = 0; m < 2; m++) {
        struct world world;
        world_init(&world, machines[m], 1, 0.75, 0.95);
        world_run(&world, 1000);
        world.stream[0].rate = 0;
        world.stream[0].known = (struct spec_rates){0};
        const double speed = world_run(&world, 128);
        check(speed > 0.97, "machine %d: %g", m, speed);
    }
}

static void a_text_that_changes_is_noticed_both_ways(void **state) {
    ignored(state);
    static const struct machine *const machines[] = {&machine_pair, &machine_1b};
    enum { RUNS = 40 };
    for (int m = 0; m < 2; m++) {
        double bad = 0, good = 0;
        struct world world;
        for (int i = 0; i < RUNS; i++) {
            world_init(&world, machines[m], 1, 0.75, 0.95);
            world_run(&world, 1000);
            world.stream[0].rate = 0;
            bad += 1 / world_run(&world, 500);
            world.stream[0].rate = 0.95;
            world_run(&world, 300);
            good += 1 / world_run(&world, 200);
        }
        check(RUNS / bad > 0.965, "machine %d: %g", m, RUNS / bad);
        check(RUNS / good > 0.85 * world_best(&world), "machine %d: %g", m, RUNS / good);
    }
}

static void short_requests_profit_from_good_drafts(void **state) {
    ignored(state);
    const double pair = mean_speed(&machine_pair, 1, 0.75, 0.95, 64, 100);
    check(pair > 1.5, "%g of 1.66", pair);
    const double good = mean_speed(&machine_1b, 1, 0.7, 0.8, 64, 100);
    check(good > 2.6, "%g of 2.85", good);
    const double low_prior = mean_speed(&machine_1b, 1, 0.3, 0.95, 64, 100);
    check(low_prior > 3.8, "%g of 4.2", low_prior);
}

static void the_choice_is_steady_in_noise(void **state) {
    ignored(state);
    static const double rates[] = {0, 0.3, 0.5, 0.7, 0.8, 0.95};
    static const struct machine *const machines[] = {&machine_pair, &machine_1b, &machine_linear};
    for (int m = 0; m < 3; m++)
        for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
            struct world world;
            world_init(&world, machines[m], 1, 0.75, rates[r]);
            world_run(&world, 256);
            world.noise = 0.03;
            world.steps = world.changes = 0;
            const double speed = world_run(&world, 4096), best = world_best(&world);
            check(speed > 0.92 * best, "machine %d, rate %g: %g of %g", m, rates[r], speed, best);
            check((double)world.changes < 0.04 * (double)world.steps,
                  "machine %d, rate %g: %d changes in %d steps", m, rates[r], (int)world.changes,
                  (int)world.steps);
        }
}

static void plain_steps_come_now_and_then_and_cost_little(void **state) {
    ignored(state);
    static const struct machine *const machines[] = {&machine_pair, &machine_1b};
    for (int m = 0; m < 2; m++) {
        struct world world;
        world_init(&world, machines[m], 1, 0.75, 0.9);
        world_run(&world, 20000);
        const double plain_ns = (double)world.plain * machines[m]->step_ns;
        check(world.plain >= world.steps / 500, "%d of %d steps", (int)world.plain,
              (int)world.steps);
        check(plain_ns < 0.02 * world.ns && world.plain < world.steps / 32,
              "%d of %d steps, %g of the time", (int)world.plain, (int)world.steps,
              plain_ns / world.ns);
    }
}

// What was saved up while nothing was drafted is not spent at once.
static void plain_steps_do_not_come_in_crowds(void **state) {
    ignored(state);
    struct world world;
    world_init(&world, &machine_1b, 1, 0.75, 0);
    world_run(&world, 20000);
    world.stream[0].rate = 0.9;
    world_run(&world, 500);
    const double begin_ns = world.ns;
    world.plain = 0;
    world_run(&world, 4000);
    const double part = (double)world.plain * machine_1b.step_ns / (world.ns - begin_ns);
    check(part > 0.003 && part < 0.01, "%g of the time", part);
}

static void steps_that_nobody_offers_for_are_plain_ones(void **state) {
    ignored(state);
    struct spec_control control = knowing();
    double verify_ns[SPEC_MAX_ROWS + 1];
    table(verify_ns, 0, SPEC_MAX_ROWS, 0);
    const struct spec_costs costs = {.verify_ns = verify_ns, .max_rows = 16, .tokens = 1};
    for (int step = 0; step < 5000; step++) {
        if (step % 20 > 0) {
            struct spec_bid bid = free_bid(4, 0.8);
            assert_int_equal(spec_choose(&control, &bid, 1, &costs), SPEC_CHOSEN);
        }
        spec_learn_step(&control, 1e6);
    }
}

static void probes_grow_apart_while_a_source_stays_bad(void **state) {
    ignored(state);
    struct world world;
    world_init(&world, &machine_pair, 1, 0.75, 0);
    world_run(&world, 1000);
    const int first = (int)world.probes;
    world_run(&world, 1000);
    const int second = (int)world.probes - first;
    check(first >= 2 && first < 10 && second >= 1 && second <= first, "%d, %d", first, second);
}

static void a_source_that_becomes_good_is_found(void **state) {
    ignored(state);
    static const struct machine *const machines[] = {&machine_pair, &machine_1b};
    for (int m = 0; m < 2; m++) {
        struct world world;
        world_init(&world, machines[m], 1, 0.75, 0);
        world_run(&world, 2000);
        world.stream[0].rate = 0.95;
        world_run(&world, 1500);
        const double speed = world_run(&world, 500), best = world_best(&world);
        check(speed > 0.9 * best, "machine %d: %g of %g", m, speed, best);
    }
}

// Rows were dear for a while: a free source with a good rate is still tried, so that its cost is
// measured again.
static void what_only_costs_too_much_is_tried_again(void **state) {
    ignored(state);
    struct spec_control control = knowing();
    double verify_ns[SPEC_MAX_ROWS + 1];
    table(verify_ns, 1.2, SPEC_MAX_ROWS, 0);
    const struct spec_costs costs = {.verify_ns = verify_ns, .max_rows = 16, .tokens = 1};
    struct spec_rates rates = {0};
    int probes = 0;
    for (int step = 0; step < 3000; step++) {
        struct spec_bid bid = free_bid(4, 0.8);
        probes += spec_choose(&control, &bid, 1, &costs) == SPEC_PROBE;
        spec_learn(&control, &rates, 0, 1, uniform() < 0.8);
        spec_learn_step(&control, 1e6);
    }
    check(probes >= 2 && probes <= 16, "%d", probes);
}

TEST_PROGRAM(spec_control) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_are_the_best_of_all_combinations),
        cmocka_unit_test(with_drafters_that_cost_the_choice_is_close_to_the_best),
        cmocka_unit_test(lengths_follow_the_cost_table),
        cmocka_unit_test(a_small_promise_changes_after_some_steps_and_a_large_one_at_once),
        cmocka_unit_test(next_to_nothing_changes_no_length_but_no_loss_is_kept),
        cmocka_unit_test(rows_go_to_sequences_with_the_better_rates),
        cmocka_unit_test(rows_of_prompts_discourage_drafts_where_each_row_costs),
        cmocka_unit_test(a_drafter_that_costs_too_much_is_left_out_and_others_go_on),
        cmocka_unit_test(a_setup_is_paid_where_enough_is_left_to_pay_it_back),
        cmocka_unit_test(one_setup_that_does_not_pay_keeps_no_others_from_drafting),
        cmocka_unit_test(a_large_setup_is_not_risked_for_a_source_that_is_not_known),
        cmocka_unit_test(forced_lengths_are_drafted_whatever_is_expected),
        cmocka_unit_test(nothing_to_choose_from_is_a_choice_of_none),
        cmocka_unit_test(choices_of_chance_keep_to_their_limits),
        cmocka_unit_test(rates_lean_on_all_and_then_on_their_own),
        cmocka_unit_test(drafts_that_all_fail_lose_little_from_a_cold_start),
        cmocka_unit_test(drafts_are_never_slower_than_none_on_average),
        cmocka_unit_test(what_others_do_well_is_soon_seen_not_to_be_for_all),
        cmocka_unit_test(a_text_that_changes_is_noticed_both_ways),
        cmocka_unit_test(short_requests_profit_from_good_drafts),
        cmocka_unit_test(the_choice_is_steady_in_noise),
        cmocka_unit_test(plain_steps_come_now_and_then_and_cost_little),
        cmocka_unit_test(plain_steps_do_not_come_in_crowds),
        cmocka_unit_test(steps_that_nobody_offers_for_are_plain_ones),
        cmocka_unit_test(probes_grow_apart_while_a_source_stays_bad),
        cmocka_unit_test(a_source_that_becomes_good_is_found),
        cmocka_unit_test(what_only_costs_too_much_is_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
