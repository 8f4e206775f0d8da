// config.json of Gemma 4 where rows are not enough: numbers that differ by layer become lists.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/gemma4.h"

// Text is causal where images alone see both ways.
static void check_causal(struct hf_config *c) {
    char kind[16];
    if (!hf_has(c, &c->root, "use_bidirectional_attention")) return;
    hf_string(c, &c->root, "use_bidirectional_attention", kind, sizeof kind);
    if (c->status == RN_OK && strcmp(kind, "vision") != 0)
        hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, "use_bidirectional_attention",
                      "\"vision\" or null");
}

void gemma4_mark_window(struct hf_config *c, uint8_t *is_local) {
    for (int64_t i = 0; i < c->n_layer; i++) is_local[i] = (i + 1) % 6 != 0;
}

// The layers' kinds. The class makes the last layer a full one whatever the config says.
static void kinds_read(struct hf_config *c, uint8_t *is_local) {
    static const char *const names[] = {"full_attention", "sliding_attention", NULL};
    if (!hf_layer_types(c, names, is_local)) gemma4_mark_window(c, is_local);
    if (c->status == RN_OK && is_local[c->n_layer - 1])
        hf_fail(c, RN_ERR_UNSUPPORTED, "layer_types: the last layer has a window");
}

// A number of the layers without a window: under a key of its own, or, as newer configs have it, in
// an object for each of these layers.
static int64_t full_number(struct hf_config *c, const uint8_t *is_local, const char *key,
                           const char *own, int64_t fallback) {
    struct hf_object layers, one;
    int64_t found = hf_int(c, &c->root, own, 1, 1 << 16, fallback);
    if (!hf_has(c, &c->root, "per_layer_config")) return found;
    hf_object_read(c, hf_find(c, &c->root, "per_layer_config"), &layers);
    for (int64_t i = 0, n = 0; i < c->n_layer; i++) {
        char name[24] = "";
        for (int width = 1; width <= 4 && !hf_has(c, &layers, name); width++)
            snprintf(name, sizeof name, "%0*d", width, (int)i);
        const bool is_there = hf_has(c, &layers, name);
        if (is_there) hf_object_read(c, hf_find(c, &layers, name), &one);
        const int64_t value = is_there ? hf_int(c, &one, key, 1, 1 << 16, fallback) : fallback;
        if (is_local[i] ? value != fallback : n++ > 0 && value != found)
            hf_fail(c, RN_ERR_UNSUPPORTED, "per_layer_config: layer %d has a %s of %lld", (int)i,
                    key, (long long)value);
        if (!is_local[i]) found = value;
    }
    return found;
}

static void heads_put(struct hf_config *c, const uint8_t *is_local) {
    const bool k_eq_v = hf_bool(c, &c->root, "attention_k_eq_v", false);
    const int64_t n = hf_int(c, &c->root, "num_key_value_heads", 1, 1 << 16, 4);
    const bool is_split = hf_has(c, &c->root, "per_layer_config");
    const int64_t full = k_eq_v || is_split ? full_number(c, is_local, "num_key_value_heads",
                                                          "num_global_key_value_heads", n)
                                            : n;
    const int64_t dim = c->head_dim;
    c->head_dim = full_number(c, is_local, "head_dim", "global_head_dim", is_split ? dim : 512);
    hf_put_u32(c, "attention.key_length", c->head_dim);
    hf_put_u32(c, "attention.value_length", c->head_dim);
    hf_put_u32(c, "attention.key_length_swa", dim);
    hf_put_u32(c, "attention.value_length_swa", dim);
    hf_put_u32(c, "rope.dimension_count_swa", dim);
    hf_put_bool(c, "attention.k_eq_v", k_eq_v);
    uint32_t *heads = hf_layers_new(c);
    for (int64_t i = 0; heads && i < c->n_layer; i++) heads[i] = (uint32_t)(is_local[i] ? n : full);
    if (heads) hf_put_u32s(c, "attention.head_count_kv", heads, c->n_layer);
}

// Layers that read another's keys and values may have twice the feed-forward.
static void feed_forward_put(struct hf_config *c) {
    const bool is_double = hf_bool(c, &c->root, "use_double_wide_mlp", false);
    const int64_t shared = hf_int(c, &c->root, "num_kv_shared_layers", 0, HF_MAX_LAYER, 0);
    const int64_t n = hf_int(c, &c->root, "intermediate_size", 1, 1 << 24, 0);
    if (n == 0) hf_fail(c, RN_ERR_MODEL, "intermediate_size is missing");
    uint32_t *width = hf_layers_new(c);
    for (int64_t i = 0; width && i < c->n_layer; i++)
        width[i] = (uint32_t)(is_double && i >= c->n_layer - shared ? 2 * n : n);
    if (width) hf_put_u32s(c, "feed_forward_length", width, c->n_layer);
}

static void experts_put(struct hf_config *c) {
    if (!hf_bool(c, &c->root, "enable_moe_block", false)) return;
    c->n_expert = hf_int(c, &c->root, "num_experts", 1, 65536, 0);
    c->n_ff_expert = hf_int(c, &c->root, "moe_intermediate_size", 1, 1 << 24, 0);
    c->n_expert_used = hf_int(c, &c->root, "top_k_experts", 1, 65536, 0);
    if (c->status == RN_OK && (!c->n_expert || !c->n_ff_expert || !c->n_expert_used))
        hf_fail(c, RN_ERR_MODEL,
                "enable_moe_block needs num_experts, moe_intermediate_size and top_k_experts");
    hf_put_u32(c, "expert_count", c->n_expert);
    hf_put_u32(c, "expert_used_count", c->n_expert_used);
    hf_put_u32(c, "expert_feed_forward_length", c->n_ff_expert);
}

// Configs of models without inputs of layers say 0 or null. The unified classes have none.
static void inputs_put(struct hf_config *c) {
    static const char key[] = "hidden_size_per_layer_input", unified[] = "Gemma4Unified";
    const bool is_null = hf_find(c, &c->root, key).text && !hf_has(c, &c->root, key);
    if (strncmp(c->class->name, unified, strlen(unified)) == 0) return;
    hf_put_u32(c, "embedding_length_per_layer_input",
               hf_int(c, &c->root, key, 0, 1 << 16, is_null ? 0 : 256));
}

void gemma4_read_config(struct hf_config *c) {
    uint8_t *is_local = calloc((size_t)c->n_layer, 1);
    if (!is_local) {
        hf_fail(c, RN_ERR_NOMEM, "out of memory");
        return;
    }
    check_causal(c);
    if (c->status == RN_OK && !hf_has(c, &c->root, "rope_parameters"))
        hf_fail(c, RN_ERR_MODEL, "rope_parameters is missing");
    kinds_read(c, is_local);
    heads_put(c, is_local);
    feed_forward_put(c);
    inputs_put(c);
    experts_put(c);
    free(is_local);
}
