// StarCoder 2: layer norms, biases everywhere, GELU without a gate; rope in halves. Published
// folders have a window in every layer. GGUF files do not tell it.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status starcoder2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.norm = NORM_LAYER,
                                              .rope_style = ROPE_HALVES,
                                              .window_period = 1};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

static void starcoder2_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_LAYER, "attn_norm"));
    block_rope(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    const int h = block_norm(b, NORM_LAYER, "ffn_norm");
    block_add(b, block_plain(b, l, h, GATE_GELU), "ffn_down");
}

static void starcoder2_build(struct builder *b) {
    stack_embed(b);
    stack_layers(b);
    stack_head(b, NORM_LAYER);
}

static const struct hf_key starcoder2_keys[] = {
    {"intermediate_size", NULL, "feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff), 0},
    {"num_attention_heads", NULL, "attention.head_count", HF_INT, 1, 1 << 16, HF_REQUIRED,
     HF_NUMBER(n_head), 0},
    {"num_key_value_heads", NULL, "attention.head_count_kv", HF_INT, 1, 1 << 16, 2,
     HF_NUMBER(n_head_kv), 0},
    {"norm_epsilon", NULL, "attention.layer_norm_epsilon", HF_FLOAT, 0, 1, 1e-5, 0, 0},
    {0},
};

static const struct hf_activation starcoder2_gelu = {
    "hidden_act",
    {"gelu_pytorch_tanh", "gelu_new", "gelu_tanh"},
    "the tanh form of gelu",
};

static const struct hf_tensor starcoder2_tensors[] = {
    {"norm.bias", "output_norm.bias", hf_map_view},
    {"layers.#.input_layernorm.bias", "blk.#.attn_norm.bias", hf_map_view},
    {"layers.#.post_attention_layernorm.bias", "blk.#.ffn_norm.bias", hf_map_view},
    {"layers.#.mlp.c_fc.weight", "blk.#.ffn_up.weight", hf_map_view},
    {"layers.#.mlp.c_fc.bias", "blk.#.ffn_up.bias", hf_map_view},
    {"layers.#.mlp.c_proj.weight", "blk.#.ffn_down.weight", hf_map_view},
    {"layers.#.mlp.c_proj.bias", "blk.#.ffn_down.bias", hf_map_view},
    {0},
};

static const struct hf_class starcoder2_classes[] = {
    {
        .name = "Starcoder2ForCausalLM",
        .model_type = "starcoder2",
        .keys = {hf_keys_size, starcoder2_keys},
        .activation = &starcoder2_gelu,
        .window = {.mark = hf_window_all},
        .rope = {.theta = 10000},
        .is_tied = true,
        .tensors = {hf_tensors_decoder, hf_tensors_norms, starcoder2_tensors},
    },
    {0},
};

const struct arch arch_starcoder2 = {
    .name = "starcoder2",
    .read = starcoder2_read,
    .layer = starcoder2_layer,
    .build = starcoder2_build,
    .classes = starcoder2_classes,
};
