// Lays the step's work out as the backend reads it: rows of tokens and positions, page tables, the
// rows that need logits.
#include <string.h>

#include "engine/engine.h"

void engine_build_batch(struct engine *engine) {
    int rows = 0, logits = 0;
    for (int i = 0; i < engine->n_work; i++) {
        const struct work *work = &engine->work[i];
        const struct seq *seq = work->seq;
        struct batch_seq *out = &engine->batch_seq[i];
        *out = (struct batch_seq){.first_row = rows,
                                  .n_tokens = work->n_tokens,
                                  .first_pos = seq->n_done,
                                  .first_out = logits,
                                  .n_out = work->n_logits};
        for (int g = 0; g < engine->plan->n_group; g++) out->page_table[g] = seq->table.page[g];
        memcpy(engine->token + rows, seq->token + seq->n_done,
               (size_t)work->n_tokens * sizeof *engine->token);
        for (int t = 0; t < work->n_tokens; t++) engine->pos[rows + t] = seq->n_done + t;
        for (int t = work->n_tokens - work->n_logits; t < work->n_tokens; t++)
            engine->logit_row[logits++] = rows + t;
        rows += work->n_tokens;
    }
    engine->batch = (struct batch){.n_tokens = rows,
                                   .n_seqs = engine->n_work,
                                   .n_out = logits,
                                   .n_logits = logits,
                                   .token = engine->token,
                                   .pos = engine->pos,
                                   .out_row = engine->logit_row,
                                   .seq = engine->batch_seq};
}
