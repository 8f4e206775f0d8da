// The controller of drafts: single choices against all possible ones, and runs on simulated
// machines (spec_world.h). Chance is repeatable, and no figure depends on the machine that runs it.
// label: no-address
#define RANDOM_SEED 88172645463325252u

#include "check.h"

#include <math.h>

#include "random.h"
#include "spec_sim.h"

// With nothing saved for a step that measures one without drafts.
static void choose(struct spec_bid *bids, int n_bids, const struct spec_costs *costs) {
    struct spec_control control = {0};
    spec_choose(&control, bids, n_bids, costs);
}

enum { BRUTE_BIDS = 4, BRUTE_MOST = 3 };

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
    choose(bids, n_bids, costs);
    int n[BRUTE_BIDS];
    for (int i = 0; i < n_bids; i++) n[i] = bids[i].n;
    *value = value_of(bids, n, n_bids, costs);
    *none = costs->tokens / costs->verify_ns[0];
}

// Drafts that promise less than a tenth are not made.
static double least_worth(double best, double none) { return best < 1.10 * none ? none : best; }

CASE(lengths_are_the_best_of_all_combinations) {
    for (int round = 0; round < 3000; round++) {
        double verify_ns[SPEC_MAX_ROWS + 1], value, none;
        struct spec_bid bids[BRUTE_BIDS];
        const int n_bids = random_case(bids, verify_ns, false);
        const struct spec_costs costs = {.verify_ns = verify_ns,
                                         .max_rows = below(BRUTE_BIDS * BRUTE_MOST),
                                         .tokens = n_bids};
        one_choice(bids, n_bids, &costs, &value, &none);
        const double best = least_worth(brute_force(bids, n_bids, &costs), none);
        check(fabs(value / best - 1) < 1e-9, "round %d: %g of %g", round, value, best);
    }
}

// The bound on all drafts is passed only where even sure tokens are not worth their rows.
CASE(no_draft_is_chosen_where_none_may_pay) {
    int n_may = 0, n_taken = 0;
    enum { ROUNDS = 3000 };
    for (int round = 0; round < ROUNDS; round++) {
        double verify_ns[SPEC_MAX_ROWS + 1];
        struct spec_bid bids[BRUTE_BIDS];
        const int n_bids = random_case(bids, verify_ns, false);
        for (int i = 0; i < n_bids; i++) bids[i] = free_bid(BRUTE_MOST, 0.99);
        const struct spec_costs costs = {.verify_ns = verify_ns,
                                         .max_rows = below(1 + BRUTE_BIDS * BRUTE_MOST),
                                         .tokens = n_bids};
        const bool may_pay = spec_may_pay(&costs);
        choose(bids, n_bids, &costs);
        const int rows = rows_of(bids, n_bids);
        check(may_pay || rows == 0, "round %d: %d rows", round, rows);
        n_may += may_pay;
        n_taken += rows > 0;
    }
    // the bound takes each token for the first one of a draft, and is close all the same
    check(n_taken > ROUNDS / 2 && n_taken < ROUNDS - 100, "%d were taken", n_taken);
    check(n_may - n_taken < 50, "%d may pay, %d do", n_may, n_taken);
}

static double slow_draft_ns(void *ctx, int drafter, int place, int n_seqs) {
    (void)drafter, (void)place;
    return *(const double *)ctx * (1 + 0.2 * (n_seqs - 1));
}

CASE(with_drafters_that_cost_the_choice_is_close_to_the_best) {
    double lost = 0;
    enum { ROUNDS = 3000 };
    for (int round = 0; round < ROUNDS; round++) {
        double verify_ns[SPEC_MAX_ROWS + 1], value, none, draft_ns = 4e5 * uniform();
        struct spec_bid bids[BRUTE_BIDS];
        const int n_bids = random_case(bids, verify_ns, true);
        const struct spec_costs costs = {verify_ns, 16, n_bids, slow_draft_ns, &draft_ns};
        one_choice(bids, n_bids, &costs, &value, &none);
        const double best = least_worth(brute_force(bids, n_bids, &costs), none);
        check(value >= none, "round %d: worse than none", round);
        check(value > 0.8 * best, "round %d: %g of %g", round, value, best);
        lost += 1 - value / best;
    }
    check(lost / ROUNDS < 0.002, "%g of the best are lost on average", lost / ROUNDS);
}

// --- tables ---

// The parts of a step's cost, in steps without drafts.
static void table(double *verify_ns, double per_row, int step_at, double step) {
    for (int i = 0; i <= SPEC_MAX_ROWS; i++)
        verify_ns[i] = 1e6 * (1 + per_row * i + (i >= step_at ? step : 0));
}

// The length that is chosen with the table.
static int chosen(const double *verify_ns, double rate) {
    const struct spec_costs costs = {.verify_ns = verify_ns, .max_rows = 16, .tokens = 1};
    struct spec_bid bid = free_bid(15, rate);
    choose(&bid, 1, &costs);
    return bid.n;
}

CASE(lengths_follow_the_cost_table) {
    double verify_ns[SPEC_MAX_ROWS + 1];
    table(verify_ns, 0, SPEC_MAX_ROWS, 0);
    assert_int_equal(chosen(verify_ns, 0.9), 15);
    table(verify_ns, 1, SPEC_MAX_ROWS, 0);
    assert_int_equal(chosen(verify_ns, 0.9), 0);
    table(verify_ns, 0.01, 8, 2);
    assert_int_equal(chosen(verify_ns, 0.9), 7);
    table(verify_ns, 0.01, 4, 2);
    assert_int_equal(chosen(verify_ns, 0.9), 3);
    // beyond a step it is flat: it pays to go over it
    table(verify_ns, 0, 2, 0.5);
    assert_int_equal(chosen(verify_ns, 0.95), 15);
    table(verify_ns, 0.05, SPEC_MAX_ROWS, 0);
    assert_int_equal(chosen(verify_ns, 0.02), 0);
}

CASE(rows_go_to_sequences_with_the_better_rates) {
    double verify_ns[SPEC_MAX_ROWS + 1];
    table(verify_ns, 0, 7, 100);
    const struct spec_costs costs = {.verify_ns = verify_ns, .max_rows = 32, .tokens = 4};
    struct spec_bid bids[4] = {free_bid(15, 0.3), free_bid(15, 0.9), free_bid(15, 0.6),
                               free_bid(2, 0.95)};
    choose(bids, 4, &costs);
    // 0.95, 0.9025, 0.9, 0.81, 0.729, 0.656
    assert_int_equal(bids[0].n, 0);
    assert_int_equal(bids[1].n, 4);
    assert_int_equal(bids[2].n, 0);
    assert_int_equal(bids[3].n, 2);
}

CASE(rows_of_prompts_discourage_drafts_where_each_row_costs) {
    double verify_ns[SPEC_MAX_ROWS + 1];
    // a step of one stream has rows to spare; with a prompt of 100 rows each further one costs
    for (int i = 0; i <= SPEC_MAX_ROWS; i++) verify_ns[i] = 1e6 * (1 + 0.02 * i);
    struct spec_costs costs = {.verify_ns = verify_ns, .max_rows = 16, .tokens = 1};
    struct spec_bid bid = free_bid(4, 0.7);
    choose(&bid, 1, &costs);
    assert_int_equal(bid.n, 4);
    for (int i = 0; i <= SPEC_MAX_ROWS; i++) verify_ns[i] = 1e6 * (1 + 0.02 * i) * 5;
    costs.tokens = 101;
    bid = free_bid(4, 0.7);
    choose(&bid, 1, &costs);
    assert_int_equal(bid.n, 0);
}

CASE(a_drafter_that_costs_too_much_is_left_out_and_others_continue) {
    double verify_ns[SPEC_MAX_ROWS + 1], draft_ns = 2e6;
    table(verify_ns, 0.05, SPEC_MAX_ROWS, 0);
    const struct spec_costs costs = {verify_ns, 16, 2, slow_draft_ns, &draft_ns};
    struct spec_bid bids[2] = {free_bid(4, 0.6), free_bid(4, 0.9)};
    bids[1].drafter = 0;
    choose(bids, 2, &costs);
    check(bids[0].n > 0 && bids[1].n == 0, "%d and %d", bids[0].n, bids[1].n);
    draft_ns = 1e4;
    choose(bids, 2, &costs);
    check(bids[0].n > 0 && bids[1].n == 4, "%d and %d", bids[0].n, bids[1].n);
}

CASE(a_setup_is_paid_where_enough_is_left_to_pay_it_back) {
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
        struct spec_bid bid = {.most = 4, .rate = 0.8, .setup_ns = cases[i].setup_ns};
        bid.left = cases[i].left;
        choose(&bid, 1, &costs);
        check((bid.n > 0) == cases[i].drafts, "case %zu: %d", i, bid.n);
    }
}

CASE(one_setup_that_does_not_pay_keeps_no_others_from_drafting) {
    double verify_ns[SPEC_MAX_ROWS + 1], draft_ns = 1e4;
    table(verify_ns, 0.02, SPEC_MAX_ROWS, 0);
    const struct spec_costs costs = {verify_ns, 16, 3, slow_draft_ns, &draft_ns};
    struct spec_bid bids[3] = {{.most = 3, .rate = 0.8, .setup_ns = 1e8, .left = 20},
                               {.most = 3, .rate = 0.8},
                               {.most = 3, .rate = 0.8, .setup_ns = 1e5, .left = 100}};
    choose(bids, 3, &costs);
    check(bids[0].n == 0 && bids[1].n == 3 && bids[2].n == 3, "%d, %d, %d", bids[0].n, bids[1].n,
          bids[2].n);
}

CASE(forced_lengths_are_drafted_whatever_is_expected) {
    struct spec_control control = {0};
    double verify_ns[SPEC_MAX_ROWS + 1];
    table(verify_ns, 1, SPEC_MAX_ROWS, 0);
    struct spec_costs costs = {.verify_ns = verify_ns, .max_rows = 16, .tokens = 3};
    for (int step = 0; step < 200; step++) {
        struct spec_bid bids[3] = {free_bid(15, 0.02), free_bid(3, 0.02), free_bid(15, 0.02)};
        for (int i = 0; i < 3; i++) bids[i].least = 4;
        choose(bids, 3, &costs);
        check(bids[0].n == 4 && bids[1].n == 3 && bids[2].n == 4, "step %d", step);
        spec_step_begin(&control);
    }
    // with too little room all have some
    costs.max_rows = 5;
    struct spec_bid bids[3] = {free_bid(15, 0.9), free_bid(15, 0.02), free_bid(15, 0.02)};
    for (int i = 0; i < 3; i++) bids[i].least = 4;
    choose(bids, 3, &costs);
    check(bids[0].n == 2 && bids[1].n == 2 && bids[2].n == 1, "%d, %d, %d", bids[0].n, bids[1].n,
          bids[2].n);
    // the forced length is a minimum: more where it pays
    table(verify_ns, 0, SPEC_MAX_ROWS, 0);
    struct spec_bid bid = free_bid(15, 0.9);
    bid.least = 2;
    costs.max_rows = 16;
    choose(&bid, 1, &costs);
    assert_int_equal(bid.n, 15);
}

CASE(nothing_to_choose_from_is_a_choice_of_none) {
    struct spec_control control = {0};
    double verify_ns[SPEC_MAX_ROWS + 1] = {0};
    struct spec_costs costs = {.verify_ns = verify_ns, .max_rows = 0, .tokens = 1};
    for (int zero = 0; zero < 2; zero++) { // costs of nothing, then equal ones
        costs.max_rows = 0;
        for (int step = 0; step < 100; step++) {
            choose(NULL, 0, &costs);
            struct spec_bid bids[2] = {free_bid(15, 0.9), free_bid(0, 0.9)};
            bids[0].least = 3;
            choose(bids, 2, &costs);
            assert_int_equal(rows_of(bids, 2), 0);
            spec_step_begin(&control);
        }
        costs.max_rows = SPEC_MAX_ROWS;
        struct spec_bid bids[2] = {free_bid(SPEC_MAX_DRAFT, 1), free_bid(0, 0)};
        choose(bids, 2, &costs);
        check(bids[0].n == SPEC_MAX_DRAFT && bids[1].n == 0, "%d, %d", bids[0].n, bids[1].n);
        table(verify_ns, 0, SPEC_MAX_ROWS, 0);
    }
    costs.tokens = 0;
    struct spec_bid bid = free_bid(3, 0.5);
    choose(&bid, 1, &costs);
    assert_in_range(bid.n, 0, 3);
}

CASE(choices_of_chance_keep_to_their_limits) {
    struct spec_control control = {0};
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
        choose(bids, n_bids, &costs);
        check(rows_of(bids, n_bids) <= costs.max_rows, "step %d", step);
        for (int i = 0; i < n_bids; i++) {
            check(bids[i].n >= 0 && bids[i].n <= bids[i].most, "step %d", step);
            const int accepted = below(bids[i].n + 1);
            if (bids[i].n > 0) spec_learn(&control, &rates, bids[i].source, bids[i].n, accepted);
            const double rate = spec_rate_of(&control, &rates, bids[i].source);
            check(rate >= 0.01 && rate <= 0.99, "step %d: %g", step, rate);
        }
        spec_step_begin(&control);
    }
}

// --- rates ---

CASE(rates_lean_on_all_and_then_on_their_own) {
    struct spec_control control = {0};
    struct spec_rates other = {0}, own = {0};
    const double unknown = spec_rate_of(&control, &own, 3);
    for (int i = 0; i < 300; i++) spec_learn(&control, &other, 3, 4, 1);
    const double all = spec_rate_of(&control, &own, 3);
    check(fabs(all - 0.25) < 0.03, "%g", all);
    check(fabs(spec_rate_of(&control, &own, 2) - unknown) < 1e-9, "another source");
    spec_learn(&control, &own, 3, 1, 1);
    const double begun = spec_rate_of(&control, &own, 3);
    check(begun > all && begun < 0.6, "%g", begun);
    for (int i = 0; i < 100; i++) spec_learn(&control, &own, 3, 4, 4);
    check(spec_rate_of(&control, &own, 3) > 0.9, "its own");
    check(spec_rate_of(&control, &other, 3) < 0.4, "the other's");
}

CASE(rates_that_nobody_heard_of_for_long_are_forgotten) {
    struct spec_control control = {0};
    struct spec_rates rates = {0};
    const double unknown = spec_rate_of(&control, &rates, 0);
    for (int i = 0; i < 200; i++) spec_learn(&control, &rates, 0, 1, 0);
    double before = spec_rate_of(&control, &rates, 0);
    check(before < 0.1, "%g", before);
    for (int step = 0; step < 8000; step++) spec_step_begin(&control);
    const double after = spec_rate_of(&control, &rates, 0);
    check(after > 0.9 * unknown && after <= unknown, "%g of %g", after, unknown);
}

// --- runs ---

// Tokens per second over those without drafts, after some phases to settle.
static double gain_of(const struct machine *machine, enum unrest unrest, const struct texts *texts,
                      int n_streams, enum sim_mode mode) {
    static struct sim sim;
    double with = 0, none = 0;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        sim_init(&sim, mode, machine, unrest, texts, n_streams, seed);
        with += sim_speed(&sim, 4);
        sim_init(&sim, SIM_NONE, machine, unrest, texts, n_streams, seed);
        none += sim_speed(&sim, 4);
    }
    return with / none;
}

static const struct machine *const machines[] = {&machine_pair, &machine_1b, &machine_device,
                                                 &machine_linear};
enum { DRAFTING = 7, LINEAR = 8, ANY = 15 }; // sets of machines: bits by their places

#define BY_RATE(...)                                                                               \
    { .drafters = 1 << RN_DRAFTER_CUSTOM, .first_trace = -1, __VA_ARGS__ }
#define BY_MODEL(...)                                                                              \
    { .drafters = 1 << RN_DRAFTER_MODEL, __VA_ARGS__ }
#define BY_TRACE(...)                                                                              \
    { .drafters = 7, .prompt = 18, __VA_ARGS__ }

static const struct {
    const char *name;
    struct texts texts;
    int machines, n_streams;
    enum unrest unrest;
    double least;       // gain, over no drafts
    double oracle_part; // and over an oracle's gain; 0: is not compared
} runs[] = {
    {"all fail, quiet", BY_RATE(.rate = 0), ANY, 1, QUIET, 0.98, 0},
    {"all fail, noisy", BY_RATE(.rate = 0), ANY, 1, NOISY, 0.98, 0},
    {"all fail, slower", BY_RATE(.rate = 0), ANY, 1, SLOWER, 0.98, 0},
    // each row costs a step
    {"linear, 25%", BY_RATE(.rate = 0.25), LINEAR, 4, NOISY, 0.98, 0},
    {"linear, 50%", BY_RATE(.rate = 0.5), LINEAR, 4, NOISY, 0.98, 0},
    {"linear, 80%", BY_RATE(.rate = 0.8), LINEAR, 4, NOISY, 0.98, 0},
    {"linear, 95%", BY_RATE(.rate = 0.95), LINEAR, 4, NOISY, 0.98, 0},
    {"50%", BY_RATE(.rate = 0.5), DRAFTING, 1, NOISY, 0, 0.95},
    {"80%", BY_RATE(.rate = 0.8), DRAFTING, 1, NOISY, 0, 0.95},
    {"95%", BY_RATE(.rate = 0.95), DRAFTING, 1, NOISY, 0, 0.95},
    {"cold stories", BY_TRACE(.first_trace = 0), DRAFTING, 1, SLOWER, 0, 0.92},
    {"warm stories", BY_TRACE(.first_trace = TRACE_COLD), DRAFTING, 1, SLOWER, 0, 0.92},
    // drafts end where the text becomes a new one, and return; also after prices have become old
    {"by 300", BY_RATE(.rate = 0.02, .then = 0.9, .turn = 300), DRAFTING, 1, NOISY, 0, 0.88},
    {"by 2000", BY_RATE(.rate = 0.02, .then = 0.9, .turn = 2000), DRAFTING, 1, NOISY, 0, 0.88},
    {"a model becomes good", BY_MODEL(.prompt = 18, .model_rate = 0.05, .then = 0.95, .turn = 1000),
     DRAFTING, 1, NOISY, 1.1, 0},
    {"a poor model", BY_MODEL(.prompt = 18, .model_rate = 0.05), DRAFTING, 1, NOISY, 0.97, 0},
    {"a poor model, long prompts", BY_MODEL(.prompt = 3000, .model_rate = 0.05), DRAFTING, 1, NOISY,
     0.97, 0},
};

CASE(gains_are_nearly_an_oracles_and_losses_are_small) {
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        for (int m = 0; m < 4; m++) {
            if (!(runs[i].machines >> m & 1)) continue;
            const double gain = gain_of(machines[m], runs[i].unrest, &runs[i].texts,
                                        runs[i].n_streams, SIM_CONTROLLER);
            check(gain > runs[i].least, "%s, %s: %g", runs[i].name, machines[m]->name, gain);
            if (runs[i].oracle_part == 0) continue;
            const double oracle =
                gain_of(machines[m], runs[i].unrest, &runs[i].texts, runs[i].n_streams, SIM_ORACLE);
            check(gain > runs[i].oracle_part * oracle, "%s, %s: %g of %g", runs[i].name,
                  machines[m]->name, gain, oracle);
        }
}

// While drafts pay, a step without them is taken now and then, and costs half a percent at most.
CASE(steps_without_drafts_are_measured_at_little_cost) {
    static const double rates[] = {0.5, 0.8, 0.99};
    const double verify_ns[] = {100, 105, 110, 115, 120};
    const struct spec_costs costs = {.verify_ns = verify_ns, .max_rows = 4, .tokens = 1};
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        struct spec_control control = {0};
        double ns = 0, tokens = 0, best = 0;
        int n_plain = 0;
        for (int step = 0; step < 10000; step++) {
            struct spec_bid bid = free_bid(4, rates[r]);
            spec_choose(&control, &bid, 1, &costs);
            double sum = 1, gain = 1;
            for (int k = 0; k < bid.n; k++) sum += gain *= rates[r];
            n_plain += bid.n == 0;
            ns += verify_ns[bid.n];
            tokens += sum;
            if (sum / verify_ns[bid.n] > best) best = sum / verify_ns[bid.n];
        }
        check(n_plain >= 20 && n_plain < 1000, "rate %g: %d steps", rates[r], n_plain);
        check(tokens / ns > 0.994 * best, "rate %g: %g of %g", rates[r], tokens / ns, best);
    }
}

TEST_PROGRAM(spec_control) { return cases_run(NULL, NULL); }
