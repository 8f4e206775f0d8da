// Folders of DeepSeek V2 and V3 (R1, Kimi K2 and others name the same class) and of GLM-4.7-Flash.
#include <string.h>

#include "model/deepseek2.h"
#include "model/hf_rows.h"

static bool is_named(struct hf_config *c, const char *key, const char *name) {
    char text[32];
    hf_string(c, &c->root, key, text, sizeof text);
    return strcmp(text, name) == 0;
}

// Or absent.
static void need_name(struct hf_config *c, const char *key, const char *name) {
    if (hf_has(c, &c->root, key) && !is_named(c, key, name))
        hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, key, name);
}

static void scale_put(struct hf_config *c, double fallback) {
    hf_put_f32(c, "expert_weights_scale",
               hf_number(c, &c->root, "routed_scaling_factor", HF_POSITIVE, fallback));
}

// Also one group: a file that says nothing may be from before there was a key.
static void groups_put(struct hf_config *c, int64_t n, int64_t used) {
    n = hf_int(c, &c->root, "n_group", 1, 65536, n);
    used = hf_int(c, &c->root, "topk_group", 1, 65536, used);
    hf_put_u32(c, "expert_group_count", n);
    hf_put_u32(c, "expert_group_used_count", used);
}

// Softmax; the best of all, or of the groups with the best expert.
static void v2_read(struct hf_config *c) {
    const bool has_groups = is_named(c, "topk_method", "group_limited_greedy");
    need_name(c, "scoring_func", "softmax");
    if (!has_groups) need_name(c, "topk_method", "greedy");
    hf_put_u32(c, "expert_gating_func", 1);
    hf_put_bool(c, "expert_weights_norm", false);
    scale_put(c, 1);
    if (has_groups)
        groups_put(c, 1, 1);
    else
        hf_put_u32(c, "expert_group_count", 1);
}

// Sigmoids with a bias; the best of the groups whose two best experts are best together.
static void v3_rest(struct hf_config *c, int64_t n_group, int64_t n_used) {
    need_name(c, "scoring_func", "sigmoid");
    need_name(c, "topk_method", "noaux_tc");
    hf_put_u32(c, "expert_gating_func", 2);
    hf_put_bool(c, "expert_weights_norm", hf_bool(c, &c->root, "norm_topk_prob", true));
    groups_put(c, n_group, n_used);
    if (!hf_bool(c, &c->root, "rope_interleave", true)) hf_put_bool(c, "rope.halves", true);
    c->n_nextn = hf_int(c, &c->root, "num_nextn_predict_layers", 0, HF_MAX_LAYER, 0);
}

static void v3_read(struct hf_config *c) {
    scale_put(c, 2.5);
    v3_rest(c, 8, 4);
}

// The kinds of layers are a list, or dense in the first ones.
static void glm_read(struct hf_config *c) {
    static const char *const names[] = {"sparse", "dense", NULL};
    uint8_t is_dense[HF_MAX_LAYER] = {0};
    int64_t n = hf_int(c, &c->root, "first_k_dense_replace", 0, HF_MAX_LAYER, 1);
    if (hf_layer_names(c, "mlp_layer_types", names, is_dense))
        for (n = 0; n < c->n_layer && is_dense[n];) n++;
    for (int64_t i = n; i < c->n_layer; i++)
        if (is_dense[i])
            hf_fail(c, RN_ERR_UNSUPPORTED, "mlp_layer_types: layer %lld is dense behind experts",
                    (long long)i);
    hf_put_u32(c, "leading_dense_block_count", n);
    scale_put(c, 1.8);
    v3_rest(c, 1, 1);
}

// With yarn, the score scale has a factor that the usual keys lack.
static void yarn_read(struct hf_config *c, double theta) {
    hf_scaling_yarn(c, theta);
    const double all = hf_number(c, &c->rope, "mscale_all_dim", 0, 1e6, 0);
    if (all > 0) hf_put_f32(c, "rope.scaling.yarn_log_multiplier", 0.1 * all);
}

static const struct hf_scaling scalings[] = {{"yarn", yarn_read}, {0}};

static const struct hf_key latent_keys[] = {
    {"q_lora_rank", NULL, "attention.q_lora_rank", HF_INT, 1, 1 << 16, HF_ABSENT, 0, 0},
    {"n_routed_experts", NULL, "expert_count", HF_INT, 1, 65536, HF_REQUIRED, HF_NUMBER(n_expert),
     0},
    {"num_experts_per_tok", NULL, "expert_used_count", HF_INT, 1, 65536, HF_REQUIRED,
     HF_NUMBER(n_expert_used), 0},
    {"moe_intermediate_size", NULL, "expert_feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff_expert), 0},
    {"n_shared_experts", NULL, "expert_shared_count", HF_INT, 0, 64, 0, 0, 0},
    {0},
};
static const struct hf_key dense_keys[] = {
    {"first_k_dense_replace", NULL, "leading_dense_block_count", HF_INT, 0, HF_MAX_LAYER, 0, 0, 0},
    {0},
};

static const struct hf_setting v2_settings[] = {
    {"attention_bias", 0, 0, "false"},
    {"mlp_bias", 0, 0, "false"},
    {"moe_layer_freq", 1, 1, "1"},
    {"norm_topk_prob", 0, 0, "false"},
    {0},
};
static const struct hf_setting v3_settings[] = {
    {"attention_bias", 0, 0, "false"},
    {"moe_layer_freq", 1, 1, "1"},
    {0},
};

static const struct hf_tensor latent_tensors[] = {
    {"layers.#.self_attn.q_a_proj.weight", "blk.#.attn_q_a.weight", hf_map_view},
    {"layers.#.self_attn.q_a_layernorm.weight", "blk.#.attn_q_a_norm.weight", hf_map_view},
    {"layers.#.self_attn.q_b_proj.weight", "blk.#.attn_q_b.weight", hf_map_view},
    {"layers.#.self_attn.kv_a_proj_with_mqa.weight", "blk.#.attn_kv_a_mqa.weight", hf_map_view},
    {"layers.#.self_attn.kv_a_layernorm.weight", "blk.#.attn_kv_a_norm.weight", hf_map_view},
    {"layers.#.self_attn.kv_b_proj.weight", "blk.#.attn_@_b.weight", hf_map_kv_b},
    {0},
};

#define CLASS(class, type, of_settings, function, ...)                                             \
    {                                                                                              \
        .name = class, .model_type = type, .settings = of_settings, .read = function,              \
        .keys = {hf_keys_size, hf_keys_decoder, latent_keys, __VA_ARGS__}, .activation = &hf_silu, \
        .rope = {.theta = 10000, .scalings = scalings}, .heads = deepseek2_heads, .tensors = {     \
            hf_tensors_decoder,                                                                    \
            hf_tensors_norms,                                                                      \
            latent_tensors,                                                                        \
            hf_tensors_mlp,                                                                        \
            hf_tensors_experts,                                                                    \
            hf_tensors_shared,                                                                     \
            hf_tensors_nextn                                                                       \
        }                                                                                          \
    }

const struct hf_class deepseek2_classes[] = {
    CLASS("DeepseekV2ForCausalLM", "deepseek_v2", v2_settings, v2_read, dense_keys),
    CLASS("DeepseekV3ForCausalLM", "deepseek_v3", v3_settings, v3_read, dense_keys),
    CLASS("Glm4MoeLiteForCausalLM", "glm4_moe_lite", v3_settings, glm_read, NULL),
    {0},
};
