// Phi-3, Phi-4 and Phi-4 mini: q, k, v in one matrix, gate and up in another; rope in halves, long
// contexts by divisors (rope_factors_long, rope_factors_short).
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status phi3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES, .window_period = 1};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

static void phi3_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv_fused(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_rope(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    const int h = block_norm(b, NORM_RMS, "ffn_norm");
    block_add(b, block_gated_fused(b, l, h, GATE_SILU), "ffn_down");
}

// Always there: it decides between the two lists of divisors.
static void phi3_read_rope(struct hf_config *c) {
    hf_put_u32(c, "rope.scaling.original_context_length", hf_original_context(c));
}

static const struct hf_scaling phi3_scalings[] = {
    {"linear", hf_scaling_linear},
    {"llama3", hf_scaling_llama3},
    {"longrope", hf_scaling_longrope},
    {"su", hf_scaling_longrope},
    {0},
};

static const struct hf_tensor phi3_tensors[] = {
    {"layers.#.self_attn.qkv_proj.weight", "blk.#.attn_qkv.weight", hf_map_view},
    {"layers.#.mlp.gate_up_proj.weight", "blk.#.ffn_up.weight", hf_map_view},
    {"layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", hf_map_view},
    {0},
};

static const struct hf_class phi3_classes[] = {
    {
        .name = "Phi3ForCausalLM",
        .model_type = "phi3",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .activation = &hf_silu,
        .window = {.mark = hf_window_all},
        .rope =
            {.theta = 10000, .scalings = phi3_scalings, .is_partial = true, .more = phi3_read_rope},
        .tensors = {hf_tensors_decoder, hf_tensors_norms, phi3_tensors},
    },
    {0},
};

const struct arch arch_phi3 = {
    .name = "phi3",
    .read = phi3_read,
    .layer = phi3_layer,
    .build = stack_build,
    .classes = phi3_classes,
};
