// The gain of drafts on simulated machines (engine/spec_world.h), in tokens per simulated second.
// The real controller with the real price is compared with no drafts, and with an oracle that knows
// true costs and rates. The figures are the same on every machine; docs/SPECULATION.md has them.
// Run by hand:
//
//   bench_controller [phases [seeds]]     more of either: less chance in the figures (6, 3)
#include <math.h>
#include <stdio.h>

#include "engine/spec_sim.h"

enum {
    ALL = 1 << RN_DRAFTER_MODEL | 1 << RN_DRAFTER_LOOKUP | 1 << RN_DRAFTER_SHARED,
    FREE = 1 << RN_DRAFTER_LOOKUP | 1 << RN_DRAFTER_SHARED,
    MODEL = 1 << RN_DRAFTER_MODEL,
    CUSTOM = 1 << RN_DRAFTER_CUSTOM,
};

static const struct texts kinds[] = {
    {.name = "stories, t 0", .drafters = ALL, .prompt = 18},
    {.name = "stories, t 0, no model", .drafters = FREE, .prompt = 18},
    {.name = "stories, t 0.8", .drafters = ALL, .first_trace = TRACE_COLD, .prompt = 18},
    {.name = "stories, t 0.8, no model", .drafters = FREE, .first_trace = TRACE_COLD, .prompt = 18},
    {.name = "prompts of 3,000", .drafters = ALL, .prompt = 3000},
    {.name = "poor model", .drafters = MODEL, .prompt = 18, .model_rate = 0.1},
    {.name = "poor model, 3,000", .drafters = MODEL, .prompt = 3000, .model_rate = 0.1},
    {.name = "model 0.05 and 0.95, by 1,000",
     .drafters = MODEL,
     .prompt = 18,
     .model_rate = 0.05,
     .then = 0.95,
     .turn = 1000},
    {.name = "rate 0.8", .drafters = CUSTOM, .first_trace = -1, .rate = 0.8},
    {.name = "rate 0.5", .drafters = CUSTOM, .first_trace = -1, .rate = 0.5},
    {.name = "rate 0.25", .drafters = CUSTOM, .first_trace = -1, .rate = 0.25},
    {.name = "rate 0", .drafters = CUSTOM, .first_trace = -1},
    {.name = "0.9 and 0.05, by 300",
     .drafters = CUSTOM,
     .first_trace = -1,
     .rate = 0.9,
     .then = 0.05,
     .turn = 300},
    {.name = "0.02 and 0.8, by 2,000",
     .drafters = CUSTOM,
     .first_trace = -1,
     .rate = 0.02,
     .then = 0.8,
     .turn = 2000},
    {.name = "quotations", .drafters = CUSTOM, .first_trace = -1, .quotes = true},
};
static const struct machine *const machines[] = {&machine_pair, &machine_1b, &machine_device,
                                                 &machine_linear};
static const int streams[] = {1, 4, 16};

enum {
    N_KINDS = sizeof kinds / sizeof *kinds,
    N_MACHINES = sizeof machines / sizeof *machines,
    N_STREAMS = sizeof streams / sizeof *streams,
};

struct score { // products over scenarios
    double gain, of_oracle, least;
    int n;
};

static double speed(enum sim_mode mode, const struct machine *machine, enum unrest unrest,
                    const struct texts *texts, int n_streams, int n_phases, int n_seeds) {
    static struct sim sim;
    double sum = 0;
    for (int seed = 1; seed <= n_seeds; seed++) {
        sim_init(&sim, mode, machine, unrest, texts, n_streams, (uint64_t)seed);
        sum += sim_speed(&sim, n_phases);
    }
    return sum / n_seeds;
}

static void score_add(struct score *score, double none, double with, double oracle) {
    score->gain += log(with / none);
    score->of_oracle += log(with / oracle);
    if (score->n++ == 0 || with / none < score->least) score->least = with / none;
}

static struct score score_of(const struct machine *machine, const struct texts *texts,
                             int n_streams, int n_phases, int n_seeds) {
    struct score score = {0};
    for (int u = 0; u < UNRESTS; u++) {
        const enum unrest unrest = (enum unrest)u;
        double v[3];
        if (unrest == MEMORY && machine->fast.n == 0) continue;
        for (int mode = SIM_NONE; mode <= SIM_ORACLE; mode++)
            v[mode] =
                speed((enum sim_mode)mode, machine, unrest, texts, n_streams, n_phases, n_seeds);
        score_add(&score, v[SIM_NONE], v[SIM_CONTROLLER], v[SIM_ORACLE]);
    }
    return score;
}

int main(int argc, char **argv) {
    const int n_phases = argc > 1 ? atoi(argv[1]) : 6, n_seeds = argc > 2 ? atoi(argv[2]) : 3;
    printf("| machine | streams | texts | over none | least of its unrests | over the oracle |\n");
    printf("| --- | ---: | --- | ---: | ---: | ---: |\n");
    struct score all = {.least = 9};
    for (int m = 0; m < N_MACHINES; m++)
        for (int s = 0; s < N_STREAMS; s++)
            for (int k = 0; k < N_KINDS; k++) {
                const struct score score =
                    score_of(machines[m], &kinds[k], streams[s], n_phases, n_seeds);
                printf("| %s | %d | %s | %.3f | %.3f | %.3f |\n", machines[m]->name, streams[s],
                       kinds[k].name, exp(score.gain / score.n), score.least,
                       exp(score.of_oracle / score.n));
                fflush(stdout);
                all.gain += score.gain;
                all.of_oracle += score.of_oracle;
                all.n += score.n;
                if (score.least < all.least) all.least = score.least;
            }
    printf("| all | | | %.3f | %.3f | %.3f |\n", exp(all.gain / all.n), all.least,
           exp(all.of_oracle / all.n));
}
