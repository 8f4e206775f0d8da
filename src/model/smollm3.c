// SmolLM3: Llama without rope on every fourth layer.
#include "model/blocks.h"

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

const struct arch arch_smollm3 = {
    .name = "smollm3",
    .read = smollm3_read,
    .layer = layer_llama,
    .build = stack_build,
};
