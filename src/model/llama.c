// Llama 2, 3 and 3.1, Mistral (a window, where the file has one) and Mixtral (experts): RMS norms,
// rope in interleaved pairs (GGUF permutes q and k for it), grouped queries, SwiGLU. The head may
// be tied to the embedding; 3.1's rope scaling comes as divisors in rope_freqs.weight.
#include "model/arch.h"

static rn_status llama_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    return hparams_decoder(hp, weights, ROPE_INTERLEAVED, 1, err);
}

const struct arch arch_llama = {
    .name = "llama",
    .read = llama_read,
    .decoder =
        {
            .attn_norm = "attn_norm",
            .ffn_norm = "ffn_norm",
            .gate = GATE_SILU,
        },
};
