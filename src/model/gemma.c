// Gemma 1: embeddings scaled by the root of the width, GELU, a head tied to the embedding.
#include "model/gemma.h"

#include <math.h>

void gemma_scales(struct hparams *hp, int n_layer_largest) {
    struct layer *l = &hp->layer[0];
    hp->embd_scale = sqrtf((float)hp->n_embd);
    if (hp->n_layer == n_layer_largest)
        l->attn_scale = 1.0f / sqrtf((float)(hp->n_embd / l->n_head));
}

static rn_status gemma_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    gemma_scales(hp, 0); // no model of the first kind differs
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

static void gemma_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_rope(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    const int h = block_norm(b, NORM_RMS, "ffn_norm");
    block_add(b, block_gated(b, l, h, GATE_GELU), "ffn_down");
}

const struct arch arch_gemma = {
    .name = "gemma",
    .read = gemma_read,
    .layer = gemma_layer,
    .build = stack_build,
};
