// OLMo 2: no norms before the blocks but after them; q and k normed over their whole projections.
#include "model/blocks.h"

static rn_status olmo2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

static void olmo2_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_stream(b));
    block_norm_qk(b, l, qkv);
    block_rope(b, l, qkv);
    block_add_normed(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output", "post_attention_norm");
    block_add_normed(b, block_gated(b, l, block_stream(b), GATE_SILU), "ffn_down", "post_ffw_norm");
}

const struct arch arch_olmo2 = {
    .name = "olmo2",
    .read = olmo2_read,
    .layer = olmo2_layer,
    .build = stack_build,
};
