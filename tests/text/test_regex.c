// Searching with PCRE2 as Oniguruma would. Differences between the two are bridged or refused. Long
// texts give the same matches as one call over the whole, and no text makes a search hang.
// label: no-address
#define PCRE2_CODE_UNIT_WIDTH 8
#include "check.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "text/random_text.h"
#include "text/regex.h"

static struct regex *make(const char *pattern) {
    struct regex *regex = NULL;
    rn_error err = {0};
    const struct text_span span = {pattern, strlen(pattern)};
    const rn_status status = regex_create(span, &regex, &err);
    check(status == RN_OK, "%s: %s", pattern, err.message);
    return regex;
}

// All matches as "begin-end ", empty ones too.
static const char *matches_of(const char *pattern, const char *text) {
    static char line[512];
    struct regex *const regex = make(pattern);
    struct regex_search search = {0};
    const size_t len = strlen(text);
    size_t used = 0, from = 0, begin, end;
    bool found = true;
    line[0] = '\0';
    assert_int_equal(regex_search_begin(&search, regex, (const uint8_t *)text, len, NULL), RN_OK);
    while (from <= len) {
        assert_int_equal(regex_find(&search, from, &begin, &end, &found, NULL), RN_OK);
        if (!found) break;
        used += (size_t)snprintf(line + used, sizeof line - used, "%zu-%zu ", begin, end);
        from = end + (begin == end);
    }
    regex_search_deinit(&search);
    regex_destroy(regex);
    return line;
}

CASE(matches_are_found_in_order) {
    assert_string_equal(matches_of("b+", "abbcbb"), "1-3 4-6 ");
    assert_string_equal(matches_of("b+", ""), "");
    assert_string_equal(matches_of("b*", "ab"), "0-0 1-2 2-2 ");
    assert_string_equal(matches_of("(?=c)", "abcabc"), "2-2 5-5 ");
    assert_string_equal(matches_of("(?<=a)b", "abcb"), "1-2 ");
    assert_string_equal(matches_of("\\p{Lu}", "a\xC3\x89z"), "1-3 ");
}

CASE(expressions_are_read_as_oniguruma_does) {
    assert_string_equal(matches_of("a$", "a\nba"), "0-1 3-4 "); // at every line
    assert_string_equal(matches_of("^.", "a\nb"), "0-1 2-3 ");
    assert_string_equal(matches_of("\\w+", "e\xCC\x81_1 -"), "0-5 "); // marks are of the word
    assert_string_equal(matches_of("[\\w-]+", "e\xCC\x81-x !"), "0-5 ");
    assert_string_equal(matches_of("\\w", "\u00B2\u2070\u2167\u24B6"), "0-2 5-8 8-11 ");
    assert_string_equal(matches_of("[\\w]", "\u00B2\u2070\u2167\u24B6"), "5-8 8-11 ");
    assert_string_equal(matches_of("\\b", "e\xCC\x81 x"), "0-0 3-3 4-4 5-5 ");
    assert_string_equal(matches_of("\\B", "ab !"), "1-1 3-3 4-4 ");
    assert_string_equal(matches_of("\\W+", "a -b"), "1-3 ");
    assert_string_equal(matches_of("\\s", "a\xE1\xA0\x8E \xC2\xA0"), "4-5 5-7 "); // U+180E is none
    assert_string_equal(matches_of("(?i:STRASSE)", "strasse"), "0-7 ");
    assert_string_equal(matches_of("[]a]+", "x]a"), "1-3 ");
    assert_string_equal(matches_of("[^]a]+", "x]a"), "0-1 ");
    assert_string_equal(matches_of("a\\.b", "a.b"), "0-3 ");
    assert_string_equal(matches_of("a++b", "aab"), "0-3 ");
}

CASE(what_would_be_read_differently_is_refused) {
    static const char *const patterns[] = {
        "[a&&[^b]]", "[a[b]]",        "\\h",   "\\K",      "[\\W]", "(?m:a)",  "(?s).", "(?i-x:a)",
        "a{2}+",     "(*UTF)",        "(?C1)", "\\R",      "\\X",   "\\Qa\\E", "(a",    "a)",
        "[a",        "\\p{Nonsense}", "\\",    "(?<=a+)b", "\xFF",  "*",       "\\1",   "(?P<",
    };
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        struct regex *regex = NULL;
        rn_error err = {0};
        const struct text_span span = {patterns[i], strlen(patterns[i])};
        check(regex_create(span, &regex, &err) == RN_ERR_UNSUPPORTED, "%s", patterns[i]);
        assert_null(regex);
        check(err.message[0], "%s", patterns[i]);
    }
    char *const long_one = malloc(20000);
    assert_non_null(long_one);
    memset(long_one, 'a', 20000);
    struct regex *regex = NULL;
    rn_error err = {0};
    assert_int_equal(regex_create((struct text_span){long_one, 20000}, &regex, &err),
                     RN_ERR_UNSUPPORTED);
    free(long_one);
}

CASE(ill_formed_bytes_are_control_characters) {
    assert_string_equal(matches_of("\\p{Cc}", "a\xFF\xC3(\x80"), "1-2 2-3 4-5 ");
    assert_string_equal(matches_of("\\p{L}+", "a\xE4\xB8z"), "0-1 3-4 ");
    assert_string_equal(matches_of("[^a]+", "a\xE4\xB8\xADz\xF0"), "1-6 ");
}

// ---------------------------------------------------------------- windows

// Random text with runs that are longer than a window, of what PCRE2 alone can read.
static size_t long_text(uint8_t *text, size_t max, bool runs) {
    const size_t len = random_text(text, max);
    for (size_t at = 0; runs && at < len;) {
        const size_t run = (size_t)rand() % 2000;
        const char byte = "a A1'\n"[rand() % 6];
        for (size_t i = 0; i < run && at < len; i++, at++) text[at] = (uint8_t)byte;
    }
    for (size_t at = 0, n; at < len; at += n) {
        const int32_t cp = unicode_decode(text + at, len - at, &n);
        if (cp < 0 || cp == 0x180E) memset(text + at, '.', n);
    }
    return len;
}

// Goes from match to match with both.
static void check_matches(const char *pattern, const uint8_t *text, size_t len) {
    struct regex *const regex = make(pattern);
    struct regex_search search = {0};
    assert_int_equal(regex_search_begin(&search, regex, text, len, NULL), RN_OK);
    int error;
    size_t offset, from = 0;
    pcre2_code *const code =
        pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern), PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE,
                      &error, &offset, NULL);
    pcre2_match_data *const data = pcre2_match_data_create(1, NULL);
    const size_t *const span = pcre2_get_ovector_pointer(data);
    while (from <= len) {
        size_t begin = 0, end = 0, n = 1;
        bool found = false;
        const int want = pcre2_match(code, text, len, from, 0, data, NULL);
        rn_error err = {0};
        check(regex_find(&search, from, &begin, &end, &found, &err) == RN_OK, "%s: %s", pattern,
              err.message);
        check(found == (want >= 0), "%s from %zu", pattern, from);
        if (!found) break;
        check(begin == span[0] && end == span[1], "%s from %zu: %zu-%zu, expected %zu-%zu", pattern,
              from, begin, end, span[0], span[1]);
        if (end < len) unicode_decode(text + end, len - end, &n);
        from = begin == end ? end + n : end;
    }
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    regex_search_deinit(&search);
    regex_destroy(regex);
}

CASE(long_texts_give_the_matches_of_one_call) {
    static const char *const patterns[] = {
        "\\p{L}+",
        "\\s+(?!\\S)|\\s+",
        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+",
        "a(?=b)",
        "(?<=[a-z])\\d",
        "(?<!\\p{L})s(?!\\p{L})",
        "[a-z]{3,}'?",
        "x*",
        ".$",
        "\\p{Lu}(?:\\p{Ll}|\\s){2,600}",
    };
    enum { LEN = 5000 };
    uint8_t *const text = malloc(LEN);
    assert_non_null(text);
    srand(5);
    for (int round = 0; round < 40; round++)
        check_matches(patterns[round % 10], text, long_text(text, LEN, round / 10 % 2));
    free(text);
}

// Finds all matches in len bytes of a unit; the status of the last search.
static rn_status search_all(const char *pattern, const char *unit, size_t len, rn_error *err) {
    uint8_t *const text = malloc(len);
    assert_non_null(text);
    const size_t n = strlen(unit);
    for (size_t i = 0; i < len; i++) text[i] = (uint8_t)unit[i % n];
    text[len - 1] = 'x';
    struct regex *const regex = make(pattern);
    struct regex_search search = {0};
    rn_status status = regex_search_begin(&search, regex, text, len, err);
    size_t from = 0, begin, end;
    bool found = true;
    while (status == RN_OK && found && from <= len) {
        status = regex_find(&search, from, &begin, &end, &found, err);
        if (status == RN_OK && found) from = end + (begin == end);
    }
    regex_search_deinit(&search);
    regex_destroy(regex);
    free(text);
    return status;
}

CASE(usual_expressions_get_through_a_long_text) {
    static const char *const units[] = {"a", " ", "\n", "1", "'", "A", "aB ", "\xC3\xA9"};
    static const char *const patterns[] = {
        "'s|'t| ?\\p{L}+| ?\\p{N}+|\\s+(?!\\S)|\\s+",
        "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+|\\S",
        "\\p{N}{1,3}",
        "[^\\n]+|\\n+",
    };
    for (size_t i = 0; i < 8; i++) {
        for (size_t k = 0; k < 4; k++) {
            rn_error err = {0};
            check(search_all(patterns[k], units[i], 1 << 18, &err) == RN_OK, "%s on '%s': %s",
                  patterns[k], units[i], err.message);
        }
    }
}

// Each would take minutes, or hours.
CASE(endless_searches_end_with_an_error) {
    static const struct {
        const char *pattern, *unit;
    } cases[] = {
        {"\\s+[0-9]", " "}, {"\\s+$", " "},         {"(?:a|aa)+b", "a"}, {"(?:a*)*b", "a"},
        {"a+(?=b)", "a"},   {"(?:\\p{L}+)+!", "a"}, {".*?.*?.*?y", "a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rn_error err = {0};
        check(search_all(cases[i].pattern, cases[i].unit, 1 << 17, &err) == RN_ERR_ARG, "%s",
              cases[i].pattern);
        assert_string_equal(err.message,
                            "the tokenizer's regular expression takes too many steps on this text");
    }
}

TEST_PROGRAM(regex) { return cases_run(NULL, NULL); }
