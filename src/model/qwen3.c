// Qwen 3: q and k are normed head by head; rope in halves.
#include "model/blocks.h"

static rn_status qwen3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES, .window_period = 1};
    return hparams_decoder(hp, weights, &defaults, err);
}

static void qwen3_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_norm_heads(b, l, qkv);
    block_rope(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    block_feed_forward(b, l, block_norm(b, NORM_RMS, "ffn_norm"), GATE_SILU);
}

const struct arch arch_qwen3 = {
    .name = "qwen3",
    .read = qwen3_read,
    .layer = qwen3_layer,
    .build = stack_build,
};
