// `runnel bench`: the command. It opens each model, lets one measurement fill rows, and shows them:
// a table row by row, JSON and CSV at the end. Ctrl-C ends the measuring; complete rows are shown.
#include "bench/bench.h"
#include "bench/busy.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/figures.h"
#include "bench/plot.h"
#include "models/find.h"
#include "terminal/interrupt.h"

static const struct measure *const measures[] = {
    [MEASURE_STEPS] = &measure_steps,
    [MEASURE_STREAMS] = &measure_streams,
    [MEASURE_DRAFTS] = &measure_drafts,
    [MEASURE_TOUR] = &measure_tour,
};

// ---------------------------------------------------------------- rows

void bench_place_set(struct bench_place *place, const char *backend, const char *isa,
                     const char *kv_type, int n_threads) {
    place->backend = backend;
    snprintf(place->isa, sizeof place->isa, "%s", isa);
    snprintf(place->kv_type, sizeof place->kv_type, "%s", kv_type);
    place->n_threads = n_threads;
}

void bench_row_init(const struct bench_place *place, enum table_id table, struct row *row) {
    const char *device = place->bench->config->device.name;
    const time_t now = time(NULL);
    struct tm parts;
    char when[32] = "", type[96];
    if (gmtime_r(&now, &parts)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
    *row = (struct row){.table = table};
    row_text(row, COLUMN_BUILD_COMMIT, RN_VERSION);
    row_text(row, COLUMN_MODEL_FILENAME,
             place->source->name ? place->source->name : place->info->path);
    row_text(row, COLUMN_MODEL_TYPE, figure_type(place->info, type));
    row_text(row, COLUMN_BACKENDS, place->backend);
    row_text(row, COLUMN_DEVICE, *device ? device : NULL);
    row_text(row, COLUMN_ISA, place->isa);
    row_whole(row, COLUMN_N_THREADS, place->n_threads);
    row_text(row, COLUMN_TYPE_KV, place->kv_type);
    row_text(row, COLUMN_TEST_TIME, when);
}

int bench_row_add(struct bench *bench, struct row *row) {
    const size_t n = (size_t)bench->n_rows + 1;
    struct row *grown = row_ok(row) ? realloc(bench->rows, n * sizeof *grown) : NULL;
    if (!grown) {
        row_deinit(row);
        return app_fail(APP_FAILED, "out of memory");
    }
    bench->rows = grown;
    bench->rows[bench->n_rows++] = *row;
    if (bench->config->measure == MEASURE_TOUR || strcmp(bench->config->output, "md") != 0)
        return APP_OK;
    table_row_print(bench);
    return app_flush_output();
}

// ---------------------------------------------------------------- progress

void bench_progress_begin(struct bench *bench) {
    progress_begin(&bench->progress, bench->term, bench->config->quiet, "measuring");
    progress_show(&bench->progress, bench->done, bench->total);
}

void bench_progress_step(struct bench *bench) {
    progress_update(&bench->progress, ++bench->done, bench->total);
}

void bench_progress_end(struct bench *bench) { progress_end(&bench->progress); }

void bench_warn_slow(struct bench *bench, const char *formats, const char *isa) {
    char *last = bench->slow_formats;
    if (strncmp(last, formats, sizeof bench->slow_formats - 1) == 0) return;
    snprintf(last, sizeof bench->slow_formats, "%s", formats);
    app_warn_slow(bench->config->quiet, formats, isa);
}

// ---------------------------------------------------------------- models

static rn_status model_open(enum bench_source source, const char *name, rn_model **out,
                            rn_error *err) {
    if (source == SOURCE_SYNTHETIC) return tools_model_open_synthetic(name, out, err);
    if (source == SOURCE_FILE) return rn_model_open(name, out, err);
    return rn_model_open_memory(EMBEDDED_NAME, embedded_model,
                                (size_t)(embedded_model_end - embedded_model), out, err);
}

static int open_fail(rn_status status, const rn_error *err) {
    const int code = app_fail_error(err);
    return status == RN_ERR_IO ? APP_USAGE : code; // a model that cannot be read is a bad -m
}

int bench_model_open(enum bench_source source, const char *name, rn_model **out) {
    rn_error err = {0};
    char *path = NULL;
    const int code = source == SOURCE_FILE ? model_path_find(name, true, &path) : APP_OK;
    if (code) return code;
    const rn_status status = model_open(source, path ? path : name, out, &err);
    free(path);
    return status ? open_fail(status, &err) : APP_OK;
}

static int block_attach(const char *name, rn_model *model) {
    rn_error err = {0};
    char *path = NULL;
    const int code = model_path_find(name, true, &path);
    if (code) return code;
    const rn_status status = rn_model_attach(model, path, &err);
    free(path);
    return status ? open_fail(status, &err) : APP_OK;
}

static rn_status model_check(const struct bench_config *config, const struct bench_model *from,
                             rn_error *err) {
    const struct measure *measure = measures[config->measure];
    rn_model *model = NULL;
    if (from->source == SOURCE_SYNTHETIC) return tools_synthetic_check(from->name, err);
    rn_status status = model_open(from->source, from->name, &model, err);
    if (!status && measure->check) status = measure->check(config, rn_model_get_info(model), err);
    rn_model_close(model);
    return status;
}

// All models are checked before anything is measured, so that a bad one does not fail an hour
// later.
static int models_check(const struct bench_config *config) {
    for (int i = 0; i < config->n_models && config->n_models > 1; i++) {
        rn_error err = {0};
        const rn_status status = model_check(config, &config->model[i], &err);
        if (status) return open_fail(status, &err);
    }
    return APP_OK;
}

// Rows of a model that was measured beside others say so.
static void busy_put(struct bench *bench, const struct busy *busy, int first) {
    if (first == bench->n_rows) return;
    const double share = busy_share(busy);
    for (int i = first; i < bench->n_rows && share >= 0; i++)
        row_real(&bench->rows[i], COLUMN_BUSY_SHARE, share);
    if (share > bench->busy_share) bench->busy_share = share;
}

static int models_run(struct bench *bench) {
    const struct bench_config *config = bench->config;
    int code = APP_OK;
    for (int i = 0; !code && i < config->n_models; i++) {
        struct bench_place place = {.bench = bench, .source = &config->model[i]};
        rn_model *model = NULL;
        const int first = bench->n_rows;
        struct busy busy;
        busy_begin(&busy);
        code = bench_model_open(place.source->source, place.source->name, &model);
        if (!code && config->block) code = block_attach(config->block, model);
        if (!code) {
            place.model = model;
            place.info = rn_model_get_info(model);
            code = measures[config->measure]->run(&place);
            busy_put(bench, &busy, first);
        }
        rn_model_close(model);
    }
    return !code && interrupt_seen() ? APP_INTERRUPTED : code;
}

// ---------------------------------------------------------------- the command

// Rows that were complete when something went wrong are shown too. A text that changed is a
// failure.
static int rows_show(const struct bench *bench, int code) {
    const struct bench_config *config = bench->config;
    if (bench->n_rows == 0) return code;
    const bool is_tour = config->measure == MEASURE_TOUR;
    int shown = is_tour ? tour_print(bench) : rows_print(bench);
    if (!shown && config->plot) shown = (is_tour ? tour_plot : chart_write)(bench, config->plot);
    for (int i = 0; i < bench->n_rows; i++)
        if (row_number_at(&bench->rows[i], COLUMN_SAME_TEXT) == 0 && !code) code = APP_FAILED;
    return code ? code : shown;
}

int bench_run(const struct bench_config *config, const struct term *term) {
    struct bench bench = {.config = config,
                          .term = term,
                          .total = measures[config->measure]->count(config)};
    int code = models_check(config);
    if (!code && config->plot) code = plot_check("--plot", config->plot);
    if (!code) code = rows_show(&bench, models_run(&bench));
    if (!config->quiet) busy_warn(bench.busy_share, "figures are too low");
    for (int i = 0; i < bench.n_rows; i++) row_deinit(&bench.rows[i]);
    free(bench.rows);
    return code;
}

// The kernels are the CPU's, whatever --backend says; that is not an error, but it is said.
static int kernels_show(const struct options *options, const struct term *term) {
    const struct tools_place place = {.backend = option_text(options, OPT_BACKEND),
                                      .device = option_int(options, OPT_DEVICE)};
    const bool is_asked = option_given(options, OPT_BACKEND) || option_given(options, OPT_DEVICE);
    struct tools_device device;
    rn_error err = {0};
    if (is_asked && tools_device_find(&place, &device, &err)) return app_fail_error(&err);
    if (is_asked && *device.name && !option_flag(options, OPT_QUIET))
        app_fail(APP_OK, "--kernels shows the kernels of the CPU; %s has its own", device.name);
    // a list, of which the first number is used
    const char *threads = option_text(options, OPT_THREADS);
    return kernels_print(option_text(options, OPT_OUTPUT), threads ? atoi(threads) : 0, term);
}

// Once, for the largest number.
static void threads_warn(const struct bench_config *config) {
    int most = 0;
    for (int i = 0; i < config->threads.count; i++)
        most = config->threads.value[i] > most ? (int)config->threads.value[i] : most;
    if (!config->quiet) app_warn_threads(most);
}

int command_bench(const struct options *options) {
    struct bench_config config;
    struct term term;
    term_init(&term, options);
    if (option_flag(options, OPT_KERNELS)) return kernels_show(options, &term);
    int code = bench_config_init(options, &config);
    if (code) return code;
    threads_warn(&config);
    peer_prepare(&config);
    interrupt_ends();
    code = bench_run(&config, &term);
    bench_config_deinit(&config);
    return code;
}
