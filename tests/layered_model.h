// A small model of an architecture that exists for tests alone. Its layers differ in everything
// that a layer can: heads, head sizes, window, rope, dense or experts. Its layer function is made
// of the blocks of the real architectures. Its weights are a GGUF image in memory, pseudo-random
// and always the same.
//
//   layer   sees  heads  KV heads  size of k, v  rope  feed-forward
//   0       all   4      2         16, 16        0     96
//   1       40    8      1         32, 16        1     4 experts of 48, 2 used
//   2       all   2      2         32, 32        none  160
//   3       40    8      1         32, 16        1     64
//   4       24    4      4         16, 16        none  3 experts of 32, 3 used
//   5       40    6      1         32, 16        1     5 experts of 48, 1 used
#ifndef RN_TESTS_LAYERED_MODEL_H
#define RN_TESTS_LAYERED_MODEL_H

#include <math.h>
#include <stdio.h>

#include "check.h"
#include "gguf_writer.h"
#include "model/blocks.h"

enum { LAYERED_EMBD = 64, LAYERED_CTX = 4096, LAYERED_LAYERS = 6 };

// KV groups, in the plan's order.
enum {
    LAYERED_FULL_NARROW,
    LAYERED_FULL_WIDE,
    LAYERED_WINDOW_40,
    LAYERED_WINDOW_24,
    LAYERED_GROUPS
};

struct layered_model {
    struct model model;
    struct weights *weights;
    uint8_t *image;
};

static const struct layer layered_layers[LAYERED_LAYERS] = {
    {.kind = KV_FULL, .n_head = 4, .n_head_kv = 2, .dim_k = 16, .dim_v = 16, .n_ff = 96},
    {.kind = KV_WINDOW,
     .window = 40,
     .n_head = 8,
     .n_head_kv = 1,
     .dim_k = 32,
     .dim_v = 16,
     .rope = 1,
     .n_expert = 4,
     .n_expert_used = 2,
     .n_ff_expert = 48,
     .normalize_experts = true},
    {.kind = KV_FULL,
     .n_head = 2,
     .n_head_kv = 2,
     .dim_k = 32,
     .dim_v = 32,
     .rope = PLAN_NONE,
     .n_ff = 160},
    {.kind = KV_WINDOW,
     .window = 40,
     .n_head = 8,
     .n_head_kv = 1,
     .dim_k = 32,
     .dim_v = 16,
     .rope = 1,
     .n_ff = 64},
    {.kind = KV_WINDOW,
     .window = 24,
     .n_head = 4,
     .n_head_kv = 4,
     .dim_k = 16,
     .dim_v = 16,
     .rope = PLAN_NONE,
     .n_expert = 3,
     .n_expert_used = 3,
     .n_ff_expert = 32},
    {.kind = KV_WINDOW,
     .window = 40,
     .n_head = 6,
     .n_head_kv = 1,
     .dim_k = 32,
     .dim_v = 16,
     .rope = 1,
     .n_expert = 5,
     .n_expert_used = 1,
     .n_ff_expert = 48},
};

static inline rn_status layered_read(struct hparams *hp, const struct weights *weights,
                                     rn_error *err) {
    (void)weights, (void)err;
    hp->norm_eps = 1e-5f;
    hp->rope[0] = (struct hparams_rope){
        .style = ROPE_HALVES, .n_rot = 16, .base = 10000, .factor = 1, .magnitude = 1};
    hp->rope[1] = (struct hparams_rope){
        .style = ROPE_INTERLEAVED, .n_rot = 32, .base = 500, .factor = 1, .magnitude = 1};
    for (int i = 0; i < hp->n_layer; i++) {
        hp->layer[i] = layered_layers[i % LAYERED_LAYERS];
        hp->layer[i].attn_scale = 1 / sqrtf((float)hp->layer[i].dim_k);
    }
    return RN_OK;
}

static const struct arch layered_arch = {
    .name = "layered",
    .read = layered_read,
    .layer = layer_llama,
    .build = stack_build,
};

// --- the file ---

struct layered_maker {
    struct writer writer;
    uint64_t random;
    int layer; // -1: none
};

static inline void layered_tensor(struct layered_maker *m, const char *name, int cols, int rows,
                                  int experts, float middle, float scale) {
    char full[64];
    snprintf(full, sizeof full, m->layer < 0 ? "%.0d%s.weight" : "blk.%d.%s.weight",
             m->layer < 0 ? 0 : m->layer, name);
    const size_t n = (size_t)cols * (size_t)rows * (size_t)experts;
    const uint64_t dims[3] = {(uint64_t)cols, (uint64_t)rows, (uint64_t)experts};
    float *data = malloc(n * sizeof *data);
    assert_non_null(data);
    for (size_t i = 0; i < n; i++) {
        m->random = m->random * 6364136223846793005u + 1442695040888963407u;
        data[i] = middle + (float)(int32_t)(m->random >> 32) * 0x1p-31f * scale;
    }
    writer_tensor(&m->writer, full,
                  experts > 1 ? 3
                  : rows > 1  ? 2
                              : 1,
                  dims, 0, data, n * sizeof *data);
    free(data);
}

static inline void layered_matrix(struct layered_maker *m, const char *name, int cols, int rows) {
    layered_tensor(m, name, cols, rows, 1, 0, 3 / sqrtf((float)cols));
}

static inline void layered_put_layer(struct layered_maker *m, const struct layer *l) {
    const int n = LAYERED_EMBD;
    layered_tensor(m, "attn_norm", n, 1, 1, 1, 0.25f);
    layered_matrix(m, "attn_q", n, l->n_head * l->dim_k);
    layered_matrix(m, "attn_k", n, l->n_head_kv * l->dim_k);
    layered_matrix(m, "attn_v", n, l->n_head_kv * l->dim_v);
    layered_matrix(m, "attn_output", l->n_head * l->dim_v, n);
    layered_tensor(m, "ffn_norm", n, 1, 1, 1, 0.25f);
    if (l->n_expert) {
        layered_matrix(m, "ffn_gate_inp", n, l->n_expert);
        layered_tensor(m, "ffn_gate_exps", n, l->n_ff_expert, l->n_expert, 0, 0.4f);
        layered_tensor(m, "ffn_up_exps", n, l->n_ff_expert, l->n_expert, 0, 0.4f);
        layered_tensor(m, "ffn_down_exps", l->n_ff_expert, n, l->n_expert, 0, 0.4f);
    } else {
        layered_matrix(m, "ffn_gate", n, l->n_ff);
        layered_matrix(m, "ffn_up", n, l->n_ff);
        layered_matrix(m, "ffn_down", l->n_ff, n);
    }
}

static inline uint8_t *layered_image(int n_vocab, size_t *size) {
    struct layered_maker m = {.writer = writer_begin(3), .random = 5, .layer = -1};
    writer_kv_str(&m.writer, "general.architecture", "layered");
    writer_kv_u32(&m.writer, "layered.block_count", LAYERED_LAYERS);
    writer_kv_u32(&m.writer, "layered.context_length", LAYERED_CTX);
    writer_kv_u32(&m.writer, "layered.embedding_length", LAYERED_EMBD);
    writer_kv_u32(&m.writer, "layered.feed_forward_length", 96);
    writer_kv_u32(&m.writer, "layered.attention.head_count", 4);
    layered_tensor(&m, "token_embd", LAYERED_EMBD, n_vocab, 1, 0, 1);
    layered_tensor(&m, "output_norm", LAYERED_EMBD, 1, 1, 1, 0.25f);
    layered_matrix(&m, "output", LAYERED_EMBD, n_vocab);
    for (m.layer = 0; m.layer < LAYERED_LAYERS; m.layer++)
        layered_put_layer(&m, &layered_layers[m.layer]);
    return writer_finish(&m.writer, size);
}

static inline void layered_open(struct layered_model *layered, int n_vocab) {
    rn_error err = {0};
    size_t size;
    layered->image = layered_image(n_vocab, &size);
    check(!weights_open_memory("layered.gguf", layered->image, size, &layered->weights, &err) &&
              !model_init_arch(&layered->model, &layered_arch, layered->weights, &err),
          "%s", err.message);
}

static inline void layered_close(struct layered_model *layered) {
    model_deinit(&layered->model);
    weights_close(layered->weights);
    free(layered->image);
}

#endif
