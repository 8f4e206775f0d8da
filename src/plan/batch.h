// One step's work as the backends see it: tokens of n sequences, where their KV pages are, which
// rows need logits. Prefill, decode and verification differ only in these numbers.
//
// Invariants: a sequence's tokens are consecutive rows at consecutive positions; position p sits in
// slot p % KV_PAGE_TOKENS of page_table[p / KV_PAGE_TOKENS]; every page of a position below
// first_pos + n_tokens is in the table.
#ifndef RN_PLAN_BATCH_H
#define RN_PLAN_BATCH_H

#include "plan/plan.h"

enum { KV_PAGE_TOKENS = 32 };

struct batch_seq {
    int first_row, n_tokens;                        // rows of the batch
    int first_pos;                                  // position of the first of them
    int first_logit, n_logits;                      // its part of logit_row
    const uint32_t *page_table[PLAN_MAX_KV_GROUPS]; // page ids, by position / KV_PAGE_TOKENS
};

struct batch {
    int n_tokens, n_seqs, n_logits;
    const int32_t *token;        // [n_tokens]
    const int32_t *pos;          // [n_tokens]
    const int32_t *logit_row;    // [n_logits] rows whose logits are wanted, ascending
    const struct batch_seq *seq; // [n_seqs]
};

#endif
