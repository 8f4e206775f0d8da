// Gemma 3: as Gemma 2 with norms of q and k instead of soft caps; five layers with a window to one
// without, which has its own rope base.
#include "model/gemma.h"

static rn_status gemma3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES,
                                              .rope_base_local = 10000,
                                              .window_period = 6};
    gemma_scales(hp, 62);
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

static void gemma3_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_norm_heads(b, l, qkv);
    block_rope(b, l, qkv);
    block_add_normed(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output", "post_attention_norm");
    const int h = block_norm(b, NORM_RMS, "ffn_norm");
    block_add_normed(b, block_gated(b, l, h, GATE_GELU), "ffn_down", "post_ffw_norm");
}

// Published configs of the smallest models leave most keys to the class.
static const struct hf_key gemma3_keys[] = {
    {"num_hidden_layers", "n_layer", "block_count", HF_INT, 1, HF_MAX_LAYER, HF_REQUIRED,
     HF_NUMBER(n_layer), 0},
    {"max_position_embeddings", "n_ctx", "context_length", HF_INT, 1, INT32_MAX, 131072,
     HF_NUMBER(n_ctx), 0},
    {"hidden_size", "n_embd", "embedding_length", HF_INT, 1, 1 << 20, HF_REQUIRED,
     HF_NUMBER(n_embd), 0},
    {"intermediate_size", NULL, "feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff), 0},
    {"num_attention_heads", "n_head", "attention.head_count", HF_INT, 1, 1 << 16, 8,
     HF_NUMBER(n_head), 0},
    {"rms_norm_eps", NULL, "attention.layer_norm_rms_epsilon", HF_FLOAT, 0, 1, 1e-6, 0, 0},
    {"final_logit_softcapping", NULL, "final_logit_softcapping", HF_FLOAT, HF_POSITIVE, HF_ABSENT,
     0, 0},
    {"num_key_value_heads", NULL, "attention.head_count_kv", HF_INT, 1, 1 << 16, 4,
     HF_NUMBER(n_head_kv), 0},
    {0},
};

static const struct hf_setting gemma3_settings[] = {
    {"use_bidirectional_attention", 0, 0, "false"},
    {"attn_logit_softcapping", 0, 0, "null"},
    {0},
};

static const struct hf_tensor gemma3_tensors[] = {
    {"layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", hf_map_add_one},
    {"layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", hf_map_add_one},
    {0},
};

#define GEMMA3_CLASS                                                                               \
    .keys = {gemma3_keys}, .settings = gemma3_settings, .activation = &gemma_gelu,                 \
    .window = {.mark = hf_window_period, .period = 6},                                             \
    .rope = {.theta = 1e6, .theta_local = 10000}, .head_dim = 256, .is_tied = true,                \
    .read = gemma_read_scale,                                                                      \
    .tensors = {hf_tensors_decoder, gemma_sandwich_norms, hf_tensors_mlp, gemma3_tensors,          \
                hf_tensors_towers}

static const struct hf_class gemma3_classes[] = {
    {.name = "Gemma3ForCausalLM", .model_type = "gemma3_text", GEMMA3_CLASS},
    {.name = "Gemma3ForConditionalGeneration", .model_type = "gemma3", GEMMA3_CLASS},
    {0},
};

const struct arch arch_gemma3 = {
    .name = "gemma3",
    .read = gemma3_read,
    .layer = gemma3_layer,
    .build = stack_build,
    .classes = gemma3_classes,
};
