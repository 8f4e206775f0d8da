// Phi-3 and Phi-4 mini: q, k, v in one matrix, gate and up in another; rope in halves, long
// contexts by divisors (rope_factors_long, rope_factors_short).
#include "model/arch.h"

static rn_status phi3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = hparams_rms(hp, weights, err))) return s;
    if ((s = hparams_rope(hp, weights, err))) return s;
    hp->rope.style = ROPE_HALVES;
    return hparams_window(hp, weights, 1, err);
}

static void phi3_build(struct builder *b) {
    static const struct decoder decoder = {
        .attn_norm = "attn_norm",
        .ffn_norm = "ffn_norm",
        .fused_qkv = true,
        .fused_gate = true,
        .gate = GATE_SILU,
    };
    decoder_build(b, &decoder);
}

const struct arch arch_phi3 = {.name = "phi3", .read = phi3_read, .build = phi3_build};
