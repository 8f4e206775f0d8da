// Engines of the public interface, a thin file. Options become a configuration. Calls are handed on
// to the intake (calls from any thread) and to the driver (the loop of steps).
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "runnel_model.h"

_Static_assert((int)RN_PAGE_TOKENS == (int)KV_PAGE_TOKENS, "runnel.h has the size of a page");
_Static_assert(RN_DEVICE_NAME == sizeof((struct backend_device){0}.name), "runnel.h has its size");

struct rn_watcher {
    struct watcher watcher;
};

const char *rn_finish_text(rn_finish finish) {
    static const char *const texts[] = {
        [RN_FINISH_NONE] = "none",     [RN_FINISH_STOP] = "stop",
        [RN_FINISH_LENGTH] = "length", [RN_FINISH_CANCELLED] = "cancelled",
        [RN_FINISH_ERROR] = "error",   [RN_FINISH_CACHE] = "cache_threshold"};
    const size_t at = (size_t)finish;
    return at < sizeof texts / sizeof *texts ? texts[at] : "unknown";
}

// [name, text] of each cause.
static const char *const causes[RN_CAUSE_COUNT][2] = {
    [RN_CAUSE_NONE] = {"none", "no time"},
    [RN_CAUSE_WEIGHTS] = {"weights", "reading weights"},
    [RN_CAUSE_KV] = {"kv", "reading its own KV cache"},
    [RN_CAUSE_STREAMS] = {"streams", "other streams in the same steps"},
    [RN_CAUSE_OWN_PROMPT] = {"own_prompt", "its own prompt"},
    [RN_CAUSE_PROMPTS] = {"prompts", "prompts of others"},
    [RN_CAUSE_QUEUE] = {"queue", "waiting for a place"},
    [RN_CAUSE_PAGES] = {"pages", "waiting for KV pages"},
    [RN_CAUSE_PREEMPTED] = {"preempted", "preemption and computing it again"},
    [RN_CAUSE_DRAFTS] = {"drafts", "refused drafts"},
    [RN_CAUSE_CHOICE] = {"choice", "choosing tokens"},
    [RN_CAUSE_HOST] = {"host", "work between steps"},
    [RN_CAUSE_READER] = {"reader", "a reader that did not follow"},
    [RN_CAUSE_SLOWER] = {"slower", "a slower machine than usual"},
    [RN_CAUSE_STORE] = {"store", "reading stored pages"},
};

static const char *cause_word(rn_cause cause, int at) {
    return (size_t)cause < RN_CAUSE_COUNT ? causes[cause][at] : "unknown";
}

const char *rn_cause_name(rn_cause cause) { return cause_word(cause, 0); }
const char *rn_cause_text(rn_cause cause) { return cause_word(cause, 1); }

_Static_assert((int)RN_OPS_COUNT == (int)OPS_COUNT && (int)RN_OPS_OTHER == (int)OPS_OTHER &&
                   (int)RN_OPS_ATTENTION == (int)OPS_ATTENTION &&
                   (int)RN_OPS_EXPERTS == (int)OPS_EXPERTS,
               "runnel.h has the classes of ops");

const char *rn_op_class_name(rn_op_class ops) {
    static const char *const names[RN_OPS_COUNT] = {[RN_OPS_WEIGHTS] = "weights",
                                                    [RN_OPS_EXPERTS] = "experts",
                                                    [RN_OPS_ATTENTION] = "attention",
                                                    [RN_OPS_RECURRENT] = "recurrent",
                                                    [RN_OPS_OTHER] = "other"};
    return (size_t)ops < RN_OPS_COUNT ? names[ops] : "unknown";
}

const char *rn_drafter_text(rn_drafter drafter) { return draft_name(drafter); }

// ---------------------------------------------------------------- life

// One name of the list; RN_ERR_ARG: it is not a drafter's.
static rn_status read_drafter(const char *name, size_t len, unsigned *drafters, rn_error *err) {
    for (int id = 0; id < RN_DRAFTER_COUNT; id++) {
        const char *text = rn_drafter_text((rn_drafter)id);
        if (strlen(text) != len || memcmp(text, name, len) != 0) continue;
        *drafters |= 1u << id;
        return RN_OK;
    }
    return err_set(err, RN_ERR_ARG,
                   "speculate: '%.*s' is unknown (known: auto, off, or some of model, lookup, "
                   "shared, mtp, shape, custom)",
                   len < 64 ? (int)len : 64, name);
}

static rn_status read_speculation(const rn_engine_options *o, struct draft_config *out,
                                  rn_error *err) {
    const char *list = o->speculate ? o->speculate : "auto";
    const bool is_auto = strcmp(list, "auto") == 0, is_off = strcmp(list, "off") == 0;
    *out = (struct draft_config){.model = o->draft ? &o->draft->model : NULL,
                                 .tokenizer = o->draft ? o->draft->tokenizer : NULL,
                                 .fn = o->draft_fn,
                                 .ctx = o->draft_ctx,
                                 .draft_max = o->draft_max,
                                 .draft_min = o->draft_min};
    if (o->draft && !o->draft->has_plan)
        return err_set(err, RN_ERR_ARG, "%s: opened for its vocabulary alone", o->draft->info.path);
    out->is_auto = is_auto;
    if (is_auto) out->drafters = (1u << RN_DRAFTER_COUNT) - 1;
    for (const char *at = list; !is_auto && !is_off; at++) {
        const size_t len = strcspn(at, ",");
        const rn_status status = read_drafter(at, len, &out->drafters, err);
        if (status) return status;
        at += len;
        if (!*at) break;
    }
    const unsigned wanted = out->drafters;
    const rn_status status = draft_check(out, err);
    if (status || is_auto || wanted == out->drafters) return status;
    const bool no_model = wanted & ~out->drafters & 1u << RN_DRAFTER_MODEL;
    return err_set(err, RN_ERR_ARG, "speculate is '%.64s', and there is no %s", list,
                   no_model ? "draft model" : "function to draft");
}

rn_status model_engine_config(const rn_engine_options *o, struct engine_config *out,
                              rn_error *err) {
    const bool bf16_states = o->state_type && strcmp(o->state_type, "bf16") == 0;
    if (o->state_type && !bf16_states && strcmp(o->state_type, "f32") != 0)
        return err_set(err, RN_ERR_ARG, "state_type is '%.64s', expected f32 or bf16",
                       o->state_type);
    *out =
        (struct engine_config){.place = {.name = o->backend,
                                         .device = o->device,
                                         .kv_type = o->kv_type,
                                         .bf16_states = bf16_states},
                               .draft_place = {.name = o->draft_backend, .device = o->draft_device},
                               .variant = o->isa,
                               .n_threads = o->n_threads,
                               .no_pin = o->no_pin,
                               .self_check = o->self_check,
                               .sizes = {.n_ctx = o->n_ctx,
                                         .max_seqs = o->max_seqs,
                                         .batch_tokens = o->batch_tokens,
                                         .logit_rows = o->logit_rows},
                               .progress = o->progress,
                               .progress_ctx = o->progress_ctx,
                               .max_waiting = o->max_waiting,
                               .kv_bytes = o->kv_bytes,
                               .kv_pages = o->kv_pages,
                               .itl_ms = o->itl_ms,
                               .no_prefix = o->no_prefix_cache,
                               .store = {.path = o->page_store,
                                         .bytes = o->page_store_bytes,
                                         .memory_bytes = o->page_store_memory,
                                         .note = o->store_note,
                                         .note_ctx = o->store_note_ctx}};
    return read_speculation(o, &out->draft, err);
}

rn_status model_engine_options(const rn_engine_options *options, size_t size,
                               rn_engine_options *out, rn_error *err) {
    *out = (rn_engine_options){0};
    return options ? sized_read("options", options, size, out, sizeof *out, err) : RN_OK;
}

rn_status rn_engine_create_sized(const rn_model *model, const rn_engine_options *options,
                                 size_t options_size, rn_engine **out, rn_error *err) {
    *out = NULL;
    if (!model->has_plan)
        return err_set(err, RN_ERR_ARG, "%s: opened for its vocabulary alone", model->info.path);
    rn_engine_options own;
    struct engine_config config;
    rn_status status = model_engine_options(options, options_size, &own, err);
    if (!status) status = model_engine_config(&own, &config, err);
    if (status) return status;
    config.store.weights = model->weights;
    rn_engine *engine = aligned_alloc(alignof(rn_engine), sizeof *engine);
    if (!engine) return err_set(err, RN_ERR_NOMEM, "no memory for an engine");
    status = engine_init(&engine->engine, &model->model, model->tokenizer, &config, err);
    if (status) {
        free(engine);
        return status;
    }
    status = driver_init(&engine->driver, &engine->engine, err);
    if (status) {
        engine_deinit(&engine->engine);
        free(engine);
        return status;
    }
    engine->model = model;
    *out = engine;
    return RN_OK;
}

void rn_engine_destroy(rn_engine *engine) {
    if (!engine) return;
    driver_deinit(&engine->driver);
    engine_deinit(&engine->engine);
    free(engine);
}

// ---------------------------------------------------------------- requests

rn_status rn_engine_submit_sized(rn_engine *engine, const rn_request *request, size_t request_size,
                                 uint64_t *id, rn_error *err) {
    rn_request own;
    rn_status status = sized_read("request", request, request_size, &own, sizeof own, err);
    if (!status && own.shape) status = mask_maker_start(&engine->engine.maker, err);
    return status ? status : intake_submit(&engine->engine.intake, &own, id, err);
}
void rn_engine_cancel(rn_engine *engine, uint64_t id) { intake_cancel(&engine->engine.intake, id); }
void rn_engine_pause(rn_engine *engine, uint64_t id, bool pause) {
    intake_pause(&engine->engine.intake, id, pause);
}

// ---------------------------------------------------------------- steps

rn_status rn_engine_start(rn_engine *engine, rn_error *err) {
    return driver_start(&engine->driver, err);
}
int rn_engine_wait_sized(rn_engine *engine, rn_event *out, size_t event_size, int max,
                         int timeout_ms) {
    enum { SOME = 64 };
    if (event_size == sizeof *out) return driver_wait(&engine->driver, out, max, timeout_ms);
    rn_event own[SOME];
    const int n = driver_wait(&engine->driver, own, max < SOME ? max : SOME, timeout_ms);
    for (int i = 0; i < n; i++)
        sized_write(&own[i], sizeof own[i], (char *)out + (size_t)i * event_size, event_size);
    return n;
}
int rn_engine_event_fd(const rn_engine *engine) { return engine->driver.fd; }
void rn_engine_stop(rn_engine *engine, bool drain) { driver_stop(&engine->driver, drain); }
rn_status rn_engine_step(rn_engine *engine, bool *busy) {
    return driver_step(&engine->driver, busy);
}
bool rn_engine_next_event_sized(rn_engine *engine, rn_event *out, size_t event_size) {
    rn_event own;
    if (!driver_next_event(&engine->driver, &own)) return false;
    sized_write(&own, sizeof own, out, event_size);
    return true;
}

// ---------------------------------------------------------------- description and counters

rn_status rn_engine_health(const rn_engine *engine, rn_error *err) {
    const struct engine *e = &engine->engine;
    if (!atomic_load_explicit(&e->is_lost, memory_order_acquire)) return RN_OK;
    if (e->loss == RN_ERR_IO) return err_set(err, RN_ERR_IO, "%s", e->fault.message);
    return err_set(err, RN_ERR_DEVICE, "%s: %s", e->backend->cls->name, e->fault.message);
}

static rn_engine_info info_of(const rn_engine *engine) {
    const struct engine *e = &engine->engine;
    struct backend_info info;
    struct batch_shape shape;
    e->backend->cls->describe(e->backend, &info);
    batch_shape_decode(e->plan, 0, &shape);
    return (rn_engine_info){.backend = e->backend->cls->name,
                            .isa = info.variant,
                            .slow_formats = info.slow_formats,
                            .kv_type = info.kv_type,
                            .device = place_device_name(&e->place),
                            .n_threads = pool_size(e->pool),
                            .n_ctx = e->n_ctx,
                            .max_seqs = e->max_seqs,
                            .batch_tokens = e->batch_tokens,
                            .max_waiting = e->max_waiting,
                            .itl_ms = e->itl_ns == UINT64_MAX ? 0 : (double)e->itl_ns * 1e-6,
                            .kv_bytes = e->kv_config.budget,
                            .kv_token_bytes = plan_kv_token_bytes(e->plan, &e->kv_bytes),
                            .state_bytes = plan_state_bytes(e->plan, &e->kv_bytes),
                            .state_interval = budget_state_interval(e->plan, &e->kv_bytes),
                            .weight_bytes = plan_cost(e->plan, &e->kv_bytes, &shape).weight_bytes,
                            .cache_bytes = info.cache_bytes,
                            .drafters = e->draft ? e->draft->names : "",
                            .draft_max = e->draft ? e->draft->draft_max : 0,
                            .note = e->place.note[0] || !info.note ? e->place.note : info.note};
}

void rn_engine_get_info_sized(const rn_engine *engine, rn_engine_info *out, size_t out_size) {
    const rn_engine_info own = info_of(engine);
    sized_write(&own, sizeof own, out, out_size);
}

void rn_engine_get_stats_sized(const rn_engine *engine, rn_engine_stats *out, size_t out_size) {
    rn_engine_stats own;
    driver_get_stats(&engine->driver, &own);
    sized_write(&own, sizeof own, out, out_size);
}

bool rn_engine_get_store_stats_sized(const rn_engine *engine, rn_store_stats *out,
                                     size_t out_size) {
    const struct page_store *store = engine->engine.store;
    rn_store_stats own = {0};
    if (store) {
        const rn_engine_info info = info_of(engine);
        page_store_get_stats(store, &own);
        own.token_bytes = info.kv_token_bytes;
        if (info.state_interval)
            own.token_bytes += info.state_bytes / (uint64_t)info.state_interval;
    }
    sized_write(&own, sizeof own, out, out_size);
    return store != NULL;
}

void rn_engine_forget_prefixes(rn_engine *engine) { driver_forget_prefixes(&engine->driver); }

rn_status rn_engine_on_blocks(rn_engine *engine, rn_block_fn fn, void *ctx) {
    if (engine->engine.stats.steps > 0 || driver_is_running(&engine->driver)) return RN_ERR_ARG;
    kv_listen(engine->engine.kv, fn, ctx);
    return RN_OK;
}

_Static_assert((int)RN_MAX_BLOCK_GROUPS >= (int)PLAN_MAX_KV_GROUPS, "runnel.h has their number");

size_t rn_engine_block_groups(const rn_engine *engine, rn_block_group out[RN_MAX_BLOCK_GROUPS]) {
    static const char *const kinds[] = {[KV_FULL] = "full_attention",
                                        [KV_WINDOW] = "sliding_window",
                                        [KV_CHUNK] = "chunked_local_attention",
                                        [KV_RECURRENT] = "mamba"};
    const struct kv_config *config = &engine->engine.kv_config;
    for (int g = 0; g < config->n_group; g++)
        out[g] = (rn_block_group){.kind = kinds[config->group[g].kind],
                                  .window = config->group[g].window};
    return (size_t)config->n_group;
}

rn_status rn_watcher_create(rn_engine *engine, rn_watcher **out, rn_error *err) {
    *out = NULL;
    rn_watcher *watcher = malloc(sizeof *watcher);
    if (!watcher) return err_set(err, RN_ERR_NOMEM, "no memory for a watcher");
    const rn_status status = watcher_init(&watcher->watcher, &engine->driver, err);
    if (status)
        free(watcher);
    else
        *out = watcher;
    return status;
}

void rn_watcher_destroy(rn_watcher *watcher) {
    if (!watcher) return;
    watcher_deinit(&watcher->watcher);
    free(watcher);
}

size_t rn_engine_steps_sized(const rn_engine *engine, uint64_t after, rn_step *out,
                             size_t step_size, size_t max) {
    const struct step_board *board = &engine->engine.steps;
    if (step_size == sizeof *out) return step_board_read(board, after, out, max);
    size_t n = 0;
    for (rn_step own; n < max && step_board_read(board, after, &own, 1) == 1; n++) {
        sized_write(&own, sizeof own, (char *)out + n * step_size, step_size);
        after = own.index;
    }
    return n;
}

void rn_watcher_follow(rn_watcher *watcher, uint64_t request) {
    watcher_follow(&watcher->watcher, request);
}

void rn_watcher_ask(rn_watcher *watcher) { watcher_ask(&watcher->watcher); }
const rn_view *rn_watcher_view(rn_watcher *watcher) { return watcher_view(&watcher->watcher); }

double rn_engine_bandwidth(rn_engine *engine, uint64_t working_set, int budget_ms) {
    struct backend *backend = engine->engine.backend;
    if (driver_is_running(&engine->driver)) return 0; // its threads are the steps'
    if (!backend->cls->bandwidth) return 0;
    return backend->cls->bandwidth(backend, working_set, budget_ms);
}

// Most weight bytes of the plan are in formats that are multiplied as integers.
static bool is_integer(const struct plan *plan) {
    uint64_t integers = 0, floats = 0;
    for (int i = 0; i < plan->n_weight; i++) {
        const struct plan_weight *weight = &plan->weight[i];
        *(format_at(weight->format)->span ? &integers : &floats) += weight->bytes;
    }
    return integers > floats;
}

double rn_engine_peak(rn_engine *engine) {
    struct backend *backend = engine->engine.backend;
    if (driver_is_running(&engine->driver) || !backend->cls->peak_macs) return 0;
    const bool integers = is_integer(engine->engine.plan);
    return 2 * backend->cls->peak_macs(backend, integers ? BACKEND_INTEGERS : BACKEND_FLOATS);
}
