// From the step's results to the text: listeners get their logits, and embeddings are added up. The
// chosen tokens are walked along the drafts, with logprobs where a request wants them. A sequence's
// part depends on its own rows alone; sums run in the order of positions, so chunks do not matter.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/choice/logprobs.h"
#include "engine/step/engine.h"

static void listen(struct engine *engine, const struct seq_work *work) {
    struct seq *seq = work->seq;
    for (int r = 0; r < work->n_out; r++) {
        const int pos = work->first_pos + work->n_tokens - work->n_out + r;
        if (pos < seq->n_heard) continue; // evaluated again after a preemption
        seq->n_heard = pos + 1;
        seq->on_logits(seq->on_logits_ctx, pos, engine->result.logits[work->first_out + r],
                       engine->plan->n_vocab);
    }
}

static void pool(struct engine *engine, const struct seq_work *work) {
    struct seq *seq = work->seq;
    const int first = work->first_pos + work->n_tokens - work->n_out;
    const int n = seq->pooling == RN_POOLING_CLS ? first == 0 : work->n_out;
    for (int r = 0; r < n; r++) {
        const float *hidden = engine->result.hidden[work->first_out + r];
        for (int i = 0; i < engine->n_embd; i++) seq->embedding[i] += hidden[i];
    }
    if (work->first_pos + work->n_tokens < seq->n_token) return;
    const float scale = seq->pooling == RN_POOLING_MEAN ? 1.0f / (float)seq->n_prompt : 1.0f;
    double squares = 0;
    for (int i = 0; i < engine->n_embd; i++) {
        seq->embedding[i] *= scale;
        squares += (double)seq->embedding[i] * (double)seq->embedding[i];
    }
    if (!seq->normalize || !(squares > 0)) return;
    const float inverse = (float)(1 / sqrt(squares));
    for (int i = 0; i < engine->n_embd; i++) seq->embedding[i] *= inverse;
}

// The meaning of the token for the text. A stop string may be kept; so may be a stop token.
static void look_up(const struct tokenizer *tokenizer, const struct seq *seq, struct pick *pick) {
    const bool stops = rules_stops(seq->choices.rules, pick->token);
    pick->ends = seq_ends_with(seq, tokenizer, pick->token);
    pick->bytes = (struct text_span){"", 0};
    if (pick->ends && !(stops && seq->output.keeps_stop)) return;
    if (tokenizer_is_special(tokenizer, pick->token) && !seq->special_text) return;
    pick->bytes = tokenizer_bytes(tokenizer, pick->token);
}

// Takes the token after the work's known tokens and `index` accepted ones of its draft; false:
// there is none.
static bool take(struct engine *engine, struct seq_work *work, int index) {
    const struct seq *seq = work->seq;
    const int row = work->first_pick + index;
    struct pick *pick = &engine->pick[row];
    pick->token = engine->result.token[row];
    assert(pick->token < tokenizer_size(engine->tokenizer));
    if (pick->token < 0) return false;
    look_up(engine->tokenizer, seq, pick);
    pick->n_logprobs = 0;
    if (seq->logprob) {
        rn_logprob *out = seq->logprob + (ptrdiff_t)index * (1 + seq->top_logprobs);
        pick->n_logprobs = logprobs_fill(engine->result.logits[row], engine->plan->n_vocab,
                                         pick->token, seq->top_logprobs, out);
    }
    if (!pick->ends) choice_take(&seq->choices, pick->token);
    return true;
}

struct job {
    struct engine *engine;
    struct flight *flight;
    const struct seq_work *work; // whose prompt is scored
};

// The row of a position of the prompt scores the token behind it.
static void score_some(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct job *job = ctx;
    const struct seq_work *work = job->work;
    const struct seq *seq = work->seq;
    const int n_vocab = job->engine->plan->n_vocab, first = work->first_pos + work->n_tokens;
    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        const int pos = first - work->n_out + (int)r;
        if (pos >= seq->n_prompt - 1) continue;
        const float *logits = job->engine->result.logits[work->first_out + r];
        const int32_t token = seq->token[pos + 1];
        rn_logprob *out = seq->prompt_logprob + (ptrdiff_t)pos * (1 + seq->top_prompt_logprobs);
        int n = logprobs_fill(logits, n_vocab, token, seq->top_prompt_logprobs, out);
        for (; n <= seq->top_prompt_logprobs; n++) out[n] = (rn_logprob){-1, -INFINITY};
        seq->prompt_rank[pos] = logprobs_rank(logits, n_vocab, token);
    }
}

static void score(struct job *job, struct seq_work *work) {
    struct seq *seq = work->seq;
    const int end = work->first_pos + work->n_tokens;
    if (work->n_out == 0 || end <= seq->n_scored || work->first_pos >= seq->n_prompt - 1) return;
    job->work = work;
    pool_run(job->engine->pool, score_some, job, work->n_out, 1);
    seq->n_scored = end < seq->n_prompt - 1 ? end : seq->n_prompt - 1;
}

// Goes through the rows of a work as long as the drafted token is the chosen one: then the next row
// is that of the text.
static void walk(struct engine *engine, struct seq_work *work) {
    const struct seq *seq = work->seq;
    const int32_t *draft = seq->token + seq->n_token;
    work->first_pick = work->first_out + work->n_out - 1 - work->n_draft;
    for (bool right = true; right;) {
        const int index = work->n_pick;
        work->failed = !take(engine, work, index);
        if (work->failed) break;
        const struct pick *pick = &engine->pick[work->first_pick + index];
        work->n_pick++;
        right = index < work->n_verified && pick->token == draft[index];
        work->n_accepted += right;
        right = right && !pick->ends;
    }
}

static void walk_some(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct job *job = ctx;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        struct seq_work *work = &job->flight->work[i];
        if (work->samples && engine_is_due(job->engine, work)) walk(job->engine, work);
    }
}

void engine_sample(struct engine *engine, struct flight *flight) {
    struct job job = {engine, flight, NULL};
    bool takes_time = false;
    for (int i = 0; i < flight->n_work; i++) {
        struct seq_work *work = &flight->work[i];
        if (!engine_is_due(engine, work)) continue;
        if (seq_is_unscored(work->seq)) score(&job, work);
        if (work->seq->on_logits) listen(engine, work);
        if (work->seq->pooling) pool(engine, work);
        takes_time |= work->samples && work->seq->logprob;
    }
    if (takes_time)
        pool_run(engine->pool, walk_some, &job, flight->n_work, 1);
    else
        walk_some(&job, 0, flight->n_work, 0);
}
