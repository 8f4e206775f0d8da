// gpt-oss: experts with biases and a clamped SwiGLU, attention sinks, every other layer with a
// window (the first one included), yarn.
#include "model/arch.h"

static rn_status gpt_oss_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const rn_status s = hparams_decoder(hp, weights, ROPE_HALVES, 2, err);
    if (s) return s;
    return hparams_need_experts(hp, weights, err);
}

const struct arch arch_gpt_oss = {
    .name = "gpt-oss",
    .read = gpt_oss_read,
    .decoder =
        {
            .attn_norm = "attn_norm",
            .ffn_norm = "post_attention_norm",
            .gate = GATE_SWIGLU_OAI,
            .sinks = true,
        },
};
