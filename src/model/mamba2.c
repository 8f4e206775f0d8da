// Mamba-2: every layer is a recurrence, without attention and feed-forward.
#include "model/mamba.h"

static rn_status mamba2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.no_rope = true};
    rn_status s;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_refuse(weights, "attention.head_count", "attention", err))) return s;
    if ((s = hparams_refuse(weights, "feed_forward_length", "a feed-forward", err))) return s;
    if ((s = hparams_refuse_experts(hp, weights, err))) return s;
    return mamba_read_rest(hp, weights, err);
}

static void mamba2_layer(struct builder *b, const struct layer *l) {
    block_add(b, block_mamba(b, l, block_norm(b, NORM_RMS, "attn_norm")), "ssm_out");
}

static const struct hf_key mamba2_keys[] = {
    {"num_hidden_layers", "n_layer", "block_count", HF_INT, 1, HF_MAX_LAYER, HF_REQUIRED,
     HF_NUMBER(n_layer), 0},
    {"hidden_size", "d_model", "embedding_length", HF_INT, 1, 1 << 20, HF_REQUIRED,
     HF_NUMBER(n_embd), 0},
    {"layer_norm_epsilon", "rms_norm_eps", "attention.layer_norm_rms_epsilon", HF_FLOAT, 0, 1, 1e-5,
     0, 0},
    {"conv_kernel", NULL, "ssm.conv_kernel", HF_INT, 2, PLAN_MAX_TAPS, 4, 0, 0},
    {"state_size", NULL, "ssm.state_size", HF_INT, 1, KV_DIM_MAX, 128, 0, 0},
    {"n_groups", NULL, "ssm.group_count", HF_INT, 1, 1 << 12, 8, 0, 0},
    {"num_heads", NULL, "ssm.time_step_rank", HF_INT, 1, 1 << 12, 128, 0, 0},
    {0},
};

// A state has no length, so the context is what converters write.
static void mamba2_config(struct hf_config *c) {
    mamba_put(c, "num_heads", "head_dim");
    hf_put_u32(c, "context_length", 1 << 20);
    hf_put_u32(c, "feed_forward_length", 0);
    hf_put_u32(c, "attention.head_count", 0);
}

static const struct hf_class mamba2_classes[] = {
    {
        .name = "Mamba2ForCausalLM",
        .model_type = "mamba2",
        .keys = {mamba2_keys},
        .activation = &hf_silu,
        .read = mamba2_config,
        .tensors = {mamba_tensors_frame, mamba_tensors_mixer},
    },
    {0},
};

const struct arch arch_mamba2 = {
    .name = "mamba2",
    .is_hybrid = true,
    .read = mamba2_read,
    .layer = mamba2_layer,
    .build = stack_build,
    .classes = mamba2_classes,
};
