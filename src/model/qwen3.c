// Qwen 3: q and k are normed head by head; rope in halves.
#include "model/arch.h"

static rn_status qwen3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = hparams_rms(hp, weights, err))) return s;
    if ((s = hparams_rope(hp, weights, err))) return s;
    hp->rope.style = ROPE_HALVES;
    return hparams_window(hp, weights, 1, err);
}

static void qwen3_build(struct builder *b) {
    static const struct decoder decoder = {
        .attn_norm = "attn_norm",
        .ffn_norm = "ffn_norm",
        .gate = GATE_SILU,
        .qk_norm = QK_NORM_HEAD,
    };
    decoder_build(b, &decoder);
}

const struct arch arch_qwen3 = {.name = "qwen3", .read = qwen3_read, .build = qwen3_build};
