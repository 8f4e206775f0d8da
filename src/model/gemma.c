// Gemma 1: embeddings scaled by the root of the width, GELU, a head tied to the embedding.
#include <math.h>

#include "model/arch.h"

static rn_status gemma_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    hp->embd_scale = sqrtf((float)hp->n_embd);
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
