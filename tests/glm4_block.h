// A model of the reference whose last layer drafts: GLM's, with heads of its own or over a latent.
// Texts with drafts of the block are compared with texts without.
#ifndef RN_TESTS_GLM4_BLOCK_H
#define RN_TESTS_GLM4_BLOCK_H

#include "block_texts.h"
#include "data_file.h"
#include "gguf_copy.h"
#include "tensor_bytes.h"

// The reference models, whose sizes are the same.
static const struct which {
    const char *name, *arch;
} whole = {"glm4_moe", "glm4moe"}, latent = {"glm4_moe_lite", "deepseek2"};

enum { EMBD = 64, VOCAB = 512, LAYERS = 2 };

// The tensors that such a layer has beside those of a layer.
static const struct {
    const char *gguf, *folder;
    int cols, rows; // rows 0: a vector
} extra[] = {
    {"blk.2.nextn.eh_proj.weight", "model.layers.2.eh_proj.weight", 2 * EMBD, EMBD},
    {"blk.2.nextn.enorm.weight", "model.layers.2.enorm.weight", EMBD, 0},
    {"blk.2.nextn.hnorm.weight", "model.layers.2.hnorm.weight", EMBD, 0},
    {"blk.2.nextn.shared_head_norm.weight", "model.layers.2.shared_head.norm.weight", EMBD, 0},
};
enum { N_EXTRA = sizeof extra / sizeof *extra };

static float extra_data[N_EXTRA][2 * EMBD * EMBD];

static inline size_t extra_bytes(int i) {
    return (size_t)extra[i].cols * (size_t)(extra[i].rows ? extra[i].rows : 1) * sizeof(float);
}

// An echo passes the token on and leaves the hidden row out; norm: that of the model's head.
static inline void extra_fill(bool is_echo, const float *norm) {
    uint32_t seed = 5;
    for (int i = 0; i < N_EXTRA; i++) {
        for (size_t k = 0; k < extra_bytes(i) / sizeof(float); k++) {
            seed = seed * 1664525u + 1013904223u;
            const float random = (float)(int32_t)seed * 0x1p-31f;
            const bool is_same = k % (2 * EMBD) == k / (2 * EMBD);
            extra_data[i][k] = extra[i].rows == 0 ? (is_echo ? 1 : 1 + 0.2f * random)
                               : is_echo          ? is_same
                                                  : 0.15f * random;
        }
    }
    if (is_echo) memcpy(extra_data[N_EXTRA - 1], norm, EMBD * sizeof(float));
}

static inline bool leads_back(const char *name) {
    return strstr(name, "attn_output.") || strstr(name, "ffn_down");
}

static inline void tensor_copy(struct writer *writer, const struct tensor_view *t, bool is_zero) {
    uint64_t dims[WEIGHTS_MAX_DIMS];
    for (int d = 0; d < t->n_dims; d++) dims[d] = (uint64_t)t->dim[d];
    writer_tensor(writer, t->name, (uint32_t)t->n_dims, dims, 0, is_zero ? NULL : t->data,
                  t->bytes);
}

// The reference model, whose third layer drafts.
static inline struct data_folder gguf_make(struct which which, bool is_echo) {
    char path[DATA_PATH_BYTES], key[64];
    struct writer writer = writer_begin(3);
    struct weights *from;
    size_t size;
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", which.name);
    snprintf(key, sizeof key, "%s.nextn_predict_layers", which.arch);
    assert_int_equal(weights_open(path, &from, NULL), RN_OK);
    extra_fill(is_echo, tensor_bytes(from, weights_tensor_find(from, "output_norm.weight")));
    for (int i = 0; i < weights_meta_count(from); i++) {
        const struct meta_view *meta = weights_meta_at(from, i);
        if (strcmp(meta->key, key) != 0) writer_kv_copy(&writer, meta);
    }
    writer_kv_u32(&writer, key, 1);
    for (int i = 0; i < weights_tensor_count(from); i++) {
        const struct tensor_view t = tensor_brought(from, i);
        tensor_copy(&writer, &t, is_echo && leads_back(t.name));
    }
    for (int i = 0; i < N_EXTRA; i++) {
        const uint64_t dims[] = {(uint64_t)extra[i].cols, (uint64_t)extra[i].rows};
        writer_tensor(&writer, extra[i].gguf, extra[i].rows ? 2 : 1, dims, 0, extra_data[i],
                      extra_bytes(i));
    }
    weights_close(from);
    uint8_t *image = writer_finish(&writer, &size);
    const struct data_folder folder = data_folder_make();
    data_file_write(folder.path, "model.gguf", image, size);
    free(image);
    return folder;
}

// Of the model at the path.
static inline rn_draft_stats check_texts(const char *path, struct stream *got) {
    rn_error err = {0};
    rn_model *model;
    check(rn_model_open(path, &model, &err) == RN_OK, "%s", err.message);
    const rn_draft_stats stats = block_texts_check(model, got);
    rn_model_close(model);
    return stats;
}

static inline rn_draft_stats check_gguf(struct which which, bool is_echo, struct stream *got) {
    char path[DATA_PATH_BYTES];
    const struct data_folder folder = gguf_make(which, is_echo);
    snprintf(path, sizeof path, "%s/model.gguf", folder.path);
    const rn_draft_stats stats = check_texts(path, got);
    data_folder_remove(&folder);
    return stats;
}

#endif
