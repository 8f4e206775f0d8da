// Folders of Nemotron-H, without experts and with them. A config has the kinds of its layers as a
// word of letters or as a list of names.
#define _GNU_SOURCE 1
#include "model/nemotron_h.h"

#include <string.h>

// The number of layers follows the pattern.
const struct hf_key nemotron_h_keys[] = {
    {"max_position_embeddings", NULL, "context_length", HF_INT, 1, INT32_MAX, 4096,
     HF_NUMBER(n_ctx), 0},
    {"hidden_size", NULL, "embedding_length", HF_INT, 1, 1 << 20, HF_REQUIRED, HF_NUMBER(n_embd),
     0},
    {"num_attention_heads", NULL, "attention.head_count", HF_INT, 1, 1 << 16, HF_REQUIRED,
     HF_NUMBER(n_head), 0},
    {"layer_norm_epsilon", "norm_eps", "attention.layer_norm_rms_epsilon", HF_FLOAT, 0, 1, 1e-5, 0,
     0},
    {"conv_kernel", NULL, "ssm.conv_kernel", HF_INT, 2, PLAN_MAX_TAPS, 4, 0, 0},
    {"ssm_state_size", "mamba_state_dim", "ssm.state_size", HF_INT, 1, KV_DIM_MAX, 128, 0, 0},
    {"n_groups", "mamba_num_groups", "ssm.group_count", HF_INT, 1, 1 << 12, 8, 0, 0},
    {"mamba_num_heads", NULL, "ssm.time_step_rank", HF_INT, 1, 1 << 12, 128, 0, 0},
    {0},
};

const struct hf_setting nemotron_h_settings[] = {
    {"sliding_window", 0, 0, "null"},
    {"moe_latent_size", 0, 0, "null: experts of a narrower width are not supported"},
    {0},
};

const struct hf_activation nemotron_h_activation = {"mlp_hidden_act", {"relu2"}, "relu2"};

const struct hf_tensor nemotron_h_tensors[] = {
    {"layers.#.mixer.q_proj.weight", "blk.#.attn_q.weight", hf_map_view},
    {"layers.#.mixer.k_proj.weight", "blk.#.attn_k.weight", hf_map_view},
    {"layers.#.mixer.v_proj.weight", "blk.#.attn_v.weight", hf_map_view},
    {"layers.#.mixer.o_proj.weight", "blk.#.attn_output.weight", hf_map_view},
    {"layers.#.mixer.q_proj.bias", "blk.#.attn_q.bias", hf_map_view},
    {"layers.#.mixer.k_proj.bias", "blk.#.attn_k.bias", hf_map_view},
    {"layers.#.mixer.v_proj.bias", "blk.#.attn_v.bias", hf_map_view},
    {"layers.#.mixer.o_proj.bias", "blk.#.attn_output.bias", hf_map_view},
    {"layers.#.mixer.up_proj.weight", "blk.#.ffn_up.weight", hf_map_view},
    {"layers.#.mixer.down_proj.weight", "blk.#.ffn_down.weight", hf_map_view},
    {"layers.#.mixer.up_proj.bias", "blk.#.ffn_up.bias", hf_map_view},
    {"layers.#.mixer.down_proj.bias", "blk.#.ffn_down.bias", hf_map_view},
    {0},
};

enum { MAMBA, ATTENTION, DENSE, EXPERTS };
static const char letters[] = "M*-E";
static const char *const names[] = {"mamba", "attention", "mlp", "moe", NULL};

// One letter for each layer, in quotes; text NULL: the config has a list of names instead.
static struct hf_value pattern_find(struct hf_config *c) {
    const char *key = "hybrid_override_pattern";
    return hf_has(c, &c->root, key) ? hf_find(c, &c->root, key) : (struct hf_value){0};
}

static void pattern_read(struct hf_config *c, struct hf_value pattern, uint8_t *out) {
    if (pattern.len != (size_t)c->n_layer + 2)
        hf_fail(c, RN_ERR_MODEL, "hybrid_override_pattern has %lld letters, expected %lld",
                (long long)pattern.len - 2, (long long)c->n_layer);
    for (int64_t i = 0; c->status == RN_OK && i < c->n_layer; i++) {
        const char letter = pattern.text[1 + i], *found = letter ? strchr(letters, letter) : NULL;
        if (!found)
            hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, "hybrid_override_pattern",
                          "letters of M*-E");
        else
            out[i] = (uint8_t)(found - letters);
    }
}

bool nemotron_h_has_experts(struct hf_config *c) {
    const struct hf_value pattern = pattern_find(c);
    if (pattern.text) return memchr(pattern.text, 'E', pattern.len) != NULL;
    const struct hf_value list = hf_find(c, &c->root, "layers_block_type");
    return list.text && memmem(list.text, list.len, "\"moe\"", 5) != NULL;
}

static int64_t layers_count(struct hf_config *c) {
    const struct hf_value pattern = pattern_find(c);
    const bool has_names = hf_has(c, &c->root, "layers_block_type");
    if (c->status == RN_OK && !pattern.text && !has_names)
        hf_fail(c, RN_ERR_MODEL, "neither hybrid_override_pattern nor layers_block_type is there");
    const int64_t n =
        pattern.text ? (int64_t)pattern.len - 2 : (int64_t)hf_count(c, "layers_block_type");
    return hf_int(c, &c->root, "num_hidden_layers", 1, HF_MAX_LAYER, n);
}

void nemotron_h_put(struct hf_config *c, const char *width) {
    uint8_t type[HF_MAX_LAYER] = {0};
    char act[16];
    c->n_layer = layers_count(c);
    if (c->status == RN_OK && (c->n_layer < 1 || c->n_layer > HF_MAX_LAYER))
        hf_fail(c, RN_ERR_MODEL, "%lld layers, expected 1 to %d", (long long)c->n_layer,
                HF_MAX_LAYER);
    hf_put_u32(c, "block_count", c->n_layer);
    const struct hf_value pattern = pattern_find(c);
    if (pattern.text) {
        pattern_read(c, pattern, type);
    } else {
        hf_layer_names(c, "layers_block_type", names, type);
    }
    const int64_t n_ff = hf_int(c, &c->root, width, 1, 1 << 24, 0);
    const int64_t n_kv = hf_int(c, &c->root, "num_key_value_heads", 1, 1 << 16, c->n_head);
    uint32_t *lengths = hf_layers_new(c), *heads = hf_layers_new(c);
    if (!lengths || !heads) return;
    for (int64_t i = 0; i < c->n_layer; i++) {
        heads[i] = type[i] == ATTENTION ? (uint32_t)n_kv : 0;
        lengths[i] = type[i] >= DENSE ? (uint32_t)n_ff : 0;
        if (lengths[i] && type[i] != (c->n_expert ? EXPERTS : DENSE))
            hf_fail(c, RN_ERR_UNSUPPORTED,
                    "layer %lld has another kind of feed-forward: both kinds are not supported",
                    (long long)i);
        if (type[i] >= DENSE && n_ff == 0) hf_fail(c, RN_ERR_MODEL, "%s is missing", width);
    }
    hf_put_u32s(c, "feed_forward_length", lengths, c->n_layer);
    hf_put_u32s(c, "attention.head_count_kv", heads, c->n_layer);
    mamba_put(c, "mamba_num_heads", "mamba_head_dim");
    hf_string(c, &c->root, "mamba_hidden_act", act, sizeof act);
    if (act[0] && strcmp(act, "silu") != 0)
        hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, "mamba_hidden_act", "silu");
}
