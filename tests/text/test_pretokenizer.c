// From a vocabulary's splits to words: the meaning of names and regular expressions, the treatment
// of matches, and refusals.
// label: memory
#include "check.h"

#include "text/pretokenizer.h"
#include "text/random_text.h"
#include "text/vocab_build.h"

// The splitter of a source that has these splits.
struct fixture {
    struct splitter splitter;
    struct pretokenizer_traits traits;
    struct arena arena;
    char line[512];
    size_t used;
};

static struct fixture *fixture_of(struct vocab_build *build) {
    struct fixture *const fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    rn_error err = {0};
    const rn_status status = pretokenizer_init(&fixture->splitter, &build->source, &fixture->arena,
                                               &fixture->traits, &err);
    check(status == RN_OK, "%s", err.message);
    free(build);
    return fixture;
}

static struct fixture *fixture_named(const char *name) {
    struct vocab_build *const build = build_create();
    build_pre(build, name);
    return fixture_of(build);
}

static struct fixture *fixture_split(enum vocab_split_kind kind, enum vocab_split_behavior behavior,
                                     bool invert, const char *pattern) {
    struct vocab_build *const build = build_create();
    build_split(build, kind, behavior, invert, pattern);
    return fixture_of(build);
}

static void fixture_free(struct fixture *fixture) {
    splitter_deinit(&fixture->splitter);
    arena_deinit(&fixture->arena);
    free(fixture);
}

static rn_status word_add(void *context, const uint8_t *word, size_t len) {
    struct fixture *const fixture = context;
    assert_true(len > 0);
    fixture->used +=
        (size_t)snprintf(fixture->line + fixture->used, sizeof fixture->line - fixture->used,
                         "%s%.*s", fixture->used ? "|" : "", (int)len, (const char *)word);
    return RN_OK;
}

// The words of a text with '|' between them.
static const char *words_of(struct fixture *fixture, const char *text) {
    struct split_scratch scratch = {0};
    rn_error err = {0};
    fixture->used = 0;
    fixture->line[0] = '\0';
    assert_string_equal(fixture->traits.unsupported, "");
    const rn_status status = split_run(&fixture->splitter, &scratch, (const uint8_t *)text,
                                       strlen(text), word_add, fixture, &err);
    check(status == RN_OK, "%s", err.message);
    split_scratch_deinit(&scratch);
    return fixture->line;
}

static rn_status word_count(void *context, const uint8_t *word, size_t len) {
    (void)word, (void)len;
    ++*(size_t *)context;
    return RN_OK;
}

static void check_words(struct fixture *fixture, const char *text, const char *want) {
    check(strcmp(words_of(fixture, text), want) == 0, "'%s' becomes '%s', expected '%s'", text,
          fixture->line, want);
}

// ---------------------------------------------------------------- gpt-2, rule by rule

struct split {
    const char *text;
    const char *words; // with a '|' between them
};

static const struct split splits[] = {
    // words take one space before them
    {"Hello world", "Hello| world"},
    {" Hello", " Hello"},
    {"a b", "a| b"},
    {"a  b", "a| | b"},
    {"a   b", "a|  | b"},
    {"  a", " | a"},
    // other white space stays apart
    {"a\tb", "a|\t|b"},
    {"a\nb", "a|\n|b"},
    {"a\n\nb", "a|\n|\n|b"},
    {"a\n b", "a|\n| b"},
    {"a \nb", "a| |\n|b"},
    {"a\r\nb", "a|\r|\n|b"},
    {"a\xC2\xA0"
     "b",
     "a|\xC2\xA0|b"},
    {"a \xE3\x80\x80"
     "b",
     "a| |\xE3\x80\x80|b"},
    {"a\xE3\x80\x80 b", "a|\xE3\x80\x80| b"},
    // at the end white space is one word
    {"a ", "a| "},
    {"a  ", "a|  "},
    {"a \n\t ", "a| \n\t "},
    {" ", " "},
    {"   ", "   "},
    {"\n", "\n"},
    // contractions, in lower case, where they begin a word
    {"it's", "it|'s"},
    {"don't we're I've I'm we'll he'd", "don|'t| we|'re| I|'ve| I|'m| we|'ll| he|'d"},
    {"IT'S", "IT|'|S"},
    {"'still", "'s|till"},
    {"'rest", "'re|st"},
    {"'rat", "'|rat"},
    {"'lord", "'|lord"},
    {" 's", " '|s"},
    {"''s", "''|s"},
    {"'", "'"},
    {"'r", "'|r"},
    {"x'", "x|'"},
    {"'s's", "'s|'s"},
    // letters, numbers and the rest are words of their own
    {"abc123", "abc|123"},
    {"123abc", "123|abc"},
    {"12345 67", "12345| 67"},
    {"3.14", "3|.|14"},
    {"a.b", "a|.|b"},
    {"Hi!!! you", "Hi|!!!| you"},
    {"a -- b", "a| --| b"},
    {"_a_", "_|a|_"},
    {"f(x) = {y};", "f|(|x|)| =| {|y|};"},
    {"a_1", "a|_|1"},
    // scripts
    {"\xD0\xBC\xD0\xB8\xD1\x80 ok", "\xD0\xBC\xD0\xB8\xD1\x80| ok"},
    {"a\xE4\xB8\xAD"
     "b",
     "a\xE4\xB8\xAD"
     "b"},
    {"x\xC2\xB2", "x|\xC2\xB2"},
    {"\xD9\xA1\xD9\xA2", "\xD9\xA1\xD9\xA2"},
    {"e\xCC\x81x", "e|\xCC\x81|x"},
    {" \xF0\x9F\x99\x82!", " \xF0\x9F\x99\x82!"},
    {"ok\xF0\x9F\x99\x82", "ok|\xF0\x9F\x99\x82"},
    {"a\xE2\x80\x8B"
     "b",
     "a|\xE2\x80\x8B|b"},
    // bad UTF-8 is neither letter nor number nor space
    {"a\x80z", "a|\x80|z"},
    {" \xFF\xFE", " \xFF\xFE"},
    {"a\xE4\xB8", "a|\xE4\xB8"},
    {"\xE4\xB8 a", "\xE4\xB8| a"},
    {"\xC3\x28", "\xC3("},
    {"\xE2\x80", "\xE2\x80"},
    {"1\xC2", "1|\xC2"},
};

CASE(gpt2_splits_as_its_pattern_says) {
    struct fixture *const fixture = fixture_named("gpt-2");
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++)
        check_words(fixture, splits[i].text, splits[i].words);
    fixture_free(fixture);
}

CASE(the_length_bounds_what_is_read) {
    size_t skip;
    assert_int_equal(pattern_gpt2((const uint8_t *)"'re", 2, &skip), 1);
    assert_int_equal(pattern_gpt2((const uint8_t *)"'s", 1, &skip), 1);
    assert_int_equal(pattern_gpt2((const uint8_t *)"  a", 2, &skip), 2);
    assert_int_equal(pattern_gpt2((const uint8_t *)" a", 1, &skip), 1);
    assert_int_equal(pattern_gpt2((const uint8_t *)"\xE4\xB8\xAD", 2, &skip), 2);
    assert_int_equal(pattern_gpt2((const uint8_t *)"\0\0a", 3, &skip), 2);
    assert_int_equal(pattern_llama3((const uint8_t *)"'\xC5\xBF", 2, &skip), 2);
    assert_int_equal(pattern_llama3((const uint8_t *)"'RE", 2, &skip), 2);
}

// ---------------------------------------------------------------- names

// Characters whose treatment sets two names apart.
static bool is_number(int32_t cp, int32_t before) {
    (void)before;
    return unicode_traits(cp) & UNICODE_NUMBER;
}

static bool is_han_or_slash(int32_t cp, int32_t before) {
    (void)before;
    return cp == '/' || (cp >= 0x2E80 && cp < 0x3040) || (cp >= 0x3400 && cp <= 0x9FFF) ||
           (cp >= 0xF900 && cp <= 0xFAFF) || cp >= 0x16FE0;
}

static bool is_long_space(int32_t cp, int32_t before) {
    return unicode_traits(cp) & unicode_traits(before) & UNICODE_SPACE;
}

// Marks, too: exaone-moe has them inside of words. A number is a word of its own in both.
static bool is_line_or_space(int32_t cp, int32_t before) {
    (void)before;
    return cp == '/' || unicode_traits(cp) & (UNICODE_SPACE | UNICODE_MARK);
}

static bool is_number_or_asian(int32_t cp, int32_t before) {
    return is_number(cp, before) || (cp >= 0xE00 && cp < 0x2000) || (cp >= 0x2F00 && cp < 0x20000);
}

CASE(names_stand_for_their_splits) {
    static const char text[] = "I'm HelloWorld 12345, x\n\n \xE4\xB8\xAD\xE6\x96\x87 ok!";
    static const struct {
        const char *name, *words;
    } cases[] = {
        {"gpt-2", "I|'m| HelloWorld| 12345|,| x|\n\n| \xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"llama-bpe", "I|'m| HelloWorld| |123|45|,| x|\n\n| \xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"lfm2", "I|'m| HelloWorld| |123|45|,| x|\n\n| \xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"falcon-h1", "I|'m| HelloWorld| |123|45|,| x|\n\n| \xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"dbrx", "I|'m| HelloWorld| |123|45|,| x|\n\n| \xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"qwen2", "I|'m| HelloWorld| |1|2|3|4|5|,| x|\n\n| \xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"qwen35", "I|'m| HelloWorld| |1|2|3|4|5|,| x|\n\n| \xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"olmo", "I|'m| HelloWorld| 12345|,| x|\n\n| \xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"refact", "I|'m| HelloWorld| |1|2|3|4|5|,| x|\n\n| \xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"gpt-4o", "I'm| Hello|World| |123|45|,| x|\n\n| \xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"tekken", "I|'m| Hello|World| |1|2|3|4|5|,| x|\n\n| \xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"starcoder", "I|'m| HelloWorld| |1|2|3|4|5|,| x|\n\n| \xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"falcon", "I|'|m| HelloWorld| |123|45|,| x|\n\n| \xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"default", "I|'|m| HelloWorld| |123|45|,| x|\n\n| \xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"deepseek-llm",
         "I|'|m| HelloWorld| |1|2|3|4|5|,| x|\n|\n| |\xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"deepseek-coder",
         "I|'|m| HelloWorld| |1|2|3|4|5|,| x|\n|\n| |\xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"deepseek-v3", "I|'m| HelloWorld| |123|45|,| x|\n\n| |\xE4\xB8\xAD\xE6\x96\x87| ok|!"},
        {"hunyuan-dense", "I|'m| HelloWorld| |123|45|,| x|\n\n| |\u4E2D\u6587| ok|!"},
        {"hunyuan", "I|'m| HelloWorld| |1|2|3|4|5|,| x|\n\n| \u4E2D\u6587| ok|!"},
        {"glm4", "I|'m| HelloWorld| |123|45|,| x|\n\n| \u4E2D\u6587| ok|!"},
        {"minimax-m2", "I'm| Hello|World| |123|45|,| x|\n\n| \u4E2D\u6587| ok|!"},
        {"exaone4", "I|'m| HelloWorld| 12345|,| x|\n\n| \u4E2D\u6587| ok|!"},
        {"kimi-k2", "I'm| Hello|World| |123|45|,| x|\n\n| |\u4E2D\u6587| ok|!"},
        {"youtu", "I'm| Hello|World| |1|2|3|4|5|,| x|\n\n| |\u4E2D\u6587| ok|!"},
        {"afmoe", "I|'m| HelloWorld| |12|345|,| x|\n\n| |\u4E2D\u6587| ok|!"},
        {"tiny_aya", "I'm| Hello|World| |12|345|,| x|\n\n| \u4E2D\u6587| ok|!"},
        {"cohere2moe", "I'm| Hello|World| |12|345|,| x|\n\n| \u4E2D\u6587| ok|!"},
        {"laguna", "I|'m| HelloWorld| |1|2|3|4|5|,| x|\n\n| \u4E2D\u6587| ok|!"},
        {"exaone-moe", "I|'m| HelloWorld| |1|2|3|4|5|,| x|\n\n| \u4E2D\u6587 ok|!"},
        {"superbpe", "I'm HelloWorld |12|345|, x\n\n \u4E2D\u6587 ok!"},
        {"jais-2", "I|'m| HelloWorld| |123|45|,| x|\n\n| \u4E2D\u6587| ok|!"},
        {"bloom", "I'm| HelloWorld| 12345|,| x|\n\n| \u4E2D\u6587| ok|!"},
        {"viking", "I'm| HelloWorld| |1|2|3|4|5|,| x|\n\n| \u4E2D\u6587| ok|!"},
        {"chameleon", "I|'|m| HelloWorld| |1|2|3|4|5|,| x|\n|\n| \u4E2D\u6587| ok|!"},
        {"gemma4", "I'm HelloWorld 12345, x|\n\n| \u4E2D\u6587 ok!"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture *const fixture = fixture_named(cases[i].name);
        check(strcmp(words_of(fixture, text), cases[i].words) == 0, "%s: '%s'", cases[i].name,
              fixture->line);
        fixture_free(fixture);
    }
}

// Hindi and a letter with two accents: the vowel signs and the accents are marks.
CASE(marks_are_inside_of_words_in_qwen35_alone) {
    static const char text[] = "\u0939\u093F\u0928\u094D\u0926\u0940 x\u0323\u0307y.\u0323 \u0323z";
    struct fixture *const qwen2 = fixture_named("qwen2"), *const qwen35 = fixture_named("qwen35");
    check_words(qwen2, text,
                "\u0939|\u093F\u0928|\u094D\u0926|\u0940| x|\u0323\u0307|y|.\u0323| \u0323|z");
    check_words(qwen35, text,
                "\u0939\u093F\u0928\u094D\u0926\u0940| x\u0323\u0307y|.\u0323| \u0323z");
    fixture_free(qwen2);
    fixture_free(qwen35);
}

CASE(names_bring_their_traits) {
    static const struct {
        const char *name;
        bool nfc, ignore_merges;
    } cases[] = {
        {"gpt-2", false, false},    {"llama-bpe", false, true}, {"llama3", false, true},
        {"llama-v3", false, true},  {"tekken", false, true},    {"qwen2", true, false},
        {"command-r", true, false}, {"mpt", true, false},       {"gpt-4o", false, false},
        {"llama4", false, false},   {"falcon", false, false},   {"dbrx", false, false},
        {"qwen35", true, false},    {"olmo", true, false},      {"refact", false, false},
        {"lfm2", false, true},      {"falcon-h1", false, true}, {"youtu", false, true},
        {"kimi-k2", false, true},   {"exaone4", false, false},  {"minimax-m2", false, false},
        {"glm4", false, false},     {"hunyuan", false, false},  {"seed-coder", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture *const fixture = fixture_named(cases[i].name);
        assert_string_equal(fixture->traits.unsupported, "");
        check(fixture->traits.nfc == cases[i].nfc, "%s", cases[i].name);
        check(fixture->traits.ignore_merges == cases[i].ignore_merges, "%s", cases[i].name);
        fixture_free(fixture);
    }
}

// Names that cut most texts alike differ on these.
CASE(names_differ_where_their_patterns_do) {
    static const struct {
        const char *name, *text, *words;
    } cases[] = {
        // Han characters are words of their own, with their marks and numbers of the script
        {"kimi-k2", "x\u4E2D\u6587y \u3042\u4E2D", "x|\u4E2D\u6587|y| \u3042|\u4E2D"},
        {"kimi-k2", "\u3005\u3007\u4E2D\u3001\u3042", "\u3005\u3007\u4E2D|\u3001\u3042"},
        {"kimi-k2", "\U00020000a'LL!/\n/", "\U00020000|a'LL|!/\n|/"},
        {"gpt-4o", "\U00020000a'LL!/\n/", "\U00020000a'LL|!/\n/"},
        // numbers from their end, however long; a letter behind them leaves tiny_aya's whole
        {"afmoe", "1234567 12 123x", "1|234|567| |12| |123|x"},
        {"tiny_aya", "1234567 12 1234x", "1|234|567| |12| |123|4|x"},
        {"superbpe", "a 1234567,x 12", "a |1|234|567|,x |12"},
        // Korean, Bopomofo and full-width signs
        {"youtu", "\uD55C\uAE00\u3131x\u3105\uFF0C\u3001\u2026 HelloA's",
         "\uD55C\uAE00\u3131|x|\u3105|\uFF0C\u3001\u2026| Hello|A's"},
        {"afmoe", "\u0E41\u0E1A\uAC00x \u1000", "\u0E41|\u0E1A|\uAC00|x| |\u1000"},
        // white space in powers of two
        {"jais-2", "a           b", "a|        |  | b"},
        {"exaone-moe", "Hello big world's !!\n\n x", "Hello big world|'s| !!\n|\n| x"},
        {"exaone-moe", "a  b", "a| | b"},
        // lines are split first, so no blanks before a line end join it
        {"laguna", "a \n\nb", "a| |\n\n|b"},
        {"qwen2", "a \n\nb", "a| \n\n|b"},
        {"gemma4", "\n\na\r\n b\n", "\n\n|a\r|\n| b|\n"},
        {"bloom", "(a|b) \u3002c", "(|a|||b|) \u3002|c"},
        {"chameleon", "<sentinel:12>  a\t\tIMGIMGABZ", "<|sentinel|:|1|2|>|  |a|\t|\t|IMGIMGABZ"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture *const fixture = fixture_named(cases[i].name);
        check_words(fixture, cases[i].text, cases[i].words);
        fixture_free(fixture);
    }
}

// Text that has nothing which two names treat differently is cut alike by both.
CASE(names_agree_where_their_patterns_do) {
    static const struct {
        const char *name, *like;
        bool (*apart)(int32_t cp, int32_t before);
    } pairs[] = {
        {"kimi-k2", "gpt-4o", is_han_or_slash},       {"tiny_aya", "gpt-4o", is_number},
        {"jais-2", "llama-bpe", is_long_space},       {"exaone-moe", "qwen2", is_line_or_space},
        {"afmoe", "deepseek-v3", is_number_or_asian},
    };
    srand(11);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct fixture *const one = fixture_named(pairs[i].name);
        struct fixture *const two = fixture_named(pairs[i].like);
        for (int round = 0; round < 400; round++) {
            uint8_t kept[128];
            int32_t before = 0;
            size_t used = 0;
            for (int k = 0; k < 24; k++) { // the two sides know different versions of Unicode, so
                                           // no rare characters
                const size_t count = sizeof random_common / sizeof *random_common;
                const int32_t cp = random_common[(size_t)rand() % count];
                if (cp == '|' || pairs[i].apart(cp, before)) continue;
                used += unicode_encode((uint32_t)cp, kept + used);
                before = cp;
            }
            kept[used] = 0;
            check_words(one, (const char *)kept, words_of(two, (const char *)kept));
        }
        fixture_free(one);
        fixture_free(two);
    }
}

// Texts of digits, other numbers and a few characters around them.
static void random_digits(char *out) {
    static const char *const parts[] = {
        "1", "23", "456", "7890123", "\u00B2", "\u0664",       "\u2160", "x",
        " ", ",",  "_",   "\n",      "1",      "\u0665\u0666", "12345"};
    *out = 0;
    for (int n = 1 + rand() % 8; n > 0; n--)
        strcat(out, parts[(size_t)rand() % (sizeof parts / sizeof *parts)]);
}

// The published expressions, which look ahead from every group, give the same words.
CASE(digits_are_grouped_as_the_published_expressions_do) {
    static const struct {
        const char *name, *first, *second;
    } cases[] = {
        {"tiny_aya", "\\d{1,3}(?=(?:\\d{3})*\\b)", NULL},
        {"superbpe", "\\p{N}+", "(?=(\\d{3})+(?!\\d))"},
        {"afmoe", "\\p{N}+", "\\p{N}{1,3}(?=(?:\\p{N}{3})*\\z)"},
    };
    srand(12);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture *const named = fixture_named(cases[i].name);
        struct vocab_build *const build = build_create();
        build_split(build, SPLIT_REGEX, SPLIT_ISOLATED, false, cases[i].first);
        if (cases[i].second)
            build_split(build, SPLIT_REGEX, SPLIT_ISOLATED, false, cases[i].second);
        // the patterns for other text
        if (i == 0) build_pre(build, "gpt-4o");
        if (i == 2) build_pre(build, "deepseek-v3");
        struct fixture *const published = fixture_of(build);
        for (int round = 0; round < 3000; round++) {
            char text[128];
            random_digits(text);
            check_words(named, text, words_of(published, text));
        }
        fixture_free(named);
        fixture_free(published);
    }
}

CASE(a_number_of_any_length_is_cut) {
    static const char *const names[] = {"afmoe", "tiny_aya", "superbpe"};
    enum { LEN = 100000 };
    char *const text = malloc(LEN + 2);
    assert_non_null(text);
    for (size_t i = 0; i < 3; i++) {
        for (int behind = 0; behind < 2; behind++) { // a letter behind it
            struct fixture *const fixture = fixture_named(names[i]);
            struct split_scratch scratch = {0};
            rn_error err = {0};
            size_t words = 0;
            memset(text, '7', LEN);
            text[LEN] = 'x';
            const rn_status status = split_run(&fixture->splitter, &scratch, (const uint8_t *)text,
                                               LEN + (size_t)behind, word_count, &words, &err);
            check(status == RN_OK, "%s: %s", names[i], err.message);
            assert_int_equal(words, LEN / 3 + 1 + behind);
            split_scratch_deinit(&scratch);
            fixture_free(fixture);
        }
    }
    free(text);
}

CASE(names_are_matched_whole) {
    static const char *const names[] = {"gpt-22", "gpt", "llama", "llama-bpe ", "Qwen2", "kimi-k3"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct fixture *const fixture = fixture_named(names[i]);
        char want[128];
        snprintf(want, sizeof want, "pre-tokenizer '%s' is not supported", names[i]);
        assert_string_equal(fixture->traits.unsupported, want);
        fixture_free(fixture);
    }
    struct fixture *const empty = fixture_named(""); // files that name none
    check_words(empty, "it's 12", "it|'s| 12");
    fixture_free(empty);
}

// ---------------------------------------------------------------- behaviors

CASE(matches_are_treated_as_the_behavior_says) {
    static const struct {
        enum vocab_split_behavior behavior;
        bool invert;
        const char *text, *words;
    } cases[] = {
        // as Hugging Face documents them
        {SPLIT_REMOVED, false, "the-final--countdown", "the|final|countdown"},
        {SPLIT_ISOLATED, false, "the-final--countdown", "the|-|final|-|-|countdown"},
        {SPLIT_MERGED_WITH_PREVIOUS, false, "the-final--countdown", "the-|final-|-|countdown"},
        {SPLIT_MERGED_WITH_NEXT, false, "the-final--countdown", "the|-final|-|-countdown"},
        {SPLIT_CONTIGUOUS, false, "the-final--countdown", "the|-|final|--|countdown"},
        // at the ends
        {SPLIT_REMOVED, false, "-a-", "a"},
        {SPLIT_ISOLATED, false, "--a--", "-|-|a|-|-"},
        {SPLIT_MERGED_WITH_PREVIOUS, false, "--a--", "-|-|a-|-"},
        {SPLIT_MERGED_WITH_NEXT, false, "--a--", "-|-a|-|-"},
        {SPLIT_CONTIGUOUS, false, "--a--", "--|a|--"},
        {SPLIT_REMOVED, false, "---", ""},
        {SPLIT_MERGED_WITH_PREVIOUS, false, "-", "-"},
        {SPLIT_MERGED_WITH_NEXT, false, "-", "-"},
        {SPLIT_CONTIGUOUS, false, "abc", "abc"},
        // the pattern describes the pieces
        {SPLIT_REMOVED, true, "a--bc-", "-|-|-"},
        {SPLIT_ISOLATED, true, "a--bc-", "a|-|-|bc|-"},
        {SPLIT_MERGED_WITH_PREVIOUS, true, "a--bc-", "a|-|-bc|-"},
        {SPLIT_MERGED_WITH_NEXT, true, "a--bc-", "a-|-|bc-"},
        {SPLIT_CONTIGUOUS, true, "a--bc-", "a|--|bc|-"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        // the same as plain text, as a regular expression for PCRE2, and in a class of its own
        static const struct {
            enum vocab_split_kind kind;
            const char *pattern;
        } ways[] = {{SPLIT_LITERAL, "-"}, {SPLIT_REGEX, "-"}, {SPLIT_REGEX, "[-]"}};
        for (size_t k = 0; k < 3; k++) {
            struct fixture *const fixture =
                fixture_split(ways[k].kind, cases[i].behavior, cases[i].invert, ways[k].pattern);
            check_words(fixture, cases[i].text, cases[i].words);
            fixture_free(fixture);
        }
    }
}

CASE(an_empty_match_cuts_but_not_right_behind_another) {
    struct fixture *fixture = fixture_split(SPLIT_REGEX, SPLIT_ISOLATED, false, "(?=c)");
    check_words(fixture, "abcabc", "ab|cab|c");
    fixture_free(fixture);
    fixture = fixture_split(SPLIT_REGEX, SPLIT_MERGED_WITH_NEXT, false, "x*");
    check_words(fixture, "axxb", "a|xxb");
    fixture_free(fixture);
}

CASE(kinds_of_splits_cut_what_they_name) {
    static const struct {
        enum vocab_split_kind kind;
        enum vocab_split_behavior behavior;
        const char *text, *words;
    } cases[] = {
        {SPLIT_DIGITS, SPLIT_ISOLATED, "Call 911 or 1\xC2\xB2!", "Call |911| or |1\xC2\xB2|!"},
        {SPLIT_DIGITS_INDIVIDUAL, SPLIT_ISOLATED, "Call 911!", "Call |9|1|1|!"},
        {SPLIT_PUNCTUATION, SPLIT_ISOLATED, "Hey, (you)$x", "Hey|,| |(|you|)|$|x"},
        {SPLIT_PUNCTUATION, SPLIT_CONTIGUOUS, "Hey?! you", "Hey|?!| you"},
        {SPLIT_PUNCTUATION, SPLIT_REMOVED, "a--b", "a|b"},
        {SPLIT_WHITESPACE, SPLIT_ISOLATED, " Hey  friend_1!?  ", "Hey|friend_1|!?"},
        {SPLIT_WHITESPACE, SPLIT_ISOLATED, "e\xCC\x81x\xE3\x80\x80-", "e\xCC\x81x|-"},
        {SPLIT_WHITESPACE_ALL, SPLIT_ISOLATED, " Hey  friend!\xC2\xA0\n", "Hey|friend!"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture *const fixture = fixture_split(cases[i].kind, cases[i].behavior, false, "");
        check_words(fixture, cases[i].text, cases[i].words);
        fixture_free(fixture);
    }
}

CASE(steps_cut_the_pieces_of_the_ones_before) {
    struct vocab_build *const build = build_create();
    build_split(build, SPLIT_LITERAL, SPLIT_REMOVED, false, "|");
    build_split(build, SPLIT_REGEX, SPLIT_MERGED_WITH_PREVIOUS, false, "[;.]");
    build_split(build, SPLIT_DIGITS_INDIVIDUAL, SPLIT_ISOLATED, false, "");
    struct fixture *const fixture = fixture_of(build);
    check_words(fixture, "a12;b.|c;;3", "a|1|2|;|b.|c;|;|3");
    // a blank at the end of a piece is at the end of its text
    struct vocab_build *const ends = build_create();
    build_split(ends, SPLIT_LITERAL, SPLIT_ISOLATED, false, "x");
    build_pre(ends, "gpt-2");
    struct fixture *const inner = fixture_of(ends);
    check_words(inner, "a  xb  c", "a|  |x|b| | c");
    fixture_free(inner);
    fixture_free(fixture);
}

CASE(splits_behind_the_byte_level_see_its_alphabet) {
    struct vocab_build *const build = build_create();
    build_pre(build, "gpt-2");
    build_split(build, SPLIT_BYTE_LEVEL, SPLIT_ISOLATED, false, "");
    build_split(build, SPLIT_DIGITS, SPLIT_ISOLATED, false, "");
    struct fixture *const fixture = fixture_of(build);
    // the second byte of U+00F2 stands for U+00B2, a number
    check_words(fixture, "x\xC3\xB2y 12", "x\xC3|\xB2|y| |12");
    fixture_free(fixture);

    struct vocab_build *const other = build_create();
    build_split(other, SPLIT_BYTE_LEVEL, SPLIT_ISOLATED, false, "");
    build_split(other, SPLIT_REGEX, SPLIT_ISOLATED, false, "\\p{L}");
    struct fixture *const refused = fixture_of(other);
    assert_string_equal(refused->traits.unsupported,
                        "pre-tokenizer '\\p{L}' is not supported: it follows ByteLevel");
    fixture_free(refused);
}

CASE(expressions_are_known_however_they_are_written) {
    static const char *const ways[] = {"[\\r\\n]", "[\r\n]", "[\\r\n]"};
    for (size_t i = 0; i < 3; i++) {
        struct fixture *const fixture = fixture_split(SPLIT_REGEX, SPLIT_ISOLATED, false, ways[i]);
        assert_ptr_equal(fixture->splitter.step[0].match, pattern_line_end);
        fixture_free(fixture);
    }
    struct fixture *const fixture =
        fixture_split(SPLIT_REGEX, SPLIT_ISOLATED, false,
                      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
    assert_ptr_equal(fixture->splitter.step[0].match, pattern_llama3);
    assert_true(fixture->splitter.step[0].covers);
    fixture_free(fixture);
}

CASE(what_is_not_known_is_named) {
    struct fixture *fixture =
        fixture_split(SPLIT_UNSUPPORTED, SPLIT_ISOLATED, false, "UnicodeScripts");
    assert_string_equal(fixture->traits.unsupported,
                        "pre-tokenizer 'UnicodeScripts' is not supported");
    fixture_free(fixture);
    fixture = fixture_split(SPLIT_REGEX, SPLIT_ISOLATED, false, "(a");
    assert_non_null(
        strstr(fixture->traits.unsupported, "regular expression '(a' is not supported: "));
    fixture_free(fixture);
    fixture = fixture_split(SPLIT_LITERAL, SPLIT_ISOLATED, false, ""); // cuts nothing
    check_words(fixture, "abc", "abc");
    fixture_free(fixture);

    struct vocab_build *const build = build_create();
    struct vocab_split many[20];
    for (int i = 0; i < 20; i++) many[i] = (struct vocab_split){.kind = SPLIT_DIGITS};
    build->source.split = many;
    build->source.n_split = 20;
    fixture = fixture_of(build);
    assert_non_null(strstr(fixture->traits.unsupported, "more splits than '16'"));
    fixture_free(fixture);
}

CASE(unknown_kinds_and_behaviors_are_refused) {
    for (int i = 0; i < 2; i++) {
        struct vocab_build *const build = build_create();
        build_split(build, SPLIT_DIGITS, SPLIT_ISOLATED, false, "");
        if (i == 0) build->split[0].kind = (enum vocab_split_kind)99;
        if (i == 1) build->split[0].behavior = (enum vocab_split_behavior)99;
        struct splitter splitter;
        struct pretokenizer_traits traits;
        struct arena arena = {0};
        rn_error err = {0};
        assert_int_equal(pretokenizer_init(&splitter, &build->source, &arena, &traits, &err),
                         RN_ERR_MODEL);
        assert_string_equal(err.message, i ? "a split of the unknown behavior 99"
                                           : "a split of the unknown kind 99");
        arena_deinit(&arena);
        free(build);
    }
}

TEST_PROGRAM(pretokenizer) { return cases_run(NULL, NULL); }
