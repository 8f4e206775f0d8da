// gpt-oss: experts with biases and a clamped SwiGLU, attention sinks, every other layer with a
// window (the first one included), yarn.
#include "model/blocks.h"

static rn_status gpt_oss_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES, .window_period = 2};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_need_experts(hp, weights, err);
}

static void gpt_oss_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_rope(b, l, qkv);
    const int sinks = bind_vector(b, "attn_sinks", l->n_head);
    block_add(b, block_attend(b, l, qkv, sinks), "attn_output");
    block_experts(b, l, block_norm(b, NORM_RMS, "post_attention_norm"), GATE_SWIGLU_OAI);
}

const struct arch arch_gpt_oss = {
    .name = "gpt-oss",
    .read = gpt_oss_read,
    .layer = gpt_oss_layer,
    .build = stack_build,
};
