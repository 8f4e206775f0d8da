// The shared rows: most classes of transformers name their keys and tensors as Llama does.
#include "model/hf_rows.h"

const struct hf_key hf_keys_size[] = {
    {"num_hidden_layers", "n_layer", "block_count", HF_INT, 1, HF_MAX_LAYER, HF_REQUIRED,
     HF_NUMBER(n_layer), 0},
    {"max_position_embeddings", "n_positions", "context_length", HF_INT, 1, INT32_MAX, HF_REQUIRED,
     HF_NUMBER(n_ctx), 0},
    {"hidden_size", "n_embd", "embedding_length", HF_INT, 1, 1 << 20, HF_REQUIRED,
     HF_NUMBER(n_embd), 0},
    {0},
};

const struct hf_key hf_keys_decoder[] = {
    {"intermediate_size", NULL, "feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff), 0},
    {"num_attention_heads", "n_head", "attention.head_count", HF_INT, 1, 1 << 16, HF_REQUIRED,
     HF_NUMBER(n_head), 0},
    {"rms_norm_eps", NULL, "attention.layer_norm_rms_epsilon", HF_FLOAT, 0, 1, HF_REQUIRED, 0, 0},
    {0},
};

const struct hf_key hf_keys_kv[] = {
    {"num_key_value_heads", NULL, "attention.head_count_kv", HF_INT, 1, 1 << 16, 0,
     HF_NUMBER(n_head_kv), HF_NUMBER(n_head)},
    {0},
};

const struct hf_key hf_keys_experts[] = {
    {"num_local_experts", "num_experts", "expert_count", HF_INT, 1, 65536, HF_REQUIRED,
     HF_NUMBER(n_expert), 0},
    {"num_experts_per_tok", "experts_per_token", "expert_used_count", HF_INT, 1, 65536, HF_REQUIRED,
     HF_NUMBER(n_expert_used), 0},
    {0},
};

const struct hf_tensor hf_tensors_decoder[] = {
    {"embed_tokens.weight", "token_embd.weight", hf_map_view},
    {"lm_head.weight", "output.weight", hf_map_head},
    {"layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", hf_map_view},
    {"layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", hf_map_view},
    {"layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight", hf_map_view},
    {"layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", hf_map_view},
    {"layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", hf_map_view},
    {"layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", hf_map_view},
    {"layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias", hf_map_view},
    {"layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias", hf_map_view},
    {"layers.#.self_attn.rotary_emb.inv_freq", NULL, hf_map_ignore},
    {"rotary_emb.inv_freq", NULL, hf_map_ignore},
    {0},
};

const struct hf_tensor hf_tensors_norms[] = {
    {"norm.weight", "output_norm.weight", hf_map_view},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", hf_map_view},
    {"layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight", hf_map_view},
    {0},
};

const struct hf_tensor hf_tensors_norms_behind[] = {
    {"norm.weight", "output_norm.weight", hf_map_view},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", hf_map_view},
    {"layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight", hf_map_view},
    {0},
};

const struct hf_tensor hf_tensors_qk_norms[] = {
    {"layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", hf_map_view},
    {"layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", hf_map_view},
    {0},
};

const struct hf_tensor hf_tensors_mlp[] = {
    {"layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight", hf_map_view},
    {"layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight", hf_map_view},
    {"layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", hf_map_view},
    {0},
};

const struct hf_tensor hf_tensors_feed_forward[] = {
    {"layers.#.feed_forward.gate_proj.weight", "blk.#.ffn_gate.weight", hf_map_view},
    {"layers.#.feed_forward.up_proj.weight", "blk.#.ffn_up.weight", hf_map_view},
    {"layers.#.feed_forward.down_proj.weight", "blk.#.ffn_down.weight", hf_map_view},
    {0},
};

const struct hf_tensor hf_tensors_mlp_bias[] = {
    {"layers.#.mlp.gate_proj.bias", "blk.#.ffn_gate.bias", hf_map_view},
    {"layers.#.mlp.up_proj.bias", "blk.#.ffn_up.bias", hf_map_view},
    {"layers.#.mlp.down_proj.bias", "blk.#.ffn_down.bias", hf_map_view},
    {0},
};

const struct hf_tensor hf_tensors_experts[] = {
    {"layers.#.mlp.gate.weight", "blk.#.ffn_gate_inp.weight", hf_map_view},
    {"layers.#.mlp.experts.#.gate_proj.weight", "blk.#.ffn_gate_exps.weight", hf_map_expert},
    {"layers.#.mlp.experts.#.down_proj.weight", "blk.#.ffn_down_exps.weight", hf_map_expert},
    {"layers.#.mlp.experts.#.up_proj.weight", "blk.#.ffn_up_exps.weight", hf_map_expert},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_@_exps.weight", hf_map_experts_gate_up},
    {"layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", hf_map_experts_down},
    {0},
};

const struct hf_tensor hf_tensors_mixtral[] = {
    {"layers.#.block_sparse_moe.gate.weight", "blk.#.ffn_gate_inp.weight", hf_map_view},
    {"layers.#.block_sparse_moe.experts.#.w1.weight", "blk.#.ffn_gate_exps.weight", hf_map_expert},
    {"layers.#.block_sparse_moe.experts.#.w2.weight", "blk.#.ffn_down_exps.weight", hf_map_expert},
    {"layers.#.block_sparse_moe.experts.#.w3.weight", "blk.#.ffn_up_exps.weight", hf_map_expert},
    {0},
};

// The shared expert, as DeepSeek names it.
const struct hf_tensor hf_tensors_shared[] = {
    {"layers.#.mlp.shared_experts.gate_proj.weight", "blk.#.ffn_gate_shexp.weight", hf_map_view},
    {"layers.#.mlp.shared_experts.up_proj.weight", "blk.#.ffn_up_shexp.weight", hf_map_view},
    {"layers.#.mlp.shared_experts.down_proj.weight", "blk.#.ffn_down_shexp.weight", hf_map_view},
    {"layers.#.mlp.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias", hf_map_view},
    {0},
};

// A block behind the layers that predicts a further token.
const struct hf_tensor hf_tensors_nextn[] = {
    {"layers.#.eh_proj.weight", "blk.#.nextn.eh_proj.weight", hf_map_view},
    {"layers.#.enorm.weight", "blk.#.nextn.enorm.weight", hf_map_view},
    {"layers.#.hnorm.weight", "blk.#.nextn.hnorm.weight", hf_map_view},
    {"layers.#.embed_tokens.weight", "blk.#.nextn.embed_tokens.weight", hf_map_view},
    {"layers.#.shared_head.norm.weight", "blk.#.nextn.shared_head_norm.weight", hf_map_view},
    {"layers.#.shared_head.head.weight", "blk.#.nextn.shared_head_head.weight", hf_map_view},
    {0},
};

const struct hf_tensor hf_tensors_towers[] = {
    {"vision_tower.*", NULL, hf_map_left_out},
    {"vision_model.*", NULL, hf_map_left_out},
    {"multi_modal_projector.*", NULL, hf_map_left_out},
    {0},
};

const struct hf_activation hf_silu = {"hidden_act", {"silu", "swish"}, "silu"};
