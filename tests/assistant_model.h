// GGUF files of assistants of Gemma 4 (gemma4_assistant.c): random weights, with the shapes that
// fit a reference model. In the echo form the model's last token alone decides the next one, and
// its assistant says the same, so that every draft is right: the file of the model is another one
// then.
#ifndef RN_TESTS_ASSISTANT_MODEL_H
#define RN_TESTS_ASSISTANT_MODEL_H

#include <math.h>

#include "data_file.h"
#include "gguf_copy.h"
#include "model/model.h"
#include "runnel_model.h"
#include "tensor_bytes.h"

enum { ASSISTANT_LAYERS = 3, ASSISTANT_FF = 40, ASSISTANT_TENSORS = 64 };

struct assistant_tensor {
    char name[48];
    int cols, rows; // rows 0: a vector
    float *data;
};

struct assistant {
    struct data_folder folder;
    char path[DATA_PATH_BYTES], model_path[DATA_PATH_BYTES]; // of itself; of the model
    int n_embd, n_model, n_vocab;                            // widths of itself and of the model
    struct assistant_tensor tensor[ASSISTANT_TENSORS];
    int n_tensors;
    int window;
    bool is_echo;
};

// Layers with a window come first, as in published files.
static inline bool assistant_is_local(int layer) { return layer < ASSISTANT_LAYERS - 1; }

static inline const float *assistant_data(const struct assistant *a, const char *name) {
    for (int i = 0; i < a->n_tensors; i++)
        if (strcmp(a->tensor[i].name, name) == 0) return a->tensor[i].data;
    check(false, "no tensor %s", name);
    return NULL;
}

static inline float assistant_random(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(int32_t)(*seed >> 32) * 0x1p-31f;
}

static inline float *assistant_add(struct assistant *a, int layer, const char *name, int cols,
                                   int rows, uint64_t *seed) {
    struct assistant_tensor *t = &a->tensor[a->n_tensors++];
    const int n = cols * (rows ? rows : 1);
    assert_true(a->n_tensors <= ASSISTANT_TENSORS);
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s.weight", name);
    else
        snprintf(t->name, sizeof t->name, "blk.%d.%s.weight", layer, name);
    t->cols = cols;
    t->rows = rows;
    t->data = calloc((size_t)n, sizeof *t->data);
    assert_non_null(t->data);
    const float scale = rows ? 2 / sqrtf((float)cols) : 0.2f;
    for (int i = 0; i < n; i++) t->data[i] = assistant_random(seed) * scale + (rows ? 0 : 1);
    return t->data;
}

static inline void assistant_layer(struct assistant *a, int i, int n_head, int dim,
                                   uint64_t *seed) {
    const int n = a->n_embd;
    assistant_add(a, i, "attn_norm", n, 0, seed);
    assistant_add(a, i, "attn_q", n, n_head * dim, seed);
    assistant_add(a, i, "attn_q_norm", dim, 0, seed);
    float *o = assistant_add(a, i, "attn_output", n_head * dim, n, seed);
    assistant_add(a, i, "post_attention_norm", n, 0, seed);
    assistant_add(a, i, "ffn_norm", n, 0, seed);
    assistant_add(a, i, "ffn_gate", n, ASSISTANT_FF, seed);
    assistant_add(a, i, "ffn_up", n, ASSISTANT_FF, seed);
    float *down = assistant_add(a, i, "ffn_down", ASSISTANT_FF, n, seed);
    assistant_add(a, i, "post_ffw_norm", n, 0, seed);
    float *scale = assistant_add(a, i, "layer_output_scale", 1, 0, seed);
    if (!a->is_echo) return;
    memset(o, 0, (size_t)(n_head * dim * n) * sizeof *o);
    memset(down, 0, (size_t)(ASSISTANT_FF * n) * sizeof *down);
    *scale = 1;
}

// The first half of the stream is the embedding, the rest is 0. So the norm's root is smaller by
// the root of 2 than the model's, and the head sees what the model's does.
static inline void assistant_echo(struct assistant *a, const struct weights *model) {
    const float *embd = tensor_bytes(model, weights_tensor_find(model, "token_embd.weight"));
    const float *norm = tensor_bytes(model, weights_tensor_find(model, "output_norm.weight"));
    float *pre = (float *)(uintptr_t)assistant_data(a, "nextn.pre_projection.weight");
    float *out = (float *)(uintptr_t)assistant_data(a, "output_norm.weight");
    float *head = (float *)(uintptr_t)assistant_data(a, "token_embd.weight");
    const int n = a->n_model;
    assert_int_equal(a->n_embd, 2 * n);
    memset(pre, 0, (size_t)(2 * n * a->n_embd) * sizeof *pre);
    for (int i = 0; i < n; i++) pre[i * 2 * n + i] = 1;
    for (int i = 0; i < a->n_embd; i++) out[i] = i < n ? norm[i] / sqrtf(2) : 0;
    for (int id = 0; id < a->n_vocab; id++)
        for (int i = 0; i < a->n_embd; i++) head[id * a->n_embd + i] = i < n ? embd[id * n + i] : 0;
}

static inline void assistant_tensors(struct assistant *a, const struct hparams *hp,
                                     const struct weights *model) {
    uint64_t seed = 7;
    a->n_model = hp->n_embd;
    a->n_embd = a->is_echo ? 2 * hp->n_embd : 24;
    a->n_vocab = hp->n_vocab;
    assistant_add(a, -1, "nextn.pre_projection", 2 * a->n_model, a->n_embd, &seed);
    for (int i = 0; i < ASSISTANT_LAYERS; i++) {
        const struct layer *l = hp->layer;
        while ((l->kind == KV_WINDOW) != assistant_is_local(i)) l++;
        assistant_layer(a, i, l->n_head, l->dim_k, &seed);
    }
    assistant_add(a, -1, "output_norm", a->n_embd, 0, &seed);
    assistant_add(a, -1, "token_embd", a->n_embd, a->n_vocab, &seed);
    assistant_add(a, -1, "nextn.post_projection", a->n_embd, a->n_model, &seed);
    if (a->is_echo) assistant_echo(a, model);
}

// ---------------------------------------------------------------- files

static inline void assistant_put(struct writer *writer, const char *name, uint32_t n_dims,
                                 const uint64_t *dims, const float *data) {
    const uint64_t n = dims[0] * (n_dims > 1 ? dims[1] : 1);
    writer_tensor(writer, name, n_dims, dims, 0, data, (size_t)n * sizeof *data);
}

static inline void assistant_lists(struct writer *writer, const struct hparams *hp) {
    int32_t n_kv[ASSISTANT_LAYERS];
    uint8_t is_local[ASSISTANT_LAYERS];
    for (int i = 0; i < ASSISTANT_LAYERS; i++) {
        const struct layer *l = hp->layer;
        while ((l->kind == KV_WINDOW) != assistant_is_local(i)) l++;
        n_kv[i] = l->n_head_kv;
        is_local[i] = assistant_is_local(i);
    }
    writer_kv_i32_array(writer, "gemma4-assistant.attention.head_count_kv", n_kv, ASSISTANT_LAYERS);
    writer_kv_array(writer, "gemma4-assistant.attention.sliding_window_pattern", WRITER_BOOL,
                    ASSISTANT_LAYERS);
    writer_put(&writer->kv, is_local, sizeof is_local);
}

// The keys that the assistant's file has as the model's does.
static inline void assistant_keys(struct writer *writer, const struct assistant *a,
                                  const struct hparams *hp, const struct weights *model) {
    static const char *const others[] = {"block_count",
                                         "embedding_length",
                                         "feed_forward_length",
                                         "attention.head_count_kv",
                                         "attention.sliding_window_pattern",
                                         "attention.shared_kv_layers",
                                         "attention.sliding_window",
                                         "embedding_length_per_layer_input",
                                         "expert_count",
                                         "expert_used_count",
                                         "expert_feed_forward_length"};
    const size_t prefix = strlen("gemma4.");
    for (int i = 0; i < weights_meta_count(model); i++) {
        struct meta_view meta = *weights_meta_at(model, i);
        const bool is_own = strncmp(meta.key, "gemma4.", prefix) == 0;
        bool is_other = strcmp(meta.key, "general.architecture") == 0;
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            is_other |= is_own && strcmp(meta.key + prefix, others[k]) == 0;
        if (is_other) continue;
        char key[96];
        snprintf(key, sizeof key, "gemma4-assistant.%s", meta.key + (is_own ? prefix : 0));
        if (is_own) meta.key = key;
        writer_kv_copy(writer, &meta);
    }
    writer_kv_str(writer, "general.architecture", "gemma4-assistant");
    writer_kv_u32(writer, "gemma4-assistant.block_count", ASSISTANT_LAYERS);
    writer_kv_u32(writer, "gemma4-assistant.nextn_predict_layers", ASSISTANT_LAYERS);
    writer_kv_u32(writer, "gemma4-assistant.attention.shared_kv_layers", ASSISTANT_LAYERS);
    writer_kv_u32(writer, "gemma4-assistant.embedding_length", (uint32_t)a->n_embd);
    writer_kv_u32(writer, "gemma4-assistant.embedding_length_out", (uint32_t)a->n_model);
    writer_kv_u32(writer, "gemma4-assistant.feed_forward_length", ASSISTANT_FF);
    writer_kv_u32(writer, "gemma4-assistant.attention.sliding_window", (uint32_t)a->window);
    assistant_lists(writer, hp);
}

static inline void assistant_write(struct writer *writer, const char *folder, const char *name,
                                   char *path) {
    size_t size;
    uint8_t *image = writer_finish(writer, &size);
    data_file_write(folder, name, image, size);
    snprintf(path, DATA_PATH_BYTES, "%s/%s", folder, name);
    free(image);
}

// A model with that window. Of an echo the layers add nothing to the stream, which keeps its size.
static inline void assistant_write_model(struct assistant *a, const struct weights *model,
                                         int window) {
    struct writer writer = writer_begin(3);
    for (int i = 0; i < weights_meta_count(model); i++) {
        const struct meta_view *meta = weights_meta_at(model, i);
        if (strcmp(meta->key, "gemma4.attention.sliding_window") != 0)
            writer_kv_copy(&writer, meta);
    }
    writer_kv_u32(&writer, "gemma4.attention.sliding_window", (uint32_t)window);
    for (int i = 0; i < weights_tensor_count(model); i++) {
        const struct tensor_view brought = tensor_brought(model, i), *t = &brought;
        const bool leads_back = strstr(t->name, "attn_output") || strstr(t->name, "ffn_down") ||
                                strstr(t->name, ".proj.");
        const bool is_silent = a->is_echo && leads_back;
        const bool is_scale = a->is_echo && strstr(t->name, "layer_output_scale");
        uint64_t dims[WEIGHTS_MAX_DIMS];
        for (int d = 0; d < t->n_dims; d++) dims[d] = (uint64_t)t->dim[d];
        const float one = 1;
        float *zeros = calloc(1, t->bytes);
        assert_non_null(zeros);
        writer_tensor(&writer, t->name, (uint32_t)t->n_dims, dims, 0,
                      is_scale    ? (const void *)&one
                      : is_silent ? zeros
                                  : t->data,
                      t->bytes);
        free(zeros);
    }
    assistant_write(&writer, a->folder.path, "model.gguf", a->model_path);
}

// For the reference model of that name: "gemma4-e2b", "gemma4-31b", "gemma4-moe". window: 0: its
// own.
static inline struct assistant assistant_make_with(const char *name, bool is_echo, int window) {
    struct assistant a = {.is_echo = is_echo};
    rn_model *model;
    rn_error err = {0};
    snprintf(a.model_path, sizeof a.model_path, TEST_DATA "/golden/%s/model.gguf", name);
    check(rn_model_open(a.model_path, &model, &err) == RN_OK, "%s", err.message);
    const struct hparams *hp = &model->model.hp;
    for (int i = 0; window == 0 && i < hp->n_layer; i++)
        if (hp->layer[i].kind == KV_WINDOW) a.window = hp->layer[i].window;
    if (window > 0) a.window = window;
    struct writer writer = writer_begin(3);
    assistant_tensors(&a, hp, model->weights);
    assistant_keys(&writer, &a, hp, model->weights);
    const struct tensor_view *freqs = weights_tensor_find(model->weights, "rope_freqs.weight");
    assistant_put(&writer, freqs->name, 1, (const uint64_t[]){(uint64_t)freqs->dim[0]},
                  tensor_bytes(model->weights, freqs));
    for (int i = 0; i < a.n_tensors; i++) {
        const struct assistant_tensor *t = &a.tensor[i];
        const uint64_t dims[2] = {(uint64_t)t->cols, (uint64_t)t->rows};
        assistant_put(&writer, t->name, t->rows ? 2 : 1, dims, t->data);
    }
    a.folder = data_folder_make();
    assistant_write(&writer, a.folder.path, "assistant.gguf", a.path);
    if (is_echo || window > 0) assistant_write_model(&a, model->weights, a.window);
    rn_model_close(model);
    return a;
}

static inline struct assistant assistant_make(const char *name, bool is_echo) {
    return assistant_make_with(name, is_echo, 0);
}

static inline void assistant_remove(struct assistant *a) {
    for (int i = 0; i < a->n_tensors; i++) free(a->tensor[i].data);
    data_folder_remove(&a->folder);
}

// The model with its assistant.
static inline rn_model *assistant_open(const struct assistant *a) {
    rn_model *model;
    rn_error err = {0};
    check(rn_model_open(a->model_path, &model, &err) == RN_OK, "%s", err.message);
    check(rn_model_attach(model, a->path, &err) == RN_OK, "%s", err.message);
    return model;
}

#endif
