// The life of speculation: options, drafters, and what a step costs with more rows, measured before
// the first request comes. See speculate.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/step/engine.h"

enum {
    STEP_ROWS = 32,          // of drafts: arithmetic binds before
    SHARED_TOKENS = 1 << 17, // of recent texts
    CALIBRATE_NS = 60000000, // for all measurements but the first few
    LIFETIME = 1024,         // of costs, in steps: what looked dear is tried again some day
    INERTIA = 32,            // of costs: who takes what looks cheap now is misled by noise
    CALIBRATE_LEAST = 2,     // measurements
    CALIBRATE_PASSES = 3,
};

const char *speculation_name(rn_drafter drafter) {
    static const char *const names[RN_DRAFTER_COUNT] = {[RN_DRAFTER_MODEL] = "model",
                                                        [RN_DRAFTER_LOOKUP] = "lookup",
                                                        [RN_DRAFTER_SHARED] = "shared",
                                                        [RN_DRAFTER_CUSTOM] = "custom"};
    const size_t at = (size_t)drafter;
    return at < RN_DRAFTER_COUNT ? names[at] : "unknown";
}

rn_status speculation_check(struct speculation_config *config, rn_error *err) {
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
int speculation_rows(const struct speculation_config *config, int max_seqs) {
    if (!config->drafters) return 0;
    const int seqs = max_seqs > 0 ? max_seqs : 1;
    const int most = config->draft_min > 0 ? SPEC_MAX_ROWS : STEP_ROWS;
    return seqs > most / config->draft_max ? most : seqs * config->draft_max;
}

// ---------------------------------------------------------------- costs

// One run of n rows of a sequence, from its begin on. *ns is 0 where they find no pages.
static rn_status measure(struct engine *engine, struct kv_table *table, int n,
                         struct batch_shape *shape, uint64_t *ns, rn_error *err) {
    *ns = 0;
    struct batch *batch = &engine->batch;
    if (!kv_grow(engine->kv, table, 0, n)) return RN_OK;
    *batch = (struct batch){.n_tokens = n,
                            .n_seqs = 1,
                            .n_out = n,
                            .n_logits = n,
                            .token = engine->token,
                            .pos = engine->pos,
                            .out_row = engine->out_row,
                            .seq = engine->batch_seq};
    batch->page = kv_take_ops(engine->kv, &batch->n_pages);
    engine->batch_seq[0] = (struct batch_seq){.n_tokens = n, .n_out = n};
    for (int g = 0; g < engine->plan->n_group; g++)
        engine->batch_seq[0].page_table[g] = table->page[g];
    for (int i = 0; i < n; i++) {
        engine->token[i] =
            (int32_t)((uint32_t)(i + 1) * 2654435761u % (uint32_t)engine->plan->n_vocab);
        engine->pos[i] = engine->out_row[i] = i;
    }
    *shape = (struct batch_shape){0};
    batch_shape_add(engine->plan, shape, 0, n, n);
    const rn_status status = backend_run(engine->backend, batch, &engine->result, err);
    if (!status) *ns = engine->result.run_ns;
    return status;
}

// Measures some numbers of rows, each a few times as far as time allows, and takes the fastest run
// of each: the system interrupts, and nothing is faster than the machine. Models whose step takes
// long get few measurements; what is between is interpolated, and every real step corrects it.
static rn_status measure_all(struct engine *engine, struct kv_table *table, int most,
                             rn_error *err) {
    static const int rows[] = {1, 4, 8, 2, 16, 3, 6, 12, 5, 24, 32};
    enum { N = sizeof rows / sizeof *rows };
    struct batch_shape shape[N];
    uint64_t best[N] = {0}, ns;
    const uint64_t begin = engine_now(engine);
    rn_status status = measure(engine, table, 1, &shape[0], &ns, err); // warms up
    for (int i = 0; i < CALIBRATE_PASSES * N && !status; i++) {
        const int at = i % N;
        if (i >= CALIBRATE_LEAST && engine_now(engine) - begin > CALIBRATE_NS) break;
        if (rows[at] > most) continue;
        status = measure(engine, table, rows[at], &shape[at], &ns, err);
        if (ns > 0 && (best[at] == 0 || ns < best[at])) best[at] = ns;
    }
    for (int n = 1; n <= most;
         n++) // from the smallest on; again, because what surprises counts less
        for (int i = 0; i < 2 * N; i++)
            if (rows[i % N] == n && best[i % N] > 0)
                pace_learn(&engine->spec->pace, &shape[i % N], best[i % N]);
    return status;
}

static rn_status calibrate(struct engine *engine, rn_error *err) {
    struct kv_table table;
    int most =
        engine->batch_tokens < engine->logit_rows ? engine->batch_tokens : engine->logit_rows;
    if (most > engine->n_ctx) most = engine->n_ctx;
    if (most > 1 + engine->spec->max_rows) most = 1 + engine->spec->max_rows;
    rn_status status = kv_table_init(&table, engine->plan->n_group, most, err);
    if (status) return status;
    status = measure_all(engine, &table, most, err);
    kv_release(engine->kv, &table);
    kv_table_deinit(&table);
    return status;
}

// ---------------------------------------------------------------- life

static rn_status create_model(struct engine *engine, const struct speculation_config *config,
                              const char *variant, rn_error *err) {
    const bool same = engine->draft_place.cls == engine->place.cls;
    const struct drafter_model_config model = {.model = config->model,
                                               .tokenizer = config->tokenizer,
                                               .target_tokenizer = engine->tokenizer,
                                               .place = &engine->draft_place,
                                               .variant = same ? variant : NULL,
                                               .pool = engine->pool,
                                               .n_ctx = engine->n_ctx,
                                               .max_seqs = engine->max_seqs,
                                               .batch_tokens = engine->batch_tokens,
                                               .kv_bytes = engine->draft_kv_bytes,
                                               .scratch = engine->scratch,
                                               .now = engine->clock.now,
                                               .now_ctx = engine->clock.ctx};
    return drafter_model_create(&model, &engine->spec->drafter[RN_DRAFTER_MODEL], err);
}

static rn_status create_drafters(struct engine *engine, const struct speculation_config *config,
                                 const char *variant, rn_error *err) {
    struct drafter **drafter = engine->spec->drafter;
    rn_status s = RN_OK;
    if (config->drafters & 1u << RN_DRAFTER_LOOKUP)
        s = drafter_lookup_create(&drafter[RN_DRAFTER_LOOKUP], err);
    if (!s && config->drafters & 1u << RN_DRAFTER_SHARED)
        s = drafter_shared_create(SHARED_TOKENS, &drafter[RN_DRAFTER_SHARED], err);
    if (!s && config->drafters & 1u << RN_DRAFTER_CUSTOM)
        s = drafter_custom_create(config->fn, config->ctx, engine->plan->n_vocab,
                                  &drafter[RN_DRAFTER_CUSTOM], err);
    if (!s && config->drafters & 1u << RN_DRAFTER_MODEL)
        s = create_model(engine, config, variant, err);
    return s;
}

static void write_names(struct speculation *spec) {
    int at = 0;
    for (int id = 0; id < RN_DRAFTER_COUNT; id++)
        if (spec->drafter[id])
            at += snprintf(spec->names + at, sizeof spec->names - (size_t)at, "%s%s",
                           at ? ", " : "", speculation_name((rn_drafter)id));
}

rn_status speculation_create(struct engine *engine, const struct speculation_config *config,
                             const char *variant, rn_error *err) {
    static const double prior[SPEC_MAX_SOURCES] = {
        [DRAFT_MODEL] = 0.75,       [DRAFT_LOOKUP_SHORT] = 0.3, [DRAFT_LOOKUP_MIDDLE] = 0.5,
        [DRAFT_LOOKUP_LONG] = 0.75, [DRAFT_SHARED_SHORT] = 0.3, [DRAFT_SHARED_MIDDLE] = 0.5,
        [DRAFT_SHARED_LONG] = 0.75, [DRAFT_CUSTOM] = 0.7};
    const size_t n = (size_t)engine->max_seqs;
    struct speculation *spec = calloc(1, sizeof *spec);
    engine->spec = spec;
    if (!spec) return err_set(err, RN_ERR_NOMEM, "no memory for speculation");
    spec->draft_max = config->draft_max;
    spec->draft_min = config->draft_min;
    spec->draft_bias = 1;
    spec->max_rows = speculation_rows(config, engine->max_seqs);
    spec->bid = calloc(n, sizeof *spec->bid);
    spec->bidder = calloc(n, sizeof(struct work *));
    spec->job = calloc(n, sizeof *spec->job);
    if (!spec->bid || !spec->bidder || !spec->job)
        return err_set(err, RN_ERR_NOMEM, "no memory for the drafts of %zu sequences", n);
    spec_control_init(&spec->control, prior);
    pace_init(&spec->pace, &engine->rates);
    spec->pace.inertia = INERTIA;
    spec->pace.lifetime = LIFETIME;
    const rn_status status = create_drafters(engine, config, variant, err);
    if (status) return status;
    write_names(spec);
    return calibrate(engine, err);
}

void speculation_destroy(struct speculation *spec) {
    if (!spec) return;
    for (int id = 0; id < RN_DRAFTER_COUNT; id++)
        if (spec->drafter[id]) spec->drafter[id]->cls->destroy(spec->drafter[id]);
    free(spec->bid);
    free(spec->bidder);
    free(spec->job);
    free(spec);
}
