// Added tokens: where they are found, which neighbouring blanks they take, and in which text they
// are searched for.
// label: memory
#include "text/vocab_build.h"

// The ids of a text, with one written as '.' for each byte that stands for itself.
static const char *ids_of(const struct tokenizer *tokenizer, const char *text, int flags) {
    static char line[512];
    struct token_list list = {0};
    rn_error err = {0};
    const rn_status status = tokenizer_encode(tokenizer, text, strlen(text), flags, &list, &err);
    check(status == RN_OK, "%s", err.message);
    line[0] = '\0';
    size_t used = 0;
    for (size_t i = 0; i < list.count; i++) {
        if (list.id[i] < 256)
            used += (size_t)snprintf(line + used, sizeof line - used, "%c", (char)list.id[i]);
        else
            used += (size_t)snprintf(line + used, sizeof line - used, "{%d}", list.id[i]);
    }
    token_list_deinit(&list);
    return line;
}

// Bytes, and one added token 256.
static struct vocab_build *build_one(const char *text, struct vocab_added **added) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_token(build, span(text), TOKEN_USER_DEFINED);
    *added = build_added(build, 256, text);
    return build;
}

static void check_ids(const struct tokenizer *tokenizer, const char *text, const char *want) {
    check(strcmp(ids_of(tokenizer, text, ENCODE_SPECIAL), want) == 0,
          "'%s' becomes '%s', expected '%s'", text, ids_of(tokenizer, text, ENCODE_SPECIAL), want);
}

CASE(tokens_take_white_space_if_they_say_so) {
    static const struct {
        bool left, right;
        const char *text, *want;
    } cases[] = {
        {false, false, "a <x> b", "a {256} b"},
        {true, false, "a \t\n<x> b", "a{256} b"},
        {true, false, "  <x>", "{256}"},
        {true, false, "a\u3000 <x>", "a{256}"},
        {true, false, "<x> <x>", "{256}{256}"},
        {false, true, "a <x> \u00A0\nb", "a {256}b"},
        {false, true, "<x>  ", "{256}"},
        {false, true, "<x> <x> c", "{256}{256}c"},
        {true, true, " a <x> b ", " a{256}b "},
        {true, true, "\xA0 <x>", "\xA0{256}"}, // a stray byte is no white space
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vocab_added *added;
        struct vocab_build *const build = build_one("<x>", &added);
        added->lstrip = cases[i].left;
        added->rstrip = cases[i].right;
        struct tokenizer *const tokenizer = build_finish(build);
        check_ids(tokenizer, cases[i].text, cases[i].want);
        tokenizer_destroy(tokenizer);
    }
}

CASE(single_words_are_not_found_within_others) {
    struct vocab_added *added;
    struct vocab_build *const build = build_one("cat", &added);
    added->single_word = true;
    struct tokenizer *const tokenizer = build_finish(build);
    check_ids(tokenizer, "cat", "{256}");
    check_ids(tokenizer, "a cat.", "a {256}.");
    check_ids(tokenizer, "cats", "cats");
    check_ids(tokenizer, "bobcat cat", "bobcat {256}");
    check_ids(tokenizer, "cat_ 1cat -cat-", "cat_ 1cat -{256}-");
    check_ids(tokenizer, "catcat", "catcat");
    struct token_list list = {0}; // letters of more than a byte on either side
    assert_int_equal(tokenizer_encode(tokenizer, "\u00E9cat", 5, 0, &list, NULL), RN_OK);
    assert_int_equal(list.count, 5);
    list.count = 0;
    assert_int_equal(tokenizer_encode(tokenizer, "cat\u0301", 5, 0, &list, NULL), RN_OK);
    assert_int_equal(list.count, 5);
    list.count = 0;
    assert_int_equal(tokenizer_encode(tokenizer, "\u2014cat\u2014", 9, 0, &list, NULL), RN_OK);
    assert_int_equal(list.count, 7);
    token_list_deinit(&list);
    tokenizer_destroy(tokenizer);
}

CASE(special_ones_are_found_only_when_asked_for) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_token(build, span("<s>"), TOKEN_NORMAL); // 256
    build_token(build, span("<t>"), TOKEN_NORMAL); // 257
    build_added(build, 256, "<s>")->special = true;
    build_added(build, 257, "<t>");
    struct tokenizer *const tokenizer = build_finish(build);
    assert_string_equal(ids_of(tokenizer, "<s><t>", ENCODE_SPECIAL), "{256}{257}");
    assert_string_equal(ids_of(tokenizer, "<s><t>", 0), "<s>{257}");
    assert_true(tokenizer_is_special(tokenizer, 256)); // the list says what the types do not
    assert_false(tokenizer_is_special(tokenizer, 257));
    tokenizer_destroy(tokenizer);
}

CASE(the_text_of_the_list_is_sought) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_token(build, span("<s>"), TOKEN_CONTROL);  // 256, listed with another text
    build_token(build, span("<u>"), TOKEN_CONTROL);  // 257, not listed
    build_token(build, span("<uu>"), TOKEN_CONTROL); // 258
    build_added(build, 256, "[BEGIN]")->special = true;
    build_added(build, 258, "")->special = true; // nothing to seek
    struct tokenizer *const tokenizer = build_finish(build);
    check_ids(tokenizer, "[BEGIN]<s><u><uu>", "{256}<s>{257}<uu>");
    tokenizer_destroy(tokenizer);
}

CASE(the_longest_of_those_that_begin_first_is_found) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    static const char *const texts[] = {"ab", "abcd", "bcdef", "  ", "    "};
    for (int i = 0; i < 5; i++) {
        build_token(build, span(texts[i]), TOKEN_USER_DEFINED);
        build_added(build, 256 + i, texts[i]);
    }
    struct tokenizer *const tokenizer = build_finish(build);
    check_ids(tokenizer, "abcdef", "{257}ef");
    check_ids(tokenizer, "abc", "{256}c");
    check_ids(tokenizer, "xbcdef", "x{258}");
    check_ids(tokenizer, "       ", "{260}{259} "); // four, two, one
    tokenizer_destroy(tokenizer);
}

// ---------------------------------------------------------------- normalized text

CASE(normalized_ones_are_sought_in_the_normalized_text) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_token(build, span("Raw"), TOKEN_USER_DEFINED);    // 256
    build_token(build, span("Folded"), TOKEN_USER_DEFINED); // 257
    build_added(build, 256, "Raw");
    build_added(build, 257, "Folded")->normalized = true;
    build_normalizer(build, NORMAL_LOWERCASE, "", "");
    struct tokenizer *const tokenizer = build_finish(build);
    check_ids(tokenizer, "Raw raw RAW", "{256} raw raw");
    check_ids(tokenizer, "Folded folded FOLDED", "{257} {257} {257}");
    tokenizer_destroy(tokenizer);
}

// "▁<x>" is what Hugging Face seeks, because it normalizes the token too; control tokens are sought
// without the prefix, so that they are found wherever they stand.
CASE(a_prefix_belongs_to_normalized_tokens_but_not_to_control_tokens) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_token(build, span("<x>"), TOKEN_USER_DEFINED); // 256
    build_token(build, span("<s>"), TOKEN_CONTROL);      // 257
    build_added(build, 256, "<x>")->normalized = true;
    struct vocab_added *const special = build_added(build, 257, "<s>");
    special->normalized = special->special = true;
    build_normalizer(build, NORMAL_PREPEND, "", "_");
    struct tokenizer *const tokenizer = build_finish(build);
    check_ids(tokenizer, "<x>a", "{256}a");
    check_ids(tokenizer, "a<x>", "_a<x>");
    check_ids(tokenizer, "a_<x>", "_a{256}");
    check_ids(tokenizer, "a<s>b", "_a{257}b");
    tokenizer_destroy(tokenizer);
}

CASE(stretches_between_raw_tokens_are_normalized_one_by_one) {
    struct vocab_build *build = build_create();
    build_bytes(build);
    build_token(build, span("<s>"), TOKEN_CONTROL); // 256
    build_normalizer(build, NORMAL_PREPEND, "", "_");
    struct tokenizer *tokenizer = build_finish(build);
    check_ids(tokenizer, "a<s>b<s><s>", "_a{256}_b{256}{256}");
    tokenizer_destroy(tokenizer);
    build = build_create();
    build_bytes(build);
    build_token(build, span("<s>"), TOKEN_CONTROL);
    build_normalizer(build, NORMAL_PREPEND_FIRST, "", "_");
    tokenizer = build_finish(build);
    check_ids(tokenizer, "a<s>b", "_a{256}b");
    check_ids(tokenizer, "<s>b", "{256}b");
    tokenizer_destroy(tokenizer);
}

// The prefix of a pre-tokenizer (ByteLevel, Metaspace) comes after all added tokens were sought.
CASE(prefixes_of_pre_tokenizers_stand_between_tokens_of_any_kind) {
    for (int first = 0; first < 2; first++) {
        struct vocab_added *added;
        struct vocab_build *const build = build_one("<x>", &added);
        added->normalized = true;
        build_normalizer(build, first ? NORMAL_PREPEND_FIRST : NORMAL_PREPEND_ONCE, "", "_");
        struct tokenizer *const tokenizer = build_finish(build);
        check_ids(tokenizer, "<x>a", first ? "{256}a" : "{256}_a");
        check_ids(tokenizer, "a<x>b<x>_c", first ? "_a{256}b{256}_c" : "_a{256}_b{256}_c");
        tokenizer_destroy(tokenizer);
    }
}

// A name can imply what the file has no key for.
CASE(the_name_qwen2_brings_nfc) {
    struct vocab_build *build = build_create();
    build_bytes(build);
    build_pre(build, "qwen2");
    struct tokenizer *tokenizer = build_finish(build);
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, "e\u0301", 3, 0, &list, NULL), RN_OK);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.id[0], 0xC3);
    assert_int_equal(list.id[1], 0xA9);
    token_list_deinit(&list);
    tokenizer_destroy(tokenizer);
}

CASE(texts_that_are_searched_for_have_a_limit) {
    char *const text = malloc(1026);
    assert_non_null(text);
    memset(text, 'a', 1025);
    text[1025] = '\0';
    struct vocab_added *added;
    struct vocab_build *const build = build_one("x", &added);
    added->text = span(text);
    struct tokenizer *tokenizer = NULL;
    rn_error err = {0};
    assert_int_equal(tokenizer_create(&build->source, &tokenizer, &err), RN_ERR_MODEL);
    assert_string_equal(
        err.message, "test: tokens[256] is a special token of 1025 bytes, expected at most 1024");
    free(build);
    free(text);
}

TEST_PROGRAM(added) { return cases_run(NULL, NULL); }
