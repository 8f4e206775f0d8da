// The text part of Qwen 3 VL: Qwen 3, with a tower that reads images beside it. The positions of
// text are the same in every section of rope, so sections change nothing. The tower's results enter
// the first layers (deepstack); text has none.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status qwen3vl_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

static const struct hf_tensor qwen3vl_tensors[] = {
    {"visual.*", NULL, hf_map_left_out},
    {0},
};

#define QWEN3VL_CLASS                                                                              \
    .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv}, .activation = &hf_silu,                   \
    .rope = {.theta = 500000}, .head_dim = 128,                                                    \
    .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_qk_norms, hf_tensors_mlp,         \
                qwen3vl_tensors}

static const struct hf_class qwen3vl_classes[] = {
    {.name = "Qwen3VLForConditionalGeneration", .model_type = "qwen3_vl", QWEN3VL_CLASS},
    {0},
};

const struct arch arch_qwen3vl = {
    .name = "qwen3vl",
    .read = qwen3vl_read,
    .layer = layer_qwen3,
    .build = stack_build,
    .classes = qwen3vl_classes,
};
