// Qwen 3: q and k are normed head by head; rope in halves.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status qwen3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES, .window_period = 1};
    return hparams_decoder(hp, weights, &defaults, err);
}

static const struct hf_class qwen3_classes[] = {
    {
        .name = "Qwen3ForCausalLM",
        .model_type = "qwen3",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .activation = &hf_silu,
        .window = {.mark = hf_window_upper, .flag = "use_sliding_window"},
        .rope = {.theta = 10000},
        .head_dim = 128,
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_qk_norms, hf_tensors_mlp},
    },
    {0},
};

const struct arch arch_qwen3 = {
    .name = "qwen3",
    .read = qwen3_read,
    .layer = layer_qwen3,
    .build = stack_build,
    .classes = qwen3_classes,
};
