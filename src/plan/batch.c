// Builds batches; see batch.h for their invariants. The step, the drafts, the draft model and the
// bench's runner all build their batches here.
#include "plan/batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

rn_status batch_builder_init(struct batch_builder *builder, int n_group, int max_tokens,
                             int max_out, int max_seqs, rn_error *err) {
    assert(max_tokens > 0 && max_out > 0 && max_seqs > 0);
    *builder = (struct batch_builder){.token = calloc((size_t)max_tokens, sizeof *builder->token),
                                      .pos = calloc((size_t)max_tokens, sizeof *builder->pos),
                                      .out_row = calloc((size_t)max_out, sizeof *builder->out_row),
                                      .seq = calloc((size_t)max_seqs, sizeof *builder->seq),
                                      .n_group = n_group,
                                      .max_tokens = max_tokens,
                                      .max_out = max_out,
                                      .max_seqs = max_seqs};
    if (builder->token && builder->pos && builder->out_row && builder->seq) return RN_OK;
    batch_builder_deinit(builder);
    return err_set(err, RN_ERR_NOMEM, "no memory for a batch of %d sequences and %d rows", max_seqs,
                   max_tokens);
}

void batch_builder_deinit(struct batch_builder *builder) {
    free(builder->token);
    free(builder->pos);
    free(builder->out_row);
    free(builder->seq);
    *builder = (struct batch_builder){0};
}

void batch_begin(struct batch_builder *builder, const struct choice *choice) {
    builder->batch = (struct batch){.token = builder->token,
                                    .pos = builder->pos,
                                    .out_row = builder->out_row,
                                    .seq = builder->seq,
                                    .choice = choice};
}

// The rows fit, and the table has the pages that they write.
static void check_rows(const struct batch_builder *builder, const struct batch_rows *rows) {
    const struct batch *batch = &builder->batch;
    const int first = rows->first_pos / KV_PAGE_TOKENS;
    const int last = (rows->first_pos + rows->n_tokens - 1) / KV_PAGE_TOKENS;
    assert(rows->n_tokens > 0 && rows->first_pos >= 0 && rows->last <= 0);
    assert(rows->n_out >= 0 && rows->n_out <= rows->n_tokens);
    assert(batch->n_seqs < builder->max_seqs);
    assert(rows->n_tokens <= builder->max_tokens - batch->n_tokens);
    assert(rows->n_out <= builder->max_out - batch->n_out);
    assert(rows->hidden_only || batch->n_logits == batch->n_out);
    (void)batch;
    for (int g = 0; g < builder->n_group; g++)
        for (int block = first; block <= last; block++)
            assert(rows->page_table[g][block] != UINT32_MAX);
}

static void add_tokens(struct batch_builder *builder, const struct batch_rows *rows) {
    struct batch *batch = &builder->batch;
    const int n_given = rows->n_tokens - (rows->last < 0);
    int32_t *token = builder->token + batch->n_tokens;
    if (rows->token)
        memcpy(token, rows->token, (size_t)n_given * sizeof *token);
    else
        memset(token, 0, (size_t)n_given * sizeof *token);
    if (rows->last < 0) token[n_given] = rows->last;
    for (int i = 0; i < rows->n_tokens; i++)
        builder->pos[batch->n_tokens + i] = rows->first_pos + i;
    batch->n_tokens += rows->n_tokens;
}

int batch_add_hidden(struct batch_builder *builder, int seq, int first, int n) {
    struct batch *batch = &builder->batch;
    assert(seq < batch->n_seqs && n > 0 && n <= builder->max_out - batch->n_out);
    assert(first >= 0 && first + n <= builder->seq[seq].n_tokens - builder->seq[seq].n_out);
    const int at = batch->n_out;
    for (int i = 0; i < n; i++)
        builder->out_row[batch->n_out++] = builder->seq[seq].first_row + first + i;
    return at;
}

int batch_add(struct batch_builder *builder, const struct batch_rows *rows) {
    struct batch *batch = &builder->batch;
    check_rows(builder, rows);
    struct batch_seq *seq = &builder->seq[batch->n_seqs];
    *seq = (struct batch_seq){.first_row = batch->n_tokens,
                              .n_tokens = rows->n_tokens,
                              .first_pos = rows->first_pos,
                              .first_out = batch->n_out,
                              .n_out = rows->n_out};
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++) seq->state_from[g] = seq->snapshot[g] = BATCH_ZERO;
    if (rows->snapshot) seq->n_snapshot = rows->n_snapshot;
    for (int g = 0; g < builder->n_group; g++) {
        seq->page_table[builder->first_group + g] = rows->page_table[g];
        if (rows->state_from) seq->state_from[builder->first_group + g] = rows->state_from[g];
        if (rows->snapshot) seq->snapshot[builder->first_group + g] = rows->snapshot[g];
    }
    add_tokens(builder, rows);
    for (int i = batch->n_tokens - rows->n_out; i < batch->n_tokens; i++)
        builder->out_row[batch->n_out++] = i;
    if (!rows->hidden_only) batch->n_logits = batch->n_out;
    return batch->n_seqs++;
}
