// Folders of Gemma 4. The published ones have towers for images and sound beside the text model.
#include "model/gemma4.h"

// Heads are not read as head_dim and num_key_value_heads alone say: the layers differ.
const struct hf_key gemma4_keys[] = {
    {"num_attention_heads", NULL, "attention.head_count", HF_INT, 1, 1 << 16, HF_REQUIRED, 0, 0},
    {"rms_norm_eps", NULL, "attention.layer_norm_rms_epsilon", HF_FLOAT, 0, 1, 1e-6, 0, 0},
    {"final_logit_softcapping", NULL, "final_logit_softcapping", HF_FLOAT, HF_POSITIVE, HF_ABSENT,
     0, 0},
    {"num_kv_shared_layers", NULL, "attention.shared_kv_layers", HF_INT, 0, HF_MAX_LAYER, 0, 0, 0},
    {0},
};

const struct hf_setting gemma4_settings[] = {
    {"attention_bias", 0, 0, "false"},
    {0},
};

const struct hf_scaling gemma4_scalings[] = {
    {"proportional", hf_scaling_proportional},
    {0},
};

const struct hf_tensor gemma4_tensors[] = {
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", hf_map_view},
    {"layers.#.pre_feedforward_layernorm.weight", "blk.#.ffn_norm.weight", hf_map_view},
    {"layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight", hf_map_view},
    {"layers.#.layer_scalar", "blk.#.layer_output_scale.weight", hf_map_view},
    {"embed_tokens_per_layer.weight", "per_layer_token_embd.weight", hf_map_view},
    {"per_layer_model_projection.weight", "per_layer_model_proj.weight", hf_map_view},
    {"per_layer_projection_norm.weight", "per_layer_proj_norm.weight", hf_map_view},
    {"layers.#.per_layer_input_gate.weight", "blk.#.inp_gate.weight", hf_map_view},
    {"layers.#.per_layer_projection.weight", "blk.#.proj.weight", hf_map_view},
    {"layers.#.post_per_layer_input_norm.weight", "blk.#.post_norm.weight", hf_map_view},
    {"vision_tower.*", NULL, hf_map_left_out},
    {"audio_tower.*", NULL, hf_map_left_out},
    {"embed_vision.*", NULL, hf_map_left_out},
    {"embed_audio.*", NULL, hf_map_left_out},
    {"vision_embedder.*", NULL, hf_map_left_out},
    {0},
};

static const struct hf_tensor gemma4_experts[] = {
    {"layers.#.post_feedforward_layernorm_1.weight", "blk.#.post_ffw_norm_1.weight", hf_map_view},
    {"layers.#.post_feedforward_layernorm_2.weight", "blk.#.post_ffw_norm_2.weight", hf_map_view},
    {"layers.#.pre_feedforward_layernorm_2.weight", "blk.#.pre_ffw_norm_2.weight", hf_map_view},
    {"layers.#.router.proj.weight", "blk.#.ffn_gate_inp.weight", hf_map_view},
    {"layers.#.router.scale", "blk.#.ffn_gate_inp.scale", hf_map_view},
    {"layers.#.router.per_expert_scale", "blk.#.ffn_down_exps.scale", hf_map_view},
    {"layers.#.experts.gate_up_proj", "blk.#.ffn_@_exps.weight", hf_map_experts_gate_up},
    {"layers.#.experts.down_proj", "blk.#.ffn_down_exps.weight", hf_map_experts_down},
    {0},
};

#define GEMMA4_CLASS(window)                                                                       \
    GEMMA4_ROWS(window), .read = gemma4_read_config,                                               \
                         .tensors = {gemma4_tensors,   gemma4_experts,      hf_tensors_decoder,    \
                                     hf_tensors_norms, hf_tensors_qk_norms, hf_tensors_mlp}

const struct hf_class gemma4_classes[] = {
    {.name = "Gemma4ForCausalLM", .model_type = "gemma4_text", GEMMA4_CLASS(512)},
    {.name = "Gemma4ForConditionalGeneration", .model_type = "gemma4", GEMMA4_CLASS(512)},
    {.name = "Gemma4UnifiedForCausalLM", .model_type = "gemma4_unified_text", GEMMA4_CLASS(1024)},
    {.name = "Gemma4UnifiedForConditionalGeneration",
     .model_type = "gemma4_unified",
     GEMMA4_CLASS(1024)},
    {0},
};
