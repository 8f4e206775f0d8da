// Phi-3 and Phi-4 mini: q, k, v in one matrix, gate and up in another; rope in halves, long
// contexts by divisors (rope_factors_long, rope_factors_short).
#include "model/blocks.h"

static rn_status phi3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES, .window_period = 1};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

static void phi3_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv_fused(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_rope(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    const int h = block_norm(b, NORM_RMS, "ffn_norm");
    block_add(b, block_gated_fused(b, l, h, GATE_SILU), "ffn_down");
}

const struct arch arch_phi3 = {
    .name = "phi3",
    .read = phi3_read,
    .layer = phi3_layer,
    .build = stack_build,
};
