// The engine's life and its step; see engine.h for the invariants.
#include "engine/engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/ledger.h"

enum {
    DEFAULT_BATCH_TOKENS = 256, // as fast as more, and a step ends sooner
    MAX_SEQS = 4096,
    MAX_BATCH_TOKENS = 1 << 16,
    LOGIT_BYTES = 256 << 20, // of the rows that "as many as fit" means
};

// Frees the sequences whose events were collected.
static void reap(struct engine *engine) {
    while (engine->done) {
        struct seq *seq = engine->done;
        engine->done = seq->next;
        seq_destroy(seq);
    }
}

rn_status engine_step(struct engine *engine, bool *busy) {
    *busy = false;
    if (engine->next_event < engine->n_event) return RN_ERR_ARG; // events would be lost
    engine->n_event = engine->next_event = 0;
    reap(engine);
    if (engine_schedule(engine)) {
        engine_build_batch(engine);
        engine_run(engine);
        engine_sample(engine);
        engine_publish(engine);
    }
    assert(engine_check(engine));
    *busy = engine->n_work > 0 || engine->n_event > 0;
    return RN_OK;
}

void engine_run(struct engine *engine) {
    const struct backend_class *cls = engine->backend->cls;
    cls->run(engine->backend, &engine->batch);
    engine->step_cost = ledger_step(engine->plan, engine->kv_type, &engine->batch,
                                    cls->expert_bytes(engine->backend));
}

void engine_sample(struct engine *engine) {
    for (int i = 0; i < engine->n_work; i++) {
        struct work *work = &engine->work[i];
        const struct seq *seq = work->seq;
        const struct batch_seq *rows = &engine->batch_seq[i];
        for (int r = 0; seq->on_logits && r < rows->n_out; r++)
            seq->on_logits(seq->on_logits_ctx, seq->n_done + work->n_tokens - rows->n_out + r,
                           engine->backend->cls->logits(engine->backend, rows->first_out + r),
                           engine->plan->n_vocab);
        if (!work->samples) continue;
        const float *logits =
            engine->backend->cls->logits(engine->backend, rows->first_out + rows->n_out - 1);
        const struct sampler_view view = {.token = seq->token,
                                          .n_prompt = seq->n_prompt,
                                          .n_token = seq->n_token,
                                          .breakers = seq->breakers};
        work->chosen = sampler_choose(&engine->sampler, &seq->sampling, &view, logits);
    }
}

bool engine_next_event(struct engine *engine, rn_event *out) {
    if (engine->next_event == engine->n_event) return false;
    *out = engine->event[engine->next_event++];
    return true;
}

rn_status engine_submit(struct engine *engine, const rn_request *request, uint64_t *id,
                        rn_error *err) {
    if (engine->n_waiting >= ENGINE_MAX_WAITING)
        return err_set(err, RN_ERR_FULL, "%d requests are waiting already", engine->n_waiting);
    struct seq *seq;
    const rn_status status = seq_create(request, engine->tokenizer, engine->n_ctx,
                                        engine->plan->n_group, engine->token_bytes_max, &seq, err);
    if (status) return status;
    seq->id = *id = ++engine->next_id;
    *engine->waiting_end = seq;
    engine->waiting_end = &seq->next;
    engine->n_waiting++;
    return RN_OK;
}

void engine_cancel(struct engine *engine, uint64_t id) {
    for (int i = 0; i < engine->max_seqs; i++)
        if (engine->slot[i] && engine->slot[i]->id == id) engine->slot[i]->cancelled = true;
    for (struct seq *seq = engine->waiting_first; seq; seq = seq->next)
        if (seq->id == id) seq->cancelled = true;
}

bool engine_check(const struct engine *engine) {
    struct kv_tally tally;
    kv_check_begin(&engine->kv, &tally);
    for (int i = 0; i < engine->max_seqs; i++)
        if (engine->slot[i] && !kv_check_table(&engine->kv, &tally, &engine->slot[i]->table))
            return false;
    return kv_check_end(&engine->kv, &tally);
}

static rn_status check_limit(const char *name, int value, int min, int max, rn_error *err) {
    if (value >= min && value <= max) return RN_OK;
    return err_set(err, RN_ERR_ARG, "%s is %d, expected %d to %d", name, value, min, max);
}

// Resolves defaults and checks ranges.
static rn_status read_config(struct engine *engine, const struct model *model,
                             const struct engine_config *config, rn_error *err) {
    const struct backend_config *b = &config->backend;
    engine->kv_type = b->kv_type;
    engine->n_ctx = config->n_ctx ? config->n_ctx : model->hp.n_ctx;
    engine->max_seqs = b->max_seqs ? b->max_seqs : 1;
    const int tokens =
        engine->max_seqs > DEFAULT_BATCH_TOKENS ? engine->max_seqs : DEFAULT_BATCH_TOKENS;
    engine->batch_tokens = b->max_tokens ? b->max_tokens : tokens;
    engine->logit_rows = b->max_logits ? b->max_logits : engine->max_seqs;
    if (b->max_logits == -1) {
        const int fitting = LOGIT_BYTES / (int)sizeof(float) / model->plan.n_vocab;
        engine->logit_rows = fitting < engine->batch_tokens ? fitting : engine->batch_tokens;
        if (engine->logit_rows < engine->max_seqs) engine->logit_rows = engine->max_seqs;
    }
    rn_status s;
    if ((s = check_limit("context", engine->n_ctx, 1, model->hp.n_ctx, err))) return s;
    if ((s = check_limit("max_seqs", engine->max_seqs, 1, MAX_SEQS, err))) return s;
    // everyone gets a token and a row of logits in each step
    if ((s = check_limit("batch_tokens", engine->batch_tokens, engine->max_seqs, MAX_BATCH_TOKENS,
                         err)))
        return s;
    return check_limit("logit_rows", engine->logit_rows, engine->max_seqs, MAX_BATCH_TOKENS, err);
}

static rn_status allocate(struct engine *engine, rn_error *err) {
    const size_t seqs = (size_t)engine->max_seqs, rows = (size_t)engine->batch_tokens;
    engine->slot = calloc(seqs, sizeof(struct seq *));
    engine->work = calloc(seqs, sizeof *engine->work);
    engine->batch_seq = calloc(seqs, sizeof *engine->batch_seq);
    engine->token = calloc(rows, sizeof *engine->token);
    engine->pos = calloc(rows, sizeof *engine->pos);
    engine->logit_row = calloc((size_t)engine->logit_rows, sizeof *engine->logit_row);
    engine->event = calloc(seqs + ENGINE_MAX_WAITING, sizeof *engine->event);
    if (!engine->slot || !engine->work || !engine->batch_seq || !engine->token || !engine->pos ||
        !engine->logit_row || !engine->event)
        return err_set(err, RN_ERR_NOMEM, "no memory for %d sequences and %d rows",
                       engine->max_seqs, engine->batch_tokens);
    return RN_OK;
}

static rn_status create_backend(struct engine *engine, const struct engine_config *config,
                                rn_error *err) {
    struct backend_config b = config->backend;
    b.max_tokens = engine->batch_tokens;
    b.max_logits = engine->logit_rows;
    b.max_seqs = engine->max_seqs;
    const uint64_t n_page = (uint64_t)kv_pages_for(engine->n_ctx) * (uint64_t)engine->max_seqs;
    if (n_page > UINT32_MAX / 2)
        return err_set(err, RN_ERR_ARG, "%d sequences of %d positions need %llu pages",
                       engine->max_seqs, engine->n_ctx, (unsigned long long)n_page);
    for (int g = 0; g < engine->plan->n_group; g++) b.n_pages[g] = (uint32_t)n_page;
    const rn_status status = backend_create(engine->plan, &b, &engine->backend, err);
    if (status) return status;
    return kv_init(&engine->kv, engine->plan->n_group, b.n_pages, engine->backend, err);
}

rn_status engine_init(struct engine *engine, const struct model *model,
                      const struct tokenizer *tokenizer, const struct engine_config *config,
                      rn_error *err) {
    *engine = (struct engine){.plan = &model->plan, .tokenizer = tokenizer};
    engine->waiting_end = &engine->waiting_first;
    assert(tokenizer_size(tokenizer) == model->plan.n_vocab);
    for (int32_t id = 0; id < tokenizer_size(tokenizer); id++)
        if (tokenizer_bytes(tokenizer, id).len > engine->token_bytes_max)
            engine->token_bytes_max = tokenizer_bytes(tokenizer, id).len;
    rn_status status = read_config(engine, model, config, err);
    if (!status) status = allocate(engine, err);
    if (!status) status = sampler_init(&engine->sampler, model->plan.n_vocab, err);
    if (!status) status = create_backend(engine, config, err);
    if (status) engine_deinit(engine);
    return status;
}

static void destroy_list(struct seq *seq) {
    while (seq) {
        struct seq *next = seq->next;
        seq_destroy(seq);
        seq = next;
    }
}

void engine_deinit(struct engine *engine) {
    for (int i = 0; engine->slot && i < engine->max_seqs; i++) {
        if (!engine->slot[i]) continue;
        kv_release(&engine->kv, &engine->slot[i]->table);
        seq_destroy(engine->slot[i]);
    }
    destroy_list(engine->waiting_first);
    destroy_list(engine->done);
    kv_deinit(&engine->kv);
    backend_destroy(engine->backend);
    sampler_deinit(&engine->sampler);
    free(engine->slot);
    free(engine->work);
    free(engine->batch_seq);
    free(engine->token);
    free(engine->pos);
    free(engine->logit_row);
    free(engine->event);
    memset(engine, 0, sizeof *engine);
}
