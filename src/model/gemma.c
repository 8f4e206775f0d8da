// Gemma 1: embeddings scaled by the root of the width, GELU, a head tied to the embedding.
#include <math.h>

#include "model/arch.h"

static rn_status gemma_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = hparams_rms(hp, weights, err))) return s;
    if ((s = hparams_rope(hp, weights, err))) return s;
    hp->rope.style = ROPE_HALVES;
    hp->embd_scale = sqrtf((float)hp->n_embd);
    return RN_OK;
}

static void gemma_build(struct builder *b) {
    static const struct decoder decoder = {
        .attn_norm = "attn_norm",
        .ffn_norm = "ffn_norm",
        .gate = GATE_GELU,
    };
    decoder_build(b, &decoder);
}

const struct arch arch_gemma = {.name = "gemma", .read = gemma_read, .build = gemma_build};
