// Lays the step's work out as the backend reads it, after drafts were added to it: rows of tokens
// and positions, page tables, the rows whose result is wanted. Text comes before embeddings, so
// that the rows that want logits are the first of those. Then the choice of each row of logits.
#include <assert.h>
#include <string.h>

#include "engine/step/engine.h"

// Appends one work to the batch.
static void append(struct engine *engine, struct work *work) {
    struct batch *batch = &engine->batch;
    const struct seq *seq = work->seq;
    const int rows = batch->n_tokens, first_pos = seq_next(seq);
    work->at = batch->n_seqs++;
    work->first_pos = first_pos;
    work->first_out = batch->n_out;
    struct batch_seq *out = &engine->batch_seq[work->at];
    *out = (struct batch_seq){.first_row = rows,
                              .n_tokens = work->n_tokens,
                              .first_pos = first_pos,
                              .first_out = work->first_out,
                              .n_out = work->n_out};
    for (int g = 0; g < engine->plan->n_group; g++) out->page_table[g] = seq->table.page[g];
    memcpy(engine->token + rows, seq->token + first_pos,
           (size_t)(work->n_tokens - seq->n_ahead) * sizeof *engine->token);
    assert(seq->n_ahead <= 1);
    if (seq->n_ahead > 0) engine->token[rows + work->n_tokens - 1] = BATCH_OF_ROW(seq->ahead_row);
    for (int t = 0; t < work->n_tokens; t++) engine->pos[rows + t] = first_pos + t;
    for (int t = work->n_tokens - work->n_out; t < work->n_tokens; t++)
        engine->out_row[batch->n_out++] = rows + t;
    batch->n_tokens += work->n_tokens;
}

// ---------------------------------------------------------------- choices

// The choices after the work's known tokens and after each drafted one, as if the draft were right.
// A draft that ends the text has no token after it. The constraint stands where it stood in the
// end.
static void describe_tokens(const struct engine *engine, const struct work *work,
                            struct choice_scratch *scratch, struct choice *out) {
    const struct seq *seq = work->seq;
    const rn_constraint *constraint = &seq->constraint;
    const int32_t *draft = seq->token + seq->n_token;
    int advanced = 0;
    for (int i = 0;; i++) {
        choice_describe(scratch, seq, seq_known(seq) + i, i, &out[i]);
        if (i == work->n_draft) break;
        if (!seq->ignore_eos && tokenizer_is_end(engine->tokenizer, draft[i])) break;
        if (!constraint->mask) continue;
        constraint->advance(constraint->ctx, seq->choice, draft[i]);
        advanced++;
    }
    if (advanced) constraint->rollback(constraint->ctx, seq->choice, advanced);
}

static void describe_some(void *ctx, int64_t begin, int64_t end, int worker) {
    struct engine *engine = ctx;
    assert(worker < engine->n_scratch);
    for (int64_t i = begin; i < end; i++) {
        const struct work *work = &engine->work[i];
        const struct seq *seq = work->seq;
        if (seq->pooling) continue;
        struct choice *choice = &engine->choice[work->first_out];
        for (int r = 0; r < work->n_out; r++) choice[r] = (struct choice){0};
        if (work->samples)
            describe_tokens(engine, work, &engine->scratch[worker],
                            &choice[work->n_out - 1 - work->n_draft]);
        for (int r = 0; r < work->n_out; r++)
            choice[r].wants_logits = seq->on_logits || seq->logprob;
    }
}

static void describe_all(struct engine *engine) {
    bool takes_time = false;
    for (int i = 0; i < engine->n_work; i++)
        takes_time |= engine->work[i].samples && choice_needs_history(engine->work[i].seq);
    if (takes_time)
        pool_run(engine->pool, describe_some, engine, engine->n_work, 1);
    else
        describe_some(engine, 0, engine->n_work, 0);
}

void engine_build_batch(struct engine *engine) {
    struct batch *batch = &engine->batch;
    engine_speculate(engine);
    *batch = (struct batch){.token = engine->token,
                            .pos = engine->pos,
                            .out_row = engine->out_row,
                            .seq = engine->batch_seq,
                            .choice = engine->choice};
    batch->page = kv_take_ops(engine->kv, &batch->n_pages);
    for (int i = 0; i < engine->n_work; i++)
        if (!engine->work[i].seq->pooling) append(engine, &engine->work[i]);
    batch->n_logits = batch->n_out;
    for (int i = 0; i < engine->n_work; i++)
        if (engine->work[i].seq->pooling) append(engine, &engine->work[i]);
    describe_all(engine);
}
