// Where the gpt-2 pre-tokenizer cuts: one row per rule of its pattern, and what holds for any
// bytes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "text/pretokenizer.h"

static pretokenizer_fn find(const char *name) {
    return pretokenizer_find((struct text_span){name, strlen(name)});
}

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

static void texts_split_as_the_pattern_says(void **state) {
    (void)state;
    const pretokenizer_fn next = find("gpt-2");
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        const char *const text = splits[i].text;
        char got[256] = "";
        size_t used = 0;
        for (size_t at = 0, n; text[at]; at += n) {
            n = next((const uint8_t *)text + at, strlen(text + at));
            assert_true(n > 0 && n <= strlen(text + at));
            used += (size_t)snprintf(got + used, sizeof got - used, "%s%.*s", at ? "|" : "", (int)n,
                                     text + at);
        }
        assert_string_equal(got, splits[i].words);
    }
}

static void a_nul_is_a_character_like_others(void **state) {
    (void)state;
    const pretokenizer_fn next = find("gpt-2");
    assert_int_equal(next((const uint8_t *)"\0\0a", 3), 2);
    assert_int_equal(next((const uint8_t *)" \0a", 3), 2);
    assert_int_equal(next((const uint8_t *)"a\0", 2), 1);
}

static void the_length_bounds_what_is_read(void **state) {
    (void)state;
    const pretokenizer_fn next = find("gpt-2");
    assert_int_equal(next((const uint8_t *)"'re", 2), 1);
    assert_int_equal(next((const uint8_t *)"'s", 1), 1);
    assert_int_equal(next((const uint8_t *)"  a", 2), 2);
    assert_int_equal(next((const uint8_t *)" a", 1), 1);
    assert_int_equal(next((const uint8_t *)"\xE4\xB8\xAD", 2), 2);
}

static void names_are_matched_whole(void **state) {
    (void)state;
    assert_non_null(find("gpt-2"));
    assert_ptr_equal(find(""), find("gpt-2"));
    assert_ptr_equal(pretokenizer_find((struct text_span){NULL, 0}), find("gpt-2"));
    assert_null(find("gpt-22"));
    assert_null(find("gpt"));
    assert_null(find("llama-bpe"));
    assert_null(find("default"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_split_as_the_pattern_says),
        cmocka_unit_test(a_nul_is_a_character_like_others),
        cmocka_unit_test(the_length_bounds_what_is_read),
        cmocka_unit_test(names_are_matched_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
