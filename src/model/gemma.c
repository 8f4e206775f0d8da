// Gemma 1: embeddings scaled by the root of the width, GELU, a head tied to the embedding.
#include <math.h>

#include "model/arch.h"

static rn_status gemma_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    hp->embd_scale = sqrtf((float)hp->n_embd);
    return hparams_decoder(hp, weights, ROPE_HALVES, 0, err);
}

rn_status gemma_scale_read(struct hparams *hp, const struct weights *weights, int n_layer_largest,
                           rn_error *err) {
    if (hp->n_layer == n_layer_largest)
        hp->attn_scale = 1.0f / sqrtf((float)(hp->n_embd / hp->n_head));
    return hparams_float(weights, "attention.scale", 1e-6, 1e3, false, &hp->attn_scale, err);
}

const struct arch arch_gemma = {
    .name = "gemma",
    .read = gemma_read,
    .decoder =
        {
            .attn_norm = "attn_norm",
            .ffn_norm = "ffn_norm",
            .gate = GATE_GELU,
        },
};
