// Matrices of packed integers: every layout gives the blocks or numbers that its codes, zero points
// and scales stand for, in any part; experts of one tensor agree on a format.
// label: memory
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "integers_image.h"
#include "weights/store.h"

// The format that a matrix becomes, decided again by its codes.
static enum format_id format_of(const struct integers_matrix *m) {
    int low = 0, high = 0;
    for (int i = 0; i < m->rows * m->n_group; i++) {
        const int zero = m->zero[i], most = (1 << m->way.bits) - 1;
        if (-zero < low) low = -zero;
        if (most - zero > high) high = most - zero;
    }
    const enum format_id plain = m->way.is_bf16 ? FORMAT_BF16 : FORMAT_F16;
    if (m->way.has_order || m->cols % 32 != 0 || (m->n_group > 1 && m->way.group % 32 != 0))
        return plain;
    return low >= -8 && high <= 7       ? FORMAT_Q4_0
           : low >= -16 && high <= 15   ? FORMAT_Q5_0
           : low >= -128 && high <= 127 ? FORMAT_Q8_0
                                        : plain;
}

// Whole blocks [first, first + n) of what begins at data, as numbers.
static void part_decode(const struct weights *weights, const void *data, enum format_id format,
                        int first, int n, float *out) {
    static uint8_t room[ROOM];
    const struct format *of = format_at(format);
    const void *at;
    rn_error err = {0};
    check(weights_read(weights, (const uint8_t *)data + first * of->block_bytes,
                       (uint64_t)(n * of->block_bytes), room, &at, &err) == RN_OK,
          "%s", err.message);
    assert_ptr_equal(at, room);
    format_decode(format, room, out, (int64_t)n * of->block);
}

static float rounded(float x, enum format_id format) {
    return format == FORMAT_F16    ? f16_to_f32(f32_to_f16(x))
           : format == FORMAT_BF16 ? bf16_to_f32(f32_to_bf16(x))
                                   : x;
}

static void check_part(const struct weights *weights, const void *data, enum format_id format,
                       const struct integers_matrix *m, int first, int n) {
    static float got[ELEMENTS];
    const int block = format_at(format)->block;
    part_decode(weights, data, format, first, n, got);
    for (int i = 0; i < n * block; i++) {
        const int row = (first * block + i) / m->cols, col = (first * block + i) % m->cols;
        const float want = rounded(integers_value(m, row, col), format);
        check(got[i] == want, "kind %d of %d bits, %s: [%d, %d] is %g, expected %g", m->way.kind,
              m->way.bits, format_at(format)->name, row, col, (double)got[i], (double)want);
    }
}

static void check_way(const struct integers_way *way, int rows, int cols) {
    static struct fp8_image image;
    struct integers_matrix m = integers_matrix_make(way, rows, cols, numbers);
    integers_add(&image, STEM, &m);
    struct weights *weights = open_image(&image, way, "Qwen3ForCausalLM", "");
    const struct tensor_view *t = weights_tensor_find(weights, TENSOR);
    const enum format_id format = format_of(&m);
    assert_true(t && t->codes == CODES_INTEGERS && t->dim[0] == cols && t->dim[1] == rows);
    check(t->format == format, "kind %d of %d bits: %s, expected %s", way->kind, way->bits,
          format_at(t->format)->name, format_at(format)->name);
    const int blocks = rows * cols / format_at(format)->block;
    assert_int_equal(t->bytes, blocks * format_at(format)->block_bytes);
    check_part(weights, t->data, format, &m, 0, blocks);
    for (int first = 0; first < blocks; first += blocks / 5 + 3)
        for (int n = 1; first + n <= blocks; n = n * 3 + 1)
            check_part(weights, t->data, format, &m, first, n);
    assert_int_equal(weights_tensor_count(weights), 1);
    weights_close(weights);
    integers_matrix_free(&m);
}

CASE(every_layout_gives_what_its_codes_stand_for) {
    static const struct integers_way ways[] = {
        {.kind = KIND_GPTQ, .bits = 4, .group = 32},
        {.kind = KIND_GPTQ, .bits = 4, .group = 64, .has_zeros = true},
        {.kind = KIND_GPTQ, .bits = 4},
        {.kind = KIND_GPTQ, .bits = 4, .group = 128}, // the last group is shorter
        {.kind = KIND_GPTQ, .bits = 2, .group = 64, .has_zeros = true},
        {.kind = KIND_GPTQ, .bits = 8, .group = 96},
        {.kind = KIND_GPTQ, .bits = 8, .group = 96, .has_zeros = true},
        {.kind = KIND_GPTQ, .bits = 4, .group = 32, .has_zeros = true, .has_order = true},
        {.kind = KIND_GPTQ, .bits = 8, .group = 32, .has_order = true},
        {.kind = KIND_GPTQ, .bits = 4, .group = 16},
        {.kind = KIND_GPTQ_V2, .bits = 4, .group = 32},
        {.kind = KIND_GPTQ_V2, .bits = 4, .group = 96, .has_zeros = true},
        {.kind = KIND_AWQ, .bits = 4, .group = 64, .has_zeros = true},
        {.kind = KIND_AWQ, .bits = 4, .group = 32},
        {.kind = KIND_AWQ, .bits = 4},
        {.kind = KIND_PACKED, .bits = 4, .group = 32},
        {.kind = KIND_PACKED, .bits = 4, .group = 64, .has_zeros = true},
        {.kind = KIND_PACKED, .bits = 4, .group = 128}, // 2 groups, not of 96
        {.kind = KIND_PACKED, .bits = 4, .group = 32, .is_bf16 = true},
        {.kind = KIND_PACKED, .bits = 4, .group = 32, .has_order = true, .is_bf16 = true},
        {.kind = KIND_PACKED, .bits = 8},
        {.kind = KIND_PACKED, .bits = 8, .group = 32, .has_zeros = true},
        {.kind = KIND_BYTES, .bits = 8},
        {.kind = KIND_BYTES, .bits = 8, .is_bf16 = true},
        {.kind = KIND_BYTES, .bits = 8, .group = 128},
        {.kind = KIND_BYTES, .bits = 8, .group = 32, .has_order = true},
    };
    fill();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) check_way(&ways[i], ROWS, COLS);
}

// One more or less than what a format holds.
CASE(zero_points_choose_the_format) {
    static const struct integers_way ways[] = {
        {.kind = KIND_GPTQ, .bits = 4, .group = 64, .has_zeros = true, .zero = 7},
        {.kind = KIND_GPTQ, .bits = 4, .group = 64, .has_zeros = true, .zero = 8},
        {.kind = KIND_GPTQ, .bits = 4, .group = 64, .has_zeros = true, .zero = 9},
        {.kind = KIND_GPTQ, .bits = 4, .group = 64, .has_zeros = true, .zero = 15},
        {.kind = KIND_GPTQ, .bits = 8, .group = 64, .has_zeros = true, .zero = 127},
        {.kind = KIND_GPTQ, .bits = 8, .group = 64, .has_zeros = true, .zero = 128},
        {.kind = KIND_GPTQ, .bits = 8, .group = 64, .has_zeros = true, .zero = 129},
        {.kind = KIND_GPTQ, .bits = 2, .group = 64, .has_zeros = true, .zero = 3},
    };
    fill();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) check_way(&ways[i], ROWS, COLS);
}

// Rows of an odd length, and outputs that do not fill a word of zero points.
CASE(shapes_with_padding_are_read) {
    static const struct integers_way ways[] = {
        {.kind = KIND_PACKED, .bits = 4, .has_zeros = true},
        {.kind = KIND_PACKED, .bits = 8},
        {.kind = KIND_BYTES, .bits = 8},
    };
    fill();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        check_way(&ways[i], 37, 50);
        check_way(&ways[i], 13, 96);
    }
}

// More rows than are decoded at a time.
CASE(many_rows_are_read) {
    static const struct integers_way ways[] = {
        {.kind = KIND_GPTQ, .bits = 4, .group = 16, .has_zeros = true},
        {.kind = KIND_AWQ, .bits = 4, .has_zeros = true},
        {.kind = KIND_BYTES, .bits = 8},
    };
    fill();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) check_way(&ways[i], 240, 32);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) check_way(&ways[i], 480, 16);
}

// ---------------------------------------------------------------- experts and neighbours

#define MOE                                                                                        \
    ", 'num_local_experts': 2, 'num_experts': 2, 'num_experts_per_tok': 1, "                       \
    "'moe_intermediate_size': 40"

static void expert_add(struct fp8_image *image, int expert, const struct integers_matrix *m) {
    char stem[96];
    snprintf(stem, sizeof stem, "model.layers.0.mlp.experts.%d.up_proj", expert);
    integers_add(image, stem, m);
}

// Experts that would have other formats alone have one that has the values of both, exactly.
static void check_experts(const struct integers_way *a, const struct integers_way *b,
                          enum format_id format) {
    static struct fp8_image image;
    for (int order = 0; order < 2; order++) {
        struct integers_matrix m[2] = {
            integers_matrix_make(order ? b : a, ROWS, COLS, numbers),
            integers_matrix_make(order ? a : b, ROWS, COLS, numbers),
        };
        for (int e = 0; e < 2; e++) expert_add(&image, e, &m[e]);
        struct weights *weights = open_image(&image, a, "Qwen3MoeForCausalLM", MOE);
        const struct tensor_view *t = weights_tensor_find(weights, "blk.0.ffn_up_exps.weight");
        assert_true(t && t->parts && t->codes == CODES_INTEGERS && t->dim[2] == 2);
        check(t->format == format, "%s, expected %s", format_at(t->format)->name,
              format_at(format)->name);
        for (int e = 0; e < 2; e++)
            check_part(weights, t->parts[e], format, &m[e], 0, ELEMENTS / format_at(format)->block);
        for (int e = 0; e < 2; e++) integers_matrix_free(&m[e]);
        weights_close(weights);
    }
}

CASE(experts_of_one_tensor_agree_on_a_format) {
    const struct integers_way four = {.kind = KIND_GPTQ, .bits = 4, .group = 64};
    const struct integers_way five = {.kind = KIND_GPTQ, .bits = 4, .group = 64, .has_zeros = true};
    const struct integers_way eight = {.kind = KIND_GPTQ, .bits = 8, .group = 64};
    const struct integers_way half = {.kind = KIND_GPTQ, .bits = 4, .group = 64, .has_order = true};
    fill();
    check_experts(&four, &five, FORMAT_Q5_0);
    check_experts(&four, &eight, FORMAT_Q8_0);
    check_experts(&five, &eight, FORMAT_Q8_0);
    check_experts(&five, &half, FORMAT_F16);
}

static enum format_id format_opened(struct fp8_image *image, const struct integers_way *way) {
    struct weights *weights = open_image(image, way, "Qwen3ForCausalLM", "");
    const struct tensor_view *t = weights_tensor_find(weights, TENSOR);
    assert_non_null(t);
    const enum format_id format = t->format;
    weights_close(weights);
    return format;
}

// One scale that F16 cannot hold is enough. Of zeros it holds both, and numbers below its normal
// ones.
CASE(scales_that_blocks_cannot_hold_give_numbers) {
    static struct fp8_image image;
    const struct integers_way way = {.kind = KIND_PACKED, .bits = 4, .group = 64, .is_bf16 = true};
    static const struct {
        float scale;
        enum format_id format;
    } cases[] = {
        {0, FORMAT_Q4_0},     {-0.0f, FORMAT_Q4_0},    {0x1p-24f, FORMAT_Q4_0},
        {-1, FORMAT_Q4_0},    {0x1p-25f, FORMAT_BF16}, {0x1.02p-18f, FORMAT_BF16},
        {65536, FORMAT_BF16}, {-1e9f, FORMAT_BF16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        image_make(&image, &way);
        uint16_t *scale = entry_data(&image, ".weight_scale", NULL);
        scale[ROWS] = f32_to_bf16(cases[i].scale);
        const enum format_id format = format_opened(&image, &way);
        check(format == cases[i].format, "%g: %s", (double)cases[i].scale, format_at(format)->name);
    }
}

// The last of all zero points is enough, in whole words and behind them.
CASE(one_zero_point_chooses_the_format) {
    static struct fp8_image image;
    static const struct integers_way ways[] = {
        {.kind = KIND_GPTQ, .bits = 4, .group = 64},
        {.kind = KIND_PACKED, .bits = 4, .group = 64, .has_zeros = true, .zero = 8},
    };
    fill();
    for (int i = 0; i < 4; i++) {
        const int rows = i < 2 ? ROWS : 37;
        const struct integers_way *way = &ways[i % 2];
        struct integers_matrix m = integers_matrix_make(way, rows, COLS, numbers);
        m.zero[rows * m.n_group - 1] = 9;
        integers_add(&image, STEM, &m);
        assert_int_equal(format_opened(&image, way), FORMAT_Q5_0);
        integers_matrix_free(&m);
    }
}

// Of a matrix one number, in any of the formats; rows and columns in another integer.
CASE(other_shapes_of_scales_are_read) {
    static struct fp8_image image;
    const struct integers_way way = {.kind = KIND_BYTES, .bits = 8};
    static const struct {
        const char *shape;
        float scale;
        enum format_id format;
    } cases[] = {{"1", 0.5f, FORMAT_Q8_0}, {"1,1", 0.25f, FORMAT_Q8_0}, {"1", 0.1f, FORMAT_BF16}};
    fill();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct integers_matrix m = integers_matrix_make(&way, ROWS, COLS, numbers);
        struct fp8_entry *entry;
        for (int r = 0; r < ROWS; r++) m.scale[r] = cases[i].scale;
        integers_add(&image, STEM, &m);
        memcpy(entry_data(&image, ".weight_scale", &entry), &cases[i].scale, sizeof(float));
        snprintf(entry->dtype, sizeof entry->dtype, "F32");
        snprintf(entry->shape, sizeof entry->shape, "%s", cases[i].shape);
        entry->bytes = sizeof(float);
        struct weights *weights = open_image(&image, &way, "Qwen3ForCausalLM", "");
        const struct tensor_view *t = weights_tensor_find(weights, TENSOR);
        assert_true(t && t->format == cases[i].format);
        check_part(weights, t->data, t->format, &m, 0, ELEMENTS / format_at(t->format)->block);
        weights_close(weights);
        integers_matrix_free(&m);
    }
    const int32_t dims[] = {ROWS, COLS};
    struct fp8_entry *entry;
    image_make(&image, &packed_way);
    memcpy(entry_data(&image, ".weight_shape", &entry), dims, sizeof dims);
    snprintf(entry->dtype, sizeof entry->dtype, "I32");
    entry->bytes = sizeof dims;
    assert_int_equal(format_opened(&image, &packed_way), FORMAT_Q5_0);
}

// Groups that a tensor gives in order are runs; so are those of a tensor of compressed-tensors that
// has -1.
CASE(groups_in_order_are_runs) {
    static struct fp8_image image;
    image_make(&image, &gptq_way);
    int32_t *group = entry_data(&image, ".g_idx", NULL);
    group[COLS - 1]--;
    assert_int_equal(format_opened(&image, &gptq_way), FORMAT_F16);
    const struct integers_way packed = {.kind = KIND_PACKED,
                                        .bits = 4,
                                        .group = 64,
                                        .has_order = true};
    image_make(&image, &packed);
    group = entry_data(&image, ".weight_g_idx", NULL);
    group[COLS - 1] = -1;
    assert_int_equal(format_opened(&image, &packed), FORMAT_Q4_0);
    image_make(&image, &gptq_way);
    struct fp8_entry *entry;
    entry_data(&image, ".g_idx", &entry);
    snprintf(entry->name, sizeof entry->name, "model.rotary_emb.inv_freq");
    assert_int_equal(format_opened(&image, &gptq_way), FORMAT_Q4_0);
}

// A bias of zeros comes with every matrix of some programs. Others are the model's.
CASE(a_bias_of_zeros_is_none) {
    static struct fp8_image image;
    for (int i = 0; i < 2; i++) {
        uint16_t bias[ROWS] = {0};
        bias[ROWS - 1] = (uint16_t)i;
        image_make(&image, &gptq_way);
        fp8_entry_add(&image, STEM, ".bias", "F16", "40", bias, sizeof bias);
        struct weights *weights = open_image(&image, &gptq_way, "Qwen2ForCausalLM", "");
        assert_int_equal(weights_tensor_count(weights), 1 + i);
        weights_close(weights);
    }
}

static void hash_of(const struct data_folder *folder, const struct integers_way *told, int change,
                    uint8_t out[WEIGHTS_HASH]) {
    static const struct integers_way first = {.kind = KIND_GPTQ,
                                              .bits = 4,
                                              .group = 64,
                                              .has_zeros = true};
    static struct fp8_image image;
    rn_error err = {0};
    config_of(folder, told, "Qwen3ForCausalLM", "");
    image_make(&image, &first);
    ((uint8_t *)entry_data(&image, ".scales", NULL))[0] ^= (uint8_t)change;
    fp8_image_write(&image, folder);
    struct weights *weights = folder_open(folder);
    check(weights_hash(weights, NULL, out, &err) == RN_OK, "%s", err.message);
    weights_close(weights);
}

// The files are the same for both methods: the config says what a zero point is.
CASE(scales_and_the_method_are_part_of_the_identity) {
    uint8_t a[WEIGHTS_HASH], b[WEIGHTS_HASH], c[WEIGHTS_HASH], again[WEIGHTS_HASH];
    const struct integers_way first = {.kind = KIND_GPTQ, .bits = 4, .group = 64};
    const struct integers_way second = {.kind = KIND_GPTQ_V2, .bits = 4, .group = 64};
    const struct data_folder folder = data_folder_make();
    hash_of(&folder, &first, 0, a);
    hash_of(&folder, &first, 0, again);
    hash_of(&folder, &first, 1, b);
    hash_of(&folder, &second, 0, c);
    assert_memory_equal(a, again, sizeof a);
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    data_folder_remove(&folder);
}

static void identity_of(const struct data_folder *folder, const struct integers_way *told,
                        uint8_t hash[WEIGHTS_HASH], uint8_t stamp[WEIGHTS_STAMP]) {
    config_of(folder, told, "Qwen3ForCausalLM", "");
    struct weights *weights = folder_open(folder);
    assert_int_equal(weights_hash(weights, NULL, hash, NULL), RN_OK);
    weights->files[0].stamp.is_settled = true; // it is too young by itself
    assert_true(weights_stamp(weights, stamp));
    weights_close(weights);
}

// The same file again: 2 groups of 192 inputs are of 96 or of 128.
CASE(the_config_alone_is_part_of_the_identity) {
    static struct fp8_image image;
    uint8_t hash[3][WEIGHTS_HASH], stamp[3][WEIGHTS_STAMP];
    struct integers_way way = {.kind = KIND_PACKED, .bits = 4, .group = 96};
    const struct data_folder folder = data_folder_make();
    image_make(&image, &way);
    fp8_image_write(&image, &folder);
    for (int i = 0; i < 3; i++) {
        way.group = i == 2 ? 128 : 96;
        identity_of(&folder, &way, hash[i], stamp[i]);
    }
    assert_memory_equal(hash[0], hash[1], WEIGHTS_HASH);
    assert_memory_equal(stamp[0], stamp[1], WEIGHTS_STAMP);
    assert_memory_not_equal(hash[0], hash[2], WEIGHTS_HASH);
    assert_memory_not_equal(stamp[0], stamp[2], WEIGHTS_STAMP);
    data_folder_remove(&folder);
}

// Zero points as bytes with a sign: beside packed codes, and beside codes of this kind.
CASE(zero_points_with_a_sign_are_read) {
    static struct fp8_image image;
    const struct integers_way ways[] = {
        {.kind = KIND_PACKED, .bits = 4, .group = 64},
        {.kind = KIND_BYTES, .bits = 8, .group = 64},
    };
    fill();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct integers_way told = ways[i];
        told.has_zeros = true;
        struct integers_matrix m = integers_matrix_make(&told, ROWS, COLS, numbers);
        int8_t zero[ROWS * 3];
        for (int k = 0; k < ROWS * 3; k++) zero[k] = (int8_t)(m.zero[k] - (1 << (told.bits - 1)));
        m.way = ways[i];
        integers_add(&image, STEM, &m);
        fp8_entry_add(&image, STEM, ".weight_zero_point", "I8", "40,3", zero, sizeof zero);
        struct weights *weights = open_image(&image, &ways[i], "Qwen3ForCausalLM", "");
        const struct tensor_view *t = weights_tensor_find(weights, TENSOR);
        const enum format_id format = format_of(&m);
        assert_true(t && t->format == format);
        check_part(weights, t->data, format, &m, 0, ELEMENTS / format_at(format)->block);
        weights_close(weights);
        integers_matrix_free(&m);
    }
}

// 8-bit floats and integers side by side.
CASE(codes_of_two_kinds_are_in_one_folder) {
    static struct fp8_image image;
    static uint8_t floats[ELEMENTS];
    static uint16_t got[ELEMENTS];
    const float one = 1;
    const void *at;
    const struct data_folder folder = data_folder_make();
    config_write(&folder, "Qwen3ForCausalLM",
                 ", 'quantization_config': {'quant_method': 'compressed-tensors', 'format': "
                 "'mixed-precision'}");
    fill();
    struct integers_matrix m = integers_matrix_make(&packed_way, ROWS, COLS, numbers);
    for (int i = 0; i < ELEMENTS; i++) floats[i] = (uint8_t)(i % 127);
    integers_add(&image, "model.layers.0.self_attn.k_proj", &m);
    fp8_entry_add(&image, STEM, ".weight", "F8_E4M3", "40,192", floats, sizeof floats);
    fp8_entry_add(&image, STEM, ".weight_scale", "F32", "1", &one, sizeof one);
    fp8_entry_add(&image, STEM, ".input_zero_point", "I8", "1", &one, 1);
    integers_add(&image, "model.layers.0.self_attn.v_proj", &m);
    fp8_image_write(&image, &folder);
    struct weights *weights = folder_open(&folder);
    assert_int_equal(weights_tensor_count(weights), 3);
    static const char *const names[] = {"blk.0.attn_k.weight", "blk.0.attn_v.weight"};
    for (int i = 0; i < 2; i++) {
        const struct tensor_view *t = weights_tensor_find(weights, names[i]);
        assert_true(t && t->format == FORMAT_Q5_0);
        check_part(weights, t->data, FORMAT_Q5_0, &m, 0, ELEMENTS / 32);
    }
    const struct tensor_view *t = weights_tensor_find(weights, TENSOR);
    assert_true(t && t->codes == CODES_FP8);
    assert_int_equal(weights_read(weights, t->data, t->bytes, got, &at, NULL), RN_OK);
    for (int i = 0; i < ELEMENTS; i++)
        assert_int_equal(got[i], f32_to_bf16(fp8_value_of(floats[i])));
    integers_matrix_free(&m);
    weights_close(weights);
    data_folder_remove(&folder);
}

// AutoRound's names for two of the layouts.
CASE(layouts_of_another_program_are_read) {
    static const struct {
        struct integers_way way;
        const char *format;
    } cases[] = {
        {{.kind = KIND_GPTQ, .bits = 4, .group = 64}, "auto_round:auto_gptq"},
        {{.kind = KIND_AWQ, .bits = 4, .group = 64}, "auto_round:auto_awq"},
    };
    static struct fp8_image image;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct data_folder folder = data_folder_make();
        char text[256];
        snprintf(text, sizeof text,
                 ", 'quantization_config': {'quant_method': 'auto-round', 'bits': 4, "
                 "'packing_format': '%s'}",
                 cases[i].format);
        config_write(&folder, "Qwen3ForCausalLM", text);
        image_make(&image, &cases[i].way);
        fp8_image_write(&image, &folder);
        struct weights *weights = folder_open(&folder);
        const struct tensor_view *t = weights_tensor_find(weights, TENSOR);
        assert_true(t && t->format == FORMAT_Q4_0);
        weights_close(weights);
        data_folder_remove(&folder);
    }
}

TEST_PROGRAM(integers) { return cases_run(NULL, NULL); }
