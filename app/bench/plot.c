// The SVG writer: its own marks, no library. Colours are CSS classes with a second set for dark
// viewers. All text is escaped; widths of text are estimated, since nothing here knows a font.
#include "bench/plot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WIDTH = 860,
    MARGIN = 24,
    CHAR_WIDTH = 7, // of a letter of 13 pixels, on average
    TITLE_HEIGHT = 58,
    BAR_HEIGHT = 16,
    PEER_HEIGHT = 7,
    ROW_GAP = 12,
    AXIS_HEIGHT = 46,
    PLOT_HEIGHT = 340,
    LEGEND_ROW = 20,
    TICKS = 5,
    COLOURS = 8,
    LABEL = 160,
};

// Plain properties only: many viewers know no CSS variables.
static const char style_light[] =
    "  .back { fill: #ffffff; } svg { font-family: system-ui, sans-serif; font-size: 13px; }\n"
    "  text { fill: #1f2328; } .dim { fill: #59636e; }\n"
    "  .title { font-size: 16px; font-weight: 600; }\n"
    "  .grid { stroke: #e1e4e8; } .axis { stroke: #8c959f; } .track { fill: #f0f2f4; }\n"
    "  .peer { fill: #8c959f; }\n"
    "  .line { fill: none; stroke-width: 2; } .dash { stroke-dasharray: 5 4; }\n";
static const char style_dark[] =
    "  .back { fill: #15181d; } text { fill: #e6e9ed; } .dim { fill: #9aa4af; }\n"
    "  .grid { stroke: #2c323a; } .axis { stroke: #6b7580; } .track { fill: #20252c; }\n"
    "  .peer { fill: #7d8792; }\n";

static const struct {
    const char *light, *dark;
} colours[COLOURS] = {{"#2468c8", "#5b9bf3"}, {"#d9591c", "#f58a52"}, {"#0d8f68", "#3cc497"},
                      {"#b07800", "#e0ab33"}, {"#c2457f", "#ee80b1"}, {"#3f7d20", "#86c860"},
                      {"#5b45b8", "#a191f5"}, {"#c93838", "#f37474"}};

static void style_print(FILE *out) {
    for (int dark = 0; dark < 2; dark++) {
        fputs(dark ? "  @media (prefers-color-scheme: dark) {\n" : "<style>\n", out);
        fputs(dark ? style_dark : style_light, out);
        for (int i = 0; i < COLOURS; i++) {
            const char *colour = dark ? colours[i].dark : colours[i].light;
            fprintf(out, "  .fill%d { fill: %s; } .line%d { stroke: %s; }\n", i, colour, i, colour);
        }
    }
    fputs("  }\n</style>\n", out);
}

enum axis { AXIS_NONE, AXIS_DEPTH, AXIS_STREAMS, AXIS_THREADS, AXIS_LENGTH };

struct plot {
    FILE *out;
    const struct bench *bench;
    enum bench_kind kind; // of the rows that are drawn
    enum axis axis;
};

// ---------------------------------------------------------------- text

static void escaped(FILE *out, const char *text) {
    struct text sound;
    if (!text_sound(text, strlen(text), &sound)) return;
    for (const char *c = sound.data; *c; c++) {
        switch (*c) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc((unsigned char)*c < 0x20 ? ' ' : *c, out);
        }
    }
    text_free(&sound);
}

static void text_at(FILE *out, double x, double y, const char *anchor, const char *class,
                    const char *text) {
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor,
            class);
    escaped(out, text);
    fputs("</text>\n", out);
}

static void line_at(FILE *out, const char *class, double x1, double y1, double x2, double y2) {
    fprintf(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class,
            x1, y1, x2, y2);
}

static void begin(const struct plot *plot, double height, const char *title, const char *subtitle) {
    fprintf(plot->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
            "viewBox=\"0 0 %d %.0f\" role=\"img\">\n<title>",
            WIDTH, height, WIDTH, height);
    escaped(plot->out, title);
    fputs("</title>\n", plot->out);
    style_print(plot->out);
    fputs("<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n", plot->out);
    text_at(plot->out, MARGIN, 28, "start", "title", title);
    text_at(plot->out, MARGIN, 48, "start", "dim", subtitle);
}

// ---------------------------------------------------------------- rows

static bool is_drawn(const struct plot *plot, const struct bench_row *row) {
    return row->test.kind == plot->kind;
}

static int axis_value(const struct plot *plot, const struct bench_row *row) {
    switch (plot->axis) {
    case AXIS_DEPTH:
        return row->test.n_depth;
    case AXIS_STREAMS:
        return row->test.n_seqs;
    case AXIS_THREADS:
        return row->n_threads;
    case AXIS_LENGTH:
        return row->test.n_verify;
    case AXIS_NONE:
        break;
    }
    return 0;
}

static bool varies(const struct plot *plot, enum axis axis) {
    const struct plot look = {.bench = plot->bench, .kind = plot->kind, .axis = axis};
    int first = -1;
    for (int i = 0; i < plot->bench->n_rows; i++) {
        const struct bench_row *row = &plot->bench->rows[i];
        if (!is_drawn(plot, row)) continue;
        if (first < 0) first = axis_value(&look, row);
        if (axis_value(&look, row) != first) return true;
    }
    return false;
}

// "llama 1.2B Q4_K", or the file where another one is called the same.
static const char *model_label(const struct plot *plot, const struct bench_row *row) {
    const char *slash = strrchr(row->filename, '/');
    for (int i = 0; i < plot->bench->n_rows; i++) {
        const struct bench_row *other = &plot->bench->rows[i];
        if (!strcmp(row->type, other->type) && strcmp(row->filename, other->filename) != 0)
            return slash && slash[1] ? slash + 1 : row->filename;
    }
    return row->type;
}

// Model and test, without what the axis says.
static void label_make(const struct plot *plot, const struct bench_row *row, char out[LABEL]) {
    struct bench_test test = row->test;
    char name[64], threads[32] = "";
    if (plot->axis == AXIS_DEPTH) test.n_depth = 0;
    if (plot->axis == AXIS_STREAMS) test.n_seqs = 1;
    if (plot->axis != AXIS_THREADS && varies(plot, AXIS_THREADS))
        snprintf(threads, sizeof threads, ", %d thread%s", row->n_threads,
                 row->n_threads == 1 ? "" : "s");
    if (plot->axis == AXIS_LENGTH)
        snprintf(out, LABEL, "%.100s%s", row->type, threads);
    else
        snprintf(out, LABEL, "%.60s, %s%s", model_label(plot, row), bench_test_name(&test, name),
                 threads);
}

static void plot_choose(const struct bench *bench, struct plot *out) {
    static const enum bench_kind kinds[] = {BENCH_DECODE, BENCH_VERIFY, BENCH_PREFILL};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        out->kind = kinds[k];
        for (int i = 0; i < bench->n_rows; i++)
            if (is_drawn(out, &bench->rows[i])) k = sizeof kinds / sizeof *kinds;
    }
    for (int axis = AXIS_THREADS; axis > AXIS_NONE; axis--)
        if (varies(out, (enum axis)axis)) out->axis = (enum axis)axis;
    if (bench->ratios) out->axis = AXIS_LENGTH;
}

// ---------------------------------------------------------------- bars

static double row_share(const struct plot *plot, const struct bench_figures *figures) {
    const double share = plot->kind == BENCH_PREFILL ? figures->peak_share : figures->share;
    return isfinite(share) ? share : 0;
}

static void bar(const struct plot *plot, const struct bench_row *row, double left, double y,
                double full) {
    struct bench_figures figures;
    char label[LABEL], value[96];
    bench_figures(row, &figures);
    const double share = row_share(plot, &figures), shown = share < 1 ? share : 1;
    label_make(plot, row, label);
    text_at(plot->out, left - 10, y + 13, "end", "", label);
    fprintf(plot->out,
            "<rect class=\"track\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>\n"
            "<rect class=\"fill0\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>\n",
            left, y, full, BAR_HEIGHT, left, y, full * shown, BAR_HEIGHT);
    snprintf(value, sizeof value, "%.1f%%, %.1f tokens/s", 100 * share, figures.avg_ts);
    text_at(plot->out, left + full + 10, y + 13, "start", "", value);
    if (!isfinite(figures.peer_ratio) || !(figures.peer_ratio > 0)) return;
    const double peer = shown / figures.peer_ratio;
    snprintf(value, sizeof value, "%.1f tokens/s", figures.peer_ts);
    text_at(plot->out, left + full + 10, y + 29, "start", "dim", value);
    fprintf(plot->out,
            "<rect class=\"peer\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>\n",
            left, y + BAR_HEIGHT + 2, full * (peer < 1 ? peer : 1), PEER_HEIGHT);
}

static void bars_axis(const struct plot *plot, double left, double bottom, double full) {
    for (int i = 0; i <= 4; i++) {
        char percent[16];
        const double x = left + full * i / 4;
        snprintf(percent, sizeof percent, "%d%%", 25 * i);
        line_at(plot->out, "grid", x, TITLE_HEIGHT, x, bottom);
        text_at(plot->out, x, bottom + 18, "middle", "dim", percent);
    }
    text_at(plot->out, left + full / 2, bottom + 38, "middle", "dim",
            plot->kind == BENCH_PREFILL ? "share of the arithmetic peak in registers, %"
                                        : "share of the read bandwidth B, %");
}

// The peer's name, or NULL where none was run.
static const char *peer_name(const struct plot *plot) {
    for (int i = 0; i < plot->bench->n_rows; i++)
        if (is_drawn(plot, &plot->bench->rows[i]) && plot->bench->rows[i].peer_name)
            return plot->bench->rows[i].peer_name;
    return NULL;
}

static void bars_legend(const struct plot *plot, double left, double y) {
    const char *peer = peer_name(plot);
    fprintf(plot->out,
            "<rect class=\"fill0\" x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" rx=\"2\"/>\n",
            left, y - 11);
    text_at(plot->out, left + 18, y, "start", "", "runnel");
    if (!peer) return;
    fprintf(plot->out,
            "<rect class=\"peer\" x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" rx=\"2\"/>\n",
            left + 90, y - 11);
    text_at(plot->out, left + 108, y, "start", "", peer);
}

// The place that all rows share.
static void place_text(const struct plot *plot, char *out, size_t size) {
    const struct bench_row *row = &plot->bench->rows[0];
    int at = snprintf(out, size, "%s %s", row->backend, row->isa);
    if (!varies(plot, AXIS_THREADS))
        at += snprintf(out + at, size - (size_t)at, ", %d thread%s", row->n_threads,
                       row->n_threads == 1 ? "" : "s");
    snprintf(out + at, size - (size_t)at, ", kv %s%s", row->kv_type,
             plot->axis == AXIS_STREAMS ? "; tokens of all sequences together" : "");
}

// The bandwidths that the shares are of, from the lowest to the highest.
static void bandwidth_text(const struct plot *plot, char *out, size_t size) {
    double low = HUGE_VAL, high = 0;
    for (int i = 0; i < plot->bench->n_rows; i++) {
        struct bench_figures figures;
        if (!is_drawn(plot, &plot->bench->rows[i])) continue;
        bench_figures(&plot->bench->rows[i], &figures);
        low = fmin(low, figures.bandwidth / 1e9);
        high = fmax(high, figures.bandwidth / 1e9);
    }
    if (high - low < 0.05)
        snprintf(out, size, "; B, measured in the same run, %.1f GB/s", high);
    else
        snprintf(out, size, "; B, measured in the same run, %.1f to %.1f GB/s", low, high);
}

static void bars_draw(const struct plot *plot) {
    const struct bench *bench = plot->bench;
    int count = 0;
    size_t longest = 0;
    for (int i = 0; i < bench->n_rows; i++) {
        char label[LABEL];
        if (!is_drawn(plot, &bench->rows[i])) continue;
        label_make(plot, &bench->rows[i], label);
        if (strlen(label) > longest) longest = strlen(label);
        count++;
    }
    const double left = MARGIN + (double)longest * CHAR_WIDTH + 10, full = WIDTH - left - 190;
    const double pitch = BAR_HEIGHT + ROW_GAP + (peer_name(plot) ? PEER_HEIGHT : 0);
    const double bottom = TITLE_HEIGHT + 10 + count * pitch;
    char subtitle[200];
    place_text(plot, subtitle, sizeof subtitle / 2);
    if (plot->kind != BENCH_PREFILL)
        bandwidth_text(plot, subtitle + strlen(subtitle), sizeof subtitle / 2);
    begin(plot, bottom + AXIS_HEIGHT + 2 * LEGEND_ROW,
          plot->kind == BENCH_PREFILL ? "Prompts: how near to the arithmetic peak"
                                      : "Decoding: how near to the speed of memory",
          subtitle);
    bars_axis(plot, left, bottom, full);
    double y = TITLE_HEIGHT + 10;
    for (int i = 0; i < bench->n_rows; i++) {
        if (!is_drawn(plot, &bench->rows[i])) continue;
        bar(plot, &bench->rows[i], left, y, full);
        y += pitch;
    }
    bars_legend(plot, left, bottom + AXIS_HEIGHT + LEGEND_ROW);
}

// ---------------------------------------------------------------- lines

struct scale {
    double left, right, top, bottom; // the area of the lines
    double x_max, y_max, y_step;
    bool log_x;
};

static double x_of(const struct scale *scale, int value) {
    const double share =
        scale->log_x ? log2((double)value) / log2(scale->x_max) : (double)value / scale->x_max;
    return scale->left + (scale->right - scale->left) * share;
}

static double y_of(const struct scale *scale, double value) {
    return scale->bottom - (scale->bottom - scale->top) * value / scale->y_max;
}

// 1, 2 or 5 times a power of ten: at most TICKS of them reach max.
static double nice_step(double max) {
    const double power = pow(10, floor(log10(max / TICKS)));
    const double steps[] = {1, 2, 5, 10};
    for (int i = 0; i < 4; i++)
        if (steps[i] * power * TICKS >= max) return steps[i] * power;
    return 10 * power;
}

static void scale_make(const struct plot *plot, struct scale *out) {
    double most = 0;
    out->x_max = 1;
    for (int i = 0; i < plot->bench->n_rows; i++) {
        const struct bench_row *row = &plot->bench->rows[i];
        struct bench_figures figures;
        if (!is_drawn(plot, row)) continue;
        bench_figures(row, &figures);
        most = fmax(most, figures.avg_ts);
        if (isfinite(figures.peer_ts)) most = fmax(most, figures.peer_ts);
        out->x_max = fmax(out->x_max, axis_value(plot, row));
    }
    out->log_x = plot->axis == AXIS_STREAMS || plot->axis == AXIS_THREADS;
    out->y_step = nice_step(most > 0 ? most : 1);
    out->y_max = ceil((most > 0 ? most : 1) / out->y_step) * out->y_step;
    out->left = MARGIN + 52;
    out->right = WIDTH - MARGIN - 16;
    out->top = TITLE_HEIGHT + 14;
    out->bottom = out->top + PLOT_HEIGHT;
}

// A label where there is room beside those that are there.
static void x_ticks(const struct plot *plot, const struct scale *scale) {
    double taken[2 * BENCH_MAX_LIST];
    int n_taken = 0;
    for (int i = 0; i < plot->bench->n_rows; i++) {
        if (!is_drawn(plot, &plot->bench->rows[i])) continue;
        const int value = axis_value(plot, &plot->bench->rows[i]);
        const double x = x_of(scale, value);
        bool room = n_taken < 2 * BENCH_MAX_LIST;
        for (int j = 0; j < n_taken; j++) room &= fabs(taken[j] - x) >= 6 * CHAR_WIDTH;
        if (!room) continue;
        char text[16];
        snprintf(text, sizeof text, "%d", value);
        taken[n_taken++] = x;
        line_at(plot->out, "axis", x, scale->bottom, x, scale->bottom + 5);
        text_at(plot->out, x, scale->bottom + 20, "middle", "dim", text);
    }
}

static const char *rate_unit(const struct plot *plot) {
    return plot->bench->ratios ? "times the speed without drafts" : "tokens/s";
}

static void axes_draw(const struct plot *plot, const struct scale *scale) {
    static const char *const names[] = {[AXIS_NONE] = "",
                                        [AXIS_DEPTH] = "tokens in the context",
                                        [AXIS_STREAMS] = "sequences decoded together",
                                        [AXIS_THREADS] = "threads",
                                        [AXIS_LENGTH] = "tokens of a draft"};
    for (double value = 0; value <= scale->y_max * 1.0001; value += scale->y_step) {
        char text[32];
        const double y = y_of(scale, value);
        snprintf(text, sizeof text, "%.6g", value);
        line_at(plot->out, value > 0 ? "grid" : "axis", scale->left, y, scale->right, y);
        text_at(plot->out, scale->left - 8, y + 4, "end", "dim", text);
    }
    x_ticks(plot, scale);
    text_at(plot->out, (scale->left + scale->right) / 2, scale->bottom + 42, "middle", "dim",
            names[plot->axis]);
    fprintf(plot->out,
            "<text transform=\"translate(%d %.1f) rotate(-90)\" text-anchor=\"middle\" "
            "class=\"dim\">%s</text>\n",
            MARGIN - 4, (scale->top + scale->bottom) / 2, rate_unit(plot));
}

static double row_rate(const struct bench_row *row, bool peer) {
    struct bench_figures figures;
    bench_figures(row, &figures);
    return peer ? figures.peer_ts : figures.avg_ts;
}

// Whether the row belongs to the line that the other begins.
static bool same_line(const struct plot *plot, const struct bench_row *a,
                      const struct bench_row *b) {
    char first[LABEL], second[LABEL];
    label_make(plot, a, first);
    label_make(plot, b, second);
    return !strcmp(first, second) && !strcmp(a->filename, b->filename);
}

// Points in the order of the axis, which need not be that of the rows.
static int line_rows(const struct plot *plot, const struct bench_row *head,
                     const struct bench_row **out) {
    int count = 0;
    for (int i = 0; i < plot->bench->n_rows; i++) {
        const struct bench_row *row = &plot->bench->rows[i];
        if (!is_drawn(plot, row) || !same_line(plot, head, row)) continue;
        int at = count++;
        for (; at > 0 && axis_value(plot, out[at - 1]) > axis_value(plot, row); at--)
            out[at] = out[at - 1];
        out[at] = row;
    }
    return count;
}

static void line_draw(const struct plot *plot, const struct scale *scale,
                      const struct bench_row *const *rows, int count, int colour, bool peer) {
    const char *dash = peer ? " dash" : "";
    fprintf(plot->out, "<polyline class=\"line line%d%s\" points=\"", colour % COLOURS, dash);
    for (int i = 0; i < count; i++)
        if (isfinite(row_rate(rows[i], peer)))
            fprintf(plot->out, "%.1f,%.1f ", x_of(scale, axis_value(plot, rows[i])),
                    y_of(scale, row_rate(rows[i], peer)));
    fputs("\"/>\n", plot->out);
    for (int i = 0; i < count; i++) {
        if (!isfinite(row_rate(rows[i], peer))) continue;
        fprintf(plot->out, "<circle class=\"fill%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\">",
                colour % COLOURS, x_of(scale, axis_value(plot, rows[i])),
                y_of(scale, row_rate(rows[i], peer)), peer ? 3 : 4);
        fprintf(plot->out, "<title>%d: %.2f %s</title></circle>\n", axis_value(plot, rows[i]),
                row_rate(rows[i], peer), rate_unit(plot));
    }
}

static void legend_line(const struct plot *plot, double y, int colour, bool peer,
                        const char *label) {
    fprintf(plot->out,
            "<line class=\"line line%d%s\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>\n",
            colour % COLOURS, peer ? " dash" : "", MARGIN + 52, y - 4, MARGIN + 80, y - 4);
    text_at(plot->out, MARGIN + 90, y, "start", "", label);
}

static bool begins_line(const struct plot *plot, int index) {
    if (!is_drawn(plot, &plot->bench->rows[index])) return false;
    for (int i = 0; i < index; i++)
        if (is_drawn(plot, &plot->bench->rows[i]) &&
            same_line(plot, &plot->bench->rows[i], &plot->bench->rows[index]))
            return false;
    return true;
}

static bool has_peer(const struct bench_row *const *rows, int count) {
    for (int i = 0; i < count; i++)
        if (isfinite(row_rate(rows[i], true))) return true;
    return false;
}

static int lines_draw(const struct plot *plot) {
    const struct bench *bench = plot->bench;
    const struct bench_row **rows = malloc((size_t)bench->n_rows * sizeof *rows);
    if (!rows) return app_fail(APP_FAILED, "out of memory");
    struct scale scale;
    char subtitle[160];
    int n_lines = 0;
    place_text(plot, subtitle, sizeof subtitle);
    scale_make(plot, &scale);
    for (int i = 0; i < bench->n_rows; i++) n_lines += begins_line(plot, i);
    const double legend = scale.bottom + AXIS_HEIGHT + LEGEND_ROW;
    const int legend_rows = n_lines * (peer_name(plot) ? 2 : 1);
    begin(plot, legend + legend_rows * LEGEND_ROW,
          bench->ratios                 ? "Decoding with drafts"
          : plot->kind == BENCH_PREFILL ? "Prompts: tokens per second"
                                        : "Decoding: tokens per second",
          subtitle);
    axes_draw(plot, &scale);
    double y = legend;
    for (int i = 0, colour = 0; i < bench->n_rows; i++) {
        char label[LABEL + 128];
        if (!begins_line(plot, i)) continue;
        const int count = line_rows(plot, &bench->rows[i], rows);
        line_draw(plot, &scale, rows, count, colour, false);
        label_make(plot, &bench->rows[i], label);
        legend_line(plot, y, colour, false, label);
        y += LEGEND_ROW;
        if (has_peer(rows, count)) {
            line_draw(plot, &scale, rows, count, colour, true);
            snprintf(label + strlen(label), 100, ": %s", peer_name(plot));
            legend_line(plot, y, colour, true, label);
            y += LEGEND_ROW;
        }
        colour++;
    }
    free(rows);
    return APP_OK;
}

// ---------------------------------------------------------------- file

int plot_check(const char *path) {
    const bool is_new = access(path, F_OK) != 0;
    FILE *file = fopen(path, "ab");
    if (!file)
        return app_fail(APP_USAGE, "--plot: '%s': %s", app_short(path).text, strerror(errno));
    fclose(file);
    if (is_new) unlink(path);
    return APP_OK;
}

int plot_write(const struct bench *bench, const char *path) {
    struct plot plot = {.out = fopen(path, "wb"), .bench = bench};
    if (!plot.out) return app_fail(APP_FAILED, "%s: %s", err_path(path), strerror(errno));
    plot_choose(bench, &plot);
    int code = APP_OK;
    if (plot.axis == AXIS_NONE)
        bars_draw(&plot);
    else
        code = lines_draw(&plot);
    fputs("</svg>\n", plot.out);
    errno = 0;
    const bool failed = ferror(plot.out) != 0;
    if ((fclose(plot.out) || failed) && !code)
        code = app_fail_write(err_path(path), errno ? errno : EIO);
    return code;
}
