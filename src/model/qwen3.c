// Qwen 3: q and k are normed head by head; rope in halves.
#include "model/arch.h"

static rn_status qwen3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    return hparams_decoder(hp, weights, ROPE_HALVES, 1, err);
}

const struct arch arch_qwen3 = {
    .name = "qwen3",
    .read = qwen3_read,
    .decoder =
        {
            .attn_norm = "attn_norm",
            .ffn_norm = "ffn_norm",
            .gate = GATE_SILU,
            .qk_norm = QK_NORM_HEAD,
        },
};
