// Gemma 2: norms before and after both blocks, soft caps on scores and logits, every other layer
// with a window, the first one included. The oldest files say neither caps nor window.
#include "model/gemma.h"

static rn_status gemma2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES,
                                              .attn_softcap = 50,
                                              .logit_softcap = 30,
                                              .window = 4096,
                                              .window_period = 2};
    gemma_scales(hp, 46);
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

static void gemma2_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_rope(b, l, qkv);
    block_add_normed(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output", "post_attention_norm");
    const int h = block_norm(b, NORM_RMS, "ffn_norm");
    block_add_normed(b, block_gated(b, l, h, GATE_GELU), "ffn_down", "post_ffw_norm");
}

const struct arch arch_gemma2 = {
    .name = "gemma2",
    .read = gemma2_read,
    .layer = gemma2_layer,
    .build = stack_build,
};
