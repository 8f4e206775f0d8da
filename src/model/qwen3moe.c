// Qwen 3 with experts: many small ones in every layer.
#include "model/arch.h"

static rn_status qwen3moe_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const rn_status s = hparams_decoder(hp, weights, ROPE_HALVES, 1, err);
    if (s) return s;
    return hparams_need_experts(hp, weights, err);
}

const struct arch arch_qwen3moe = {
    .name = "qwen3moe",
    .read = qwen3moe_read,
    .decoder =
        {
            .attn_norm = "attn_norm",
            .ffn_norm = "ffn_norm",
            .gate = GATE_SILU,
            .qk_norm = QK_NORM_HEAD,
        },
};
