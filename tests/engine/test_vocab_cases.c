// Vocabularies of real files against what the reference tokenizer gave for them: ids and text,
// case by case; and what must hold for any text at all.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "engine/vocab.h"
#include "text/detokenizer.h"
#include "text/unicode.h"
#include "weights/weights.h"

#define GPT2_VOCAB TEST_DATA "/tokenizers/gpt-2/vocab.gguf"

static struct tokenizer *vocab_open(const char *path) {
    rn_error err = {0};
    struct weights *weights;
    struct tokenizer *tokenizer;
    if (weights_open(path, &weights, &err) != RN_OK) fail_msg("%s", err.message);
    if (vocab_load(weights, &tokenizer, &err) != RN_OK) fail_msg("%s", err.message);
    weights_close(weights);
    return tokenizer;
}

static json_t *json_open(const char *path) {
    json_error_t error;
    json_t *const root = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!root) fail_msg("%s: %s", path, error.text);
    return root;
}

static void encode(const struct tokenizer *tokenizer, const char *text, size_t len, int flags,
                   struct token_list *out) {
    rn_error err = {0};
    out->count = 0;
    if (tokenizer_encode(tokenizer, text, len, flags, out, &err) != RN_OK)
        fail_msg("%s", err.message);
}

static void check_ids(const json_t *test, const struct token_list *got) {
    const json_t *const ids = json_object_get(test, "ids");
    const char *const text = json_string_value(json_object_get(test, "text"));
    assert_true(json_is_array(ids));
    if (json_array_size(ids) != got->count)
        fail_msg("'%s': %zu ids, not %zu", text, got->count, json_array_size(ids));
    for (size_t i = 0; i < got->count; i++) {
        const json_int_t want = json_integer_value(json_array_get(ids, i));
        if (got->id[i] != want)
            fail_msg("'%s': id %zu is %d, not %d", text, i, got->id[i], (int)want);
    }
}

// Decodes token by token, as a stream would, into a new string.
static char *decode(const struct tokenizer *tokenizer, const struct token_list *list, size_t *len) {
    size_t bytes = 16;
    for (size_t i = 0; i < list->count; i++)
        bytes += 3 * (tokenizer_bytes(tokenizer, list->id[i]).len + 4);
    char *const text = malloc(bytes);
    assert_non_null(text);
    struct detokenizer state = {0};
    *len = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct text_span token = tokenizer_bytes(tokenizer, list->id[i]);
        *len += detokenizer_feed(&state, token.data, token.len, text + *len);
    }
    *len += detokenizer_finish(&state, text + *len);
    return text;
}

static void check_decoded(const struct tokenizer *tokenizer, const json_t *want,
                          const struct token_list *list) {
    size_t len;
    char *const text = decode(tokenizer, list, &len);
    assert_true(json_is_string(want));
    assert_int_equal(len, json_string_length(want));
    assert_memory_equal(text, json_string_value(want), len);
    free(text);
}

// An array of {"text", "ids"} and perhaps {"decoded"}; returns how many there were.
static size_t check_cases(const struct tokenizer *tokenizer, const json_t *cases, int flags) {
    struct token_list list = {0};
    size_t index;
    const json_t *test;
    json_array_foreach(cases, index, test) {
        const json_t *const text = json_object_get(test, "text");
        const json_t *const decoded = json_object_get(test, "decoded");
        encode(tokenizer, json_string_value(text), json_string_length(text), flags, &list);
        check_ids(test, &list);
        check_decoded(tokenizer, decoded ? decoded : text, &list);
    }
    token_list_deinit(&list);
    return index;
}

static void gpt2_cases_give_the_reference_ids_and_text(void **state) {
    (void)state;
    struct tokenizer *const tokenizer = vocab_open(GPT2_VOCAB);
    json_t *const root = json_open(TEST_DATA "/tokenizers/gpt-2/cases.json");
    const int flags = json_is_true(json_object_get(root, "special_parsed")) ? ENCODE_SPECIAL : 0;
    assert_true(check_cases(tokenizer, json_object_get(root, "cases"), flags) > 400);
    json_decref(root);
    tokenizer_destroy(tokenizer);
}

static void golden_llama_cases_give_the_reference_ids(void **state) {
    (void)state;
    struct tokenizer *const tokenizer = vocab_open(TEST_DATA "/golden/llama/model.gguf");
    json_t *const root = json_open(TEST_DATA "/golden/llama/golden.json");
    const json_t *const tests = json_object_get(json_object_get(root, "tokenizer"), "tests");
    assert_true(check_cases(tokenizer, tests, ENCODE_SPECIAL) > 20);
    json_decref(root);
    tokenizer_destroy(tokenizer);
}

static void golden_tale_cases_give_the_reference_ids(void **state) {
    (void)state;
    struct tokenizer *const tokenizer = vocab_open(MODELS_DIR "/tale-20m-q8_0.gguf");
    json_t *const root = json_open(TEST_DATA "/golden/tale-20m/golden.json");
    const json_t *const tests = json_object_get(root, "tokenizer_tests");
    assert_true(check_cases(tokenizer, tests, ENCODE_SPECIAL) > 20);

    // the prompt brings its own BOS, so asking for it changes nothing
    const json_t *const prompt = json_object_get(root, "prompt_text");
    const json_t *const ids = json_object_get(root, "prompt_ids");
    struct token_list list = {0};
    encode(tokenizer, json_string_value(prompt), json_string_length(prompt),
           ENCODE_SPECIAL | ENCODE_BOS, &list);
    assert_int_equal(list.count, json_array_size(ids));
    for (size_t i = 0; i < list.count; i++)
        assert_int_equal(list.id[i], json_integer_value(json_array_get(ids, i)));
    token_list_deinit(&list);
    json_decref(root);
    tokenizer_destroy(tokenizer);
}

static void validation_text_has_the_reference_count(void **state) {
    (void)state;
    struct tokenizer *const tokenizer = vocab_open(MODELS_DIR "/tale-20m-q8_0.gguf");
    struct file_map map;
    assert_int_equal(file_map_open(MODELS_DIR "/val.txt", &map, NULL), RN_OK);
    struct token_list list = {0};
    encode(tokenizer, (const char *)map.data, map.size, ENCODE_SPECIAL, &list);
    assert_int_equal(list.count, 105658);
    token_list_deinit(&list);
    file_map_close(&map);
    tokenizer_destroy(tokenizer);
}

// ---------------------------------------------------------------- any text

static uint32_t draw(uint64_t *seed, uint32_t below) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*seed >> 33) % below);
}

// Blocks that differ in what the pre-tokenizer makes of them.
static const struct {
    uint32_t first, last;
} scripts[] = {
    {'a', 'z'},         {' ', ' '},          {0x00, 0x1F},     {' ', '~'},       {0x80, 0xFF},
    {0x0370, 0x03FF},   {0x0400, 0x04FF},    {0x0590, 0x06FF}, {0x0900, 0x0DFF}, {0x2000, 0x206F},
    {0x2150, 0x218F},   {0x3000, 0x30FF},    {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0xE000, 0xFFFF},
    {0x1F300, 0x1FAFF}, {0x10000, 0x10FFFF}, {'0', '9'},       {'\'', '\''},     {'\n', '\n'},
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

static void valid_text_survives_encoding_and_decoding(void **state) {
    (void)state;
    struct tokenizer *const tokenizer = vocab_open(GPT2_VOCAB);
    struct token_list list = {0};
    uint64_t seed = 1;
    char text[4 * 120];
    for (int round = 0; round < 6000; round++) {
        const size_t len = random_text(&seed, text, 120);
        encode(tokenizer, text, len, round % 2 ? ENCODE_SPECIAL : 0, &list);
        size_t decoded_len;
        char *const decoded = decode(tokenizer, &list, &decoded_len);
        assert_int_equal(decoded_len, len);
        assert_memory_equal(decoded, text, len);
        free(decoded);
    }
    token_list_deinit(&list);
    tokenizer_destroy(tokenizer);
}

static void any_bytes_survive_as_the_sum_of_token_bytes(void **state) {
    (void)state;
    struct tokenizer *const tokenizer = vocab_open(GPT2_VOCAB);
    struct token_list list = {0};
    uint64_t seed = 2;
    char text[200];
    for (int round = 0; round < 4000; round++) {
        const size_t len = draw(&seed, sizeof text);
        for (size_t i = 0; i < len; i++) text[i] = (char)draw(&seed, 256);
        encode(tokenizer, text, len, ENCODE_SPECIAL, &list);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_cases_give_the_reference_ids_and_text),
        cmocka_unit_test(golden_llama_cases_give_the_reference_ids),
        cmocka_unit_test(golden_tale_cases_give_the_reference_ids),
        cmocka_unit_test(validation_text_has_the_reference_count),
        cmocka_unit_test(valid_text_survives_encoding_and_decoding),
        cmocka_unit_test(any_bytes_survive_as_the_sum_of_token_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
