// Streamed text: stop strings end it and never leak, however the text is cut into pieces.
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "engine/request/output.h"

// Feeds text in pieces of n bytes, `together` of them between two begins, and collects what comes
// out; returns the matched stop or -1. Checks at every moment that what came out is a beginning of
// `expected`, and that it stays as it is until the next begin.
static int stream_by(const char *text, size_t piece, int together, const char *const *stop,
                     size_t n_stop, const char *expected) {
    struct output output;
    assert_int_equal(output_init(&output, stop, n_stop, 64, together, NULL), RN_OK);
    char got[512];
    size_t n_got = 0, n_begin = 0;
    const char *begin = NULL;
    const size_t len = strlen(text);
    int fed = 0;
    for (size_t at = 0; at < len && output.matched < 0; at += piece) {
        const size_t n = len - at < piece ? len - at : piece;
        if (fed++ % together == 0) {
            output_begin(&output);
            begin = NULL;
            n_begin = n_got;
        }
        const struct text_span out =
            output_feed(&output, (struct text_span){text + at, n}, true, at + n == len);
        memcpy(got + n_got, out.data, out.len);
        n_got += out.len;
        if (!begin) begin = out.data;
        assert_memory_equal(begin, got + n_begin, n_got - n_begin);
        check(strncmp(got, expected, n_got) == 0, "piece %zu: '%.*s' leaks past '%s'", piece,
              (int)n_got, got, expected);
    }
    got[n_got] = 0;
    assert_string_equal(got, expected);
    const int matched = output.matched;
    output_deinit(&output);
    return matched;
}

static int stream(const char *text, size_t piece, const char *const *stop, size_t n_stop,
                  const char *expected) {
    const int matched = stream_by(text, piece, 1, stop, n_stop, expected);
    for (int together = 2; together <= 7; together++)
        assert_int_equal(stream_by(text, piece, together, stop, n_stop, expected), matched);
    return matched;
}

CASE(stop_strings_never_leak_at_any_piece_size) {
    const char *stop[] = {"\n\nEnd", "<stop>", "é!"};
    for (size_t piece = 1; piece <= 40; piece++) {
        assert_int_equal(stream("one two\n\nEnd of it", piece, stop, 3, "one two"), 0);
        assert_int_equal(stream("<sto<stop>p>", piece, stop, 3, "<sto"), 1);
        assert_int_equal(stream("\n\nEn\n\nEnd", piece, stop, 3, "\n\nEn"), 0);
        assert_int_equal(stream("caf\xc3\xa9 caf\xc3\xa9! x", piece, stop, 3, "café caf"), 2);
        assert_int_equal(stream("nothing here <sto", piece, stop, 3, "nothing here <sto"), -1);
        assert_int_equal(stream("é?\n\nE", piece, stop, 3, "é?\n\nE"), -1);
    }
}

// Feeds text in pieces of n bytes; what comes out must be expected, and the lines end it or not.
static void stream_lines(const char *text, size_t piece, int indent_min, const char *stop,
                         const char *expected, bool is_outdented) {
    struct output output;
    assert_int_equal(output_init(&output, &stop, 1, 64, 1, NULL), RN_OK);
    output.indent_min = indent_min;
    char got[256];
    size_t n_got = 0;
    const size_t len = strlen(text);
    for (size_t at = 0; at < len && output.matched < 0 && !output.is_outdented; at += piece) {
        const size_t n = len - at < piece ? len - at : piece;
        output_begin(&output);
        const struct text_span out =
            output_feed(&output, (struct text_span){text + at, n}, true, at + n == len);
        memcpy(got + n_got, out.data, out.len);
        n_got += out.len;
    }
    got[n_got] = 0;
    check(!strcmp(got, expected), "piece %zu: '%s' instead of '%s'", piece, got, expected);
    assert_int_equal(output.is_outdented, is_outdented);
    output_deinit(&output);
}

CASE(a_line_that_is_indented_too_little_ends_the_text) {
    static const struct {
        const char *text;
        int indent_min;
        const char *expected;
        bool ends;
    } cases[] = {
        {"a;\n  b;\n c;\n  d", 2, "a;\n  b;\n ", true},
        {"a;\n  b;\n c;\n  d", 1, "a;\n  b;\n c;\n  d", false},
        {"a;\n  b;\n c;\n  d", 0, "a;\n  b;\n c;\n  d", false},
        {"a;\n\t\tb;\n}\n", 2, "a;\n\t\tb;\n", true},
        {"a;\n\n  b", 2, "a;\n", true}, // an empty line has no blanks
        {"a;\n    \n  b", 2, "a;\n    \n  b", false},
        {"a;\n  ", 4, "a;\n  ", false}, // nothing but blanks came
        {"no line", 4, "no line", false},
        {"\nx", 4, "\n", true},
        {"a\n  STOP b", 2, "a\n  ", false}, // the stop string comes first
        {"a\n STOP b", 2, "a\n ", true},
        {"aST\nSTOP", 2, "aST\n", true}, // the held start of a stop string is text
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t piece = 1; piece <= 20; piece++)
            stream_lines(cases[i].text, piece, cases[i].indent_min, "STOP", cases[i].expected,
                         cases[i].ends);
}

CASE(the_earliest_match_wins_when_one_piece_holds_two) {
    const char *stop[] = {"late", "early"};
    assert_int_equal(stream("an early and a late one", 64, stop, 2, "an "), 1);
    const char *nested[] = {"b", "abc"};
    assert_int_equal(stream("xxabc", 64, nested, 2, "xx"), 1);
    const char *alike[] = {"ab", "abc"}; // of two at one place the first in the list
    assert_int_equal(stream("xxabc", 64, alike, 2, "xx"), 0);
}

// Bytes are fed one by one; the first n_early of them are too early for a stop string.
static void stream_late(const char *text, size_t n_early, const char *stop, bool keeps,
                        const char *expected, int matched) {
    struct output output;
    const char *const stops[] = {"end of it", stop}; // the longer one holds more text back
    assert_int_equal(output_init(&output, stops, 2, 64, 1, NULL), RN_OK);
    output.keeps_stop = keeps;
    char got[512];
    size_t n_got = 0;
    for (size_t at = 0; text[at] && output.matched < 0; at++) {
        output_begin(&output);
        const struct text_span out =
            output_feed(&output, (struct text_span){text + at, 1}, at >= n_early, !text[at + 1]);
        memcpy(got + n_got, out.data, out.len);
        n_got += out.len;
    }
    got[n_got] = 0;
    check(!strcmp(got, expected), "'%s', %zu: '%s', expected '%s'", text, n_early, got, expected);
    assert_int_equal(output.matched, matched);
    output_deinit(&output);
}

CASE(a_stop_string_that_ends_too_early_is_text) {
    stream_late("one end two end three", 0, "end", false, "one ", 1);
    stream_late("one end two end three", 6, "end", false, "one ", 1); // its last byte is in time
    stream_late("one end two end three", 7, "end", false, "one end two ", 1);
    stream_late("one end of three", 7, "end", false, "one end of three", -1);
    stream_late("one end two end three", 15, "end", false, "one end two end three", -1);
    stream_late("aaaa", 2, "aa", false, "a", 1); // one that is too early may overlap the next
    stream_late("abababab", 5, "abab", false, "ab", 1);
}

CASE(a_stop_string_may_be_kept) {
    stream_late("one end two", 0, "end", true, "one end", 1);
    stream_late("one end two end three", 7, "end", true, "one end two end", 1);
    stream_late("one en", 0, "end", true, "one en", -1);
}

CASE(text_without_stops_is_given_out_at_once) {
    struct output output;
    assert_int_equal(output_init(&output, NULL, 0, 16, 4, NULL), RN_OK);
    struct text_span out = output_feed(&output, (struct text_span){"abc", 3}, true, false);
    assert_int_equal(out.len, 3);
    out = output_feed(&output, (struct text_span){"\xe2\x82", 2}, true,
                      false); // half of a character waits
    assert_int_equal(out.len, 0);
    out = output_feed(&output, (struct text_span){"\xac.", 2}, true, false);
    assert_int_equal(out.len, 4);
    assert_memory_equal(out.data, "€.", 4);
    out = output_feed(&output, (struct text_span){"\xe2\x82", 2}, true,
                      true); // the end: it will never be whole
    assert_int_equal(out.len, 3);
    assert_memory_equal(out.data, "\xef\xbf\xbd", 3);
    output_deinit(&output);
}

TEST_PROGRAM(output) { return cases_run(NULL, NULL); }
