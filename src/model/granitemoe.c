// Granite with experts: Granite's multipliers, a softmax over the chosen experts, in some models a
// shared expert.
#include "model/blocks.h"
#include "model/granite.h"
#include "model/hf_rows.h"

static rn_status granitemoe_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    bool has_rope = true;
    rn_status s;
    if ((s = hparams_bool(weights, "rope.scaling.finetuned", &has_rope, err))) return s;
    const struct hparams_defaults defaults = {.rope_style = ROPE_INTERLEAVED, .no_rope = !has_rope};
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = granite_read_scales(hp, weights, err))) return s;
    if ((s = hparams_router(hp, weights, ROUTE_SOFTMAX, err))) return s;
    return hparams_need_experts(hp, weights, err);
}

static const struct hf_key granitemoe_keys_shared[] = {
    {"shared_intermediate_size", NULL, "expert_shared_feed_forward_length", HF_INT, 0, 1 << 24,
     1024, 0, 0},
    {0},
};

const struct hf_tensor granite_tensors_experts[] = {
    {"layers.#.block_sparse_moe.router.layer.weight", "blk.#.ffn_gate_inp.weight", hf_map_view},
    {"layers.#.block_sparse_moe.input_linear.weight", "blk.#.ffn_@_exps.weight",
     hf_map_linears_gate_up},
    {"layers.#.block_sparse_moe.output_linear.weight", "blk.#.ffn_down_exps.weight", hf_map_view},
    {"layers.#.block_sparse_moe.experts.gate_up_proj", "blk.#.ffn_@_exps.weight",
     hf_map_experts_gate_up},
    {"layers.#.block_sparse_moe.experts.down_proj", "blk.#.ffn_down_exps.weight",
     hf_map_experts_down},
    {"layers.#.shared_mlp.input_linear.weight", "blk.#.ffn_@.weight", hf_map_shared_gate_up},
    {"layers.#.shared_mlp.output_linear.weight", "blk.#.ffn_@.weight", hf_map_shared_down},
    {0},
};

#define GRANITEMOE_CLASS                                                                           \
    .activation = &hf_silu, .rope = {.theta = 10000, .is_permuted = true},                         \
    .tensors = {hf_tensors_decoder, hf_tensors_norms, granite_tensors_experts}

static const struct hf_class granitemoe_classes[] = {
    {
        .name = "GraniteMoeForCausalLM",
        .model_type = "granitemoe",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_experts, granite_keys, hf_keys_kv},
        GRANITEMOE_CLASS,
    },
    {
        .name = "GraniteMoeSharedForCausalLM",
        .model_type = "granitemoeshared",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_experts, granite_keys, hf_keys_kv,
                 granitemoe_keys_shared},
        GRANITEMOE_CLASS,
    },
    {0},
};

const struct arch arch_granitemoe = {
    .name = "granitemoe",
    .read = granitemoe_read,
    .layer = layer_llama,
    .build = stack_build,
    .classes = granitemoe_classes,
};
