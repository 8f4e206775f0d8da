// Qwen 3 with experts: many small ones in every layer.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status qwen3moe_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES, .window_period = 1};
    rn_status s;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_router(hp, weights, ROUTE_SOFTMAX, err))) return s;
    return hparams_need_experts(hp, weights, err);
}

static const struct hf_key qwen3moe_keys[] = {
    {"moe_intermediate_size", NULL, "expert_feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff_expert), 0},
    {"norm_topk_prob", NULL, "expert_weights_norm", HF_BOOL, 0, 1, false, 0, 0},
    {0},
};

// Experts in every layer.
static const struct hf_setting qwen3moe_settings[] = {
    {"decoder_sparse_step", 1, 1, "1"},
    {"mlp_only_layers", 0, 0, "[]"},
    {0},
};

static const struct hf_class qwen3moe_classes[] = {
    {
        .name = "Qwen3MoeForCausalLM",
        .model_type = "qwen3_moe",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_experts, qwen3moe_keys, hf_keys_kv},
        .settings = qwen3moe_settings,
        .activation = &hf_silu,
        .window = {.mark = hf_window_all, .flag = "use_sliding_window"},
        .rope = {.theta = 10000},
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_qk_norms, hf_tensors_experts},
    },
    {0},
};

const struct arch arch_qwen3moe = {
    .name = "qwen3moe",
    .read = qwen3moe_read,
    .layer = layer_qwen3,
    .build = stack_build,
    .classes = qwen3moe_classes,
};
