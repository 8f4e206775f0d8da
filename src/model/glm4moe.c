// GLM 4.5 to 4.7: experts by sigmoids with a bias beside a shared one, a first dense layer. Half of
// each head is rotated; some sizes norm q and k. A block behind the layers drafts tokens.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status glm4moe_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    rn_status s;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_router(hp, weights, ROUTE_SIGMOID, err))) return s;
    for (int i = 0; i < hp->n_layer; i++) hp->layer[i].needs_choice_bias = true;
    if ((s = hparams_need_experts(hp, weights, err))) return s;
    return hparams_need_ff(hp, weights, err);
}

// A folder says it; elsewhere the tensor does.
static bool has_qk_norms(struct builder *b) {
    bool has = bind_present(b, "attn_q_norm");
    hparams_bool(b->weights, "attention.qk_norm", &has, NULL);
    return has;
}

static void glm4moe_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    if (has_qk_norms(b)) block_norm_heads(b, l, qkv);
    block_rope(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    const int h = block_norm(b, NORM_RMS, "post_attention_norm");
    block_feed_forward_shared(b, l, h, GATE_SILU);
}

static const struct hf_key glm4moe_keys[] = {
    {"n_routed_experts", "num_local_experts", "expert_count", HF_INT, 1, 65536, HF_REQUIRED,
     HF_NUMBER(n_expert), 0},
    {"num_experts_per_tok", NULL, "expert_used_count", HF_INT, 1, 65536, HF_REQUIRED,
     HF_NUMBER(n_expert_used), 0},
    {"moe_intermediate_size", NULL, "expert_feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff_expert), 0},
    {"n_shared_experts", NULL, "expert_shared_count", HF_INT, 0, 64, 1, 0, 0},
    {"first_k_dense_replace", NULL, "leading_dense_block_count", HF_INT, 0, HF_MAX_LAYER, 1, 0, 0},
    {"norm_topk_prob", NULL, "expert_weights_norm", HF_BOOL, 0, 1, true, 0, 0},
    {"routed_scaling_factor", NULL, "expert_weights_scale", HF_FLOAT, HF_POSITIVE, 1, 0, 0},
    {"n_group", NULL, "expert_group_count", HF_INT, 1, 65536, 1, 0, 0},
    {"topk_group", NULL, "expert_group_used_count", HF_INT, 1, 65536, 1, 0, 0},
    {"use_qk_norm", NULL, "attention.qk_norm", HF_BOOL, 0, 1, false, 0, 0},
    {0},
};

static void glm4moe_config(struct hf_config *c) {
    c->n_nextn = hf_int(c, &c->root, "num_nextn_predict_layers", 0, HF_MAX_LAYER, 0);
}

static const struct hf_tensor glm4moe_tensors[] = {
    {"norm.weight", "output_norm.weight", hf_map_view},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", hf_map_view},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", hf_map_view},
    {"layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", hf_map_view},
    {"layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", hf_map_view},
    {0},
};

static const struct hf_class glm4moe_classes[] = {
    {
        .name = "Glm4MoeForCausalLM",
        .model_type = "glm4_moe",
        .keys = {hf_keys_size, hf_keys_decoder, glm4moe_keys, hf_keys_kv},
        .activation = &hf_silu,
        .rope = {.theta = 10000, .is_partial = true, .part = 0.5},
        .read = glm4moe_config,
        .tensors = {hf_tensors_decoder, glm4moe_tensors, hf_tensors_mlp, hf_tensors_experts,
                    hf_tensors_shared, hf_tensors_nextn},
    },
    {0},
};

const struct arch arch_glm4moe = {
    .name = "glm4moe",
    .has_nextn = true,
    .read = glm4moe_read,
    .layer = glm4moe_layer,
    .build = stack_build,
    .classes = glm4moe_classes,
};
