// Qwen 2 and 2.5: as Llama, with biases on q, k and v and rope in halves.
#include "model/arch.h"

static rn_status qwen2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    return hparams_decoder(hp, weights, ROPE_HALVES, 1, err);
}

const struct arch arch_qwen2 = {
    .name = "qwen2",
    .read = qwen2_read,
    .decoder =
        {
            .attn_norm = "attn_norm",
            .ffn_norm = "ffn_norm",
            .gate = GATE_SILU,
        },
};
