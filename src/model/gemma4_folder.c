// Folders of Gemma 4. The published ones have towers for images and sound beside the text model.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/gemma4.h"

// Heads are not read as head_dim and num_key_value_heads alone say: the layers differ.
static const struct hf_key gemma4_keys[] = {
    {"num_attention_heads", NULL, "attention.head_count", HF_INT, 1, 1 << 16, HF_REQUIRED, 0, 0},
    {"rms_norm_eps", NULL, "attention.layer_norm_rms_epsilon", HF_FLOAT, 0, 1, 1e-6, 0, 0},
    {"final_logit_softcapping", NULL, "final_logit_softcapping", HF_FLOAT, HF_POSITIVE, HF_ABSENT,
     0, 0},
    {"num_kv_shared_layers", NULL, "attention.shared_kv_layers", HF_INT, 0, HF_MAX_LAYER, 0, 0, 0},
    {0},
};

static const struct hf_setting gemma4_settings[] = {
    {"attention_bias", 0, 0, "false"},
    {0},
};

// Text is causal where images alone see both ways.
static void check_causal(struct hf_config *c) {
    char kind[16];
    if (!hf_has(c, &c->root, "use_bidirectional_attention")) return;
    hf_string(c, &c->root, "use_bidirectional_attention", kind, sizeof kind);
    if (c->status == RN_OK && strcmp(kind, "vision") != 0)
        hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, "use_bidirectional_attention",
                      "\"vision\" or null");
}

static void mark_window(struct hf_config *c, uint8_t *is_local) {
    for (int64_t i = 0; i < c->n_layer; i++) is_local[i] = (i + 1) % 6 != 0;
}

// The layers' kinds. The class makes the last layer a full one whatever the config says.
static void kinds_read(struct hf_config *c, uint8_t *is_local) {
    static const char *const names[] = {"full_attention", "sliding_attention", NULL};
    if (!hf_layer_types(c, names, is_local)) mark_window(c, is_local);
    if (c->status == RN_OK && is_local[c->n_layer - 1])
        hf_fail(c, RN_ERR_UNSUPPORTED, "layer_types: the last layer has a window");
}

// A number of the layers without a window: under a key of its own, or, as newer configs have it, in
// an object for each of these layers.
static int64_t full_number(struct hf_config *c, const uint8_t *is_local, const char *key,
                           const char *own, int64_t fallback) {
    struct hf_object layers, one;
    int64_t found = hf_int(c, &c->root, own, 1, 1 << 16, fallback);
    if (!hf_has(c, &c->root, "per_layer_config")) return found;
    hf_object_read(c, hf_find(c, &c->root, "per_layer_config"), &layers);
    for (int64_t i = 0, n = 0; i < c->n_layer; i++) {
        char name[24] = "";
        for (int width = 1; width <= 4 && !hf_has(c, &layers, name); width++)
            snprintf(name, sizeof name, "%0*d", width, (int)i);
        const bool is_there = hf_has(c, &layers, name);
        if (is_there) hf_object_read(c, hf_find(c, &layers, name), &one);
        const int64_t value = is_there ? hf_int(c, &one, key, 1, 1 << 16, fallback) : fallback;
        if (is_local[i] ? value != fallback : n++ > 0 && value != found)
            hf_fail(c, RN_ERR_UNSUPPORTED, "per_layer_config: layer %d has a %s of %lld", (int)i,
                    key, (long long)value);
        if (!is_local[i]) found = value;
    }
    return found;
}

static void heads_put(struct hf_config *c, const uint8_t *is_local) {
    const bool k_eq_v = hf_bool(c, &c->root, "attention_k_eq_v", false);
    const int64_t n = hf_int(c, &c->root, "num_key_value_heads", 1, 1 << 16, 4);
    const bool is_split = hf_has(c, &c->root, "per_layer_config");
    const int64_t full = k_eq_v || is_split ? full_number(c, is_local, "num_key_value_heads",
                                                          "num_global_key_value_heads", n)
                                            : n;
    const int64_t dim = c->head_dim;
    c->head_dim = full_number(c, is_local, "head_dim", "global_head_dim", is_split ? dim : 512);
    hf_put_u32(c, "attention.key_length", c->head_dim);
    hf_put_u32(c, "attention.value_length", c->head_dim);
    hf_put_u32(c, "attention.key_length_swa", dim);
    hf_put_u32(c, "attention.value_length_swa", dim);
    hf_put_u32(c, "rope.dimension_count_swa", dim);
    hf_put_bool(c, "attention.k_eq_v", k_eq_v);
    uint32_t *heads = hf_layers_new(c);
    for (int64_t i = 0; heads && i < c->n_layer; i++) heads[i] = (uint32_t)(is_local[i] ? n : full);
    if (heads) hf_put_u32s(c, "attention.head_count_kv", heads, c->n_layer);
}

// Layers that read another's keys and values may have twice the feed-forward.
static void feed_forward_put(struct hf_config *c) {
    const bool is_double = hf_bool(c, &c->root, "use_double_wide_mlp", false);
    const int64_t shared = hf_int(c, &c->root, "num_kv_shared_layers", 0, HF_MAX_LAYER, 0);
    const int64_t n = hf_int(c, &c->root, "intermediate_size", 1, 1 << 24, 0);
    if (n == 0) hf_fail(c, RN_ERR_MODEL, "intermediate_size is missing");
    uint32_t *width = hf_layers_new(c);
    for (int64_t i = 0; width && i < c->n_layer; i++)
        width[i] = (uint32_t)(is_double && i >= c->n_layer - shared ? 2 * n : n);
    if (width) hf_put_u32s(c, "feed_forward_length", width, c->n_layer);
}

static void experts_put(struct hf_config *c) {
    if (!hf_bool(c, &c->root, "enable_moe_block", false)) return;
    c->n_expert = hf_int(c, &c->root, "num_experts", 1, 65536, 0);
    c->n_ff_expert = hf_int(c, &c->root, "moe_intermediate_size", 1, 1 << 24, 0);
    c->n_expert_used = hf_int(c, &c->root, "top_k_experts", 1, 65536, 0);
    if (c->status == RN_OK && (!c->n_expert || !c->n_ff_expert || !c->n_expert_used))
        hf_fail(c, RN_ERR_MODEL,
                "enable_moe_block needs num_experts, moe_intermediate_size and top_k_experts");
    hf_put_u32(c, "expert_count", c->n_expert);
    hf_put_u32(c, "expert_used_count", c->n_expert_used);
    hf_put_u32(c, "expert_feed_forward_length", c->n_ff_expert);
}

// Configs of models without inputs of layers say 0 or null. The unified classes have none.
static void inputs_put(struct hf_config *c) {
    static const char key[] = "hidden_size_per_layer_input", unified[] = "Gemma4Unified";
    const bool is_null = hf_find(c, &c->root, key).text && !hf_has(c, &c->root, key);
    if (strncmp(c->class->name, unified, strlen(unified)) == 0) return;
    hf_put_u32(c, "embedding_length_per_layer_input",
               hf_int(c, &c->root, key, 0, 1 << 16, is_null ? 0 : 256));
}

static void gemma4_read_config(struct hf_config *c) {
    uint8_t *is_local = calloc((size_t)c->n_layer, 1);
    if (!is_local) {
        hf_fail(c, RN_ERR_NOMEM, "out of memory");
        return;
    }
    check_causal(c);
    if (c->status == RN_OK && !hf_has(c, &c->root, "rope_parameters"))
        hf_fail(c, RN_ERR_MODEL, "rope_parameters is missing");
    kinds_read(c, is_local);
    heads_put(c, is_local);
    feed_forward_put(c);
    inputs_put(c);
    experts_put(c);
    free(is_local);
}

static const struct hf_scaling gemma4_scalings[] = {
    {"proportional", hf_scaling_proportional},
    {0},
};

static const struct hf_tensor gemma4_tensors[] = {
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", hf_map_view},
    {"layers.#.pre_feedforward_layernorm.weight", "blk.#.ffn_norm.weight", hf_map_view},
    {"layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight", hf_map_view},
    {"layers.#.layer_scalar", "blk.#.layer_output_scale.weight", hf_map_view},
    {"embed_tokens_per_layer.weight", "per_layer_token_embd.weight", hf_map_view},
    {"per_layer_model_projection.weight", "per_layer_model_proj.weight", hf_map_view},
    {"per_layer_projection_norm.weight", "per_layer_proj_norm.weight", hf_map_view},
    {"layers.#.per_layer_input_gate.weight", "blk.#.inp_gate.weight", hf_map_view},
    {"layers.#.per_layer_projection.weight", "blk.#.proj.weight", hf_map_view},
    {"layers.#.post_per_layer_input_norm.weight", "blk.#.post_norm.weight", hf_map_view},
    {"vision_tower.*", NULL, hf_map_left_out},
    {"audio_tower.*", NULL, hf_map_left_out},
    {"embed_vision.*", NULL, hf_map_left_out},
    {"embed_audio.*", NULL, hf_map_left_out},
    {"vision_embedder.*", NULL, hf_map_left_out},
    {0},
};

static const struct hf_tensor gemma4_experts[] = {
    {"layers.#.post_feedforward_layernorm_1.weight", "blk.#.post_ffw_norm_1.weight", hf_map_view},
    {"layers.#.post_feedforward_layernorm_2.weight", "blk.#.post_ffw_norm_2.weight", hf_map_view},
    {"layers.#.pre_feedforward_layernorm_2.weight", "blk.#.pre_ffw_norm_2.weight", hf_map_view},
    {"layers.#.router.proj.weight", "blk.#.ffn_gate_inp.weight", hf_map_view},
    {"layers.#.router.scale", "blk.#.ffn_gate_inp.scale", hf_map_view},
    {"layers.#.router.per_expert_scale", "blk.#.ffn_down_exps.scale", hf_map_view},
    {"layers.#.experts.gate_up_proj", "blk.#.ffn_@_exps.weight", hf_map_experts_gate_up},
    {"layers.#.experts.down_proj", "blk.#.ffn_down_exps.weight", hf_map_experts_down},
    {0},
};

#define GEMMA4_CLASS(own_window)                                                                   \
    .keys = {hf_keys_size, gemma4_keys}, .settings = gemma4_settings, .activation = &gemma_gelu,   \
    .window = {.mark = mark_window, .size = own_window},                                           \
    .rope = {.theta = 1e6, .theta_local = 10000, .scalings = gemma4_scalings}, .head_dim = 256,    \
    .is_tied = true, .read = gemma4_read_config,                                                   \
    .tensors = {gemma4_tensors,   gemma4_experts,      hf_tensors_decoder,                         \
                hf_tensors_norms, hf_tensors_qk_norms, hf_tensors_mlp}

const struct hf_class gemma4_classes[] = {
    {.name = "Gemma4ForCausalLM", .model_type = "gemma4_text", GEMMA4_CLASS(512)},
    {.name = "Gemma4ForConditionalGeneration", .model_type = "gemma4", GEMMA4_CLASS(512)},
    {.name = "Gemma4UnifiedForCausalLM", .model_type = "gemma4_unified_text", GEMMA4_CLASS(1024)},
    {.name = "Gemma4UnifiedForConditionalGeneration",
     .model_type = "gemma4_unified",
     GEMMA4_CLASS(1024)},
    {0},
};
