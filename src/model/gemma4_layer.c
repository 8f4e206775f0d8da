// A layer of Gemma 4: attention, a feed-forward with experts beside it in some models, the layer's
// own input, and a factor of the whole stream at its end.
#include <math.h>

#include "model/gemma4.h"

static struct qkv heads(struct builder *b, const struct layer *l, int in) {
    const struct qkv t = block_qkv(b, l, in);
    if (l->kv_back == 0) {
        build_norm(b, NORM_RMS, l->k_is_v ? t.k : t.v, t.v, NULL, l->dim_v, false);
    } else { // files have them for all layers
        bind_ignore(b, "attn_k");
        bind_ignore(b, "attn_v");
        bind_ignore(b, "attn_k_norm");
    }
    block_norm_heads(b, l, t);
    block_rope(b, l, t);
    return t;
}

// The router has the stream under a norm of its own.
static int experts(struct builder *b, const struct layer *l) {
    const float scale = 1 / sqrtf((float)b->model->hp.n_embd);
    block_router(b, l, block_norm(b, NORM_RMS, "ffn_gate_inp.scale"), scale);
    return block_experts_sum(b, l, block_norm(b, NORM_RMS, "pre_ffw_norm_2"), GATE_GELU);
}

// Before the norm behind it. With experts it is the sum of two, each normed.
static int feed_forward(struct builder *b, const struct layer *l) {
    const int n = b->model->hp.n_embd, sum = block_buffer(b, "ffn", n, 1);
    const int h = block_norm(b, NORM_RMS, "ffn_norm");
    struct layer dense = *l;
    dense.n_expert = 0;
    const int out = l->n_expert ? h : sum;
    build_linear(b, block_gated(b, &dense, h, GATE_GELU), out, (struct linear){.name = "ffn_down"});
    if (l->n_expert == 0) return sum;
    build_norm(b, NORM_RMS, h, sum, "post_ffw_norm_1", n, false);
    build_norm(b, NORM_RMS, experts(b, l), sum, "post_ffw_norm_2", n, true);
    return sum;
}

// The layer's own input, gated by the stream.
static int own_input(struct builder *b) {
    const int n = b->model->hp.n_embd_layer, h = block_buffer(b, "h", b->model->hp.n_embd, 1);
    const int gate = block_buffer(b, "layer_gate", n, 1),
              own = block_buffer(b, "layer_input", n, 1);
    build_linear(b, block_stream(b), gate, (struct linear){.name = "inp_gate"});
    build_columns(b, gemma4_inputs(b), own, 1, n, b->layer * n, n, 0, n);
    build_gate(b, GATE_GELU, gate, own, gate);
    // the two parts of the input have this factor
    build_linear(b, gate, h, (struct linear){.name = "proj", .scale = 1 / sqrtf(2)});
    return h;
}

void gemma4_layer(struct builder *b, const struct layer *l) {
    int inputs = gemma4_inputs(b);
    float scale = 1;
    const struct qkv qkv = heads(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_add_normed(b, block_attend_beside(b, l, qkv, &inputs), "attn_output",
                     "post_attention_norm");
    bind_values(b, "layer_output_scale", &scale, 1);
    if (!b->status && (!isfinite(scale) || scale == 0))
        b->status = err_set(b->err, RN_ERR_MODEL, "%s: tensor blk.%d.layer_output_scale is %g",
                            weights_name(b->weights), b->layer, (double)scale);
    const bool has_own = b->model->hp.n_embd_layer > 0;
    build_norm_sum(b, feed_forward(b, l), block_stream(b), "post_ffw_norm", has_own ? 1 : scale);
    if (has_own) build_norm_sum(b, own_input(b), block_stream(b), "post_norm", scale);
}
