// GPT-2: learned positions, layer norms, biases everywhere, GELU without a gate.
#include "model/blocks.h"

static rn_status gpt2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    return hparams_float(weights, "attention.layer_norm_epsilon", 0, 1, true, &hp->norm_eps, err);
}

static void gpt2_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv_fused(b, l, block_norm(b, NORM_LAYER, "attn_norm"));
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    const int h = block_norm(b, NORM_LAYER, "ffn_norm");
    block_add(b, block_plain(b, l, h, GATE_GELU), "ffn_down");
}

static void gpt2_build(struct builder *b) {
    stack_embed(b);
    build_positions(b, block_stream(b), "position_embd");
    stack_layers(b);
    stack_head(b, NORM_LAYER);
}

const struct arch arch_gpt2 = {
    .name = "gpt2",
    .read = gpt2_read,
    .layer = gpt2_layer,
    .build = gpt2_build,
};
