// The rows of `runnel bench` for people: a markdown table, and the stages behind it. Rows are
// printed as they come, so widths are fixed; a longer cell moves its row only. On a terminal the
// columns that do not fit are left out. JSON and CSV have all of them.
#include <limits.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"

// ---------------------------------------------------------------- columns

enum { MAX_SHOWN = 20 };

// The columns of a terminal's tables, the most important first. They are shown in the order of
// columns.def; the first `always` of them even where a line has no room.
static const struct {
    bool has_title; // model and machine are in a line above
    int always, n;
    enum column_id column[MAX_SHOWN];
} tables[TABLE_COUNT] = {
    [TABLE_STEPS] = {false,
                     6,
                     16,
                     {COLUMN_MODEL_TYPE, COLUMN_LABEL, COLUMN_AVG_TS, COLUMN_BANDWIDTH_SHARE,
                      COLUMN_COST, COLUMN_PEER_RATIO, COLUMN_PEAK_SHARE, COLUMN_BANDWIDTH_GBS,
                      COLUMN_PEER_TS, COLUMN_TYPE_K, COLUMN_N_THREADS, COLUMN_BYTES_PER_TOKEN,
                      COLUMN_READ_GBS, COLUMN_MODEL_SIZE, COLUMN_MODEL_N_PARAMS, COLUMN_BACKENDS}},
    [TABLE_STREAMS] = {true,
                       3,
                       13,
                       {COLUMN_LABEL, COLUMN_N_STREAMS, COLUMN_GEN_TS, COLUMN_GAP_MS_P50,
                        COLUMN_GAIN_STREAM, COLUMN_PROMPT_TS, COLUMN_TTFT_MS_P50,
                        COLUMN_GAIN_SERIAL, COLUMN_DECODE_SHARE, COLUMN_SAVED, COLUMN_HOST_US,
                        COLUMN_SAMPLE_US, COLUMN_PAGES_HELD}},
    [TABLE_ARRIVE] = {true,
                      3,
                      10,
                      {COLUMN_LABEL, COLUMN_N_STREAMS, COLUMN_GAP_MS_P50, COLUMN_OVER_BOUND,
                       COLUMN_TTFT_MS_P50, COLUMN_GEN_TS, COLUMN_PROMPT_TS, COLUMN_DECODE_SHARE,
                       COLUMN_HOST_US, COLUMN_SAMPLE_US}},
    [TABLE_DRAFTS] = {true,
                      6,
                      14,
                      {COLUMN_DRAFTER, COLUMN_DRAFT_LENGTH, COLUMN_TEMPERATURE, COLUMN_N_STREAMS,
                       COLUMN_RATIO, COLUMN_SAME_TEXT, COLUMN_GEN_TS, COLUMN_NONE_TS,
                       COLUMN_ACCEPTED_SHARE, COLUMN_TOKENS_PER_STEP, COLUMN_DRAFTED_PER_STEP,
                       COLUMN_SAID_RATIO, COLUMN_DRAFT_TOKENS, COLUMN_BYTES_PER_TOKEN}},
    [TABLE_KERNELS] = {false,
                       9,
                       9,
                       {COLUMN_FORMAT, COLUMN_ISA, COLUMN_HERE, COLUMN_ONE, COLUMN_FEW, COLUMN_MANY,
                        COLUMN_PANEL, COLUMN_FILE_BITS, COLUMN_PACKED_BITS}},
};

// Whether any test of this run fills the column.
static bool column_filled(const struct bench_config *config, enum column_id id) {
    switch (id) {
    case COLUMN_TYPE_K:
        return strcmp(config->kv_type, "f16") != 0;
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
    for (int i = 0; i < tables[table].n; i++) {
        const enum column_id id = tables[table].column[i];
        const int width = column_width(id, label_width) + 3;
        const bool needed =
            i < tables[table].always || (id == COLUMN_N_THREADS && config->threads.count > 1);
        shown[id] = column_filled(config, id) && (needed || width <= room);
        if (shown[id]) room -= width;
    }
}

// ---------------------------------------------------------------- cells

// Empty where the value is not finite.
static void number_text(double value, int digits, const char *unit, char out[64]) {
    *out = '\0';
    if (isfinite(value)) snprintf(out, 64, "%.*f%s", digits, value, unit);
}

// Three digits; more before the point where there are more.
static int ms_text(double ms, const char *before, char *out, size_t size) {
    return snprintf(out, size, "%s%.*f", before, ms < 9.995 ? 2 : ms < 99.95 ? 1 : 0, ms);
}

static void spread_text(const struct row *row, enum column_id id, int n, char out[64]) {
    int at = 0;
    *out = '\0';
    for (int i = 0; i < n && isfinite(row_number_at(row, id)); i++)
        at +=
            ms_text(row_number_at(row, id + (unsigned)i), i ? "/" : "", out + at, 64 - (size_t)at);
}

static void scaled_text(double value, double small, double large, const char *const unit[2],
                        char out[64]) {
    const bool is_large = value >= large;
    snprintf(out, 64, "%.2f %s", value / (is_large ? large : small), unit[is_large]);
}

static const char *length_text(const struct row *row) {
    const bool none = !strcmp(row_text_at(row, COLUMN_DRAFTER), "none");
    return none ? "" : "auto";
}

// Cells that are not one number.
static void cell_other(const struct row *row, enum column_id id, double value, char out[64]) {
    const char *text = row_text_at(row, id);
    const double acceptance = row_number_at(row, COLUMN_ACCEPTANCE);
    const bool is_cache = row_number_at(row, COLUMN_IN_CACHE) > 0;
    switch (column_at(id)->format) {
    case FORMAT_MIB:
        return scaled_text(value, 0x1p20, 0x1p30, (const char *const[]){"MiB", "GiB"}, out);
    case FORMAT_PARAMS:
        return scaled_text(value, 1e6, 1e9, (const char *const[]){"M", "B"}, out);
    case FORMAT_PLUS_MINUS:
        snprintf(out, 64, "%.2f ± %.2f", value, row_number_at(row, id + 1));
        return;
    case FORMAT_PAIR:
        snprintf(out, 64, "%.0f / %.0f", value, row_number_at(row, id + 1));
        return;
    case FORMAT_SPREAD2:
    case FORMAT_SPREAD3:
        return spread_text(row, id, column_at(id)->format == FORMAT_SPREAD2 ? 2 : 3, out);
    case FORMAT_SHARE:
        return number_text(100 * value, 1, is_cache ? "% (cache)" : "%", out);
    case FORMAT_DRAFTER:
        snprintf(out, 64, isfinite(acceptance) ? "%s %.3g" : "%s", text, acceptance);
        return;
    case FORMAT_LENGTH:
        if (isfinite(value)) return number_text(value, 0, "", out);
        text = length_text(row);
        break;
    case FORMAT_YES:
        text = value > 0 ? "yes" : "no";
        break;
    case FORMAT_SAME:
        text = value > 0 ? "same" : "DIFFERS";
        break;
    default:
        break;
    }
    snprintf(out, 64, "%s", text);
}

const char *cell_text(const struct row *row, enum column_id id, char out[64]) {
    const double value = row_number_at(row, id);
    switch (column_at(id)->format) {
    case FORMAT_WHOLE:
        number_text(value, 0, "", out);
        break;
    case FORMAT_FIXED1:
        number_text(value, 1, "", out);
        break;
    case FORMAT_FIXED2:
        number_text(value, 2, "", out);
        break;
    case FORMAT_PERCENT:
        number_text(100 * value, 1, "%", out);
        break;
    case FORMAT_DIGITS3:
        snprintf(out, 64, "%.3g", value);
        break;
    case FORMAT_DIGITS4:
        snprintf(out, 64, "%.4g", value);
        break;
    case FORMAT_BYTES:
        return human_bytes(value, out);
    default:
        cell_other(row, id, value, out);
    }
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

static void head_print(const struct bench *bench) {
    putchar('|');
    for (unsigned i = 0; i < COLUMN_COUNT; i++)
        if (bench->shown[i]) cell_print(bench, i, column_at(i)->heading, true);
    fputs("\n|", stdout);
    for (unsigned i = 0; i < COLUMN_COUNT; i++) {
        if (!bench->shown[i]) continue;
        putchar(' ');
        for (int j = is_left(i) ? 0 : 1; j < column_width(i, bench->label_width); j++) putchar('-');
        fputs(is_left(i) ? " |" : ": |", stdout);
    }
    putchar('\n');
}

// "llama 1.2B Q4_0, cpu avx512, 2 threads, kv f16": the first part bold.
static void title_print(const struct bench *bench, const struct row *row) {
    const int n_threads = row_whole_at(row, COLUMN_N_THREADS);
    const bool color = bench->term->out_color;
    printf("%s%s%s, %s %s, %d thread%s, kv %s", term_bold(color),
           row_text_at(row, COLUMN_MODEL_TYPE), term_reset(color),
           row_text_at(row, COLUMN_BACKENDS), row_text_at(row, COLUMN_ISA), n_threads,
           n_threads == 1 ? "" : "s", row_text_at(row, COLUMN_TYPE_KV));
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

static bool is_bold(enum column_id id) {
    return id == COLUMN_AVG_TS || id == COLUMN_PEER_RATIO || id == COLUMN_GEN_TS ||
           id == COLUMN_RATIO;
}

void table_row_print(struct bench *bench) {
    const struct row *row = &bench->rows[bench->n_rows - 1];
    const bool differs = row_number_at(row, COLUMN_SAME_TEXT) == 0;
    const bool red = bench->term->out_color && differs;
    if (bench->n_rows == 1 || !same_table(row - 1, row)) {
        if (bench->n_rows > 1) putchar('\n');
        table_fit(bench->config, row->table, bench->label_width,
                  bench->term->out_tty ? term_columns(STDOUT_FILENO) : INT_MAX, bench->shown);
        if (tables[row->table].has_title) title_print(bench, row);
        head_print(bench);
    }
    printf("%s|", term_red(red));
    for (unsigned i = 0; i < COLUMN_COUNT; i++) {
        char text[64];
        if (bench->shown[i]) cell_print(bench, i, cell_text(row, i, text), is_bold(i) && !differs);
    }
    printf("%s\n", term_reset(red));
}

// ---------------------------------------------------------------- stages

static void stage_line(const char *name, double runs, double ns, double total) {
    printf("| %-40s | %9.1f | %12.2f | %6.1f%% |\n", name, runs, ns / 1e3, 100 * ns / total);
}

// Per step. No stage has the tables of the step and the way from stage to stage.
static void stages_row(const struct bench *bench, const struct row *row) {
    const double steps = (double)row->n_steps, total = (double)row->stages_ns / steps;
    const int n_threads = row_whole_at(row, COLUMN_N_THREADS);
    double known = 0;
    printf("\n%s%s, %d thread%s, %s%s: %.3f ms per step\n\n", term_bold(bench->term->out_color),
           row_text_at(row, COLUMN_MODEL_TYPE), n_threads, n_threads == 1 ? "" : "s",
           row_text_at(row, COLUMN_LABEL), term_reset(bench->term->out_color), total / 1e6);
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
    json_t *rows = rows_json(bench->rows, bench->n_rows, config->stages);
    return !strcmp(config->output, "json")
               ? json_print(rows, JSON_INDENT(2) | JSON_REAL_PRECISION(10))
               : json_csv_print(rows, JSON_REAL_PRECISION(10));
}
