// Vocabularies of real files against the results of the reference tokenizers, through the public
// interface: ids and text, case by case, from GGUF and from folders. Also properties that must hold
// for any text.
// label: no-address
#include <utf8proc.h>

#include "golden.h"
#include "load/vocab.h"
#include "model/model.h"
#include "runnel.h"
#include "tokenizer_folder.h"
#include "unicode/unicode.h"

enum { MAX_IDS = 4096 };

// The results of a vocabulary on the texts; the first few failures are printed.
struct tally {
    const char *form;
    int cases, failures;
};

static rn_model *open_vocab(const char *path) {
    rn_model *model;
    rn_error err;
    check(rn_model_open_vocab(path, &model, &err) == RN_OK, "%s", err.message);
    return model;
}

static rn_model *open_vocab_gguf(const char *set) {
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, TEST_DATA "/tokenizers/%s/vocab.gguf", set);
    return open_vocab(path);
}

static void note_failure(struct tally *tally, const char *text, size_t len, const char *what) {
    if (tally->failures++ < 5)
        print_error("%s: '%.*s': %s\n", tally->form, (int)(len < 200 ? len : 200), text, what);
}

static void check_ids(struct tally *tally, const char *text, size_t len, const int32_t *got,
                      size_t n_got, const int32_t *want, size_t n_want) {
    char what[128] = "";
    if (n_got != n_want) snprintf(what, sizeof what, "%zu ids, expected %zu", n_got, n_want);
    for (size_t i = 0; i < n_got && i < n_want; i++)
        if (got[i] != want[i]) {
            snprintf(what, sizeof what, "id %zu is %d, expected %d", i, got[i], want[i]);
            break;
        }
    if (what[0]) note_failure(tally, text, len, what);
}

static void check_text(struct tally *tally, const rn_model *model, const int32_t *ids, size_t n,
                       const char *want, size_t want_len) {
    char *text;
    size_t len;
    rn_error err;
    check(rn_detokenize(model, ids, n, true, &text, &len, &err) == RN_OK, "%s", err.message);
    if (len != want_len || memcmp(text, want, len) != 0)
        note_failure(tally, want, want_len, "decodes to another text");
    rn_free(text);
}

static void tokenize(const rn_model *model, const char *text, size_t len, int flags, int32_t **ids,
                     size_t *n) {
    rn_error err;
    check(rn_tokenize(model, text, len, flags, ids, n, &err) == RN_OK, "%s", err.message);
}

// NFC, NUL-terminated; to be freed.
static char *compose(const char *text, size_t len, size_t *out_len) {
    utf8proc_uint8_t *out;
    const utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)len,
                                            &out, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    assert_true(n >= 0);
    *out_len = (size_t)n;
    return (char *)out;
}

// The ids that the text gives are the ones wanted, and decode to it (or to its composed form).
static void check_case(struct tally *tally, const rn_model *model, const struct tokenizer_set *set,
                       const char *text, size_t len, const int32_t *want, int n_want) {
    int32_t *ids;
    size_t n, composed_len = len;
    tokenize(model, text, len, set->special ? RN_TOKENIZE_SPECIAL : 0, &ids, &n);
    tally->cases++;
    check_ids(tally, text, len, ids, n, want, (size_t)n_want);
    char *composed = set->normalized ? compose(text, len, &composed_len) : NULL;
    check_text(tally, model, want, (size_t)n_want, composed ? composed : text, composed_len);
    free(composed);
    rn_free(ids);
}

// ---------------------------------------------------------------- reference tokenizations

static void check_cases(const rn_model *model, const struct tokenizer_set *set, const char *form) {
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, TEST_DATA "/tokenizers/%s/ids.txt", set->name);
    const struct data_file file = data_file_read(path);
    json_t *texts = data_json_read(TEST_DATA "/tokenizers/texts.json");
    const char *line = (const char *)file.data;
    struct tally tally = {.form = form};
    size_t index;
    const json_t *text;
    json_array_foreach(texts, index, text) {
        int32_t want[MAX_IDS];
        const int n = tokenizer_read_ids(&line, want, MAX_IDS);
        if (n < 0) continue;
        check_case(&tally, model, set, json_string_value(text), json_string_length(text), want, n);
    }
    assert_int_equal(*line, 0);
    check(tally.cases > 470, "only %d cases", tally.cases);
    check(!tally.failures, "%s, %s: %d failures in %d cases", set->name, form, tally.failures,
          tally.cases);
    json_decref(texts);
    free(file.data);
}

static void gguf_gives_the_reference_ids_and_text(void **state) {
    const struct tokenizer_set set = tokenizer_set_find(*state);
    rn_model *model = open_vocab_gguf(set.name);
    check_cases(model, &set, "GGUF");
    rn_model_close(model);
}

static void folder_gives_the_reference_ids_and_text(void **state) {
    const struct tokenizer_set set = tokenizer_set_find(*state);
    const struct data_folder folder = tokenizer_folder_make(&set);
    rn_model *model = open_vocab(folder.path);
    check_cases(model, &set, set.file);
    rn_model_close(model);
    data_folder_remove(&folder);
}

// ---------------------------------------------------------------- reference models

static bool is_composed(const char *text, size_t len) {
    size_t composed_len;
    char *composed = compose(text, len, &composed_len);
    const bool same = composed_len == len && memcmp(composed, text, len) == 0;
    free(composed);
    return same;
}

// An array of {"text", "ids"}. composed: without the texts that NFC changes.
static void check_tests(const rn_model *model, const struct tokenizer_set *set, const json_t *tests,
                        bool composed, const char *form) {
    struct tally tally = {.form = form};
    size_t index;
    const json_t *test;
    json_array_foreach(tests, index, test) {
        const json_t *text = json_object_get(test, "text"), *list = json_object_get(test, "ids");
        int32_t want[MAX_IDS];
        const size_t n = json_array_size(list);
        assert_true(n <= MAX_IDS);
        if (composed && !is_composed(json_string_value(text), json_string_length(text))) continue;
        for (size_t i = 0; i < n; i++)
            want[i] = (int32_t)json_integer_value(json_array_get(list, i));
        check_case(&tally, model, set, json_string_value(text), json_string_length(text), want,
                   (int)n);
    }
    check(tally.cases > 20, "only %d cases", tally.cases);
    check(!tally.failures, "%s: %d failures in %d cases", form, tally.failures, tally.cases);
}

// As a folder comes, and with each of the files that may hold the vocabulary alone.
static void check_golden_folder(const char *name, const char *tokenizer,
                                const struct tokenizer_set *set, const json_t *tests) {
    static const char *const without[] = {NULL, "tokenizer.model", "tokenizer.json"};
    for (int i = 0; i < 3; i++) {
        const struct data_folder folder = golden_folder_begin(name, tokenizer);
        char path[DATA_PATH_BYTES], form[96];
        snprintf(path, sizeof path, "%s/%s", folder.path, "tokenizer.model");
        const bool both = access(path, R_OK) == 0;
        if (without[i]) snprintf(path, sizeof path, "%s/%s", folder.path, without[i]);
        snprintf(form, sizeof form, "%s, folder without %s", name, without[i] ? without[i] : "-");
        if (!without[i] || (both && unlink(path) == 0)) {
            rn_model *model = open_vocab(folder.path);
            check_tests(model, set, tests, false, form);
            rn_model_close(model);
        }
        data_folder_remove(&folder);
    }
}

// Whether the folder's tokenizer makes NFC of a text.
static bool is_composing(const char *tokenizer) {
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, TEST_DATA "/golden/tokenizers/%s/tokenizer.json", tokenizer);
    json_t *json = data_json_read(path);
    const json_t *type = json_object_get(json_object_get(json, "normalizer"), "type");
    const bool composing = type && strcmp(json_string_value(type), "NFC") == 0;
    json_decref(json);
    return composing;
}

static void model_tokenizes_as_its_reference(void **state) {
    const char *const name = *state;
    char path[DATA_PATH_BYTES];
    struct golden g = golden_load(name);
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/golden.json", name);
    json_t *golden = data_json_read(path);
    const json_t *info = json_object_get(golden, "tokenizer");
    const char *kind = json_string_value(json_object_get(info, "kind"));
    const struct tokenizer_set set = {.special = strcmp(kind, "byte-level-bpe") == 0,
                                      .normalized = is_composing(g.tokenizer)};
    const json_t *tests = json_object_get(info, "tests");
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", name);
    if (access(path, R_OK) == 0) {
        rn_model *model = open_vocab(path);
        check_tests(model, &set, tests, g.gguf_nfc, name);
        rn_model_close(model);
    }
    check_golden_folder(name, g.tokenizer, &set, tests);
    json_decref(golden);
    golden_unload(&g);
}

static void tale_tokenizes_as_its_reference(void **state) {
    (void)state;
    rn_model *model = open_vocab(MODELS_DIR "/tale-20m-q8_0.gguf");
    json_t *golden = data_json_read(TEST_DATA "/golden/tale-20m/golden.json");
    const struct tokenizer_set set = {.special = true};
    check_tests(model, &set, json_object_get(golden, "tokenizer_tests"), false, "tale-20m");

    // the prompt brings its own BOS, so asking for it changes nothing
    const json_t *prompt = json_object_get(golden, "prompt_text");
    const json_t *want = json_object_get(golden, "prompt_ids");
    int32_t *ids;
    size_t n;
    tokenize(model, json_string_value(prompt), json_string_length(prompt),
             RN_TOKENIZE_SPECIAL | RN_TOKENIZE_BOS, &ids, &n);
    assert_int_equal(n, json_array_size(want));
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ids[i], json_integer_value(json_array_get(want, i)));
    rn_free(ids);

    const struct data_file text = data_file_read(MODELS_DIR "/val.txt");
    tokenize(model, (const char *)text.data, text.size, RN_TOKENIZE_SPECIAL, &ids, &n);
    assert_int_equal(n, 105658);
    rn_free(ids);
    free(text.data);
    json_decref(golden);
    rn_model_close(model);
}

// ---------------------------------------------------------------- any text

static uint32_t draw(uint64_t *seed, uint32_t below) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*seed >> 33) % below);
}

// Blocks that differ in what the splits make of them. U+2581 is not among them: it is how
// SentencePiece writes a space.
static const struct {
    uint32_t first, last;
} scripts[] = {
    {'a', 'z'},         {' ', ' '},          {0x00, 0x1F},     {' ', '~'},       {0x80, 0xFF},
    {0x0300, 0x036F},   {0x0370, 0x03FF},    {0x0400, 0x04FF}, {0x0590, 0x06FF}, {0x0900, 0x0DFF},
    {0x1100, 0x11FF},   {0x1E00, 0x1EFF},    {0x2000, 0x206F}, {0x2150, 0x218F}, {0x3000, 0x30FF},
    {0x4E00, 0x9FFF},   {0xAC00, 0xD7A3},    {0xE000, 0xFFFF}, {'\'', '\''},     {'\n', '\n'},
    {0x1F300, 0x1FAFF}, {0x10000, 0x10FFFF}, {'0', '9'},
};

static size_t random_text(uint64_t *seed, char *out, size_t max_chars) {
    const size_t n = draw(seed, (uint32_t)max_chars + 1);
    size_t len = 0, script = 0;
    for (size_t i = 0; i < n; i++) {
        if (draw(seed, 3) == 0) script = draw(seed, sizeof scripts / sizeof scripts[0]);
        const uint32_t cp =
            scripts[script].first + draw(seed, scripts[script].last - scripts[script].first + 1);
        len += unicode_encode(cp, (uint8_t *)out + len);
    }
    return len;
}

// Encoded and decoded, a text is itself; or composed, where the tokenizer does that.
static void check_round_trips(const rn_model *model, const struct tokenizer_set *set,
                              const char *form) {
    struct tally tally = {.form = form};
    uint64_t seed = 1;
    char text[4 * 120];
    for (int round = 0; round < 3000; round++) {
        size_t len = random_text(&seed, text, 120), n, want_len = len;
        int32_t *ids;
        tokenize(model, text, len, round % 2 ? RN_TOKENIZE_SPECIAL : 0, &ids, &n);
        char *composed = set->normalized ? compose(text, len, &want_len) : NULL;
        check_text(&tally, model, ids, n, composed ? composed : text, want_len);
        free(composed);
        rn_free(ids);
    }
    check(!tally.failures, "%s, %s: %d texts fail", set->name, form, tally.failures);
}

static void any_valid_text_survives(void **state) {
    const struct tokenizer_set set = tokenizer_set_find(*state);
    rn_model *model = open_vocab_gguf(set.name);
    check_round_trips(model, &set, "GGUF");
    rn_model_close(model);
    const struct data_folder folder = tokenizer_folder_make(&set);
    model = open_vocab(folder.path);
    check_round_trips(model, &set, set.file);
    rn_model_close(model);
    data_folder_remove(&folder);
}

static void any_bytes_survive_as_the_sum_of_token_bytes(void **state) {
    (void)state;
    rn_error err;
    struct weights *weights;
    struct tokenizer *tokenizer;
    const char *path = TEST_DATA "/tokenizers/gpt-2/vocab.gguf";
    check(model_weights_open_vocab(path, &weights, &err) == RN_OK, "%s", err.message);
    check(vocab_load(weights, 0, &tokenizer, NULL, &err) == RN_OK, "%s", err.message);
    weights_close(weights);
    struct token_list list = {0};
    uint64_t seed = 2;
    char text[200];
    for (int round = 0; round < 4000; round++) {
        const size_t len = draw(&seed, sizeof text);
        for (size_t i = 0; i < len; i++) text[i] = (char)draw(&seed, 256);
        list.count = 0;
        assert_int_equal(tokenizer_encode(tokenizer, text, len, ENCODE_SPECIAL, &list, &err),
                         RN_OK);
        size_t at = 0;
        for (size_t i = 0; i < list.count; i++) {
            const struct text_span token = tokenizer_bytes(tokenizer, list.id[i]);
            assert_true(token.len <= len - at);
            assert_memory_equal(token.data, text + at, token.len);
            at += token.len;
        }
        assert_int_equal(at, len);
    }
    token_list_deinit(&list);
    tokenizer_destroy(tokenizer);
}

TEST_PROGRAM(tokenizers) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tale_tokenizes_as_its_reference),
        cmocka_unit_test(any_bytes_survive_as_the_sum_of_token_bytes),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    failed += data_run_tests(TOKENIZER_LIST, "gguf_gives_the_reference_ids_and_text",
                             gguf_gives_the_reference_ids_and_text, NULL);
    failed += data_run_tests(TOKENIZER_LIST, "folder_gives_the_reference_ids_and_text",
                             folder_gives_the_reference_ids_and_text, NULL);
    failed += data_run_tests(GOLDEN_LIST, "model_tokenizes_as_its_reference",
                             model_tokenizes_as_its_reference, NULL);
    failed += data_run_tests(GOLDEN_HYBRIDS, "hybrid_tokenizes_as_its_reference",
                             model_tokenizes_as_its_reference, NULL);
    failed += data_run_tests(GOLDEN_FAMILIES, "family_tokenizes_as_its_reference",
                             model_tokenizes_as_its_reference, NULL);
    failed +=
        data_run_tests(TOKENIZER_LIST, "any_valid_text_survives", any_valid_text_survives, NULL);
    return failed;
}
