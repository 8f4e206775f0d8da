// A made-up machine and streams of made-up acceptance, for the controller of drafts: steps cost
// what a table says, drafted tokens are accepted by chance.
#ifndef RN_TESTS_SPEC_WORLD_H
#define RN_TESTS_SPEC_WORLD_H

#include <string.h>

#include "engine/draft/spec_control.h"
#include "random.h"

enum { WORLD_STREAMS = 32 };

struct machine {
    double step_ns; // one row
    int n_point;    // of the cost of rows, in steps of one row
    double rows[10], ns[10];
    double draft_ns; // a token of a draft; 0: drafts are free
};

// A small model of 20 million weights with a draft model of 1 million; a model of a billion.
static const struct machine machine_pair = {
    230e3, 6, {1, 2, 3, 4, 5, 8}, {1, 1.25, 1.44, 1.77, 2.31, 3.39}, 36e3};
static const struct machine machine_1b = {19e6,
                                          10,
                                          {1, 2, 3, 4, 5, 6, 7, 8, 12, 16},
                                          {1, 1.06, 1.07, 1.07, 1.18, 1.39, 1.43, 1.64, 2.63, 3.24},
                                          0};
static const struct machine machine_linear = {1e6, 2, {0, 100}, {0, 100}, 0};
static const struct machine machine_flat = {1e6, 2, {0, 100}, {1, 1}, 0};

struct stream {
    double rate; // the true one
    int source, most, drafter, left;
    double setup_ns; // that is still due
    struct spec_rates known;
};

struct world {
    const struct machine *machine;
    int n_streams;
    struct stream stream[WORLD_STREAMS];
    struct spec_control control;
    double noise; // of the costs that the controller is told, relative
    // what came
    uint64_t steps, tokens, plain, probes, changes;
    double ns;
    int rows; // of the last step
};

static double machine_ns(const struct machine *machine, double rows) {
    int i = 1;
    while (i + 1 < machine->n_point && machine->rows[i] < rows) i++;
    const double t = (rows - machine->rows[i - 1]) / (machine->rows[i] - machine->rows[i - 1]);
    const double steps = machine->ns[i - 1] + t * (machine->ns[i] - machine->ns[i - 1]);
    return machine->step_ns * steps;
}

static double machine_draft_ns(void *ctx, int drafter, int place, int n_seqs) {
    (void)drafter, (void)place;
    const struct machine *const machine = ctx;
    return machine->draft_ns * (1 + 0.1 * (n_seqs - 1));
}

static void world_init(struct world *world, const struct machine *machine, int n_streams,
                       double prior, double rate) {
    *world = (struct world){.machine = machine, .n_streams = n_streams};
    const double priors[SPEC_MAX_SOURCES] = {prior, prior, prior, prior,
                                             prior, prior, prior, prior};
    spec_control_init(&world->control, priors);
    for (int i = 0; i < n_streams; i++)
        world->stream[i] = (struct stream){.rate = rate,
                                           .most = 15,
                                           .drafter = machine->draft_ns > 0 ? 0 : -1,
                                           .left = 128};
}

// The tokens of a draft that are accepted; what was tried is learned.
static int world_verify(struct world *world, struct stream *stream, int n) {
    int accepted = 0;
    while (accepted < n && uniform() < stream->rate) accepted++;
    const int tried = accepted < n ? accepted + 1 : n;
    spec_learn(&world->control, &stream->known, stream->source, tried, accepted);
    return accepted;
}

static void world_step(struct world *world) {
    const struct machine *const machine = world->machine;
    double told[SPEC_MAX_ROWS + 1];
    for (int r = 0; r <= SPEC_MAX_ROWS; r++)
        told[r] =
            machine_ns(machine, world->n_streams + r) * (1 + world->noise * (2 * uniform() - 1));
    const struct spec_costs costs = {told, SPEC_MAX_ROWS, world->n_streams, machine_draft_ns,
                                     (void *)machine};
    struct spec_bid bids[WORLD_STREAMS] = {0};
    for (int i = 0; i < world->n_streams; i++) {
        const struct stream *const s = &world->stream[i];
        bids[i] = (struct spec_bid){.most = s->most,
                                    .drafter = s->drafter,
                                    .source = s->source,
                                    .setup_ns = s->setup_ns,
                                    .left = s->left,
                                    .rate = spec_rate_of(&world->control, &s->known, s->source)};
    }
    const enum spec_turn turn = spec_choose(&world->control, bids, world->n_streams, &costs);
    world->plain += turn == SPEC_PLAIN;
    world->probes += turn == SPEC_PROBE;
    int rows = 0, n_seqs[SPEC_MAX_DRAFT] = {0};
    double ns = 0;
    for (int i = 0; i < world->n_streams; i++) {
        struct stream *const s = &world->stream[i];
        rows += bids[i].n;
        if (bids[i].n > 0) ns += s->setup_ns, s->setup_ns = 0;
        for (int p = 0; s->drafter >= 0 && p < bids[i].n; p++) n_seqs[p]++;
        int accepted = 0;
        if (bids[i].n > 0)
            accepted = world_verify(world, s, bids[i].n);
        else if (s->drafter < 0 && s->most > 0)
            world_verify(world, s, 1);
        world->tokens += 1 + accepted;
    }
    for (int p = 0; p < SPEC_MAX_DRAFT && n_seqs[p] > 0; p++)
        ns += machine_draft_ns((void *)machine, 0, p, n_seqs[p]);
    ns += machine_ns(machine, world->n_streams + rows);
    spec_learn_step(&world->control, ns);
    world->ns += ns;
    world->steps++;
    if (turn == SPEC_CHOSEN) {
        world->changes += rows != world->rows;
        world->rows = rows;
    }
}

// Until the streams have brought so many tokens each, on average: the speed, with 1 for none.
static double world_run(struct world *world, int tokens) {
    const uint64_t begin = world->tokens;
    const double begin_ns = world->ns;
    while (world->tokens - begin < (uint64_t)tokens * world->n_streams) world_step(world);
    const double steps = (double)(world->tokens - begin) / world->n_streams;
    return steps * machine_ns(world->machine, world->n_streams) / (world->ns - begin_ns);
}

// The best speed of any fixed length of all streams' drafts, at their mean rate.
static double world_best(const struct world *world) {
    double best = 1, draft_ns = 0, expected = 1, power = 1;
    const double plain_ns = machine_ns(world->machine, world->n_streams);
    for (int k = 1; k <= 15 && k * world->n_streams <= SPEC_MAX_ROWS; k++) {
        power *= world->stream[0].rate;
        expected += power;
        draft_ns += machine_draft_ns((void *)world->machine, 0, k - 1, world->n_streams);
        const double ns = machine_ns(world->machine, world->n_streams * (k + 1)) + draft_ns;
        if (expected * plain_ns / ns > best) best = expected * plain_ns / ns;
    }
    return best;
}

#endif
