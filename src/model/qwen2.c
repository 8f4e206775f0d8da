// Qwen 2 and 2.5: as Llama, with biases on q, k and v and rope in halves.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status qwen2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES, .window_period = 1};
    return hparams_decoder(hp, weights, &defaults, err);
}

static const struct hf_class qwen2_classes[] = {
    {
        .name = "Qwen2ForCausalLM",
        .model_type = "qwen2",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .activation = &hf_silu,
        .window = {.mark = hf_window_upper, .flag = "use_sliding_window"},
        .rope = {.theta = 10000},
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_mlp},
    },
    {0},
};

const struct arch arch_qwen2 = {
    .name = "qwen2",
    .read = qwen2_read,
    .layer = layer_llama,
    .build = stack_build,
    .classes = qwen2_classes,
};
