// Terminal output: colour, bars, progress. Nothing here writes escape sequences to a file or a pipe
// unless --color=always asked for it.
#include "terminal/term.h"

#include <errno.h>
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "helpers.h"
#include "terminal/interrupt.h"

enum {
    PROGRESS_DELAY_MS = 200,
    PROGRESS_INTERVAL_MS = 50,
    PROGRESS_WIDTH = 30,
    PROGRESS_MIN = 4,    // a shorter bar says nothing
    PROGRESS_MARGIN = 3, // the cursor, and the terminal's "^C"
};

void term_init(struct term *term, const struct options *options) {
    const char *when = option_text(options, OPT_COLOR);
    const char *no_color = getenv("NO_COLOR");
    const char *name = getenv("TERM");
    const bool always = !strcmp(when, "always");
    const bool never =
        !strcmp(when, "never") || (no_color && *no_color) || (name && !strcmp(name, "dumb"));
    *term = (struct term){.out_tty = isatty(STDOUT_FILENO), .err_tty = isatty(STDERR_FILENO)};
    term->moves = term->out_tty && name && *name && strcmp(name, "dumb") != 0;
    term->out_color = always || (!never && term->out_tty);
    term->err_color = always || (!never && term->err_tty);
    term->utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
}

int term_columns(int fd) {
    struct winsize size = {0};
    const bool known = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : 1000;
}

const char *term_dim(bool color) { return color ? "\033[2m" : ""; }
const char *term_bold(bool color) { return color ? "\033[1m" : ""; }
const char *term_red(bool color) { return color ? "\033[31m" : ""; }
const char *term_reset(bool color) { return color ? "\033[0m" : ""; }

const char *term_bar(const struct term *term, double share, int width, char *buffer) {
    if (!(share > 0)) share = 0;
    if (share > 1) share = 1;
    const int full = (int)(share * width + 0.5);
    char *at = buffer;
    for (int i = 0; i < width; i++) {
        const char *cell = term->utf8 ? (i < full ? "█" : "░") : (i < full ? "#" : ".");
        const size_t len = strlen(cell);
        memcpy(at, cell, len);
        at += len;
    }
    *at = '\0';
    return buffer;
}

// C0, DEL and C1.
bool term_drives(const char *c, int len) {
    const unsigned char a = (unsigned char)c[0];
    if (len == 2) return a == 0xc2 && (unsigned char)c[1] < 0xa0;
    return len == 1 && ((a < 0x20 && a != '\t' && a != '\n' && a != '\r') || a == 0x7f);
}

bool term_write(const struct term *term, const char *text, size_t len) {
    errno = 0;
    if (!term->out_tty) {
        fwrite(text, 1, len, stdout);
    } else {
        for (size_t i = 0; i < len;) {
            const int n = utf8_char_len(text + i, len - i);
            const bool plain = n && !term_drives(text + i, n);
            fwrite(plain ? text + i : "?", 1, plain ? (size_t)n : 1, stdout);
            i += n ? (size_t)n : 1;
        }
    }
    return fflush(stdout) == 0 && !ferror(stdout);
}

void term_print_escaped(FILE *out, const char *text, size_t len, size_t limit) {
    for (size_t i = 0; i < len;) {
        if (i >= limit) {
            fputs("...", out);
            return;
        }
        const int n = utf8_char_len(text + i, len - i);
        const unsigned char c = (unsigned char)text[i];
        if (c == '\n') {
            fputs("\\n", out);
        } else if (c == '\t') {
            fputs("\\t", out);
        } else if (!n || c == '\r' || term_drives(text + i, n)) {
            for (int j = 0; j < (n ? n : 1); j++) {
                fprintf(out, "\\x%02x", (unsigned char)text[i + (size_t)j]);
            }
        } else {
            fwrite(text + i, 1, (size_t)n, out);
        }
        i += n ? (size_t)n : 1;
    }
}

const char *human_bytes(double bytes, char buffer[32]) {
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    int unit = 0;
    while (bytes >= 999.5 && unit < 5) {
        bytes /= 1000;
        unit++;
    }
    snprintf(buffer, 32, unit == 0 || bytes >= 100 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return buffer;
}

const char *human_count(uint64_t value, char buffer[32]) {
    char digits[24];
    const int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    char *at = buffer;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0) *at++ = ',';
        *at++ = digits[i];
    }
    *at = '\0';
    return buffer;
}

void progress_begin(struct progress *progress, const struct term *term, bool quiet,
                    const char *label) {
    *progress = (struct progress){.term = term, .label = label, .start_ns = clock_ns()};
    if (quiet || !term->err_tty) progress->term = NULL;
}

void progress_update(void *ctx, uint64_t done, uint64_t total) {
    struct progress *progress = ctx;
    const uint64_t now = clock_ns();
    if (!progress->term || total == 0 ||
        now - progress->start_ns < PROGRESS_DELAY_MS * 1000000ull ||
        now - progress->shown_ns < PROGRESS_INTERVAL_MS * 1000000ull) {
        return;
    }
    const double share = (double)done / (double)total;
    const int label = (int)strlen(progress->label), percent = 5; // " 100%"
    const int room = term_columns(STDERR_FILENO) - PROGRESS_MARGIN - label - percent - 1;
    const int width = room < PROGRESS_WIDTH ? room : PROGRESS_WIDTH;
    if (width < -1) return; // not even the number fits
    char bar[3 * PROGRESS_WIDTH + 1] = "";
    const bool with_bar = width >= PROGRESS_MIN;
    if (with_bar) term_bar(progress->term, share, width, bar);
    fprintf(stderr, "\r%s%s%s %3.0f%%", progress->label, with_bar ? " " : "", bar, 100 * share);
    fflush(stderr);
    progress->shown_ns = now;
    progress->columns = label + percent + (with_bar ? 1 + width : 0);
    interrupt_line(progress->columns);
}

void progress_show(struct progress *progress, uint64_t done, uint64_t total) {
    progress->start_ns = progress->shown_ns = 0;
    progress_update(progress, done, total);
}

void progress_end(struct progress *progress) {
    if (!progress->columns) return;
    // Blanks instead of an escape sequence: NO_COLOR and dumb terminals are served too.
    fprintf(stderr, "\r%*s\r", progress->columns + PROGRESS_MARGIN - 1, "");
    fflush(stderr);
    progress->columns = 0;
    interrupt_line(0);
}
