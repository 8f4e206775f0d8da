// OLMo 2: no norms before the blocks but after them; q and k normed over their whole projections.
#include "model/arch.h"

static rn_status olmo2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = hparams_rms(hp, weights, err))) return s;
    if ((s = hparams_rope(hp, weights, err))) return s;
    hp->rope.style = ROPE_HALVES;
    return RN_OK;
}

static void olmo2_build(struct builder *b) {
    static const struct decoder decoder = {
        .attn_post_norm = "post_attention_norm",
        .ffn_post_norm = "post_ffw_norm",
        .qk_norm = QK_NORM_ALL,
        .gate = GATE_SILU,
    };
    decoder_build(b, &decoder);
}

const struct arch arch_olmo2 = {.name = "olmo2", .read = olmo2_read, .build = olmo2_build};
