// Qwen 3.5: a gated delta rule in most layers, attention with a gate in every fourth. A file may
// end with blocks that predict further tokens. A folder may have a tower that reads images.
#include "model/qwen35.h"

static rn_status qwen35_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = qwen35_hybrid(hp, weights, true, err))) return s;
    for (int i = 0; i < hp->n_layer; i++)
        if (hp->layer[i].n_ff == 0)
            return hparams_fail(weights, "feed_forward_length", err, "is missing or 0");
    return hparams_refuse_experts(hp, weights, err);
}

void qwen35_layer(struct builder *b, const struct layer *l) {
    int h = block_norm(b, NORM_RMS, "attn_norm");
    if (l->recurrence.taps > 0) {
        block_add(b, block_delta(b, l, h), "ssm_out");
    } else {
        int gate;
        const struct qkv qkv = block_qkv_gated(b, l, h, &gate);
        block_norm_heads(b, l, qkv);
        block_rope(b, l, qkv);
        block_add(b, block_attend_gated(b, l, qkv, gate), "attn_output");
    }
    h = block_norm(b, NORM_RMS, "post_attention_norm");
    block_feed_forward(b, l, h, GATE_SILU);
    if (l->n_expert > 0) block_shared_expert(b, l, h, GATE_SILU, true);
}

// ---------------------------------------------------------------- folders

const struct hf_key qwen35_keys_state[] = {
    {"linear_conv_kernel_dim", NULL, "ssm.conv_kernel", HF_INT, 2, PLAN_MAX_TAPS, 4, 0, 0},
    {"linear_key_head_dim", NULL, "ssm.state_size", HF_INT, 1, KV_DIM_MAX, 128, 0, 0},
    {"linear_num_key_heads", NULL, "ssm.group_count", HF_INT, 1, QWEN35_MAX_HEADS, 16, 0, 0},
    {"linear_num_value_heads", NULL, "ssm.time_step_rank", HF_INT, 1, QWEN35_MAX_HEADS, 32, 0, 0},
    {0},
};

static const struct hf_key qwen35_keys[] = {
    {"intermediate_size", NULL, "feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff), 0},
    {"num_attention_heads", NULL, "attention.head_count", HF_INT, 1, 1 << 16, 16, HF_NUMBER(n_head),
     0},
    {"num_key_value_heads", NULL, "attention.head_count_kv", HF_INT, 1, 1 << 16, 4,
     HF_NUMBER(n_head_kv), 0},
    {"rms_norm_eps", NULL, "attention.layer_norm_rms_epsilon", HF_FLOAT, 0, 1, 1e-6, 0, 0},
    {0},
};

static const struct hf_setting qwen35_settings[] = {
    {"attn_output_gate", 1, 1, "true"},
    {0},
};

// Kinds of layers from layer_types, else by the interval. The value heads of a folder are in the
// order of their key heads.
void qwen35_config(struct hf_config *c) {
    static const char *const names[] = {"full_attention", "linear_attention", NULL};
    uint8_t is_recurrent[HF_MAX_LAYER] = {0};
    if (!hf_layer_types(c, names, is_recurrent)) {
        const int64_t interval =
            hf_int(c, &c->root, "full_attention_interval", 1, HF_MAX_LAYER, QWEN35_INTERVAL);
        for (int64_t i = 0; i < c->n_layer; i++) is_recurrent[i] = (i + 1) % interval != 0;
    }
    const int64_t dim = hf_int(c, &c->root, "linear_value_head_dim", 1, KV_DIM_MAX, 128);
    const int64_t n = hf_int(c, &c->root, "linear_num_value_heads", 1, QWEN35_MAX_HEADS, 32);
    hf_put_bools(c, "attention.recurrent_layers", is_recurrent, c->n_layer);
    hf_put_u32(c, "ssm.inner_size", dim * n);
    hf_put_bool(c, "ssm.grouped_heads", true);
}

const struct hf_tensor qwen35_tensors[] = {
    {"norm.weight", "output_norm.weight", hf_map_add_one},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", hf_map_add_one},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight",
     hf_map_add_one},
    {"layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", hf_map_add_one},
    {"layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", hf_map_add_one},
    {"layers.#.linear_attn.in_proj_qkv.weight", "blk.#.attn_qkv.weight", hf_map_view},
    {"layers.#.linear_attn.in_proj_z.weight", "blk.#.attn_gate.weight", hf_map_view},
    {"layers.#.linear_attn.in_proj_a.weight", "blk.#.ssm_alpha.weight", hf_map_view},
    {"layers.#.linear_attn.in_proj_b.weight", "blk.#.ssm_beta.weight", hf_map_view},
    {"layers.#.linear_attn.in_proj_qkvz.weight", "blk.#.ssm_in.weight", hf_map_view},
    {"layers.#.linear_attn.in_proj_ba.weight", "blk.#.ssm_ba.weight", hf_map_view},
    {"layers.#.linear_attn.conv1d.weight", "blk.#.ssm_conv1d.weight", hf_map_taps},
    {"layers.#.linear_attn.A_log", "blk.#.ssm_a", hf_map_minus_exp},
    {"layers.#.linear_attn.dt_bias", "blk.#.ssm_dt.bias", hf_map_view},
    {"layers.#.linear_attn.norm.weight", "blk.#.ssm_norm.weight", hf_map_view},
    {"layers.#.linear_attn.out_proj.weight", "blk.#.ssm_out.weight", hf_map_view},
    {"visual.*", NULL, hf_map_left_out}, // reads images
    {"mtp.fc.weight", "blk.#.nextn.eh_proj.weight", hf_map_view},
    {"mtp.norm.weight", "blk.#.nextn.shared_head_norm.weight", hf_map_add_one},
    {"mtp.pre_fc_norm_embedding.weight", "blk.#.nextn.enorm.weight", hf_map_add_one},
    {"mtp.pre_fc_norm_hidden.weight", "blk.#.nextn.hnorm.weight", hf_map_add_one},
    {"mtp.embed_tokens.weight", "blk.#.nextn.embed_tokens.weight", hf_map_view},
    {0},
};

#define QWEN35_CLASS                                                                               \
    .keys = {hf_keys_size, qwen35_keys, qwen35_keys_state}, .settings = qwen35_settings,           \
    .activation = &hf_silu, .rope = {.theta = 1e7, .is_partial = true, .part = 0.25},              \
    .head_dim = 256, .read = qwen35_config,                                                        \
    .tensors = {hf_tensors_decoder, qwen35_tensors, hf_tensors_mlp}

static const struct hf_class qwen35_classes[] = {
    {.name = "Qwen3_5ForCausalLM", .model_type = "qwen3_5_text", QWEN35_CLASS},
    {.name = "Qwen3_5ForConditionalGeneration", .model_type = "qwen3_5", QWEN35_CLASS},
    {0},
};

const struct arch arch_qwen35 = {
    .name = "qwen35",
    .is_hybrid = true,
    .has_nextn = true,
    .read = qwen35_read,
    .layer = qwen35_layer,
    .build = stack_build,
    .classes = qwen35_classes,
};
