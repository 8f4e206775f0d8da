// Gemma 3: as Gemma 2 with norms of q and k instead of soft caps; five layers with a window to one
// without, which has its own rope base.
#include <math.h>

#include "model/arch.h"

static rn_status gemma3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = hparams_rms(hp, weights, err))) return s;
    if ((s = hparams_rope(hp, weights, err))) return s;
    hp->rope.style = ROPE_HALVES;
    hp->rope.base_local = 10000;
    if ((s = hparams_float(weights, "rope.freq_base_swa", 1, 1e12, false, &hp->rope.base_local,
                           err)))
        return s;
    hp->embd_scale = sqrtf((float)hp->n_embd);
    if ((s = hparams_float(weights, "attention.scale", 1e-6, 1e3, false, &hp->attn_scale, err)))
        return s;
    if ((s = hparams_float(weights, "final_logit_softcapping", 0, 1e6, false, &hp->logit_softcap,
                           err)))
        return s;
    return hparams_window(hp, weights, 6, err);
}

static void gemma3_build(struct builder *b) {
    static const struct decoder decoder = {
        .attn_norm = "attn_norm",
        .attn_post_norm = "post_attention_norm",
        .ffn_norm = "ffn_norm",
        .ffn_post_norm = "post_ffw_norm",
        .gate = GATE_GELU,
        .qk_norm = QK_NORM_HEAD,
    };
    decoder_build(b, &decoder);
}

const struct arch arch_gemma3 = {.name = "gemma3", .read = gemma3_read, .build = gemma3_build};
