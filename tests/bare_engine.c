// The public calls over an engine that the test can look into (bare_engine.h).
#include "bare_engine.h"

struct engine_clock bare_clock;
const struct backend_class *bare_class, *bare_draft_class;

const rn_model_info *rn_model_get_info(const rn_model *model) { return &model->info; }

const char *rn_finish_text(rn_finish finish) {
    return (const char *[]){"none", "stop", "length", "cancelled", "error"}[finish];
}

// The drafters whose names are in the option, or all.
static inline struct draft_config bare_speculation(const rn_engine_options *o) {
    struct draft_config config = {.model = o->draft ? &o->draft->model : NULL,
                                  .tokenizer = o->draft ? o->draft->tokenizer : NULL,
                                  .fn = o->draft_fn,
                                  .ctx = o->draft_ctx,
                                  .draft_max = o->draft_max,
                                  .draft_min = o->draft_min};
    const bool all = !o->speculate || strcmp(o->speculate, "auto") == 0;
    for (int id = 0; id < RN_DRAFTER_COUNT; id++)
        if (all || strstr(o->speculate, draft_name((rn_drafter)id))) config.drafters |= 1u << id;
    return config;
}

rn_status rn_engine_create(const rn_model *model, const rn_engine_options *o, rn_engine **out,
                           rn_error *err) {
    struct engine_config config = {
        .place = {.name = o->backend, .cls = bare_class, .kv_type = o->kv_type},
        .draft_place = {.name = o->draft_backend, .cls = bare_draft_class},
        .variant = o->isa,
        .n_threads = o->n_threads,
        .sizes = {.n_ctx = o->n_ctx,
                  .max_seqs = o->max_seqs,
                  .batch_tokens = o->batch_tokens,
                  .logit_rows = o->logit_rows},
        .max_waiting = o->max_waiting,
        .kv_bytes = o->kv_bytes,
        .kv_pages = o->kv_pages,
        .itl_ms = o->itl_ms,
        .no_prefix = o->no_prefix_cache,
        .draft = bare_speculation(o),
        .clock = bare_clock};
    const rn_status checked = draft_check(&config.draft, err);
    if (checked) return checked;
    rn_engine *engine = aligned_alloc(alignof(rn_engine), sizeof *engine);
    assert_non_null(engine);
    const rn_status status =
        engine_init(&engine->engine, &model->model, model->tokenizer, &config, err);
    if (status) free(engine);
    *out = status ? NULL : engine;
    return status;
}

void rn_engine_destroy(rn_engine *engine) {
    engine_deinit(&engine->engine);
    free(engine);
}

rn_status rn_engine_submit(rn_engine *engine, const rn_request *request, uint64_t *id,
                           rn_error *err) {
    return intake_submit(&engine->engine.intake, request, id, err);
}

void rn_engine_cancel(rn_engine *engine, uint64_t id) { intake_cancel(&engine->engine.intake, id); }

void rn_engine_pause(rn_engine *engine, uint64_t id, bool pause) {
    intake_pause(&engine->engine.intake, id, pause);
}

rn_status rn_engine_step(rn_engine *engine, bool *busy) {
    const rn_status status = engine_step(&engine->engine, busy);
    check(engine_check(&engine->engine), "an invariant is broken after step %llu",
          (unsigned long long)engine->engine.stats.steps);
    return status;
}

bool rn_engine_next_event(rn_engine *engine, rn_event *out) {
    return engine_next_event(&engine->engine, out);
}

void rn_engine_get_stats(const rn_engine *engine, rn_engine_stats *out) {
    *out = engine->engine.stats;
}

void rn_engine_forget_prefixes(rn_engine *engine) { engine->engine.forget = true; }
