// Drafts for one step: asks the drafters, lets the controller choose, and turns drafts into rows.
// See draft.h.
#include <assert.h>
#include <string.h>

#include "engine/draft/draft.h"
#include "text/tokenizer.h"

// Where no draft can pay, each stream's drafters are asked once in so many steps.
enum { WATCH_STEPS = 8 };

// ---------------------------------------------------------------- costs

static double draft_ns(void *ctx, int drafter, int place, int n_seqs) {
    const struct draft *draft = ctx;
    const struct drafter *d = draft->drafter[drafter];
    return d->cls->cost_ns(d, place, n_seqs);
}

// n_again: rows that bring no token. False: there is no room for drafts, or costs are not known.
static bool costs_init(struct draft *draft, const struct batch_shape *shape, int n_streams,
                       int n_again, struct spec_costs *out) {
    const struct draft_host *host = &draft->host;
    int64_t rows = draft->max_rows;
    if (rows > host->batch_tokens - shape->n_tokens) rows = host->batch_tokens - shape->n_tokens;
    if (rows > host->logit_rows - shape->n_logits) rows = host->logit_rows - shape->n_logits;
    if (rows > (int64_t)n_streams * draft->draft_max) rows = (int64_t)n_streams * draft->draft_max;
    *out = (struct spec_costs){.max_rows = (int)rows,
                               .verify_ns = draft->verify_ns,
                               .tokens = (double)(shape->n_tokens - n_again),
                               .draft_ns = draft_ns,
                               .draft_ctx = draft};
    if (rows <= 0 || host->price->n_point == 0) return false;
    price_of_more(host->price, shape, out->max_rows, draft->verify_ns);
    // the bound on the gap, which prompts were cut for, applies to drafts too
    const bool has_prompts = shape->n_tokens > shape->n_logits;
    while (has_prompts && out->max_rows > 0 &&
           draft->verify_ns[out->max_rows] > (double)host->itl_ns)
        out->max_rows--;
    return true;
}

// ---------------------------------------------------------------- offers

// The draft that a sequence could have, and its drafter.
struct best {
    struct draft_offer offer;
    rn_drafter drafter;
    double rate, value;
    int32_t token[RN_MAX_DRAFT];
};

// Tokens per ns of the step with the best length of this draft and no other.
static double offer_value(const struct draft *draft, const struct spec_costs *costs,
                          const struct seq *seq, rn_drafter id, const struct draft_offer *offer,
                          double rate) {
    const struct drafter *d = draft->drafter[id];
    double best = 0, tokens = costs->tokens, gain = rate;
    double ns = spec_setup_share(offer->setup_ns, seq->limit - seq->n_token);
    for (int k = 1; k <= offer->n && k <= costs->max_rows; k++, gain *= rate) {
        if (d->cls->cost_ns) ns += draft_ns(costs->draft_ctx, (int)id, k - 1, 1);
        tokens += gain;
        const double value = tokens / (costs->verify_ns[k] + ns);
        if (value > best) best = value;
    }
    return best;
}

static void guess(struct seq_work *work, rn_drafter id, int32_t token, enum draft_source source) {
    struct seq_draft *draft = work->seq->draft;
    work->has_guess = true;
    draft->guess[id].token = token;
    draft->guess[id].source = source;
}

// Asks every drafter, and takes the best offer.
static void ask(struct draft *draft, struct seq_work *work, const struct spec_costs *costs,
                int most, struct best *best) {
    struct seq *seq = work->seq;
    best->offer.n = 0;
    best->value = -1;
    for (int id = 0; id < RN_DRAFTER_COUNT; id++) {
        struct drafter *drafter = draft->drafter[id];
        seq->draft->guess[id].token = -1;
        if (!drafter) continue;
        int32_t token[RN_MAX_DRAFT];
        const struct draft_offer offer = drafter->cls->offer(drafter, seq, most, token);
        if (offer.n == 0) continue;
        const bool is_free = !drafter->cls->draft;
        if (is_free) guess(work, (rn_drafter)id, token[0], offer.source);
        const double rate = spec_rate_of(&draft->control, &seq->draft->rates, (int)offer.source);
        double value = -1; // not known: there is nothing to compare it with
        if (best->offer.n > 0) {
            if (best->value < 0)
                best->value =
                    offer_value(draft, costs, seq, best->drafter, &best->offer, best->rate);
            value = offer_value(draft, costs, seq, (rn_drafter)id, &offer, rate);
            if (value <= best->value) continue;
        }
        best->offer = offer;
        best->drafter = (rn_drafter)id;
        best->rate = rate;
        best->value = value;
        if (is_free) memcpy(best->token, token, (size_t)offer.n * sizeof *token);
    }
}

// The most tokens that may be drafted. A recurrent state re-evaluates less than a block, this draft
// included, so that it makes progress.
static int most_tokens(const struct seq *seq, const struct spec_costs *costs) {
    int most = seq->limit - 1 - seq->n_token;
    if (most > seq->draft_max) most = seq->draft_max;
    if (most > KV_PAGE_TOKENS - 1 - seq->n_again) most = KV_PAGE_TOKENS - 1 - seq->n_again;
    return most < costs->max_rows ? most : costs->max_rows;
}

// No draft can pay, so none is made. The guesses of free drafters are still seen, so that rates are
// known when drafts pay again.
static void watch(struct draft *draft, struct seq_work *work) {
    struct seq *seq = work->seq;
    for (int id = 0; id < RN_DRAFTER_COUNT; id++) {
        struct drafter *drafter = draft->drafter[id];
        int32_t token;
        seq->draft->guess[id].token = -1;
        if (!drafter || drafter->cls->draft) continue;
        const struct draft_offer offer = drafter->cls->offer(drafter, seq, 1, &token);
        if (offer.n > 0) guess(work, (rn_drafter)id, token, offer.source);
    }
}

// Puts the best offer in place and makes a bid of it.
static void bid_add(struct draft *draft, struct seq_work *work, const struct spec_costs *costs) {
    struct seq *seq = work->seq;
    const int most = most_tokens(seq, costs);
    if (most <= 0) return;
    struct best best;
    ask(draft, work, costs, most, &best);
    const int n = best.offer.n;
    if (n == 0) return;
    const bool is_free = !draft->drafter[best.drafter]->cls->draft;
    if (is_free) memcpy(seq->token + seq->n_token, best.token, (size_t)n * sizeof *best.token);
    seq->draft->drafter = best.drafter;
    seq->draft->source = best.offer.source;
    draft->bidder[draft->n_bid] = work;
    draft->bid[draft->n_bid++] =
        (struct spec_bid){.most = n,
                          .least = draft->draft_min < n ? draft->draft_min : n,
                          .drafter = is_free ? -1 : (int)best.drafter,
                          .source = (int)best.offer.source,
                          .setup_ns = best.offer.setup_ns,
                          .left = seq->limit - seq->n_token,
                          .rate = best.rate};
}

// ---------------------------------------------------------------- drafts become rows

// Drafters that take time make the tokens chosen from their offers.
static void make_drafts(struct draft *draft) {
    for (int id = 0; id < RN_DRAFTER_COUNT; id++) {
        struct drafter *drafter = draft->drafter[id];
        if (!drafter || !drafter->cls->draft) continue;
        int n = 0;
        for (int i = 0; i < draft->n_bid; i++) {
            const struct spec_bid *bid = &draft->bid[i];
            if (bid->drafter != id || bid->n == 0) continue;
            draft->job[n++] = (struct draft_job){.seq = draft->bidder[i]->seq, .n = bid->n};
        }
        if (n == 0) continue;
        drafter->cls->draft(drafter, draft->job, n);
        for (int i = 0, j = 0; i < draft->n_bid; i++)
            if (draft->bid[i].drafter == id && draft->bid[i].n > 0)
                draft->bid[i].n = draft->job[j++].n;
    }
}

// Pages for the draft, as far as they are free.
static int draft_grow(struct kv *kv, const struct seq_work *work, int n) {
    struct seq *seq = work->seq;
    kv_mark(kv, &seq->table, seq->n_done);
    const int room = kv_room(kv, &seq->table, seq->n_done, work->n_tokens + n);
    if (n > room - work->n_tokens) n = room - work->n_tokens;
    if (n > 0 && kv_grow(kv, &seq->table, seq->n_done, work->n_tokens + n)) {
        kv_snapshot(kv, &seq->table, work->n_tokens);
        return n;
    }
    kv_settle(kv, &seq->table, seq->n_done, seq->n_done);
    const bool grown = kv_grow(kv, &seq->table, seq->n_done, work->n_tokens);
    assert(grown); // the schedule had these pages
    (void)grown;
    return 0;
}

static void place_draft(struct draft *draft, struct seq_work *work, int n) {
    struct seq *seq = work->seq;
    const int made = n;
    n = draft_grow(draft->host.kv, work, n);
    struct drafter *drafter = draft->drafter[seq->draft->drafter];
    if (n == 0 && made > 0 && drafter->cls->settle)
        drafter->cls->settle(drafter, seq, seq->n_token);
    work->drafter = seq->draft->drafter;
    work->n_draft = n;
    work->n_tokens += n;
    work->n_out += n;
}

// The tokens of a bid up to the end of the text, and as far as the sequence's constraint allows
// them. Only chosen tokens are looked at: a constraint may be slow. Drafters that make their tokens
// when they are chosen have kept to both.
static int chosen_tokens(const struct draft *draft, int index) {
    const struct spec_bid *bid = &draft->bid[index];
    const struct seq *seq = draft->bidder[index]->seq;
    if (bid->n == 0 || bid->drafter >= 0) return bid->n;
    const int32_t *token = seq->token + seq->n_token;
    int n = 1;
    while (n < bid->n && !seq_ends_with(seq, draft->host.tokenizer, token[n - 1])) n++;
    return choice_allowed(draft->host.scratch, &seq->choices, seq->n_token, n);
}

// Rows of one sequence share their reads, so the shape is made again.
static void shape_again(const struct plan *plan, const struct draft_step *step) {
    *step->shape = (struct batch_shape){0};
    for (int i = 0; i < step->n_work; i++)
        seq_work_shape(plan, &step->work[i], seq_next(step->work[i].seq), step->shape);
}

static bool drafts_at_all(const struct seq_work *work) {
    return work->samples && work->seq->draft && seq_is_stream(work->seq) && work->seq->n_steps == 0;
}

// The bids become drafts behind the tokens of their sequences; returns the rows of all drafts.
static int place_drafts(struct draft *draft) {
    int rows = 0;
    for (int i = 0; i < draft->n_bid; i++) {
        const int n = chosen_tokens(draft, i);
        if (n > 0) place_draft(draft, draft->bidder[i], n);
        rows += draft->bidder[i]->n_draft;
    }
    return rows;
}

// All streams are asked where drafts may pay, some of them in turn where they cannot.
static void ask_all(struct draft *draft, const struct draft_step *step,
                    const struct spec_costs *costs) {
    const bool pays = draft->draft_min > 0 || spec_may_pay(costs);
    const uint32_t turn = draft->control.steps % WATCH_STEPS;
    for (uint32_t i = pays ? 0 : turn; i < (uint32_t)step->n_work; i += pays ? 1 : WATCH_STEPS) {
        struct seq_work *work = &step->work[i];
        if (!drafts_at_all(work)) continue;
        if (pays)
            bid_add(draft, work, costs);
        else if (most_tokens(work->seq, costs) > 0)
            watch(draft, work);
    }
}

double draft_propose(struct draft *draft, const struct draft_step *step) {
    struct spec_costs costs;
    int n_streams = 0, n_again = 0;
    if (!draft) return 1;
    spec_step_begin(&draft->control);
    draft->n_bid = 0;
    for (int i = 0; i < step->n_work; i++) {
        n_streams += drafts_at_all(&step->work[i]);
        n_again += step->work[i].n_again;
    }
    if (n_streams == 0 || !costs_init(draft, step->shape, n_streams, n_again, &costs)) return 1;
    ask_all(draft, step, &costs);
    if (draft->n_bid == 0) return 1;
    spec_choose(&draft->control, draft->bid, draft->n_bid, &costs);
    make_drafts(draft);
    const int rows = place_drafts(draft);
    if (rows == 0) return 1;
    shape_again(draft->host.plan, step);
    return draft->verify_ns[rows] > 0 ? draft->verify_ns[0] / draft->verify_ns[rows] : 1;
}
