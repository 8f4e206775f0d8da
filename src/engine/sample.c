// From the step's results to choices: listeners get their logits, tokens are chosen on all threads
// of the backend, embeddings are added up. A sequence's part depends on its own rows alone; sums
// run in the order of positions, so chunks do not matter.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/logprobs.h"

static void listen(struct engine *engine, const struct work *work) {
    struct seq *seq = work->seq;
    const struct batch_seq *rows = &engine->batch_seq[work->at];
    for (int r = 0; r < rows->n_out; r++) {
        const int pos = seq->n_done + work->n_tokens - rows->n_out + r;
        if (pos < seq->n_heard) continue; // evaluated again after a preemption
        seq->n_heard = pos + 1;
        seq->on_logits(seq->on_logits_ctx, pos,
                       engine->backend->cls->logits(engine->backend, rows->first_out + r),
                       engine->plan->n_vocab);
    }
}

static void pool(struct engine *engine, const struct work *work) {
    struct seq *seq = work->seq;
    const struct batch_seq *rows = &engine->batch_seq[work->at];
    for (int r = 0; r < rows->n_out; r++) {
        const float *hidden = engine->backend->cls->hidden(engine->backend, rows->first_out + r);
        for (int i = 0; i < engine->n_embd; i++) seq->embedding[i] += hidden[i];
    }
    if (seq->n_done + work->n_tokens < seq->n_token) return;
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

// What the token means for the text. Here, on all threads, because tables of a vocabulary's size
// are in no cache.
static void look_up(const struct tokenizer *tokenizer, struct work *work) {
    work->ends = tokenizer_is_end(tokenizer, work->chosen) && !work->seq->ignore_eos;
    work->bytes = (struct text_span){"", 0};
    if (work->ends) return;
    if (tokenizer_is_special(tokenizer, work->chosen) && !work->seq->special_text) return;
    work->bytes = tokenizer_bytes(tokenizer, work->chosen);
    __builtin_prefetch(work->bytes.data);
}

static void choose(void *ctx, int64_t begin, int64_t end, int worker) {
    struct engine *engine = ctx;
    assert(worker < engine->n_samplers);
    for (int64_t i = begin; i < end; i++) {
        struct work *work = &engine->work[i];
        if (!work->samples) continue;
        const struct seq *seq = work->seq;
        const struct batch_seq *rows = &engine->batch_seq[work->at];
        const float *logits =
            engine->backend->cls->logits(engine->backend, rows->first_out + rows->n_out - 1);
        const struct sampler_view view = {.token = seq->token,
                                          .n_prompt = seq->n_prompt,
                                          .n_token = seq->n_token,
                                          .choice = (uint32_t)seq->choice,
                                          .breakers = seq->breakers};
        work->chosen = sampler_choose(&engine->sampler[worker], &seq->sampling, &view, logits);
        assert(work->chosen < tokenizer_size(engine->tokenizer));
        if (work->chosen < 0) continue;
        look_up(engine->tokenizer, work);
        if (seq->logprob)
            work->n_logprobs = (uint8_t)logprobs_fill(logits, engine->plan->n_vocab, work->chosen,
                                                      seq->top_logprobs, seq->logprob);
    }
}

void engine_sample(struct engine *engine) {
    for (int i = 0; i < engine->n_work; i++) {
        if (engine->work[i].seq->on_logits) listen(engine, &engine->work[i]);
        if (engine->work[i].seq->pooling) pool(engine, &engine->work[i]);
    }
    engine->backend->cls->parallel(engine->backend, choose, engine, engine->n_work, 1);
}
