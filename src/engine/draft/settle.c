// The outcome of a step's drafts: positions of refused tokens are taken back, acceptance is
// learned, and drafters are told of sequences that leave. See draft.h.
#include "engine/draft/draft.h"

// Guesses that were not verified are compared with the chosen token.
static void learn_guesses(struct draft *draft, const struct seq_work *work, int32_t chosen) {
    struct seq_draft *seq = work->seq->draft;
    if (!work->has_guess || work->n_pick == 0) return;
    for (int id = 0; id < RN_DRAFTER_COUNT; id++) {
        const int32_t token = seq->guess[id].token;
        if (token < 0 || (work->n_draft > 0 && id == (int)work->drafter)) continue;
        spec_learn(&draft->control, &seq->rates, (int)seq->guess[id].source, 1, token == chosen);
    }
}

int draft_hidden_rows(const struct draft *draft, const struct seq_work *work) {
    if (!draft || !draft->drafter[RN_DRAFTER_MTP] || !work->seq->draft || work->seq->pooling)
        return 0;
    if (plan_block_reads(draft->host.plan)) return 0; // the last out row is all that it wants
    // the last DRAFTER_TAIL of the known positions
    const int first = seq_known(work->seq) - DRAFTER_TAIL - work->first_pos;
    const int n = work->n_tokens - work->n_out - (first > 0 ? first : 0);
    return n > 0 ? n : 0;
}

void draft_observe(struct draft *draft, const struct seq_work *work, const float *const *hidden) {
    struct drafter *drafter = draft ? draft->drafter[RN_DRAFTER_MTP] : NULL;
    struct seq *seq = work->seq;
    if (!drafter || !seq->draft || seq->pooling) return;
    const int refused = work->n_draft - work->n_accepted;
    const int pos = work->first_pos + work->n_tokens - work->n_out;
    if (work->n_hidden > 0)
        drafter->cls->observe(drafter, seq, pos - work->n_hidden, work->n_hidden,
                              hidden + work->first_hidden);
    if (work->n_out > refused)
        drafter->cls->observe(drafter, seq, pos, work->n_out - refused, hidden + work->first_out);
}

void draft_settle(struct draft *draft, const struct seq_work *work, int32_t chosen) {
    struct seq *seq = work->seq;
    if (!draft || !seq->draft) return;
    learn_guesses(draft, work, chosen);
    if (work->n_draft == 0) return;
    struct drafter *drafter = draft->drafter[work->drafter];
    const int n_all = seq->n_done, n_kept = n_all - work->n_draft + work->n_accepted;
    const bool refused = work->n_accepted < work->n_verified && work->n_pick > work->n_accepted;
    spec_learn(&draft->control, &seq->draft->rates, (int)seq->draft->source,
               work->n_accepted + refused, work->n_accepted);
    if (drafter->cls->settle) drafter->cls->settle(drafter, seq, n_kept);
    seq->n_done = kv_settle(draft->host.kv, &seq->table, n_kept, n_all);
    seq->n_again = n_kept - seq->n_done;
}

void draft_leave(struct draft *draft, struct seq *seq, bool is_over) {
    if (!draft || !seq->draft) return;
    for (int id = 0; id < RN_DRAFTER_COUNT; id++) {
        struct drafter *drafter = draft->drafter[id];
        if (!drafter) continue;
        if (drafter->cls->leave) drafter->cls->leave(drafter, seq);
        if (is_over && drafter->cls->learn && seq->n_token > seq->n_prompt)
            drafter->cls->learn(drafter, seq);
    }
}

void draft_forget(struct draft *draft) {
    for (int id = 0; draft && id < RN_DRAFTER_COUNT; id++) {
        struct drafter *drafter = draft->drafter[id];
        if (drafter && drafter->cls->forget) drafter->cls->forget(drafter);
    }
}
