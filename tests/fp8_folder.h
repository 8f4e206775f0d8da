// Folders in 8-bit floats for tests: the matrices of a reference model as codes and scales.
#ifndef RN_TESTS_FP8_FOLDER_H
#define RN_TESTS_FP8_FOLDER_H

#include <math.h>

#include "base/half.h"
#include "check.h"
#include "golden_folder.h"
#include "streams.h"

enum { FP8_BLOCK_SIZE = 16, FP8_NAME = 160, FP8_PROMPT = 40 };

// A tensor of a folder that is being written.
struct fp8_entry {
    char name[FP8_NAME + 32], dtype[12], shape[64];
    uint8_t *data;
    size_t bytes;
};

struct fp8_image {
    struct fp8_entry entry[2048];
    int n;
};

static inline void fp8_entry_add(struct fp8_image *image, const char *name, const char *end,
                                 const char *dtype, const char *shape, const void *data,
                                 size_t bytes) {
    struct fp8_entry *e = &image->entry[image->n++];
    assert_true(image->n <= (int)(sizeof image->entry / sizeof *image->entry));
    snprintf(e->name, sizeof e->name, "%s%s", name, end);
    snprintf(e->dtype, sizeof e->dtype, "%s", dtype);
    snprintf(e->shape, sizeof e->shape, "%s", shape);
    e->data = malloc(bytes + 1);
    assert_non_null(e->data);
    memcpy(e->data, data, bytes);
    e->bytes = bytes;
}

static inline void fp8_image_write(struct fp8_image *image, const struct data_folder *folder) {
    const size_t room = (size_t)image->n * 360 + 16;
    size_t len = 1, bytes = 0, data = 0;
    for (int i = 0; i < image->n; i++) data += image->entry[i].bytes;
    uint8_t *file = calloc(1, 8 + room + data);
    assert_non_null(file);
    char *header = (char *)file + 8;
    header[0] = '{';
    for (int i = 0; i < image->n; i++) {
        const struct fp8_entry *e = &image->entry[i];
        len += (size_t)
            snprintf(header + len, room - len,
                     "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                     i ? "," : "", e->name, e->dtype, e->shape, bytes, bytes + e->bytes);
        bytes += e->bytes;
    }
    header[len++] = '}';
    const uint64_t length = len;
    memcpy(file, &length, 8);
    for (int i = 0; i < image->n; i++) {
        memcpy(file + 8 + len, image->entry[i].data, image->entry[i].bytes);
        len += image->entry[i].bytes;
        free(image->entry[i].data);
    }
    data_file_write(folder->path, "model.safetensors", file, 8 + len);
    free(file);
    image->n = 0;
}

// ---------------------------------------------------------------- codes

static inline float fp8_value_of(int code) {
    const int exponent = code / 8 % 16, fraction = code % 8;
    const float value =
        exponent == 0 ? ldexpf((float)fraction, -9) : ldexpf((float)(8 + fraction), exponent - 10);
    return code >= 128 ? -value : value;
}

// The nearest of the codes that are numbers.
static inline uint8_t fp8_code_of(float x) {
    int best = 0;
    for (int code = 0; code < 256; code++)
        if (code % 128 != 127 && fabsf(fp8_value_of(code) - x) < fabsf(fp8_value_of(best) - x))
            best = code;
    return (uint8_t)best;
}

struct fp8_matrices {
    int n, rows, cols;
};

// Codes and scales into `coded`, their products into `plain`.
static inline void fp8_matrix_add(struct fp8_image *coded, struct fp8_image *plain,
                                  const char *name, const char *shape, struct fp8_matrices m,
                                  const float *x) {
    const int count = m.n * m.rows * m.cols;
    const int across = (m.cols + FP8_BLOCK_SIZE - 1) / FP8_BLOCK_SIZE,
              down = (m.rows + FP8_BLOCK_SIZE - 1) / FP8_BLOCK_SIZE;
    float *scale = calloc((size_t)(m.n * down * across), sizeof *scale);
    uint8_t *code = calloc((size_t)count, 1);
    uint16_t *bf16 = calloc((size_t)count, sizeof *bf16);
    char scale_shape[64];
    assert_true(scale && code && bf16);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < count; i++) {
            const int row = i / m.cols % m.rows, matrix = i / m.cols / m.rows;
            float *of = &scale[(matrix * down + row / FP8_BLOCK_SIZE) * across +
                               i % m.cols / FP8_BLOCK_SIZE];
            if (pass == 0) *of = fmaxf(*of, fabsf(x[i]) / 400);
            if (pass == 0) continue;
            code[i] = fp8_code_of(x[i] / *of);
            bf16[i] = f32_to_bf16(fp8_value_of(code[i]) * *of);
        }
    }
    if (m.n > 1)
        snprintf(scale_shape, sizeof scale_shape, "%d,%d,%d", m.n, down, across);
    else
        snprintf(scale_shape, sizeof scale_shape, "%d,%d", down, across);
    fp8_entry_add(coded, name, "", "F8_E4M3", shape, code, (size_t)count);
    fp8_entry_add(coded, name, "_scale_inv", "F32", scale_shape, scale,
                  (size_t)(m.n * down * across) * sizeof *scale);
    fp8_entry_add(plain, name, "", "BF16", shape, bf16, (size_t)count * sizeof *bf16);
    free(scale);
    free(code);
    free(bf16);
}

static inline bool fp8_is_product(const char *name) {
    return strstr(name, "_proj") || strstr(name, ".w1.") || strstr(name, ".w2.") ||
           strstr(name, ".w3.");
}

static inline void fp8_tensor_add(struct fp8_image *coded, struct fp8_image *plain,
                                  const char *name, const json_t *entry, const uint8_t *data) {
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const size_t n_dims = json_array_size(shape);
    const size_t from = (size_t)json_integer_value(json_array_get(offsets, 0));
    const size_t bytes = (size_t)json_integer_value(json_array_get(offsets, 1)) - from;
    char text[64] = "";
    int dim[4] = {1, 1, 1, 1};
    for (size_t i = 0; i < n_dims; i++) {
        dim[i] = (int)json_integer_value(json_array_get(shape, i));
        snprintf(text + strlen(text), sizeof text - strlen(text), i ? ",%d" : "%d", dim[i]);
    }
    assert_string_equal(json_string_value(json_object_get(entry, "dtype")), "F32");
    float *x = malloc(bytes);
    assert_non_null(x);
    memcpy(x, data + from, bytes);
    if ((n_dims == 2 || n_dims == 3) && fp8_is_product(name)) {
        const struct fp8_matrices m = {n_dims == 3 ? dim[0] : 1, dim[n_dims - 2], dim[n_dims - 1]};
        fp8_matrix_add(coded, plain, name, text, m, x);
    } else {
        fp8_entry_add(coded, name, "", "F32", text, x, bytes);
        fp8_entry_add(plain, name, "", "F32", text, x, bytes);
    }
    free(x);
}

// ---------------------------------------------------------------- folders

static inline char *fp8_tokenizer_of(const char *name) {
    static const char *const lists[] = {"models", "families", "hybrids"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char path[DATA_PATH_BYTES];
        snprintf(path, sizeof path, TEST_DATA "/golden/%s.json", lists[i]);
        json_t *list = data_json_read(path), *entry;
        json_t *models = json_is_array(list) ? list : json_object_get(list, "models");
        size_t at;
        json_array_foreach(models, at, entry) {
            if (strcmp(json_string_value(json_object_get(entry, "name")), name) != 0) continue;
            char *found = strdup(json_string_value(json_object_get(entry, "tokenizer")));
            json_decref(list);
            return found;
        }
        json_decref(list);
    }
    check(false, "%s is in no list", name);
    return NULL;
}

static inline void fp8_config_change(const struct data_folder *folder) {
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, "%s/config.json", folder->path);
    json_t *config = data_json_read(path);
    json_t *codes = json_pack("{s:s, s:s, s:[i,i]}", "quant_method", "fp8", "fmt", "e4m3",
                              "weight_block_size", FP8_BLOCK_SIZE, FP8_BLOCK_SIZE);
    assert_int_equal(json_object_set_new(config, "quantization_config", codes), 0);
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
}

// Two folders of a reference model: in codes and scales, and with their products in BF16.
static inline void fp8_folders_make(const char *name, struct data_folder folder[2]) {
    static struct fp8_image coded, plain;
    const struct data_file file = golden_safetensors(name);
    uint64_t len;
    memcpy(&len, file.data, sizeof len);
    const uint8_t *data = (const uint8_t *)file.data + 8 + len;
    json_t *header = json_loadb((const char *)file.data + 8, len, 0, NULL), *entry;
    const char *key;
    assert_non_null(header);
    json_object_foreach(header, key, entry) {
        if (strcmp(key, "__metadata__") != 0) fp8_tensor_add(&coded, &plain, key, entry, data);
    }
    json_decref(header);
    free(file.data);
    char *tokenizer = fp8_tokenizer_of(name);
    for (int i = 0; i < 2; i++) folder[i] = golden_folder_begin(name, tokenizer);
    free(tokenizer);
    fp8_config_change(&folder[0]);
    fp8_image_write(&coded, &folder[0]);
    fp8_image_write(&plain, &folder[1]);
}

// ---------------------------------------------------------------- runs

struct fp8_rows {
    float *logits;
    int n, n_vocab;
};

static inline void fp8_keep(void *ctx, int pos, const float *logits, int n_vocab) {
    struct fp8_rows *rows = ctx;
    (void)pos;
    rows->n_vocab = n_vocab;
    rows->logits =
        realloc(rows->logits, (size_t)(rows->n + 1) * (size_t)n_vocab * sizeof *rows->logits);
    assert_non_null(rows->logits);
    memcpy(rows->logits + (size_t)rows->n++ * (size_t)n_vocab, logits,
           (size_t)n_vocab * sizeof *logits);
}

static inline struct fp8_rows fp8_run(const struct data_folder *folder, int n_text,
                                      struct stream *stream) {
    rn_model *model;
    rn_error err = {0};
    struct fp8_rows rows = {0};
    int32_t prompt[FP8_PROMPT];
    check(rn_model_open(folder->path, &model, &err) == RN_OK, "%s", err.message);
    for (int i = 0; i < FP8_PROMPT; i++)
        prompt[i] = (i * 37 + 11) % rn_model_get_info(model)->n_vocab;
    rn_engine *engine =
        streams_engine(model, &(rn_engine_options){.n_ctx = 128, .speculate = "off"});
    const rn_request request = {.prompt = prompt,
                                .n_prompt = FP8_PROMPT,
                                .max_tokens = n_text,
                                .ignore_eos = true,
                                .on_logits = fp8_keep,
                                .on_logits_ctx = &rows};
    streams_submit(engine, &request, stream);
    streams_drain(engine, stream, 1);
    rn_engine_destroy(engine);
    rn_model_close(model);
    return rows;
}

// Both folders give the same logits and texts, to the bit.
static inline void fp8_check_model(const char *name, int n_text) {
    static struct stream got, want;
    struct data_folder folder[2];
    fp8_folders_make(name, folder);
    struct fp8_rows a = fp8_run(&folder[0], n_text, &got), b = fp8_run(&folder[1], n_text, &want);
    check(a.n == b.n && a.n >= n_text && a.n_vocab == b.n_vocab, "%s: %d rows, %d", name, a.n, b.n);
    check(memcmp(a.logits, b.logits, (size_t)a.n * (size_t)a.n_vocab * sizeof(float)) == 0,
          "%s: other logits", name);
    streams_check_same(&want, &got);
    free(a.logits);
    free(b.logits);
    for (int i = 0; i < 2; i++) data_folder_remove(&folder[i]);
}

#endif
