// Merging: the order of merges, and that the heap for long words and the array for short ones give
// what merging one pair at a time by the definition gives.
#include "text/vocab_build.h"

// The tokens of a text with '|' between them.
static const char *pieces_of(const struct tokenizer *tokenizer, const char *text) {
    static char line[512];
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, text, strlen(text), 0, &list, NULL), RN_OK);
    line[0] = '\0';
    for (size_t i = 0, used = 0; i < list.count; i++) {
        const struct text_span token = tokenizer_bytes(tokenizer, list.id[i]);
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%.*s", i ? "|" : "",
                                 (int)token.len, token.data);
    }
    token_list_deinit(&list);
    return line;
}

CASE(the_lowest_rank_is_merged_first) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_normal(build, "abc");
    build_normal(build, "ab");
    build_normal(build, "bc");
    build_merge(build, "b c");
    build_merge(build, "a b");
    build_merge(build, "a bc");
    struct tokenizer *const tokenizer = build_finish(build);
    assert_string_equal(pieces_of(tokenizer, "abc"), "abc"); // b c, then a bc
    assert_string_equal(pieces_of(tokenizer, "abd"), "ab|d");
    assert_string_equal(pieces_of(tokenizer, "aabcab"), "a|abc|ab");
    assert_string_equal(pieces_of(tokenizer, "c"), "c");
    tokenizer_destroy(tokenizer);
}

CASE(of_equal_ranks_the_leftmost_is_merged_first) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_normal(build, "aa");
    build_normal(build, "aaaa");
    build_merge(build, "a a");
    build_merge(build, "aa aa");
    struct tokenizer *const tokenizer = build_finish(build);
    assert_string_equal(pieces_of(tokenizer, "aaa"), "aa|a");
    assert_string_equal(pieces_of(tokenizer, "aaaaa"), "aaaa|a");
    assert_string_equal(pieces_of(tokenizer, "aaaaaaa"), "aaaa|aa|a");
    tokenizer_destroy(tokenizer);
}

CASE(a_word_that_is_a_token_still_needs_its_merges) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_normal(build, "word");
    struct tokenizer *const tokenizer = build_finish(build);
    assert_string_equal(pieces_of(tokenizer, "word"), "w|o|r|d");
    tokenizer_destroy(tokenizer);
}

CASE(unless_the_vocabulary_says_that_merges_are_ignored_there) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_normal(build, "word");
    build_normal(build, "wo");
    build_token(build, span("rd"), TOKEN_CONTROL);
    build_merge(build, "w o");
    build_split(build, SPLIT_LITERAL, SPLIT_ISOLATED, false, "-");
    build->source.ignore_merges = true;
    struct tokenizer *const tokenizer = build_finish(build);
    assert_string_equal(pieces_of(tokenizer, "word-wo-words-rd"), "word|-|wo|-|wo|r|d|s|-|r|d");
    tokenizer_destroy(tokenizer);
}

CASE(of_a_merge_that_comes_twice_the_first_holds) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_normal(build, "ab");
    build_normal(build, "bc");
    build_merge(build, "a b");
    build_merge(build, "b c");
    build_merge(build, "a b");
    struct tokenizer *const tokenizer = build_finish(build);
    assert_string_equal(pieces_of(tokenizer, "abc"), "ab|c");
    tokenizer_destroy(tokenizer);
}

// ---------------------------------------------------------------- against the definition

struct random_vocab {
    char text[BUILD_MAX][64];
    struct vocab_build *build;
};

// Merges of tokens over a, b and c that are there already, in random order.
static void random_fill(struct random_vocab *vocab, int n_merge) {
    struct vocab_build *const build = vocab->build = build_create();
    static const char *const letters[] = {"a", "b", "c"};
    build_bytes(build);
    int32_t made[BUILD_MAX] = {'a', 'b', 'c'};
    int n_made = 3;
    for (int i = 0; i < n_merge; i++) {
        const struct text_span left = build->token[made[rand() % n_made]];
        const struct text_span right =
            rand() % 2 ? span(letters[rand() % 3]) : build->token[made[rand() % n_made]];
        if (left.len + right.len > 24) continue;
        snprintf(vocab->text[i], 64, "%.*s%.*s", (int)left.len, left.data, (int)right.len,
                 right.data);
        made[n_made++] = build_normal(build, vocab->text[i]);
        build->merge[build->source.n_merge++] = (struct vocab_merge){left, right};
    }
}

static int32_t find_token(const struct vocab_build *build, const char *text, size_t len) {
    for (int32_t id = 0; id < build->source.n_token; id++) {
        if (build->token[id].len == len && !memcmp(build->token[id].data, text, len)) return id;
    }
    return -1;
}

// The definition: over and over, the first merge of the list that applies, at its leftmost place.
static size_t merge_by_definition(const struct vocab_build *build, const char *word, size_t len,
                                  size_t *begin) {
    size_t count = len;
    for (size_t i = 0; i <= len; i++) begin[i] = i; // token i is word[begin[i] .. begin[i + 1]]
    for (int32_t rank = 0; rank < build->source.n_merge;) {
        const struct vocab_merge merge = build->merge[rank];
        const size_t left = merge.left.len, right = merge.right.len;
        size_t at = 0;
        for (; at + 1 < count; at++) {
            const char *const a = word + begin[at], *const b = word + begin[at + 1];
            if (begin[at + 1] - begin[at] == left && begin[at + 2] - begin[at + 1] == right &&
                !memcmp(a, merge.left.data, left) && !memcmp(b, merge.right.data, right))
                break;
        }
        if (at + 1 >= count) {
            rank++;
            continue;
        }
        memmove(begin + at + 1, begin + at + 2, (count - at - 1) * sizeof *begin);
        count--;
        rank = 0;
    }
    return count;
}

CASE(words_of_all_lengths_merge_as_the_definition_says) {
    struct random_vocab *const vocab = calloc(1, sizeof *vocab);
    assert_non_null(vocab);
    srand(11);
    for (int round = 0; round < 40; round++) {
        random_fill(vocab, 3 + rand() % 40);
        struct tokenizer *const tokenizer = build_tokenizer(vocab->build);
        struct token_list list = {0};
        for (int trial = 0; trial < 20; trial++) {
            char word[160];
            size_t begin[161];
            const size_t len = 1 + (size_t)rand() % (trial % 2 ? 40 : sizeof word);
            for (size_t i = 0; i < len; i++) word[i] = (char)('a' + rand() % (1 + trial % 3));
            const size_t count = merge_by_definition(vocab->build, word, len, begin);
            list.count = 0;
            assert_int_equal(tokenizer_encode(tokenizer, word, len, 0, &list, NULL), RN_OK);
            assert_int_equal(list.count, count);
            for (size_t i = 0; i < count; i++)
                assert_int_equal(list.id[i], find_token(vocab->build, word + begin[i],
                                                        begin[i + 1] - begin[i]));
        }
        token_list_deinit(&list);
        tokenizer_destroy(tokenizer);
        free(vocab->build);
    }
    free(vocab);
}

enum { HUGE_WORD = 256 << 10 };

// Would take hours if merging were quadratic.
CASE(a_huge_word_is_merged) {
    static char text[20][64], merge[20][128];
    struct vocab_build *const build = build_create();
    build_bytes(build);
    for (int i = 0; i < 5; i++) { // aa, aaaa, ... 32 of them
        memset(text[i], 'a', (size_t)2 << i);
        snprintf(merge[i], sizeof merge[i], "%.*s %.*s", 1 << i, text[i], 1 << i, text[i]);
        build_normal(build, text[i]);
        build_merge(build, merge[i]);
    }
    struct tokenizer *const tokenizer = build_finish(build);
    char *const word = malloc(HUGE_WORD);
    assert_non_null(word);
    memset(word, 'a', HUGE_WORD);
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, word, HUGE_WORD, 0, &list, NULL), RN_OK);
    assert_int_equal(list.count, HUGE_WORD / 32);
    for (size_t i = 0; i < list.count; i++) assert_int_equal(list.id[i], 256 + 4);

    // and one piece less where a letter stands between
    word[HUGE_WORD / 2] = 'b';
    list.count = 0;
    assert_int_equal(tokenizer_encode(tokenizer, word, HUGE_WORD, 0, &list, NULL), RN_OK);
    assert_int_equal(list.count, HUGE_WORD / 32 - 1 + 1 + 5); // 31 = 16 + 8 + 4 + 2 + 1
    token_list_deinit(&list);
    free(word);
    tokenizer_destroy(tokenizer);
}

TEST_PROGRAM(bpe) { return cases_run(NULL, NULL); }
