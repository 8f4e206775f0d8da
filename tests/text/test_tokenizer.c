// Small vocabularies made by hand: special tokens, BOS and EOS, decoding, and files with wrong
// values.
// label: memory
#include "text/vocab_build.h"

// The ids of a text, written out with spaces between them.
static const char *ids_of(const struct tokenizer *tokenizer, const char *text, int flags) {
    static char line[512];
    struct token_list list = {0};
    rn_error err = {0};
    if (tokenizer_encode(tokenizer, text, strlen(text), flags, &list, &err) != RN_OK)
        fail_msg("%s", err.message);
    line[0] = '\0';
    for (size_t i = 0, used = 0; i < list.count; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%d", i ? " " : "", list.id[i]);
    token_list_deinit(&list);
    return line;
}

static void check_refused(struct vocab_build *build, rn_status status, const char *message) {
    rn_error err = {0};
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(tokenizer_create(&build->source, &tokenizer, &err), status);
    assert_int_equal(tokenizer_create(&build->source, &tokenizer, NULL), status);
    assert_null(tokenizer);
    assert_int_equal(err.status, status);
    assert_string_equal(err.message, message);
    free(build);
}

// ---------------------------------------------------------------- special tokens

CASE(special_tokens_are_found) {
    static const struct {
        const char *text, *plain, *special; // without and with ENCODE_SPECIAL; NULL: not asked
    } cases[] = {
        // control tokens are found only when asked for
        {"a<s>b", "97 60 115 62 98", "97 256 98"},
        {"<unk>", "60 117 110 107 62", "261"},
        // user-defined tokens are always found
        {"a<tool>b", "97 259 98", "97 259 98"},
        // the longest one wins
        {"<s><s>", NULL, "257"},
        {"<s><s><s>", NULL, "257 256"},
        {"<sub><s><sub>", NULL, "258 256 258"},
        {"<tool><tool>x", "260", NULL},
        {"<tool><tool>y", "259 259 121", NULL},
        {"<tool><tool>", "259 259", NULL}, // the text ends first
        {"<<s", NULL, "60 60 115"},
        // unused and empty ones are never found
        {"<pad>", NULL, "60 112 97 100 62"},
        {"", NULL, ""},
    };
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_token(build, span("<s>"), TOKEN_CONTROL);                // 256
    build_token(build, span("<s><s>"), TOKEN_CONTROL);             // 257
    build_token(build, span("<sub>"), TOKEN_CONTROL);              // 258
    build_token(build, span("<tool>"), TOKEN_USER_DEFINED);        // 259
    build_token(build, span("<tool><tool>x"), TOKEN_USER_DEFINED); // 260
    build_token(build, span("<unk>"), TOKEN_UNKNOWN);              // 261
    build_token(build, span("<pad>"), TOKEN_UNUSED);               // 262
    build_token(build, span("<s>"), TOKEN_CONTROL);                // 263, the same text again
    build_token(build, span(""), TOKEN_CONTROL);                   // 264
    build_token(build, span(""), TOKEN_USER_DEFINED);              // 265
    struct tokenizer *const tokenizer = build_finish(build);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const text = cases[i].text;
        if (cases[i].plain) assert_string_equal(ids_of(tokenizer, text, 0), cases[i].plain);
        if (cases[i].special)
            assert_string_equal(ids_of(tokenizer, text, ENCODE_SPECIAL), cases[i].special);
    }
    tokenizer_destroy(tokenizer);
}

CASE(words_end_at_special_tokens) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_token(build, span("<s>"), TOKEN_CONTROL); // 256
    build_normal(build, "\xC4\xA0\xC4\xA0");        // 257: two spaces
    build_normal(build, "ab");                      // 258
    build_merge(build, "\xC4\xA0 \xC4\xA0");
    build_merge(build, "a b");
    build_pre(build, "gpt-2");
    struct tokenizer *const tokenizer = build_finish(build);
    // before a special token white space is at the end of its stretch, and stays in one piece
    assert_string_equal(ids_of(tokenizer, "ab  <s>ab", ENCODE_SPECIAL), "258 257 256 258");
    assert_string_equal(ids_of(tokenizer, "ab  ab", ENCODE_SPECIAL), "258 32 32 258");
    assert_string_equal(ids_of(tokenizer, "a<s>b", ENCODE_SPECIAL), "97 256 98");
    tokenizer_destroy(tokenizer);
}

CASE(plain_text_never_becomes_a_control_token) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_token(build, span("ab"), TOKEN_CONTROL); // 256
    build_token(build, span("cd"), TOKEN_UNUSED);  // 257
    build_normal(build, "abc");                    // 258
    build_merge(build, "a b");                     // these merges are left out
    build_merge(build, "ab c");
    build_merge(build, "c d");
    struct tokenizer *const tokenizer = build_finish(build);
    assert_string_equal(ids_of(tokenizer, "abcd", 0), "97 98 99 100");
    assert_string_equal(ids_of(tokenizer, "abcd", ENCODE_SPECIAL), "256 99 100");
    tokenizer_destroy(tokenizer);
}

CASE(many_special_tokens_are_told_apart) {
    static char text[1000][16];
    struct vocab_build *const build = build_create();
    build_bytes(build);
    for (int i = 0; i < 1000; i++) {
        snprintf(text[i], sizeof text[i], "<|%d|>", 7919 * i % 1000); // out of order
        build_token(build, span(text[i]), i % 2 ? TOKEN_CONTROL : TOKEN_USER_DEFINED);
    }
    struct tokenizer *const tokenizer = build_finish(build);
    for (int i = 0; i < 1000; i++) {
        char want[16];
        snprintf(want, sizeof want, "%d", 256 + i);
        assert_string_equal(ids_of(tokenizer, text[i], ENCODE_SPECIAL), want);
        if (i % 2) assert_string_not_equal(ids_of(tokenizer, text[i], 0), want);
    }
    tokenizer_destroy(tokenizer);
}

// ---------------------------------------------------------------- BOS and EOS

static struct tokenizer *make_ends(bool add_bos, bool add_eos, bool same) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build->source.bos = build_token(build, span("<s>"), TOKEN_CONTROL);               // 256
    build->source.eos = same ? 256 : build_token(build, span("</s>"), TOKEN_CONTROL); // 257
    build->source.add_bos = add_bos;
    build->source.add_eos = add_eos;
    return build_finish(build);
}

CASE(bos_and_eos_come_once_and_only_where_the_model_asks) {
    static const int both = ENCODE_BOS | ENCODE_SPECIAL;
    static const struct {
        bool add_bos, add_eos, same; // same: one token is both
        const char *text;
        int flags;
        const char *want;
    } cases[] = {
        {true, true, false, "a", ENCODE_BOS, "256 97 257"},
        {true, true, false, "<s>a", both, "256 97 257"},
        {true, true, false, "a</s>", both, "256 97 257"},
        {true, true, false, "<s>a</s>", both, "256 97 257"},
        {true, true, false, "", both, "256 257"},
        {true, true, false, "a<s>", both, "256 97 256 257"},
        {true, true, false, "a", 0, "97"},
        {true, true, true, "", both, "256 256"},
        {true, true, true, "<s>", both, "256"},
        {true, false, false, "a", ENCODE_BOS, "256 97"},
        {false, true, false, "a", ENCODE_BOS, "97 257"},
        {false, false, false, "a", ENCODE_BOS, "97"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *const tokenizer =
            make_ends(cases[i].add_bos, cases[i].add_eos, cases[i].same);
        assert_string_equal(ids_of(tokenizer, cases[i].text, cases[i].flags), cases[i].want);
        assert_int_equal(tokenizer_adds_bos(tokenizer), cases[i].add_bos);
        assert_int_equal(tokenizer_adds_eos(tokenizer), cases[i].add_eos);
        tokenizer_destroy(tokenizer);
    }
    struct vocab_build *const build = build_create(); // asked for, but there is none
    build_bytes(build);
    build->source.add_bos = build->source.add_eos = true;
    struct tokenizer *const tokenizer = build_finish(build);
    assert_string_equal(ids_of(tokenizer, "a", ENCODE_BOS), "97");
    assert_int_equal(tokenizer_bos(tokenizer), -1);
    assert_int_equal(tokenizer_eos(tokenizer), -1);
    assert_false(tokenizer_is_end(tokenizer, -1));
    tokenizer_destroy(tokenizer);
}

CASE(encode_appends_and_a_failure_leaves_the_list_as_it_was) {
    struct vocab_build *const build = build_create();
    build->source.model = VOCAB_SPM_RANK; // has an error to offer, without an unknown token
    build_normal(build, "a");
    build_token(build, span("<s>"), TOKEN_CONTROL);
    build->source.bos = 1;
    build->source.add_bos = true;
    struct tokenizer *const tokenizer = build_finish(build);
    struct token_list list = {0};
    rn_error err = {0};
    assert_int_equal(tokenizer_encode(tokenizer, "a", 1, ENCODE_BOS, &list, &err), RN_OK);
    assert_int_equal(tokenizer_encode(tokenizer, "aa", 2, ENCODE_BOS, &list, &err), RN_OK);
    const int32_t want[] = {1, 0, 1, 0, 0};
    assert_int_equal(list.count, 5);
    assert_memory_equal(list.id, want, sizeof want);
    assert_int_equal(tokenizer_encode(tokenizer, "a ab", 4, 0, &list, &err), RN_ERR_MODEL);
    assert_string_equal(err.message, "the vocabulary has no token for the character U+0020");
    assert_int_equal(list.count, 5);
    assert_memory_equal(list.id, want, sizeof want);
    token_list_deinit(&list);
    assert_null(list.id);
    tokenizer_destroy(tokenizer);
}

// ---------------------------------------------------------------- bytes and types

CASE(bytes_without_a_token_become_the_unknown_token) {
    struct vocab_build *const build = build_create();
    build_normal(build, "a");
    build_token(build, span("<unk>"), TOKEN_UNKNOWN);
    struct tokenizer *const tokenizer = build_finish(build);
    assert_string_equal(ids_of(tokenizer, "a\xC3\xA9", 0), "0 1 1");
    assert_true(tokenizer_is_special(tokenizer, 1));
    tokenizer_destroy(tokenizer);
}

// As Hugging Face does it: the remaining parts of the word stand side by side.
CASE(a_byte_without_a_token_is_left_out_before_merging) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_normal(build, "ab"); // 256
    build_merge(build, "a b");
    build->type[0xFE] = TOKEN_UNUSED;
    struct tokenizer *const tokenizer = build_finish(build);
    assert_string_equal(ids_of(tokenizer,
                               "a\xFE"
                               "b\xFE",
                               0),
                        "256");
    assert_string_equal(ids_of(tokenizer, "\xFE\xFE", 0), "");
    assert_string_equal(ids_of(tokenizer, "", 0), "");
    char text[4096]; // long enough for the cache of words
    for (size_t i = 0; i < sizeof text; i++) text[i] = i % 2 ? ' ' : '\xFE';
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, text, sizeof text, 0, &list, NULL), RN_OK);
    assert_int_equal(list.count, sizeof text / 2);
    token_list_deinit(&list);
    tokenizer_destroy(tokenizer);
}

static void check_bytes(const struct tokenizer *tokenizer, int32_t id, const char *want) {
    const struct text_span bytes = tokenizer_bytes(tokenizer, id);
    assert_int_equal(bytes.len, strlen(want));
    if (bytes.len > 0) assert_memory_equal(bytes.data, want, bytes.len);
}

CASE(token_bytes_are_decoded_by_type) {
    struct vocab_build *const build = build_create();
    build_normal(build, "\xC4\xA0"
                        "a\xC4\x8A");                              // " a\n" in the alphabet
    build_token(build, span("\xC4\xA0x"), TOKEN_CONTROL);          // plain text
    build_token(build, span("\xC4\xA0y"), TOKEN_USER_DEFINED);     // plain text
    build_normal(build, "\xE4\xB8\xAD \xC3\xA9");                  // partly of the alphabet
    build_token(build, span("\xC4\xA0z"), TOKEN_UNUSED);           // plain text
    build_token(build, span("\xC4\xA0"), TOKEN_BYTE);              // in the alphabet
    build_token(build, span("\xFF"), TOKEN_CONTROL);               // not UTF-8, but plain
    build_token(build, (struct text_span){NULL, 0}, TOKEN_NORMAL); // empty
    build_token(build, (struct text_span){NULL, 0}, TOKEN_CONTROL);
    build_token(build, span("\xC4\xA0q"), 0); // undefined: as normal
    struct tokenizer *const tokenizer = build_finish(build);
    check_bytes(tokenizer, 0, " a\n");
    check_bytes(tokenizer, 1, "\xC4\xA0x");
    check_bytes(tokenizer, 2, "\xC4\xA0y");
    check_bytes(tokenizer, 3, "\xE4\xB8\xAD \xE9");
    check_bytes(tokenizer, 4, "\xC4\xA0z");
    check_bytes(tokenizer, 5, " ");
    check_bytes(tokenizer, 6, "\xFF");
    check_bytes(tokenizer, 7, "");
    check_bytes(tokenizer, 8, "");
    check_bytes(tokenizer, 9, " q");
    assert_int_equal(tokenizer_size(tokenizer), 10);
    for (int32_t id = 0; id < 10; id++)
        assert_int_equal(tokenizer_is_special(tokenizer, id), id == 1 || id == 6 || id == 8);
    tokenizer_destroy(tokenizer);
}

CASE(a_tokenizer_keeps_nothing_of_its_source) {
    struct vocab_build *const build = build_create();
    char token[] = "ab", control[] = "<s>", merge[] = "a b", pre[] = "gpt-2", from[] = "x",
         added[] = "+";
    build_bytes(build);
    build_normal(build, token);                       // 256
    build_token(build, span(control), TOKEN_CONTROL); // 257
    build_merge(build, merge);
    build_pre(build, pre);
    build_split(build, SPLIT_LITERAL, SPLIT_ISOLATED, false, from);
    build_normalizer(build, NORMAL_REPLACE, from, token);
    build_added(build, '+', added);
    struct tokenizer *const tokenizer = build_finish(build); // frees the arrays
    memset(token, 'x', 2);
    memset(control, 'x', 3);
    memset(merge, 'x', 3);
    memset(pre, 'x', 5);
    from[0] = added[0] = '#';
    assert_string_equal(ids_of(tokenizer, "ab<s>x+", ENCODE_SPECIAL), "256 257 256 43");
    check_bytes(tokenizer, 256, "ab");
    tokenizer_destroy(tokenizer);
}

CASE(the_lower_id_of_equal_strings_is_used) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_token(build, span("ab"), TOKEN_CONTROL); // 256: not an ordinary token
    build_normal(build, "ab");                     // 257
    build_normal(build, "ab");                     // 258
    build_normal(build, "a");                      // 259
    build_merge(build, "a b");
    struct tokenizer *const tokenizer = build_finish(build);
    assert_string_equal(ids_of(tokenizer, "ab a", 0), "257 32 97");
    tokenizer_destroy(tokenizer);
}

CASE(merges_may_make_user_defined_tokens_that_read_the_same) {
    struct vocab_build *build = build_create();
    build_bytes(build);
    build_token(build, span("ab"), TOKEN_USER_DEFINED); // 256
    build_normal(build, "abc");                         // 257
    build_normal(build, "xa");                          // 258
    build_merge(build, "a b");
    build_merge(build, "ab c");
    build_merge(build, "x a");
    struct tokenizer *const tokenizer = build_finish(build);
    // found before words are cut, so what is behind it is a word of its own
    assert_string_equal(ids_of(tokenizer, "xabc", 0), "120 256 99");
    tokenizer_destroy(tokenizer);

    build = build_create();
    build_bytes(build);
    build_token(build,
                span("\xC4\xA0"
                     "b"),
                TOKEN_USER_DEFINED); // stands for itself, not for " b"
    build_merge(build, "\xC4\xA0 b");
    struct tokenizer *const plain = build_finish(build);
    assert_string_equal(ids_of(plain, " b", 0), "32 98");
    assert_string_equal(ids_of(plain,
                               "\xC4\xA0"
                               "b",
                               0),
                        "256");
    tokenizer_destroy(plain);
}

CASE(generation_ends_where_the_file_says) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build->source.bos = 1;
    build->source.eos = 2;
    build->source.end[0] = 3;
    build->source.end[1] = 4;
    build->source.n_end = 2;
    struct tokenizer *const tokenizer = build_finish(build);
    for (int32_t id = 0; id < 256; id++)
        assert_int_equal(tokenizer_is_end(tokenizer, id), id >= 2 && id <= 4);
    assert_false(tokenizer_is_end(tokenizer, -1));
    assert_false(tokenizer_is_end(tokenizer, 256));
    assert_int_equal(tokenizer_bos(tokenizer), 1);
    assert_int_equal(tokenizer_eos(tokenizer), 2);
    assert_false(tokenizer_strips_space(tokenizer));
    tokenizer_destroy(tokenizer);
}

CASE(generation_ends_at_tokens_that_are_known_to_end_a_turn) {
    static const struct {
        const char *text;
        int32_t type;
        bool is_end;
    } cases[] = {
        {"<|eot_id|>", TOKEN_CONTROL, true},
        {"<|im_end|>", TOKEN_CONTROL, true},
        {"<|im_end|>", TOKEN_NORMAL, false},
        {"<|im_start|>", TOKEN_CONTROL, false},
        {"<end_of_turn>", TOKEN_CONTROL, true},
        {"<|end|>", TOKEN_USER_DEFINED, true},
        {"</s>", TOKEN_CONTROL, true},
        {"</s>", TOKEN_USER_DEFINED, false},
        {"<|endoftext|>", TOKEN_CONTROL, true},
        {"<|eom_id|>", TOKEN_CONTROL, true},
        {"<\uFF5Cend\u2581of\u2581sentence\uFF5C>", TOKEN_CONTROL, true},
        {"<|END_OF_TURN_TOKEN|>", TOKEN_CONTROL, true},
        {"<|pad|>", TOKEN_CONTROL, false},
        {"", TOKEN_CONTROL, false},
    };
    struct vocab_build *const build = build_create();
    build_bytes(build);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        build_token(build, span(cases[i].text), cases[i].type);
    struct tokenizer *const tokenizer = build_finish(build);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(tokenizer_is_end(tokenizer, 256 + (int32_t)i), cases[i].is_end);
    tokenizer_destroy(tokenizer);
}

// gpt-oss: <|end|> ends a message, of which an answer has several.
CASE(the_end_of_a_message_does_not_end_an_answer_that_has_its_own_end) {
    struct vocab_build *build = build_create();
    build_bytes(build);
    build_token(build, span("<|end|>"), TOKEN_CONTROL);    // 256
    build_token(build, span("<|return|>"), TOKEN_CONTROL); // 257
    build_token(build, span("<|call|>"), TOKEN_CONTROL);   // 258
    struct tokenizer *tokenizer = build_finish(build);
    assert_false(tokenizer_is_end(tokenizer, 256));
    assert_true(tokenizer_is_end(tokenizer, 257));
    assert_true(tokenizer_is_end(tokenizer, 258));
    tokenizer_destroy(tokenizer);

    build = build_create(); // unless the file says so
    build_bytes(build);
    build->source.eos = build_token(build, span("<|end|>"), TOKEN_CONTROL);
    build_token(build, span("<|return|>"), TOKEN_CONTROL);
    build_token(build, span("<|call|>"), TOKEN_CONTROL);
    tokenizer = build_finish(build);
    assert_true(tokenizer_is_end(tokenizer, 256));
    tokenizer_destroy(tokenizer);
}

// ---------------------------------------------------------------- bad files

CASE(an_unknown_model_is_refused) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build->source.model = (enum vocab_model)9;
    check_refused(build, RN_ERR_UNSUPPORTED, "test: tokenizer model 9 is not supported");
}

CASE(a_pipeline_that_is_not_known_is_refused_at_encode_only) {
    static const char *const messages[] = {
        "test: pre-tokenizer 'rune-3' is not supported: only token ids can be given",
        "test: normalizer 'Precompiled' is not supported: only token ids can be given",
    };
    for (int i = 0; i < 2; i++) {
        struct vocab_build *const build = build_create();
        build_bytes(build);
        build_pre(build, i ? "gpt-2" : "rune-3");
        if (i) build_normalizer(build, NORMAL_UNSUPPORTED, "Precompiled", "");
        struct tokenizer *const tokenizer = build_finish(build);
        check_bytes(tokenizer, 'a', "a");
        struct token_list list = {0};
        rn_error err = {0};
        assert_int_equal(tokenizer_encode(tokenizer, "a", 1, 0, &list, &err), RN_ERR_UNSUPPORTED);
        assert_string_equal(err.message, messages[i]);
        assert_int_equal(list.count, 0);
        token_list_deinit(&list);
        tokenizer_destroy(tokenizer);
    }
}

CASE(an_empty_vocabulary_is_refused) {
    check_refused(build_create(), RN_ERR_MODEL, "test: the vocabulary has no tokens");
}

CASE(ids_out_of_range_are_refused) {
    static const struct {
        const char *name;
        size_t offset;
    } fields[] = {{"bos", offsetof(struct vocab_source, bos)},
                  {"eos", offsetof(struct vocab_source, eos)},
                  {"unk", offsetof(struct vocab_source, unk)},
                  {"end", offsetof(struct vocab_source, end)}};
    static const int32_t values[] = {256, 70000, INT32_MAX, -2, INT32_MIN};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        for (size_t j = 0; j < sizeof values / sizeof values[0]; j++) {
            struct vocab_build *const build = build_create();
            build_bytes(build);
            build->source.n_end = 1;
            memcpy((char *)&build->source + fields[i].offset, &values[j], sizeof values[j]);
            char message[128];
            if (values[j] < 0)
                snprintf(message, sizeof message, "test: %s_token_id %d is negative",
                         fields[i].name, values[j]);
            else
                snprintf(message, sizeof message,
                         "test: %s_token_id %d is not below the vocabulary's size, 256",
                         fields[i].name, values[j]);
            check_refused(build, RN_ERR_MODEL, message);
        }
    }
}

CASE(unknown_token_types_are_refused) {
    static const int32_t values[] = {7, -1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct vocab_build *const build = build_create();
        build_bytes(build);
        build->type[5] = values[i];
        char message[128];
        snprintf(message, sizeof message, "test: token_type[5] is %d; 0 to 6 are known", values[i]);
        check_refused(build, RN_ERR_MODEL, message);
    }
}

CASE(without_types_all_tokens_are_normal) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_normal(build, "<s>");
    build->source.type = NULL;
    struct tokenizer *const tokenizer = build_finish(build);
    assert_string_equal(ids_of(tokenizer, "<s>", ENCODE_SPECIAL), "60 115 62");
    assert_false(tokenizer_is_special(tokenizer, 256));
    tokenizer_destroy(tokenizer);
}

CASE(normal_tokens_that_are_not_utf8_are_refused) {
    static const char *const texts[] = {"\xFF", "a\xC3", "\xED\xA0\x80", "\xC0\x80"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct vocab_build *const build = build_create();
        build_bytes(build);
        build_normal(build, texts[i]);
        check_refused(build, RN_ERR_MODEL, "test: tokens[256] is not valid UTF-8");
    }
}

CASE(more_ends_than_there_is_room_for_are_refused) {
    static const int32_t counts[] = {VOCAB_MAX_ENDS + 1, -1, INT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        struct vocab_build *const build = build_create();
        build_bytes(build);
        build->source.n_end = counts[i];
        char message[96];
        snprintf(message, sizeof message, "test: %d end tokens, expected at most 32", counts[i]);
        check_refused(build, RN_ERR_MODEL, message);
    }
}

CASE(added_tokens_out_of_range_are_refused) {
    static const int32_t ids[] = {256, -1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < 4; i++) {
        struct vocab_build *const build = build_create();
        build_bytes(build);
        build_added(build, ids[i], "x");
        char message[128];
        snprintf(message, sizeof message,
                 "test: the added token %d is not below the vocabulary's size, 256", ids[i]);
        check_refused(build, RN_ERR_MODEL, message);
    }
}

CASE(bad_merges_are_refused_by_index_and_text) {
    static const struct {
        const char *left, *right, *message;
    } cases[] = {
        {"", "", "'' '' is not two tokens"},
        {"a", "", "'a' '' is not two tokens"},
        {"", "ab", "'' 'ab' is not two tokens"},
        {"zz", "a", "'zz' 'a' begins with what is no token"},
        {"a", "zz", "'a' 'zz' ends with what is no token"},
        {"a", "c", "'a' 'c' makes what is no token"},
        {"\xFF", "b", "'?' 'b' begins with what is no token"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct vocab_build *const build = build_create();
        build_bytes(build);
        build_normal(build, "ab");
        build_merge(build, "a b");
        build->merge[1] = (struct vocab_merge){span(cases[i].left), span(cases[i].right)};
        build->source.n_merge = 2;
        char message[128];
        snprintf(message, sizeof message, "test: merges[1] %s", cases[i].message);
        check_refused(build, RN_ERR_MODEL, message);
    }
}

CASE(overlong_strings_are_only_long) {
    enum { LONG = 1 << 16 };
    char *const text = malloc(LONG);
    assert_non_null(text);
    memset(text, 'a', LONG);
    struct vocab_build *build = build_create();
    build_bytes(build);
    build_token(build, (struct text_span){text, LONG}, TOKEN_NORMAL);  // 256
    build_token(build, (struct text_span){text, 1024}, TOKEN_CONTROL); // 257
    struct tokenizer *const tokenizer = build_finish(build);
    assert_int_equal(tokenizer_bytes(tokenizer, 256).len, LONG);
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, text, LONG, ENCODE_SPECIAL, &list, NULL), RN_OK);
    assert_int_equal(list.count, LONG / 1024);
    assert_int_equal(list.id[0], 257);
    token_list_deinit(&list);
    tokenizer_destroy(tokenizer);

    // but one that is searched for everywhere has its limit
    build = build_create();
    build_bytes(build);
    build_token(build, (struct text_span){text, 1025}, TOKEN_USER_DEFINED);
    check_refused(build, RN_ERR_MODEL,
                  "test: tokens[256] is a special token of 1025 bytes, expected at most 1024");

    build = build_create(); // and a message stays one line
    build_bytes(build);
    build->merge[build->source.n_merge++] = (struct vocab_merge){{text, LONG}, {text, LONG}};
    rn_error err = {0};
    struct tokenizer *none = NULL;
    assert_int_equal(tokenizer_create(&build->source, &none, &err), RN_ERR_MODEL);
    assert_true(strlen(err.message) < 256);
    free(build);
    free(text);
}

TEST_PROGRAM(tokenizer) { return cases_run(NULL, NULL); }
