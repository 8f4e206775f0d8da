// Nemotron-H with experts: feed-forward layers choose experts by sigmoids with a bias, and have an
// expert of all tokens. No expert has a gate.
#include "model/nemotron_h.h"

static rn_status nemotron_h_moe_read(struct hparams *hp, const struct weights *weights,
                                     rn_error *err) {
    rn_status s;
    if ((s = hparams_refuse(weights, "moe_latent_size", "a narrower width of experts", err)))
        return s;
    if ((s = nemotron_h_read(hp, weights, err))) return s;
    return hparams_need_experts(hp, weights, err);
}

static const struct hf_key nemotron_h_moe_keys[] = {
    {"n_routed_experts", "num_local_experts", "expert_count", HF_INT, 1, 65536, HF_REQUIRED,
     HF_NUMBER(n_expert), 0},
    {"num_experts_per_tok", NULL, "expert_used_count", HF_INT, 1, 65536, HF_REQUIRED,
     HF_NUMBER(n_expert_used), 0},
    {"moe_intermediate_size", NULL, "expert_feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff_expert), 0},
    {"moe_shared_expert_intermediate_size", NULL, "expert_shared_feed_forward_length", HF_INT, 1,
     1 << 24, HF_REQUIRED, 0, 0},
    {"n_shared_experts", NULL, "expert_shared_count", HF_INT, 1, 1, 1, 0, 0},
    {"norm_topk_prob", NULL, "expert_weights_norm", HF_BOOL, 0, 1, true, 0, 0},
    {"routed_scaling_factor", NULL, "expert_weights_scale", HF_FLOAT, HF_POSITIVE, 1, 0, 0},
    {"n_group", NULL, "expert_group_count", HF_INT, 1, 65536, 1, 0, 0},
    {"topk_group", NULL, "expert_group_used_count", HF_INT, 1, 65536, 1, 0, 0},
    {0},
};

static const struct hf_tensor nemotron_h_moe_tensors[] = {
    {"layers.#.mixer.gate.weight", "blk.#.ffn_gate_inp.weight", hf_map_view},
    {"layers.#.mixer.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias", hf_map_view},
    {"layers.#.mixer.experts.#.up_proj.weight", "blk.#.ffn_up_exps.weight", hf_map_expert},
    {"layers.#.mixer.experts.#.down_proj.weight", "blk.#.ffn_down_exps.weight", hf_map_expert},
    {"layers.#.mixer.experts.up_proj", "blk.#.ffn_up_exps.weight", hf_map_view},
    {"layers.#.mixer.experts.down_proj", "blk.#.ffn_down_exps.weight", hf_map_experts_down},
    {"layers.#.mixer.shared_experts.up_proj.weight", "blk.#.ffn_up_shexp.weight", hf_map_view},
    {"layers.#.mixer.shared_experts.down_proj.weight", "blk.#.ffn_down_shexp.weight", hf_map_view},
    {0},
};

static void nemotron_h_moe_config(struct hf_config *c) {
    nemotron_h_put(c, "moe_intermediate_size");
}

static const struct hf_class nemotron_h_moe_classes[] = {
    {
        .name = "NemotronHForCausalLM",
        .model_type = "nemotron_h",
        .is_for = nemotron_h_has_experts,
        .keys = {nemotron_h_keys, nemotron_h_moe_keys},
        .settings = nemotron_h_settings,
        .activation = &nemotron_h_activation,
        .head_dim = 128,
        .read = nemotron_h_moe_config,
        .tensors = {mamba_tensors_frame, mamba_tensors_mixer, nemotron_h_tensors,
                    nemotron_h_moe_tensors},
    },
    {0},
};

const struct arch arch_nemotron_h_moe = {
    .name = "nemotron_h_moe",
    .is_hybrid = true,
    .read = nemotron_h_moe_read,
    .layer = nemotron_h_layer,
    .build = stack_build,
    .classes = nemotron_h_moe_classes,
};
