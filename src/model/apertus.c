// Apertus: Llama with norms of q and k and without gates; the activation is xIELU, whose four
// numbers each layer has for itself. A GGUF file has them as lists under keys without the
// architecture's name, a folder as tensors of one number.
#include <math.h>

#include "base/rmath.h"
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status apertus_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

// One number of the current layer: of the key's list, else of the tensor. A folder may be without
// tensors of the numbers that are not trained.
static float number(struct builder *b, const char *key, const char *tensor, float initial,
                    bool is_trained) {
    const struct meta_view *meta = weights_meta_find(b->weights, key);
    float value = initial; // also while tensors are only described
    double told = (double)NAN;
    if (b->status || b->plan->failed) return 0;
    if (b->describe) {
        bind_vector(b, tensor, 1);
        return value;
    }
    if (meta && meta->type == META_ARRAY) {
        meta_item_f64(meta, (uint64_t)b->layer, &told);
    } else if (meta) {
        meta_get_f64(meta, &told);
    } else if (bind_values(b, tensor, &value, 1) || !is_trained) {
        told = (double)value;
    }
    if (!b->status && !(fabs(told) <= 1e4))
        b->status = err_set(b->err, RN_ERR_MODEL,
                            "%s: layer %d has no number of xIELU within 10000, neither under key "
                            "%s nor as tensor %s",
                            weights_name(b->weights), b->layer, key, tensor);
    return (float)told;
}

static struct gate_xielu read_xielu(struct builder *b) {
    const float above = number(b, "xielu.alpha_p", "xielu_alpha_p", 0.2f, true);
    const float below = number(b, "xielu.alpha_n", "xielu_alpha_n", 0.2f, true);
    const float linear = number(b, "xielu.beta", "xielu_beta", 0.5f, false);
    const float eps = number(b, "xielu.eps", "xielu_eps", -1e-6f, false);
    return (struct gate_xielu){.above = rmath_softplus(above),
                               .below = linear + rmath_softplus(below),
                               .linear = linear,
                               .eps = eps};
}

static void apertus_layer(struct builder *b, const struct layer *l) {
    const struct gate_xielu xielu = read_xielu(b);
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_norm_heads(b, l, qkv);
    block_rope(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    const int h = block_norm(b, NORM_RMS, "ffn_norm");
    block_add(b, block_plain_xielu(b, l, h, &xielu), "ffn_down");
}

static const struct hf_setting apertus_settings[] = {
    {"qk_norm", 1, 1, "true"},
    {"post_norm", 0, 0, "false"},
    {"mlp_bias", 0, 0, "false"},
    {0},
};

// The class scales the frequencies where a config tells nothing of it.
static void apertus_config(struct hf_config *c) {
    if (!hf_has(c, &c->root, "rope_parameters") && !hf_has(c, &c->root, "rope_scaling"))
        hf_fail(c, RN_ERR_MODEL, "rope_scaling is missing");
}

static const struct hf_activation apertus_xielu = {"hidden_act", {"xielu"}, "xielu"};

static const struct hf_tensor apertus_tensors[] = {
    {"norm.weight", "output_norm.weight", hf_map_view},
    {"layers.#.attention_layernorm.weight", "blk.#.attn_norm.weight", hf_map_view},
    {"layers.#.feedforward_layernorm.weight", "blk.#.ffn_norm.weight", hf_map_view},
    {"layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight", hf_map_view},
    {"layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", hf_map_view},
    {"layers.#.mlp.act_fn.alpha_p", "blk.#.xielu_alpha_p.weight", hf_map_number},
    {"layers.#.mlp.act_fn.alpha_n", "blk.#.xielu_alpha_n.weight", hf_map_number},
    {"layers.#.mlp.act_fn.beta", "blk.#.xielu_beta.weight", hf_map_number},
    {"layers.#.mlp.act_fn.eps", "blk.#.xielu_eps.weight", hf_map_number},
    {0},
};

static const struct hf_class apertus_classes[] = {
    {
        .name = "ApertusForCausalLM",
        .model_type = "apertus",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .settings = apertus_settings,
        .activation = &apertus_xielu,
        .rope = {.theta = 12e6},
        .read = apertus_config,
        .tensors = {hf_tensors_decoder, hf_tensors_qk_norms, apertus_tensors},
    },
    {0},
};

const struct arch arch_apertus = {
    .name = "apertus",
    .read = apertus_read,
    .layer = apertus_layer,
    .build = stack_build,
    .classes = apertus_classes,
};
