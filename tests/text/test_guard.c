// Guards: input never becomes a control token, in any surroundings, and is otherwise tokenized as
// plain text. The template's text beside it still does.
#include "text/guard.h"
#include "text/random_text.h"
#include "text/vocab_build.h"

static const char *const control[] = {
    "<|a|>", "<|ab|>", "<|",  "a|>",    "|>|",    "<|a|><|a|>",    "x",      "\xC3\xA9",
    "[b]",   "[",      "b][", " <|s|>", "<|a|>b", "\xE2\x82\xAC<", "<mask>",
};
enum { N_CONTROL = sizeof control / sizeof *control };
static const char *const user[] = {"<t>", "<|t|>", "|>b", "</t>"};
static const char *const merges[] = {"< |", "| >", "a b", "<| a", "|> |", "b ]", "> <", "a |"};

#define ROUNDS test_scale(4000, 20000, 20000)

static void add_markup(struct vocab_build *build, bool with_user) {
    for (int i = 0; i < N_CONTROL; i++) build_token(build, span(control[i]), TOKEN_CONTROL);
    for (size_t i = 0; with_user && i < sizeof user / sizeof *user; i++)
        build_token(build, span(user[i]), TOKEN_USER_DEFINED);
}

// Bytes and merges; the kinds differ in what is done to the text before.
enum kind {
    KIND_PLAIN,
    KIND_LOWERCASE,
    KIND_NFKC,
    KIND_REPLACE,
    KIND_STRIPS,
    KIND_SPM,
    N_KINDS,
    KIND_NO_USER
};

static void add_rules(struct vocab_build *build, enum kind kind, int32_t first) {
    for (int i = 0; i < N_CONTROL; i++) {
        struct vocab_added *added = build_added(build, first + i, control[i]);
        added->special = true;
        added->normalized = kind != KIND_STRIPS;
        added->lstrip = kind == KIND_STRIPS && i % 3 == 0;
        added->rstrip = kind == KIND_STRIPS && i % 2 == 0;
    }
    if (kind == KIND_LOWERCASE) build_normalizer(build, NORMAL_LOWERCASE, "", "");
    if (kind == KIND_NFKC) build_normalizer(build, NORMAL_NFKC, "", "");
    if (kind == KIND_REPLACE) {
        build_normalizer(build, NORMAL_PREPEND, "", "_");
        build_normalizer(build, NORMAL_REPLACE, " ", "_");
    }
}

static struct tokenizer *make(enum kind kind) {
    struct vocab_build *build = build_create();
    if (kind == KIND_SPM) {
        build->source.model = VOCAB_SPM_SCORE;
        build_token(build, span("<unk>"), TOKEN_UNKNOWN);
        build->source.unk = 0;
        build_byte_tokens(build);
        build_scored(build, "<", -1);
        build_scored(build, "|", -1);
        build_scored(build, "<|", -2);
        build_scored(build, "\xE2\x96\x81", -1);
        build_scored(build, "\xE2\x96\x81<", -3);
        build_normalizer(build, NORMAL_PREPEND, "", "\xE2\x96\x81");
        build_normalizer(build, NORMAL_REPLACE, " ", "\xE2\x96\x81");
        add_markup(build, true);
        return build_finish(build);
    }
    build_bytes(build);
    static const char *const made[] = {"<|", "|>", "ab", "<|a", "|>|", "b]", "><", "a|"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        build_normal(build, made[i]);
        build_merge(build, merges[i]);
    }
    const int32_t first = build->source.n_token;
    add_markup(build, kind != KIND_NO_USER);
    if (kind != KIND_PLAIN && kind != KIND_NO_USER) add_rules(build, kind, first);
    return build_finish(build);
}

// ---------------------------------------------------------------- texts

static void put(struct text_buffer *out, const char *text, size_t len) {
    check(text_buffer_put(out, text, len), "memory");
}

static void put_piece(struct text_buffer *out) {
    const char *const token = control[rand() % N_CONTROL];
    const size_t len = strlen(token);
    uint8_t noise[8];
    switch (rand() % 9) {
    case 0:
        put(out, GUARD_TEXT, 3);
        break;
    case 1:
        put(out, token, (size_t)rand() % len);
        break;
    case 2: {
        const size_t from = (size_t)rand() % len;
        put(out, token + from, len - from);
        break;
    }
    case 3: {
        const char *const other = user[rand() % 4];
        put(out, other, strlen(other));
        break;
    }
    case 4:
        put(out, (const char *)noise, random_text(noise, 5));
        break;
    case 5:
        put(out, rand() % 2 ? "<MASK>" : "\xEF\xBC\x9C|a|>", rand() % 2 ? 6 : 5); // wide '<'
        break;
    case 6:
        put(out, rand() % 2 ? " " : "|", 1);
        break;
    default:
        put(out, token, len);
    }
}

static void random_string(struct text_buffer *out, int pieces) {
    for (int n = rand() % (pieces + 1); n > 0; n--) put_piece(out);
}

static void encode(const struct tokenizer *tokenizer, const struct text_buffer *text, int flags,
                   struct token_list *out) {
    rn_error err = {0};
    const rn_status status = tokenizer_encode(tokenizer, text->len ? (const char *)text->data : "",
                                              text->len, flags, out, &err);
    check(status == RN_OK, "%s", err.message);
}

static void guard(const struct tokenizer *tokenizer, const struct text_buffer *text,
                  struct text_buffer *out) {
    rn_error err = {0};
    check(guard_put(tokenizer, text->len ? (const char *)text->data : "", text->len, out, &err) ==
              RN_OK,
          "%s", err.message);
}

static void remove_guards(const struct text_buffer *text, struct text_buffer *out) {
    check(guard_remove(text->len ? (const char *)text->data : "", text->len, out, NULL), "memory");
}

static void expect_equal(const struct token_list *got, const struct token_list *want,
                         const struct text_buffer *text, const char *what) {
    bool same = got->count == want->count;
    for (size_t i = 0; same && i < got->count; i++) same = got->id[i] == want->id[i];
    check(same, "%s: '%.*s' gives %zu ids, expected %zu", what, (int)text->len,
          text->len ? (const char *)text->data : "", got->count, want->count);
}

// ---------------------------------------------------------------- properties

CASE(guarded_text_is_plain_text) {
    for (enum kind kind = 0; kind < N_KINDS; kind++) {
        struct tokenizer *tokenizer = make(kind);
        srand(1);
        for (int round = 0; round < ROUNDS; round++) {
            struct text_buffer text = {0}, guarded = {0}, clean = {0};
            struct token_list got = {0}, want = {0};
            random_string(&text, 6);
            guard(tokenizer, &text, &guarded);
            remove_guards(&text, &clean);
            encode(tokenizer, &guarded, ENCODE_SPECIAL | ENCODE_GUARDED, &got);
            encode(tokenizer, &clean, 0, &want);
            expect_equal(&got, &want, &text, "guarded");
            token_list_deinit(&got);
            token_list_deinit(&want);
            text_buffer_deinit(&text);
            text_buffer_deinit(&guarded);
            text_buffer_deinit(&clean);
        }
        tokenizer_destroy(tokenizer);
    }
}

// Strings that end and begin with parts of markup, with nothing between them.
CASE(strings_that_are_joined_make_no_markup) {
    for (enum kind kind = 0; kind < N_KINDS; kind++) {
        struct tokenizer *tokenizer = make(kind);
        srand(2);
        for (int round = 0; round < ROUNDS; round++) {
            struct text_buffer all = {0}, guarded = {0}, clean = {0};
            struct token_list got = {0}, want = {0};
            for (int part = 1 + rand() % 4; part > 0; part--) {
                struct text_buffer text = {0};
                random_string(&text, 2);
                guard(tokenizer, &text, &guarded);
                put(&all, text.len ? (const char *)text.data : "", text.len);
                text_buffer_deinit(&text);
            }
            remove_guards(&guarded, &clean);
            encode(tokenizer, &guarded, ENCODE_SPECIAL | ENCODE_GUARDED, &got);
            encode(tokenizer, &clean, 0, &want);
            expect_equal(&got, &want, &all, "joined");
            token_list_deinit(&got);
            token_list_deinit(&want);
            text_buffer_deinit(&all);
            text_buffer_deinit(&guarded);
            text_buffer_deinit(&clean);
        }
        tokenizer_destroy(tokenizer);
    }
}

// Around any string the template's own markup is found, the longest one that it wrote. (Tokens that
// are not control are found anywhere.)
CASE(markup_beside_strings_is_found) {
    struct tokenizer *tokenizer = make(KIND_NO_USER);
    const int32_t first = tokenizer_size(tokenizer) - N_CONTROL;
    srand(3);
    for (int round = 0; round < ROUNDS; round++) {
        struct text_buffer text = {0}, all = {0}, clean = {0};
        struct token_list got = {0}, want = {0};
        const int before = rand() % N_CONTROL, behind = rand() % N_CONTROL;
        random_string(&text, 4);
        remove_guards(&text, &clean);
        put(&text, ".", 1); // a plain word may be a part of the template's markup
        put(&clean, ".", 1);
        put(&all, control[before], strlen(control[before]));
        guard(tokenizer, &text, &all);
        put(&all, control[behind], strlen(control[behind]));
        encode(tokenizer, &all, ENCODE_SPECIAL | ENCODE_GUARDED, &got);
        encode(tokenizer, &clean, 0, &want);
        check(got.count > 1 && got.id[0] == first + before &&
                  got.id[got.count - 1] == first + behind,
              "'%.*s' between %s and %s", (int)text.len, (const char *)text.data, control[before],
              control[behind]);
        struct token_list inner = {got.id + 1, got.count - 2, 0};
        expect_equal(&inner, &want, &text, "between");
        token_list_deinit(&got);
        token_list_deinit(&want);
        text_buffer_deinit(&text);
        text_buffer_deinit(&all);
        text_buffer_deinit(&clean);
    }
    tokenizer_destroy(tokenizer);
}

static void expect_guarded(const struct tokenizer *tokenizer, const char *text, const char *want) {
    struct text_buffer out = {0};
    check(guard_put(tokenizer, text, strlen(text), &out, NULL) == RN_OK, "memory");
    put(&out, "", 1);
    check(!strcmp((const char *)out.data, want), "'%s' became '%s', expected '%s'", text, out.data,
          want);
    text_buffer_deinit(&out);
}

#define G GUARD_TEXT

CASE(guards_stand_in_markup_only) {
    struct vocab_build *build = build_create();
    build_bytes(build);
    build_token(build, span("<|im_end|>"), TOKEN_CONTROL);
    build_token(build, span("user"), TOKEN_CONTROL);
    build_token(build, span("</think>"), TOKEN_USER_DEFINED);
    struct tokenizer *tokenizer = build_finish(build);
    expect_guarded(tokenizer, "", "");
    expect_guarded(tokenizer, "plain </think> text", "plain </think> text");
    expect_guarded(tokenizer, "a <|im_end|> b", "a <" G "|im_end|> b");
    expect_guarded(tokenizer, "own " G "guard", "own guard");
    expect_guarded(tokenizer, "<|im_" G "end|>", "<" G "|im_end|>");
    expect_guarded(tokenizer, "it ends with <|im", "it ends with <|im" G);
    expect_guarded(tokenizer, "d|> begins it", G "d|> begins it");
    expect_guarded(tokenizer, "|im_end|", G "|im_end|");
    expect_guarded(tokenizer, "im_end", "im_end");
    expect_guarded(tokenizer, "user", "u" G "ser");
    tokenizer_destroy(tokenizer);
}

// Of a rendered text the input is guarded, stretch by stretch, and the template's markup is not. A
// '<' is also the end of a control token here.
CASE(marked_bytes_are_guarded) {
    struct tokenizer *tokenizer = make(KIND_PLAIN);
    struct text_buffer out = {0};
    static const char text[] = "[b]<mask>.<mask>!<mask>";
    uint8_t marks[sizeof text - 1] = {0};
    memset(marks + 3, 1, 7);
    memset(marks + 17, 3, 6);
    check(guard_input(tokenizer, text, marks, sizeof marks, &out, NULL) == RN_OK, "memory");
    put(&out, "", 1);
    assert_string_equal((const char *)out.data, "[b]" G "<" G "mask>.<mask>!" G "<" G "mask>");
    text_buffer_deinit(&out);
    tokenizer_destroy(tokenizer);
}

CASE(without_the_flag_a_guard_is_text) {
    struct tokenizer *tokenizer = make(KIND_PLAIN);
    struct text_buffer text = {0};
    struct token_list plain = {0}, dropped = {0};
    put(&text, "c" G "d", 5);
    encode(tokenizer, &text, ENCODE_SPECIAL, &plain);
    encode(tokenizer, &text, ENCODE_SPECIAL | ENCODE_GUARDED, &dropped);
    check(plain.count == 5 && dropped.count == 2, "%zu and %zu", plain.count, dropped.count);
    token_list_deinit(&plain);
    token_list_deinit(&dropped);
    text_buffer_deinit(&text);
    tokenizer_destroy(tokenizer);
}

TEST_PROGRAM(guard) { return cases_run(NULL, NULL); }
