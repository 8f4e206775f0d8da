// Qwen 2 and 2.5: as Llama, with biases on q, k and v and rope in halves.
#include "model/arch.h"

static rn_status qwen2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = hparams_rms(hp, weights, err))) return s;
    if ((s = hparams_rope(hp, weights, err))) return s;
    hp->rope.style = ROPE_HALVES;
    return hparams_window(hp, weights, 1, err);
}

static void qwen2_build(struct builder *b) {
    static const struct decoder decoder = {
        .attn_norm = "attn_norm",
        .ffn_norm = "ffn_norm",
        .gate = GATE_SILU,
    };
    decoder_build(b, &decoder);
}

const struct arch arch_qwen2 = {.name = "qwen2", .read = qwen2_read, .build = qwen2_build};
