// GPT-2: learned positions, layer norms, biases everywhere, GELU without a gate.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status gpt2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    return hparams_float(weights, "attention.layer_norm_epsilon", 0, 1, true, &hp->norm_eps, err);
}

static void gpt2_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv_fused(b, l, block_norm(b, NORM_LAYER, "attn_norm"));
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    const int h = block_norm(b, NORM_LAYER, "ffn_norm");
    block_add(b, block_plain(b, l, h, GATE_GELU), "ffn_down");
}

static void gpt2_build(struct builder *b) {
    stack_embed(b);
    build_positions(b, block_stream(b), "position_embd");
    stack_layers(b);
    stack_head(b, NORM_LAYER);
}

static const struct hf_key gpt2_keys[] = {
    {"num_attention_heads", "n_head", "attention.head_count", HF_INT, 1, 1 << 16, HF_REQUIRED,
     HF_NUMBER(n_head), 0},
    {"layer_norm_epsilon", NULL, "attention.layer_norm_epsilon", HF_FLOAT, 0, 1, 1e-5, 0, 0},
    {0},
};

static void gpt2_read_config(struct hf_config *c) {
    c->n_ff = hf_int(c, &c->root, "n_inner", 1, 1 << 24, 4 * c->n_embd);
    hf_put_u32(c, "feed_forward_length", c->n_ff);
}

static const struct hf_setting gpt2_settings[] = {
    {"scale_attn_weights", 1, 1, "true"},
    {"scale_attn_by_inverse_layer_idx", 0, 0, "false"},
    {"add_cross_attention", 0, 0, "false"},
    {0},
};

static const struct hf_activation gpt2_gelu = {
    "activation_function",
    {"gelu_new", "gelu_pytorch_tanh", "gelu_tanh"},
    "the tanh form of gelu",
};

static const struct hf_tensor gpt2_tensors[] = {
    {"wte.weight", "token_embd.weight", hf_map_view},
    {"wpe.weight", "position_embd.weight", hf_map_view},
    {"ln_f.weight", "output_norm.weight", hf_map_view},
    {"ln_f.bias", "output_norm.bias", hf_map_view},
    {"lm_head.weight", "output.weight", hf_map_head},
    {"h.#.ln_1.weight", "blk.#.attn_norm.weight", hf_map_view},
    {"h.#.ln_1.bias", "blk.#.attn_norm.bias", hf_map_view},
    {"h.#.ln_2.weight", "blk.#.ffn_norm.weight", hf_map_view},
    {"h.#.ln_2.bias", "blk.#.ffn_norm.bias", hf_map_view},
    {"h.#.attn.c_attn.weight", "blk.#.attn_qkv.weight", hf_map_transposed},
    {"h.#.attn.c_attn.bias", "blk.#.attn_qkv.bias", hf_map_view},
    {"h.#.attn.c_proj.weight", "blk.#.attn_output.weight", hf_map_transposed},
    {"h.#.attn.c_proj.bias", "blk.#.attn_output.bias", hf_map_view},
    {"h.#.mlp.c_fc.weight", "blk.#.ffn_up.weight", hf_map_transposed},
    {"h.#.mlp.c_fc.bias", "blk.#.ffn_up.bias", hf_map_view},
    {"h.#.mlp.c_proj.weight", "blk.#.ffn_down.weight", hf_map_transposed},
    {"h.#.mlp.c_proj.bias", "blk.#.ffn_down.bias", hf_map_view},
    {"h.#.attn.bias", NULL, hf_map_ignore},
    {"h.#.attn.masked_bias", NULL, hf_map_ignore},
    {0},
};

static const struct hf_class gpt2_classes[] = {
    {
        .name = "GPT2LMHeadModel",
        .model_type = "gpt2",
        .keys = {hf_keys_size, gpt2_keys},
        .settings = gpt2_settings,
        .activation = &gpt2_gelu,
        .is_tied = true,
        .read = gpt2_read_config,
        .tensors = {gpt2_tensors},
    },
    {0},
};

const struct arch arch_gpt2 = {
    .name = "gpt2",
    .read = gpt2_read,
    .layer = gpt2_layer,
    .build = gpt2_build,
    .classes = gpt2_classes,
};
