// EXAONE 4: norms behind the blocks alone; q and k are normed head by head. The 32B model has a
// window in three of four layers, and rotates only these; a model without windows rotates all.
#include "model/blocks.h"
#include "model/hf_rows.h"

enum { LAYERS_32B = 64, WINDOW_32B = 4096 };

// The first files of the 32B model do not tell the window.
static rn_status exaone4_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {
        .rope_style = ROPE_HALVES,
        .window = hp->n_layer == LAYERS_32B ? WINDOW_32B : 0,
        .window_period = 4,
    };
    bool has_window = false;
    rn_status s;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_refuse_experts(hp, weights, err))) return s;
    if ((s = hparams_refuse(weights, "nextn_predict_layers", "a block that predicts further tokens",
                            err)))
        return s;
    for (int i = 0; i < hp->n_layer; i++) has_window = has_window || hp->layer[i].window > 0;
    if (has_window) hparams_rope_windows(hp);
    return RN_OK;
}

static void exaone4_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_stream(b));
    block_norm_heads(b, l, qkv);
    block_rope(b, l, qkv);
    block_add_normed(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output", "post_attention_norm");
    block_add_normed(b, block_gated(b, l, block_stream(b), GATE_SILU), "ffn_down", "post_ffw_norm");
}

static const struct hf_class exaone4_classes[] = {
    {
        .name = "Exaone4ForCausalLM",
        .model_type = "exaone4",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .activation = &hf_silu,
        .window = {.mark = hf_window_period, .size = 4096, .period = 4, .is_always = true},
        .rope = {.theta = 10000},
        .tensors = {hf_tensors_decoder, hf_tensors_norms_behind, hf_tensors_qk_norms,
                    hf_tensors_mlp},
    },
    {0},
};

const struct arch arch_exaone4 = {
    .name = "exaone4",
    .read = exaone4_read,
    .layer = exaone4_layer,
    .build = stack_build,
    .classes = exaone4_classes,
};
