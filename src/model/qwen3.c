// Qwen 3: q and k are normed head by head; rope in halves.
#include "model/blocks.h"
#include "model/hf_rows.h"

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

static const struct hf_class qwen3_classes[] = {
    {
        .name = "Qwen3ForCausalLM",
        .model_type = "qwen3",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .activation = &hf_silu,
        .window = {.mark = hf_window_upper, .flag = "use_sliding_window"},
        .rope = {.theta = 10000},
        .head_dim = 128,
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_qk_norms, hf_tensors_mlp},
    },
    {0},
};

const struct arch arch_qwen3 = {
    .name = "qwen3",
    .read = qwen3_read,
    .layer = qwen3_layer,
    .build = stack_build,
    .classes = qwen3_classes,
};
