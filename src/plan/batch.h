// One step's work as the backends see it: tokens of n sequences, where their KV pages are, which
// rows' results are wanted, and how a token is chosen from each row of logits. Prefill, decode and
// verification differ only in these numbers.
//
// Invariants: a sequence's tokens are consecutive rows at consecutive positions; position p belongs
// to block p / KV_PAGE_TOKENS, whose page is page_table[group][block]. In the table is every page
// that a row of the batch writes or can see: full and windowed groups keep position p in slot p %
// KV_PAGE_TOKENS; of a recurrent group a row at p reads the page of p - 1 (0: zeros) and leaves the
// state in that of p. Neighbouring blocks of a recurrent group may name the same page, which the
// state then moves through in place. A page of it that was never cleared may hold anything: the
// state of every layer is written whole. Other entries may be UINT32_MAX and are never read.
// n_logits <= n_out <= n_tokens. A page that is written is in no other sequence's table.
//
// Every batch is built by batch_begin and batch_add, which establish the order of rows. The pages
// are those of the caller's table (engine/pages/kv.h).
#ifndef RN_PLAN_BATCH_H
#define RN_PLAN_BATCH_H

#include "plan/choice.h"
#include "plan/plan.h"

#define BATCH_ZERO UINT32_MAX // as batch_page.from: there is nothing to copy

// As a token: the one that logit row `row` of the step before chooses, which is in flight.
#define BATCH_OF_ROW(row)   (-1 - (row))
#define BATCH_ROW_OF(token) (-1 - (token))

struct batch_seq {
    int first_row, n_tokens;                        // rows of the batch
    int first_pos;                                  // position of the first of them
    int first_out, n_out;                           // its part of out_row
    const uint32_t *page_table[PLAN_MAX_KV_GROUPS]; // page ids, by position / KV_PAGE_TOKENS
    // The page of a recurrent group that has the state before the first row, where the table does
    // not name it: BATCH_ZERO where it does
    uint32_t state_from[PLAN_MAX_KV_GROUPS];
    // Pages that also get the state behind the first n_snapshot rows, which are in one block. 0:
    // none does; else each recurrent group has one
    uint32_t snapshot[PLAN_MAX_KV_GROUPS];
    int n_snapshot;
};

// What a page holds before the rows run: zeros, or what another page of its group holds.
struct batch_page {
    int group;
    uint32_t page, from; // from: a page, not `page` itself; BATCH_ZERO: zeros
};

struct batch {
    int n_tokens, n_seqs, n_out, n_logits;
    const int32_t *token; // [n_tokens] ids, or BATCH_OF_ROW
    const int32_t *pos;   // [n_tokens]
    // [n_out] rows whose last hidden state is wanted, ascending inside a sequence; the first
    // n_logits of them want logits
    const int32_t *out_row;
    const struct batch_seq *seq;   // [n_seqs]
    int n_pages;                   // may be more than 0 without any row
    const struct batch_page *page; // [n_pages] done in order, before anything else
    const struct choice *choice;   // [n_logits] NULL: nothing is chosen, all logits are wanted
    bool is_draft;                 // runs the plan's draft block instead of the model
    const float *const *input;     // [n_tokens] rows for its op INPUT; NULL without is_draft
};

// A batch and the arrays that it points to. Owned by the caller, for one batch after the other.
struct batch_builder {
    struct batch batch;
    int32_t *token, *pos;  // [max_tokens]
    int32_t *out_row;      // [max_out]
    struct batch_seq *seq; // [max_seqs]
    int n_group, max_tokens, max_out, max_seqs;
    int first_group; // the plan's number of the first of them; 0 unless it is set
};

rn_status batch_builder_init(struct batch_builder *builder, int n_group, int max_tokens,
                             int max_out, int max_seqs, rn_error *err);
void batch_builder_deinit(struct batch_builder *builder); // zeroed is fine

// The next tokens of a sequence.
struct batch_rows {
    uint32_t *const *page_table; // [n_group]
    const uint32_t *state_from;  // [n_group] as in batch_seq; NULL: none
    const uint32_t *snapshot;    // [n_group] the same
    int n_snapshot;              // 0 without
    int first_pos, n_tokens;     // n_tokens > 0
    const int32_t *token;        // [n_tokens] NULL: zeros, which the caller may replace
    int32_t last;     // BATCH_OF_ROW: it replaces the last token, which is not read; 0: none does
    int n_out;        // rows whose last hidden state is wanted: the last ones
    bool hidden_only; // they want no logits. No rows that want logits may follow
};

// An empty batch; choice as in struct batch.
void batch_begin(struct batch_builder *builder, const struct choice *choice);
// Appends a sequence; returns its index in batch.seq.
int batch_add(struct batch_builder *builder, const struct batch_rows *rows);
// Rows [first, first + n) of a sequence that was added want their hidden state, and no logits; they
// are not among its out rows. Called behind the last batch_add. Returns the first one's place in
// out_row.
int batch_add_hidden(struct batch_builder *builder, int seq, int first, int n);

#endif
