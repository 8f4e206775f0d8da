// UTF-8 decoding of any bytes, the classes of characters, the byte-level alphabet.
// label: memory
#include "check.h"

#include <stdbool.h>
#include <string.h>

#include "text/alphabet.h"
#include <utf8proc.h>

#include "unicode/unicode.h"

CASE(every_scalar_value_decodes_to_itself) {
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        if (cp >= 0xD800 && cp <= 0xDFFF) continue;
        uint8_t text[4];
        const size_t len = unicode_encode(cp, text);
        size_t n = 0;
        assert_int_equal(unicode_decode(text, len, &n), cp);
        assert_int_equal(n, len);
        for (size_t cut = 1; cut < len; cut++) {
            assert_int_equal(unicode_scan(text, cut, &n), UNICODE_PARTIAL);
            assert_int_equal(n, cut);
        }
    }
}

CASE(ill_formed_parts_have_the_length_of_the_standard) {
    static const struct {
        const char *text;
        enum unicode_form form;
        size_t n;
    } cases[] = {
        {"\x80", UNICODE_ILL, 1},
        {"\xBF\x80", UNICODE_ILL, 1},
        {"\xC0\x80", UNICODE_ILL, 1},
        {"\xC1\xBF", UNICODE_ILL, 1},
        {"\xC2\x41", UNICODE_ILL, 1},
        {"\xC2", UNICODE_PARTIAL, 1},
        {"\xE0\x80\x80", UNICODE_ILL, 1},
        {"\xE0\xA0", UNICODE_PARTIAL, 2},
        {"\xE0\xA0\x41", UNICODE_ILL, 2},
        {"\xED\xA0\x80", UNICODE_ILL, 1},
        {"\xED\x9F\xBF", UNICODE_WELL, 3},
        {"\xF0\x80\x80\x80", UNICODE_ILL, 1},
        {"\xF0\x90\x80\x41", UNICODE_ILL, 3},
        {"\xF4\x8F\xBF\xBF", UNICODE_WELL, 4},
        {"\xF4\x90\x80\x80", UNICODE_ILL, 1},
        {"\xF5\x80\x80\x80", UNICODE_ILL, 1},
        {"\xFF", UNICODE_ILL, 1},
        {"a\x80", UNICODE_WELL, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint8_t *const text = (const uint8_t *)cases[i].text;
        const size_t len = strlen(cases[i].text);
        size_t n;
        assert_int_equal(unicode_scan(text, len, &n), cases[i].form);
        assert_int_equal(n, cases[i].n);
        const int32_t cp = unicode_decode(text, len, &n);
        if (cases[i].form == UNICODE_WELL) continue;
        assert_int_equal(cp, -1); // to a pre-tokenizer every bad byte is a unit of its own
        assert_int_equal(n, 1);
    }
}

CASE(white_space_is_the_unicode_property) {
    static const int32_t spaces[] = {0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x20,   0x85,
                                     0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004,
                                     0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x2028,
                                     0x2029, 0x202F, 0x205F, 0x3000};
    size_t next = 0;
    for (int32_t cp = 0; cp <= 0x10FFFF; cp++) {
        const bool listed = next < sizeof spaces / sizeof spaces[0] && spaces[next] == cp;
        assert_int_equal((unicode_traits(cp) & UNICODE_SPACE) != 0, listed);
        next += listed;
    }
    assert_int_equal(next, sizeof spaces / sizeof spaces[0]);
}

CASE(traits_follow_the_general_category) {
    static const struct {
        int32_t cp;
        unsigned traits;
    } cases[] = {
        {'a', UNICODE_SMALL},
        {'Z', UNICODE_CAPITAL},
        {'_', UNICODE_PUNCTUATION},
        {'0', UNICODE_NUMBER},
        {'9', UNICODE_NUMBER},
        {'@', UNICODE_PUNCTUATION},
        {'[', UNICODE_PUNCTUATION},
        {'{', UNICODE_PUNCTUATION},
        {0x7F, 0},
        {0x1C, 0},
        {0xAA, UNICODE_UNCASED},
        {0xB2, UNICODE_NUMBER},
        {0xD7, UNICODE_SYMBOL},
        {0xE9, UNICODE_SMALL},
        {0x01C5, UNICODE_CAPITAL},
        {0x02B0, UNICODE_UNCASED},
        {0x0301, UNICODE_MARK},
        {0x0660, UNICODE_NUMBER},
        {0x0E31, UNICODE_MARK},
        {0x2167, UNICODE_NUMBER},
        {0x200B, 0},
        {0x200D, 0},
        {0x4E2D, UNICODE_UNCASED},
        {0x3007, UNICODE_NUMBER},
        {0xAC00, UNICODE_UNCASED},
        {0xE000, 0},
        {0xFEFF, 0},
        {0x1F642, UNICODE_SYMBOL},
        {0x1D7CE, UNICODE_NUMBER},
        {0x20000, UNICODE_UNCASED},
        {0x180E, 0},
        {-1, 0},
        {0x20DD, UNICODE_MARK},
        {0x0903, UNICODE_MARK},
        {0x203F, UNICODE_PUNCTUATION},
        {0x20AC, UNICODE_SYMBOL},
        {0x3000, UNICODE_SPACE},
        {0x10FFFF, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(unicode_traits(cases[i].cp), cases[i].traits);
}

// The table of ASCII says what the categories say.
CASE(ascii_traits_are_those_of_the_categories) {
    for (int32_t cp = 0; cp < 0x80; cp++) {
        const char *const category = utf8proc_category_string(cp);
        const unsigned traits = unicode_traits(cp);
        assert_int_equal((traits & UNICODE_LETTER) != 0, category[0] == 'L');
        assert_int_equal((traits & UNICODE_NUMBER) != 0, category[0] == 'N');
        assert_int_equal((traits & UNICODE_PUNCTUATION) != 0, category[0] == 'P');
        assert_int_equal((traits & UNICODE_SYMBOL) != 0, category[0] == 'S');
        assert_int_equal((traits & UNICODE_CAPITAL) != 0, category[1] == 'u' && category[0] == 'L');
    }
}

CASE(words_are_letters_marks_digits_and_connectors) {
    static const int32_t inside[] = {'a',    'Z',    '0',    '_',    0xE9,   0x301,  0x661,  0x2160,
                                     0x203F, 0x200C, 0x200D, 0x24B6, 0x4E2D, 0x20DD, 0x1F130};
    static const int32_t outside[] = {-1,   ' ',  '-',    '$',    0x7F,    0xA0,
                                      0xB2, 0xBD, 0x2014, 0x200B, 0x1F642, 0x10FFFF};
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++)
        assert_true(unicode_is_word(inside[i]));
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        assert_false(unicode_is_word(outside[i]));
}

CASE(alphabet_is_one_printable_character_per_byte) {
    for (int byte = 0; byte < 256; byte++)
        assert_int_equal(alphabet_byte((int32_t)alphabet_char((uint8_t)byte)), byte);
    int count = 0;
    for (int32_t cp = -1; cp <= 0x10FFFF; cp++) {
        const int byte = alphabet_byte(cp);
        if (byte < 0) continue;
        count++;
        assert_int_equal(alphabet_char((uint8_t)byte), cp);
    }
    assert_int_equal(count, 256);
    assert_int_equal(alphabet_char(' '), 0x120);
    assert_int_equal(alphabet_char('\n'), 0x10A);
    assert_int_equal(alphabet_char(0x7F), 0x121);
    assert_int_equal(alphabet_char(0xA0), 0x142);
    assert_int_equal(alphabet_char(0xAD), 0x143);
    assert_int_equal(alphabet_char('A'), 'A');
}

CASE(quoting_keeps_whole_characters_that_fit) {
    char out[8];
    unicode_quote("a\xC3\xA9\x80z", 5, out, sizeof out);
    assert_string_equal(out, "a\xC3\xA9?z");
    unicode_quote("123456\xC3\xA9", 8, out, sizeof out);
    assert_string_equal(out, "123456");
    unicode_quote("12345\xC3\xA9", 7, out, sizeof out);
    assert_string_equal(out, "12345\xC3\xA9");
    unicode_quote(NULL, 0, out, 1);
    assert_string_equal(out, "");
}

CASE(only_whole_characters_are_valid) {
    assert_true(unicode_is_valid("", 0));
    assert_true(unicode_is_valid("a\xc3\xa9\xf0\x9f\xa6\x99", 7));
    assert_false(unicode_is_valid("a\xc3", 2));           // ends inside a character
    assert_false(unicode_is_valid("\xa9", 1));            // begins inside one
    assert_false(unicode_is_valid("a\xed\xa0\x80 b", 6)); // a surrogate
    assert_false(unicode_is_valid("\xc0\x80", 2));        // overlong
}

TEST_PROGRAM(unicode) { return cases_run(NULL, NULL); }
