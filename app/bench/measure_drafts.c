// Measures the engine with drafts against the same engine without (--speculate). Both take turns,
// so that a slow phase of the machine affects both. The ratio is the median of the pairs' ratios.
// Runs without drafts use the same engine, weights and prompts; their requests turn drafts off.
// Each run has a salt of its own, so no run finds prefixes or shared texts of another. Drafters
// that learn from other texts see as many other requests first, outside the measured time.
// Invariant: every run's text is compared with that of the first run without drafts.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/drafts.h"
#include "bench/figures.h"
#include "run/draft.h"

// A row's drafter and how long its drafts are.
struct variant {
    enum bench_drafter drafter;
    int length;        // of every draft; 0: the engine chooses
    double acceptance; // of DRAFTER_SYNTHETIC; otherwise NaN
};

// An engine of a model for one variant, and the requests that its rows share.
struct bed {
    struct bench_place *place;
    const rn_model *draft; // NULL: none
    struct drafts_text *text;
    struct variant variant;
    rn_engine *engine;
    struct drafts_oracle oracle;
    uint64_t n_runs;
    bool same; // every text of the row at hand was the known one
};

// The requests of a run.
struct order {
    int temperature; // index
    int n_streams;
    bool drafts;
    bool others; // others' prompts: nothing is measured or compared
};

// ---------------------------------------------------------------- one run

static int requests_submit(const struct bed *bed, struct crowd *crowd, const struct order *order,
                           struct drafts_forced *forced, const char *salt) {
    const struct drafts_text *text = bed->text;
    const double temperature = bed->place->bench->config->temperatures.value[order->temperature];
    int code = APP_OK;
    for (int i = 0; !code && i < order->n_streams; i++) {
        const int index = order->others ? text->n_streams + i : i;
        rn_request request = {.prompt = text->prompt[index],
                              .n_prompt = (size_t)text->n_prompt[index],
                              .sampling = crowd_sampling(bed->place->info, temperature > 0, index),
                              .max_tokens = text->n_gen,
                              .draft_max = order->drafts ? 0 : -1,
                              .cache_salt = salt};
        request.sampling.temperature = (float)temperature;
        forced[i] = (struct drafts_forced){.token = text->forced, .n = text->n_forced};
        if (text->forced) request.constraint = drafts_forced_constraint(&forced[i]);
        code = crowd_submit(crowd, i, &request);
    }
    return code;
}

static void difference_print(const struct bed *bed, const struct order *order, int stream, int at) {
    const struct bench_config *config = bed->place->bench->config;
    char length[16] = "auto";
    if (bed->variant.length) snprintf(length, sizeof length, "%d", bed->variant.length);
    bench_progress_end(bed->place->bench);
    app_fail(APP_FAILED,
             "the text is another one: drafter %s, length %s, temperature %g, %d stream%s, %s "
             "drafts: stream %d from its token %d on",
             bench_drafter_name(bed->variant.drafter), length,
             config->temperatures.value[order->temperature], order->n_streams,
             order->n_streams == 1 ? "" : "s", order->drafts ? "with" : "without", stream, at);
}

// Every later text is compared with the first text at its temperature. The first difference of a
// row is printed.
static void texts_check(struct bed *bed, const struct order *order, const struct crowd *crowd) {
    struct drafts_text *text = bed->text;
    const bool is_first = !text->is_known[order->temperature];
    for (int i = 0; i < order->n_streams; i++) {
        const struct crowd_stream *stream = &crowd->stream[i];
        int32_t *known = drafts_text_known(text, order->temperature, i);
        if (is_first) memcpy(known, stream->token, (size_t)text->n_gen * sizeof *known);
        int at = 0;
        while (at < stream->n_out && at < text->n_gen && stream->token[at] == known[at]) at++;
        if (at == text->n_gen && at == stream->n_out) continue;
        if (bed->same) difference_print(bed, order, i, at);
        bed->same = false;
        return;
    }
    text->is_known[order->temperature] = true;
}

// *rate: tokens/s.
static int crowd_run(struct bed *bed, const struct order *order, const char *salt, double *rate,
                     struct crowd_sums *sums) {
    struct crowd crowd;
    struct crowd_window window;
    const struct crowd_mark *from, *to;
    const int n = order->n_streams;
    int code = crowd_init(&crowd, bed->engine, n, 0, bed->text->n_gen);
    if (code) return code;
    struct drafts_forced *forced = calloc((size_t)n, sizeof *forced);
    if (!forced) code = app_fail(APP_FAILED, "out of memory");
    bed->oracle.first = crowd.stream;
    bed->oracle.temperature = order->temperature;
    bed->oracle.round = bed->n_runs;
    crowd.sums = sums;
    crowd_window_begin(&crowd, &window);
    if (!code) code = requests_submit(bed, &crowd, order, forced, salt);
    if (!code) code = crowd_finish(&crowd, &window);
    crowd_window_ends(&window, &from, &to);
    *rate = crowd_rate(from, to);
    if (!code && !order->others) texts_check(bed, order, &crowd);
    free(forced);
    crowd_deinit(&crowd);
    return code;
}

static int run_once(struct bed *bed, const struct order *order, double *rate,
                    struct crowd_sums *sums) {
    const bool learns =
        bed->variant.drafter == DRAFTER_SHARED || bed->variant.drafter == DRAFTER_AUTO;
    char salt[32];
    int code = APP_OK;
    snprintf(salt, sizeof salt, "%llu", (unsigned long long)++bed->n_runs);
    rn_engine_forget_prefixes(bed->engine);
    if (order->drafts && learns) {
        struct order others = *order;
        others.others = true; // with drafts: the engine learns nothing from requests without drafts
        code = crowd_run(bed, &others, salt, rate, NULL);
    }
    return code ? code : crowd_run(bed, order, salt, rate, sums);
}

// ---------------------------------------------------------------- rows

static void row_init(const struct bed *bed, const struct order *order, struct row *row) {
    const struct bench_config *config = bed->place->bench->config;
    const struct variant *variant = &bed->variant;
    const bool is_auto = variant->drafter == DRAFTER_AUTO;
    const char *block = bed->place->info->block_path;
    bench_row_init(bed->place, TABLE_DRAFTS, row);
    row_text(row, COLUMN_TEST, "speculate");
    if (bed->draft && (variant->drafter == DRAFTER_MODEL || is_auto))
        row_text(row, COLUMN_DRAFT_FILENAME, rn_model_get_info(bed->draft)->path);
    if (block && (variant->drafter == DRAFTER_MTP || is_auto))
        row_text(row, COLUMN_DRAFT_FILENAME, block);
    row_text(row, COLUMN_DRAFTER, bench_drafter_name(variant->drafter));
    if (variant->length) row_whole(row, COLUMN_DRAFT_LENGTH, variant->length);
    row_real(row, COLUMN_ACCEPTANCE, variant->acceptance);
    row_real(row, COLUMN_TEMPERATURE, config->temperatures.value[order->temperature]);
    row_whole(row, COLUMN_N_STREAMS, order->n_streams);
    row_whole(row, COLUMN_N_GEN, bed->text->n_gen);
    row_bool(row, COLUMN_FORCED, bed->text->forced != NULL);
}

// A pair: with and without drafts, one after the other. The order alternates from pair to pair.
static int pair_run(struct bed *bed, const struct order *order, struct pairs *pairs) {
    const bool drafts_first = pairs->n % 2 == 1;
    for (int i = 0; i < 2; i++) {
        const bool with = (i == 0) == drafts_first;
        struct order now = *order;
        now.drafts = with && order->drafts;
        const int code = run_once(bed, &now, &(with ? pairs->gen_ts : pairs->none_ts)[pairs->n],
                                  with ? &pairs->sums : &pairs->none);
        if (code) return code;
    }
    pairs->n++;
    return APP_OK;
}

// The first run makes the known texts; the second absorbs the one-time costs.
static int row_warm(struct bed *bed, const struct order *order) {
    double ignored;
    int code = APP_OK;
    if (!bed->text->is_known[order->temperature]) {
        struct order all = *order;
        all.n_streams = bed->text->n_streams;
        all.drafts = false;
        code = run_once(bed, &all, &ignored, NULL);
    }
    return code ? code : run_once(bed, order, &ignored, NULL);
}

static int row_measure(struct bed *bed, const struct order *order, struct row *row) {
    const int n = bed->place->bench->config->repetitions;
    struct pairs *pairs = calloc(1, sizeof *pairs);
    bed->same = true;
    int code = pairs ? row_warm(bed, order) : app_fail(APP_FAILED, "out of memory");
    for (int i = 0; !code && i < n; i++) {
        code = pair_run(bed, order, pairs);
        if (!code) bench_progress_step(bed->place->bench);
    }
    if (!code) {
        figures_drafts(pairs, row);
        row_bool(row, COLUMN_SAME_TEXT, bed->same);
    }
    free(pairs);
    return code;
}

static int row_run(struct bed *bed, int temperature, int n_streams) {
    struct bench *bench = bed->place->bench;
    const struct order order = {.temperature = temperature,
                                .n_streams = n_streams,
                                .drafts = bed->variant.drafter != DRAFTER_NONE};
    struct row row;
    row_init(bed, &order, &row);
    bench_progress_begin(bench);
    const int code = row_measure(bed, &order, &row);
    bench_progress_end(bench);
    if (!code) return bench_row_add(bench, &row);
    row_deinit(&row);
    return code;
}

// ---------------------------------------------------------------- engines

static int engine_make(struct bed *bed, int n_threads) {
    static const char *const names[DRAFTER_COUNT] = {
        [DRAFTER_NONE] = "off",        [DRAFTER_MODEL] = "model", [DRAFTER_LOOKUP] = "lookup",
        [DRAFTER_SHARED] = "shared",   [DRAFTER_MTP] = "mtp",     [DRAFTER_AUTO] = "auto",
        [DRAFTER_SYNTHETIC] = "custom"};
    const enum bench_drafter drafter = bed->variant.drafter;
    const bool reads = drafter == DRAFTER_MODEL || drafter == DRAFTER_AUTO;
    const bool knows = drafter == DRAFTER_SYNTHETIC;
    const rn_engine_options options = {.n_threads = n_threads,
                                       .n_ctx = drafts_text_positions(bed->text),
                                       .max_seqs = bed->text->n_streams,
                                       .speculate = names[drafter],
                                       .draft = reads ? bed->draft : NULL,
                                       .draft_fn = knows ? drafts_oracle_draft : NULL,
                                       .draft_ctx = &bed->oracle,
                                       .draft_max = bed->variant.length,
                                       .draft_min = bed->variant.length};
    return crowd_engine_create(bed->place, &options, &bed->engine);
}

static int variant_run(struct bed *bed, int n_threads) {
    const struct bench_config *config = bed->place->bench->config;
    bed->oracle = (struct drafts_oracle){.text = bed->text, .acceptance = bed->variant.acceptance};
    int code = engine_make(bed, n_threads);
    if (code) return code;
    for (int t = 0; !code && t < config->temperatures.count; t++)
        for (int s = 0; !code && s < config->streams.count; s++)
            code = row_run(bed, t, bench_list_at(&config->streams, s));
    rn_engine_destroy(bed->engine);
    return code;
}

// Whether the model has a block that drafts, and the device runs it.
static bool has_block(const struct bench_place *place) {
    const struct plan *plan = tools_plan(place->model);
    return plan_has_block(plan) && place->bench->config->device.runs_blocks;
}

// The variants in the order of the rows; out may be NULL. Returns how many. Drafters that were
// named are there, or the engine refuses them.
static int variants_make(const struct bench_config *config, bool has_draft, bool has_mtp,
                         struct variant *out) {
    int n = 0;
    const struct bench_list *drafters = &config->drafters;
    const int n_drafters = drafters->count ? drafters->count : DRAFTER_COUNT - 1;
    for (int d = 0; d < n_drafters; d++) {
        const enum bench_drafter drafter =
            (enum bench_drafter)(drafters->count ? bench_list_at(drafters, d) : d + 1);
        if (drafter == DRAFTER_MODEL && !has_draft) continue;
        if (drafter == DRAFTER_MTP && !has_mtp && !drafters->count) continue;
        const bool knows = drafter == DRAFTER_SYNTHETIC, none = drafter == DRAFTER_NONE;
        const int n_acceptances = knows ? config->acceptances.count : 1;
        const int n_lengths = none ? 1 : config->lengths.count;
        for (int i = 0; i < n_acceptances * n_lengths; i++, n++) {
            if (!out) continue;
            out[n] = (struct variant){.drafter = drafter,
                                      .length =
                                          none ? 0 : bench_list_at(&config->lengths, i % n_lengths),
                                      .acceptance = knows ? config->acceptances.value[i / n_lengths]
                                                          : (double)NAN};
        }
    }
    return n;
}

// Measurements of that many variants.
static uint64_t rows_count(const struct bench_config *config, int n_variants) {
    return (uint64_t)n_variants * (uint64_t)config->threads.count *
           (uint64_t)config->temperatures.count * (uint64_t)config->streams.count *
           (uint64_t)config->repetitions;
}

static int variants_run(struct bed *bed) {
    const struct bench_config *config = bed->place->bench->config;
    const bool has_draft = bed->draft != NULL, has_mtp = has_block(bed->place);
    const int n = variants_make(config, has_draft, has_mtp, NULL);
    struct variant *variants = calloc((size_t)n, sizeof *variants);
    if (!variants) return app_fail(APP_FAILED, "out of memory");
    variants_make(config, has_draft, has_mtp, variants);
    bed->place->bench->total +=
        rows_count(config, n - variants_make(config, has_draft, false, NULL));
    int code = APP_OK;
    for (int t = 0; !code && t < config->threads.count; t++) {
        for (int i = 0; !code && i < n; i++) {
            bed->variant = variants[i];
            code = variant_run(bed, bench_list_at(&config->threads, t));
        }
    }
    free(variants);
    return code;
}

// *out stays NULL where there is none.
static int draft_open_for(const struct bench_config *config, const struct bench_model *source,
                          rn_model **out) {
    if (!bench_has_draft(config, source)) return APP_OK;
    return config->draft ? bench_model_open(SOURCE_FILE, config->draft, out)
                         : draft_open_embedded(out);
}

static int drafts_run(struct bench_place *place) {
    const struct bench_config *config = place->bench->config;
    rn_model *draft = NULL;
    struct drafts_text text = {0};
    int code = draft_open_for(config, place->source, &draft);
    if (!code && draft && !config->quiet) draft_warn_large(draft, place->model);
    if (!code) code = drafts_text_init(&text, place);
    if (!code) {
        struct bed bed = {.place = place, .draft = draft, .text = &text};
        code = variants_run(&bed);
        drafts_text_deinit(&text);
    }
    rn_model_close(draft);
    return code;
}

// Models are not open yet: rows of blocks that draft are added later.
static uint64_t drafts_count(const struct bench_config *config) {
    int n = 0;
    for (int i = 0; i < config->n_models; i++)
        n += variants_make(config, bench_has_draft(config, &config->model[i]), false, NULL);
    return rows_count(config, n);
}

const struct measure measure_drafts = {.count = drafts_count, .run = drafts_run};
