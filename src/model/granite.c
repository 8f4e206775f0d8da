// Granite: Llama with multipliers on the embedding, the scores, the residual additions and the
// logits.
#include "model/arch.h"

static rn_status granite_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    float logits = 1;
    if ((s = hparams_decoder(hp, weights, ROPE_INTERLEAVED, 0, err))) return s;
    if ((s = hparams_float(weights, "embedding_scale", 1e-6, 1e6, false, &hp->embd_scale, err)))
        return s;
    if ((s = hparams_float(weights, "residual_scale", 1e-6, 1e6, false, &hp->residual_scale, err)))
        return s;
    if ((s = hparams_float(weights, "logit_scale", 1e-6, 1e6, false, &logits, err))) return s;
    hp->logit_scale = 1.0f / logits;
    return RN_OK;
}

const struct arch arch_granite = {
    .name = "granite",
    .read = granite_read,
    .decoder =
        {
            .attn_norm = "attn_norm",
            .ffn_norm = "ffn_norm",
            .gate = GATE_SILU,
        },
};
