// Phi-3 and Phi-4 mini: q, k, v in one matrix, gate and up in another; rope in halves, long
// contexts by divisors (rope_factors_long, rope_factors_short).
#include "model/arch.h"

static rn_status phi3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    return hparams_decoder(hp, weights, ROPE_HALVES, 1, err);
}

const struct arch arch_phi3 = {
    .name = "phi3",
    .read = phi3_read,
    .decoder =
        {
            .attn_norm = "attn_norm",
            .ffn_norm = "ffn_norm",
            .fused_qkv = true,
            .fused_gate = true,
            .gate = GATE_SILU,
        },
};
