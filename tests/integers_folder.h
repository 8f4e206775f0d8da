// Folders of packed integers for tests: the matrices of a reference model as GPTQ, AWQ and
// compressed-tensors write them, and as the numbers that they stand for.
#ifndef RN_TESTS_INTEGERS_FOLDER_H
#define RN_TESTS_INTEGERS_FOLDER_H

#include "fp8_folder.h"

enum integers_kind { KIND_GPTQ, KIND_GPTQ_V2, KIND_AWQ, KIND_PACKED, KIND_BYTES };

struct integers_way {
    enum integers_kind kind;
    int bits, group; // group 0: a row
    bool has_zeros;  // zero points are not all in the middle
    int zero;        // they are all this one then; 0: they differ
    bool has_order;  // inputs belong to groups in another order
    bool is_bf16;    // scales in BF16, not F16
};

// A matrix on its way: codes [rows, cols], scales and zero points [rows, n_group].
struct integers_matrix {
    struct integers_way way;
    int rows, cols, n_group;
    uint8_t *code, *zero;
    float *scale;
    int32_t *group; // [cols]
};

static inline float integers_scale_round(const struct integers_way *way, float scale) {
    return way->is_bf16 ? bf16_to_f32(f32_to_bf16(scale)) : f16_to_f32(f32_to_f16(scale));
}

static inline float integers_value(const struct integers_matrix *m, int row, int col) {
    const int at = row * m->n_group + m->group[col];
    return (float)(m->code[row * m->cols + col] - m->zero[at]) * m->scale[at];
}

// The nearest codes of x [rows, cols].
static inline struct integers_matrix integers_matrix_make(const struct integers_way *way, int rows,
                                                          int cols, const float *x) {
    struct integers_matrix m = {.way = *way, .rows = rows, .cols = cols};
    const int most = (1 << way->bits) - 1, middle = (most + 1) / 2;
    m.n_group = way->group ? (cols + way->group - 1) / way->group : 1;
    m.code = calloc((size_t)(rows * cols), 1);
    m.zero = calloc((size_t)(rows * m.n_group), 1);
    m.scale = calloc((size_t)(rows * m.n_group), sizeof *m.scale);
    m.group = calloc((size_t)cols, sizeof *m.group);
    assert_true(m.code && m.zero && m.scale && m.group);
    for (int c = 0; c < cols; c++)
        m.group[c] = (way->has_order ? (c * 7 + 3) % cols : c) / (way->group ? way->group : cols);
    for (int i = 0; i < rows * cols; i++) {
        float *of = &m.scale[i / cols * m.n_group + m.group[i % cols]];
        *of = fmaxf(*of, fabsf(x[i]) / (float)(middle - 1));
    }
    for (int i = 0; i < rows * m.n_group; i++) {
        m.scale[i] = integers_scale_round(way, m.scale[i]);
        m.zero[i] = (uint8_t)(!way->has_zeros ? middle
                              : way->zero     ? way->zero
                                              : (i * 5 + 3) % (most + 1));
    }
    for (int i = 0; i < rows * cols; i++) {
        const int at = i / cols * m.n_group + m.group[i % cols];
        const float level = roundf(x[i] / m.scale[at]) + (float)m.zero[at];
        m.code[i] = (uint8_t)fminf(fmaxf(level, 0), (float)most);
    }
    return m;
}

static inline void integers_matrix_free(struct integers_matrix *m) {
    free(m->code);
    free(m->zero);
    free(m->scale);
    free(m->group);
}

// ---------------------------------------------------------------- packing

// Words of n rows of codes: `along` 0 packs rows together, 1 columns. mixed: AWQ's order.
static inline uint32_t *integers_pack(const uint8_t *code, int rows, int cols, int bits, int along,
                                      bool mixed, int *down, int *across) {
    static const int order[] = {0, 2, 4, 6, 1, 3, 5, 7};
    const int per = 32 / bits;
    *down = along ? rows : (rows + per - 1) / per;
    *across = along ? (cols + per - 1) / per : cols;
    uint32_t *words = calloc((size_t)(*down * *across), sizeof *words);
    assert_non_null(words);
    for (int w = 0; w < *down * *across; w++) {
        for (int i = 0; i < per; i++) {
            const int k = mixed ? order[i] : i;
            const int row = along ? w / *across : w / *across * per + k;
            const int col = along ? w % *across * per + k : w % *across;
            if (row < rows && col < cols)
                words[w] |= (uint32_t)code[row * cols + col] << (bits * i);
        }
    }
    return words;
}

static inline uint8_t *integers_transposed(const uint8_t *from, int rows, int cols) {
    uint8_t *out = calloc((size_t)(rows * cols), 1);
    assert_non_null(out);
    for (int i = 0; i < rows * cols; i++) out[i % cols * rows + i / cols] = from[i];
    return out;
}

// less: what is subtracted from each word.
static inline void integers_words_add(struct fp8_image *image, const char *stem, const char *end,
                                      const uint8_t *code, int rows, int cols, int bits, int along,
                                      bool mixed, uint32_t less) {
    int down, across;
    char shape[64];
    uint32_t *words = integers_pack(code, rows, cols, bits, along, mixed, &down, &across);
    snprintf(shape, sizeof shape, "%d,%d", down, across);
    for (int i = 0; i < down * across; i++) words[i] -= less;
    fp8_entry_add(image, stem, end, "I32", shape, words, (size_t)(down * across) * sizeof *words);
    free(words);
}

// by_group: [groups, rows].
static inline void integers_scales_add(struct fp8_image *image, const char *stem, const char *end,
                                       const struct integers_matrix *m, bool by_group) {
    const int n = m->rows * m->n_group;
    uint16_t *half = calloc((size_t)n, sizeof *half);
    char shape[64];
    assert_non_null(half);
    for (int i = 0; i < n; i++) {
        const int at = by_group ? i % m->n_group * m->rows + i / m->n_group : i;
        half[at] = m->way.is_bf16 ? f32_to_bf16(m->scale[i]) : f32_to_f16(m->scale[i]);
    }
    snprintf(shape, sizeof shape, "%d,%d", by_group ? m->n_group : m->rows,
             by_group ? m->rows : m->n_group);
    fp8_entry_add(image, stem, end, m->way.is_bf16 ? "BF16" : "F16", shape, half,
                  (size_t)n * sizeof *half);
    free(half);
}

static inline void integers_by_group_add(struct fp8_image *image, const char *stem,
                                         const struct integers_matrix *m) {
    const bool is_awq = m->way.kind == KIND_AWQ;
    uint8_t *code = integers_transposed(m->code, m->rows, m->cols);
    uint8_t *zero = integers_transposed(m->zero, m->rows, m->n_group);
    const uint32_t ones = UINT32_MAX / ((1U << m->way.bits) - 1); // 1 in each code
    char shape[64];
    integers_words_add(image, stem, ".qweight", code, m->cols, m->rows, m->way.bits, is_awq, is_awq,
                       0);
    integers_words_add(image, stem, ".qzeros", zero, m->n_group, m->rows, m->way.bits, 1, is_awq,
                       m->way.kind == KIND_GPTQ ? ones : 0);
    integers_scales_add(image, stem, ".scales", m, true);
    snprintf(shape, sizeof shape, "%d", m->cols);
    if (!is_awq)
        fp8_entry_add(image, stem, ".g_idx", "I32", shape, m->group,
                      (size_t)m->cols * sizeof *m->group);
    free(code);
    free(zero);
}

static inline void integers_by_row_add(struct fp8_image *image, const char *stem,
                                       const struct integers_matrix *m) {
    const int64_t dims[] = {m->rows, m->cols};
    char shape[64];
    integers_scales_add(image, stem, ".weight_scale", m, false);
    snprintf(shape, sizeof shape, "%d", m->cols);
    if (m->way.has_order)
        fp8_entry_add(image, stem, ".weight_g_idx", "I32", shape, m->group,
                      (size_t)m->cols * sizeof *m->group);
    if (m->way.kind == KIND_BYTES) {
        uint8_t *bytes = calloc((size_t)(m->rows * m->cols), 1);
        assert_non_null(bytes);
        for (int i = 0; i < m->rows * m->cols; i++) bytes[i] = (uint8_t)(m->code[i] - 128);
        snprintf(shape, sizeof shape, "%d,%d", m->rows, m->cols);
        fp8_entry_add(image, stem, ".weight", "I8", shape, bytes, (size_t)(m->rows * m->cols));
        free(bytes);
        return;
    }
    integers_words_add(image, stem, ".weight_packed", m->code, m->rows, m->cols, m->way.bits, 1,
                       false, 0);
    fp8_entry_add(image, stem, ".weight_shape", "I64", "2", dims, sizeof dims);
    if (m->way.has_zeros)
        integers_words_add(image, stem, ".weight_zero_point", m->zero, m->rows, m->n_group,
                           m->way.bits, 0, false, 0);
}

// The tensors of the matrix X.
static inline void integers_add(struct fp8_image *image, const char *stem,
                                const struct integers_matrix *m) {
    if (m->way.kind == KIND_PACKED || m->way.kind == KIND_BYTES)
        integers_by_row_add(image, stem, m);
    else
        integers_by_group_add(image, stem, m);
}

static inline void integers_config(const struct integers_way *way, char *text, size_t size) {
    static const char *const methods[] = {"'quant_method': 'gptq'",
                                          "'quant_method': 'gptq', 'checkpoint_format': 'gptq_v2'",
                                          "'quant_method': 'awq', 'version': 'gemm'",
                                          "'quant_method': 'compressed-tensors', 'format': "
                                          "'pack-quantized'",
                                          "'quant_method': 'compressed-tensors', 'format': "
                                          "'int-quantized'"};
    const bool is_scheme = way->kind == KIND_PACKED || way->kind == KIND_BYTES;
    snprintf(text, size,
             is_scheme ? "{%s, 'config_groups': {'group_0': {'weights': {'num_bits': %d, "
                         "'group_size': %d, 'actorder': %s}}}}"
                       : "{%s, 'bits': %d, 'group_size': %d, 'desc_act': %s}",
             methods[way->kind], way->bits, way->group ? way->group : -1,
             way->has_order ? "true" : "false");
    for (char *at = text; (at = strchr(at, '\''));) *at = '"';
}

// ---------------------------------------------------------------- folders

// The numbers in F32, or in the 16-bit format of the scales.
static inline void integers_plain_add(struct fp8_image *image, const char *name, const char *shape,
                                      const struct integers_matrix *m, bool is_short) {
    const int n = m->rows * m->cols;
    float *number = calloc((size_t)n, sizeof *number);
    uint16_t *half = calloc((size_t)n, sizeof *half);
    assert_true(number && half);
    for (int i = 0; i < n; i++) {
        number[i] = integers_value(m, i / m->cols, i % m->cols);
        half[i] = m->way.is_bf16 ? f32_to_bf16(number[i]) : f32_to_f16(number[i]);
    }
    fp8_entry_add(image, name, "",
                  !is_short        ? "F32"
                  : m->way.is_bf16 ? "BF16"
                                   : "F16",
                  shape, is_short ? (void *)half : (void *)number,
                  (size_t)n * (is_short ? sizeof *half : sizeof *number));
    free(number);
    free(half);
}

static inline void integers_tensor_add(struct fp8_image *coded, struct fp8_image *plain,
                                       const char *name, const json_t *entry, const uint8_t *data,
                                       const struct integers_way *way, bool is_short) {
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const size_t n_dims = json_array_size(shape);
    const size_t from = (size_t)json_integer_value(json_array_get(offsets, 0));
    const size_t bytes = (size_t)json_integer_value(json_array_get(offsets, 1)) - from;
    char text[64] = "", stem[FP8_NAME];
    int dim[4] = {1, 1, 1, 1};
    for (size_t i = 0; i < n_dims; i++) {
        dim[i] = (int)json_integer_value(json_array_get(shape, i));
        snprintf(text + strlen(text), sizeof text - strlen(text), i ? ",%d" : "%d", dim[i]);
    }
    float *x = malloc(bytes);
    assert_non_null(x);
    memcpy(x, data + from, bytes);
    const size_t len = strlen(name), end = strlen(".weight");
    const bool is_product = fp8_is_product(name) || strstr(name, "lm_head");
    if (n_dims == 2 && is_product && strcmp(name + len - end, ".weight") == 0) {
        struct integers_matrix m = integers_matrix_make(way, dim[0], dim[1], x);
        snprintf(stem, sizeof stem, "%.*s", (int)(len - end), name);
        integers_add(coded, stem, &m);
        integers_plain_add(plain, name, text, &m, is_short);
        integers_matrix_free(&m);
    } else {
        fp8_entry_add(coded, name, "", "F32", text, x, bytes);
        fp8_entry_add(plain, name, "", "F32", text, x, bytes);
    }
    free(x);
}

static inline void integers_config_change(const struct data_folder *folder,
                                          const struct integers_way *way) {
    char path[DATA_PATH_BYTES], text[256];
    snprintf(path, sizeof path, "%s/config.json", folder->path);
    integers_config(way, text, sizeof text);
    json_t *config = data_json_read(path), *codes = json_loads(text, 0, NULL);
    assert_int_equal(json_object_set_new(config, "quantization_config", codes), 0);
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
}

// Two folders of a reference model: in codes, and with the numbers that they stand for, in F32 or
// in the 16-bit format of the scales.
static inline void integers_folders_make(const char *name, const struct integers_way *way,
                                         bool is_short, struct data_folder folder[2]) {
    static struct fp8_image coded, plain;
    const struct data_file file = golden_safetensors(name);
    uint64_t len;
    memcpy(&len, file.data, sizeof len);
    const uint8_t *data = (const uint8_t *)file.data + 8 + len;
    json_t *header = json_loadb((const char *)file.data + 8, len, 0, NULL), *entry;
    const char *key;
    assert_non_null(header);
    json_object_foreach(header, key, entry) {
        if (strcmp(key, "__metadata__") != 0)
            integers_tensor_add(&coded, &plain, key, entry, data, way, is_short);
    }
    json_decref(header);
    free(file.data);
    char *tokenizer = fp8_tokenizer_of(name);
    for (int i = 0; i < 2; i++) folder[i] = golden_folder_begin(name, tokenizer);
    free(tokenizer);
    integers_config_change(&folder[0], way);
    fp8_image_write(&coded, &folder[0]);
    fp8_image_write(&plain, &folder[1]);
}

#endif
