// ERNIE 4.5 without experts: Llama, whose pairs of rope are neighbours in folders too.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status ernie4_5_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_INTERLEAVED};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

// Positions are divided by it in the code that came with the first folders.
static const struct hf_setting ernie4_5_settings[] = {
    {"compression_ratio", 1, 1, "1"},
    {0},
};

#define ERNIE4_5_CLASS                                                                             \
    .model_type = "ernie4_5", .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},                 \
    .settings = ernie4_5_settings, .activation = &hf_silu, .rope = {.theta = 500000},              \
    .head_dim = 128, .is_tied = true,                                                              \
    .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_mlp, hf_tensors_mlp_bias}

// The first folders spell the class with one more underscore.
static const struct hf_class ernie4_5_classes[] = {
    {.name = "Ernie4_5ForCausalLM", ERNIE4_5_CLASS},
    {.name = "Ernie4_5_ForCausalLM", ERNIE4_5_CLASS},
    {0},
};

const struct arch arch_ernie4_5 = {
    .name = "ernie4_5",
    .read = ernie4_5_read,
    .layer = layer_llama,
    .build = stack_build,
    .classes = ernie4_5_classes,
};
