// Gemma 4: layers with a window have smaller heads than the others. Scores have no factor, values
// are normed without a weight, and layers without attn_v take them from the keys' product. The last
// layers may read an earlier layer's keys and values; each layer may have an input of its own
// beside the stream, and experts beside its feed-forward. docs/FAMILIES.md has the details.
#include "model/gemma4.h"

#include <math.h>
#include <stdio.h>

// Heads of layers with a window, and where values come from: a folder's config says it, in a GGUF
// file a missing tensor does.
static rn_status read_heads(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const bool is_told = hparams_has(weights, "attention.k_eq_v");
    bool k_eq_v = false;
    int dim_k = hp->layer[0].dim_k, dim_v = hp->layer[0].dim_v;
    rn_status s;
    if ((s = hparams_bool(weights, "attention.k_eq_v", &k_eq_v, err))) return s;
    if ((s = hparams_int(weights, "attention.key_length_swa", 1, KV_DIM_MAX, true, &dim_k, err)))
        return s;
    if ((s = hparams_int(weights, "attention.value_length_swa", dim_k, dim_k, true, &dim_v, err)))
        return s;
    hp->rope[1].n_rot = dim_k;
    hp->rope[1].is_undivided = true;
    if ((s = hparams_int(weights, "rope.dimension_count_swa", 2, dim_k, false, &hp->rope[1].n_rot,
                         err)))
        return s;
    if (hp->rope[1].n_rot % 2 != 0)
        return hparams_fail(weights, "rope.dimension_count_swa", err, "is %d, expected even",
                            hp->rope[1].n_rot);
    for (int i = 0; i < hp->n_layer; i++) {
        struct layer *l = &hp->layer[i];
        char name[48];
        if (l->n_head_kv == 0)
            return hparams_fail(weights, "attention.head_count_kv", err, "is 0 for layer %d", i);
        if (l->dim_k != l->dim_v)
            return hparams_fail(weights, "attention.value_length", err, "is %d, keys have %d",
                                l->dim_v, l->dim_k);
        if (l->kind == KV_WINDOW) l->dim_k = l->dim_v = dim_k;
        snprintf(name, sizeof name, "blk.%d.attn_v.weight", i);
        l->k_is_v = is_told ? k_eq_v && l->kind == KV_FULL : !weights_tensor_find(weights, name);
    }
    return RN_OK;
}

// The last layers read the last layer of their kind before them that has keys of its own.
static rn_status read_shared(struct hparams *hp, const struct weights *weights, rn_error *err) {
    int n = 0;
    const rn_status s =
        hparams_int(weights, "attention.shared_kv_layers", 0, hp->n_layer - 1, false, &n, err);
    const int first = hp->n_layer - n;
    for (int i = first; !s && i < hp->n_layer; i++) {
        const struct layer *l = &hp->layer[i];
        int from = first - 1;
        while (from >= 0 && hp->layer[from].kind != l->kind) from--;
        if (from < 0 || hp->layer[from].n_head_kv != l->n_head_kv)
            return hparams_fail(weights, "attention.shared_kv_layers", err,
                                "is %d: layer %d finds no layer of its kind whose keys fit", n, i);
        hp->layer[i].kv_back = i - from;
    }
    return s;
}

rn_status gemma4_read_layers(struct hparams *hp, const struct weights *weights, rn_error *err) {
    static const char *const required[] = {"attention.sliding_window",
                                           "attention.sliding_window_pattern"};
    const struct hparams_defaults defaults = {.rope_style = ROPE_HALVES,
                                              .rope_base_local = 10000,
                                              .is_local_unscaled = true,
                                              .window_period = 6};
    rn_status s;
    for (int i = 0; i < 2; i++)
        if (!hparams_has(weights, required[i]))
            return hparams_fail(weights, required[i], err, "is missing");
    hp->embd_scale = sqrtf((float)hp->n_embd);
    hp->layer[0].attn_scale = 1;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    for (int i = 0; i < hp->n_layer; i++)
        if (hp->layer[i].n_ff == 0)
            return hparams_fail(weights, "feed_forward_length", err, "is missing for layer %d", i);
    return read_heads(hp, weights, err);
}

static rn_status gemma4_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = gemma4_read_layers(hp, weights, err))) return s;
    if ((s = hparams_router(hp, weights, ROUTE_SOFTMAX, err))) return s;
    if ((s = hparams_refuse(weights, "expert_shared_feed_forward_length", "a shared expert", err)))
        return s;
    if ((s = hparams_int(weights, "embedding_length_per_layer_input", 0, 1 << 16, false,
                         &hp->n_embd_layer, err)))
        return s;
    return read_shared(hp, weights, err);
}

int gemma4_inputs(struct builder *b) {
    const struct hparams *hp = &b->model->hp;
    return hp->n_embd_layer ? block_buffer(b, "layer_inputs", hp->n_layer * hp->n_embd_layer, 1)
                            : PLAN_NONE;
}

static void gemma4_build(struct builder *b) {
    const struct hparams *hp = &b->model->hp;
    const int inputs = gemma4_inputs(b), n = hp->n_layer * hp->n_embd_layer;
    stack_embed(b);
    if (n > 0) { // a product of the embedding, normed layer by layer, and a row of a table
        build_linear(b, block_stream(b), inputs,
                     (struct linear){.name = "per_layer_model_proj",
                                     .scale = 1 / sqrtf((float)hp->n_embd)});
        build_norm(b, NORM_RMS, inputs, inputs, "per_layer_proj_norm", hp->n_embd_layer, false);
        build_embed_add(b, inputs, bind_table(b, "per_layer_token_embd", hp->n_vocab, n),
                        sqrtf((float)hp->n_embd_layer));
    }
    stack_layers(b);
    stack_head(b, NORM_RMS);
}

const struct arch arch_gemma4 = {
    .name = "gemma4",
    .is_hybrid = true,
    .read = gemma4_read,
    .layer = gemma4_layer,
    .build = gemma4_build,
    .classes = gemma4_classes,
};
