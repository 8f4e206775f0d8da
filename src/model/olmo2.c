// OLMo 2: no norms before the blocks but after them; q and k normed over their whole projections.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status olmo2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

static void olmo2_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_stream(b));
    block_norm_qk(b, l, qkv);
    block_rope(b, l, qkv);
    block_add_normed(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output", "post_attention_norm");
    block_add_normed(b, block_gated(b, l, block_stream(b), GATE_SILU), "ffn_down", "post_ffw_norm");
}

static const struct hf_tensor olmo2_norms[] = {
    {"norm.weight", "output_norm.weight", hf_map_view},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", hf_map_view},
    {"layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight", hf_map_view},
    {0},
};

static const struct hf_class olmo2_classes[] = {
    {
        .name = "Olmo2ForCausalLM",
        .model_type = "olmo2",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .activation = &hf_silu,
        .rope = {.theta = 10000},
        .tensors = {hf_tensors_decoder, olmo2_norms, hf_tensors_qk_norms, hf_tensors_mlp},
    },
    {0},
};

const struct arch arch_olmo2 = {
    .name = "olmo2",
    .read = olmo2_read,
    .layer = olmo2_layer,
    .build = stack_build,
    .classes = olmo2_classes,
};
