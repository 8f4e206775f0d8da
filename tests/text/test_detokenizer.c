// The streaming decoder: however the bytes are cut, the sum is the decoding of the whole, and no
// piece holds half a character.
// label: memory
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/detokenizer.h"
#include "unicode/unicode.h"

#define BAD "\xEF\xBF\xBD"

static void check_well_formed(const char *text, size_t len) {
    for (size_t at = 0, n; at < len; at += n)
        assert_int_equal(unicode_scan((const uint8_t *)text + at, len - at, &n), UNICODE_WELL);
}

// Feeds one piece into exactly the room the header asks for, so that a sanitizer sees an overrun.
static size_t feed(struct detokenizer *state, const char *bytes, size_t len, char *out) {
    char *const exact = malloc(3 * (len + 4));
    assert_non_null(exact);
    const size_t n = detokenizer_feed(state, bytes, len, exact);
    assert_true(n <= 3 * (len + 4));
    check_well_formed(exact, n);
    memcpy(out, exact, n);
    free(exact);
    return n;
}

static size_t finish(struct detokenizer *state, char *out) {
    const size_t n = detokenizer_finish(state, out);
    check_well_formed(out, n);
    assert_int_equal(state->n_held, 0);
    return n;
}

static size_t decode_whole(const char *bytes, size_t len, char *out) {
    struct detokenizer state = {0};
    const size_t n = feed(&state, bytes, len, out);
    return n + finish(&state, out + n);
}

static const struct {
    const char *bytes, *text;
} cases[] = {
    {"", ""},
    {"plain", "plain"},
    {"\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x99\x82", "\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x99\x82"},
    // expected as Python's bytes.decode("utf-8", "replace") gives it
    {"\x80", BAD},
    {"\x80\xBF", BAD BAD},
    {"\xC0\x80", BAD BAD},
    {"\xC3", BAD},
    {"\xC3(", BAD "("},
    {"\xE4\xB8", BAD},
    {"\xE4\xB8z", BAD "z"},
    {"\xE4\xB8\xE4\xB8\xAD", BAD "\xE4\xB8\xAD"},
    {"\xE0\x80\x80", BAD BAD BAD},
    {"\xED\xA0\x80", BAD BAD BAD},
    {"\xED\xA0\xBD\xED\xB8\x80", BAD BAD BAD BAD BAD BAD},
    {"\xF0\x9F\x99", BAD},
    {"\xF0\x9F\x99z", BAD "z"},
    {"\xF0\x9F\xF0\x9F\x99\x82", BAD "\xF0\x9F\x99\x82"},
    {"\xF0\x80\x80\x80", BAD BAD BAD BAD},
    {"\xF4\x90\x80\x80", BAD BAD BAD BAD},
    {"\xF8\x88\x80\x80\x80", BAD BAD BAD BAD BAD},
    {"a\xF1\x80\x80\xE1\x80\xC2z\x80y\x80\xBFx", "a" BAD BAD BAD "z" BAD "y" BAD BAD "x"},
    {"\xE2\xE2\xE2\xE2", BAD BAD BAD BAD},
    {"\xFE\xFF", BAD BAD},
};

CASE(ill_formed_parts_become_one_replacement_each) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[128];
        const size_t n = decode_whole(cases[i].bytes, strlen(cases[i].bytes), out);
        assert_int_equal(n, strlen(cases[i].text));
        assert_memory_equal(out, cases[i].text, n);
    }
}

CASE(every_cut_into_pieces_gives_the_same_text) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const bytes = cases[i].bytes;
        const size_t len = strlen(bytes);
        if (len == 0) continue;
        for (uint32_t cuts = 0; cuts < 1u << (len - 1); cuts++) { // bit k: a cut behind byte k
            struct detokenizer decoder = {0};
            char out[128];
            size_t used = 0, begin = 0;
            for (size_t at = 1; at <= len; at++) {
                if (at < len && !(cuts >> (at - 1) & 1)) continue;
                used += feed(&decoder, bytes + begin, at - begin, out + used);
                begin = at;
            }
            used += finish(&decoder, out + used);
            assert_int_equal(used, strlen(cases[i].text));
            assert_memory_equal(out, cases[i].text, used);
        }
    }
}

CASE(random_bytes_in_random_pieces_give_the_same_text) {
    static const uint8_t likely[] = {'a',  0x80, 0x9F, 0xA0, 0xBF, 0xC2, 0xE0,
                                     0xE4, 0xED, 0xF0, 0xF1, 0xF4, 0xFF, 0x90};
    srand(3);
    for (int round = 0; round < 5000; round++) {
        char bytes[64], whole[256], out[256];
        const size_t len = (size_t)rand() % sizeof bytes;
        for (size_t i = 0; i < len; i++) bytes[i] = (char)likely[(size_t)rand() % sizeof likely];
        const size_t want = decode_whole(bytes, len, whole);
        struct detokenizer decoder = {0};
        size_t used = 0;
        for (size_t at = 0; at < len;) {
            size_t n = (size_t)rand() % 6;
            if (n > len - at) n = len - at;
            used += feed(&decoder, bytes + at, n, out + used);
            at += n;
        }
        used += finish(&decoder, out + used);
        assert_int_equal(used, want);
        assert_memory_equal(out, whole, used);
    }
}

CASE(text_comes_out_as_soon_as_it_is_certain) {
    struct detokenizer decoder = {0};
    char out[64];
    assert_int_equal(feed(&decoder, "a\xE4", 2, out), 1);
    assert_int_equal(feed(&decoder, "\xB8", 1, out), 0);
    assert_int_equal(feed(&decoder, "", 0, out), 0);
    assert_int_equal(feed(&decoder, "\xAD", 1, out), 3);
    assert_memory_equal(out, "\xE4\xB8\xAD", 3);
    assert_int_equal(feed(&decoder, "\xED", 1, out), 0);
    assert_int_equal(feed(&decoder, "\xA0", 1, out), 6); // no surrogate can come of it
    assert_int_equal(finish(&decoder, out), 0);
}

TEST_PROGRAM(detokenizer) { return cases_run(NULL, NULL); }
