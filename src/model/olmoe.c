// OLMoE: norms of q and k over their whole width, many small experts. Weights are those of the
// softmax over all experts.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status olmoe_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    rn_status s;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    hparams_plain_weights(hp, weights);
    if ((s = hparams_router(hp, weights, ROUTE_SOFTMAX, err))) return s;
    return hparams_need_experts(hp, weights, err);
}

static const struct hf_key olmoe_keys[] = {
    {"norm_topk_prob", NULL, "expert_weights_norm", HF_BOOL, 0, 1, false, 0, 0},
    {0},
};

static const struct hf_setting olmoe_settings[] = {
    {"clip_qkv", 0, 0, "null"},
    {0},
};

static const struct hf_class olmoe_classes[] = {
    {
        .name = "OlmoeForCausalLM",
        .model_type = "olmoe",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_experts, olmoe_keys, hf_keys_kv},
        .settings = olmoe_settings,
        .activation = &hf_silu,
        .rope = {.theta = 10000},
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_qk_norms, hf_tensors_experts},
    },
    {0},
};

const struct arch arch_olmoe = {
    .name = "olmoe",
    .read = olmoe_read,
    .layer = layer_olmoe,
    .build = stack_build,
    .classes = olmoe_classes,
};
