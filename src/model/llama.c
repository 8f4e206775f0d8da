// Llama 2, 3 and 3.1, Mistral (a window, where the file has one) and Mixtral (experts): RMS norms,
// rope in interleaved pairs (GGUF permutes q and k for it), grouped queries, SwiGLU. The head may
// be tied to the embedding; 3.1's rope scaling comes as divisors in rope_freqs.weight.
#include "model/arch.h"

static rn_status llama_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = hparams_rms(hp, weights, err))) return s;
    if ((s = hparams_rope(hp, weights, err))) return s;
    if ((s = hparams_window(hp, weights, 1, err))) return s;
    return hparams_experts(hp, weights, err);
}

static void llama_build(struct builder *b) {
    static const struct decoder decoder = {
        .attn_norm = "attn_norm",
        .ffn_norm = "ffn_norm",
        .gate = GATE_SILU,
    };
    decoder_build(b, &decoder);
}

const struct arch arch_llama = {.name = "llama", .read = llama_read, .build = llama_build};
