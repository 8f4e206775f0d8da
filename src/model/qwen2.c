// Qwen 2 and 2.5: as Llama, with biases on q, k and v and rope in halves.
#include "model/blocks.h"

static rn_status qwen2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES, .window_period = 1};
    return hparams_decoder(hp, weights, &defaults, err);
}

const struct arch arch_qwen2 = {
    .name = "qwen2",
    .read = qwen2_read,
    .layer = layer_llama,
    .build = stack_build,
};
