// Gemma 3: as Gemma 2 with norms of q and k instead of soft caps; five layers with a window to one
// without, which has its own rope base.
#include "model/arch.h"

static rn_status gemma3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    gemma_scales(hp, 62);
    hp->rope.base_local = 10000;
    return hparams_decoder(hp, weights, ROPE_HALVES, 6, err);
}

const struct arch arch_gemma3 = {
    .name = "gemma3",
    .read = gemma3_read,
    .decoder =
        {
            .attn_norm = "attn_norm",
            .attn_post_norm = "post_attention_norm",
            .ffn_norm = "ffn_norm",
            .ffn_post_norm = "post_ffw_norm",
            .gate = GATE_GELU,
            .qk_norm = QK_NORM_HEAD,
        },
};
