// See wrap.h. The last column stays empty: terminals differ in where the cursor is behind it.
#define _GNU_SOURCE // wcwidth
#include "terminal/wrap.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "helpers.h"

enum { NARROWEST = 20, TAB = 8 }; // columns; a narrower terminal breaks lines itself

static void word_end(struct wrap *wrap) {
    wrap->word_len = 0;
    wrap->word_width = 0;
}

static void line_end(struct wrap *wrap, FILE *out) {
    fprintf(out, "\n%*s", wrap->indent, "");
    wrap->column = wrap->indent;
    word_end(wrap);
}

// Moves the begun word to the next line, or breaks a word that fills its line.
static void word_move(struct wrap *wrap, FILE *out) {
    const bool can_move = wrap->word_len && wrap->word_len <= WRAP_WORD &&
                          wrap->column - wrap->word_width > wrap->indent;
    if (!can_move) {
        line_end(wrap, out);
        return;
    }
    fprintf(out, "\033[%dD\033[K\n%*s", wrap->word_width, wrap->indent, "");
    fwrite(wrap->word, 1, wrap->word_len, out);
    wrap->column = wrap->indent + wrap->word_width;
}

static void word_add(struct wrap *wrap, const char *c, size_t len, int width) {
    if (wrap->word_len + len <= WRAP_WORD)
        memcpy(wrap->word + wrap->word_len, c, len);
    else
        wrap->word_len = WRAP_WORD + 1 - len;
    wrap->word_len += len;
    wrap->word_width += width;
}

// A blank that does not fit is the end of its line. An indent has no blanks behind it.
static void blank_put(struct wrap *wrap, FILE *out, int most, char blank) {
    if (wrap->indent && wrap->column == wrap->indent && !wrap->word_len) return;
    const int width = blank == '\t' ? TAB - wrap->column % TAB : 1;
    if (wrap->column + width > most) {
        line_end(wrap, out);
        return;
    }
    fputc(blank, out);
    wrap->column += width;
    word_end(wrap);
}

static void char_put(struct wrap *wrap, FILE *out, int most, const char *c, size_t len) {
    size_t used;
    const int32_t cp = unicode_decode((const uint8_t *)c, len, &used);
    const int known = cp >= 0 ? wcwidth((wchar_t)cp) : 1, width = known > 0 ? known : 0;
    if (wrap->column + width > most) word_move(wrap, out);
    fwrite(c, 1, len, out);
    wrap->column += width;
    if (width == 2)
        word_end(wrap); // such scripts have no blanks: a line may end behind any character
    else
        word_add(wrap, c, len, width);
}

void wrap_put(struct wrap *wrap, FILE *out, int columns, const char *text, size_t len) {
    for (size_t i = 0; i < len;) {
        const int n = utf8_char_len(text + i, len - i);
        const char *c = n && !term_drives(text + i, n) ? text + i : "?";
        if (*c == '\n' || *c == '\r') {
            fputc(*c, out);
            wrap->column = 0;
            word_end(wrap);
        } else if (*c == ' ' || *c == '\t') {
            blank_put(wrap, out, columns - 1, *c);
        } else {
            char_put(wrap, out, columns - 1, c, *c == '?' ? 1 : (size_t)n);
        }
        i += n ? (size_t)n : 1;
    }
}

bool wrap_write(struct wrap *wrap, const struct term *term, const char *text, size_t len) {
    const int columns = term->moves ? term_columns(STDOUT_FILENO) : 0;
    if (columns < NARROWEST) return term_write(term, text, len);
    errno = 0;
    wrap_put(wrap, stdout, columns, text, len);
    return fflush(stdout) == 0 && !ferror(stdout);
}

void wrap_note(const struct term *term, int indent, const char *text) {
    const int columns = term->moves && term->err_tty ? term_columns(STDERR_FILENO) : INT_MAX;
    struct wrap wrap = {.indent = indent};
    fflush(stdout);
    fputs(term_dim(term->err_color), stderr);
    wrap_put(&wrap, stderr, columns, text, strlen(text));
    fprintf(stderr, "%s\n", term_reset(term->err_color));
}
