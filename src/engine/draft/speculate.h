// Speculation in the step: the drafters that are on, what they cost, and how their drafts become
// rows. build_batch calls engine_speculate after the schedule gave every stream its token and
// prompts theirs: drafts take what is left, of rows and of pages. publish settles each draft.
//
// Invariants: a draft is at seq->token + n_token, from engine_speculate to engine_draft_settle; in
// between its sequence's table is marked, and the work's n_draft is its length.
#ifndef RN_ENGINE_DRAFT_SPECULATE_H
#define RN_ENGINE_DRAFT_SPECULATE_H

#include "engine/draft/drafter.h"
#include "engine/price/pace.h"

enum { SPEC_BIAS_ROWS = 160 };

struct engine;
struct flight;
struct work;

struct speculation_config {
    unsigned drafters;         // that are wanted: bits 1 << rn_drafter; 0: speculation is off
    const struct model *model; // the draft's; NULL: none
    const struct tokenizer *tokenizer;
    rn_draft_fn fn; // NULL: none
    void *ctx;
    int draft_max, draft_min; // as in rn_engine_options
};

struct speculation {
    struct drafter *drafter[RN_DRAFTER_COUNT]; // NULL: off
    struct spec_control control;
    struct pace pace; // of steps without prompts: every row has logits
    int draft_max, draft_min;
    int max_rows; // of drafts, in a step
    // What was predicted is corrected by what came: a percent decides whether drafts pay. Times by
    // the number of rows of the step, drafting, and the tokens of each source's drafts. The machine
    // becomes faster and slower in everything, and steps of few kinds are seen at a time: how fast
    // it is now is a factor of its own, and the rest is what it would be without.
    double speed;               // ns over those of the machine as it was first
    float bias[SPEC_BIAS_ROWS]; // 0: nothing came yet
    double draft_bias;
    struct {
        double expected, came;
    } luck[DRAFT_SOURCES];
    char names[64];
    int declined, unasked, last_streams; // steps in a row; streams of the last step
    // --- of the step at hand ---
    struct spec_bid *bid;  // [max_seqs]
    struct work **bidder;  // [max_seqs] whose they are
    struct draft_job *job; // [max_seqs]
    int n_bid;
    double verify_ns[SPEC_MAX_ROWS + 1];
};

const char *speculation_name(rn_drafter drafter); // rn_drafter_text

// The options, with defaults filled in; RN_ERR_ARG names what is out of range.
rn_status speculation_check(struct speculation_config *config, rn_error *err);
// Rows of drafts that a step of so many sequences may have; 0: off.
int speculation_rows(const struct speculation_config *config, int max_seqs);

// The drafters are made and costs measured: the engine's parts are there.
rn_status speculation_create(struct engine *engine, const struct speculation_config *config,
                             const char *variant, rn_error *err);
void speculation_destroy(struct speculation *spec); // NULL is fine

// --- parts of the step; all of them do nothing where speculation is off ---

void engine_speculate(struct engine *engine);
// After the choice, before the tokens are published: what stays of the table's positions, and what
// is learned. The sequence's n_done and n_again are set.
void engine_draft_settle(struct engine *engine, struct work *work);
// The step took so long, drafting included.
void engine_draft_learn(struct engine *engine, const struct flight *flight, uint64_t ns);
// Texts of requests that are over are forgotten.
void engine_draft_forget(struct engine *engine);
// The sequence loses its pages, or is over.
void engine_draft_leave(struct engine *engine, struct seq *seq, bool is_over);

#endif
