// ERNIE 4.5 with experts: a softmax whose bias chooses experts, shared experts beside them. The
// first layers are dense, and where the file says so, all but each n-th of the others.
#include "model/blocks.h"
#include "model/hf_rows.h"

#define NORM_MIN 1e-12 // moe_norm_min

static rn_status ernie4_5_moe_read(struct hparams *hp, const struct weights *weights,
                                   rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_INTERLEAVED};
    int step = 1;
    rn_status s;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_router(hp, weights, ROUTE_SOFTMAX, err))) return s;
    if ((s = hparams_int(weights, "interleave_moe_layer_step", 1, MODEL_MAX_LAYER, false, &step,
                         err)))
        return s;
    for (int i = 0; i < hp->n_layer; i++) {
        if ((i + 1) % step != 0) hp->layer[i].n_expert = 0;
        hp->layer[i].expert_least = (float)NORM_MIN;
    }
    if ((s = hparams_need_experts(hp, weights, err))) return s;
    return hparams_need_ff(hp, weights, err);
}

static const struct hf_key ernie4_5_moe_keys[] = {
    {"moe_num_experts", NULL, "expert_count", HF_INT, 1, 65536, HF_REQUIRED, HF_NUMBER(n_expert),
     0},
    {"moe_k", NULL, "expert_used_count", HF_INT, 1, 65536, HF_REQUIRED, HF_NUMBER(n_expert_used),
     0},
    {"moe_intermediate_size", NULL, "expert_feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff_expert), 0},
    {"moe_num_shared_experts", NULL, "expert_shared_count", HF_INT, 0, 64, 2, 0, 0},
    {"moe_layer_start_index", NULL, "leading_dense_block_count", HF_INT, 0, HF_MAX_LAYER, 1, 0, 0},
    {"moe_layer_interval", NULL, "interleave_moe_layer_step", HF_INT, 1, HF_MAX_LAYER, 1, 0, 0},
    {0},
};

static const struct hf_setting ernie4_5_moe_settings[] = {
    {"moe_norm_min", NORM_MIN, NORM_MIN, "1e-12"},
    {0},
};

static void ernie4_5_moe_config(struct hf_config *c) {
    const int64_t end = hf_int(c, &c->root, "moe_layer_end_index", -1, HF_MAX_LAYER, -1);
    if (end >= 0 && end < c->n_layer - 1)
        hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, "moe_layer_end_index", "the last layer");
}

// The blocks that predict further tokens are left out: they are of a form of their own.
static const struct hf_tensor ernie4_5_moe_tensors[] = {
    {"layers.#.mlp.moe_statics.e_score_correction_bias", "blk.#.exp_probs_b.bias", hf_map_view},
    {"layers.#.mlp.gate.moe_statics.e_score_correction_bias", "blk.#.exp_probs_b.bias",
     hf_map_view},
    {"mtp_block.*", NULL, hf_map_left_out},
    {"mtp_emb_norm.*", NULL, hf_map_left_out},
    {"mtp_hidden_norm.*", NULL, hf_map_left_out},
    {"mtp_linear_proj.*", NULL, hf_map_left_out},
    {0},
};

static const struct hf_class ernie4_5_moe_classes[] = {
    {
        .name = "Ernie4_5_MoeForCausalLM",
        .model_type = "ernie4_5_moe",
        .keys = {hf_keys_size, hf_keys_decoder, ernie4_5_moe_keys, hf_keys_kv},
        .settings = ernie4_5_moe_settings,
        .activation = &hf_silu,
        .rope = {.theta = 500000},
        .is_tied = true,
        .read = ernie4_5_moe_config,
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_mlp, hf_tensors_experts,
                    hf_tensors_shared, ernie4_5_moe_tensors},
    },
    {0},
};

const struct arch arch_ernie4_5_moe = {
    .name = "ernie4_5-moe",
    .read = ernie4_5_moe_read,
    .layer = layer_llama,
    .build = stack_build,
    .classes = ernie4_5_moe_classes,
};
