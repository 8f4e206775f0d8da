// Command A and Command R7B: attention and feed-forward read one row, and both add to the stream.
// Norms are layer norms without a bias. Three of four layers have a window and rope; the fourth
// sees everything and is not rotated. A scale multiplies the logits.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status cohere2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.norm = NORM_LAYER_PLAIN,
                                              .rope_style = ROPE_INTERLEAVED,
                                              .window_period = 4};
    rn_status s;
    if (!hparams_has(weights, "attention.sliding_window"))
        return hparams_fail(weights, "attention.sliding_window", err, "is missing");
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_refuse_experts(hp, weights, err))) return s;
    hparams_rope_windows(hp);
    return hparams_float(weights, "logit_scale", 1e-6, 1e6, true, &hp->logit_scale, err);
}

static void cohere2_layer(struct builder *b, const struct layer *l) {
    int h = block_norm(b, NORM_LAYER_PLAIN, "attn_norm");
    const struct qkv qkv = block_qkv(b, l, h);
    block_rope(b, l, qkv);
    block_add(b, block_attend_beside(b, l, qkv, &h), "attn_output");
    block_feed_forward(b, l, h, GATE_SILU);
}

static void cohere2_build(struct builder *b) {
    stack_embed(b);
    stack_layers(b);
    stack_head(b, NORM_LAYER_PLAIN);
}

static const struct hf_key cohere2_keys[] = {
    {"intermediate_size", NULL, "feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff), 0},
    {"num_attention_heads", NULL, "attention.head_count", HF_INT, 1, 1 << 16, HF_REQUIRED,
     HF_NUMBER(n_head), 0},
    {"layer_norm_eps", NULL, "attention.layer_norm_epsilon", HF_FLOAT, 0, 1, 1e-5, 0, 0},
    {"logit_scale", NULL, "logit_scale", HF_FLOAT, HF_POSITIVE, 0.0625, 0, 0},
    {0},
};

// The class reads none of these; a config that says otherwise is of another model.
static const struct hf_setting cohere2_settings[] = {
    {"use_qk_norm", 0, 0, "false"},
    {"use_parallel_block", 1, 1, "true"},
    {"use_gated_activation", 1, 1, "true"},
    {"rotary_pct", 1, 1, "1"},
    {0},
};

static const struct hf_class cohere2_classes[] = {
    {
        .name = "Cohere2ForCausalLM",
        .model_type = "cohere2",
        .keys = {hf_keys_size, cohere2_keys, hf_keys_kv},
        .settings = cohere2_settings,
        .activation = &hf_silu,
        .window = {.mark = hf_window_period, .size = 4096, .period = 4, .is_always = true},
        .rope = {.theta = 10000},
        .is_tied = true,
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_mlp},
    },
    {0},
};

const struct arch arch_cohere2 = {
    .name = "cohere2",
    .read = cohere2_read,
    .layer = cohere2_layer,
    .build = cohere2_build,
    .classes = cohere2_classes,
};
