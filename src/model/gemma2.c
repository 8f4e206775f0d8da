// Gemma 2: norms before and after both blocks, soft caps on scores and logits, every other layer
// with a window, the first one included. The oldest files say neither caps nor window.
#include "model/arch.h"

static rn_status gemma2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    gemma_scales(hp, 46);
    hp->window = 4096;
    hp->attn_softcap = 50;
    hp->logit_softcap = 30;
    return hparams_decoder(hp, weights, ROPE_HALVES, 2, err);
}

const struct arch arch_gemma2 = {
    .name = "gemma2",
    .read = gemma2_read,
    .decoder =
        {
            .attn_norm = "attn_norm",
            .attn_post_norm = "post_attention_norm",
            .ffn_norm = "ffn_norm",
            .ffn_post_norm = "post_ffw_norm",
            .gate = GATE_GELU,
        },
};
