// Measures the engine with real requests (--batch, --arrive): N at a time, all of one length, to
// their full length, greedy or sampled as the model's file says. Prompts are random ids, so that
// requests share nothing by accident. Prefixes are forgotten before each run. The row is the
// repetition with the median rate.
#include <math.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/crowd.h"
#include "bench/figures.h"

enum {
    SERIAL_RUNS = 4, // requests that are run one after the other, at most; all are alike
    WARM_STEPS = 8,
    LEAST_CHUNK = 8, // of an arriving prompt: the fewest tokens per step
};

enum kind {
    KIND_BATCH,  // requests that have nothing in common
    KIND_SHARED, // requests whose prompts have a common start
    KIND_BEFORE, // streams that run, before a long prompt arrives
    KIND_ARRIVE, // the same until that prompt has its first token
};

// The requests of a row.
struct order {
    enum kind kind;
    int n_streams, n_prompt, n_gen;
    int first;    // the number of the first request: another one has another prompt
    int n_shared; // tokens of the prompts' common start
    int n_arrive;
    int itl_ms; // 0: no bound
};

// An engine, and the bound of its rows.
struct bed {
    struct bench_place *place;
    rn_engine *engine;
    int itl_ms;
};

// ---------------------------------------------------------------- requests

// All requests have the same first n_shared ids.
static int request_submit(const struct bed *bed, struct crowd *crowd, int stream,
                          const struct order *order) {
    const rn_model_info *info = bed->place->info;
    const int index = order->first + stream;
    int32_t *prompt = malloc((size_t)order->n_prompt * sizeof *prompt);
    if (!prompt) return app_fail(APP_FAILED, "out of memory");
    for (int i = 0; i < order->n_prompt; i++)
        prompt[i] = crowd_prompt_id(i < order->n_shared ? -1 : index, i, info->n_vocab);
    const bool sample = bed->place->bench->config->sample;
    const rn_request request = {.prompt = prompt,
                                .n_prompt = (size_t)order->n_prompt,
                                .sampling = crowd_sampling(info, sample, index),
                                .max_tokens = order->n_gen};
    const int code = crowd_submit(crowd, stream, &request);
    free(prompt);
    return code;
}

// ---------------------------------------------------------------- many at a time

static double ms_between(uint64_t from_ns, uint64_t to_ns) {
    return (double)(to_ns - from_ns) * 1e-6;
}

static double bandwidth_measure(const struct bed *bed) {
    rn_engine_info info;
    rn_engine_get_info(bed->engine, &info);
    return rn_engine_bandwidth(bed->engine, info.weight_bytes,
                               bed->place->bench->config->bandwidth_ms);
}

static int ttft_set(const struct crowd *crowd, struct row *row) {
    double *ms = calloc((size_t)crowd->n, sizeof *ms);
    if (!ms) return app_fail(APP_FAILED, "out of memory");
    for (int i = 0; i < crowd->n; i++)
        ms[i] = ms_between(crowd->stream[i].submit_ns, crowd->stream[i].first_ns);
    figures_ttft(ms, (size_t)crowd->n, row);
    free(ms);
    return APP_OK;
}

static int window_set(struct crowd *crowd, const struct crowd_window *w, const struct order *order,
                      struct row *row) {
    const struct crowd_mark *from, *to;
    const double n_tokens = (double)order->n_streams * order->n_prompt;
    row_bool(row, COLUMN_DECODE_ONLY, crowd_window_ends(w, &from, &to));
    figures_moments(from, to, row);
    row_real(row, COLUMN_WALL_MS, ms_between(w->start.ns, w->end.ns));
    row_real(row, COLUMN_PROMPT_TS,
             figure_ratio(n_tokens * 1e9, (double)(w->all.ns - w->start.ns)));
    row_whole(row, COLUMN_PAGES_HELD, w->all.stats.pages_held);
    row_whole(row, COLUMN_PAGES_SHARED, w->all.stats.pages_shared);
    figures_totals(&w->start.stats, &w->end.stats, row);
    figures_gaps(crowd->gap_ms, crowd->n_gaps, row);
    return ttft_set(crowd, row);
}

// One run of the requests, all submitted at once.
static int batch_run(const struct bed *bed, const struct order *order, struct row *row) {
    struct crowd crowd;
    struct crowd_window window;
    const int n = order->n_streams;
    int code = crowd_init(&crowd, bed->engine, n, (size_t)n * (size_t)order->n_gen, 0);
    if (code) return code;
    crowd_window_begin(&crowd, &window);
    for (int i = 0; !code && i < n; i++) code = request_submit(bed, &crowd, i, order);
    if (!code) code = crowd_finish(&crowd, &window);
    if (!code) code = window_set(&crowd, &window, order, row);
    crowd_deinit(&crowd);
    return code;
}

// The first of n requests, one after the other: the time of the first, and the mean of the others.
static int serial_run(const struct bed *bed, struct order order, int n, double *first_ms,
                      double *next_ms) {
    double others_ms = 0;
    if (n > SERIAL_RUNS) n = SERIAL_RUNS;
    order.n_streams = 1;
    rn_engine_forget_prefixes(bed->engine);
    for (order.first = 0; order.first < n; order.first++) {
        struct row row = {0};
        const int code = batch_run(bed, &order, &row);
        const double ms = row_number_at(&row, COLUMN_WALL_MS);
        row_deinit(&row);
        if (code) return code;
        if (order.first == 0) *first_ms = ms;
        if (order.first > 0) others_ms += ms;
    }
    *next_ms = n > 1 ? others_ms / (n - 1) : *first_ms;
    return APP_OK;
}

// ---------------------------------------------------------------- a prompt arrives

static void span_set(struct crowd *crowd, const struct crowd_mark *from,
                     const struct crowd_mark *to, struct row *row) {
    row_real(row, COLUMN_WALL_MS, ms_between(from->ns, to->ns));
    figures_moments(from, to, row);
    figures_totals(&from->stats, &to->stats, row);
    figures_gaps(crowd->gap_ms, crowd->n_gaps, row);
    crowd->n_gaps = 0;
}

// Streams run; then a long prompt comes, which is the last request of the crowd.
static int arrive_steps(const struct bed *bed, struct crowd *crowd, const struct order *order,
                        struct row *before, struct row *during) {
    const int n = order->n_streams;
    struct crowd_mark from, submitted, to;
    int code = APP_OK;
    while (!code && crowd->n_started < n) code = crowd_step(crowd);
    for (int i = 0; !code && i < WARM_STEPS; i++) code = crowd_step(crowd);
    crowd_mark_set(crowd, &from);
    crowd->n_gaps = 0;
    for (int i = 0; !code && i < order->n_gen; i++) code = crowd_step(crowd);
    if (code) return code;
    crowd_mark_set(crowd, &submitted);
    span_set(crowd, &from, &submitted, before);
    struct order arriving = *order;
    arriving.n_prompt = order->n_arrive;
    arriving.n_gen = 1;
    code = request_submit(bed, crowd, n, &arriving);
    while (!code && crowd->stream[n].n_out == 0) code = crowd_step(crowd);
    if (code) return code;
    crowd_mark_set(crowd, &to);
    span_set(crowd, &submitted, &to, during);
    row_whole(during, COLUMN_PAGES_HELD, to.stats.pages_held);
    row_whole(during, COLUMN_PAGES_SHARED, to.stats.pages_shared);
    double ttft = ms_between(crowd->stream[n].submit_ns, crowd->stream[n].first_ns);
    row_real(during, COLUMN_PROMPT_TS, figure_ratio(order->n_arrive * 1e3, ttft));
    figures_ttft(&ttft, 1, during);
    return APP_OK;
}

// Most tokens that a stream writes until the long prompt is in.
static int arrive_tokens(const struct order *order) {
    return WARM_STEPS + order->n_gen + order->n_arrive / LEAST_CHUNK + order->n_streams + 2;
}

static int arrive_run(const struct bed *bed, const struct order *order, struct row *before,
                      struct row *during) {
    const int n = order->n_streams;
    struct order running = *order;
    struct crowd crowd;
    running.n_gen = arrive_tokens(order);
    int code = crowd_init(&crowd, bed->engine, n + 1, (size_t)n * (size_t)running.n_gen, 0);
    if (code) return code;
    rn_engine_forget_prefixes(bed->engine);
    for (int i = 0; !code && i < n; i++) code = request_submit(bed, &crowd, i, &running);
    if (!code) code = arrive_steps(bed, &crowd, order, before, during);
    while (!code && crowd.n_done < crowd.n) code = crowd_step(&crowd);
    crowd_deinit(&crowd);
    return code;
}

// ---------------------------------------------------------------- rows

// "pp512+tg128, 384 shared"; "tg128, 50 ms"; "pp4096 arrives, 50 ms".
static int label_text(const struct order *order, char out[64]) {
    int at;
    if (order->kind == KIND_BEFORE)
        at = snprintf(out, 64, "tg%d", order->n_gen);
    else if (order->kind == KIND_ARRIVE)
        at = snprintf(out, 64, "pp%d arrives", order->n_arrive);
    else
        at = snprintf(out, 64, "pp%d+tg%d", order->n_prompt, order->n_gen);
    if (order->kind == KIND_SHARED)
        at += snprintf(out + at, 64 - (size_t)at, ", %d shared", order->n_shared);
    if (order->itl_ms) at += snprintf(out + at, 64 - (size_t)at, ", %d ms", order->itl_ms);
    return at;
}

static void row_init(const struct bed *bed, const struct order *order, struct row *row) {
    static const char *const names[] = {"batch", "shared", "before", "arrive"};
    const enum table_id table = order->kind >= KIND_BEFORE ? TABLE_ARRIVE : TABLE_STREAMS;
    rn_engine_info info;
    char label[64];
    rn_engine_get_info(bed->engine, &info);
    label_text(order, label);
    bench_row_init(bed->place, table, row);
    row_text(row, COLUMN_TEST, names[order->kind]);
    row_text(row, COLUMN_LABEL, label);
    row_whole(row, COLUMN_N_BATCH, info.batch_tokens);
    row_whole(row, COLUMN_N_STREAMS, order->n_streams);
    row_whole(row, COLUMN_N_PROMPT, order->n_prompt);
    row_whole(row, COLUMN_N_GEN, order->n_gen);
    row_whole(row, COLUMN_N_SHARED, order->n_shared);
    row_whole(row, COLUMN_N_ARRIVE, order->n_arrive);
    row_whole(row, COLUMN_ITL_MS, order->itl_ms);
    row_bool(row, COLUMN_SAMPLED, bed->place->bench->config->sample);
    row_bool(row, COLUMN_DECODE_ONLY, order->kind == KIND_BEFORE);
    row_whole(row, COLUMN_PAGES_HELD, 0);
    row_whole(row, COLUMN_PAGES_SHARED, 0);
}

static int rate_compare(const void *a, const void *b) {
    const double x = row_number_at(a, COLUMN_GEN_TS), y = row_number_at(b, COLUMN_GEN_TS);
    return (x > y) - (x < y);
}

// Runs the requests as often as wanted; the row becomes the run with the median rate.
static int row_measure(const struct bed *bed, const struct order *order, struct row *row) {
    const int n = bed->place->bench->config->repetitions, middle = (n - 1) / 2;
    struct row *runs = calloc((size_t)n, sizeof *runs);
    int code = runs ? APP_OK : app_fail(APP_FAILED, "out of memory");
    bench_progress_begin(bed->place->bench);
    for (int i = 0; !code && i < n; i++) {
        row_init(bed, order, &runs[i]);
        rn_engine_forget_prefixes(bed->engine);
        code = batch_run(bed, order, &runs[i]);
        if (!code) figures_bandwidth(bandwidth_measure(bed), &runs[i]);
    }
    bench_progress_step(bed->place->bench);
    bench_progress_end(bed->place->bench);
    if (!code) {
        qsort(runs, (size_t)n, sizeof *runs, rate_compare);
        *row = runs[middle];
        runs[middle] = (struct row){0};
    }
    for (int i = 0; runs && i < n; i++) row_deinit(&runs[i]);
    free(runs);
    return code;
}

// All numbers of streams with one kind of prompts.
static int block_run(const struct bed *bed, struct order order) {
    struct bench *bench = bed->place->bench;
    const struct bench_list *streams = &bench->config->batch;
    double first_ms = 0, next_ms = 0, one_ts = (double)NAN;
    bench_progress_begin(bench);
    int code = serial_run(bed, order, bench_list_largest(streams), &first_ms, &next_ms);
    bench_progress_step(bench);
    bench_progress_end(bench);
    for (int i = 0; !code && i < streams->count; i++) {
        struct row row;
        order.n_streams = bench_list_at(streams, i);
        code = row_measure(bed, &order, &row);
        if (code) break;
        const double gen_ts = row_number_at(&row, COLUMN_GEN_TS);
        if (order.n_streams == 1) one_ts = gen_ts;
        row_real(&row, COLUMN_GAIN_STREAM, gen_ts / one_ts);
        figures_serial(first_ms, next_ms, &row);
        code = bench_row_add(bench, &row);
    }
    return code;
}

static int arrive_block(const struct bed *bed, struct order order) {
    struct bench *bench = bed->place->bench;
    struct row before, during;
    order.kind = KIND_BEFORE;
    row_init(bed, &order, &before);
    order.kind = KIND_ARRIVE;
    row_init(bed, &order, &during);
    bench_progress_begin(bench);
    int code = arrive_run(bed, &order, &before, &during);
    bench_progress_step(bench);
    bench_progress_end(bench);
    if (code) {
        row_deinit(&before);
        row_deinit(&during);
        return code;
    }
    const double bandwidth = bandwidth_measure(bed);
    figures_bandwidth(bandwidth, &before);
    figures_bandwidth(bandwidth, &during);
    code = bench_row_add(bench, &before);
    if (!code) return bench_row_add(bench, &during);
    row_deinit(&during);
    return code;
}

static int lengths_run(const struct bed *bed, int n_prompt, int n_gen) {
    const struct bench_config *config = bed->place->bench->config;
    struct order order = {.n_prompt = n_prompt,
                          .n_gen = n_gen,
                          .n_arrive = config->arrive,
                          .itl_ms = bed->itl_ms};
    int code = APP_OK;
    for (int i = 0; config->arrive && !code && i < config->batch.count; i++) {
        order.n_streams = bench_list_at(&config->batch, i);
        code = arrive_block(bed, order);
    }
    if (config->arrive) return code;
    code = block_run(bed, order);
    if (code) return code;
    order.kind = KIND_SHARED;
    order.n_shared = config->shared_prefix >= 0 ? config->shared_prefix : n_prompt / 4 * 3;
    if (order.n_shared > n_prompt) order.n_shared = n_prompt;
    return block_run(bed, order);
}

// ---------------------------------------------------------------- engines

// The longest request, of any kind.
static struct order order_largest(const struct bench_config *config) {
    const int n_prompt = bench_list_largest(&config->n_prompt);
    return (struct order){.kind = config->arrive ? KIND_ARRIVE : KIND_SHARED,
                          .n_streams = bench_list_largest(&config->batch),
                          .n_prompt = n_prompt,
                          .n_gen = bench_list_largest(&config->n_gen),
                          .n_shared = n_prompt,
                          .n_arrive = config->arrive,
                          .itl_ms = bench_list_largest(&config->itl_ms)};
}

// Positions that the longest request needs.
static int positions(const struct bench_config *config) {
    const struct order order = order_largest(config);
    if (!config->arrive) return order.n_prompt + order.n_gen;
    const int streams = order.n_prompt + arrive_tokens(&order);
    return config->arrive + 1 > streams ? config->arrive + 1 : streams;
}

static int engine_make(struct bed *bed, int n_threads) {
    const struct bench_config *config = bed->place->bench->config;
    const int n_streams = bench_list_largest(&config->batch);
    const rn_engine_options options = {.n_threads = n_threads,
                                       .n_ctx = positions(config),
                                       .max_seqs = n_streams + (config->arrive ? 1 : 0),
                                       .itl_ms = bed->itl_ms,
                                       .speculate = "off"}; // a step is a token of each stream
    return crowd_engine_create(bed->place, &options, &bed->engine);
}

static int engine_run(struct bed *bed, int n_threads) {
    const struct bench_config *config = bed->place->bench->config;
    int code = engine_make(bed, n_threads);
    if (code) return code;
    const int n_warm = WARM_STEPS < positions(config) ? WARM_STEPS : 1;
    const struct order warm = {.n_streams = 1, .n_prompt = 1, .n_gen = n_warm};
    struct row ignored = {0};
    code = batch_run(bed, &warm, &ignored);
    row_deinit(&ignored);
    for (int p = 0; !code && p < config->n_prompt.count; p++)
        for (int g = 0; !code && g < config->n_gen.count; g++)
            code = lengths_run(bed, bench_list_at(&config->n_prompt, p),
                               bench_list_at(&config->n_gen, g));
    rn_engine_destroy(bed->engine);
    return code;
}

static int streams_run(struct bench_place *place) {
    const struct bench_config *config = place->bench->config;
    const struct order longest = order_largest(config);
    char label[64];
    int code = APP_OK;
    place->bench->label_width = label_text(&longest, label);
    for (int t = 0; !code && t < config->threads.count; t++) {
        for (int i = 0; !code && i < config->itl_ms.count; i++) {
            struct bed bed = {.place = place, .itl_ms = bench_list_at(&config->itl_ms, i)};
            code = engine_run(&bed, bench_list_at(&config->threads, t));
        }
    }
    return code;
}

// Requests one after the other are a measurement too.
static uint64_t streams_count(const struct bench_config *config) {
    const int rows = config->batch.count;
    return (uint64_t)config->n_models * (uint64_t)config->threads.count *
           (uint64_t)config->itl_ms.count * (uint64_t)config->n_prompt.count *
           (uint64_t)config->n_gen.count * (uint64_t)(config->arrive ? rows : 2 * (rows + 1));
}

const struct measure measure_streams = {.count = streams_count, .run = streams_run};
