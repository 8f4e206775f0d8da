// Measures the engine with real requests: so many at a time, all of one length, greedy or sampled
// as the model's file says, to their full length. Prompts are random ids, so that nothing is shared
// but what is meant to be. Prefixes are forgotten before each run. Of several repetitions the one
// with the median rate is the row.
#include "bench/bench_batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/bench_crowd.h"
#include "bench/plot.h"
#include "terminal/interrupt.h"

enum {
    BANDWIDTH_MS = 200,
    SERIAL_RUNS = 4, // requests that are run one after the other, at most; all are alike
    WARM_STEPS = 8,
    LEAST_CHUNK = 8, // of a prompt that arrives: how slowly the engine may take it in
};

// An engine, and what its rows have in common.
struct place {
    struct batch_bench *bench;
    rn_engine *engine;
    const struct bench_model *model;
    const rn_model_info *info;
    rn_engine_info engine_info;
    int itl_ms;
};

// ---------------------------------------------------------------- requests

// The first n_shared ids are those of every other request's.
static int request_submit(const struct place *place, struct crowd *crowd, int index, int n_prompt,
                          int n_shared, int max_tokens) {
    int32_t *prompt = malloc((size_t)n_prompt * sizeof *prompt);
    if (!prompt) return app_fail(APP_FAILED, "out of memory");
    for (int i = 0; i < n_prompt; i++)
        prompt[i] = crowd_prompt_id(i < n_shared ? -1 : index, i, place->info->n_vocab);
    const rn_request request = {.prompt = prompt,
                                .n_prompt = (size_t)n_prompt,
                                .sampling = crowd_sampling(place->info,
                                                           place->bench->config->sample, index),
                                .max_tokens = max_tokens};
    const int code = crowd_submit(crowd, index, &request);
    free(prompt);
    return code;
}

// ---------------------------------------------------------------- figures

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Sorts the values; a percentile is the value that so many are not above.
static struct batch_spread spread_of(double *value, size_t n) {
    if (n == 0) return (struct batch_spread){(double)NAN, (double)NAN, (double)NAN};
    qsort(value, n, sizeof *value, compare);
    const size_t p50 = (n * 50 + 99) / 100 - 1, p99 = (n * 99 + 99) / 100 - 1;
    return (struct batch_spread){value[p50], value[p99], value[n - 1]};
}

static double ratio(double a, double b) { return b > 0 ? a / b : (double)NAN; }

// The gaps become the row's, and go.
static void gaps_take(struct crowd *crowd, struct batch_row *row) {
    size_t over = 0;
    row->gap = spread_of(crowd->gaps.ms, crowd->gaps.n);
    for (size_t i = 0; i < crowd->gaps.n; i++) over += crowd->gaps.ms[i] > row->itl_ms;
    row->over_bound = row->itl_ms ? ratio((double)over, (double)crowd->gaps.n) : (double)NAN;
    crowd->gaps.n = 0;
}

static int ttft_take(const struct crowd *crowd, struct batch_row *row) {
    double *ms = calloc((size_t)crowd->n, sizeof *ms);
    if (!ms) return app_fail(APP_FAILED, "out of memory");
    for (int i = 0; i < crowd->n; i++)
        ms[i] = (double)(crowd->stream[i].first_ns - crowd->stream[i].submit_ns) * 1e-6;
    row->ttft = spread_of(ms, (size_t)crowd->n);
    free(ms);
    return APP_OK;
}

// What happened between two moments.
static void marks_take(const struct crowd_mark *from, const struct crowd_mark *to,
                       struct batch_row *row) {
    const rn_engine_stats *a = &from->stats, *b = &to->stats;
    const double steps = (double)(b->steps - a->steps);
    const uint64_t host_a = a->schedule_ns + a->batch_ns + a->publish_ns;
    const uint64_t host_b = b->schedule_ns + b->batch_ns + b->publish_ns;
    row->gen_ts = crowd_rate(from, to);
    row->steps = b->steps - a->steps;
    row->host_us = ratio((double)(host_b - host_a) * 1e-3, steps);
    row->sample_us = ratio((double)(b->sample_ns - a->sample_ns) * 1e-3, steps);
    row->read_rate =
        ratio((double)(b->weight_bytes + b->kv_bytes - a->weight_bytes - a->kv_bytes) * 1e9,
              (double)(b->run_ns - a->run_ns));
}

static void totals_take(const rn_engine_stats *from, const rn_engine_stats *to,
                        struct batch_row *row) {
    row->prompt_tokens = to->prompt_tokens - from->prompt_tokens;
    row->cached_tokens = to->cached_tokens - from->cached_tokens;
    row->output_tokens = to->output_tokens - from->output_tokens;
    row->preemptions = to->preemptions - from->preemptions;
}

static void bandwidth_take(const struct place *place, struct batch_row *row) {
    const double read = isfinite(row->read_rate) ? row->read_rate : 0;
    row->bandwidth =
        rn_engine_bandwidth(place->engine, place->engine_info.weight_bytes, BANDWIDTH_MS);
    // what was read could be read
    if (row->bandwidth > 0 && row->bandwidth < read) row->bandwidth = read;
}

// ---------------------------------------------------------------- many at a time

static int window_take(const struct place *place, struct crowd *crowd, const struct crowd_window *w,
                       struct batch_row *row) {
    const struct crowd_mark *from, *to;
    row->decode_only = crowd_window_ends(w, &from, &to);
    marks_take(from, to, row);
    row->wall_ms = (double)(w->end.ns - w->start.ns) * 1e-6;
    row->prompt_ts =
        ratio((double)row->n_streams * row->n_prompt * 1e9, (double)(w->all.ns - w->start.ns));
    row->pages_held = w->all.stats.pages_held;
    row->pages_shared = w->all.stats.pages_shared;
    totals_take(&w->start.stats, &w->end.stats, row);
    gaps_take(crowd, row);
    bandwidth_take(place, row);
    return ttft_take(crowd, row);
}

// One run of the row's requests, all submitted at once.
static int batch_run(const struct place *place, struct batch_row *row) {
    struct crowd crowd;
    const int n = row->n_streams;
    int code = crowd_init(&crowd, place->engine, n, (size_t)n * (size_t)row->n_gen, 0);
    if (code) return code;
    struct crowd_window *w = calloc(1, sizeof *w);
    if (!w) code = app_fail(APP_FAILED, "out of memory");
    rn_engine_forget_prefixes(place->engine);
    if (!code) crowd_window_begin(&crowd, w);
    for (int i = 0; !code && i < n; i++)
        code = request_submit(place, &crowd, i, row->n_prompt, row->n_shared, row->n_gen);
    if (!code) code = crowd_finish(&crowd, w);
    if (!code) code = window_take(place, &crowd, w, row);
    free(w);
    crowd_deinit(&crowd);
    return code;
}

// The first of the row's requests, one after the other.
static int serial_run(const struct place *place, struct batch_row *row) {
    const int n = row->n_streams < SERIAL_RUNS ? row->n_streams : SERIAL_RUNS;
    double others = 0;
    rn_engine_forget_prefixes(place->engine);
    for (int i = 0; i < n; i++) {
        struct crowd crowd;
        int code = crowd_init(&crowd, place->engine, i + 1, 0, 0);
        if (code) return code;
        crowd.n_done = i; // that one alone
        const uint64_t start = clock_ns();
        code = request_submit(place, &crowd, i, row->n_prompt, row->n_shared, row->n_gen);
        while (!code && crowd.n_done <= i) code = crowd_step(&crowd);
        crowd_deinit(&crowd);
        if (code) return code;
        const double ms = (double)(clock_ns() - start) * 1e-6;
        if (i == 0) row->first_ms = ms;
        if (i > 0) others += ms;
    }
    row->next_ms = n > 1 ? others / (n - 1) : row->first_ms;
    return APP_OK;
}

// ---------------------------------------------------------------- a prompt arrives

// Streams run; then a long prompt comes. All but the last of the crowd are the streams.
static int arrive_steps(const struct place *place, struct crowd *crowd, struct batch_row *before,
                        struct batch_row *during) {
    const int n = before->n_streams;
    struct crowd_mark from, to;
    int code = APP_OK;
    while (!code && crowd->n_started < n) code = crowd_step(crowd);
    for (int i = 0; !code && i < WARM_STEPS; i++) code = crowd_step(crowd);
    crowd_mark_set(crowd, &from);
    crowd->gaps.n = 0;
    for (int i = 0; !code && i < before->n_gen; i++) code = crowd_step(crowd);
    if (code) return code;
    crowd_mark_set(crowd, &to);
    before->decode_only = true;
    before->wall_ms = (double)(to.ns - from.ns) * 1e-6;
    marks_take(&from, &to, before);
    totals_take(&from.stats, &to.stats, before);
    gaps_take(crowd, before);
    from = to;
    code = request_submit(place, crowd, n, during->n_arrive, 0, 1);
    while (!code && crowd->stream[n].n_out == 0) code = crowd_step(crowd);
    if (code) return code;
    crowd_mark_set(crowd, &to);
    during->wall_ms = (double)(to.ns - from.ns) * 1e-6;
    marks_take(&from, &to, during);
    totals_take(&from.stats, &to.stats, during);
    during->pages_held = to.stats.pages_held;
    during->pages_shared = to.stats.pages_shared;
    double ttft = (double)(crowd->stream[n].first_ns - crowd->stream[n].submit_ns) * 1e-6;
    during->ttft = spread_of(&ttft, 1);
    during->prompt_ts = ratio(during->n_arrive * 1e3, ttft);
    gaps_take(crowd, during);
    return APP_OK;
}

// Most tokens that a stream writes until the long prompt is in.
static int arrive_tokens(const struct batch_row *row) {
    return WARM_STEPS + row->n_gen + row->n_arrive / LEAST_CHUNK + row->n_streams + 2;
}

static int arrive_run(const struct place *place, struct batch_row *before,
                      struct batch_row *during) {
    const int n = before->n_streams, n_tokens = arrive_tokens(before);
    struct crowd crowd;
    int code = crowd_init(&crowd, place->engine, n + 1, (size_t)n * (size_t)n_tokens, 0);
    if (code) return code;
    rn_engine_forget_prefixes(place->engine);
    for (int i = 0; !code && i < n; i++)
        code = request_submit(place, &crowd, i, before->n_prompt, 0, n_tokens);
    if (!code) code = arrive_steps(place, &crowd, before, during);
    while (!code && crowd.n_done < crowd.n) code = crowd_step(&crowd);
    crowd_deinit(&crowd);
    return code;
}

// ---------------------------------------------------------------- rows

static bool row_init(struct batch_row *row, const struct place *place, enum batch_kind kind,
                     int n_streams, int n_prompt, int n_gen) {
    const struct bench_config *config = place->bench->config;
    const time_t now = time(NULL);
    struct tm parts;
    *row = (struct batch_row){
        .filename = strdup(place->model->name ? place->model->name : place->info->path),
        .type = bench_type_make(place->info),
        .backend = place->engine_info.backend,
        .isa = place->engine_info.isa,
        .n_threads = place->engine_info.n_threads,
        .n_batch = place->engine_info.batch_tokens,
        .kv_type = config->kv_type,
        .kind = kind,
        .n_streams = n_streams,
        .n_prompt = n_prompt,
        .n_gen = n_gen,
        .n_arrive = kind >= BATCH_BEFORE ? config->arrive : 0,
        .itl_ms = place->itl_ms,
        .first_ms = (double)NAN,
        .next_ms = (double)NAN,
        .prompt_ts = (double)NAN,
        .gain_stream = (double)NAN,
        .ttft = {(double)NAN, (double)NAN, (double)NAN},
    };
    if (kind == BATCH_SHARED)
        row->n_shared = config->shared_prefix >= 0 ? config->shared_prefix : n_prompt / 4 * 3;
    if (row->n_shared > n_prompt) row->n_shared = n_prompt;
    if (gmtime_r(&now, &parts)) strftime(row->time, sizeof row->time, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return row->filename && row->type;
}

static void row_deinit(struct batch_row *row) {
    free(row->filename);
    free(row->type);
}

// The row is the bench's from then on, or freed.
static int row_keep(struct batch_bench *bench, struct batch_row *row) {
    struct batch_row *grown =
        realloc(bench->rows, ((size_t)bench->n_rows + 1) * sizeof *bench->rows);
    if (!grown) {
        row_deinit(row);
        return app_fail(APP_FAILED, "out of memory");
    }
    bench->rows = grown;
    bench->rows[bench->n_rows++] = *row;
    if (strcmp(bench->config->output, "md") != 0) return APP_OK;
    batch_table_row(bench, &bench->rows[bench->n_rows - 1]);
    return app_flush_output();
}

static int row_compare(const void *a, const void *b) {
    const struct batch_row *x = a, *y = b;
    return (x->gen_ts > y->gen_ts) - (x->gen_ts < y->gen_ts);
}

// Runs the row's requests as often as wanted; the row becomes the one in the middle.
static int row_repeat(const struct place *place, struct batch_row *row) {
    const int n = place->bench->config->repetitions;
    struct batch_row *runs = calloc((size_t)n, sizeof *runs);
    int code = runs ? APP_OK : app_fail(APP_FAILED, "out of memory");
    for (int i = 0; !code && i < n; i++) {
        runs[i] = *row;
        code = batch_run(place, &runs[i]);
    }
    if (!code) {
        qsort(runs, (size_t)n, sizeof *runs, row_compare);
        *row = runs[(n - 1) / 2];
    }
    free(runs);
    return code;
}

// The bar stands still while something is measured: drawing it would take part of a gap.
static void measuring_begin(struct batch_bench *bench) {
    progress_begin(&bench->progress, bench->term, bench->config->quiet, "measuring");
    progress_show(&bench->progress, bench->done++, bench->total);
}

// All numbers of streams with one kind of prompts.
static int block_run(const struct place *place, enum batch_kind kind, int n_prompt, int n_gen) {
    const struct bench_list *streams = &place->bench->config->batch;
    struct batch_row serial = {0};
    double one = (double)NAN;
    int code = APP_OK;
    for (int i = 0; !code && i < streams->count; i++) {
        struct batch_row row;
        if (!row_init(&row, place, kind, streams->value[i], n_prompt, n_gen))
            code = app_fail(APP_FAILED, "out of memory");
        if (!code && i == 0) {
            serial = row;
            serial.n_streams = bench_list_largest(streams);
            measuring_begin(place->bench);
            code = serial_run(place, &serial);
            progress_end(&place->bench->progress);
        }
        if (!code) {
            measuring_begin(place->bench);
            code = row_repeat(place, &row);
            progress_end(&place->bench->progress);
        }
        if (code) {
            row_deinit(&row);
            break;
        }
        row.first_ms = serial.first_ms;
        row.next_ms = serial.next_ms;
        if (row.n_streams == 1) one = row.gen_ts;
        row.gain_stream = row.gen_ts / one;
        code = row_keep(place->bench, &row);
    }
    return code;
}

static int arrive_block(const struct place *place, int n_streams, int n_prompt, int n_gen) {
    struct batch_row before, during;
    const bool made = row_init(&before, place, BATCH_BEFORE, n_streams, n_prompt, n_gen);
    int code = row_init(&during, place, BATCH_ARRIVE, n_streams, n_prompt, n_gen) && made
                   ? APP_OK
                   : app_fail(APP_FAILED, "out of memory");
    if (!code) {
        measuring_begin(place->bench);
        code = arrive_run(place, &before, &during);
        progress_end(&place->bench->progress);
    }
    if (code) {
        row_deinit(&before);
        row_deinit(&during);
        return code;
    }
    bandwidth_take(place, &before);
    during.bandwidth = before.bandwidth;
    code = row_keep(place->bench, &before);
    if (!code) return row_keep(place->bench, &during);
    row_deinit(&during);
    return code;
}

// ---------------------------------------------------------------- engines

// Positions that the longest request needs.
static int positions(const struct bench_config *config) {
    const int n_prompt = bench_list_largest(&config->n_prompt),
              n_gen = bench_list_largest(&config->n_gen);
    if (!config->arrive) return n_prompt + n_gen;
    const struct batch_row row = {.n_streams = bench_list_largest(&config->batch),
                                  .n_gen = n_gen,
                                  .n_arrive = config->arrive};
    const int streams = n_prompt + arrive_tokens(&row);
    return config->arrive + 1 > streams ? config->arrive + 1 : streams;
}

static int engine_make(struct place *place, const rn_model *model, int n_threads) {
    const struct bench_config *config = place->bench->config;
    const rn_engine_options options = {.n_threads = n_threads,
                                       .n_ctx = positions(config),
                                       .max_seqs = bench_list_largest(&config->batch) +
                                                   (config->arrive ? 1 : 0),
                                       .itl_ms = place->itl_ms,
                                       .speculate = "off"}; // a step is a token of each stream
    const int code = crowd_engine_create(config, place->bench->term, model, &options,
                                         &place->engine, &place->engine_info);
    if (code) return code;
    app_warn_slow(config->quiet, place->engine_info.slow_formats, place->engine_info.isa);
    return APP_OK;
}

static int lengths_run(const struct place *place, int n_prompt, int n_gen) {
    const struct bench_config *config = place->bench->config;
    int code = APP_OK;
    if (!config->arrive) {
        code = block_run(place, BATCH_DISTINCT, n_prompt, n_gen);
        return code ? code : block_run(place, BATCH_SHARED, n_prompt, n_gen);
    }
    for (int i = 0; !code && i < config->batch.count; i++)
        code = arrive_block(place, config->batch.value[i], n_prompt, n_gen);
    return code;
}

static int engine_run(struct place *place, const rn_model *model, int n_threads) {
    const struct bench_config *config = place->bench->config;
    int code = engine_make(place, model, n_threads);
    if (code) return code;
    interrupt_watch(); // from now on there may be rows to show
    struct batch_row warm = {.n_streams = 1, .n_prompt = 1, .n_gen = WARM_STEPS};
    if (warm.n_gen >= positions(config)) warm.n_gen = 1;
    code = batch_run(place, &warm);
    for (int p = 0; !code && p < config->n_prompt.count; p++)
        for (int g = 0; !code && g < config->n_gen.count; g++)
            code = lengths_run(place, config->n_prompt.value[p], config->n_gen.value[g]);
    rn_engine_destroy(place->engine);
    return code;
}

static int model_run(struct batch_bench *bench, const struct bench_model *source) {
    const struct bench_config *config = bench->config;
    rn_model *model = NULL;
    int code = bench_model_open(source, &model);
    for (int t = 0; !code && t < config->threads.count; t++) {
        for (int i = 0; !code && i < config->itl_ms.count; i++) {
            struct place place = {.bench = bench,
                                  .model = source,
                                  .info = rn_model_get_info(model),
                                  .itl_ms = config->itl_ms.value[i]};
            code = engine_run(&place, model, config->threads.value[t]);
        }
    }
    rn_model_close(model);
    return code;
}

// What was complete when something went wrong is shown too.
static int rows_show(const struct batch_bench *bench, int code) {
    const struct bench_config *config = bench->config;
    int shown = APP_OK;
    if (bench->n_rows == 0) return code;
    if (!strcmp(config->output, "json")) shown = batch_json_print(bench);
    if (!strcmp(config->output, "csv")) shown = batch_csv_print(bench);
    if (!shown && config->plot) shown = batch_plot(bench, config->plot);
    return code ? code : shown;
}

// Requests one after the other are a measurement too.
static uint64_t measurements(const struct bench_config *config) {
    const int rows = config->batch.count;
    return (uint64_t)config->n_models * (uint64_t)config->threads.count *
           (uint64_t)config->itl_ms.count * (uint64_t)config->n_prompt.count *
           (uint64_t)config->n_gen.count * (uint64_t)(config->arrive ? rows : 2 * (rows + 1));
}

int bench_batch_run(const struct bench_config *config, const struct term *term) {
    struct batch_bench bench = {.config = config, .term = term, .total = measurements(config)};
    int code = config->plot ? plot_check(config->plot) : APP_OK;
    for (int i = 0; !code && i < config->n_models; i++) code = model_run(&bench, &config->model[i]);
    if (!code && interrupt_seen()) code = APP_INTERRUPTED;
    code = rows_show(&bench, code);
    for (int i = 0; i < bench.n_rows; i++) row_deinit(&bench.rows[i]);
    free(bench.rows);
    return code;
}
