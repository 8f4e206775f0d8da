// OLMo 2: no norms before the blocks but after them; q and k normed over their whole projections.
#include "model/arch.h"

static rn_status olmo2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    return hparams_decoder(hp, weights, ROPE_HALVES, 0, err);
}

const struct arch arch_olmo2 = {
    .name = "olmo2",
    .read = olmo2_read,
    .decoder =
        {
            .attn_post_norm = "post_attention_norm",
            .ffn_post_norm = "post_ffw_norm",
            .qk_norm = QK_NORM_ALL,
            .gate = GATE_SILU,
        },
};
