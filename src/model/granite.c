// Granite: Llama with multipliers on the embedding, the scores, the residual additions and the
// logits.
#include "model/blocks.h"

static rn_status granite_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_INTERLEAVED};
    rn_status s;
    float logits = 1;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_float(weights, "embedding_scale", 1e-6, 1e6, false, &hp->embd_scale, err)))
        return s;
    if ((s = hparams_float(weights, "residual_scale", 1e-6, 1e6, false, &hp->residual_scale, err)))
        return s;
    if ((s = hparams_float(weights, "logit_scale", 1e-6, 1e6, false, &logits, err))) return s;
    hp->logit_scale = 1.0f / logits;
    return hp->residual_scale == 1 ? RN_OK : hparams_refuse_experts(hp, weights, err);
}

const struct arch arch_granite = {
    .name = "granite",
    .read = granite_read,
    .layer = layer_llama,
    .build = stack_build,
};
