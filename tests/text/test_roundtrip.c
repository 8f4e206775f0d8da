// decode(encode(text)) is the text, for random texts of every kind of vocabulary. A long text,
// which goes through the cache of words, gives the same tokens as its parts one by one.
// label: memory
#include <utf8proc.h>

#include "text/random_text.h"
#include "text/vocab_build.h"

#define MARK "\u2581"

struct vocab {
    struct vocab_build *build;
    char text[BUILD_MAX][48];
};

static struct tokenizer *make(struct vocab *vocab) {
    struct tokenizer *const tokenizer = build_finish(vocab->build);
    free(vocab);
    return tokenizer;
}

// A token from `first` on: any, one of a few letters, or one that was joined, so that long words
// become few tokens.
static struct text_span token_pick(const struct vocab_build *build, int32_t first, int32_t joined) {
    const int32_t n_joined = build->source.n_token - joined;
    const int way = rand() % 4;
    if (way == 0) return build->token[first + rand() % (build->source.n_token - first)];
    if (way == 1 && n_joined > 0) return build->token[joined + rand() % n_joined];
    static const char *const letters[] = {"a", "a", "a", "b", "s", "t"};
    return span(letters[rand() % 6]);
}

// Tokens joined from those from `first` on, with their merges and scores.
static void tokens_join(struct vocab *vocab, int32_t first, int n) {
    struct vocab_build *const build = vocab->build;
    const int32_t joined = build->source.n_token;
    for (int i = 0; i < n; i++) {
        const struct text_span left = token_pick(build, first, joined);
        const struct text_span right = token_pick(build, first, joined);
        if (left.len + right.len > 40) continue;
        snprintf(vocab->text[i], 48, "%.*s%.*s", (int)left.len, left.data, (int)right.len,
                 right.data);
        build_scored(build, vocab->text[i], (float)-(rand() % 50));
        build->merge[build->source.n_merge++] = (struct vocab_merge){left, right};
    }
}

static struct tokenizer *make_bytes(const char *pre, bool ignore_merges) {
    struct vocab *const vocab = calloc(1, sizeof *vocab);
    assert_non_null(vocab);
    vocab->build = build_create();
    build_bytes(vocab->build);
    tokens_join(vocab, 0, 600);
    build_token(vocab->build, span("<|end|>"), TOKEN_CONTROL);
    build_pre(vocab->build, pre);
    vocab->build->source.ignore_merges = ignore_merges;
    return make(vocab);
}

static struct tokenizer *make_characters(enum vocab_model model) {
    struct vocab *const vocab = calloc(1, sizeof *vocab);
    assert_non_null(vocab);
    struct vocab_build *const build = vocab->build = build_create();
    build->source.model = model;
    build_byte_tokens(build);
    static const char *const letters[] = {"a", "b",  "s",      "t",      "e",      "A", "'",
                                          ".", MARK, "\u00E9", "\u4E2D", "\u0301", "1", "\n"};
    const int32_t first = build->source.n_token;
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++)
        build_scored(build, letters[i], -100);
    tokens_join(vocab, first, 400);
    build_normalizer(build, NORMAL_PREPEND, "", MARK);
    build_normalizer(build, NORMAL_REPLACE, " ", MARK);
    build->source.strip_space = true;
    return make(vocab);
}

// The bytes of the ids, one after the other.
static size_t decode(const struct tokenizer *tokenizer, const struct token_list *list, uint8_t *out,
                     size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct text_span bytes = tokenizer_bytes(tokenizer, list->id[i]);
        assert_true(bytes.len <= size - used);
        if (bytes.len > 0) memcpy(out + used, bytes.data, bytes.len);
        used += bytes.len;
    }
    if (tokenizer_strips_space(tokenizer) && used > 0 && out[0] == ' ') {
        used--;
        memmove(out, out + 1, used);
    }
    return used;
}

enum { TEXT_MAX = 4096, ROUNDS = 400 };

static void check_roundtrip(const struct tokenizer *tokenizer, const uint8_t *text, size_t len,
                            const uint8_t *want, size_t want_len) {
    static uint8_t out[8 * TEXT_MAX];
    struct token_list list = {0};
    rn_error err = {0};
    const rn_status status = tokenizer_encode(tokenizer, (const char *)text, len, 0, &list, &err);
    check(status == RN_OK, "%s", err.message);
    const size_t got = decode(tokenizer, &list, out, sizeof out);
    assert_int_equal(got, want_len);
    if (got > 0) assert_memory_equal(out, want, got);
    token_list_deinit(&list);
}

static size_t text_len(int round) {
    return round % 10 ? 4 + (size_t)rand() % 200 : (size_t)rand() % TEXT_MAX;
}

static const char *const names[] = {"gpt-2",   "llama-bpe",    "gpt-4o",         "tekken",
                                    "falcon",  "deepseek-llm", "deepseek-coder", "deepseek-v3",
                                    "default", "starcoder"};

CASE(byte_level_gives_back_any_bytes) {
    uint8_t text[TEXT_MAX];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        srand((unsigned)(100 + i));
        struct tokenizer *const tokenizer = make_bytes(names[i], i % 3 == 2);
        for (int round = 0; round < ROUNDS; round++) {
            const size_t len = random_text(text, text_len(round));
            if (round % 2) random_damage(text, len);
            check_roundtrip(tokenizer, text, len, text, len);
        }
        tokenizer_destroy(tokenizer);
    }
}

CASE(with_nfc_it_gives_back_the_normalized_text) {
    uint8_t text[TEXT_MAX];
    srand(40);
    struct tokenizer *const tokenizer = make_bytes("qwen2", false);
    for (int round = 0; round < ROUNDS; round++) {
        const size_t len = random_text(text, text_len(round));
        utf8proc_uint8_t *want = NULL;
        const utf8proc_ssize_t want_len =
            utf8proc_map(text, (utf8proc_ssize_t)len, &want, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        assert_true(want_len >= 0);
        check_roundtrip(tokenizer, text, len, want, (size_t)want_len);
        free(want);
    }
    tokenizer_destroy(tokenizer);
}

CASE(characters_give_back_any_text_without_the_mark) {
    uint8_t text[TEXT_MAX];
    for (int model = VOCAB_SPM_SCORE; model <= VOCAB_SPM_RANK; model++) {
        srand((unsigned)(50 + model));
        struct tokenizer *const tokenizer = make_characters((enum vocab_model)model);
        for (int round = 0; round < ROUNDS; round++) {
            size_t len = random_text(text, text_len(round));
            if (round % 2) random_damage(text, len);
            for (size_t at = 0, n; at < len; at += n) // a mark would come back as a space
                if (unicode_decode(text + at, len - at, &n) == 0x2581) memset(text + at, 'a', n);
            check_roundtrip(tokenizer, text, len, text, len);
        }
        tokenizer_destroy(tokenizer);
    }
}

// ---------------------------------------------------------------- the cache of words

// Texts of few words, over and over, of lengths about the cache's: many differ in their middle
// only, or in how many zeros they end with.
static size_t words_text(uint8_t *out, size_t max) {
    static uint8_t words[64][40];
    size_t word_len[64];
    for (int i = 0; i < 64; i++) {
        const bool alike = i % 2;
        word_len[i] = alike ? 20 : 1 + (size_t)rand() % 38;
        for (size_t k = 0; k < word_len[i]; k++)
            words[i][k] =
                (uint8_t) "absa\0"[alike && (k < 8 || k > 14) ? 0 : rand() % (alike ? 4 : 5)];
    }
    size_t len = 0;
    while (len + 48 < max) {
        const int word = rand() % 64;
        out[len++] = ' ';
        memcpy(out + len, words[word], word_len[word]);
        len += word_len[word];
    }
    return len;
}

static void check_parts(const struct tokenizer *tokenizer) {
    uint8_t text[TEXT_MAX];
    const size_t len = words_text(text, sizeof text);
    struct token_list whole = {0}, parts = {0};
    assert_int_equal(tokenizer_encode(tokenizer, (const char *)text, len, 0, &whole, NULL), RN_OK);
    for (size_t at = 0, end; at < len; at = end) { // " word" alone, too short for the cache
        for (end = at + 1; end < len && text[end] != ' ';) end++;
        assert_int_equal(tokenizer_encode(tokenizer, (const char *)text + at, end - at, 0, &parts,
                                          NULL),
                         RN_OK);
    }
    assert_int_equal(whole.count, parts.count);
    assert_memory_equal(whole.id, parts.id, whole.count * sizeof *whole.id);
    token_list_deinit(&whole);
    token_list_deinit(&parts);
}

CASE(a_long_text_gives_what_its_words_give) {
    srand(60);
    for (int i = 0; i < 2; i++) {
        struct tokenizer *const tokenizer = make_bytes("gpt-2", i == 1);
        for (int round = 0; round < 50; round++) check_parts(tokenizer);
        tokenizer_destroy(tokenizer);
    }
}

TEST_PROGRAM(roundtrip) { return cases_run(NULL, NULL); }
