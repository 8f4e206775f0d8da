// LFM2 with experts: the first layers are dense, the others choose experts by sigmoids with a bias.
#include "model/lfm2.h"

static rn_status lfm2moe_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = lfm2_read(hp, weights, err))) return s;
    if ((s = hparams_router(hp, weights, ROUTE_SIGMOID, err))) return s;
    for (int i = 0; i < hp->n_layer; i++) hp->layer[i].expert_least = 1e-6f;
    if ((s = hparams_need_experts(hp, weights, err))) return s;
    return hparams_need_ff(hp, weights, err); // of the dense layers
}

static const struct hf_key lfm2moe_keys[] = {
    {"intermediate_size", NULL, "feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff), 0},
    {"moe_intermediate_size", NULL, "expert_feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff_expert), 0},
    {"num_dense_layers", NULL, "leading_dense_block_count", HF_INT, 0, HF_MAX_LAYER, 0, 0, 0},
    {"norm_topk_prob", NULL, "expert_weights_norm", HF_BOOL, 0, 1, true, 0, 0},
    {"routed_scaling_factor", NULL, "expert_weights_scale", HF_FLOAT, HF_POSITIVE, 1, 0, 0},
    {0},
};

static const struct hf_tensor lfm2moe_tensors[] = {
    {"layers.#.feed_forward.gate.weight", "blk.#.ffn_gate_inp.weight", hf_map_view},
    {"layers.#.feed_forward.expert_bias", "blk.#.exp_probs_b.bias", hf_map_view},
    {"layers.#.feed_forward.experts.#.w1.weight", "blk.#.ffn_gate_exps.weight", hf_map_expert},
    {"layers.#.feed_forward.experts.#.w2.weight", "blk.#.ffn_down_exps.weight", hf_map_expert},
    {"layers.#.feed_forward.experts.#.w3.weight", "blk.#.ffn_up_exps.weight", hf_map_expert},
    {"layers.#.feed_forward.experts.gate_up_proj", "blk.#.ffn_@_exps.weight",
     hf_map_experts_gate_up},
    {"layers.#.feed_forward.experts.down_proj", "blk.#.ffn_down_exps.weight", hf_map_experts_down},
    {0},
};

static const struct hf_class lfm2moe_classes[] = {
    {
        .name = "Lfm2MoeForCausalLM",
        .model_type = "lfm2_moe",
        .keys = {hf_keys_size, lfm2_keys, hf_keys_experts, lfm2moe_keys},
        .settings = lfm2_settings,
        .activation = &hf_silu,
        .rope = {.theta = 1e6},
        .is_tied = true,
        .read = lfm2_layers,
        .tensors = {hf_tensors_decoder, lfm2_tensors, lfm2moe_tensors},
    },
    {0},
};

const struct arch arch_lfm2moe = {
    .name = "lfm2moe",
    .is_hybrid = true,
    .read = lfm2moe_read,
    .layer = lfm2_layer,
    .build = lfm2_build,
    .classes = lfm2moe_classes,
};
