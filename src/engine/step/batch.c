// Lays the step's works out as the backend reads them, after drafts were added: rows of tokens and
// positions, page tables, the rows whose result is wanted. Text comes before embeddings, so that
// rows that want logits precede the others. Then comes the choice of each row of logits.
#include <assert.h>

#include "engine/step/engine.h"

static void add(struct engine *engine, struct seq_work *work) {
    const struct seq *seq = work->seq;
    assert(seq->n_ahead <= 1);
    work->first_pos = seq_next(seq);
    work->first_out = engine->builder.batch.n_out;
    work->at =
        batch_add(&engine->builder,
                  &(struct batch_rows){.page_table = seq->table.page,
                                       .state_from = kv_state_from(&seq->table, work->first_pos),
                                       .snapshot = kv_snapshot_of(&seq->table, work->first_pos),
                                       .n_snapshot = seq->table.n_snapshot,
                                       .first_pos = work->first_pos,
                                       .n_tokens = work->n_tokens,
                                       .token = seq->token + work->first_pos,
                                       .last = seq->n_ahead > 0 ? BATCH_OF_ROW(seq->ahead_row) : 0,
                                       .n_out = work->n_out,
                                       .hidden_only = seq->pooling != RN_POOLING_NONE});
}

// Rows that a drafter reads, behind all others.
static void add_hidden(struct engine *engine, struct seq_work *work) {
    work->n_hidden = draft_hidden_rows(engine->draft, work);
    if (work->n_hidden > 0)
        work->first_hidden =
            batch_add_hidden(&engine->builder, work->at,
                             work->n_tokens - work->n_out - work->n_hidden, work->n_hidden);
}

// ---------------------------------------------------------------- choices

// The choices after the work's known tokens and after each drafted one, as if the draft were right.
// A draft that ends the text has no token after it. A draft is as long as the units of the step
// suffice for its masks. Shape and constraint are back where they stood in the end.
static void describe_tokens(const struct engine *engine, struct seq_work *work,
                            struct choice_scratch *scratch, struct choice *out) {
    const struct seq *seq = work->seq;
    const int32_t *draft = seq->token + seq->n_token;
    int advanced = 0, i = 0;
    while (choice_describe(scratch, &seq->choices, seq_known(seq) + i, i, &out[i])) {
        work->n_verified = i;
        if (i == work->n_draft) break;
        work->n_verified += seq_ends_with(seq, engine->tokenizer, draft[i]);
        if (work->n_verified > i) break;
        if (!choice_advance(scratch, &seq->choices, seq_known(seq) + i, draft[i])) break;
        advanced = ++i;
    }
    assert(out[0].numbers); // the schedule saw to its mask
    choice_rollback(&seq->choices, advanced);
}

static void describe_some(void *ctx, int64_t begin, int64_t end, int worker) {
    struct engine *engine = ctx;
    assert(worker < engine->n_scratch);
    for (int64_t i = begin; i < end; i++) {
        struct seq_work *work = &engine->step->work[i];
        const struct seq *seq = work->seq;
        if (seq->pooling) continue;
        struct choice *choice = &engine->choice[work->first_out];
        for (int r = 0; r < work->n_out; r++) choice[r] = (struct choice){0};
        if (work->samples)
            describe_tokens(engine, work, &engine->scratch[worker],
                            &choice[work->n_out - 1 - work->n_draft]);
        for (int r = 0; r < work->n_out; r++)
            choice[r].wants_logits = seq->on_logits || seq->logprob || seq_is_unscored(seq);
    }
}

void engine_describe(struct engine *engine) {
    const struct flight *step = engine->step;
    bool takes_time = false;
    for (int i = 0; i < step->n_work; i++)
        takes_time |= step->work[i].samples && choice_needs_history(&step->work[i].seq->choices);
    if (takes_time)
        pool_run(engine->pool, describe_some, engine, step->n_work, 1);
    else
        describe_some(engine, 0, step->n_work, 0);
}

void engine_build_batch(struct engine *engine) {
    const struct flight *step = engine->step;
    struct batch *batch = &engine->builder.batch;
    batch_begin(&engine->builder, engine->choice);
    batch->page = kv_take_ops(engine->kv, &batch->n_pages);
    for (int i = 0; i < step->n_work; i++)
        if (!step->work[i].seq->pooling) add(engine, &step->work[i]);
    for (int i = 0; i < step->n_work; i++)
        if (step->work[i].seq->pooling) add(engine, &step->work[i]);
    for (int i = 0; i < step->n_work; i++) add_hidden(engine, &step->work[i]);
}
