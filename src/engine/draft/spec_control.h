// Decides how many tokens are drafted for each sequence of a step, possibly none: the numbers that
// give the whole batch the most tokens per second. Plain arithmetic over given costs and rates: it
// measures nothing, knows no drafter, and is told the outcome of its choices.
//
// Expected tokens of a sequence with k drafted: 1 + a + a^2 + ... + a^k, with a the rate at which
// its source's tokens are accepted. Cost of a step: that of verifying the rows, and of drafting.
//
// A few steps are taken without drafts though drafts would pay: nothing else measures such a step
// while texts are drafted, and its price decides. These steps may lose half a percent of the time.
// No draft is tried against the choice. A rate without news for long is forgotten, and an unknown
// source is assumed to be fairly good: so a source that was bad once is tried again. Prices that
// are old fall (price.h), so the same holds for costs.
#ifndef RN_ENGINE_DRAFT_SPEC_CONTROL_H
#define RN_ENGINE_DRAFT_SPEC_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

enum { SPEC_MAX_SOURCES = 10, SPEC_MAX_DRAFTERS = 6, SPEC_MAX_DRAFT = 31, SPEC_MAX_ROWS = 64 };

// Of one source: tokens tried, up to and with the first refused one, and accepted ones; older ones
// weigh less.
struct spec_rate {
    float tried, accepted;
    uint32_t step; // of the last token, modulo 2^32
};
struct spec_rates { // of a sequence; zeroed: nothing is known
    struct spec_rate rate[SPEC_MAX_SOURCES];
};

// The draft that one sequence could have in this step.
struct spec_bid {
    int most;        // tokens
    int least;       // drafted in any case; 0: the controller chooses
    int drafter;     // index of its costs; -1: free
    int source;      // the source of `rate`
    double setup_ns; // this sequence's, once, if it drafts at all
    int left;        // tokens that may still come, which share the setup; 0: this step bears it
    double rate;     // probability that a token after accepted ones is accepted; spec_rate_of
    int n;           // the choice
    // the rest is the controller's own, for one choice
    bool barred;  // nothing is drafted for it
    int forced;   // tokens
    double gain;  // expected tokens of one more in its draft
    double share; // ns of the setup that this step bears
};

// The costs of the step.
struct spec_costs {
    const double *verify_ns; // [max_rows + 1] the whole step with N rows of drafts
    int max_rows;            // rows of drafts that the step has room for, up to SPEC_MAX_ROWS
    double tokens; // tokens of the step without drafts: one for each stream, and a prompt's rows
    // ns of the place-th tokens (from 0) of n_seqs drafts together
    double (*draft_ns)(void *ctx, int drafter, int place, int n_seqs);
    void *draft_ctx;
};

struct spec_control {                       // zeroed: nothing is known
    struct spec_rate all[SPEC_MAX_SOURCES]; // of all sequences: the rate that a new one starts from
    uint32_t steps;                         // modulo 2^32
    double saved_ns;                        // time that a step without drafts may lose
};

// The expected rate of a source for a sequence: its own, blended with the rate of all sequences
// while its own is little known.
double spec_rate_of(const struct spec_control *control, const struct spec_rates *rates, int source);

// ns of a setup that one step bears.
double spec_setup_share(double setup_ns, int left);

// Whether any drafts could gain enough: free ones, of which the most that can be expected is
// accepted. False: spec_choose takes none, whatever the bids are, unless some are forced.
bool spec_may_pay(const struct spec_costs *costs);

// Fills bids[].n with the lengths that give the most tokens per second. All are 0 where the gain
// over no drafts is below 10%, because costs and rates are not known better. All are also 0 in the
// few steps that measure a step without drafts.
void spec_choose(struct spec_control *control, struct spec_bid *bids, int n_bids,
                 const struct spec_costs *costs);

// Of `tried` drafted tokens (up to and with the first refused one) `accepted` were accepted.
void spec_learn(struct spec_control *control, struct spec_rates *rates, int source, int tried,
                int accepted);
void spec_step_begin(struct spec_control *control); // at every step, also one without bids

#endif
