// One step's work as the backends see it: tokens of n sequences, where their KV pages are, which
// rows' results are wanted, and how a token is chosen from each row of logits. Prefill, decode and
// verification differ only in these numbers.
//
// Invariants: a sequence's tokens are consecutive rows at consecutive positions; position p belongs
// to block p / KV_PAGE_TOKENS, whose page is page_table[group][block]. In the table is every page
// that a row of the batch writes or can see: full and windowed groups keep position p in slot p %
// KV_PAGE_TOKENS; of a recurrent group a row at p reads the page of p - 1 (0: zeros) and leaves the
// state in that of p. Other entries may be UINT32_MAX and are never read. n_logits <= n_out <=
// n_tokens. A page that is written is in no other sequence's table.
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
};

#endif
