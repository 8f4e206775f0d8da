// Llama 2, 3 and 3.1: RMS norms, rope in interleaved pairs (GGUF permutes q and k for it), grouped
// queries, SwiGLU. The head may be tied to the embedding (no output.weight); 3.1's rope scaling
// comes as divisors in rope_freqs.weight.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rmath.h"
#include "model/arch.h"

static rn_status read_scaling(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct meta_view *meta = weights_meta_find(weights, "llama.rope.scaling.type");
    const char *type = "";
    size_t len = 0;
    if (meta && !meta_get_string(meta, &type, &len))
        return err_set(err, RN_ERR_MODEL, "%s: key llama.rope.scaling.type is not a string",
                       weights_name(weights));
    if (len == 0 || (len == 4 && memcmp(type, "none", 4) == 0)) return RN_OK;
    if (len == 6 && memcmp(type, "linear", 6) == 0)
        return hparams_float(weights, "rope.scaling.factor", 1e-3, 1e6, true, &hp->rope_linear,
                             err);
    return err_set(err, RN_ERR_UNSUPPORTED,
                   "%s: key llama.rope.scaling.type: '%.*s' is not supported (known: none, linear)",
                   weights_name(weights), (int)(len < 64 ? len : 64), type);
}

static rn_status llama_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    int n_expert = 0;
    if ((s = hparams_float(weights, "attention.layer_norm_rms_epsilon", 0, 1, true, &hp->norm_eps,
                           err)))
        return s;
    if ((s = hparams_int(weights, "expert_count", 0, 1 << 16, false, &n_expert, err))) return s;
    if (n_expert > 0)
        return err_set(err, RN_ERR_UNSUPPORTED,
                       "%s: key llama.expert_count is %d: mixtures of experts are not supported",
                       weights_name(weights), n_expert);
    return read_scaling(hp, weights, err);
}

// The frequencies of the pairs, in f32 as the models were trained: base^(-2i / n_rot), divided by
// the scaling.
static int add_rope(struct builder *b) {
    const struct hparams *hp = &b->model->hp;
    const int n = hp->n_rot / 2;
    const int divisors = bind_optional_vector(b, "rope_freqs.weight", n);
    if (b->status || b->plan->failed) return PLAN_NONE;
    float *inv_freq = calloc((size_t)n * 2, sizeof *inv_freq);
    if (!inv_freq) {
        b->status = err_set(b->err, RN_ERR_NOMEM, "no memory for the plan");
        return PLAN_NONE;
    }
    float *divisor = inv_freq + n;
    if (divisors != PLAN_NONE)
        format_decode(b->plan->weight[divisors].format, b->plan->weight[divisors].data, divisor, n);
    for (int i = 0; i < n; i++) {
        const double exponent = -2.0 * i / hp->n_rot * rmath_log((double)hp->rope_base);
        inv_freq[i] = (float)rmath_exp_double(exponent) / hp->rope_linear;
        if (divisors != PLAN_NONE) inv_freq[i] /= divisor[i];
        // sine and cosine are exact enough up to this angle; real models stay far below
        if (!(fabsf(inv_freq[i]) * (float)hp->n_ctx <= 1e8f) && !b->status)
            b->status = err_set(
                b->err, RN_ERR_MODEL,
                "%s: rope frequency %d is %g (rope_freqs.weight or rope.scaling.factor): its "
                "angle at position %d is out of range",
                weights_name(b->weights), i, (double)inv_freq[i], hp->n_ctx);
    }
    const struct plan_rope rope = {.style = ROPE_INTERLEAVED,
                                   .n_rot = hp->n_rot,
                                   .inv_freq = inv_freq,
                                   .magnitude = 1};
    const int index = plan_add_rope(b->plan, &rope);
    free(inv_freq);
    return index;
}

// Buffers of a layer: one set for all tokens, one for the rows that need logits. They differ in the
// last layer only.
struct buffers {
    int x, h, q, a, gate, up;
};

static struct buffers add_buffers(struct builder *b, enum row_domain rows) {
    const struct hparams *hp = &b->model->hp;
    return (struct buffers){
        .x = plan_add_buffer(b->plan, "x", hp->n_embd, rows),
        .h = plan_add_buffer(b->plan, "h", hp->n_embd, rows),
        .q = plan_add_buffer(b->plan, "q", hp->n_head * hp->dim_k, rows),
        .a = plan_add_buffer(b->plan, "a", hp->n_head * hp->dim_v, rows),
        .gate = plan_add_buffer(b->plan, "gate", hp->n_ff, rows),
        .up = plan_add_buffer(b->plan, "up", hp->n_ff, rows),
    };
}

// Up to the KV append: needed for every token.
static void build_keys(struct builder *b, struct buffers t, int k, int v, int rope, int group) {
    const struct hparams *hp = &b->model->hp;
    const int n_q = hp->n_head * hp->dim_k, n_k = hp->n_head_kv * hp->dim_k,
              n_v = hp->n_head_kv * hp->dim_v;
    build_norm(b, t.x, t.h, bind_vector(b, "blk.%d.attn_norm.weight", hp->n_embd), hp->n_embd);
    build_matmul(b, t.h, t.q, bind_matrix(b, "blk.%d.attn_q.weight", n_q, hp->n_embd),
                 bind_optional_vector(b, "blk.%d.attn_q.bias", n_q), false);
    build_matmul(b, t.h, k, bind_matrix(b, "blk.%d.attn_k.weight", n_k, hp->n_embd),
                 bind_optional_vector(b, "blk.%d.attn_k.bias", n_k), false);
    build_matmul(b, t.h, v, bind_matrix(b, "blk.%d.attn_v.weight", n_v, hp->n_embd),
                 bind_optional_vector(b, "blk.%d.attn_v.bias", n_v), false);
    build_rope(b, t.q, rope, hp->n_head, hp->dim_k);
    build_rope(b, k, rope, hp->n_head_kv, hp->dim_k);
    build_kv_append(b, k, v, group, b->layer);
}

// From the attention on: in the last layer only for the rows that need logits.
static void build_rest(struct builder *b, struct buffers t, int group) {
    const struct hparams *hp = &b->model->hp;
    const int n_a = hp->n_head * hp->dim_v;
    build_attention(b, t.q, t.a, group, b->layer, hp->n_head, 1.0f / sqrtf((float)hp->dim_k));
    build_matmul(b, t.a, t.x, bind_matrix(b, "blk.%d.attn_output.weight", hp->n_embd, n_a),
                 bind_optional_vector(b, "blk.%d.attn_output.bias", hp->n_embd), true);
    build_norm(b, t.x, t.h, bind_vector(b, "blk.%d.ffn_norm.weight", hp->n_embd), hp->n_embd);
    build_matmul(b, t.h, t.gate, bind_matrix(b, "blk.%d.ffn_gate.weight", hp->n_ff, hp->n_embd),
                 bind_optional_vector(b, "blk.%d.ffn_gate.bias", hp->n_ff), false);
    build_matmul(b, t.h, t.up, bind_matrix(b, "blk.%d.ffn_up.weight", hp->n_ff, hp->n_embd),
                 bind_optional_vector(b, "blk.%d.ffn_up.bias", hp->n_ff), false);
    build_gate(b, GATE_SILU, t.gate, t.up, t.gate);
    build_matmul(b, t.gate, t.x, bind_matrix(b, "blk.%d.ffn_down.weight", hp->n_embd, hp->n_ff),
                 bind_optional_vector(b, "blk.%d.ffn_down.bias", hp->n_embd), true);
}

static void llama_build(struct builder *b) {
    const struct hparams *hp = &b->model->hp;
    const struct buffers tokens = add_buffers(b, ROWS_TOKENS), last = add_buffers(b, ROWS_LOGITS);
    const int k = plan_add_buffer(b->plan, "k", hp->n_head_kv * hp->dim_k, ROWS_TOKENS);
    const int v = plan_add_buffer(b->plan, "v", hp->n_head_kv * hp->dim_v, ROWS_TOKENS);
    const int logits = plan_add_buffer(b->plan, "logits", hp->n_vocab, ROWS_LOGITS);
    const struct plan_kv_group group = {.kind = KV_FULL,
                                        .n_layer = hp->n_layer,
                                        .n_head_kv = hp->n_head_kv,
                                        .dim_k = hp->dim_k,
                                        .dim_v = hp->dim_v};
    const int kv = plan_add_kv_group(b->plan, &group);
    const int rope = add_rope(b);
    const int embd = bind_matrix(b, "token_embd.weight", hp->n_vocab, hp->n_embd);
    build_embed(b, tokens.x, embd, 1);
    for (b->layer = 0; b->layer < hp->n_layer; b->layer++) {
        build_keys(b, tokens, k, v, rope, kv);
        const bool is_last = b->layer == hp->n_layer - 1;
        if (is_last) {
            build_gather(b, tokens.x, last.x);
            build_gather(b, tokens.q, last.q);
        }
        build_rest(b, is_last ? last : tokens, kv);
    }
    b->layer = -1;
    build_norm(b, last.x, last.h, bind_vector(b, "output_norm.weight", hp->n_embd), hp->n_embd);
    const bool tied = !bind_present(b, "output.weight");
    build_matmul(b, last.h, logits,
                 tied ? embd : bind_matrix(b, "output.weight", hp->n_vocab, hp->n_embd), PLAN_NONE,
                 false);
    b->plan->logits = logits;
}

const struct arch arch_llama = {.name = "llama", .read = llama_read, .build = llama_build};
