// Rows of `runnel bench --speculate` as a table, JSON, CSV, and a plot. A table begins anew with
// each model and thread count; on a terminal, columns that do not fit are left out.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_spec.h"
#include "bench/plot.h"

static double share_of(uint64_t a, uint64_t b) {
    return b > 0 ? (double)a / (double)b : (double)NAN;
}

double spec_accepted_share(const struct spec_row *row) {
    return share_of(row->sums.accepted, row->sums.drafted);
}
double spec_tokens_per_step(const struct spec_row *row) {
    return share_of(row->sums.tokens, row->sums.steps);
}
double spec_mean_length(const struct spec_row *row) {
    return share_of(row->sums.drafted, row->sums.steps);
}

// The ratio that the engine itself reports to its clients; NaN: it reports none.
static double said_ratio(const struct spec_row *row) {
    const bool says = row->sums.drafted > 0 && row->sums.decode_ms > 0;
    return says ? row->sums.undrafted_ms / row->sums.decode_ms : (double)NAN;
}

// ---------------------------------------------------------------- the table

enum column {
    COLUMN_DRAFTER,
    COLUMN_LENGTH,
    COLUMN_TEMPERATURE,
    COLUMN_STREAMS,
    COLUMN_NONE,
    COLUMN_GEN,
    COLUMN_RATIO,
    COLUMN_SAID,
    COLUMN_DRAFTED,
    COLUMN_ACCEPTED,
    COLUMN_STEP,
    COLUMN_MEAN,
    COLUMN_BYTES,
    COLUMN_TEXT,
    COLUMN_COUNT
};

_Static_assert((int)COLUMN_COUNT <= (int)TABLE_MAX_COLUMNS, "a table holds them all");

static const struct {
    const char *name;
    int width;
} columns[COLUMN_COUNT] = {
    [COLUMN_DRAFTER] = {"drafter", 14},   [COLUMN_LENGTH] = {"length", 6},
    [COLUMN_TEMPERATURE] = {"temp", 4},   [COLUMN_STREAMS] = {"streams", 7},
    [COLUMN_NONE] = {"none t/s", 8},      [COLUMN_GEN] = {"t/s", 8},
    [COLUMN_RATIO] = {"ratio", 5},        [COLUMN_SAID] = {"says", 5},
    [COLUMN_DRAFTED] = {"drafted", 7},    [COLUMN_ACCEPTED] = {"accepted", 8},
    [COLUMN_STEP] = {"tokens/step", 11},  [COLUMN_MEAN] = {"drafted/step", 12},
    [COLUMN_BYTES] = {"bytes/token", 11}, [COLUMN_TEXT] = {"text", 7},
};

// "lookup"; "synthetic 0.8".
static void drafter_text(const struct spec_row *row, char out[TABLE_CELL]) {
    const char *name = spec_drafter_name(row->variant.drafter);
    if (isfinite(row->variant.acceptance))
        snprintf(out, TABLE_CELL, "%s %.3g", name, row->variant.acceptance);
    else
        snprintf(out, TABLE_CELL, "%s", name);
}

static void head_text(const struct spec_row *row, int column, char out[TABLE_CELL]) {
    if (column == COLUMN_DRAFTER) {
        drafter_text(row, out);
    } else if (column == COLUMN_TEMPERATURE) {
        snprintf(out, TABLE_CELL, "%.3g", row->temperature);
    } else if (column == COLUMN_STREAMS) {
        table_number(row->n_streams, 0, "", out);
    } else if (row->variant.length) {
        table_number(row->variant.length, 0, "", out);
    } else {
        snprintf(out, TABLE_CELL, row->variant.drafter == BENCH_DRAFTER_NONE ? "" : "auto");
    }
}

static void cell_text(const void *of, int column, char out[TABLE_CELL]) {
    const struct spec_row *row = of;
    switch (column) {
    case COLUMN_NONE:
        return table_number(row->none_ts, 1, "", out);
    case COLUMN_GEN:
        return table_number(row->gen_ts, 1, "", out);
    case COLUMN_RATIO:
        return table_number(row->ratio, 2, "", out);
    case COLUMN_SAID:
        return table_number(said_ratio(row), 2, "", out);
    case COLUMN_DRAFTED:
        return table_number((double)row->sums.drafted, 0, "", out);
    case COLUMN_ACCEPTED:
        return table_number(100 * spec_accepted_share(row), 1, "%", out);
    case COLUMN_STEP:
        return table_number(spec_tokens_per_step(row), 2, "", out);
    case COLUMN_MEAN:
        return table_number(spec_mean_length(row), 2, "", out);
    case COLUMN_BYTES:
        human_bytes(share_of(row->sums.bytes, row->sums.tokens), out);
        return;
    case COLUMN_TEXT:
        snprintf(out, TABLE_CELL, row->same ? "same" : "DIFFERS");
        return;
    default:
        head_text(row, column, out);
    }
}

static void table_head(struct spec_bench *bench, const struct spec_row *row) {
    static const int order[COLUMN_COUNT] = {COLUMN_DRAFTER, COLUMN_LENGTH, COLUMN_TEMPERATURE,
                                            COLUMN_STREAMS, COLUMN_RATIO,  COLUMN_TEXT,
                                            COLUMN_GEN,     COLUMN_NONE,   COLUMN_ACCEPTED,
                                            COLUMN_STEP,    COLUMN_MEAN,   COLUMN_SAID,
                                            COLUMN_DRAFTED, COLUMN_BYTES};
    const bool color = bench->term->out_color;
    bench->table.n = COLUMN_COUNT;
    for (int i = 0; i < COLUMN_COUNT; i++) {
        bench->table.name[i] = columns[i].name;
        bench->table.width[i] = columns[i].width;
    }
    table_fit(&bench->table, bench->term, order, COLUMN_COUNT, 6);
    printf("%s%s%s, %s %s, %d thread%s, kv %s, tg%d%s\n\n", term_bold(color), row->type,
           term_reset(color), row->backend, row->isa, row->n_threads,
           row->n_threads == 1 ? "" : "s", row->kv_type, row->n_gen,
           row->forced ? ", forced text" : "");
    table_head_print(&bench->table);
}

void spec_table_row(struct spec_bench *bench, const struct spec_row *row) {
    const struct spec_row *last = row > bench->rows ? row - 1 : NULL;
    const bool color = bench->term->out_color && !row->same;
    if (!last || last->n_threads != row->n_threads || strcmp(last->filename, row->filename) != 0) {
        if (last) putchar('\n');
        table_head(bench, row);
    }
    fputs(term_red(color), stdout);
    table_row_print(&bench->table, cell_text, row);
    fputs(term_reset(color), stdout);
}

// ---------------------------------------------------------------- for programs

static json_t *row_head(const struct spec_row *row) {
    const struct spec_variant *variant = &row->variant;
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:s, s:s, s:i, s:s, s:s, s:i, s:i, s:s, s:o, s:o, s:f, s:b}",
        "build_commit", RN_VERSION, "test", "speculate", "model_filename",
        json_text(row->filename, strlen(row->filename)), "model_type",
        json_text(row->type, strlen(row->type)), "draft_filename",
        row->draft ? json_text(row->draft, strlen(row->draft)) : json_null(), "backends",
        row->backend, "isa", row->isa, "n_threads", row->n_threads, "type_kv", row->kv_type,
        "test_time", row->time, "n_streams", row->n_streams, "n_gen", row->n_gen, "drafter",
        spec_drafter_name(variant->drafter), "draft_length",
        variant->length ? json_integer(variant->length) : json_null(), "acceptance",
        json_number(variant->acceptance), "temperature", row->temperature, "forced", row->forced);
}

static json_t *ratios(const struct spec_row *row) {
    json_t *array = json_array();
    for (int i = 0; array && i < row->n_samples; i++)
        json_array_append_new(array, json_number(row->samples_ratio[i]));
    return array;
}

static json_t *row_figures(const struct spec_row *row) {
    const struct crowd_sums *sums = &row->sums;
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:b}",
        "none_ts", json_number(row->none_ts), "gen_ts", json_number(row->gen_ts), "ratio",
        json_number(row->ratio), "samples_ratio", ratios(row), "said_ratio",
        json_number(said_ratio(row)), "decode_tokens", (json_int_t)sums->tokens, "decode_steps",
        (json_int_t)sums->steps, "draft_steps", (json_int_t)sums->draft_steps, "draft_tokens",
        (json_int_t)sums->drafted, "accepted_tokens", (json_int_t)sums->accepted, "accepted_share",
        json_number(spec_accepted_share(row)), "tokens_per_step",
        json_number(spec_tokens_per_step(row)), "drafted_per_step",
        json_number(spec_mean_length(row)), "bytes_per_token",
        json_number(share_of(sums->bytes, sums->tokens)), "none_bytes_per_token",
        json_number(share_of(row->none.bytes, row->none.tokens)), "same_text", row->same);
}

// NULL: out of memory.
static json_t *rows_make(const struct spec_bench *bench) {
    json_t *rows = json_array();
    for (int i = 0; rows && i < bench->n_rows; i++) {
        json_t *object = row_head(&bench->rows[i]);
        const bool ok = json_merge(object, row_figures(&bench->rows[i]));
        rows = json_append(rows, object, ok);
    }
    return rows;
}

int spec_json_print(const struct spec_bench *bench) {
    return json_print(rows_make(bench), JSON_INDENT(2) | JSON_REAL_PRECISION(10));
}

int spec_csv_print(const struct spec_bench *bench) {
    return json_csv_print(rows_make(bench), JSON_REAL_PRECISION(10));
}

// ---------------------------------------------------------------- the plot

static bool same_but_length(const struct spec_row *a, const struct spec_row *b) {
    const double x = a->variant.acceptance, y = b->variant.acceptance;
    return a->variant.drafter == b->variant.drafter && (x == y || isnan(x)) &&
           a->temperature == b->temperature && a->n_streams == b->n_streams &&
           a->n_threads == b->n_threads && !strcmp(a->filename, b->filename);
}

// The row of the same test in which the engine chose; NULL: there is none.
static const struct spec_row *chosen_find(const struct spec_bench *bench,
                                          const struct spec_row *row) {
    for (int i = 0; i < bench->n_rows; i++)
        if (!bench->rows[i].variant.length && same_but_length(&bench->rows[i], row))
            return &bench->rows[i];
    return NULL;
}

// A row of a fixed length as a row of decoding whose rate is the ratio; the engine's choice is its
// peer.
static bool plot_row(const struct spec_bench *bench, const struct spec_row *from,
                     struct bench_row *to) {
    const struct spec_row *chosen = chosen_find(bench, from);
    char drafter[TABLE_CELL], type[160];
    drafter_text(from, drafter);
    snprintf(type, sizeof type, "%.60s, %s, temperature %.3g, %d stream%s", from->type, drafter,
             from->temperature, from->n_streams, from->n_streams == 1 ? "" : "s");
    *to = (struct bench_row){.filename = strdup(from->filename),
                             .type = strdup(type),
                             .backend = from->backend,
                             .isa = from->isa,
                             .n_threads = from->n_threads,
                             .kv_type = from->kv_type,
                             .test = {.kind = BENCH_DECODE, .n_verify = from->variant.length},
                             .cost = {.tokens = (uint64_t)(from->ratio * 1e6)},
                             .samples = calloc(1, sizeof *to->samples),
                             .n_samples = 1,
                             .peer_name = chosen ? strdup("auto") : NULL};
    if (!to->filename || !to->type || !to->samples || (chosen && !to->peer_name)) return false;
    to->samples[0] = (struct bench_sample){.ns = 1000000ull * 1000000000ull,
                                           .peer_ts = chosen ? chosen->ratio : 0};
    return true;
}

int spec_plot(const struct spec_bench *bench, const char *path) {
    struct bench plot = {.config = bench->config, .term = bench->term, .ratios = true};
    plot.rows = calloc((size_t)bench->n_rows, sizeof *plot.rows);
    bool ok = plot.rows != NULL;
    for (int i = 0; ok && i < bench->n_rows; i++)
        if (bench->rows[i].variant.length)
            ok = plot_row(bench, &bench->rows[i], &plot.rows[plot.n_rows++]);
    int code = APP_OK;
    if (!ok) code = app_fail(APP_FAILED, "out of memory");
    if (ok && plot.n_rows > 0) code = plot_write(&plot, path); // else Ctrl-C came before a length
    for (int i = 0; i < plot.n_rows; i++) bench_row_deinit(&plot.rows[i]);
    free(plot.rows);
    return code;
}
