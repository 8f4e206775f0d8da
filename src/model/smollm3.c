// SmolLM3: Llama without rope on every fourth layer.
#include "model/arch.h"

static rn_status smollm3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const rn_status s = hparams_decoder(hp, weights, ROPE_INTERLEAVED, 0, err);
    if (s) return s;
    hp->rope.skip_every = 4;
    return hparams_int(weights, "no_rope_layer_interval", 1, MODEL_MAX_LAYER, false,
                       &hp->rope.skip_every, err);
}

const struct arch arch_smollm3 = {
    .name = "smollm3",
    .read = smollm3_read,
    .decoder =
        {
            .attn_norm = "attn_norm",
            .ffn_norm = "ffn_norm",
            .gate = GATE_SILU,
        },
};
