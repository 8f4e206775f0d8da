// Words wrap at the width, bars take the columns beside the labels. The strip shows the time from
// submit to the last token: blocks before the first token are in the order in which a request
// waits, with its own prompt last; later ones are the account's spans. Without colour every cause
// has a letter instead.
#include "explain/picture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/split.h"
#include "record/words.h"
#include "terminal/term.h"

enum { COLUMNS_MIN = 32, COLUMNS_MAX = 100, BAR_MIN = 4, BAR_MAX = 40, MARGIN = 2 };

// A letter and a colour (of 256) for each cause; the page has the same colours.
static const struct {
    char letter;
    int color;
} look[RN_CAUSE_COUNT] = {
    [RN_CAUSE_NONE] = {'.', 244},      [RN_CAUSE_WEIGHTS] = {'w', 109},
    [RN_CAUSE_KV] = {'k', 67},         [RN_CAUSE_STREAMS] = {'s', 37},
    [RN_CAUSE_OWN_PROMPT] = {'p', 35}, [RN_CAUSE_PROMPTS] = {'P', 214},
    [RN_CAUSE_QUEUE] = {'q', 250},     [RN_CAUSE_PAGES] = {'g', 139},
    [RN_CAUSE_PREEMPTED] = {'x', 166}, [RN_CAUSE_DRAFTS] = {'d', 136},
    [RN_CAUSE_CHOICE] = {'c', 117},    [RN_CAUSE_HOST] = {'h', 104},
    [RN_CAUSE_READER] = {'r', 175},    [RN_CAUSE_SLOWER] = {'!', 160},
    [RN_CAUSE_STORE] = {'t', 31},
};

struct picture picture_on(FILE *out, const struct term *term) {
    const bool is_out = out == stdout;
    int columns = term_columns(is_out ? STDOUT_FILENO : STDERR_FILENO);
    if (columns > COLUMNS_MAX) columns = COLUMNS_MAX;
    if (columns < COLUMNS_MIN) columns = COLUMNS_MIN;
    return (struct picture){.out = out,
                            .columns = columns,
                            .color = is_out ? term->out_color : term->err_color,
                            .utf8 = term->utf8};
}

// ---------------------------------------------------------------- words

// The sentences are plain ASCII except for names, which do not occur in them. The mark is before
// the first line; the others are as far right.
static void wrap(const struct picture *picture, const char *text, size_t len, const char *mark) {
    const int margin = MARGIN + (int)strlen(mark);
    int column = fprintf(picture->out, "%*s%s", MARGIN, "", mark);
    for (size_t at = 0; at < len;) {
        size_t word = at;
        while (word < len && text[word] != ' ') word++;
        const int n = (int)(word - at);
        if (column > margin && column + 1 + n > picture->columns)
            column = fprintf(picture->out, "\n%*s", margin, "") - 1;
        column += fprintf(picture->out, "%s%.*s", column > margin ? " " : "", n, text + at);
        at = word + 1;
    }
    fputc('\n', picture->out);
}

static bool print_lines(const struct picture *picture, const struct jbuf *lines, const char *mark) {
    for (size_t at = 0; at < lines->len;) {
        const char *end = memchr(lines->data + at, '\n', lines->len - at);
        const size_t n = end ? (size_t)(end - lines->data) - at : lines->len - at;
        wrap(picture, lines->data + at, n, mark);
        at += n + 1;
    }
    return !lines->failed;
}

// ---------------------------------------------------------------- bars

static void cells(const struct picture *picture, rn_cause cause, int n) {
    if (n <= 0) return;
    if (picture->color) fprintf(picture->out, "\033[38;5;%dm", look[cause].color);
    for (int i = 0; i < n; i++) {
        if (picture->color && picture->utf8)
            fputs("█", picture->out);
        else
            fputc(look[cause].letter, picture->out);
    }
    if (picture->color) fputs("\033[0m", picture->out);
}

static const char other_label[] = "other"; // tiny parts together

static int label_width(const struct split *split, uint64_t ns) {
    int width = (int)strlen(other_label);
    for (int i = 0; i < split->n; i++) {
        if (split_is_tiny(split->part[i].ns, ns)) continue;
        const int len = (int)strlen(rn_cause_text(split->part[i].cause));
        if (len > width) width = len;
    }
    return width;
}

struct chart {
    struct split_scale scale;
    int label, total, bar; // columns of a row's parts; bar below BAR_MIN: there is none
};

// n: cells of the bar.
static void chart_row(const struct picture *picture, const struct chart *chart, const char *label,
                      uint64_t units, uint64_t percent, rn_cause cause, int n) {
    char text[SPLIT_TEXT_BYTES];
    fprintf(picture->out, "%*s%-*s  %*s  %3llu%%", 2 * MARGIN, "", chart->label, label,
            chart->total, split_text(&chart->scale, units, text), (unsigned long long)percent);
    if (n && chart->bar >= BAR_MIN) {
        fputs("  ", picture->out);
        cells(picture, cause, n);
    }
    fputc('\n', picture->out);
}

static void chart_rows(const struct picture *picture, const struct chart *chart,
                       const struct split *time, const struct split *percent, uint64_t ns) {
    uint64_t units = 0, percents = 0; // of tiny parts
    for (int i = 0; i < time->n; i++) {
        const struct split_part *part = &time->part[i];
        if (!part->units || split_is_tiny(part->ns, ns)) {
            units += part->units;
            percents += percent->part[i].units;
            continue;
        }
        const int n = (int)((double)part->ns * chart->bar / (double)ns + 0.5);
        chart_row(picture, chart, rn_cause_text(part->cause), part->units, percent->part[i].units,
                  part->cause, n ? n : 1);
    }
    if (units || percents)
        chart_row(picture, chart, other_label, units, percents, RN_CAUSE_NONE, 0);
}

// A row for each cause: label, time, percent, bar.
static void bars(const struct picture *picture, const char *title, const rn_share *share) {
    if (!share->ns) return;
    struct chart chart = {.scale = split_scale(share->ns)};
    struct split time, percent;
    char text[SPLIT_TEXT_BYTES];
    split_time(&time, share, chart.scale.unit_ns);
    split_percent(&percent, share);
    chart.total = (int)strlen(split_text(&chart.scale, time.units, text));
    chart.label = label_width(&time, share->ns);
    const int room = picture->columns - (2 * MARGIN + chart.label + 2 + chart.total + 2 + 4 + 2);
    chart.bar = room > BAR_MAX ? BAR_MAX : room;
    fprintf(picture->out, "\n%*s%s%s, %s%s\n", MARGIN, "", term_bold(picture->color), title, text,
            term_reset(picture->color));
    chart_rows(picture, &chart, &time, &percent, share->ns);
}

// ---------------------------------------------------------------- the strip

struct strip {
    rn_cause *cell;            // [width]
    int width, mark;           // mark: cells before the first token
    double ns_per_cell, at_ns; // at_ns: that is drawn so far
    bool used[RN_CAUSE_COUNT];
};

// A cell shows the cause at its middle.
static void strip_add(struct strip *strip, rn_cause cause, double ns) {
    const double end = strip->at_ns + ns;
    for (int i = 0; i < strip->width; i++) {
        const double middle = ((double)i + 0.5) * strip->ns_per_cell;
        if (middle >= strip->at_ns && middle < end) strip->cell[i] = cause;
    }
    strip->at_ns = end;
}

// Tiny parts are left out; the others take their room.
static void strip_first(struct strip *strip, const rn_share *first) {
    // the order in which a request meets them
    static const rn_cause order[] = {RN_CAUSE_QUEUE,   RN_CAUSE_PAGES,     RN_CAUSE_PREEMPTED,
                                     RN_CAUSE_STORE,   RN_CAUSE_PROMPTS,   RN_CAUSE_READER,
                                     RN_CAUSE_HOST,    RN_CAUSE_STREAMS,   RN_CAUSE_SLOWER,
                                     RN_CAUSE_DRAFTS,  RN_CAUSE_CHOICE,    RN_CAUSE_KV,
                                     RN_CAUSE_WEIGHTS, RN_CAUSE_OWN_PROMPT};
    double drawn = 0;
    for (int i = 0; i < RN_CAUSE_COUNT; i++)
        if (!split_is_tiny(first->cause_ns[i], first->ns)) drawn += (double)first->cause_ns[i];
    const double stretch = drawn > 0 ? (double)first->ns / drawn : 0;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const uint64_t ns = first->cause_ns[order[i]];
        if (!split_is_tiny(ns, first->ns)) strip_add(strip, order[i], (double)ns * stretch);
    }
    // however short it is beside the rest
    const uint64_t own = first->cause_ns[RN_CAUSE_OWN_PROMPT];
    if (strip->mark && own && !split_is_tiny(own, first->ns))
        strip->cell[strip->mark - 1] = RN_CAUSE_OWN_PROMPT;
    strip->at_ns = (double)first->ns;
}

static void strip_fill(struct strip *strip, const rn_account *account) {
    strip_first(strip, &account->first);
    for (int i = 0; i < account->n_spans; i++) {
        // the first span may reach back to the submit
        const rn_span *span = &account->span[i];
        const uint64_t since = span->end_ns - (span->ns < span->end_ns ? span->ns : span->end_ns);
        const uint64_t from = since > account->first_ns ? since : account->first_ns;
        if (span->end_ns > from)
            strip_add(strip, (rn_cause)span->cause, (double)(span->end_ns - from));
    }
    for (int i = 0; i < strip->width; i++) strip->used[strip->cell[i]] = true;
}

static void strip_legend(const struct picture *picture, const struct strip *strip) {
    int column = 0;
    for (int i = RN_CAUSE_NONE + 1; i < RN_CAUSE_COUNT; i++) {
        if (!strip->used[i]) continue;
        const char *text = rn_cause_text((rn_cause)i);
        const int n = MARGIN + 2 + (int)strlen(text);
        if (column && column + n > picture->columns) {
            fputc('\n', picture->out);
            column = 0;
        }
        fprintf(picture->out, "%*s", MARGIN, "");
        cells(picture, (rn_cause)i, 1);
        fprintf(picture->out, " %s", text);
        column += n;
    }
    if (column) fputc('\n', picture->out);
}

static bool print_strip(const struct picture *picture, const rn_account *account) {
    const uint64_t total = account->first.ns + account->decode.ns;
    struct strip strip = {.width = picture->columns - 2 * MARGIN};
    if (!total) return true;
    strip.cell = calloc((size_t)strip.width, sizeof *strip.cell);
    if (!strip.cell) return false;
    strip.ns_per_cell = (double)total / strip.width;
    strip.mark = (int)((double)account->first.ns / strip.ns_per_cell + 0.5);
    strip_fill(&strip, account);
    fprintf(picture->out, "\n%*s", MARGIN, "");
    for (int i = 0; i < strip.width;) {
        int n = 1;
        while (i + n < strip.width && strip.cell[i + n] == strip.cell[i]) n++;
        cells(picture, strip.cell[i], n);
        i += n;
    }
    const int mark = strip.mark;
    const struct split_scale scale = split_scale(total);
    char text[SPLIT_TEXT_BYTES];
    split_text(&scale, (total + scale.unit_ns / 2) / scale.unit_ns, text);
    fputc('\n', picture->out);
    if (account->first_ns && mark + 16 + (int)strlen(text) < strip.width) {
        fprintf(picture->out, "%*s^ first token%*s\n", MARGIN + mark, "", strip.width - mark - 13,
                text);
    } else {
        fprintf(picture->out, "%*s\n", MARGIN + strip.width, text);
    }
    strip_legend(picture, &strip);
    free(strip.cell);
    return true;
}

// ---------------------------------------------------------------- the whole

static bool print_choice(const struct picture *picture, const struct record *record,
                         const struct record_choice *choice) {
    struct jbuf lines = {0};
    words_write(&lines, record, choice);
    bool ok = print_lines(picture, &lines, "");
    jbuf_clear(&lines);
    words_advise(&lines, record, choice);
    if (ok && lines.len) {
        fputc('\n', picture->out);
        ok = print_lines(picture, &lines, "-> ");
    }
    jbuf_deinit(&lines);
    bars(picture, "to first token", &choice->account.first);
    bars(picture, "between tokens", &choice->account.decode);
    return ok && print_strip(picture, &choice->account);
}

bool picture_print(const struct picture *picture, const struct record *record) {
    bool ok = true;
    for (int i = 0; ok && i < record->n_choices; i++) {
        if (i) fputc('\n', picture->out);
        if (record->n > 1)
            fprintf(picture->out, "%*s%schoice %d of %d%s\n", MARGIN, "", term_bold(picture->color),
                    record->choice[i].index + 1, record->n, term_reset(picture->color));
        ok = print_choice(picture, record, &record->choice[i]);
    }
    return ok;
}
