// Gemma 1: embeddings scaled by the root of the width, GELU, a head tied to the embedding.
#include "model/gemma.h"

#include <math.h>

void gemma_scales(struct hparams *hp, int n_layer_largest) {
    struct layer *l = &hp->layer[0];
    hp->embd_scale = sqrtf((float)hp->n_embd);
    if (hp->n_layer == n_layer_largest)
        l->attn_scale = 1.0f / sqrtf((float)(hp->n_embd / l->n_head));
}

static rn_status gemma_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    gemma_scales(hp, 0); // no model of the first kind differs
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

static void gemma_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_rope(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    const int h = block_norm(b, NORM_RMS, "ffn_norm");
    block_add(b, block_gated(b, l, h, GATE_GELU), "ffn_down");
}

const struct hf_activation gemma_gelu = {
    "hidden_activation",
    {"gelu_new", "gelu_pytorch_tanh", "gelu_tanh"},
    "the tanh form of gelu",
};

void gemma_read_scale(struct hf_config *c) {
    const double scalar = hf_number(c, &c->root, "query_pre_attn_scalar", 1e-6, 1e9, 256);
    hf_put_f32(c, "attention.scale", 1 / sqrt(scalar));
}

const struct hf_setting gemma_settings[] = {
    {"use_bidirectional_attention", 0, 0, "false"},
    {0},
};

static const struct hf_tensor gemma_norms[] = {
    {"norm.weight", "output_norm.weight", hf_map_add_one},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", hf_map_add_one},
    {"layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight", hf_map_add_one},
    {0},
};

const struct hf_tensor gemma_sandwich_norms[] = {
    {"norm.weight", "output_norm.weight", hf_map_add_one},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", hf_map_add_one},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight",
     hf_map_add_one},
    {"layers.#.pre_feedforward_layernorm.weight", "blk.#.ffn_norm.weight", hf_map_add_one},
    {"layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight", hf_map_add_one},
    {0},
};

static const struct hf_class gemma_classes[] = {
    {
        .name = "GemmaForCausalLM",
        .model_type = "gemma",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .settings = gemma_settings,
        .activation = &gemma_gelu,
        .rope = {.theta = 10000},
        .head_dim = 256,
        .is_tied = true,
        .tensors = {hf_tensors_decoder, gemma_norms, hf_tensors_mlp},
    },
    {0},
};

const struct arch arch_gemma = {
    .name = "gemma",
    .read = gemma_read,
    .layer = gemma_layer,
    .build = stack_build,
    .classes = gemma_classes,
};
