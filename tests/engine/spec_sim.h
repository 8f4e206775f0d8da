// The engine's side of the simulation: the real price and the real controller, asked as
// draft/propose.c asks them, on a world's machine and texts (spec_world.h).
#ifndef RN_TESTS_SPEC_SIM_H
#define RN_TESTS_SPEC_SIM_H

#include <stdlib.h>

#include "engine/price/price.h"
#include "spec_world.h"

enum { SIM_FEW = 4, SIM_STEP_ROWS = 32 };

// SIM_ORACLE knows the true costs of the moment and the true rates of the sources; its own steps
// are not learned from.
enum sim_mode { SIM_NONE, SIM_CONTROLLER, SIM_ORACLE };

struct sim {
    enum sim_mode mode;
    struct world world;
    struct cost_rates rates;
    struct price price, draft_price;
    struct spec_control control;
    struct spec_rates known[WORLD_STREAMS];
    // of the step at hand
    struct sim_stream {
        struct world_offer offer[RN_DRAFTER_COUNT];
        rn_drafter drafter; // whose offer is the bid
        int bid;            // -1: none
        int n;              // tokens drafted
    } stream[WORLD_STREAMS];
    struct spec_bid bid[WORLD_STREAMS];
    int n_bid, max_rows, rows;
    double verify_ns[SPEC_MAX_ROWS + 1];
};

static inline struct batch_shape sim_shape(int rows, int logits) {
    return (struct batch_shape){.n_tokens = rows, .n_out = logits, .n_logits = logits};
}

// --- calibration ---

static rn_status sim_run(void *ctx, int n, struct batch_shape *shape, uint64_t *ns, rn_error *err) {
    (void)err;
    *shape = sim_shape(n, n);
    *ns = (uint64_t)world_calibrated_ns(&((struct sim *)ctx)->world, n);
    return RN_OK;
}

static rn_status sim_run_draft(void *ctx, int n, struct batch_shape *shape, uint64_t *ns,
                               rn_error *err) {
    (void)err;
    *shape = sim_shape(n, n);
    *ns = (uint64_t)world_calibrated_draft_ns(&((struct sim *)ctx)->world, n);
    return RN_OK;
}

static void sim_init(struct sim *sim, enum sim_mode mode, const struct machine *machine,
                     enum unrest unrest, const struct texts *texts, int n_streams, uint64_t seed) {
    *sim = (struct sim){.mode = mode};
    world_init(&sim->world, machine, unrest, texts, n_streams, seed);
    sim->rates.row[ROWS_TOKENS].flops = sim->rates.fixed[ROWS_TOKENS].weight_bytes = 1000;
    price_init(&sim->price, &sim->rates);
    price_init(&sim->draft_price, &sim->rates);
    price_calibrate(&sim->price, sim_run, sim, 1 + SIM_STEP_ROWS, UINT64_MAX, NULL);
    price_calibrate(&sim->draft_price, sim_run_draft, sim, 64, UINT64_MAX, NULL);
}

// --- costs and rates ---

static double sim_step_price(const struct sim *sim, int rows) {
    const struct batch_shape shape = sim_shape(rows, rows);
    if (sim->mode == SIM_ORACLE) return world_true_ns(&sim->world, rows);
    return (double)price_of(&sim->price, &shape);
}

static double sim_draft_price(const struct sim *sim, int rows, int logits) {
    const struct batch_shape shape = sim_shape(rows, logits);
    if (sim->mode == SIM_ORACLE) return world_true_draft_ns(&sim->world, rows);
    return (double)price_of(&sim->draft_price, &shape);
}

static double sim_draft_ns(void *ctx, int drafter, int place, int n_seqs) {
    (void)drafter;
    return sim_draft_price(ctx, place > 0 ? n_seqs : 2 * n_seqs, n_seqs);
}

static double sim_setup_ns(const struct sim *sim, int stream, rn_drafter drafter) {
    const int behind = sim->world.stream[stream].behind;
    if (drafter != RN_DRAFTER_MODEL || behind <= SIM_FEW) return 0;
    return sim_draft_price(sim, behind, 1) - sim_draft_price(sim, SIM_FEW, 1);
}

static double sim_rate(const struct sim *sim, int stream, const struct world_offer *offer) {
    if (sim->mode == SIM_ORACLE) return world_true_rate(&sim->world, stream, offer);
    return spec_rate_of(&sim->control, &sim->known[stream], offer->source);
}

static int sim_left(const struct sim *sim, int stream) {
    return TRACE_TOKENS - sim->world.stream[stream].pos % TRACE_TOKENS;
}

// --- bids ---

// Tokens per ns of the step with the best length of this draft and no other.
static double sim_value(struct sim *sim, int stream, rn_drafter drafter, double rate) {
    const struct world_offer *offer = &sim->stream[stream].offer[drafter];
    double best = 0, tokens = sim->world.n_streams, gain = rate;
    double ns = spec_setup_share(sim_setup_ns(sim, stream, drafter), sim_left(sim, stream));
    for (int k = 1; k <= offer->n; k++, gain *= rate) {
        if (drafter == RN_DRAFTER_MODEL) ns += sim_draft_ns(sim, 0, k - 1, 1);
        tokens += gain;
        const double value = tokens / (sim->verify_ns[k] + ns);
        if (value > best) best = value;
    }
    return best;
}

static void sim_bid(struct sim *sim, int stream) {
    struct sim_stream *s = &sim->stream[stream];
    double best = -1;
    for (int d = 0; d < RN_DRAFTER_COUNT; d++) {
        struct world_offer *offer = &s->offer[d];
        *offer = world_offer(&sim->world, stream, (rn_drafter)d);
        if (offer->n > sim->max_rows) offer->n = sim->max_rows;
        if (offer->right > offer->n) offer->right = offer->n;
        if (offer->n == 0) continue;
        const double rate = sim_rate(sim, stream, offer);
        const double value = sim_value(sim, stream, (rn_drafter)d, rate);
        if (value <= best) continue;
        best = value;
        if (s->bid < 0) s->bid = sim->n_bid++;
        s->drafter = (rn_drafter)d;
        sim->bid[s->bid] = (struct spec_bid){.most = offer->n,
                                             .drafter = d == RN_DRAFTER_MODEL ? 0 : -1,
                                             .source = offer->source,
                                             .setup_ns = sim_setup_ns(sim, stream, (rn_drafter)d),
                                             .left = sim_left(sim, stream),
                                             .rate = rate};
    }
}

static void sim_choose(struct sim *sim) {
    const int n_streams = sim->world.n_streams;
    sim->max_rows = n_streams * WORLD_DRAFT_MOST;
    if (sim->max_rows > SIM_STEP_ROWS) sim->max_rows = SIM_STEP_ROWS;
    for (int r = 0; r <= sim->max_rows; r++) sim->verify_ns[r] = sim_step_price(sim, n_streams + r);
    for (int i = 0; i < n_streams; i++) sim_bid(sim, i);
    if (sim->n_bid == 0) return;
    const struct spec_costs costs = {.verify_ns = sim->verify_ns,
                                     .max_rows = sim->max_rows,
                                     .tokens = n_streams,
                                     .draft_ns = sim_draft_ns,
                                     .draft_ctx = sim};
    spec_choose(&sim->control, sim->bid, sim->n_bid, &costs);
    for (int i = 0; i < n_streams; i++)
        if (sim->stream[i].bid >= 0) sim->stream[i].n = sim->bid[sim->stream[i].bid].n;
    for (int i = 0; i < n_streams; i++) sim->rows += sim->stream[i].n;
}

// --- the step ---

// The draft model's runs: all known tokens, then one run for each place.
static double sim_draft(struct sim *sim) {
    int n_at[WORLD_DRAFT_MOST + 1] = {0}, n_known = 0;
    double sum = 0;
    for (int i = 0; i < sim->world.n_streams; i++) {
        const struct sim_stream *s = &sim->stream[i];
        if (s->n == 0 || s->drafter != RN_DRAFTER_MODEL) continue;
        n_known += sim->world.stream[i].behind;
        for (int k = 0; k < s->n; k++) n_at[k]++;
    }
    for (int k = 0; n_at[k] > 0; k++) {
        const struct batch_shape shape = sim_shape(k > 0 ? n_at[k] : n_known, n_at[k]);
        const double ns = world_draft_ns(&sim->world, (double)shape.n_tokens);
        price_learn(&sim->draft_price, &shape, (uint64_t)ns);
        sum += ns;
    }
    return sum;
}

// Learns the result of the stream's draft, and moves the stream on.
static void sim_settle(struct sim *sim, int stream) {
    struct sim_stream *s = &sim->stream[stream];
    int accepted = 0;
    for (int d = 0; d < RN_DRAFTER_COUNT; d++) {
        const struct world_offer *offer = &s->offer[d];
        const bool is_drafted = s->n > 0 && d == (int)s->drafter;
        if (is_drafted) {
            accepted = offer->right < s->n ? offer->right : s->n;
            spec_learn(&sim->control, &sim->known[stream], offer->source,
                       accepted + (accepted < s->n), accepted);
        } else if (offer->n > 0 && d != RN_DRAFTER_MODEL) { // an unverified guess
            spec_learn(&sim->control, &sim->known[stream], offer->source, 1, offer->right > 0);
        }
    }
    if (s->n > 0 && s->drafter == RN_DRAFTER_MODEL) // it has read all but the last that it drafted
        sim->world.stream[stream].behind = -(accepted < s->n - 1 ? accepted : s->n - 1);
    if (world_advance(&sim->world, stream, 1 + accepted))
        sim->known[stream] = (struct spec_rates){0};
}

static void sim_step(struct sim *sim) {
    struct world *world = &sim->world;
    double ns = 0;
    spec_step_begin(&sim->control);
    sim->n_bid = sim->rows = 0;
    for (int i = 0; i < world->n_streams; i++) sim->stream[i] = (struct sim_stream){.bid = -1};
    if (sim->mode != SIM_NONE) {
        ns += world->n_streams * world->machine->ask_ns;
        sim_choose(sim);
        ns += sim_draft(sim);
    }
    const struct batch_shape shape =
        sim_shape(world->n_streams + sim->rows, world->n_streams + sim->rows);
    const double run_ns = world_run_ns(world, (double)shape.n_tokens);
    for (int i = 0; i < world->n_streams; i++) sim_settle(sim, i);
    price_learn(&sim->price, &shape, (uint64_t)run_ns);
    world->ns += ns + run_ns;
    world->steps++;
}

// Tokens per second over whole phases of the machine.
static double sim_speed(struct sim *sim, int n_phases) {
    const struct world *world = &sim->world;
    const double begin_ns = world->ns, step_ns = world->machine->step_ns;
    const uint64_t tokens = world->tokens;
    while (world->ns - begin_ns < (double)n_phases * PHASE_STEPS * step_ns) sim_step(sim);
    return (double)(world->tokens - tokens) / (world->ns - begin_ns) * 1e9;
}

#endif
