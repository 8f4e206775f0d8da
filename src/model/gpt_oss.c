// gpt-oss: experts with biases and a clamped SwiGLU, attention sinks, every other layer with a
// window (the first one included), yarn.
#include "model/arch.h"

static rn_status gpt_oss_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = hparams_rms(hp, weights, err))) return s;
    if ((s = hparams_rope(hp, weights, err))) return s;
    hp->rope.style = ROPE_HALVES;
    if ((s = hparams_experts(hp, weights, err))) return s;
    if (hp->n_expert == 0)
        return err_set(err, RN_ERR_MODEL, "%s: key gpt-oss.expert_count is missing or 0",
                       weights_name(weights));
    return hparams_window(hp, weights, 2, err);
}

static void gpt_oss_build(struct builder *b) {
    static const struct decoder decoder = {
        .attn_norm = "attn_norm",
        .ffn_norm = "post_attention_norm",
        .gate = GATE_SWIGLU_OAI,
        .sinks = true,
    };
    decoder_build(b, &decoder);
}

const struct arch arch_gpt_oss = {.name = "gpt-oss", .read = gpt_oss_read, .build = gpt_oss_build};
