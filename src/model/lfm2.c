// LFM2: short convolutions between gates in most layers, attention with norms of q and k in the
// others.
#include "model/lfm2.h"

rn_status lfm2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    rn_status s;
    int taps = 0;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_int(weights, "shortconv.l_cache", 2, PLAN_MAX_TAPS, true, &taps, err)))
        return s;
    if ((s = hparams_need_ff(hp, weights, err))) return s;
    for (int i = 0; i < hp->n_layer; i++)
        if (hp->layer[i].n_head_kv == 0)
            hp->layer[i].recurrence = (struct recurrence){.taps = taps, .n_channel = hp->n_embd};
    return RN_OK;
}

void lfm2_layer(struct builder *b, const struct layer *l) {
    const int h = block_norm(b, NORM_RMS, "attn_norm");
    if (l->recurrence.taps > 0) {
        block_add(b, block_short_conv(b, l, h), "shortconv.out_proj");
    } else {
        const struct qkv qkv = block_qkv(b, l, h);
        block_norm_heads(b, l, qkv);
        block_rope(b, l, qkv);
        block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    }
    block_feed_forward(b, l, block_norm(b, NORM_RMS, "ffn_norm"), GATE_SILU);
}

void lfm2_build(struct builder *b) {
    stack_embed(b);
    stack_layers(b);
    stack_head_named(b, NORM_RMS, "token_embd_norm");
}

const struct hf_key lfm2_keys[] = {
    {"num_attention_heads", "num_heads", "attention.head_count", HF_INT, 1, 1 << 16, HF_REQUIRED,
     HF_NUMBER(n_head), 0},
    {"norm_eps", "block_norm_eps", "attention.layer_norm_rms_epsilon", HF_FLOAT, 0, 1, 1e-5, 0, 0},
    {"conv_L_cache", NULL, "shortconv.l_cache", HF_INT, 2, PLAN_MAX_TAPS, 3, 0, 0},
    {0},
};

const struct hf_setting lfm2_settings[] = {
    {"conv_bias", 0, 0, "false"},
    {0},
};

// Layers with attention are named by type, or by index in older configs.
void lfm2_layers(struct hf_config *c) {
    static const char *const names[] = {"conv", "full_attention", NULL};
    uint8_t type[HF_MAX_LAYER] = {0};
    int64_t index[HF_MAX_LAYER];
    if (!hf_layer_types(c, names, type)) {
        const int64_t n = hf_ints(c, "full_attn_idxs", c->n_layer - 1, index, c->n_layer);
        for (int64_t i = 0; i < n; i++) type[index[i]] = 1;
    }
    const int64_t heads = hf_int(c, &c->root, "num_key_value_heads", 1, 1 << 16, c->n_head);
    uint32_t *layers = hf_layers_new(c);
    if (!layers) return;
    for (int64_t i = 0; i < c->n_layer; i++) layers[i] = type[i] ? (uint32_t)heads : 0;
    hf_put_u32s(c, "attention.head_count_kv", layers, c->n_layer);
}

// The width that the config states may be that before a Llama of old adjusts it.
static int64_t adjusted_width(struct hf_config *c) {
    const char *key = hf_has(c, &c->root, "block_ff_dim") ? "block_ff_dim" : "intermediate_size";
    int64_t n = hf_int(c, &c->root, key, 1, 1 << 24, 0);
    if (c->status == RN_OK && n == 0) hf_fail(c, RN_ERR_MODEL, "%s is missing", key);
    if (!hf_bool(c, &c->root, "block_auto_adjust_ff_dim", true)) return n;
    n = 2 * n / 3;
    const double factor = hf_number(c, &c->root, "block_ffn_dim_multiplier", 1e-3, 1e3, 1);
    const int64_t unit = hf_int(c, &c->root, "block_multiple_of", 1, 1 << 20, 256);
    n = (int64_t)(factor * (double)n);
    return (n + unit - 1) / unit * unit;
}

static void lfm2_config(struct hf_config *c) {
    lfm2_layers(c);
    hf_put_u32(c, "feed_forward_length", adjusted_width(c));
}

const struct hf_tensor lfm2_tensors[] = {
    {"embedding_norm.weight", "token_embd_norm.weight", hf_map_view},
    {"layers.#.operator_norm.weight", "blk.#.attn_norm.weight", hf_map_view},
    {"layers.#.ffn_norm.weight", "blk.#.ffn_norm.weight", hf_map_view},
    {"layers.#.self_attn.out_proj.weight", "blk.#.attn_output.weight", hf_map_view},
    {"layers.#.self_attn.q_layernorm.weight", "blk.#.attn_q_norm.weight", hf_map_view},
    {"layers.#.self_attn.k_layernorm.weight", "blk.#.attn_k_norm.weight", hf_map_view},
    {"layers.#.conv.in_proj.weight", "blk.#.shortconv.in_proj.weight", hf_map_view},
    {"layers.#.conv.out_proj.weight", "blk.#.shortconv.out_proj.weight", hf_map_view},
    {"layers.#.conv.conv.weight", "blk.#.shortconv.conv.weight", hf_map_taps},
    {"layers.#.feed_forward.w1.weight", "blk.#.ffn_gate.weight", hf_map_view},
    {"layers.#.feed_forward.w2.weight", "blk.#.ffn_down.weight", hf_map_view},
    {"layers.#.feed_forward.w3.weight", "blk.#.ffn_up.weight", hf_map_view},
    {0},
};

static const struct hf_class lfm2_classes[] = {
    {
        .name = "Lfm2ForCausalLM",
        .model_type = "lfm2",
        .keys = {hf_keys_size, lfm2_keys},
        .settings = lfm2_settings,
        .activation = &hf_silu,
        .rope = {.theta = 1e6},
        .is_tied = true,
        .read = lfm2_config,
        .tensors = {hf_tensors_decoder, lfm2_tensors},
    },
    {0},
};

const struct arch arch_lfm2 = {
    .name = "lfm2",
    .is_hybrid = true,
    .read = lfm2_read,
    .layer = lfm2_layer,
    .build = lfm2_build,
    .classes = lfm2_classes,
};
