// Nemotron-H: each layer is one mixer, which is Mamba-2, attention without rope, or a feed-forward
// without a gate.
#include "model/nemotron_h.h"

rn_status nemotron_h_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.no_rope = true};
    struct recurrence r = {0};
    rn_status s;
    if ((s = hparams_refuse(weights, "nextn_predict_layers", "a layer that drafts", err))) return s;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_router(hp, weights, ROUTE_SIGMOID, err))) return s;
    for (int i = 0; i < hp->n_layer; i++) {
        struct layer *l = &hp->layer[i];
        if (l->n_head_kv > 0 && l->n_ff > 0)
            return err_set(err, RN_ERR_UNSUPPORTED,
                           "%s: attention.head_count_kv and feed_forward_length: layer %d has both "
                           "attention and a feed-forward",
                           weights_name(weights), i);
        if (l->n_ff == 0) l->n_expert = 0;
        if (l->n_expert > 0 && l->n_ff_expert == 0) l->n_ff_expert = l->n_ff;
        if (l->n_head_kv > 0 || l->n_ff > 0) continue;
        if (r.taps == 0 && (s = mamba_read(weights, &r, err))) return s;
        l->recurrence = r;
    }
    return RN_OK;
}

void nemotron_h_layer(struct builder *b, const struct layer *l) {
    const int h = block_norm(b, NORM_RMS, "attn_norm");
    if (l->recurrence.taps > 0) {
        block_add(b, block_mamba(b, l, h), "ssm_out");
    } else if (l->n_head_kv > 0) {
        block_add(b, block_attend(b, l, block_qkv(b, l, h), PLAN_NONE), "attn_output");
    } else if (l->n_expert > 0) {
        block_experts_plain(b, l, h, GATE_RELU2);
        if (l->n_ff_shared > 0) block_shared_expert(b, l, h, GATE_RELU2, false);
    } else {
        block_add(b, block_plain(b, l, h, GATE_RELU2), "ffn_down");
    }
}

static rn_status dense_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const rn_status s = nemotron_h_read(hp, weights, err);
    return s ? s : hparams_refuse_experts(hp, weights, err);
}

// --- folders ---

static bool has_no_experts(struct hf_config *c) { return !nemotron_h_has_experts(c); }

static void dense_config(struct hf_config *c) { nemotron_h_put(c, "intermediate_size"); }

static const struct hf_class nemotron_h_classes[] = {
    {
        .name = "NemotronHForCausalLM",
        .model_type = "nemotron_h",
        .is_for = has_no_experts,
        .keys = {nemotron_h_keys},
        .settings = nemotron_h_settings,
        .activation = &nemotron_h_activation,
        .head_dim = 128,
        .read = dense_config,
        .tensors = {mamba_tensors_frame, mamba_tensors_mixer, nemotron_h_tensors},
    },
    {0},
};

const struct arch arch_nemotron_h = {
    .name = "nemotron_h",
    .is_hybrid = true,
    .read = dense_read,
    .layer = nemotron_h_layer,
    .build = stack_build,
    .classes = nemotron_h_classes,
};
