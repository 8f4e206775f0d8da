// The metadata of a synthetic model, as a GGUF file would have them. Called by synthetic.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/synthetic_maker.h"

enum { N_CTX = 131072, N_BYTE_TOKENS = 256 };

bool maker_has_block(const struct maker *m) {
    const struct latent *latent = latent_of(m->shape);
    const struct sparse *sparse = sparse_of(m->shape);
    return m->shape->flags & SHAPE_DELTA || (latent && latent->has_block) ||
           (sparse && sparse->has_block);
}

void maker_no_memory(struct maker *m) {
    m->status = err_set(m->err, RN_ERR_NOMEM, "%s: out of memory", m->weights->name);
}

static void put(struct maker *m, struct meta_view meta, const void *data) {
    if (m->status) return;
    struct arena *arena = &m->weights->arena;
    void *copy = arena_alloc(arena, (size_t)meta.bytes);
    const char *key = arena_strdup(arena, meta.key, strlen(meta.key));
    struct meta_view *slot = copy && key ? store_meta_push(&m->weights->metas) : NULL;
    if (!slot) {
        maker_no_memory(m);
        return;
    }
    memcpy(copy, data, (size_t)meta.bytes);
    meta.key = key;
    meta.data = copy;
    *slot = meta;
}

static void put_string(struct maker *m, const char *key, const char *value) {
    const size_t len = strlen(value);
    put(m, (struct meta_view){.key = key, .type = META_STRING, .count = len, .bytes = len}, value);
}

// Under "<arch>.<suffix>".
static void put_number(struct maker *m, const char *suffix, enum meta_type type,
                       const void *value) {
    char key[128];
    snprintf(key, sizeof key, "%s.%s", m->shape->arch, suffix);
    put(m, (struct meta_view){.key = key, .type = type, .count = 1, .bytes = 4}, value);
}

static void put_u32(struct maker *m, const char *suffix, int value) {
    put_number(m, suffix, META_U32, &value);
}

static void put_f32(struct maker *m, const char *suffix, float value) {
    put_number(m, suffix, META_F32, &value);
}

// A number for each layer: `value` where the letter is one of `letters`, else 0.
static void put_layers(struct maker *m, const char *suffix, const char *letters, int value) {
    const char *layers = pattern_of(m->shape)->layers;
    uint32_t items[64];
    char key[128];
    const size_t n = strlen(layers);
    for (size_t i = 0; i < n; i++) items[i] = strchr(letters, layers[i]) ? (uint32_t)value : 0;
    snprintf(key, sizeof key, "%s.%s", m->shape->arch, suffix);
    put(m,
        (struct meta_view){.key = key,
                           .type = META_ARRAY,
                           .item_type = META_U32,
                           .count = n,
                           .bytes = n * sizeof *items},
        items);
}

static void put_pattern(struct maker *m, const struct pattern *p) {
    const struct shape *s = m->shape;
    put_layers(m, "attention.head_count_kv", "*", s->n_head_kv);
    put_layers(m, "feed_forward_length", pattern_is_single(p) ? "-" : "MC*", s->n_ff);
    if (strchr(p->layers, 'C')) put_u32(m, "shortconv.l_cache", p->taps);
    if (p->n_ff_shared) put_u32(m, "expert_shared_feed_forward_length", p->n_ff_shared);
    if (p->n_head == 0) return;
    put_u32(m, "ssm.conv_kernel", p->taps);
    put_u32(m, "ssm.state_size", p->n_state);
    put_u32(m, "ssm.group_count", p->n_group);
    put_u32(m, "ssm.time_step_rank", p->n_head);
    put_u32(m, "ssm.inner_size", p->n_head * p->dim);
}

// Items of 4 bytes, or bools.
static void put_list(struct maker *m, const char *suffix, enum meta_type type, const void *items,
                     int n) {
    char key[128];
    snprintf(key, sizeof key, "%s.%s", m->shape->arch, suffix);
    put(m,
        (struct meta_view){.key = key,
                           .type = META_ARRAY,
                           .item_type = type,
                           .count = (uint64_t)n,
                           .bytes = (uint64_t)n * (type == META_BOOL ? 1 : 4)},
        items);
}

static void put_gemma(struct maker *m, const struct gemma *g) {
    const struct shape *s = m->shape;
    uint32_t heads[64], width[64];
    uint8_t is_local[64];
    for (int i = 0; i < s->n_layer; i++) {
        is_local[i] = gemma_is_windowed(g, i);
        heads[i] = (uint32_t)(is_local[i] ? s->n_head_kv : g->full_kv);
        width[i] = (uint32_t)gemma_ff(s, g, i);
    }
    put_list(m, "attention.head_count_kv", META_U32, heads, s->n_layer);
    put_list(m, "feed_forward_length", META_U32, width, s->n_layer);
    put_list(m, "attention.sliding_window_pattern", META_BOOL, is_local, s->n_layer);
    put_u32(m, "attention.sliding_window", g->window);
    put_u32(m, "attention.shared_kv_layers", g->shared);
    put_u32(m, "attention.key_length_swa", s->head_dim);
    put_u32(m, "attention.value_length_swa", s->head_dim);
    put_u32(m, "embedding_length_per_layer_input", g->n_input);
    put_f32(m, "final_logit_softcapping", 30);
}

static void put_expert_scale(struct maker *m, float scale) {
    const uint32_t yes = 1;
    char key[64];
    snprintf(key, sizeof key, "%s.expert_weights_norm", m->shape->arch);
    put(m, (struct meta_view){.key = key, .type = META_BOOL, .count = 1, .bytes = 1}, &yes);
    put_f32(m, "expert_weights_scale", scale);
}

static void put_sparse(struct maker *m, const struct sparse *sparse) {
    put_u32(m, "leading_dense_block_count", sparse->n_dense);
    put_u32(m, "expert_shared_count", sparse->n_shared);
    put_u32(m, "expert_gating_func", 2);
    put_expert_scale(m, sparse->scale);
    if (sparse->has_block) put_u32(m, "nextn_predict_layers", 1);
}

static void put_latent(struct maker *m, const struct latent *t) {
    const struct shape *s = m->shape;
    const int n_rot = latent_rotated(s), rank = s->head_dim - n_rot;
    char key[64];
    put_u32(m, "attention.key_length", s->head_dim);
    put_u32(m, "attention.value_length", rank);
    put_u32(m, "attention.kv_lora_rank", rank);
    if (t->n_q) put_u32(m, "attention.q_lora_rank", t->n_q);
    put_u32(m, "attention.key_length_mla", t->nope + n_rot);
    put_u32(m, "attention.value_length_mla", t->value);
    put_u32(m, "rope.dimension_count", n_rot);
    put_u32(m, "leading_dense_block_count", t->n_dense);
    put_u32(m, "expert_shared_count", t->n_shared);
    put_u32(m, "expert_gating_func", t->scale > 0 ? 2 : 1);
    put_u32(m, "nextn_predict_layers", t->has_block);
    if (t->n_group) put_u32(m, "expert_group_count", t->n_group);
    if (t->n_group) put_u32(m, "expert_group_used_count", t->n_group_used);
    if (t->scale > 0) {
        put_expert_scale(m, t->scale);
        return;
    }
    snprintf(key, sizeof key, "%s.rope.scaling.type", s->arch);
    put_string(m, key, "yarn");
    put_f32(m, "rope.scaling.factor", 40);
    put_u32(m, "rope.scaling.original_context_length", 4096);
    put_f32(m, "rope.scaling.yarn_log_multiplier", 0.0707f);
}

static void put_hparams(struct maker *m) {
    const struct shape *s = m->shape;
    const struct latent *latent = latent_of(s);
    const struct delta *delta = delta_of(s);
    const struct pattern *p = pattern_of(s);
    const struct gemma *gemma = gemma_of(s);
    const struct sparse *sparse = sparse_of(s);
    const int dim = gemma ? 2 * s->head_dim : s->head_dim;
    const int n_ff = latent ? latent->n_ff : sparse ? sparse->n_ff : s->n_ff;
    put_u32(m, "block_count", s->n_layer + maker_has_block(m));
    put_u32(m, "context_length", N_CTX);
    put_u32(m, "embedding_length", s->n_embd);
    if (!p && !gemma) put_u32(m, "feed_forward_length", n_ff);
    put_u32(m, "attention.head_count", s->n_head);
    if (!p && !gemma) put_u32(m, "attention.head_count_kv", s->n_head_kv);
    if (latent) put_latent(m, latent);
    if (!latent) put_u32(m, "attention.key_length", dim);
    if (!latent) put_u32(m, "attention.value_length", dim);
    if (!latent) put_u32(m, "rope.dimension_count", delta ? dim / 4 : sparse ? sparse->n_rot : dim);
    put_f32(m, "rope.freq_base", s->rope_base);
    put_f32(m, "attention.layer_norm_rms_epsilon", 1e-5f);
    if (s->n_expert) {
        put_u32(m, "expert_count", s->n_expert);
        put_u32(m, "expert_used_count", s->n_expert_used);
        put_u32(m, "expert_feed_forward_length", s->n_ff);
    }
    if (delta) {
        put_u32(m, "nextn_predict_layers", 1);
        put_u32(m, "full_attention_interval", DELTA_INTERVAL);
        put_u32(m, "ssm.conv_kernel", DELTA_TAPS);
        put_u32(m, "ssm.state_size", delta->dim);
        put_u32(m, "ssm.group_count", delta->n_key);
        put_u32(m, "ssm.time_step_rank", delta->n_value);
        put_u32(m, "ssm.inner_size", delta->n_value * delta->dim);
        if (s->n_expert) put_u32(m, "expert_shared_feed_forward_length", s->n_ff);
    }
    if (sparse) put_sparse(m, sparse);
    if (p) put_pattern(m, p);
    if (gemma) put_gemma(m, gemma);
    if (s->flags & SHAPE_OSS) {
        char key[64];
        snprintf(key, sizeof key, "%s.rope.scaling.type", s->arch);
        put_string(m, key, "yarn");
        put_f32(m, "rope.scaling.factor", 32);
        put_u32(m, "rope.scaling.original_context_length", 4096);
        put_u32(m, "attention.sliding_window", 128);
    }
}

// The token's text in the byte-level alphabet of gpt-2: one for each byte, then made-up words.
// Bytes that do not print are numbered from U+0100 in their order. Without merges a prompt has as
// many tokens as bytes.
static int token_text(int id, int *n_hidden, char out[16]) {
    if (id >= N_BYTE_TOKENS) return snprintf(out, 16, "\xc4\xa0w%d", id); // U+0120 is a space
    const bool prints = (id > 32 && id < 127) || (id > 160 && id != 173);
    const int code = prints ? id : 256 + (*n_hidden)++;
    if (code < 128) return snprintf(out, 16, "%c", code);
    return snprintf(out, 16, "%c%c", 0xc0 | code >> 6, 0x80 | (code & 0x3f));
}

static void put_vocab(struct maker *m) {
    const int n = m->shape->n_vocab;
    uint8_t *items = malloc((size_t)n * (8 + 16));
    size_t bytes = 0;
    int n_hidden = 0;
    if (!items) {
        maker_no_memory(m);
        return;
    }
    for (int id = 0; id < n; id++) {
        char text[16];
        const uint64_t len = (uint64_t)token_text(id, &n_hidden, text);
        memcpy(items + bytes, &len, sizeof len);
        memcpy(items + bytes + sizeof len, text, (size_t)len);
        bytes += sizeof len + (size_t)len;
    }
    put(m,
        (struct meta_view){.key = "tokenizer.ggml.tokens",
                           .type = META_ARRAY,
                           .item_type = META_STRING,
                           .count = (uint64_t)n,
                           .bytes = bytes},
        items);
    free(items);
    put_string(m, "tokenizer.ggml.model", "gpt2");
}

void maker_put_keys(struct maker *m) {
    char name[96];
    snprintf(name, sizeof name, "synthetic %s %s", m->shape->name, m->mix.name);
    put_string(m, "general.architecture", m->shape->arch);
    put_string(m, "general.name", name);
    put_hparams(m);
    put_vocab(m);
}
