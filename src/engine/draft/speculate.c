// The step's side of speculation: asks the drafters, lets the controller choose, turns drafts into
// rows, and settles them. See speculate.h; speculation's life is in speculation.c.
#include <assert.h>
#include <string.h>

#include "engine/step/engine.h"

enum {
    SETUP_STEPS = 16,   // a drafter's setup is expected to serve so many steps, or what is left
    DECLINED_SOME = 16, // steps in a row
    DECLINED_PART = 4,  // of the streams have to get a draft to end it
    UNASKED_MOST = 8,   // steps between two in which drafters are asked
    LUCK_TOKENS = 16,   // that are taken to have come as expected, before any did
};

#define LUCK_LEAST 0.5
#define LUCK_KEEP  0.99 // of what came of earlier drafts, with each draft
#define SEEN_SHARE 0.06 // of a new measurement
#define SEEN_LEAST 0.7  // which counts as no less, of what was there
#define SEEN_MOST  1.3

// ---------------------------------------------------------------- costs

// The step's expected time with rows of drafts; 0: nothing was measured. Every draft row is taken
// to see as much as the rows that are there do on average.
static double rows_ns(const struct engine *engine, const struct pace *pace, int n_rows) {
    struct batch_shape shape = engine->shape;
    const int64_t rows = shape.n_tokens;
    shape.n_tokens += n_rows;
    shape.n_out += n_rows;
    shape.n_logits += n_rows;
    for (int g = 0; g < engine->plan->n_group; g++)
        for (int domain = 0; domain < 2; domain++)
            shape.kv_pairs[g][domain] += shape.kv_pairs[g][domain] * n_rows / rows;
    return (double)pace_predict(pace, &shape);
}

// The time of a step of so many rows over what was predicted; of those that were never seen, as of
// the nearest number below that was.
static double bias_of(const struct speculation *spec, int64_t rows) {
    if (rows >= SPEC_BIAS_ROWS) return 1;
    for (; rows > 0; rows--)
        if (spec->bias[rows] > 0) return (double)spec->bias[rows];
    return 1;
}

static double draft_ns(void *ctx, int drafter, int place, int n_seqs) {
    const struct speculation *spec = ctx;
    const struct drafter *d = spec->drafter[drafter];
    return d->cls->cost_ns(d, place, n_seqs) * spec->draft_bias;
}

// Without verify_ns, which most steps of texts that nobody can guess do not need. n_again: rows
// that bring no token. False: there is no room for drafts, or costs are not known.
static bool costs_init(struct engine *engine, int n_streams, int n_again, struct spec_costs *out) {
    struct speculation *spec = engine->spec;
    const struct batch_shape *shape = &engine->shape;
    int64_t rows = spec->max_rows;
    if (rows > engine->batch_tokens - shape->n_tokens)
        rows = engine->batch_tokens - shape->n_tokens;
    if (rows > engine->logit_rows - shape->n_logits) rows = engine->logit_rows - shape->n_logits;
    if (rows > (int64_t)n_streams * spec->draft_max) rows = (int64_t)n_streams * spec->draft_max;
    *out = (struct spec_costs){.max_rows = (int)rows,
                               .tokens = (double)(shape->n_tokens - n_again),
                               .draft_ns = draft_ns,
                               .draft_ctx = spec};
    return rows > 0 && engine->pace.n_point + spec->pace.n_point > 0;
}

// A bound on the gap, which prompts were cut for, is one for drafts too.
static void costs_fill(struct engine *engine, struct spec_costs *costs) {
    struct speculation *spec = engine->spec;
    const bool has_prompts = engine->shape.n_tokens > engine->shape.n_logits;
    const struct pace *pace = has_prompts ? &engine->pace : &spec->pace;
    if (pace->n_point == 0) pace = has_prompts ? &spec->pace : &engine->pace;
    for (int n = 0; n <= costs->max_rows; n++)
        spec->verify_ns[n] = rows_ns(engine, pace, n) *
                             (has_prompts ? 1 : bias_of(spec, engine->shape.n_tokens + n));
    while (has_prompts && costs->max_rows > 0 &&
           spec->verify_ns[costs->max_rows] > (double)engine->itl_ns)
        costs->max_rows--;
    costs->verify_ns = spec->verify_ns;
}

// ---------------------------------------------------------------- offers

// What a sequence could draft, and who would.
struct best {
    struct draft_offer offer;
    rn_drafter drafter;
    double rate, value;
    int32_t token[RN_MAX_DRAFT];
};

// The setup counts in part: what it makes possible goes on.
static double setup_share(const struct seq *seq, const struct draft_offer *offer) {
    if (offer->setup_ns <= 0) return 0;
    const int left = (seq->limit - seq->n_token) / 4;
    return offer->setup_ns / (left < 1 ? 1 : left < SETUP_STEPS ? left : SETUP_STEPS);
}

// Rates are of single tokens, and those of a draft are not independent of each other, nor is it
// chance which sequences are drafted for.
static double luck_of(const struct speculation *spec, enum draft_source source) {
    const double came = spec->luck[source].came, expected = spec->luck[source].expected;
    const double luck = (came + LUCK_TOKENS) / (expected + LUCK_TOKENS);
    return luck < LUCK_LEAST ? LUCK_LEAST : luck > 1 ? 1 : luck;
}

// Tokens per ns of the step with the best length of this draft and no other.
static double offer_value(const struct speculation *spec, const struct spec_costs *costs,
                          const struct seq *seq, rn_drafter id, const struct draft_offer *offer,
                          double rate) {
    const struct drafter *d = spec->drafter[id];
    double best = 0, tokens = costs->tokens, gain = rate * luck_of(spec, offer->source);
    double ns = setup_share(seq, offer);
    for (int k = 1; k <= offer->n && k <= costs->max_rows; k++, gain *= rate) {
        if (d->cls->cost_ns) ns += draft_ns(costs->draft_ctx, (int)id, k - 1, 1);
        tokens += gain;
        const double value = tokens / (costs->verify_ns[k] + ns);
        if (value > best) best = value;
    }
    return best;
}

// Asks every drafter; of those with something to offer the best is taken.
static void ask(struct engine *engine, struct seq *seq, struct spec_costs *costs, int most,
                struct best *best) {
    struct speculation *spec = engine->spec;
    best->offer.n = 0;
    best->value = -1;
    for (int id = 0; id < RN_DRAFTER_COUNT; id++) {
        struct drafter *drafter = spec->drafter[id];
        seq->draft->guess[id].token = -1;
        if (!drafter) continue;
        int32_t token[RN_MAX_DRAFT];
        const struct draft_offer offer = drafter->cls->offer(drafter, seq, most, token);
        if (offer.n == 0) continue;
        if (!costs->verify_ns) costs_fill(engine, costs);
        const bool is_free = !drafter->cls->draft;
        if (is_free) {
            seq->draft->guess[id].token = token[0];
            seq->draft->guess[id].source = offer.source;
        }
        const double rate = spec_rate_of(&spec->control, &seq->draft->rates, (int)offer.source);
        const double value = offer_value(spec, costs, seq, (rn_drafter)id, &offer, rate);
        if (value <= best->value) continue;
        best->offer = offer;
        best->drafter = (rn_drafter)id;
        best->rate = rate;
        best->value = value;
        if (is_free) memcpy(best->token, token, (size_t)offer.n * sizeof *token);
    }
}

// The most tokens that may be drafted. What a recurrent state has to go back over, this draft
// included, stays less than a block, so that it gets on.
static int most_tokens(const struct seq *seq, const struct spec_costs *costs) {
    int most = seq->limit - 1 - seq->n_token;
    if (most > seq->draft->max) most = seq->draft->max;
    if (most > KV_PAGE_TOKENS - 1 - seq->n_again) most = KV_PAGE_TOKENS - 1 - seq->n_again;
    return most < costs->max_rows ? most : costs->max_rows;
}

// Puts the best offer in place and makes a bid of it.
static void bid_add(struct engine *engine, struct work *work, struct spec_costs *costs) {
    struct speculation *spec = engine->spec;
    struct seq *seq = work->seq;
    const int most = most_tokens(seq, costs);
    if (most <= 0) return;
    struct best best;
    ask(engine, seq, costs, most, &best);
    const int n = best.offer.n;
    if (n == 0) return;
    const bool is_free = !spec->drafter[best.drafter]->cls->draft;
    if (is_free) memcpy(seq->token + seq->n_token, best.token, (size_t)n * sizeof *best.token);
    seq->draft->drafter = best.drafter;
    seq->draft->source = best.offer.source;
    spec->bidder[spec->n_bid] = work;
    spec->bid[spec->n_bid++] = (struct spec_bid){.most = n,
                                                 .least = spec->draft_min < n ? spec->draft_min : n,
                                                 .drafter = is_free ? -1 : (int)best.drafter,
                                                 .source = (int)best.offer.source,
                                                 .setup_ns = best.offer.setup_ns,
                                                 .left = seq->limit - seq->n_token,
                                                 .rate = best.rate,
                                                 .luck = luck_of(spec, best.offer.source)};
}

// ---------------------------------------------------------------- drafts become rows

// Drafters that take time make what was chosen of them.
static void make_drafts(struct engine *engine) {
    struct speculation *spec = engine->spec;
    double *expected_ns = &engine->step->draft.expected_ns;
    for (int id = 0; id < RN_DRAFTER_COUNT; id++) {
        struct drafter *drafter = spec->drafter[id];
        if (!drafter || !drafter->cls->draft) continue;
        int n = 0, n_at[RN_MAX_DRAFT] = {0};
        for (int i = 0; i < spec->n_bid; i++) {
            const struct spec_bid *bid = &spec->bid[i];
            if (bid->drafter != id || bid->n == 0) continue;
            spec->job[n++] = (struct draft_job){.seq = spec->bidder[i]->seq, .n = bid->n};
            *expected_ns += bid->setup_ns;
            for (int k = 0; k < bid->n; k++) n_at[k]++;
        }
        if (n == 0) continue;
        for (int k = 0; k < RN_MAX_DRAFT && n_at[k] > 0; k++)
            *expected_ns += drafter->cls->cost_ns(drafter, k, n_at[k]);
        drafter->cls->draft(drafter, spec->job, n);
        for (int i = 0, j = 0; i < spec->n_bid; i++)
            if (spec->bid[i].drafter == id && spec->bid[i].n > 0) spec->bid[i].n = spec->job[j++].n;
    }
}

// Pages for the draft, as far as they are free.
static int draft_grow(struct engine *engine, const struct work *work, int n) {
    struct seq *seq = work->seq;
    kv_mark(engine->kv, &seq->table, seq->n_done);
    const int room = kv_room(engine->kv, &seq->table, seq->n_done, work->n_tokens + n);
    if (n > room - work->n_tokens) n = room - work->n_tokens;
    if (n > 0 && kv_grow(engine->kv, &seq->table, seq->n_done, work->n_tokens + n)) return n;
    kv_settle(engine->kv, &seq->table, seq->n_done, seq->n_done);
    const bool grown = kv_grow(engine->kv, &seq->table, seq->n_done, work->n_tokens);
    assert(grown); // the schedule had these pages
    (void)grown;
    return 0;
}

static void place_draft(struct engine *engine, struct work *work, int n, double rate) {
    struct seq *seq = work->seq;
    const int made = n;
    n = draft_grow(engine, work, n);
    struct drafter *drafter = engine->spec->drafter[seq->draft->drafter];
    if (n == 0 && made > 0 && drafter->cls->settle)
        drafter->cls->settle(drafter, seq, seq->n_token);
    seq->draft->expected = 0;
    double gain = 1;
    for (int k = 0; k < n; k++) seq->draft->expected += gain *= rate;
    work->n_draft = n;
    work->n_tokens += n;
    work->n_out += n;
}

// Of a bid, up to the end of the text, and as far as the sequence's constraint lets them pass. Only
// what was chosen is looked at: a constraint may take its time. Drafters that make their tokens
// when they are chosen have kept to both.
static int chosen_tokens(struct engine *engine, int index) {
    const struct spec_bid *bid = &engine->spec->bid[index];
    const struct seq *seq = engine->spec->bidder[index]->seq;
    if (bid->n == 0 || bid->drafter >= 0) return bid->n;
    const int32_t *token = seq->token + seq->n_token;
    int n = 1;
    while (n < bid->n && (seq->ignore_eos || !tokenizer_is_end(engine->tokenizer, token[n - 1])))
        n++;
    return choice_allowed(seq, seq->n_token, n);
}

// Rows of one sequence share what they read, so the shape is made anew.
static void shape_again(struct engine *engine) {
    engine->shape = (struct batch_shape){0};
    for (int i = 0; i < engine->n_work; i++) {
        const struct work *work = &engine->work[i];
        batch_shape_add(engine->plan, &engine->shape, seq_next(work->seq), work->n_tokens,
                        work->n_out);
        if (work->seq->pooling) engine->shape.n_logits -= work->n_out;
    }
}

static bool drafts_at_all(const struct work *work) {
    return work->samples && work->seq->draft && engine_is_stream(work->seq) &&
           work->seq->n_steps == 0;
}

// Asking takes a microsecond for each stream. Where everything that was offered for a while was
// declined, as by many streams at a time, drafters are asked more and more rarely.
static bool is_asked(struct speculation *spec, int n_streams) {
    if (n_streams != spec->last_streams && spec->declined > DECLINED_SOME)
        spec->declined = DECLINED_SOME;
    spec->last_streams = n_streams;
    const int pause = spec->declined / DECLINED_SOME;
    if (spec->unasked < (pause < UNASKED_MOST ? pause : UNASKED_MOST)) {
        spec->unasked++;
        return false;
    }
    spec->unasked = 0;
    return true;
}

static void speculate(struct engine *engine) {
    struct speculation *spec = engine->spec;
    struct spec_costs costs;
    int n_streams = 0, n_again = 0;
    spec->n_bid = 0;
    for (int i = 0; i < engine->n_work; i++) {
        n_streams += drafts_at_all(&engine->work[i]);
        n_again += engine->work[i].seq->n_again;
    }
    if (n_streams == 0 || !costs_init(engine, n_streams, n_again, &costs)) return;
    if (!is_asked(spec, n_streams)) return;
    for (int i = 0; i < engine->n_work; i++)
        if (drafts_at_all(&engine->work[i])) bid_add(engine, &engine->work[i], &costs);
    if (spec->n_bid == 0) return;
    spec_choose(&spec->control, spec->bid, spec->n_bid, &costs);
    make_drafts(engine);
    int rows = 0;
    for (int i = 0; i < spec->n_bid; i++) {
        const int n = chosen_tokens(engine, i);
        if (n > 0) place_draft(engine, spec->bidder[i], n, spec->bid[i].rate);
        rows += spec->bidder[i]->n_draft;
    }
    if (rows == 0)
        spec->declined++;
    else if (rows * DECLINED_PART >= n_streams) // not only one that is tried
        spec->declined = 0;
    if (rows == 0) return;
    engine->step->draft.plain_share = spec->verify_ns[0] / spec->verify_ns[rows];
    shape_again(engine);
}

void engine_speculate(struct engine *engine) {
    struct flight *step = engine->step;
    step->draft.ns = 0;
    step->draft.expected_ns = 0;
    step->draft.plain_share = 1;
    if (!engine->spec) return;
    const uint64_t begin = engine_now(engine);
    speculate(engine);
    step->draft.ns = engine_now(engine) - begin;
    engine->stats.draft_ns += step->draft.ns;
    engine->stats.batch_ns -= step->draft.ns; // which will count it
}

// ---------------------------------------------------------------- what came of them

static void count_draft(struct engine *engine, struct work *work) {
    struct seq *seq = work->seq;
    rn_draft_stats *stats = &engine->stats.draft[seq->draft->drafter];
    stats->drafts++;
    stats->tokens += (uint64_t)work->n_draft;
    seq->timings.draft_steps++;
    seq->timings.draft_tokens += work->n_draft;
}

// Guesses that were not verified are compared with what was chosen.
static void learn_guesses(struct engine *engine, const struct work *work) {
    struct seq_draft *draft = work->seq->draft;
    if (work->n_pick == 0) return;
    const int32_t chosen = engine->pick[work->first_pick].token;
    for (int id = 0; id < RN_DRAFTER_COUNT; id++) {
        const int32_t token = draft->guess[id].token;
        draft->guess[id].token = -1;
        if (token < 0 || (work->n_draft > 0 && id == (int)draft->drafter)) continue;
        spec_learn(&engine->spec->control, &draft->rates, (int)draft->guess[id].source, 1,
                   token == chosen);
    }
}

static void learn_luck(struct speculation *spec, const struct seq_draft *draft, int came) {
    spec->luck[draft->source].expected *= LUCK_KEEP;
    spec->luck[draft->source].came *= LUCK_KEEP;
    spec->luck[draft->source].expected += draft->expected;
    spec->luck[draft->source].came += came;
}

void engine_draft_settle(struct engine *engine, struct work *work) {
    struct seq *seq = work->seq;
    const int n_all = seq->n_done + work->n_tokens;
    const int n_kept = n_all - work->n_draft + work->n_accepted;
    seq->n_done = n_all;
    seq->n_again = 0;
    if (!engine->spec || !seq->draft) return;
    learn_guesses(engine, work);
    if (work->n_draft == 0) return;
    struct seq_draft *draft = seq->draft;
    struct drafter *drafter = engine->spec->drafter[draft->drafter];
    const bool refused = work->n_accepted < work->n_draft && work->n_pick > work->n_accepted;
    spec_learn(&engine->spec->control, &draft->rates, (int)draft->source,
               work->n_accepted + refused, work->n_accepted);
    learn_luck(engine->spec, draft, work->n_accepted);
    if (drafter->cls->settle) drafter->cls->settle(drafter, seq, n_kept);
    count_draft(engine, work);
    seq->n_done = kv_settle(engine->kv, &seq->table, n_kept, n_all);
    seq->n_again = n_kept - seq->n_done;
}

static double corrected(double was, double seen) {
    if (was <= 0) was = 1; // one measurement alone is not believed
    const double least = was * SEEN_LEAST, most = was * SEEN_MOST;
    return was + SEEN_SHARE * ((seen < least ? least : seen > most ? most : seen) - was);
}

// A step without prompts, ns without drafting.
static void learn_verify(struct speculation *spec, const struct batch_shape *shape, uint64_t ns) {
    const uint64_t predicted = pace_predict(&spec->pace, shape);
    if (predicted > 0 && shape->n_tokens < SPEC_BIAS_ROWS) {
        float *bias = &spec->bias[shape->n_tokens];
        *bias = (float)corrected((double)*bias, (double)ns / (double)predicted);
    }
    pace_learn(&spec->pace, shape, ns);
}

void engine_draft_learn(struct engine *engine, const struct flight *flight, uint64_t ns) {
    struct speculation *spec = engine->spec;
    const uint64_t draft = flight->draft.ns < ns ? flight->draft.ns : ns;
    pace_learn(&engine->pace, &flight->shape, ns - draft);
    if (!spec) return;
    if (flight->shape.n_tokens == flight->shape.n_logits)
        learn_verify(spec, &flight->shape, ns - draft);
    if (flight->draft.expected_ns > 0)
        spec->draft_bias = corrected(spec->draft_bias, (double)draft / flight->draft.expected_ns);
    spec_learn_step(&spec->control, (double)ns);
}

void engine_draft_leave(struct engine *engine, struct seq *seq, bool is_over) {
    struct speculation *spec = engine->spec;
    if (!spec || !seq->draft) return;
    for (int id = 0; id < RN_DRAFTER_COUNT; id++) {
        struct drafter *drafter = spec->drafter[id];
        if (!drafter) continue;
        if (drafter->cls->leave) drafter->cls->leave(drafter, seq);
        if (is_over && drafter->cls->learn && seq->n_token > seq->n_prompt)
            drafter->cls->learn(drafter, seq);
    }
}

void engine_draft_forget(struct engine *engine) {
    for (int id = 0; engine->spec && id < RN_DRAFTER_COUNT; id++) {
        struct drafter *drafter = engine->spec->drafter[id];
        if (drafter && drafter->cls->forget) drafter->cls->forget(drafter);
    }
}
