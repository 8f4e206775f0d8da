// Draft lengths by expected tokens per second. A draft is a prefix of a source's tokens, so its
// tokens gain rate, rate^2, ...: less and less. The best lengths for a number of rows take the
// largest gains first, over all sequences. The walk goes from no rows to all that have room: the
// cost of verifying has steps, so every number of rows is looked at. A drafter that takes time
// costs more than its rows: the walk is made with and without it.
//
// Called by the step's thread alone; arithmetic only, a microsecond or two for one sequence.
#include "engine/draft/spec_control.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    LEAN_PRIOR = 4,   // weight of the prior, in tokens
    LEAN_ALL = 8,     // weight of the rate of all sequences, in tokens
    FADE_STEPS = 256, // without a token, after which the statistics weigh half
    SETUP_PART = 4,   // a setup is to be paid back in the first 1/N of the remaining tokens
    SETUP_LEFT = 512, // tokens; more are not relied on
};

#define PRIOR      0.6 // the rate of an unknown source
#define RATE_MIN   0.01
#define RATE_MAX   0.99
#define FORGET_ONE (0.69 / 24)  // of a sequence's statistics, by each token tried: half after 24
#define FORGET_ALL (0.69 / 256) // of the statistics of all sequences
#define GAIN_LEAST 1e-3         // tokens; less is not worth a row
#define WORTH      1.10         // times the tokens per second without drafts: less may be an error
#define LOSS_PART  0.005        // of the time may be lost by measured steps without drafts

static double clamped(double x, double least, double most) {
    return x < least ? least : x > most ? most : x;
}

// --- rates ---

static struct spec_rate faded(const struct spec_control *control, struct spec_rate rate) {
    if (control->steps == rate.step) return rate;
    const float keep = exp2f(-(float)(control->steps - rate.step) / FADE_STEPS);
    return (struct spec_rate){.tried = rate.tried * keep, .accepted = rate.accepted * keep};
}

// The rate of the counted tokens, with `weight` further tokens at the rate `expected`.
static double lean(double expected, double weight, struct spec_rate counted) {
    const double rate =
        ((double)counted.accepted + weight * expected) / ((double)counted.tried + weight);
    return clamped(rate, RATE_MIN, RATE_MAX);
}

double spec_rate_of(const struct spec_control *control, const struct spec_rates *rates,
                    int source) {
    assert(source >= 0 && source < SPEC_MAX_SOURCES);
    const double of_all = lean(PRIOR, LEAN_PRIOR, faded(control, control->all[source]));
    return lean(of_all, LEAN_ALL, faded(control, rates->rate[source]));
}

static void count(struct spec_control *control, struct spec_rate *rate, double forget, int tried,
                  int accepted) {
    const struct spec_rate before = faded(control, *rate);
    const float keep = (float)clamped(1 - forget * tried, 0, 1);
    *rate = (struct spec_rate){.tried = before.tried * keep + (float)tried,
                               .accepted = before.accepted * keep + (float)accepted,
                               .step = control->steps};
}

void spec_learn(struct spec_control *control, struct spec_rates *rates, int source, int tried,
                int accepted) {
    assert(source >= 0 && source < SPEC_MAX_SOURCES);
    assert(accepted >= 0 && accepted <= tried);
    count(control, &rates->rate[source], FORGET_ONE, tried, accepted);
    count(control, &control->all[source], FORGET_ALL, tried, accepted);
}

void spec_step_begin(struct spec_control *control) { control->steps++; }

// --- bids ---

double spec_setup_share(double setup_ns, int left) {
    const double tokens = clamped(left, 1, SETUP_LEFT);
    return tokens > SETUP_PART ? setup_ns * SETUP_PART / tokens : setup_ns;
}

bool spec_may_pay(const struct spec_costs *costs) {
    const double least = WORTH * costs->tokens / clamped(costs->verify_ns[0], 1, INFINITY);
    for (int rows = 1; rows <= costs->max_rows; rows++)
        if (costs->tokens + RATE_MAX * rows >= least * costs->verify_ns[rows]) return true;
    return false;
}

// A bid whose draft cannot be worth its setup is barred. No token is worth more than one without
// drafts costs, because the best choice is not worse than none.
static void price_setup(struct spec_bid *bid, const struct spec_costs *costs) {
    bid->share = 0;
    if (bid->setup_ns <= 0) return;
    bid->share = spec_setup_share(bid->setup_ns, bid->left);
    const double most = bid->rate / (1 - bid->rate);
    const double tokens = most < bid->most ? most : bid->most;
    if (costs->tokens > 0 && bid->share >= tokens * costs->verify_ns[0] / costs->tokens)
        bid->barred = true;
}

// Forced tokens go place by place, so that all sequences have some where there is not room for
// all of them.
static void force(struct spec_bid *bids, int n_bids, int room) {
    int deepest = 0;
    for (int i = 0; i < n_bids; i++)
        if (bids[i].least > deepest) deepest = bids[i].least;
    for (int place = 0; place < deepest; place++)
        for (int i = 0; i < n_bids && room > 0; i++)
            if (place < bids[i].least && place < bids[i].most) {
                bids[i].forced++;
                room--;
            }
}

static void prepare(struct spec_bid *bids, int n_bids, const struct spec_costs *costs) {
    for (int i = 0; i < n_bids; i++) {
        struct spec_bid *const bid = &bids[i];
        assert(bid->source >= 0 && bid->source < SPEC_MAX_SOURCES);
        assert(bid->drafter < SPEC_MAX_DRAFTERS && bid->most <= SPEC_MAX_DRAFT);
        assert(bid->drafter < 0 || costs->draft_ns);
        bid->rate = clamped(bid->rate, RATE_MIN, RATE_MAX);
        bid->forced = 0;
        bid->barred = bid->most <= 0;
        price_setup(bid, costs);
    }
    force(bids, n_bids, costs->max_rows);
}

// --- the best lengths for every number of rows ---

// The best lengths of all bids, or of free ones: the rows with the most tokens per ns, the fewest
// of equal ones.
struct walk {
    int base, best;
    double value, plain;           // tokens per ns, and those without drafts
    double ns;                     // of the step with the best lengths
    uint16_t order[SPEC_MAX_ROWS]; // whose token the (rows + 1)st is
};

// The drafts of a walk: sequences, and their cost, at each place of a drafter's.
struct drafting {
    int n_seqs[SPEC_MAX_DRAFTERS][SPEC_MAX_DRAFT];
    double ns[SPEC_MAX_DRAFTERS][SPEC_MAX_DRAFT];
};

// The cost of drafting one more token for the bid.
static double take(struct spec_bid *bid, const struct spec_costs *costs,
                   struct drafting *drafting) {
    const int place = bid->n++;
    bid->gain = bid->n < bid->most ? bid->gain * bid->rate : 0;
    double ns = place == 0 ? bid->share : 0;
    if (bid->drafter >= 0) {
        const int n_seqs = ++drafting->n_seqs[bid->drafter][place];
        double *const at_place = &drafting->ns[bid->drafter][place];
        const double now = costs->draft_ns(costs->draft_ctx, bid->drafter, place, n_seqs);
        ns += now - *at_place;
        *at_place = now;
    }
    return ns;
}

static int best_gain(const struct spec_bid *bids, int n_bids) {
    int best = 0;
    for (int i = 1; i < n_bids; i++)
        if (bids[i].gain > bids[best].gain) best = i;
    return best;
}

static void walk_rows(struct spec_bid *bids, int n_bids, const struct spec_costs *costs,
                      bool is_free, struct walk *out) {
    struct drafting drafting;
    memset(&drafting, 0, sizeof drafting);
    double tokens = costs->tokens, draft_ns = 0;
    int rows = 0;
    for (int i = 0; i < n_bids; i++) {
        struct spec_bid *const bid = &bids[i];
        bid->n = 0;
        bid->gain = bid->rate;
        for (; bid->n < bid->forced; rows++) {
            tokens += bid->gain;
            draft_ns += take(bid, costs, &drafting);
        }
        if (bid->barred || (is_free && bid->drafter >= 0)) bid->gain = 0;
    }
    out->base = rows;
    out->value = -1;
    for (;; rows++) {
        const double ns = costs->verify_ns[rows] + draft_ns;
        const double value = tokens / (ns > 1 ? ns : 1);
        if (rows == out->base) out->plain = value;
        if (value > out->value) {
            out->value = value;
            out->best = rows;
            out->ns = ns;
        }
        if (rows == costs->max_rows || n_bids == 0) break;
        const int best = best_gain(bids, n_bids);
        if (bids[best].gain < GAIN_LEAST) break;
        out->order[rows] = (uint16_t)best;
        tokens += bids[best].gain;
        draft_ns += take(&bids[best], costs, &drafting);
    }
}

// Whether this step is to measure a step without drafts.
static bool is_plain_turn(struct spec_control *control, const struct walk *best,
                          const struct spec_costs *costs) {
    const double loss_ns = costs->verify_ns[0] * (1 - best->plain / best->value);
    control->saved_ns += LOSS_PART * best->ns;
    if (loss_ns <= 0 || control->saved_ns < loss_ns) return false;
    control->saved_ns = 0;
    return true;
}

void spec_choose(struct spec_control *control, struct spec_bid *bids, int n_bids,
                 const struct spec_costs *costs) {
    assert(costs->max_rows >= 0 && costs->max_rows <= SPEC_MAX_ROWS);
    struct walk all, best;
    prepare(bids, n_bids, costs);
    bool takes_time = false;
    for (int i = 0; i < n_bids; i++) takes_time |= bids[i].drafter >= 0;
    walk_rows(bids, n_bids, costs, true, &best);
    if (takes_time) {
        walk_rows(bids, n_bids, costs, false, &all);
        if (all.value > best.value) best = all;
    }
    if (best.base == 0 && best.value < WORTH * best.plain) best.best = 0;
    if (best.base == 0 && best.best > 0 && is_plain_turn(control, &best, costs)) best.best = 0;
    for (int i = 0; i < n_bids; i++) bids[i].n = bids[i].forced;
    for (int row = best.base; row < best.best; row++) bids[best.order[row]].n++;
}
