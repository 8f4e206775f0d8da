// gpt-oss: experts with biases and a clamped SwiGLU, attention sinks, every other layer with a
// window (the first one included), yarn.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status gpt_oss_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES, .window_period = 2};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_need_experts(hp, weights, err);
}

// Files that were made of OpenAI's own checkpoint have q, k and v in one tensor.
static void gpt_oss_layer(struct builder *b, const struct layer *l) {
    const int in = block_norm(b, NORM_RMS, "attn_norm");
    const struct qkv qkv =
        bind_present(b, "attn_qkv") ? block_qkv_fused(b, l, in) : block_qkv(b, l, in);
    block_rope(b, l, qkv);
    const int sinks = bind_vector(b, "attn_sinks", l->n_head);
    block_add(b, block_attend(b, l, qkv, sinks), "attn_output");
    block_experts(b, l, block_norm(b, NORM_RMS, "post_attention_norm"), GATE_SWIGLU_OAI);
}

static const struct hf_key gpt_oss_keys[] = {
    {"intermediate_size", NULL, "expert_feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff_expert), 0},
    {0},
};

static const struct hf_setting gpt_oss_settings[] = {
    {"swiglu_limit", 7, 7, "7.0"},
    {0},
};

static const struct hf_tensor gpt_oss_tensors[] = {
    {"norm.weight", "output_norm.weight", hf_map_view},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", hf_map_view},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", hf_map_view},
    {"layers.#.self_attn.sinks", "blk.#.attn_sinks.weight", hf_map_view},
    {"layers.#.mlp.router.weight", "blk.#.ffn_gate_inp.weight", hf_map_view},
    {"layers.#.mlp.router.bias", "blk.#.ffn_gate_inp.bias", hf_map_view},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_@_exps.weight", hf_map_turns_gate_up},
    {"layers.#.mlp.experts.gate_up_proj_bias", "blk.#.ffn_@_exps.bias", hf_map_turns_bias},
    {"layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", hf_map_turns_down},
    {"layers.#.mlp.experts.down_proj_bias", "blk.#.ffn_down_exps.bias", hf_map_view},
    {"layers.#.mlp.experts.gate_up_proj_blocks", "blk.#.ffn_@_exps.weight", hf_map_mxfp4_gate_up},
    {"layers.#.mlp.experts.down_proj_blocks", "blk.#.ffn_down_exps.weight", hf_map_mxfp4_down},
    {"layers.#.mlp.experts.gate_up_proj_scales", NULL, hf_map_mxfp4_scales},
    {"layers.#.mlp.experts.down_proj_scales", NULL, hf_map_mxfp4_scales},
    {0},
};

static const struct hf_class gpt_oss_classes[] = {
    {
        .name = "GptOssForCausalLM",
        .model_type = "gpt_oss",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_experts, gpt_oss_keys, hf_keys_kv},
        .settings = gpt_oss_settings,
        .activation = &hf_silu,
        .quant_method = "mxfp4",
        .window = {.mark = hf_window_alternate},
        .rope = {.theta = 150000},
        .head_dim = 64,
        .tensors = {hf_tensors_decoder, gpt_oss_tensors},
    },
    {0},
};

const struct arch arch_gpt_oss = {
    .name = "gpt-oss",
    .read = gpt_oss_read,
    .layer = gpt_oss_layer,
    .build = stack_build,
    .classes = gpt_oss_classes,
};
