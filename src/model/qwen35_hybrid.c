// Hyper-parameters of Qwen 3.5, its mixtures and Qwen3-Next: which layers are recurrent, the state
// of these, the experts.
#include "model/qwen35.h"

// Which layers are recurrent: those of the file's list, those without KV heads, else all but each
// N-th.
static rn_status read_layers(struct hparams *hp, const struct weights *weights, rn_error *err) {
    int is_recurrent[MODEL_MAX_LAYER] = {0}, interval = QWEN35_INTERVAL;
    bool has_zeros = false;
    rn_status s;
    if ((s = hparams_int(weights, "full_attention_interval", 1, MODEL_MAX_LAYER, false, &interval,
                         err)))
        return s;
    for (int i = 0; i < hp->n_layer; i++) has_zeros = has_zeros || hp->layer[i].n_head_kv == 0;
    for (int i = 0; i < hp->n_layer; i++)
        is_recurrent[i] = has_zeros ? hp->layer[i].n_head_kv == 0 : (i + 1) % interval != 0;
    if (hparams_has(weights, "attention.recurrent_layers") &&
        (s = hparams_layers(hp, weights, "attention.recurrent_layers", 0, 1, true, is_recurrent,
                            err)))
        return s;
    for (int i = 0; i < hp->n_layer; i++) {
        struct layer *l = &hp->layer[i];
        if (!is_recurrent[i] && l->n_head_kv == 0)
            return hparams_fail(weights, "attention.head_count_kv", err,
                                "has no heads for layer %d, which is not recurrent", i);
        if (!is_recurrent[i] && l->dim_k != l->dim_v)
            return hparams_fail(weights, "attention.value_length", err,
                                "is %d, expected %d as of keys: the gate has their width", l->dim_v,
                                l->dim_k);
        if (!is_recurrent[i]) continue;
        l->n_head_kv = 0;
        l->recurrence.taps = 1; // until read_state
    }
    return RN_OK;
}

// Values have as many floats as inner_size says.
static rn_status read_values(struct recurrence *r, const struct weights *weights, rn_error *err) {
    int inner = r->n_head * r->dim_k;
    rn_status s;
    if ((s = hparams_int(weights, "ssm.inner_size", 1, QWEN35_MAX_HEADS * KV_DIM_MAX, false, &inner,
                         err)))
        return s;
    if (r->n_head % r->n_key != 0)
        return hparams_fail(weights, "ssm.time_step_rank", err,
                            "is %d, expected a multiple of %d key heads", r->n_head, r->n_key);
    r->dim_v = inner / r->n_head;
    if (inner % r->n_head != 0 || r->dim_v > KV_DIM_MAX)
        return hparams_fail(weights, "ssm.inner_size", err,
                            "is %d, expected a multiple of %d heads and at most %d floats for each",
                            inner, r->n_head, KV_DIM_MAX);
    return RN_OK;
}

static rn_status read_state(const struct weights *weights, bool is_tiled, struct recurrence *r,
                            rn_error *err) {
    bool is_grouped = !is_tiled;
    rn_status s;
    if ((s = hparams_int(weights, "ssm.conv_kernel", 2, PLAN_MAX_TAPS, true, &r->taps, err)))
        return s;
    if ((s = hparams_int(weights, "ssm.state_size", 1, KV_DIM_MAX, true, &r->dim_k, err))) return s;
    if ((s = hparams_int(weights, "ssm.group_count", 1, QWEN35_MAX_HEADS, true, &r->n_key, err)))
        return s;
    if ((s = hparams_int(weights, "ssm.time_step_rank", 1, QWEN35_MAX_HEADS, true, &r->n_head,
                         err)))
        return s;
    if ((s = read_values(r, weights, err))) return s;
    if ((s = hparams_bool(weights, "ssm.grouped_heads", &is_grouped, err))) return s;
    r->n_channel = 2 * r->n_key * r->dim_k + r->n_head * r->dim_v;
    r->is_tiled = !is_grouped;
    return RN_OK;
}

rn_status qwen35_hybrid(struct hparams *hp, const struct weights *weights, bool is_tiled,
                        rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES};
    struct recurrence r = {0};
    rn_status s;
    if ((s = read_layers(hp, weights, err))) return s;
    if ((s = read_state(weights, is_tiled, &r, err))) return s;
    for (int i = 0; i < hp->n_layer; i++)
        if (hp->layer[i].recurrence.taps > 0) hp->layer[i].recurrence = r;
    return hparams_decoder(hp, weights, &defaults, err);
}

rn_status qwen35_experts(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = hparams_need_experts(hp, weights, err))) return s;
    if ((s = hparams_router(hp, weights, ROUTE_SOFTMAX, err))) return s;
    for (int i = 0; i < hp->n_layer; i++) {
        struct layer *l = &hp->layer[i];
        const bool is_dense = l->n_expert == 0;
        if (!is_dense && !hparams_has(weights, "expert_shared_feed_forward_length"))
            l->n_ff_shared = l->n_ff;
        if (is_dense ? l->n_ff == 0 : l->n_ff_shared == 0)
            return hparams_fail(weights,
                                is_dense ? "feed_forward_length"
                                         : "expert_shared_feed_forward_length",
                                err, "is missing or 0");
    }
    return RN_OK;
}
