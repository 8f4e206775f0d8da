// Falcon-H1: attention and Mamba-2 side by side in every layer, both on the same normed input. A
// GGUF file has the family's multipliers in its weights. A folder has them apart; here they are
// factors of products and scores, and those of x, B and C are in the taps of the convolution.
#include <math.h>

#include "model/mamba.h"

static rn_status read_scales(struct hparams *hp, const struct weights *weights, struct layer *l,
                             rn_error *err) {
    const struct {
        const char *key;
        float *out;
    } scales[] = {
        {"embedding_scale", &hp->embd_scale},
        {"logit_scale", &hp->logit_scale},
        {"attention.output_scale", &l->attn_out_scale},
        {"feed_forward_gate_scale", &l->gate_scale},
        {"feed_forward_output_scale", &l->ff_out_scale},
        {"ssm.gate_scale", &l->recurrence.z_scale},
        {"ssm.time_step_scale", &l->recurrence.dt_scale},
        {"ssm.output_scale", &l->recurrence.out_scale},
    };
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        const rn_status s =
            hparams_float(weights, scales[i].key, 1e-6, 1e6, false, scales[i].out, err);
        if (s) return s;
    }
    return RN_OK;
}

// All layers are alike.
static rn_status falcon_h1_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    struct layer *l = &hp->layer[0];
    rn_status s;
    for (int i = 0; i < hp->n_layer; i++)
        if (hp->layer[i].n_head_kv == 0)
            return err_set(err, RN_ERR_UNSUPPORTED,
                           "%s: attention.head_count_kv: layer %d has no attention",
                           weights_name(weights), i);
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_refuse_experts(hp, weights, err))) return s;
    if ((s = hparams_need_ff(hp, weights, err))) return s;
    if ((s = mamba_read(weights, &l->recurrence, err))) return s;
    l->recurrence.is_normed = weights_tensor_find(weights, "blk.0.ssm_norm.weight") != NULL;
    if ((s = read_scales(hp, weights, l, err))) return s;
    for (int i = 1; i < hp->n_layer; i++) {
        struct layer *other = &hp->layer[i];
        other->recurrence = l->recurrence;
        other->attn_out_scale = l->attn_out_scale;
        other->gate_scale = l->gate_scale;
        other->ff_out_scale = l->ff_out_scale;
    }
    return RN_OK;
}

// The recurrence comes first: in the last layer attention is the mixer that leaves rows behind.
static void falcon_h1_layer(struct builder *b, const struct layer *l) {
    int h = block_norm(b, NORM_RMS, "attn_norm");
    block_add_scaled(b, block_mamba(b, l, h), "ssm_out", l->recurrence.out_scale);
    const struct qkv qkv = block_qkv(b, l, h);
    block_rope(b, l, qkv);
    block_add_scaled(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output", l->attn_out_scale);
    h = block_norm(b, NORM_RMS, "ffn_norm");
    block_add_scaled(b, block_gated(b, l, h, GATE_SILU), "ffn_down", l->ff_out_scale);
}

// --- folders ---

static const struct hf_key falcon_h1_keys[] = {
    {"embedding_multiplier", NULL, "embedding_scale", HF_FLOAT, HF_POSITIVE, 1, 0, 0},
    {"lm_head_multiplier", NULL, "logit_scale", HF_FLOAT, HF_POSITIVE, 1, 0, 0},
    {0},
};

// Biases would not be multiplied as their products are.
static const struct hf_setting falcon_h1_settings[] = {
    {"attention_bias", 0, 0, "false"},  {"mlp_bias", 0, 0, "false"},
    {"mamba_proj_bias", 0, 0, "false"}, {"projectors_bias", 0, 0, "false"},
    {"mamba_use_mlp", 1, 1, "true"},    {0},
};

static double multiplier(struct hf_config *c, const char *key) {
    return hf_number(c, &c->root, key, HF_POSITIVE, 1);
}

// q and k are multiplied alike, so their factors are one of the scores. Those of v and of the
// result are one factor of the result.
static void falcon_h1_config(struct hf_config *c) {
    double ssm[5] = {1, 1, 1, 1, 1}, mlp[2] = {1, 1}; // ssm: of z, x, B, C and dt
    hf_numbers(c, "ssm_multipliers", HF_POSITIVE, ssm, 5);
    hf_numbers(c, "mlp_multipliers", HF_POSITIVE, mlp, 2);
    const double in = multiplier(c, "ssm_in_multiplier");
    const double attn = multiplier(c, "attention_in_multiplier");
    const double key = multiplier(c, "key_multiplier");
    for (int i = 0; i < 5; i++) ssm[i] *= in;
    if (c->status != RN_OK) return;
    mamba_put_expanded(c);
    mamba_scale_taps(c, ssm + 1);
    hf_put_f32(c, "ssm.gate_scale", ssm[0]);
    hf_put_f32(c, "ssm.time_step_scale", ssm[4]);
    hf_put_f32(c, "ssm.output_scale", multiplier(c, "ssm_out_multiplier"));
    hf_put_f32(c, "attention.scale", attn * attn * key / sqrt((double)c->head_dim));
    hf_put_f32(c, "attention.output_scale", attn * multiplier(c, "attention_out_multiplier"));
    hf_put_f32(c, "feed_forward_gate_scale", mlp[0]);
    hf_put_f32(c, "feed_forward_output_scale", mlp[1]);
    if (hf_bool(c, &c->root, "mamba_rms_norm", false) &&
        hf_bool(c, &c->root, "mamba_norm_before_gate", true))
        hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, "mamba_norm_before_gate", "false");
}

static const struct hf_tensor falcon_h1_tensors[] = {
    {"final_layernorm.weight", "output_norm.weight", hf_map_view},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", hf_map_view},
    {"layers.#.pre_ff_layernorm.weight", "blk.#.ffn_norm", hf_map_view},
    {0},
};

static const struct hf_class falcon_h1_classes[] = {
    {
        .name = "FalconH1ForCausalLM",
        .model_type = "falcon_h1",
        .keys = {hf_keys_size, hf_keys_decoder, falcon_h1_keys, mamba_keys, hf_keys_kv},
        .settings = falcon_h1_settings,
        .activation = &hf_silu,
        .rope = {.theta = 100000},
        .read = falcon_h1_config,
        .tensors = {hf_tensors_decoder, mamba_tensors, hf_tensors_feed_forward, falcon_h1_tensors},
    },
    {0},
};

const struct arch arch_falcon_h1 = {
    .name = "falcon-h1",
    .is_hybrid = true,
    .read = falcon_h1_read,
    .layer = falcon_h1_layer,
    .build = stack_build,
    .classes = falcon_h1_classes,
};
