// The drafter "model": its life, the slots that follow sequences, and its offers. See
// drafter_model.h for the invariants.
#include "engine/draft/drafter_model.h"

#include <assert.h>
#include <stdlib.h>

#include "engine/draft/calibrate.h"
#include "engine/pages/place.h"

enum {
    STALE_STEPS = 64,        // without a draft, after which a slot may be given up for others
    CALIBRATE_NS = 30000000, // for all measurements; one is made anyway
    READ_USUAL = 2,          // known tokens that a followed sequence reads before its draft
};

static struct drafter_model *model_of(struct drafter *drafter) {
    return (struct drafter_model *)drafter;
}

static int least(int a, int b) { return a < b ? a : b; }

// ---------------------------------------------------------------- slots

// Drops drafted positions that no settle was called for.
static void slot_forget_draft(struct drafter_model *d, struct drafter_slot *slot) {
    if (slot->table.marked)
        slot->n_done = kv_settle(d->kv, &slot->table, slot->n_done, slot->n_done + slot->n_tried);
    slot->n_tried = 0;
}

void drafter_slot_free(struct drafter_model *d, struct drafter_slot *slot) {
    slot_forget_draft(d, slot);
    kv_commit(d->kv, &slot->table, slot->seq->token, slot->n_done);
    kv_retire(d->kv, &slot->table, slot->seq->token, slot->n_done);
    slot->seq->draft->slot[d->base.cls->id] = -1;
    slot->seq = NULL;
    slot->n_done = slot->base = slot->n_hidden = 0;
}

// The least recently used of the other slots, if it was unused for long; never a slot of the
// current round.
static struct drafter_slot *slot_stale(struct drafter_model *d, const struct drafter_slot *but) {
    struct drafter_slot *oldest = NULL;
    for (int i = 0; i < d->max_seqs; i++) {
        struct drafter_slot *slot = &d->slot[i];
        if (slot->seq && slot != but && (!oldest || slot->used < oldest->used)) oldest = slot;
    }
    const uint64_t stale = (uint64_t)STALE_STEPS * (uint64_t)d->max_seqs;
    return oldest && d->clock - oldest->used > stale ? oldest : NULL;
}

static struct drafter_slot *slot_take(struct drafter_model *d) {
    for (int i = 0; i < d->max_seqs; i++)
        if (!d->slot[i].seq) return &d->slot[i];
    struct drafter_slot *slot = slot_stale(d, NULL);
    if (slot) drafter_slot_free(d, slot);
    return slot;
}

struct drafter_slot *drafter_slot_of(struct drafter_model *d, struct seq *seq) {
    const int index = seq->draft->slot[d->base.cls->id];
    struct drafter_slot *slot = index >= 0 ? &d->slot[index] : slot_take(d);
    if (!slot) return NULL;
    if (index < 0) {
        slot->seq = seq;
        slot->used = d->clock;
        seq->draft->slot[d->base.cls->id] = (int)(slot - d->slot);
    }
    assert(slot->seq == seq);
    if (seq->n_token - slot->n_done > KV_PAGE_TOKENS || index < 0) {
        // others may have read it meanwhile
        const int n = kv_hit(d->kv, &slot->table, seq->token, least(seq->n_token, d->n_ctx),
                             seq->salt, seq->n_salt);
        if (n > slot->n_done) slot->n_done = n;
    }
    return slot;
}

bool drafter_slot_room(struct drafter_model *d, const struct drafter_slot *slot, int n) {
    while (kv_room(d->kv, &slot->table, slot->n_done, n) < n) {
        struct drafter_slot *stale = slot_stale(d, slot);
        if (!stale) return false;
        drafter_slot_free(d, stale);
    }
    return true;
}

// ---------------------------------------------------------------- the price of its steps

static double price_ns(const struct drafter_model *d, int n_tokens, int n_logits) {
    const struct batch_shape shape = drafting_shape(n_tokens, n_logits);
    return (double)price_of(&d->price, &shape);
}

// A model that cannot run drafts nothing; texts do not need it.
static void calibrate(struct drafter_model *d) {
    const struct calibration on = {.plan = d->plan,
                                   .kv = d->kv,
                                   .backend = d->backend,
                                   .builder = &d->builder,
                                   .max_logits = d->max_seqs,
                                   .no_attention = true,
                                   .block_input = d->input};
    price_init(&d->price, &d->rates);
    d->is_broken = calibrate_price(&on, &d->slot[0].table, &d->price,
                                   least(d->batch_tokens, d->n_ctx), CALIBRATE_NS, NULL) != RN_OK;
}

// ---------------------------------------------------------------- the interface

static void leave(struct drafter *drafter, struct seq *seq) {
    if (!seq->draft || seq->draft->slot[drafter->cls->id] < 0) return;
    struct drafter_model *d = model_of(drafter);
    drafter_slot_free(d, &d->slot[seq->draft->slot[drafter->cls->id]]);
}

static struct draft_offer offer(struct drafter *drafter, struct seq *seq, int most, int32_t *out) {
    (void)out;
    struct drafter_model *d = model_of(drafter);
    const enum draft_source source = d->is_block ? DRAFT_MTP : DRAFT_MODEL;
    const struct draft_offer none = {.source = source};
    if (d->is_broken) return none;
    d->clock++;
    if (seq->n_token > d->n_ctx) { // it cannot follow any further
        leave(drafter, seq);
        return none;
    }
    // of n tokens it evaluates all but the last
    const int n = least(most, least(seq->limit, d->n_ctx + 1) - seq->n_token);
    struct drafter_slot *slot = n > 0 ? drafter_slot_of(d, seq) : NULL;
    if (!slot) return none;
    if (d->is_block && !drafter_block_ready(d, slot)) return none;
    const int behind = drafter_slot_behind(d, slot);
    if (behind < 1 || !drafter_slot_room(d, slot, behind)) return none;
    const double setup_ns =
        behind > DRAFTER_FEW ? price_ns(d, behind, 1) - price_ns(d, DRAFTER_FEW, 1) : 0;
    return (struct draft_offer){n, source, setup_ns};
}

static double cost_ns(const struct drafter *drafter, int place, int n_seqs) {
    const struct drafter_model *d = (const struct drafter_model *)drafter;
    return price_ns(d, place > 0 ? n_seqs : READ_USUAL * n_seqs, n_seqs);
}

static void settle(struct drafter *drafter, struct seq *seq, int n_valid) {
    struct drafter_model *d = model_of(drafter);
    const int index = seq->draft->slot[drafter->cls->id];
    if (index < 0) return;
    struct drafter_slot *slot = &d->slot[index];
    if (!slot->table.marked) return;
    const int n_all = slot->n_done + slot->n_tried;
    int n_kept = n_valid < slot->n_done ? slot->n_done : least(n_valid, n_all);
    if (d->is_block) n_kept = slot->n_done; // the model's own hidden rows come now
    slot->n_done = kv_settle(d->kv, &slot->table, n_kept, n_all);
    slot->n_tried = 0;
}

static void forget(struct drafter *drafter) { kv_forget_prefixes(model_of(drafter)->kv); }

static void destroy(struct drafter *drafter) {
    struct drafter_model *d = model_of(drafter);
    for (int i = 0; i < d->max_seqs && d->slot; i++) { // the sequences may be gone
        slot_forget_draft(d, &d->slot[i]);
        kv_release(d->kv, &d->slot[i].table);
        kv_table_deinit(&d->slot[i].table);
    }
    kv_destroy(d->kv);
    if (!d->is_block) backend_destroy(d->backend); // a block's is the engine's
    free(d->hidden);
    free(d->input);
    free(d->slot);
    free(d->part);
    free(d->active);
    batch_builder_deinit(&d->builder);
    free(d->choice);
    free(d);
}

#define MODEL_CLASS(name)                                                                          \
    .id = (name), .offer = offer, .draft = drafter_model_draft, .cost_ns = cost_ns,                \
    .settle = settle, .leave = leave, .forget = forget, .destroy = destroy

const struct drafter_class drafter_model_class = {MODEL_CLASS(RN_DRAFTER_MODEL)};
const struct drafter_class drafter_block_class = {MODEL_CLASS(RN_DRAFTER_MTP),
                                                  .observe = drafter_block_observe};

// ---------------------------------------------------------------- create

static rn_status create_backend(struct drafter_model *d, const struct drafter_model_config *config,
                                rn_error *err) {
    const struct backend_place *place = config->place;
    const struct backend_sizes sizes = {.max_tokens = d->batch_tokens,
                                        .max_logits = d->max_seqs,
                                        .max_seqs = d->max_seqs};
    struct backend_need need;
    rn_status status = place->cls->need(d->plan, &sizes, place->kv_type, &need, err);
    if (status) return status;
    struct kv_config kv = budget_kv_config(d->plan, &need.kv);
    kv.budget = config->kv_bytes;
    if (place->device.pages == PAGES_FIXED) kv_fix_pages(&kv, d->n_ctx, d->batch_tokens);
    kv.max_tables = d->max_seqs;
    kv.max_page_ops = d->plan->n_group * (d->batch_tokens / KV_PAGE_TOKENS + 3 * d->max_seqs);
    struct backend_config b = {.device = place->index,
                               .variant = config->variant,
                               .kv_type = place->kv_type,
                               .sizes = sizes,
                               .pool = config->pool,
                               .now = config->now,
                               .now_ctx = config->now_ctx};
    for (int g = 0; g < d->plan->n_group; g++) b.n_pages[g] = kv_group_pages(&kv, g);
    cost_rates_init(&d->rates, d->plan, &need.kv);
    status = place->cls->create(d->plan, &b, &d->backend, err);
    if (status) return status;
    return kv_create(&kv, d->backend, &d->kv, err);
}

static rn_status allocate(struct drafter_model *d, rn_error *err) {
    const int n_group = d->is_block ? 1 : d->plan->n_group;
    const size_t seqs = (size_t)d->max_seqs;
    d->slot = calloc(seqs, sizeof *d->slot);
    d->part = calloc(seqs, sizeof *d->part);
    d->active = calloc(seqs, sizeof(struct drafter_part *));
    d->choice = calloc(seqs, sizeof *d->choice);
    if (!d->slot || !d->part || !d->active || !d->choice)
        return err_set(err, RN_ERR_NOMEM, "no memory for drafts of %d sequences", d->max_seqs);
    rn_status status = batch_builder_init(&d->builder, n_group, d->batch_tokens, d->batch_tokens,
                                          d->max_seqs, err);
    d->builder.first_group = d->is_block ? d->plan->n_group : 0;
    for (int i = 0; i < d->max_seqs && !status; i++)
        status = kv_table_init(&d->slot[i].table, n_group, d->n_ctx, err);
    return status;
}

rn_status drafter_model_finish(struct drafter_model *d, rn_error *err) {
    const rn_status status = allocate(d, err);
    if (status) return status;
    for (int i = 0; d->hidden && i < d->max_seqs; i++)
        d->slot[i].hidden = d->hidden + (size_t)i * DRAFTER_TAIL * (size_t)d->n_embd;
    calibrate(d);
    return RN_OK;
}

rn_status drafter_model_create(const struct drafter_model_config *config, struct drafter **out,
                               rn_error *err) {
    *out = NULL;
    rn_status status = drafter_model_check(config->tokenizer, config->target_tokenizer, err);
    if (status) return status;
    struct drafter_model *d = calloc(1, sizeof *d);
    if (!d) return err_set(err, RN_ERR_NOMEM, "no memory for the draft model");
    *d = (struct drafter_model){.base.cls = &drafter_model_class,
                                .plan = &config->model->plan,
                                .target_tokenizer = config->target_tokenizer,
                                .scratch = config->scratch,
                                .pool = config->pool,
                                .n_vocab = config->model->plan.n_vocab,
                                .n_target = tokenizer_size(config->target_tokenizer),
                                .n_ctx = least(config->n_ctx, config->model->hp.n_ctx),
                                .max_seqs = config->max_seqs,
                                .batch_tokens = config->batch_tokens,
                                .now = config->now,
                                .now_ctx = config->now_ctx};
    status = create_backend(d, config, err);
    if (!status) status = drafter_model_finish(d, err);
    if (status) {
        destroy(&d->base);
        return status;
    }
    *out = &d->base;
    return RN_OK;
}
