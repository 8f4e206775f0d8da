// SmolLM3: Llama without rope on every fourth layer.
#include "model/arch.h"

static rn_status smollm3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = hparams_rms(hp, weights, err))) return s;
    if ((s = hparams_rope(hp, weights, err))) return s;
    hp->rope.skip_every = 4;
    return hparams_int(weights, "no_rope_layer_interval", 1, MODEL_MAX_LAYER, false,
                       &hp->rope.skip_every, err);
}

static void smollm3_build(struct builder *b) {
    static const struct decoder decoder = {
        .attn_norm = "attn_norm",
        .ffn_norm = "ffn_norm",
        .gate = GATE_SILU,
    };
    decoder_build(b, &decoder);
}

const struct arch arch_smollm3 = {.name = "smollm3", .read = smollm3_read, .build = smollm3_build};
