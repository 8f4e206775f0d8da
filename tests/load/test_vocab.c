// vocab_load: the tokenizer and the chat template from GGUF keys and from the files of a folder.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data_file.h"
#include "gguf_writer.h"
#include "load/vocab.h"
#include "model/model.h"

// A loaded vocabulary; everything is owned.
struct loaded {
    rn_status status;
    rn_error err;
    struct tokenizer *tokenizer;
    char *chat_template;
};

static struct loaded load(struct weights *weights, int32_t n_vocab) {
    struct loaded l = {0};
    l.status = vocab_load(weights, n_vocab, &l.tokenizer, &l.chat_template, &l.err);
    check(!l.status == !!l.tokenizer && !l.status == !l.err.message[0], "%s", l.err.message);
    check(!l.status || !l.chat_template, "%s", l.err.message);
    weights_close(weights);
    return l;
}

static void unload(struct loaded *l) {
    if (l->tokenizer) tokenizer_destroy(l->tokenizer);
    free(l->chat_template);
}

static void check_ids(const struct loaded *l, const char *text, int flags, const int32_t *want,
                      size_t n) {
    struct token_list list = {0};
    rn_error err = {0};
    check(tokenizer_encode(l->tokenizer, text, strlen(text), flags, &list, &err) == RN_OK, "%s: %s",
          text, err.message);
    check(list.count == n, "%s: %zu ids, not %zu", text, list.count, n);
    for (size_t i = 0; i < n; i++)
        check(list.id[i] == want[i], "%s: id %zu is %d, not %d", text, i, list.id[i], want[i]);
    token_list_deinit(&list);
}

#define CHECK_IDS(l, text, flags, ...)                                                             \
    check_ids(l, text, flags, (const int32_t[]){__VA_ARGS__},                                      \
              sizeof(const int32_t[]){__VA_ARGS__} / sizeof(int32_t))

// --- GGUF ---

static struct loaded load_gguf(struct writer *writer, int32_t n_vocab) {
    size_t size;
    uint8_t *const image = writer_finish(writer, &size);
    struct weights *weights;
    rn_error err;
    check(weights_open_memory("v.gguf", image, size, &weights, &err) == RN_OK, "%s", err.message);
    const struct loaded l = load(weights, n_vocab);
    free(image);
    return l;
}

static void check_refused(struct writer writer, int32_t n_vocab, rn_status want,
                          const char *words) {
    struct loaded l = load_gguf(&writer, n_vocab);
    check(l.status == want && strstr(l.err.message, words) && strstr(l.err.message, "v.gguf"),
          "status %d, %s, not: %s", l.status, l.err.message, words);
    unload(&l);
}

static struct writer gpt2_begin(const char *pre) {
    static const char *const tokens[] = {"a", "b", "ab", "<s>", "</s>", "<t>"};
    static const int32_t types[] = {1, 1, 1, 3, 3, 3};
    static const char *const merges[] = {"a b"};
    struct writer writer = writer_begin(3);
    writer_kv_str(&writer, "tokenizer.ggml.model", "gpt2");
    if (pre) writer_kv_str(&writer, "tokenizer.ggml.pre", pre);
    writer_kv_str_array(&writer, "tokenizer.ggml.tokens", tokens, 6);
    writer_kv_i32_array(&writer, "tokenizer.ggml.token_type", types, 6);
    writer_kv_str_array(&writer, "tokenizer.ggml.merges", merges, 1);
    return writer;
}

CASE(byte_level_metadata_makes_a_tokenizer) {
    struct writer writer = gpt2_begin(NULL);
    writer_kv_u32(&writer, "tokenizer.ggml.bos_token_id", 3);
    writer_kv_u32(&writer, "tokenizer.ggml.eos_token_id", 4);
    writer_kv_u32(&writer, "tokenizer.ggml.eot_token_id", 5);
    writer_kv_str(&writer, "tokenizer.chat_template", "{{ x }}");
    struct loaded l = load_gguf(&writer, 0);
    check(!l.status, "%s", l.err.message);
    assert_true(tokenizer_size(l.tokenizer) == 6 && tokenizer_bos(l.tokenizer) == 3);
    assert_true(tokenizer_eos(l.tokenizer) == 4 && tokenizer_is_end(l.tokenizer, 5));
    assert_false(tokenizer_adds_bos(l.tokenizer) || tokenizer_adds_eos(l.tokenizer));
    assert_string_equal(l.chat_template, "{{ x }}");
    CHECK_IDS(&l, "abba", 0, 2, 1, 0);
    CHECK_IDS(&l, "<t>ab", ENCODE_SPECIAL, 5, 2);
    unload(&l);
}

CASE(bos_is_added_by_default_where_the_pre_tokenizer_says_so) {
    static const struct {
        const char *pre;
        bool adds;
    } cases[] = {{"gpt-2", false},    {"llama-bpe", true}, {"tekken", true},   {"qwen2", false},
                 {"falcon-h1", true}, {"lfm2", true},      {"qwen35", false},  {"dbrx", false},
                 {"olmo", false},     {"refact", false},   {"kimi-k2", false}, {"glm4", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int said = -1; said <= 1; said++) {
            struct writer writer = gpt2_begin(cases[i].pre);
            writer_kv_u32(&writer, "tokenizer.ggml.bos_token_id", 3);
            if (said >= 0) writer_kv_bool(&writer, "tokenizer.ggml.add_bos_token", said);
            struct loaded l = load_gguf(&writer, 0);
            const bool want = said >= 0 ? said : cases[i].adds;
            check(!l.status && tokenizer_adds_bos(l.tokenizer) == want, "%s, said %d: %s",
                  cases[i].pre, said, l.err.message);
            unload(&l);
        }
    }
    struct writer writer = gpt2_begin("llama-bpe"); // there is no BOS
    struct loaded l = load_gguf(&writer, 0);
    assert_true(!l.status && !tokenizer_adds_bos(l.tokenizer));
    unload(&l);
}

static struct writer llama_begin(bool with_scores) {
    static const char *const tokens[] = {"<unk>",
                                         "<s>",
                                         "</s>",
                                         "\xe2\x96\x81",
                                         "a",
                                         "\xe2\x96\x81"
                                         "a",
                                         "<0x62>"};
    static const int32_t types[] = {2, 3, 3, 1, 1, 1, 6};
    static const float scores[] = {0, 0, 0, -3, -2, -1, 0};
    struct writer writer = writer_begin(3);
    writer_kv_str(&writer, "tokenizer.ggml.model", "llama");
    writer_kv_str_array(&writer, "tokenizer.ggml.tokens", tokens, 7);
    writer_kv_i32_array(&writer, "tokenizer.ggml.token_type", types, 7);
    if (with_scores) writer_kv_f32_array(&writer, "tokenizer.ggml.scores", scores, 7);
    return writer;
}

CASE(sentencepiece_metadata_makes_a_tokenizer) {
    struct writer writer = llama_begin(true);
    struct loaded l = load_gguf(&writer, 0);
    check(!l.status, "%s", l.err.message);
    assert_true(tokenizer_bos(l.tokenizer) == 1 && tokenizer_eos(l.tokenizer) == 2);
    assert_true(tokenizer_adds_bos(l.tokenizer) && !tokenizer_adds_eos(l.tokenizer));
    assert_null(l.chat_template);
    CHECK_IDS(&l, "ab", ENCODE_BOS, 1, 5, 6);         // a prefix, and bytes for what is no token
    CHECK_IDS(&l, "a</s>a", ENCODE_SPECIAL, 5, 2, 5); // a prefix behind a special token, too
    unload(&l);

    writer = llama_begin(true);
    writer_kv_bool(&writer, "tokenizer.ggml.add_space_prefix", false);
    writer_kv_bool(&writer, "tokenizer.ggml.add_bos_token", false);
    writer_kv_bool(&writer, "tokenizer.ggml.add_eos_token", true);
    l = load_gguf(&writer, 0);
    CHECK_IDS(&l, "a a", ENCODE_BOS, 4, 5, 2);
    unload(&l);
}

#define MARK "\u2581"

static struct writer ranked_begin(const char *model, const char *pre) {
    static const char *const tokens[] = {"<unk>",  "<bos>",  "<turn|>", "<|tool_call>",
                                         "\n",     "\n\n",   "\n\n\n",  MARK,
                                         "a",      "b",      "ab",      MARK "a",
                                         "<0xC3>", "<0xA9>", MARK MARK, "<tool_call|>"};
    static const int32_t types[] = {2, 3, 3, 4, 1, 1, 1, 1, 1, 1, 1, 1, 6, 6, 1, 4};
    // ranks decide, not the strings: "ab" comes first
    static const char *const merges[] = {"a b", MARK " a", MARK " " MARK};
    struct writer writer = writer_begin(3);
    writer_kv_str(&writer, "tokenizer.ggml.model", model);
    if (pre) writer_kv_str(&writer, "tokenizer.ggml.pre", pre);
    writer_kv_str_array(&writer, "tokenizer.ggml.tokens", tokens, 16);
    writer_kv_i32_array(&writer, "tokenizer.ggml.token_type", types, 16);
    writer_kv_str_array(&writer, "tokenizer.ggml.merges", merges, 3);
    writer_kv_u32(&writer, "tokenizer.ggml.bos_token_id", 1);
    return writer;
}

CASE(metadata_of_gemma4_makes_a_tokenizer_with_ranks_over_characters) {
    struct writer writer = ranked_begin("gemma4", NULL);
    writer_kv_bool(&writer, "tokenizer.ggml.add_bos_token", false);
    struct loaded l = load_gguf(&writer, 0);
    check(!l.status, "%s", l.err.message);
    assert_true(tokenizer_adds_bos(l.tokenizer)); // whatever the file says
    assert_true(tokenizer_is_end(l.tokenizer, 2));
    CHECK_IDS(&l, "a ab  b", ENCODE_BOS, 1, 8, 7, 10, 14, 9); // no space before the text
    CHECK_IDS(&l, "a\u00E9", 0, 8, 12, 13);
    CHECK_IDS(&l, "z", 0, 0);
    // runs of line ends are tokens without merges
    CHECK_IDS(&l, "a\nb\n\na\n\n\n\n", 0, 8, 4, 9, 5, 8, 6, 4);
    // the marks of tools are no text of a user, though the file calls them user-defined
    CHECK_IDS(&l, "<|tool_call>a<tool_call|>", ENCODE_SPECIAL, 3, 8, 15);
    struct token_list list = {0};
    check(!tokenizer_encode(l.tokenizer, "<|tool_call>", 12, 0, &list, &l.err), "%s",
          l.err.message);
    for (size_t i = 0; i < list.count; i++) assert_int_not_equal(list.id[i], 3);
    token_list_deinit(&list);
    unload(&l);
}

CASE(pre_tokenizers_over_characters_are_no_byte_level) {
    struct writer writer = ranked_begin("gpt2", "sarvam-moe");
    struct loaded l = load_gguf(&writer, 0);
    check(!l.status, "%s", l.err.message);
    assert_false(tokenizer_adds_bos(l.tokenizer));
    CHECK_IDS(&l, "a ab\n\u00E9", 0, 8, 7, 10, 4, 12, 13);
    unload(&l);
}

CASE(a_short_vocabulary_is_filled_up_and_a_long_one_refused) {
    struct writer writer = gpt2_begin(NULL);
    struct loaded l = load_gguf(&writer, 10);
    check(!l.status, "%s", l.err.message);
    assert_int_equal(tokenizer_size(l.tokenizer), 10);
    assert_int_equal(tokenizer_bytes(l.tokenizer, 9).len, 0);
    CHECK_IDS(&l, "ab", 0, 2);
    unload(&l);
    writer = llama_begin(true);
    l = load_gguf(&writer, 8);
    assert_true(!l.status && tokenizer_size(l.tokenizer) == 8);
    CHECK_IDS(&l, "a", 0, 5);
    unload(&l);
    check_refused(gpt2_begin(NULL), 5, RN_ERR_MODEL, "has 6 tokens, but the model has rows for 5");
}

static struct writer model_begin(const char *model) {
    struct writer writer = writer_begin(3);
    writer_kv_str(&writer, "tokenizer.ggml.model", model);
    return writer;
}

CASE(other_tokenizers_are_refused_by_name) {
    static const char *const names[] = {"bert", "t5", "rwkv", "no_vocab", ""};
    for (int i = 0; i < 5; i++)
        check_refused(model_begin(names[i]), 0, RN_ERR_UNSUPPORTED, names[i]);
    check_refused(writer_begin(3), 0, RN_ERR_MODEL, "tokenizer.ggml.model is missing");
    check_refused(model_begin("gpt2"), 0, RN_ERR_MODEL, "tokenizer.ggml.tokens is missing");
    check_refused(llama_begin(false), 0, RN_ERR_MODEL, "tokenizer.ggml.scores is missing");
    static const char *const tokens[] = {"a"};
    struct writer writer = model_begin("gemma4");
    writer_kv_str_array(&writer, "tokenizer.ggml.tokens", tokens, 1);
    check_refused(writer, 0, RN_ERR_MODEL, "tokenizer.ggml.merges is missing");
}

CASE(keys_of_the_wrong_kind_are_refused) {
    static const char *const ids[] = {"bos", "eos", "eot", "eom", "unknown"};
    for (int i = 0; i < 5; i++) {
        char key[100];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", ids[i]);
        struct writer writer = gpt2_begin(NULL);
        writer_kv_u32(&writer, key, 6);
        check_refused(writer, 0, RN_ERR_MODEL, "is 6, expected 0 to 5");
        writer = gpt2_begin(NULL);
        writer_kv_f32(&writer, key, 1);
        check_refused(writer, 0, RN_ERR_MODEL, key);
        writer = gpt2_begin(NULL);
        writer_kv_u32(&writer, key, UINT32_MAX); // none
        struct loaded l = load_gguf(&writer, 0);
        check(!l.status, "%s", l.err.message);
        unload(&l);
    }
    struct writer writer = gpt2_begin(NULL);
    writer_kv_u32(&writer, "tokenizer.ggml.add_bos_token", 1);
    check_refused(writer, 0, RN_ERR_MODEL, "add_bos_token");
    writer = gpt2_begin(NULL);
    writer_kv_u32(&writer, "tokenizer.chat_template", 1);
    check_refused(writer, 0, RN_ERR_MODEL, "chat_template");
    writer = llama_begin(false);
    writer_kv_f32_array(&writer, "tokenizer.ggml.scores", (const float[]){1, 2}, 2);
    check_refused(writer, 0, RN_ERR_MODEL, "scores has 2 items, expected 7");
    writer = llama_begin(false);
    writer_kv_f32_array(&writer, "tokenizer.ggml.scores",
                        (const float[]){1, 2, 3, 4, 0.0f / 0.0f, 6, 7}, 7);
    check_refused(writer, 0, RN_ERR_MODEL, "scores[4]");
    writer = model_begin("gpt2");
    writer_kv_str_array(&writer, "tokenizer.ggml.tokens", (const char *const[]){"a"}, 1);
    writer_kv_str_array(&writer, "tokenizer.ggml.merges", (const char *const[]){"a b", "ab"}, 2);
    check_refused(writer, 0, RN_ERR_MODEL, "merges[1]");
}

CASE(templates_must_be_short_text) {
    struct writer writer = gpt2_begin(NULL);
    writer_kv_str(&writer, "tokenizer.chat_template", "\xff");
    check_refused(writer, 0, RN_ERR_MODEL, "not UTF-8");
    writer = gpt2_begin(NULL);
    char *const text = malloc((1 << 20) + 2);
    memset(text, 'x', (1 << 20) + 1);
    text[(1 << 20) + 1] = 0;
    writer_kv_str(&writer, "tokenizer.chat_template", text);
    check_refused(writer, 0, RN_ERR_MODEL, "has 1048577 bytes");
    free(text);
}

// --- folders ---

#define TOKENIZER_JSON                                                                             \
    "{\"added_tokens\":[{\"id\":3,\"content\":\"<e>\",\"special\":true},"                          \
    "{\"id\":4,\"content\":\"<b>\",\"special\":true}],\"decoder\":{\"type\":\"ByteLevel\"},"       \
    "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}"

// Files as pairs of name and text, up to NULL.
static struct data_folder folder_make(const char *const *file) {
    const struct data_folder folder = data_folder_make();
    for (; *file; file += 2) data_file_write(folder.path, file[0], file[1], strlen(file[1]));
    return folder;
}

static struct loaded load_folder(const struct data_folder *folder, int32_t n_vocab) {
    struct weights *weights;
    rn_error err;
    check(model_weights_open_vocab(folder->path, &weights, &err) == RN_OK, "%s", err.message);
    return load(weights, n_vocab);
}

static struct loaded load_files(const char *const *file, int32_t n_vocab) {
    const struct data_folder folder = folder_make(file);
    const struct loaded l = load_folder(&folder, n_vocab);
    data_folder_remove(&folder);
    return l;
}

#define FILES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void check_folder_refused(const char *const *file, rn_status want, const char *words) {
    struct loaded l = load_files(file, 0);
    check(l.status == want && strstr(l.err.message, words) && strstr(l.err.message, "test-data."),
          "status %d, %s, not: %s", l.status, l.err.message, words);
    unload(&l);
}

CASE(tokenizer_json_and_its_configuration_are_read) {
    struct loaded l = load_files(FILES("tokenizer.json", TOKENIZER_JSON, "tokenizer_config.json",
                                       "{\"bos_token\":\"<b>\",\"eos_token\":{\"content\":\"<e>\"},"
                                       "\"add_bos_token\":true,\"chat_template\":\"C\"}",
                                       "generation_config.json", "{\"eos_token_id\":[2,1]}",
                                       "config.json", "{\"eos_token_id\":0}"),
                                 0);
    check(!l.status, "%s", l.err.message);
    assert_true(tokenizer_bos(l.tokenizer) == 4 && tokenizer_adds_bos(l.tokenizer));
    assert_int_equal(tokenizer_eos(l.tokenizer), 3);
    for (int32_t id = 1; id <= 3; id++) assert_true(tokenizer_is_end(l.tokenizer, id));
    assert_false(tokenizer_is_end(l.tokenizer, 0)); // the older file is not asked
    assert_string_equal(l.chat_template, "C");
    CHECK_IDS(&l, "ab<e>", ENCODE_SPECIAL | ENCODE_BOS, 4, 2, 3);
    unload(&l);
}

CASE(the_configuration_of_the_model_has_ends_where_no_other_file_has) {
    struct loaded l = load_files(FILES("tokenizer.json", TOKENIZER_JSON, "generation_config.json",
                                       "{\"x\":{}}", "config.json", "{\"eos_token_id\":2}"),
                                 0);
    check(!l.status, "%s", l.err.message);
    assert_true(tokenizer_is_end(l.tokenizer, 2) && tokenizer_eos(l.tokenizer) == 2);
    unload(&l);
}

CASE(a_row_without_a_text_can_be_an_end) {
    const char *const *const files =
        FILES("tokenizer.json", TOKENIZER_JSON, "generation_config.json", "{\"eos_token_id\":7}");
    struct loaded l = load_files(files, 8);
    check(!l.status, "%s", l.err.message);
    assert_true(tokenizer_is_end(l.tokenizer, 7) && tokenizer_size(l.tokenizer) == 8);
    unload(&l);
    check_folder_refused(files, RN_ERR_MODEL, "generation_config.json: offset");
}

CASE(added_tokens_without_a_row_are_left_away) {
    struct loaded l = load_files(FILES("tokenizer.json", TOKENIZER_JSON), 4);
    check(!l.status, "%s", l.err.message);
    assert_int_equal(tokenizer_size(l.tokenizer), 4);
    CHECK_IDS(&l, "<e>ab", ENCODE_SPECIAL, 3, 2);
    unload(&l);
    l = load_files(FILES("tokenizer.json", TOKENIZER_JSON, "tokenizer_config.json",
                         "{\"eos_token\":\"<b>\"}"),
                   4);
    check(l.status == RN_ERR_MODEL && strstr(l.err.message, "tokenizer.json has 5 tokens"), "%s",
          l.err.message);
    l = load_files(FILES("tokenizer.json", TOKENIZER_JSON), 2); // "ab" is a token of its own
    check(l.status == RN_ERR_MODEL && strstr(l.err.message, "rows for 2"), "%s", l.err.message);
}

CASE(template_files_win_over_the_configuration) {
    static const char config[] = "{\"chat_template\":\"C\"}";
    struct loaded l =
        load_files(FILES("tokenizer.json", TOKENIZER_JSON, "tokenizer_config.json", config,
                         "chat_template.json", "{\"chat_template\":\"J\\n\"}"),
                   0);
    assert_string_equal(l.chat_template, "J\n");
    unload(&l);
    l = load_files(FILES("tokenizer.json", TOKENIZER_JSON, "tokenizer_config.json", config,
                         "chat_template.json", "{\"chat_template\":\"J\"}", "chat_template.jinja",
                         "{{ jinja }}\n"),
                   0);
    assert_string_equal(l.chat_template, "{{ jinja }}\n");
    unload(&l);
    l = load_files(FILES("tokenizer.json", TOKENIZER_JSON), 0);
    assert_null(l.chat_template);
    unload(&l);
}

CASE(tokenizer_model_is_read_where_there_is_no_json) {
    static const char source[] = TEST_DATA "/golden/tokenizers/spm/";
    const struct data_folder folder = data_folder_make();
    struct loaded l[2];
    for (int i = 0; i < 2; i++) {
        char path[DATA_PATH_BYTES];
        const char *const name = i ? "tokenizer.json" : "tokenizer.model";
        snprintf(path, sizeof path, "%s%s", source, name);
        assert_true(data_file_copy(path, folder.path, name));
        l[i] = load_folder(&folder, 0);
        check(!l[i].status, "%s", l[i].err.message);
    }
    data_folder_remove(&folder);
    // Two forms of one vocabulary.
    assert_int_equal(tokenizer_size(l[0].tokenizer), tokenizer_size(l[1].tokenizer));
    for (int32_t i = 0; i < tokenizer_size(l[0].tokenizer); i++) {
        const struct text_span a = tokenizer_bytes(l[0].tokenizer, i);
        const struct text_span b = tokenizer_bytes(l[1].tokenizer, i);
        check(a.len == b.len && !memcmp(a.data, b.data, a.len), "token %d", i);
    }
    unload(&l[0]);
    unload(&l[1]);
}

CASE(bad_folders_are_refused_with_the_file) {
    check_folder_refused(FILES("config.json", "{}"), RN_ERR_MODEL,
                         "neither tokenizer.json nor tokenizer.model");
    check_folder_refused(FILES("tokenizer.json", "{"), RN_ERR_MODEL, "tokenizer.json: offset 1");
    check_folder_refused(FILES("tokenizer.json", ""), RN_ERR_MODEL, "empty");
    check_folder_refused(FILES("tokenizer.model", "x"), RN_ERR_MODEL, "tokenizer.model: offset 0");
    check_folder_refused(FILES("tokenizer.json", "{\"model\":{\"type\":\"Unigram\"}}"),
                         RN_ERR_UNSUPPORTED, "Unigram");
    check_folder_refused(FILES("tokenizer.json", TOKENIZER_JSON, "tokenizer_config.json", "[]"),
                         RN_ERR_MODEL, "tokenizer_config.json: offset 0");
    check_folder_refused(FILES("tokenizer.json", TOKENIZER_JSON, "generation_config.json",
                               "{\"eos_token_id\":\"x\"}"),
                         RN_ERR_MODEL, "generation_config.json: offset 16");
    check_folder_refused(FILES("tokenizer.json", TOKENIZER_JSON, "chat_template.jinja", "\xc3"),
                         RN_ERR_MODEL, "not UTF-8");
}

CASE(files_that_are_too_large_are_refused) {
    const struct data_folder folder = folder_make(FILES("tokenizer.json", TOKENIZER_JSON));
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder.path);
    data_file_write(folder.path, "chat_template.jinja", "", 0);
    assert_int_equal(truncate(path, (1 << 20) + 1), 0);
    struct loaded l = load_folder(&folder, 0);
    check(l.status == RN_ERR_MODEL && strstr(l.err.message, "chat_template.jinja"), "%s",
          l.err.message);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder.path);
    assert_int_equal(truncate(path, (256 << 20) + 1), 0); // a sparse file
    l = load_folder(&folder, 0);
    check(l.status == RN_ERR_MODEL && strstr(l.err.message, "has 268435457 bytes"), "%s",
          l.err.message);
    data_folder_remove(&folder);
}

TEST_PROGRAM(vocab) { return cases_run(NULL, NULL); }
