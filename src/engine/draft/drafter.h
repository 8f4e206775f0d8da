// Drafters propose the next tokens of a sequence, behind one interface. A draft is never trusted:
// the step evaluates it as further rows of the sequence and keeps only the tokens that it would
// have chosen anyway. So a drafter may be wrong, and may be simple. Called by the step's thread
// alone; nothing here allocates after create.
//
//   offer ---> the controller chooses ---> draft (not free ones) ---> run, sample ---> settle
//
// Free drafters find tokens in existing texts; their offer is in place at once. Others take time:
// they only promise, and make the tokens for all sequences of a step together.
#ifndef RN_ENGINE_DRAFT_DRAFTER_H
#define RN_ENGINE_DRAFT_DRAFTER_H

#include "backend/backend.h"
#include "engine/draft/spec_control.h"
#include "engine/draft/suffix.h"
#include "engine/pages/budget.h"
#include "runnel.h"

struct seq;
struct drafter;
struct tokenizer;

// Sources whose acceptance is learned separately: a longer match with the sequence's last tokens is
// a better sign for the tokens that follow.
enum draft_source {
    DRAFT_MODEL,
    DRAFT_LOOKUP_SHORT,  // 2 or 3 tokens agree
    DRAFT_LOOKUP_MIDDLE, // 4 to 7
    DRAFT_LOOKUP_LONG,
    DRAFT_SHARED_SHORT,
    DRAFT_SHARED_MIDDLE,
    DRAFT_SHARED_LONG,
    DRAFT_MTP,
    DRAFT_CUSTOM,
    DRAFT_SHAPE,
    DRAFT_SOURCES // at most SPEC_MAX_SOURCES
};

struct draft_offer {
    int n; // tokens; 0: it has nothing
    enum draft_source source;
    double setup_ns; // spent once, first: a model that has not read the prompt
};

struct draft_job {
    struct seq *seq;
    int n; // tokens wanted; draft() lowers it to the number that it made
};

struct drafter_class {
    rn_drafter id;
    // The drafter's offer for the sequence, at most `most` tokens (at least 1). A free drafter, one
    // without draft(), writes them to out.
    struct draft_offer (*offer)(struct drafter *drafter, struct seq *seq, int most, int32_t *out);
    // Makes the tokens of all jobs, at seq->token + seq->n_token. n becomes 0 for a sequence that
    // needs further steps of setup.
    void (*draft)(struct drafter *drafter, struct draft_job *jobs, int n_jobs);
    // ns that the place-th tokens (from 0) of n_seqs drafts are expected to take together.
    double (*cost_ns)(const struct drafter *drafter, int place, int n_seqs);
    // After the step, for each job whose n was not 0, before anything else happens to the sequence.
    // Its first n_valid tokens are as draft() read them, the rest are not.
    void (*settle)(struct drafter *drafter, struct seq *seq, int n_valid);
    // Hidden rows of the sequence's positions [pos, pos + n), whose tokens stay. Before settle.
    void (*observe)(struct drafter *drafter, struct seq *seq, int pos, int n,
                    const float *const *hidden);
    // The sequence lost its pages or is over: gives up all that is held for it. May be called
    // twice.
    void (*leave)(struct drafter *drafter, struct seq *seq);
    // The sequence is over: its text may serve others.
    void (*learn)(struct drafter *drafter, const struct seq *seq);
    // Texts of sequences that are over are not to be used any more.
    void (*forget)(struct drafter *drafter);
    void (*destroy)(struct drafter *drafter);
};

// Functions that a drafter does not need are NULL: draft, cost_ns and settle of free ones; observe,
// leave, learn, forget.
struct drafter {
    const struct drafter_class *cls; // first member of every drafter's own struct
};

// The draft room's data of a sequence, from submit on; see seq.h.
struct seq_draft {
    struct suffix_index own; // of its tokens, for lookup
    // the draft that this step verifies
    rn_drafter drafter;
    enum draft_source source;
    // the first tokens that free drafters had for the current position, verified or not: their
    // acceptance is seen either way. Valid where the step's work has a guess
    struct {
        int32_t token; // -1: none
        enum draft_source source;
    } guess[RN_DRAFTER_COUNT];
    struct spec_rates rates;    // how often its drafts were accepted
    int slot[RN_DRAFTER_COUNT]; // of the drafters "model" and "mtp"; -1: none
};

// The length of the text that agrees decides the source: first is DRAFT_LOOKUP_SHORT or
// DRAFT_SHARED_SHORT.
static inline enum draft_source draft_source_of(enum draft_source first, int length) {
    return (enum draft_source)((int)first + (length >= 8) + (length >= 4));
}

// --- the drafters ---

rn_status drafter_lookup_create(struct drafter **out, rn_error *err);

// max_tokens of recent texts are kept.
rn_status drafter_shared_create(int max_tokens, struct drafter **out, rn_error *err);

// The shape's of each sequence.
struct choice_scratch;
rn_status drafter_shape_create(const struct tokenizer *tokenizer, struct choice_scratch *scratch,
                               struct drafter **out, rn_error *err);

// The program's own.
rn_status drafter_custom_create(rn_draft_fn fn, void *ctx, int n_vocab, struct drafter **out,
                                rn_error *err);

struct model;

struct backend_place;

struct drafter_model_config {
    const struct model *model;
    const struct tokenizer *tokenizer, *target_tokenizer;
    const struct backend_place *place; // where it runs
    const char *variant;               // of the backend's kernels; NULL: the best
    struct pool *pool;                 // the engine's
    int n_ctx, max_seqs, batch_tokens; // the engine's
    uint64_t kv_bytes;                 // at least one context's
    struct choice_scratch *scratch;    // the engine's, one for each thread
    uint64_t (*now)(void *ctx);        // the engine's clock
    void *now_ctx;
};
// The plan's draft block, on the backend that runs the model.
struct drafter_block_config {
    const struct plan *plan;
    const struct tokenizer *tokenizer;
    struct backend *backend;
    struct kv *kv; // the model's pages; for a block that reads them
    struct pool *pool;
    int n_ctx, max_seqs, batch_tokens;
    uint64_t page_bytes,
        kv_bytes; // of a page of the block's group; of all. 0: it reads the model's
    struct choice_scratch *scratch;
    uint64_t (*now)(void *ctx);
    void *now_ctx;
};
enum { DRAFTER_TAIL = BUDGET_HIDDEN_ROWS }; // it keeps the last ones of a sequence
rn_status drafter_block_create(const struct drafter_block_config *config, struct drafter **out,
                               rn_error *err);
// The same where the block reads the model's keys and values.
rn_status drafter_reader_create(const struct drafter_block_config *config, struct drafter **out,
                                rn_error *err);

// Its costs are measured before it returns. RN_ERR_MODEL: its vocabulary is another one.
rn_status drafter_model_create(const struct drafter_model_config *config, struct drafter **out,
                               rn_error *err);
// Whether both have the same tokens; RN_ERR_MODEL names the first that differs.
rn_status drafter_model_check(const struct tokenizer *draft, const struct tokenizer *target,
                              rn_error *err);

#endif
