// SmolLM3: Llama without rope on every fourth layer.
#include "base/jread.h"
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status smollm3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_INTERLEAVED};
    rn_status s;
    int every = 4;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_int(weights, "no_rope_layer_interval", 1, MODEL_MAX_LAYER, false, &every,
                         err)))
        return s;
    for (int i = every - 1; i < hp->n_layer; i += every) hp->layer[i].rope = PLAN_NONE;
    return RN_OK;
}

// The place of the first 0 of no_rope_layers, counted from 1, when there is one at each of its
// multiples and nowhere else; 0 when all have rope.
static int64_t no_rope_period(struct hf_config *c) {
    const struct hf_value value = hf_find(c, &c->root, "no_rope_layers");
    int64_t first = 0, count = 0, flag = 1;
    bool is_periodic = true;
    struct jread json;
    jread_init(&json, value.text, value.len);
    bool ok = jread_enter_array(&json);
    while (ok && jread_next_item(&json)) {
        ok = jread_i64(&json, &flag) && (flag == 0 || flag == 1);
        count++;
        if (!first && flag == 0) first = count;
        if (first && (flag == 0) != (count % first == 0)) is_periodic = false;
    }
    if (!ok || count != c->n_layer) {
        hf_fail_value(c, RN_ERR_MODEL, &c->root, "no_rope_layers",
                      "an array of 0 and 1, one for each layer");
    } else if (!is_periodic) {
        hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, "no_rope_layers",
                      "a 0 at every n'th place alone");
    }
    return first;
}

// Every interval'th layer has none; with an interval above the number of layers all have it.
static void smollm3_read_config(struct hf_config *c) {
    int64_t interval = hf_int(c, &c->root, "no_rope_layer_interval", 1, INT32_MAX, 4);
    if (c->status == RN_OK && hf_has(c, &c->root, "no_rope_layers")) {
        const int64_t period = no_rope_period(c);
        if (period) interval = period;
        if (!period && interval <= c->n_layer) interval = c->n_layer + 1;
    }
    hf_put_u32(c, "no_rope_layer_interval", interval);
}

static const struct hf_setting smollm3_settings[] = {
    {"use_sliding_window", 0, 0, "false"},
    {0},
};

static const struct hf_class smollm3_classes[] = {
    {
        .name = "SmolLM3ForCausalLM",
        .model_type = "smollm3",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .settings = smollm3_settings,
        .activation = &hf_silu,
        .rope = {.theta = 2e6, .is_permuted = true},
        .is_tied = true,
        .read = smollm3_read_config,
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_mlp, hf_tensors_mlp_bias},
    },
    {0},
};

const struct arch arch_smollm3 = {
    .name = "smollm3",
    .read = smollm3_read,
    .layer = layer_llama,
    .build = stack_build,
    .classes = smollm3_classes,
};
