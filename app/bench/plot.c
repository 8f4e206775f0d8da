// The SVG writer. Colours are CSS classes with a second set for dark viewers. All text is escaped;
// widths of text are estimated, since nothing here knows a font.
#include "bench/plot.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "tools.h"

// Pixels. CHAR_WIDTH is that of a letter of 13 pixels, on average.
enum {
    WIDTH = 860,
    MARGIN = 24,
    CHAR_WIDTH = 7,
    TITLE_HEIGHT = 58,
    BAR_HEIGHT = 16,
    PEER_HEIGHT = 7
};
enum { ROW_GAP = 12, AXIS_HEIGHT = 46, PLOT_HEIGHT = 340, LEGEND_ROW = 20, TICKS = 5, COLOURS = 8 };

// Plain properties only: many viewers know no CSS variables.
static const char style[] =
    "<style>\n"
    "  .back { fill: #ffffff; } svg { font-family: system-ui, sans-serif; font-size: 13px; }\n"
    "  text { fill: #1f2328; } .dim { fill: #59636e; }\n"
    "  .middle { text-anchor: middle; } .end { text-anchor: end; }\n"
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

__attribute__((format(printf, 5, 6))) static void text_at(FILE *out, double x, double y,
                                                          const char *class, const char *fmt, ...) {
    char text[2 * PLOT_LABEL];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
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
            "viewBox=\"0 0 %d %.0f\" role=\"img\">\n<title>%s</title>\n",
            WIDTH, height, WIDTH, height, plot->title);
    style_print(out);
    fputs("<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n", out);
    text_at(out, MARGIN, 28, "title", "%s", plot->title);
    text_at(out, MARGIN, 48, "dim", "%s", plot->subtitle);
}

// ---------------------------------------------------------------- bars

static void bar(FILE *out, const struct plot_item *item, double left, double y, double full) {
    text_at(out, left - 10, y + 13, "end", "%s", item->label);
    rect_at(out, "track", left, y, full, BAR_HEIGHT);
    rect_at(out, "fill0", left, y, full * fmin(item->share, 1), BAR_HEIGHT);
    text_at(out, left + full + 10, y + 13, "", "%.1f%%, %.1f tokens/s", 100 * item->share, item->y);
    if (!isfinite(item->peer_share)) return;
    text_at(out, left + full + 10, y + 29, "dim", "%.1f tokens/s", item->peer);
    rect_at(out, "peer", left, y + BAR_HEIGHT + 2, full * fmin(item->peer_share, 1), PEER_HEIGHT);
}

static void bars_draw(FILE *out, const struct plot *plot) {
    double longest = 0;
    for (int i = 0; i < plot->n; i++) longest = fmax(longest, (double)strlen(plot->item[i].label));
    const double left = MARGIN + longest * CHAR_WIDTH + 10, full = WIDTH - left - 190;
    const double pitch = BAR_HEIGHT + ROW_GAP + (plot->peer_name ? PEER_HEIGHT : 0);
    const double top = TITLE_HEIGHT + 10, bottom = top + plot->n * pitch;
    const double legend = bottom + AXIS_HEIGHT + LEGEND_ROW;
    head_print(out, plot, legend + LEGEND_ROW);
    for (int i = 0; i <= 4; i++) {
        const double x = left + full * i / 4;
        line_at(out, "grid", x, TITLE_HEIGHT, x, bottom);
        text_at(out, x, bottom + 18, "dim middle", "%d%%", 25 * i);
    }
    text_at(out, left + full / 2, bottom + 38, "dim middle", "%s", plot->x_name);
    for (int i = 0; i < plot->n; i++) bar(out, &plot->item[i], left, top + i * pitch, full);
    rect_at(out, "fill0", left, legend - 11, 12, 12);
    text_at(out, left + 18, legend, "", "runnel");
    if (!plot->peer_name) return;
    rect_at(out, "peer", left + 90, legend - 11, 12, 12);
    text_at(out, left + 108, legend, "", "%s", plot->peer_name);
}

// ---------------------------------------------------------------- lines

static const double lines_left = MARGIN + 52, lines_right = WIDTH - MARGIN - 16,
                    lines_top = TITLE_HEIGHT + 14, lines_bottom = TITLE_HEIGHT + 14 + PLOT_HEIGHT;

// From min to max; a logarithmic axis has a min above 0, other axes start at 0.
struct axis {
    double min, max, step;
    bool is_log;
};

struct scale {
    struct axis x, y;
};

static double axis_share(const struct axis *axis, double value) {
    return axis->is_log ? log(value / axis->min) / log(axis->max / axis->min) : value / axis->max;
}

static double x_of(const struct scale *scale, double value) {
    return lines_left + (lines_right - lines_left) * axis_share(&scale->x, value);
}

static double y_of(const struct scale *scale, double value) {
    return lines_bottom - (lines_bottom - lines_top) * axis_share(&scale->y, value);
}

// The step of y is 1, 2 or 5 times a power of ten; at most TICKS steps reach the largest value.
static void steps_make(struct axis *y, double most) {
    static const double steps[] = {1, 2, 5, 10};
    if (!(most > 0)) most = 1;
    const double power = pow(10, floor(log10(most / TICKS)));
    for (int i = 3; i >= 0; i--)
        if (steps[i] * power * TICKS >= most || i == 3) y->step = steps[i] * power;
    y->max = ceil(most / y->step) * y->step;
}

// A logarithmic y has whole powers of ten, and x what the items have.
static struct scale scale_make(const struct plot *plot) {
    struct scale scale = {.x = {.min = INFINITY, .max = 1, .is_log = plot->log_x},
                          .y = {.min = INFINITY, .is_log = plot->log_y}};
    double most = 0;
    for (int i = 0; i < plot->n; i++) {
        const struct plot_item *item = &plot->item[i];
        most = fmax(most, fmax(item->y, item->peer)); // fmax leaves NaN out
        scale.y.min = fmin(scale.y.min, fmin(item->y, item->peer));
        scale.x.max = fmax(scale.x.max, item->x);
        scale.x.min = fmin(scale.x.min, item->x);
    }
    if (scale.x.min == scale.x.max) scale.x.max *= 2;
    if (!plot->log_y) {
        steps_make(&scale.y, most);
        return scale;
    }
    scale.y.min = pow(10, floor(log10(scale.y.min)));
    scale.y.max = fmax(pow(10, ceil(log10(most))), 10 * scale.y.min);
    scale.y.step = 10;
    return scale;
}

static double tick_first(const struct axis *axis) { return axis->is_log ? axis->min : 0; }

static double tick_next(const struct axis *axis, double value) {
    return axis->is_log ? value * axis->step : value + axis->step;
}

static void axes_draw(FILE *out, const struct plot *plot, const struct scale *scale) {
    const struct axis *axis = &scale->y;
    for (double value = tick_first(axis); value <= axis->max * 1.0001;
         value = tick_next(axis, value)) {
        const double y = y_of(scale, value);
        line_at(out, value > tick_first(axis) ? "grid" : "axis", lines_left, y, lines_right, y);
        text_at(out, lines_left - 8, y + 4, "dim end", "%.6g", value);
    }
    for (double x = pow(10, ceil(log10(scale->x.min))); plot->log_y && x <= scale->x.max; x *= 10) {
        line_at(out, "grid", x_of(scale, x), lines_top, x_of(scale, x), lines_bottom);
        text_at(out, x_of(scale, x), lines_bottom + 20, "dim middle", "%.6g", x);
    }
    // a label where there is room beside those before
    for (int i = 0; i < plot->n && !plot->log_y; i++) {
        const double x = x_of(scale, plot->item[i].x);
        bool room = true;
        for (int j = 0; j < i; j++)
            room &= fabs(x_of(scale, plot->item[j].x) - x) >= 6 * CHAR_WIDTH;
        if (!room) continue;
        line_at(out, "axis", x, lines_bottom, x, lines_bottom + 5);
        text_at(out, x, lines_bottom + 20, "dim middle", "%.6g", plot->item[i].x);
    }
    text_at(out, (lines_left + lines_right) / 2, lines_bottom + 42, "dim middle", "%s",
            plot->x_name);
    fprintf(out,
            "<text transform=\"translate(%d %.1f) rotate(-90)\" class=\"dim middle\">%s</text>\n",
            MARGIN - 4, (lines_top + lines_bottom) / 2, plot->y_name);
}

// The line of the items, or of their peers, with its entry in the legend; false: it has no points.
static bool line_draw(FILE *out, const struct plot *plot, const struct scale *scale, int first,
                      int end, bool peer, double legend) {
    const struct plot_item *item = plot->item;
    const int colour = item[first].line % COLOURS;
    char class[32];
    int drawn = 0;
    snprintf(class, sizeof class, "line line%d%s", colour, peer ? " dash" : "");
    for (int i = first; i < end; i++) {
        const double value = peer ? item[i].peer : item[i].y;
        if (!isfinite(value)) continue;
        if (!drawn++) fprintf(out, "<polyline class=\"%s\" points=\"", class);
        fprintf(out, "%.1f,%.1f ", x_of(scale, item[i].x), y_of(scale, value));
    }
    if (!drawn) return false;
    fputs("\"/>\n", out);
    for (int i = first; i < end; i++) {
        const double value = peer ? item[i].peer : item[i].y;
        if (!isfinite(value)) continue;
        fprintf(out, "<circle class=\"fill%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\">", colour,
                x_of(scale, item[i].x), y_of(scale, value), peer ? 3 : 4);
        fprintf(out, "<title>%.6g: %.2f %s</title></circle>\n", item[i].x, value, plot->y_name);
        if (!peer && item[i].point[0])
            text_at(out, x_of(scale, item[i].x), y_of(scale, value) + (plot->log_y ? 19 : -9),
                    "dim middle", "%s", item[i].point);
    }
    line_at(out, class, MARGIN + 52, legend - 4, MARGIN + 80, legend - 4);
    text_at(out, MARGIN + 90, legend, "", "%s%s%s", item[first].label, peer ? ": " : "",
            peer ? plot->peer_name : "");
    return true;
}

static void lines_draw(FILE *out, const struct plot *plot) {
    const struct scale scale = scale_make(plot);
    const int n_lines = plot->item[plot->n - 1].line + 1;
    double legend = lines_bottom + AXIS_HEIGHT + LEGEND_ROW;
    head_print(out, plot, legend + n_lines * (plot->peer_name ? 2 : 1) * LEGEND_ROW);
    axes_draw(out, plot, &scale);
    for (int first = 0, end = 0; first < plot->n; first = end) {
        while (end < plot->n && plot->item[end].line == plot->item[first].line) end++;
        for (int peer = 0; peer < 2; peer++)
            if (line_draw(out, plot, &scale, first, end, peer, legend)) legend += LEGEND_ROW;
    }
}

int plot_check(const char *option, const char *path) {
    const bool is_new = access(path, F_OK) != 0;
    FILE *file = fopen(path, "ab");
    if (!file)
        return app_fail(APP_USAGE, "%s: '%s': %s", option, app_short(path).text, strerror(errno));
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
