// GGUF files with a block that drafts: the reference model qwen3_5 with one more block of random
// weights. In the echo form nothing but the last token decides the next one, in the model and in
// the block alike, so that every draft is right. The near form is an echo in which the layers say a
// little: most drafts are right, and every logit depends on the whole text.
#ifndef RN_TESTS_MTP_MODEL_H
#define RN_TESTS_MTP_MODEL_H

#include "data_file.h"
#include "gguf_copy.h"
#include "model/model.h"
#include "tensor_bytes.h"

enum {
    MTP_EMBD = 64,
    MTP_HEADS = 2,
    MTP_DIM = 64,
    MTP_ROT = 16,
    MTP_FF = 96,
    MTP_VOCAB = 512,
    MTP_LAYERS = 5,
    MTP_TENSORS = 15,
};

#define MTP_LITTLE 0.25f // of what layers of the near form say

enum mtp_form { MTP_RANDOM, MTP_ECHO, MTP_NEAR };

struct mtp_tensor {
    const char *name;
    int cols, rows; // rows 0: a vector
    float scale, plus;
};

static const struct mtp_tensor mtp_tensors[MTP_TENSORS] = {
    {"nextn.eh_proj", 2 * MTP_EMBD, MTP_EMBD, 0.15f, 0},
    {"nextn.enorm", MTP_EMBD, 0, 0.2f, 1},
    {"nextn.hnorm", MTP_EMBD, 0, 0.2f, 1},
    {"nextn.shared_head_norm", MTP_EMBD, 0, 0.2f, 1},
    {"attn_norm", MTP_EMBD, 0, 0.2f, 1},
    {"attn_q", MTP_EMBD, 2 * MTP_HEADS *MTP_DIM, 0.15f, 0},
    {"attn_k", MTP_EMBD, MTP_DIM, 0.15f, 0},
    {"attn_v", MTP_EMBD, MTP_DIM, 0.15f, 0},
    {"attn_output", MTP_HEADS *MTP_DIM, MTP_EMBD, 0.15f, 0},
    {"attn_q_norm", MTP_DIM, 0, 0.2f, 1},
    {"attn_k_norm", MTP_DIM, 0, 0.2f, 1},
    {"post_attention_norm", MTP_EMBD, 0, 0.2f, 1},
    {"ffn_gate", MTP_EMBD, MTP_FF, 0.15f, 0},
    {"ffn_up", MTP_EMBD, MTP_FF, 0.15f, 0},
    {"ffn_down", MTP_FF, MTP_EMBD, 0.15f, 0},
};

struct mtp_file {
    struct data_folder folder;
    char path[DATA_PATH_BYTES];
    float *data[MTP_TENSORS];
};

static inline const float *mtp_data(const struct mtp_file *file, const char *name) {
    for (int i = 0; i < MTP_TENSORS; i++)
        if (strcmp(mtp_tensors[i].name, name) == 0) return file->data[i];
    check(false, "no tensor %s", name);
    return NULL;
}

static inline float mtp_random(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(int32_t)(*seed >> 32) * 0x1p-31f;
}

// A product that leads back to the stream.
static inline bool mtp_leads_back(const char *name) {
    return strstr(name, "attn_output") || strstr(name, "ffn_down") || strstr(name, "ssm_out");
}

// The weights of such a product in that form; NULL: zeros. To be freed.
static inline float *mtp_lead_back(const struct tensor_view *t, enum mtp_form form) {
    if (form == MTP_ECHO) return NULL;
    const size_t n = t->bytes / sizeof(float);
    float *data = malloc(t->bytes);
    assert_non_null(data);
    for (size_t i = 0; i < n; i++) data[i] = ((const float *)t->data)[i] * MTP_LITTLE;
    return data;
}

static inline void mtp_copy(struct writer *writer, const struct weights *from, enum mtp_form form) {
    for (int i = 0; i < weights_meta_count(from); i++) {
        const struct meta_view *meta = weights_meta_at(from, i);
        if (strcmp(meta->key, "qwen35.block_count") != 0) writer_kv_copy(writer, meta);
    }
    writer_kv_u32(writer, "qwen35.block_count", MTP_LAYERS + 1);
    writer_kv_u32(writer, "qwen35.nextn_predict_layers", 1);
    for (int i = 0; i < weights_tensor_count(from); i++) {
        const struct tensor_view brought = tensor_brought(from, i), *t = &brought;
        uint64_t dims[WEIGHTS_MAX_DIMS];
        for (int d = 0; d < t->n_dims; d++) dims[d] = (uint64_t)t->dim[d];
        const bool is_other = form != MTP_RANDOM && mtp_leads_back(t->name);
        float *other = is_other ? mtp_lead_back(t, form) : NULL;
        writer_tensor(writer, t->name, (uint32_t)t->n_dims, dims, 0, is_other ? other : t->data,
                      t->bytes);
        free(other);
    }
}

// The echo's first product passes the token on, and leaves the hidden row out.
static inline void mtp_fill(struct mtp_file *file, int i, enum mtp_form form, uint64_t *seed) {
    const bool is_echo = form != MTP_RANDOM;
    const struct mtp_tensor *t = &mtp_tensors[i];
    const int n = t->cols * (t->rows ? t->rows : 1);
    file->data[i] = calloc((size_t)n, sizeof(float));
    assert_non_null(file->data[i]);
    for (int k = 0; k < n; k++) {
        const bool is_norm = t->rows == 0, is_first = strcmp(t->name, "nextn.eh_proj") == 0;
        float value = mtp_random(seed) * t->scale + t->plus;
        if (is_echo && is_norm) value = 1;
        if (is_echo && is_first) value = k % t->cols == k / t->cols;
        if (is_echo && mtp_leads_back(t->name)) value = form == MTP_NEAR ? value * MTP_LITTLE : 0;
        file->data[i][k] = value;
    }
}

static inline struct mtp_file mtp_file_make(enum mtp_form form) {
    const bool is_echo = form != MTP_RANDOM;
    struct mtp_file file;
    struct writer writer = writer_begin(3);
    struct weights *from;
    uint64_t seed = 7;
    assert_int_equal(weights_open(TEST_DATA "/golden/qwen3_5/model.gguf", &from, NULL), RN_OK);
    mtp_copy(&writer, from, form);
    for (int i = 0; i < MTP_TENSORS; i++) {
        const struct mtp_tensor *t = &mtp_tensors[i];
        const uint64_t dims[2] = {(uint64_t)t->cols, (uint64_t)t->rows};
        char name[64];
        mtp_fill(&file, i, form, &seed);
        if (is_echo && strcmp(t->name, "nextn.shared_head_norm") == 0) // the model's
            memcpy(file.data[i],
                   tensor_bytes(from, weights_tensor_find(from, "output_norm.weight")),
                   MTP_EMBD * sizeof(float));
        snprintf(name, sizeof name, "blk.%d.%s.weight", MTP_LAYERS, t->name);
        writer_tensor(&writer, name, t->rows ? 2 : 1, dims, 0, file.data[i],
                      (size_t)t->cols * (size_t)(t->rows ? t->rows : 1) * sizeof(float));
    }
    weights_close(from);
    size_t size;
    uint8_t *image = writer_finish(&writer, &size);
    file.folder = data_folder_make();
    data_file_write(file.folder.path, "model.gguf", image, size);
    snprintf(file.path, sizeof file.path, "%s/model.gguf", file.folder.path);
    free(image);
    return file;
}

static inline void mtp_file_remove(struct mtp_file *file) {
    data_folder_remove(&file->folder);
    for (int i = 0; i < MTP_TENSORS; i++) free(file->data[i]);
}

#endif
