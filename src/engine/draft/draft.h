// The door of the draft room: the drafters that are on, their costs, and how their drafts become
// rows. engine_step alone calls it, in this order:
//
//   draft_propose   after the schedule gave every stream its token and prompts theirs. Drafts take
//                   the rows and pages that are left.
//   draft_settle    after the choice, for each sequence, before its tokens are published.
//
// Two notifications are sent where the event happens: draft_leave where a sequence loses its pages
// or ends, draft_forget where prefixes are forgotten.
//
// Invariants: a draft is at seq->token + n_token, from draft_propose to draft_settle; in between
// its sequence's table is marked, and the work's n_draft is its length.
#ifndef RN_ENGINE_DRAFT_DRAFT_H
#define RN_ENGINE_DRAFT_DRAFT_H

#include "engine/draft/drafter.h"
#include "engine/price/price.h"
#include "engine/request/work.h"

struct draft_config {
    unsigned drafters;         // the wanted drafters: bits 1 << rn_drafter; 0: speculation is off
    const struct model *model; // the draft's; NULL: none
    const struct tokenizer *tokenizer;
    rn_draft_fn fn; // NULL: none
    void *ctx;
    int draft_max, draft_min; // as in rn_engine_options
    bool is_auto;             // drafters that cannot be had are left out
};

// The parts of the engine that drafts use. They outlive the draft room.
struct draft_host {
    const struct plan *plan;
    const struct tokenizer *tokenizer;
    struct price *price; // of all steps, taught by the step; the calibration starts it
    struct kv *kv;
    struct backend *backend; // the calibration runs on it, before the first step
    struct batch_builder *builder;
    const struct backend_place *place, *draft_place;
    const char *variant; // of the kernels at `place`
    struct pool *pool;
    struct choice_scratch *scratch; // one for each thread
    int n_ctx, max_seqs, batch_tokens, logit_rows;
    uint64_t itl_ns;            // bound of a step while streams run; UINT64_MAX: none
    uint64_t draft_kv_bytes;    // for the pages of a draft model
    bool has_block;             // the plan's draft block can run
    uint64_t block_kv_bytes;    // for its pages; 0: it has none of its own
    uint64_t block_page_bytes;  // of one of them
    uint64_t (*now)(void *ctx); // ns
    void *now_ctx;
};

struct draft {
    struct draft_host host;
    struct drafter *drafter[RN_DRAFTER_COUNT]; // NULL: off
    struct spec_control control;
    int draft_max, draft_min;
    int max_rows; // of drafts, in a step
    char names[64];
    // --- of the current step ---
    struct spec_bid *bid;     // [max_seqs]
    struct seq_work **bidder; // [max_seqs] the works that the bids belong to
    struct draft_job *job;    // [max_seqs]
    int n_bid;
    double verify_ns[SPEC_MAX_ROWS + 1];
};

const char *draft_name(rn_drafter drafter); // rn_drafter_text

// The options, with defaults filled in; RN_ERR_ARG names the option that is out of range.
rn_status draft_check(struct draft_config *config, rn_error *err);
// Rows of drafts that a step of max_seqs sequences may have; 0: off.
int draft_rows(const struct draft_config *config, int max_seqs);

// Makes the drafters and measures costs.
rn_status draft_create(const struct draft_host *host, const struct draft_config *config,
                       struct draft **out, rn_error *err);
void draft_destroy(struct draft *draft); // NULL is fine

// Makes and frees the draft room's data of a sequence; its ctx is the struct draft.
extern const struct seq_draft_class draft_seq_class;

// --- the step; all of these do nothing where draft is NULL: speculation is off ---

// A step between its schedule and its batch.
struct draft_step {
    struct seq_work *work; // [n_work] drafts are added to them
    int n_work;
    struct batch_shape *shape; // of the works
};

// Returns the part of the rest of the step, without drafting, that it would take without drafts.
double draft_propose(struct draft *draft, const struct draft_step *step);
// Of the work's rows before its out rows, how many want their hidden state: the last ones.
int draft_hidden_rows(const struct draft *draft, const struct seq_work *work);
// The work's hidden rows, before draft_settle. hidden: the step's result.
void draft_observe(struct draft *draft, const struct seq_work *work, const float *const *hidden);
// The work's rows are evaluated, and its sequence's n_done includes all of them. Takes refused
// positions back from n_done, sets n_again, and learns acceptance. chosen: the first chosen token,
// where n_pick is not 0.
void draft_settle(struct draft *draft, const struct seq_work *work, int32_t chosen);

// --- notifications ---

// The sequence loses its pages, or is over.
void draft_leave(struct draft *draft, struct seq *seq, bool is_over);
// Texts of requests that are over are forgotten.
void draft_forget(struct draft *draft);

#endif
