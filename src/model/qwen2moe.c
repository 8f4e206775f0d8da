// Qwen 2 with experts: biases of q, k and v, small experts beside a shared one with a gate of its
// own. Weights are those of the softmax over all experts.
#include "model/blocks.h"
#include "model/hf_rows.h"
#include "model/qwen35.h"

static rn_status qwen2moe_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    rn_status s;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    hparams_plain_weights(hp, weights);
    for (int i = 0; i < hp->n_layer; i++) hp->layer[i].needs_shared_gate = true;
    return qwen35_experts(hp, weights, err);
}

static const struct hf_key qwen2moe_keys[] = {
    {"moe_intermediate_size", NULL, "expert_feed_forward_length", HF_INT, 1, 1 << 24, 1408,
     HF_NUMBER(n_ff_expert), 0},
    {"shared_expert_intermediate_size", NULL, "expert_shared_feed_forward_length", HF_INT, 1,
     1 << 24, 5632, 0, 0},
    {"norm_topk_prob", NULL, "expert_weights_norm", HF_BOOL, 0, 1, false, 0, 0},
    {0},
};

// Experts in every layer.
static const struct hf_setting qwen2moe_settings[] = {
    {"use_sliding_window", 0, 0, "false"},
    {"decoder_sparse_step", 1, 1, "1"},
    {"mlp_only_layers", 0, 0, "[]"},
    {0},
};

static const struct hf_class qwen2moe_classes[] = {
    {
        .name = "Qwen2MoeForCausalLM",
        .model_type = "qwen2_moe",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_experts, qwen2moe_keys, hf_keys_kv},
        .settings = qwen2moe_settings,
        .activation = &hf_silu,
        .rope = {.theta = 10000},
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_experts,
                    qwen35_tensors_shared},
    },
    {0},
};

const struct arch arch_qwen2moe = {
    .name = "qwen2moe",
    .read = qwen2moe_read,
    .layer = layer_llama,
    .build = stack_build,
    .classes = qwen2moe_classes,
};
