// Gemma 2: norms before and after both blocks, soft caps on scores and logits, every other layer
// with a window, the first one included.
#include <math.h>

#include "model/arch.h"

static rn_status gemma2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = hparams_rms(hp, weights, err))) return s;
    if ((s = hparams_rope(hp, weights, err))) return s;
    hp->rope.style = ROPE_HALVES;
    hp->embd_scale = sqrtf((float)hp->n_embd);
    if ((s = hparams_float(weights, "attention.scale", 1e-6, 1e3, false, &hp->attn_scale, err)))
        return s;
    if ((s = hparams_float(weights, "attn_logit_softcapping", 0, 1e6, false, &hp->attn_softcap,
                           err)))
        return s;
    if ((s = hparams_float(weights, "final_logit_softcapping", 0, 1e6, false, &hp->logit_softcap,
                           err)))
        return s;
    return hparams_window(hp, weights, 2, err);
}

static void gemma2_build(struct builder *b) {
    static const struct decoder decoder = {
        .attn_norm = "attn_norm",
        .attn_post_norm = "post_attention_norm",
        .ffn_norm = "ffn_norm",
        .ffn_post_norm = "post_ffw_norm",
        .gate = GATE_GELU,
    };
    decoder_build(b, &decoder);
}

const struct arch arch_gemma2 = {.name = "gemma2", .read = gemma2_read, .build = gemma2_build};
