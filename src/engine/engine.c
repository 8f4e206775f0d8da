// The engine's life and its step; see engine.h for the invariants.
#include "engine/engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/pool.h"
#include "engine/budget.h"

enum { MAX_WAITING = 1 << 20, MAX_ITL_MS = 1000000000 };

// ---------------------------------------------------------------- the step

// Adds the time since the last call.
static void lap(const struct engine *engine, uint64_t *at, uint64_t *sum) {
    const uint64_t now = engine_now(engine);
    *sum += now - *at;
    *at = now;
}

// Choosing is a part of the backend's run, and counts as sampling. The two clocks may differ.
static void count_choosing(struct engine *engine, uint64_t run_ns) {
    const uint64_t ns = engine->backend->cls->choose_ns(engine->backend);
    const uint64_t part = ns < run_ns ? ns : run_ns;
    engine->stats.run_ns -= part;
    engine->stats.sample_ns += part;
}

// What is there now, beside what the step counted.
static void stats_fill(struct engine *engine) {
    rn_engine_stats *stats = &engine->stats;
    struct kv_stats kv;
    kv_get_stats(engine->kv, &kv);
    stats->running = engine->n_running;
    stats->waiting = engine->n_waiting;
    stats->evictions = kv.evictions;
    stats->pages_total = kv.pages_total;
    stats->pages_held = kv.pages_held;
    stats->pages_shared = kv.pages_shared;
    stats->pages_cached = kv.pages_cached;
    stats->kv_held_bytes = kv.held_bytes;
    stats->kv_cached_bytes = kv.cached_bytes;
}

rn_status engine_step(struct engine *engine, bool *busy) {
    rn_engine_stats *stats = &engine->stats;
    *busy = false;
    if (engine->next_event < engine->n_event) return RN_ERR_ARG; // events would be lost
    engine->n_event = engine->next_event = 0;
    intake_bury(&engine->intake, engine->done);
    engine->done = NULL;
    const uint64_t begin = engine_now(engine);
    uint64_t at = begin;
    atomic_store_explicit(&engine->begin_ns, begin, memory_order_relaxed);
    if (engine_schedule(engine)) {
        engine->outside_ns += begin - engine->end_ns;
        lap(engine, &at, &stats->schedule_ns);
        engine_build_batch(engine);
        lap(engine, &at, &stats->batch_ns);
        engine_run(engine);
        const uint64_t ran = stats->run_ns;
        lap(engine, &at, &stats->run_ns);
        count_choosing(engine, stats->run_ns - ran);
        engine_sample(engine);
        lap(engine, &at, &stats->sample_ns);
        engine_publish(engine);
        lap(engine, &at, &stats->publish_ns);
        engine_draft_learn(engine, at - begin);
        engine->end_ns = at;
        stats->steps++;
    }
    stats_fill(engine);
    atomic_store_explicit(&engine->begin_ns, 0, memory_order_relaxed);
    assert(engine_check(engine));
    *busy = engine->n_work > 0 || engine->n_event > 0;
    return RN_OK;
}

void engine_run(struct engine *engine) {
    const struct backend_class *cls = engine->backend->cls;
    cls->run(engine->backend, &engine->batch);
    engine->step_cost =
        ledger_step(&engine->rates, &engine->shape, cls->expert_bytes(engine->backend));
    engine->stats.weight_bytes += engine->step_cost.weight_bytes;
    engine->stats.kv_bytes += engine->step_cost.kv_read_bytes;
}

bool engine_next_event(struct engine *engine, rn_event *out) {
    if (engine->next_event == engine->n_event) return false;
    *out = engine->event[engine->next_event++];
    return true;
}

static bool seq_check(const struct seq *seq, enum seq_state state) {
    if (seq->state != state || seq->n_token > seq->limit) return false;
    if (state == SEQ_WAITING) return seq->table.n_page == 0 && seq->n_done == 0;
    return seq->n_done < seq->n_token && seq->n_done + seq->n_again < seq->n_token &&
           !seq->table.marked;
}

static bool waiter_check(const struct engine *engine, int index) {
    const struct waiter *waiter = &engine->waiting[index];
    const struct seq *seq = waiter->seq;
    return seq_check(seq, SEQ_WAITING) && seq->waiting_at == index && waiter->turn.id == seq->id &&
           waiter->turn.choice == seq->choice && waiter->is_paused == seq->is_paused &&
           waiter->follows == (seq->choice > 0 && !seq->was_admitted);
}

bool engine_check(struct engine *engine) {
    kv_check_begin(engine->kv);
    for (int i = 0; i < engine->n_running; i++) {
        const struct seq *seq = engine->running[i];
        if (!seq_check(seq, SEQ_RUNNING)) return false;
        if (i > 0 && engine->running[i - 1]->priority < seq->priority) return false;
        kv_check_table(engine->kv, &seq->table);
    }
    for (int i = 0; i < engine->n_waiting; i++)
        if (!waiter_check(engine, i)) return false;
    return kv_check_end(engine->kv);
}

// ---------------------------------------------------------------- life

// Resolves defaults, checks ranges, and shortens a context that memory does not hold.
static rn_status read_config(struct engine *engine, const struct model *model,
                             const struct engine_config *config, rn_error *err) {
    const struct backend_config *b = &config->backend;
    const struct model *draft =
        config->spec.drafters & 1u << RN_DRAFTER_MODEL ? config->spec.model : NULL;
    const uint64_t address_room = memory_address_room();
    const struct budget_request request = {.plan = &model->plan,
                                           .n_ctx_max = model->hp.n_ctx,
                                           .kv_type = b->kv_type,
                                           .wanted = {.n_ctx = config->n_ctx,
                                                      .max_seqs = b->max_seqs,
                                                      .batch_tokens = b->max_tokens,
                                                      .logit_rows = b->max_logits},
                                           .draft_rows =
                                               speculation_rows(&config->spec, b->max_seqs),
                                           .beside = {.plan = draft ? &draft->plan : NULL,
                                                      .n_ctx_max = draft ? draft->hp.n_ctx : 0,
                                                      .kv_type = b->kv_type},
                                           .kv_bytes = config->kv_bytes,
                                           .kv_pages = config->kv_pages,
                                           .total = memory_total(),
                                           .available = memory_available(),
                                           .address_room = address_room,
                                           .stack_bytes =
                                               address_room ? pool_stack_bytes(b->n_threads) : 0};
    struct budget budget;
    const rn_status status = budget_choose(&request, &budget, err);
    if (status) return status;
    engine->kv_type = b->kv_type;
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
    engine->itl_ns = config->itl_ms > 0 ? (uint64_t)(config->itl_ms * 1e6) : UINT64_MAX;
    engine->max_live = engine->max_waiting + 2 * engine->max_seqs;
    engine->kv_config = budget_kv_config(&model->plan, b->kv_type);
    engine->kv_config.budget = budget.kv_bytes;
    engine->draft_kv_bytes = budget.beside.kv_bytes;
    engine->kv_config.no_prefix = config->no_prefix;
    engine->kv_config.max_tables = engine->max_seqs + 1; // and one that may be admitted
    engine->kv_config.max_page_ops =
        model->plan.n_group * (engine->batch_tokens / KV_PAGE_TOKENS + 5 * engine->max_seqs);
    return RN_OK;
}

static rn_status allocate(struct engine *engine, rn_error *err) {
    const size_t seqs = (size_t)engine->max_seqs, rows = (size_t)engine->batch_tokens;
    engine->running = calloc(seqs, sizeof(struct seq *));
    engine->prompts = calloc(seqs, sizeof(struct seq *));
    engine->waiting = calloc((size_t)engine->max_live, sizeof *engine->waiting);
    engine->work = calloc(seqs, sizeof *engine->work);
    engine->batch_seq = calloc(seqs, sizeof *engine->batch_seq);
    engine->token = calloc(rows, sizeof *engine->token);
    engine->pos = calloc(rows, sizeof *engine->pos);
    engine->out_row = calloc(rows, sizeof *engine->out_row);
    const size_t n_event = (size_t)engine->max_live + (size_t)engine->logit_rows;
    engine->event = calloc(n_event, sizeof *engine->event);
    engine->pick = calloc((size_t)engine->logit_rows, sizeof *engine->pick);
    engine->choice = calloc((size_t)engine->logit_rows, sizeof *engine->choice);
    if (engine->running && engine->prompts && engine->waiting && engine->work &&
        engine->batch_seq && engine->token && engine->pos && engine->out_row && engine->event &&
        engine->pick && engine->choice)
        return users_init(&engine->users, engine->max_live, err);
    return err_set(err, RN_ERR_NOMEM, "no memory for %d sequences and %d rows", engine->max_seqs,
                   engine->batch_tokens);
}

static rn_status create_backend(struct engine *engine, const struct engine_config *config,
                                rn_error *err) {
    struct backend_config b = config->backend;
    b.max_tokens = engine->batch_tokens;
    b.max_logits = engine->logit_rows;
    b.max_seqs = engine->max_seqs;
    for (int g = 0; g < engine->plan->n_group; g++)
        b.n_pages[g] = kv_group_pages(&engine->kv_config, g);
    const rn_status status = backend_create(engine->plan, &b, &engine->backend, err);
    if (status) return status;
    return kv_create(&engine->kv_config, engine->backend, &engine->kv, err);
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
                                .draft_max = engine->spec ? engine->spec->draft_max : 0,
                                .lookup = engine->spec && engine->spec->drafter[RN_DRAFTER_LOOKUP],
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
    if ((s = create_backend(engine, config, err))) return s;
    engine->n_scratch = engine->backend->cls->threads(engine->backend);
    if ((s = choice_scratch_create(engine->n_scratch, engine->plan->n_vocab, &engine->scratch,
                                   err)))
        return s;
    cost_rates_init(&engine->rates, engine->plan, engine->kv_type);
    pace_init(&engine->pace, &engine->rates);
    if (config->spec.drafters &&
        (s = speculation_create(engine, &config->spec, engine->kv_type, config->backend.isa, err)))
        return s;
    stats_fill(engine);
    return RN_OK;
}

rn_status engine_init(struct engine *engine, const struct model *model,
                      const struct tokenizer *tokenizer, const struct engine_config *config,
                      rn_error *err) {
    *engine = (struct engine){.plan = &model->plan,
                              .tokenizer = tokenizer,
                              .clock = config->clock,
                              .next_deadline = UINT64_MAX};
    if (!engine->clock.now) engine->clock.now = machine_now;
    engine->n_embd = model->plan.buffer[model->plan.hidden].width;
    assert(tokenizer_size(tokenizer) == model->plan.n_vocab);
    rn_status status = create_parts(engine, model, config, err);
    if (!status) status = create_intake(engine, err);
    if (status) engine_deinit(engine);
    return status;
}

void engine_deinit(struct engine *engine) {
    for (int i = 0; i < engine->n_running; i++) kv_release(engine->kv, &engine->running[i]->table);
    speculation_destroy(engine->spec); // it knows sequences and uses the backend's threads
    if (engine->intake.max_waiting) intake_deinit(&engine->intake); // frees all sequences
    kv_destroy(engine->kv);
    backend_destroy(engine->backend);
    choice_scratch_destroy(engine->scratch, engine->n_scratch);
    users_deinit(&engine->users);
    free(engine->running);
    free(engine->prompts);
    free(engine->waiting);
    free(engine->work);
    free(engine->batch_seq);
    free(engine->token);
    free(engine->pos);
    free(engine->out_row);
    free(engine->event);
    free(engine->pick);
    free(engine->choice);
    memset(engine, 0, sizeof *engine);
}
