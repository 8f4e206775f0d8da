// Llama, Mistral (with its window, where the file has one) and Mixtral (experts): RMS norms,
// rope in interleaved pairs (GGUF permutes q and k for it), grouped queries, SwiGLU. The head may
// be tied to the embedding; 3.1's rope scaling comes as divisors in rope_freqs.weight.
#include "model/blocks.h"
#include "model/hf_rows.h"

static rn_status llama_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_INTERLEAVED, .window_period = 1};
    const rn_status s = hparams_decoder(hp, weights, &defaults, err);
    return s ? s : hparams_router(hp, weights, ROUTE_SOFTMAX, err);
}

static const struct hf_class llama_classes[] = {
    {
        .name = "LlamaForCausalLM",
        .model_type = "llama",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .activation = &hf_silu,
        .rope = {.theta = 10000, .is_permuted = true},
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_mlp, hf_tensors_mlp_bias},
    },
    {
        .name = "MistralForCausalLM",
        .model_type = "mistral",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv},
        .activation = &hf_silu,
        .window = {.mark = hf_window_all, .size = 4096},
        .rope = {.theta = 10000, .is_permuted = true},
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_mlp, hf_tensors_mlp_bias},
    },
    {
        .name = "MixtralForCausalLM",
        .model_type = "mixtral",
        .keys = {hf_keys_size, hf_keys_decoder, hf_keys_experts, hf_keys_kv},
        .activation = &hf_silu,
        .window = {.mark = hf_window_all},
        .rope = {.theta = 1e6, .is_permuted = true},
        .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_mlp_bias, hf_tensors_experts,
                    hf_tensors_mixtral},
    },
    {0},
};

const struct arch arch_llama = {
    .name = "llama",
    .read = llama_read,
    .layer = layer_llama,
    .build = stack_build,
    .classes = llama_classes,
};
