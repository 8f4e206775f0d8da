// Lays the step's work out as the backend reads it, after drafts were added to it: rows of tokens
// and positions, page tables, the rows whose result is wanted. Text comes before embeddings, so
// that the rows that want logits are the first of those.
#include <assert.h>
#include <string.h>

#include "engine/engine.h"

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
    if (seq->n_ahead > 0)
        engine->token[rows + work->n_tokens - 1] = BATCH_OF_ROW(seq->ahead_row);
    for (int t = 0; t < work->n_tokens; t++) engine->pos[rows + t] = first_pos + t;
    for (int t = work->n_tokens - work->n_out; t < work->n_tokens; t++)
        engine->out_row[batch->n_out++] = rows + t;
    batch->n_tokens += work->n_tokens;
}

void engine_build_batch(struct engine *engine) {
    struct batch *batch = &engine->batch;
    engine_speculate(engine);
    *batch = (struct batch){.token = engine->token,
                            .pos = engine->pos,
                            .out_row = engine->out_row,
                            .seq = engine->batch_seq};
    batch->page = kv_take_ops(engine->kv, &batch->n_pages);
    for (int i = 0; i < engine->n_work; i++)
        if (!engine->work[i].seq->pooling) append(engine, &engine->work[i]);
    batch->n_logits = batch->n_out;
    for (int i = 0; i < engine->n_work; i++)
        if (engine->work[i].seq->pooling) append(engine, &engine->work[i]);
}
