// Granite 4: Granite's multipliers over layers of Mamba-2 or attention, each with experts and an
// expert of all tokens, or with a dense feed-forward.
#include <string.h>

#include "model/granite.h"
#include "model/mamba.h"

// A file says by rope.scaling.finetuned whether q and k are rotated.
static rn_status granitehybrid_read(struct hparams *hp, const struct weights *weights,
                                    rn_error *err) {
    bool has_rope = true;
    rn_status s;
    if ((s = hparams_bool(weights, "rope.scaling.finetuned", &has_rope, err))) return s;
    const struct hparams_defaults defaults = {.rope_style = ROPE_INTERLEAVED, .no_rope = !has_rope};
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = granite_read_scales(hp, weights, err))) return s;
    if ((s = hparams_router(hp, weights, ROUTE_SOFTMAX, err))) return s;
    if ((s = hparams_need_ff(hp, weights, err))) return s;
    return mamba_read_rest(hp, weights, err);
}

static void granitehybrid_layer(struct builder *b, const struct layer *l) {
    int h = block_norm(b, NORM_RMS, "attn_norm");
    if (l->recurrence.taps > 0) {
        block_add(b, block_mamba(b, l, h), "ssm_out");
    } else {
        const struct qkv qkv = block_qkv(b, l, h);
        block_rope(b, l, qkv);
        block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    }
    h = block_norm(b, NORM_RMS, "ffn_norm");
    block_feed_forward(b, l, h, GATE_SILU);
    if (l->n_ff_shared > 0) block_shared_expert(b, l, h, GATE_SILU, true);
}

static const struct hf_key granitehybrid_keys[] = {
    {"num_attention_heads", NULL, "attention.head_count", HF_INT, 1, 1 << 16, HF_REQUIRED,
     HF_NUMBER(n_head), 0},
    {"rms_norm_eps", NULL, "attention.layer_norm_rms_epsilon", HF_FLOAT, 0, 1, 1e-6, 0, 0},
    {"num_local_experts", NULL, "expert_count", HF_INT, 0, 65536, 8, HF_NUMBER(n_expert), 0},
    {"num_experts_per_tok", NULL, "expert_used_count", HF_INT, 0, 65536, 2,
     HF_NUMBER(n_expert_used), 0},
    {"shared_intermediate_size", NULL, "expert_shared_feed_forward_length", HF_INT, 0, 1 << 24,
     1024, 0, 0},
    {0},
};

// Layers with attention are named by type; without the list, none has it.
static void layers_put(struct hf_config *c) {
    static const char *const names[] = {"mamba", "attention", NULL};
    uint8_t type[HF_MAX_LAYER] = {0};
    hf_layer_types(c, names, type);
    const int64_t heads = hf_int(c, &c->root, "num_key_value_heads", 1, 1 << 16, c->n_head);
    uint32_t *layers = hf_layers_new(c);
    if (!layers) return;
    for (int64_t i = 0; i < c->n_layer; i++) layers[i] = type[i] ? (uint32_t)heads : 0;
    hf_put_u32s(c, "attention.head_count_kv", layers, c->n_layer);
}

// Without experts the shared expert is the feed-forward.
static void granitehybrid_config(struct hf_config *c) {
    char position[8];
    const char *width = c->n_expert ? "intermediate_size" : "shared_intermediate_size";
    c->n_ff_expert = hf_int(c, &c->root, width, 1, 1 << 24, 1024);
    hf_put_u32(c, "feed_forward_length", c->n_ff_expert);
    layers_put(c);
    mamba_put_expanded(c);
    hf_string(c, &c->root, "position_embedding_type", position, sizeof position);
    hf_put_bool(c, "rope.scaling.finetuned", strcmp(position, "rope") == 0);
}

static const struct hf_class granitehybrid_classes[] = {
    {
        .name = "GraniteMoeHybridForCausalLM",
        .model_type = "granitemoehybrid",
        .keys = {hf_keys_size, granitehybrid_keys, granite_keys, mamba_keys},
        .activation = &hf_silu,
        .rope = {.theta = 10000, .is_permuted = true},
        .is_tied = true,
        .read = granitehybrid_config,
        .tensors = {hf_tensors_decoder, hf_tensors_norms, mamba_tensors, granite_tensors_experts},
    },
    {0},
};

const struct arch arch_granitehybrid = {
    .name = "granitehybrid",
    .is_hybrid = true,
    .read = granitehybrid_read,
    .layer = granitehybrid_layer,
    .build = stack_build,
    .classes = granitehybrid_classes,
};
