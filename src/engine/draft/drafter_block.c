// The drafter "mtp": hidden rows of the model, kept until the draft block reads them. See
// drafter_model.h.
//
// A row is copied when its position is settled. The block reads it when a draft is wanted, so a
// sequence that is not drafted for costs no run. One that was not drafted for during DRAFTER_TAIL
// tokens starts again from the rows that are kept.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/draft/drafter_model.h"

static float *row_at(const struct drafter_model *d, const struct drafter_slot *slot, int pos) {
    return slot->hidden + (size_t)(pos % DRAFTER_TAIL) * (size_t)d->n_embd;
}

static void row_keep(const struct drafter_model *d, struct drafter_slot *slot, int pos,
                     const float *row) {
    const int end = slot->first + slot->n_hidden;
    if (pos >= slot->first && pos < end) return; // evaluated again: the same bits
    if (pos != end) {
        slot->first = pos;
        slot->n_hidden = 0;
    }
    memcpy(row_at(d, slot, pos), row, (size_t)d->n_embd * sizeof *row);
    if (slot->n_hidden < DRAFTER_TAIL)
        slot->n_hidden++;
    else
        slot->first++;
}

void drafter_block_observe(struct drafter *drafter, struct seq *seq, int pos, int n,
                           const float *const *hidden) {
    struct drafter_model *d = (struct drafter_model *)drafter;
    if (d->is_broken || pos + n > d->n_ctx) return;
    struct drafter_slot *slot = drafter_slot_of(d, seq);
    if (!slot) return;
    for (int i = 0; i < n; i++) row_keep(d, slot, pos + i, hidden[i]);
}

bool drafter_block_ready(struct drafter_model *d, struct drafter_slot *slot) {
    const int next = slot->base + slot->n_done;
    if (slot->n_hidden == 0 || slot->first + slot->n_hidden != slot->seq->n_token - 1) return false;
    if (slot->n_done > 0 && next >= slot->first && next < slot->seq->n_token - 1) return true;
    if (slot->n_done > 0) kv_release(d->kv, &slot->table);
    slot->base = slot->first;
    slot->n_done = 0;
    return true;
}

void drafter_block_rows(struct drafter_model *d, const struct drafter_part *part, int first_pos,
                        int n) {
    const struct batch *batch = &d->builder.batch;
    const struct drafter_slot *slot = part->slot;
    const struct batch_seq *seq = &d->builder.seq[batch->n_seqs - 1];
    for (int i = 0; i < n; i++) {
        const int pos = slot->base + first_pos + i;
        const bool is_known = pos < slot->first + slot->n_hidden;
        d->input[seq->first_row + i] = is_known ? row_at(d, slot, pos) : part->hidden;
    }
}

static rn_status create_pages(struct drafter_model *d, const struct drafter_block_config *config,
                              rn_error *err) {
    const struct plan_kv_group *group = &d->plan->group[d->plan->n_group];
    assert(d->plan->n_group_all == d->plan->n_group + 1 && group->kind == KV_FULL);
    (void)group;
    const struct kv_config kv = {.n_group = 1,
                                 .first_group = d->plan->n_group,
                                 .group = {{.kind = KV_FULL, .page_bytes = config->page_bytes}},
                                 .budget = config->kv_bytes,
                                 .max_tables = d->max_seqs,
                                 .max_page_ops = d->batch_tokens / KV_PAGE_TOKENS + 3 * d->max_seqs,
                                 .no_prefix = true};
    return kv_create(&kv, d->backend, &d->kv, err);
}

// Rows of zeros, until a sequence has its own.
static rn_status create_rows(struct drafter_model *d, rn_error *err) {
    const size_t floats = (size_t)d->max_seqs * DRAFTER_TAIL * (size_t)d->n_embd;
    d->hidden = calloc(floats, sizeof *d->hidden);
    d->input = calloc((size_t)d->batch_tokens, sizeof *d->input);
    if (!d->hidden || !d->input)
        return err_set(err, RN_ERR_NOMEM, "no memory for hidden rows of %d sequences", d->max_seqs);
    for (int i = 0; i < d->batch_tokens; i++) d->input[i] = d->hidden;
    return RN_OK;
}

rn_status drafter_block_create(const struct drafter_block_config *config, struct drafter **out,
                               rn_error *err) {
    *out = NULL;
    struct drafter_model *d = calloc(1, sizeof *d);
    if (!d) return err_set(err, RN_ERR_NOMEM, "no memory for the draft block");
    *d = (struct drafter_model){.base.cls = &drafter_block_class,
                                .plan = config->plan,
                                .target_tokenizer = config->tokenizer,
                                .pool = config->pool,
                                .backend = config->backend,
                                .scratch = config->scratch,
                                .n_vocab = config->plan->n_vocab,
                                .n_target = config->plan->n_vocab,
                                .n_ctx = config->n_ctx,
                                .max_seqs = config->max_seqs,
                                .batch_tokens = config->batch_tokens,
                                .now = config->now,
                                .now_ctx = config->now_ctx,
                                .is_block = true,
                                .n_embd = config->plan->buffer[config->plan->hidden].width};
    struct plan block = *config->plan; // its ops alone
    block.op += block.n_op;
    block.n_op = block.n_op_all - block.n_op;
    cost_rates_init(&d->rates, &block, &(struct kv_bytes){0});
    rn_status status = create_pages(d, config, err);
    if (!status) status = create_rows(d, err);
    if (!status) status = drafter_model_finish(d, err);
    if (status)
        d->base.cls->destroy(&d->base);
    else
        *out = &d->base;
    return status;
}
