// The drafter "mtp" where the draft block reads the model's keys and values (plan_block_reads). It
// has no pages of its own and reads no prompt: all that it keeps of a sequence is the model's
// hidden row at the last position that was evaluated. A draft starts there. All of its rows stand
// at that position, with the sequence's own page table; the first takes the last known token, each
// further one the token and the hidden row of the one before.
//
// Copies and clears of pages that wait for the step are not made before. So a row may read a page
// that is not filled yet: its draft is worse then, and the text is the same.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/draft/calibrate.h"
#include "engine/draft/drafting.h"

enum { CALIBRATE_NS = 30000000 }; // for all measurements; one is made anyway

struct reader_slot {
    struct seq *seq; // NULL: free
    int pos;         // of the hidden row; -1: there is none
    float *hidden;   // [n_embd]
};

struct reader_part {
    struct drafting text;
    const float *hidden; // of the row before
    int32_t token;
};

struct drafter_reader {
    struct drafter base;
    struct drafter_block_config host;
    int n_embd;
    bool is_broken;           // a run failed: nothing is drafted any more
    struct reader_slot *slot; // [max_seqs]
    float *hidden;            // of all slots
    struct cost_rates rates;
    struct price price; // of its steps, in shapes without attention
    // of a round
    struct reader_part *part;    // [max_seqs]
    struct reader_part **active; // [max_seqs] in the order of their rows
    int n_active;
    struct batch_builder builder;
    struct step_result result;
    struct choice *choice; // [max_seqs]
    const float **input;   // [max_seqs]
};

static struct drafter_reader *reader_of(struct drafter *drafter) {
    return (struct drafter_reader *)drafter;
}

// ---------------------------------------------------------------- slots

static struct reader_slot *slot_of(struct drafter_reader *d, const struct seq *seq) {
    const int index = seq->draft->slot[d->base.cls->id];
    return index >= 0 ? &d->slot[index] : NULL;
}

// There are as many as sequences may run.
static struct reader_slot *slot_take(struct drafter_reader *d, struct seq *seq) {
    for (int i = 0; i < d->host.max_seqs; i++) {
        if (d->slot[i].seq) continue;
        d->slot[i].seq = seq;
        d->slot[i].pos = -1;
        seq->draft->slot[d->base.cls->id] = i;
        return &d->slot[i];
    }
    return NULL;
}

static void leave(struct drafter *drafter, struct seq *seq) {
    struct reader_slot *slot = seq->draft ? slot_of(reader_of(drafter), seq) : NULL;
    if (!slot) return;
    slot->seq = NULL;
    seq->draft->slot[drafter->cls->id] = -1;
}

// The last row alone is of use.
static void observe(struct drafter *drafter, struct seq *seq, int pos, int n,
                    const float *const *hidden) {
    struct drafter_reader *d = reader_of(drafter);
    struct reader_slot *slot = slot_of(d, seq);
    if (d->is_broken || n == 0) return;
    if (!slot) slot = slot_take(d, seq);
    if (!slot) return;
    slot->pos = pos + n - 1;
    memcpy(slot->hidden, hidden[n - 1], (size_t)d->n_embd * sizeof *slot->hidden);
}

// ---------------------------------------------------------------- offers

static double price_ns(const struct drafter_reader *d, int n) {
    const struct batch_shape shape = drafting_shape(n, n);
    return (double)price_of(&d->price, &shape);
}

static struct draft_offer offer(struct drafter *drafter, struct seq *seq, int most, int32_t *out) {
    (void)out;
    struct drafter_reader *d = reader_of(drafter);
    const struct reader_slot *slot = slot_of(d, seq);
    const int room = seq->limit - seq->n_token, n = most < room ? most : room;
    const bool is_ready = !d->is_broken && slot && slot->pos == seq->n_token - 2;
    return (struct draft_offer){.n = is_ready && n > 0 ? n : 0, .source = DRAFT_MTP};
}

static double cost_ns(const struct drafter *drafter, int place, int n_seqs) {
    (void)place; // all tokens cost the same
    return price_ns((const struct drafter_reader *)drafter, n_seqs);
}

// ---------------------------------------------------------------- drafts

static void describe_some(void *ctx, int64_t begin, int64_t end, int worker) {
    struct drafter_reader *d = ctx;
    for (int64_t i = begin; i < end; i++)
        drafting_describe(&d->active[i]->text, &d->host.scratch[worker], d->host.plan->n_vocab,
                          &d->choice[i]);
}

static void batch_build(struct drafter_reader *d) {
    bool takes_time = false;
    batch_begin(&d->builder, d->choice);
    d->builder.batch.is_draft = true;
    d->builder.batch.input = d->input;
    for (int i = 0; i < d->n_active; i++) {
        const struct reader_part *part = d->active[i];
        const struct seq *seq = part->text.job->seq;
        batch_add(&d->builder, &(struct batch_rows){.page_table = seq->table.page,
                                                    .first_pos = seq->n_token - 2,
                                                    .n_tokens = 1,
                                                    .token = &part->token,
                                                    .n_out = 1});
        d->input[i] = part->hidden;
        takes_time |= choice_needs_history(&seq->choices);
    }
    if (takes_time)
        pool_run(d->host.pool, describe_some, d, d->n_active, 1);
    else
        describe_some(d, 0, d->n_active, 0);
}

// A run that fails, in whole or in part, ends all drafts: texts do not need them.
static bool batch_run(struct drafter_reader *d) {
    bool failed = backend_run(d->host.backend, &d->builder.batch, &d->result, NULL) != RN_OK;
    const rn_status *status = failed ? NULL : d->result.seq_status;
    for (int i = 0; status && i < d->builder.batch.n_seqs; i++) failed |= status[i] != RN_OK;
    d->is_broken = failed;
    return !failed;
}

static void take_all(struct drafter_reader *d) {
    int n = 0;
    for (int i = 0; i < d->n_active; i++) {
        struct reader_part *part = d->active[i];
        part->token = d->result.token[i];
        drafting_take(&part->text, d->host.scratch, d->host.tokenizer, part->token);
        part->hidden = d->result.hidden[i];
        if (!part->text.ends) d->active[n++] = part;
    }
    d->n_active = n;
}

static void draft(struct drafter *drafter, struct draft_job *jobs, int n_jobs) {
    struct drafter_reader *d = reader_of(drafter);
    uint64_t begin_ns = d->host.now(d->host.now_ctx);
    assert(n_jobs <= d->host.max_seqs);
    d->n_active = 0;
    for (int i = 0; i < n_jobs; i++) {
        const struct seq *seq = jobs[i].seq;
        const struct reader_slot *slot = slot_of(d, seq);
        d->part[i] = (struct reader_part){.text.job = &jobs[i]};
        if (jobs[i].n == 0 || !slot || slot->pos != seq->n_token - 2) continue;
        d->part[i].hidden = slot->hidden;
        d->part[i].token = seq->token[seq->n_token - 1];
        d->active[d->n_active++] = &d->part[i];
    }
    while (d->n_active > 0) {
        const struct batch_shape shape = drafting_shape(d->n_active, d->n_active);
        batch_build(d);
        if (!batch_run(d)) break;
        take_all(d);
        const uint64_t now_ns = d->host.now(d->host.now_ctx);
        price_learn(&d->price, &shape, now_ns - begin_ns);
        begin_ns = now_ns;
    }
    for (int i = 0; i < n_jobs; i++) drafting_finish(&d->part[i].text);
}

// ---------------------------------------------------------------- life

static void destroy(struct drafter *drafter) {
    struct drafter_reader *d = reader_of(drafter);
    free(d->slot);
    free(d->hidden);
    free(d->part);
    free(d->active);
    batch_builder_deinit(&d->builder);
    free(d->choice);
    free(d->input);
    free(d);
}

static const struct drafter_class drafter_reader_class = {.id = RN_DRAFTER_MTP,
                                                          .offer = offer,
                                                          .draft = draft,
                                                          .cost_ns = cost_ns,
                                                          .observe = observe,
                                                          .leave = leave,
                                                          .destroy = destroy};

static rn_status allocate(struct drafter_reader *d, rn_error *err) {
    const size_t n = (size_t)d->host.max_seqs, n_embd = (size_t)d->n_embd;
    d->slot = calloc(n, sizeof *d->slot);
    d->hidden = calloc(n * n_embd, sizeof *d->hidden);
    d->part = calloc(n, sizeof *d->part);
    d->active = calloc(n, sizeof(struct reader_part *));
    d->choice = calloc(n, sizeof *d->choice);
    d->input = calloc(n, sizeof *d->input);
    if (!d->slot || !d->hidden || !d->part || !d->active || !d->choice || !d->input)
        return err_set(err, RN_ERR_NOMEM, "no memory for drafts of %zu sequences", n);
    for (size_t i = 0; i < n; i++) d->slot[i].hidden = d->hidden + i * n_embd;
    for (size_t i = 0; i < n; i++) d->input[i] = d->hidden;
    return batch_builder_init(&d->builder, d->host.plan->n_group, d->host.max_seqs,
                              d->host.max_seqs, d->host.max_seqs, err);
}

// A block that cannot run drafts nothing.
static rn_status calibrate(struct drafter_reader *d, rn_error *err) {
    const struct calibration on = {.plan = d->host.plan,
                                   .kv = d->host.kv,
                                   .backend = d->host.backend,
                                   .builder = &d->builder,
                                   .max_logits = d->host.max_seqs,
                                   .no_attention = true,
                                   .block_input = d->input};
    const int most = d->host.max_seqs < d->host.n_ctx ? d->host.max_seqs : d->host.n_ctx;
    struct kv_table table;
    const rn_status status = kv_table_init(&table, d->host.plan->n_group, most, err);
    if (status) return status;
    price_init(&d->price, &d->rates);
    d->is_broken = calibrate_price(&on, &table, &d->price, most, CALIBRATE_NS, NULL) != RN_OK;
    kv_table_deinit(&table);
    return RN_OK;
}

rn_status drafter_reader_create(const struct drafter_block_config *config, struct drafter **out,
                                rn_error *err) {
    struct drafter_reader *d = calloc(1, sizeof *d);
    *out = NULL;
    if (!d) return err_set(err, RN_ERR_NOMEM, "no memory for the draft block");
    d->base.cls = &drafter_reader_class;
    d->host = *config;
    d->n_embd = config->plan->buffer[config->plan->hidden].width;
    struct plan block = *config->plan; // its ops alone
    block.op += block.n_op;
    block.n_op = block.n_op_all - block.n_op;
    cost_rates_init(&d->rates, &block, &(struct kv_bytes){0});
    rn_status status = allocate(d, err);
    if (!status) status = calibrate(d, err);
    if (status)
        destroy(&d->base);
    else
        *out = &d->base;
    return status;
}
