// Rows of `runnel bench --batch` and `--arrive` as a table, JSON, CSV, and a plot. A table begins
// anew where the kind of rows changes; columns that a kind has nothing for are left out, and on a
// terminal those that do not fit.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_batch.h"
#include "bench/plot.h"

static const char *const kind_name[] = {[BATCH_DISTINCT] = "batch",
                                        [BATCH_SHARED] = "shared",
                                        [BATCH_BEFORE] = "before",
                                        [BATCH_ARRIVE] = "arrive"};

double batch_serial_ms(const struct batch_row *row) {
    return row->first_ms + (row->n_streams - 1) * row->next_ms;
}

static double share_of(double a, double b) { return b > 0 ? a / b : (double)NAN; }

// ---------------------------------------------------------------- the table

enum column {
    COLUMN_TEST,
    COLUMN_STREAMS,
    COLUMN_PROMPT,
    COLUMN_GEN,
    COLUMN_STREAM,
    COLUMN_SERIAL,
    COLUMN_GAP,
    COLUMN_OVER,
    COLUMN_TTFT,
    COLUMN_HOST,
    COLUMN_SAMPLE,
    COLUMN_SHARE,
    COLUMN_PAGES,
    COLUMN_SAVED,
    COLUMN_COUNT
};

_Static_assert((int)COLUMN_COUNT <= (int)TABLE_MAX_COLUMNS, "a table holds them all");

static const struct {
    const char *name;
    int width;          // the first column's is that of its longest text
    bool batch, arrive; // the tables that have it
} columns[COLUMN_COUNT] = {
    [COLUMN_TEST] = {"test", 4, true, true},
    [COLUMN_STREAMS] = {"streams", 7, true, true},
    [COLUMN_PROMPT] = {"prompt t/s", 10, true, true},
    [COLUMN_GEN] = {"t/s", 8, true, true},
    [COLUMN_STREAM] = {"/ 1 stream", 10, true, false},
    [COLUMN_SERIAL] = {"/ 1 by 1", 8, true, false},
    [COLUMN_GAP] = {"gap ms 50/99/max", 16, true, true},
    [COLUMN_OVER] = {"> bound", 7, false, true},
    [COLUMN_TTFT] = {"first ms 50/99", 14, true, true},
    [COLUMN_HOST] = {"host us", 7, true, true},
    [COLUMN_SAMPLE] = {"sample us", 9, true, true},
    [COLUMN_SHARE] = {"of B", 6, true, true},
    [COLUMN_PAGES] = {"pages held/shared", 17, true, false},
    [COLUMN_SAVED] = {"saved", 6, true, false},
};

static bool is_arrive(const struct batch_row *row) { return row->kind >= BATCH_BEFORE; }

// "pp512+tg128, 384 shared"; "tg128, 50 ms"; "pp4096 arrives, 50 ms".
static void test_text(const struct batch_row *row, char out[64]) {
    int at;
    if (row->kind == BATCH_BEFORE)
        at = snprintf(out, 64, "tg%d", row->n_gen);
    else if (row->kind == BATCH_ARRIVE)
        at = snprintf(out, 64, "pp%d arrives", row->n_arrive);
    else
        at = snprintf(out, 64, "pp%d+tg%d", row->n_prompt, row->n_gen);
    if (row->kind == BATCH_SHARED)
        at += snprintf(out + at, 64 - (size_t)at, ", %d shared", row->n_shared);
    if (row->itl_ms) snprintf(out + at, 64 - (size_t)at, ", %d ms", row->itl_ms);
}

// Three digits; more before the point where there are more.
static int ms_text(double ms, const char *before, char *out, size_t size) {
    return snprintf(out, size, "%s%.*f", before, ms < 9.995 ? 2 : ms < 99.95 ? 1 : 0, ms);
}

static void spread_text(const struct batch_spread *spread, bool max, char out[64]) {
    *out = '\0';
    if (!isfinite(spread->p50)) return;
    int at = ms_text(spread->p50, "", out, 64);
    at += ms_text(spread->p99, "/", out + at, 64 - (size_t)at);
    if (max) ms_text(spread->max, "/", out + at, 64 - (size_t)at);
}

static void cell_text(const void *of, int column, char out[TABLE_CELL]) {
    const struct batch_row *row = of;
    switch ((enum column)column) {
    case COLUMN_TEST:
        return test_text(row, out);
    case COLUMN_STREAMS:
        return table_number(row->n_streams, 0, "", out);
    case COLUMN_PROMPT:
        return table_number(row->prompt_ts, 1, "", out);
    case COLUMN_GEN:
        return table_number(row->gen_ts, 1, "", out);
    case COLUMN_STREAM:
        return table_number(row->gain_stream, 2, "", out);
    case COLUMN_SERIAL:
        return table_number(batch_serial_ms(row) / row->wall_ms, 2, "", out);
    case COLUMN_GAP:
        return spread_text(&row->gap, true, out);
    case COLUMN_OVER:
        return table_number(100 * row->over_bound, 1, "%", out);
    case COLUMN_TTFT:
        return spread_text(&row->ttft, false, out);
    case COLUMN_HOST:
        return table_number(row->host_us, 1, "", out);
    case COLUMN_SAMPLE:
        return table_number(row->sample_us, 1, "", out);
    case COLUMN_SHARE:
        return table_number(row->decode_only ? 100 * share_of(row->read_rate, row->bandwidth)
                                             : (double)NAN,
                            1, "%", out);
    case COLUMN_PAGES:
        snprintf(out, 64, "%u / %u", row->pages_held, row->pages_shared);
        return;
    case COLUMN_SAVED:
        return table_number(100 * share_of((double)row->cached_tokens, (double)row->prompt_tokens),
                            1, "%", out);
    case COLUMN_COUNT:
        break;
    }
    *out = '\0';
}

// The longest text of the first column in this row's table.
static int test_width(const struct batch_bench *bench, const struct batch_row *row) {
    const struct bench_config *config = bench->config;
    char text[64];
    const struct batch_row longest = {.kind = is_arrive(row) ? BATCH_ARRIVE : BATCH_SHARED,
                                      .n_prompt = bench_list_largest(&config->n_prompt),
                                      .n_gen = bench_list_largest(&config->n_gen),
                                      .n_shared = bench_list_largest(&config->n_prompt),
                                      .n_arrive = row->n_arrive,
                                      .itl_ms = bench_list_largest(&config->itl_ms)};
    test_text(&longest, text);
    return (int)strlen(text);
}

// What a table is made for comes first, rates or gaps; what finds no room beside it is left out.
static void columns_choose(struct batch_bench *bench, const struct batch_row *row) {
    static const int order[COLUMN_COUNT] = {COLUMN_TEST,   COLUMN_STREAMS, COLUMN_GEN,
                                            COLUMN_GAP,    COLUMN_OVER,    COLUMN_STREAM,
                                            COLUMN_PROMPT, COLUMN_TTFT,    COLUMN_SERIAL,
                                            COLUMN_SHARE,  COLUMN_SAVED,   COLUMN_HOST,
                                            COLUMN_SAMPLE, COLUMN_PAGES};
    static const int arrive_order[COLUMN_COUNT] = {COLUMN_TEST,   COLUMN_STREAMS, COLUMN_GAP,
                                                   COLUMN_OVER,   COLUMN_TTFT,    COLUMN_GEN,
                                                   COLUMN_PROMPT, COLUMN_SHARE,   COLUMN_HOST,
                                                   COLUMN_SAMPLE, COLUMN_STREAM,  COLUMN_SERIAL,
                                                   COLUMN_SAVED,  COLUMN_PAGES};
    const bool arrive = is_arrive(row);
    struct table *table = &bench->table;
    int wanted[COLUMN_COUNT], n_wanted = 0;
    table->n = COLUMN_COUNT;
    for (int i = 0; i < COLUMN_COUNT; i++) {
        const int column = arrive ? arrive_order[i] : order[i];
        table->name[i] = columns[i].name;
        table->width[i] = i == COLUMN_TEST ? test_width(bench, row) : columns[i].width;
        if (arrive ? columns[column].arrive : columns[column].batch) wanted[n_wanted++] = column;
    }
    table_fit(table, bench->term, wanted, n_wanted, 3);
}

static void table_head(struct batch_bench *bench, const struct batch_row *row) {
    const bool color = bench->term->out_color;
    columns_choose(bench, row);
    printf("%s%s%s, %s %s, %d thread%s, kv %s\n\n", term_bold(color), row->type, term_reset(color),
           row->backend, row->isa, row->n_threads, row->n_threads == 1 ? "" : "s", row->kv_type);
    table_head_print(&bench->table);
}

void batch_table_row(struct batch_bench *bench, const struct batch_row *row) {
    const struct batch_row *last = row > bench->rows ? row - 1 : NULL;
    if (!last || is_arrive(last) != is_arrive(row) || last->n_threads != row->n_threads ||
        strcmp(last->filename, row->filename) != 0) {
        if (last) putchar('\n');
        table_head(bench, row);
    }
    table_row_print(&bench->table, cell_text, row);
}

// ---------------------------------------------------------------- for programs

static json_t *row_head(const struct batch_row *row, bool sampled) {
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:s, s:s, s:i, s:i, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:b}",
        "build_commit", RN_VERSION, "test", kind_name[row->kind], "model_filename",
        json_text(row->filename, strlen(row->filename)), "model_type",
        json_text(row->type, strlen(row->type)), "backends", row->backend, "isa", row->isa,
        "n_threads", row->n_threads, "n_batch", row->n_batch, "type_kv", row->kv_type, "test_time",
        row->time, "n_streams", row->n_streams, "n_prompt", row->n_prompt, "n_gen", row->n_gen,
        "n_shared", row->n_shared, "n_arrive", row->n_arrive, "itl_ms", row->itl_ms, "sampled",
        sampled);
}

static json_t *row_speed(const struct batch_row *row) {
    const double serial = batch_serial_ms(row);
    return json_pack("{s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                     "wall_ms", json_number(row->wall_ms), "serial_ms", json_number(serial),
                     "prompt_ts", json_number(row->prompt_ts), "gen_ts", json_number(row->gen_ts),
                     "decode_only", row->decode_only, "gain_stream", json_number(row->gain_stream),
                     "gain_serial", json_number(serial / row->wall_ms), "gap_ms_p50",
                     json_number(row->gap.p50), "gap_ms_p99", json_number(row->gap.p99),
                     "gap_ms_max", json_number(row->gap.max), "over_bound",
                     json_number(row->over_bound), "ttft_ms_p50", json_number(row->ttft.p50),
                     "ttft_ms_p99", json_number(row->ttft.p99), "ttft_ms_max",
                     json_number(row->ttft.max));
}

static json_t *row_engine(const struct batch_row *row) {
    const double bandwidth = row->bandwidth > 0 ? row->bandwidth / 1e9 : (double)NAN;
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I}", "steps",
                     (json_int_t)row->steps, "host_us", json_number(row->host_us), "sample_us",
                     json_number(row->sample_us), "read_gbs", json_number(row->read_rate / 1e9),
                     "bandwidth_gbs", json_number(bandwidth), "bandwidth_share",
                     json_number(share_of(row->read_rate, row->bandwidth)), "pages_held",
                     (json_int_t)row->pages_held, "pages_shared", (json_int_t)row->pages_shared,
                     "prompt_tokens", (json_int_t)row->prompt_tokens, "cached_tokens",
                     (json_int_t)row->cached_tokens, "output_tokens",
                     (json_int_t)row->output_tokens, "preemptions", (json_int_t)row->preemptions);
}

// NULL: out of memory.
static json_t *rows_make(const struct batch_bench *bench) {
    json_t *rows = json_array();
    for (int i = 0; rows && i < bench->n_rows; i++) {
        const struct batch_row *row = &bench->rows[i];
        json_t *object = row_head(row, bench->config->sample);
        const bool ok = json_merge(object, row_speed(row)) && json_merge(object, row_engine(row));
        rows = json_append(rows, object, ok);
    }
    return rows;
}

int batch_json_print(const struct batch_bench *bench) {
    return json_print(rows_make(bench), JSON_INDENT(2) | JSON_REAL_PRECISION(10));
}

int batch_csv_print(const struct batch_bench *bench) {
    return json_csv_print(rows_make(bench), JSON_REAL_PRECISION(10));
}

// ---------------------------------------------------------------- the plot

// The rows as rows of decoding: a sample whose rate is the row's.
static bool plot_row(const struct batch_row *from, struct bench_row *to) {
    const double rate = isfinite(from->gen_ts) ? from->gen_ts : 0;
    char type[160], bound[32] = "";
    if (from->itl_ms) snprintf(bound, sizeof bound, ", %d ms", from->itl_ms);
    snprintf(type, sizeof type, "%.100s%s%s", from->type,
             from->kind == BATCH_SHARED ? ", shared prefix" : "", bound);
    *to = (struct bench_row){.filename = strdup(from->filename),
                             .type = strdup(type),
                             .backend = from->backend,
                             .isa = from->isa,
                             .n_threads = from->n_threads,
                             .kv_type = from->kv_type,
                             .test = {.kind = BENCH_DECODE,
                                      .n_gen = from->n_gen,
                                      .n_seqs = from->n_streams,
                                      .n_depth = from->n_prompt},
                             .cost = {.tokens = (uint64_t)(rate * 1e6)},
                             .samples = calloc(1, sizeof *to->samples),
                             .n_samples = 1};
    if (!to->filename || !to->type || !to->samples) return false;
    to->samples[0] = (struct bench_sample){.ns = 1000000ull * 1000000000ull,
                                           .bytes = from->read_rate * 1e6,
                                           .bandwidth = from->bandwidth};
    return true;
}

int batch_plot(const struct batch_bench *bench, const char *path) {
    struct bench plot = {.config = bench->config, .term = bench->term};
    int code = APP_OK;
    plot.rows = calloc((size_t)bench->n_rows, sizeof *plot.rows);
    bool ok = plot.rows != NULL;
    for (int i = 0; ok && i < bench->n_rows; i++)
        ok = plot_row(&bench->rows[i], &plot.rows[plot.n_rows++]);
    code = ok ? plot_write(&plot, path) : app_fail(APP_FAILED, "out of memory");
    for (int i = 0; i < plot.n_rows; i++) bench_row_deinit(&plot.rows[i]);
    free(plot.rows);
    return code;
}
