// Qwen 3 with experts: many small ones in every layer.
#include "model/blocks.h"

static rn_status qwen3moe_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES, .window_period = 1};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_need_experts(hp, weights, err);
}

static void qwen3moe_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_norm_heads(b, l, qkv);
    block_rope(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    block_experts(b, l, block_norm(b, NORM_RMS, "ffn_norm"), GATE_SILU);
}

const struct arch arch_qwen3moe = {
    .name = "qwen3moe",
    .read = qwen3moe_read,
    .layer = qwen3moe_layer,
    .build = stack_build,
};
