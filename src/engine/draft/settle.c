// What came of the drafts of a step: positions of refused tokens are taken back, acceptance and
// times are learned, and drafters are told of sequences that leave. See draft.h.
#include "engine/draft/draft.h"

#define LUCK_KEEP  0.99 // of earlier drafts, with each draft
#define SEEN_SHARE 0.06 // of a new measurement
#define SEEN_LEAST 0.7  // bounds of a new measurement, as factors of the old value
#define SEEN_MOST  1.3

// Guesses that were not verified are compared with the chosen token.
static void learn_guesses(struct draft *draft, const struct seq_work *work, int32_t chosen) {
    struct seq_draft *seq = work->seq->draft;
    if (work->n_pick == 0) return;
    for (int id = 0; id < RN_DRAFTER_COUNT; id++) {
        const int32_t token = seq->guess[id].token;
        seq->guess[id].token = -1;
        if (token < 0 || (work->n_draft > 0 && id == (int)work->drafter)) continue;
        spec_learn(&draft->control, &seq->rates, (int)seq->guess[id].source, 1, token == chosen);
    }
}

static void learn_luck(struct draft *draft, const struct seq_draft *seq, int came) {
    draft->luck[seq->source].expected *= LUCK_KEEP;
    draft->luck[seq->source].came *= LUCK_KEEP;
    draft->luck[seq->source].expected += seq->expected;
    draft->luck[seq->source].came += came;
}

void draft_settle(struct draft *draft, const struct seq_work *work, int32_t chosen) {
    struct seq *seq = work->seq;
    if (!draft || !seq->draft) return;
    learn_guesses(draft, work, chosen);
    if (work->n_draft == 0) return;
    struct drafter *drafter = draft->drafter[work->drafter];
    const int n_all = seq->n_done, n_kept = n_all - work->n_draft + work->n_accepted;
    const bool refused = work->n_accepted < work->n_draft && work->n_pick > work->n_accepted;
    spec_learn(&draft->control, &seq->draft->rates, (int)seq->draft->source,
               work->n_accepted + refused, work->n_accepted);
    learn_luck(draft, seq->draft, work->n_accepted);
    if (drafter->cls->settle) drafter->cls->settle(drafter, seq, n_kept);
    seq->n_done = kv_settle(draft->host.kv, &seq->table, n_kept, n_all);
    seq->n_again = n_kept - seq->n_done;
}

static double corrected(double was, double seen) {
    if (was <= 0) was = 1; // one measurement alone is not believed
    const double least = was * SEEN_LEAST, most = was * SEEN_MOST;
    return was + SEEN_SHARE * ((seen < least ? least : seen > most ? most : seen) - was);
}

// A step without prompts, ns without drafting.
static void learn_verify(struct draft *draft, const struct batch_shape *shape, uint64_t ns) {
    const uint64_t predicted = pace_predict(&draft->pace, shape);
    if (predicted > 0 && shape->n_tokens < DRAFT_BIAS_ROWS) {
        float *bias = &draft->bias[shape->n_tokens];
        *bias = (float)corrected((double)*bias, (double)ns / (double)predicted);
    }
    pace_learn(&draft->pace, shape, ns);
}

void draft_learn(struct draft *draft, const struct batch_shape *shape,
                 const struct draft_bill *bill, uint64_t ns, uint64_t draft_ns) {
    if (!draft) return;
    if (shape->n_tokens == shape->n_logits) learn_verify(draft, shape, ns - draft_ns);
    if (bill->expected_ns > 0)
        draft->draft_bias = corrected(draft->draft_bias, (double)draft_ns / bill->expected_ns);
    spec_learn_step(&draft->control, (double)ns);
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
