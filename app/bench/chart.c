// The rows of `runnel bench` as a plot: chooses the rows, their axis and their labels.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/figures.h"
#include "bench/plot.h"

enum axis { AXIS_NONE, AXIS_DEPTH, AXIS_STREAMS, AXIS_THREADS, AXIS_LENGTH };
enum kind { KIND_DECODE, KIND_VERIFY, KIND_PROMPT };

struct chart {
    const struct bench *bench;
    enum kind kind; // of the rows that are drawn
    enum axis axis;
};

// ---------------------------------------------------------------- rows

static enum kind kind_of(const struct row *row) {
    if (row->table != TABLE_STEPS) return KIND_DECODE;
    if (row_whole_at(row, COLUMN_N_VERIFY)) return KIND_VERIFY;
    return row_whole_at(row, COLUMN_N_PROMPT) ? KIND_PROMPT : KIND_DECODE;
}

// Drafts are drawn over their lengths, so a row has to have one.
static bool is_drawn(const struct chart *chart, const struct row *row) {
    if (row->table == TABLE_DRAFTS) return row_whole_at(row, COLUMN_DRAFT_LENGTH) > 0;
    return kind_of(row) == chart->kind;
}

static int axis_value(const struct row *row, enum axis axis) {
    static const enum column_id steps[] = {COLUMN_LABEL, COLUMN_N_DEPTH, COLUMN_N_SEQS,
                                           COLUMN_N_THREADS, COLUMN_DRAFT_LENGTH};
    static const enum column_id engine[] = {COLUMN_LABEL, COLUMN_N_PROMPT, COLUMN_N_STREAMS,
                                            COLUMN_N_THREADS, COLUMN_DRAFT_LENGTH};
    return row_whole_at(row, (row->table == TABLE_STEPS ? steps : engine)[axis]); // no axis: 0
}

static bool varies(const struct chart *chart, enum axis axis) {
    int first = -1;
    for (int i = 0; i < chart->bench->n_rows; i++) {
        const struct row *row = &chart->bench->rows[i];
        if (!is_drawn(chart, row)) continue;
        if (first < 0) first = axis_value(row, axis);
        if (axis_value(row, axis) != first) return true;
    }
    return false;
}

static struct chart chart_choose(const struct bench *bench) {
    struct chart chart = {.bench = bench, .kind = KIND_PROMPT};
    for (int i = 0; i < bench->n_rows; i++)
        if (kind_of(&bench->rows[i]) < chart.kind) chart.kind = kind_of(&bench->rows[i]);
    for (enum axis axis = AXIS_THREADS; axis > AXIS_NONE; axis--)
        if (varies(&chart, axis)) chart.axis = axis;
    if (bench->rows[0].table == TABLE_DRAFTS) chart.axis = AXIS_LENGTH;
    return chart;
}

static bool same_text(const struct row *a, const struct row *b, enum column_id id) {
    return !strcmp(row_text_at(a, id), row_text_at(b, id));
}

// ---------------------------------------------------------------- labels

// "llama 1.2B Q4_K", or the file where another one is called the same.
static const char *model_label(const struct chart *chart, const struct row *row) {
    const char *file = row_text_at(row, COLUMN_MODEL_FILENAME), *slash = strrchr(file, '/');
    for (int i = 0; i < chart->bench->n_rows; i++) {
        const struct row *other = &chart->bench->rows[i];
        if (same_text(row, other, COLUMN_MODEL_TYPE) &&
            !same_text(row, other, COLUMN_MODEL_FILENAME))
            return slash && slash[1] ? slash + 1 : file;
    }
    return row_text_at(row, COLUMN_MODEL_TYPE);
}

// Model and test, without the number that is on the axis.
static void label_make(const struct chart *chart, const struct row *row, char out[PLOT_LABEL]) {
    const int n_threads = row_whole_at(row, COLUMN_N_THREADS);
    const int n_streams = chart->axis == AXIS_STREAMS ? 1 : axis_value(row, AXIS_STREAMS);
    const int n_depth = chart->axis == AXIS_DEPTH ? 0 : axis_value(row, AXIS_DEPTH);
    const bool shared = !strcmp(row_text_at(row, COLUMN_TEST), "shared");
    const int itl_ms = row_whole_at(row, COLUMN_ITL_MS);
    char text[64], bound[32] = "", threads[32] = "";
    if (itl_ms) snprintf(bound, sizeof bound, ", %d ms", itl_ms);
    if (chart->axis != AXIS_THREADS && varies(chart, AXIS_THREADS))
        snprintf(threads, sizeof threads, ", %d thread%s", n_threads, n_threads == 1 ? "" : "s");
    if (row->table == TABLE_DRAFTS)
        snprintf(out, PLOT_LABEL, "%.60s, %s, temperature %.3g, %d stream%s%s",
                 model_label(chart, row), cell_text(row, COLUMN_DRAFTER, text),
                 row_number_at(row, COLUMN_TEMPERATURE), n_streams, n_streams == 1 ? "" : "s",
                 threads);
    else
        snprintf(out, PLOT_LABEL, "%.60s%s%s, %s%s", model_label(chart, row),
                 shared ? ", shared prefix" : "", bound, figure_test(row, n_streams, n_depth, text),
                 threads);
}

// "cpu avx512, 2 threads, kv f16": the place that all rows share.
static int place_text(const struct chart *chart, char *out, size_t size) {
    const struct row *row = &chart->bench->rows[0];
    return snprintf(out, size, "%s%s", figure_place(row, !varies(chart, AXIS_THREADS)).text,
                    chart->axis == AXIS_STREAMS ? "; tokens of all sequences together" : "");
}

// The bandwidths that the shares are of, from the lowest to the highest.
static void bandwidth_text(const struct chart *chart, char *out, size_t size) {
    double low = HUGE_VAL, high = 0;
    char from[32] = "";
    for (int i = 0; i < chart->bench->n_rows; i++) {
        if (!is_drawn(chart, &chart->bench->rows[i])) continue;
        const double bandwidth = row_number_at(&chart->bench->rows[i], COLUMN_BANDWIDTH_GBS);
        low = fmin(low, bandwidth);
        high = fmax(high, bandwidth);
    }
    out[0] = '\0';
    if (!(high > 0)) return; // the device does not measure it
    if (high - low >= 0.05) snprintf(from, sizeof from, "%.1f to ", low);
    snprintf(out, size, "; B, measured in the same run, %s%.1f GB/s", from, high);
}

// ---------------------------------------------------------------- items

// The ratio of the same test in which the engine chose the length; NaN: there is none.
static double chosen_ratio(const struct chart *chart, const struct row *row) {
    static const enum column_id numbers[] = {COLUMN_TEMPERATURE, COLUMN_N_STREAMS,
                                             COLUMN_N_THREADS};
    char drafter[64], other_drafter[64];
    cell_text(row, COLUMN_DRAFTER, drafter);
    for (int i = 0; i < chart->bench->n_rows; i++) {
        const struct row *other = &chart->bench->rows[i];
        bool same = !row_whole_at(other, COLUMN_DRAFT_LENGTH) &&
                    same_text(row, other, COLUMN_MODEL_FILENAME) &&
                    !strcmp(drafter, cell_text(other, COLUMN_DRAFTER, other_drafter));
        for (size_t j = 0; same && j < sizeof numbers / sizeof *numbers; j++)
            same = row_number_at(row, numbers[j]) == row_number_at(other, numbers[j]);
        if (same) return row_number_at(other, COLUMN_RATIO);
    }
    return (double)NAN;
}

static void item_make(const struct chart *chart, const struct row *row, struct plot_item *out) {
    const bool drafts = row->table == TABLE_DRAFTS;
    const enum column_id rate = drafts                      ? COLUMN_RATIO
                                : row->table == TABLE_STEPS ? COLUMN_AVG_TS
                                                            : COLUMN_GEN_TS;
    const double share =
        row_number_at(row, chart->kind == KIND_PROMPT ? COLUMN_PEAK_SHARE : COLUMN_BANDWIDTH_SHARE);
    *out = (struct plot_item){.x = axis_value(row, chart->axis),
                              .y = row_number_at(row, rate),
                              .share = isfinite(share) ? share : 0,
                              .peer = drafts ? chosen_ratio(chart, row)
                                             : row_number_at(row, COLUMN_PEER_TS)};
    out->peer_share = out->share / row_number_at(row, COLUMN_PEER_RATIO);
    if (!isfinite(out->y)) out->y = 0;
    label_make(chart, row, out->label);
}

static int item_compare(const void *a, const void *b) {
    const struct plot_item *x = a, *y = b;
    return x->line != y->line ? x->line - y->line : (x->x > y->x) - (x->x < y->x);
}

// Rows of one label and file are a line; lines are in the order of their first rows.
static int items_make(const struct chart *chart, struct plot *out) {
    const struct bench *bench = chart->bench;
    const struct row **from = calloc((size_t)bench->n_rows, sizeof *from);
    out->item = calloc((size_t)bench->n_rows, sizeof *out->item);
    int n_lines = 0;
    for (int i = 0; from && out->item && i < bench->n_rows; i++) {
        const struct row *row = &bench->rows[i];
        struct plot_item *item = &out->item[out->n];
        int j = 0;
        if (!is_drawn(chart, row)) continue;
        item_make(chart, row, item);
        while (j < out->n && (strcmp(out->item[j].label, item->label) != 0 ||
                              !same_text(from[j], row, COLUMN_MODEL_FILENAME)))
            j++;
        item->line = j < out->n ? out->item[j].line : n_lines++;
        from[out->n++] = row;
        if (isfinite(item->peer) && !out->peer_name)
            out->peer_name =
                row->table == TABLE_DRAFTS ? "auto" : row_text_at(row, COLUMN_PEER_NAME);
    }
    const bool ok = from && out->item;
    free(from);
    if (!ok) return app_fail(APP_FAILED, "out of memory");
    if (chart->axis != AXIS_NONE) qsort(out->item, (size_t)out->n, sizeof *out->item, item_compare);
    return APP_OK;
}

int chart_write(const struct bench *bench, const char *path) {
    static const char *const x_names[] = {[AXIS_DEPTH] = "tokens in the context",
                                          [AXIS_STREAMS] = "sequences decoded together",
                                          [AXIS_THREADS] = "threads",
                                          [AXIS_LENGTH] = "tokens of a draft"};
    const struct chart chart = chart_choose(bench);
    const bool prompts = chart.kind == KIND_PROMPT, ratios = chart.axis == AXIS_LENGTH;
    struct plot plot = {.bars = chart.axis == AXIS_NONE,
                        .log_x = chart.axis == AXIS_STREAMS || chart.axis == AXIS_THREADS,
                        .y_name = ratios ? "times the speed without drafts" : "tokens/s"};
    if (plot.bars) {
        plot.title = prompts ? "Prompts: how near to the arithmetic peak"
                             : "Decoding: how near to the speed of memory";
        plot.x_name = prompts ? "share of the arithmetic peak in registers, %"
                              : "share of the read bandwidth B, %";
    } else {
        plot.title = ratios    ? "Decoding with drafts"
                     : prompts ? "Prompts: tokens per second"
                               : "Decoding: tokens per second";
        plot.x_name = x_names[chart.axis];
    }
    const int at = place_text(&chart, plot.subtitle, sizeof plot.subtitle);
    if (plot.bars && !prompts)
        bandwidth_text(&chart, plot.subtitle + at, sizeof plot.subtitle - (size_t)at);
    int code = items_make(&chart, &plot);
    if (!code && plot.n > 0) code = plot_write(&plot, path); // else Ctrl-C came before a length
    free(plot.item);
    return code;
}
