// The life of an engine: its configuration, its parts in the order of their creation, its end. See
// engine.h; the step is step.c.
#include "engine/step/engine.h"
#include "engine/step/promise.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/pool.h"

enum { MAX_WAITING = 1 << 20, MAX_ITL_MS = 1000000000 };

// The draft model, where one is used.
static const struct model *draft_of(const struct engine_config *config) {
    return config->draft.drafters & 1u << RN_DRAFTER_MODEL ? config->draft.model : NULL;
}

// Whether the model's draft block is run. RN_ERR_ARG: it was asked for, and it cannot be.
static rn_status block_find(const struct model *model, const struct engine_config *config,
                            const struct backend_place *place, bool *out, rn_error *err) {
    const bool is_wanted = config->draft.drafters & 1u << RN_DRAFTER_MTP;
    const bool is_there = plan_has_block(&model->plan);
    *out = is_wanted && is_there && place->device.runs_blocks;
    if (*out || !is_wanted || config->draft.is_auto) return RN_OK;
    return err_set(err, RN_ERR_ARG, "speculate: 'mtp' drafts with a block of the model, and %s",
                   is_there ? "this backend does not run it" : "this model has none");
}

rn_status engine_plan(const struct model *model, const struct engine_config *config,
                      struct backend_place *place, struct backend_place *draft_place,
                      struct budget *out, rn_error *err) {
    struct place_sizes wanted = {.sizes = config->sizes,
                                 .kv_bytes = config->kv_bytes,
                                 .kv_pages = config->kv_pages,
                                 .store_bytes = config->store.memory_bytes,
                                 .draft_rows = draft_rows(&config->draft, config->sizes.max_seqs),
                                 .n_threads = config->n_threads};
    struct place_wanted own = config->place, of_draft = config->draft_place;
    bool has_block;
    rn_status s;
    own.plan = &model->plan;
    if (draft_of(config)) of_draft.plan = &draft_of(config)->plan;
    if ((s = place_find(&own, place, err))) return s;
    if ((s = block_find(model, config, place, &has_block, err))) return s;
    wanted.no_block = !has_block;
    if ((s = place_find_draft(&of_draft, place, draft_place, err))) return s;
    return place_budget(place, model, draft_place, draft_of(config), &wanted, out, err);
}

// Resolves defaults, checks ranges, and shortens a context that memory does not hold.
static rn_status read_config(struct engine *engine, const struct model *model,
                             const struct engine_config *config, rn_error *err) {
    struct budget budget;
    const rn_status status =
        engine_plan(model, config, &engine->place, &engine->draft_place, &budget, err);
    if (status) return status;
    engine->kv_bytes = budget.kv;
    // the draft block runs on the same device while a step is made, so no other is in flight
    engine->has_block = budget.has_block;
    engine->depth = engine->has_block ? 1 : engine->place.device.depth;
    assert(engine->depth >= 1 && engine->depth <= BACKEND_MAX_DEPTH);
    engine->n_ctx = budget.sizes.n_ctx;
    engine->max_seqs = budget.sizes.max_seqs;
    engine->batch_tokens = budget.sizes.batch_tokens;
    engine->logit_rows = budget.sizes.logit_rows;
    engine->max_waiting = config->max_waiting ? config->max_waiting : ENGINE_MAX_WAITING;
    if (engine->max_waiting < 1 || engine->max_waiting > MAX_WAITING)
        return err_set(err, RN_ERR_ARG, "max_waiting is %d, expected 1 to %d", engine->max_waiting,
                       MAX_WAITING);
    if (!(config->itl_ms >= 0 && config->itl_ms <= MAX_ITL_MS))
        return err_set(err, RN_ERR_ARG, "itl_ms is %g, expected 0 to %d", config->itl_ms,
                       MAX_ITL_MS);
    // half of the steps would exceed a bound that they aim at
    const double aim = 0.96;
    engine->itl_ns = config->itl_ms > 0 ? (uint64_t)(config->itl_ms * aim * 1e6) : UINT64_MAX;
    engine->max_live = engine->max_waiting + 2 * engine->max_seqs;
    engine->kv_config = budget_kv_config(&model->plan, &budget.kv);
    engine->kv_config.budget = budget.kv_bytes;
    if (engine->place.device.pages == PAGES_FIXED)
        kv_fix_pages(&engine->kv_config, engine->n_ctx, engine->batch_tokens);
    engine->draft_kv_bytes = budget.beside.kv_bytes;
    engine->block_kv_bytes = budget.block_kv_bytes;
    engine->kv_config.no_prefix = config->no_prefix;
    // of sequences that run, that leave, and one more that may be admitted
    engine->kv_config.max_tables = engine->depth * engine->max_seqs + 1;
    engine->kv_config.max_page_ops =
        model->plan.n_group * (engine->batch_tokens / KV_PAGE_TOKENS + 5 * engine->max_seqs);
    return RN_OK;
}

static rn_status allocate(struct engine *engine, rn_error *err) {
    const size_t seqs = (size_t)engine->max_seqs;
    engine->running = calloc(seqs, sizeof(struct seq *));
    engine->prompts = calloc(seqs, sizeof(struct seq *));
    engine->unmasked = calloc(seqs, sizeof(struct seq *));
    engine->waiting = calloc((size_t)engine->max_live, sizeof *engine->waiting);
    bool has_works = true;
    for (int i = 0; i < engine->depth; i++) {
        engine->flight[i].work = calloc(seqs, sizeof *engine->flight[i].work);
        has_works &= engine->flight[i].work != NULL;
    }
    engine->event = calloc((size_t)engine_events_max(engine), sizeof *engine->event);
    engine->pick = calloc((size_t)engine->logit_rows, sizeof *engine->pick);
    engine->choice = calloc((size_t)engine->logit_rows, sizeof *engine->choice);
    if (!engine->running || !engine->prompts || !engine->unmasked || !engine->waiting ||
        !has_works || !engine->event || !engine->pick || !engine->choice)
        return err_set(err, RN_ERR_NOMEM, "no memory for %d sequences", engine->max_seqs);
    rn_status status = step_board_init(&engine->steps, err);
    if (!status)
        status = batch_builder_init(&engine->builder, engine->plan->n_group, engine->batch_tokens,
                                    engine->batch_tokens, engine->max_seqs, err);
    if (!status) status = engine_promises_init(engine, err);
    if (status) return status;
    return users_init(&engine->users, engine->max_live, err);
}

static rn_status create_pool(struct engine *engine, const struct engine_config *config,
                             rn_error *err) {
    if (config->n_threads < 0)
        return err_set(err, RN_ERR_ARG, "threads: %d is below 0", config->n_threads);
    return pool_create_here(config->n_threads, config->no_pin, &engine->pool, err);
}

static rn_status create_backend(struct engine *engine, const struct engine_config *config,
                                rn_error *err) {
    struct backend_config b = {.device = engine->place.index,
                               .variant = config->variant,
                               .kv_type = engine->place.kv_type,
                               .sizes = {.max_tokens = engine->batch_tokens,
                                         .max_logits = engine->logit_rows,
                                         .max_seqs = engine->max_seqs,
                                         .bf16_states = engine->place.bf16_states},
                               .pool = engine->pool,
                               .progress = config->progress,
                               .progress_ctx = config->progress_ctx,
                               .now = engine->clock.now,
                               .now_ctx = engine->clock.ctx};
    for (int g = 0; g < engine->plan->n_group; g++)
        b.n_pages[g] = kv_group_pages(&engine->kv_config, g);
    if (engine->block_kv_bytes) {
        const int g = engine->plan->n_group;
        b.n_pages[g] = (uint32_t)(engine->block_kv_bytes / engine->kv_bytes.page[g]);
    }
    const rn_status status = engine->place.cls->create(engine->plan, &b, &engine->backend, err);
    if (status) return status;
    return kv_create(&engine->kv_config, engine->backend, &engine->kv, err);
}

static rn_status create_draft(struct engine *engine, const struct engine_config *config,
                              rn_error *err) {
    const struct draft_host host = {.plan = engine->plan,
                                    .tokenizer = engine->tokenizer,
                                    .price = &engine->price,
                                    .kv = engine->kv,
                                    .backend = engine->backend,
                                    .builder = &engine->builder,
                                    .place = &engine->place,
                                    .draft_place = &engine->draft_place,
                                    .variant = config->variant,
                                    .pool = engine->pool,
                                    .scratch = engine->scratch,
                                    .n_ctx = engine->n_ctx,
                                    .max_seqs = engine->max_seqs,
                                    .batch_tokens = engine->batch_tokens,
                                    .logit_rows = engine->logit_rows,
                                    .itl_ns = engine->itl_ns,
                                    .draft_kv_bytes = engine->draft_kv_bytes,
                                    .has_block = engine->has_block,
                                    .block_kv_bytes = engine->block_kv_bytes,
                                    .block_page_bytes =
                                        engine->block_kv_bytes
                                            ? engine->kv_bytes.page[engine->plan->n_group]
                                            : 0,
                                    .now = engine->clock.now,
                                    .now_ctx = engine->clock.ctx};
    return draft_create(&host, &config->draft, &engine->draft, err);
}

static uint64_t machine_now(void *ctx) {
    (void)ctx;
    return clock_ns();
}

static rn_status create_intake(struct engine *engine, rn_error *err) {
    struct seq_limits limits = {.tokenizer = engine->tokenizer,
                                .n_ctx = engine->n_ctx,
                                .n_group = engine->plan->n_group,
                                .n_embd = engine->n_embd,
                                .draft_max = engine->draft ? engine->draft->draft_max : 0,
                                .draft = &draft_seq_class,
                                .draft_ctx = engine->draft,
                                .now = engine->clock.now,
                                .now_ctx = engine->clock.ctx};
    for (int32_t id = 0; id < tokenizer_size(engine->tokenizer); id++)
        if (tokenizer_bytes(engine->tokenizer, id).len > limits.token_bytes_max)
            limits.token_bytes_max = tokenizer_bytes(engine->tokenizer, id).len;
    return intake_init(&engine->intake, &limits, engine->max_waiting, err);
}

static rn_status create_parts(struct engine *engine, const struct model *model,
                              const struct engine_config *config, rn_error *err) {
    rn_status s;
    if ((s = read_config(engine, model, config, err))) return s;
    if ((s = allocate(engine, err))) return s;
    if ((s = create_pool(engine, config, err))) return s;
    if ((s = create_backend(engine, config, err))) return s;
    engine->n_scratch = pool_size(engine->pool);
    if ((s = choice_scratch_create(engine->n_scratch, engine->plan->n_vocab, &engine->scratch,
                                   err)))
        return s;
    for (int i = 0; i < engine->n_scratch; i++) engine->scratch[i].units = &engine->units;
    cost_rates_init(&engine->rates, engine->plan, &engine->kv_bytes);
    for (int c = 0; c < OPS_COUNT; c++)
        cost_rates_init_class(&engine->class_rates[c], engine->plan, &engine->kv_bytes,
                              (enum op_class)c);
    price_init(&engine->price, &engine->rates);
    divider_init(&engine->divider, &engine->rates);
    if (config->draft.drafters && (s = create_draft(engine, config, err))) return s;
    const bool has_store = config->store.path || config->store.memory_bytes;
    if (has_store && (s = engine_store_create(engine, &config->store, err))) return s;
    engine_fill_stats(engine);
    return RN_OK;
}

rn_status engine_init(struct engine *engine, const struct model *model,
                      const struct tokenizer *tokenizer, const struct engine_config *config,
                      rn_error *err) {
    *engine = (struct engine){.plan = &model->plan,
                              .tokenizer = tokenizer,
                              .clock = config->clock,
                              .self_check = config->self_check,
                              .mask_units = config->mask_units,
                              .next_deadline = UINT64_MAX};
    if (!engine->clock.now) engine->clock.now = machine_now;
    engine->n_embd = model->plan.buffer[model->plan.hidden].width;
    assert(tokenizer_size(tokenizer) == model->plan.n_vocab);
    rn_status status = mask_maker_init(&engine->maker, err);
    if (status) return status;
    status = create_parts(engine, model, config, err);
    if (!status) status = create_intake(engine, err);
    if (status) engine_deinit(engine);
    return status;
}

void engine_deinit(struct engine *engine) {
    for (int i = 0; i < engine->n_running; i++) engine_free_table(engine, engine->running[i]);
    for (struct seq *seq = engine->leaving; seq; seq = seq->next) engine_free_table(engine, seq);
    mask_maker_deinit(&engine->maker);
    draft_destroy(engine->draft); // it knows sequences and uses the pool
    if (engine->intake.max_waiting) intake_deinit(&engine->intake); // frees all sequences
    page_store_destroy(engine->store); // writes the pages that the tables gave up
    kv_destroy(engine->kv);
    backend_destroy(engine->backend);
    if (engine->pool) pool_destroy(engine->pool);
    choice_scratch_destroy(engine->scratch, engine->n_scratch);
    users_deinit(&engine->users);
    engine_promises_deinit(engine);
    free(engine->running);
    free(engine->prompts);
    free(engine->unmasked);
    free(engine->waiting);
    for (int i = 0; i < BACKEND_MAX_DEPTH; i++) free(engine->flight[i].work);
    batch_builder_deinit(&engine->builder);
    step_board_deinit(&engine->steps);
    free(engine->event);
    free(engine->pick);
    free(engine->choice);
    memset(engine, 0, sizeof *engine);
}
