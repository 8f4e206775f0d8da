// A simulated machine and simulated streams, for the price of a step and the controller of drafts.
// Time is computed: nothing here depends on the machine that it runs on, and chance is repeatable.
//
// A machine is a curve (the time of a step over its rows), its draft model's curve, and a
// disturbance (enum unrest). Disturbances are noise, interruptions, phases in which everything is
// slower, and phases in which memory is faster. A stream's text is there before it is written: for
// each position the world knows how many tokens of each drafter's offer are right. So two
// controllers see the same texts.
#ifndef RN_TESTS_SPEC_WORLD_H
#define RN_TESTS_SPEC_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "draft_traces.h"
#include "engine/draft/drafter.h"

enum { WORLD_STREAMS = 16, WORLD_POINTS = 12, WORLD_DRAFT_MOST = 15 };

// The cost of rows, in steps of one row; straight lines between, and on from the last two.
struct curve {
    int n;
    double rows[WORLD_POINTS], cost[WORLD_POINTS];
};

struct machine {
    const char *name;
    double step_ns;    // one row
    struct curve step; // memory as it is most of the time
    struct curve fast; // in phases of fast memory; n = 0: there are none
    double alone;      // calibration's cost of 4 rows and more over that between drafts
    double draft_ns;   // one row of the draft model
    struct curve draft;
    double draft_alone;
    double ask_ns; // asking all drafters, for each stream
};

// docs/benchmarks: speculation.md and cpu.md. The device is made up: flat, with costly launches.
static const struct machine machine_pair = {
    .name = "pair",
    .step_ns = 230e3,
    .step = {8, {1, 2, 3, 4, 5, 8, 16, 32}, {1, 1.25, 1.44, 1.77, 2.31, 3.39, 6.2, 12}},
    .alone = 0.86,
    .draft_ns = 27e3,
    .draft = {6, {1, 2, 4, 8, 16, 64}, {1, 1.1, 1.3, 1.8, 3.3, 13}},
    .draft_alone = 0.8,
    .ask_ns = 1000};
static const struct machine machine_1b = {
    .name = "1b",
    .step_ns = 19e6,
    .step = {11,
             {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32},
             {1, 1.06, 1.07, 1.07, 1.18, 1.39, 1.43, 1.64, 2.63, 3.24, 6.3}},
    .fast = {11,
             {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32},
             {0.63, 0.72, 0.87, 1.05, 1.18, 1.39, 1.43, 1.64, 2.63, 3.24, 6.3}},
    .alone = 1,
    .draft_ns = 1.9e6,
    .draft = {5, {1, 4, 8, 16, 64}, {1, 1.1, 1.7, 3.3, 13}},
    .draft_alone = 1,
    .ask_ns = 1000};
static const struct machine machine_device = {.name = "device",
                                              .step_ns = 8e6,
                                              .step = {5,
                                                       {1, 8, 16, 32, 64},
                                                       {1, 1.03, 1.08, 1.25, 1.7}},
                                              .alone = 1,
                                              .draft_ns = 1.6e6,
                                              .draft = {3, {1, 16, 64}, {1, 1.03, 1.2}},
                                              .draft_alone = 1,
                                              .ask_ns = 1000};
static const struct machine machine_linear = {.name = "linear",
                                              .step_ns = 1e6,
                                              .step = {2, {1, 64}, {1, 64}},
                                              .alone = 1,
                                              .draft_ns = 5e4,
                                              .draft = {2, {1, 64}, {1, 64}},
                                              .draft_alone = 1,
                                              .ask_ns = 1000};

enum unrest { QUIET, NOISY, SLOWER, MEMORY, UNRESTS };

enum { PHASE_STEPS = 800 }; // of one row

// The streams' texts, and their drafters.
struct texts {
    const char *name;
    unsigned drafters; // bits 1 << rn_drafter
    int first_trace;   // of TRACE_COLD; -1: by rates
    double rate, then; // of a custom drafter's tokens, in turn
    int turn;          // tokens; 0: rate alone
    bool quotes;       // right and wrong come in runs
    int prompt;        // tokens that a draft model has to read first
    double model_rate; // of the draft model's tokens; 0: as traced
};

struct world_stream {
    int pos;    // tokens so far; each request has TRACE_TOKENS
    int behind; // tokens that the draft model has not read
};

struct world {
    const struct machine *machine;
    enum unrest unrest;
    const struct texts *texts;
    int n_streams;
    struct world_stream stream[WORLD_STREAMS];
    uint64_t random, seed;
    double ns;
    uint64_t tokens, steps;
};

struct world_offer {
    int n, source;
    int right; // tokens from its first on
};

static double curve_at(const struct curve *curve, double rows) {
    int i = 1;
    while (i + 1 < curve->n && curve->rows[i] < rows) i++;
    const double share = (rows - curve->rows[i - 1]) / (curve->rows[i] - curve->rows[i - 1]);
    return curve->cost[i - 1] + share * (curve->cost[i] - curve->cost[i - 1]);
}

static double world_uniform(struct world *world) {
    uint64_t *r = &world->random;
    *r ^= *r << 13;
    *r ^= *r >> 7;
    *r ^= *r << 17;
    return (double)(*r >> 11) * 0x1p-53;
}

// In [0, 1), the same for the same numbers.
static double world_hash(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t x = a * 0x9E3779B97F4A7C15u ^ b * 0xC2B2AE3D27D4EB4Fu ^ c * 0x165667B19E3779F9u;
    x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 29) * 0x94D049BB133111EBu;
    return (double)((x ^ x >> 32) >> 11) * 0x1p-53;
}

static void world_init(struct world *world, const struct machine *machine, enum unrest unrest,
                       const struct texts *texts, int n_streams, uint64_t seed) {
    *world = (struct world){.machine = machine,
                            .unrest = unrest,
                            .texts = texts,
                            .n_streams = n_streams,
                            .random = seed * 0x9E3779B97F4A7C15u + 88172645463325252u,
                            .seed = seed};
    for (int i = 0; i < n_streams; i++) world->stream[i].behind = texts->prompt;
}

// --- the machine ---

static bool world_is_phase(const struct world *world) {
    return (uint64_t)(world->ns / (PHASE_STEPS * world->machine->step_ns)) % 2 == 1;
}

// Without noise.
static double world_true_ns(const struct world *world, double rows) {
    const struct machine *m = world->machine;
    const bool phase = world_is_phase(world);
    const struct curve *curve =
        world->unrest == MEMORY && m->fast.n > 0 && phase ? &m->fast : &m->step;
    return m->step_ns * curve_at(curve, rows) * (world->unrest == SLOWER && phase ? 1.3 : 1);
}

static double world_true_draft_ns(const struct world *world, double rows) {
    const struct machine *m = world->machine;
    const bool slower = world->unrest == SLOWER && world_is_phase(world);
    return m->draft_ns * curve_at(&m->draft, rows) * (slower ? 1.3 : 1);
}

static double world_noise(struct world *world) {
    const double width = world->unrest == QUIET ? 0.01 : 0.06;
    double factor = 1 + width * (world_uniform(world) + world_uniform(world) - 1);
    if (world_uniform(world) < (world->unrest == QUIET ? 0.001 : 0.01))
        factor *= 1.5 + 5 * world_uniform(world); // the system interrupts
    return factor;
}

static double world_run_ns(struct world *world, double rows) {
    return world_true_ns(world, rows) * world_noise(world);
}

static double world_draft_ns(struct world *world, double rows) {
    return world_true_draft_ns(world, rows) * world_noise(world);
}

// The times of a calibration before the first request: nothing else is in the caches.
static double world_calibrated_ns(struct world *world, double rows) {
    const double share = rows >= 4 ? 1 : (rows - 1) / 3;
    return world_run_ns(world, rows) * (1 + share * (world->machine->alone - 1));
}

static double world_calibrated_draft_ns(struct world *world, double rows) {
    return world_draft_ns(world, rows) * world->machine->draft_alone;
}

// --- the texts ---

static bool world_is_right(const struct world *world, int stream, int pos) {
    const struct texts *t = world->texts;
    const double rate = t->turn > 0 && pos / t->turn % 2 ? t->then : t->rate;
    if (!t->quotes) return world_hash(world->seed, (uint64_t)stream, (uint64_t)pos) < rate;
    // a quotation of 8 to 40 tokens, then some that are new
    const double start = world_hash(world->seed, (uint64_t)stream, (uint64_t)(pos / 48));
    const int at = pos % 48;
    return at > 4 && at < 8 + (int)(40 * start) && at % 48 != 0;
}

static bool model_is_right(const struct world *world, const struct draft_trace *trace, int stream,
                           int pos) {
    const struct texts *t = world->texts;
    const double rate = t->turn > 0 && pos / t->turn % 2 ? t->then : t->model_rate;
    if (rate > 0) return world_hash(world->seed, (uint64_t)stream, (uint64_t)pos) < rate;
    return trace->model[pos % TRACE_TOKENS] == '1';
}

static struct world_offer offer_by_trace(const struct world *world, int stream, int pos,
                                         rn_drafter drafter) {
    const int text = world->texts->first_trace + (stream + pos / TRACE_TOKENS) % TRACE_COLD;
    const int at = pos % TRACE_TOKENS, left = TRACE_TOKENS - 1 - at;
    const struct draft_trace *trace = &draft_traces[text];
    struct world_offer offer = {.n = left < WORLD_DRAFT_MOST ? left : WORLD_DRAFT_MOST};
    if (drafter == RN_DRAFTER_MODEL) {
        while (offer.right < offer.n && model_is_right(world, trace, stream, pos + offer.right))
            offer.right++;
        return offer;
    }
    const char c = drafter == RN_DRAFTER_LOOKUP ? trace->lookup[at] : trace->shared[at];
    if (c == '.') return (struct world_offer){0};
    const int first = drafter == RN_DRAFTER_LOOKUP ? DRAFT_LOOKUP_SHORT : DRAFT_SHARED_SHORT;
    const bool is_short = c <= '9' || (c >= 'a' && c <= 'f');
    offer.source = first + (is_short ? 0 : c <= 'P' ? 1 : 2);
    offer.right = c <= '9' ? c - '0' : is_short ? c - 'a' + 10 : c <= 'P' ? c - 'A' : c - 'g';
    if (offer.right > offer.n) offer.right = offer.n;
    return offer;
}

// n = 0: nothing.
static struct world_offer world_offer(const struct world *world, int stream, rn_drafter drafter) {
    const int pos = world->stream[stream].pos;
    if (!(world->texts->drafters >> drafter & 1)) return (struct world_offer){0};
    if (world->texts->first_trace >= 0) return offer_by_trace(world, stream, pos, drafter);
    struct world_offer offer = {.source = DRAFT_CUSTOM};
    const int left = TRACE_TOKENS - 1 - pos % TRACE_TOKENS;
    offer.n = left < WORLD_DRAFT_MOST ? left : WORLD_DRAFT_MOST;
    while (offer.right < offer.n && world_is_right(world, stream, pos + offer.right)) offer.right++;
    return offer;
}

// The rate of a source in all texts of the kind, or the one of the moment.
static double world_true_rate(const struct world *world, int stream,
                              const struct world_offer *offer) {
    const struct texts *t = world->texts;
    const int pos = world->stream[stream].pos;
    if (t->first_trace < 0 && !t->quotes)
        return t->turn > 0 && pos / t->turn % 2 ? t->then : t->rate;
    if (t->first_trace < 0) return (offer->right + 0.5) / (offer->right + 1.0);
    if (offer->source == DRAFT_MODEL && t->model_rate > 0)
        return t->turn > 0 && pos / t->turn % 2 ? t->then : t->model_rate;
    static const double rates[2][DRAFT_SOURCES] = {TRACE_RATES_COLD, TRACE_RATES_WARM};
    return rates[t->first_trace > 0][offer->source];
}

// The stream has n_tokens more; returns whether a new request begins.
static bool world_advance(struct world *world, int stream, int n_tokens) {
    struct world_stream *s = &world->stream[stream];
    const int request = s->pos / TRACE_TOKENS;
    s->pos += n_tokens;
    s->behind += n_tokens;
    world->tokens += (uint64_t)n_tokens;
    if (s->pos / TRACE_TOKENS == request) return false;
    s->behind = world->texts->prompt;
    return true;
}

#endif
