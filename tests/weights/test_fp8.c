// Matrices of 8-bit floats with scales: each code's value, scales of every form, reads of any part,
// the identity of such a folder, and how folders that do not fit are refused.
// label: memory
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/half.h"
#include "folder.h"
#include "weights/synthetic.h"

enum { ROWS = 7, COLS = 37, ELEMENTS = ROWS * COLS };

#define FP8                                                                                        \
    ", 'quantization_config': {'quant_method': 'fp8', 'fmt': 'e4m3', 'weight_block_size': [3, "    \
    "16]}"
#define MATRIX "model.layers.0.self_attn.q_proj.weight"
#define SHAPE  "7,37"

static uint8_t codes[ELEMENTS];

static void fill(void) {
    for (int i = 0; i < ELEMENTS; i++) codes[i] = (uint8_t)(i * 97 + 5);
}

// Its sign, exponent and fraction, by the definition of the format.
static double value_of(uint8_t code) {
    const int exponent = code / 8 % 16, fraction = code % 8;
    double value =
        exponent == 0 ? fraction / 8.0 * pow(2, -6) : (1 + fraction / 8.0) * pow(2, exponent - 7);
    if (exponent == 15 && fraction == 7) value = NAN;
    return code >= 128 ? -value : value;
}

static uint16_t expected(int i, float scale) {
    return f32_to_bf16((float)value_of(codes[i]) * scale);
}

static struct data_folder folder_of(struct st_image *image, const char *more) {
    const struct data_folder folder = data_folder_make();
    config_write(&folder, "Qwen3ForCausalLM", more);
    st_write(&folder, "model.safetensors", image);
    memset(image, 0, sizeof *image);
    return folder;
}

static struct weights *open_image(struct st_image *image, const char *more) {
    const struct data_folder folder = folder_of(image, more);
    struct weights *weights = folder_open(&folder);
    data_folder_remove(&folder);
    return weights;
}

static void matrix_add(struct st_image *image) {
    st_entry(image, MATRIX, "F8_E4M3", SHAPE, codes, ELEMENTS);
}

// Elements [first, first + n) of the matrix.
static void part_read(const struct weights *weights, int first, int n, uint16_t *out) {
    const struct tensor_view *t = weights_tensor_find(weights, "blk.0.attn_q.weight");
    const void *at;
    rn_error err = {0};
    assert_non_null(t);
    assert_true(t->codes == CODES_FP8 && t->format == FORMAT_BF16 && t->bytes == 2 * ELEMENTS);
    check(weights_read(weights, (const uint8_t *)t->data + 2 * first, (uint64_t)(2 * n), out, &at,
                       &err) == RN_OK,
          "%s", err.message);
    assert_ptr_equal(at, out);
}

// The scale of row r, column c of the form.
typedef float (*scale_fn)(int r, int c);

static float of_all(int r, int c) { return (void)r, (void)c, 0.37f; }
static float of_row(int r, int c) { return (void)c, 0.5f + 0.25f * (float)r; }
static float of_block(int r, int c) { return 0.125f * (float)(1 + r / 3 * 3 + c / 16); }
static float of_exponent(int r, int c) { return ldexpf(1, r / 3 * 3 + c / 16 - 4); }

static void check_scales(const char *name, const char *dtype, const char *shape, const void *scale,
                         size_t bytes, scale_fn want) {
    static struct st_image image;
    uint16_t got[ELEMENTS];
    matrix_add(&image);
    st_entry(&image, name, dtype, shape, scale, bytes);
    struct weights *weights = open_image(&image, FP8);
    for (int first = 0; first < ELEMENTS; first += 11) {
        for (int n = 1; first + n <= ELEMENTS; n = n * 3 + 1) {
            part_read(weights, first, n, got);
            for (int i = 0; i < n; i++) {
                const int at = first + i;
                const uint16_t bits = expected(at, want(at / COLS, at % COLS));
                check(got[i] == bits, "%s %s: element %d of code %d: %04x, not %04x", dtype, shape,
                      at, codes[at], got[i], bits);
            }
        }
    }
    weights_close(weights);
}

CASE(a_weight_is_its_code_times_its_scale) {
    float all = of_all(0, 0), row[ROWS], block[9];
    uint16_t half[9], bf16[9];
    uint8_t exponent[9];
    fill();
    for (int r = 0; r < ROWS; r++) row[r] = of_row(r, 0);
    for (int i = 0; i < 9; i++) {
        block[i] = of_block(i / 3 * 3, i % 3 * 16);
        half[i] = f32_to_f16(block[i]);
        bf16[i] = f32_to_bf16(block[i]);
        exponent[i] = (uint8_t)(127 + i / 3 * 3 + i % 3 - 4);
    }
    check_scales(MATRIX "_scale", "F32", "", &all, 4, of_all);
    check_scales(MATRIX "_scale", "F32", "1", &all, 4, of_all);
    check_scales(MATRIX "_scale_inv", "F32", "1,1", &all, 4, of_all);
    check_scales(MATRIX "_scale", "F32", "7", row, sizeof row, of_row);
    check_scales(MATRIX "_scale", "F32", "7,1", row, sizeof row, of_row);
    check_scales(MATRIX "_scale_inv", "F32", "3,3", block, sizeof block, of_block);
    check_scales(MATRIX "_scale_inv", "F16", "3,3", half, sizeof half, of_block);
    check_scales(MATRIX "_scale_inv", "BF16", "3,3", bf16, sizeof bf16, of_block);
    check_scales(MATRIX "_scale_inv", "F8_E8M0", "3,3", exponent, sizeof exponent, of_exponent);
}

// The exponents at the ends of the range: the smallest is a subnormal float, the largest no number.
CASE(scales_of_one_byte_are_powers_of_two) {
    static struct st_image image;
    const uint8_t exponent[9] = {0, 1, 254, 255};
    uint16_t got[ELEMENTS];
    fill();
    matrix_add(&image);
    st_entry(&image, MATRIX "_scale_inv", "F8_E8M0", "3,3", exponent, sizeof exponent);
    struct weights *weights = open_image(&image, FP8);
    part_read(weights, 0, ELEMENTS, got);
    for (int i = 0; i < 16; i++) assert_int_equal(got[i], expected(i, ldexpf(1, -127)));
    for (int i = 16; i < 32; i++) assert_int_equal(got[i], expected(i, ldexpf(1, -126)));
    for (int i = 32; i < COLS; i++) assert_int_equal(got[i], expected(i, ldexpf(1, 127)));
    for (int i = 0; i < 16; i++) assert_int_equal(got[3 * COLS + i] & 0x7fff, 0x7fc0);
    weights_close(weights);
}

// As many scales as rows are scales of blocks where their shape is that of blocks.
CASE(shapes_and_not_counts_tell_blocks_from_rows) {
    static struct st_image image;
    static const uint8_t square[9 * 9] = {0x38, 0x38, 0x38, 0x38};
    float block[9];
    uint16_t got[9 * 9];
    const void *at;
    for (int i = 0; i < 9; i++) block[i] = (float)(1 + i);
    st_entry(&image, MATRIX, "F8_E4M3", "9,9", square, sizeof square);
    st_entry(&image, MATRIX "_scale_inv", "F32", "3,3", block, sizeof block);
    struct weights *weights =
        open_image(&image,
                   ", 'quantization_config': {'quant_method': 'fp8', 'weight_block_size': [3, 3]}");
    const struct tensor_view *t = weights_tensor_find(weights, "blk.0.attn_q.weight");
    assert_int_equal(weights_read(weights, t->data, t->bytes, got, &at, NULL), RN_OK);
    for (int i = 0; i < 4; i++) assert_int_equal(got[i], f32_to_bf16(block[i / 3]));
    weights_close(weights);
}

CASE(other_programs_names_of_it_are_known) {
    static const char *const names[] = {
        ", 'quantization_config': {'quant_method': 'fp8', 'activation_scheme': 'static'}",
        ", 'quantization_config': {'quant_method': 'fp8', 'fmt': 'float8_e4m3fn'}", // MiniMax M2
        ", 'quantization_config': {'quant_method': 'fbgemm_fp8'}",
        ", 'quantization_config': {'quant_method': 'modelopt', 'quant_algo': 'FP8'}",
        ", 'quantization_config': {'quant_method': 'compressed-tensors', "
        "'format': 'float-quantized'}",
        ", 'quantization_config': {'quant_method': 'compressed-tensors', "
        "'format': 'naive-quantized'}",
    };
    static struct st_image image;
    const float one = 1;
    uint16_t got[ELEMENTS];
    fill();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        matrix_add(&image);
        st_entry(&image, MATRIX "_scale", "F32", "", &one, 4);
        // scales of activations and of KV pages belong to nothing here
        st_entry(&image, "model.layers.0.self_attn.q_proj.input_scale", "F32", "", &one, 4);
        st_entry(&image, "model.layers.0.self_attn.k_scale", "F32", "", &one, 4);
        st_entry(&image, "model.layers.0.mlp.experts.gate_up_proj_activation_scale", "F32", "",
                 &one, 4);
        st_entry(&image, "model.layers.0.mlp.experts.down_proj_input_scale", "F32", "", &one, 4);
        struct weights *weights = open_image(&image, names[i]);
        part_read(weights, 0, ELEMENTS, got);
        assert_int_equal(got[1], expected(1, 1));
        assert_int_equal(weights_tensor_count(weights), 1);
        weights_close(weights);
    }
}

enum { EXPERTS = 2, WIDTH = 6, EMBD = 8, EXPERT = WIDTH * EMBD };

#define MOE                                                                                        \
    ", 'num_local_experts': 2, 'num_experts': 2, 'num_experts_per_tok': 1, "                       \
    "'moe_intermediate_size': 6" FP8

static struct weights *open_experts(struct st_image *image, const char *class_name) {
    struct data_folder folder = data_folder_make();
    config_write(&folder, class_name, MOE);
    st_write(&folder, "model.safetensors", image);
    memset(image, 0, sizeof *image);
    struct weights *weights = folder_open(&folder);
    data_folder_remove(&folder);
    return weights;
}

// Only reading all experts as codes reads these. The first one does not speak for the others.
CASE(a_tensor_with_any_expert_in_codes_is_one_of_codes) {
    static struct st_image image;
    static const uint16_t plain[EXPERT];
    const float one = 1;
    for (int order = 0; order < 2; order++) {
        for (int e = 0; e < EXPERTS; e++) {
            char name[96], scale[128];
            snprintf(name, sizeof name, "model.layers.0.mlp.experts.%d.up_proj.weight", e);
            snprintf(scale, sizeof scale, "%.90s_scale", name);
            if (e != order) {
                st_entry(&image, name, "BF16", "6,8", plain, sizeof plain);
                continue;
            }
            st_entry(&image, name, "F8_E4M3", "6,8", codes, EXPERT);
            st_entry(&image, scale, "F32", "", &one, 4);
        }
        struct weights *weights = open_experts(&image, "Qwen3MoeForCausalLM");
        const struct tensor_view *t = weights_tensor_find(weights, "blk.0.ffn_up_exps.weight");
        assert_non_null(t);
        assert_true(t->codes == CODES_FP8);
        weights_close(weights);
    }
}

// Classes whose experts are one tensor with the other order of axes: where they were quantized,
// they are one by one, or that tensor with one scale.
CASE(experts_of_the_other_order_are_read) {
    static const struct {
        const char *class_name, *at;
    } classes[] = {
        {"Llama4ForCausalLM", "model.layers.0.feed_forward"},
        {"Qwen3VLMoeForConditionalGeneration", "model.language_model.layers.0.mlp"},
    };
    static const struct {
        const char *name, *gguf;
    } matrices[] = {{"gate_proj", "blk.0.ffn_gate_exps.weight"},
                    {"up_proj", "blk.0.ffn_up_exps.weight"}};
    static struct st_image image;
    const float scale = 0.37f;
    char name[160], of[160];
    fill();
    for (size_t k = 0; k < sizeof classes / sizeof *classes; k++) {
        for (int i = 0; i < 2 * EXPERTS; i++) {
            snprintf(name, sizeof name, "%s.experts.%d.%s.weight", classes[k].at, i / 2,
                     matrices[i % 2].name);
            snprintf(of, sizeof of, "%.120s_scale", name);
            st_entry(&image, name, "F8_E4M3", "6,8", codes + 7 * i, EXPERT);
            st_entry(&image, of, "F32", "", &scale, 4);
        }
        struct weights *weights = open_experts(&image, classes[k].class_name);
        for (int i = 0; i < 2 * EXPERTS; i++) {
            const struct tensor_view *t = weights_tensor_find(weights, matrices[i % 2].gguf);
            uint16_t got[EXPERT];
            const void *at;
            assert_non_null(t);
            assert_int_equal(weights_read(weights, t->parts[i / 2], sizeof got, got, &at, NULL),
                             RN_OK);
            for (int j = 0; j < EXPERT; j++) assert_int_equal(got[j], expected(7 * i + j, scale));
        }
        weights_close(weights);

        snprintf(name, sizeof name, "%s.experts.gate_up_proj", classes[k].at);
        snprintf(of, sizeof of, "%.120s_weight_scale", name);
        st_entry(&image, name, "F8_E4M3", "2,8,12", codes, EXPERTS * EMBD * 2 * WIDTH);
        st_entry(&image, of, "F32", "", &scale, 4);
        weights = open_experts(&image, classes[k].class_name);
        for (int i = 0; i < 2 * EXPERTS; i++) {
            const struct tensor_view *t = weights_tensor_find(weights, matrices[i % 2].gguf);
            assert_non_null(t);
            assert_true(t->codes == CODES_NONE && t->format == FORMAT_BF16);
            const uint16_t *got = (const uint16_t *)t->data + i / 2 * EXPERT;
            for (int r = 0; r < WIDTH; r++)
                for (int c = 0; c < EMBD; c++)
                    assert_int_equal(got[r * EMBD + c],
                                     expected((i / 2 * EMBD + c) * 2 * WIDTH + i % 2 * WIDTH + r,
                                              scale));
        }
        weights_close(weights);
    }
}

static void hash_of(const struct data_folder *folder, float scale, uint8_t out[WEIGHTS_HASH]) {
    static struct st_image image;
    matrix_add(&image);
    st_entry(&image, MATRIX "_scale", "F32", "", &scale, 4);
    st_write(folder, "model.safetensors", &image);
    memset(&image, 0, sizeof image);
    struct weights *weights = folder_open(folder);
    rn_error err = {0};
    check(weights_hash(weights, NULL, out, &err) == RN_OK, "%s", err.message);
    weights_close(weights);
}

CASE(a_scale_is_part_of_the_identity) {
    uint8_t a[WEIGHTS_HASH], b[WEIGHTS_HASH], again[WEIGHTS_HASH];
    const struct data_folder folder = data_folder_make();
    config_write(&folder, "Qwen3ForCausalLM", FP8);
    fill();
    hash_of(&folder, 1, a);
    hash_of(&folder, 1, again);
    hash_of(&folder, 2, b);
    assert_memory_equal(a, again, sizeof a);
    assert_memory_not_equal(a, b, sizeof a);
    data_folder_remove(&folder);
}

static void refused(struct st_image *image, const char *more, rn_status status,
                    const char *message) {
    const struct data_folder folder = folder_of(image, more);
    folder_refused(&folder, status, message);
    data_folder_remove(&folder);
}

CASE(what_does_not_fit_is_refused_by_name) {
    static struct st_image image;
    const float scale[16] = {1};
    const uint16_t word[ELEMENTS] = {0};
    matrix_add(&image);
    refused(&image, FP8, RN_ERR_MODEL, "q_proj.weight: its scale is missing");
    matrix_add(&image);
    st_entry(&image, MATRIX "_scale_inv", "F32", "3,2", scale, 24);
    refused(&image, FP8, RN_ERR_MODEL, "q_proj.weight_scale_inv: its shape is not that of scales");
    matrix_add(&image);
    st_entry(&image, MATRIX "_scale_inv", "F32", "1,7", scale, 28);
    refused(&image, FP8, RN_ERR_MODEL, "q_proj.weight_scale_inv: its shape is not that of scales");
    matrix_add(&image);
    st_entry(&image, MATRIX "_scale_inv", "I32", "", scale, 4);
    refused(&image, FP8, RN_ERR_UNSUPPORTED, "weight_scale_inv: a scale is expected in F32");
    matrix_add(&image);
    st_entry(&image, MATRIX "_scale_inv", "F32", "0", scale, 0);
    refused(&image, FP8, RN_ERR_MODEL, "q_proj.weight_scale_inv: its shape is not that of scales");
    // codes are no scale, with a scale of their own or without
    for (int i = 0; i < 2; i++) {
        st_entry(&image, MATRIX "_scale_inv", "F8_E4M3", "3,3", codes, 9);
        matrix_add(&image);
        if (i) st_entry(&image, MATRIX "_scale_inv_scale", "F32", "", scale, 4);
        refused(&image, FP8, i ? RN_ERR_UNSUPPORTED : RN_ERR_MODEL,
                i ? "weight_scale_inv: a scale is expected in F32"
                  : "weight_scale_inv: its scale is missing");
    }
    st_entry(&image, "model.layers.0.input_layernorm.weight", "F8_E4M3", "8", codes, 8);
    st_entry(&image, "model.layers.0.input_layernorm.weight_scale", "F32", "", scale, 4);
    refused(&image, FP8, RN_ERR_UNSUPPORTED, "F8_E4M3 is supported for matrices alone");
    st_entry(&image, "model.embed_tokens.weight", "F8_E4M3", "4,8", codes, 32);
    st_entry(&image, "model.embed_tokens.weight_scale", "F32", "", scale, 4);
    refused(&image, FP8, RN_ERR_UNSUPPORTED, "embed_tokens.weight: dtype F8_E4M3 is supported for");
    // without a word in the config they are what they were
    matrix_add(&image);
    refused(&image, "", RN_ERR_UNSUPPORTED, "dtype F8_E4M3 is not supported");
    st_entry(&image, MATRIX, "F16", SHAPE, word, sizeof word);
    refused(&image, ", 'quantization_config': {'quant_method': 'fp8', 'fmt': 'e5m2'}",
            RN_ERR_UNSUPPORTED, "quant_method fp8 with fmt e5m2 is not supported");
    st_entry(&image, MATRIX, "F16", SHAPE, word, sizeof word);
    refused(&image, ", 'quantization_config': {'quant_method': 'modelopt', 'quant_algo': 'NVFP4'}",
            RN_ERR_UNSUPPORTED, "quant_method modelopt with quant_algo NVFP4 is not supported");
    st_entry(&image, MATRIX, "F16", SHAPE, word, sizeof word);
    refused(&image,
            ", 'quantization_config': {'quant_method': 'compressed-tensors', "
            "'format': 'nvfp4-pack-quantized'}",
            RN_ERR_UNSUPPORTED,
            "quant_method compressed-tensors with format nvfp4-pack-quantized is not supported");
    st_entry(&image, MATRIX, "F16", SHAPE, word, sizeof word);
    refused(&image,
            ", 'quantization_config': {'quant_method': 'fp8', 'weight_block_size': [0, 128]}",
            RN_ERR_MODEL, "weight_block_size");
}

// A file that was cut since it was opened is an error, as for other tensors.
CASE(a_cut_file_is_an_error) {
    static struct st_image image;
    const float one = 1;
    uint16_t got[ELEMENTS];
    char path[DATA_PATH_BYTES];
    const void *at;
    fill();
    st_entry(&image, MATRIX "_scale", "F32", "", &one, 4);
    matrix_add(&image);
    const struct data_folder folder = folder_of(&image, FP8);
    struct weights *weights = folder_open(&folder);
    snprintf(path, sizeof path, "%s/model.safetensors", folder.path);
    const struct tensor_view *t = weights_tensor_find(weights, "blk.0.attn_q.weight");
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long size = ftell(file);
    fclose(file);
    assert_int_equal(truncate(path, size - 10), 0);
    assert_int_equal(weights_read(weights, t->data, t->bytes, got, &at, NULL), RN_ERR_IO);
    weights_close(weights);
    data_folder_remove(&folder);
}

// Scales are taken at open: codes that are still there can be read.
CASE(a_file_without_its_scales_ends_no_process) {
    static struct st_image image;
    static const uint16_t other[64 * 128];
    const float one = 1;
    uint16_t got[ELEMENTS];
    char path[DATA_PATH_BYTES];
    fill();
    matrix_add(&image);
    st_entry(&image, "model.layers.1.self_attn.q_proj.weight", "BF16", "64,128", other,
             sizeof other);
    st_entry(&image, MATRIX "_scale", "F32", "", &one, 4);
    const struct data_folder folder = folder_of(&image, FP8);
    struct weights *weights = folder_open(&folder);
    snprintf(path, sizeof path, "%s/model.safetensors", folder.path);
    assert_int_equal(truncate(path, 4096), 0);
    part_read(weights, 0, ELEMENTS, got);
    for (int i = 0; i < ELEMENTS; i++) assert_int_equal(got[i], expected(i, 1));
    weights_close(weights);
    data_folder_remove(&folder);
}

// Once it has another format, as for a plan, its bytes are elsewhere.
CASE(a_tensor_of_another_format_is_not_one_of_codes) {
    static struct st_image image;
    const float one = 1;
    rn_error err = {0};
    fill();
    matrix_add(&image);
    st_entry(&image, MATRIX "_scale", "F32", "", &one, 4);
    struct weights *weights = open_image(&image, FP8);
    check(weights_reformat(weights, "q8_0", &err) == RN_OK, "%s", err.message);
    const struct tensor_view *t = weights_tensor_find(weights, "blk.0.attn_q.weight");
    assert_true(t && t->codes == CODES_NONE);
    weights_close(weights);
}

TEST_PROGRAM(fp8) { return cases_run(NULL, NULL); }
