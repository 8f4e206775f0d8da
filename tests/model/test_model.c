// Models that a file describes wrongly are refused with the key or tensor and its value. Cases are
// made from a valid file by changing bytes of its header.
#define _GNU_SOURCE 1 // memmem
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static uint8_t *image;
static size_t image_bytes;

static int load_image(void **state) {
    FILE *file = fopen(TEST_DATA "/golden/llama/model.gguf", "rb");
    if (!file) return 1;
    fseek(file, 0, SEEK_END);
    image_bytes = (size_t)ftell(file);
    rewind(file);
    image = malloc(image_bytes);
    const bool read = fread(image, 1, image_bytes, file) == image_bytes;
    fclose(file);
    return !read;
}

static int free_image(void **state) {
    free(image);
    return 0;
}

static rn_status try_model(const uint8_t *bytes, rn_error *err) {
    struct weights *weights;
    struct model model;
    rn_status status = weights_open_memory("m.gguf", bytes, image_bytes, &weights, err);
    check(status == RN_OK, "%s", err->message);
    status = model_init(&model, weights, err);
    if (!status) model_deinit(&model);
    weights_close(weights);
    return status;
}

// Overwrites bytes `offset` after the first occurrence of `text` and expects a refusal that names
// all of `names`.
static void expect_refusal(const char *text, size_t offset, const void *bytes, size_t n,
                           rn_status status, const char *name, const char *value) {
    uint8_t *copy = malloc(image_bytes);
    memcpy(copy, image, image_bytes);
    uint8_t *at = memmem(copy, image_bytes, text, strlen(text));
    assert_non_null(at);
    memcpy(at + offset, bytes, n);
    rn_error err = {0};
    const rn_status got = try_model(copy, &err);
    check(got == status, "%s: status %d, message '%s'", text, got, err.message);
    check(strstr(err.message, "m.gguf") && strstr(err.message, name) && strstr(err.message, value),
          "message '%s' does not name %s and %s", err.message, name, value);
    free(copy);
}

static void expect_key(const char *key, uint32_t value, const char *names) {
    // after the key: its type (u32), then the value
    expect_refusal(key, strlen(key) + 4, &value, 4, RN_ERR_MODEL, key, names);
}

CASE(a_sound_file_makes_a_plan) {
    rn_error err = {0};
    struct weights *weights;
    struct model model;
    assert_int_equal(weights_open_memory("m.gguf", image, image_bytes, &weights, &err), RN_OK);
    assert_int_equal(model_init(&model, weights, &err), RN_OK);
    assert_string_equal(model_arch_name(&model), "llama");
    assert_int_equal(model.n_params, 310944);
    assert_int_equal(model.hp.n_layer, 3);
    assert_int_equal(model.plan.n_group, 1);
    assert_int_equal(model.plan.buffer[model.plan.logits].width, 512);
    // the last layer works on the out rows alone, once its keys are stored; the head on the rows
    // that need logits
    int last_append = 0, gathers = 0;
    for (int i = 0; i < model.plan.n_op; i++) {
        if (model.plan.op[i].kind == OP_KV_APPEND) last_append = i;
        gathers += model.plan.op[i].kind == OP_GATHER;
    }
    assert_int_equal(gathers, 2);
    for (int i = 0; i < model.plan.n_op; i++)
        assert_int_equal(model.plan.op[i].rows, i == model.plan.n_op - 1 ? ROWS_LOGITS
                                                : i > last_append        ? ROWS_OUT
                                                                         : ROWS_TOKENS);
    assert_int_equal(model.plan.hidden, model.plan.op[model.plan.n_op - 1].in[0]);
    model_deinit(&model);
    weights_close(weights);
}

CASE(numbers_out_of_range_are_refused) {
    expect_key("llama.block_count", 0, " 0,");
    expect_key("llama.block_count", 100000, "100000");
    expect_key("llama.context_length", 0, " 0,");
    expect_key("llama.embedding_length", 0xffffffffu, "4294967295");
    expect_key("llama.feed_forward_length", 0x7fffffffu, "2147483647");
    expect_key("llama.attention.head_count_kv", 0, " 0,");
    expect_key("llama.attention.key_length", 5000, "5000");
    expect_key("llama.rope.dimension_count", 17, "17");
    expect_key("llama.attention.layer_norm_rms_epsilon", 0x7fc00000u /* NaN */, "nan");
    expect_key("llama.rope.freq_base", 0xff800000u /* -inf */, "-inf");
    const uint32_t four = 4;
    expect_refusal("llama.attention.head_count_kv", strlen("llama.attention.head_count_kv") + 4,
                   &four, 4, RN_ERR_MODEL, "6", "4");
}

CASE(missing_tensors_are_named) {
    expect_refusal("blk.1.ffn_up.weight", 8, "x", 1, RN_ERR_MODEL, "blk.1.ffn_up.weight",
                   "missing");
    expect_refusal("token_embd.weight", 0, "x", 1, RN_ERR_MODEL, "token_embd.weight", "missing");
    expect_refusal("output_norm.weight", 0, "x", 1, RN_ERR_MODEL, "output_norm.weight", "missing");
}

CASE(missing_keys_are_named) {
    expect_refusal("llama.block_count", 0, "x", 1, RN_ERR_MODEL, "llama.block_count", "missing");
    expect_refusal("llama.attention.layer_norm_rms_epsilon", 0, "x", 1, RN_ERR_MODEL,
                   "layer_norm_rms_epsilon", "missing");
    expect_refusal("general.architecture", 0, "x", 1, RN_ERR_MODEL, "general.architecture",
                   "missing");
}

CASE(wrong_shapes_are_named_with_both_shapes) {
    const uint64_t dims[2] = {96, 31}; // attn_k is [96, 32]
    expect_refusal("blk.0.attn_k.weight", strlen("blk.0.attn_k.weight") + 4, dims, 16, RN_ERR_MODEL,
                   "blk.0.attn_k.weight", "[96, 31], expected [96, 32]");
    const uint64_t norm = 95;
    expect_refusal("blk.0.attn_norm.weight", strlen("blk.0.attn_norm.weight") + 4, &norm, 8,
                   RN_ERR_MODEL, "blk.0.attn_norm.weight", "[95], expected [96]");
}

CASE(unknown_architectures_are_named) {
    // key, type, length (u64), then the text
    expect_refusal("general.architecture", strlen("general.architecture") + 12, "lumma", 5,
                   RN_ERR_UNSUPPORTED, "lumma", "architecture");
}

// The image with one more key, by rewriting the header: the count at offset 16, the key first.
static uint8_t *with_key(const char *key, uint32_t item_type, const void *items, size_t item_bytes,
                         uint64_t count, size_t *size) {
    const size_t extra = 8 + strlen(key) + 4 + 4 + 8 + item_bytes * count;
    uint8_t *copy = calloc(1, image_bytes + extra + 64);
    uint8_t *at = copy + 24;
    const uint64_t key_len = strlen(key);
    const uint32_t array = META_ARRAY;
    memcpy(copy, image, 24);
    copy[16]++;
    memcpy(at, &key_len, 8), at += 8;
    memcpy(at, key, key_len), at += key_len;
    memcpy(at, &array, 4), at += 4;
    memcpy(at, &item_type, 4), at += 4;
    memcpy(at, &count, 8), at += 8;
    memcpy(at, items, item_bytes * count), at += item_bytes * count;
    const size_t header = 13475; // the data begin at the next multiple of 32
    memcpy(at, image + 24, header - 24), at += header - 24;
    at += (32 - (size_t)(at - copy) % 32) % 32;
    const size_t data = (header + 31) / 32 * 32;
    memcpy(at, image + data, image_bytes - data), at += image_bytes - data;
    *size = (size_t)(at - copy);
    return copy;
}

static void check_array(const char *key, const int32_t *items, uint64_t count, rn_status status,
                        const char *names) {
    size_t size;
    uint8_t *bytes = with_key(key, META_I32, items, sizeof *items, count, &size);
    struct weights *weights;
    struct model model;
    rn_error err = {0};
    const rn_status opened = weights_open_memory("m.gguf", bytes, size, &weights, &err);
    check(opened == RN_OK, "%s", err.message);
    const rn_status got = model_init(&model, weights, &err);
    check(got == status && strstr(err.message, names), "status %d, '%s'", got, err.message);
    if (!got) model_deinit(&model);
    weights_close(weights);
    free(bytes);
}

CASE(one_number_per_layer_is_read_if_all_are_equal) {
    static int32_t many[2000];
    const int32_t equal[3] = {0, 0, 0}, different[3] = {0, 0, 2};
    check_array("llama.expert_count", equal, 3, RN_OK, "");
    check_array("llama.expert_count", different, 3, RN_ERR_UNSUPPORTED,
                "item 2 is 2 and those before it 0");
    check_array("llama.expert_count", many, 2000, RN_ERR_MODEL, "2000 items");
    check_array("llama.expert_count", many, 0, RN_ERR_MODEL, "0 items");
    check_array("llama.expert_count", many, 1, RN_OK, "");
}

CASE(flipped_header_bytes_never_crash) {
    uint8_t *copy = malloc(image_bytes);
    memcpy(copy, image, image_bytes);
    srand(3);
    int refused = 0;
    for (int i = 0; i < 6000; i++) {
        const size_t at = (size_t)rand() % 13475; // the header's length
        const uint8_t was = copy[at];
        copy[at] ^= (uint8_t)(1 + rand() % 255);
        rn_error err = {0};
        struct weights *weights;
        struct model model;
        if (weights_open_memory("m.gguf", copy, image_bytes, &weights, &err) == RN_OK) {
            if (model_init(&model, weights, &err) == RN_OK)
                model_deinit(&model);
            else
                refused++;
            weights_close(weights);
        }
        copy[at] = was;
    }
    assert_true(refused > 0);
    free(copy);
}

TEST_PROGRAM(model) { return cases_run(load_image, free_image); }
