// Words at the terminal's edge. A tiny terminal replays what was written: its screen has each word
// whole, and each line within the edge.
#include <locale.h>

#include "bench_world.h"
#include "terminal/wrap.h"

enum { ROWS = 16, COLUMNS = 24 };

struct screen {
    char cell[ROWS][COLUMNS + 8];
    int row, column;
};

// Follows text of one-byte characters, line feeds, and the two sequences that wrap.c writes.
static void screen_take(struct screen *screen, const char *text) {
    memset(screen, 0, sizeof *screen);
    for (const char *at = text; *at; at++) {
        char *line = screen->cell[screen->row];
        int back, used = 0;
        if (sscanf(at, "\033[%dD\033[K%n", &back, &used) == 1 && used) {
            screen->column -= back;
            assert_true(screen->column >= 0);
            line[screen->column] = '\0';
            at += used - 1;
        } else if (*at == '\n') {
            screen->row++;
            screen->column = 0;
            assert_true(screen->row < ROWS);
        } else {
            check(screen->column < COLUMNS - 1, "'%s' has the last column", line);
            line[screen->column++] = *at;
        }
    }
}

// Writes the text in pieces of that many bytes.
static void wrapped_with(struct screen *screen, int indent, const char *text, size_t piece) {
    char *out = NULL;
    size_t len;
    struct wrap wrap = {.indent = indent};
    FILE *file = open_memstream(&out, &len);
    for (size_t at = 0; at < strlen(text); at += piece) {
        const size_t left = strlen(text) - at;
        wrap_put(&wrap, file, COLUMNS, text + at, left < piece ? left : piece);
    }
    fclose(file);
    screen_take(screen, out);
    free(out);
}

static void wrapped(struct screen *screen, const char *text, size_t piece) {
    wrapped_with(screen, 0, text, piece);
}

CASE(continued_lines_have_an_indent) {
    static const char text[] = "  name    some words of help, abcdefghijklmnopqrstuvwx\nnext";
    static const char *const lines[] = {"  name    some words of", "          help,",
                                        "          abcdefghijklm", "          nopqrstuvwx", "next"};
    for (size_t piece = 1; piece < sizeof text; piece++) {
        struct screen screen;
        wrapped_with(&screen, 10, text, piece);
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
            char *line = screen.cell[i];
            for (size_t n = strlen(line); n && line[n - 1] == ' '; n--) line[n - 1] = '\0';
            assert_string_equal(line, lines[i]);
        }
    }
}

CASE(words_stay_whole_however_the_text_comes) {
    static const char text[] = "The quick brown fox jumps over the lazy dog, again and again.\n"
                               "Next: abcdefghijklmnopqrstuvwxyzabcdefgh end";
    static const char *const lines[] = {"The quick brown fox",     "jumps over the lazy",
                                        "dog, again and again.",   "Next:",
                                        "abcdefghijklmnopqrstuvw", "xyzabcdefgh end"};
    for (size_t piece = 1; piece < sizeof text; piece++) {
        struct screen screen;
        wrapped(&screen, text, piece);
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
            char *line = screen.cell[i];
            for (size_t n = strlen(line); n && line[n - 1] == ' '; n--) line[n - 1] = '\0';
            assert_string_equal(line, lines[i]);
        }
    }
}

CASE(a_blank_at_the_edge_ends_the_line) {
    struct screen screen;
    wrapped(&screen, "12345678901234567890123 next", 1);
    assert_string_equal(screen.cell[0], "12345678901234567890123");
    assert_string_equal(screen.cell[1], "next");
    wrapped_with(&screen, 4, "12345678901234567890123  next", 1); // no blank behind an indent
    assert_string_equal(screen.cell[1], "    next");
}

CASE(wide_characters_have_two_columns_and_controls_none) {
    char *out = NULL;
    size_t len;
    struct wrap wrap = {0};
    setlocale(LC_CTYPE, "C.UTF-8");
    FILE *file = open_memstream(&out, &len);
    for (int i = 0; i < 13; i++) wrap_put(&wrap, file, COLUMNS, "\u4e2d", 3);
    fclose(file);
    assert_int_equal(len, 13 * 3 + 1); // eleven, a line feed, two
    assert_int_equal(out[33], '\n');
    assert_int_equal(wrap.column, 4);
    free(out);
    file = open_memstream(&out, &len);
    wrap_put(&wrap, file, COLUMNS, "\033[2Ja\xff", 6);
    fclose(file);
    assert_string_equal(out, "?[2Ja?");
    free(out);
}

TEST_PROGRAM(wrap) { return cases_run(environment_clean, NULL); }
