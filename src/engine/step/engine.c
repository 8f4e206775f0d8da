// The engine's life and its step; see engine.h for the invariants.
#include "engine/step/engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/pool.h"

enum { MAX_WAITING = 1 << 20, MAX_ITL_MS = 1000000000 };

// ---------------------------------------------------------------- the step

// Adds the time since the last call.
static void lap(const struct engine *engine, uint64_t *at, uint64_t *sum) {
    const uint64_t now = engine_now(engine);
    *sum += now - *at;
    *at = now;
}

// Choosing is a part of the run, and is booked as sampling. The two clocks may differ.
static void count_choosing(struct engine *engine) {
    rn_engine_stats *stats = &engine->stats;
    const uint64_t ns = engine->result.choose_ns, run_ns = stats->run_ns - engine->run_ns_before;
    const uint64_t part = ns < run_ns ? ns : run_ns;
    stats->run_ns -= part;
    stats->sample_ns += part;
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

// The step that was made goes to the backend, and its sequences with it.
static void take_off(struct engine *engine) {
    struct flight *flight = engine->step;
    engine->n_overlapped += engine->n_flight > 0;
    engine->n_flight++;
    for (int i = 0; i < flight->n_work; i++) {
        struct work *work = &flight->work[i];
        struct seq *seq = work->seq;
        seq->n_steps++;
        seq->table.n_flight += work->n_tokens;
        work->is_ahead =
            work->samples && engine_runs_ahead(engine, seq) && seq_known(seq) + 1 < seq->limit;
        seq->n_ahead += work->is_ahead;
        seq->ahead_row = work->first_out + work->n_out - 1;
    }
}

// The oldest step in flight has landed. Sequences that left meanwhile, and have no other step in
// flight, give their pages back.
static void touch_down(struct engine *engine, struct flight *flight) {
    assert(flight == &engine->flight[engine->first_flight]);
    engine->first_flight = (engine->first_flight + 1) % engine->depth;
    engine->n_flight--;
    for (int i = 0; i < flight->n_work; i++) {
        const struct work *work = &flight->work[i];
        struct seq *seq = work->seq;
        seq->n_steps--;
        seq->table.n_flight -= work->n_tokens;
        seq->n_ahead -= work->is_ahead;
    }
    for (struct seq **at = &engine->leaving, *seq; (seq = *at);) {
        if (seq->n_steps > 0) {
            at = &seq->next;
            continue;
        }
        *at = seq->next;
        engine_free_table(engine, seq);
        engine->blocked = false;
        seq->next = engine->done;
        engine->done = seq;
    }
}

static bool is_lost(const struct engine *engine) {
    return atomic_load_explicit(&engine->is_lost, memory_order_relaxed);
}

// Nothing will come of the steps in flight, nor of anything else.
static void lose_device(struct engine *engine) {
    while (engine->n_flight > 0) touch_down(engine, &engine->flight[engine->first_flight]);
    engine_end_all(engine, RN_ERR_DEVICE);
    atomic_store_explicit(&engine->is_lost, true, memory_order_release);
    intake_refuse(&engine->intake, RN_ERR_DEVICE);
}

static void fail(struct engine *engine, struct flight *flight, rn_status status) {
    if (status == RN_ERR_DEVICE)
        lose_device(engine);
    else
        engine_publish_failure(engine, flight, status);
}

void engine_submit(struct engine *engine) {
    struct flight *flight = engine->step;
    flight->n_work = engine->n_work;
    flight->shape = engine->shape;
    const rn_status status =
        engine->backend->cls->submit(engine->backend, &engine->batch, &engine->fault);
    if (status)
        fail(engine, flight, status); // it never was in flight
    else
        take_off(engine);
}

// The oldest step in flight: its results, then what they mean.
static void land(struct engine *engine, uint64_t *at) {
    rn_engine_stats *stats = &engine->stats;
    struct flight *flight = &engine->flight[engine->first_flight];
    const rn_status status =
        engine->backend->cls->wait(engine->backend, &engine->result, &engine->fault);
    lap(engine, at, &stats->run_ns);
    touch_down(engine, flight);
    if (status) {
        fail(engine, flight, status);
        return;
    }
    count_choosing(engine);
    engine->prompt_steps += flight->has_prompts;
    engine->step_cost = ledger_step(&engine->rates, &flight->shape, engine->result.expert_bytes);
    stats->weight_bytes += engine->step_cost.weight_bytes;
    stats->kv_bytes += engine->step_cost.kv_read_bytes;
    engine_sample(engine, flight);
    lap(engine, at, &stats->sample_ns);
    engine_publish(engine, flight);
    lap(engine, at, &stats->publish_ns);
    const uint64_t begin = flight->begin_ns;
    engine_draft_learn(engine, flight,
                       *at - (begin > engine->landed_ns ? begin : engine->landed_ns));
    engine->landed_ns = *at;
    stats->steps++;
}

// Schedules, builds and submits; false: there was nothing to do.
static bool make_step(struct engine *engine, uint64_t begin, uint64_t *at) {
    rn_engine_stats *stats = &engine->stats;
    if (!engine_schedule(engine)) return false;
    if (engine->n_flight == 0) engine->outside_ns += begin - engine->end_ns;
    engine->step->begin_ns = begin;
    lap(engine, at, &stats->schedule_ns);
    engine_build_batch(engine);
    lap(engine, at, &stats->batch_ns);
    engine_submit(engine);
    lap(engine, at, &stats->run_ns);
    return true;
}

static void step(struct engine *engine, uint64_t begin) {
    uint64_t at = begin;
    const bool flew = engine->n_flight > 0; // its landing may make room for others
    engine->run_ns_before = engine->stats.run_ns;
    // alone: one that is made now may end a sequence, whose landed token is to be read first
    const bool made = !engine->land_first && make_step(engine, begin, &at);
    if (engine->n_flight == engine->depth || (engine->n_flight > 0 && !made)) land(engine, &at);
    if (engine->land_first && engine->n_flight == 0) engine->blocked = engine->land_first = false;
    if (at != begin) engine->end_ns = at;
    engine->is_busy = made || flew || engine->n_event > 0;
}

// Sequences whose events were read are over. A step without events may have brought some that left
// before: their events may still be on their way to the reader, so they wait for the next ones.
static void bury_done(struct engine *engine) {
    if (engine->n_event == 0) return;
    engine->n_event = engine->next_event = 0;
    intake_bury(&engine->intake, engine->done);
    engine->done = NULL;
}

rn_status engine_step(struct engine *engine, bool *busy) {
    *busy = false;
    if (engine->next_event < engine->n_event) return RN_ERR_ARG; // events would be lost
    bury_done(engine);
    const uint64_t begin = engine_now(engine);
    atomic_store_explicit(&engine->begin_ns, begin, memory_order_relaxed);
    if (is_lost(engine)) {
        engine_take_new(engine);
        engine_end_all(engine, RN_ERR_DEVICE);
    } else {
        step(engine, begin);
    }
    stats_fill(engine);
    atomic_store_explicit(&engine->begin_ns, 0, memory_order_relaxed);
    assert(engine_check(engine));
    *busy = engine->is_busy;
    if (is_lost(engine)) *busy = engine->n_event > 0 || atomic_load(&engine->intake.inbox);
    return is_lost(engine) ? RN_ERR_DEVICE : RN_OK;
}

bool engine_next_event(struct engine *engine, rn_event *out) {
    if (engine->next_event == engine->n_event) return false;
    *out = engine->event[engine->next_event++];
    return true;
}

static bool seq_check(const struct seq *seq, enum seq_state state) {
    if (seq->state != state || seq->n_token > seq->limit) return false;
    if (state == SEQ_WAITING)
        return seq->table.n_page == 0 && seq->n_done == 0 && seq->n_steps == 0;
    if ((seq->n_steps == 0) != (seq->table.n_flight == 0)) return false;
    if (seq_next(seq) > seq_known(seq) && !seq->table.marked) return false; // a draft in flight
    return seq->n_done < seq->n_token && seq->n_done + seq->n_again < seq->n_token &&
           (!seq->table.marked || seq->n_steps > 0);
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
    for (const struct seq *seq = engine->leaving; seq; seq = seq->next) {
        if (seq->state != SEQ_DONE || seq->n_steps == 0) return false;
        kv_check_table(engine->kv, &seq->table);
    }
    for (int i = 0; i < engine->n_waiting; i++)
        if (!waiter_check(engine, i)) return false;
    return kv_check_end(engine->kv);
}

// ---------------------------------------------------------------- life

// The draft model, where one is used.
static const struct model *draft_of(const struct engine_config *config) {
    return config->spec.drafters & 1u << RN_DRAFTER_MODEL ? config->spec.model : NULL;
}

rn_status engine_plan(const struct model *model, const struct engine_config *config,
                      struct place *place, struct place *draft_place, struct budget *out,
                      rn_error *err) {
    const struct place_sizes wanted = {.sizes = config->sizes,
                                       .kv_bytes = config->kv_bytes,
                                       .kv_pages = config->kv_pages,
                                       .draft_rows =
                                           speculation_rows(&config->spec, config->sizes.max_seqs),
                                       .n_threads = config->n_threads};
    rn_status s;
    if ((s = place_find(&config->place, place, err))) return s;
    if ((s = place_find_draft(&config->draft_place, place, draft_place, err))) return s;
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
    engine->depth = engine->place.device.depth;
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
    engine->itl_ns = config->itl_ms > 0 ? (uint64_t)(config->itl_ms * 1e6) : UINT64_MAX;
    engine->max_live = engine->max_waiting + 2 * engine->max_seqs;
    engine->kv_config = budget_kv_config(&model->plan, &budget.kv);
    engine->kv_config.budget = budget.kv_bytes;
    if (engine->place.device.pages == PAGES_FIXED)
        kv_fix_pages(&engine->kv_config, engine->n_ctx, engine->batch_tokens);
    engine->draft_kv_bytes = budget.beside.kv_bytes;
    engine->kv_config.no_prefix = config->no_prefix;
    // of sequences that run, that leave, and one more that may be admitted
    engine->kv_config.max_tables = engine->depth * engine->max_seqs + 1;
    engine->kv_config.max_page_ops =
        model->plan.n_group * (engine->batch_tokens / KV_PAGE_TOKENS + 5 * engine->max_seqs);
    return RN_OK;
}

static rn_status allocate(struct engine *engine, rn_error *err) {
    const size_t seqs = (size_t)engine->max_seqs, rows = (size_t)engine->batch_tokens;
    engine->running = calloc(seqs, sizeof(struct seq *));
    engine->prompts = calloc(seqs, sizeof(struct seq *));
    engine->waiting = calloc((size_t)engine->max_live, sizeof *engine->waiting);
    bool has_works = true;
    for (int i = 0; i < engine->depth; i++) {
        engine->flight[i].work = calloc(seqs, sizeof *engine->work);
        has_works &= engine->flight[i].work != NULL;
    }
    engine->batch_seq = calloc(seqs, sizeof *engine->batch_seq);
    engine->token = calloc(rows, sizeof *engine->token);
    engine->pos = calloc(rows, sizeof *engine->pos);
    engine->out_row = calloc(rows, sizeof *engine->out_row);
    const size_t n_event = (size_t)engine->max_live + (size_t)engine->logit_rows;
    engine->event = calloc(n_event, sizeof *engine->event);
    engine->pick = calloc((size_t)engine->logit_rows, sizeof *engine->pick);
    engine->choice = calloc((size_t)engine->logit_rows, sizeof *engine->choice);
    if (engine->running && engine->prompts && engine->waiting && has_works && engine->batch_seq &&
        engine->token && engine->pos && engine->out_row && engine->event && engine->pick &&
        engine->choice)
        return users_init(&engine->users, engine->max_live, err);
    return err_set(err, RN_ERR_NOMEM, "no memory for %d sequences and %d rows", engine->max_seqs,
                   engine->batch_tokens);
}

static rn_status create_pool(struct engine *engine, const struct engine_config *config,
                             rn_error *err) {
    if (config->n_threads < 0)
        return err_set(err, RN_ERR_ARG, "threads: %d is below 0", config->n_threads);
    return pool_create_here(config->n_threads, config->no_pin, &engine->pool, err);
}

static rn_status create_backend(struct engine *engine, const struct engine_config *config,
                                rn_error *err) {
    struct backend_config b = {.variant = config->variant,
                               .kv_type = engine->place.kv_type,
                               .sizes = {.max_tokens = engine->batch_tokens,
                                         .max_logits = engine->logit_rows,
                                         .max_seqs = engine->max_seqs},
                               .pool = engine->pool,
                               .progress = config->progress,
                               .progress_ctx = config->progress_ctx,
                               .now = engine->clock.now,
                               .now_ctx = engine->clock.ctx};
    for (int g = 0; g < engine->plan->n_group; g++)
        b.n_pages[g] = kv_group_pages(&engine->kv_config, g);
    const rn_status status = engine->place.cls->create(engine->plan, &b, &engine->backend, err);
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
    if ((s = create_pool(engine, config, err))) return s;
    if ((s = create_backend(engine, config, err))) return s;
    engine->n_scratch = pool_size(engine->pool);
    if ((s = choice_scratch_create(engine->n_scratch, engine->plan->n_vocab, &engine->scratch,
                                   err)))
        return s;
    cost_rates_init(&engine->rates, engine->plan, &engine->kv_bytes);
    pace_init(&engine->pace, &engine->rates);
    if (config->spec.drafters &&
        (s = speculation_create(engine, &config->spec, config->variant, err)))
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
    for (int i = 0; i < engine->n_running; i++) engine_free_table(engine, engine->running[i]);
    for (struct seq *seq = engine->leaving; seq; seq = seq->next) engine_free_table(engine, seq);
    speculation_destroy(engine->spec); // it knows sequences and uses the backend's threads
    if (engine->intake.max_waiting) intake_deinit(&engine->intake); // frees all sequences
    kv_destroy(engine->kv);
    backend_destroy(engine->backend);
    if (engine->pool) pool_destroy(engine->pool);
    choice_scratch_destroy(engine->scratch, engine->n_scratch);
    users_deinit(&engine->users);
    free(engine->running);
    free(engine->prompts);
    free(engine->waiting);
    for (int i = 0; i < BACKEND_MAX_DEPTH; i++) free(engine->flight[i].work);
    free(engine->batch_seq);
    free(engine->token);
    free(engine->pos);
    free(engine->out_row);
    free(engine->event);
    free(engine->pick);
    free(engine->choice);
    memset(engine, 0, sizeof *engine);
}
