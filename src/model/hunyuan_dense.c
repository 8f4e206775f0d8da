// Hunyuan without experts: Llama whose q and k are rotated first and then normed head by head. The
// base of rope is scaled for long contexts by a number alpha.
#include "base/rmath.h"
#include "model/hunyuan.h"

static rn_status hunyuan_dense_read(struct hparams *hp, const struct weights *weights,
                                    rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

void hunyuan_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_rope(b, l, qkv);
    block_norm_heads(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    block_feed_forward_shared(b, l, block_norm(b, NORM_RMS, "ffn_norm"), GATE_SILU);
}

// theta alpha^(d / (d - 2)), which a GGUF file has as its base.
double hunyuan_base(struct hf_config *c, double theta) {
    const double alpha = hf_number(c, &c->rope, "alpha", 1e-3, 1e6, 0), d = (double)c->head_dim;
    if (alpha == 0 || d <= 2) return theta;
    return theta * rmath_exp_double(rmath_log(alpha) * d / (d - 2));
}

// "dynamic" with an alpha is the scaled base, and nothing else.
static void scaling_dynamic(struct hf_config *c, double theta) {
    (void)theta;
    if (c->status == RN_OK && !hf_has(c, &c->rope, "alpha"))
        hf_fail(c, RN_ERR_UNSUPPORTED, "rope scaling: type \"dynamic\" without alpha");
}

const struct hf_scaling hunyuan_scalings[] = {
    {"dynamic", scaling_dynamic},
    {0},
};

static const struct hf_setting hunyuan_settings[] = {
    {"use_qk_norm", 1, 1, "true"},
    {"use_cla", 0, 0, "false"}, // layers that share keys and values
    {"position_embedding_xdrope", 0, 0, "false"},
    {0},
};

const struct hf_tensor hunyuan_tensors[] = {
    {"layers.#.self_attn.query_layernorm.weight", "blk.#.attn_q_norm.weight", hf_map_view},
    {"layers.#.self_attn.key_layernorm.weight", "blk.#.attn_k_norm.weight", hf_map_view},
    {0},
};

static const struct hf_class hunyuan_classes[] = {
    {
        .name = "HunYuanDenseV1ForCausalLM",
        .model_type = "hunyuan_v1_dense",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .settings = hunyuan_settings,
        .activation = &hf_silu,
        .rope = {.theta = 10000, .scalings = hunyuan_scalings, .base = hunyuan_base},
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hunyuan_tensors, hf_tensors_mlp},
    },
    {0},
};

const struct arch arch_hunyuan_dense = {
    .name = "hunyuan-dense",
    .read = hunyuan_dense_read,
    .layer = hunyuan_layer,
    .build = stack_build,
    .classes = hunyuan_classes,
};
