// The SVG writer. Colours are CSS classes with a second set for dark viewers. All text is escaped;
// widths of text are estimated, since nothing here knows a font.
#include "bench/plot.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "tools.h"

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
};

// Plain properties only: many viewers know no CSS variables.
static const char style[] =
    "<style>\n"
    "  .back { fill: #ffffff; } svg { font-family: system-ui, sans-serif; font-size: 13px; }\n"
    "  text { fill: #1f2328; } .dim { fill: #59636e; }\n"
    "  .title { font-size: 16px; font-weight: 600; }\n"
    "  .grid { stroke: #e1e4e8; } .axis { stroke: #8c959f; } .track { fill: #f0f2f4; }\n"
    "  .peer { fill: #8c959f; }\n"
    "  .line { fill: none; stroke-width: 2; } .dash { stroke-dasharray: 5 4; }\n";
static const char style_dark[] =
    "  @media (prefers-color-scheme: dark) {\n"
    "  .back { fill: #15181d; } text { fill: #e6e9ed; } .dim { fill: #9aa4af; }\n"
    "  .grid { stroke: #2c323a; } .axis { stroke: #6b7580; } .track { fill: #20252c; }\n"
    "  .peer { fill: #7d8792; }\n";
static const char *const colours[2][COLOURS] = {{"#2468c8", "#d9591c", "#0d8f68", "#b07800",
                                                 "#c2457f", "#3f7d20", "#5b45b8", "#c93838"},
                                                {"#5b9bf3", "#f58a52", "#3cc497", "#e0ab33",
                                                 "#ee80b1", "#86c860", "#a191f5", "#f37474"}};

static void style_print(FILE *out) {
    for (int dark = 0; dark < 2; dark++) {
        fputs(dark ? style_dark : style, out);
        for (int i = 0; i < COLOURS; i++)
            fprintf(out, "  .fill%d { fill: %s; } .line%d { stroke: %s; }\n", i, colours[dark][i],
                    i, colours[dark][i]);
    }
    fputs("  }\n</style>\n", out);
}

// ---------------------------------------------------------------- marks

static void escaped(FILE *out, const char *text) {
    static const char special[] = "&<>\"";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
    struct text valid;
    if (!text_sound(text, strlen(text), &valid)) return;
    for (const char *c = valid.data; *c; c++) {
        const char *at = strchr(special, *c);
        if (at)
            fputs(names[at - special], out);
        else
            fputc((unsigned char)*c < 0x20 ? ' ' : *c, out);
    }
    text_free(&valid);
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

static void rect_at(FILE *out, const char *class, double x, double y, double width, int height) {
    fprintf(out,
            "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>\n",
            class, x, y, width, height);
}

static void head_print(FILE *out, const struct plot *plot, double height) {
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
            "viewBox=\"0 0 %d %.0f\" role=\"img\">\n<title>",
            WIDTH, height, WIDTH, height);
    escaped(out, plot->title);
    fputs("</title>\n", out);
    style_print(out);
    fputs("<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n", out);
    text_at(out, MARGIN, 28, "start", "title", plot->title);
    text_at(out, MARGIN, 48, "start", "dim", plot->subtitle);
}

// ---------------------------------------------------------------- bars

static void bar(FILE *out, const struct plot_item *item, double left, double y, double full) {
    char value[96];
    text_at(out, left - 10, y + 13, "end", "", item->label);
    rect_at(out, "track", left, y, full, BAR_HEIGHT);
    rect_at(out, "fill0", left, y, full * fmin(item->share, 1), BAR_HEIGHT);
    snprintf(value, sizeof value, "%.1f%%, %.1f tokens/s", 100 * item->share, item->y);
    text_at(out, left + full + 10, y + 13, "start", "", value);
    if (!isfinite(item->peer_share)) return;
    snprintf(value, sizeof value, "%.1f tokens/s", item->peer);
    text_at(out, left + full + 10, y + 29, "start", "dim", value);
    rect_at(out, "peer", left, y + BAR_HEIGHT + 2, full * fmin(item->peer_share, 1), PEER_HEIGHT);
}

static void bars_draw(FILE *out, const struct plot *plot) {
    size_t longest = 0;
    for (int i = 0; i < plot->n; i++)
        if (strlen(plot->item[i].label) > longest) longest = strlen(plot->item[i].label);
    const double left = MARGIN + (double)longest * CHAR_WIDTH + 10, full = WIDTH - left - 190;
    const double pitch = BAR_HEIGHT + ROW_GAP + (plot->peer_name ? PEER_HEIGHT : 0);
    const double top = TITLE_HEIGHT + 10, bottom = top + plot->n * pitch;
    const double legend = bottom + AXIS_HEIGHT + LEGEND_ROW;
    head_print(out, plot, legend + LEGEND_ROW);
    for (int i = 0; i <= 4; i++) {
        char percent[16];
        const double x = left + full * i / 4;
        snprintf(percent, sizeof percent, "%d%%", 25 * i);
        line_at(out, "grid", x, TITLE_HEIGHT, x, bottom);
        text_at(out, x, bottom + 18, "middle", "dim", percent);
    }
    text_at(out, left + full / 2, bottom + 38, "middle", "dim", plot->x_name);
    for (int i = 0; i < plot->n; i++) bar(out, &plot->item[i], left, top + i * pitch, full);
    rect_at(out, "fill0", left, legend - 11, 12, 12);
    text_at(out, left + 18, legend, "start", "", "runnel");
    if (!plot->peer_name) return;
    rect_at(out, "peer", left + 90, legend - 11, 12, 12);
    text_at(out, left + 108, legend, "start", "", plot->peer_name);
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

static struct scale scale_make(const struct plot *plot) {
    double most = 0, x_max = 1;
    for (int i = 0; i < plot->n; i++) {
        most = fmax(most, fmax(plot->item[i].y, plot->item[i].peer)); // fmax leaves NaN out
        x_max = fmax(x_max, plot->item[i].x);
    }
    const double step = nice_step(most > 0 ? most : 1), top = TITLE_HEIGHT + 14;
    return (struct scale){.left = MARGIN + 52,
                          .right = WIDTH - MARGIN - 16,
                          .top = top,
                          .bottom = top + PLOT_HEIGHT,
                          .x_max = x_max,
                          .y_max = ceil((most > 0 ? most : 1) / step) * step,
                          .y_step = step,
                          .log_x = plot->log_x};
}

static void axes_draw(FILE *out, const struct plot *plot, const struct scale *scale) {
    char text[32];
    for (double value = 0; value <= scale->y_max * 1.0001; value += scale->y_step) {
        const double y = y_of(scale, value);
        snprintf(text, sizeof text, "%.6g", value);
        line_at(out, value > 0 ? "grid" : "axis", scale->left, y, scale->right, y);
        text_at(out, scale->left - 8, y + 4, "end", "dim", text);
    }
    for (int i = 0; i < plot->n; i++) { // a label where there is room beside those before
        const double x = x_of(scale, plot->item[i].x);
        bool room = true;
        for (int j = 0; j < i; j++)
            room &= fabs(x_of(scale, plot->item[j].x) - x) >= 6 * CHAR_WIDTH;
        if (!room) continue;
        snprintf(text, sizeof text, "%d", plot->item[i].x);
        line_at(out, "axis", x, scale->bottom, x, scale->bottom + 5);
        text_at(out, x, scale->bottom + 20, "middle", "dim", text);
    }
    text_at(out, (scale->left + scale->right) / 2, scale->bottom + 42, "middle", "dim",
            plot->x_name);
    fprintf(out,
            "<text transform=\"translate(%d %.1f) rotate(-90)\" text-anchor=\"middle\" "
            "class=\"dim\">%s</text>\n",
            MARGIN - 4, (scale->top + scale->bottom) / 2, plot->y_name);
}

// The line of the items, or of their peers; false: none of them has one.
static bool line_draw(FILE *out, const struct plot *plot, const struct scale *scale, int first,
                      int end, bool peer) {
    const int colour = plot->item[first].line % COLOURS;
    int drawn = 0;
    for (int i = first; i < end; i++) {
        const double y = peer ? plot->item[i].peer : plot->item[i].y;
        if (!isfinite(y)) continue;
        if (!drawn++)
            fprintf(out, "<polyline class=\"line line%d%s\" points=\"", colour,
                    peer ? " dash" : "");
        fprintf(out, "%.1f,%.1f ", x_of(scale, plot->item[i].x), y_of(scale, y));
    }
    if (!drawn) return false;
    fputs("\"/>\n", out);
    for (int i = first; i < end; i++) {
        const double y = peer ? plot->item[i].peer : plot->item[i].y;
        if (!isfinite(y)) continue;
        fprintf(out,
                "<circle class=\"fill%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\">"
                "<title>%d: %.2f %s</title></circle>\n",
                colour, x_of(scale, plot->item[i].x), y_of(scale, y), peer ? 3 : 4, plot->item[i].x,
                y, plot->y_name);
    }
    return true;
}

static void legend_draw(FILE *out, double y, int line, const char *label, const char *peer) {
    char class[32], text[PLOT_LABEL + 128];
    snprintf(class, sizeof class, "line line%d%s", line % COLOURS, peer ? " dash" : "");
    snprintf(text, sizeof text, "%s%s%.100s", label, peer ? ": " : "", peer ? peer : "");
    line_at(out, class, MARGIN + 52, y - 4, MARGIN + 80, y - 4);
    text_at(out, MARGIN + 90, y, "start", "", text);
}

static void lines_draw(FILE *out, const struct plot *plot) {
    const struct scale scale = scale_make(plot);
    const int n_lines = plot->item[plot->n - 1].line + 1;
    double y = scale.bottom + AXIS_HEIGHT + LEGEND_ROW;
    head_print(out, plot, y + n_lines * (plot->peer_name ? 2 : 1) * LEGEND_ROW);
    axes_draw(out, plot, &scale);
    for (int first = 0, end; first < plot->n; first = end) {
        const struct plot_item *item = &plot->item[first];
        for (end = first; end < plot->n && plot->item[end].line == item->line;) end++;
        line_draw(out, plot, &scale, first, end, false);
        legend_draw(out, y, item->line, item->label, NULL);
        y += LEGEND_ROW;
        if (!line_draw(out, plot, &scale, first, end, true)) continue;
        legend_draw(out, y, item->line, item->label, plot->peer_name);
        y += LEGEND_ROW;
    }
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

int plot_write(const struct plot *plot, const char *path) {
    FILE *out = fopen(path, "wb");
    if (!out) return app_fail(APP_FAILED, "%s: %s", err_path(path), strerror(errno));
    (plot->bars ? bars_draw : lines_draw)(out, plot);
    fputs("</svg>\n", out);
    errno = 0;
    const bool failed = ferror(out) != 0;
    if (fclose(out) || failed) return app_fail_write(err_path(path), errno ? errno : EIO);
    return APP_OK;
}
