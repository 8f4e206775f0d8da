// Seed-OSS: Llama with biases of q, k and v; rope in halves.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status seed_oss_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

// The norm before the feed-forward has the name of one behind the attention.
static void seed_oss_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_rope(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    block_feed_forward(b, l, block_norm(b, NORM_RMS, "post_attention_norm"), GATE_SILU);
}

static const struct hf_tensor seed_oss_norms[] = {
    {"norm.weight", "output_norm.weight", hf_map_view},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", hf_map_view},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", hf_map_view},
    {0},
};

static const struct hf_class seed_oss_classes[] = {
    {
        .name = "SeedOssForCausalLM",
        .model_type = "seed_oss",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .activation = &hf_silu,
        .rope = {.theta = 10000},
        .head_dim = 128,
        .tensors = {hf_tensors_decoder, seed_oss_norms, hf_tensors_mlp, hf_tensors_mlp_bias},
    },
    {0},
};

const struct arch arch_seed_oss = {
    .name = "seed_oss",
    .read = seed_oss_read,
    .layer = seed_oss_layer,
    .build = stack_build,
    .classes = seed_oss_classes,
};
