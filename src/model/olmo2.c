// OLMo 2 and 3: no norms before the blocks but after them; q and k normed over their whole
// projections. OLMo 3 is a file with a window, in three of four layers. These layers are rotated
// without the scaling of the others.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status olmo2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES,
                                              .is_local_unscaled = true,
                                              .window_period = 4};
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

static const struct hf_class olmo2_classes[] = {
    {
        .name = "Olmo2ForCausalLM",
        .model_type = "olmo2",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .activation = &hf_silu,
        .rope = {.theta = 10000},
        .tensors = {hf_tensors_decoder, hf_tensors_norms_behind, hf_tensors_qk_norms,
                    hf_tensors_mlp},
    },
    {
        .name = "Olmo3ForCausalLM",
        .model_type = "olmo3",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .activation = &hf_silu,
        .window = {.mark = hf_window_period, .size = 4096, .period = 4},
        .rope = {.theta = 500000},
        .tensors = {hf_tensors_decoder, hf_tensors_norms_behind, hf_tensors_qk_norms,
                    hf_tensors_mlp},
    },
    {0},
};

const struct arch arch_olmo2 = {
    .name = "olmo2",
    .read = olmo2_read,
    .layer = olmo2_layer,
    .build = stack_build,
    .classes = olmo2_classes,
};
