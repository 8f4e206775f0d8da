// `runnel bench`: opens each model, makes a runner for each thread count, and runs the tests. The
// bandwidth is measured before and after each repetition, so that a share compares what happened
// in the same second. Invariant: rows[0 .. n_rows) are complete; Ctrl-C leaves them to be shown.
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/bench_batch.h"
#include "bench/bench_spec.h"
#include "bench/plot.h"
#include "terminal/interrupt.h"

enum { BANDWIDTH_MS = 200, WARM_STEPS = 4 };

// A model on a runner.
struct place {
    const struct bench_model *model;
    const rn_model_info *info;
    struct tools_runner *runner;
    struct tools_runner_info runner_info;
};

// ---------------------------------------------------------------- one test

static double larger(double a, double b) { return a > b ? a : b; }

// "llama 1.2B Q4_0"
char *bench_type_make(const rn_model_info *info) {
    char text[96];
    const double params = (double)info->n_params;
    if (params >= 1e9)
        snprintf(text, sizeof text, "%.32s %.1fB %.16s", info->architecture, params / 1e9,
                 info->format);
    else
        snprintf(text, sizeof text, "%.32s %.0fM %.16s", info->architecture, params / 1e6,
                 info->format);
    return strdup(text);
}

static bool row_init(struct bench_row *row, const struct bench_config *config,
                     const struct place *place, const struct bench_test *test) {
    const time_t now = time(NULL);
    struct tm parts;
    *row = (struct bench_row){.filename = strdup(place->model->name ? place->model->name
                                                                    : place->info->path),
                              .type = bench_type_make(place->info),
                              .backend = place->runner_info.backend,
                              .isa = place->runner_info.isa,
                              .model_size = place->info->weight_bytes,
                              .n_params = place->info->n_params,
                              .n_threads = place->runner_info.n_threads,
                              .kv_type = config->kv_type,
                              .n_batch = config->batch_tokens,
                              .test = *test,
                              .samples = calloc((size_t)config->repetitions, sizeof *row->samples)};
    if (gmtime_r(&now, &parts)) strftime(row->time, sizeof row->time, "%Y-%m-%dT%H:%M:%SZ", &parts);
    tools_runner_cost(place->runner, &test->work, &row->cost);
    return row->filename && row->type && row->samples;
}

static void peaks_measure(struct bench_row *row, struct tools_runner *runner) {
    if (row->test.kind != BENCH_PREFILL) return;
    row->int_peak = larger(row->int_peak, tools_runner_peak(runner, true));
    row->float_peak = larger(row->float_peak, tools_runner_peak(runner, false));
}

// False: it was interrupted, or the backend failed, which is said.
static bool work_run(struct tools_runner *runner, const struct tools_work *work, int max_steps,
                     uint64_t *ns, uint64_t *expert_bytes) {
    rn_error err = {0};
    const rn_status status =
        tools_runner_run(runner, work, max_steps, interrupt_seen, ns, expert_bytes, &err);
    if (status && status != RN_ERR_CANCELLED) app_fail_error(&err);
    return status == RN_OK;
}

static bool warm_up(struct tools_runner *runner, const struct bench_test *test) {
    uint64_t ns, expert_bytes;
    return work_run(runner, &test->work, test->kind == BENCH_PREFILL ? 1 : WARM_STEPS, &ns,
                    &expert_bytes);
}

// A step of one token in the same place, for the cost of one of several.
static bool cost_measure(struct tools_runner *runner, const struct bench_test *test,
                         struct bench_sample *sample) {
    struct tools_work one = test->work;
    uint64_t ns, expert_bytes;
    one.n_positions = test->n_gen;
    one.step_tokens = 1;
    if (!work_run(runner, &one, 0, &ns, &expert_bytes)) return false;
    sample->cost = (double)sample->ns / (double)(ns ? ns : 1); // as many steps
    return true;
}

// What the test itself read was there to be read, so it is part of the bandwidth's measurement: on
// a shared machine a share would exceed 100% otherwise.
static bool sample_take(struct bench_row *row, const struct place *place, uint64_t working_set,
                        double *bandwidth) {
    struct bench_sample *sample = &row->samples[row->n_samples];
    const double before = *bandwidth > 0
                              ? *bandwidth
                              : tools_runner_bandwidth(place->runner, working_set, BANDWIDTH_MS);
    uint64_t expert_bytes;
    if (!work_run(place->runner, &row->test.work, 0, &sample->ns, &expert_bytes)) return false;
    sample->bytes = (double)(row->cost.weight_bytes - row->cost.expert_bytes + expert_bytes) +
                    (double)row->cost.kv_bytes;
    *bandwidth = tools_runner_bandwidth(place->runner, working_set, BANDWIDTH_MS);
    sample->bandwidth = larger(before, *bandwidth);
    if (sample->bandwidth > 0)
        sample->bandwidth =
            larger(sample->bandwidth, sample->bytes * 1e9 / (double)(sample->ns ? sample->ns : 1));
    return row->test.kind != BENCH_VERIFY || cost_measure(place->runner, &row->test, sample);
}

static int repetitions_run(struct bench *bench, const struct place *place, struct bench_row *row) {
    const struct bench_config *config = bench->config;
    const uint64_t working_set = tools_runner_working_set(place->runner, &row->test.work);
    const bool with_peer = config->peer && bench_peer_can(&row->test);
    double bandwidth = 0; // of just now; 0: none
    row->in_cache = working_set <= place->runner_info.cache_bytes;
    for (int i = 0; i < config->repetitions; i++) {
        struct bench_sample *sample = &row->samples[i];
        if (interrupt_seen()) return APP_INTERRUPTED;
        if ((i == 0 || with_peer) && !warm_up(place->runner, &row->test)) return APP_INTERRUPTED;
        if (!sample_take(row, place, working_set, &bandwidth)) return APP_INTERRUPTED;
        if (with_peer) {
            const int code = bench_peer_run(config, place->model->name, row->n_threads, &row->test,
                                            &sample->peer_ts, &row->peer_name);
            if (code) return code;
            bandwidth = 0; // the peer took its time
        }
        row->n_samples++;
        progress_update(&bench->progress, ++bench->done, bench->total);
    }
    return APP_OK;
}

// Ctrl-C meanwhile leaves a row that lacks its stages alone.
static int row_measure(struct bench *bench, const struct place *place, struct bench_row *row) {
    rn_error err = {0};
    peaks_measure(row, place->runner);
    const int code = repetitions_run(bench, place, row);
    if (code) return code;
    peaks_measure(row, place->runner);
    if (!bench->config->stages) return APP_OK;
    const rn_status status =
        tools_runner_stages(place->runner, &row->test.work, interrupt_seen, &row->stages,
                            &row->n_stages, &row->stages_ns, &err);
    return status && status != RN_ERR_CANCELLED ? app_fail_error(&err) : APP_OK;
}

static int test_run(struct bench *bench, const struct place *place, const struct bench_test *test) {
    struct bench_row *grown =
        realloc(bench->rows, ((size_t)bench->n_rows + 1) * sizeof *bench->rows);
    if (!grown) return app_fail(APP_FAILED, "out of memory");
    bench->rows = grown;
    struct bench_row *row = &grown[bench->n_rows];
    int code =
        row_init(row, bench->config, place, test) ? APP_OK : app_fail(APP_FAILED, "out of memory");
    if (!code) {
        progress_begin(&bench->progress, bench->term, bench->config->quiet, "measuring");
        progress_show(&bench->progress, bench->done, bench->total);
        code = row_measure(bench, place, row);
        progress_end(&bench->progress);
    }
    if (code) {
        bench_row_deinit(row);
        return code;
    }
    bench->n_rows++;
    if (strcmp(bench->config->output, "md") != 0) return APP_OK;
    if (bench->n_rows == 1) bench_table_head(bench);
    bench_table_row(bench, row);
    return app_flush_output();
}

// ---------------------------------------------------------------- models

static rn_status model_open(const struct bench_model *model, rn_model **out, rn_error *err) {
    if (model->source == SOURCE_SYNTHETIC) return tools_model_open_synthetic(model->name, out, err);
    if (model->source == SOURCE_FILE) return rn_model_open(model->name, out, err);
    return rn_model_open_memory(EMBEDDED_NAME, embedded_model,
                                (size_t)(embedded_model_end - embedded_model), out, err);
}

static int open_fail(rn_status status, const rn_error *err) {
    const int code = app_fail_error(err);
    return status == RN_ERR_IO ? APP_USAGE : code; // a model that cannot be read is a bad -m
}

int bench_model_open(const struct bench_model *source, rn_model **out) {
    rn_error err = {0};
    const rn_status status = model_open(source, out, &err);
    return status ? open_fail(status, &err) : APP_OK;
}

static rn_status model_check(const struct bench *bench, const struct bench_model *source,
                             rn_error *err) {
    rn_model *model = NULL;
    if (source->source == SOURCE_SYNTHETIC) return tools_synthetic_check(source->name, err);
    rn_status status = model_open(source, &model, err);
    if (!status)
        status = tools_works_check(rn_model_get_info(model), bench->works, bench->n_tests, err);
    rn_model_close(model);
    return status;
}

// All are looked at before anything is measured: a wrong one should not show itself in an hour.
static int models_check(const struct bench *bench) {
    const struct bench_config *config = bench->config;
    for (int i = 0; i < config->n_models && config->n_models > 1; i++) {
        rn_error err = {0};
        const rn_status status = model_check(bench, &config->model[i], &err);
        if (status) return open_fail(status, &err);
    }
    return APP_OK;
}

static int runner_make(const struct bench *bench, const rn_model *model, int n_threads,
                       struct tools_runner **out) {
    struct progress progress;
    const struct tools_runner_options options = {.isa = bench->config->isa,
                                                 .n_threads = n_threads,
                                                 .no_pin = bench->config->no_pin,
                                                 .kv_type = bench->config->kv_type,
                                                 .progress = progress_update,
                                                 .progress_ctx = &progress};
    rn_error err = {0};
    progress_begin(&progress, bench->term, bench->config->quiet, "loading");
    const rn_status status =
        tools_runner_create(model, &options, bench->works, bench->n_tests, out, &err);
    progress_end(&progress);
    if (status == RN_ERR_NOMEM)
        return app_fail(APP_FAILED, "%s: %s", err_path(rn_model_get_info(model)->path),
                        err.message);
    return status ? app_fail_error(&err) : APP_OK;
}

// Once for a model, whatever the number of thread counts.
static void slow_warn(struct bench *bench, const struct tools_runner_info *info) {
    char *last = bench->slow_formats;
    if (strncmp(last, info->slow_formats, sizeof bench->slow_formats - 1) == 0) return;
    snprintf(last, sizeof bench->slow_formats, "%s", info->slow_formats);
    app_warn_slow(bench->config->quiet, info->slow_formats, info->isa);
}

static int threads_run(struct bench *bench, const struct bench_model *source, const rn_model *model,
                       int n_threads) {
    struct place place = {.model = source, .info = rn_model_get_info(model)};
    int code = runner_make(bench, model, n_threads, &place.runner);
    if (code) return code;
    tools_runner_get_info(place.runner, &place.runner_info);
    slow_warn(bench, &place.runner_info);
    interrupt_watch(); // from now on there may be rows to show
    for (int i = 0; !code && i < bench->n_tests; i++)
        code = interrupt_seen() ? APP_INTERRUPTED : test_run(bench, &place, &bench->tests[i]);
    tools_runner_destroy(place.runner);
    return code;
}

static int models_run(struct bench *bench) {
    const struct bench_config *config = bench->config;
    int code = APP_OK;
    for (int i = 0; !code && i < config->n_models; i++) {
        rn_model *model = NULL;
        code = bench_model_open(&config->model[i], &model);
        for (int t = 0; !code && t < config->threads.count; t++)
            code = threads_run(bench, &config->model[i], model, config->threads.value[t]);
        rn_model_close(model);
    }
    return !code && interrupt_seen() ? APP_INTERRUPTED : code;
}

// ---------------------------------------------------------------- the command

// What was complete when something went wrong is shown too.
static int rows_show(const struct bench *bench, int code) {
    const struct bench_config *config = bench->config;
    int shown = APP_OK;
    if (bench->n_rows == 0) return code;
    if (!strcmp(config->output, "json"))
        shown = bench_json_print(bench);
    else if (!strcmp(config->output, "csv"))
        shown = bench_csv_print(bench);
    else if (config->stages)
        bench_stages_print(bench);
    if (!shown && config->plot) shown = plot_write(bench, config->plot);
    return code ? code : shown;
}

static int tests_run(struct bench *bench) {
    int code = models_check(bench);
    if (!code && bench->config->plot) code = plot_check(bench->config->plot);
    if (!code) code = rows_show(bench, models_run(bench));
    for (int i = 0; i < bench->n_rows; i++) bench_row_deinit(&bench->rows[i]);
    free(bench->rows);
    return code;
}

static int bench_run(const struct bench_config *config, const struct term *term) {
    int n_tests;
    struct bench_test *tests = bench_tests_make(config, &n_tests);
    struct tools_work *works = tests ? calloc((size_t)n_tests, sizeof *works) : NULL;
    for (int i = 0; works && i < n_tests; i++) works[i] = tests[i].work;
    struct bench bench = {.config = config,
                          .term = term,
                          .tests = tests,
                          .works = works,
                          .n_tests = n_tests,
                          .total = (uint64_t)config->n_models * (uint64_t)config->threads.count *
                                   (uint64_t)n_tests * (uint64_t)config->repetitions};
    const int code = works ? tests_run(&bench) : app_fail(APP_FAILED, "out of memory");
    free(works);
    free(tests);
    return code;
}

int command_bench(const struct options *options) {
    struct bench_config config;
    struct term term;
    if (option_flag(options, OPT_KERNELS))
        return bench_kernels_print(option_text(options, OPT_OUTPUT));
    int code = bench_config_init(options, &config);
    if (code) return code;
    term_init(&term, options);
    bench_peer_prepare(&config);
    interrupt_ends();
    code = config.spec.on       ? bench_spec_run(&config, &term)
           : config.batch.count ? bench_batch_run(&config, &term)
                                : bench_run(&config, &term);
    bench_config_deinit(&config);
    return code;
}
