// The text part of Qwen 3 VL with experts: Qwen 3 with experts, as qwen3vl.c says of its positions
// and of its tower. A folder's stacks of experts have the inputs first.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status qwen3vlmoe_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_need_experts(hp, weights, err);
}

// The class divides the weights by their sum, and has no key of it.
static const struct hf_key qwen3vlmoe_keys[] = {
    {"moe_intermediate_size", NULL, "expert_feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff_expert), 0},
    {0},
};

// Experts in every layer.
static const struct hf_setting qwen3vlmoe_settings[] = {
    {"decoder_sparse_step", 1, 1, "1"},
    {"mlp_only_layers", 0, 0, "[]"},
    {"norm_topk_prob", 1, 1, "true"},
    {0},
};

static const struct hf_tensor qwen3vlmoe_tensors[] = {
    {"layers.#.mlp.gate.weight", "blk.#.ffn_gate_inp.weight", hf_map_view},
    // one by one, where a folder's matrices were quantized
    {"layers.#.mlp.experts.#.gate_proj.weight", "blk.#.ffn_gate_exps.weight", hf_map_expert},
    {"layers.#.mlp.experts.#.up_proj.weight", "blk.#.ffn_up_exps.weight", hf_map_expert},
    {"layers.#.mlp.experts.#.down_proj.weight", "blk.#.ffn_down_exps.weight", hf_map_expert},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_@_exps.weight", hf_map_columns_gate_up},
    {"layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", hf_map_turns_down},
    {"visual.*", NULL, hf_map_left_out},
    {0},
};

static const struct hf_class qwen3vlmoe_classes[] = {
    {
        .name = "Qwen3VLMoeForConditionalGeneration",
        .model_type = "qwen3_vl_moe",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_experts, qwen3vlmoe_keys, hf_keys_kv},
        .settings = qwen3vlmoe_settings,
        .activation = &hf_silu,
        .rope = {.theta = 500000},
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_qk_norms, qwen3vlmoe_tensors},
    },
    {0},
};

const struct arch arch_qwen3vlmoe = {
    .name = "qwen3vlmoe",
    .read = qwen3vlmoe_read,
    .layer = layer_qwen3,
    .build = stack_build,
    .classes = qwen3vlmoe_classes,
};
