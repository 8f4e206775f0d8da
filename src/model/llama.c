// Llama, Mistral (with its window, where the file has one) and Mixtral (experts): RMS norms,
// rope in interleaved pairs (GGUF permutes q and k for it), grouped queries, SwiGLU. The head may
// be tied to the embedding; 3.1's rope scaling comes as divisors in rope_freqs.weight.
#include "model/blocks.h"

static rn_status llama_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_INTERLEAVED, .window_period = 1};
    return hparams_decoder(hp, weights, &defaults, err);
}

const struct arch arch_llama = {
    .name = "llama",
    .read = llama_read,
    .layer = layer_llama,
    .build = stack_build,
};
