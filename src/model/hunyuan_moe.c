// Hunyuan with experts: a softmax over the chosen ones, beside a shared expert.
#include "model/hunyuan.h"

static rn_status hunyuan_moe_read(struct hparams *hp, const struct weights *weights,
                                  rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    rn_status s;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_router(hp, weights, ROUTE_SOFTMAX, err))) return s;
    return hparams_need_experts(hp, weights, err);
}

static const struct hf_key hunyuan_moe_keys[] = {
    {"num_experts", NULL, "expert_count", HF_INT, 1, 65536, HF_REQUIRED, HF_NUMBER(n_expert), 0},
    {0},
};

static const struct hf_setting hunyuan_moe_settings[] = {
    {"use_qk_norm", 1, 1, "true"},
    {"use_cla", 0, 0, "false"}, // layers that share keys and values
    {"use_mla", 0, 0, "false"},
    {"use_mixed_mlp_moe", 1, 1, "true"}, // the shared expert
    {"norm_topk_prob", 1, 1, "true"},
    {"moe_layer_num_skipped", 0, 0, "0"},
    {"position_embedding_xdrope", 0, 0, "false"},
    {0},
};

// Numbers of experts may be lists, one number for each layer.
static void hunyuan_moe_config(struct hf_config *c) {
    hf_int_each(c, "num_shared_expert", 1, 1, 1);
    c->n_expert_used = hf_int_each(c, "moe_topk", 1, 65536, 1);
    c->n_ff_expert = hf_int_each(c, "moe_intermediate_size", 1, 1 << 24, c->n_ff);
    hf_put_u32(c, "expert_used_count", c->n_expert_used);
    hf_put_u32(c, "expert_feed_forward_length", c->n_ff_expert);
    hf_put_u32(c, "expert_shared_feed_forward_length", c->n_ff);
}

static const struct hf_tensor hunyuan_moe_tensors[] = {
    {"layers.#.mlp.gate.wg.weight", "blk.#.ffn_gate_inp.weight", hf_map_view},
    {"layers.#.mlp.shared_mlp.gate_proj.weight", "blk.#.ffn_gate_shexp.weight", hf_map_view},
    {"layers.#.mlp.shared_mlp.up_proj.weight", "blk.#.ffn_up_shexp.weight", hf_map_view},
    {"layers.#.mlp.shared_mlp.down_proj.weight", "blk.#.ffn_down_shexp.weight", hf_map_view},
    {0},
};

static const struct hf_class hunyuan_moe_classes[] = {
    {
        .name = "HunYuanMoEV1ForCausalLM",
        .model_type = "hunyuan_v1_moe",
        .keys = {hf_keys_size, hf_keys_decoder, hunyuan_moe_keys, hf_keys_kv},
        .settings = hunyuan_moe_settings,
        .activation = &hf_silu,
        .rope = {.theta = 10000, .scalings = hunyuan_scalings, .base = hunyuan_base},
        .read = hunyuan_moe_config,
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hunyuan_tensors, hf_tensors_experts,
                    hunyuan_moe_tensors},
    },
    {0},
};

const struct arch arch_hunyuan_moe = {
    .name = "hunyuan-moe",
    .read = hunyuan_moe_read,
    .layer = hunyuan_layer,
    .build = stack_build,
    .classes = hunyuan_moe_classes,
};
