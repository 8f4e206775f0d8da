// Granite: Llama with multipliers on the embedding, the scores, the residual additions and the
// logits.
#include "model/granite.h"

#include "model/blocks.h"
#include "model/hf_rows.h"

rn_status granite_read_scales(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    float logits = 1;
    if ((s = hparams_float(weights, "embedding_scale", 1e-6, 1e6, false, &hp->embd_scale, err)))
        return s;
    if ((s = hparams_float(weights, "residual_scale", 1e-6, 1e6, false, &hp->residual_scale, err)))
        return s;
    if ((s = hparams_float(weights, "logit_scale", 1e-6, 1e6, false, &logits, err))) return s;
    hp->logit_scale = 1.0f / logits;
    return RN_OK;
}

static rn_status granite_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_INTERLEAVED};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : granite_read_scales(hp, weights, err);
}

const struct hf_key granite_keys[] = {
    {"attention_multiplier", NULL, "attention.scale", HF_FLOAT, HF_POSITIVE, 1, 0, 0},
    {"embedding_multiplier", NULL, "embedding_scale", HF_FLOAT, HF_POSITIVE, 1, 0, 0},
    {"residual_multiplier", NULL, "residual_scale", HF_FLOAT, HF_POSITIVE, 1, 0, 0},
    {"logits_scaling", NULL, "logit_scale", HF_FLOAT, HF_POSITIVE, 1, 0, 0},
    {0},
};

static const struct hf_class granite_classes[] = {
    {
        .name = "GraniteForCausalLM",
        .model_type = "granite",
        .keys = {hf_keys_size, hf_keys_decoder, granite_keys, hf_keys_kv},
        .activation = &hf_silu,
        .rope = {.theta = 10000, .is_permuted = true},
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_mlp, hf_tensors_mlp_bias},
    },
    {0},
};

const struct arch arch_granite = {
    .name = "granite",
    .read = granite_read,
    .layer = layer_llama,
    .build = stack_build,
    .classes = granite_classes,
};
