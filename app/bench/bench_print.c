// The table that `runnel bench` prints by default: llama-bench's columns, then what was read and
// how near that is to the limit. Columns that no test of this run fills are left out, and on a
// terminal those that do not fit. Rows are printed as they come, so widths are fixed; a longer cell
// moves its row only.
#include <limits.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"

enum column {
    COLUMN_MODEL,
    COLUMN_SIZE,
    COLUMN_PARAMS,
    COLUMN_BACKEND,
    COLUMN_THREADS,
    COLUMN_KV,
    COLUMN_TEST,
    COLUMN_RATE,
    COLUMN_BYTES,
    COLUMN_READ,
    COLUMN_BANDWIDTH,
    COLUMN_SHARE,
    COLUMN_PEAK,
    COLUMN_COST,
    COLUMN_PEER,
    COLUMN_RATIO,
    COLUMN_COUNT
};
_Static_assert((int)COLUMN_COUNT <= (int)BENCH_MAX_COLUMNS, "bench.column holds them all");

static const struct {
    const char *name;
    int width;
    bool left;
} columns[COLUMN_COUNT] = {
    [COLUMN_MODEL] = {"model", 20, true},        [COLUMN_SIZE] = {"size", 10, false},
    [COLUMN_PARAMS] = {"params", 9, false},      [COLUMN_BACKEND] = {"backend", 7, true},
    [COLUMN_THREADS] = {"threads", 7, false},    [COLUMN_KV] = {"type_kv", 7, false},
    [COLUMN_TEST] = {"test", 15, false},         [COLUMN_RATE] = {"t/s", 17, false},
    [COLUMN_BYTES] = {"bytes/token", 11, false}, [COLUMN_READ] = {"GB/s", 7, false},
    [COLUMN_BANDWIDTH] = {"B, GB/s", 7, false},  [COLUMN_SHARE] = {"of B", 13, false},
    [COLUMN_PEAK] = {"of peak", 7, false},       [COLUMN_COST] = {"cost", 6, false},
    [COLUMN_PEER] = {"peer t/s", 9, false},      [COLUMN_RATIO] = {"ratio", 6, false},
};

static bool column_filled(const struct bench_config *config, int column) {
    bool prompts = false;
    for (int i = 0; i < config->n_prompt.count; i++) prompts |= config->n_prompt.value[i] > 0;
    switch (column) {
    case COLUMN_KV:
        return strcmp(config->kv_type, "f16") != 0;
    case COLUMN_PEAK:
        return prompts;
    case COLUMN_COST:
        return config->verify.count > 0;
    case COLUMN_PEER:
    case COLUMN_RATIO:
        return config->peer != NULL;
    default:
        return true;
    }
}

// What the other columns, or the command line, nearly say is left out first.
static void columns_choose(struct bench *bench) {
    static const enum column order[] = {COLUMN_BACKEND,   COLUMN_PARAMS,  COLUMN_SIZE, COLUMN_READ,
                                        COLUMN_BYTES,     COLUMN_THREADS, COLUMN_KV,   COLUMN_PEER,
                                        COLUMN_BANDWIDTH, COLUMN_PEAK};
    const int room = bench->term->out_tty ? term_columns(STDOUT_FILENO) : INT_MAX;
    int width = 1; // the first border
    for (int i = 0; i < COLUMN_COUNT; i++) {
        bench->column[i] = column_filled(bench->config, i);
        if (bench->column[i]) width += columns[i].width + 3;
    }
    for (size_t i = 0; i < sizeof order / sizeof *order && width > room; i++) {
        if (!bench->column[order[i]]) continue;
        if (order[i] == COLUMN_THREADS && bench->config->threads.count > 1) continue;
        bench->column[order[i]] = false;
        width -= columns[order[i]].width + 3;
    }
}

// Columns on the screen; the text has no wide characters.
static int cell_width(const char *text) {
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void cell_print(const struct bench *bench, int column, const char *text, bool bold) {
    const int pad = columns[column].width - cell_width(text);
    const bool color = bench->term->out_color && bold;
    printf(" %*s%s%s%s%*s |", pad > 0 && !columns[column].left ? pad : 0, "", term_bold(color),
           text, term_reset(color), pad > 0 && columns[column].left ? pad : 0, "");
}

void bench_table_head(struct bench *bench) {
    columns_choose(bench);
    putchar('|');
    for (int i = 0; i < COLUMN_COUNT; i++)
        if (bench->column[i]) cell_print(bench, i, columns[i].name, true);
    fputs("\n|", stdout);
    for (int i = 0; i < COLUMN_COUNT; i++) {
        if (!bench->column[i]) continue;
        putchar(' ');
        for (int j = columns[i].left ? 0 : 1; j < columns[i].width; j++) putchar('-');
        fputs(columns[i].left ? " |" : ": |", stdout);
    }
    putchar('\n');
}

static void size_text(uint64_t bytes, char *out, size_t size) {
    const double mib = (double)bytes / (1 << 20);
    snprintf(out, size, mib < 1024 ? "%.2f MiB" : "%.2f GiB", mib < 1024 ? mib : mib / 1024);
}

static void params_text(uint64_t params, char *out, size_t size) {
    const double n = (double)params;
    snprintf(out, size, n < 1e9 ? "%.2f M" : "%.2f B", n < 1e9 ? n / 1e6 : n / 1e9);
}

// Empty where the test has no such figure.
static void figure_text(double value, const char *unit, int digits, char *out, size_t size) {
    if (isfinite(value))
        snprintf(out, size, "%.*f%s", digits, value, unit);
    else
        *out = '\0';
}

static const char *head_text(const struct bench_row *row, int column, char out[64]) {
    switch (column) {
    case COLUMN_MODEL:
        return row->type;
    case COLUMN_SIZE:
        size_text(row->model_size, out, 64);
        break;
    case COLUMN_PARAMS:
        params_text(row->n_params, out, 64);
        break;
    case COLUMN_BACKEND:
        return row->backend;
    case COLUMN_THREADS:
        snprintf(out, 64, "%d", row->n_threads);
        break;
    case COLUMN_KV:
        return row->kv_type;
    default:
        bench_test_name(&row->test, out);
    }
    return out;
}

static const char *cell_text(const struct bench_row *row, const struct bench_figures *figures,
                             int column, char out[64]) {
    switch (column) {
    case COLUMN_RATE:
        snprintf(out, 64, "%.2f ± %.2f", figures->avg_ts, figures->stddev_ts);
        break;
    case COLUMN_BYTES:
        human_bytes(figures->bytes_per_token, out);
        break;
    case COLUMN_READ:
        figure_text(figures->read_rate / 1e9, "", 2, out, 64);
        break;
    case COLUMN_BANDWIDTH:
        figure_text(figures->bandwidth > 0 ? figures->bandwidth / 1e9 : (double)NAN, "", 1, out,
                    64);
        break;
    case COLUMN_SHARE:
        figure_text(100 * figures->share, row->in_cache ? "% (cache)" : "%", 1, out, 64);
        break;
    case COLUMN_PEAK:
        figure_text(100 * figures->peak_share, "%", 1, out, 64);
        break;
    case COLUMN_COST:
        figure_text(figures->verify_cost, "", 2, out, 64);
        break;
    case COLUMN_PEER:
        figure_text(figures->peer_ts, "", 2, out, 64);
        break;
    case COLUMN_RATIO:
        figure_text(figures->peer_ratio, "", 2, out, 64);
        break;
    default:
        return head_text(row, column, out);
    }
    return out;
}

void bench_table_row(const struct bench *bench, const struct bench_row *row) {
    struct bench_figures figures;
    char text[64];
    bench_figures(row, &figures);
    putchar('|');
    for (int i = 0; i < COLUMN_COUNT; i++)
        if (bench->column[i])
            cell_print(bench, i, cell_text(row, &figures, i, text),
                       i == COLUMN_RATE || i == COLUMN_RATIO);
    putchar('\n');
}

// ---------------------------------------------------------------- stages

static void stage_line(const char *name, double runs, double ns, double total) {
    printf("| %-40s | %9.1f | %12.2f | %6.1f%% |\n", name, runs, ns / 1e3, 100 * ns / total);
}

// Per step. What no stage took: tables of the step, and the way from stage to stage.
static void stages_row(const struct bench *bench, const struct bench_row *row) {
    char name[64];
    const double steps = (double)row->cost.steps, total = (double)row->stages_ns / steps;
    double known = 0;
    printf("\n%s%s, %d thread%s, %s%s: %.3f ms per step\n\n", term_bold(bench->term->out_color),
           row->type, row->n_threads, row->n_threads == 1 ? "" : "s",
           bench_test_name(&row->test, name), term_reset(bench->term->out_color), total / 1e6);
    printf("| %-40s | %9s | %12s | %7s |\n", "stage", "runs/step", "us/step", "share");
    puts("| ---------------------------------------- | --------: | -----------: | ------: |");
    for (int i = 0; i < row->n_stages; i++) {
        const double ns = (double)row->stages[i].ns / steps;
        stage_line(row->stages[i].name, (double)row->stages[i].runs / steps, ns, total);
        known += ns;
    }
    stage_line("between stages", 1, total - known, total);
}

void bench_stages_print(const struct bench *bench) {
    for (int i = 0; i < bench->n_rows; i++)
        if (bench->rows[i].n_stages) stages_row(bench, &bench->rows[i]);
}
