// The rows of `runnel bench` for people: a markdown table, and the stages behind it. Rows are
// printed at once, so widths are fixed; a longer cell shifts only its own row. On a terminal the
// columns that do not fit are left out. JSON, CSV and SQL have all of them.
#include <limits.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/figures.h"

// ---------------------------------------------------------------- columns

// The columns of a terminal's tables, the most important first. They are shown in the order of
// columns.def. The first `always` of them are shown even if they do not fit.
#define C(id) COLUMN_##id
static const struct {
    bool has_title; // model and machine are in a line above
    int always;
    enum column_id column[19]; // up to a BUILD_COMMIT, which is in no table
} tables[TABLE_COUNT] = {
    // clang-format off
    [TABLE_STEPS] = {false, 6,
        {C(MODEL_TYPE), C(LABEL), C(AVG_TS), C(BANDWIDTH_SHARE), C(COST), C(PEER_RATIO), C(PEAK_SHARE),
         C(TFLOPS), C(BANDWIDTH_GBS), C(PEER_TS), C(TYPE_K), C(N_THREADS), C(BYTES_PER_TOKEN), C(READ_GBS),
         C(IDLE_US), C(MODEL_SIZE), C(MODEL_N_PARAMS), C(BACKENDS)}},
    [TABLE_STREAMS] = {true, 3,
        {C(LABEL), C(N_STREAMS), C(GEN_TS), C(GAP_MS_P50), C(GAIN_STREAM), C(PROMPT_TS), C(TTFT_MS_P50),
         C(GAIN_SERIAL), C(DECODE_SHARE), C(SAVED), C(HOST_US), C(SAMPLE_US), C(IDLE_US), C(LATE_SHARE),
         C(PAGES_HELD)}},
    [TABLE_ARRIVE] = {true, 3,
        {C(LABEL), C(N_STREAMS), C(GAP_MS_P50), C(OVER_BOUND), C(TTFT_MS_P50), C(GEN_TS), C(PROMPT_TS),
         C(DECODE_SHARE), C(HOST_US), C(SAMPLE_US), C(IDLE_US), C(LATE_SHARE)}},
    [TABLE_DRAFTS] = {true, 6,
        {C(DRAFTER), C(DRAFT_LENGTH), C(TEMPERATURE), C(N_STREAMS), C(RATIO), C(SAME_TEXT), C(GEN_TS),
         C(NONE_TS), C(ACCEPTED_SHARE), C(TOKENS_PER_STEP), C(DRAFTED_PER_STEP), C(SAID_RATIO),
         C(DRAFT_TOKENS), C(BYTES_PER_TOKEN), C(NONE_BYTES_PER_TOKEN)}},
    [TABLE_KERNELS] = {false, 10,
        {C(FORMAT), C(ISA), C(HERE), C(ONE), C(WAY), C(FEW), C(MANY), C(PANEL), C(FILE_BITS), C(PACKED_BITS)}},
    [TABLE_INTENSITY] = {false, 7,
        {C(NAME), C(BYTES_PER_TOKEN), C(FLOPS_PER_TOKEN), C(FLOP_PER_BYTE), C(BANDWIDTH_SHARE), C(PEAK_SHARE),
         C(MS_PER_TOKEN)}},
    [TABLE_HEADS] = {false, 5,
        {C(NAME), C(N_HEAD_KV), C(KV_TOKEN_BYTES), C(KV_BYTES_PER_TOKEN), C(BYTES_PER_TOKEN)}},
    [TABLE_SWEEP] = {false, 6,
        {C(NAME), C(TOTAL_TS), C(STREAM_TS), C(BYTES_PER_TOKEN), C(BOUND), C(BANDWIDTH_SHARE), C(PEAK_SHARE)}},
    [TABLE_CONTEXTS] = {false, 5,
        {C(NAME), C(KV_BYTES_PER_TOKEN), C(BYTES_PER_TOKEN), C(MS_PER_TOKEN), C(BANDWIDTH_SHARE)}},
    [TABLE_SAVED] = {false, 5,
        {C(NAME), C(GEN_TS), C(MS_PER_TOKEN), C(TOKENS_PER_STEP), C(BYTES_PER_TOKEN), C(ACCEPTED_SHARE)}},
    // clang-format on
};
#undef C

// Whether any test of this run fills the column.
static bool column_filled(const struct bench_config *config, enum column_id id) {
    switch (id) {
    case COLUMN_TYPE_K:
        return config->kv_type && strcmp(config->kv_type, "f16") != 0;
    case COLUMN_N_THREADS: // of a device with a name, the host's threads are no figure
        return !*config->device.name || config->threads.count > 1;
    case COLUMN_TFLOPS: // the CPU's peak is known, and its share says more
        return *config->device.name && (bench_list_largest(&config->n_prompt) > 0 ||
                                        bench_list_largest(&config->streams) > 1);
    case COLUMN_IDLE_US: // the CPU has no clock of its own
    case COLUMN_LATE_SHARE:
        return *config->device.name;
    case COLUMN_PEAK_SHARE:
        return bench_list_largest(&config->n_prompt) > 0;
    case COLUMN_COST:
        return config->verify.count > 0;
    case COLUMN_PEER_TS:
    case COLUMN_PEER_RATIO:
        return config->peer != NULL;
    default:
        return true;
    }
}

static int column_width(enum column_id id, int label_width) {
    return id == COLUMN_LABEL && label_width ? label_width : column_at(id)->width;
}

void table_fit(const struct bench_config *config, enum table_id table, int label_width, int room,
               bool shown[COLUMN_COUNT]) {
    memset(shown, 0, COLUMN_COUNT * sizeof *shown);
    room -= 1; // the first border
    for (int i = 0; tables[table].column[i] != COLUMN_BUILD_COMMIT; i++) {
        const enum column_id id = tables[table].column[i];
        const int width = column_width(id, label_width) + 3;
        const bool needed =
            i < tables[table].always || (id == COLUMN_N_THREADS && config->threads.count > 1);
        shown[id] = column_filled(config, id) && (needed || width <= room);
        if (shown[id]) room -= width;
    }
}

// ---------------------------------------------------------------- cells

// Milliseconds of n columns, each with three digits, or more before the point.
static void spread_text(const struct row *row, enum column_id id, int n, char out[64]) {
    int at = 0;
    for (int i = 0; i < n; i++) {
        const double ms = row_number_at(row, id + (unsigned)i);
        at += snprintf(out + at, 64 - (size_t)at, "%s%.*f", i ? "/" : "",
                       ms < 9.995   ? 2
                       : ms < 99.95 ? 1
                                    : 0,
                       ms);
    }
}

static void scaled_text(double value, double small, double large, const char *small_unit,
                        const char *large_unit, char out[64]) {
    const bool is_large = value >= large;
    snprintf(out, 64, "%.2f %s", value / (is_large ? large : small),
             is_large ? large_unit : small_unit);
}

// Cells of a value with a form of its own.
static void number_text(const struct row *row, enum column_id id, double value, char out[64]) {
    const enum column_format format = column_at(id)->format;
    const double next = row_number_at(row, id + 1);
    if (format == FORMAT_BYTES) {
        human_bytes(value, out);
    } else if (format == FORMAT_MIB) {
        scaled_text(value, 0x1p20, 0x1p30, "MiB", "GiB", out);
    } else if (format == FORMAT_PARAMS) {
        scaled_text(value, 1e6, 1e9, "M", "B", out);
    } else if (format == FORMAT_FLOPS) {
        scaled_text(value, 1e6, 1e9, "M", "G", out);
    } else if (format == FORMAT_PLUS_MINUS) {
        snprintf(out, 64, "%.2f ± %.2f", value, next);
    } else if (format == FORMAT_PAIR) {
        snprintf(out, 64, "%.0f / %.0f", value, next);
    } else if (format == FORMAT_SPREAD2 || format == FORMAT_SPREAD3) {
        spread_text(row, id, format == FORMAT_SPREAD2 ? 2 : 3, out);
    } else if (format == FORMAT_DIGITS3 || format == FORMAT_DIGITS4) {
        snprintf(out, 64, "%.*g", format == FORMAT_DIGITS3 ? 3 : 4, value);
    } else if (format == FORMAT_SHARE || format == FORMAT_PERCENT) {
        const bool is_cache = format == FORMAT_SHARE && row_number_at(row, COLUMN_IN_CACHE) > 0;
        snprintf(out, 64, "%.1f%%%s", 100 * value, is_cache ? " (cache)" : "");
    } else {
        snprintf(out, 64, "%.*f",
                 format == FORMAT_FIXED1   ? 1
                 : format == FORMAT_FIXED2 ? 2
                                           : 0,
                 value);
    }
}

// Empty where the row has no value.
const char *cell_text(const struct row *row, enum column_id id, char out[64]) {
    const enum column_format format = column_at(id)->format;
    const double value = row_number_at(row, id), acceptance = row_number_at(row, COLUMN_ACCEPTANCE);
    const char *text = row_text_at(row, id);
    if (format == FORMAT_YES) text = value > 0 ? "yes" : "no";
    if (format == FORMAT_SAME) text = value > 0 ? "same" : "DIFFERS";
    if (format == FORMAT_LENGTH && strcmp(row_text_at(row, COLUMN_DRAFTER), "none")) text = "auto";
    if (format == FORMAT_DRAFTER && isfinite(acceptance))
        snprintf(out, 64, "%s %.3g", text, acceptance);
    else if (isfinite(value) && format != FORMAT_YES && format != FORMAT_SAME)
        number_text(row, id, value, out);
    else
        snprintf(out, 64, "%s", text);
    return out;
}

// ---------------------------------------------------------------- lines

static bool is_left(enum column_id id) {
    return column_at(id)->format == FORMAT_LEFT || column_at(id)->format == FORMAT_YES;
}

// Columns on the screen; the text has no wide characters.
static int text_width(const char *text) {
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void cell_print(const struct bench *bench, enum column_id id, const char *text, bool bold) {
    const int pad = column_width(id, bench->label_width) - text_width(text);
    const bool color = bench->term->out_color && bold;
    printf(" %*s%s%s%s%*s |", pad > 0 && !is_left(id) ? pad : 0, "", term_bold(color), text,
           term_reset(color), pad > 0 && is_left(id) ? pad : 0, "");
}

// Bold if there is no title, which would be bold instead.
static void head_print(const struct bench *bench, bool bold) {
    putchar('|');
    for (unsigned i = 0; i < COLUMN_COUNT; i++)
        if (bench->shown[i]) cell_print(bench, i, column_at(i)->heading, bold);
    fputs("\n|", stdout);
    for (unsigned i = 0; i < COLUMN_COUNT; i++) {
        if (!bench->shown[i]) continue;
        putchar(' ');
        for (int j = is_left(i) ? 0 : 1; j < column_width(i, bench->label_width); j++) putchar('-');
        fputs(is_left(i) ? " |" : ": |", stdout);
    }
    putchar('\n');
}

// The first part is bold.
void table_title_print(const struct bench *bench, const struct row *row) {
    const bool color = bench->term->out_color;
    printf("%s%s%s, %s", term_bold(color), row_text_at(row, COLUMN_MODEL_TYPE), term_reset(color),
           figure_place(row, true).text);
    if (row->table == TABLE_DRAFTS)
        printf(", tg%d%s", row_whole_at(row, COLUMN_N_GEN),
               row_number_at(row, COLUMN_FORCED) > 0 ? ", forced text" : "");
    fputs("\n\n", stdout);
}

// Rows of one model and thread count are a table, where those are in its title.
static bool same_table(const struct row *a, const struct row *b) {
    if (a->table != b->table) return false;
    if (!tables[a->table].has_title) return true;
    return row_whole_at(a, COLUMN_N_THREADS) == row_whole_at(b, COLUMN_N_THREADS) &&
           !strcmp(row_text_at(a, COLUMN_MODEL_FILENAME), row_text_at(b, COLUMN_MODEL_FILENAME));
}

static bool is_bold(enum column_id id) { return id == COLUMN_AVG_TS || id == COLUMN_PEER_RATIO; }

void table_row_print(struct bench *bench) {
    const struct row *row = &bench->rows[bench->n_rows - 1];
    const bool red = bench->term->out_color && row_number_at(row, COLUMN_SAME_TEXT) == 0;
    if (bench->n_rows == 1 || !same_table(row - 1, row)) {
        if (bench->n_rows > 1) putchar('\n');
        table_fit(bench->config, row->table, bench->label_width,
                  bench->term->out_tty ? term_columns(STDOUT_FILENO) : INT_MAX, bench->shown);
        if (tables[row->table].has_title) table_title_print(bench, row);
        if (row->table == TABLE_STEPS && *row_text_at(row, COLUMN_DEVICE))
            printf("%s\n\n", figure_place(row, true).text);
        head_print(bench, !tables[row->table].has_title);
    }
    printf("%s|", term_red(red));
    for (unsigned i = 0; i < COLUMN_COUNT; i++) {
        char text[64];
        if (bench->shown[i]) cell_print(bench, i, cell_text(row, i, text), is_bold(i));
    }
    printf("%s\n", term_reset(red));
}

// ---------------------------------------------------------------- stages

static void stage_line(const char *name, double runs, double ns, double total) {
    printf("| %-40s | %9.1f | %12.2f | %6.1f%% |\n", name, runs, ns / 1e3, 100 * ns / total);
}

// Per step. The tables of a step and the time between stages belong to no stage.
static void stages_row(const struct bench *bench, const struct row *row) {
    const double steps = (double)row->n_steps, total = (double)row->stages_ns / steps;
    const char *device = row_text_at(row, COLUMN_DEVICE);
    const int n_threads = row_whole_at(row, COLUMN_N_THREADS);
    char place[80];
    double known = 0;
    snprintf(place, sizeof place, *device ? "%.64s" : "%.0s%d thread%s", device, n_threads,
             n_threads == 1 ? "" : "s");
    printf("\n%s%s, %s, %s%s: %.3f ms per step\n\n", term_bold(bench->term->out_color),
           row_text_at(row, COLUMN_MODEL_TYPE), place, row_text_at(row, COLUMN_LABEL),
           term_reset(bench->term->out_color), total / 1e6);
    printf("| %-40s | %9s | %12s | %7s |\n", "stage", "runs/step", "us/step", "share");
    puts("| ---------------------------------------- | --------: | -----------: | ------: |");
    for (int i = 0; i < row->n_stages; i++) {
        const double ns = (double)row->stages[i].ns / steps;
        stage_line(row->stages[i].name, (double)row->stages[i].runs / steps, ns, total);
        known += ns;
    }
    stage_line("between stages", 1, total - known, total);
}

int rows_print(const struct bench *bench) {
    const struct bench_config *config = bench->config;
    if (!strcmp(config->output, "md")) {
        for (int i = 0; i < bench->n_rows; i++)
            if (bench->rows[i].n_stages) stages_row(bench, &bench->rows[i]);
        return APP_OK;
    }
    static const struct {
        const char *output;
        int (*print)(json_t *rows, size_t flags);
        size_t flags;
    } printers[] = {{"json", json_print, JSON_INDENT(2)},
                    {"jsonl", json_lines_print, 0},
                    {"csv", json_csv_print, 0},
                    {"sql", json_sql_print, 0}};
    json_t *rows = rows_json(bench->rows, bench->n_rows, config->stages);
    size_t i = 0;
    while (strcmp(config->output, printers[i].output) != 0) i++;
    return printers[i].print(rows, printers[i].flags | JSON_REAL_PRECISION(10));
}
