// Measures the engine with drafts against the same engine without. Both take turns, so that a spell
// of the machine meets both, and the ratio is the median of the pairs'. Without: the request says
// that nothing is drafted; engine, weights and prompts are the same. No run finds anything of
// another: each has a salt of its own, which prefixes and shared texts are kept apart by. The
// drafters that learn from others' texts are shown as many other requests first, outside of the
// time. Invariant: every run's text is compared with that of the first without drafts.
#include "bench/bench_spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/plot.h"
#include "run/draft.h"
#include "terminal/interrupt.h"

// An engine of a model for one variant, and what its rows have in common.
struct place {
    struct spec_bench *bench;
    const struct bench_model *source;
    const rn_model *model, *draft; // draft NULL: none
    struct spec_text *text;
    struct spec_variant variant;
    rn_engine *engine;
    rn_engine_info info;
    struct spec_oracle oracle;
    uint64_t n_runs;
};

// What is asked for in a run.
struct order {
    int temperature; // index
    int n_streams;
    bool drafts;
    bool others; // others' prompts: nothing is measured or compared
};

struct run {
    double rate;
    struct crowd_sums sums;
};

// ---------------------------------------------------------------- one run

static int requests_submit(const struct place *place, struct crowd *crowd,
                           const struct order *order, struct spec_forced *forced,
                           const char *salt) {
    const struct spec_text *text = place->text;
    const rn_model_info *info = rn_model_get_info(place->model);
    const double temperature = place->bench->config->spec.temperatures.value[order->temperature];
    int code = APP_OK;
    for (int i = 0; !code && i < order->n_streams; i++) {
        const int index = order->others ? text->n_streams + i : i;
        rn_request request = {.prompt = text->prompt[index],
                              .n_prompt = (size_t)text->n_prompt[index],
                              .sampling = crowd_sampling(info, temperature > 0, index),
                              .max_tokens = text->n_gen,
                              .draft_max = order->drafts ? 0 : -1,
                              .cache_salt = salt};
        request.sampling.temperature = (float)temperature;
        forced[i] = (struct spec_forced){.token = text->forced, .n = text->n_forced};
        if (text->forced) request.constraint = spec_forced_constraint(&forced[i]);
        code = crowd_submit(crowd, i, &request);
    }
    return code;
}

static void difference_print(const struct place *place, const struct order *order, int stream,
                             int at) {
    const struct spec_variant *variant = &place->variant;
    char length[16] = "auto";
    if (variant->length) snprintf(length, sizeof length, "%d", variant->length);
    progress_end(&place->bench->progress);
    app_fail(APP_FAILED,
             "the text is another one: drafter %s, length %s, temperature %g, %d stream%s, %s "
             "drafts: stream %d from its token %d on",
             spec_drafter_name(variant->drafter), length,
             place->bench->config->spec.temperatures.value[order->temperature], order->n_streams,
             order->n_streams == 1 ? "" : "s", order->drafts ? "with" : "without", stream, at);
}

// The first text at a temperature is what all others are compared with. False: one differs (which
// is said unless something was wrong already).
static bool texts_check(const struct place *place, const struct order *order,
                        const struct crowd *crowd, bool same) {
    struct spec_text *text = place->text;
    const bool is_first = !text->is_known[order->temperature];
    for (int i = 0; i < order->n_streams; i++) {
        const struct crowd_stream *stream = &crowd->stream[i];
        int32_t *known = spec_text_known(text, order->temperature, i);
        if (is_first) memcpy(known, stream->token, (size_t)text->n_gen * sizeof *known);
        int at = 0;
        while (at < stream->n_out && at < text->n_gen && stream->token[at] == known[at]) at++;
        if (at == text->n_gen && at == stream->n_out) continue;
        if (same) difference_print(place, order, i, at);
        return false;
    }
    text->is_known[order->temperature] = true;
    return true;
}

static int crowd_run(struct place *place, const struct order *order, const char *salt,
                     struct run *out, bool *same) {
    struct crowd crowd;
    const int n = order->n_streams;
    int code = crowd_init(&crowd, place->engine, n, 0, place->text->n_gen);
    if (code) return code;
    struct spec_forced *forced = calloc((size_t)n, sizeof *forced);
    struct crowd_window *window = calloc(1, sizeof *window);
    if (!forced || !window) code = app_fail(APP_FAILED, "out of memory");
    place->oracle.first = crowd.stream;
    place->oracle.temperature = order->temperature;
    place->oracle.round = place->n_runs;
    if (!code) {
        crowd_window_begin(&crowd, window);
        code = requests_submit(place, &crowd, order, forced, salt);
    }
    if (!code) code = crowd_finish(&crowd, window);
    if (!code) {
        const struct crowd_mark *from, *to;
        crowd_window_ends(window, &from, &to);
        *out = (struct run){.rate = crowd_rate(from, to), .sums = crowd.sums};
        if (!order->others && !texts_check(place, order, &crowd, *same)) *same = false;
    }
    free(window);
    free(forced);
    crowd_deinit(&crowd);
    return code;
}

// *same becomes false when a text is another one.
static int run_once(struct place *place, const struct order *order, struct run *out, bool *same) {
    const bool learns = place->variant.drafter == BENCH_DRAFTER_SHARED ||
                        place->variant.drafter == BENCH_DRAFTER_AUTO;
    char salt[32];
    int code = APP_OK;
    snprintf(salt, sizeof salt, "%llu", (unsigned long long)++place->n_runs);
    rn_engine_forget_prefixes(place->engine);
    if (order->drafts && learns) {
        struct order others = *order;
        others.others = true; // with drafts: who wants none is not learned from
        code = crowd_run(place, &others, salt, out, same);
    }
    return code ? code : crowd_run(place, order, salt, out, same);
}

// ---------------------------------------------------------------- rows

static bool row_init(struct spec_row *row, const struct place *place, int temperature,
                     int n_streams) {
    const struct bench_config *config = place->bench->config;
    const rn_model_info *info = rn_model_get_info(place->model);
    const bool has_draft = place->draft && (place->variant.drafter == BENCH_DRAFTER_MODEL ||
                                            place->variant.drafter == BENCH_DRAFTER_AUTO);
    const time_t now = time(NULL);
    struct tm parts;
    *row = (struct spec_row){
        .filename = strdup(place->source->name ? place->source->name : info->path),
        .type = bench_type_make(info),
        .draft = has_draft ? strdup(rn_model_get_info(place->draft)->path) : NULL,
        .backend = place->info.backend,
        .isa = place->info.isa,
        .n_threads = place->info.n_threads,
        .kv_type = config->kv_type,
        .variant = place->variant,
        .temperature = config->spec.temperatures.value[temperature],
        .n_streams = n_streams,
        .n_gen = place->text->n_gen,
        .forced = place->text->forced != NULL,
        .samples_ratio = calloc((size_t)config->repetitions, sizeof *row->samples_ratio),
        .same = true,
    };
    if (gmtime_r(&now, &parts)) strftime(row->time, sizeof row->time, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return row->filename && row->type && row->samples_ratio && (row->draft || !has_draft);
}

void spec_row_deinit(struct spec_row *row) {
    free(row->filename);
    free(row->type);
    free(row->draft);
    free(row->samples_ratio);
}

static void sums_add(struct crowd_sums *sums, const struct crowd_sums *more) {
    sums->tokens += more->tokens;
    sums->steps += more->steps;
    sums->bytes += more->bytes;
    sums->drafted += more->drafted;
    sums->accepted += more->accepted;
    sums->draft_steps += more->draft_steps;
    sums->decode_ms += more->decode_ms;
    sums->undrafted_ms += more->undrafted_ms;
}

// Both, one after the other; who begins changes from pair to pair.
static int pair_run(struct place *place, struct spec_row *row, const struct order *order,
                    struct run run[2]) {
    struct order now = *order;
    const bool drafts_first = row->n_samples % 2 == 1;
    for (int i = 0; i < 2; i++) {
        now.drafts = (i == 0) == drafts_first && row->variant.drafter != BENCH_DRAFTER_NONE;
        const int code = run_once(place, &now, &run[(i == 0) == drafts_first], &row->same);
        if (code) return code;
    }
    sums_add(&row->none, &run[0].sums);
    sums_add(&row->sums, &run[1].sums);
    row->samples_ratio[row->n_samples++] = run[1].rate / run[0].rate;
    return APP_OK;
}

// What was never known before, and what takes its time once, comes first.
static int row_warm(struct place *place, struct spec_row *row, const struct order *order) {
    struct run ignored;
    int code = APP_OK;
    if (!place->text->is_known[order->temperature]) {
        struct order all = *order;
        all.n_streams = place->text->n_streams;
        all.drafts = false;
        code = run_once(place, &all, &ignored, &row->same);
    }
    return code ? code : run_once(place, order, &ignored, &row->same);
}

static int row_measure(struct place *place, struct spec_row *row, int temperature) {
    struct spec_bench *bench = place->bench;
    const int n = bench->config->repetitions;
    const struct order order = {.temperature = temperature,
                                .n_streams = row->n_streams,
                                .drafts = row->variant.drafter != BENCH_DRAFTER_NONE};
    double *rates = calloc(3 * (size_t)n, sizeof *rates);
    int code = rates ? row_warm(place, row, &order) : app_fail(APP_FAILED, "out of memory");
    for (int i = 0; !code && i < n; i++) {
        struct run run[2] = {0};
        code = pair_run(place, row, &order, run);
        if (code) break;
        rates[i] = run[0].rate;
        rates[n + i] = run[1].rate;
        rates[2 * n + i] = row->samples_ratio[i];
        progress_update(&bench->progress, ++bench->done, bench->total);
    }
    if (!code) {
        row->none_ts = bench_median(rates, n);
        row->gen_ts = bench_median(rates + n, n);
        row->ratio = bench_median(rates + 2 * n, n);
    }
    free(rates);
    return code;
}

static int row_run(struct place *place, int temperature, int n_streams) {
    struct spec_bench *bench = place->bench;
    struct spec_row *grown =
        realloc(bench->rows, ((size_t)bench->n_rows + 1) * sizeof *bench->rows);
    if (!grown) return app_fail(APP_FAILED, "out of memory");
    bench->rows = grown;
    struct spec_row *row = &grown[bench->n_rows];
    int code = row_init(row, place, temperature, n_streams) ? APP_OK
                                                            : app_fail(APP_FAILED, "out of memory");
    if (!code) {
        progress_begin(&bench->progress, bench->term, bench->config->quiet, "measuring");
        progress_show(&bench->progress, bench->done, bench->total);
        code = row_measure(place, row, temperature);
        progress_end(&bench->progress);
    }
    if (code) {
        spec_row_deinit(row);
        return code;
    }
    bench->n_rows++;
    if (strcmp(bench->config->output, "md") != 0) return APP_OK;
    spec_table_row(bench, row);
    return app_flush_output();
}

// ---------------------------------------------------------------- engines

static int engine_make(struct place *place, int n_threads) {
    static const char *const names[BENCH_DRAFTER_COUNT] = {
        [BENCH_DRAFTER_NONE] = "off",      [BENCH_DRAFTER_MODEL] = "model",
        [BENCH_DRAFTER_LOOKUP] = "lookup", [BENCH_DRAFTER_SHARED] = "shared",
        [BENCH_DRAFTER_AUTO] = "auto",     [BENCH_DRAFTER_SYNTHETIC] = "custom"};
    const enum bench_drafter drafter = place->variant.drafter;
    const bool reads = drafter == BENCH_DRAFTER_MODEL || drafter == BENCH_DRAFTER_AUTO;
    const rn_engine_options options = {.n_threads = n_threads,
                                       .n_ctx = spec_text_positions(place->text),
                                       .max_seqs = place->text->n_streams,
                                       .speculate = names[drafter],
                                       .draft = reads ? place->draft : NULL,
                                       .draft_fn = drafter == BENCH_DRAFTER_SYNTHETIC
                                                       ? spec_oracle_draft
                                                       : NULL,
                                       .draft_ctx = &place->oracle,
                                       .draft_max = place->variant.length,
                                       .draft_min = place->variant.length};
    return crowd_engine_create(place->bench->config, place->bench->term, place->model, &options,
                               &place->engine, &place->info);
}

static int variant_run(struct place *place, int n_threads) {
    const struct bench_config *config = place->bench->config;
    place->oracle =
        (struct spec_oracle){.text = place->text, .acceptance = place->variant.acceptance};
    int code = engine_make(place, n_threads);
    if (code) return code;
    if (place->n_runs == 0) app_warn_slow(config->quiet, place->info.slow_formats, place->info.isa);
    interrupt_watch(); // from now on there may be rows to show
    for (int t = 0; !code && t < config->spec.temperatures.count; t++)
        for (int s = 0; !code && s < config->streams.count; s++)
            code = row_run(place, t, config->streams.value[s]);
    rn_engine_destroy(place->engine);
    return code;
}

// The variants in the order of the rows; out may be NULL. Returns how many.
static int variants_make(const struct bench_spec_config *spec, bool has_draft,
                         struct spec_variant *out) {
    int n = 0;
    const int n_drafters = spec->drafters.count ? spec->drafters.count : BENCH_DRAFTER_COUNT - 1;
    for (int d = 0; d < n_drafters; d++) {
        const enum bench_drafter drafter =
            (enum bench_drafter)(spec->drafters.count ? spec->drafters.value[d] : d + 1);
        if (drafter == BENCH_DRAFTER_MODEL && !has_draft) continue;
        const bool knows = drafter == BENCH_DRAFTER_SYNTHETIC;
        const int n_acceptances = knows ? spec->acceptances.count : 1;
        const int n_lengths = drafter == BENCH_DRAFTER_NONE ? 1 : spec->lengths.count;
        for (int a = 0; a < n_acceptances; a++) {
            for (int l = 0; l < n_lengths; l++, n++) {
                if (!out) continue;
                out[n] = (struct spec_variant){
                    .drafter = drafter,
                    .length = drafter == BENCH_DRAFTER_NONE ? 0 : spec->lengths.value[l],
                    .acceptance = knows ? spec->acceptances.value[a] : (double)NAN};
            }
        }
    }
    return n;
}

static int variants_run(struct place *place) {
    const struct bench_config *config = place->bench->config;
    const int n = variants_make(&config->spec, place->draft != NULL, NULL);
    struct spec_variant *variants = calloc((size_t)n, sizeof *variants);
    if (!variants) return app_fail(APP_FAILED, "out of memory");
    variants_make(&config->spec, place->draft != NULL, variants);
    int code = APP_OK;
    for (int t = 0; !code && t < config->threads.count; t++) {
        for (int i = 0; !code && i < n; i++) {
            place->variant = variants[i];
            code = variant_run(place, config->threads.value[t]);
        }
    }
    free(variants);
    return code;
}

// *out stays NULL where there is none.
static int draft_open_for(const struct bench_config *config, const struct bench_model *source,
                          rn_model **out) {
    if (!spec_has_draft(config, source)) return APP_OK;
    if (!config->spec.draft) return draft_open_embedded(out);
    char *path = strdup(config->spec.draft);
    const struct bench_model file = {.source = SOURCE_FILE, .name = path};
    const int code = path ? bench_model_open(&file, out) : app_fail(APP_FAILED, "out of memory");
    free(path);
    return code;
}

static int model_run(struct spec_bench *bench, const struct bench_model *source) {
    rn_model *model = NULL, *draft = NULL;
    struct spec_text text = {0};
    int code = bench_model_open(source, &model);
    if (!code) code = draft_open_for(bench->config, source, &draft);
    if (!code && draft && !bench->config->quiet) draft_warn_large(draft, model);
    if (!code) code = spec_text_init(&text, bench->config, source, model);
    if (!code) {
        struct place place = {
            .bench = bench, .source = source, .model = model, .draft = draft, .text = &text};
        code = variants_run(&place);
        spec_text_deinit(&text);
    }
    rn_model_close(draft);
    rn_model_close(model);
    return code;
}

// ---------------------------------------------------------------- the command

// What was complete when something went wrong is shown too; a text that changed is a failure.
static int rows_show(const struct spec_bench *bench, int code) {
    int shown = APP_OK;
    bool same = true;
    if (bench->n_rows == 0) return code;
    if (!strcmp(bench->config->output, "json")) shown = spec_json_print(bench);
    if (!strcmp(bench->config->output, "csv")) shown = spec_csv_print(bench);
    if (!shown && bench->config->plot) shown = spec_plot(bench, bench->config->plot);
    for (int i = 0; i < bench->n_rows; i++) same &= bench->rows[i].same;
    if (!same && !code) code = APP_FAILED;
    return code ? code : shown;
}

static uint64_t measurements(const struct bench_config *config) {
    uint64_t n = 0;
    for (int i = 0; i < config->n_models; i++)
        n +=
            (uint64_t)variants_make(&config->spec, spec_has_draft(config, &config->model[i]), NULL);
    return n * (uint64_t)config->threads.count * (uint64_t)config->spec.temperatures.count *
           (uint64_t)config->streams.count * (uint64_t)config->repetitions;
}

int bench_spec_run(const struct bench_config *config, const struct term *term) {
    struct spec_bench bench = {.config = config, .term = term, .total = measurements(config)};
    int code = config->plot ? plot_check(config->plot) : APP_OK;
    for (int i = 0; !code && i < config->n_models; i++) code = model_run(&bench, &config->model[i]);
    if (!code && interrupt_seen()) code = APP_INTERRUPTED;
    code = rows_show(&bench, code);
    for (int i = 0; i < bench.n_rows; i++) spec_row_deinit(&bench.rows[i]);
    free(bench.rows);
    return code;
}
