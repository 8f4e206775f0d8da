// Models for tests of hyper-parameters: from a config.json alone, or from the GGUF file of a
// reference model with a difference.
#ifndef RN_TESTS_MODEL_DESCRIBED_H
#define RN_TESTS_MODEL_DESCRIBED_H

#include "gguf_copy.h"
#include "model/arch.h"
#include "tensor_bytes.h"
#include "weights/folder.h"

struct described {
    struct weights *weights;
    struct model *model;
    rn_status status;
    rn_error err;
};

static inline struct described describe(const char *text) {
    struct described d = {.model = calloc(1, sizeof *d.model)};
    char path[DATA_PATH_BYTES];
    const struct data_folder folder = data_folder_make();
    assert_non_null(d.model);
    folder_text(&folder, "config.json", text);
    snprintf(path, sizeof path, "%s/config.json", folder.path);
    d.status = model_weights_describe(path, &d.weights, &d.err);
    data_folder_remove(&folder);
    if (d.status == RN_OK) d.status = model_init(d.model, d.weights, &d.err);
    return d;
}

static inline void described_close(struct described *d) {
    if (d->status == RN_OK) model_deinit(d->model);
    if (d->weights) weights_close(d->weights);
    free(d->model);
}

// A reference model's file with one difference.
struct change {
    const char *without; // the key or the tensor of this name is left out
    const char *key;     // is added: u32, or items of an array
    int items;           // 0: a number
    uint32_t value;      // or the value of all items
    bool is_bool;        // of the number
    const char *tensor;  // is added: [64] of zeroes
};

static inline void change_key(struct writer *writer, struct change change) {
    if (!change.key) return;
    if (change.is_bool) {
        writer_kv_bool(writer, change.key, change.value != 0);
        return;
    }
    if (change.items == 0) {
        writer_kv_u32(writer, change.key, change.value);
        return;
    }
    const float value = (float)change.value;
    writer_kv_array(writer, change.key, WRITER_F32, (uint64_t)change.items);
    for (int i = 0; i < change.items; i++) writer_put(&writer->kv, &value, sizeof value);
}

static inline uint8_t *changed_image(const char *name, struct change change, size_t *size) {
    char path[DATA_PATH_BYTES];
    struct weights *gguf;
    rn_error err = {0};
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", name);
    check(weights_open(path, &gguf, &err) == RN_OK, "%s", err.message);
    struct writer writer = writer_begin(3);
    for (int i = 0; i < weights_meta_count(gguf); i++) {
        const struct meta_view *meta = weights_meta_at(gguf, i);
        if (!change.without || strcmp(meta->key, change.without) != 0)
            writer_kv_copy(&writer, meta);
    }
    change_key(&writer, change);
    for (int i = 0; i < weights_tensor_count(gguf); i++) {
        const struct tensor_view *tensor = weights_tensor_at(gguf, i);
        const uint64_t dims[] = {(uint64_t)tensor->dim[0], (uint64_t)tensor->dim[1],
                                 (uint64_t)tensor->dim[2]};
        if (change.without && strcmp(tensor->name, change.without) == 0) continue;
        writer_tensor(&writer, tensor->name, (uint32_t)tensor->n_dims, dims, 0,
                      tensor_bytes(gguf, tensor), tensor->bytes);
    }
    if (change.tensor)
        writer_tensor(&writer, change.tensor, 1, (const uint64_t[]){64}, 0, NULL,
                      64 * sizeof(float));
    weights_close(gguf);
    return writer_finish(&writer, size);
}

static inline rn_status changed_open(const char *name, struct change change, struct model *model,
                                     struct weights **weights, uint8_t **image, rn_error *err) {
    size_t size;
    *image = changed_image(name, change, &size);
    check(weights_open_memory("m.gguf", *image, size, weights, err) == RN_OK, "%s", err->message);
    return model_init(model, *weights, err);
}

// A reference model whose GGUF file is changed, and the answer to it.
struct changed_case {
    const char *name;
    struct change change;
    rn_status status;
    const char *message; // a part of it
};

static inline void changed_cases_check(const struct changed_case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct model *model = calloc(1, sizeof *model);
        struct weights *weights;
        uint8_t *image;
        rn_error err = {0};
        assert_non_null(model);
        const rn_status status =
            changed_open(cases[i].name, cases[i].change, model, &weights, &image, &err);
        check(status == cases[i].status && strstr(err.message, cases[i].message),
              "%s, case %zu: status %d, '%s'", cases[i].name, i, status, err.message);
        if (status == RN_OK) model_deinit(model);
        weights_close(weights);
        free(image);
        free(model);
    }
}

#endif
