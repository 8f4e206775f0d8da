// MiniMax M2: norms of q and k over their whole width, half of each head rotated, experts by
// sigmoids with a bias and without a shared one.
#include <string.h>

#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status minimax_m2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    rn_status s;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_router(hp, weights, ROUTE_SIGMOID, err))) return s;
    for (int i = 0; i < hp->n_layer; i++) hp->layer[i].needs_choice_bias = true;
    return hparams_need_experts(hp, weights, err);
}

static const struct hf_key minimax_m2_keys[] = {
    {"intermediate_size", NULL, "expert_feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff_expert), 0},
    {0},
};

static const struct hf_setting minimax_m2_settings[] = {
    {"use_qk_norm", 1, 1, "true"},
    {"shared_intermediate_size", 0, 0, "0"},
    {0},
};

static void word_check(struct hf_config *c, const char *key, const char *expected) {
    char word[32];
    hf_string(c, &c->root, key, word, sizeof word);
    if (word[0] && strcmp(word, expected) != 0)
        hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, key, expected);
}

// attn_type_list has a 1 for each layer: the older models of this maker had other layers.
static void minimax_m2_config(struct hf_config *c) {
    word_check(c, "scoring_func", "sigmoid");
    word_check(c, "qk_norm_type", "per_layer");
    hf_int_each(c, "attn_type_list", 1, 1, 1);
}

static void rotary_check(struct hf_config *c) {
    if (hf_int(c, &c->root, "rotary_dim", 2, 1 << 16, c->n_rot) != c->n_rot)
        hf_fail(c, RN_ERR_UNSUPPORTED,
                "rotary_dim is not the %lld elements that partial_rotary_factor gives",
                (long long)c->n_rot);
}

static const struct hf_tensor minimax_m2_tensors[] = {
    {"layers.#.block_sparse_moe.e_score_correction_bias", "blk.#.exp_probs_b.bias", hf_map_view},
    {"layers.#.mlp.e_score_correction_bias", "blk.#.exp_probs_b.bias", hf_map_view},
    {0},
};

static const struct hf_class minimax_m2_classes[] = {
    {
        .name = "MiniMaxM2ForCausalLM",
        .model_type = "minimax_m2",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_experts, minimax_m2_keys, hf_keys_kv},
        .settings = minimax_m2_settings,
        .activation = &hf_silu,
        .rope = {.theta = 5e6, .is_partial = true, .part = 0.5, .more = rotary_check},
        .head_dim = 128,
        .read = minimax_m2_config,
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_qk_norms, hf_tensors_experts,
                    hf_tensors_mixtral, minimax_m2_tensors},
    },
    {0},
};

const struct arch arch_minimax_m2 = {
    .name = "minimax-m2",
    .read = minimax_m2_read,
    .layer = layer_olmoe,
    .build = stack_build,
    .classes = minimax_m2_classes,
};
