// The hand-written patterns against PCRE2 on the regular expressions that they stand for. Texts are
// random texts of all kinds of characters, the reference texts, and ill-formed bytes, which are
// treated as control characters. Huge texts of one kind take no more than linear time.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include "data_file.h"
#include "text/pretokenizer.h"
#include "text/random_text.h"

struct oracle {
    pcre2_code *code;
    pcre2_match_data *data;
    const char *expression;
    pattern_fn match;
};

static struct oracle oracle_create(const char *expression, pattern_fn match) {
    struct oracle oracle = {.expression = expression, .match = match};
    int error;
    size_t offset;
    oracle.code = pcre2_compile((PCRE2_SPTR)expression, strlen(expression),
                                PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, NULL);
    check(oracle.code, "%s: error %d at %zu", expression, error, offset);
    pcre2_jit_compile(oracle.code, PCRE2_JIT_COMPLETE);
    oracle.data = pcre2_match_data_create(1, NULL);
    assert_non_null(oracle.data);
    return oracle;
}

static void oracle_destroy(struct oracle *oracle) {
    pcre2_match_data_free(oracle->data);
    pcre2_code_free(oracle->code);
}

// The two libraries know different versions of Unicode, and PCRE2 takes U+180E for a blank.
static bool is_disputed(int32_t cp) {
    static pcre2_code *unassigned;
    static pcre2_match_data *data;
    if (!unassigned) {
        int error;
        size_t offset;
        unassigned = pcre2_compile((PCRE2_SPTR) "\\p{Cn}", PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_UCP, &error, &offset, NULL);
        data = pcre2_match_data_create(1, NULL);
    }
    uint8_t text[4];
    const size_t n = unicode_encode((uint32_t)cp, text);
    const bool one = pcre2_match(unassigned, text, n, 0, 0, data, NULL) >= 0;
    return cp == 0x180E || one != (utf8proc_category(cp) == UTF8PROC_CATEGORY_CN);
}

// Makes a text that both read alike: disputed characters and ill-formed bytes become controls.
static size_t text_agree(uint8_t *text, size_t len) {
    size_t out = 0;
    for (size_t at = 0, n; at < len; at += n) {
        const int32_t cp = unicode_decode(text + at, len - at, &n);
        if (cp < 0 || is_disputed(cp)) {
            text[out++] = 1;
        } else {
            memmove(text + out, text + at, n);
            out += n;
        }
    }
    return out;
}

static void texts_print(const uint8_t *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        print_error(text[i] > 32 && text[i] < 127 ? "%c" : "\\x%02X", text[i]);
    print_error("\n");
}

// Goes from match to match with both. `seen` is what PCRE2 is given, of the same length.
static void check_text(const struct oracle *oracle, const uint8_t *text, const uint8_t *seen,
                       size_t len) {
    size_t at = 0;
    const size_t *const span = pcre2_get_ovector_pointer(oracle->data);
    while (at < len) {
        const int found = pcre2_match(oracle->code, seen, len, at, 0, oracle->data, NULL);
        check(found >= 0 || found == PCRE2_ERROR_NOMATCH, "%s: %d", oracle->expression, found);
        size_t begin = at, n = 0;
        while (begin < len) {
            size_t skip = 0;
            n = oracle->match(text + begin, len - begin, &skip);
            if (n > 0) break;
            check(skip > 0 && skip <= len - begin, "%s skips %zu", oracle->expression, skip);
            begin += skip;
        }
        const size_t want_begin = found < 0 ? len : span[0], want_end = found < 0 ? len : span[1];
        if (begin != want_begin || begin + n != want_end) {
            texts_print(text, len);
            check(false, "%s from %zu: %zu to %zu, expected %zu to %zu", oracle->expression, at,
                  begin, begin + n, want_begin, want_end);
        }
        at = begin + n;
    }
}

// ---------------------------------------------------------------- what is compared

#define WORD                                                                                       \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200C}\\x{200D}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}"  \
    "\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"

// Patterns that no file writes as an expression.
static const struct {
    const char *expression;
    pattern_fn match;
} others[] = {
    {"[" WORD "]+|[^" WORD "\\s]+", pattern_word},
    {"\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-"
     "\\x{293}"
     "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-"
     "\\x{38A}"
     "\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}"
     "\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{"
     "1CBF}"
     "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{"
     "1F1D}"
     "\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}"
     "-\\x{1F7D}"
     "\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{"
     "1FD0}-\\x{1FD3}"
     "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{"
     "2107}"
     "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}"
     "\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}"
     "\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{"
     "A66D}"
     "\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{"
     "ABBF}"
     "\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{"
     "1044F}"
     "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"
     "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+",
     pattern_space_cased},
};

enum { MAX_ORACLES = 64 };

// One for each pattern that stands for an expression.
struct oracles {
    struct oracle at[MAX_ORACLES];
    size_t n;
};

static int oracles_create(void **state) {
    static struct oracles oracles;
    const char *expression;
    pattern_fn match;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        oracles.at[oracles.n++] = oracle_create(others[i].expression, others[i].match);
    for (size_t i = 0; pretokenizer_expression(i, &expression, &match); i++) {
        assert_true(oracles.n < MAX_ORACLES);
        oracles.at[oracles.n++] = oracle_create(expression, match);
    }
    assert_true(oracles.n > 20);
    *state = &oracles;
    return 0;
}

static int oracles_destroy(void **state) {
    struct oracles *oracles = *state;
    for (size_t i = 0; i < oracles->n; i++) oracle_destroy(&oracles->at[i]);
    return 0;
}

// A text that all patterns go through; seen as in check_text.
static void check_patterns(const struct oracles *oracles, const uint8_t *text, const uint8_t *seen,
                           size_t len) {
    for (size_t i = 0; i < oracles->n; i++) check_text(&oracles->at[i], text, seen, len);
}

#define ROUNDS test_scale(1000, 2000, 10000)

CASE(patterns_match_what_pcre2_matches_in_random_texts) {
    srand(7);
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t text[96];
        const size_t len = random_text(text, 4 + (size_t)rand() % (sizeof text - 4));
        check_patterns(*state, text, text, text_agree(text, len));
    }
}

CASE(ill_formed_bytes_are_control_characters) {
    srand(8);
    for (int round = 0; round < ROUNDS / 4; round++) {
        uint8_t text[64], seen[64];
        size_t len = random_text(text, sizeof text);
        len = text_agree(text, len);
        random_damage(text, len);
        for (size_t at = 0, n; at < len; at += n) {
            const int32_t cp = unicode_decode(text + at, len - at, &n);
            if (cp >= 0 && !is_disputed(cp)) {
                memcpy(seen + at, text + at, n);
            } else { // a damaged text may hold a character that it did not before
                memset(text + at, 0xFF, n);
                memset(seen + at, 1, n);
            }
        }
        check_patterns(*state, text, seen, len);
    }
}

CASE(patterns_match_what_pcre2_matches_in_the_reference_texts) {
    json_t *const texts = data_json_read(TEST_DATA "/tokenizers/texts.json");
    assert_true(json_array_size(texts) > 400);
    size_t index;
    json_t *item;
    json_array_foreach(texts, index, item) {
        uint8_t *const text = (uint8_t *)strdup(json_string_value(item));
        assert_non_null(text);
        check_patterns(*state, text, text, text_agree(text, strlen((const char *)text)));
        free(text);
    }
    json_decref(texts);
}

// Every character alone, before and behind a letter, and behind a blank.
CASE(patterns_know_every_character) {
    const int step = ROUNDS < 10000 ? 7 : 1;
    for (int32_t cp = 0; cp <= 0x10FFFF; cp += step) {
        if (cp >= 0x3500 && cp < 0x4D00) continue; // all alike
        if (cp >= 0xAD00 && cp < 0xD700) continue;
        if (cp >= 0xD800 && cp < 0xFA00) cp = 0xFA00;
        if (cp >= 0x20100 && cp < 0xE0000) cp = 0xE0000;
        if (cp >= 0xE0200) break;
        if (is_disputed(cp)) continue;
        uint8_t text[16] = {'a'};
        size_t len = 1;
        len += unicode_encode((uint32_t)cp, text + len);
        text[len++] = 'b';
        text[len++] = ' ';
        len += unicode_encode((uint32_t)cp, text + len);
        check_patterns(*state, text, text, len);
    }
}

// ---------------------------------------------------------------- patterns without an oracle

CASE(punctuation_is_that_of_unicode_8) {
    static const struct {
        int32_t cp;
        bool is;
    } cases[] = {
        {'!', true},    {'$', true},    {'`', true},     {'~', true},      {'a', false},
        {'0', false},   {' ', false},   {0x7F, false},   {0xA1, true},     {0xA2, false},
        {0xB4, false},  {0x61B, true},  {0x61D, false},  {0x2E42, true},   {0x2E43, false},
        {0x3001, true}, {0x166D, true}, {0x111C9, true}, {0x1E95E, false}, {0x10FFFF, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t text[5];
        const size_t n = unicode_encode((uint32_t)cases[i].cp, text);
        size_t skip = 0;
        const size_t got = pattern_punctuation(text, n, &skip);
        check(got == (cases[i].is ? n : 0) && (got || skip == n), "U+%04X", (unsigned)cases[i].cp);
    }
    size_t skip;
    assert_int_equal(pattern_punctuation((const uint8_t *)"\xFF!", 2, &skip), 0);
    assert_int_equal(skip, 1);
    assert_int_equal(pattern_punctuation((const uint8_t *)"ab !", 4, &skip), 0);
    assert_int_equal(skip, 3);
}

CASE(byte_numbers_are_those_of_the_alphabet) {
    for (int byte = 0; byte < 256; byte++) {
        const uint8_t text[] = {(uint8_t)byte};
        size_t skip = 0;
        const unsigned traits = unicode_traits(byte > 160 && byte != 173 ? byte
                                               : byte > 32 && byte < 127 ? byte
                                                                         : 0x120);
        const size_t want = (traits & UNICODE_NUMBER) != 0;
        assert_int_equal(pattern_byte_numbers(text, 1, &skip), want);
        assert_int_equal(pattern_byte_number(text, 1, &skip), want);
    }
    size_t skip;
    const uint8_t text[] = {'1', 0xB2, '2', 'a', 'b', '3'};
    assert_int_equal(pattern_byte_numbers(text, 6, &skip), 3);
    assert_int_equal(pattern_byte_number(text, 6, &skip), 1);
    assert_int_equal(pattern_byte_numbers(text + 3, 3, &skip), 0);
    assert_int_equal(skip, 2);
}

// ---------------------------------------------------------------- long texts

static const pattern_fn all[] = {
    pattern_gpt2,          pattern_llama3,       pattern_qwen2,       pattern_long_numbers,
    pattern_qwen35,        pattern_seed_coder,   pattern_gpt4o,       pattern_tekken,
    pattern_number,        pattern_numbers,      pattern_numbers_3,   pattern_digits_3,
    pattern_line_end,      pattern_space_end,    pattern_white,       pattern_word,
    pattern_space_letters, pattern_space_marks,  pattern_punctuation, pattern_punctuation_run,
    pattern_han_kana,      pattern_asian,        pattern_space_cased, pattern_space_signs,
    pattern_deepseek_v3,   pattern_byte_numbers, pattern_byte_number,
};

// Would take hours if a pattern looked at the rest of the text from each place.
CASE(long_texts_of_one_kind_are_gone_through) {
    static const char *const units[] = {"a",
                                        " ",
                                        "\n",
                                        "1",
                                        "'",
                                        "A",
                                        "\xCC\x81",
                                        "A\xCC\x81",
                                        "\xFF",
                                        "\xE4\xB8\xAD",
                                        "\r\n",
                                        " \n",
                                        "'s",
                                        "/",
                                        "\t",
                                        "12",
                                        "\xCC\x81"
                                        "A"};
    enum { LEN = 1 << (TEST_IS_SLOW ? 16 : 18) };
    uint8_t *const text = malloc(LEN);
    assert_non_null(text);
    for (size_t unit = 0; unit < sizeof units / sizeof units[0]; unit++) {
        const size_t n = strlen(units[unit]);
        for (size_t i = 0; i < LEN; i++) text[i] = (uint8_t)units[unit][i % n];
        text[LEN - 1] = 'x';
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
            size_t at = 0;
            while (at < LEN) {
                size_t skip = 0;
                const size_t len = all[k](text + at, LEN - at, &skip);
                assert_true(len + skip > 0 && len <= LEN - at && (len || skip <= LEN - at));
                at += len ? len : skip;
            }
        }
    }
    free(text);
}

TEST_PROGRAM(pattern) { return cases_run(oracles_create, oracles_destroy); }
