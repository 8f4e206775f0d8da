// Qwen3-Next: Qwen 3.5's mixture with its value heads in the order of their key heads. Folders and
// old GGUF files have q, k, v and z in one matrix, key head by key head.
#include "model/qwen35.h"

static rn_status qwen3next_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const rn_status s = qwen35_hybrid(hp, weights, false, err);
    return s ? s : qwen35_experts(hp, weights, err);
}

static const struct hf_class qwen3next_classes[] = {
    {
        .name = "Qwen3NextForCausalLM",
        .model_type = "qwen3_next",
        .keys = {hf_keys_size, qwen35_keys_heads, hf_keys_experts, qwen35_keys_experts,
                 qwen35_keys_state},
        .settings = qwen35_settings_experts,
        .activation = &hf_silu,
        .rope = {.theta = 10000, .is_partial = true, .part = 0.25},
        .head_dim = 256,
        .read = qwen35_config,
        .tensors = {hf_tensors_decoder, qwen35_tensors, hf_tensors_experts, qwen35_tensors_shared},
    },
    {0},
};

const struct arch arch_qwen3next = {
    .name = "qwen3next",
    .is_hybrid = true,
    .has_nextn = true,
    .read = qwen3next_read,
    .layer = qwen35_layer,
    .build = stack_build,
    .classes = qwen3next_classes,
};
