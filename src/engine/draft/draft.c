// The life of the draft room: options, drafters, the part of each sequence, and the price of a step
// with more rows, measured before the first request. See draft.h.
#include "engine/draft/draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/draft/calibrate.h"
#include "engine/pages/place.h"

enum {
    STEP_ROWS = 32,          // of drafts: arithmetic is the limit before that
    SHARED_TOKENS = 1 << 17, // of recent texts
    CALIBRATE_NS = 60000000, // for all measurements; one is made anyway
};

const char *draft_name(rn_drafter drafter) {
    static const char *const names[RN_DRAFTER_COUNT] = {
        [RN_DRAFTER_MODEL] = "model",   [RN_DRAFTER_LOOKUP] = "lookup",
        [RN_DRAFTER_SHARED] = "shared", [RN_DRAFTER_MTP] = "mtp",
        [RN_DRAFTER_SHAPE] = "shape",   [RN_DRAFTER_CUSTOM] = "custom"};
    const size_t at = (size_t)drafter;
    return at < RN_DRAFTER_COUNT ? names[at] : "unknown";
}

rn_status draft_check(struct draft_config *config, rn_error *err) {
    if (config->draft_max < 0 || config->draft_max > RN_MAX_DRAFT)
        return err_set(err, RN_ERR_ARG, "draft_max is %d, expected 0 to %d", config->draft_max,
                       RN_MAX_DRAFT);
    if (!config->draft_max) config->draft_max = RN_DEFAULT_DRAFT;
    if (config->draft_min < 0 || config->draft_min > config->draft_max)
        return err_set(err, RN_ERR_ARG, "draft_min is %d, expected 0 to %d", config->draft_min,
                       config->draft_max);
    if (!config->model) config->drafters &= ~(1u << RN_DRAFTER_MODEL);
    if (!config->fn) config->drafters &= ~(1u << RN_DRAFTER_CUSTOM);
    return RN_OK;
}

// Lengths that are forced get the rows that they need.
int draft_rows(const struct draft_config *config, int max_seqs) {
    if (!config->drafters) return 0;
    const int seqs = max_seqs > 0 ? max_seqs : 1;
    const int most = config->draft_min > 0 ? SPEC_MAX_ROWS : STEP_ROWS;
    return seqs > most / config->draft_max ? most : seqs * config->draft_max;
}

// ---------------------------------------------------------------- costs

static rn_status calibrate(struct draft *draft, rn_error *err) {
    const struct draft_host *host = &draft->host;
    const struct calibration on = {.plan = host->plan,
                                   .kv = host->kv,
                                   .backend = host->backend,
                                   .builder = host->builder,
                                   .max_logits = host->logit_rows};
    struct kv_table table;
    int most = host->batch_tokens < host->logit_rows ? host->batch_tokens : host->logit_rows;
    if (most > host->n_ctx) most = host->n_ctx;
    if (most > 1 + draft->max_rows) most = 1 + draft->max_rows;
    rn_status status = kv_table_init(&table, host->plan->n_group, most, err);
    if (status) return status;
    status = calibrate_price(&on, &table, host->price, most, CALIBRATE_NS, err);
    kv_table_deinit(&table);
    return status;
}

// ---------------------------------------------------------------- sequences

static void seq_draft_destroy(struct seq_draft *draft) {
    suffix_deinit(&draft->own);
    free(draft);
}

static rn_status seq_draft_create(void *ctx, int limit, struct seq_draft **out, rn_error *err) {
    const struct draft *draft = ctx;
    struct seq_draft *seq = calloc(1, sizeof *seq);
    if (!seq) return err_set(err, RN_ERR_NOMEM, "no memory for a request's drafts");
    for (int id = 0; id < RN_DRAFTER_COUNT; id++) seq->slot[id] = seq->guess[id].token = -1;
    const rn_status status =
        draft->drafter[RN_DRAFTER_LOOKUP] ? suffix_init(&seq->own, limit, err) : RN_OK;
    if (status)
        seq_draft_destroy(seq);
    else
        *out = seq;
    return status;
}

const struct seq_draft_class draft_seq_class = {.create = seq_draft_create,
                                                .destroy = seq_draft_destroy};

// ---------------------------------------------------------------- life

static rn_status create_model(struct draft *draft, const struct draft_config *config,
                              rn_error *err) {
    const struct draft_host *host = &draft->host;
    const bool same = host->draft_place->cls == host->place->cls;
    const struct drafter_model_config model = {.model = config->model,
                                               .tokenizer = config->tokenizer,
                                               .target_tokenizer = host->tokenizer,
                                               .place = host->draft_place,
                                               .variant = same ? host->variant : NULL,
                                               .pool = host->pool,
                                               .n_ctx = host->n_ctx,
                                               .max_seqs = host->max_seqs,
                                               .batch_tokens = host->batch_tokens,
                                               .kv_bytes = host->draft_kv_bytes,
                                               .scratch = host->scratch,
                                               .now = host->now,
                                               .now_ctx = host->now_ctx};
    return drafter_model_create(&model, &draft->drafter[RN_DRAFTER_MODEL], err);
}

// Where the model has a block, and its backend runs it: engine_plan has seen to that.
static rn_status create_block(struct draft *draft, rn_error *err) {
    const struct draft_host *host = &draft->host;
    if (!host->has_block) return RN_OK;
    const struct drafter_block_config block = {.plan = host->plan,
                                               .tokenizer = host->tokenizer,
                                               .backend = host->backend,
                                               .kv = host->kv,
                                               .pool = host->pool,
                                               .n_ctx = host->n_ctx,
                                               .max_seqs = host->max_seqs,
                                               .batch_tokens = host->batch_tokens,
                                               .page_bytes = host->block_page_bytes,
                                               .kv_bytes = host->block_kv_bytes,
                                               .scratch = host->scratch,
                                               .now = host->now,
                                               .now_ctx = host->now_ctx};
    struct drafter **out = &draft->drafter[RN_DRAFTER_MTP];
    return plan_block_reads(host->plan) ? drafter_reader_create(&block, out, err)
                                        : drafter_block_create(&block, out, err);
}

static rn_status create_drafters(struct draft *draft, const struct draft_config *config,
                                 rn_error *err) {
    struct drafter **drafter = draft->drafter;
    rn_status s = RN_OK;
    if (config->drafters & 1u << RN_DRAFTER_LOOKUP)
        s = drafter_lookup_create(&drafter[RN_DRAFTER_LOOKUP], err);
    if (!s && config->drafters & 1u << RN_DRAFTER_SHARED)
        s = drafter_shared_create(SHARED_TOKENS, &drafter[RN_DRAFTER_SHARED], err);
    if (!s && config->drafters & 1u << RN_DRAFTER_SHAPE)
        s = drafter_shape_create(draft->host.tokenizer, draft->host.scratch,
                                 &drafter[RN_DRAFTER_SHAPE], err);
    if (!s && config->drafters & 1u << RN_DRAFTER_CUSTOM)
        s = drafter_custom_create(config->fn, config->ctx, draft->host.plan->n_vocab,
                                  &drafter[RN_DRAFTER_CUSTOM], err);
    if (!s && config->drafters & 1u << RN_DRAFTER_MODEL) s = create_model(draft, config, err);
    if (!s && config->drafters & 1u << RN_DRAFTER_MTP) s = create_block(draft, err);
    return s;
}

static void write_names(struct draft *draft) {
    int at = 0;
    for (int id = 0; id < RN_DRAFTER_COUNT; id++)
        if (draft->drafter[id])
            at += snprintf(draft->names + at, sizeof draft->names - (size_t)at, "%s%s",
                           at ? ", " : "", draft_name((rn_drafter)id));
}

static rn_status draft_init(struct draft *draft, const struct draft_config *config, rn_error *err) {
    const size_t n = (size_t)draft->host.max_seqs;
    draft->bid = calloc(n, sizeof *draft->bid);
    draft->bidder = calloc(n, sizeof(struct seq_work *));
    draft->job = calloc(n, sizeof *draft->job);
    if (!draft->bid || !draft->bidder || !draft->job)
        return err_set(err, RN_ERR_NOMEM, "no memory for the drafts of %zu sequences", n);
    const rn_status status = create_drafters(draft, config, err);
    if (status) return status;
    write_names(draft);
    return calibrate(draft, err);
}

rn_status draft_create(const struct draft_host *host, const struct draft_config *config,
                       struct draft **out, rn_error *err) {
    *out = NULL;
    struct draft *draft = calloc(1, sizeof *draft);
    if (!draft) return err_set(err, RN_ERR_NOMEM, "no memory for speculation");
    draft->host = *host;
    draft->draft_max = config->draft_max;
    draft->draft_min = config->draft_min;
    draft->max_rows = draft_rows(config, host->max_seqs);
    const rn_status status = draft_init(draft, config, err);
    if (status)
        draft_destroy(draft);
    else
        *out = draft;
    return status;
}

void draft_destroy(struct draft *draft) {
    if (!draft) return;
    for (int id = 0; id < RN_DRAFTER_COUNT; id++)
        if (draft->drafter[id]) draft->drafter[id]->cls->destroy(draft->drafter[id]);
    free(draft->bid);
    free(draft->bidder);
    free(draft->job);
    free(draft);
}
