// Normalization: Unicode forms as utf8proc gives them for whole texts, ill-formed bytes untouched,
// long runs of marks in order without quadratic time, prefixes, replacements, and the bound on
// growth.
#include "check.h"
#include <utf8proc.h>

#include "text/normalizer.h"
#include "text/random_text.h"
#include "text/unicode_form.h"
#include "text/vocab_build.h"

struct fixture {
    struct normalizer normalizer;
    struct normal_scratch scratch;
    struct arena arena;
    char unsupported[160];
};

static struct fixture *fixture_of(struct vocab_build *build) {
    struct fixture *const fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    rn_error err = {0};
    const rn_status status =
        normalizer_init(&fixture->normalizer, &build->source, &fixture->arena, fixture->unsupported,
                        sizeof fixture->unsupported, &err);
    check(status == RN_OK, "%s", err.message);
    free(build);
    return fixture;
}

static struct fixture *fixture_one(enum vocab_normal_kind kind, const char *from, const char *to) {
    struct vocab_build *const build = build_create();
    build_normalizer(build, kind, from, to);
    return fixture_of(build);
}

static void fixture_free(struct fixture *fixture) {
    normalizer_deinit(&fixture->normalizer);
    normal_scratch_deinit(&fixture->scratch);
    arena_deinit(&fixture->arena);
    free(fixture);
}

static void check_at(struct fixture *fixture, enum normal_place place, const char *text,
                     const char *want) {
    const uint8_t *out = NULL;
    size_t len = 0;
    rn_error err = {0};
    const rn_status status =
        normalizer_run(&fixture->normalizer, &fixture->scratch, (const uint8_t *)text, strlen(text),
                       place, &out, &len, &err);
    check(status == RN_OK, "%s", err.message);
    check(len == strlen(want) && memcmp(out, want, len) == 0, "'%s' becomes '%.*s', expected '%s'",
          text, (int)len, (const char *)out, want);
}

static void check_prefix(struct fixture *fixture, bool is_first, const char *text,
                         const char *want) {
    const uint8_t *out = (const uint8_t *)text;
    size_t len = strlen(text);
    rn_error err = {0};
    const rn_status status =
        normalizer_prefix(&fixture->normalizer, &fixture->scratch, is_first, &out, &len, &err);
    check(status == RN_OK, "%s", err.message);
    check(len == strlen(want) && memcmp(out, want, len) == 0, "'%s' becomes '%.*s', expected '%s'",
          text, (int)len, (const char *)out, want);
}

static void check_one(enum vocab_normal_kind kind, const char *from, const char *to,
                      const char *text, const char *want) {
    struct fixture *const fixture = fixture_one(kind, from, to);
    check_at(fixture, NORMAL_TEXT, text, want);
    fixture_free(fixture);
}

// ---------------------------------------------------------------- Unicode forms

CASE(texts_come_into_the_forms_of_unicode) {
    static const struct {
        enum vocab_normal_kind kind;
        const char *text, *want;
    } cases[] = {
        {NORMAL_NFC, "e\u0301", "\u00E9"},
        {NORMAL_NFC, "\u00E9", "\u00E9"},
        {NORMAL_NFC, "a\u0323\u0302", "\u1EAD"},
        {NORMAL_NFC, "a\u0302\u0323", "\u1EAD"},      // marks in order first
        {NORMAL_NFC, "\u1100\u1161\u11A8", "\uAC01"}, // Hangul
        {NORMAL_NFC, "\uAC00\u11A8", "\uAC01"},
        {NORMAL_NFC, "\u212B", "\u00C5"},       // a singleton
        {NORMAL_NFC, "\u0958", "\u0915\u093C"}, // excluded from composition
        {NORMAL_NFC, "\u09C7\u09BE", "\u09CB"}, // composes without a mark's class
        {NORMAL_NFC, "\uFB01", "\uFB01"},
        {NORMAL_NFD, "\u00E9x", "e\u0301x"},
        {NORMAL_NFD, "\uAC01", "\u1100\u1161\u11A8"},
        {NORMAL_NFKC, "\uFB01\u2460", "fi1"},
        {NORMAL_NFKC, "\uFF21\u0301", "\u00C1"},
        {NORMAL_NFKD, "\uFB01\u00E9", "fie\u0301"},
        {NORMAL_LOWERCASE, "ABC\u00C9\u03A3\u0130", "abc\u00E9\u03C3i\u0307"},
        {NORMAL_LOWERCASE, "abc", "abc"},
        {NORMAL_LOWERCASE, "A\xFFZ", "a\xFFz"},
        {NORMAL_NFC,
         "\xFF"
         "e\u0301\xC3",
         "\xFF\u00E9\xC3"},                         // ill-formed bytes stay
        {NORMAL_NFC, "e\xFF\u0301", "e\xFF\u0301"}, // and nothing joins across them
        {NORMAL_NFC, "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_one(cases[i].kind, "", "", cases[i].text, cases[i].want);
}

CASE(forms_agree_with_utf8proc_on_random_texts) {
    static const int32_t marks[] = {0x301, 0x302, 0x308,  0x323,  0x316,  0x345,
                                    0x31B, 0x5B0, 0x93C,  'e',    'a',    0x1EAD,
                                    0x9BE, 0x9C7, 0x1161, 0x1100, 0x11A8, 0xAC00};
    static const struct {
        enum unicode_form_kind form;
        int options;
    } forms[] = {
        {UNICODE_NFC, UTF8PROC_STABLE | UTF8PROC_COMPOSE},
        {UNICODE_NFD, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
        {UNICODE_NFKC, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
        {UNICODE_NFKD, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
    };
    srand(3);
    int changed = 0;
    for (int round = 0; round < test_scale(5000, 20000, 20000); round++) {
        uint8_t text[80];
        size_t len = 0;
        while (len + 4 <= 8 + (size_t)round % 72) {
            const int32_t cp = rand() % 2 ? marks[(size_t)rand() % 18] : random_character();
            len += unicode_encode((uint32_t)cp, text + len);
        }
        const int kind = round % 4;
        utf8proc_uint8_t *want = NULL;
        const utf8proc_ssize_t want_len = utf8proc_map(text, (utf8proc_ssize_t)len, &want,
                                                       (utf8proc_option_t)forms[kind].options);
        assert_true(want_len >= 0);
        const bool same = (size_t)want_len == len && memcmp(want, text, len) == 0;
        struct text_buffer out = {0};
        assert_true(unicode_form_put(forms[kind].form, text, len, &out));
        assert_int_equal(out.len, want_len);
        if (want_len > 0) assert_memory_equal(out.data, want, out.len);
        if (unicode_form_has(forms[kind].form, text, len)) assert_true(same);
        changed += !same;
        text_buffer_deinit(&out);
        free(want);
    }
    assert_true(changed > 1000);
}

// Every character alone: a character that the quick check accepts is in the form.
CASE(the_quick_look_is_right_about_every_character) {
    for (int32_t cp = 0; cp <= 0x10FFFF; cp += test_scale(7, 1, 1)) {
        if (cp >= 0xD800 && cp <= 0xDFFF) continue;
        uint8_t text[8];
        const size_t before = unicode_encode('e', text);
        const size_t len = before + unicode_encode((uint32_t)cp, text + before);
        if (!unicode_form_has(UNICODE_NFC, text, len)) continue;
        struct text_buffer out = {0};
        assert_true(unicode_form_put(UNICODE_NFC, text, len, &out));
        check(out.len == len && memcmp(out.data, text, len) == 0, "U+%04X", (unsigned)cp);
        text_buffer_deinit(&out);
    }
    assert_true(
        unicode_form_has(UNICODE_NFC, (const uint8_t *)"\u0439\u4E2D\u304C", 8)); // common text
    assert_false(unicode_form_has(UNICODE_NFC, (const uint8_t *)"e\u0301", 3));
}

// Would take hours if marks were put in order by exchanging neighbours.
CASE(a_huge_run_of_marks_is_put_in_order) {
    enum { PAIRS = 1 << 18 };
    uint8_t *const text = malloc(4 * PAIRS);
    assert_non_null(text);
    for (size_t i = 0; i < PAIRS; i++) memcpy(text + 4 * i, "\u0301\u0316", 4);
    struct text_buffer out = {0};
    assert_true(unicode_form_put(UNICODE_NFD, text, 4 * PAIRS, &out));
    assert_int_equal(out.len, 4 * PAIRS);
    for (size_t i = 0; i < 2 * PAIRS; i++)
        assert_memory_equal(out.data + 2 * i, i < PAIRS ? "\u0316" : "\u0301", 2);
    text_buffer_deinit(&out);
    free(text);
}

// ---------------------------------------------------------------- other steps

CASE(prefixes_depend_on_the_place) {
    struct fixture *fixture = fixture_one(NORMAL_PREPEND, "", "_");
    check_at(fixture, NORMAL_TEXT, "a", "_a");
    check_at(fixture, NORMAL_TEXT, "_a", "__a");
    check_at(fixture, NORMAL_TEXT, "", "");
    check_at(fixture, NORMAL_BARE, "a", "a");
    fixture_free(fixture);
    fixture = fixture_one(NORMAL_PREPEND_FIRST, "", "_");
    check_at(fixture, NORMAL_TEXT, "a", "a"); // it comes later
    check_prefix(fixture, true, "a", "_a");
    check_prefix(fixture, true, "_a", "_a");
    check_prefix(fixture, true, "", "");
    check_prefix(fixture, false, "a", "a");
    fixture_free(fixture);
    fixture = fixture_one(NORMAL_PREPEND_ONCE, "", "_");
    check_at(fixture, NORMAL_TEXT, "a", "a");
    check_prefix(fixture, true, "a", "_a");
    check_prefix(fixture, false, "a", "_a");
    check_prefix(fixture, false, "_a", "_a");
    fixture_free(fixture);
}

CASE(replacements_are_made_everywhere) {
    check_one(NORMAL_REPLACE, " ", "\u2581", " a  b ", "\u2581a\u2581\u2581b\u2581");
    check_one(NORMAL_REPLACE, "ab", "c", "aabab", "acc");
    check_one(NORMAL_REPLACE, "aa", "a", "aaaaa", "aaa"); // once over the text
    check_one(NORMAL_REPLACE, "x", "", "axbx", "ab");
    check_one(NORMAL_REPLACE, "", "y", "ab", "ab");
    check_one(NORMAL_REPLACE, "x", "y", "ab", "ab");
    check_one(NORMAL_REPLACE_REGEX, " {2,}", " ", "a  b   c d", "a b c d");
    check_one(NORMAL_REPLACE_REGEX, "\\s+$", "", "a  ", "a");
    check_one(NORMAL_REPLACE_REGEX, "\\d", "#", "a1b22", "a#b##");
    check_one(NORMAL_REPLACE_REGEX, "x*", "-", "axxb", "-a-b-"); // as Rust's regex has it
    check_one(NORMAL_REPLACE_REGEX, "q", "-", "ab", "ab");
    check_one(NORMAL_REPLACE_REGEX, "b", "$0", "abc", "a$0c"); // no references
}

CASE(white_space_is_stripped) {
    check_one(NORMAL_STRIP_LEFT, "", "", " \t\u3000a b ", "a b ");
    check_one(NORMAL_STRIP_RIGHT, "", "", " a b\n\u00A0 ", " a b");
    check_one(NORMAL_STRIP_LEFT, "", "", "  ", "");
    check_one(NORMAL_STRIP_RIGHT, "", "", "\u3000\u3000", "");
    check_one(NORMAL_STRIP_RIGHT, "", "", "a\x80\x80\xA0", "a\x80\x80\xA0");
}

CASE(steps_follow_each_other) {
    struct vocab_build *const build = build_create();
    build_normalizer(build, NORMAL_STRIP_LEFT, "", "");
    build_normalizer(build, NORMAL_LOWERCASE, "", "");
    build_normalizer(build, NORMAL_NFC, "", "");
    build_normalizer(build, NORMAL_PREPEND, "", " ");
    build_normalizer(build, NORMAL_REPLACE, " ", "_");
    struct fixture *const fixture = fixture_of(build);
    check_at(fixture, NORMAL_TEXT, "  E\u0301 X", "_\u00E9_x");
    check_at(fixture, NORMAL_TEXT, "abc", "_abc");
    fixture_free(fixture);
}

CASE(a_text_may_not_grow_without_bound) {
    enum { TO = 1 << 16 };
    char *const to = malloc(TO + 1);
    assert_non_null(to);
    memset(to, 'x', TO);
    to[TO] = '\0';
    struct fixture *const fixture = fixture_one(NORMAL_REPLACE, "a", to);
    char text[64];
    memset(text, 'a', sizeof text);
    const uint8_t *out;
    size_t len;
    rn_error err = {0};
    assert_int_equal(normalizer_run(&fixture->normalizer, &fixture->scratch, (const uint8_t *)text,
                                    sizeof text, NORMAL_TEXT, &out, &len, &err),
                     RN_ERR_ARG);
    assert_non_null(strstr(err.message, "normalization makes "));
    fixture_free(fixture);
    free(to);
}

CASE(what_is_not_known_is_named) {
    struct fixture *fixture = fixture_one(NORMAL_UNSUPPORTED, "Precompiled", "");
    assert_string_equal(fixture->unsupported, "normalizer 'Precompiled' is not supported");
    fixture_free(fixture);
    fixture = fixture_one(NORMAL_REPLACE_REGEX, "(", "");
    assert_non_null(strstr(fixture->unsupported, "normalizer '(' is not supported: "));
    fixture_free(fixture);

    struct vocab_build *const build = build_create();
    build_normalizer(build, NORMAL_NFC, "", "");
    build->normal[0].kind = (enum vocab_normal_kind)77;
    struct normalizer normalizer;
    struct arena arena = {0};
    char unsupported[64] = "";
    rn_error err = {0};
    assert_int_equal(normalizer_init(&normalizer, &build->source, &arena, unsupported,
                                     sizeof unsupported, &err),
                     RN_ERR_MODEL);
    assert_string_equal(err.message, "a normalizer of the unknown kind 77");
    arena_deinit(&arena);
    free(build);
}

TEST_PROGRAM(normalizer) { return cases_run(NULL, NULL); }
