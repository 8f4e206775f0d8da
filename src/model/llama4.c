// Llama 4: layers whose windows are chunks, rotated, with weightless norms of q and k behind rope.
// Between them, layers that see everything: not rotated, with queries that grow with the position.
// Experts stand beside a shared one. Their layers may alternate with dense ones. No images.
#include "model/blocks.h"
#include "model/hf_rows.h"

// Of GGUF files, which say none of these: the numbers of the published models.
enum { CHUNK = 8192, NO_ROPE_PERIOD = 4, BARE_EXPERTS = 128 };

struct patterns {
    int rotated[MODEL_MAX_LAYER], chunked[MODEL_MAX_LAYER], sparse[MODEL_MAX_LAYER];
};

// Of folders by flags for each layer.
static rn_status read_patterns(const struct hparams *hp, const struct weights *weights,
                               struct patterns *p, rn_error *err) {
    int step = 1;
    rn_status s;
    if ((s = hparams_int(weights, "interleave_moe_layer_step", 1, MODEL_MAX_LAYER, true, &step,
                         err)))
        return s;
    for (int i = 0; i < hp->n_layer; i++) {
        p->sparse[i] = (i + 1) % step == 0;
        p->rotated[i] = (i + 1) % NO_ROPE_PERIOD != 0;
    }
    if ((s = hparams_flags(hp, weights, "rope.pattern", p->rotated, err))) return s;
    for (int i = 0; i < hp->n_layer; i++) p->chunked[i] = p->rotated[i];
    if ((s = hparams_flags(hp, weights, "attention.chunk_pattern", p->chunked, err))) return s;
    return hparams_flags(hp, weights, "expert_pattern", p->sparse, err);
}

static rn_status read_layers(struct hparams *hp, const struct weights *weights, rn_error *err) {
    struct patterns p;
    struct temper temper = {CHUNK, 1, 0.1f};
    int chunk = CHUNK;
    bool is_normed = hp->layer[0].n_expert != BARE_EXPERTS;
    rn_status s;
    if ((s = read_patterns(hp, weights, &p, err))) return s;
    if ((s = hparams_temper(weights, &temper, err))) return s;
    if ((s = hparams_int(weights, "attention.chunk_size", 1, INT32_MAX, false, &chunk, err)))
        return s;
    if ((s = hparams_bool(weights, "attention.qk_norm", &is_normed, err))) return s;
    for (int i = 0; i < hp->n_layer; i++) {
        struct layer *l = &hp->layer[i];
        l->kind = p.chunked[i] ? KV_CHUNK : KV_FULL;
        l->window = p.chunked[i] ? chunk : 0;
        l->rope = p.rotated[i] ? 0 : PLAN_NONE;
        l->has_bare_norms = p.rotated[i] && is_normed;
        if (!p.rotated[i]) l->temper = temper;
        l->n_ff_shared = l->n_ff_expert;
        l->normalize_experts = false;
        l->experts_weigh_input = true;
        if (!p.sparse[i]) l->n_expert = 0;
    }
    return RN_OK;
}

static rn_status llama4_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_INTERLEAVED};
    rn_status s;
    if (hparams_has(weights, "attention.sliding_window"))
        return hparams_fail(weights, "attention.sliding_window", err,
                            "is not supported: layers have chunks of %d positions", CHUNK);
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_need_experts(hp, weights, err))) return s;
    if ((s = hparams_router(hp, weights, ROUTE_SIGMOID, err))) return s;
    if ((s = read_layers(hp, weights, err))) return s;
    return hparams_need_ff(hp, weights, err);
}

static void llama4_layer(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_rope(b, l, qkv);
    block_norm_bare(b, l, qkv);
    block_temper(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    const int h = block_norm(b, NORM_RMS, "ffn_norm");
    block_feed_forward(b, l, h, GATE_SILU);
    if (l->n_expert) block_shared_expert(b, l, h, GATE_SILU, true);
}

static const struct hf_key llama4_keys[] = {
    {"intermediate_size_mlp", NULL, "feed_forward_length", HF_INT, 1, 1 << 24, 16384,
     HF_NUMBER(n_ff), 0},
    {"intermediate_size", NULL, "expert_feed_forward_length", HF_INT, 1, 1 << 24, HF_REQUIRED,
     HF_NUMBER(n_ff_expert), 0},
    {"num_attention_heads", NULL, "attention.head_count", HF_INT, 1, 1 << 16, HF_REQUIRED,
     HF_NUMBER(n_head), 0},
    {"rms_norm_eps", NULL, "attention.layer_norm_rms_epsilon", HF_FLOAT, 0, 1, 1e-5, 0, 0},
    {"interleave_moe_layer_step", NULL, "interleave_moe_layer_step", HF_INT, 1, 4096, 1, 0, 0},
    {"attention_chunk_size", NULL, "attention.chunk_size", HF_INT, 1, INT32_MAX, CHUNK, 0, 0},
    {"floor_scale", NULL, "attention.temperature_length", HF_INT, 1, 1 << 26, CHUNK, 0, 0},
    {"use_qk_norm", NULL, "attention.qk_norm", HF_BOOL, 0, 1, true, 0, 0},
    {0},
};

static void llama4_config(struct hf_config *c) {
    static const char *const types[] = {"full_attention", "chunked_attention", NULL};
    uint8_t flags[HF_MAX_LAYER] = {0}, sparse[HF_MAX_LAYER] = {0};
    int64_t layers[HF_MAX_LAYER];
    const bool is_tempered = hf_measure(c, &c->root, "attn_temperature_tuning", 1) != 0;
    const double factor = hf_number(c, &c->root, "attn_scale", 0, 1e3, 0.1);
    hf_put_f32(c, "attention.temperature_scale", is_tempered ? factor : 0);
    hf_rotated_layers(c, flags);
    hf_put_bools(c, "rope.pattern", flags, c->n_layer);
    if (hf_layer_types(c, types, flags))
        hf_put_bools(c, "attention.chunk_pattern", flags, c->n_layer);
    if (hf_find(c, &c->root, "attention_chunk_size").text &&
        !hf_has(c, &c->root, "attention_chunk_size"))
        hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, "attention_chunk_size", "a number");
    if (!hf_has(c, &c->root, "moe_layers")) return;
    const int64_t n = hf_ints(c, "moe_layers", c->n_layer - 1, layers, c->n_layer);
    for (int64_t i = 0; i < n; i++) sparse[layers[i]] = 1;
    hf_put_bools(c, "expert_pattern", sparse, c->n_layer);
}

static const struct hf_tensor llama4_tensors[] = {
    {"layers.#.feed_forward.router.weight", "blk.#.ffn_gate_inp.weight", hf_map_view},
    {"layers.#.feed_forward.shared_expert.gate_proj.weight", "blk.#.ffn_gate_shexp.weight",
     hf_map_view},
    {"layers.#.feed_forward.shared_expert.up_proj.weight", "blk.#.ffn_up_shexp.weight",
     hf_map_view},
    {"layers.#.feed_forward.shared_expert.down_proj.weight", "blk.#.ffn_down_shexp.weight",
     hf_map_view},
    // one by one, where a folder's matrices were quantized
    {"layers.#.feed_forward.experts.#.gate_proj.weight", "blk.#.ffn_gate_exps.weight",
     hf_map_expert},
    {"layers.#.feed_forward.experts.#.up_proj.weight", "blk.#.ffn_up_exps.weight", hf_map_expert},
    {"layers.#.feed_forward.experts.#.down_proj.weight", "blk.#.ffn_down_exps.weight",
     hf_map_expert},
    {"layers.#.feed_forward.experts.gate_up_proj", "blk.#.ffn_@_exps.weight",
     hf_map_columns_gate_up},
    {"layers.#.feed_forward.experts.down_proj", "blk.#.ffn_down_exps.weight", hf_map_turns_down},
    {0},
};

#define LLAMA4_CLASS                                                                               \
    .keys = {hf_keys_size, llama4_keys, hf_keys_experts, hf_keys_kv}, .activation = &hf_silu,      \
    .rope = {.theta = 500000}, .head_dim = 128, .read = llama4_config,                             \
    .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_feed_forward, llama4_tensors,     \
                hf_tensors_towers}

static const struct hf_class llama4_classes[] = {
    {.name = "Llama4ForConditionalGeneration", .model_type = "llama4", LLAMA4_CLASS},
    {.name = "Llama4ForCausalLM", .model_type = "llama4_text", LLAMA4_CLASS},
    {0},
};

const struct arch arch_llama4 = {
    .name = "llama4",
    .read = llama4_read,
    .layer = llama4_layer,
    .build = stack_build,
    .classes = llama4_classes,
};
