// The tensors of a synthetic model, laid out as a GGUF file would have them. Called by synthetic.c.
#include <stdio.h>
#include <string.h>

#include "weights/synthetic_maker.h"

// Places a tensor behind the present ones. In a layer the name gets "blk.N." in front.
static void add(struct maker *m, const char *name, enum format_id format, int64_t cols,
                int64_t rows, int64_t n_expert) {
    if (m->status) return;
    char text[64];
    if (m->layer < 0) {
        snprintf(text, sizeof text, "%s", name);
    } else {
        snprintf(text, sizeof text, "blk.%d.%s", m->layer, name);
    }
    const char *copy = arena_strdup(&m->weights->arena, text, strlen(text));
    struct tensor_view *tensor = copy ? store_tensor_push(m->weights) : NULL;
    if (!tensor) {
        maker_no_memory(m);
        return;
    }
    *tensor = (struct tensor_view){.name = copy,
                                   .format = format,
                                   .n_dims = n_expert   ? 3
                                             : rows > 1 ? 2
                                                        : 1,
                                   .dim = {cols, rows, n_expert ? n_expert : 1, 1},
                                   .bytes = format_row_bytes(format, cols) *
                                            (uint64_t)(rows * (n_expert ? n_expert : 1)),
                                   .offset = m->bytes};
    m->bytes = (m->bytes + tensor->bytes + TENSOR_ALIGN - 1) / TENSOR_ALIGN * TENSOR_ALIGN;
}

static void add_vector(struct maker *m, const char *name, int64_t n) {
    add(m, name, FORMAT_F32, n, 1, 0);
}

// A matrix in the mix's format, or in that of the first rule that applies.
static void add_matrix(struct maker *m, const char *name, int64_t cols, int64_t rows,
                       int64_t n_expert, const struct rule *rules, int n_rules) {
    const struct spot spot = {m->layer, m->shape->n_layer, m->shape->n_head / m->shape->n_head_kv};
    add(m, name, format_fit(rules_choose(m->mix.base, rules, n_rules, &spot), cols), cols, rows,
        n_expert);
}

static void add_attention(struct maker *m) {
    const struct shape *s = m->shape;
    const int64_t n_q = (int64_t)s->n_head * s->head_dim,
                  n_kv = (int64_t)s->n_head_kv * s->head_dim;
    const struct sparse *sparse = sparse_of(s);
    const bool has_gate = s->flags & SHAPE_DELTA; // as wide as the queries, beside them
    const bool is_wide = sparse && sparse->is_wide;
    add_vector(m, "attn_norm.weight", s->n_embd);
    add_matrix(m, "attn_q.weight", s->n_embd, has_gate ? 2 * n_q : n_q, 0, NULL, 0);
    add_matrix(m, "attn_k.weight", s->n_embd, n_kv, 0, NULL, 0);
    add_matrix(m, "attn_v.weight", s->n_embd, n_kv, 0, m->mix.attn_v, MAX_RULES);
    add_matrix(m, "attn_output.weight", n_q, s->n_embd, 0, &m->mix.attn_output, 1);
    if (s->flags & SHAPE_QK_NORM) {
        add_vector(m, "attn_q_norm.weight", is_wide ? n_q : s->head_dim);
        add_vector(m, "attn_k_norm.weight", is_wide ? n_kv : s->head_dim);
    }
    if (s->flags & SHAPE_OSS || (sparse && sparse->has_qkv_bias)) {
        add_vector(m, "attn_q.bias", n_q);
        add_vector(m, "attn_k.bias", n_kv);
        add_vector(m, "attn_v.bias", n_kv);
    }
    if (s->flags & SHAPE_OSS) {
        add_vector(m, "attn_output.bias", s->n_embd);
        add_vector(m, "attn_sinks.weight", s->n_head);
    }
}

// The convolution and the numbers of each head stay in F32 in every mix.
static void add_delta(struct maker *m) {
    const struct shape *s = m->shape;
    const struct delta *d = delta_of(s);
    const int64_t values = (int64_t)d->n_value * d->dim;
    const int64_t channels = 2 * (int64_t)d->n_key * d->dim + values;
    add_vector(m, "attn_norm.weight", s->n_embd);
    add_matrix(m, "attn_qkv.weight", s->n_embd, channels, 0, NULL, 0);
    add_matrix(m, "attn_gate.weight", s->n_embd, values, 0, NULL, 0);
    add_matrix(m, "ssm_alpha.weight", s->n_embd, d->n_value, 0, NULL, 0);
    add_matrix(m, "ssm_beta.weight", s->n_embd, d->n_value, 0, NULL, 0);
    add(m, "ssm_conv1d.weight", FORMAT_F32, DELTA_TAPS, channels, 0);
    add_vector(m, "ssm_a", d->n_value);
    add_vector(m, "ssm_dt.bias", d->n_value);
    add_vector(m, "ssm_norm.weight", d->dim);
    add_matrix(m, "ssm_out.weight", values, s->n_embd, 0, NULL, 0);
}

static void add_mixer(struct maker *m) {
    const bool is_delta = (m->shape->flags & SHAPE_DELTA) && (m->layer + 1) % DELTA_INTERVAL != 0;
    (is_delta ? add_delta : add_attention)(m);
}

static void add_shared_expert(struct maker *m) {
    const struct shape *s = m->shape;
    add(m, "ffn_gate_inp_shexp.weight", FORMAT_F32, s->n_embd, 1, 0);
    add_matrix(m, "ffn_gate_shexp.weight", s->n_embd, s->n_ff, 0, NULL, 0);
    add_matrix(m, "ffn_up_shexp.weight", s->n_embd, s->n_ff, 0, NULL, 0);
    add_matrix(m, "ffn_down_shexp.weight", s->n_ff, s->n_embd, 0, m->mix.ffn_down, MAX_RULES);
}

static void add_dense(struct maker *m) {
    const struct shape *s = m->shape;
    add_matrix(m, "ffn_gate.weight", s->n_embd, s->n_ff, 0, NULL, 0);
    add_matrix(m, "ffn_up.weight", s->n_embd, s->n_ff, 0, NULL, 0);
    add_matrix(m, "ffn_down.weight", s->n_ff, s->n_embd, 0, m->mix.ffn_down, MAX_RULES);
}

// Routers stay in F32 in every mix.
static void add_experts(struct maker *m) {
    const struct shape *s = m->shape;
    const bool own = m->mix.experts.where != NOWHERE;
    const struct rule *rules = &m->mix.experts, *down = own ? rules : m->mix.ffn_down;
    add(m, "ffn_gate_inp.weight", FORMAT_F32, s->n_embd, s->n_expert, 0);
    add_matrix(m, "ffn_gate_exps.weight", s->n_embd, s->n_ff, s->n_expert, rules, 1);
    add_matrix(m, "ffn_up_exps.weight", s->n_embd, s->n_ff, s->n_expert, rules, 1);
    add_matrix(m, "ffn_down_exps.weight", s->n_ff, s->n_embd, s->n_expert, down,
               own ? 1 : MAX_RULES);
    if (s->flags & SHAPE_DELTA) add_shared_expert(m);
    if (s->flags & SHAPE_OSS) {
        add_vector(m, "ffn_gate_inp.bias", s->n_expert);
        add(m, "ffn_gate_exps.bias", FORMAT_F32, s->n_ff, s->n_expert, 0);
        add(m, "ffn_up_exps.bias", FORMAT_F32, s->n_ff, s->n_expert, 0);
        add(m, "ffn_down_exps.bias", FORMAT_F32, s->n_embd, s->n_expert, 0);
    }
}

// The convolution and the numbers of each head stay in F32 in every mix.
static void add_mamba(struct maker *m, const struct pattern *p) {
    const struct shape *s = m->shape;
    const int64_t inner = (int64_t)p->n_head * p->dim;
    const int64_t channels = inner + 2 * (int64_t)p->n_group * p->n_state;
    add_vector(m, "attn_norm.weight", s->n_embd);
    add_matrix(m, "ssm_in.weight", s->n_embd, inner + channels + p->n_head, 0, NULL, 0);
    add(m, "ssm_conv1d.weight", FORMAT_F32, p->taps, channels, 0);
    add_vector(m, "ssm_conv1d.bias", channels);
    add_vector(m, "ssm_dt.bias", p->n_head);
    add_vector(m, "ssm_a", p->n_head);
    add_vector(m, "ssm_d", p->n_head);
    add_vector(m, "ssm_norm.weight", inner);
    add_matrix(m, "ssm_out.weight", inner, s->n_embd, 0, NULL, 0);
}

static void add_short_conv(struct maker *m, const struct pattern *p) {
    const struct shape *s = m->shape;
    add_vector(m, "attn_norm.weight", s->n_embd);
    add_matrix(m, "shortconv.in_proj.weight", s->n_embd, 3 * (int64_t)s->n_embd, 0, NULL, 0);
    add(m, "shortconv.conv.weight", FORMAT_F32, p->taps, s->n_embd, 0);
    add_matrix(m, "shortconv.out_proj.weight", s->n_embd, s->n_embd, 0, NULL, 0);
}

// Without a gate.
static void add_plain(struct maker *m) {
    const struct shape *s = m->shape;
    add_vector(m, "attn_norm.weight", s->n_embd);
    add_matrix(m, "ffn_up.weight", s->n_embd, s->n_ff, 0, NULL, 0);
    add_matrix(m, "ffn_down.weight", s->n_ff, s->n_embd, 0, m->mix.ffn_down, MAX_RULES);
}

static void add_letter(struct maker *m, const struct pattern *p) {
    const struct shape *s = m->shape;
    const char letter = p->layers[m->layer];
    if (letter == 'M') add_mamba(m, p);
    if (letter == 'C') add_short_conv(m, p);
    if (letter == '*') add_attention(m);
    if (letter == '-') add_plain(m);
    if (pattern_is_single(p)) return;
    add_vector(m, "ffn_norm.weight", s->n_embd);
    (s->n_expert ? add_experts : add_dense)(m);
    if (p->n_ff_shared == 0) return;
    add_matrix(m, "ffn_gate_shexp.weight", s->n_embd, p->n_ff_shared, 0, NULL, 0);
    add_matrix(m, "ffn_up_shexp.weight", s->n_embd, p->n_ff_shared, 0, NULL, 0);
    add_matrix(m, "ffn_down_shexp.weight", p->n_ff_shared, s->n_embd, 0, m->mix.ffn_down,
               MAX_RULES);
}

static void add_gemma_attention(struct maker *m, const struct gemma *g) {
    const struct shape *s = m->shape;
    const bool is_local = gemma_is_windowed(g, m->layer),
               has_keys = m->layer < s->n_layer - g->shared;
    const int64_t dim = is_local ? s->head_dim : 2 * s->head_dim, n_q = s->n_head * dim;
    const int64_t n_kv = (is_local ? s->n_head_kv : g->full_kv) * dim;
    add_vector(m, "attn_norm.weight", s->n_embd);
    add_matrix(m, "attn_q.weight", s->n_embd, n_q, 0, NULL, 0);
    add_vector(m, "attn_q_norm.weight", dim);
    if (has_keys) add_matrix(m, "attn_k.weight", s->n_embd, n_kv, 0, NULL, 0);
    if (has_keys) add_vector(m, "attn_k_norm.weight", dim);
    if (has_keys && (is_local || !g->k_is_v))
        add_matrix(m, "attn_v.weight", s->n_embd, n_kv, 0, m->mix.attn_v, MAX_RULES);
    add_matrix(m, "attn_output.weight", n_q, s->n_embd, 0, &m->mix.attn_output, 1);
    add_vector(m, "post_attention_norm.weight", s->n_embd);
}

// Without the factor behind the layer, which would be as small as other weights here.
static void add_gemma(struct maker *m, const struct gemma *g) {
    const struct shape *s = m->shape;
    const int64_t n_ff = gemma_ff(s, g, m->layer);
    add_gemma_attention(m, g);
    add_vector(m, "ffn_norm.weight", s->n_embd);
    add_matrix(m, "ffn_gate.weight", s->n_embd, n_ff, 0, NULL, 0);
    add_matrix(m, "ffn_up.weight", s->n_embd, n_ff, 0, NULL, 0);
    add_matrix(m, "ffn_down.weight", n_ff, s->n_embd, 0, m->mix.ffn_down, MAX_RULES);
    add_vector(m, "post_ffw_norm.weight", s->n_embd);
    if (s->n_expert) {
        add_experts(m);
        add_vector(m, "ffn_gate_inp.scale", s->n_embd);
        add_vector(m, "ffn_down_exps.scale", s->n_expert);
        add_vector(m, "pre_ffw_norm_2.weight", s->n_embd);
        add_vector(m, "post_ffw_norm_1.weight", s->n_embd);
        add_vector(m, "post_ffw_norm_2.weight", s->n_embd);
    }
    if (g->n_input == 0) return;
    add_matrix(m, "inp_gate.weight", s->n_embd, g->n_input, 0, NULL, 0);
    add_matrix(m, "proj.weight", g->n_input, s->n_embd, 0, NULL, 0);
    add_vector(m, "post_norm.weight", s->n_embd);
}

static void add_gemma_inputs(struct maker *m, const struct gemma *g) {
    const struct shape *s = m->shape;
    const int64_t n = (int64_t)s->n_layer * g->n_input;
    if (n == 0) return;
    add_matrix(m, "per_layer_token_embd.weight", n, s->n_vocab, 0, NULL, 0);
    add_matrix(m, "per_layer_model_proj.weight", s->n_embd, n, 0, NULL, 0);
    add_vector(m, "per_layer_proj_norm.weight", g->n_input);
}

static void add_latent_attention(struct maker *m, const struct latent *t) {
    const struct shape *s = m->shape;
    const int64_t n_rot = latent_rotated(s), rank = s->head_dim - n_rot;
    const int64_t n_q = s->n_head * (t->nope + n_rot), n_v = (int64_t)s->n_head * t->value;
    add_vector(m, "attn_norm.weight", s->n_embd);
    if (t->n_q) {
        add_matrix(m, "attn_q_a.weight", s->n_embd, t->n_q, 0, NULL, 0);
        add_vector(m, "attn_q_a_norm.weight", t->n_q);
        add_matrix(m, "attn_q_b.weight", t->n_q, n_q, 0, NULL, 0);
    } else {
        add_matrix(m, "attn_q.weight", s->n_embd, n_q, 0, NULL, 0);
    }
    add_matrix(m, "attn_kv_a_mqa.weight", s->n_embd, s->head_dim, 0, NULL, 0);
    add_vector(m, "attn_kv_a_norm.weight", rank);
    add_matrix(m, "attn_k_b.weight", t->nope, rank, s->n_head, NULL, 0);
    add_matrix(m, "attn_v_b.weight", rank, t->value, s->n_head, m->mix.attn_v, MAX_RULES);
    add_matrix(m, "attn_output.weight", n_v, s->n_embd, 0, &m->mix.attn_output, 1);
    add_vector(m, "ffn_norm.weight", s->n_embd);
}

// A dense layer of that width, or the experts and a shared one as wide as n_shared of them.
static void add_dense_or_experts(struct maker *m, int n_dense, int n_dense_ff, int n_shared,
                                 bool has_bias) {
    const struct shape *s = m->shape;
    const bool is_dense = m->layer < n_dense;
    const char *const names[2][3] = {{"ffn_gate_shexp.weight", "ffn_up_shexp.weight",
                                      "ffn_down_shexp.weight"},
                                     {"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"}};
    const int64_t n_ff = is_dense ? n_dense_ff : (int64_t)n_shared * s->n_ff;
    if (n_ff) {
        add_matrix(m, names[is_dense][0], s->n_embd, n_ff, 0, NULL, 0);
        add_matrix(m, names[is_dense][1], s->n_embd, n_ff, 0, NULL, 0);
        add_matrix(m, names[is_dense][2], n_ff, s->n_embd, 0, m->mix.ffn_down, MAX_RULES);
    }
    if (is_dense) return;
    add_experts(m);
    if (has_bias) add_vector(m, "exp_probs_b.bias", s->n_expert);
}

static void add_latent(struct maker *m, const struct latent *t) {
    add_latent_attention(m, t);
    add_dense_or_experts(m, t->n_dense, t->n_ff, t->n_shared, t->scale > 0);
}

static void add_sparse(struct maker *m, const struct sparse *t) {
    add_attention(m);
    add_vector(m, t->is_wide ? "ffn_norm.weight" : "post_attention_norm.weight", m->shape->n_embd);
    add_dense_or_experts(m, t->n_dense, t->n_ff, t->n_shared, true);
}

// The block behind the layers, which drafts; m->layer is its number.
static void add_nextn(struct maker *m) {
    const struct shape *s = m->shape;
    add_matrix(m, "nextn.eh_proj.weight", 2 * (int64_t)s->n_embd, s->n_embd, 0, NULL, 0);
    add_vector(m, "nextn.enorm.weight", s->n_embd);
    add_vector(m, "nextn.hnorm.weight", s->n_embd);
    add_vector(m, "nextn.shared_head_norm.weight", s->n_embd);
    if (latent_of(s)) {
        add_latent(m, latent_of(s));
        return;
    }
    if (sparse_of(s)) {
        add_sparse(m, sparse_of(s));
        return;
    }
    add_attention(m);
    add_vector(m, "post_attention_norm.weight", s->n_embd);
    (s->n_expert ? add_experts : add_dense)(m);
}

void maker_add_tensors(struct maker *m) {
    const struct shape *s = m->shape;
    const struct pattern *p = pattern_of(s);
    const struct gemma *gemma = gemma_of(s);
    const struct latent *latent = latent_of(s);
    const struct sparse *sparse = sparse_of(s);
    const bool tied = s->flags & SHAPE_TIED, is_alike = !p && !gemma && !latent && !sparse;
    m->layer = -1;
    add_matrix(m, "token_embd.weight", s->n_embd, s->n_vocab, 0, &m->mix.head, tied);
    if (gemma) add_gemma_inputs(m, gemma);
    for (m->layer = 0; p && m->layer < s->n_layer; m->layer++) add_letter(m, p);
    for (m->layer = 0; gemma && m->layer < s->n_layer; m->layer++) add_gemma(m, gemma);
    for (m->layer = 0; latent && m->layer < s->n_layer; m->layer++) add_latent(m, latent);
    for (m->layer = 0; sparse && m->layer < s->n_layer; m->layer++) add_sparse(m, sparse);
    for (m->layer = 0; is_alike && m->layer < s->n_layer; m->layer++) {
        add_mixer(m);
        add_vector(m,
                   s->flags & (SHAPE_OSS | SHAPE_DELTA) ? "post_attention_norm.weight"
                                                        : "ffn_norm.weight",
                   s->n_embd);
        (s->n_expert ? add_experts : add_dense)(m);
    }
    m->layer = s->n_layer;
    if (maker_has_block(m)) add_nextn(m);
    m->layer = -1;
    add_vector(m, strcmp(s->arch, "lfm2") ? "output_norm.weight" : "token_embd_norm.weight",
               s->n_embd);
    if (!tied) add_matrix(m, "output.weight", s->n_embd, s->n_vocab, 0, &m->mix.head, 1);
}
