// Gemma 1: embeddings scaled by the root of the width, GELU, a head tied to the embedding.
#include <math.h>

#include "model/arch.h"

void gemma_scales(struct hparams *hp, int n_layer_largest) {
    hp->embd_scale = sqrtf((float)hp->n_embd);
    if (hp->n_layer == n_layer_largest)
        hp->attn_scale = 1.0f / sqrtf((float)(hp->n_embd / hp->n_head));
}

static rn_status gemma_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    gemma_scales(hp, 0); // no model of the first kind differs
    return hparams_decoder(hp, weights, ROPE_HALVES, 0, err);
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
