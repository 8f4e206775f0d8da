// Decides how many tokens are drafted: for each sequence of a step as many, none included, as make
// the most tokens per second of the whole batch. Plain arithmetic over costs and rates that are
// given to it: it measures nothing, knows no drafter, and is told what came of its choices.
//
// Expected tokens of a sequence with k drafted: 1 + a + a^2 + ... + a^k, with a the rate at which
// its source's tokens are accepted. Cost of a step: that of verifying the rows, and of drafting.
//
// Two kinds of steps are taken against the choice, to know what it cannot see: a PLAIN one verifies
// nothing though drafts would pay, so that the cost of a step without drafts stays measured; a
// PROBE drafts a token though none would pay, so that a rate that was bad once may be found better.
// What both are expected to lose is kept below a small part of all time, and so is what is lost by
// drafts of a source that nothing is known of yet.
#ifndef RN_ENGINE_DRAFT_SPEC_CONTROL_H
#define RN_ENGINE_DRAFT_SPEC_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

enum { SPEC_MAX_SOURCES = 8, SPEC_MAX_DRAFTERS = 4, SPEC_MAX_DRAFT = 31, SPEC_MAX_ROWS = 64 };

// Of one source: tokens that were looked at up to the first that was refused, and accepted ones;
// older ones count less.
struct spec_rate {
    float tried, accepted;
    uint32_t step; // the last one that counted, modulo 2^32
};
struct spec_rates { // of a sequence; zeroed: nothing is known
    struct spec_rate rate[SPEC_MAX_SOURCES];
    struct spec_rate lately[SPEC_MAX_SOURCES]; // forgets soon: a text changes
};

// What one sequence could draft in this step.
struct spec_bid {
    int most;        // tokens
    int least;       // that are to be drafted whatever is expected; 0: it is free to choose
    int drafter;     // index of its costs; -1: free
    int source;      // whose rate it is
    double setup_ns; // this sequence's, once, if it drafts at all
    int left;        // tokens that may still come, which share the setup; 0: this step bears it
    double rate;     // that a token after accepted ones is accepted; spec_rate_of
    double luck;     // tokens that came of drafts of its source, over those expected; 0: 1
    int n;           // the choice
    // the rest is the controller's own, for one choice
    bool barred;  // nothing is drafted for it
    int forced;   // tokens
    double gain;  // expected tokens of one more in its draft
    double share; // ns of the setup that this step bears
};

// What the step costs.
struct spec_costs {
    const double *verify_ns; // [max_rows + 1] the whole step with so many rows of drafts
    int max_rows;            // rows of drafts that the step has room for, up to SPEC_MAX_ROWS
    double tokens; // that the step brings without drafts: one for each stream, and a prompt's rows
    // ns of the place-th tokens (from 0) of n_seqs drafts together
    double (*draft_ns)(void *ctx, int drafter, int place, int n_seqs);
    void *draft_ctx;
};

enum spec_turn { SPEC_CHOSEN, SPEC_PLAIN, SPEC_PROBE };

struct spec_control {
    struct spec_rate all[SPEC_MAX_SOURCES]; // of all sequences: what a new one is expected to have
    double prior[SPEC_MAX_SOURCES];         // before anything is known
    // the rest is the controller's own
    double spent_ns;     // all steps
    double allowance_ns; // that may be lost by knowing better; less than 0: was lost in advance
    uint64_t steps;
    bool has_chosen;                                   // since the last step was learned
    uint64_t last_plain, last_draft[SPEC_MAX_SOURCES]; // steps
    double last_plain_ns;                              // spent_ns at the last plain step
    uint32_t gap[SPEC_MAX_SOURCES]; // steps without a draft after which a source is probed
    // what is at risk in this step: sources, and ns that an accepted token gives back
    uint32_t risked;
    double token_ns;
    int probed; // the source of this step's probe; -1: none
    // the last free choice: rows, and what it was made for
    int last_rows, last_bids;
    double last_rates, last_tokens;
    int leaning; // choices in a row for which more (> 0) or fewer rows would have been better
};

// prior: the rate that is expected of each source before it was tried.
void spec_control_init(struct spec_control *control, const double *prior);

// The rate to expect of a source for a sequence: its own, leaning on that of all while little is
// known of it.
double spec_rate_of(const struct spec_control *control, const struct spec_rates *rates, int source);

// Fills bids[].n. Tokens per second of the batch are the most that the costs allow, but for PLAIN
// and PROBE, and for choices so close to the last one that the difference is not worth a change.
enum spec_turn spec_choose(struct spec_control *control, struct spec_bid *bids, int n_bids,
                           const struct spec_costs *costs);

// What came of it: of `tried` drafted tokens (those up to the first that was refused, with it)
// `accepted` were.
void spec_learn(struct spec_control *control, struct spec_rates *rates, int source, int tried,
                int accepted);
// The end of a step, of one in which nothing was chosen too: its time, drafting included.
void spec_learn_step(struct spec_control *control, double ns);

#endif
