// The drafters "model" and "mtp" inside: drafter_model.c owns their life, the slots of sequences
// and their pages, drafter_model_round.c makes the drafts of a step, drafter_model_vocab.c compares
// vocabularies. drafter_block.c has the parts that only "mtp" needs.
//
// A draft model reads the tokens of a sequence. A draft block belongs to the model, and runs on its
// backend. Its row at position p takes the token at p + 1 and the model's hidden state at p; behind
// the known tokens it takes its own hidden state. Only the last hidden rows of a sequence are kept
// (DRAFTER_TAIL), so the block may begin in the middle of a text: positions of its table are
// counted from `base` on.
//
// Invariants between calls:
//  1. a slot with a sequence is the slot that the sequence's draft names; others hold no page.
//  2. a slot's table has the positions [base, base + n_done) of its sequence; base is 0 for a
//  model.
//     Between draft and settle, where the table is marked, it has n_tried more, of drafted tokens.
//  3. there are as many slots as sequences may run, so that one is free for each.
#ifndef RN_ENGINE_DRAFT_DRAFTER_MODEL_H
#define RN_ENGINE_DRAFT_DRAFTER_MODEL_H

#include "engine/draft/drafting.h"
#include "engine/price/price.h"
#include "model/model.h"

// Tokens that a slot may be behind its sequence and still follow it: a verified draft leaves that
// many.
enum { DRAFTER_FEW = 4 };

struct drafter_slot {
    struct seq *seq; // NULL: free
    struct kv_table table;
    int n_done;
    int n_tried;   // positions of drafted tokens
    uint64_t used; // the clock when it was last drafted for
    // of a block:
    int base;
    int first, n_hidden; // the positions whose hidden rows are kept
    float *hidden;       // [DRAFTER_TAIL, n_embd] position p at p % DRAFTER_TAIL
};

// One sequence in a round.
struct drafter_part {
    struct drafting text;
    struct drafter_slot *slot;
    int n_rows;          // known tokens that are read
    const float *hidden; // of a block: its own, at the last row
};

struct drafter_model {
    struct drafter base;
    const struct plan *plan;
    const struct tokenizer *target_tokenizer;
    struct pool *pool; // the engine's
    struct backend *backend;
    struct step_result result; // of the last run
    bool is_broken;            // a run failed: nothing is drafted any more
    struct kv *kv;
    struct choice_scratch *scratch; // [threads] the engine's
    int n_vocab, n_target;          // tokens of both
    int n_ctx, max_seqs, batch_tokens;
    uint64_t (*now)(void *ctx);
    void *now_ctx;

    struct drafter_slot *slot; // [max_seqs]
    uint64_t clock;            // offers so far
    struct cost_rates rates;   // of the plan
    struct price price;        // of its steps, in shapes without attention: see drafting_shape

    // of a round
    struct drafter_part *part;    // [max_seqs]
    struct drafter_part **active; // [max_seqs] in the order of their rows of logits
    int n_part, n_active;
    struct batch_builder builder;
    struct choice *choice; // [max_seqs]

    // of a block:
    bool is_block;
    int n_embd;
    float *hidden;       // of all slots
    const float **input; // [batch_tokens]
};

// The sequence's slot, a new one if need be, which starts with the cached prefix. NULL: all are in
// use.
struct drafter_slot *drafter_slot_of(struct drafter_model *d, struct seq *seq);
// Gives up all that is held for the slot's sequence.
void drafter_slot_free(struct drafter_model *d, struct drafter_slot *slot);
// Whether n positions can be grown after the done ones, or behind the draft so far; slots unused
// for long are given up for it.
bool drafter_slot_room(struct drafter_model *d, const struct drafter_slot *slot, int n);

// The positions that the slot's table is behind the known tokens.
static inline int drafter_slot_behind(const struct drafter_model *d,
                                      const struct drafter_slot *slot) {
    return slot->seq->n_token - d->is_block - slot->base - slot->n_done;
}

void drafter_model_draft(struct drafter *drafter, struct draft_job *jobs, int n_jobs);

// drafter_model.c: the rest of a drafter that has its plan, backend and pages; measures its costs.
rn_status drafter_model_finish(struct drafter_model *d, rn_error *err);
extern const struct drafter_class drafter_model_class, drafter_block_class;

// drafter_block.c: the class's observe.
void drafter_block_observe(struct drafter *drafter, struct seq *seq, int pos, int n,
                           const float *const *hidden);
// Whether the slot has the hidden rows for the tokens that it is behind. It starts
// again where it has lost some.
bool drafter_block_ready(struct drafter_model *d, struct drafter_slot *slot);
// The rows of the batch's last sequence are those of the slot's positions from first_pos on.
void drafter_block_rows(struct drafter_model *d, const struct drafter_part *part, int first_pos,
                        int n);

#endif
