// Qwen 3 with experts: many small ones in every layer.
#include "model/arch.h"

static rn_status qwen3moe_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = hparams_rms(hp, weights, err))) return s;
    if ((s = hparams_rope(hp, weights, err))) return s;
    hp->rope.style = ROPE_HALVES;
    if ((s = hparams_experts(hp, weights, err))) return s;
    if (hp->n_expert == 0)
        return err_set(err, RN_ERR_MODEL, "%s: key qwen3moe.expert_count is missing or 0",
                       weights_name(weights));
    return hparams_window(hp, weights, 1, err);
}

static void qwen3moe_build(struct builder *b) {
    static const struct decoder decoder = {
        .attn_norm = "attn_norm",
        .ffn_norm = "ffn_norm",
        .gate = GATE_SILU,
        .qk_norm = QK_NORM_HEAD,
    };
    decoder_build(b, &decoder);
}

const struct arch arch_qwen3moe = {.name = "qwen3moe",
                                   .read = qwen3moe_read,
                                   .build = qwen3moe_build};
