// Phi-3.5 MoE: layer norms, biases in attention and head, two experts with weights of their own.
// Each weight is a softmax over the logits close to the expert's, as transformers computes it.
// GGUF files are refused: they do not say how close, and their other readers use plain softmaxes.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status phimoe_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES,
                                              .window_period = 1,
                                              .norm = NORM_LAYER};
    float jitter = 0;
    rn_status s;
    if (!hparams_has(weights, "router_jitter"))
        return hparams_fail(weights, "router_jitter", err,
                            "is missing: files of this architecture do not say how experts are "
                            "weighed; its folder does");
    if ((s = hparams_float(weights, "router_jitter", 0, 1, true, &jitter, err))) return s;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    for (int i = 0; i < hp->n_layer; i++) {
        hp->layer[i].score = ROUTE_SPARSEMIXER;
        hp->layer[i].normalize_experts = false;
        hp->layer[i].expert_jitter = jitter;
    }
    if (hp->logit_softcap != 0)
        return hparams_fail(weights, "final_logit_softcapping", err, "is not supported here");
    if ((s = hparams_need_experts(hp, weights, err))) return s;
    if (hp->layer[0].n_expert_used != 2)
        return hparams_fail(weights, "expert_used_count", err, "is %d, expected 2",
                            hp->layer[0].n_expert_used);
    return RN_OK;
}

static void phimoe_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_LAYER, "attn_norm"));
    block_rope(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    block_experts(b, l, block_norm(b, NORM_LAYER, "ffn_norm"), GATE_SILU);
}

static void phimoe_build(struct builder *b) {
    bool has_bias = false;
    hparams_bool(b->weights, "output_bias", &has_bias, NULL);
    stack_embed(b);
    stack_layers(b);
    (has_bias ? stack_head_biased : stack_head)(b, NORM_LAYER);
}

static const struct hf_key phimoe_keys[] = {
    {"intermediate_size", NULL, "feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff), 0},
    {"num_attention_heads", NULL, "attention.head_count", HF_INT, 1, 1 << 16, HF_REQUIRED,
     HF_NUMBER(n_head), 0},
    {"rms_norm_eps", NULL, "attention.layer_norm_epsilon", HF_FLOAT, 0, 1, 1e-5, 0, 0},
    {"num_local_experts", NULL, "expert_count", HF_INT, 2, 65536, HF_REQUIRED, HF_NUMBER(n_expert),
     0},
    {"num_experts_per_tok", NULL, "expert_used_count", HF_INT, 2, 2, 2, HF_NUMBER(n_expert_used),
     0},
    {"lm_head_bias", NULL, "output_bias", HF_BOOL, 0, 1, false, 0, 0},
    {"router_jitter_noise", NULL, "router_jitter", HF_FLOAT, 0, 1, 0.01, 0, 0},
    {0},
};

// Always there: it decides between the two lists of divisors.
static void phimoe_rope(struct hf_config *c) {
    hf_put_u32(c, "rope.scaling.original_context_length", hf_original_context(c));
}

static const struct hf_scaling phimoe_scalings[] = {
    {"longrope", hf_scaling_longrope},
    {"su", hf_scaling_longrope},
    {0},
};

static const struct hf_tensor phimoe_tensors[] = {
    {"norm.bias", "output_norm.bias", hf_map_view},
    {"lm_head.bias", "output.bias", hf_map_view},
    {"layers.#.input_layernorm.bias", "blk.#.attn_norm.bias", hf_map_view},
    {"layers.#.post_attention_layernorm.bias", "blk.#.ffn_norm.bias", hf_map_view},
    {"layers.#.mlp.router.weight", "blk.#.ffn_gate_inp.weight", hf_map_view},
    {0},
};

#define PHIMOE_CLASS                                                                               \
    .model_type = "phimoe", .keys = {hf_keys_size, phimoe_keys, hf_keys_kv},                       \
    .activation = &hf_silu, .window = {.mark = hf_window_all},                                     \
    .rope = {.theta = 1e6, .scalings = phimoe_scalings, .more = phimoe_rope},                      \
    .tensors = {hf_tensors_decoder, hf_tensors_norms, phimoe_tensors, hf_tensors_experts,          \
                hf_tensors_mixtral}

static const struct hf_class phimoe_classes[] = {
    {.name = "PhimoeForCausalLM", PHIMOE_CLASS},
    {.name = "PhiMoEForCausalLM", PHIMOE_CLASS},
    {0},
};

const struct arch arch_phimoe = {
    .name = "phimoe",
    .read = phimoe_read,
    .layer = phimoe_layer,
    .build = phimoe_build,
    .classes = phimoe_classes,
};
