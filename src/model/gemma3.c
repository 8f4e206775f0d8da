// Gemma 3: as Gemma 2 with norms of q and k instead of soft caps; five layers with a window to one
// without, which has its own rope base.
#include "model/gemma.h"

static rn_status gemma3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES,
                                              .rope_base_local = 10000,
                                              .window_period = 6};
    gemma_scales(hp, 62);
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

static void gemma3_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_norm_heads(b, l, qkv);
    block_rope(b, l, qkv);
    block_add_normed(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output", "post_attention_norm");
    const int h = block_norm(b, NORM_RMS, "ffn_norm");
    block_add_normed(b, block_gated(b, l, h, GATE_GELU), "ffn_down", "post_ffw_norm");
}

const struct arch arch_gemma3 = {
    .name = "gemma3",
    .read = gemma3_read,
    .layer = gemma3_layer,
    .build = stack_build,
};
