// The runner behind `runnel bench`: a backend made from a model's plan, and the batches of a
// work. Sequence s of a work has the pages [s * n, s * n + n) of a group. A group with windows has
// no more of them than a step can see, which take turns; a group of states has one. Pages keep the
// values of earlier runs: a depth needs no prompt, because attention takes the same time for all
// keys. On the host they are zeros at first. A device of its own has the keys and values of one
// short prompt in all of them: zeros would take less power, and so be read faster.
//
// A device that has two steps in flight runs as it does behind the engine: it chooses the tokens
// itself, the most likely ones, the next step takes them from the step before, and that step is
// handed over while this one runs. Otherwise a step's logits are its result. With random weights
// the likeliest tokens of several sequences become the same ones, which would share their experts:
// where there are experts, tokens are drawn all the same.
#include <stdlib.h>
#include <string.h>

#include "backend/table.h"
#include "engine/pages/place.h"
#include "plan/cost_rates.h"
#include "tools.h"
#include "weights/synthetic.h"

enum { SPARE_PART = 32 }; // of a device's free memory: 1/32 is left

struct tools_runner {
    const struct plan *plan;
    struct pool *pool;
    struct backend_place place;
    struct backend *backend;
    struct kv_bytes kv; // a page of each group
    int max_tokens, max_logits, max_seqs;
    uint32_t n_pages[PLAN_MAX_KV_GROUPS];
    uint32_t n_entries;
    uint32_t *page[PLAN_MAX_KV_GROUPS]; // [n_entries] the tables of the work at hand
    struct batch_builder builder;
    struct choice *choice; // [max_logits] the most likely token; NULL: the host would choose
    struct choice_numbers greedy;
    int depth; // steps in flight
    bool has_experts;
    bool is_profiling; // times of stages are those of one step at a time
    uint64_t random;
    double idle_ns;            // of the last run: tools_runner_idle_ns
    struct tools_stage *stage; // [max_stage] while stages are measured; NULL: none yet
    int n_stage, max_stage;
};

// ---------------------------------------------------------------- works

static int work_steps(const struct tools_work *work) {
    const int rest = work->n_positions - work->step_tokens;
    return rest <= 0 ? 1 : 1 + (rest + work->advance - 1) / work->advance;
}

static uint32_t work_pages(const struct tools_work *work) { // of one sequence
    return (uint32_t)((work->depth + work->n_positions + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS);
}

// Pages that one sequence has of a group.
static uint32_t group_pages(const struct plan_kv_group *group, const struct tools_work *work) {
    const uint32_t all = work_pages(work);
    if (group->kind == KV_RECURRENT) return 1;
    if (group->kind == KV_FULL) return all;
    const uint32_t seen = (uint32_t)(group->window + work->step_tokens);
    const uint32_t span = (seen + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS + 1;
    return span < all ? span : all;
}

static void tables_set(struct tools_runner *runner, const struct tools_work *work) {
    const uint32_t all = work_pages(work);
    for (int g = 0; g < runner->plan->n_group; g++) {
        const uint32_t span = group_pages(&runner->plan->group[g], work);
        for (uint32_t i = 0; i < (uint32_t)work->n_seqs; i++)
            for (uint32_t b = 0; b < all; b++) runner->page[g][i * all + b] = i * span + b % span;
    }
}

// xorshift64*: ids that jump over the embedding's rows, as those of a text do.
static int32_t token_draw(struct tools_runner *runner) {
    uint64_t x = runner->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    runner->random = x;
    return (int32_t)((x * 2685821657736338717ull >> 33) % (uint64_t)runner->plan->n_vocab);
}

// The part of every sequence of a work in one step.
struct work_step {
    int first_pos, n_tokens, n_out;
};

static struct work_step work_step(const struct tools_work *work, int step) {
    const int done = step * work->advance, rest = work->n_positions - done;
    const int n = rest < work->step_tokens ? rest : work->step_tokens;
    const bool last = step + 1 == work_steps(work);
    return (struct work_step){work->depth + done, n, work->all_logits ? n : last};
}

static void batch_make(struct tools_runner *runner, const struct tools_work *work, int step) {
    struct batch_builder *builder = &runner->builder;
    const struct work_step s = work_step(work, step);
    batch_begin(builder, runner->choice);
    for (int i = 0; i < work->n_seqs; i++) {
        uint32_t *table[PLAN_MAX_KV_GROUPS];
        for (int g = 0; g < runner->plan->n_group; g++)
            table[g] = runner->page[g] + (uint32_t)i * work_pages(work);
        batch_add(builder, &(struct batch_rows){.page_table = table,
                                                .first_pos = s.first_pos,
                                                .n_tokens = s.n_tokens,
                                                .n_out = s.n_out});
    }
    const bool follows =
        runner->choice && step > 0 && s.n_tokens == 1 && work->all_logits && !runner->has_experts;
    for (int r = 0; r < builder->batch.n_tokens; r++)
        builder->token[r] = follows ? BATCH_OF_ROW(r) : token_draw(runner);
}

static void shape_make(const struct tools_runner *runner, const struct tools_work *work, int step,
                       struct batch_shape *out) {
    const struct work_step s = work_step(work, step);
    *out = (struct batch_shape){0};
    for (int i = 0; i < work->n_seqs; i++)
        batch_shape_add(runner->plan, out, s.first_pos, s.n_tokens, s.n_out);
}

static void stage_add(struct tools_runner *runner, const struct step_stage *one) {
    struct tools_stage *stages = runner->stage;
    int i = 0;
    while (i < runner->n_stage && strncmp(stages[i].name, one->name, sizeof stages->name - 1) != 0)
        i++;
    if (i == runner->n_stage) {
        stages[i] = (struct tools_stage){.ns = 0};
        strncpy(stages[i].name, one->name, sizeof stages->name - 1);
        runner->n_stage++;
    }
    stages[i].ns += one->ns;
    stages[i].runs++;
}

// Stages of one name are added up. Every result has the same stages.
static rn_status stages_add(struct tools_runner *runner, const struct step_result *result,
                            rn_error *err) {
    if (!runner->stage) {
        runner->stage = calloc((size_t)result->n_stage, sizeof *runner->stage);
        runner->max_stage = result->n_stage;
    }
    if (!runner->stage)
        return err_set(err, RN_ERR_NOMEM, "no memory for the times of %d stages", result->n_stage);
    for (int i = 0; i < result->n_stage && i < runner->max_stage; i++)
        stage_add(runner, &result->stage[i]);
    return RN_OK;
}

rn_status tools_runner_run(struct tools_runner *runner, const struct tools_work *work,
                           int max_steps, bool (*stop)(void), uint64_t *ns, uint64_t *expert_bytes,
                           rn_error *err) {
    const int all = work_steps(work), n_steps = max_steps && max_steps < all ? max_steps : all;
    *expert_bytes = 0;
    *ns = 0;
    const struct backend_class *cls = runner->backend->cls;
    const int depth = runner->is_profiling ? 1 : runner->depth;
    tables_set(runner, work);
    const uint64_t begin = clock_ns();
    rn_status status = RN_OK;
    uint64_t idle_ns = 0;
    int n_flown = 0, n_landed = 0;
    while (n_landed < n_flown || (!status && n_flown < n_steps)) {
        struct step_result result;
        if (!status && n_flown < n_steps && n_flown < n_landed + depth) {
            if (stop && stop())
                status = err_set(err, RN_ERR_CANCELLED, "the measurement was cancelled");
            if (status) continue;
            batch_make(runner, work, n_flown);
            status = cls->submit(runner->backend, &runner->builder.batch, err);
            n_flown += !status;
            continue;
        }
        rn_error late = {0}; // the first fault is reported
        const rn_status landed = cls->wait(runner->backend, &result, status ? &late : err);
        n_landed++;
        if (!status) status = landed;
        if (!status && result.n_stage > 0) status = stages_add(runner, &result, err);
        if (!status) *expert_bytes += result.expert_bytes;
        if (!status && n_landed > 1) idle_ns += result.idle_ns;
    }
    if (status) return status;
    *ns = clock_ns() - begin;
    runner->idle_ns = n_landed > 1 ? (double)idle_ns / (n_landed - 1) : 0;
    return RN_OK;
}

double tools_runner_idle_ns(const struct tools_runner *runner) { return runner->idle_ns; }

// ---------------------------------------------------------------- costs

// Products of block formats multiply bytes; everything else multiplies floats.
static void macs_add(const struct plan *plan, const struct kv_bytes *kv,
                     const struct batch_shape *shape, struct tools_cost *out) {
    for (int i = 0; i < plan->n_op; i++) {
        const struct op *op = &plan->op[i];
        const bool product = op_is_product(op->kind);
        if (!product && op->kind != OP_ATTENTION) continue;
        const uint64_t macs = op_cost(plan, op, kv, shape).flops / 2;
        if (product && format_at(plan->weight[op->weight].format)->span != 0)
            out->int_macs += macs;
        else
            out->float_macs += macs;
    }
}

void tools_runner_cost(const struct tools_runner *runner, const struct tools_work *work,
                       struct tools_cost *out) {
    *out = (struct tools_cost){.steps = (uint64_t)work_steps(work)};
    for (uint64_t i = 0; i < out->steps; i++) {
        struct batch_shape shape;
        shape_make(runner, work, (int)i, &shape);
        const struct cost cost = plan_cost(runner->plan, &runner->kv, &shape);
        out->tokens += (uint64_t)shape.n_tokens;
        out->weight_bytes += cost.weight_bytes;
        out->expert_bytes += cost.expert_bytes;
        out->kv_bytes += cost.kv_read_bytes;
        macs_add(runner->plan, &runner->kv, &shape, out);
    }
}

uint64_t tools_runner_working_set(const struct tools_runner *runner,
                                  const struct tools_work *work) {
    struct batch_shape shape;
    shape_make(runner, work, work_steps(work) - 1, &shape);
    const struct cost cost = plan_cost(runner->plan, &runner->kv, &shape);
    return cost.weight_bytes + cost.kv_read_bytes;
}

// ---------------------------------------------------------------- life

static int larger(int a, int b) { return a > b ? a : b; }

rn_status tools_synthetic_check(const char *spec, rn_error *err) {
    return weights_check_synthetic(spec, err);
}

const char *tools_format_missed(const rn_model *model, const char *format, int64_t *cols) {
    return weights_format_missed(tools_weights(model), format, cols);
}

const char *tools_shape_at(int index) { return weights_shape_at(index); }

bool tools_is_shape(const char *name) { return weights_is_shape(name); }

rn_status tools_works_check(const rn_model_info *info, const struct tools_work *works, int n_works,
                            rn_error *err) {
    for (int i = 0; i < n_works; i++) {
        const struct tools_work *work = &works[i];
        const int64_t end = (int64_t)work->depth + work->n_positions;
        if (end > info->n_ctx_train)
            return err_set(err, RN_ERR_CONTEXT,
                           "%s: %d positions after %d are more than the model's context, %d",
                           err_path(info->path), work->n_positions, work->depth, info->n_ctx_train);
        const int64_t rows = (int64_t)work->n_seqs * work->step_tokens;
        const int64_t pages = (int64_t)work->n_seqs * work_pages(work);
        if (rows > INT32_MAX / 2 || pages > INT32_MAX / 2)
            return err_set(err, RN_ERR_ARG, "%d sequences of %lld positions are too many",
                           work->n_seqs, (long long)end);
    }
    return RN_OK;
}

// The most of everything that any of the works takes.
static void works_measure(struct tools_runner *runner, const struct tools_work *works,
                          int n_works) {
    for (int i = 0; i < n_works; i++) {
        const struct tools_work *work = &works[i];
        const int rows = work->n_seqs * work->step_tokens;
        const uint32_t n_seqs = (uint32_t)work->n_seqs, entries = n_seqs * work_pages(work);
        runner->max_seqs = larger(runner->max_seqs, work->n_seqs);
        runner->max_tokens = larger(runner->max_tokens, rows);
        runner->max_logits = larger(runner->max_logits, work->all_logits ? rows : work->n_seqs);
        if (entries > runner->n_entries) runner->n_entries = entries;
        for (int g = 0; g < runner->plan->n_group; g++) {
            const uint32_t pages = n_seqs * group_pages(&runner->plan->group[g], work);
            if (pages > runner->n_pages[g]) runner->n_pages[g] = pages;
        }
    }
}

static struct backend_sizes sizes_of(const struct tools_runner *runner) {
    return (struct backend_sizes){.max_tokens = runner->max_tokens,
                                  .max_logits = runner->max_logits,
                                  .max_seqs = runner->max_seqs};
}

// Where the device chooses: the neutral chain at temperature 0.
static rn_status choices_make(struct tools_runner *runner, rn_error *err) {
    const struct choice_numbers greedy = {
#define SAMPLING_NUMBER(kind, id, field, neutral, ...) .field = neutral,
#include "plan/sampling.def"
    };
    runner->depth = runner->place.device.depth;
    if (runner->depth < 2) return RN_OK;
    runner->choice = calloc((size_t)runner->max_logits, sizeof *runner->choice);
    if (!runner->choice) return err_set(err, RN_ERR_NOMEM, "no memory for choices");
    runner->greedy = greedy;
    runner->greedy.temperature = 0;
    for (int i = 0; i < runner->max_logits; i++)
        runner->choice[i] =
            (struct choice){.numbers = &runner->greedy, .n_vocab = runner->plan->n_vocab};
    return RN_OK;
}

static rn_status allocate(struct tools_runner *runner, rn_error *err) {
    for (int g = 0; g < runner->plan->n_group; g++) {
        runner->page[g] = calloc(runner->n_entries, sizeof *runner->page[g]);
        if (!runner->page[g])
            return err_set(err, RN_ERR_NOMEM, "no memory for %u page ids",
                           (unsigned)runner->n_entries);
    }
    return batch_builder_init(&runner->builder, runner->plan->n_group, runner->max_tokens,
                              runner->max_logits, runner->max_seqs, err);
}

// Pages from `first` on become zeros, or copies of the page `from`, some at a time.
static rn_status pages_set(const struct tools_runner *runner, uint32_t first, uint32_t from,
                           rn_error *err) {
    struct batch_page page[64];
    struct batch batch = {.page = page};
    struct step_result result;
    for (int g = 0; g < runner->plan->n_group; g++) {
        for (uint32_t i = first; i < runner->n_pages[g]; i++) {
            page[batch.n_pages++] = (struct batch_page){g, i, from};
            if (batch.n_pages < 64 && i + 1 < runner->n_pages[g]) continue;
            const rn_status status = backend_run(runner->backend, &batch, &result, err);
            if (status) return status;
            batch.n_pages = 0;
        }
    }
    return RN_OK;
}

// A prompt that fills the first page, and copies of that page.
static rn_status pages_fill(struct tools_runner *runner, int n_ctx, rn_error *err) {
    const int n = n_ctx < KV_PAGE_TOKENS ? n_ctx : KV_PAGE_TOKENS;
    const int rows = runner->max_tokens < n ? runner->max_tokens : n;
    const struct tools_work work = {.n_seqs = 1,
                                    .n_positions = n,
                                    .step_tokens = rows,
                                    .advance = rows};
    uint64_t ns, expert_bytes;
    const rn_status status = tools_runner_run(runner, &work, 0, NULL, &ns, &expert_bytes, err);
    return status ? status : pages_set(runner, 1, 0, err);
}

// Of a device with memory of its own, before anything is loaded. A small part stays free for the
// uploads and recorded steps of the backend, and for measuring B. The host's memory is the system's
// to give, and may grow by that of others.
static rn_status memory_check(const struct tools_runner *runner, const struct backend_need *need,
                              rn_error *err) {
    const struct backend_device *device = &runner->place.device;
    uint64_t kv_bytes = 0;
    uint32_t n_pages = 0;
    for (int g = 0; g < runner->plan->n_group; g++) {
        kv_bytes += need->kv.page[g] * (uint64_t)runner->n_pages[g];
        n_pages += runner->n_pages[g];
    }
    if (device->on_host || !device->memory_free ||
        need->weights + need->step + kv_bytes <=
            device->memory_free - device->memory_free / SPARE_PART)
        return RN_OK;
    return err_set(err, RN_ERR_NOMEM,
                   "%.1f MiB of device memory are free on %s, and the weights take %.1f MiB, the "
                   "buffers of a step %.1f MiB, %u KV pages %.1f MiB",
                   (double)device->memory_free * 0x1p-20, device->name,
                   (double)need->weights * 0x1p-20, (double)need->step * 0x1p-20, (unsigned)n_pages,
                   (double)kv_bytes * 0x1p-20);
}

static struct place_wanted place_of(const struct tools_place *place, const char *kv_type) {
    return (struct place_wanted){.name = place->backend,
                                 .device = place->device,
                                 .is_absent = place->is_absent,
                                 .kv_type = kv_type};
}

// Finds the runner's place, and asks how much of its memory is needed. RN_ERR_NOMEM: it has less.
static rn_status place_take(struct tools_runner *runner, const struct tools_runner_options *options,
                            struct backend_need *need, rn_error *err) {
    struct place_wanted wanted = place_of(&options->place, options->kv_type);
    const struct backend_sizes sizes = sizes_of(runner);
    const struct backend_place *place = &runner->place;
    wanted.plan = runner->plan;
    rn_status s = place_find(&wanted, &runner->place, err);
    if (!s) s = place->cls->need(runner->plan, &sizes, place->kv_type, need, err);
    return s ? s : memory_check(runner, need, err);
}

static rn_status backend_make(struct tools_runner *runner,
                              const struct tools_runner_options *options, rn_error *err) {
    struct backend_config config = {.device = options->place.device,
                                    .variant = options->isa,
                                    .sizes = sizes_of(runner),
                                    .progress = options->progress,
                                    .progress_ctx = options->progress_ctx};
    const struct backend_place *place = &runner->place;
    struct backend_need need;
    rn_status s;
    if ((s = place_take(runner, options, &need, err))) return s;
    if ((s = pool_create_here(options->n_threads, options->no_pin, &runner->pool, err))) return s;
    runner->kv = need.kv;
    config.kv_type = place->kv_type;
    config.pool = runner->pool;
    for (int g = 0; g < runner->plan->n_group; g++) config.n_pages[g] = runner->n_pages[g];
    if ((s = place->cls->create(runner->plan, &config, &runner->backend, err))) return s;
    return pages_set(runner, 0, BATCH_ZERO, err);
}

static struct tools_runner runner_of(const rn_model *model, const struct tools_work *works,
                                     int n_works) {
    struct tools_runner runner = {.plan = tools_plan(model),
                                  .max_tokens = 1,
                                  .max_logits = 1,
                                  .max_seqs = 1,
                                  .n_entries = 1,
                                  .random = 1};
    for (int g = 0; g < runner.plan->n_group; g++) runner.n_pages[g] = 1;
    works_measure(&runner, works, n_works);
    for (int i = 0; i < runner.plan->n_op; i++)
        if (runner.plan->op[i].kind == OP_ROUTE) runner.has_experts = true;
    return runner;
}

rn_status tools_works_fit(const rn_model *model, const struct tools_runner_options *options,
                          const struct tools_work *works, int n_works, rn_error *err) {
    struct tools_runner runner = runner_of(model, works, n_works);
    struct backend_need need;
    return place_take(&runner, options, &need, err);
}

uint64_t tools_work_pages(const struct tools_work *work) {
    return (uint64_t)work->n_seqs * work_pages(work);
}

rn_status tools_runner_create(const rn_model *model, const struct tools_runner_options *options,
                              const struct tools_work *works, int n_works,
                              struct tools_runner **out, rn_error *err) {
    *out = NULL;
    const rn_model_info *info = rn_model_get_info(model);
    if (!tools_plan(model))
        return err_set(err, RN_ERR_ARG, "%s: opened for its vocabulary alone", info->path);
    rn_status status = tools_works_check(info, works, n_works, err);
    if (status) return status;
    struct tools_runner *runner = calloc(1, sizeof *runner);
    if (!runner) return err_set(err, RN_ERR_NOMEM, "no memory for a runner");
    *runner = runner_of(model, works, n_works);
    status = allocate(runner, err);
    if (!status) status = backend_make(runner, options, err);
    if (!status) status = choices_make(runner, err);
    if (!status && !runner->place.device.on_host)
        status = pages_fill(runner, info->n_ctx_train, err);
    if (status) {
        tools_runner_destroy(runner);
        return status;
    }
    *out = runner;
    return RN_OK;
}

void tools_runner_destroy(struct tools_runner *runner) {
    if (!runner) return;
    backend_destroy(runner->backend);
    if (runner->pool) pool_destroy(runner->pool);
    free(runner->stage);
    batch_builder_deinit(&runner->builder);
    free(runner->choice);
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++) free(runner->page[g]);
    free(runner);
}

void tools_runner_get_info(const struct tools_runner *runner, struct tools_runner_info *out) {
    struct backend_info info;
    runner->backend->cls->describe(runner->backend, &info);
    *out = (struct tools_runner_info){.backend = runner->backend->cls->name,
                                      .slow_formats = info.slow_formats,
                                      .isa = info.variant,
                                      .kv_type = info.kv_type,
                                      .device = place_device_name(&runner->place),
                                      .n_threads = pool_size(runner->pool),
                                      .cache_bytes = info.cache_bytes,
                                      .has_bandwidth = runner->backend->cls->bandwidth != NULL,
                                      .has_stages = runner->backend->cls->profile != NULL};
}

double tools_runner_bandwidth(struct tools_runner *runner, uint64_t working_set, int budget_ms) {
    const struct backend_class *cls = runner->backend->cls;
    return cls->bandwidth ? cls->bandwidth(runner->backend, working_set, budget_ms) : 0;
}

double tools_runner_peak(struct tools_runner *runner, bool integer) {
    const struct backend_class *cls = runner->backend->cls;
    if (!cls->peak_macs) return 0;
    return cls->peak_macs(runner->backend, integer ? BACKEND_INTEGERS : BACKEND_FLOATS);
}

// ---------------------------------------------------------------- stages

rn_status tools_runner_stages(struct tools_runner *runner, const struct tools_work *work,
                              bool (*stop)(void), struct tools_stage **out, int *n_out,
                              uint64_t *total_ns, rn_error *err) {
    const struct backend_class *cls = runner->backend->cls;
    uint64_t expert_bytes;
    *out = NULL;
    *n_out = 0;
    *total_ns = 0;
    if (!cls->profile) return RN_OK;
    cls->profile(runner->backend, true);
    runner->is_profiling = true;
    const rn_status status = tools_runner_run(runner, work, 0, stop, total_ns, &expert_bytes, err);
    cls->profile(runner->backend, false);
    runner->is_profiling = false;
    if (status)
        free(runner->stage);
    else
        *out = runner->stage;
    *n_out = status ? 0 : runner->n_stage;
    runner->stage = NULL;
    runner->n_stage = runner->max_stage = 0;
    return status;
}

// ---------------------------------------------------------------- devices

_Static_assert((int)TOOLS_NOTE == (int)BACKEND_NOTE, "tools.h has the size of a note");

rn_status tools_device_find(const struct tools_place *place, struct tools_device *out,
                            rn_error *err) {
    const struct place_wanted wanted = place_of(place, NULL);
    struct backend_place found;
    *out = (struct tools_device){0};
    const rn_status status = place_find(&wanted, &found, err);
    if (status) return status;
    *out = (struct tools_device){.backend = found.cls->name,
                                 .kv_types = found.cls->kv_types,
                                 .kv_default = found.cls->kv_default,
                                 .runs_blocks = found.device.runs_blocks,
                                 .step_tokens = found.device.step_tokens,
                                 .memory_total = found.device.memory_total,
                                 .memory_free = found.device.memory_free};
    strcpy(out->name, place_device_name(&found));
    strcpy(out->note, found.note);
    return RN_OK;
}

bool tools_stored(const struct tools_place *place, double out[FORMAT_COUNT]) {
    const struct place_wanted wanted = place_of(place, NULL);
    struct backend_place found;
    if (place_find(&wanted, &found, NULL) || !found.cls->stored) return false;
    found.cls->stored(out);
    return true;
}

rn_status tools_block_check(const rn_model *model, const struct tools_place *place,
                            const char *kv_type, uint32_t block_bytes, const char *device,
                            rn_error *err) {
    const struct place_wanted wanted = place_of(place, kv_type);
    struct backend_place found;
    const rn_status status = place_find(&wanted, &found, err);
    if (status || !block_bytes || !found.cls->block_check) return status;
    return found.cls->block_check(tools_plan(model), found.kv_type, block_bytes, device, err);
}

rn_status tools_kv_bytes(const rn_model *model, const struct tools_place *place,
                         const char *kv_type, struct kv_bytes *out, rn_error *err) {
    struct place_wanted wanted = place_of(place, kv_type);
    const struct backend_sizes sizes = {1, 1, 1, false};
    struct backend_place found;
    struct backend_need need;
    wanted.plan = tools_plan(model);
    rn_status status = place_find(&wanted, &found, err);
    if (!status) status = found.cls->need(tools_plan(model), &sizes, found.kv_type, &need, err);
    if (!status) *out = need.kv;
    return status;
}
