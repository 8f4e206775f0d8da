// SentencePiece vocabularies: merging by score and by rank against the definition, on words that
// may be cut and on words that may not. Also characters that are no token.
#include <math.h>

#include "text/vocab_build.h"

#define MARK "\u2581"

static struct vocab_build *build_spm(enum vocab_model model) {
    struct vocab_build *const build = build_create();
    build->source.model = model;
    build_token(build, span("<unk>"), TOKEN_UNKNOWN); // 0
    build->source.unk = 0;
    return build;
}

// The tokens of a text with '|' between them, bytes as they are written.
static const char *pieces_of(const struct tokenizer *tokenizer, const struct vocab_build *build,
                             const char *text) {
    static char line[1024];
    struct token_list list = {0};
    rn_error err = {0};
    const rn_status status = tokenizer_encode(tokenizer, text, strlen(text), 0, &list, &err);
    check(status == RN_OK, "%s", err.message);
    line[0] = '\0';
    for (size_t i = 0, used = 0; i < list.count; i++) {
        const struct text_span token = build->token[list.id[i]];
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%.*s", i ? "|" : "",
                                 (int)token.len, token.data);
    }
    token_list_deinit(&list);
    return line;
}

static void check_pieces(const struct tokenizer *tokenizer, const struct vocab_build *build,
                         const char *text, const char *want) {
    check(strcmp(pieces_of(tokenizer, build, text), want) == 0, "'%s' becomes '%s', expected '%s'",
          text, pieces_of(tokenizer, build, text), want);
}

CASE(the_best_score_is_merged_first) {
    struct vocab_build *const build = build_spm(VOCAB_SPM_SCORE);
    build_scored(build, "a", -10);
    build_scored(build, "b", -11);
    build_scored(build, "c", -12);
    build_scored(build, "ab", -2);
    build_scored(build, "bc", -1);
    build_scored(build, "abc", -3);
    build_scored(build, "aa", -5);
    struct tokenizer *const tokenizer = build_tokenizer(build);
    check_pieces(tokenizer, build, "abc", "abc"); // bc, then a bc
    check_pieces(tokenizer, build, "abab", "ab|ab");
    check_pieces(tokenizer, build, "aaa", "aa|a"); // of equals the leftmost
    check_pieces(tokenizer, build, "aab", "a|ab");
    check_pieces(tokenizer, build, "", "");
    tokenizer_destroy(tokenizer);
    free(build);
}

CASE(a_token_of_characters_that_are_none_is_still_made) {
    struct vocab_build *const build = build_spm(VOCAB_SPM_SCORE);
    build_scored(build, "xy", -1);
    struct tokenizer *const tokenizer = build_tokenizer(build);
    check_pieces(tokenizer, build, "xyx", "xy|<unk>");
    tokenizer_destroy(tokenizer);
    free(build);
}

CASE(characters_that_are_no_token_become_bytes) {
    struct vocab_build *const build = build_spm(VOCAB_SPM_SCORE);
    build_scored(build, "a", -1);
    build_byte_tokens(build);
    struct tokenizer *const tokenizer = build_tokenizer(build);
    check_pieces(tokenizer, build, "a\u00E9", "a|<0xC3>|<0xA9>");
    check_pieces(tokenizer, build, "\u4E2Da\xFFz", "<0xE4>|<0xB8>|<0xAD>|a|<0xFF>|<0x7A>");
    check_pieces(tokenizer, build, "<0x41>", // its text is not the byte
                 "<0x3C>|<0x30>|<0x78>|<0x34>|<0x31>|<0x3E>");
    for (int byte = 0; byte < 256; byte++) {
        const struct text_span bytes = tokenizer_bytes(tokenizer, 2 + byte);
        assert_int_equal(bytes.len, 1);
        assert_int_equal((uint8_t)bytes.data[0], byte);
    }
    tokenizer_destroy(tokenizer);
    free(build);
}

CASE(without_bytes_they_become_the_unknown_token) {
    struct vocab_build *build = build_spm(VOCAB_SPM_RANK);
    build_normal(build, "a");
    build_normal(build, "b");
    struct tokenizer *tokenizer = build_tokenizer(build);
    check_pieces(tokenizer, build, "xxaxyb\xFF", "<unk>|<unk>|a|<unk>|<unk>|b|<unk>");
    tokenizer_destroy(tokenizer);
    build->source.fuse_unk =
        true; // x and y are joined by no token, so the word is cut between them
    tokenizer = build_tokenizer(build);
    check_pieces(tokenizer, build, "xxaxyb\xFF", "<unk>|a|<unk>|b|<unk>");
    check_pieces(tokenizer, build, "xyzxyzxyz", "<unk>");
    tokenizer_destroy(tokenizer);
    free(build);

    build = build_create(); // and without one it is an error that names the character
    build->source.model = VOCAB_SPM_RANK;
    build_normal(build, "a");
    tokenizer = build_tokenizer(build);
    struct token_list list = {0};
    rn_error err = {0};
    assert_int_equal(tokenizer_encode(tokenizer, "a\u00E9", 3, 0, &list, &err), RN_ERR_MODEL);
    assert_string_equal(err.message, "the vocabulary has no token for the character U+00E9");
    assert_int_equal(tokenizer_encode(tokenizer, "a\xFE", 2, 0, &list, &err), RN_ERR_MODEL);
    assert_string_equal(err.message, "the vocabulary has no token for the byte 0xFE");
    assert_int_equal(list.count, 0);
    token_list_deinit(&list);
    tokenizer_destroy(tokenizer);
    free(build);
}

CASE(bytes_are_read_strictly) {
    static const char *const texts[] = {"<0x-1>", "<0x1>", "<0x001>", "<0xG0>", "<0x4G>", "<0x41",
                                        "0x41",   "",      "<0x+1>",  "<0X41>", "<0x 1>"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct vocab_build *const build = build_spm(VOCAB_SPM_SCORE);
        build_token(build, span(texts[i]), TOKEN_BYTE);
        struct tokenizer *tokenizer = NULL;
        rn_error err = {0};
        check(tokenizer_create(&build->source, &tokenizer, &err) == RN_ERR_MODEL, "%s", texts[i]);
        char want[96];
        snprintf(want, sizeof want, "test: tokens[1] '%s' is a byte and not '<0xNN>'", texts[i]);
        assert_string_equal(err.message, want);
        free(build);
    }
}

// tokenizer.json has no type for bytes.
CASE(bytes_of_a_file_without_types_are_bytes) {
    struct vocab_build *const build = build_spm(VOCAB_SPM_RANK);
    build_byte_tokens(build);
    for (int i = 0; i < 256; i++) build->type[1 + i] = TOKEN_NORMAL;
    struct tokenizer *const tokenizer = build_tokenizer(build);
    check_pieces(tokenizer, build, "\u00E9", "<0xC3>|<0xA9>");
    assert_int_equal(tokenizer_bytes(tokenizer, 1 + 'a').len, 1);
    assert_int_equal(tokenizer_bytes(tokenizer, 1 + 'a').data[0], 'a');
    tokenizer_destroy(tokenizer);
    build->source.byte_fallback = false; // and where the model does not fall back, text
    struct tokenizer *const plain = build_tokenizer(build);
    assert_int_equal(tokenizer_bytes(plain, 1 + 'a').len, 6);
    check_pieces(plain, build, "a", "<unk>");
    tokenizer_destroy(plain);
    free(build);
}

CASE(the_mark_is_a_space) {
    struct vocab_build *const build = build_spm(VOCAB_SPM_SCORE);
    build_scored(build, MARK, -1);                           // 1
    build_scored(build, MARK "a" MARK, -2);                  // 2
    build_token(build, span(MARK MARK), TOKEN_USER_DEFINED); // 3
    build_token(build, span(MARK "s"), TOKEN_CONTROL);       // 4
    build->source.strip_space = true;
    struct tokenizer *const tokenizer = build_tokenizer(build);
    static const char *const want[] = {"<unk>", " ", " a ", "  ", MARK "s"};
    for (int32_t id = 0; id < 5; id++) {
        const struct text_span bytes = tokenizer_bytes(tokenizer, id);
        assert_int_equal(bytes.len, strlen(want[id]));
        assert_memory_equal(bytes.data, want[id], bytes.len);
    }
    assert_true(tokenizer_strips_space(tokenizer));
    tokenizer_destroy(tokenizer);
    free(build);
}

// The normalization of GGUF's llama and of tokenizer.model.
CASE(a_prefix_comes_before_the_text_and_spaces_become_marks) {
    struct vocab_build *const build = build_spm(VOCAB_SPM_SCORE);
    build_scored(build, MARK, -9);
    build_scored(build, "a", -8);
    build_scored(build, MARK "a", -1);
    build_scored(build, MARK MARK, -2);
    build_token(build, span("<s>"), TOKEN_CONTROL);
    build_token(build, span("<tool>"), TOKEN_USER_DEFINED);
    build_token(build, span(MARK MARK MARK), TOKEN_USER_DEFINED);
    build_normalizer(build, NORMAL_PREPEND, "", MARK);
    build_normalizer(build, NORMAL_REPLACE, " ", MARK);
    struct tokenizer *const tokenizer = build_tokenizer(build);
    check_pieces(tokenizer, build, "a", MARK "a");
    check_pieces(tokenizer, build, " a", MARK "|" MARK "a");
    check_pieces(tokenizer, build, "a a", MARK "a|" MARK "a");
    check_pieces(tokenizer, build, "", "");
    // user-defined tokens are found in the normalized text, and not merged with anything
    check_pieces(tokenizer, build, "  a", MARK MARK MARK "|a");
    check_pieces(tokenizer, build, "<tool>a", MARK "|<tool>|a");
    check_pieces(tokenizer, build, "a <tool> a", MARK "a|" MARK "|<tool>|" MARK "a");
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, "<s>a", 4, ENCODE_SPECIAL, &list, NULL), RN_OK);
    assert_int_equal(list.count, 2); // the prefix is there behind a control token, too
    assert_int_equal(list.id[0], 5);
    assert_int_equal(list.id[1], 3);
    token_list_deinit(&list);
    tokenizer_destroy(tokenizer);
    free(build);
}

CASE(a_whole_word_may_be_a_token_whatever_the_merges) {
    struct vocab_build *const build = build_spm(VOCAB_SPM_RANK);
    build_normal(build, "a");
    build_normal(build, "b");
    build_normal(build, "a-b");
    build_split(build, SPLIT_LITERAL, SPLIT_REMOVED, false, " ");
    build->source.ignore_merges = true;
    struct tokenizer *const tokenizer = build_tokenizer(build);
    check_pieces(tokenizer, build, "a-b ab", "a-b|a|b");
    tokenizer_destroy(tokenizer);
    free(build);
}

CASE(scores_that_are_no_numbers_or_missing_are_refused) {
    struct vocab_build *const build = build_spm(VOCAB_SPM_SCORE);
    build_scored(build, "a", NAN);
    struct tokenizer *tokenizer = NULL;
    rn_error err = {0};
    assert_int_equal(tokenizer_create(&build->source, &tokenizer, &err), RN_ERR_MODEL);
    assert_string_equal(err.message, "test: the score of token 1 is not a number");
    build->source.score = NULL;
    assert_int_equal(tokenizer_create(&build->source, &tokenizer, &err), RN_ERR_MODEL);
    assert_string_equal(err.message, "test: the vocabulary has no scores");
    free(build);
}

// ---------------------------------------------------------------- against the definition

struct random_vocab {
    char text[BUILD_MAX][64];
    struct vocab_build *build;
};

static const char *const letters[] = {"a", "b", MARK, "\u00E9"};

// Tokens joined from those that are there, in random order, with scores of few values; for ranks,
// the merges that make them.
static void random_fill(struct random_vocab *vocab, enum vocab_model model, int n) {
    struct vocab_build *const build = vocab->build = build_spm(model);
    build_byte_tokens(build);
    const int32_t first = build->source.n_token;
    for (int i = 0; i < 4; i++)
        if (model == VOCAB_SPM_RANK || rand() % 6) build_scored(build, letters[i], -100);
    for (int i = 0; i < n; i++) {
        const int32_t made = build->source.n_token - first;
        const struct text_span left = made ? build->token[first + rand() % made] : span("a");
        const struct text_span right =
            made && rand() % 2 ? build->token[first + rand() % made] : span(letters[rand() % 3]);
        if (left.len + right.len > 40) continue;
        snprintf(vocab->text[i], 64, "%.*s%.*s", (int)left.len, left.data, (int)right.len,
                 right.data);
        build_scored(build, vocab->text[i], (float)-(rand() % 12));
        if (model == VOCAB_SPM_RANK)
            build->merge[build->source.n_merge++] = (struct vocab_merge){left, right};
    }
}

// The lowest ordinary id of a string, or -1.
static int32_t find_token(const struct vocab_build *build, const char *text, size_t len) {
    for (int32_t id = 257; id < build->source.n_token; id++)
        if (build->token[id].len == len && !memcmp(build->token[id].data, text, len)) return id;
    return -1;
}

// The value of joining symbols i and i + 1: the lower the better; INFINITY: none.
static float worth(const struct vocab_build *build, const char *word, const size_t *begin,
                   size_t i) {
    const char *const text = word + begin[i];
    const size_t left = begin[i + 1] - begin[i], len = begin[i + 2] - begin[i];
    if (build->source.model == VOCAB_SPM_SCORE) {
        const int32_t id = find_token(build, text, len);
        return id < 0 ? INFINITY : -build->score[id];
    }
    for (int32_t rank = 0; rank < build->source.n_merge; rank++) {
        const struct vocab_merge *const merge = &build->merge[rank];
        if (merge->left.len == left && merge->right.len == len - left &&
            !memcmp(merge->left.data, text, left) &&
            !memcmp(merge->right.data, text + left, len - left))
            return (float)rank;
    }
    return INFINITY;
}

// Over and over, the best pair at its leftmost place.
static size_t merge_by_definition(const struct vocab_build *build, const char *word, size_t *begin,
                                  size_t count) {
    for (;;) {
        size_t best = count;
        float least = INFINITY;
        for (size_t i = 0; i + 1 < count; i++) {
            const float value = worth(build, word, begin, i);
            if (value < least) {
                least = value;
                best = i;
            }
        }
        if (best == count) return count;
        memmove(begin + best + 1, begin + best + 2, (count - best - 1) * sizeof *begin);
        count--;
    }
}

static void check_word(const struct random_vocab *vocab, const struct tokenizer *tokenizer,
                       size_t symbols) {
    char word[512];
    size_t begin[130], len = 0;
    for (size_t i = 0; i < symbols; i++) {
        const char *const letter = rand() % 8 ? letters[rand() % 3] : rand() % 2 ? "z" : "\u00E9";
        begin[i] = len;
        memcpy(word + len, letter, strlen(letter));
        len += strlen(letter);
    }
    begin[symbols] = len;
    const size_t count = merge_by_definition(vocab->build, word, begin, symbols);
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, word, len, 0, &list, NULL), RN_OK);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const int32_t id = find_token(vocab->build, word + begin[i], begin[i + 1] - begin[i]);
        for (size_t k = begin[i]; id < 0 && k < begin[i + 1]; k++) {
            assert_true(at < list.count);
            assert_int_equal(list.id[at++], 1 + (uint8_t)word[k]); // its bytes
        }
        if (id < 0) continue;
        assert_true(at < list.count);
        assert_int_equal(list.id[at++], id);
    }
    assert_int_equal(at, list.count);
    token_list_deinit(&list);
}

CASE(words_merge_as_the_definition_says) {
    struct random_vocab *const vocab = calloc(1, sizeof *vocab);
    assert_non_null(vocab);
    srand(21);
    for (int round = 0; round < 120; round++) {
        random_fill(vocab, round % 2 ? VOCAB_SPM_RANK : VOCAB_SPM_SCORE, rand() % 40);
        struct tokenizer *const tokenizer = build_tokenizer(vocab->build);
        for (int trial = 0; trial < 20; trial++)
            check_word(vocab, tokenizer, 1 + (size_t)rand() % (trial % 2 ? 12 : 128));
        tokenizer_destroy(tokenizer);
        free(vocab->build);
    }
    free(vocab);
}

// Would take hours if merging were quadratic.
CASE(a_huge_word_is_merged) {
    enum { HUGE = 1 << 18 };
    static char text[6][64];
    for (int model = VOCAB_SPM_SCORE; model <= VOCAB_SPM_RANK; model++) {
        struct vocab_build *const build = build_spm((enum vocab_model)model);
        build_scored(build, "a", -100);
        for (int i = 0; i < 5; i++) { // aa, aaaa, ... 32 of them
            memset(text[i], 'a', (size_t)2 << i);
            build_scored(build, text[i], (float)-i);
            const struct text_span half = {text[i], (size_t)1 << i};
            build->merge[build->source.n_merge++] = (struct vocab_merge){half, half};
        }
        struct tokenizer *const tokenizer = build_tokenizer(build);
        char *const word = malloc(HUGE);
        assert_non_null(word);
        memset(word, 'a', HUGE);
        struct token_list list = {0};
        assert_int_equal(tokenizer_encode(tokenizer, word, HUGE, 0, &list, NULL), RN_OK);
        assert_int_equal(list.count, HUGE / 32);
        for (size_t i = 0; i < list.count; i++) assert_int_equal(list.id[i], 6);
        token_list_deinit(&list);
        free(word);
        tokenizer_destroy(tokenizer);
        free(build);
    }
}

TEST_PROGRAM(spm) { return cases_run(NULL, NULL); }
