// Gemma 2: norms before and after both blocks, soft caps on scores and logits, every other layer
// with a window, the first one included. The oldest files say neither caps nor window.
#include "model/gemma.h"

static rn_status gemma2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES,
                                              .attn_softcap = 50,
                                              .logit_softcap = 30,
                                              .window = 4096,
                                              .window_period = 2};
    gemma_scales(hp, 46);
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

static void gemma2_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_rope(b, l, qkv);
    block_add_normed(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output", "post_attention_norm");
    const int h = block_norm(b, NORM_RMS, "ffn_norm");
    block_add_normed(b, block_gated(b, l, h, GATE_GELU), "ffn_down", "post_ffw_norm");
}

// Here null is not the same as missing: it takes the cap away, which GGUF says by 0.
static void read_cap(struct hf_config *c, const char *key, double fallback) {
    const bool is_null = hf_find(c, &c->root, key).text && !hf_has(c, &c->root, key);
    hf_put_f32(c, key, hf_number(c, &c->root, key, HF_POSITIVE, is_null ? 0 : fallback));
}

static void gemma2_read_config(struct hf_config *c) {
    gemma_read_scale(c);
    read_cap(c, "attn_logit_softcapping", 50);
    read_cap(c, "final_logit_softcapping", 30);
}

static const struct hf_class gemma2_classes[] = {
    {
        .name = "Gemma2ForCausalLM",
        .model_type = "gemma2",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .settings = gemma_settings,
        .activation = &gemma_gelu,
        .window = {.mark = hf_window_alternate, .is_always = true},
        .rope = {.theta = 10000},
        .head_dim = 256,
        .is_tied = true,
        .read = gemma2_read_config,
        .tensors = {hf_tensors_decoder, gemma_sandwich_norms, hf_tensors_mlp},
    },
    {0},
};

const struct arch arch_gemma2 = {
    .name = "gemma2",
    .read = gemma2_read,
    .layer = gemma2_layer,
    .build = stack_build,
    .classes = gemma2_classes,
};
