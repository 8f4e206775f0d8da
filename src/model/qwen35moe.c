// Qwen 3.5 with experts: a softmax over many small ones, and a shared one with a gate.
#include "model/qwen35.h"

static rn_status qwen35moe_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const rn_status s = qwen35_hybrid(hp, weights, true, err);
    return s ? s : qwen35_experts(hp, weights, err);
}

const struct hf_key qwen35_keys_heads[] = {
    {"num_attention_heads", NULL, "attention.head_count", HF_INT, 1, 1 << 16, 16, HF_NUMBER(n_head),
     0},
    {"num_key_value_heads", NULL, "attention.head_count_kv", HF_INT, 1, 1 << 16, 2,
     HF_NUMBER(n_head_kv), 0},
    {"rms_norm_eps", NULL, "attention.layer_norm_rms_epsilon", HF_FLOAT, 0, 1, 1e-6, 0, 0},
    {0},
};

const struct hf_key qwen35_keys_experts[] = {
    {"moe_intermediate_size", NULL, "expert_feed_forward_length", HF_INT, 1, 1 << 24, 512,
     HF_NUMBER(n_ff_expert), 0},
    {"shared_expert_intermediate_size", NULL, "expert_shared_feed_forward_length", HF_INT, 1,
     1 << 24, 512, 0, 0},
    {"norm_topk_prob", NULL, "expert_weights_norm", HF_BOOL, 0, 1, true, 0, 0},
    {0},
};

const struct hf_setting qwen35_settings_experts[] = {
    {"attn_output_gate", 1, 1, "true"},
    {"decoder_sparse_step", 1, 1, "1"},
    {"mlp_only_layers", 0, 0, "[]"},
    {0},
};

const struct hf_tensor qwen35_tensors_shared[] = {
    {"layers.#.mlp.shared_expert.gate_proj.weight", "blk.#.ffn_gate_shexp.weight", hf_map_view},
    {"layers.#.mlp.shared_expert.up_proj.weight", "blk.#.ffn_up_shexp.weight", hf_map_view},
    {"layers.#.mlp.shared_expert.down_proj.weight", "blk.#.ffn_down_shexp.weight", hf_map_view},
    {"layers.#.mlp.shared_expert_gate.weight", "blk.#.ffn_gate_inp_shexp.weight", hf_map_view},
    {0},
};

#define QWEN35MOE_CLASS                                                                            \
    .keys = {hf_keys_size, qwen35_keys_heads, hf_keys_experts, qwen35_keys_experts,                \
             qwen35_keys_state},                                                                   \
    .settings = qwen35_settings_experts, .activation = &hf_silu,                                   \
    .rope = {.theta = 1e7, .is_partial = true, .part = 0.25}, .head_dim = 256,                     \
    .read = qwen35_config,                                                                         \
    .tensors = {hf_tensors_decoder, qwen35_tensors, hf_tensors_experts, qwen35_tensors_shared}

static const struct hf_class qwen35moe_classes[] = {
    {.name = "Qwen3_5MoeForCausalLM", .model_type = "qwen3_5_moe_text", QWEN35MOE_CLASS},
    {.name = "Qwen3_5MoeForConditionalGeneration", .model_type = "qwen3_5_moe", QWEN35MOE_CLASS},
    {0},
};

const struct arch arch_qwen35moe = {
    .name = "qwen35moe",
    .is_hybrid = true,
    .has_nextn = true,
    .read = qwen35moe_read,
    .layer = qwen35_layer,
    .build = stack_build,
    .classes = qwen35moe_classes,
};
