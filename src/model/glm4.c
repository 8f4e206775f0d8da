// GLM-4 of 2025: norms before and behind both blocks, biases of q, k and v, gate and up in one
// matrix. Half of each head is rotated, in interleaved pairs.
#include "model/blocks.h"
#include "model/hf_rows.h"

// Files of models that read images have sections of positions, and other pairs.
static rn_status glm4_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_INTERLEAVED};
    rn_status s;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_refuse_experts(hp, weights, err))) return s;
    if ((s = hparams_refuse(weights, "nextn_predict_layers", "a block that predicts further tokens",
                            err)))
        return s;
    if (!hparams_has(weights, "rope.dimension_sections")) return RN_OK;
    return hparams_fail(weights, "rope.dimension_sections", err,
                        "is not supported: such files order q and k in another way");
}

static void glm4_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_rope(b, l, qkv);
    block_add_normed(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output", "post_attention_norm");
    const int h = block_norm(b, NORM_RMS, "ffn_norm");
    block_add_normed(b, block_gated_fused(b, l, h, GATE_SILU), "ffn_down", "post_ffw_norm");
}

static const struct hf_key glm4_keys[] = {
    {"num_key_value_heads", NULL, "attention.head_count_kv", HF_INT, 1, 1 << 16, 2,
     HF_NUMBER(n_head_kv), 0},
    {0},
};

// The norm before the feed-forward is named as that behind the attention is elsewhere.
static const struct hf_tensor glm4_tensors[] = {
    {"layers.#.post_self_attn_layernorm.weight", "blk.#.post_attention_norm.weight", hf_map_view},
    {"layers.#.post_mlp_layernorm.weight", "blk.#.post_ffw_norm.weight", hf_map_view},
    {"layers.#.mlp.gate_up_proj.weight", "blk.#.ffn_up.weight", hf_map_view},
    {"layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", hf_map_view},
    {0},
};

static const struct hf_class glm4_classes[] = {
    {
        .name = "Glm4ForCausalLM",
        .model_type = "glm4",
        .keys = {hf_keys_size, hf_keys_decoder, glm4_keys},
        .activation = &hf_silu,
        .rope = {.theta = 10000, .is_partial = true, .part = 0.5},
        .head_dim = 128,
        .tensors = {hf_tensors_decoder, hf_tensors_norms, glm4_tensors},
    },
    {0},
};

const struct arch arch_glm4 = {
    .name = "glm4",
    .read = glm4_read,
    .layer = glm4_layer,
    .build = stack_build,
    .classes = glm4_classes,
};
