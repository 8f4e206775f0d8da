// GPT-2: learned positions, layer norms, biases everywhere, GELU without a gate.
#include "model/arch.h"

static rn_status gpt2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    return hparams_float(weights, "attention.layer_norm_epsilon", 0, 1, true, &hp->norm_eps, err);
}

const struct arch arch_gpt2 = {
    .name = "gpt2",
    .read = gpt2_read,
    .decoder =
        {
            .norm = NORM_LAYER,
            .attn_norm = "attn_norm",
            .ffn_norm = "ffn_norm",
            .fused_qkv = true,
            .gate = GATE_GELU,
            .plain_ffn = true,
            .learned_positions = true,
        },
};
