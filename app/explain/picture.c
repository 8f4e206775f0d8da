// Words wrap at the width, bars take the columns beside the labels. The strip shows the time from
// submit to the last token: blocks before the first token are in the order in which a request
// waits, later ones are the account's spans. Without colour every cause has a letter instead.
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

static int label_width(const struct split *split) {
    int width = 0;
    for (int i = 0; i < split->n; i++) {
        const int len = (int)strlen(rn_cause_text(split->part[i].cause));
        if (len > width) width = len;
    }
    return width;
}

// A row for each cause: label, time, percent, bar.
static void bars(const struct picture *picture, const char *title, const rn_share *share) {
    if (!share->ns) return;
    const struct split_scale scale = split_scale(share->ns);
    struct split time, percent;
    char text[SPLIT_TEXT_BYTES];
    split_time(&time, share, scale.unit_ns);
    split_percent(&percent, share);
    const int total = (int)strlen(split_text(&scale, time.units, text));
    const int label = label_width(&time);
    const int room = picture->columns - (2 * MARGIN + label + 2 + total + 2 + 4 + 2);
    const int width = room > BAR_MAX ? BAR_MAX : room;
    fprintf(picture->out, "\n%*s%s%s, %s%s\n", MARGIN, "", term_bold(picture->color), title, text,
            term_reset(picture->color));
    for (int i = 0; i < time.n; i++) {
        const struct split_part *part = &time.part[i];
        if (!part->units) continue;
        fprintf(picture->out, "%*s%-*s  %*s  %3llu%%", 2 * MARGIN, "", label,
                rn_cause_text(part->cause), total, split_text(&scale, part->units, text),
                (unsigned long long)percent.part[i].units);
        if (width >= BAR_MIN) {
            const double exact = (double)part->ns * width / (double)share->ns;
            const int n = (int)(exact + 0.5);
            fputs("  ", picture->out);
            cells(picture, part->cause, n ? n : 1);
        }
        fputc('\n', picture->out);
    }
}

// ---------------------------------------------------------------- the strip

struct strip {
    rn_cause *cell; // [width]
    int width;
    double ns_per_cell, at_ns; // at_ns: that is drawn so far
    bool used[RN_CAUSE_COUNT];
};

// A cell shows the cause at its middle.
static void strip_add(struct strip *strip, rn_cause cause, uint64_t ns) {
    const double end = strip->at_ns + (double)ns;
    for (int i = 0; i < strip->width; i++) {
        const double middle = ((double)i + 0.5) * strip->ns_per_cell;
        if (middle < strip->at_ns || middle >= end) continue;
        strip->cell[i] = cause;
        strip->used[cause] = true;
    }
    strip->at_ns = end;
}

static void strip_fill(struct strip *strip, const rn_account *account) {
    // the order in which a request meets them; the rest follows by size
    static const rn_cause order[] = {RN_CAUSE_QUEUE, RN_CAUSE_PAGES, RN_CAUSE_PREEMPTED,
                                     RN_CAUSE_PROMPTS, RN_CAUSE_OWN_PROMPT};
    bool done[RN_CAUSE_COUNT] = {0};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        strip_add(strip, order[i], account->first.cause_ns[order[i]]);
        done[order[i]] = true;
    }
    for (int i = 0; i < RN_CAUSE_COUNT; i++)
        if (!done[i]) strip_add(strip, (rn_cause)i, account->first.cause_ns[i]);
    for (int i = 0; i < account->n_spans; i++) {
        // the first span may reach back to the submit
        const rn_span *span = &account->span[i];
        const uint64_t since = span->end_ns - (span->ns < span->end_ns ? span->ns : span->end_ns);
        const uint64_t from = since > account->first_ns ? since : account->first_ns;
        if (span->end_ns > from) strip_add(strip, (rn_cause)span->cause, span->end_ns - from);
    }
}

static void strip_legend(const struct picture *picture, const struct strip *strip) {
    int column = 0;
    for (int i = 0; i < RN_CAUSE_COUNT; i++) {
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
    strip_fill(&strip, account);
    fprintf(picture->out, "\n%*s", MARGIN, "");
    for (int i = 0; i < strip.width;) {
        int n = 1;
        while (i + n < strip.width && strip.cell[i + n] == strip.cell[i]) n++;
        cells(picture, strip.cell[i], n);
        i += n;
    }
    // where the first token is
    const int mark = (int)((double)account->first.ns / strip.ns_per_cell);
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
