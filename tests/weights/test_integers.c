// Matrices of packed integers: every layout gives the blocks or numbers that its codes, zero points
// and scales stand for, in any part; experts of one tensor agree on a format; folders that do not
// fit are refused.
// label: memory
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "integers_folder.h"
#include "weights/store.h"

enum { ROWS = 40, COLS = 192, ELEMENTS = ROWS * COLS, ROOM = 4 * ELEMENTS };

#define STEM   "model.layers.0.self_attn.q_proj"
#define TENSOR "blk.0.attn_q.weight"

static float numbers[ELEMENTS];

static void fill(void) {
    srand(5);
    for (int i = 0; i < ELEMENTS; i++) numbers[i] = (float)(rand() % 2001 - 1000) / 1000;
}

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

static void config_of(const struct data_folder *folder, const struct integers_way *way,
                      const char *class_name, const char *more) {
    char quant[256], text[512];
    integers_config(way, quant, sizeof quant);
    snprintf(text, sizeof text, ", 'quantization_config': %s%s", quant, more);
    config_write(folder, class_name, text);
}

static struct weights *open_image(struct fp8_image *image, const struct integers_way *way,
                                  const char *class_name, const char *more) {
    const struct data_folder folder = data_folder_make();
    config_of(&folder, way, class_name, more);
    fp8_image_write(image, &folder);
    struct weights *weights = folder_open(&folder);
    data_folder_remove(&folder);
    return weights;
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

static void *entry_data(struct fp8_image *image, const char *end, struct fp8_entry **out) {
    for (int i = 0; i < image->n; i++) {
        struct fp8_entry *e = &image->entry[i];
        const size_t len = strlen(e->name), tail = strlen(end);
        if (len < tail || strcmp(e->name + len - tail, end) != 0) continue;
        if (out) *out = e;
        return e->data;
    }
    check(false, "%s is in no image", end);
    return NULL;
}

static const struct integers_way gptq_way = {.kind = KIND_GPTQ, .bits = 4, .group = 64};
static const struct integers_way packed_way = {.kind = KIND_PACKED,
                                               .bits = 4,
                                               .group = 64,
                                               .has_zeros = true};

static void image_make(struct fp8_image *image, const struct integers_way *way) {
    fill();
    struct integers_matrix m = integers_matrix_make(way, ROWS, COLS, numbers);
    integers_add(image, STEM, &m);
    integers_matrix_free(&m);
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

// ---------------------------------------------------------------- faults

struct fault {
    const struct integers_way *way;
    const char *end;           // of the entry's name
    const char *dtype, *shape; // that it has instead; NULL: its own. Both NULL: it is not there
    rn_status status;
    const char *message;
};

static void check_fault(const struct fault *fault) {
    static struct fp8_image image;
    struct fp8_entry *entry;
    const struct data_folder folder = data_folder_make();
    config_of(&folder, fault->way, "Qwen3ForCausalLM", "");
    image_make(&image, fault->way);
    entry_data(&image, fault->end, &entry);
    if (fault->dtype) snprintf(entry->dtype, sizeof entry->dtype, "%s", fault->dtype);
    if (fault->shape) snprintf(entry->shape, sizeof entry->shape, "%s", fault->shape);
    if (fault->shape && strncmp(fault->shape, "0,", 2) == 0) entry->bytes = 0;
    if (!fault->dtype && !fault->shape)
        snprintf(entry->name, sizeof entry->name, "model.rotary_emb.inv_freq");
    fp8_image_write(&image, &folder);
    folder_refused(&folder, fault->status, fault->message);
    data_folder_remove(&folder);
}

CASE(parts_that_do_not_fit_are_refused_by_name) {
    static const struct integers_way order = {.kind = KIND_GPTQ,
                                              .bits = 4,
                                              .group = 64,
                                              .has_order = true};
    static const struct integers_way awq = {.kind = KIND_AWQ, .bits = 4, .group = 64};
    static const struct integers_way bytes = {.kind = KIND_BYTES, .bits = 8};
    static const struct fault faults[] = {
        {&gptq_way, ".scales", NULL, NULL, RN_ERR_MODEL, "qweight: its scales are missing"},
        {&gptq_way, ".qzeros", NULL, NULL, RN_ERR_MODEL, "qweight: its zero points are missing"},
        {&awq, ".qzeros", NULL, NULL, RN_ERR_MODEL, "qweight: its zero points are missing"},
        {&order, ".g_idx", NULL, NULL, RN_ERR_MODEL, "qweight: its g_idx is missing"},
        {&packed_way, ".weight_shape", NULL, NULL, RN_ERR_MODEL, "its shape is missing"},
        {&packed_way, ".weight_scale", NULL, NULL, RN_ERR_MODEL, "its scales are missing"},
        {&bytes, ".weight_scale", NULL, NULL, RN_ERR_MODEL, "its scales are missing"},
        {&gptq_way, ".scales", "I16", NULL, RN_ERR_UNSUPPORTED, "scales: scales are expected in"},
        {&gptq_way, ".scales", NULL, "120", RN_ERR_UNSUPPORTED, "neither 2, 4 nor 8 bits"},
        {&gptq_way, ".scales", NULL, "3,40,1", RN_ERR_MODEL, "scales are expected to be a matrix"},
        {&gptq_way, ".scales", NULL, "1,120", RN_ERR_UNSUPPORTED, "neither 2, 4 nor 8 bits"},
        {&gptq_way, ".scales", NULL, "40,3", RN_ERR_UNSUPPORTED, "neither 2, 4 nor 8 bits"},
        {&gptq_way, ".scales", NULL, "5,24", RN_ERR_UNSUPPORTED, "neither 2, 4 nor 8 bits"},
        {&gptq_way, ".qzeros", NULL, "5,3", RN_ERR_MODEL, "shape [5, 3] of 2"},
        {&gptq_way, ".qzeros", NULL, "15", RN_ERR_UNSUPPORTED, "neither 2, 4 nor 8 bits"},
        {&gptq_way, ".qzeros", "F32", NULL, RN_ERR_UNSUPPORTED, "packed integers are expected in"},
        {&gptq_way, ".qzeros", NULL, "0,9223372036854775807", RN_ERR_UNSUPPORTED,
         "9223372036854775807 words for 40 outputs"},
        {&gptq_way, ".qzeros", NULL, "0,5", RN_ERR_MODEL, "shape [0, 5] of 2 dimensions"},
        {&gptq_way, ".qweight", NULL, "40,24", RN_ERR_MODEL, "shape [40, 24] of 2 dimensions"},
        {&gptq_way, ".qweight", NULL, "960", RN_ERR_MODEL, "qweight: shape"},
        {&gptq_way, ".qweight", NULL, "24,40,1", RN_ERR_MODEL, "qweight: shape"},
        {&gptq_way, ".qweight", "U32", NULL, RN_ERR_UNSUPPORTED, "qweight: packed integers are"},
        {&gptq_way, ".g_idx", NULL, "192,1", RN_ERR_MODEL, "a group in I32 is expected for each"},
        {&gptq_way, ".g_idx", "F32", NULL, RN_ERR_MODEL, "a group in I32 is expected for each"},
        {&awq, ".qweight", NULL, "96,10", RN_ERR_MODEL, "qweight: shape [96, 10]"},
        {&awq, ".scales", NULL, "30,4", RN_ERR_MODEL, "outputs are expected in words of 8"},
        {&awq, ".qzeros", NULL, "5,3", RN_ERR_MODEL, "qzeros: shape [5, 3]"},
        {&packed_way, ".weight_shape", NULL, "2,1", RN_ERR_MODEL, "two numbers are expected"},
        {&packed_way, ".weight_shape", "F64", NULL, RN_ERR_UNSUPPORTED, "expected in I64 or I32"},
        {&packed_way, ".weight_scale", NULL, "3,40", RN_ERR_MODEL, "weight_scale: shape [3, 40]"},
        {&packed_way, ".weight_scale", NULL, "40,3,1", RN_ERR_MODEL, "expected to be a matrix"},
        {&packed_way, ".weight_scale", NULL, "120", RN_ERR_MODEL, "weight_scale: shape"},
        {&packed_way, ".weight_packed", NULL, "20,48", RN_ERR_MODEL, "does not fit the 20 rows"},
        {&packed_way, ".weight_packed", "F32", NULL, RN_ERR_UNSUPPORTED, "expected in I32"},
        {&packed_way, ".weight_zero_point", NULL, "3,5", RN_ERR_MODEL, "zero_point: shape [3, 5]"},
        {&bytes, ".weight_scale", NULL, "1,40", RN_ERR_MODEL, "weight_scale: shape [1, 40]"},
        {&bytes, ".weight", NULL, "7680", RN_ERR_UNSUPPORTED, "I8 is supported for matrices"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) check_fault(&faults[i]);
}

static void refused_as(struct fp8_image *image, const struct integers_way *way, rn_status status,
                       const char *message) {
    const struct data_folder folder = data_folder_make();
    config_of(&folder, way, "Qwen3ForCausalLM", "");
    fp8_image_write(image, &folder);
    folder_refused(&folder, status, message);
    data_folder_remove(&folder);
}

static void refused(struct fp8_image *image, const struct integers_way *way, const char *message) {
    refused_as(image, way, RN_ERR_MODEL, message);
}

CASE(numbers_that_cannot_be_are_refused) {
    static struct fp8_image image;
    struct fp8_entry *entry;
    image_make(&image, &gptq_way);
    ((uint16_t *)entry_data(&image, ".scales", NULL))[7] = 0x7e00;
    refused(&image, &gptq_way, "q_proj.scales: scale 7 is nan");
    image_make(&image, &gptq_way);
    ((uint16_t *)entry_data(&image, ".scales", NULL))[119] = 0xfc00;
    refused(&image, &gptq_way, "q_proj.scales: scale 119 is -inf");
    const struct integers_way many = {.kind = KIND_GPTQ, .bits = 4, .group = 16};
    image_make(&image, &many);
    ((uint16_t *)entry_data(&image, ".scales", NULL))[479] = 0x7c00;
    refused(&image, &many, "q_proj.scales: scale 479 is inf");
    image_make(&image, &gptq_way);
    ((int32_t *)entry_data(&image, ".g_idx", NULL))[9] = 3;
    refused(&image, &gptq_way, "g_idx: input 9 is of group 3, there are 3");
    image_make(&image, &gptq_way);
    ((int32_t *)entry_data(&image, ".g_idx", NULL))[9] = -2;
    refused(&image, &gptq_way, "g_idx: input 9 is of group -2");
    image_make(&image, &gptq_way);
    ((int32_t *)entry_data(&image, ".g_idx", NULL))[COLS - 1] = -1;
    refused(&image, &gptq_way, "g_idx: input 191 is of group -1");
    for (int i = 0; i < 2; i++) {
        image_make(&image, &packed_way);
        ((int64_t *)entry_data(&image, ".weight_shape", NULL))[i] = i ? -1 : INT64_MAX;
        refused(&image, &packed_way, "weight_shape: [");
    }
    image_make(&image, &packed_way);
    ((int64_t *)entry_data(&image, ".weight_shape", NULL))[1] = 1 << 30;
    refused(&image, &packed_way, "weight_packed: shape");
    image_make(&image, &gptq_way); // 3 groups of what?
    entry_data(&image, ".qweight", &entry);
    snprintf(entry->shape, sizeof entry->shape, "23,40");
    entry->bytes = (size_t)23 * 40 * 4;
    refused(&image, &gptq_way, "a group in I32 is expected for each");
    image_make(&image, &gptq_way);
    entry_data(&image, ".qweight", &entry);
    snprintf(entry->shape, sizeof entry->shape, "7,40");
    entry->bytes = (size_t)7 * 40 * 4;
    refused(&image, &gptq_way, "3 groups do not fit 56 inputs and group_size 64");
    for (int i = 0; i < 2; i++) { // AWQ has no order
        const struct integers_way awq = {.kind = KIND_AWQ, .bits = 4, .group = 64};
        const int32_t group[COLS] = {0};
        image_make(&image, &awq);
        fp8_entry_add(&image, STEM, i ? ".g_idx" : "", "I32", "192", group, sizeof group);
        refused_as(&image, &awq, RN_ERR_UNSUPPORTED, "no tensor of this name is known");
    }
    image_make(&image, &gptq_way);
    fp8_entry_add(&image, STEM, ".weight", "F32", "40,192", numbers, sizeof numbers);
    refused(&image, &gptq_way, "qweight: its NAME.weight is there too");
}

static struct data_folder folder_of(const char *quant, struct fp8_image *image) {
    const struct data_folder folder = data_folder_make();
    char text[512];
    snprintf(text, sizeof text, ", 'quantization_config': {%s}", quant);
    config_write(&folder, "Qwen3ForCausalLM", text);
    fp8_image_write(image, &folder);
    return folder;
}

static struct data_folder told_folder(const char *quant, const struct integers_way *way) {
    static struct fp8_image image;
    image_make(&image, way);
    return folder_of(quant, &image);
}

static void told_fault(const char *quant, const struct integers_way *way, rn_status status,
                       const char *message) {
    const struct data_folder folder = told_folder(quant, way);
    folder_refused(&folder, status, message);
    data_folder_remove(&folder);
}

static void config_fault(const char *quant, rn_status status, const char *message) {
    told_fault(quant, &gptq_way, status, message);
}

#define SCHEME(name, bits, group)                                                                  \
    "'" name "': {'weights': {'num_bits': " bits ", 'group_size': " group "}}"
#define SCHEMES(list)                                                                              \
    "'quant_method': 'compressed-tensors', 'format': 'pack-quantized', 'config_groups': {" list "}"

// The config's groups and bits are believed where the shapes can be those of others.
CASE(sizes_that_the_config_denies_are_refused) {
    const struct integers_way short_last = {.kind = KIND_GPTQ, .bits = 4, .group = 128};
    struct integers_way packed = packed_way;
    told_fault("'quant_method': 'awq'",
               &(struct integers_way){.kind = KIND_AWQ, .bits = 4, .group = 128}, RN_ERR_MODEL,
               "2 groups do not fit 192 inputs and group_size 0");
    told_fault("'quant_method': 'gptq', 'group_size': 32", &short_last, RN_ERR_MODEL,
               "2 groups do not fit 192 inputs and group_size 32");
    told_fault(SCHEMES(SCHEME("a", "4", "32")), &packed, RN_ERR_MODEL,
               "3 groups do not fit 192 inputs and group_size 32");
    told_fault(SCHEMES(SCHEME("a", "4", "0")), &packed, RN_ERR_MODEL, "group_size is 0");
    told_fault(SCHEMES(SCHEME("a", "8", "64")), &packed, RN_ERR_MODEL, "expected [40, 48]");
    packed.group = 128;
    told_fault(SCHEMES(SCHEME("a", "4", "128") ", " SCHEME("b", "8", "64")), &packed, RN_ERR_MODEL,
               "2 groups do not fit 192 inputs and group_size 0");
    static const char *const fine[] = {
        SCHEMES(SCHEME("a", "4", "128") ", " SCHEME("b", "4", "-1")),
        SCHEMES(SCHEME("a", "8", "null") ", " SCHEME("b", "4", "128")),
        SCHEMES(SCHEME("a", "4", "128") ", 'b': {'weights': {'type': 'float', 'group_size': 16}}"),
    };
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        const struct data_folder folder = told_folder(fine[i], &packed);
        weights_close(folder_open(&folder));
        data_folder_remove(&folder);
    }
}

CASE(methods_that_are_not_known_are_refused_by_name) {
    static const struct {
        const char *quant, *message;
    } cases[] = {
        {"'quant_method': 'gptq', 'bits': 3", "gptq with bits 3"},
        {"'quant_method': 'gptq', 'bits': 32", "gptq with bits 32"},
        {"'quant_method': 'gptq', 'checkpoint_format': 'marlin'", "checkpoint_format marlin"},
        {"'quant_method': 'gptq', 'is_marlin_format': true", "is_marlin_format true"},
        {"'quant_method': 'awq', 'version': 'gemv'", "awq with version gemv"},
        {"'quant_method': 'awq', 'checkpoint_format': 'gemv_fast'", "checkpoint_format gemv_fast"},
        {"'quant_method': 'awq', 'bits': 8", "awq with bits 8"},
        {"'quant_method': 'auto-round', 'packing_format': 'auto_round:llm_compressor'",
         "auto-round with packing_format auto_round:llm_compressor"},
        {"'quant_method': 'bitsandbytes'", "quant_method bitsandbytes is not"},
        {"'quant_method': 'compressed-tensors'", "compressed-tensors with format (none)"},
        {"'quant_method': 'compressed-tensors', 'format': 'marlin-24'", "format marlin-24"},
        {"'quant_method': 'compressed-tensors', 'format': 'pack-quantized', 'config_groups': {'a': "
         "{'weights': null}, 'b': {'weights': {'type': 'int', 'num_bits': 7}}}",
         "num_bits 7"},
        {"'quant_method': 'compressed-tensors', 'format': 'pack-quantized', 'config_groups': {'a': "
         "{'weights': {'num_bits': 2}}}",
         "num_bits 2"},
        {"'quant_method': 'compressed-tensors', 'format': 'pack-quantized', 'transform_config': "
         "{'config_groups': {}}",
         "transform_config of rotations"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        config_fault(cases[i].quant, RN_ERR_UNSUPPORTED, cases[i].message);
    config_fault("'quant_method': 'gptq', 'group_size': 0", RN_ERR_MODEL, "group_size is 0");
    config_fault("'quant_method': 'gptq', 'group_size': -2", RN_ERR_MODEL, "group_size is -2");
    config_fault("'quant_method': 'gptq', 'group_size': 99999999999", RN_ERR_MODEL,
                 "group_size is 99999999999");
    // of another method the tensors are unknown
    config_fault("'quant_method': 'compressed-tensors', 'format': 'pack-quantized'",
                 RN_ERR_UNSUPPORTED, "no tensor of this name is known");
}

// The inputs of one group need no groups, whatever the config says.
CASE(groups_in_an_order_of_their_own_are_needed) {
    static struct fp8_image image;
    for (int i = 0; i < 2; i++) {
        const struct integers_way way = {.kind = KIND_GPTQ, .bits = 4, .group = i ? 0 : 64};
        struct fp8_entry *entry;
        image_make(&image, &way);
        entry_data(&image, ".g_idx", &entry);
        snprintf(entry->name, sizeof entry->name, "model.rotary_emb.inv_freq");
        const struct data_folder folder =
            folder_of("'quant_method': 'gptq', 'desc_act': true", &image);
        if (i == 0)
            folder_refused(&folder, RN_ERR_MODEL, "qweight: its g_idx is missing");
        else
            weights_close(folder_open(&folder));
        data_folder_remove(&folder);
    }
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

// A file that was cut since it was opened is an error, wherever it ends.
CASE(a_cut_file_is_an_error) {
    static struct fp8_image image;
    static uint8_t room[ROOM];
    const struct integers_way all[] = {gptq_way, packed_way};
    for (int i = 0; i < 2; i++) {
        const struct data_folder folder = data_folder_make();
        char path[DATA_PATH_BYTES];
        const void *at;
        config_of(&folder, &all[i], "Qwen3ForCausalLM", "");
        image_make(&image, &all[i]);
        fp8_image_write(&image, &folder);
        struct weights *weights = folder_open(&folder);
        const struct tensor_view *t = weights_tensor_find(weights, TENSOR);
        snprintf(path, sizeof path, "%s/model.safetensors", folder.path);
        assert_int_equal(truncate(path, 64), 0);
        assert_int_equal(weights_read(weights, t->data, t->bytes, room, &at, NULL), RN_ERR_IO);
        weights_close(weights);
        data_folder_remove(&folder);
    }
}

// The same of scales and of zero points, which may be in files of their own.
CASE(a_cut_file_of_another_part_is_an_error) {
    static struct fp8_image image, other;
    static uint8_t room[ROOM];
    static const char *const ends[] = {".scales", ".qzeros"};
    for (int i = 0; i < 2; i++) {
        const struct data_folder folder = data_folder_make();
        char from[DATA_PATH_BYTES], path[DATA_PATH_BYTES], map[1024] = "";
        struct fp8_entry *entry;
        const void *at;
        config_of(&folder, &gptq_way, "Qwen3ForCausalLM", "");
        image_make(&image, &gptq_way);
        for (int k = 0; k < image.n; k++)
            snprintf(map + strlen(map), sizeof map - strlen(map), "%s'%s': '%s.safetensors'",
                     k ? ", " : "", image.entry[k].name,
                     strstr(image.entry[k].name, ends[i]) ? "other" : "most");
        entry_data(&image, ends[i], &entry);
        other.entry[other.n++] = *entry;
        *entry = image.entry[--image.n];
        fp8_image_write(&image, &folder);
        snprintf(from, sizeof from, "%s/model.safetensors", folder.path);
        snprintf(path, sizeof path, "%s/most.safetensors", folder.path);
        assert_int_equal(rename(from, path), 0);
        fp8_image_write(&other, &folder);
        snprintf(path, sizeof path, "%s/other.safetensors", folder.path);
        assert_int_equal(rename(from, path), 0);
        char index[1200];
        snprintf(index, sizeof index, "{'weight_map': {%s}}", map);
        folder_text(&folder, "model.safetensors.index.json", index);
        struct weights *weights = folder_open(&folder);
        const struct tensor_view *t = weights_tensor_find(weights, TENSOR);
        assert_int_equal(weights_read(weights, t->data, t->bytes, room, &at, NULL), RN_OK);
        assert_int_equal(truncate(path, 64), 0);
        assert_int_equal(weights_read(weights, t->data, t->bytes, room, &at, NULL), RN_ERR_IO);
        weights_close(weights);
        data_folder_remove(&folder);
    }
}

TEST_PROGRAM(integers) { return cases_run(NULL, NULL); }
